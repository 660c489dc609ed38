//! What spans say of calls of models: sessions, tokens and cost.

use durable::{RealFs, publish};
use serde_json::{Value, json};

use crate::support::{Server, Setup, texts};

fn span(id: &str, start: u64, attributes: &Value) -> Value {
    json!({"trace_id": format!("t-{id}"), "span_id": id, "name": format!("op-{id}"), "start_ns": start, "end_ns": start + 10,
           "service": "bot", "attributes": attributes})
}

/// The row of a key.
fn row(server: &Server, target: &str, key: &str) -> Value {
    let rows = server.json(target)["rows"].clone();
    let rows = rows.as_array().unwrap();
    let found = rows.iter().find(|row| row["key"] == key);
    found.unwrap_or_else(|| panic!("{key} in {rows:?}")).clone()
}

#[test]
fn tokens_are_read_under_all_their_names_and_a_total_wins_over_a_sum() {
    let server = Server::start();
    server.ingest(&json!([
        span("a", 10, &json!({"gen_ai.request.model": "m", "gen_ai.provider.name": "p", "gen_ai.usage.input_tokens": 7, "gen_ai.usage.output_tokens": "5"})),
        span("b", 20, &json!({"gen_ai.response.model": "m", "gen_ai.system": "p", "gen_ai.usage.prompt_tokens": 1, "gen_ai.usage.completion_tokens": 2, "llm.usage.total_tokens": 100})),
        span("c", 30, &json!({"llm.model": "m", "llm.prompt_tokens": 10, "llm.completion_tokens": -3})),
        span("d", 40, &json!({"llm.request.type": "chat"})),
        span("e", 50, &json!({"traceloop.span.kind": "llm"})),
        span("f", 60, &json!({"traceloop.span.kind": "tool", "llm.cost_usd": 0.5})),
    ]));
    for flushed in [false, true] {
        if flushed {
            server.post("/v1/flush", "").expect(200);
        }
        let model = row(&server, "/v1/stats/llm", "m");
        assert_eq!(model["spans"], 3);
        assert_eq!(model["llm_calls"], 3);
        assert_eq!(model["prompt_tokens"], 18);
        assert_eq!(model["completion_tokens"], 7);
        assert_eq!(model["total_tokens"], 122);
        assert_eq!(model["llm_duration_ns"], 30);
        assert_eq!(model["cost_unpriced_calls"], 3);
        let provider = row(&server, "/v1/stats/llm?group_by=provider", "p");
        assert_eq!(
            provider["llm_calls"], 2,
            "the older name of the provider is the same"
        );
        let service = row(&server, "/v1/stats/llm?group_by=service", "bot");
        assert_eq!(service["spans"], 6);
        assert_eq!(service["llm_calls"], 5);
        assert_eq!(service["cost_metered_calls"], 1);
        assert_eq!(service["cost_usd"], 0.5);
        assert_eq!(
            row(&server, "/v1/stats/llm?group_by=day", "1970-01-01")["spans"],
            6
        );
        assert_eq!(
            row(&server, "/v1/stats/llm?group_by=service&since=45", "bot")["spans"],
            2
        );
    }
    server
        .get("/v1/stats/llm?group_by=colour")
        .refused(400, "group_by must be model|provider|service|session|day");
    assert_eq!(server.json("/v1/stats/llm?limit=0"), json!({"rows": []}));
}

