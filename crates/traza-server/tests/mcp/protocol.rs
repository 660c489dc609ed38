//! Messages of JSON-RPC, and what a client asks before it calls a tool.

use serde_json::{Value, json};
use traza_server::mcp::Reply;

use crate::support::{Server, furnished};

fn answer(reply: Reply) -> Value {
    match reply {
        Reply::Answer(answer) => serde_json::from_str(&answer).unwrap(),
        other => panic!("no answer: {other:?}"),
    }
}

fn malformed(reply: Reply) -> Value {
    match reply {
        Reply::Malformed(answer) => serde_json::from_str(&answer).unwrap(),
        other => panic!("not malformed: {other:?}"),
    }
}

#[test]
fn broken_json_carries_the_code_of_a_parse_error() {
    let server = Server::new(&[]);
    let deep = "[".repeat(10_000);
    for message in ["", "{", "{\"jsonrpc\":\"2.0\",}", "\u{feff}{}", &deep] {
        let answer = malformed(server.send(message.as_bytes()));
        assert_eq!(answer["error"]["code"], -32_700, "{message:.40}");
        assert_eq!(answer["id"], Value::Null);
    }
    assert_eq!(malformed(server.send(b"\xff"))["error"]["code"], -32_700);
}

#[test]
fn a_batch_is_malformed() {
    let server = Server::new(&[]);
    for message in ["[]", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#] {
        let answer = malformed(server.send(message.as_bytes()));
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(-32_600), &Value::Null)
        );
    }
}

#[test]
fn what_is_no_message_is_an_invalid_request() {
    let server = Server::new(&[]);
    for (message, id) in [
        ("1", json!(null)),
        ("\"x\"", json!(null)),
        ("null", json!(null)),
        (r#"{"id":1,"method":"ping"}"#, json!(1)),
        (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, json!("a")),
        (r#"{"jsonrpc":2.0,"method":"ping"}"#, json!(null)),
        (r#"{"jsonrpc":"2.0","id":1,"method":3}"#, json!(1)),
    ] {
        let answer = answer(server.send(message.as_bytes()));
        assert_eq!(
            (&answer["error"]["code"], &answer["id"]),
            (&json!(-32_600), &id),
            "{message}"
        );
    }
}

#[test]
fn notifications_and_responses_get_no_answer() {
    let server = Server::new(&[]);
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
    ] {
        assert_eq!(
            server.send(message.to_string().as_bytes()),
            Reply::Accepted,
            "{message}"
        );
    }
}

#[test]
fn the_id_of_a_request_comes_back_as_it_is() {
    let server = Server::new(&[]);
    for id in [json!(0), json!("a\"b"), json!(u64::MAX), json!(-1)] {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
        let answer = answer(server.send(message.to_string().as_bytes()));
        assert_eq!(answer, json!({"jsonrpc": "2.0", "id": id, "result": {}}));
    }
}

#[test]
fn unknown_methods_tools_and_prompts_are_errors_of_the_protocol() {
    let server = Server::new(&[]);
    assert_eq!(server.error("tools/fly", json!({}))["code"], -32_601);
    for params in [
        json!({}),
        json!({"name": "nope"}),
        json!({"name": 3}),
        json!({"name": "get_trace", "arguments": [1]}),
    ] {
        assert_eq!(server.error("tools/call", params)["code"], -32_602);
    }
    for params in [json!({}), json!({"name": "nope"})] {
        assert_eq!(server.error("prompts/get", params)["code"], -32_602);
    }
}

#[test]
fn initialize_echoes_a_served_version_and_names_describe_store() {
    let server = Server::new(&[]);
    for (asked, answered) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
    ] {
        let result = server.result("initialize", json!({"protocolVersion": asked}));
        assert_eq!(result["protocolVersion"], answered);
    }
    let result = server.result("initialize", json!({}));
    assert_eq!(result["protocolVersion"], "2025-11-25");
    assert_eq!(
        result["capabilities"],
        json!({"tools": {}, "resources": {}, "prompts": {}})
    );
    assert_eq!(
        (
            &result["serverInfo"]["name"],
            &result["serverInfo"]["version"]
        ),
        (&json!("traza"), &json!("1.2.3"))
    );
    assert!(
        result["serverInfo"]["title"].is_string()
            && result["serverInfo"]["description"].is_string()
    );
    assert!(
        result["instructions"]
            .as_str()
            .unwrap()
            .contains("describe_store")
    );
}

fn tools(server: &Server) -> Vec<Value> {
    server.result("tools/list", json!({}))["tools"]
        .as_array()
        .unwrap()
        .clone()
}

#[test]
fn every_tool_says_what_it_takes_and_whether_it_changes_anything() {
    let tools = tools(&Server::new(&[]));
    let names: Vec<&str> = tools
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "describe_store",
            "search_spans",
            "get_trace",
            "list_sessions",
            "get_session",
            "diagnose_session",
            "top_failures",
            "slowest_spans",
            "analyze_cost",
            "get_payload",
            "record_annotation",
            "promote_failures_to_dataset"
        ]
    );
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        assert!(tool["title"].is_string() && tool["description"].is_string());
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false);
        let is_writer = ["record_annotation", "promote_failures_to_dataset"].contains(&name);
        let expected = if is_writer {
            json!({"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false})
        } else {
            json!({"readOnlyHint": true, "openWorldHint": false})
        };
        assert_eq!(tool["annotations"], expected, "{name}");
        let is_structured = ["list_sessions", "diagnose_session", "analyze_cost"].contains(&name);
        assert_eq!(tool.get("outputSchema").is_some(), is_structured, "{name}");
    }
}

#[test]
fn a_tool_accepts_exactly_the_arguments_of_its_schema() {
    let server = Server::new(&furnished());
    // These three take what they do not know.
    let lenient = ["describe_store", "get_trace", "get_session"];
    for tool in tools(&server) {
        let name = tool["name"].as_str().unwrap();
        if lenient.contains(&name) {
            continue;
        }
        let text = server.failure(name, json!({"no_such_argument": 1}));
        let accepted = text
            .split("Accepted: ")
            .nth(1)
            .unwrap()
            .trim_end_matches('.');
        let mut accepted: Vec<&str> = accepted.split(", ").collect();
        accepted.sort_unstable();
        let properties: Vec<&String> = tool["inputSchema"]["properties"]
            .as_object()
            .unwrap()
            .keys()
            .collect();
        assert_eq!(accepted, properties, "{name}");
    }
    assert!(
        server
            .text("describe_store", json!({"x": 1}))
            .contains("Traza 1.2.3")
    );
    assert!(
        server
            .text("get_trace", json!({"trace_id": "t1", "x": 1}))
            .contains("fetch")
    );
}
