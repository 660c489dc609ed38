//! `daybook trail` over studies, runs and stores that the other verbs made.
//!
//! Promise: from a trial, a run or a trace all the others are found, what contradicts is damage, and what is named and
//! absent is "not here". Attack: each side changed, replaced or taken away.

use serde_json::{Value, json};

use crate::support::{Ran, Scratch, payloads};
use crate::trace_server::Served;

/// Puts a span into a file as an SDK would, from what the tuner told the command; two ticks, then the result.
const TRAIN: &str = r#"
set -e
trace=$(echo "$TRACEPARENT" | cut -d- -f2)
attr() { printf %s "$OTEL_RESOURCE_ATTRIBUTES" | tr , '\n' | sed -n "s/^$1=//p"; }
printf '{"trace_id":"%s","span_id":"%s","name":"train","service":"train","start_time_ns":1,"end_time_ns":2,"attributes":{"study.id":"%s","trial.number":%s,"run.id":"%s","run.tick":2}}\n' \
    "$trace" "0$DAYBOOK_TRIAL" "$(attr study.id)" "$(attr trial.number)" "$(attr run.id)" > "span-$DAYBOOK_TRIAL.jsonl"
echo '{"step":1,"loss":2}'
echo "{\"step\":2,\"loss\":$DAYBOOK_PARAM_X}"
"#;

/// A study of three trials with runs, and their spans in the store `s`.
fn tuned() -> Scratch {
    let scratch = Scratch::new();
    let args = [
        "tune",
        "study.atj",
        "--minimize",
        "loss",
        "--param",
        "x=float(0,1)",
        "--trials",
        "3",
        "--scheduler",
        "none",
        "-q",
        "--",
        "sh",
        "-c",
        TRAIN,
    ];
    scratch.daybook(&args).expect(0);
    let files = ["span-0.jsonl", "span-1.jsonl", "span-2.jsonl"];
    scratch
        .daybook(&[&["trace", "ingest", "s"], &files[..]].concat())
        .expect(0);
    scratch
}

fn trail(scratch: &Scratch, args: &[&str]) -> Ran {
    scratch.daybook(&[&["trail"], args, &["--json"]].concat())
}

/// What was reached, by kind and name.
fn reached(document: &Value) -> Vec<(String, String)> {
    let nodes = document["nodes"].as_array().unwrap();
    let mut all: Vec<_> = nodes
        .iter()
        .map(|node| {
            let text = |name: &str| node[name].as_str().unwrap().to_owned();
            // A folder that was searched stands before the names in it.
            (text("kind"), text("name").replacen("./", "", 1))
        })
        .collect();
    all.sort();
    all
}

/// The codes of everything that was found.
fn codes(document: &Value) -> Vec<String> {
    let nodes = document["nodes"].as_array().unwrap();
    let findings = nodes
        .iter()
        .flat_map(|node| node["findings"].as_array().unwrap());
    findings
        .map(|finding| finding["code"].as_str().unwrap().to_owned())
        .collect()
}

fn attribute(scratch: &Scratch, trial: usize, name: &str) -> String {
    let shown = scratch.daybook(&["study", "trials", "study.atj", "--json"]);
    let trials = shown.expect(0).json()["trials"].clone();
    let value = &trials[trial]["user_attrs"][name];
    value.as_str().unwrap().to_owned()
}

#[test]
fn from_a_trial_its_run_or_its_trace_the_same_three_are_reached_and_hold() {
    let scratch = tuned();
    let trace = attribute(&scratch, 1, "run.trace_id");
    let run_id = attribute(&scratch, 1, "run.id");
    let expected = [
        ("run", "runs/trial-1.omni"),
        ("trace", &trace),
        ("trial", "study.atj#1"),
    ]
    .map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    for subject in [
        &["study.atj#1", "s"][..],
        &["study.atj#1", "."],
        &["study.atj#1"],
    ] {
        let document = trail(&scratch, subject).expect(0).json();
        assert_eq!(document["outcome"], "intact", "{document:#}");
        assert_eq!(reached(&document), expected, "{subject:?}");
    }
    let places = ["study.atj", "runs", "s"];
    for subject in [&trace, &run_id] {
        let args = [&[subject.as_str()], &places[..]].concat();
        let document = trail(&scratch, &args).expect(0).json();
        assert_eq!(reached(&document), expected, "{subject}");
    }
    // The study is found by what the run says of it.
    let document = trail(&scratch, &["runs/trial-1.omni", "s"])
        .expect(0)
        .json();
    assert_eq!(reached(&document), expected);
    let start = &payloads(&scratch.records("runs/trial-1.omni"), "lifecycle")[0].clone();
    assert_eq!(start["run"]["id"], json!(run_id));
    let trial = &document["nodes"][1];
    assert_eq!(trial["facts"]["study.id"], start["study"]["id"]);
    // A study by its name, when it is among the paths.
    let document = trail(&scratch, &["study#1", "."]).expect(0).json();
    assert_eq!(document["nodes"][0]["name"], "./study.atj#1");
}

