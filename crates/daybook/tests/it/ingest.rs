//! Spans that come from files and pipes: hostile ones are named, and what was acknowledged survives any end.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use durable::{Clock as _, SystemClock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Ran, Scratch, lines};

fn span(id: &str) -> String {
    format!(
        r#"{{"trace_id":"t","span_id":"{id}","name":"n","service":"s","start_time_ns":1,"end_time_ns":2}}"#
    )
}

fn ingest(scratch: &Scratch, text: &[u8]) -> Ran {
    scratch.write("in.json", text);
    scratch.daybook(&["trace", "ingest", "s", "in.json"])
}

fn stored(scratch: &Scratch) -> Vec<Value> {
    lines(&scratch.daybook(&["trace", "export", "s"]).expect(0).out)
}

#[test]
fn a_bad_span_is_named_with_file_line_and_field_and_what_stands_before_it_is_stored() {
    let with = |from: &str, to: &str| span("b").replace(from, to);
    for (bad, field) in [
        (with("\"n\"", "7"), "field `name`: expected a string"),
        (
            with(":1,", ":\"1\","),
            "field `start_time_ns`: expected an integer",
        ),
        (with(":1,", ":-1,"), "field `start_time_ns`"),
        (with(":1,", ":1.5,"), "field `start_time_ns`"),
        (with("\"name\":\"n\",", ""), "field `name`: missing"),
        (
            with("\"trace_id\"", "\"trace_id\":\"x\",\"trace_id\""),
            "field `trace_id`: there a second time",
        ),
        (
            with("}", ",\"start_ns\":1}"),
            "field `start_time_ns`: there a second time",
        ),
        (with("\"t\"", "\"\""), "empty trace_id"),
        (with("}", ",\"$tenant\":\"No!\"}"), "tenant"),
        (with("}", ",\"status\":null}"), "field `status`"),
        (
            with(
                "}",
                ",\"events\":[{\"name\":\"e\",\"time\":1},{\"name\":[]}]}",
            ),
            "field `events[1].name`",
        ),
        (
            with("}", ",\"events\":[{\"name\":\"e\"}]}"),
            "field `events[0].timestamp_ns`: missing",
        ),
        (
            with("}", ",\"attributes\":{\"a\":{\"b\":tru}}}"),
            "field `attributes.a.b`",
        ),
        (
            with("\"n\"", "\"\u{1}\""),
            "field `name`: unescaped control",
        ),
        ("7".to_owned(), "not a span: expected an object"),
        ("nonsense".to_owned(), "not a span"),
        ("[[]]".to_owned(), "not a span"),
        ("{\"trace_id\":".to_owned(), "ends in the middle"),
        ("]".to_owned(), "expected a JSON value"),
    ] {
        let scratch = Scratch::new();
        let refused = ingest(&scratch, format!("{}\n\n{bad}\n", span("a")).as_bytes()).expect(2);
        assert!(
            refused.err.contains("in.json: line 3, byte "),
            "{bad}: {}",
            refused.err
        );
        assert!(refused.err.contains(field), "{bad}: {}", refused.err);
        assert!(
            refused.err.contains("hint: stored before that: 1 span;"),
            "{bad}: {}",
            refused.err
        );
        assert_eq!(
            refused.out,
            "accepted 1 span in 1 batch, durable in the log\n"
        );
        assert_eq!(stored(&scratch).len(), 1, "{bad}");
    }
}

