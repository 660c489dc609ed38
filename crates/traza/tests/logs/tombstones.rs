//! Erasures as they are written, replayed and settled.

use std::collections::BTreeSet;

use durable_sim::{BoxError, SimFs, Survival};
use traza::json::Value;
use traza::logs::file::LineFault;
use traza::logs::tombstone::{
    EraseError, Line, Retained, Scope, Settle, SpanKey, Subject, SubjectFault, Tombstones, replay,
};

use crate::disk::{at, bytes, fixture, lines, sweep, with};

fn open(fs: &SimFs) -> Result<Tombstones, BoxError> {
    let (fs, path) = at(fs);
    Ok(Tombstones::open(fs, path)?.0)
}

fn read(line: &str) -> Line {
    Line::from_json(line.as_bytes()).unwrap()
}

fn scope(subject: Subject) -> Scope {
    Scope {
        subject,
        span_keys: BTreeSet::new(),
        payload_refs: BTreeSet::new(),
        eval_datasets: Vec::new(),
        eval_experiments: Vec::new(),
    }
}

fn tenant(name: &str) -> Subject {
    Subject::Tenant {
        tenant: name.to_owned(),
    }
}

fn refs(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn lines_of_a_released_version_are_written_again_byte_for_byte() {
    for name in ["tombstones.jsonl", "tombstones-pending.jsonl"] {
        for line in lines(&fixture(name)) {
            assert_eq!(read(&line).to_json(), line);
        }
    }
}

#[test]
fn lines_with_every_member_are_written_again_byte_for_byte() {
    for line in [
        r#"{"op":"erase","schema":2,"id":7,"requested_unix_ns":5,"subject":{"kind":"tenant","tenant":"acme"},"span_keys":[],"payload_refs":["sha256/aa"],"eval_datasets":[1,3],"eval_experiments":[2]}"#,
        r#"{"op":"erase","schema":2,"id":8,"requested_unix_ns":5,"subject":{"kind":"span","trace_id":"t","span_id":"s","tenant":"acme"},"span_keys":[["acme","t","s"]],"payload_refs":[]}"#,
        r#"{"op":"note","schema":2,"id":7,"payload_refs":["sha256/bb","sha256/cc"]}"#,
        r#"{"op":"settle","schema":2,"id":7,"settled_unix_ns":9,"generation":4,"spans_removed":1,"spans_redacted":2,"annotations_removed":3,"payloads_removed":["sha256/aa"],"payloads_retained":[{"reference":"sha256/bb","reason":"live"},{"reference":"sha256/cc","reason":""}],"eval_records_removed":4}"#,
    ] {
        assert_eq!(read(line).to_json(), line);
    }
}

#[test]
fn the_first_schema_is_read_with_keys_of_the_default_tenant_and_no_later_one() {
    let line = r#"{"op":"erase","schema":1,"id":1,"requested_unix_ns":5,"subject":{"kind":"trace","trace_id":"t","$tenant":""},"span_keys":[["t","s"]],"payload_refs":[]}"#;
    let Line::Erase { scope, .. } = read(line) else {
        panic!();
    };
    let key = SpanKey {
        tenant: String::new(),
        trace_id: "t".to_owned(),
        span_id: "s".to_owned(),
    };
    assert_eq!(scope.span_keys, BTreeSet::from([key]));
    let settled = r#"{"op":"settle","schema":1,"id":1,"settled_unix_ns":9,"generation":4,"spans_removed":1,"spans_redacted":2,"annotations_removed":3,"payloads_removed":[],"payloads_retained":[]}"#;
    let replayed = replay(vec![read(line), read(settled)]);
    assert_eq!(
        replayed[&1].settle.as_ref().unwrap().eval_records_removed,
        0
    );

    let fault = |line: &str| Line::from_json(line.as_bytes()).unwrap_err();
    let later = line.replace(r#""schema":1"#, r#""schema":3"#);
    assert_eq!(
        fault(&later),
        LineFault::Schema {
            found: 3,
            newest: 2
        }
    );
    for (from, to) in [
        (r#"["t","s"]"#, r#"["t"]"#),
        (r#"["t","s"]"#, r#"["t",1]"#),
        (r#"["t","s"]"#, "3"),
    ] {
        assert!(matches!(
            fault(&line.replace(from, to)),
            LineFault::Shape {
                field: "span_keys",
                ..
            }
        ));
    }
    let unknown = LineFault::Kind {
        field: "op",
        found: "undo".to_owned(),
    };
    assert_eq!(fault(&line.replace("erase", "undo")), unknown);
    let unknown = LineFault::Kind {
        field: "kind",
        found: "tract".to_owned(),
    };
    assert_eq!(fault(&line.replace(r#""trace""#, r#""tract""#)), unknown);
}

#[test]
fn only_a_subject_that_names_something_is_valid() {
    use SubjectFault as Fault;
    let address = format!("sha256/{}", "Ab".repeat(32));
    for (object, wanted) in [
        (
            r#"{"kind":"trace","trace_id":""}"#.to_owned(),
            Err(Fault::EmptyTraceId),
        ),
        (
            r#"{"kind":"span","trace_id":"t","span_id":""}"#.to_owned(),
            Err(Fault::EmptySpanKey),
        ),
        (
            r#"{"kind":"session","session_id":""}"#.to_owned(),
            Err(Fault::EmptySessionId),
        ),
        (
            r#"{"kind":"tenant","tenant":""}"#.to_owned(),
            Err(Fault::EmptyTenant),
        ),
        (
            r#"{"kind":"session","session_id":"c","tenant":"A"}"#.to_owned(),
            Err(Fault::Tenant),
        ),
        (
            r#"{"kind":"payload","reference":"sha256/12"}"#.to_owned(),
            Err(Fault::Reference),
        ),
        (
            format!(r#"{{"kind":"payload","reference":"{address}"}}"#),
            Ok(format!(
                r#"{{"kind":"payload","reference":"{}"}}"#,
                address.to_lowercase()
            )),
        ),
        (
            r#"{"kind":"trace","tenant":"acme","trace_id":"t"}"#.to_owned(),
            Ok(r#"{"kind":"trace","trace_id":"t","tenant":"acme"}"#.to_owned()),
        ),
    ] {
        let value = Value::parse(object.as_bytes()).unwrap();
        let found = Subject::from_value(value).unwrap().canonical();
        assert_eq!(found.map(|subject| subject.to_json()), wanted, "{object}");
    }
}

#[test]
fn an_erasure_is_pending_until_it_is_settled_also_in_files_of_a_released_version() {
    let pending = |name: &str| -> Vec<u64> {
        let tombstones = open(&with(&fixture(name))).unwrap();
        tombstones.pending().map(|erasure| erasure.id).collect()
    };
    assert_eq!(pending("tombstones.jsonl"), [0u64; 0]);
    assert_eq!(pending("tombstones-pending.jsonl"), [1]);

    let fs = with(&fixture("tombstones-pending.jsonl"));
    let mut tombstones = open(&fs).unwrap();
    let before = tombstones.erasure(1).unwrap().scope.payload_refs.clone();
    assert_eq!(before.len(), 2);
    tombstones.note(1, refs(&["sha256/aa"])).unwrap();
    assert_eq!(tombstones.erase(scope(tenant("acme")), 7).unwrap(), 2);
    let settle = Settle {
        settled_unix_ns: 9,
        payloads_retained: vec![Retained {
            reference: "sha256/aa".to_owned(),
            reason: "live".to_owned(),
        }],
        ..Settle::default()
    };
    tombstones.settle(1, settle.clone()).unwrap();
    let length = bytes(&fs).len();
    tombstones.note(2, BTreeSet::new()).unwrap();
    for refused in [
        tombstones.settle(1, settle.clone()),
        tombstones.note(1, refs(&["sha256/dd"])),
        tombstones.settle(3, settle.clone()),
    ] {
        assert!(matches!(refused, Err(EraseError::NotPending { .. })));
    }
    let refused = tombstones.erase(scope(tenant("")), 7);
    assert!(matches!(
        refused,
        Err(EraseError::Subject(SubjectFault::EmptyTenant))
    ));
    assert_eq!(
        bytes(&fs).len(),
        length,
        "what changes nothing writes nothing"
    );

    let again = open(&fs).unwrap();
    assert_eq!(
        again.all().collect::<Vec<_>>(),
        tombstones.all().collect::<Vec<_>>()
    );
    let first = again.erasure(1).unwrap();
    assert_eq!(first.settle, Some(settle));
    assert_eq!(first.scope.payload_refs.len(), 3);
    assert_eq!(
        again
            .pending()
            .map(|erasure| erasure.id)
            .collect::<Vec<_>>(),
        [2]
    );
}

#[test]
fn lines_about_an_unknown_erasure_say_nothing() {
    let note = Line::Note {
        id: 4,
        payload_refs: refs(&["sha256/aa"]),
    };
    let settle = Line::Settle {
        id: 5,
        settle: Settle::default(),
    };
    assert!(replay(vec![note, settle]).is_empty());
}

#[test]
fn numbers_that_are_used_up_are_refused() {
    let line = r#"{"op":"erase","schema":2,"id":18446744073709551615,"requested_unix_ns":5,"subject":{"kind":"trace","trace_id":"t"},"span_keys":[],"payload_refs":[]}"#;
    let mut tombstones = open(&with(format!("{line}\n").as_bytes())).unwrap();
    let refused = tombstones.erase(scope(tenant("acme")), 7);
    assert!(matches!(refused, Err(EraseError::NumbersUsedUp)));
}

#[test]
fn a_crash_or_a_failure_at_any_call_keeps_every_acknowledged_erasure() {
    let workload = |fs: &SimFs, ledger: &mut durable_sim::Ledger<String>| {
        let mut tombstones = open(fs).or_else(|_| open(fs))?;
        for round in 0..3 {
            let name = format!("tenant-{round}");
            for _ in 0..2 {
                ledger.submit(name.clone());
                let before: Vec<_> = tombstones.all().cloned().collect();
                let Ok(id) = tombstones.erase(scope(tenant(&name)), round) else {
                    assert_eq!(tombstones.all().cloned().collect::<Vec<_>>(), before);
                    continue;
                };
                ledger.acknowledge(name.clone());
                assert_eq!(
                    id,
                    1 + before.len() as u64,
                    "a failed erasure uses no number up"
                );
                if tombstones.note(id, refs(&["sha256/aa"])).is_ok() {
                    assert_eq!(
                        open(&fs.fork())?.all().collect::<Vec<_>>(),
                        tombstones.all().collect::<Vec<_>>()
                    );
                }
                break;
            }
        }
        Ok(())
    };
    let check = |image: &durable_sim::Image, ledger: &durable_sim::Ledger<String>| {
        let mut tombstones = open(&image.fs)?;
        let names = tombstones
            .all()
            .map(|erasure| match &erasure.scope.subject {
                Subject::Tenant { tenant } => tenant.clone(),
                other => panic!("{other:?}"),
            });
        ledger.check_in_order(&names.collect::<Vec<_>>())?;
        tombstones.erase(scope(tenant("later")), 9)?;
        let after = image.fs.after_crash(Survival::Nothing);
        assert_eq!(open(&after)?.all().count(), tombstones.all().count());
        Ok(())
    };
    sweep().for_each_crash(workload, check).unwrap();
    sweep().for_each_failure(workload, check).unwrap();
}
