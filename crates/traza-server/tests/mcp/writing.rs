//! The two tools that change the store.

use serde_json::{Value, json};
use traza::store::AnnotationFilter;

use crate::support::{NOW, Server, furnished, span, with};

#[test]
fn a_judgment_is_signed_by_the_agent_and_shows_in_the_trace() {
    let server = Server::new(&furnished());
    let text = server.text(
        "record_annotation",
        json!({"trace_id": "t1", "name": "loop", "value": {"seen": true}, "comment": "twice"}),
    );
    assert!(text.contains("agent:mcp"));
    server.text(
        "record_annotation",
        json!({"trace_id": "t1", "span_id": "root", "name": "quality", "value": null}),
    );
    let found = server.store.annotations(&AnnotationFilter::default());
    assert_eq!(found.len(), 2);
    let judgment = found.iter().find(|found| found.name == "loop").unwrap();
    assert_eq!(
        (judgment.source.as_str(), judgment.timestamp_ns),
        ("agent:mcp", NOW)
    );
    assert_eq!(judgment.value.to_string(), r#"{"seen":true}"#);
    let trace = server.text("get_trace", json!({"trace_id": "t1"}));
    assert!(
        trace.contains("[annotation] loop = {\"seen\":true} by agent:mcp — twice"),
        "{trace}"
    );
    assert!(trace.contains("[annotation] quality = null by agent:mcp on span=root"));
}

#[test]
fn nobody_can_sign_as_another() {
    let server = Server::new(&furnished());
    let arguments = json!({"trace_id": "t1", "name": "q", "value": 1, "source": "human:ann"});
    assert!(
        server
            .failure("record_annotation", arguments)
            .contains("cannot be set")
    );
    for arguments in [
        json!({"trace_id": "", "name": "q", "value": 1}),
        json!({"trace_id": "t1", "name": "", "value": 1}),
        json!({"trace_id": "t1", "name": "q"}),
        json!({"name": "q", "value": 1}),
    ] {
        server.failure("record_annotation", arguments);
    }
    assert!(
        server
            .store
            .annotations(&AnnotationFilter::default())
            .is_empty()
    );
}

fn promote(server: &Server, session: &str) -> Value {
    server.call(
        "promote_failures_to_dataset",
        json!({"session_id": session, "dataset": "D"}),
    )
}

#[test]
fn promoting_the_same_session_again_changes_nothing() {
    let server = Server::new(&furnished());
    let first = promote(&server, "S1")["structuredContent"].clone();
    assert_eq!(
        (&first["dataset_id"], &first["examples"], &first["created"]),
        (&json!(1), &json!(10), &json!(true))
    );
    server.clock.advance(1_000);
    let second = promote(&server, "S1")["structuredContent"].clone();
    assert_eq!(second["created"], false);
    assert_eq!(
        (&second["version_id"], &second["dataset_id"]),
        (&first["version_id"], &first["dataset_id"])
    );
    server.store.read_evals(|evals| {
        assert_eq!(evals.datasets().count(), 1);
        let versions = evals.versions(1);
        assert_eq!(versions.len(), 1);
        for (id, digest) in &versions[0].examples {
            assert!(id.starts_with("span-"));
            let body = evals.example(digest).unwrap();
            assert_eq!(body.split, "regression");
            assert_eq!(body.provenance.as_ref().unwrap().trace_id, "t1");
        }
    });
}

#[test]
fn a_session_without_a_fault_has_nothing_to_promote() {
    let server = Server::new(&furnished());
    for session in ["S2", "nope"] {
        let result = promote(&server, session);
        assert_eq!(result["isError"], true);
    }
    server
        .store
        .read_evals(|evals| assert_eq!(evals.datasets().count(), 0));
}

#[test]
fn promotion_stays_within_the_tenant_of_its_caller() {
    let failed = |tenant: &str, id: &str| {
        let failed = with(
            span("t", id, 0, json!({"session.id": "S"})),
            json!({"status": "error"}),
        );
        if tenant.is_empty() {
            failed
        } else {
            with(failed, json!({"$tenant": tenant}))
        }
    };
    let mut server = Server::new(&[failed("", "a"), failed("acme", "b"), failed("acme", "c")]);
    let operator = promote(&server, "S");
    assert_eq!(operator["structuredContent"]["examples"], 1);
    server.tenant = Some("acme");
    let bound = promote(&server, "S");
    assert_eq!(bound["structuredContent"]["dataset_id"], 2);
    server.store.read_evals(|evals| {
        let tenants: Vec<&str> = evals
            .datasets()
            .map(|dataset| dataset.tenant.as_str())
            .collect();
        assert_eq!(tenants, ["", "acme"]);
        let (_, digest) = &evals.versions(1)[0].examples[0];
        assert_eq!(
            evals
                .example(digest)
                .unwrap()
                .provenance
                .as_ref()
                .unwrap()
                .span_id,
            "a"
        );
    });
}
