//! The description of the API (`OpenAPI` 3.1), made from the table of routes.

mod schema;

use serde_json::{Map, Value, json};

use schema::schemas;

use crate::router::{Body, Query, ROUTES, Route};

/// The conditions on spans: name, shape, what it means.
const CONDITIONS: &[(&str, &str, &str)] = &[
    ("service", "string", "Done by this service"),
    ("name", "string", "With this name"),
    ("status", "string", "Ended like this"),
    ("not_status", "strings", "Not ended like one of these"),
    ("content", "string", "With all these words in its texts"),
    ("q", "string", "The same"),
    ("session", "string", "In this session"),
    (
        "tenant",
        "string",
        "Of this tenant; an empty one is the default tenant",
    ),
    (
        "min_duration_ms",
        "integer",
        "Took so many milliseconds at least",
    ),
    (
        "max_duration_ms",
        "integer",
        "Took so many milliseconds at most",
    ),
    (
        "min_duration_ns",
        "integer",
        "Took so many nanoseconds at least",
    ),
    (
        "max_duration_ns",
        "integer",
        "Took so many nanoseconds at most",
    ),
];

/// Other parameters.
const PARAMETERS: &[(&str, &str, &str)] = &[
    (
        "since",
        "integer",
        "Then or later, in nanoseconds since 1970",
    ),
    ("since_ns", "integer", "The same"),
    ("until", "integer", "Then or earlier"),
    ("until_ns", "integer", "The same"),
    ("limit", "integer", "So many at most"),
    ("backfill", "integer", "Begins so many spans ago"),
    ("buckets", "integer", "So many parts of the window"),
    ("experiment_id", "integer", "Of this experiment"),
    ("dataset_id", "integer", "Of this dataset"),
    ("base", "number!", "The experiment to compare with"),
    ("candidate", "number!", "The experiment that is compared"),
    ("group_by", "group", "What the rows are for"),
    ("sort", "sort", "The order"),
    ("cursor", "string", "Where a page before ended"),
];

fn shape(kind: &str) -> Value {
    match kind {
        "integer" | "number!" => json!({"type": "integer", "minimum": 0, "maximum": u64::MAX}),
        "strings" => json!({"type": "array", "items": {"type": "string"}}),
        "group" => json!({"enum": ["model", "provider", "service", "session", "day"]}),
        "sort" => json!({"enum": [
            "start", "-start", "duration", "-duration", "start_asc", "start_desc", "duration_asc", "duration_desc"
        ]}),
        _ => json!({"type": "string"}),
    }
}

fn parameter(name: &str) -> Value {
    let known = CONDITIONS.iter().chain(PARAMETERS);
    let found = known.clone().find(|(known, ..)| *known == name);
    let (kind, about) = found.map_or(("string", ""), |(_, kind, about)| (*kind, *about));
    let mut parameter = json!({
        "name": name, "in": "query", "schema": shape(kind), "required": kind == "number!",
    });
    if let (Some(members), false) = (parameter.as_object_mut(), about.is_empty()) {
        members.insert("description".to_owned(), about.into());
    }
    parameter
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut found: Vec<Value> = places(route.path)
        .map(|(name, is_number)| {
            let shape = if is_number {
                json!({"type": "integer", "minimum": 0})
            } else {
                json!({"type": "string", "minLength": 1})
            };
            json!({"name": name, "in": "path", "required": true, "schema": shape})
        })
        .collect();
    let window: &[&str] = match route.query {
        Query::Spans(_) => &["since", "since_ns", "until", "until_ns"],
        _ => &[],
    };
    match route.query {
        Query::Ignored => {}
        Query::Only(names) => found.extend(names.iter().map(|name| parameter(name))),
        Query::Spans(more) | Query::Live(more) => {
            let conditions = CONDITIONS.iter().map(|(name, ..)| *name);
            let names = conditions
                .chain(window.iter().copied())
                .chain(more.iter().copied());
            found.extend(names.map(parameter));
        }
    }
    found
}

