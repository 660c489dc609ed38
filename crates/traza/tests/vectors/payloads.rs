//! Payload blobs and the references that stand in for offloaded strings.

use traza::json::Value;
use traza::payload::{
    self, BlobError, ContentAddress, blob_header, live_reference, live_references, offload,
};
use traza::span::Span;

use super::{bytes_of, items, text, vectors};

fn content(case: &serde_json::Value) -> String {
    match text(case, "content") {
        "'refund ' repeated 20 times" => "refund ".repeat(20),
        other => other.to_owned(),
    }
}

#[test]
fn blobs_addresses_and_references_are_those_of_the_vectors() {
    for case in items(&vectors!("blob"), "cases") {
        let content = content(case);
        let blob = payload::encode(content.as_bytes());
        assert_eq!(blob, bytes_of(case, "blob_hex"));
        let address = ContentAddress::of(content.as_bytes());
        assert_eq!(address.digits(), text(case, "sha256"));
        assert_eq!(
            payload::decode_as(&blob, address).unwrap(),
            content.as_bytes()
        );
        if let Some(path) = case["path"].as_str() {
            assert_eq!(address.relative_path(), path);
        }
        if !case["reference"].is_null() {
            let reference = payload::reference(&content, address);
            assert_eq!(reference.to_string(), case["reference"].to_string());
            assert_eq!(live_reference(&reference).unwrap().parse(), Ok(address));
        }
    }
}

#[test]
fn changing_any_byte_of_a_blob_is_an_error() {
    let content = "refund ".repeat(20);
    let blob = payload::encode(content.as_bytes());
    let address = ContentAddress::of(content.as_bytes());
    for at in 0..blob.len() {
        for bit in 0..8 {
            let mut damaged = blob.clone();
            damaged[at] ^= 1 << bit;
            assert!(
                payload::decode_as(&damaged, address).is_err(),
                "byte {at} bit {bit}"
            );
        }
        assert!(payload::decode(&blob[..at]).is_err(), "cut at {at}");
    }
    assert!(payload::decode(&[&blob[..], &[0]].concat()).is_err());
}

#[test]
fn a_forged_content_length_is_refused_before_it_sizes_anything() {
    let mut blob = payload::encode("refund ".repeat(20).as_bytes());
    for declared in [u64::MAX, u64::MAX / 2, 1 << 40, 1 << 16] {
        blob_header::CONTENT_LEN
            .put(&mut blob, &declared.to_le_bytes())
            .unwrap();
        assert!(
            matches!(payload::decode(&blob), Err(BlobError::ContentLen { .. })),
            "{declared}"
        );
    }
    // Possible for the length of the body, but not what it holds.
    blob_header::CONTENT_LEN
        .put(&mut blob, &150u64.to_le_bytes())
        .unwrap();
    assert_eq!(
        payload::decode(&blob),
        Err(BlobError::Decompress { declared: 150 })
    );
}

#[test]
fn the_codec_of_compressed_blobs_in_segments_is_none_of_blobs() {
    let mut blob = payload::encode(b"k9");
    blob_header::CODEC
        .put(&mut blob, &2u32.to_le_bytes())
        .unwrap();
    assert_eq!(payload::decode(&blob), Err(BlobError::Codec { found: 2 }));
}

#[test]
fn only_strings_directly_in_attributes_are_offloaded_and_only_above_the_limit() {
    let long = "é".repeat(300);
    let json = format!(
        r#"{{"trace_id":"t","span_id":"s","name":"{long}","service":"s","start_time_ns":1,"end_time_ns":1,
        "attributes":{{"big":"{long}","fits":"{fits}","nested":["{long}"]}},"other":"{long}",
        "events":[{{"name":"{long}","time":1,"attributes":{{"big":"{long}!"}}}}],
        "links":[{{"trace_id":"t","span_id":"s","attributes":{{"big":"{long}?"}}}}]}}"#,
        fits = "x".repeat(599),
    );
    let mut span = Span::from_json(json.as_bytes()).unwrap();
    let mut kept = Vec::new();
    offload(&mut span, 599, |address, text| {
        kept.push((address, text.to_owned()));
        Ok::<_, ()>(())
    })
    .unwrap();
    let texts: Vec<_> = kept.iter().map(|(_, text)| text.clone()).collect();
    assert_eq!(
        texts,
        [long.clone(), format!("{long}!"), format!("{long}?")]
    );
    let referred: Vec<ContentAddress> = live_references(&span)
        .map(|text| text.parse().unwrap())
        .collect();
    assert_eq!(
        referred,
        kept.iter().map(|(address, _)| *address).collect::<Vec<_>>()
    );
    let reference = span.attributes["big"].as_object().unwrap();
    assert_eq!(reference["bytes"].as_u64(), Some(600));
    assert_eq!(
        reference["preview"].as_str().unwrap().chars().count(),
        payload::PREVIEW_CHARS
    );
    assert_eq!(span.attributes["fits"].as_str().map(str::len), Some(599));
    // What was offloaded is offloaded: a second pass finds nothing.
    offload(&mut span, 599, |_, text| Err(text.to_owned())).unwrap();
}

#[test]
fn a_failing_keeper_leaves_the_text_in_the_span() {
    let json = r#"{"trace_id":"t","span_id":"s","name":"n","service":"s","start_time_ns":1,"end_time_ns":1,
        "attributes":{"a":"aaaa","b":"bbbb"}}"#;
    let mut span = Span::from_json(json.as_bytes()).unwrap();
    let full = offload(&mut span, 3, |_, text| {
        if text == "bbbb" { Err("full") } else { Ok(()) }
    });
    assert_eq!(full, Err("full"));
    assert!(live_reference(&span.attributes["a"]).is_some());
    assert_eq!(span.attributes["b"], Value::from("bbbb"));
}

#[test]
fn an_erased_marker_is_no_live_reference_and_a_foreign_reference_is() {
    let value = |json: &str| Value::parse(json.as_bytes()).unwrap();
    assert_eq!(
        live_reference(&value(r#"{"$payload":"sha256/ab","erased":true}"#)),
        None
    );
    assert_eq!(
        live_reference(&value(r#"{"$payload":"x","erased":false}"#)),
        Some("x")
    );
    assert_eq!(live_reference(&value(r#"{"$payload":7}"#)), None);
    assert_eq!(live_reference(&value(r#"["$payload"]"#)), None);
    let address = format!("sha256/{}", "AB".repeat(32));
    assert_eq!(
        address.parse::<ContentAddress>().unwrap().to_string(),
        address.to_lowercase()
    );
    for wrong in ["sha256/", "sha256/ab", "md5/ab", "", "sha256/zz"] {
        assert!(wrong.parse::<ContentAddress>().is_err(), "{wrong}");
    }
}