#[test]
fn a_tree_tells_people_what_holds() {
    let scratch = tuned();
    let told = scratch
        .daybook(&["trail", "study.atj#0", "s"])
        .expect(0)
        .out;
    for part in [
        "trial study.atj#0: complete",
        "─ run runs/trial-0.omni: ",
        "its chain ends with the head that study.atj#0 keeps",
        "─ trace ",
        ": 1 span in s",
        "its spans are of ticks that runs/trial-0.omni has",
        "study.atj#0: intact",
    ] {
        assert!(told.contains(part), "{part} is not in\n{told}");
    }
}

#[test]
fn what_is_named_and_absent_is_not_here() {
    let scratch = tuned();
    // Nobody promised spans; with nowhere to look for them that is only noted.
    let document = trail(&scratch, &["study.atj#0", "study.atj"])
        .expect(0)
        .json();
    assert_eq!(codes(&document), ["not_looked_for"]);
    scratch
        .daybook(&["trace", "ingest", "other", "span-1.jsonl"])
        .expect(0);
    let document = trail(&scratch, &["study.atj#0", "other"]).expect(2).json();
    assert_eq!(codes(&document), ["not_here"]);
    scratch.remove("runs/trial-0.omni");
    let ran = trail(&scratch, &["study.atj#0", "s"]).expect(2);
    let document = ran.json();
    let run = &document["nodes"][1];
    assert_eq!((&run["kind"], &run["here"]), (&json!("run"), &json!(false)));
    // From the run, without its study.
    let moved = scratch.read("runs/trial-1.omni");
    let other = Scratch::new();
    other.write("run.omni", &moved);
    let start = trail(&other, &["run.omni", "."]);
    // The tuner's own folder is still there, and the run says where.
    assert_eq!(start.code, 0, "{start:#?}");
    drop(scratch);
    let document = trail(&other, &["run.omni", "."]).expect(2).json();
    assert_eq!(document["nodes"][1]["kind"], "trial");
    assert_eq!(document["nodes"][1]["here"], false);
}

#[test]
fn nothing_at_all_and_no_such_trial_are_2() {
    let scratch = tuned();
    let ran = scratch.daybook(&["trail", &"ab".repeat(16), "."]).expect(2);
    assert!(
        ran.err.contains("no trace and no run is named"),
        "{}",
        ran.err
    );
    let ran = scratch.daybook(&["trail", "study.atj#9"]).expect(2);
    assert!(ran.err.contains("has no trial 9"), "{}", ran.err);
    let ran = scratch.daybook(&["trail", "study.atj"]).expect(2);
    assert!(ran.err.contains("study.atj#NUMBER"), "{}", ran.err);
    scratch.daybook(&["trail", "gone.omni"]).expect(2);
}

#[test]
fn a_run_whose_bytes_changed_is_damage() {
    let scratch = tuned();
    scratch.change("runs/trial-2.omni", |bytes| {
        let at = bytes.windows(6).position(|found| found == b"\"loss\"");
        bytes[at.unwrap() + 1] ^= 1;
    });
    for subject in ["study.atj#2", "runs/trial-2.omni"] {
        let document = trail(&scratch, &[subject, "s"]).expect(1).json();
        assert_eq!(document["outcome"], "damaged");
    }
    trail(&scratch, &["study.atj#1", "s"]).expect(0);
}

