//! `daybook tune`, run for real.
//!
//! Promise: the study has exactly the trials that it was to have, each a run that verifies, whatever the
//! command does and however the tuner ends. Attack: commands that fail, hang, print rubbish or leave
//! children behind; SIGINT and SIGKILL of the tuner; several tuners at once. Oracle: `study trials`,
//! `verify` and `export` of the same binary.

use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Ran, Scratch, payloads, wait_until};

/// Prints `{"loss":(x-0.3)²}`.
const BOWL: &str =
    r#"awk -v x="$DAYBOOK_PARAM_X" 'BEGIN { printf "{\"loss\":%.9f}\n", (x-0.3)*(x-0.3) }'"#;

/// `daybook tune study.atj` of a shell script that minimizes `loss` over `x`.
fn tune_command(scratch: &Scratch, options: &[&str], script: &str) -> Command {
    let mut args = vec![
        "tune",
        "study.atj",
        "--minimize",
        "loss",
        "--param",
        "x=float(0,1)",
    ];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    scratch.command(&args)
}

fn tune(scratch: &Scratch, options: &[&str], script: &str) -> Ran {
    tune_command(scratch, options, script)
        .output()
        .unwrap()
        .into()
}

fn begin(mut command: Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn trials(scratch: &Scratch) -> Vec<Value> {
    let shown = scratch
        .daybook(&["study", "trials", "study.atj", "--limit", "0", "--json"])
        .expect(0);
    shown.json()["trials"].as_array().unwrap().clone()
}

fn in_state<'a>(trials: &'a [Value], state: &str) -> Vec<&'a Value> {
    trials
        .iter()
        .filter(|trial| trial["state"] == state)
        .collect()
}

/// Numbers have no gaps and no doubles, and nothing is left running.
#[track_caller]
fn assert_settled(trials: &[Value], count: usize) {
    let numbers: Vec<u64> = trials
        .iter()
        .map(|trial| trial["number"].as_u64().unwrap())
        .collect();
    let expected: Vec<u64> = (0..u64::try_from(trials.len()).unwrap()).collect();
    assert_eq!(numbers, expected);
    let counted = trials
        .iter()
        .filter(|trial| trial["retry_of"].is_null())
        .count();
    assert_eq!(counted, count, "{trials:#?}");
    for state in ["running", "waiting", "paused"] {
        assert_eq!(in_state(trials, state), Vec::<&Value>::new());
    }
}

/// Every trial that was told of a run has one that verifies, with the head that the trial keeps.
#[track_caller]
fn assert_runs_verify(scratch: &Scratch, trials: &[Value]) {
    for trial in trials {
        let attrs = &trial["user_attrs"];
        let Some(run) = attrs["run.path"].as_str() else {
            continue;
        };
        let Some(head) = attrs["run.head"].as_str() else {
            continue;
        };
        let verdict = scratch.daybook(&["verify", run, "--json"]).expect(0).json();
        assert!(
            verdict.to_string().contains(head),
            "{head} is not in {verdict:#}"
        );
    }
}

#[test]
fn a_command_is_tuned_and_every_trial_is_a_run_that_verifies() {
    let scratch = Scratch::new();
    let ran = tune(
        &scratch,
        &["--trials", "8", "--workers", "3", "--json"],
        BOWL,
    )
    .expect(0);
    let summary = ran.json();
    assert_eq!(summary["ended"], "budget");
    assert_eq!(summary["trials_by_state"], json!({"complete": 8}));
    assert_eq!(summary["this_process"]["complete"], 8);
    let trials = trials(&scratch);
    assert_settled(&trials, 8);
    assert_runs_verify(&scratch, &trials);
    let least = trials
        .iter()
        .map(|trial| trial["values"][0].as_f64().unwrap())
        .fold(9.0, f64::min);
    assert_eq!(summary["best"][0]["values"][0], least);

    let trial = &trials[5];
    assert_eq!(trial["user_attrs"]["run.path"], "runs/trial-5.omni");
    let records = scratch.records("runs/trial-5.omni");
    let start = &payloads(&records, "lifecycle")[0];
    assert_eq!(start["event"], "start");
    assert_eq!(start["study"]["name"], "study");
    assert_eq!(start["trial"]["number"], 5);
    assert_eq!(start["trial"]["params"], trial["params"]);
    let parent = start["env"]["TRACEPARENT"].as_str().unwrap();
    let trace = trial["user_attrs"]["run.trace_id"].as_str().unwrap();
    assert_eq!(parent.split('-').nth(1), Some(trace));
    let loss = payloads(&records, "telemetry")[0]["loss"].as_f64().unwrap();
    assert_eq!(trial["values"][0], loss);
}

