//! The shapes of bodies and answers.

use serde_json::{Map, Value, json};

/// Stands for members that no description can name.
const OTHERS: (&str, &str) = ("*", "any");

/// An object with these members; those without a `?` are always there.
fn object(members: &[(&str, &str)]) -> Value {
    let has_others = members.contains(&OTHERS);
    let members: Vec<_> = members.iter().filter(|member| **member != OTHERS).collect();
    let properties: Map<String, Value> = members
        .iter()
        .map(|(name, kind)| (name.trim_end_matches('?').to_owned(), kind_of(kind)))
        .collect();
    let required: Vec<&str> = members
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !name.ends_with('?'))
        .collect();
    let mut shape = json!({"type": "object", "properties": properties, "required": required});
    if has_others && let Some(shape) = shape.as_object_mut() {
        shape.insert("additionalProperties".to_owned(), true.into());
    }
    shape
}

/// `[X]` is an array of X; a name with a capital is a shape.
fn kind_of(kind: &str) -> Value {
    if let Some(of) = kind
        .strip_prefix('[')
        .and_then(|kind| kind.strip_suffix(']'))
    {
        return json!({"type": "array", "items": kind_of(of)});
    }
    match kind {
        "any" => json!({}),
        "id" => json!({"type": "string", "minLength": 1}),
        "u64" => json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
        "u64|null" => json!({"type": ["integer", "null"], "minimum": 0}),
        "string|null" => json!({"type": ["string", "null"]}),
        "object|null" => json!({"type": ["object", "null"]}),
        "boolean" | "string" | "number" | "object" => json!({"type": kind}),
        name => json!({"$ref": format!("#/components/schemas/{name}")}),
    }
}

const COST: &[(&str, &str)] = &[
    ("cost_usd", "number"),
    ("cost_derived_usd", "number"),
    ("cost_metered_calls", "u64"),
    ("cost_derived_calls", "u64"),
    ("cost_unpriced_calls", "u64"),
];
const TOKENS: &[(&str, &str)] = &[
    ("llm_calls", "u64"),
    ("prompt_tokens", "u64"),
    ("completion_tokens", "u64"),
    ("total_tokens", "u64"),
    ("error_count", "u64"),
];
const SESSION: &[(&str, &str)] = &[
    ("session_id", "string"),
    ("tenant?", "string"),
    ("session_attribute", "string"),
    ("first_start_ns", "u64"),
    ("last_end_ns", "u64"),
    ("trace_count", "u64"),
    ("span_count", "u64"),
];
const SCORE_DIFF: &[(&str, &str)] = &[
    ("name", "string"),
    ("mean_base?", "number"),
    ("mean_candidate?", "number"),
    ("delta?", "number"),
    ("improved", "[string]"),
    ("regressed", "[string]"),
    ("unchanged", "u64"),
    ("changed", "[string]"),
    ("only_base", "[string]"),
    ("only_candidate", "[string]"),
];

