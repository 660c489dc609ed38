//! `why`, `effects`, `diff` and `replay` tell what the records tell, and their exit codes say which it was.

use omniloop_core::journal::FrameKind;
use serde_json::{Value, json};

use crate::support::Scratch;

/// A run in which somebody slows down the learning rate at tick 1.
fn told(scratch: &Scratch) {
    let mut journal = scratch.run_of("run.omni", 1, None, "lr");
    for (kind, payload) in [
        (
            FrameKind::Input,
            json!({"channel": "ui", "value": "slower", "correlation_id": "c-1", "principal": "ana"}),
        ),
        (
            FrameKind::Mutation,
            json!({"name": "lr", "old": 0, "new": 0.5, "source": "ui", "correlation_id": "c-1"}),
        ),
        (FrameKind::Telemetry, json!({"lr": 0.5, "loss": 3})),
        (
            FrameKind::Guardrail,
            json!({"name": "lr", "requested": 9, "applied": 1, "min": 0, "max": 1, "cause": "limit"}),
        ),
    ] {
        journal
            .append(kind, payload.to_string().as_bytes())
            .unwrap();
    }
    journal.seal().unwrap();
}

#[test]
fn why_tells_who_set_a_variable_as_of_a_tick() {
    let scratch = Scratch::new();
    told(&scratch);
    let ran = scratch
        .daybook(&["why", "run.omni", "lr", "--tick", "1"])
        .expect(0);
    for part in [
        "lr is 0 at tick 1",
        "mutation",
        "lr 0 → 0.5",
        "by ui",
        "ui: \"slower\"",
        "by ana",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    let json = scratch
        .daybook(&["why", "run.omni", "lr", "--json"])
        .expect(0)
        .json();
    assert_eq!(json["causes"][0]["kind"], "guardrail");
    assert_eq!(json["causes"][0]["new"], 1);
    assert_eq!(json["telemetry"]["value"], 0.5);
}

#[test]
fn why_says_when_nobody_set_a_variable_and_names_those_that_there_are() {
    let scratch = Scratch::new();
    told(&scratch);
    let ran = scratch.daybook(&["why", "run.omni", "loss"]).expect(0);
    assert!(
        ran.out.contains("No record says that it was set"),
        "{}",
        ran.out
    );
    let ran = scratch.daybook(&["why", "run.omni", "los"]).expect(2);
    assert!(ran.err.contains("does not speak of \"los\""), "{}", ran.err);
    assert!(ran.err.contains("it has loss, lr"), "{}", ran.err);
    let ran = scratch
        .daybook(&["why", "run.omni", "loss", "--tick", "1"])
        .expect(2);
    assert!(ran.err.contains("only after tick 1"), "{}", ran.err);
}

#[test]
fn a_damaged_run_is_not_explained() {
    let scratch = Scratch::new();
    told(&scratch);
    let mut bytes = scratch.read("run.omni");
    // A byte of the first payload.
    bytes[71] ^= 1;
    scratch.write("run.omni", &bytes);
    for args in [
        &["why", "run.omni", "lr"][..],
        &["effects", "run.omni", "c-1"],
        &["diff", "run.omni", "run.omni"],
    ] {
        let ran = scratch.daybook(args).expect(1);
        assert!(ran.err.contains("run.omni"), "{args:?} {}", ran.err);
    }
}

#[test]
fn effects_tell_when_a_change_showed_and_an_unknown_id_is_a_no() {
    let scratch = Scratch::new();
    told(&scratch);
    let ran = scratch.daybook(&["effects", "run.omni", "c-1"]).expect(0);
    assert!(ran.out.contains("c-1: 2 records"), "{}", ran.out);
    assert!(ran.out.contains("lr = 0.5 shows at tick 2"), "{}", ran.out);
    assert!(ran.out.contains("guardrail"), "{}", ran.out);
    let json = scratch
        .daybook(&["effects", "run.omni", "c-1", "--json"])
        .expect(0)
        .json();
    assert_eq!(json["effects"][0]["seen"]["tick"], 2);
    scratch.daybook(&["effects", "run.omni", "c-2"]).expect(1);
}

#[test]
fn diff_names_tick_and_variable_and_exits_with_one() {
    let scratch = Scratch::new();
    scratch.run_of("a.omni", 5, None, "x").seal().unwrap();
    let mut b = scratch.run_of("b.omni", 3, Some(2), "x");
    for x in [7, 4] {
        b.append(FrameKind::Telemetry, json!({"x": x}).to_string().as_bytes())
            .unwrap();
    }
    b.seal().unwrap();
    let ran = scratch.daybook(&["diff", "a.omni", "b.omni"]).expect(1);
    for part in [
        "part at tick 4",
        "the variable x",
        "a.omni: 3",
        "b.omni: 7",
        "the same up to tick 3",
    ] {
        assert!(ran.out.contains(part), "{part}\n{}", ran.out);
    }
    scratch.daybook(&["diff", "a.omni", "a.omni"]).expect(0);
    scratch
        .daybook(&["diff", "a.omni", "b.omni", "--ignore", "x"])
        .expect(0);
    let json = scratch
        .daybook(&["diff", "a.omni", "b.omni", "--json"])
        .expect(1)
        .json();
    assert_eq!(json["divergence"]["field"], "x");
    scratch
        .daybook(&["diff", "a.omni", "nothing.omni"])
        .expect(2);
}

#[test]
fn diff_of_studies_names_the_trial_and_what_of_it() {
    let scratch = Scratch::new();
    for name in ["a.atj", "b.atj"] {
        scratch
            .daybook(&["study", "create", name, "--minimize", "loss"])
            .expect(0);
    }
    scratch.daybook(&["diff", "a.atj", "b.atj"]).expect(0);
    scratch
        .daybook(&["study", "create", "c.atj", "--maximize", "loss"])
        .expect(0);
    let json = scratch
        .daybook(&["diff", "a.atj", "c.atj", "--json"])
        .expect(1)
        .json();
    assert_eq!(json["difference"]["field"], "directions");
    assert_eq!(json["difference"]["trial"], Value::Null);
    scratch.run(3, None).seal().unwrap();
    let ran = scratch.daybook(&["diff", "a.atj", "run.omni"]).expect(2);
    assert!(ran.err.contains("run.omni is a run"), "{}", ran.err);
}

/// A deterministic loop that answers each line with the sum of all so far.
const LOOP: &str = "n=0; while read -r line; do n=$((n + line)); echo \"{\\\"sum\\\":$n}\"; done";

fn record_a_loop(scratch: &Scratch) {
    use std::io::Write as _;
    let args = [
        "record", "-o", "run.omni", "--stdin", "--", "sh", "-c", LOOP,
    ];
    let mut command = scratch.command(&args);
    command.stdin(std::process::Stdio::piped());
    command.stdout(std::process::Stdio::null());
    command.stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for line in 1..=6 {
        writeln!(stdin, "{line}").unwrap();
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[test]
fn inputs_come_back_in_order_as_lines_of_json() {
    let scratch = Scratch::new();
    record_a_loop(&scratch);
    let ran = scratch.daybook(&["replay", "run.omni"]).expect(0);
    let lines: Vec<Value> = ran
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let values: Vec<&str> = lines
        .iter()
        .map(|line| line["value"].as_str().unwrap())
        .collect();
    assert_eq!(values, ["1", "2", "3", "4", "5", "6"]);
    assert!(lines.iter().all(|line| line["channel"] == "stdin"));
    let twice = scratch
        .daybook(&["replay", "run.omni", "--loop", "2", "--pace", "1000"])
        .expect(0);
    assert_eq!(twice.out, format!("{0}{0}", ran.out));
    scratch
        .daybook(&["replay", "run.omni", "--pace", "0"])
        .expect(2);
}

#[test]
fn a_command_that_is_fed_the_inputs_again_does_the_same_and_another_one_is_found_out() {
    let scratch = Scratch::new();
    record_a_loop(&scratch);
    let args = [
        "replay",
        "run.omni",
        "-o",
        "again.omni",
        "--json",
        "--",
        "sh",
        "-c",
        LOOP,
    ];
    let ran = scratch.daybook(&args).expect(0);
    assert_eq!(ran.json()["divergence"], Value::Null);
    scratch.daybook(&["verify", "again.omni"]).expect(0);
    let other = LOOP.replace("n + line", "n + line + (line == 4)");
    let args = [
        "replay",
        "run.omni",
        "-o",
        "other.omni",
        "--json",
        "--",
        "sh",
        "-c",
        &other,
    ];
    let ran = scratch.daybook(&args).expect(1);
    let found = ran.json();
    assert_eq!(found["divergence"]["tick"], 4);
    assert_eq!(found["divergence"]["field"], "sum");
    assert_eq!(
        (
            &found["divergence"]["a"]["value"],
            &found["divergence"]["b"]["value"]
        ),
        (&json!(10), &json!(11))
    );
}
