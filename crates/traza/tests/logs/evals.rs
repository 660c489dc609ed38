//! Datasets, versions, experiments and runs: lines, names, rules and erasure.

use std::collections::BTreeSet;

use durable_sim::SimFs;
use traza::json::Value;
use traza::logs::eval::record::{Counters, ExampleBody, Provenance, Record};
use traza::logs::eval::{
    EvalError, EvalState, Evals, NewExample, NewVersion, PayloadRefusal, TenantErasure,
};
use traza::logs::file::LineFault;

use crate::disk::{at, bytes, fixture, lines, with};

pub(crate) fn open(fs: &SimFs) -> Result<Evals, durable_sim::BoxError> {
    let (fs, path) = at(fs);
    Ok(Evals::open(fs, path)?.0)
}

fn read(line: &str) -> Record {
    Record::from_json(line.as_bytes()).unwrap()
}

pub(crate) fn json(text: &str) -> Value {
    Value::parse(text.as_bytes()).unwrap()
}

pub(crate) fn example(id: &str, input: &str) -> NewExample {
    NewExample {
        example_id: id.to_owned(),
        body: ExampleBody {
            input: json(input),
            expected: None,
            split: String::new(),
            provenance: None,
        },
    }
}

pub(crate) fn version(
    dataset_id: u64,
    parent: Option<&str>,
    examples: &[NewExample],
) -> NewVersion {
    NewVersion {
        dataset_id,
        parent: parent.map(str::to_owned),
        provenance: None,
        examples: examples.to_vec(),
    }
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the shape of an answer that may refuse"
)]
pub(crate) fn anything(_: &str) -> Result<(), PayloadRefusal> {
    Ok(())
}

#[test]
fn lines_of_a_released_version_are_written_again_byte_for_byte() {
    for line in lines(&fixture("evals.jsonl")) {
        assert_eq!(read(&line).to_json(), line);
    }
}

#[test]
fn lines_with_every_member_are_written_again_byte_for_byte() {
    for line in [
        r#"{"record":"dataset","schema":1,"dataset_id":2,"tenant":"acme","name":"n","created_unix_ns":3}"#,
        r#"{"record":"example","schema":1,"digest":"d","body":{"input":null,"expected":{"a":1},"split":"test","provenance":{"tenant":"acme","trace_id":"t","span_id":"s"}}}"#,
        r#"{"record":"example","schema":1,"digest":"d","body":{"input":[],"provenance":{}}}"#,
        r#"{"record":"dataset_version","schema":1,"tenant":"acme","dataset_id":2,"version_id":"v","parent":"u","provenance":[1],"examples":[["a","d"]],"created_unix_ns":3}"#,
        r#"{"record":"experiment","schema":1,"experiment_id":4,"tenant":"acme","dataset_id":2,"dataset_version":"v","name":"n","config":false,"created_unix_ns":3}"#,
        r#"{"record":"experiment","schema":1,"experiment_id":4,"dataset_id":2,"dataset_version":"v","created_unix_ns":3}"#,
        r#"{"record":"run","schema":1,"tenant":"acme","experiment_id":4,"example_id":"a","trace_id":"t","span_id":"s","created_unix_ns":3}"#,
        r#"{"record":"dataset_version_tombstone","schema":1,"tenant":"acme","dataset_id":2,"version_id":"v","requested_unix_ns":3,"reason":"r"}"#,
        r#"{"record":"counters","schema":1,"dataset_next":2,"experiment_next":4}"#,
    ] {
        assert_eq!(read(line).to_json(), line);
    }
}

