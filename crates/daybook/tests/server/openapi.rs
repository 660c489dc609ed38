//! The description of the API is true: what it names answers, as it says.

use serde_json::{Value, json};

use crate::support::{Answer, Server};

/// A description with the answers of a server beside it.
struct Described {
    document: Value,
}

impl Described {
    fn resolve<'v>(&'v self, schema: &'v Value) -> &'v Value {
        match schema["$ref"].as_str() {
            Some(reference) => self
                .document
                .pointer(reference.strip_prefix('#').unwrap())
                .unwrap_or_else(|| panic!("{reference} is described")),
            None => schema,
        }
    }

    /// Why a value has not the shape, or nothing. Knows what the description is made of.
    fn fault(&self, value: &Value, schema: &Value, place: &str) -> Option<String> {
        let schema = self.resolve(schema);
        for word in ["anyOf", "oneOf"] {
            if let Some(choices) = schema[word].as_array() {
                let faults: Vec<String> = choices
                    .iter()
                    .map_while(|choice| self.fault(value, choice, place))
                    .collect();
                return (faults.len() == choices.len()).then(|| faults.join("; "));
            }
        }
        if let Some(words) = schema["enum"].as_array() {
            return (!words.contains(value))
                .then(|| format!("{place}: {value} is none of {words:?}"));
        }
        let of_type = |name: &str| match name {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_u64() || value.is_i64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("{place}: {other} is no type"),
        };
        let is_type = match &schema["type"] {
            Value::String(name) => of_type(name),
            Value::Array(names) => names.iter().any(|name| of_type(name.as_str().unwrap())),
            _ => true,
        };
        if !is_type {
            return Some(format!("{place}: {value} is no {}", schema["type"]));
        }
        if let (Some(items), false) = (value.as_array(), schema["items"].is_null()) {
            return items.iter().enumerate().find_map(|(i, item)| {
                self.fault(item, &schema["items"], &format!("{place}[{i}]"))
            });
        }
        let members = value.as_object()?;
        for name in schema["required"].as_array().into_iter().flatten() {
            if !members.contains_key(name.as_str().unwrap()) {
                return Some(format!("{place}: {name} is missing in {value}"));
            }
        }
        members.iter().find_map(|(name, member)| {
            let place = format!("{place}.{name}");
            match (&schema["properties"][name], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => Some(format!("{place} is not described")),
                (Value::Null, Value::Bool(true)) => None,
                (Value::Null, Value::Null) => schema["properties"]
                    .is_object()
                    .then(|| format!("{place} is not described")),
                (Value::Null, more) => self.fault(member, more, &place),
                (described, _) => self.fault(member, described, &place),
            }
        })
    }

    #[track_caller]
    fn check(&self, method: &str, path: &str, answer: &Answer) {
        let operation = &self.document["paths"][path][method];
        assert!(operation.is_object(), "{method} {path} is described");
        let said = &operation["responses"][answer.status.to_string()];
        assert!(
            said.is_object(),
            "{method} {path} answers {}: {}",
            answer.status,
            answer.text()
        );
        let content_type = answer.field("content-type").unwrap();
        let schema = &said["content"][content_type]["schema"];
        assert!(schema.is_object(), "{method} {path} answers {content_type}");
        if content_type == "application/json" {
            let fault = self.fault(&answer.json(), schema, path);
            assert_eq!(fault, None, "{method} {path}");
        }
    }
}

/// Something of everything; what stands for the places of paths.
fn fill(server: &Server) -> Vec<(&'static str, String)> {
    server.ingest(&json!([
        {"trace_id": "t", "span_id": "s", "parent_span_id": "p", "$tenant": "acme", "name": "n", "start_ns": 1, "end_ns": 20, "service": "s", "status": "error", "extra": [1],
         "attributes": {"session.id": "S", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 1, "long": "x".repeat(100)},
         "events": [{"name": "e", "time": 1}], "links": [{"trace_id": "o", "span_id": "p"}]},
        {"trace_id": "t", "span_id": "z", "name": "n", "start_ns": 1, "end_ns": 20, "service": "s"},
    ]));
    let reference = server.spans("/v1/spans?tenant=acme")[0]["attributes"]["long"]["$payload"]
        .as_str()
        .unwrap()
        .to_owned();
    let dataset =
        server.post_json("/v1/datasets", &json!({"name": "d", "tenant": "acme"}))["dataset_id"]
            .to_string();
    let examples = json!({"examples": [{"example_id": "e", "input": 1, "expected": 2, "split": "x", "provenance": {"trace_id": "t"}}], "provenance": 7});
    let version =
        server.post_json(&format!("/v1/datasets/{dataset}/versions"), &examples)["version_id"]
            .as_str()
            .unwrap()
            .to_owned();
    let experiment = server.post_json(
        "/v1/experiments",
        &json!({"dataset_id": 1, "dataset_version": version, "name": "x", "config": {}}),
    );
    let experiment = experiment["experiment_id"].to_string();
    server.post_json(
        &format!("/v1/experiments/{experiment}/runs"),
        &json!({"example_id": "e", "trace_id": "t", "span_id": "s"}),
    );
    for value in [json!(1), json!(true), json!("x")] {
        let name = format!("n{value}");
        server.post_json("/v1/annotations", &json!({"tenant": "acme", "experiment_id": 1, "example_id": "e", "name": name, "value": value}));
    }
    server.post_json(
        "/v1/annotations",
        &json!({"trace_id": "t", "tenant": "acme", "name": "n", "value": 1}),
    );
    server.post_json(
        "/v1/erasures",
        &json!({"subject": {"kind": "trace", "trace_id": "other"}}),
    );
    vec![
        ("{trace_id}", "t".to_owned()),
        ("{session_id}", "S".to_owned()),
        ("{reference}", reference),
        ("{dataset_id}", dataset),
        ("{version_id}", version),
        ("{experiment_id}", experiment),
        ("{erasure_id}", "1".to_owned()),
        ("{label}", "nightly".to_owned()),
    ]
}

