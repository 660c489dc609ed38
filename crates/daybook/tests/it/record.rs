//! `record` keeps everything a command says and does, and stays out of its way.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ran, Scratch, payloads};

#[test]
fn the_exit_code_is_the_commands_own_and_128_and_the_signal_when_it_was_killed() {
    let scratch = Scratch::new();
    scratch.record(&[], "exit 7").expect(7);
    let stop = |records: &[serde_json::Value]| payloads(records, "lifecycle")[1]["exit"].clone();
    assert_eq!(stop(&scratch.records("run.omni"))["code"], 7);
    scratch.record(&["--force"], "kill -9 $$").expect(137);
    let exit = stop(&scratch.records("run.omni"));
    assert_eq!(
        (&exit["signal"], &exit["name"]),
        (&9.into(), &"SIGKILL".into())
    );
    scratch.record(&["--force"], "kill -TERM $$").expect(143);
}

#[test]
fn output_reaches_its_place_and_objects_become_telemetry_with_a_schema() {
    let scratch = Scratch::new();
    let script =
        r#"echo hello; echo '{"loss":0.5,"n":1}'; echo '{"loss":NaN,"n":2}'; echo oops >&2"#;
    let ran = scratch.record(&[], script).expect(0);
    assert_eq!(
        ran.out,
        "hello\n{\"loss\":0.5,\"n\":1}\n{\"loss\":NaN,\"n\":2}\n"
    );
    assert!(ran.err.starts_with("oops\n"), "{}", ran.err);
    let records = scratch.records("run.omni");
    let telemetry = payloads(&records, "telemetry");
    assert_eq!(telemetry.len(), 2);
    assert_eq!(
        (&telemetry[0]["loss"], &telemetry[1]["loss"]),
        (&0.5.into(), &"NaN".into())
    );
    let logs = payloads(&records, "control");
    let has = |stream: &str, line: &str| {
        logs.iter()
            .any(|l| l["stream"] == stream && l["line"] == line)
    };
    assert!(has("stdout", "hello") && has("stderr", "oops"), "{logs:?}");
    let lifecycle = payloads(&records, "lifecycle");
    assert_eq!(lifecycle[0]["argv"][0], "sh");
    let schema = &lifecycle[1]["schema"];
    assert_eq!(schema["properties"]["n"]["type"], "integer");
    scratch.daybook(&["verify", "run.omni"]).expect(0);
}

#[test]
fn the_summary_is_talk_and_can_be_silenced() {
    let scratch = Scratch::new();
    let ran = scratch.record(&[], "echo '{}'").expect(0);
    assert_eq!(ran.out, "{}\n");
    assert!(ran.err.contains("4 records in 1 file"), "{}", ran.err);
    assert!(ran.err.contains("daybook verify run.omni"), "{}", ran.err);
    let quiet = scratch
        .record(&["--force", "--quiet"], "echo '{}'")
        .expect(0);
    assert_eq!(quiet.err, "");
}

#[test]
fn a_recording_is_never_replaced_unless_that_was_asked_for() {
    let scratch = Scratch::new();
    scratch.record(&[], "echo first").expect(0);
    let before = scratch.read("run.omni");
    let ran = scratch.record(&[], "echo second; touch ran").expect(2);
    assert_eq!(ran.out, "", "the command must not have run");
    assert!(
        ran.err.contains("stands there already") && ran.err.contains("--force"),
        "{}",
        ran.err
    );
    assert_eq!(scratch.read("run.omni"), before);
    assert!(!scratch.has("ran"));
    scratch.record(&["--force"], "echo second").expect(0);
    assert_ne!(scratch.read("run.omni"), before);
}

#[test]
fn a_command_that_cannot_start_is_2_and_the_recording_says_so() {
    let scratch = Scratch::new();
    let ran = scratch
        .daybook(&["record", "-o", "run.omni", "--", "no-such-command"])
        .expect(2);
    assert!(
        ran.err
            .contains("cannot start no-such-command: No such file"),
        "{}",
        ran.err
    );
    let records = scratch.records("run.omni");
    let lifecycle = payloads(&records, "lifecycle");
    assert!(lifecycle[0]["exit"]["error"].is_string(), "{lifecycle:?}");
    scratch.daybook(&["verify", "run.omni"]).expect(0);
}