#[test]
fn a_trial_that_misses_a_constraint_is_never_the_best() {
    let scratch = Scratch::new();
    let script = r#"awk -v x="$DAYBOOK_PARAM_X" 'BEGIN { printf "{\"loss\":%.9f,\"over\":%.9f}\n", x, 0.4-x }'"#;
    tune(
        &scratch,
        &[
            "--trials",
            "15",
            "--constraint",
            "over",
            "--sampler",
            "random",
        ],
        script,
    )
    .expect(0);
    let trials = trials(&scratch);
    assert_settled(&trials, 15);
    let value = |trial: &Value| trial["values"][0].as_f64().unwrap();
    for trial in &trials {
        assert_eq!(trial["state"], "complete");
        let over = trial["user_attrs"]["constraints"]["over"].as_f64().unwrap();
        assert!((over - (0.4 - value(trial))).abs() < 1e-6);
    }
    let met = trials.iter().map(value).filter(|loss| *loss >= 0.4);
    let best = scratch
        .daybook(&["study", "best", "study.atj", "--json"])
        .expect(0)
        .json();
    assert!(best.to_string().contains("\"over\""), "{best:#}");
    let least = met.fold(f64::INFINITY, f64::min);
    assert!(
        trials.iter().map(value).any(|loss| loss < 0.4),
        "no trial misses it"
    );
    assert!(
        best.to_string().contains(&least.to_string()),
        "{least} is not in {best:#}"
    );
}

