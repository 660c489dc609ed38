//! A recorded command is attended over its socket by real processes.

use std::io::Write as _;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{Ran, Scratch, mode, payloads, wait_until};

/// Counts without end, unhurriedly.
const COUNTS: &str = r#"i=0; while :; do i=$((i+1)); echo "{\"n\":$i}"; sleep 0.01; done"#;
/// Answers the first line of its input with the same line.
const ECHOES: &str = r#"read -r line; echo "$line""#;

fn record(scratch: &Scratch, options: &[&str], script: &str) -> Child {
    let mut args = vec!["record", "-q", "-o", "run.omni", "--control", "s"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    let mut command = scratch.command(&args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    wait_until("the socket", || scratch.has("s"));
    child
}

fn ctl(scratch: &Scratch, args: &[&str]) -> Ran {
    let mut all = vec!["ctl", "s", "--timeout", "30s"];
    all.extend(args);
    scratch.daybook(&all)
}

fn status(scratch: &Scratch) -> Value {
    ctl(scratch, &["status", "--json"]).expect(0).json()
}

fn tick(scratch: &Scratch) -> u64 {
    status(scratch)["tick"].as_u64().unwrap()
}

fn send(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn end(child: Child) -> Ran {
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_command_is_halted_stepped_and_resumed_and_every_order_is_in_the_record() {
    let scratch = Scratch::new();
    let child = record(&scratch, &[], COUNTS);
    assert_eq!(mode(&scratch.path("s")), 0o600);
    wait_until("a tick", || tick(&scratch) > 2);
    let halted = ctl(&scratch, &["halt", "--reason", "a look"]).expect(0);
    assert!(
        halted.out.starts_with("halt: halted at tick "),
        "{}",
        halted.out
    );
    // What it had printed is still read; then there is no more.
    let mut last = u64::MAX;
    wait_until("standing still", || {
        let now = tick(&scratch);
        std::mem::replace(&mut last, now) == now
    });
    let shown = ctl(&scratch, &["status"]).expect(0);
    assert!(
        shown.out.contains("halted") && shown.out.contains(": a look"),
        "{}",
        shown.out
    );
    ctl(&scratch, &["step", "3", "--correlation-id", "c-7"]).expect(0);
    wait_until("three steps", || {
        let status = status(&scratch);
        status["state"] == "halted" && status["tick"].as_u64().unwrap() >= last + 3
    });
    ctl(&scratch, &["resume"]).expect(0);
    let resumed = tick(&scratch);
    wait_until("going on", || tick(&scratch) > resumed + 5);
    let refused = ctl(&scratch, &["resume"]).expect(2);
    assert!(refused.err.contains("not halted"), "{}", refused.err);
    send(&child, Signal::TERM);
    assert_eq!(end(child).code, 143);
    assert!(!scratch.has("s"), "the socket goes with the run");

    let records = scratch.records("run.omni");
    let commands: Vec<_> = payloads(&records, "control")
        .into_iter()
        .filter_map(|payload| payload["command"].as_str())
        .collect();
    assert_eq!(commands, ["halt", "step", "resume", "refused", "signal"]);
    let inputs = payloads(&records, "input");
    assert_eq!(inputs.len(), 3);
    assert_eq!(inputs[1]["correlation_id"], "c-7");
    let me = format!("uid:{}", rustix::process::geteuid().as_raw());
    assert_eq!(inputs[1]["principal"], me.as_str());
    scratch.daybook(&["verify", "run.omni"]).expect(0);
    let effects = scratch.daybook(&["effects", "run.omni", "c-7"]).expect(0);
    assert!(effects.out.contains("2 records"), "{}", effects.out);
}

#[test]
fn a_change_reaches_the_commands_input_within_its_limits_and_a_replay_brings_it_again() {
    let scratch = Scratch::new();
    let child = record(
        &scratch,
        &["--param", "lr=0.1,0..1", "--param", "mode=a"],
        ECHOES,
    );
    let odd = ctl(&scratch, &["set", "lr", "fast"]).expect(2);
    assert!(odd.err.contains("not a text"), "{}", odd.err);
    let unknown = ctl(&scratch, &["set", "loss", "1"]).expect(2);
    assert!(
        unknown.err.contains("there are lr, mode"),
        "{}",
        unknown.err
    );
    let set = ctl(&scratch, &["set", "lr", "7"]).expect(0);
    assert_eq!(set.out, "lr 0.1 → 1 at tick 0\n");
    assert!(set.err.contains("7 is out of bounds"), "{}", set.err);
    assert_eq!(end(child).code, 0);

    let records = scratch.records("run.omni");
    let telemetry = payloads(&records, "telemetry");
    assert_eq!(telemetry.len(), 1);
    assert_eq!(telemetry[0]["channel"], "control");
    assert_eq!(telemetry[0]["value"]["value"], 1);
    assert_eq!(payloads(&records, "guardrail")[0]["requested"], 7);
    let why = scratch
        .daybook(&["why", "run.omni", "lr", "--json"])
        .expect(0)
        .json();
    let kinds: Vec<_> = why["causes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| &c["kind"])
        .collect();
    assert_eq!(kinds[0], "mutation");
    assert!(
        kinds.contains(&&"input".into()) && kinds.contains(&&"guardrail".into()),
        "{why}"
    );
    let again = [
        "replay",
        "run.omni",
        "-o",
        "again.omni",
        "--",
        "sh",
        "-c",
        ECHOES,
    ];
    scratch.daybook(&again).expect(0);
}

#[test]
fn a_command_that_closed_its_input_takes_no_change() {
    let scratch = Scratch::new();
    let script = r#"exec <&-; echo '{"closed":1}'; while :; do sleep 0.1; done"#;
    let child = record(&scratch, &["--param", "lr=1"], script);
    wait_until("its first word", || tick(&scratch) == 1);
    let refused = ctl(&scratch, &["set", "lr", "2"]).expect(2);
    assert!(
        refused.err.contains("closed its standard input"),
        "{}",
        refused.err
    );
    send(&child, Signal::INT);
    assert_eq!(end(child).code, 130);
}

#[test]
fn a_watch_halts_the_command_and_a_signal_still_ends_it() {
    let scratch = Scratch::new();
    let child = record(&scratch, &[], COUNTS);
    ctl(&scratch, &["watch", "n", ">=", "20"]).expect(0);
    wait_until("the trip", || status(&scratch)["state"] == "halted");
    send(&child, Signal::INT);
    assert_eq!(end(child).code, 130);
    let records = scratch.records("run.omni");
    let control = payloads(&records, "control");
    let trip = control
        .iter()
        .find(|c| c["command"] == "watch_trip")
        .unwrap();
    assert!(trip["value"].as_u64().unwrap() >= 20);
}

#[test]
fn a_controller_that_is_killed_ends_the_command_when_the_policy_says_so() {
    let scratch = Scratch::new();
    let child = record(&scratch, &["--halt-policy", "exit"], COUNTS);
    let mut controller = scratch.command(&["ctl", "s", "attend"]);
    let mut controller = controller
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = controller.stdin.take().unwrap();
    typed.write_all(b"halt for lunch\n").unwrap();
    wait_until("the halt", || status(&scratch)["state"] == "halted");
    controller.kill().unwrap();
    controller.wait().unwrap();
    assert_eq!(end(child).code, 143);
    let records = scratch.records("run.omni");
    let control = payloads(&records, "control");
    let commands: Vec<_> = control
        .iter()
        .filter_map(|c| c["command"].as_str())
        .collect();
    assert_eq!(commands, ["attend", "halt", "controller_lost", "exit"]);
}

#[test]
fn a_controller_leaves_with_its_input_and_nothing_follows() {
    let scratch = Scratch::new();
    let child = record(&scratch, &["--halt-policy", "exit"], COUNTS);
    let mut controller = scratch.command(&["ctl", "s", "attend"]);
    let controller = controller.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut controller = controller.spawn().unwrap();
    let typed = b"halt\nexplode\nresume\n\n{\"command\":\"halt\"}\n";
    controller.stdin.take().unwrap().write_all(typed).unwrap();
    let ran: Ran = controller.wait_with_output().unwrap().into();
    assert_eq!(ran.code, 2, "one of its lines was no command");
    let words: Vec<_> = ran
        .out
        .lines()
        .map(|l| l.split(' ').next().unwrap())
        .collect();
    assert_eq!(words, ["attend:", "halt:", "resume:", "halt:", "leave:"]);
    assert_eq!(status(&scratch)["state"], "halted");
    ctl(&scratch, &["resume"]).expect(0);
    send(&child, Signal::TERM);
    assert_eq!(end(child).code, 143);
}

#[test]
fn a_socket_that_is_in_use_starts_no_recording_and_one_without_a_listener_is_an_error_with_a_hint()
{
    let scratch = Scratch::new();
    let nobody = ctl(&scratch, &["status"]).expect(2);
    assert!(
        nobody.err.contains("nobody listens there"),
        "{}",
        nobody.err
    );
    let child = record(&scratch, &[], COUNTS);
    let second = ["record", "-o", "b.omni", "--control", "s", "--", "true"];
    let second = scratch.daybook(&second).expect(2);
    assert!(second.err.contains("is in use"), "{}", second.err);
    assert!(!scratch.has("b.omni"));
    send(&child, Signal::KILL);
    end(child);
    // Its socket is still there, and nobody's.
    let third = [
        "record",
        "-q",
        "-o",
        "c.omni",
        "--control",
        "s",
        "--",
        "true",
    ];
    scratch.daybook(&third).expect(0);
    assert!(!scratch.has("s"));
}