fn query_of(path: &str) -> &'static str {
    match path {
        "/v1/stats/series" => "?since=0&until=100&buckets=2",
        "/v1/experiments/diff" => "?base=1&candidate=1",
        _ => "",
    }
}

fn body_of(path: &str) -> Value {
    match path {
        "/v1/spans" => {
            json!([{"trace_id": "t2", "span_id": "s", "name": "n", "start_ns": 1, "end_ns": 2, "service": "s"}])
        }
        "/v1/traces" => json!({"resourceSpans": []}),
        "/v1/annotations" => json!({"trace_id": "t", "name": "n", "value": 1}),
        "/v1/datasets" => json!({"name": "d"}),
        "/v1/datasets/{dataset_id}/versions" => {
            json!({"examples": [{"example_id": "f", "input": 1}]})
        }
        "/v1/experiments" => json!({"dataset_id": 1, "dataset_version": "none"}),
        "/v1/experiments/{experiment_id}/runs" => json!({"example_id": "e", "trace_id": "t"}),
        "/v1/erasures" => json!({"subject": {"kind": "trace", "trace_id": "none"}}),
        _ => Value::Null,
    }
}

#[test]
fn every_described_path_answers_as_described() {
    let server = Server::with(["--payload-threshold-bytes", "50"]);
    let document = server.json("/v1/openapi.json");
    let described = Described {
        document: document.clone(),
    };
    let places = fill(&server);
    let fill_in = |path: &str| {
        places.iter().fold(path.to_owned(), |path, (place, value)| {
            path.replace(place, value)
        })
    };
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() > 35);
    let (mut good, mut count) = (0, 0);
    // Reads first: some of the others take something away.
    for wanted in ["get", "post"] {
        for (path, methods) in paths {
            for method in methods
                .as_object()
                .unwrap()
                .keys()
                .filter(|method| *method == wanted)
            {
                let target = format!("{}{}", fill_in(path), query_of(path));
                if path == "/v1/tail" {
                    let mut connection = server.connect();
                    connection.send(format!("GET {target} HTTP/1.1\r\n\r\n"));
                    assert_eq!(
                        connection.head().unwrap().field("content-type"),
                        Some("text/event-stream")
                    );
                    continue;
                }
                let body = body_of(path);
                let body = if body.is_null() {
                    String::new()
                } else {
                    body.to_string()
                };
                let answer = server.ask(&method.to_uppercase(), &target, "", body.as_bytes());
                described.check(method, path, &answer);
                count += 1;
                good += usize::from(answer.status < 300);
            }
        }
    }
    assert!(good + 2 >= count, "{good} of {count} are answered");
    server.get("/v1/datasets/1/versions/none").expect(404);
    let tombstoned = server.get(&fill_in("/v1/datasets/{dataset_id}/versions/{version_id}"));
    described.check(
        "get",
        "/v1/datasets/{dataset_id}/versions/{version_id}",
        &tombstoned,
    );
    assert_eq!(tombstoned.status, 410);
}

#[test]
fn described_parameters_are_taken_and_others_are_refused() {
    let server = Server::start();
    let document = server.json("/v1/openapi.json");
    let described = Described {
        document: document.clone(),
    };
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some(operation) = methods.get("get") else {
            continue;
        };
        let parameters: Vec<&Value> = operation["parameters"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|parameter| parameter["in"] == "query")
            .collect();
        if parameters.is_empty() || path == "/v1/tail" {
            continue;
        }
        let target = path
            .replace("{experiment_id}", "1")
            .replace("{trace_id}", "t")
            .replace("{session_id}", "s");
        let required = query_of(path).trim_start_matches('?');
        for parameter in &parameters {
            let name = parameter["name"].as_str().unwrap();
            for value in ["0", "x", "", "-1", "18446744073709551616", "%00%ff"] {
                let answer = server.get(&format!("{target}?{required}&{name}={value}"));
                assert!(answer.status < 500, "{target} {name}={value}");
                described.check("get", path, &answer);
                if answer.status == 400 {
                    let error = answer.error();
                    assert!(
                        !error.contains("unknown query parameter"),
                        "{target} {name}: {error}"
                    );
                }
            }
        }
        if path != "/v1/experiments/{experiment_id}/scores" {
            let answer = server.get(&format!("{target}?{required}&not_a_parameter=1"));
            answer.refused(400, "unknown query parameter: not_a_parameter");
        }
    }
}
