//! Canonical JSON: values, whole spans, and what is refused.

use proptest::prelude::*;
use traza::json::{DEPTH_MAX, JsonFault, Value};
use traza::span::{Span, SpanError};

use super::{items, text, vectors};

#[test]
fn values_are_spelt_as_in_the_vectors() {
    for case in items(&vectors!("canonical_json"), "values") {
        let parsed = Value::parse(text(case, "input").as_bytes());
        match case["canonical"].as_str() {
            Some(canonical) => assert_eq!(parsed.unwrap().to_string(), canonical, "{case}"),
            None => assert_eq!(parsed.unwrap_err().fault, JsonFault::NumberRange, "{case}"),
        }
    }
}

#[test]
fn spans_are_stored_as_in_the_vectors_and_the_stored_form_is_stable() {
    for case in items(&vectors!("canonical_json"), "spans") {
        let stored = Span::from_json(text(case, "input").as_bytes())
            .unwrap()
            .to_json();
        assert_eq!(stored, text(case, "stored"));
        assert_eq!(
            Span::from_json(stored.as_bytes()).unwrap().to_json(),
            stored
        );
    }
}

#[test]
fn spans_of_the_wrong_shape_are_refused() {
    for case in items(&vectors!("canonical_json"), "rejected_spans") {
        let refused = Span::from_json(text(case, "input").as_bytes());
        assert!(refused.is_err(), "{case}");
    }
}

#[test]
fn a_missing_and_a_repeated_field_are_named() {
    let missing = Span::from_json(br#"{"trace_id":"t","name":"n"}"#);
    assert_eq!(
        missing,
        Err(SpanError::Missing {
            field: "span_id",
            offset: 27
        })
    );
    let twice = Span::from_json(br#"{"end_ns":1,"end_time":2}"#);
    assert_eq!(
        twice,
        Err(SpanError::Twice {
            field: "end_time_ns",
            offset: 23
        })
    );
}

#[test]
fn values_nest_less_than_128_levels_deep() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    let most = usize::try_from(DEPTH_MAX).unwrap() - 1;
    assert!(Value::parse(nested(most).as_bytes()).is_ok());
    let refused = Value::parse(nested(most + 1).as_bytes()).unwrap_err();
    assert_eq!((refused.fault, refused.offset), (JsonFault::Depth, most));
    // The limit is that of the other parser, too.
    assert!(serde_json::from_str::<serde_json::Value>(&nested(most)).is_ok());
    assert!(serde_json::from_str::<serde_json::Value>(&nested(most + 1)).is_err());
}

/// Both parsers take the text and spell it alike, or both refuse it.
fn agrees(bytes: &[u8]) -> Result<(), TestCaseError> {
    let ours = Value::parse(bytes).map(|value| value.to_string());
    let other = serde_json::from_slice::<serde_json::Value>(bytes).map(|value| value.to_string());
    prop_assert_eq!(
        ours.is_ok(),
        other.is_ok(),
        "ours {:?} other {:?}",
        ours,
        other
    );
    if let (Ok(ours), Ok(other)) = (ours, other) {
        prop_assert_eq!(ours, other);
    }
    Ok(())
}

/// JSON as a person might write it: white space, escapes, members in any order, floats that are short enough
/// to be exact in both parsers.
fn written_json() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        any::<u64>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        (any::<i32>(), -20..20i32).prop_map(|(n, e)| format!("{n}e{e}")),
        (0..1000u32, 0..1_000_000u32, any::<bool>())
            .prop_map(|(a, b, minus)| format!("{}{a}.{b}", if minus { "-" } else { "" })),
        Just("-0".to_owned()),
        Just("0E+1".to_owned()),
    ];
    let string = prop::collection::vec(
        prop_oneof![
            "[ -~&&[^\"\\\\]]{0,6}",
            "\\PC{0,3}".prop_map(|text| text.replace(['"', '\\'], "")),
            prop::sample::select(vec![
                "\\n",
                "\\u0041",
                "\\u00e9",
                "\\ud83d\\ude00",
                "\\\\",
                "\\\"",
                "\\/",
                "\\b",
                "\\u0000",
                "\\u001F",
                "\u{7f}",
            ])
            .prop_map(str::to_owned),
        ],
        0..5,
    )
    .prop_map(|parts| format!("\"{}\"", parts.concat()));
    let leaf = prop_oneof![
        3 => number,
        3 => string.clone(),
        1 => prop::sample::select(vec!["null", "true", "false", " 1", "\t2\r\n"]).prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5)
                .prop_map(|items| format!("[ {}]", items.join(" ,"))),
            prop::collection::vec((string.clone(), inner), 0..5).prop_map(|members| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(name, value)| format!("{name} :{value}"))
                    .collect();
                format!("{{{}}}", members.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn json_is_read_and_spelt_as_by_serde_json(text in written_json()) {
        agrees(text.as_bytes())?;
    }

    #[test]
    fn damaged_json_is_refused_when_serde_json_refuses_it(
        text in written_json(), at in any::<prop::sample::Index>(), byte: u8, cut: bool,
    ) {
        let mut bytes = text.into_bytes();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] = byte;
            }
        }
        // A digit may have made a float long: those are compared by the vectors.
        let long_float = bytes.split(|b| !b.is_ascii_digit() && *b != b'.').any(|run| run.len() > 19);
        prop_assume!(!long_float);
        agrees(&bytes)?;
    }

    #[test]
    fn few_symbols_in_any_order_are_judged_as_by_serde_json(text in "[\\[\\]{}\",:0-2.eE+ntrufalse\\\\-]{0,12}") {
        agrees(text.as_bytes())?;
    }

    #[test]
    fn the_canonical_spelling_reads_back_as_the_same_value(text in written_json()) {
        let value = Value::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(Value::parse(value.to_string().as_bytes()).unwrap(), value);
    }
}