#[test]
fn hostile_input_is_refused_or_stored_as_it_is_and_never_crashes() {
    let scratch = Scratch::new();
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let text = span("deep").replace('}', &format!(",\"attributes\":{{\"a\":{deep}}}}}"));
    let refused = ingest(&scratch, text.as_bytes()).expect(2);
    assert!(refused.err.contains("levels deep"), "{}", refused.err);
    assert!(refused.err.len() < 2_000, "{}", refused.err.len());
    ingest(&scratch, "[".repeat(1 << 20).as_bytes()).expect(2);
    ingest(&scratch, b"\xff\xfe{\0}").expect(2);
    ingest(&scratch, &[b"{\"a\":\"", &[0xff; 64][..], b"\"}"].concat()).expect(2);

    let long = "i".repeat(10 << 20);
    let odd = [
        span(&long),
        span("nul\\u0000"),
        span("&=?\\ud83d\\ude00"),
        span("\\u001b[2J"),
    ];
    ingest(&scratch, format!("{}\n", odd.join("\n")).as_bytes()).expect(0);
    assert_eq!(stored(&scratch).len(), 4);
    let shown = scratch.daybook(&["trace", "get", "s", "t"]).expect(0);
    assert!(
        !shown.out.contains('\u{1b}') && !shown.out.contains('\0'),
        "{}",
        shown.out
    );
    assert!(shown.out.len() < 10_000);
    let nul = [
        "trace",
        "query",
        "s",
        "--span-id",
        "\"nul\\u0000\"",
        "--json",
    ];
    assert_eq!(
        scratch.daybook(&nul).expect(0).json()["spans"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    scratch.daybook(&["trace", "flush", "s"]).expect(0);
    assert_eq!(stored(&scratch).len(), 4);
}

#[test]
fn several_files_make_one_stream_of_batches_each_acknowledged_when_it_is_stored() {
    let scratch = Scratch::new();
    let many = |from: u32| {
        (from..from + 70)
            .map(|i| span(&i.to_string()) + "\n")
            .collect::<String>()
    };
    scratch.write("a.jsonl", many(0).as_bytes());
    scratch.write("b.jsonl", many(70).as_bytes());
    for durability in ["buffered", "wal", "flushed"] {
        let args = [
            "trace", "ingest", durability, "a.jsonl", "b.jsonl", "--batch", "50",
        ];
        let args = [&args[..], &["--acknowledge", "--durability", durability]].concat();
        let told = lines(&scratch.daybook(&args).expect(0).out);
        let accepted: Vec<_> = told
            .iter()
            .map(|line| line["accepted"].as_u64().unwrap())
            .collect();
        assert_eq!(accepted, [50, 50, 40, 140]);
        let places: Vec<_> = told[..3]
            .iter()
            .map(|line| {
                (
                    line["input"].as_str().unwrap(),
                    line["through_offset"].as_u64().unwrap(),
                )
            })
            .collect();
        // Behind the span, and before its line break. Ids below ten are shorter, those from a hundred on longer.
        let line = span("10").len() as u64 + 1;
        let wanted = [50 * line - 11, 30 * line - 1, 70 * line + 39].into_iter();
        let wanted: Vec<_> = ["a.jsonl", "b.jsonl", "b.jsonl"]
            .into_iter()
            .zip(wanted)
            .collect();
        assert_eq!(places, wanted);
        assert_eq!(told[1]["total"], 100);
        assert_eq!(told[3]["durability"], durability);
        let stats = scratch
            .daybook(&["trace", "stats", durability, "--json"])
            .expect(0)
            .json();
        let segments = stats["segments"].as_u64().unwrap();
        assert_eq!(
            segments,
            ["wal", "buffered"]
                .iter()
                .position(|d| *d == durability)
                .map_or(3, |s| s as u64)
        );
        let exported = scratch.daybook(&["trace", "export", durability]).expect(0);
        assert_eq!(exported.out.lines().count(), 140);
    }
    let twice = ["trace", "ingest", "s", "-", "-"];
    scratch.daybook(&twice).expect(2);
    scratch
        .daybook(&["trace", "ingest", "s", "a.jsonl", "--batch", "0"])
        .expect(2);
}

/// An ingest from a pipe that acknowledges on another one.
fn piped(scratch: &Scratch, more: &[&str]) -> Child {
    let args = [&["trace", "ingest", "s", "-", "--acknowledge"], more].concat();
    let mut command = scratch.command(&args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn what_came_through_a_pipe_is_stored_when_it_pauses_and_ctrl_c_ends_cleanly() {
    let scratch = Scratch::new();
    let mut child = piped(&scratch, &[]);
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    write!(input, "{}\n{}\n{{\"trace_id\":", span("a"), span("b")).unwrap();
    let told = output.next().unwrap().unwrap();
    assert!(told.contains("\"accepted\":2"), "{told}");

    // Others may ask meanwhile, and nobody else may change it.
    let stats = scratch
        .daybook(&["trace", "stats", "s", "--json"])
        .expect(0);
    assert_eq!(stats.json()["buffered_spans"], 2);
    let busy = scratch.daybook(&["trace", "flush", "s"]).expect(2);
    let pid = child.id().to_string();
    assert!(
        busy.err.contains(&format!("in process {pid}")),
        "{}",
        busy.err
    );
    assert!(busy.err.contains("hint:"), "{}", busy.err);

    let process = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(process, Signal::INT).unwrap();
    let summary: Value = serde_json::from_str(&output.next().unwrap().unwrap()).unwrap();
    assert_eq!(
        (&summary["accepted"], &summary["complete"]),
        (&2.into(), &false.into())
    );
    let ran = Ran::from(child.wait_with_output().unwrap()).expect(2);
    assert!(
        ran.err.contains("interrupted; stored so far: 2 spans"),
        "{}",
        ran.err
    );
    drop(input);
    assert_eq!(stored(&scratch).len(), 2);
}

#[test]
fn no_acknowledged_span_is_lost_in_a_crash_by_sigkill_at_any_moment() {
    let scratch = Scratch::new();
    let seed = SystemClock::start().wall_ns() / 1_000;
    let begun = Instant::now();
    let mut acknowledged = 0;
    let mut sent = 0;
    for round in 0..12 {
        if begun.elapsed() > Duration::from_secs(15) {
            break;
        }
        let durability = ["wal", "flushed"][round % 2];
        let mut child = piped(&scratch, &["--batch", "20", "--durability", durability]);
        let mut input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let first = sent;
        let writer = std::thread::spawn(move || {
            let mut next = first;
            // Until the reader is gone.
            while input
                .write_all((span(&next.to_string()) + "\n").as_bytes())
                .is_ok()
            {
                next += 1;
            }
            next
        });
        let mut told = output.lines();
        // It is running: from here on any moment is as good as another.
        let mut total = total_of(&told.next().unwrap().unwrap());
        let delay = (seed.wrapping_mul(2 * round as u64 + 1) >> 3) % 300;
        let killer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(delay));
            child.kill().unwrap();
            child.wait().unwrap();
        });
        for line in told.map_while(Result::ok) {
            // A line that was cut off acknowledges nothing.
            total = total.max(total_of(&line));
        }
        killer.join().unwrap();
        sent = writer.join().unwrap();
        acknowledged = first + total;
        let found = stored(&scratch);
        let ids: std::collections::BTreeSet<u64> = found
            .iter()
            .map(|span| span["span_id"].as_str().unwrap().parse().unwrap())
            .collect();
        assert_eq!(
            ids.len(),
            found.len(),
            "round {round}: a span is there twice"
        );
        for id in first..acknowledged {
            assert!(
                ids.contains(&id),
                "round {round} seed {seed}: {id} of {acknowledged} is lost"
            );
        }
        // What earlier rounds were acknowledged is there too.
        assert!(ids.len() as u64 >= total, "round {round}");
        sent = sent.max(acknowledged);
    }
    assert!(acknowledged > 0);
}

fn total_of(line: &str) -> u64 {
    serde_json::from_str::<Value>(line).map_or(0, |line| line["total"].as_u64().unwrap_or(0))
}
