//! Promise: a loop that is run again with the recorded inputs does the same, and one changed input shows
//! at exactly its tick.

use omniloop_core::analysis::{
    DivergenceOptions, InputReplayer, ReplayOptions, Subject, find_divergence_with,
};
use omniloop_core::journal::{Error, ErrorKind, FrameKind, StateJournal};
use serde_json::{Value, json};

use super::support::Disk;

/// A loop with a state, a seed, and an input on every third tick.
fn run_loop(journal: &mut StateJournal, ticks: u64, mut input: impl FnMut(&str, u64) -> u64) {
    let mut record = |kind, payload: Value| {
        journal
            .append(kind, payload.to_string().as_bytes())
            .unwrap();
    };
    let mut state = input("seed:rng", 0);
    record(
        FrameKind::Input,
        json!({"channel": "seed:rng", "value": state}),
    );
    for tick in 1..=ticks {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        record(
            FrameKind::Telemetry,
            json!({"state": state, "low": state % 10}),
        );
        if tick % 3 == 0 {
            let command = input("cmd", tick);
            record(
                FrameKind::Input,
                json!({"channel": "cmd", "value": command}),
            );
            state ^= command;
        }
    }
}

fn recorded(disk: &Disk) {
    let mut journal = disk.journal("run.omni", Some(7));
    run_loop(&mut journal, 40, |channel, tick| {
        if channel == "cmd" { tick * 5 } else { 42 }
    });
    journal.seal().unwrap();
}

fn replayed(disk: &Disk, change: impl Fn(u64, u64) -> u64) {
    let mut inputs = InputReplayer::new(disk.open("run.omni"), ReplayOptions::default());
    let mut journal = disk.journal("again.omni", None);
    run_loop(&mut journal, 40, |channel, tick| {
        let value = inputs.next_input(channel, tick).unwrap().unwrap();
        change(tick, value.as_u64().unwrap())
    });
    journal.seal().unwrap();
    assert_eq!(inputs.unused(), 0);
}

#[test]
fn a_replayed_loop_parts_from_the_recorded_one_nowhere() {
    let disk = Disk::new();
    recorded(&disk);
    replayed(&disk, |_, value| value);
    let options = DivergenceOptions::default();
    let (mut a, mut b) = (disk.open("run.omni"), disk.open("again.omni"));
    assert_eq!(
        find_divergence_with(&mut a, &mut b, &options).unwrap(),
        None
    );
}

#[test]
fn with_one_input_changed_the_runs_part_at_exactly_that_tick() {
    let disk = Disk::new();
    recorded(&disk);
    replayed(
        &disk,
        |tick, value| if tick == 21 { value + 1 } else { value },
    );
    let options = DivergenceOptions::default();
    let (mut a, mut b) = (disk.open("run.omni"), disk.open("again.omni"));
    let found = find_divergence_with(&mut a, &mut b, &options)
        .unwrap()
        .unwrap();
    assert_eq!((found.tick, found.subject), (21, Subject::Input));
    assert_eq!(found.field, "cmd");
    assert_eq!(found.last_equal, Some(20));
}

#[test]
fn an_input_that_was_not_recorded_is_an_error_that_names_what_was() {
    let disk = Disk::new();
    recorded(&disk);
    let mut inputs = InputReplayer::new(disk.open("run.omni"), ReplayOptions::default());
    assert_eq!(inputs.seed("rng").unwrap(), Some(json!(42)));
    let error = inputs.next_input("camera", 3).unwrap_err();
    assert!(matches!(&error, Error::NoInput { tick: 3, .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "no further input of channel \"camera\" was recorded at tick 3: there is 1 of \"cmd\""
    );
    assert_eq!(inputs.next_input("cmd", 3).unwrap(), Some(json!(15)));
    assert!(inputs.next_input("cmd", 3).is_err(), "there was one only");
    let backwards = inputs.next_input("cmd", 2).unwrap_err();
    assert_eq!(backwards.kind(), ErrorKind::Misuse);
}

#[test]
fn without_strictness_a_missing_input_is_none_and_skipped_ones_are_counted() {
    let disk = Disk::new();
    recorded(&disk);
    let options = ReplayOptions { strict: false };
    let mut inputs = InputReplayer::new(disk.open("run.omni"), options);
    assert_eq!(inputs.next_input("cmd", 4).unwrap(), None);
    assert_eq!(inputs.next_input("cmd", 9).unwrap(), Some(json!(45)));
    assert_eq!(inputs.unused(), 3, "the seed, and those of ticks 3 and 6");
    assert_eq!(inputs.next_input("cmd", 1000).unwrap(), None);
}

#[test]
fn all_inputs_come_back_in_the_order_in_which_they_were_recorded() {
    let disk = Disk::new();
    recorded(&disk);
    let mut inputs = InputReplayer::new(disk.open("run.omni"), ReplayOptions::default());
    let mut all = Vec::new();
    while let Some(input) = inputs.next_any().unwrap() {
        all.push((input.place.segment, input.place.offset, input.value));
    }
    let recorded = disk.records("run.omni").into_iter();
    let recorded: Vec<_> = recorded
        .filter(|(_, record)| record.kind == FrameKind::Input)
        .map(|(segment, record)| {
            (
                segment,
                record.offset,
                record.json().unwrap()["value"].clone(),
            )
        })
        .collect();
    assert_eq!(all, recorded);
}
