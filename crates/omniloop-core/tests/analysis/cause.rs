//! Promise: the chain that led to a value is the one that the records tell, newest first.

use omniloop_core::analysis::{Role, cause_of_with};
use omniloop_core::journal::{ErrorKind, FrameKind};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::Disk;

fn story() -> Vec<(FrameKind, Value)> {
    vec![
        (FrameKind::Lifecycle, json!({"event": "start"})),
        (FrameKind::Telemetry, json!({"lr": 0.1})),
        (
            FrameKind::Input,
            json!({"channel": "ui", "value": "slower", "correlation_id": "c-1", "principal": "ana"}),
        ),
        (
            FrameKind::Control,
            json!({"command": "step", "correlation_id": "c-1"}),
        ),
        (
            FrameKind::Mutation,
            json!({"name": "lr", "old": 0.1, "new": 0.05, "source": "ui", "correlation_id": "c-1"}),
        ),
        (FrameKind::Telemetry, json!({"lr": 0.05})),
        (
            FrameKind::Mutation,
            json!({"name": "gain", "old": 1, "new": 2, "source": "ui", "correlation_id": "c-1"}),
        ),
        (
            FrameKind::Guardrail,
            json!({"name": "lr", "requested": 9.0, "applied": 0.5, "min": 0, "max": 0.5, "cause": "limit", "principal": "ops"}),
        ),
        (FrameKind::Telemetry, json!({"lr": 0.5})),
    ]
}

#[test]
fn the_mutation_comes_first_then_what_brought_it_then_who_was_behind_it() {
    for rotate in [None, Some(2)] {
        let disk = Disk::new();
        disk.run("run.omni", &story(), rotate);
        let causes = cause_of_with(&mut disk.open("run.omni"), "lr", Some(1)).unwrap();
        let told: Vec<_> = causes
            .iter()
            .map(|cause| (cause.role, cause.record.kind, cause.record.place.tick))
            .collect();
        assert_eq!(
            told,
            [
                (Role::Set, FrameKind::Mutation, 1),
                (Role::Related, FrameKind::Control, 1),
                (Role::Related, FrameKind::Input, 1),
                (Role::Principal, FrameKind::Input, 1),
            ]
        );
        assert_eq!(causes[0].old, Some(json!(0.1)));
        assert_eq!(causes[0].new, Some(json!(0.05)));
        assert_eq!(causes[3].principal.as_deref(), Some("ana"));
    }
}

#[test]
fn a_guardrail_that_came_later_is_what_set_the_value() {
    let disk = Disk::new();
    disk.run("run.omni", &story(), None);
    let causes = cause_of_with(&mut disk.open("run.omni"), "lr", None).unwrap();
    assert_eq!(causes.len(), 2);
    assert_eq!(
        (causes[0].role, causes[0].record.kind),
        (Role::Set, FrameKind::Guardrail)
    );
    assert_eq!(
        (&causes[0].old, &causes[0].new),
        (&Some(json!(9.0)), &Some(json!(0.5)))
    );
    assert_eq!(causes[1].principal.as_deref(), Some("ops"));
}

#[test]
fn a_value_that_nobody_set_has_no_cause() {
    let disk = Disk::new();
    disk.run("run.omni", &story(), None);
    for (name, tick) in [("lr", Some(0)), ("loss", None), ("", None), ("name", None)] {
        let causes = cause_of_with(&mut disk.open("run.omni"), name, tick).unwrap();
        assert!(causes.is_empty(), "{name:?} {causes:?}");
    }
}

#[test]
fn a_name_that_is_spelled_with_escapes_is_found_as_well() {
    let disk = Disk::new();
    let mut journal = disk.journal("run.omni", None);
    let payload = br#"{"name":"l\u0072","old":1,"new":2,"source":"x","correlation_id":"c"}"#;
    journal.append(FrameKind::Mutation, payload).unwrap();
    journal.seal().unwrap();
    let causes = cause_of_with(&mut disk.open("run.omni"), "lr", None).unwrap();
    assert_eq!(causes.len(), 1);
}

#[test]
fn damage_before_the_answer_is_an_error_and_a_missing_file_too() {
    let disk = Disk::new();
    disk.run("run.omni", &story(), None);
    let (_, third) = disk.records("run.omni")[2].clone();
    disk.damage("run.omni", third.offset);
    let error = cause_of_with(&mut disk.open("run.omni"), "lr", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");

    let disk = Disk::new();
    disk.run("run.omni", &story(), Some(2));
    durable::Fs::remove_file(&disk.fs, &super::support::path("run.2.omni")).unwrap();
    let error = cause_of_with(&mut disk.open("run.omni"), "gain", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
}

fn any_record() -> impl Strategy<Value = (FrameKind, Value)> {
    let name = prop::sample::select(vec!["a", "b"]);
    let id = prop::option::of(prop::sample::select(vec!["x", "y"]));
    let kind = prop::sample::select(vec![
        FrameKind::Telemetry,
        FrameKind::Mutation,
        FrameKind::Guardrail,
        FrameKind::Control,
        FrameKind::Input,
    ]);
    (kind, name, id, 0..9u8).prop_map(|(kind, name, id, value)| {
        let mut payload = match kind {
            FrameKind::Telemetry => json!({ name: value }),
            FrameKind::Mutation => json!({"name": name, "old": 0, "new": value, "source": "s"}),
            FrameKind::Guardrail => json!({"name": name, "requested": 9, "applied": value}),
            FrameKind::Control => {
                json!({"command": if value < 5 { "clamp" } else { "halt" }, "name": name, "value": value})
            }
            _ => json!({"channel": name, "value": value}),
        };
        if let (Some(id), Some(members)) = (id, payload.as_object_mut()) {
            members.insert("correlation_id".to_owned(), json!(id));
        }
        (kind, payload)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_chain_is_that_of_a_naive_search(
        records in prop::collection::vec(any_record(), 0..40),
        tick in 0..20u64,
        rotate in prop::option::of(2..9u64),
    ) {
        let disk = Disk::new();
        disk.run("run.omni", &records, rotate);
        let all = disk.records("run.omni");
        let json = |index: usize| all[index].1.json().unwrap();
        let sets = |index: usize| {
            let (kind, payload) = (all[index].1.kind, json(index));
            payload["name"] == "a" && match kind {
                FrameKind::Mutation | FrameKind::Guardrail => true,
                FrameKind::Control => payload["command"] == "clamp",
                _ => false,
            }
        };
        let setter = (0..all.len()).rev().find(|&i| all[i].1.tick <= tick && sets(i));
        let mut expected = Vec::new();
        if let Some(setter) = setter {
            expected.push(setter);
            if let Some(id) = json(setter).get("correlation_id").cloned() {
                expected.extend((0..setter).rev().filter(|&i| json(i).get("correlation_id") == Some(&id)));
            }
        }
        let expected: Vec<_> = expected.into_iter().map(|i| (all[i].0, all[i].1.offset)).collect();
        let found = cause_of_with(&mut disk.open("run.omni"), "a", Some(tick)).unwrap();
        let found: Vec<_> = found.iter().map(|c| (c.record.place.segment, c.record.place.offset)).collect();
        prop_assert_eq!(found, expected);
    }
}
