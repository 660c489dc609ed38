//! What is promised: a study of thousands of managed trials, in thousands of extents, is read back whole.

use std::path::Path;
use std::sync::Arc;

use atune_core::lifecycle::{FencedMutation, Outcome};
use atune_core::number::JsonF64;
use atune_core::outbox::Intent;
use atune_core::replica::Replica;
use atune_core::storage::conformance::{example_config, example_param};
use atune_core::storage::journal::record::{
    CreateStudy, Header, LifecycleClaim, LifecycleFenced, LifecycleReserve, LifecycleTerminal, Op,
    OpLine,
};
use atune_core::storage::journal::{JournalReader, write_study};
use atune_core::trial::{Direction, StudyId, TrialId, TrialState, WorkerId};
use durable_sim::SimFs;

use crate::journal::{A, PATH};

const TRIALS: u64 = 5_000;

fn value(trial: u64) -> f64 {
    f64::from(u32::try_from(trial * 7919 % TRIALS).unwrap())
}

/// The operations of one trial: those that start it, its reports, its end.
fn trial_ops(number: u64) -> [Vec<Op>; 3] {
    let (trial, worker, epoch) = (TrialId(number), WorkerId(number % 8), 1);
    let study = StudyId(0);
    let reserve = LifecycleReserve {
        study,
        trial,
        number,
        template: None,
        managed: true,
    };
    let params = ["x", "y", "z"].map(|name| example_param(name, value(number) / 5000.0));
    let claim = LifecycleClaim {
        trial,
        from: TrialState::Waiting,
        worker,
        heartbeat_millis: number,
        epoch,
        heartbeat_seq: 1,
        params: params.to_vec(),
        state: None,
    };
    let report = |step: u64| {
        let values = vec![JsonF64(value(number) + 0.5)];
        let mutation = FencedMutation::Report { step, values };
        Op::from(LifecycleFenced {
            trial,
            worker,
            epoch,
            mutation,
        })
    };
    let terminal = LifecycleTerminal {
        trial,
        worker,
        epoch,
        outcome: Outcome::complete(vec![JsonF64(value(number))]),
        intent: Some(Intent::default()),
    };
    [
        vec![reserve.into(), claim.into()],
        (1..=3).map(report).collect(),
        vec![terminal.into()],
    ]
}

#[test]
fn a_study_of_thousands_of_trials_is_read_back_whole() {
    let (study, config) = (StudyId(0), example_config("large", &[Direction::Minimize]));
    let create = vec![CreateStudy { study, config }.into()];
    let groups = std::iter::once(create).chain((0..TRIALS).flat_map(trial_ops));
    let mut written = Replica::new();
    let mut extents = groups.map(|ops: Vec<Op>| {
        let line = |op| {
            let seq = written.seq() + 1;
            let line = OpLine {
                seq,
                worker: WorkerId(0),
                at_millis: seq,
                op,
            };
            written.apply_line(&line).unwrap();
            line
        };
        ops.into_iter().map(line).collect()
    });
    let header = Header {
        format: 6,
        atune: "1.0.0".to_owned(),
        created_at_millis: 1,
        created_by: WorkerId(0),
    };
    let fs = SimFs::new();
    let head = write_study(&fs, Path::new(PATH), &header, A, &mut extents).unwrap();
    assert_eq!(head.ops, 1 + TRIALS * 6);
    let reader = JournalReader::open_on(Arc::new(fs), PATH).unwrap();
    assert_eq!(*reader.head(), head);
    assert_eq!(reader.extent_count() as u64, 1 + TRIALS * 3);
    let replica = reader.replica();
    assert_eq!(*replica, written);
    assert_eq!(replica.trials().len() as u64, TRIALS);
    let is_whole = |trial: &atune_core::replica::Trial| {
        trial.state == TrialState::Complete && trial.reports.len() == 3 && trial.params.len() == 3
    };
    assert!(replica.trials().iter().all(is_whole));
    assert_eq!(replica.budget_used(study).unwrap(), TRIALS);
    assert_eq!(replica.outboxes().count() as u64, TRIALS);
    let best = replica.best_trials(study).unwrap();
    assert_eq!(best.first().unwrap().number, 0);
}