#[test]
fn a_line_of_another_kind_schema_or_shape_is_refused() {
    let fault = |line: &str| Record::from_json(line.as_bytes()).unwrap_err();
    let line = r#"{"record":"counters","schema":1,"dataset_next":2,"experiment_next":4}"#;
    let unknown = LineFault::Kind {
        field: "record",
        found: "timers".to_owned(),
    };
    assert_eq!(fault(&line.replace("counters", "timers")), unknown);
    let schema = LineFault::Schema {
        found: 2,
        newest: 1,
    };
    assert_eq!(
        fault(&line.replace(r#""schema":1"#, r#""schema":2"#)),
        schema
    );
    let missing = LineFault::Missing {
        field: "experiment_next",
    };
    assert_eq!(fault(&line.replace("experiment_", "")), missing);
    let version = r#"{"record":"dataset_version","schema":1,"dataset_id":2,"version_id":"v","examples":[["a"]],"created_unix_ns":3}"#;
    assert!(matches!(
        fault(version),
        LineFault::Shape {
            field: "examples",
            ..
        }
    ));
}

#[test]
fn digests_and_version_names_are_those_of_a_released_version() {
    let records: Vec<_> = lines(&fixture("evals.jsonl"))
        .iter()
        .map(|line| read(line))
        .collect();
    let state = EvalState::replay(records.clone());
    assert_eq!(state.examples().count(), 2);
    assert_eq!(state.misnamed().count(), 0);

    // The same requests give the same names and, but for the times, the same log.
    let fs = SimFs::new();
    let mut evals = open(&fs).unwrap();
    let times: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Dataset(dataset) => Some(dataset.created_unix_ns),
            Record::Version(version) => Some(version.created_unix_ns),
            Record::Experiment(experiment) => Some(experiment.created_unix_ns),
            Record::Run(run) => Some(run.created_unix_ns),
            _ => None,
        })
        .collect();
    let (trace, span) = ("94d68fdf040d973c00595c42bc32d93c", "5e595b0a4991aeb2");
    assert_eq!(evals.create_dataset("", "hard-cases", times[0]).unwrap(), 1);
    let mut first = example("ex-1", r#"{"q":"why?"}"#);
    first.body.expected = Some(json(r#""because""#));
    first.body.split = "test".to_owned();
    let mut second = example("ex-2", r#""plain""#);
    second.body.expected = Some(Value::Null);
    second.body.provenance = Some(Provenance {
        tenant: String::new(),
        trace_id: trace.to_owned(),
        span_id: span.to_owned(),
    });
    let mut new = version(1, None, &[first, second]);
    new.provenance = Some(json(r#"{"query":"hand made"}"#));
    let created = evals.create_version(new, anything, times[1]).unwrap();
    assert_eq!((created.examples, created.created), (2, true));
    let config = Some(json(r#"{"temperature":0.5}"#));
    let experiment = evals.create_experiment(1, &created.version_id, "first", config, times[2]);
    assert_eq!(experiment.unwrap(), 1);
    evals.add_run(1, "ex-1", trace, span, times[3]).unwrap();
    assert_eq!(bytes(&fs), fixture("evals.jsonl"));
    assert_eq!(evals.state(), &state);
}

#[test]
fn the_rules_of_a_version_are_checked_in_their_order_and_a_refusal_writes_nothing() {
    let fs = SimFs::new();
    let mut evals = open(&fs).unwrap();
    evals.create_dataset("acme", "d", 1).unwrap();
    let good = [example("b", "1"), example("a", "2")];
    let first = evals
        .create_version(version(1, None, &good), anything, 2)
        .unwrap();
    let before = bytes(&fs);
    let reference = format!(r#"[{{"$payload":"sha256/{}"}}]"#, "ab".repeat(32));
    let bad = [
        example("", "1"),
        example("x", "1"),
        example("x", &reference),
    ];
    let mut refused = |dataset_id, parent: Option<&str>, examples: &[NewExample]| {
        let admit = |_: &str| Err(PayloadRefusal::Missing);
        let new = version(dataset_id, parent, examples);
        evals.create_version(new, admit, 3).unwrap_err()
    };
    assert!(matches!(refused(9, Some("no"), &[]), EvalError::NoExamples));
    assert!(matches!(
        refused(9, Some("no"), &bad),
        EvalError::NoDataset(9)
    ));
    assert!(matches!(
        refused(1, Some("no"), &bad),
        EvalError::NoParent { .. }
    ));
    assert!(matches!(refused(1, None, &bad), EvalError::EmptyExampleId));
    assert!(matches!(refused(1, None, &bad[1..]), EvalError::ExampleTwice(id) if id == "x"));
    assert!(matches!(
        refused(1, None, &bad[2..]),
        EvalError::Payload {
            refusal: PayloadRefusal::Missing,
            ..
        }
    ));
    assert_eq!(bytes(&fs), before);

    // The same examples in another order are the same version; another parent makes another one.
    let turned = [good[1].clone(), good[0].clone()];
    let again = evals
        .create_version(version(1, None, &turned), anything, 9)
        .unwrap();
    assert_eq!(
        (again.created, &again.version_id),
        (false, &first.version_id)
    );
    assert_eq!(bytes(&fs), before);
    let parent = Some(first.version_id.as_str());
    let child = evals
        .create_version(version(1, parent, &good), anything, 9)
        .unwrap();
    assert!(child.created && child.version_id != first.version_id);
    assert_eq!(
        lines(&bytes(&fs)).len(),
        lines(&before).len() + 1,
        "known bodies are not repeated"
    );

    assert!(
        !evals
            .tombstone_version(1, &first.version_id, "old", 5)
            .unwrap()
    );
    assert!(
        evals
            .tombstone_version(1, &first.version_id, "again", 6)
            .unwrap()
    );
    let refused = evals.create_version(version(1, parent, &good), anything, 9);
    assert!(matches!(refused, Err(EvalError::ParentTombstoned(_))));
    let refused = evals.create_experiment(1, &first.version_id, "", None, 7);
    assert!(matches!(refused, Err(EvalError::Tombstoned(_))));
    assert_eq!(
        evals
            .state()
            .tombstone(1, &first.version_id)
            .unwrap()
            .reason,
        "old"
    );
    assert_eq!(evals.state().versions(1).len(), 2);
    assert_eq!(open(&fs).unwrap().state(), evals.state());
}

#[test]
fn the_other_rules_are_checked() {
    let fs = with(&fixture("evals.jsonl"));
    let mut evals = open(&fs).unwrap();
    let id = evals.state().versions(1)[0].version_id.clone();
    assert!(matches!(
        evals.create_dataset("", "", 1),
        Err(EvalError::EmptyName)
    ));
    assert!(matches!(
        evals.create_dataset("A", "n", 1),
        Err(EvalError::Tenant)
    ));
    assert!(matches!(
        evals.create_experiment(2, &id, "", None, 1),
        Err(EvalError::NoDataset(2))
    ));
    assert!(matches!(
        evals.create_experiment(1, "v", "", None, 1),
        Err(EvalError::NoVersion { .. })
    ));
    assert!(matches!(
        evals.tombstone_version(1, "v", "", 1),
        Err(EvalError::NoVersion { .. })
    ));
    assert!(matches!(
        evals.add_run(9, "ex-1", "", "", 1),
        Err(EvalError::EmptyTraceId)
    ));
    assert!(matches!(
        evals.add_run(9, "ex-1", "t", "", 1),
        Err(EvalError::NoExperiment(9))
    ));
    assert!(matches!(
        evals.add_run(1, "ex-3", "t", "", 1),
        Err(EvalError::NoExample { .. })
    ));
    evals.check_score("", 1, "ex-1").unwrap();
    assert!(matches!(
        evals.check_score("", 9, "ex-1"),
        Err(EvalError::NoExperiment(9))
    ));
    assert!(matches!(
        evals.check_score("a", 1, "ex-1"),
        Err(EvalError::ForeignExperiment(1))
    ));
    assert!(matches!(
        evals.check_score("", 1, "ex-3"),
        Err(EvalError::NoExample { .. })
    ));
    assert_eq!(bytes(&fs), fixture("evals.jsonl"));
    evals.tombstone_version(1, &id, "", 1).unwrap();
    evals.add_run(1, "ex-2", "t", "", 1).unwrap();
    assert_eq!(
        evals.state().runs(1).len(),
        2,
        "what ran over the version goes on"
    );
}

#[test]
fn payloads_are_found_at_any_depth_but_not_beneath_what_is_erased() {
    let mut body = example(
        "a",
        r#"{"x":[{"$payload":"one","deeper":{"$payload":"two"}}],"$payload":7}"#,
    )
    .body;
    body.expected = Some(json(
        r#"[{"$payload":"three","erased":false},{"erased":true,"$payload":"no","in":[{"$payload":"no"}]}]"#,
    ));
    let mut found = BTreeSet::new();
    body.payload_references(&mut found);
    assert_eq!(found, BTreeSet::from(["one", "two", "three"]));
}

#[test]
fn replay_lets_later_lines_win_and_moves_a_repeated_version_to_the_end() {
    let version = |id: &str, at: u64| {
        read(&format!(
            r#"{{"record":"dataset_version","schema":1,"dataset_id":1,"version_id":"{id}","examples":[],"created_unix_ns":{at}}}"#
        ))
    };
    let dataset = |name: &str| {
        read(&format!(
            r#"{{"record":"dataset","schema":1,"dataset_id":1,"name":"{name}","created_unix_ns":1}}"#
        ))
    };
    let state = EvalState::replay(vec![
        dataset("a"),
        version("u", 1),
        version("v", 2),
        version("u", 3),
        dataset("b"),
        read(r#"{"record":"counters","schema":1,"dataset_next":5,"experiment_next":4}"#),
    ]);
    let order: Vec<_> = state
        .versions(1)
        .iter()
        .map(|v| (v.version_id.as_str(), v.created_unix_ns))
        .collect();
    assert_eq!(order, [("v", 2), ("u", 3)]);
    assert_eq!(state.dataset(1).unwrap().name, "b");
    let counters = Counters {
        dataset_highest: 5,
        experiment_highest: 4,
    };
    assert_eq!(state.counters(), counters);
}

#[test]
fn erasing_a_tenant_leaves_the_others_sorted_and_gives_no_number_out_again() {
    let fs = SimFs::new();
    let mut evals = open(&fs).unwrap();
    let payload = |digits: &str| format!(r#"{{"$payload":"sha256/{}"}}"#, digits.repeat(32));
    let shared = example("s", &payload("aa"));
    for tenant in ["", "acme", "beta", "acme"] {
        let dataset = evals.create_dataset(tenant, "d", 1).unwrap();
        let own = example("o", &payload(&format!("{dataset:02}")));
        let new = version(dataset, None, &[shared.clone(), own]);
        let made = evals.create_version(new, anything, 2).unwrap().version_id;
        let experiment = evals
            .create_experiment(dataset, &made, "", None, 3)
            .unwrap();
        evals.add_run(experiment, "s", "t", "", 4).unwrap();
        evals.tombstone_version(dataset, &made, "", 5).unwrap();
    }
    let before = bytes(&fs);
    assert_eq!(
        evals.erase_tenant("gamma").unwrap(),
        TenantErasure::default()
    );
    assert_eq!(bytes(&fs), before);

    let survey = evals.survey_tenant("acme");
    let erased = evals.erase_tenant("acme").unwrap();
    assert_eq!(erased, survey);
    assert_eq!(
        (&*erased.datasets, &*erased.experiments),
        (&[2, 4][..], &[2, 4][..])
    );
    let own = |digits: &str| format!("sha256/{}", digits.repeat(32));
    assert_eq!(erased.payload_refs, BTreeSet::from([own("02"), own("04")]));
    assert_eq!(
        erased.records_removed,
        2 * 6,
        "dataset, own example, version, experiment, run, tombstone"
    );
    let text = String::from_utf8(bytes(&fs)).unwrap();
    assert!(!text.contains("acme"));
    let kinds: Vec<_> = text
        .lines()
        .map(|line| line.split('"').nth(3).unwrap())
        .collect();
    let wanted = [
        "counters",
        "dataset",
        "dataset",
        "example",
        "example",
        "example",
        "dataset_version",
        "dataset_version",
        "experiment",
        "experiment",
        "run",
        "run",
        "dataset_version_tombstone",
        "dataset_version_tombstone",
    ];
    assert_eq!(kinds, wanted);
    let mut again = open(&fs).unwrap();
    assert_eq!(again.state(), evals.state());
    assert_eq!(again.create_dataset("", "later", 9).unwrap(), 5);
    let live: Vec<_> = evals
        .state()
        .payload_references()
        .into_iter()
        .map(str::to_owned)
        .collect();
    assert_eq!(live, [own("01"), own("03"), own("aa")]);
}

#[test]
fn a_body_that_no_version_lists_goes_with_any_tenant() {
    let fs = with(&fixture("evals.jsonl"));
    let mut evals = open(&fs).unwrap();
    let mut text = bytes(&fs);
    let orphan = r#"{"record":"example","schema":1,"digest":"d","body":{"input":1}}"#;
    text.extend_from_slice(format!("{orphan}\n").as_bytes());
    assert_eq!(evals.erase_tenant("acme").unwrap().records_removed, 0);
    let mut evals = open(&with(&text)).unwrap();
    assert_eq!(evals.erase_tenant("acme").unwrap().records_removed, 1);
}

#[test]
fn numbers_that_are_used_up_are_refused() {
    let line = r#"{"record":"counters","schema":1,"dataset_next":18446744073709551615,"experiment_next":0}"#;
    let mut evals = open(&with(format!("{line}\n").as_bytes())).unwrap();
    assert!(matches!(
        evals.create_dataset("", "n", 1),
        Err(EvalError::NumbersUsedUp)
    ));
}
