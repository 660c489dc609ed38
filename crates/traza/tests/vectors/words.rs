//! The tokenizer and the geometry of the content filters.

use durable::digest::hex;
use traza::content::{self, bit_positions, filter_bits, filter_key, tokens};

use super::{items, text, vectors};

fn strings(value: &serde_json::Value, name: &str) -> Vec<String> {
    let items = value[name].as_array().unwrap();
    items
        .iter()
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn tokens_and_filter_keys_are_those_of_the_vectors() {
    for case in items(&vectors!("content_tokens"), "cases") {
        let found: Vec<String> = tokens(text(case, "text"))
            .map(std::borrow::Cow::into_owned)
            .collect();
        assert_eq!(found, strings(case, "tokens"));
        let keys: Vec<&[u8]> = found.iter().map(|token| filter_key(token)).collect();
        let wanted = strings(case, "filter_keys");
        assert_eq!(
            keys,
            wanted.iter().map(String::as_bytes).collect::<Vec<_>>()
        );
    }
}

#[test]
fn bit_positions_are_those_of_the_vectors() {
    for case in items(&vectors!("bloom_bits"), "positions") {
        let found = bit_positions(
            filter_key(text(case, "token")),
            case["bits"].as_u64().unwrap(),
        );
        assert_eq!(serde_json::json!(found), case["positions"], "{case}");
    }
}

#[test]
fn filter_sizes_are_those_of_the_vectors() {
    for case in items(&vectors!("bloom_bits"), "sizes") {
        let (least, most) = match text(case, "filter") {
            "block" => (content::BLOCK_FILTER_LEN_MIN, content::BLOCK_FILTER_LEN_MAX),
            "summary" => (
                content::SUMMARY_FILTER_LEN_MIN,
                content::SUMMARY_FILTER_LEN_MAX,
            ),
            other => panic!("unknown filter {other}"),
        };
        let bits = filter_bits(case["distinct"].as_u64().unwrap(), least, most);
        assert_eq!(Some(bits), case["bits"].as_u64(), "{case}");
    }
}

#[test]
fn whole_filters_are_those_of_the_vectors() {
    for case in items(&vectors!("bloom_bits"), "filters") {
        let bits = case["bits"].as_u64().unwrap();
        let mut filter = vec![0u8; usize::try_from(bits / 8).unwrap()];
        for token in strings(case, "tokens") {
            for position in bit_positions(filter_key(&token), bits) {
                filter[usize::try_from(position / 8).unwrap()] |= 1 << (position % 8);
            }
        }
        assert_eq!(hex(&filter), text(case, "filter_hex"), "{case}");
    }
}

#[test]
fn a_query_matches_when_every_word_occurs_in_any_text_of_the_span() {
    let json = r#"{"trace_id":"t","span_id":"s","name":"hidden","service":"hidden","status":"hidden",
        "start_time_ns":1,"end_time_ns":1,"hidden":"hidden",
        "attributes":{"hidden":"Refunds were issued","n":7,"list":["walnut",{"deep":"HAZELNUT"}],
            "ref":{"$payload":"hidden","preview":"seen"},"\u0000k":"nul"},
        "events":[{"name":"first token","time":1,"attributes":{"hidden":{"x":"giraffe"}}}],
        "links":[{"trace_id":"hidden","span_id":"hidden","attributes":{"hidden":"hidden"}}]}"#;
    let span = traza::span::Span::from_json(json.as_bytes()).unwrap();
    let matches = |text: &str| content::Query::new(text).matches(&span);
    for text in [
        "refunds",
        "REFUNDS issued",
        "walnut hazelnut",
        "seen",
        "token giraffe",
        "nul",
        "first,first",
    ] {
        assert!(matches(text), "{text}");
    }
    for text in ["refund", "hidden", "7", "", "!?", "walnut pecan", "haz"] {
        assert!(!matches(text), "{text}");
    }
}
