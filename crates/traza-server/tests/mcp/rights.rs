//! Who may call what, and sees which spans.

use serde_json::{Value, json};

use crate::support::{Server, furnished, span, with};

fn names(server: &Server) -> Vec<String> {
    let tools = server.result("tools/list", json!({}));
    let tools = tools["tools"].as_array().unwrap().iter();
    tools
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_tool_that_writes_is_listed_only_for_those_who_can_call_it() {
    let mut server = Server::new(&furnished());
    let annotate = json!({"name": "record_annotation", "arguments": {"trace_id": "t1", "name": "q", "value": 1}});
    let promote = json!({"name": "promote_failures_to_dataset", "arguments": {"session_id": "S1", "dataset": "D"}});
    server.may_write = false;
    assert_eq!(names(&server).len(), 10);
    for params in [&annotate, &promote] {
        let error = server.error("tools/call", params.clone());
        assert_eq!(error["code"], -32_602);
        assert!(error["message"].as_str().unwrap().contains("rw scope"));
    }
    server.may_write = true;
    server.options.annotations = false;
    server.options.promote = false;
    assert_eq!(names(&server).len(), 10);
    for (params, flag) in [(annotate, "--mcp-annotations"), (promote, "--mcp-promote")] {
        let error = server.error("tools/call", params);
        assert_eq!(error["code"], -32_602);
        assert!(error["message"].as_str().unwrap().contains(flag));
    }
    server.options.annotations = true;
    assert!(names(&server).contains(&"record_annotation".to_owned()));
}

/// One session and one trace of two tenants.
fn shared() -> Server {
    let payload = "p".repeat(300);
    let mine = with(
        span(
            "t",
            "mine",
            0,
            json!({"session.id": "S", "llm.cost_usd": 1.0, "who": "MINE"}),
        ),
        json!({"$tenant": "acme", "service": "acme-service"}),
    );
    let theirs = with(
        span(
            "t",
            "theirs",
            0,
            json!({"session.id": "S", "llm.cost_usd": 9.0, "who": "THEIRS", "big": payload}),
        ),
        json!({"$tenant": "other", "status": "error", "service": "THEIRS-service"}),
    );
    Server::with_options(&[mine, theirs], |options| {
        options.payload_threshold = Some(200);
    })
}

#[test]
fn a_bound_caller_sees_its_own_tenant_in_every_tool() {
    let mut server = shared();
    server.tenant = Some("acme");
    let calls = [
        ("describe_store", json!({})),
        ("search_spans", json!({"include_content": true})),
        (
            "get_trace",
            json!({"trace_id": "t", "include_content": true}),
        ),
        ("list_sessions", json!({})),
        ("get_session", json!({"session_id": "S"})),
        ("diagnose_session", json!({"session_id": "S"})),
        ("top_failures", json!({})),
        ("slowest_spans", json!({"include_content": true})),
        ("analyze_cost", json!({"group_by": "service"})),
        ("search_spans", json!({"service": "nope"})),
    ];
    for (tool, arguments) in calls {
        let result = server.call(tool, arguments).to_string();
        assert!(
            !result.contains("THEIRS") && !result.contains("theirs") && !result.contains("9.0"),
            "{tool}: {result}"
        );
    }
    let text = server.text("describe_store", json!({}));
    assert!(text.contains("1 span in 1 trace") && text.contains("acme-service"));
    for uri in [
        "traza://store/overview",
        "traza://store/services",
        "traza://store/models",
        "traza://trace/t",
        "traza://session/S",
    ] {
        let result = server
            .result("resources/read", json!({"uri": uri}))
            .to_string();
        assert!(
            !result.contains("THEIRS") && !result.contains("theirs"),
            "{uri}: {result}"
        );
    }
}

#[test]
fn an_operator_sees_all_tenants_with_their_names() {
    let text = shared().text("search_spans", json!({}));
    assert!(
        text.contains("span=mine tenant=acme") && text.contains("span=theirs tenant=other"),
        "{text}"
    );
}

#[test]
fn an_empty_tenant_is_told_that_there_are_no_spans_whatever_others_have() {
    let mut server = shared();
    server.tenant = Some("nobody");
    let text = server.text("describe_store", json!({}));
    assert!(
        text.contains("No spans yet") && text.contains("0 spans in 0 traces"),
        "{text}"
    );
    assert!(
        server
            .failure("get_trace", json!({"trace_id": "t"}))
            .contains("no trace")
    );
}

#[test]
fn a_bound_caller_reads_only_payloads_that_its_own_spans_refer_to() {
    let mut server = shared();
    let reference = traza::payload::ContentAddress::of("p".repeat(300).as_bytes()).to_string();
    let call = json!({"reference": reference});
    server.tenant = Some("acme");
    let foreign = server.failure("get_payload", call.clone());
    let absent = server.failure(
        "get_payload",
        json!({"reference": format!("sha256/{}", "0".repeat(64))}),
    );
    assert_eq!(foreign, absent);
    server.tenant = Some("other");
    assert!(server.text("get_payload", call.clone()).contains("ppp"));
    server.tenant = None;
    assert!(server.text("get_payload", call).contains("ppp"));
}

#[test]
fn a_judgment_belongs_to_the_tenant_of_its_caller() {
    let mut server = shared();
    server.tenant = Some("acme");
    server.text(
        "record_annotation",
        json!({"trace_id": "t", "name": "q", "value": Value::Null}),
    );
    let found = server.store.trace_annotations("t", None);
    assert_eq!(found[0].tenant, "acme");
    server.tenant = Some("other");
    assert!(
        !server
            .text("get_trace", json!({"trace_id": "t"}))
            .contains("[annotation]")
    );
}