#[test]
fn a_session_is_named_by_the_first_of_its_keys_that_is_there() {
    let server = Server::start();
    let mut failed = span(
        "d",
        40,
        &json!({"session.id": "S", "gen_ai.conversation.id": "other"}),
    );
    failed["status"] = json!("error");
    server.ingest(&json!([
        span("a", 10, &json!({"gen_ai.conversation.id": "S", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 3})),
        span("b", 20, &json!({"session.id": "S"})),
        span("c", 30, &json!({"traceloop.association.properties.chat_id": "C"})),
        failed,
        span("e", 50, &json!({"gen_ai.conversation.id": 42})),
        span("f", 60, &json!({"gen_ai.conversation.id": "42"})),
        span("g", 70, &json!({"session.id": "", "traceloop.association.properties.session_id": "T"})),
        span("h", 80, &json!({"session.id": true})),
    ]));
    for flushed in [false, true] {
        if flushed {
            server.post("/v1/flush", "").expect(200);
        }
        let sessions = server.json("/v1/sessions");
        let sessions = sessions["sessions"].as_array().unwrap();
        assert_eq!(texts(sessions, "session_id"), ["T", "42", "S", "C"]);
        assert_eq!(
            texts(sessions, "session_attribute"),
            [
                "traceloop.association.properties.session_id",
                "gen_ai.conversation.id",
                "session.id",
                "traceloop.association.properties.chat_id"
            ]
        );
        let whole = server.json("/v1/sessions/S");
        assert_eq!(whole["span_count"], 3);
        assert_eq!(whole["trace_count"], 3);
        assert_eq!(whole["error_count"], 1);
        assert_eq!(whole["first_start_ns"], 10);
        assert_eq!(whole["last_end_ns"], 50);
        assert_eq!(
            texts(whole["traces"].as_array().unwrap(), "trace_id"),
            ["t-a", "t-b", "t-d"]
        );
        assert_eq!(whole["traces"][0]["root_name"], "op-a");
        assert_eq!(whole["traces"][0]["total_tokens"], 3);
        assert_eq!(whole.get("tenant"), None);
        assert_eq!(server.ids("/v1/spans?session=S"), ["a", "b", "d"]);
        assert_eq!(server.ids("/v1/spans?attr.session.id=S"), ["b", "d"]);
        assert_eq!(server.ids("/v1/spans?session=S&status=error"), ["d"]);
        assert_eq!(server.ids("/v1/spans?session=42"), ["e", "f"]);
        assert_eq!(server.json("/v1/sessions/42")["span_count"], 2);
        assert_eq!(
            server.json("/v1/sessions?since=25&until=45&limit=1")["sessions"][0]["span_count"],
            1
        );
        assert_eq!(
            row(&server, "/v1/stats/llm?group_by=session", "S")["llm_calls"],
            1
        );
    }
    server
        .get("/v1/sessions/none")
        .refused(404, "session not found");
    server
        .get("/v1/sessions/other")
        .refused(404, "session not found");
    server
        .get("/v1/sessions?group_by=x")
        .refused(400, "group_by is not a /v1/sessions parameter");
    server
        .get("/v1/sessions?x=1")
        .refused(400, "unknown query parameter: x");
}

