//! Which attribute counts, and how its value is read. The oracle is the table.

use traza::llm::{Context, Facts, SessionKey, Tokens};

use super::span_with;

/// Attributes, and the one fact that they must give.
type Cases<'a, T> = &'a [(&'a str, T)];

#[test]
fn the_first_usable_attribute_names_the_model() {
    let cases: Cases<Option<&str>> = &[
        (r"{}", None),
        (r#"{"llm.model":"c"}"#, Some("c")),
        (r#"{"llm.model":"c","gen_ai.request.model":"b"}"#, Some("b")),
        (
            r#"{"llm.model":"c","gen_ai.request.model":"b","gen_ai.response.model":"a"}"#,
            Some("a"),
        ),
        (r#"{"gen_ai.response.model":"","llm.model":"c"}"#, Some("c")),
        (
            r#"{"gen_ai.response.model":null,"llm.model":"c"}"#,
            Some("c"),
        ),
        (
            r#"{"gen_ai.response.model":true,"llm.model":"c"}"#,
            Some("c"),
        ),
        (
            r#"{"gen_ai.response.model":["a"],"llm.model":"c"}"#,
            Some("c"),
        ),
        (
            r#"{"gen_ai.response.model":{"a":1},"llm.model":"c"}"#,
            Some("c"),
        ),
        (r#"{"gen_ai.response.model":4,"llm.model":"c"}"#, Some("4")),
        (r#"{"llm.model":4.0}"#, Some("4.0")),
        (r#"{"llm.model":-4}"#, Some("-4")),
        (r#"{"llm.model":" "}"#, Some(" ")),
        (r#"{"llm.model_name":"d","model":"x"}"#, Some("d")),
        (r#"{"llm.model_name":"d","llm.model":"c"}"#, Some("c")),
        (r#"{"model":"x"}"#, None),
    ];
    for (attributes, model) in cases {
        let span = span_with(attributes);
        let facts = Facts::of(&span);
        assert_eq!(facts.model.as_deref(), *model, "{attributes}");
        assert_eq!(facts.is_llm, model.is_some(), "{attributes}");
    }
}

#[test]
fn the_first_usable_attribute_names_the_provider() {
    let cases: Cases<Option<&str>> = &[
        (r#"{"gen_ai.system":"b"}"#, Some("b")),
        (
            r#"{"gen_ai.system":"b","gen_ai.provider.name":"a"}"#,
            Some("a"),
        ),
        (
            r#"{"gen_ai.system":"b","gen_ai.provider.name":""}"#,
            Some("b"),
        ),
        (r#"{"llm.system":"c","gen_ai.system":"b"}"#, Some("b")),
        (r#"{"llm.provider":"d","llm.system":"c"}"#, Some("c")),
        (r#"{"llm.provider":"d"}"#, Some("d")),
        (r#"{"llm.vendor":"x"}"#, None),
    ];
    for (attributes, provider) in cases {
        let span = span_with(attributes);
        let facts = Facts::of(&span);
        assert_eq!(facts.provider.as_deref(), *provider, "{attributes}");
        assert_eq!(facts.is_llm, provider.is_some(), "{attributes}");
    }
}

#[test]
fn a_count_is_a_number_or_decimal_digits() {
    let cases: Cases<Option<u64>> = &[
        ("7", Some(7)),
        ("18446744073709551615", Some(u64::MAX)),
        ("18446744073709551616", Some(u64::MAX)),
        ("0", Some(0)),
        ("-1", Some(0)),
        ("-0.5", Some(0)),
        ("-1e300", Some(0)),
        ("7.0", Some(7)),
        ("7.99", Some(7)),
        ("1e300", Some(u64::MAX)),
        (r#""7""#, Some(7)),
        (r#"" 7\n""#, Some(7)),
        (r#""18446744073709551615""#, Some(u64::MAX)),
        (r#""18446744073709551616""#, None),
        (r#""7.5""#, None),
        (r#""-7""#, None),
        (r#""7 8""#, None),
        (r#""""#, None),
        ("true", None),
        ("null", None),
        ("[7]", None),
    ];
    for (value, count) in cases {
        let span = span_with(&format!(r#"{{"llm.prompt_tokens":{value}}}"#));
        let facts = Facts::of(&span);
        assert_eq!(facts.prompt_tokens, *count, "{value}");
        assert_eq!(facts.is_llm, count.is_some(), "{value}");
    }
}

#[test]
fn the_first_usable_attribute_counts_tokens() {
    for (keys, read) in [
        (
            [
                "gen_ai.usage.input_tokens",
                "gen_ai.usage.prompt_tokens",
                "llm.prompt_tokens",
                "llm.token_count.prompt",
            ],
            (|facts| facts.prompt_tokens) as fn(&Facts<'_>) -> Option<u64>,
        ),
        (
            [
                "gen_ai.usage.output_tokens",
                "gen_ai.usage.completion_tokens",
                "llm.completion_tokens",
                "llm.token_count.completion",
            ],
            |facts| facts.completion_tokens,
        ),
        (
            [
                "llm.usage.total_tokens",
                "gen_ai.usage.total_tokens",
                "llm.total_tokens",
                "llm.token_count.total",
            ],
            |facts| facts.total_tokens,
        ),
    ] {
        let [first, second, third, fourth] = keys;
        for (attributes, count) in [
            (
                format!(r#"{{"{first}":1,"{second}":2,"{third}":3,"{fourth}":4}}"#),
                Some(1),
            ),
            (format!(r#"{{"{second}":2,"{third}":3}}"#), Some(2)),
            (format!(r#"{{"{third}":3,"{fourth}":4}}"#), Some(3)),
            (format!(r#"{{"{fourth}":4}}"#), Some(4)),
            (
                format!(r#"{{"{first}":false,"{second}":"two","{third}":"3"}}"#),
                Some(3),
            ),
        ] {
            let span = span_with(&attributes);
            let facts = Facts::of(&span);
            assert_eq!(read(&facts), count, "{attributes}");
            assert!(facts.is_llm, "{attributes}");
        }
    }
}

#[test]
fn a_stated_total_wins_over_the_sum_and_the_sum_takes_what_is_known() {
    let cases: Cases<Option<u64>> = &[
        (r"{}", None),
        (
            r#"{"llm.prompt_tokens":2,"llm.completion_tokens":3}"#,
            Some(5),
        ),
        (r#"{"llm.prompt_tokens":2}"#, Some(2)),
        (r#"{"llm.completion_tokens":3}"#, Some(3)),
        (
            r#"{"llm.prompt_tokens":2,"llm.completion_tokens":3,"llm.total_tokens":9}"#,
            Some(9),
        ),
        (
            r#"{"llm.prompt_tokens":2,"llm.completion_tokens":3,"llm.total_tokens":0}"#,
            Some(0),
        ),
        (
            r#"{"llm.prompt_tokens":18446744073709551615,"llm.completion_tokens":3}"#,
            Some(u64::MAX),
        ),
    ];
    for (attributes, total) in cases {
        let span = span_with(attributes);
        assert_eq!(Facts::of(&span).total_tokens, *total, "{attributes}");
    }
}

#[test]
fn a_cost_is_a_finite_number_and_does_not_make_a_call() {
    let cases: Cases<Option<f64>> = &[
        (r#"{"llm.cost_usd":0.25}"#, Some(0.25)),
        (r#"{"gen_ai.usage.cost":1}"#, Some(1.0)),
        (r#"{"llm.cost.total":2,"gen_ai.usage.cost":1}"#, Some(1.0)),
        (r#"{"llm.cost.total":2}"#, Some(2.0)),
        (r#"{"llm.cost_usd":0.25,"gen_ai.usage.cost":1}"#, Some(0.25)),
        (r#"{"llm.cost_usd":" 2.5e-1 "}"#, Some(0.25)),
        (r#"{"llm.cost_usd":0}"#, Some(0.0)),
        (r#"{"llm.cost_usd":-1}"#, Some(-1.0)),
        (r#"{"llm.cost_usd":"inf","gen_ai.usage.cost":1}"#, Some(1.0)),
        (r#"{"llm.cost_usd":"NaN","gen_ai.usage.cost":1}"#, Some(1.0)),
        (
            r#"{"llm.cost_usd":"1e999","gen_ai.usage.cost":1}"#,
            Some(1.0),
        ),
        (r#"{"llm.cost_usd":"$1","gen_ai.usage.cost":1}"#, Some(1.0)),
        (r#"{"llm.cost_usd":true}"#, None),
    ];
    for (attributes, cost) in cases {
        let span = span_with(attributes);
        let facts = Facts::of(&span);
        assert_eq!(facts.reported_cost_usd, *cost, "{attributes}");
        assert!(!facts.is_llm, "{attributes}");
    }
}

#[test]
fn the_first_usable_attribute_names_the_session_and_does_not_make_a_call() {
    use SessionKey::{AssociationChatId, AssociationSessionId, ConversationId, SessionId};
    let cases: Cases<Option<(&str, SessionKey)>> = &[
        (r"{}", None),
        (
            r#"{"session.id":"a","gen_ai.conversation.id":"b"}"#,
            Some(("a", SessionId)),
        ),
        (
            r#"{"session.id":"","gen_ai.conversation.id":7}"#,
            Some(("7", ConversationId)),
        ),
        (
            r#"{"traceloop.association.properties.session_id":"c",
                "traceloop.association.properties.chat_id":"d"}"#,
            Some(("c", AssociationSessionId)),
        ),
        (
            r#"{"traceloop.association.properties.session_id":[],
                "traceloop.association.properties.chat_id":"d"}"#,
            Some(("d", AssociationChatId)),
        ),
    ];
    for (attributes, wanted) in cases {
        let span = span_with(attributes);
        let facts = Facts::of(&span);
        let session = facts.session.as_ref();
        assert_eq!(session.map(|s| (&*s.id, s.key)), *wanted, "{attributes}");
        assert!(!facts.is_llm, "{attributes}");
    }
    assert!(SessionKey::ALL.is_sorted(), "declared by precedence");
}

#[test]
fn marks_make_a_span_a_call() {
    let cases: Cases<bool> = &[
        (r"{}", false),
        (r#"{"gen_ai.operation.name":null}"#, true),
        (r#"{"llm.request.type":"chat"}"#, true),
        (r#"{"traceloop.span.kind":"llm"}"#, true),
        (r#"{"traceloop.span.kind":"LLM"}"#, false),
        (r#"{"traceloop.span.kind":"tool"}"#, false),
        (r#"{"openinference.span.kind":"LLM"}"#, true),
        (r#"{"openinference.span.kind":"llm"}"#, false),
        (r#"{"openinference.span.kind":"TOOL"}"#, false),
    ];
    for (attributes, is_llm) in cases {
        let span = span_with(attributes);
        assert_eq!(Facts::of(&span).is_llm, *is_llm, "{attributes}");
    }
}

#[test]
fn every_count_says_which_attribute_told_it() {
    let told = |attributes: &str| {
        let span = span_with(attributes);
        let told = Tokens::of(&span.attributes);
        let named = told
            .named()
            .map(|(_, told)| format!("{}={}", told.key, told.count));
        named.collect::<Vec<_>>().join(" ")
    };
    for (attributes, wanted) in [
        ("{}", ""),
        (
            r#"{"llm.token_count.prompt":100,"llm.token_count.prompt_details.cache_read":80,
                "llm.token_count.prompt_details.cache_write":"7","llm.token_count.completion":5,
                "llm.token_count.completion_details.reasoning":3,"llm.token_count.total":105}"#,
            "llm.token_count.prompt=100 llm.token_count.prompt_details.cache_read=80 \
             llm.token_count.prompt_details.cache_write=7 llm.token_count.completion=5 \
             llm.token_count.completion_details.reasoning=3 llm.token_count.total=105",
        ),
        (
            r#"{"gen_ai.usage.input_tokens":"none","llm.token_count.prompt":1,"gen_ai.usage.reasoning_tokens":2,
                "gen_ai.usage.cache_creation_input_tokens":3,"gen_ai.usage.cache_read.input_tokens":4}"#,
            "llm.token_count.prompt=1 gen_ai.usage.cache_read.input_tokens=4 \
             gen_ai.usage.cache_creation_input_tokens=3 gen_ai.usage.reasoning_tokens=2",
        ),
    ] {
        assert_eq!(told(attributes), wanted, "{attributes}");
    }
}

#[test]
fn what_is_cached_is_a_part_of_the_prompt_as_its_provider_or_its_convention_says() {
    let context = |prompt: &str, provider| {
        let attributes = format!(r#"{{"{prompt}":100,"gen_ai.usage.cache_read.input_tokens":80}}"#);
        Tokens::of(&span_with(&attributes).attributes).context(provider)
    };
    let gen_ai = "gen_ai.usage.input_tokens";
    assert_eq!(context(gen_ai, Some("openai")), Context::Tokens(100));
    assert_eq!(context(gen_ai, Some("anthropic")), Context::Tokens(180));
    assert_eq!(context(gen_ai, Some("somebody")), Context::Unclear);
    assert_eq!(context(gen_ai, None), Context::Unclear);
    let openinference = "llm.token_count.prompt";
    assert_eq!(
        context(openinference, Some("anthropic")),
        Context::Tokens(100)
    );
    assert_eq!(context(openinference, None), Context::Tokens(100));
    assert_eq!(Tokens::default().context(None), Context::Absent);
}