#[test]
fn a_trial_without_its_constraint_has_failed_and_says_so() {
    for (line, what) in [
        (r#"{"loss":1}"#, "no constraint \"over\""),
        (r#"{"loss":1,"over":null}"#, "null"),
        (r#"{"loss":1,"over":"NaN"}"#, "not a number"),
    ] {
        let scratch = Scratch::new();
        let script = format!("echo '{line}'");
        tune(
            &scratch,
            &["--trials", "1", "--constraint", "over"],
            &script,
        )
        .expect(1);
        let trials = trials(&scratch);
        assert_eq!(trials[0]["state"], "failed");
        let error = trials[0]["error"].as_str().unwrap();
        assert!(error.contains(what), "{error}");
    }
    let refused = tune(
        &Scratch::new(),
        &["--trials", "1", "--constraint", "loss"],
        "true",
    )
    .expect(2);
    assert!(refused.err.contains("objective"), "{}", refused.err);
}

#[test]
fn repeating_the_command_goes_on_where_it_ended() {
    let scratch = Scratch::new();
    tune(&scratch, &["--trials", "3"], BOWL).expect(0);
    let first = trials(&scratch);
    tune(&scratch, &["--trials", "3"], BOWL).expect(0);
    assert_eq!(trials(&scratch), first);
    let ran = tune(&scratch, &["--trials", "5", "--json"], BOWL)
        .expect(0)
        .json();
    assert_eq!(ran["this_process"]["complete"], 2);
    let all = trials(&scratch);
    assert_settled(&all, 5);
    assert_eq!(all[..3], first);

    // As if it had never been interrupted.
    let other = Scratch::new();
    tune(&other, &["--trials", "5"], BOWL).expect(0);
    let params = |trials: &[Value]| {
        trials
            .iter()
            .map(|t| t["params"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(params(&trials(&other)), params(&all));
}

#[test]
fn another_space_sampler_or_objective_is_refused_with_both() {
    let scratch = Scratch::new();
    tune(
        &scratch,
        &[
            "--trials",
            "1",
            "--sampler",
            "random",
            "--scheduler",
            "median",
        ],
        BOWL,
    )
    .expect(0);
    let again = |args: &[&str]| {
        let all = [
            &["tune", "study.atj", "--trials", "2"],
            args,
            &["--", "true"],
        ]
        .concat();
        scratch.daybook(&all).expect(2).err
    };
    let space = ["--param", "x=float(0,1)"];
    let told = again(&["--param", "x=float(0,2)"]);
    assert!(
        told.contains("x=float(0.0,1.0)") && told.contains("x=float(0.0,2.0)"),
        "{told}"
    );
    let told = again(&[&space[..], &["--scheduler", "asha"]].concat());
    assert!(told.contains("median") && told.contains("asha"), "{told}");
    let told = again(&[&space[..], &["--scheduler", "median(warmup_steps=3)"]].concat());
    assert!(
        told.contains("\"warmup_steps\":0") && told.contains("\"warmup_steps\":3"),
        "{told}"
    );
    let told = again(&[&space[..], &["--maximize", "loss"]].concat());
    assert!(
        told.contains("--minimize loss") && told.contains("--maximize loss"),
        "{told}"
    );
    assert_settled(&trials(&scratch), 1);
}

#[test]
fn a_parameter_that_cannot_be_read_is_pointed_at() {
    let scratch = Scratch::new();
    let args = [
        "tune",
        "s.atj",
        "--minimize",
        "l",
        "--trials",
        "1",
        "--param",
        "lr=float(1,abc)",
        "--",
        "true",
    ];
    let told = scratch.daybook(&args).expect(2).err;
    assert!(told.contains("expected a number, found \"abc\""), "{told}");
    let at = |part: &str| {
        let line = told.lines().find(|line| line.contains(part)).unwrap();
        line.find(part).unwrap()
    };
    let place = told
        .lines()
        .find(|line| line.trim_start().starts_with("lr="))
        .unwrap();
    assert_eq!(place.find("abc").unwrap(), at("^^^"), "{told}");
    assert!(!scratch.has("s.atj"));
}

#[test]
fn a_command_that_fails_fails_its_trial_with_the_reason() {
    let scratch = Scratch::new();
    for (name, script, what) in [
        (
            "raises",
            "echo 'ValueError: no' >&2; exit 3",
            "exit code 3: ValueError: no",
        ),
        ("nothing", "true", "no JSON line with \"loss\""),
        ("nan", r#"echo '{"loss":NaN}'"#, "not a number"),
        ("null", r#"echo '{"loss":null}'"#, "is null"),
        ("several", r#"echo '{"loss":[1,2]}'"#, "is a list"),
        ("signal", "kill -KILL $$", "SIGKILL"),
        ("binary", "head -c 100000 /dev/urandom", "no JSON line"),
        ("hangs", "sleep 1000 & sleep 1000", "took longer"),
    ] {
        let limit = if name == "hangs" { "700ms" } else { "50s" };
        let options = [
            "--name",
            name,
            "--runs",
            name,
            "--trials",
            "1",
            "--timeout",
            limit,
            "--json",
        ];
        let ran = tune(&scratch, &options, script).expect(1);
        assert_eq!(ran.json()["this_process"]["failed"], 1, "{name}");
        let shown = ["study", "trials", "study.atj", "--study", name, "--json"];
        let shown = scratch.daybook(&shown).expect(0).json();
        let error = shown["trials"][0]["error"].as_str().unwrap();
        assert!(error.contains(what), "{name}: {error}");
        scratch
            .daybook(&["verify", &format!("{name}/trial-0.omni")])
            .expect(0);
    }
}

#[test]
fn a_command_that_is_no_program_ends_the_tuning_at_once() {
    let scratch = Scratch::new();
    let args = [
        "tune",
        "s.atj",
        "--minimize",
        "l",
        "--trials",
        "50",
        "--param",
        "x=bool",
        "--",
        "./no-such-program",
    ];
    let told = scratch.daybook(&args).expect(2).err;
    assert!(told.contains("cannot start ./no-such-program"), "{told}");
}

#[test]
fn a_failed_trial_is_tried_again_with_the_same_values_and_knows_its_parent() {
    let scratch = Scratch::new();
    let script = format!("test -n \"$DAYBOOK_PARENT_TRIAL\" || exit 1; {BOWL}");
    tune(&scratch, &["--trials", "2", "--retries", "2"], &script).expect(0);
    let trials = trials(&scratch);
    assert_settled(&trials, 2);
    assert_eq!(in_state(&trials, "failed").len(), 2);
    for retry in in_state(&trials, "complete") {
        let failed = &trials[usize::try_from(retry["retry_of"].as_u64().unwrap()).unwrap()];
        assert_eq!(failed["state"], "failed");
        assert_eq!(failed["params"], retry["params"]);
    }
}

#[test]
fn a_trial_that_is_behind_is_ended_with_its_children() {
    let scratch = Scratch::new();
    // It would run for ever; its child notes that it was ended in time.
    let script = r#"sh -c 'trap "echo ended > ended; exit" TERM; touch ready; while :; do sleep 0.05; done' &
        trap 'wait; exit 0' TERM; while [ ! -f ready ]; do sleep 0.01; done
        echo '{"step":1,"loss":100}'; while :; do sleep 0.05; done"#;
    let options = [
        "--trials",
        "1",
        "--scheduler",
        "threshold(upper=10)",
        "--json",
    ];
    let summary = tune(&scratch, &options, script).expect(0).json();
    assert_eq!(summary["trials_by_state"], json!({"pruned": 1}));
    assert!(scratch.has("ended"));
    let trials = trials(&scratch);
    assert_eq!(
        trials[0]["reports"],
        json!([{"step": 1, "values": [100.0]}])
    );
    assert_runs_verify(&scratch, &trials);
    let records = scratch.records("runs/trial-0.omni");
    let signal = payloads(&records, "control")
        .into_iter()
        .find(|r| r["command"] == "signal")
        .unwrap();
    assert_eq!(signal["why"], "it is behind other trials");
}

#[test]
fn parameters_of_a_file_with_conditions_reach_the_command_when_they_exist() {
    let scratch = Scratch::new();
    scratch.write("space.toml", b"opt = \"cat(adam, sgd)\"\n[momentum]\ntype = \"float\"\nlow = 0\nhigh = 1\nwhen.opt = \"sgd\"\n");
    let script =
        r#"echo "{\"loss\":1,\"args\":\"$*\",\"env\":\"${DAYBOOK_PARAM_MOMENTUM-none}\"}""#;
    let args = [
        "tune",
        "study.atj",
        "--minimize",
        "loss",
        "--space",
        "space.toml",
        "--trials",
        "8",
        "--sampler",
        "random",
        "--",
        "sh",
        "-c",
        script,
        "name",
        "--opt={opt}",
        "--momentum={momentum}",
    ];
    scratch.daybook(&args).expect(0);
    let trials = trials(&scratch);
    assert_settled(&trials, 8);
    let mut seen = [0, 0];
    for trial in &trials {
        let records = scratch.records(trial["user_attrs"]["run.path"].as_str().unwrap());
        let printed = payloads(&records, "telemetry")[0];
        let args = printed["args"].as_str().unwrap();
        if trial["params"]["opt"] == "sgd" {
            seen[0] += 1;
            let momentum = trial["params"]["momentum"].to_string();
            assert_eq!(args, format!("--opt=sgd --momentum={momentum}"));
            assert_eq!(printed["env"], momentum);
        } else {
            seen[1] += 1;
            assert_eq!(args, "--opt=adam");
            assert_eq!(printed["env"], "none");
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

#[test]
fn several_objectives_have_several_best_trials() {
    let scratch = Scratch::new();
    let script =
        r#"awk -v x="$DAYBOOK_PARAM_X" 'BEGIN { printf "{\"loss\":%f,\"speed\":%f}\n", x, x }'"#;
    let options = [
        "--maximize",
        "speed",
        "--trials",
        "4",
        "--sampler",
        "random",
        "--json",
    ];
    let summary = tune(&scratch, &options, script).expect(0).json();
    assert_eq!(summary["metric_names"], json!(["loss", "speed"]));
    assert_eq!(summary["best"].as_array().unwrap().len(), 4);
    // One that lacks a value is wrong, not half right.
    let ran = tune(&scratch, &["--maximize", "speed", "--trials", "5"], BOWL).expect(1);
    assert!(ran.err.contains("no \"speed\""), "{}", ran.err);
}

#[test]
fn the_exit_code_can_be_the_objective() {
    let scratch = Scratch::new();
    let args = [
        "tune",
        "study.atj",
        "--maximize",
        "exit_code",
        "--param",
        "n=int(0,9)",
        "--trials",
        "4",
        "--sampler",
        "random",
        "--",
        "sh",
        "-c",
        "exit {n}",
    ];
    scratch.daybook(&args).expect(0);
    for trial in trials(&scratch) {
        assert_eq!(trial["values"][0].as_f64(), trial["params"]["n"].as_f64());
    }
}

#[test]
fn a_population_goes_on_from_its_parents() {
    let scratch = Scratch::new();
    let script = format!(
        "test -z \"$DAYBOOK_PARENT_RUN\" || test -f \"$DAYBOOK_PARENT_RUN\" || exit 9; {BOWL}"
    );
    let options = [
        "--trials",
        "6",
        "--scheduler",
        "pbt(population=2)",
        "--json",
    ];
    let summary = tune(&scratch, &options, &script).expect(0).json();
    assert_eq!(summary["trials_by_state"], json!({"complete": 6}));
    let attempts = scratch
        .daybook(&["study", "ops", "study.atj"])
        .expect(0)
        .out;
    assert_eq!(
        attempts.matches("\"kind\":\"exploit\"").count(),
        4,
        "{attempts}"
    );
}

#[test]
fn ctrl_c_releases_the_running_trials_and_the_repeated_command_runs_them() {
    let scratch = Scratch::new();
    let script = r#"echo '{"step":1,"loss":9}'; touch "begun-$DAYBOOK_TRIAL"; sleep 1000"#;
    let options = ["--trials", "3", "--workers", "2", "--json"];
    let child = begin(tune_command(&scratch, &options, script));
    wait_until("the begin of two trials", || {
        scratch.has("begun-0") && scratch.has("begun-1")
    });
    signal(&child, Signal::INT);
    let ran: Ran = child.wait_with_output().unwrap().into();
    let summary = ran.expect(130).json();
    assert_eq!(summary["ended"], "interrupted");
    assert_eq!(summary["trials_by_state"], json!({"paused": 2}));
    let released = trials(&scratch);
    assert_runs_verify(&scratch, &released);

    tune(&scratch, &options, BOWL).expect(0);
    let done = trials(&scratch);
    assert_settled(&done, 3);
    for (before, after) in released.iter().zip(&done) {
        assert_eq!(before["params"], after["params"]);
        assert_eq!(after["state"], "complete");
    }
    assert_runs_verify(&scratch, &done);
}

#[test]
fn tuners_of_one_study_share_its_budget() {
    let scratch = Scratch::new();
    let options = ["--trials", "12", "--workers", "2", "--quiet"];
    let children: Vec<Child> = (0..3)
        .map(|_| begin(tune_command(&scratch, &options, BOWL)))
        .collect();
    for child in children {
        Ran::from(child.wait_with_output().unwrap()).expect(0);
    }
    let trials = trials(&scratch);
    assert_settled(&trials, 12);
    assert_eq!(in_state(&trials, "complete").len(), 12);
    assert_runs_verify(&scratch, &trials);
}

#[test]
fn a_crash_of_the_tuner_loses_no_trial_and_leaves_none_behind() {
    let scratch = Scratch::new();
    let script = format!("sleep 0.0$((DAYBOOK_TRIAL % 7 + 1)); {BOWL}");
    let options = [
        "--trials",
        "24",
        "--workers",
        "3",
        "--stale-after",
        "1500ms",
        "--retries",
        "3",
        "--quiet",
    ];
    for round in 1..=3 {
        let mut child = begin(tune_command(&scratch, &options, &script));
        let reached = round * 4;
        wait_until("some trials", || {
            let is_over = child.try_wait().unwrap().is_some();
            is_over || (scratch.has("study.atj") && done_count(&scratch) >= reached)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        scratch.daybook(&["verify", "study.atj"]).expect(0);
    }
    tune(&scratch, &options, &script).expect(0);
    let trials = trials(&scratch);
    assert_settled(&trials, 24);
    // Each of the counted ones came to a value, by itself or by its retries.
    assert_eq!(in_state(&trials, "complete").len(), 24, "{trials:#?}");
    assert_runs_verify(&scratch, &trials);
    scratch.daybook(&["verify", "study.atj"]).expect(0);
}

fn done_count(scratch: &Scratch) -> usize {
    let shown = scratch.daybook(&["study", "trials", "study.atj", "--limit", "0", "--json"]);
    let Ok(shown) = serde_json::from_str::<Value>(&shown.out) else {
        return 0;
    };
    let trials = shown["trials"].as_array().cloned().unwrap_or_default();
    in_state(&trials, "complete").len()
}
