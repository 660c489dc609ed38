//! Processes that are killed in the middle of a recording.
//!
//! Promise: the journal stays readable up to its last whole record, it is never called damaged, what
//! was seen longer ago than the flush interval is in it, and recovery makes an intact file of it.
//! Attack: SIGKILL at times that differ from run to run. Oracle: `verify`, `export` and `recover`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use durable::{Clock as _, SystemClock};

use crate::support::{Scratch, payloads, wait_until};

/// A loop that prints numbered objects and does not stop.
const ENDLESS: &str = "i=0; while :; do i=$((i+1)); echo \"{\\\"i\\\":$i}\"; sleep 0.002; done";

/// The flush interval of the recorder, with room for a busy machine.
const SEEN_BEFORE: Duration = Duration::from_millis(800);

fn some_millis(most: u64) -> u64 {
    SystemClock::start().wall_ns() / 1_000 % most
}

fn kill_the_recorder(options: &[&str], delay: Duration) {
    let scratch = Scratch::new();
    scratch.key();
    let mut args = vec!["record", "-o", "run.omni", "-q"];
    args.extend(options);
    args.extend(["--", "sh", "-c", ENDLESS]);
    let mut recorder = scratch
        .command(&args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(recorder.stdout.take().unwrap());
    let (lines, seen) = channel();
    let reader = std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            lines.send((Instant::now(), line)).unwrap();
        }
    });
    let first = seen.recv().unwrap();
    std::thread::sleep(delay);
    let killed = Instant::now();
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    reader.join().unwrap();
    let told = format!("{options:?} after {delay:?}");
    let acknowledged = std::iter::once(first)
        .chain(seen.try_iter())
        .filter(|(at, _)| *at + SEEN_BEFORE < killed)
        .count();

    let facts = scratch.daybook(&["inspect", "run.omni", "--json"]);
    let facts = facts.expect(0).json();
    assert!(facts["stop"].is_null(), "{told}");
    // Between the seal of one file and the start of the next, all that is there is whole: what tells
    // is that the run has no end.
    let between_files = facts["sealed"] == true;
    let verdict = scratch.daybook(&["verify", "run.omni"]);
    let expected = if between_files { 0 } else { 2 };
    assert_eq!(verdict.code, expected, "{told}: {verdict:?}");
    let records = scratch.records("run.omni");
    let recorded: Vec<u64> = payloads(&records, "telemetry")
        .iter()
        .map(|t| t["i"].as_u64().unwrap())
        .collect();
    assert_eq!(
        recorded,
        (1..=recorded.len() as u64).collect::<Vec<_>>(),
        "{told}"
    );
    assert!(
        recorded.len() >= acknowledged,
        "{told}: {} of {acknowledged}",
        recorded.len()
    );
    scratch.daybook(&["recover", "run.omni"]).expect(0);
    if between_files {
        return;
    }
    scratch.daybook(&["verify", "run.recovered.omni"]).expect(0);
    let recovered = scratch.records("run.recovered.omni");
    assert_eq!(
        payloads(&recovered, "telemetry"),
        payloads(&records, "telemetry"),
        "{told}"
    );
}

#[test]
fn a_killed_recorder_leaves_a_readable_run_that_is_unproven_and_never_damaged() {
    for round in 0..3 {
        let delay = Duration::from_millis(some_millis(400) + 600 * round);
        kill_the_recorder(&[], delay);
    }
}

#[test]
fn a_killed_recorder_of_a_signed_and_rotated_run_leaves_one_that_is_never_damaged() {
    for round in 0..3 {
        let delay = Duration::from_millis(some_millis(400) + 600 * round);
        kill_the_recorder(&["--key", "k.pem", "--rotate", "50r"], delay);
    }
}

#[test]
fn a_killed_command_leaves_a_sound_run_with_everything_it_had_said() {
    let scratch = Scratch::new();
    let script =
        "i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo \"{\\\"i\\\":$i}\"; done; kill -9 $$";
    scratch.record(&[], script).expect(137);
    scratch.daybook(&["verify", "run.omni"]).expect(0);
    assert_eq!(
        payloads(&scratch.records("run.omni"), "telemetry").len(),
        100
    );
}

#[test]
fn a_live_run_can_be_read_and_is_unproven_while_it_is_written() {
    let scratch = Scratch::new();
    let args = ["record", "-o", "run.omni", "-q", "--", "sh", "-c", ENDLESS];
    let mut recorder = scratch
        .command(&args)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("a readable record", || {
        let inspect = scratch.daybook(&["inspect", "run.omni", "--json"]);
        inspect.code == 0 && inspect.json()["counts"]["telemetry"].as_u64() > Some(0)
    });
    scratch.daybook(&["verify", "run.omni"]).expect(2);
    recorder.kill().unwrap();
    recorder.wait().unwrap();
}
