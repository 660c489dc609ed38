//! Checkpoints, pins, merges, and what verify and inspect say of a store.

use serde_json::Value;

use crate::support::Scratch;

fn spans(count: usize) -> String {
    let span = |number: usize| {
        let end = number + 5;
        format!(
            "{{\"trace_id\":\"t{number}\",\"span_id\":\"s\",\"name\":\"work\",\"service\":\"bot\",\"start_time_ns\":{number},\"end_time_ns\":{end}}}"
        )
    };
    (0..count).map(span).collect::<Vec<_>>().join("\n")
}

/// A store of three segments.
fn scratch() -> Scratch {
    let scratch = Scratch::new();
    for count in [10, 20, 30] {
        scratch.write("spans.jsonl", spans(count).as_bytes());
        scratch
            .daybook(&["trace", "ingest", "s", "spans.jsonl"])
            .expect(0);
        scratch.daybook(&["trace", "flush", "s"]).expect(0);
    }
    scratch
}

fn count(scratch: &Scratch, dir: &str) -> usize {
    let ran = scratch.daybook(&["trace", "export", dir]).expect(0);
    ran.out.lines().count()
}

#[test]
fn a_pin_brings_back_what_the_store_held() {
    let scratch = scratch();
    let ran = scratch
        .daybook(&["trace", "pin", "s", "kept", "--json"])
        .expect(0);
    assert_eq!(ran.json()["label"], "kept");
    scratch.write("spans.jsonl", spans(50).as_bytes());
    scratch
        .daybook(&["trace", "ingest", "s", "spans.jsonl"])
        .expect(0);
    assert_eq!(count(&scratch, "s"), 50);
    let ran = scratch.daybook(&["trace", "pins", "s", "--json"]).expect(0);
    assert_eq!(ran.json()[0]["label"], "kept");
    let ran = scratch
        .daybook(&["trace", "restore", "s/pins/kept", "s"])
        .expect(2);
    assert!(ran.err.contains("--yes"), "{}", ran.err);
    assert_eq!(count(&scratch, "s"), 50);
    scratch
        .daybook(&["trace", "restore", "s/pins/kept", "s", "--yes"])
        .expect(0);
    scratch
        .daybook(&["trace", "restore", "s/pins/kept", "copy"])
        .expect(0);
    for dir in ["s", "copy"] {
        assert_eq!(count(&scratch, dir), 30);
        scratch.daybook(&["verify", dir]).expect(0);
    }
    scratch.daybook(&["trace", "unpin", "s", "kept"]).expect(0);
    let ran = scratch.daybook(&["trace", "unpin", "s", "kept"]).expect(2);
    assert!(ran.err.contains("no pin"), "{}", ran.err);
    for label in ["", ".hidden", "../outside", "a/b"] {
        scratch.daybook(&["trace", "pin", "s", label]).expect(2);
    }
}

#[test]
fn inspect_shows_segments_files_and_pins_and_verify_the_whole() {
    let scratch = scratch();
    scratch.daybook(&["trace", "checkpoint", "s"]).expect(0);
    scratch.daybook(&["trace", "pin", "s", "kept"]).expect(0);
    let facts = scratch
        .daybook(&["inspect", "s", "--json"])
        .expect(0)
        .json();
    assert_eq!(facts["kind"], "store");
    assert_eq!(facts["generation"], 3);
    assert_eq!(facts["records"], 60);
    assert_eq!(facts["segments"].as_array().unwrap().len(), 3);
    assert_eq!(facts["segments"][0]["codec"], "lz4");
    assert_eq!(facts["pins"][0]["label"], "kept");
    assert_eq!(facts["writer_pid"], Value::Null);
    let words = scratch.daybook(&["inspect", "s"]).expect(0).out;
    for wanted in [
        "generation 3",
        "60 records in 3 segments",
        "writer    none",
        "rollups",
        "kept",
    ] {
        assert!(words.contains(wanted), "{wanted}: {words}");
    }
    let verdict = scratch.daybook(&["verify", "s", "--json"]).expect(0).json();
    assert_eq!(verdict["verdict"], "intact");
    let words = scratch.daybook(&["verify", "s"]).expect(0).out;
    assert!(words.contains("60 records in 3 segments"), "{words}");
    let ran = scratch
        .daybook(&["trace", "compact", "s", "--cold-codec", "zstd", "--json"])
        .expect(0)
        .json();
    assert_eq!(ran["merged_segments"], 0);
    let unknown = scratch.daybook(&["trace", "compact", "s", "--cold-codec", "gzip"]);
    assert!(unknown.expect(2).err.contains("zstd"));
}

#[test]
fn a_damaged_store_has_exit_code_1_and_the_file_is_named() {
    let scratch = scratch();
    scratch.daybook(&["trace", "checkpoint", "s"]).expect(0);
    let name = "s/segment-00000000000000000001.seg";
    let mut bytes = scratch.read(name);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    scratch.write(name, &bytes);
    let ran = scratch.daybook(&["verify", "s"]).expect(1);
    assert!(
        ran.out.contains("segment-00000000000000000001.seg"),
        "{}",
        ran.out
    );
    let ran = scratch.daybook(&["trace", "query", "s"]).expect(1);
    assert!(
        ran.err.contains("segment-00000000000000000001.seg"),
        "{}",
        ran.err
    );
}

#[test]
fn what_is_erased_is_gone_with_a_receipt_and_a_pin_that_holds_it_is_named() {
    let scratch = scratch();
    let annotate = ["trace", "annotate", "s", "quality", "0.5", "--trace", "t3"];
    scratch.daybook(&annotate).expect(0);
    scratch.daybook(&["trace", "pin", "s", "kept"]).expect(0);
    let ran = scratch
        .daybook(&["trace", "erase", "s", "--trace", "t3", "--json"])
        .expect(2);
    let receipt = ran.json();
    assert_eq!(receipt["result"], "not-erased");
    assert_eq!(receipt["settled"], true);
    assert_eq!(count(&scratch, "s"), 29);
    scratch.daybook(&["trace", "unpin", "s", "kept"]).expect(0);
    let words = scratch
        .daybook(&["trace", "receipt", "s", "latest"])
        .expect(0)
        .out;
    assert!(words.contains(": erased"), "{words}");
    let list = scratch
        .daybook(&["trace", "erasures", "s", "--json"])
        .expect(0)
        .json();
    assert_eq!(list[0]["settled"], true);
    let ran = scratch.daybook(&["trace", "receipt", "s", "9"]).expect(2);
    assert!(ran.err.contains('9'), "{}", ran.err);
    scratch.daybook(&["trace", "erase", "s"]).expect(2);
    scratch.daybook(&["verify", "s"]).expect(0);
}
