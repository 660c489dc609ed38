//! The tools that only read.

use std::sync::Arc;
use std::time::Duration;

use durable::ManualClock;
use serde_json::{Value, json};
use traza::llm::Pricing;
use traza::span::Span;

use crate::support::{NOW, SECOND, START, Server, furnished, span, text_of, with};

#[test]
fn describe_store_states_size_days_and_names() {
    let text = Server::new(&furnished()).text("describe_store", json!({}));
    for part in [
        "Traza 1.2.3: 14 records in 0 segments",
        "durability=wal",
        "2027-01-15 to 2027-01-15 (1 day with data)",
        "Services (2): bot 13 spans · brain 1 span",
        "Models (1): gpt-4o 6 calls",
        "Providers (1): openai 6 calls",
        "Sessions: 2, named by session.id",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let empty = Server::new(&[]).text("describe_store", json!({}));
    assert!(
        empty.contains("No spans yet") && !empty.contains("telemetry"),
        "{empty}"
    );
}

#[test]
fn a_search_finds_what_meets_all_conditions() {
    let server = Server::new(&furnished());
    let count = |arguments: Value| {
        let text = server.text("search_spans", arguments);
        text.lines()
            .filter(|line| line.contains("  trace="))
            .count()
    };
    assert_eq!(count(json!({})), 14);
    assert_eq!(count(json!({"service": "brain"})), 1);
    assert_eq!(count(json!({"status": "error"})), 7);
    assert_eq!(count(json!({"exclude_status": ["error"]})), 7);
    assert_eq!(
        count(json!({"name": "chat", "attributes": {"gen_ai.usage.input_tokens": "2000"}})),
        1
    );
    assert_eq!(
        count(json!({"name": "fetch", "exclude_attributes": {"n": 3}})),
        5
    );
    assert_eq!(count(json!({"content": "Refund booking"})), 6);
    assert_eq!(count(json!({"session": "S2"})), 1);
    assert_eq!(count(json!({"min_duration_ms": 1000.5})), 1);
    assert_eq!(count(json!({"max_duration_ms": 1000})), 13);
    assert_eq!(
        count(json!({"since": "1h", "until": START + 3 * SECOND})),
        4
    );
    assert_eq!(count(json!({"since": "2027-01-15T07:00:50Z"})), 1);
    assert_eq!(count(json!({"limit": 3})), 3);
    assert_eq!(count(json!({"limit": 0})), 1);
    assert_eq!(count(json!({"limit": 100_000, "service": null})), 14);
}

#[test]
fn a_full_page_carries_a_cursor_and_the_next_page_goes_on_there() {
    let server = Server::new(&furnished());
    let mut seen = Vec::new();
    let mut arguments = json!({"limit": 4});
    loop {
        let text = server.text("search_spans", arguments);
        seen.extend(
            text.lines()
                .filter_map(|line| Some(line.split("span=").nth(1)?.to_owned())),
        );
        let Some(cursor) = text.split("Cursor: ").nth(1) else {
            break;
        };
        arguments = json!({"limit": 4, "cursor": cursor.lines().next()});
    }
    let whole = server.text("search_spans", json!({"limit": 100}));
    let expected: Vec<&str> = whole
        .lines()
        .filter_map(|line| line.split("span=").nth(1))
        .collect();
    assert_eq!(seen, expected);
    assert_eq!(seen.len(), 14);
    assert!(whole.contains("Engine time") && whole.contains("0 segments examined"));
}

#[test]
fn an_order_that_cannot_be_gone_on_with_has_no_cursor() {
    let server = Server::new(&furnished());
    let text = server.text("search_spans", json!({"sort": "-duration", "limit": 2}));
    assert!(
        text.contains("1  2027-01-15T07:00:00.000Z  error  bot  agent  1m 40s  trace=t1 span=root"),
        "{text}"
    );
    assert!(!text.contains("Cursor:") && text.contains("no next page"));
    assert!(
        server
            .text("search_spans", json!({"sort": "start", "limit": 2}))
            .contains("Cursor:")
    );
}

#[test]
fn content_is_shown_only_when_asked_for_and_then_bounded() {
    let many: serde_json::Map<String, Value> = (0..30)
        .map(|n| (format!("key{n:02}"), json!("x".repeat(500))))
        .collect();
    let events: Vec<Value> = (0..9)
        .map(|n| json!({"name": format!("event{n}"), "timestamp_ns": START}))
        .collect();
    let server = Server::new(&[with(
        span("t", "s", 0, Value::Object(many)),
        json!({"events": events}),
    )]);
    let without = server.text("search_spans", json!({}));
    assert!(!without.contains("key00") && without.contains("include_content"));
    let text = server.text("search_spans", json!({"include_content": true}));
    assert!(text.contains("key11 = ") && !text.contains("key12"));
    assert!(text.contains("18 more attributes") && text.contains("5 more events"));
    assert!(text.contains("event3") && !text.contains("event4"));
    assert!(text.contains(&"x".repeat(200)) && !text.contains(&"x".repeat(201)));
    assert!(text.contains("(500 characters in all)"));
}

#[test]
fn an_empty_search_says_what_may_be_wrong() {
    let server = Server::new(&furnished());
    let unknown = server.text("search_spans", json!({"service": "bott"}));
    assert!(
        unknown.contains("does not exist")
            && unknown.contains("bot  (13 spans)")
            && unknown.contains("brain")
    );
    for tool in ["search_spans", "top_failures", "slowest_spans"] {
        assert!(
            server
                .text(tool, json!({"content": "日本"}))
                .contains("ASCII")
        );
        assert!(
            server
                .text(tool, json!({"content": "refunds"}))
                .contains("hole words")
        );
        assert!(
            server
                .text(tool, json!({"name": "nope"}))
                .contains("describe_store")
        );
    }
}

#[test]
fn wrong_arguments_are_answered_by_the_tool_with_what_is_right() {
    let server = Server::new(&furnished());
    for (tool, arguments, part) in [
        ("search_spans", json!({"limit": "x"}), "limit must be"),
        (
            "search_spans",
            json!({"include_content": "yes"}),
            "true or false",
        ),
        (
            "search_spans",
            json!({"exclude_status": "a"}),
            "array of strings",
        ),
        ("search_spans", json!({"attributes": [1]}), "object"),
        (
            "search_spans",
            json!({"min_duration_ms": -1}),
            "milliseconds",
        ),
        (
            "search_spans",
            json!({"sort": "x"}),
            "duration, -duration, start, -start",
        ),
        (
            "search_spans",
            json!({"cursor": "x"}),
            "not a token this server issued",
        ),
        ("search_spans", json!({"service": 5}), "must be a string"),
        ("search_spans", json!({"since": 5}), "nanoseconds"),
        (
            "list_sessions",
            json!({"since": "1h", "until": "2h"}),
            "before 'since'",
        ),
        (
            "list_sessions",
            json!({"order_by": "x"}),
            "recent, cost, errors, tokens",
        ),
        (
            "analyze_cost",
            json!({"group_by": "x"}),
            "model, provider, service, session, day",
        ),
        ("get_trace", json!({}), "trace_id is required"),
        ("get_trace", json!({"trace_id": 5}), "must be a string"),
        ("get_trace", json!({"trace_id": "nope"}), "no trace"),
        ("get_session", json!({"session_id": "nope"}), "no session"),
        (
            "diagnose_session",
            json!({"session_id": "nope"}),
            "no session",
        ),
        (
            "get_payload",
            json!({"reference": "sha256/00"}),
            "no payload",
        ),
    ] {
        let text = server.failure(tool, arguments);
        assert!(text.contains(part), "{tool}: {text}");
    }
}

#[test]
fn a_trace_is_a_tree_and_loses_its_deepest_spans_first() {
    let mut spans = furnished();
    let leaf = with(
        span("t1", "leaf", 2, json!({})),
        json!({"name": "leaf", "parent_span_id": "fetch1"}),
    );
    let orphan = with(
        span("t1", "orphan", 3, json!({})),
        json!({"name": "orphan", "parent_span_id": "gone"}),
    );
    spans.extend([leaf, orphan]);
    let server = Server::new(&spans);
    let text = server.text("get_trace", json!({"trace_id": "t1"}));
    assert!(
        text.contains("15 spans, 1m 40s, 7 errors, 63,030 tokens, $0.0738"),
        "{text}"
    );
    assert!(text.contains("trace=t1  session=S1"));
    assert!(text.contains("\nagent  [error]  1m 40s  bot  span=root"));
    assert!(text.contains("\n  fetch  [error]  1.00s  bot  span=fetch1\n    leaf"));
    assert!(text.contains("\norphan  [unset]"));
    assert!(text.contains("gpt-4o  1,005 tok  $0.0123  span=chat0"));
    let cut = server.text("get_trace", json!({"trace_id": "t1", "max_spans": 14}));
    assert!(
        cut.contains("14 of 15 spans shown") && !cut.contains("leaf") && cut.contains("orphan")
    );
    let content = server.text(
        "get_trace",
        json!({"trace_id": "t1", "include_content": true}),
    );
    assert!(content.contains("prompt = refund the booking"));
}

#[test]
fn sessions_are_ranked_over_all_of_them_before_they_are_cut() {
    let server = Server::new(&furnished());
    let first = |order: &str| {
        let result = server.call("list_sessions", json!({"order_by": order, "limit": 1}));
        result["structuredContent"]["sessions"]
            .as_array()
            .unwrap()
            .clone()
    };
    for (order, id) in [
        ("recent", "S1"),
        ("cost", "S1"),
        ("errors", "S1"),
        ("tokens", "S1"),
    ] {
        assert_eq!(first(order)[0]["session_id"], id, "{order}");
        assert_eq!(first(order).len(), 1);
    }
    let all = server.call("list_sessions", json!({}));
    let row = &all["structuredContent"]["sessions"][0];
    assert_eq!(
        *row,
        json!({
            "session_id": "S1", "session_attribute": "session.id",
            "first_start_ns": START, "last_end_ns": START + 100 * SECOND,
            "trace_count": 1, "span_count": 13, "llm_calls": 6, "total_tokens": 63_030,
            "cost_usd": row["cost_usd"], "cost_derived_usd": 0.0, "cost_metered_calls": 6,
            "cost_derived_calls": 0, "cost_unpriced_calls": 0, "error_count": 7,
        })
    );
    assert!((row["cost_usd"].as_f64().unwrap() - 0.0738).abs() < 1e-9);
    assert!(
        text_of(&all)
            .contains("1  S1  1 trace · 13 spans · 6 LLM calls · 63,030 tok · $0.0738 · 7 errors")
    );
    let none = server.call("list_sessions", json!({"since": "1m"}));
    assert_eq!(none["structuredContent"], json!({"sessions": []}));
}

#[test]
fn a_session_lists_its_traces() {
    let text = Server::new(&furnished()).text("get_session", json!({"session_id": "S1"}));
    assert!(
        text.contains("1 trace, 13 spans, 6 LLM calls, 63,030 tokens, $0.0738, 7 errors"),
        "{text}"
    );
    assert!(text.contains("agent  13 spans") && text.contains("trace=t1"));
}

#[test]
fn a_diagnosis_has_both_halves() {
    let server = Server::new(&furnished());
    let result = server.call("diagnose_session", json!({"session_id": "S1"}));
    let told = &result["structuredContent"];
    assert_eq!(
        told["outcome"],
        json!({"outcome": "failure", "source": "derived", "reason": "last_span_failed", "error_count": 7, "span_count": 13})
    );
    let cause = &told["cause"];
    assert_eq!(
        cause["span"],
        json!({"trace_id": "t1", "span_id": "fetch0"})
    );
    assert_eq!(
        (&cause["rule"], &cause["confidence"]),
        (&json!("repeated_fault"), &json!("structural"))
    );
    let shapes: Vec<&Value> = told["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| &found["shape"])
        .collect();
    assert_eq!(shapes, ["context_runaway", "retry_storm"]);
    assert_eq!(told["findings"][0]["context_last"], 32_000);
    assert_eq!(
        (&told["findings_found"], &told["findings_reported"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(
        (&told["examined"], &told["truncated"]),
        (&json!(13), &json!(false))
    );
    let text = text_of(&result);
    assert!(
        text.contains("Failed: the last span") && text.contains("retry storm: fetch ×6 in bot"),
        "{text}"
    );

    let some = server.call(
        "diagnose_session",
        json!({"session_id": "S1", "max_spans": 3}),
    );
    let told = &some["structuredContent"];
    assert_eq!(
        (&told["examined"], &told["truncated"]),
        (&json!(3), &json!(true))
    );
    assert_eq!(told["outcome"]["span_count"], 13);

    let well = server.call("diagnose_session", json!({"session_id": "S2"}));
    assert_eq!(well["structuredContent"]["outcome"]["declared"], "success");
    assert_eq!(well["structuredContent"]["cause"], Value::Null);
}

#[test]
fn failures_are_grouped_with_shares_of_the_total() {
    let server = Server::new(&furnished());
    let text = server.text("top_failures", json!({"limit": 1}));
    assert!(
        text.contains("7 spans in 2 groups")
            && text.contains("6 (85.7%)  bot / fetch  status=error"),
        "{text}"
    );
    assert!(text.contains("trace=t1 span=fetch5") && text.contains("1 smaller group left out"));
    assert!(
        server
            .text("top_failures", json!({"include_content": true}))
            .contains("n = 5")
    );
}

#[test]
fn slowest_spans_begin_with_the_longest() {
    let text = Server::new(&furnished()).text("slowest_spans", json!({"limit": 2}));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("span=")).collect();
    assert_eq!(rows.len(), 2);
    assert!(rows[0].contains("agent  1m 40s"));
}

#[test]
fn cost_is_added_up_by_group_and_over_time() {
    let server = Server::new(&furnished());
    let result = server.call(
        "analyze_cost",
        json!({"since": "2h", "until": "now", "over_time": true}),
    );
    let told = &result["structuredContent"];
    assert_eq!(told["group_by"], "model");
    let row = &told["rows"][0];
    assert_eq!(
        (&row["key"], &row["llm_calls"], &row["prompt_tokens"]),
        (&json!("gpt-4o"), &json!(6), &json!(63_000))
    );
    assert!(row.get("llm_duration_ns").is_none());
    let series = told["series"].as_array().unwrap();
    assert_eq!(series.len(), 24);
    assert_eq!(
        series
            .iter()
            .map(|bucket| bucket["spans"].as_u64().unwrap())
            .sum::<u64>(),
        14
    );
    assert_eq!(series[0]["start_ns"], NOW - 7_200 * SECOND);
    assert!(text_of(&result).contains(
        "1  gpt-4o  $0.0738  63,030 tok (in 63,000 / out 30)  6 calls  0 errors  mean 1.00s"
    ));

    let without = server.call("analyze_cost", json!({"over_time": true}));
    assert!(without["structuredContent"].get("series").is_none());
    assert!(text_of(&without).contains("over_time was not followed"));
    let none = server.call("analyze_cost", json!({"since": "1m", "group_by": "day"}));
    assert_eq!(
        none["structuredContent"],
        json!({"group_by": "day", "rows": []})
    );
}

#[test]
fn derived_and_missing_costs_are_marked() {
    let call = |id: &str, model: &str| {
        span(
            "t",
            id,
            0,
            json!({"gen_ai.request.model": model, "gen_ai.usage.input_tokens": 1_000_000, "gen_ai.usage.output_tokens": 0}),
        )
    };
    let pricing = br#"{"models":{"cheap":{"input_per_mtok":2,"output_per_mtok":1}}}"#;
    let server = Server::with_options(&[call("a", "cheap"), call("b", "free")], |options| {
        options.pricing = Arc::new(Pricing::from_json(pricing).unwrap());
    });
    let text = server.text("analyze_cost", json!({}));
    assert!(
        text.contains("cheap  ~$2.0000") && text.contains("free  —"),
        "{text}"
    );
    assert!(text.contains("estimate") && text.contains("undercount"));
    assert!(
        server
            .text("get_trace", json!({"trace_id": "t"}))
            .contains("~$2.0000")
    );
}

#[test]
fn a_payload_is_read_up_to_its_limits_on_a_character_boundary() {
    let long = "é".repeat(2_000);
    let address = traza::payload::ContentAddress::of(long.as_bytes()).to_string();
    let mut server =
        Server::with_options(&[span("t", "s", 0, json!({"prompt": long}))], |options| {
            options.payload_threshold = Some(1_000);
        });
    let content = server.text(
        "get_trace",
        json!({"trace_id": "t", "include_content": true}),
    );
    assert!(content.contains(&address));
    let text = server.text("get_payload", json!({"reference": address}));
    assert!(text.contains("3.9 KiB, whole") && text.contains(&long));
    let text = server.text(
        "get_payload",
        json!({"reference": address, "max_bytes": 11}),
    );
    assert!(
        text.contains("first 10 B") && text.contains(">\nééééé\n<"),
        "{text}"
    );
    server.options.payload_len_max = 100;
    let text = server.text("get_payload", json!({"reference": address}));
    assert_eq!(text.matches('é').count(), 50);
    assert!(text.contains("--mcp-max-payload-bytes"));
    assert!(
        server
            .failure("get_payload", json!({"reference": address.to_uppercase()}))
            .contains("no payload")
    );
}

#[test]
fn a_question_beyond_its_budget_says_how_to_narrow_it() {
    let spans = (0..3_000).map(|id| span("t", &id.to_string(), id, json!({"session.id": "S"})));
    let spans = spans.map(|span| Span::from_json(span.to_string().as_bytes()).unwrap());
    // Every reading of the clock is a second after the one before.
    let mut server = Server::on_clock(spans.collect(), |_| {}, ManualClock::new(NOW, SECOND));
    server.deadline = Some(Duration::from_millis(1));
    for (tool, arguments) in [
        ("search_spans", json!({"content": "nothing"})),
        ("get_trace", json!({"trace_id": "t"})),
        ("list_sessions", json!({})),
        ("get_session", json!({"session_id": "S"})),
        ("diagnose_session", json!({"session_id": "S"})),
        ("top_failures", json!({})),
        ("slowest_spans", json!({})),
        ("analyze_cost", json!({})),
        ("describe_store", json!({})),
        (
            "promote_failures_to_dataset",
            json!({"session_id": "S", "dataset": "D"}),
        ),
    ] {
        let text = server.failure(tool, arguments);
        assert!(
            text.contains("compute budget") && text.contains("Narrow the window"),
            "{tool}: {text}"
        );
    }
    let error = server.error("resources/read", json!({"uri": "traza://store/overview"}));
    assert_eq!(error["code"], -32_603);
}
