//! Stores of traces: what goes in is found again, by every question, and what is wrong is named.

use serde_json::{Value, json};

use crate::support::{Ran, Scratch, lines};

/// Two services, an error, a session, words, and a trace with everything that can be odd about parents.
const SPANS: &str = r#"{"trace_id":"t1","span_id":"root","name":"chat","service":"bot","start_time_ns":1000000000,"end_time_ns":3000000000,"attributes":{"model":"gpt-4o","tokens":120,"session.id":"S1"}}
{"trace_id":"t1","span_id":"tool","parent_span_id":"root","name":"lookup","service":"tools","start_time_ns":1500000000,"end_time_ns":1600000000,"status":"error","attributes":{"code":"200","text":"Cancel my Booking please"}}
{"trace_id":"t1","span_id":"lost","parent_span_id":"gone","name":"late","service":"tools","start_time_ns":2000000000,"end_time_ns":2000000000,"status":"ok","attributes":{"code":200}}
{"trace_id":"t1","span_id":"self","parent_span_id":"self","name":"loop","service":"bot","start_time_ns":2100000000,"end_time_ns":2000000000}
{"trace_id":"t2","span_id":"root","$tenant":"acme","name":"chat","service":"bot","start_time_ns":4000000000,"end_time_ns":4005000000,"events":[{"name":"refund issued","timestamp_ns":4000000001}],"zeta":[1,{"a":null}]}
"#;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("spans.jsonl", SPANS.as_bytes());
    let ran = scratch
        .daybook(&["trace", "ingest", "s", "spans.jsonl"])
        .expect(0);
    assert_eq!(ran.out, "accepted 5 spans in 1 batch, durable in the log\n");
    scratch
}

fn query(scratch: &Scratch, flags: &[&str]) -> Value {
    let args = [&["trace", "query", "s", "--json"], flags].concat();
    scratch.daybook(&args).expect(0).json()
}

/// The span ids of an answer.
fn ids(answer: &Value) -> String {
    let spans = answer["spans"].as_array().unwrap();
    let ids: Vec<&str> = spans
        .iter()
        .map(|span| span["span_id"].as_str().unwrap())
        .collect();
    ids.join(" ")
}

fn ingest(scratch: &Scratch, text: &[u8]) -> Ran {
    scratch.write("in.json", text);
    scratch.daybook(&["trace", "ingest", "s", "in.json", "--json"])
}

#[test]
fn every_filter_narrows_and_all_of_them_must_hold() {
    let scratch = scratch();
    for (flags, wanted) in [
        (&[][..], "root tool lost self root"),
        (&["--service", "tools"], "tool lost"),
        (&["--name", "chat"], "root root"),
        (&["--status", "error"], "tool"),
        (&["--status", ""], "root self root"),
        (&["--not-status", "error", "--not-status", ""], "lost"),
        (&["--attr", "code=200"], "tool lost"),
        (&["--attr", "code=\"200\""], "tool lost"),
        (&["--attr", "model=gpt-4o", "--service", "bot"], "root"),
        (&["--not-attr", "code=200"], "root tool self root"),
        (&["--min-attr", "tokens=120"], "root"),
        (&["--min-attr", "code=200.5"], ""),
        (&["--max-attr", "code=200"], "tool lost"),
        (&["--text", "booking CANCEL"], "tool"),
        (&["--text", "cancel", "--text", "refund"], ""),
        (&["--text", "refund"], "root"),
        (&["--session", "S1"], "root"),
        (&["--tenant", "acme"], "root"),
        (&["--tenant", ""], "root tool lost self"),
        (&["--trace-id", "t2", "--trace-id", "t3"], "root"),
        (&["--span-id", "tool", "--span-id", "lost"], "tool lost"),
        (&["--min-duration", "100ms"], "root tool"),
        (&["--max-duration", "5ms"], "lost self root"),
        (&["--since", "2000000000"], "lost self root"),
        (&["--since", "1970-01-01T00:00:04Z"], "root"),
        (&["--until", "1970-01-01T00:00:01.5Z"], "root tool"),
        (&["--since", "-1h"], ""),
        (&["--sort", "-start", "--limit", "2"], "root self"),
        (&["--sort", "-duration", "--limit", "2"], "root tool"),
        (&["--sort", "duration", "--limit", "1"], "lost"),
        (&["--limit", "0"], "root tool lost self root"),
    ] {
        assert_eq!(ids(&query(&scratch, flags)), wanted, "{flags:?}");
    }
    for wrong in [
        &["--attr", "x"][..],
        &["--min-attr", "x=y"],
        &["--min-duration", "5"],
        &["--since", "yesterday"],
        &["--cursor", "made-up"],
        &["--text", "…"],
        &["--sort", "size"],
    ] {
        let refused = scratch
            .daybook(&[&["trace", "query", "s"], wrong].concat())
            .expect(2);
        assert_eq!(refused.out, "", "{wrong:?}");
    }
}

