//! JSON schemas of arguments and of structured results.

use serde_json::{Map, Value, json};

const TIME_FORMS: &str =
    "An age ('2h', '7d'), an RFC 3339 time, a date, 'now', or nanoseconds since the Unix epoch.";

/// An object with these properties and no others.
pub(super) fn object(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let properties: Map<String, Value> = properties
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    let mut schema =
        json!({"type": "object", "properties": properties, "additionalProperties": false});
    if let (Some(schema), false) = (schema.as_object_mut(), required.is_empty()) {
        schema.insert("required".to_owned(), json!(required));
    }
    schema
}

fn output(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let mut schema = object(properties, required);
    if let Some(schema) = schema.as_object_mut() {
        // Later versions may say more.
        schema.remove("additionalProperties");
    }
    schema
}

pub(super) fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

pub(super) fn word(words: &[&str], description: &str) -> Value {
    json!({"type": "string", "enum": words, "description": description})
}

pub(super) fn flag(description: &str) -> Value {
    json!({"type": "boolean", "description": description})
}

pub(super) fn limit(description: &str, default: usize, max: usize) -> Value {
    let description = format!("{description} Default {default}; more than {max} counts as {max}.");
    json!({"type": "integer", "minimum": 1, "maximum": max, "description": description})
}

pub(super) fn any(description: &str) -> Value {
    json!({"description": description})
}

pub(super) fn at_least_one(description: &str) -> Value {
    json!({"type": "integer", "minimum": 1, "description": description})
}

fn milliseconds(description: &str) -> Value {
    json!({"type": "number", "minimum": 0, "description": description})
}

fn map(description: &str) -> Value {
    json!({"type": "object", "description": description})
}

fn strings(description: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": description})
}

/// `since` and `until`. Numbers are taken too, but some clients do not understand a property of two types.
pub(super) fn window() -> Vec<(&'static str, Value)> {
    let time = |what: &str| text(&format!("{what} {TIME_FORMS}"));
    vec![
        (
            "since",
            time("Where the window begins: spans that start then or later."),
        ),
        (
            "until",
            time("Where the window ends: spans that start then or earlier."),
        ),
    ]
}

/// Whether to show what the spans hold.
pub(super) fn include_content() -> Value {
    flag(
        "Show attributes and events: prompts, completions, arguments of tools. Off by default, since one span of them can fill a context.",
    )
}

/// The arguments that choose spans.
pub(super) fn filter(limit_default: usize, limit_max: usize) -> Vec<(&'static str, Value)> {
    let mut properties = vec![
        ("service", text("The service, spelled exactly.")),
        ("name", text("The name of the operation, spelled exactly.")),
        (
            "status",
            text("The status field of the span, such as 'error'. It is no attribute."),
        ),
        (
            "exclude_status",
            strings("Leave out spans with one of these statuses."),
        ),
        (
            "content",
            text(
                "Words that all occur in the span's texts: values of attributes, events. Whole words of ASCII letters and digits; no stems, no phrases.",
            ),
        ),
        (
            "session",
            text("The session, whichever of the known attributes names it."),
        ),
        (
            "attributes",
            map(
                "Attributes that the span has, such as {\"gen_ai.request.model\": \"gpt-4o\"}. A number and its text are the same.",
            ),
        ),
        (
            "exclude_attributes",
            map("Leave out spans with these values. A span without the attribute stays."),
        ),
        ("min_duration_ms", milliseconds("Took at least so long.")),
        ("max_duration_ms", milliseconds("Took at most so long.")),
        ("limit", limit("How many rows.", limit_default, limit_max)),
        ("include_content", include_content()),
    ];
    properties.extend(window());
    properties
}

fn integer() -> Value {
    json!({"type": "integer"})
}

fn costs() -> Vec<(&'static str, Value)> {
    vec![
        (
            "cost_usd",
            json!({"type": "number", "description": "What is known, in US dollars."}),
        ),
        (
            "cost_derived_usd",
            json!({"type": "number", "description": "The part of it that comes from the server's price list."}),
        ),
        ("cost_metered_calls", integer()),
        (
            "cost_derived_calls",
            json!({"type": "integer", "description": "More than 0 makes the cost an estimate, also when a rate is 0."}),
        ),
        (
            "cost_unpriced_calls",
            json!({"type": "integer", "description": "More than 0 makes the cost an undercount."}),
        ),
    ]
}

fn rows(properties: &[(&str, Value)], required: &[&str]) -> Value {
    let mut properties = properties.to_vec();
    properties.extend(costs());
    json!({"type": "array", "items": output(&properties, required)})
}

/// What `list_sessions` answers.
pub(super) fn sessions() -> Value {
    let session = rows(
        &[
            ("session_id", json!({"type": "string"})),
            ("session_attribute", json!({"type": "string"})),
            ("first_start_ns", integer()),
            ("last_end_ns", integer()),
            ("trace_count", integer()),
            ("span_count", integer()),
            ("llm_calls", integer()),
            ("total_tokens", integer()),
            ("error_count", integer()),
        ],
        &["session_id", "span_count", "cost_usd"],
    );
    output(&[("sessions", session)], &["sessions"])
}

/// What `analyze_cost` answers.
pub(super) fn cost() -> Value {
    let groups = rows(
        &[
            ("key", json!({"type": "string"})),
            ("spans", integer()),
            ("llm_calls", integer()),
            ("prompt_tokens", integer()),
            ("completion_tokens", integer()),
            ("total_tokens", integer()),
            ("error_count", integer()),
        ],
        &["key", "total_tokens", "cost_usd"],
    );
    let series = rows(
        &[
            ("start_ns", integer()),
            ("spans", integer()),
            ("errors", integer()),
            ("llm_calls", integer()),
            ("total_tokens", integer()),
        ],
        &["start_ns", "spans"],
    );
    output(
        &[
            ("group_by", json!({"type": "string"})),
            ("rows", groups),
            ("series", series),
        ],
        &["group_by", "rows"],
    )
}

/// What `diagnose_session` answers.
pub(super) fn diagnosis() -> Value {
    output(
        &[
            ("session_id", json!({"type": "string"})),
            (
                "outcome",
                json!({"type": "object", "description": "How it ended and how that is known: 'declared' by a span or 'derived' from the last one to end. 'unknown' does not mean success."}),
            ),
            (
                "cause",
                json!({"type": ["object", "null"], "description": "The step that the failure comes from; null when nothing tells it."}),
            ),
            (
                "findings",
                json!({"type": "array", "items": {"type": "object"}, "description": "Repeated steps, and what speaks for the shape that each has."}),
            ),
            ("findings_reported", integer()),
            ("findings_found", integer()),
            (
                "examined",
                json!({"type": "integer", "description": "How many spans were looked at."}),
            ),
            (
                "truncated",
                json!({"type": "boolean", "description": "The session has more spans than were looked at."}),
            ),
        ],
        &["session_id", "outcome", "findings", "examined", "truncated"],
    )
}
