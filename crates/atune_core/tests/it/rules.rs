//! What is promised: what could never be put right later is refused when it is written: parameters that
//! are no values of their distributions, spaces that contradict themselves, and effects that nobody
//! could ever carry out. Each rule is asked through every operation that it concerns.

use atune_core::lifecycle::{FencedMutation, Outcome};
use atune_core::number::JsonF64;
use atune_core::outbox::{Effect, EffectKey, Intent, OutboxKey, Phase};
use atune_core::replica::Refusal;
use atune_core::space::{
    Categories, Choice, ChoiceList, ChoiceValue, Distribution, FloatRange, Param, ParamValue,
    SpaceFault,
};
use atune_core::storage::conformance::{example_config, example_param};
use atune_core::storage::{Fence, MemoryStorage, Storage, StorageError};
use atune_core::trial::{Direction, SpaceEntry, StudyId, TrialId, WorkerId};
use std::sync::Arc;

fn store() -> (MemoryStorage, StudyId) {
    let storage = MemoryStorage::new(Arc::new(durable::SystemClock::start()), WorkerId(0));
    let config = example_config("a", &[Direction::Minimize]);
    let study = storage.create_study(&config).unwrap();
    (storage, study)
}

fn seq(storage: &MemoryStorage) -> u64 {
    let mut seq = 0;
    storage.read(&mut |replica| seq = replica.seq()).unwrap();
    seq
}

fn choices(version: u32) -> Distribution {
    let choice = Choice {
        label: "adam".to_owned(),
        value: ChoiceValue {
            value_type: "string".to_owned(),
            value: "adam".into(),
        },
    };
    let choices = ChoiceList {
        version,
        choices: vec![choice],
    };
    Distribution::Cat(Categories { choices })
}

fn tenths() -> Distribution {
    Distribution::Float(FloatRange {
        low: JsonF64(0.0),
        high: JsonF64(1.0),
        log: false,
        step: Some(JsonF64(0.1)),
    })
}

/// Puts the parameter to every operation that takes one; answers what each says.
fn everywhere(param: &Param) -> Vec<Result<(), Refusal>> {
    let (storage, study) = store();
    let params = std::slice::from_ref(param);
    let worker = WorkerId(1);
    let before = seq(&storage);
    let raw = storage.create_trial(study, None).unwrap();
    let waiting = storage.reserve(study, None, None).unwrap();
    let started = storage.start(study, None, worker, 1, &[]).unwrap();
    let batch = FencedMutation::ParamsBatch {
        params: params.to_vec(),
    };
    let said = [
        storage.params_batch(raw, params),
        storage.claim(waiting, worker, 1, params, None).map(drop),
        storage.fenced(started, &batch),
        storage.start(study, None, worker, 1, params).map(drop),
    ];
    let accepted = said.iter().filter(|said| said.is_ok()).count() as u64;
    // Of those that are refused nothing stays behind: not even the reservation of a start.
    let written = seq(&storage) - before - 4;
    assert_eq!(written, accepted + u64::from(said[3].is_ok()));
    let refusal = |said: Result<(), StorageError>| match said {
        Ok(()) => Ok(()),
        Err(StorageError::Refused(refusal)) => Err(refusal),
        Err(other) => panic!("{other}"),
    };
    said.into_iter().map(refusal).collect()
}

fn all_refuse(param: &Param, fault: &SpaceFault) {
    let expected = Refusal::BadParam {
        name: param.name.clone(),
        fault: fault.clone(),
    };
    for said in everywhere(param) {
        assert_eq!(said, Err(expected.clone()));
    }
}

#[test]
fn a_value_between_two_steps_is_refused_by_every_operation_that_takes_parameters() {
    let param = |value| Param {
        name: "x".to_owned(),
        dist: tenths(),
        value: ParamValue::F64(JsonF64(value)),
    };
    assert!(everywhere(&param(0.3)).iter().all(Result::is_ok));
    all_refuse(&param(0.35), &SpaceFault::OutOfRange);
}

