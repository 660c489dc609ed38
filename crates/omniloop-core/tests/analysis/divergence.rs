//! Promise: two runs part where a naive comparison of all their records says, at that tick and field.

use omniloop_core::analysis::{Divergence, DivergenceOptions, Subject, find_divergence_with};
use omniloop_core::journal::{ErrorKind, FrameKind, Result};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::support::Disk;

fn loop_of(ticks: u64) -> Vec<(FrameKind, Value)> {
    let mut records = vec![(FrameKind::Input, json!({"channel": "seed:rng", "value": 7}))];
    for tick in 1..=ticks {
        records.push((
            FrameKind::Telemetry,
            json!({"x": tick * 2, "state": {"v": [tick, 0.5]}}),
        ));
        records.push((FrameKind::Input, json!({"channel": "cmd", "value": tick})));
    }
    records
}

fn compare(
    a: &[(FrameKind, Value)],
    b: &[(FrameKind, Value)],
    options: &DivergenceOptions,
) -> Result<Option<Divergence>> {
    let disk = Disk::new();
    disk.run("a.omni", a, None);
    disk.run("b.omni", b, Some(4));
    find_divergence_with(&mut disk.open("a.omni"), &mut disk.open("b.omni"), options)
}

fn first(a: &[(FrameKind, Value)], b: &[(FrameKind, Value)]) -> Option<Divergence> {
    compare(a, b, &DivergenceOptions::default()).unwrap()
}

#[test]
fn runs_of_the_same_records_part_nowhere_however_they_are_cut_into_files() {
    assert_eq!(first(&loop_of(20), &loop_of(20)), None);
    assert_eq!(first(&[], &[]), None);
}

#[test]
fn a_changed_variable_is_found_at_its_tick_and_field() {
    let (a, mut b) = (loop_of(20), loop_of(20));
    b[1 + 2 * 11].1["state"]["v"][1] = json!(0.75);
    let found = first(&a, &b).unwrap();
    assert_eq!((found.tick, found.subject), (12, Subject::Telemetry));
    assert_eq!(found.field, "state.v.1");
    assert_eq!(
        (found.a.value, found.b.value),
        (Some(json!(0.5)), Some(json!(0.75)))
    );
    assert_eq!(found.last_equal, Some(11));
}

#[test]
fn a_changed_input_is_found_before_what_it_causes() {
    let (a, mut b) = (loop_of(20), loop_of(20));
    b[2 + 2 * 4].1["value"] = json!(99);
    b[1 + 2 * 4].1["x"] = json!(0);
    let found = first(&a, &b).unwrap();
    assert_eq!((found.tick, found.subject), (5, Subject::Input));
    assert_eq!(found.field, "cmd");
    assert_eq!(
        (found.a.value, found.b.value),
        (Some(json!(5)), Some(json!(99)))
    );
}

#[test]
fn inputs_count_for_nothing_when_they_are_left_out() {
    let (a, mut b) = (loop_of(20), loop_of(20));
    b[2 + 2 * 4].1["value"] = json!(99);
    b.remove(0);
    let options = DivergenceOptions {
        ignore_inputs: true,
        ..DivergenceOptions::default()
    };
    assert_eq!(compare(&a, &b, &options).unwrap(), None);
}

#[test]
fn a_run_that_ends_earlier_parts_from_the_longer_one_there() {
    for (a, b) in [(10, 12), (12, 10)] {
        let found = first(&loop_of(a), &loop_of(b)).unwrap();
        assert_eq!((found.tick, found.subject), (11, Subject::End));
        assert_eq!(found.last_equal, Some(10));
        assert_eq!(found.a.place.is_some(), a > b);
        assert_eq!(found.b.place.is_some(), b > a);
    }
}

#[test]
fn hashes_stand_for_the_state_where_both_have_one() {
    let hash = |text: &str| {
        (
            FrameKind::Hash,
            json!({"algorithm": "sha256", "hash": text}),
        )
    };
    let state = |x: u64| (FrameKind::Telemetry, json!({"x": x}));
    let same = first(&[state(1), hash("aa")], &[state(2), hash("aa")]);
    assert_eq!(same, None, "the telemetry is not asked");
    let found = first(&[state(1), hash("aa")], &[state(1), hash("bb")]).unwrap();
    assert_eq!((found.tick, found.subject), (1, Subject::Hash));
    let found = first(&[state(1), hash("aa")], &[state(2)]).unwrap();
    assert_eq!(found.subject, Subject::Telemetry);
}

