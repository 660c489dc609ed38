//! Price lists: what they may be, which rates a model has, their fingerprint, and what spans cost by them.

use traza::llm::{Cost, Facts, Pricing, PricingError};

use super::{fnv_vectors, span_with};

fn list(models: &str) -> Pricing {
    Pricing::from_json(format!(r#"{{"models":{models}}}"#).as_bytes()).unwrap()
}

#[test]
fn fingerprints_are_those_of_the_vectors() {
    let vectors = fnv_vectors();
    for case in vectors["pricing_fingerprint"].as_array().unwrap() {
        let table = case["table"].as_str().unwrap();
        let pricing = Pricing::from_json(table.as_bytes()).unwrap();
        let fingerprint = format!("{:016x}", pricing.fingerprint());
        assert_eq!(Some(&*fingerprint), case["fingerprint"].as_str(), "{table}");
    }
}

#[test]
fn a_name_wins_over_patterns_and_the_longest_pattern_over_the_others() {
    let pricing = list(
        r#"{"gpt-4o":{"input_per_mtok":1,"output_per_mtok":0},
            "gpt-4*":{"input_per_mtok":2,"output_per_mtok":0},
            "gpt-*":{"input_per_mtok":3,"output_per_mtok":0},
            "*":{"input_per_mtok":4,"output_per_mtok":0,"currency":"ignored"},
            "odd**":{"input_per_mtok":5,"output_per_mtok":0}}"#,
    );
    for (model, rate) in [
        ("gpt-4o", 1.0),
        ("gpt-4o-mini", 2.0),
        ("gpt-4", 2.0),
        ("gpt-3", 3.0),
        ("claude", 4.0),
        ("", 4.0),
        ("odd*x", 5.0),
        ("oddx", 4.0),
    ] {
        let rates = pricing.rates(model).unwrap();
        assert_eq!(
            rates.input_usd_per_mtok.to_bits(),
            f64::to_bits(rate),
            "{model}"
        );
    }
    assert!(!pricing.is_empty());
    assert!(Pricing::default().is_empty());
    assert_eq!(Pricing::default().rates("gpt-4o"), None);
}

#[test]
fn what_is_no_price_list_is_refused_and_names_the_model() {
    let refused = |text: &str| Pricing::from_json(text.as_bytes()).unwrap_err();
    assert!(matches!(refused("{"), PricingError::Json(_)));
    for text in ["{}", "[]", r#"{"models":[]}"#, r#"{"models":null}"#] {
        assert_eq!(refused(text), PricingError::Models, "{text}");
    }
    let model = "m".to_owned();
    for entry in ["3", "null", "[]"] {
        let error = refused(&format!(r#"{{"models":{{"m":{entry}}}}}"#));
        assert_eq!(
            error,
            PricingError::Entry {
                model: model.clone()
            },
            "{entry}"
        );
    }
    for (entry, member) in [
        (r#"{"output_per_mtok":1}"#, "input_per_mtok"),
        (r#"{"input_per_mtok":1}"#, "output_per_mtok"),
        (
            r#"{"input_per_mtok":"1","output_per_mtok":1}"#,
            "input_per_mtok",
        ),
        (
            r#"{"input_per_mtok":1,"output_per_mtok":-0.5}"#,
            "output_per_mtok",
        ),
        (
            r#"{"input_per_mtok":null,"output_per_mtok":1}"#,
            "input_per_mtok",
        ),
    ] {
        let error = refused(&format!(r#"{{"models":{{"m":{entry}}}}}"#));
        let wanted = PricingError::Rate {
            model: model.clone(),
            member,
        };
        assert_eq!(error, wanted, "{entry}");
        assert!(error.to_string().contains(r#""m""#));
    }
    let infinite = r#"{"models":{"m":{"input_per_mtok":1e999,"output_per_mtok":1}}}"#;
    assert!(matches!(refused(infinite), PricingError::Json(_)));
}

#[test]
fn a_span_costs_what_it_says_else_what_the_list_says_else_nobody_knows() {
    let pricing = list(
        r#"{"m":{"input_per_mtok":2,"output_per_mtok":8},"free":{"input_per_mtok":0,"output_per_mtok":0},
            "dear":{"input_per_mtok":1.7e308,"output_per_mtok":1.7e308}}"#,
    );
    let cases = [
        (
            r#"{"llm.model":"m","llm.prompt_tokens":500000,"llm.completion_tokens":250000}"#,
            Cost::Derived(3.0),
        ),
        (
            r#"{"llm.model":"m","llm.prompt_tokens":500000,"llm.completion_tokens":0}"#,
            Cost::Derived(1.0),
        ),
        (
            r#"{"llm.model":"free","llm.prompt_tokens":1,"llm.completion_tokens":1}"#,
            Cost::Derived(0.0),
        ),
        (
            r#"{"llm.model":"m","llm.prompt_tokens":1,"llm.completion_tokens":1,"llm.cost_usd":0}"#,
            Cost::Metered(0.0),
        ),
        (r#"{"llm.cost_usd":4}"#, Cost::Metered(4.0)),
        (r#"{"llm.model":"m","llm.prompt_tokens":1}"#, Cost::Unknown),
        (r#"{"llm.model":"m","llm.total_tokens":2}"#, Cost::Unknown),
        (
            r#"{"llm.model":"other","llm.prompt_tokens":1,"llm.completion_tokens":1}"#,
            Cost::Unknown,
        ),
        (
            r#"{"llm.prompt_tokens":1,"llm.completion_tokens":1}"#,
            Cost::Unknown,
        ),
        (
            r#"{"llm.model":"dear","llm.prompt_tokens":90000000,"llm.completion_tokens":1}"#,
            Cost::Unknown,
        ),
    ];
    for (attributes, cost) in cases {
        let span = span_with(attributes);
        assert_eq!(Cost::of(&Facts::of(&span), &pricing), cost, "{attributes}");
    }
}