#[test]
fn a_run_that_was_written_anew_or_exchanged_is_not_the_one_that_the_trial_means() {
    let scratch = tuned();
    let run = scratch.read("runs/trial-1.omni");
    // Intact, and of another trial.
    scratch.write("runs/trial-1.omni", &scratch.read("runs/trial-2.omni"));
    let document = trail(&scratch, &["study.atj#1", "s"]).expect(1).json();
    for code in [
        "head_mismatch",
        "other_trial",
        "run_id_mismatch",
        "trace_mismatch",
    ] {
        assert!(
            codes(&document).iter().any(|found| found == code),
            "{document:#}"
        );
    }
    // Recorded anew under all the same names.
    scratch.write("runs/trial-1.omni", &run);
    let start = payloads(&scratch.records("runs/trial-1.omni"), "lifecycle")[0].clone();
    let names = |name: &str| start["env"][name].as_str().unwrap().to_owned();
    scratch.remove("runs/trial-1.omni");
    let again = ["record", "-q", "-o", "runs/trial-1.omni", "--", "true"];
    let again: Ran = scratch
        .command(&again)
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            names("OTEL_RESOURCE_ATTRIBUTES"),
        )
        .env("TRACEPARENT", names("TRACEPARENT"))
        .output()
        .unwrap()
        .into();
    again.expect(0);
    scratch.daybook(&["verify", "runs/trial-1.omni"]).expect(0);
    let document = trail(&scratch, &["study.atj#1", "s"]).expect(1).json();
    let codes = codes(&document);
    assert!(
        codes.iter().any(|code| code == "head_mismatch"),
        "{codes:?}"
    );
    assert!(!codes.iter().any(|code| code == "other_trial"), "{codes:?}");
}

/// The data file of the one tuner that wrote the study.
fn data_file(scratch: &Scratch) -> String {
    let folder = scratch.path("study.atj.d");
    let entries = durable::Fs::read_dir(&durable::RealFs, &folder).unwrap();
    let names = entries.iter().map(|path| path.file_name().unwrap());
    let mut names = names.map(|name| name.to_str().unwrap());
    let name = names.find(|name| name.starts_with("data-")).unwrap();
    format!("study.atj.d/{name}")
}

/// Exchanges a digit of a text in a data file, and repairs the checksum of its extent: such that no length changes.
fn forge(bytes: &mut [u8], text: &[u8]) {
    let place = bytes.windows(text.len()).position(|found| found == text);
    let place = place.unwrap();
    let mut start = 0;
    loop {
        let line = start
            + bytes[start..]
                .iter()
                .position(|byte| *byte == b'\n')
                .unwrap();
        let meta: Value = serde_json::from_slice(&bytes[start..line]).unwrap();
        let len = usize::try_from(meta["payload_len"].as_u64().unwrap()).unwrap();
        let end = line + 1 + len;
        if place < end {
            let before = meta["checksum"].to_string();
            let at = bytes[start..line]
                .windows(before.len())
                .position(|found| found == before.as_bytes());
            let at = start + at.unwrap();
            for digit in b"0123456789abcdef" {
                let old = std::mem::replace(&mut bytes[place], *digit);
                let sum = durable::checksum::fnv1a_64(&bytes[line + 1..end]).to_string();
                if old != *digit && sum.len() == before.len() {
                    bytes[at..at + sum.len()].copy_from_slice(sum.as_bytes());
                    return;
                }
                bytes[place] = old;
            }
            panic!("no other digit gives a checksum of this length");
        }
        start = end;
    }
}

#[test]
fn a_study_whose_bytes_or_whose_head_of_a_run_changed_is_damage() {
    let scratch = tuned();
    let head = attribute(&scratch, 1, "run.head");
    let data = data_file(&scratch);
    scratch.change(&data, |bytes| forge(bytes, head.as_bytes()));
    scratch.daybook(&["verify", "study.atj"]).expect(0);
    let document = trail(&scratch, &["study.atj#1", "s"]).expect(1).json();
    assert_eq!(codes(&document), ["head_mismatch"]);
    trail(&scratch, &["study.atj#0", "s"]).expect(0);

    scratch.change(&data, |bytes| {
        let at = bytes
            .windows(8)
            .position(|found| found == b"complete" || found == b"Complete");
        bytes[at.unwrap() + 2] ^= 1;
    });
    scratch.daybook(&["trail", "study.atj#0", "s"]).expect(1);
    // From the run, the damaged study is found among the paths.
    scratch
        .daybook(&["trail", "runs/trial-0.omni", "."])
        .expect(1);
}