/// Shapes that are a list of members.
const SIMPLE: &[(&str, &[(&str, &str)])] = &[
    ("Error", &[("error", "string"), OTHERS]),
    ("Gone", &[("error", "string"), ("tombstone", "Tombstone")]),
    (
        "Tombstone",
        &[
            ("schema", "u64"),
            ("tenant?", "string"),
            ("dataset_id", "u64"),
            ("version_id", "string"),
            ("requested_unix_ns", "u64"),
            ("reason?", "string"),
        ],
    ),
    (
        "BadBackup",
        &[("error", "string"), ("problems", "[string]")],
    ),
    ("Health", &[("status", "string")]),
    (
        "OpenApi",
        &[
            ("openapi", "string"),
            ("info", "object"),
            ("paths", "object"),
            ("components", "object"),
            ("security", "[any]"),
        ],
    ),
    (
        "Stats",
        &[
            ("buffered_records", "u64"),
            ("persisted_records", "u64"),
            ("total_records", "u64"),
            ("record_count", "u64"),
            ("segment_count", "u64"),
            ("bytes_on_disk", "u64"),
            ("durability", "string"),
            ("wal_bytes", "u64"),
            ("buffer_age_seconds", "u64|null"),
        ],
    ),
    (
        "Metrics",
        &[
            ("uptime_ns", "u64"),
            ("durability", "string"),
            ("tail_ring", "object"),
            ("requests", "object"),
            ("by_class", "object"),
            ("connections", "object"),
            ("decode", "object"),
            ("ingest", "object"),
            ("pruning", "object"),
            ("percentile_error_bound", "number"),
        ],
    ),
    (
        "Event",
        &[
            ("name", "string"),
            ("timestamp_ns", "u64"),
            ("attributes", "object"),
        ],
    ),
    (
        "Link",
        &[
            ("trace_id", "string"),
            ("span_id", "string"),
            ("attributes", "object"),
        ],
    ),
    (
        "Span",
        &[
            OTHERS,
            ("trace_id", "string"),
            ("span_id", "string"),
            ("$tenant?", "string"),
            ("parent_span_id", "string|null"),
            ("name", "string"),
            ("start_time_ns", "u64"),
            ("end_time_ns", "u64"),
            ("status", "string"),
            ("service", "string"),
            ("attributes", "object"),
            ("events", "[Event]"),
            ("links?", "[Link]"),
        ],
    ),
    (
        "NewEvent",
        &[
            ("name", "string"),
            ("timestamp_ns", "u64"),
            ("attributes?", "object"),
        ],
    ),
    (
        "NewLink",
        &[
            ("trace_id", "string"),
            ("span_id", "string"),
            ("attributes?", "object"),
        ],
    ),
    (
        "NewSpan",
        &[
            ("trace_id", "id"),
            ("span_id", "id"),
            ("parent_span_id?", "string|null"),
            ("name", "string"),
            ("start_time_ns", "u64"),
            ("end_time_ns", "u64"),
            ("status?", "string"),
            ("service", "string"),
            ("attributes?", "object"),
            ("events?", "[NewEvent]"),
            ("links?", "[NewLink]"),
        ],
    ),
    ("SpanBatch", &[("spans", "[NewSpan]")]),
    (
        "Ingested",
        &[
            ("accepted", "u64"),
            ("durability", "string"),
            ("suppressed?", "u64"),
        ],
    ),
    ("OtlpRequest", &[("resourceSpans", "[object]")]),
    ("OtlpResponse", &[("partialSuccess", "object")]),
    (
        "Cost",
        &[
            ("elapsed_ns", "u64"),
            ("segments_examined", "u64"),
            ("segments_pruned", "u64"),
        ],
    ),
    (
        "SpanPage",
        &[
            ("spans", "[Span]"),
            ("next_cursor", "string|null"),
            ("cost", "Cost"),
        ],
    ),
    ("Spans", &[("spans", "[Span]")]),
    (
        "Trace",
        &[
            ("trace_id", "string"),
            ("spans", "[Span]"),
            ("annotations", "[Annotation]"),
        ],
    ),
    ("Sessions", &[("sessions", "[SessionSummary]")]),
    ("LlmRows", &[("rows", "[LlmRow]")]),
    (
        "Series",
        &[
            ("since_ns", "u64"),
            ("until_ns", "u64"),
            ("bucket_ns", "u64"),
            ("buckets", "[SeriesBucket]"),
        ],
    ),
    ("DurationBucket", &[("upper_ns", "u64"), ("count", "u64")]),
    (
        "Durations",
        &[
            ("count", "u64"),
            ("min_ns", "u64"),
            ("max_ns", "u64"),
            ("mean_ns", "u64"),
            ("p50_ns", "u64"),
            ("p75_ns", "u64"),
            ("p90_ns", "u64"),
            ("p95_ns", "u64"),
            ("p99_ns", "u64"),
            ("buckets", "[DurationBucket]"),
        ],
    ),
    (
        "FailureGroup",
        &[
            ("service", "string"),
            ("name", "string"),
            ("status", "string"),
            ("count", "u64"),
            ("first_seen_ns", "u64"),
            ("last_seen_ns", "u64"),
            ("example_trace_id", "string"),
            ("example_span_id", "string"),
            ("p50_ns", "u64"),
            ("p95_ns", "u64"),
        ],
    ),
    (
        "Failures",
        &[
            ("groups", "[FailureGroup]"),
            ("total", "u64"),
            ("distinct", "u64"),
            ("groups_omitted", "u64"),
            ("spans_untracked", "u64"),
        ],
    ),
    (
        "Tenant",
        &[
            ("tenant", "string"),
            ("spans", "u64"),
            ("traces", "u64"),
            ("bytes_approx", "u64"),
            ("payload_bytes_approx", "u64"),
            ("first_start_ns", "u64"),
            ("last_end_ns", "u64"),
        ],
    ),
    ("Tenants", &[("tenants", "[Tenant]")]),
    (
        "Annotation",
        &[
            ("trace_id", "string"),
            ("span_id", "string"),
            ("tenant?", "string"),
            ("session_id?", "string"),
            ("experiment_id?", "u64"),
            ("example_id?", "string"),
            ("name", "string"),
            ("value", "any"),
            ("source", "string"),
            ("comment", "string"),
            ("timestamp_ns", "u64"),
        ],
    ),
    (
        "NewAnnotation",
        &[
            ("trace_id?", "string"),
            ("span_id?", "string"),
            ("session_id?", "string"),
            ("name", "id"),
            ("value", "any"),
            ("source?", "string"),
            ("comment?", "string"),
            ("timestamp_ns?", "u64"),
        ],
    ),
    ("Recorded", &[("recorded", "boolean")]),
    ("Annotations", &[("annotations", "[Annotation]")]),
    ("NewDataset", &[("name", "id"), ("tenant?", "string")]),
    ("DatasetCreated", &[("dataset_id", "u64")]),
    (
        "DatasetVersion",
        &[
            ("version_id", "string"),
            ("parent?", "string"),
            ("examples", "u64"),
            ("created_unix_ns", "u64"),
            ("tombstoned", "boolean"),
        ],
    ),
    (
        "Dataset",
        &[
            ("schema", "u64"),
            ("dataset_id", "u64"),
            ("tenant?", "string"),
            ("name", "string"),
            ("created_unix_ns", "u64"),
            ("versions", "[DatasetVersion]"),
        ],
    ),
    ("Datasets", &[("datasets", "[Dataset]")]),
    ("NewTombstone", &[("reason?", "string")]),
    (
        "Tombstoned",
        &[
            ("tombstoned", "boolean"),
            ("already", "boolean"),
            ("version_id", "string"),
        ],
    ),
    (
        "NewExample",
        &[
            ("example_id", "id"),
            ("input", "any"),
            ("expected?", "any"),
            ("split?", "string"),
            ("provenance?", "object"),
        ],
    ),
    (
        "NewVersion",
        &[
            ("parent?", "string|null"),
            ("provenance?", "any"),
            ("examples", "[NewExample]"),
        ],
    ),
    (
        "VersionCreated",
        &[
            ("version_id", "string"),
            ("examples", "u64"),
            ("created", "boolean"),
        ],
    ),
    (
        "ExampleBody",
        &[
            ("example_id", "string"),
            ("digest", "string"),
            ("body", "object"),
        ],
    ),
    (
        "Version",
        &[
            ("schema", "u64"),
            ("tenant?", "string"),
            ("dataset_id", "u64"),
            ("version_id", "string"),
            ("parent?", "string"),
            ("provenance?", "any"),
            ("examples", "[[string]]"),
            ("created_unix_ns", "u64"),
            ("bodies", "[ExampleBody]"),
        ],
    ),
    (
        "NewExperiment",
        &[
            ("dataset_id", "u64"),
            ("dataset_version", "string"),
            ("name?", "string"),
            ("config?", "any"),
        ],
    ),
    ("ExperimentCreated", &[("experiment_id", "u64")]),
    (
        "Experiment",
        &[
            ("schema", "u64"),
            ("experiment_id", "u64"),
            ("tenant?", "string"),
            ("dataset_id", "u64"),
            ("dataset_version", "string"),
            ("name?", "string"),
            ("config?", "any"),
            ("created_unix_ns", "u64"),
            ("dataset_version_deleted", "boolean"),
            ("run_count", "u64"),
        ],
    ),
    ("Experiments", &[("experiments", "[Experiment]")]),
    (
        "NewRun",
        &[
            ("example_id", "string"),
            ("trace_id", "string"),
            ("span_id?", "string"),
        ],
    ),
    (
        "Run",
        &[
            ("schema", "u64"),
            ("tenant?", "string"),
            ("experiment_id", "u64"),
            ("example_id", "string"),
            ("trace_id", "string"),
            ("span_id?", "string"),
            ("created_unix_ns", "u64"),
        ],
    ),
    ("Runs", &[("runs", "[Run]")]),
    ("Scores", &[("scores", "[Annotation]")]),
    (
        "ScoreSummary",
        &[
            ("name", "string"),
            ("count", "u64"),
            ("examples_scored", "u64"),
            ("mean?", "number"),
            ("min?", "number"),
            ("max?", "number"),
            ("p50?", "number"),
            ("p95?", "number"),
            ("true_rate?", "number"),
        ],
    ),
    (
        "ExperimentSummary",
        &[
            ("experiment_id", "u64"),
            ("examples_total", "u64"),
            ("scores", "[ScoreSummary]"),
        ],
    ),
    ("ScoreDiff", SCORE_DIFF),
    (
        "ExperimentDiff",
        &[
            ("base", "u64"),
            ("candidate", "u64"),
            ("scores", "[ScoreDiff]"),
        ],
    ),
    ("Flushed", &[("flushed", "boolean")]),
    ("Checkpoint", &[("generation", "u64")]),
    (
        "Verified",
        &[
            ("generation", "u64"),
            ("intact", "boolean"),
            ("problems", "[string]"),
        ],
    ),
    (
        "Backup",
        &[
            ("backup", "string"),
            ("generation", "u64"),
            ("path", "string"),
            ("verified", "boolean"),
        ],
    ),
    ("Released", &[("released", "boolean"), ("backup", "string")]),
    ("NewErasure", &[("subject", "Subject")]),
    (
        "Erasure",
        &[
            ("schema", "u64"),
            ("id", "u64"),
            ("requested_unix_ns", "u64"),
            ("subject", "Subject"),
            ("span_keys", "[[string]]"),
            ("payload_refs", "[string]"),
            ("eval_datasets?", "[u64]"),
            ("eval_experiments?", "[u64]"),
            ("settle", "object|null"),
        ],
    ),
    ("Erasures", &[("erasures", "[Erasure]")]),
    (
        "Domain",
        &[
            ("domain", "string"),
            ("result", "string"),
            ("detail", "string"),
            ("re_delivered?", "u64"),
            ("new_activity?", "u64"),
            ("occurrences?", "u64"),
            ("items?", "[string]"),
        ],
    ),
    (
        "Receipt",
        &[
            ("erasure_id", "u64"),
            ("subject", "Subject"),
            ("requested_unix_ns", "u64"),
            ("verified_unix_ns", "u64"),
            ("generation?", "u64"),
            ("settled", "boolean"),
            ("domains", "[Domain]"),
            ("result", "string"),
            ("conclusive", "boolean"),
        ],
    ),
];