#[test]
fn what_is_ignored_and_what_is_within_the_tolerance_does_not_count() {
    let (a, mut b) = (loop_of(5), loop_of(5));
    b[3].1["x"] = json!(4.0001);
    b[5].1["state"]["v"][0] = json!(4);
    let options = |ignore: &[&str], tolerance| DivergenceOptions {
        ignore: ignore.iter().map(|&name| name.to_owned()).collect(),
        tolerance,
        ignore_inputs: false,
    };
    let tick = |options| compare(&a, &b, &options).unwrap().map(|found| found.tick);
    assert_eq!(tick(options(&[], 0.0)), Some(2));
    assert_eq!(tick(options(&[], 0.001)), Some(3));
    assert_eq!(tick(options(&["state"], 0.001)), None);
    assert_eq!(
        tick(options(&["sta"], 0.001)),
        Some(3),
        "a name, not its beginning"
    );
    for wrong in [f64::NAN, -1.0, f64::INFINITY] {
        assert!(compare(&a, &b, &options(&[], wrong)).is_err(), "{wrong}");
    }
}

#[test]
fn payloads_that_are_no_json_are_compared_as_they_stand() {
    let run = |disk: &Disk, name: &str, payload: &[u8]| {
        let mut journal = disk.journal(name, None);
        journal.append(FrameKind::Telemetry, payload).unwrap();
        journal.seal().unwrap();
    };
    let disk = Disk::new();
    run(&disk, "a.omni", b"\xff\xfe");
    run(&disk, "b.omni", b"\xff\xfe");
    run(&disk, "c.omni", b"\xff");
    let options = DivergenceOptions::default();
    let compare = |b: &str| {
        find_divergence_with(&mut disk.open("a.omni"), &mut disk.open(b), &options).unwrap()
    };
    assert_eq!(compare("b.omni"), None);
    assert_eq!(compare("c.omni").map(|found| found.tick), Some(1));
}

#[test]
fn damage_is_an_error_and_not_the_end_of_a_run() {
    let disk = Disk::new();
    disk.run("a.omni", &loop_of(20), None);
    disk.run("b.omni", &loop_of(20), None);
    let (_, late) = disk.records("b.omni")[30].clone();
    disk.damage("b.omni", late.offset);
    let options = DivergenceOptions::default();
    let result = find_divergence_with(&mut disk.open("a.omni"), &mut disk.open("b.omni"), &options);
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Corrupt);
}

fn any_record() -> impl Strategy<Value = (FrameKind, Value)> {
    prop_oneof![
        4 => (0..3u8).prop_map(|x| (FrameKind::Telemetry, json!({"x": x, "y": [1, x]}))),
        2 => (0..3u8).prop_map(|x| (FrameKind::Input, json!({"channel": "c", "value": x}))),
        1 => (0..2u8).prop_map(|x| (FrameKind::Hash, json!({"hash": x}))),
        1 => Just((FrameKind::Mutation, json!({"name": "x"}))),
    ]
}

/// What is compared at each tick, by the same rules.
fn by_tick(disk: &Disk, name: &str) -> std::collections::BTreeMap<u64, [Vec<Value>; 3]> {
    let mut ticks = std::collections::BTreeMap::new();
    for (_, record) in disk.records(name) {
        let place = match record.kind {
            FrameKind::Input => 0,
            FrameKind::Hash => 1,
            FrameKind::Telemetry => 2,
            _ => continue,
        };
        let of: &mut [Vec<Value>; 3] = ticks.entry(record.tick).or_default();
        if place == 1 {
            of[1].clear();
        }
        of[place].push(record.json().unwrap());
    }
    ticks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_tick_and_subject_are_those_of_a_naive_comparison(
        a in prop::collection::vec(any_record(), 0..24),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any_record()), 0..3),
    ) {
        let mut b = a.clone();
        for (at, record) in edits {
            if !b.is_empty() {
                let at = at.index(b.len());
                b[at] = record;
            }
        }
        let disk = Disk::new();
        disk.run("a.omni", &a, Some(5));
        disk.run("b.omni", &b, None);
        let options = DivergenceOptions::default();
        let found = find_divergence_with(&mut disk.open("a.omni"), &mut disk.open("b.omni"), &options);
        let found = found.unwrap().map(|found| (found.tick, found.subject));
        let (a, b) = (by_tick(&disk, "a.omni"), by_tick(&disk, "b.omni"));
        let ticks: std::collections::BTreeSet<u64> = a.keys().chain(b.keys()).copied().collect();
        let expected = ticks.into_iter().find_map(|tick| {
            let (Some([a0, a1, a2]), Some([b0, b1, b2])) = (a.get(&tick), b.get(&tick)) else {
                return Some((tick, Subject::End));
            };
            if a0 != b0 {
                return Some((tick, Subject::Input));
            }
            if let (Some(a1), Some(b1)) = (a1.last(), b1.last()) {
                return (a1 != b1).then_some((tick, Subject::Hash));
            }
            if a2.is_empty() != b2.is_empty() {
                return Some((tick, Subject::End));
            }
            (a2 != b2).then_some((tick, Subject::Telemetry))
        });
        prop_assert_eq!(found, expected);
    }
}
