//! What each condition takes.

use traza::content;
use traza::json::Value;
use traza::span::Span;
use traza::store::Filter;

fn span() -> Span {
    Span::from_json(
        br#"{"trace_id":"t1","span_id":"s1","$tenant":"acme","name":"chat","service":"bot",
        "start_time_ns":1000,"end_time_ns":1500,"status":"ok",
        "attributes":{"code":200,"text":"200","flag":true,"null":null,"list":[1,"two"],"float":1.5,
            "spelt":" 7.25 ","session.id":12,"say":"Refund of a booking"},
        "events":[{"name":"Cache miss","timestamp_ns":1,"attributes":{"why":"cold start"}}]}"#,
    )
    .unwrap()
}

fn with(change: impl FnOnce(&mut Filter)) -> bool {
    let mut filter = Filter::default();
    change(&mut filter);
    filter.matches(&span())
}

fn has(key: &str, json: &str) -> bool {
    let value = Value::parse(json.as_bytes()).unwrap();
    with(|filter| filter.attributes.push((key.to_owned(), value)))
}

fn lacks(key: &str, json: &str) -> bool {
    let value = Value::parse(json.as_bytes()).unwrap();
    with(|filter| filter.not_attributes.push((key.to_owned(), value)))
}

#[test]
fn a_filter_without_conditions_takes_every_span() {
    assert!(Filter::default().matches(&span()));
    assert!(Filter::default().matches(&Span::default()));
}

#[test]
fn scalars_are_compared_by_their_text_and_everything_else_as_values() {
    for (key, json) in [
        ("code", "200"),
        ("code", "\"200\""),
        ("text", "200"),
        ("flag", "true"),
        ("flag", "\"true\""),
        ("null", "null"),
        ("list", "[1,\"two\"]"),
        ("float", "1.5"),
        ("float", "\"1.5\""),
    ] {
        assert!(has(key, json), "{key} {json}");
    }
    for (key, json) in [
        ("code", "200.0"),
        ("code", "201"),
        ("null", "\"null\""),
        ("flag", "1"),
        ("list", "[1,2]"),
        ("missing", "null"),
        ("list", "\"[1,\\\"two\\\"]\""),
    ] {
        assert!(!has(key, json), "{key} {json}");
    }
}

#[test]
fn an_exclusion_compares_values_and_keeps_spans_without_the_key() {
    assert!(!lacks("code", "200"));
    assert!(lacks("code", "\"200\""));
    assert!(lacks("missing", "1"));
}

#[test]
fn bounds_take_numbers_and_texts_that_spell_them() {
    let bound = |key: &str, min: f64, max: f64| {
        with(|filter| {
            filter.min_attributes.push((key.to_owned(), min));
            filter.max_attributes.push((key.to_owned(), max));
        })
    };
    assert!(bound("code", 200.0, 200.0));
    assert!(bound("text", 199.0, 201.0));
    assert!(bound("spelt", 7.0, 8.0));
    assert!(!bound("code", 201.0, 300.0));
    assert!(!bound("say", 0.0, 1e9));
    assert!(!bound("missing", 0.0, 1e9));
    assert!(!bound("flag", 0.0, 1e9));
}

#[test]
fn words_are_found_in_values_and_events_whole_and_in_any_case() {
    let words = |text: &str| with(|filter| filter.content = Some(content::Query::new(text)));
    assert!(words("refund"));
    assert!(words("BOOKING refund"));
    assert!(words("cache cold"));
    assert!(!words("book"));
    assert!(!words("refund missing"));
    assert!(!words("chat"));
    assert!(!words("?!"));
}

#[test]
fn the_other_conditions_are_exact() {
    type Change = fn(&mut Filter);
    let takes: &[Change] = &[
        |f| f.service = Some("bot".into()),
        |f| f.name = Some("chat".into()),
        |f| f.status = Some("ok".into()),
        |f| f.not_status = vec!["error".into(), String::new()],
        |f| f.tenant = Some("acme".into()),
        |f| f.session = Some("12".into()),
        |f| f.trace_ids = vec!["t0".into(), "t1".into()],
        |f| f.span_ids = vec!["s1".into()],
        |f| f.min_duration_ns = Some(500),
        |f| f.max_duration_ns = Some(500),
        |f| f.since = Some(1000),
        |f| f.until = Some(1000),
    ];
    for (index, change) in takes.iter().enumerate() {
        assert!(with(change), "{index}");
    }
    let leaves: &[Change] = &[
        |f| f.service = Some("Bot".into()),
        |f| f.name = Some(String::new()),
        |f| f.status = Some(String::new()),
        |f| f.not_status = vec!["ok".into()],
        |f| f.tenant = Some(String::new()),
        |f| f.session = Some("1".into()),
        |f| f.trace_ids = vec!["t2".into()],
        |f| f.span_ids = vec!["s2".into()],
        |f| f.min_duration_ns = Some(501),
        |f| f.max_duration_ns = Some(499),
        |f| f.since = Some(1001),
        |f| f.until = Some(999),
    ];
    for (index, change) in leaves.iter().enumerate() {
        assert!(!with(change), "{index}");
    }
}