#[test]
fn input_is_recorded_and_passed_on_when_asked() {
    let scratch = Scratch::new();
    let mut command = scratch.command(&["record", "-o", "run.omni", "-q", "--stdin", "--", "cat"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"one\ntwo\n").unwrap();
    drop(stdin);
    let ran = Ran::from(child.wait_with_output().unwrap()).expect(0);
    assert_eq!(ran.out, "one\ntwo\n");
    let records = scratch.records("run.omni");
    let inputs = payloads(&records, "input");
    let values: Vec<&str> = inputs
        .iter()
        .map(|i| i["value"].as_str().unwrap())
        .collect();
    assert_eq!(values, ["one", "two"]);
    assert_eq!(inputs[0]["channel"], "stdin");
}

#[test]
fn with_tick_on_only_objects_with_the_member_are_telemetry() {
    let scratch = Scratch::new();
    scratch
        .record(
            &["--tick-on", "step"],
            r#"echo '{"step":1}'; echo '{"eta":2}'"#,
        )
        .expect(0);
    let records = scratch.records("run.omni");
    assert_eq!(payloads(&records, "telemetry").len(), 1);
    assert_eq!(payloads(&records, "control")[0]["fields"]["eta"], 2);
}

#[test]
fn environment_variables_are_recorded_by_name_only() {
    let scratch = Scratch::new();
    let args = ["record", "-o", "run.omni", "--env", "MINE", "--", "true"];
    let mut command = scratch.command(&args);
    command
        .env("MINE", "yes")
        .env("SECRET", "no")
        .output()
        .unwrap();
    let records = scratch.records("run.omni");
    let env = &payloads(&records, "lifecycle")[0]["env"];
    assert_eq!(env["MINE"], "yes");
    assert!(env.get("SECRET").is_none());
}

#[test]
fn a_rotated_recording_is_a_sound_set_with_every_line_in_order() {
    let scratch = Scratch::new();
    let script = "i=0; while [ $i -lt 500 ]; do i=$((i+1)); echo \"{\\\"i\\\":$i}\"; done";
    scratch
        .record(&["--rotate", "4KiB", "--rotate", "100r"], script)
        .expect(0);
    assert!(scratch.has("run.5.omni"), "{:?}", scratch.names());
    scratch.daybook(&["verify", "run.omni"]).expect(0);
    let records = scratch.records("run.omni");
    let seen: Vec<u64> = payloads(&records, "telemetry")
        .iter()
        .map(|t| t["i"].as_u64().unwrap())
        .collect();
    assert_eq!(seen, (1..=500).collect::<Vec<_>>());
}

#[test]
fn limits_and_durabilities_that_make_no_sense_are_refused_before_anything_runs() {
    let scratch = Scratch::new();
    for options in [
        ["--rotate", "10M"],
        ["--rotate", "0"],
        ["--durability", "sometimes"],
        ["--key", "missing.pem"],
        ["--origin", "without-a-key"],
    ] {
        let ran = scratch.record(&options, "touch ran").expect(2);
        assert!(!ran.err.is_empty());
    }
    scratch
        .record(&["--rotate", "1h", "--rotate", "2h"], "touch ran")
        .expect(2);
    assert_eq!(scratch.names(), Vec::<String>::new());
}

#[test]
fn a_sent_signal_is_passed_on_and_recorded() {
    let scratch = Scratch::new();
    let script = "trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep 0.05; done";
    let args = ["record", "-o", "run.omni", "-q", "--", "sh", "-c", script];
    let mut child = scratch
        .command(&args)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    assert_eq!(child.wait().unwrap().code(), Some(7));
    let records = scratch.records("run.omni");
    let signal = payloads(&records, "control")
        .into_iter()
        .find(|c| c["command"] == "signal")
        .expect("a record of the signal");
    assert_eq!(
        (&signal["signal"], &signal["passed_on"]),
        (&"SIGTERM".into(), &true.into())
    );
    scratch.daybook(&["verify", "run.omni"]).expect(0);
}

#[test]
fn a_full_disk_is_told_and_is_never_success_and_what_was_written_stays_readable() {
    let scratch = Scratch::new();
    let lines = "i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo \"{\\\"i\\\":$i}\"; done";
    let record = |exit: i32| -> Ran {
        // A limit on the size of files stands for a disk without space: 32 KiB.
        let script =
            "trap '' XFSZ; ulimit -f 64; exec \"$0\" record -o run.omni --force -- sh -c \"$1\"";
        let mut shell = std::process::Command::new("sh");
        shell
            .args(["-c", script, env!("CARGO_BIN_EXE_daybook")])
            .arg(format!("{lines}; exit {exit}"))
            .current_dir(scratch.path(""));
        shell.output().unwrap().into()
    };
    let ran = record(0).expect(2);
    assert!(
        ran.err.contains("the recording is incomplete"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("File too large"), "{}", ran.err);
    assert_eq!(
        ran.out.lines().count(),
        3000,
        "the command's own output goes on"
    );
    record(5).expect(5);
    scratch.daybook(&["verify", "run.omni"]).expect(2);
    let records = scratch.records("run.omni");
    let seen: Vec<u64> = payloads(&records, "telemetry")
        .iter()
        .map(|t| t["i"].as_u64().unwrap())
        .collect();
    assert!(seen.len() > 300, "{}", seen.len());
    assert_eq!(
        seen,
        (1..=seen.len() as u64).collect::<Vec<_>>(),
        "whole records, none missing"
    );
    scratch.daybook(&["recover", "run.omni"]).expect(0);
    scratch.daybook(&["verify", "run.recovered.omni"]).expect(0);
}