#[test]
fn cost_comes_from_the_span_or_from_the_price_list_and_says_which() {
    let setup = Setup::new();
    let list = r#"{"models": {"m": {"input_per_mtok": 2, "output_per_mtok": 10, "note": 1}, "free": {"input_per_mtok": 0, "output_per_mtok": 0},
        "fam-*": {"input_per_mtok": 1, "output_per_mtok": 1}, "fam-big-*": {"input_per_mtok": 100, "output_per_mtok": 100}}}"#;
    publish(&RealFs, &setup.path("prices.json"), list.as_bytes()).unwrap();
    let server = setup.args(["--pricing", "prices.json"]).start();
    let call = |id: &str, model: &str, more: &Value| {
        let mut attributes = json!({"gen_ai.request.model": model, "gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 500_000});
        for (name, value) in more.as_object().unwrap() {
            attributes[name] = value.clone();
        }
        span(id, 1, &attributes)
    };
    server.ingest(&json!([
        call("a", "m", &json!({})),
        call("b", "m", &json!({"llm.cost_usd": "0.25"})),
        call("c", "m", &json!({"gen_ai.usage.output_tokens": null})),
        call("d", "free", &json!({})),
        call("e", "fam-small", &json!({})),
        call("f", "fam-big-1", &json!({})),
        call("g", "unknown", &json!({})),
    ]));
    for flushed in [false, true] {
        if flushed {
            server.post("/v1/flush", "").expect(200);
        }
        let m = row(&server, "/v1/stats/llm", "m");
        assert_eq!(m["cost_usd"], 7.25);
        assert_eq!(m["cost_derived_usd"], 7.0);
        assert_eq!(m["cost_metered_calls"], 1);
        assert_eq!(m["cost_derived_calls"], 1);
        assert_eq!(m["cost_unpriced_calls"], 1);
        let free = row(&server, "/v1/stats/llm", "free");
        assert_eq!(
            (&free["cost_usd"], &free["cost_derived_calls"]),
            (&json!(0.0), &json!(1))
        );
        assert_eq!(row(&server, "/v1/stats/llm", "fam-small")["cost_usd"], 1.5);
        assert_eq!(
            row(&server, "/v1/stats/llm", "fam-big-1")["cost_usd"],
            150.0
        );
        assert_eq!(
            row(&server, "/v1/stats/llm", "unknown")["cost_unpriced_calls"],
            1
        );
        let keys = server.json("/v1/stats/llm")["rows"].clone();
        assert_eq!(
            texts(keys.as_array().unwrap(), "key"),
            ["fam-big-1", "m", "fam-small", "free", "unknown"]
        );
    }
    let text = server.get("/v1/stats/llm").text();
    assert!(text.contains("\"cost_usd\":0.0"), "{text}");
    // Other prices hold for what is there already.
    let setup = server.crash();
    let list = r#"{"models": {"*": {"input_per_mtok": 1, "output_per_mtok": 0}}}"#;
    publish(&RealFs, &setup.path("prices.json"), list.as_bytes()).unwrap();
    let server = setup.start();
    assert_eq!(row(&server, "/v1/stats/llm", "unknown")["cost_usd"], 1.0);
    assert_eq!(row(&server, "/v1/stats/llm", "m")["cost_usd"], 1.25);
}

#[test]
fn a_price_list_that_is_wrong_keeps_the_server_from_starting_and_names_the_model() {
    for (list, words) in [
        ("nonsense", "prices.json"),
        ("{}", "models"),
        (r#"{"models": 7}"#, "models"),
        (r#"{"models": {"gpt": 7}}"#, "gpt"),
        (r#"{"models": {"gpt": {"input_per_mtok": 1}}}"#, "gpt"),
        (
            r#"{"models": {"gpt": {"input_per_mtok": -1, "output_per_mtok": 1}}}"#,
            "gpt",
        ),
        (
            r#"{"models": {"gpt": {"input_per_mtok": "1", "output_per_mtok": 1}}}"#,
            "gpt",
        ),
    ] {
        let setup = Setup::new();
        publish(&RealFs, &setup.path("prices.json"), list.as_bytes()).unwrap();
        let ran = setup.run(&["--port", "0", "--pricing", "prices.json"]);
        assert_eq!(ran.code, Some(1), "{list} {ran:?}");
        assert!(ran.err.contains(words), "{list} {ran:?}");
    }
    let ran = Setup::new().run(&["--port", "0", "--pricing", "absent.json"]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.err.contains("absent.json"), "{ran:?}");
}

#[test]
fn counters_at_the_end_of_their_range_stay_there() {
    let server = Server::start();
    let most = json!({"gen_ai.request.model": "m", "session.id": "S", "gen_ai.usage.input_tokens": u64::MAX, "gen_ai.usage.output_tokens": 9, "llm.cost_usd": 1e308});
    server.ingest(&json!([span("a", 1, &most), span("b", 2, &most)]));
    for flushed in [false, true] {
        if flushed {
            server.post("/v1/flush", "").expect(200);
        }
        for found in [
            row(&server, "/v1/stats/llm", "m"),
            server.json("/v1/sessions/S"),
        ] {
            assert_eq!(found["prompt_tokens"], u64::MAX);
            assert_eq!(found["total_tokens"], u64::MAX);
            assert_eq!(found["cost_usd"], f64::MAX);
        }
    }
}