#[test]
fn an_answer_shows_what_it_has_cost_and_how_to_go_on() {
    let scratch = scratch();
    let first = query(&scratch, &["--limit", "3"]);
    assert_eq!(ids(&first), "root tool lost");
    assert!(first["cost"]["spans_examined"].as_u64() >= Some(3));
    assert!(first["cost"]["segments_pruned"].is_u64() && first["cost"]["elapsed_ns"].is_u64());
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = query(&scratch, &["--limit", "3", "--cursor", cursor]);
    assert_eq!(ids(&second), "self root");
    assert_eq!(second["next_cursor"], Value::Null);
    assert_eq!(second["spans"][1]["zeta"], json!([1, {"a": null}]));
    let shown = scratch
        .daybook(&["trace", "query", "s", "--limit", "3", "--service", "bot"])
        .expect(0);
    assert_eq!(shown.out.lines().count(), 3);
    assert!(
        shown.out.contains("bot: chat") && shown.out.contains("2.000 s"),
        "{}",
        shown.out
    );
    let next = "next page: daybook trace query s --limit 3 --service bot --cursor ";
    assert!(shown.err.contains(next), "{}", shown.err);
    let first = query(&scratch, &["--limit", "3", "--sort", "-start"]);
    assert_eq!(ids(&first), "root self lost");
    let back = first["next_cursor"].as_str().unwrap();
    let flags = ["--limit", "3", "--sort", "-start", "--cursor", back];
    assert_eq!(ids(&query(&scratch, &flags)), "tool root");
    // Only the orders of starts have places to go on from, each its own.
    assert_eq!(
        query(&scratch, &["--limit", "1", "--sort", "duration"])["next_cursor"],
        Value::Null
    );
    for (sort, cursor) in [("duration", cursor), ("-start", cursor), ("start", back)] {
        let args = ["trace", "query", "s", "--sort", sort, "--cursor", cursor];
        let refused = scratch.daybook(&args).expect(2);
        assert!(refused.err.contains("order of starts"), "{}", refused.err);
    }
}

#[test]
fn a_trace_is_a_tree_with_what_has_no_place_under_headings_of_their_own() {
    let scratch = scratch();
    let shown = scratch.daybook(&["trace", "get", "s", "t1"]).expect(0).out;
    let place = |text: &str| {
        shown
            .find(text)
            .unwrap_or_else(|| panic!("{text}: {shown}"))
    };
    assert!(
        shown.starts_with("trace t1: 4 spans, 2.000 s from 1970-01-01T00:00:01.000Z\n"),
        "{shown}"
    );
    assert!(place("bot: chat") < place("└ tools: lookup  error"));
    assert!(place("lookup") < place("their parents are not in the store:"));
    assert!(place("their parents") < place("tools: late"));
    assert!(place("tools: late") < place("their own ancestors:"));
    assert_eq!(shown.matches("bot: loop").count(), 1);
    assert!(place("ends before") < place("bot: loop"));
    let json = scratch
        .daybook(&["trace", "get", "s", "t1", "--json"])
        .expect(0)
        .json();
    assert_eq!(json["trace_id"], "t1");
    assert_eq!(ids(&json), "root tool lost self");
    let acme = scratch
        .daybook(&["trace", "get", "s", "t2", "--tenant", "acme", "--json"])
        .expect(0);
    assert_eq!(acme.json()["spans"][0]["$tenant"], "acme");
    let none = scratch
        .daybook(&["trace", "get", "s", "t2", "--tenant", ""])
        .expect(2);
    assert!(none.err.contains("no trace t2"), "{}", none.err);
}

#[test]
fn a_search_shows_where_the_words_stand() {
    let scratch = scratch();
    let found = scratch
        .daybook(&["trace", "search", "s", "booking"])
        .expect(0);
    assert!(
        found
            .out
            .contains("attributes.text  Cancel my Booking please"),
        "{}",
        found.out
    );
    let mut styled = scratch.command(&["trace", "search", "s", "refund"]);
    let styled = Ran::from(styled.env("CLICOLOR_FORCE", "1").output().unwrap());
    assert!(
        styled.out.contains("events[0].name") && styled.out.contains("mrefund\u{1b}[0m issued"),
        "{styled:?}"
    );
    let json = scratch
        .daybook(&["trace", "search", "s", "cancel", "booking", "--json"])
        .expect(0)
        .json();
    assert_eq!(ids(&json), "tool");
    assert_eq!(
        json["highlights"],
        json!([[{"field": "attributes.text", "snippet": "Cancel my Booking please"}]])
    );
    assert!(
        scratch
            .daybook(&["trace", "search", "s", "book"])
            .expect(0)
            .out
            .is_empty()
    );
}