#[test]
fn a_store_whose_bytes_changed_is_damage() {
    let scratch = tuned();
    scratch.daybook(&["trace", "checkpoint", "s"]).expect(0);
    let store = durable::Fs::read_dir(&durable::RealFs, &scratch.path("s")).unwrap();
    let segment = store
        .iter()
        .find(|path| path.extension().is_some_and(|end| end == "seg"))
        .unwrap();
    let name = segment
        .strip_prefix(scratch.path(""))
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned();
    trail(&scratch, &["study.atj#0", "s"]).expect(0);
    // In the middle, where the records are.
    scratch.change(&name, |bytes| {
        let at = bytes.len() / 2;
        bytes[at] ^= 1;
    });
    scratch.daybook(&["trail", "study.atj#0", "s"]).expect(1);
}

#[test]
fn spans_of_ticks_or_trials_that_contradict_are_damage() {
    let scratch = tuned();
    let span = String::from_utf8(scratch.read("span-1.jsonl")).unwrap();
    let late = span.replace("\"run.tick\":2", "\"run.tick\":3");
    scratch.write("late.jsonl", late.as_bytes());
    scratch
        .daybook(&["trace", "ingest", "late", "late.jsonl"])
        .expect(0);
    let document = trail(&scratch, &["study.atj#1", "late"]).expect(1).json();
    assert_eq!(codes(&document), ["tick_beyond_run"]);
    let other = span.replace("\"trial.number\":1", "\"trial.number\":0");
    assert_ne!(other, span);
    scratch.write("other.jsonl", other.as_bytes());
    scratch
        .daybook(&["trace", "ingest", "other", "other.jsonl"])
        .expect(0);
    let document = trail(&scratch, &["study.atj#1", "other"]).expect(1).json();
    assert!(
        codes(&document)
            .iter()
            .any(|code| code == "span_of_other_trial"),
        "{document:#}"
    );
}

#[test]
fn a_server_is_asked_like_a_store() {
    let scratch = tuned();
    let served = Served::start(&scratch, &[], "");
    let url = served.url();
    for subject in ["study.atj#2", "runs/trial-2.omni"] {
        let document = trail(&scratch, &[subject, &url]).expect(0).json();
        assert_eq!(reached(&document).len(), 3, "{document:#}");
        assert_eq!(codes(&document), ["not_verified"]);
    }
    let trace = attribute(&scratch, 2, "run.trace_id");
    let document = trail(&scratch, &[&trace, &url, "study.atj", "runs"])
        .expect(0)
        .json();
    assert_eq!(reached(&document).len(), 3, "{document:#}");
    served.stop();
}

#[test]
fn a_recorded_command_keeps_the_names_around_it_and_gets_its_own() {
    let scratch = Scratch::new();
    let script =
        r#"printf '{"names":"%s","parent":"%s"}\n' "$OTEL_RESOURCE_ATTRIBUTES" "$TRACEPARENT""#;
    let args = ["record", "-q", "-o", "run.omni", "--", "sh", "-c", script];
    let ran: Ran = scratch
        .command(&args)
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "service.name=x,session.id=a%20b,run.id=outer,trial.number=4,study.id=ff",
        )
        .env_remove("TRACEPARENT")
        .output()
        .unwrap()
        .into();
    ran.expect(0);
    let records = scratch.records("run.omni");
    let start = payloads(&records, "lifecycle")[0];
    let id = start["run"]["id"].as_str().unwrap();
    assert_eq!(id.len(), 32);
    assert_eq!(start["session"]["id"], "a b");
    assert_eq!(
        (&start["study"]["id"], &start["trial"]["number"]),
        (&json!("ff"), &json!(4))
    );
    let told = payloads(&records, "telemetry")[0];
    let names = format!("service.name=x,study.id=ff,trial.number=4,run.id={id},session.id=a%20b");
    assert_eq!(told["names"], json!(names));
    assert_eq!(told["parent"], start["env"]["TRACEPARENT"]);
    assert_eq!(told["parent"].as_str().unwrap().len(), 55);
}