/// All shapes, by name.
pub(super) fn schemas() -> Value {
    let mut schemas: Map<String, Value> = SIMPLE
        .iter()
        .map(|(name, members)| ((*name).to_owned(), object(members)))
        .collect();
    let mut add = |name: &str, parts: &[&[(&str, &str)]]| {
        schemas.insert(name.to_owned(), object(&parts.concat()));
    };
    add("SessionSummary", &[SESSION, TOKENS, COST]);
    add(
        "Session",
        &[SESSION, TOKENS, COST, &[("traces", "[SessionTrace]")]],
    );
    let of_trace = [
        ("trace_id", "string"),
        ("root_name", "string"),
        ("first_start_ns", "u64"),
        ("last_end_ns", "u64"),
        ("span_count", "u64"),
        ("total_tokens", "u64"),
        ("error_count", "u64"),
    ];
    add("SessionTrace", &[&of_trace, COST]);
    let of_row = [
        ("key", "string"),
        ("spans", "u64"),
        ("llm_duration_ns", "u64"),
    ];
    add("LlmRow", &[&of_row, TOKENS, COST]);
    let of_bucket = [
        ("start_ns", "u64"),
        ("spans", "u64"),
        ("errors", "u64"),
        ("llm_calls", "u64"),
        ("total_tokens", "u64"),
        ("p50_ns", "u64"),
        ("p95_ns", "u64"),
    ];
    add("SeriesBucket", &[&of_bucket, COST]);
    let subject = json!({
        "oneOf": [
            {"properties": {"kind": {"const": "trace"}, "trace_id": {"type": "string"}, "tenant": {"type": "string"}}, "required": ["kind", "trace_id"]},
            {"properties": {"kind": {"const": "span"}, "trace_id": {"type": "string"}, "span_id": {"type": "string"}, "tenant": {"type": "string"}}, "required": ["kind", "trace_id", "span_id"]},
            {"properties": {"kind": {"const": "session"}, "session_id": {"type": "string"}, "tenant": {"type": "string"}}, "required": ["kind", "session_id"]},
            {"properties": {"kind": {"const": "payload"}, "reference": {"type": "string"}}, "required": ["kind", "reference"]},
            {"properties": {"kind": {"const": "tenant"}, "tenant": {"type": "string"}}, "required": ["kind", "tenant"]},
        ],
        "type": "object",
    });
    schemas.insert("Subject".to_owned(), subject);
    Value::Object(schemas)
}
