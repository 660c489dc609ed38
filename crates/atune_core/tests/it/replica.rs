//! What is promised: the state machine accepts what the rules allow, refuses everything else for the
//! reason that the rules give, and a refused operation changes nothing. Random sequences of operations,
//! legal and illegal, are put to it and to a naive model; after each the two must agree.

use std::collections::BTreeSet;

use atune_core::number::JsonF64;
use atune_core::replica::Replica;
use atune_core::storage::journal::record::Op;
use atune_core::trial::TrialId;
use proptest::prelude::*;

use crate::draw::Draw;
use crate::model::Model;
use crate::random::Random;

/// The name of an enum's variant.
fn variant(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(|c: char| !c.is_alphanumeric())
        .next()
        .unwrap()
        .to_owned()
}

fn agree(replica: &Replica, model: &Model) {
    assert_eq!(replica.seq(), model.accepted);
    assert_eq!(replica.studies().len(), model.studies.len());
    assert_eq!(replica.trials().len(), model.trials.len());
    for (is, should) in replica.trials().iter().zip(&model.trials) {
        assert_eq!(
            (is.study, is.number, is.managed),
            (should.study, should.number, should.managed)
        );
        assert_eq!(
            (is.state, is.owner, is.epoch),
            (should.state, should.owner, should.epoch),
            "{}",
            is.id
        );
        assert_eq!(
            (is.heartbeat_millis, is.heartbeat_seq),
            (should.heartbeat, should.heartbeats)
        );
        let names: Vec<&str> = is.params.iter().map(|p| p.key.name.as_str()).collect();
        assert_eq!(names, should.params);
        let steps: Vec<u64> = is.reports.iter().map(|r| r.step).collect();
        assert_eq!(steps, should.steps);
        let values = should
            .values
            .as_ref()
            .map(|v| v.iter().copied().map(JsonF64).collect());
        assert_eq!(is.values, values);
        assert_eq!(is.error(), should.error.as_deref());
        assert!(
            is.user_attrs()
                .eq(should.attrs.iter().map(|(k, v)| (k.as_str(), v)))
        );
    }
    for study in replica.studies() {
        let counted = model
            .trials
            .iter()
            .filter(|t| t.study == study.id && t.counts)
            .count();
        assert_eq!(replica.budget_used(study.id), Ok(counted as u64));
    }
    for (scope, blob) in &model.states {
        assert_eq!(replica.state(*scope), Some(blob));
    }
    assert_eq!(replica.outboxes().count(), model.outboxes.len());
    for (key, outbox) in replica.outboxes() {
        let (phase, effects) = &model.outboxes[&key];
        assert_eq!(outbox.phase, *phase);
        assert!(
            outbox
                .effects
                .iter()
                .map(|e| (&e.effect, e.is_complete))
                .eq(effects.iter().map(|(e, d)| (e, *d)))
        );
    }
}

/// Plays one random sequence; answers the kinds of operations that were accepted, and of refusals.
fn play(seed: u64, len: usize) -> (BTreeSet<&'static str>, BTreeSet<String>) {
    let mut r = Random(seed);
    let (mut replica, mut model) = (Replica::new(), Model::default());
    let (mut accepted, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for _ in 0..len {
        let op = Draw {
            r: &mut r,
            replica: &replica,
        }
        .op();
        let before = replica.clone();
        let is = replica.apply(&op);
        let should = model.apply(&op);
        assert_eq!(
            is.as_ref().map_err(variant).copied(),
            should.map_err(str::to_owned),
            "{op:?}"
        );
        match is {
            Ok(()) => {
                accepted.insert(op.kind());
                let changed: BTreeSet<TrialId> =
                    replica.changed_since(before.seq()).map(|t| t.id).collect();
                assert_eq!(changed, op.trials().collect());
            }
            Err(refusal) => {
                assert_eq!(replica, before, "{refusal}");
                refused.insert(variant(&refusal));
            }
        }
        agree(&replica, &model);
    }
    (accepted, refused)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_state_machine_and_the_model_agree_on_every_operation(seed: u64) {
        play(seed, 150);
    }
}

#[test]
fn the_random_sequences_meet_every_kind_of_operation_and_nearly_every_refusal() {
    let (mut accepted, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for seed in 0..30 {
        let (kinds, refusals) = play(seed, 200);
        accepted.extend(kinds);
        refused.extend(refusals);
    }
    assert_eq!(accepted.len(), Op::TABLES.len(), "{accepted:?}");
    assert!(refused.len() >= 24, "{}: {refused:?}", refused.len());
}
