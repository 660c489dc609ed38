//! Questions that would take too long.

use serde_json::{Value, json};

use crate::support::{Server, Setup};

fn fill(server: &Server) {
    for part in 0..5 {
        let spans: Value = (0..10_000)
            .map(|i| json!({"trace_id": "big", "span_id": format!("{part}-{i}"), "name": "n", "start_ns": i, "end_ns": i + 1, "service": "s", "attributes": {"session.id": "S", "k": format!("words and more words {i}")}}))
            .collect();
        server.ingest(&spans);
    }
    server.post("/v1/flush", "").expect(200);
}

#[test]
fn a_question_over_its_budget_is_a_400_that_says_so_and_an_export_has_none() {
    let server = Setup::new()
        .args(["--query-deadline-ms", "1", "--mcp"])
        .start();
    fill(&server);
    let targets = [
        "/v1/traces/big",
        "/v1/spans?q=words&limit=50000",
        "/v1/stats/slowest?q=words&limit=1000",
        "/v1/stats/duration?q=more",
    ];
    for target in targets {
        server.get(target).refused(400, "query deadline exceeded: ");
    }
    assert_eq!(server.metric("traza_query_deadline_exceeded_total"), 4);
    assert_eq!(
        server.json("/v1/metrics.json")["requests"]["deadline_exceeded"],
        4
    );
    let export = server.get("/v1/export").expect(200);
    assert_eq!(export.trailer("X-Traza-Export-Complete"), "true");
    assert_eq!(export.trailer("X-Traza-Export-Count"), "50000");
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "get_trace", "arguments": {"trace_id": "big", "max_spans": 2000}}});
    let answer = server.post_json("/v1/mcp", &message);
    assert_eq!(answer["result"]["isError"], true);
    let text = answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(text.contains("budget"), "{text}");
    assert!(text.to_lowercase().contains("narrow"), "{text}");
    assert_eq!(
        server.metric("traza_query_deadline_exceeded_total"),
        4,
        "agents are not counted here"
    );
    let setup = server.crash();
    // The same folder without a budget.
    let server = setup.args(["--query-deadline-ms", "0"]).start();
    for target in targets {
        server.get(target).expect(200);
    }
    assert_eq!(server.metric("traza_query_deadline_exceeded_total"), 0);
}