#[test]
fn a_flush_puts_the_log_into_a_segment_and_answers_stay_the_same() {
    let scratch = scratch();
    let before = query(&scratch, &[])["spans"].clone();
    let stats = |scratch: &Scratch| {
        scratch
            .daybook(&["trace", "stats", "s", "--json"])
            .expect(0)
            .json()
    };
    let full = stats(&scratch);
    assert_eq!(
        (&full["buffered_spans"], &full["segments"]),
        (&json!(5), &json!(0))
    );
    assert!(full["wal_bytes"].as_u64() > Some(100));
    let flushed = scratch.daybook(&["trace", "flush", "s"]).expect(0);
    assert_eq!(flushed.out, "5 spans sealed; 1 segment now\n");
    let empty = stats(&scratch);
    assert_eq!(
        (&empty["buffered_spans"], &empty["wal_bytes"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        (&empty["segments"], &empty["persisted_records"]),
        (&json!(1), &json!(5))
    );
    assert_eq!(query(&scratch, &[])["spans"], before);
    let again = scratch
        .daybook(&["trace", "flush", "s", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        (&again["sealed"], &again["segments"]),
        (&json!(0), &json!(1))
    );
    let shown = scratch.daybook(&["trace", "stats", "s"]).expect(0).out;
    assert!(shown.contains("5 records in 1 segment"), "{shown}");
    scratch
        .daybook(&["verify", "s/segment-00000000000000000000.seg"])
        .expect(0);
}

#[test]
fn an_export_has_each_span_once_and_can_be_taken_in_again() {
    let scratch = Scratch::new();
    // Many of one time, over two pages, each taken in twice.
    let spans: Vec<String> = (0..5_000)
        .map(|i| format!(r#"{{"trace_id":"t{}","span_id":"{i}","name":"n\n","service":"s","start_time_ns":7,"end_time_ns":9}}"#, i % 9))
        .collect();
    let array = format!("[{}]", spans.join(",\n"));
    let counted = ingest(&scratch, array.as_bytes()).expect(0).json();
    assert_eq!(
        counted,
        json!({"accepted": 5000, "batches": 10, "durability": "wal", "complete": true})
    );
    scratch.daybook(&["trace", "flush", "s"]).expect(0);
    ingest(&scratch, array.as_bytes()).expect(0);
    let exported = scratch.daybook(&["trace", "export", "s"]).expect(0).out;
    let mut ids: Vec<String> = lines(&exported)
        .iter()
        .map(|span| span["span_id"].to_string())
        .collect();
    assert_eq!(ids.len(), 5_000);
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5_000);

    scratch
        .daybook(&["trace", "export", "s", "-o", "out.jsonl"])
        .expect(0);
    assert_eq!(scratch.read("out.jsonl"), exported.as_bytes());
    scratch
        .daybook(&["trace", "export", "s", "-o", "out.jsonl"])
        .expect(2);
    scratch
        .daybook(&["trace", "export", "s", "-o", "s/out.jsonl", "--force"])
        .expect(2);
    scratch
        .daybook(&[
            "trace",
            "ingest",
            "copy",
            "out.jsonl",
            "--durability",
            "flushed",
        ])
        .expect(0);
    let copied = scratch.daybook(&["trace", "export", "copy"]).expect(0);
    assert_eq!(copied.out, exported);

    let few = scratch
        .daybook(&["trace", "export", "s", "--trace-id", "t3", "--limit", "4"])
        .expect(0);
    assert_eq!(few.out.lines().count(), 4);
    let table = scratch
        .daybook(&["trace", "export", "s", "--format", "csv"])
        .expect(0)
        .out;
    let mut rows = csv::Reader::from_reader(table.as_bytes());
    assert_eq!(&rows.headers().unwrap()[0], "trace_id");
    let rows: Vec<csv::StringRecord> = rows.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 5_000);
    assert_eq!((&rows[0][5], &rows[0][9], &rows[0][11]), ("n\n", "2", "[]"));
}

#[test]
fn open_telemetry_requests_are_told_by_their_bytes_in_whatever_form_they_come() {
    let request = |id: u32| {
        let ids = format!(
            r#""traceId":"AB{id:02}","spanId":"0{id}","startTimeUnixNano":"{id}","endTimeUnixNano":"9""#
        );
        let service = r#"{"key":"service.name","value":{"stringValue":"bot"}}"#;
        format!(
            r#"{{"resource":{{"attributes":[{service}]}},"scopeSpans":[{{"spans":[{{{ids},"name":"chat"}}]}}]}}"#
        )
    };
    let text = format!(
        "{{\"resourceSpans\":[{},{}]}}\n{{\"x\":1,\"resourceSpans\":[{}]}}\n[{{\"resourceSpans\":[{}]}}]",
        request(1),
        request(2),
        request(3),
        request(4)
    );
    let scratch = Scratch::new();
    assert_eq!(
        ingest(&scratch, text.as_bytes()).expect(0).json()["accepted"],
        4
    );
    let answer = query(&scratch, &["--service", "bot", "--name", "chat"]);
    assert_eq!(ids(&answer), "01 02 03 04");
    assert_eq!(answer["spans"][0]["trace_id"], "ab01");
    let wrong = text.replace("\"spanId\":\"02\"", "\"spanId\":\"zz\"");
    let refused = ingest(&scratch, wrong.as_bytes()).expect(2);
    assert!(
        refused
            .err
            .contains("scopeSpans[0].spans[0].spanId must be hex"),
        "{}",
        refused.err
    );
}

#[test]
fn long_texts_are_kept_out_of_the_spans_when_asked() {
    let scratch = Scratch::new();
    let long = "word ".repeat(400);
    let span = json!({"trace_id": "t", "span_id": "s", "name": "", "service": "", "start_time_ns": 1,
        "end_time_ns": 1, "attributes": {"prompt": long, "short": "x"}});
    scratch.write("in.json", span.to_string().as_bytes());
    let args = [
        "trace",
        "ingest",
        "s",
        "in.json",
        "--payload-threshold",
        "1KB",
    ];
    scratch.daybook(&args).expect(0);
    let stored = &query(&scratch, &[])["spans"][0]["attributes"];
    assert_eq!(stored["prompt"]["bytes"], 2000);
    assert_eq!(stored["short"], "x");
    assert!(scratch.has("s/payloads"));
}

#[test]
fn a_store_is_told_from_other_folders_and_nothing_is_made_by_asking() {
    let scratch = scratch();
    for verb in [&["export", "s", "--to", "csv"][..], &["trace", "dump", "s"]] {
        let ran = scratch.daybook(verb).expect(2);
        assert!((ran.out + &ran.err).contains("store of traces"), "{verb:?}");
    }
    let verdict = scratch.daybook(&["verify", "s", "--json"]).expect(0).json();
    assert_eq!(verdict["kind"], "store");
    let facts = scratch
        .daybook(&["inspect", "s", "--json"])
        .expect(0)
        .json();
    assert_eq!(facts["kind"], "store");
    scratch.write("other.txt", b"x");
    for verb in [
        &["query"][..],
        &["stats"],
        &["flush"],
        &["export"],
        &["get"],
        &["search"],
    ] {
        let rest: &[&str] = if matches!(verb[0], "get" | "search") {
            &["x"]
        } else {
            &[]
        };
        let missing = scratch
            .daybook(&[&["trace"], verb, &["missing"], rest].concat())
            .expect(2);
        assert!(missing.err.contains("No such file"), "{}", missing.err);
        let other = scratch
            .daybook(&[&["trace"], verb, &["."], rest].concat())
            .expect(2);
        assert!(other.err.contains("is no store of traces"), "{}", other.err);
        let file = scratch
            .daybook(&[&["trace"], verb, &["other.txt"], rest].concat())
            .expect(2);
        assert!(file.err.contains("no record"), "{}", file.err);
    }
    assert!(!scratch.has("missing") && !scratch.has("CURRENT"));
    let refused = scratch
        .daybook(&["trace", "ingest", ".", "spans.jsonl"])
        .expect(2);
    assert!(refused.err.contains("holds other files"), "{}", refused.err);
    scratch
        .daybook(&["trace", "ingest", "new", "missing.json"])
        .expect(2);
    assert!(
        !scratch.has("new"),
        "nothing is made for input that is not there"
    );
}

#[test]
fn every_verb_explains_itself_with_examples() {
    let scratch = Scratch::new();
    for verb in [
        "ingest", "get", "query", "search", "stats", "flush", "export", "dump",
    ] {
        let help = scratch.daybook(&["trace", verb, "--help"]).expect(0);
        assert!(help.out.contains("Examples:"), "{verb}: {}", help.out);
    }
}