/// The places of a pattern, and whether a number belongs there.
fn places(path: &str) -> impl Iterator<Item = (&str, bool)> {
    path.split('/').filter_map(|part| {
        let name = part
            .strip_prefix('{')?
            .strip_suffix('}')?
            .trim_end_matches('*');
        let is_number = matches!(name, "dataset_id" | "experiment_id" | "erasure_id");
        Some((name, is_number))
    })
}

fn named(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn answer(route: &Route) -> Value {
    let content = match route.answer {
        "text" => json!({"text/plain; version=0.0.4": {"schema": {"type": "string"}}}),
        "lines" => json!({"application/x-ndjson": {"schema": {"type": "string"}}}),
        "events" => json!({"text/event-stream": {"schema": {"type": "string"}}}),
        "bytes" => {
            json!({"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}})
        }
        "OtlpResponse" => json!({
            "application/json": {"schema": named("OtlpResponse")},
            "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
        }),
        schema => json!({"application/json": {"schema": named(schema)}}),
    };
    json!({"description": route.about, "content": content})
}

fn refusal(what: &str) -> Value {
    refusal_with(what, "Error")
}

/// A refusal that says more than why.
fn refusal_with(what: &str, schema: &str) -> Value {
    json!({"description": what, "content": {"application/json": {"schema": named(schema)}}})
}

fn operation(route: &Route) -> Value {
    let mut answers = Map::new();
    let good = if route.answer == "Backup" {
        "201"
    } else {
        "200"
    };
    answers.insert(good.to_owned(), answer(route));
    let is_probe = route.path == "/healthz" || route.path == "/readyz";
    if !is_probe {
        answers.insert(
            "400".to_owned(),
            refusal("It makes no sense; the text says why"),
        );
        answers.insert("401".to_owned(), refusal("No token, or an unknown one"));
        answers.insert("403".to_owned(), refusal("Not for this credential"));
        answers.insert("404".to_owned(), refusal("There is no such thing"));
    }
    let may_conflict = route.method == "POST";
    if may_conflict {
        answers.insert("409".to_owned(), refusal("What is there does not allow it"));
    }
    if route.answer == "Version" {
        answers.insert(
            "410".to_owned(),
            refusal_with("The version is not to be used any more", "Gone"),
        );
    }
    if route.answer == "Backup" {
        answers.insert(
            "500".to_owned(),
            refusal_with("What was copied is not what is there", "BadBackup"),
        );
    }
    answers.insert(
        "503".to_owned(),
        refusal("The store cannot do it now; try again"),
    );
    let mut operation = json!({
        "summary": route.about,
        "parameters": parameters(route),
        "responses": answers,
    });
    let body = match route.body {
        Body::Ignored => None,
        Body::Json(schema) => Some(json!({
            "required": true, "content": {"application/json": {"schema": named(schema)}},
        })),
        Body::MaybeJson(schema) => Some(json!({
            "required": false, "content": {"application/json": {"schema": named(schema)}},
        })),
        Body::Otlp => Some(json!({
            "required": true,
            "content": {
                "application/json": {"schema": named("OtlpRequest")},
                "application/x-protobuf": {"schema": {"type": "string", "format": "binary"}},
            },
        })),
    };
    if let (Some(members), Some(body)) = (operation.as_object_mut(), body) {
        members.insert("requestBody".to_owned(), body);
    }
    operation
}

/// The whole description.
pub(crate) fn document() -> Value {
    let mut paths = Map::new();
    for route in ROUTES.iter().filter(|route| !route.about.is_empty()) {
        let path = route.path.replace('*', "");
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(route.method.to_ascii_lowercase(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Daybook traces",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "A store of OpenTelemetry spans. Times are nanoseconds since 1970. The routes over spans also take attr.KEY, not_attr.KEY, min_attr.KEY and max_attr.KEY, which no description can name one by one. Unknown parameters are refused.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    })
}