#[test]
fn a_list_of_choices_of_an_unknown_version_is_refused_by_every_operation_that_takes_one() {
    let param = |version| Param {
        name: "optimizer".to_owned(),
        dist: choices(version),
        value: ParamValue::Cat(0),
    };
    assert!(everywhere(&param(1)).iter().all(Result::is_ok));
    let unknown = SpaceFault::ChoicesVersion { found: 2 };
    all_refuse(&param(2), &unknown);
    let (storage, _) = store();
    let mut config = example_config("b", &[Direction::Minimize]);
    config.space = Some(vec![SpaceEntry {
        name: "optimizer".to_owned(),
        dist: choices(2),
    }]);
    let found = storage.create_study(&config);
    let is_refused = matches!(
        &found,
        Err(StorageError::Refused(Refusal::BadParam { fault, .. })) if *fault == unknown
    );
    assert!(is_refused, "{found:?}");
}

#[test]
fn a_space_that_names_a_parameter_twice_is_refused_and_the_name_stays_free() {
    let (storage, _) = store();
    let entry = |name: &str| SpaceEntry {
        name: name.to_owned(),
        dist: tenths(),
    };
    let mut config = example_config("b", &[Direction::Minimize]);
    config.space = Some(["x", "y", "x"].map(entry).to_vec());
    let found = storage.create_study(&config);
    let Err(StorageError::Refused(refusal)) = found else {
        panic!("{found:?}")
    };
    assert_eq!(
        refusal.to_string(),
        r#"parameter "x": the space names it twice"#
    );
    config.space = Some(["x", "y"].map(entry).to_vec());
    storage.create_study(&config).unwrap();
}

#[test]
fn a_batch_that_names_a_parameter_twice_is_refused_however_long_it_is() {
    let (storage, study) = store();
    let trial = storage.create_trial(study, None).unwrap();
    let names: Vec<String> = (0..50_000).map(|number| format!("p{number}")).collect();
    let mut params: Vec<Param> = names.iter().map(|name| example_param(name, 0.5)).collect();
    params.push(example_param("p7", 0.5));
    let found = storage.params_batch(trial, &params);
    let taken = Refusal::ParamTaken("p7".to_owned());
    assert!(matches!(found, Err(StorageError::Refused(refusal)) if refusal == taken));
    params.pop();
    storage.params_batch(trial, &params).unwrap();
    assert_eq!(storage.trial(trial).unwrap().params.len(), 50_000);
    // Nor may a later batch, long or short, name one that is there.
    let other = |number: u32| example_param(&format!("q{number}"), 0.5);
    for count in [0, 50_000] {
        let mut params: Vec<Param> = (0..count).map(other).collect();
        params.push(example_param("p49999", 0.5));
        let found = storage.params_batch(trial, &params);
        let taken = Refusal::ParamTaken("p49999".to_owned());
        assert!(matches!(found, Err(StorageError::Refused(refusal)) if refusal == taken));
    }
}

/// A failed trial and its outbox.
fn ended(storage: &MemoryStorage, study: StudyId) -> OutboxKey {
    let fence = storage.start(study, None, WorkerId(1), 1, &[]).unwrap();
    let Fence { trial, epoch, .. } = fence;
    storage
        .terminal(fence, &Outcome::failed("boom"), &Intent::default())
        .unwrap();
    OutboxKey { trial, epoch }
}

#[test]
fn an_exploit_of_a_trial_that_does_not_exist_is_refused_with_its_whole_step() {
    let (storage, study) = store();
    let key = ended(&storage, study);
    let exploit = |source| Effect::Exploit {
        source: TrialId(source),
        params: [].into(),
    };
    let before = seq(&storage);
    for effects in [vec![exploit(9)], vec![Effect::Retry {}, exploit(1)]] {
        let found = storage.outbox_advance(key, Phase::Effects, None, None, &effects);
        let is_unknown = matches!(
            found,
            Err(StorageError::Refused(Refusal::UnknownTrial(TrialId(1 | 9))))
        );
        assert!(is_unknown, "{found:?}");
        assert_eq!(seq(&storage), before);
    }
    // One of a trial that exists can be carried out, even of itself.
    storage
        .outbox_advance(key, Phase::Effects, None, None, &[exploit(0)])
        .unwrap();
    let OutboxKey { trial, epoch } = key;
    let effect = EffectKey {
        trial,
        epoch,
        index: 0,
    };
    let attempt = atune_core::outbox::Attempt { number: 1, max: 1 };
    storage.outbox_replacement(effect, None, attempt).unwrap();
    storage
        .outbox_advance(key, Phase::Done, None, None, &[])
        .unwrap();
}
