//! What is promised: the bytes of a journal are those of the committed one. The study is made by calls of the storage interface with a clock that the test moves, one extent per
//! call, and compared with committed bytes: header and head, then the data file. Two values are
//! normalised: the writer's `atune` version, and the name of its data file. The committed file is then
//! read back into the state that the calls had led to.
//!
//! `ATUNE_BLESS_JOURNAL_GOLDEN=1 cargo test -p atune_core --test journal_goldens` rewrites it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::number::JsonF64;
use atune_core::space::{
    Categories, Choice, ChoiceList, ChoiceValue, Distribution, FloatRange, IntRange, Param,
    ParamValue, Template,
};
use atune_core::storage::journal::{
    Identity, JournalOptions, JournalReader, JournalStorage, data_folder,
};
use atune_core::storage::{Result, Storage};
use atune_core::trial::{
    Direction, ResourceUnit, StateBlob, StateScope, StudyConfig, StudyId, TrialId, TrialState,
};
use durable::{Access, Clock, Fs, ManualClock, RealFs, publish, read_all};
use serde_json::json;

const NANOS: u64 = 1_000_000;
const DATA_FILE: &str = "data-0000000000000000-00000000-0000000000000000";

/// The journal at a path, and the clock that it reads.
struct Kept {
    journal: JournalStorage,
    clock: Arc<ManualClock>,
}

impl Kept {
    fn create(path: &Path) -> Self {
        let clock = Arc::new(ManualClock::new(1_000_000 * NANOS, 0));
        let options = JournalOptions {
            threads: false,
            ..JournalOptions::default()
        };
        let (fs, identity) = (Arc::new(RealFs), Identity::fixed(1));
        let journal = JournalStorage::create_on(fs, clock.clone(), identity, path, options);
        Self {
            journal: journal.unwrap(),
            clock,
        }
    }

    fn set_clock(&self, at_millis: u64) {
        self.clock.advance(at_millis * NANOS - self.clock.wall_ns());
    }
}

impl std::ops::Deref for Kept {
    type Target = JournalStorage;

    fn deref(&self) -> &JournalStorage {
        &self.journal
    }
}

fn f(value: f64) -> JsonF64 {
    JsonF64(value)
}

fn learning_rate(value: f64) -> Param {
    let range = FloatRange {
        low: f(0.00001),
        high: f(0.1),
        log: true,
        step: None,
    };
    let dist = Distribution::Float(range);
    Param {
        name: "lr".into(),
        dist,
        value: ParamValue::F64(f(value)),
    }
}

fn all_kinds_of_params() -> Vec<Param> {
    let choice = |name: &str| Choice {
        label: name.into(),
        value: ChoiceValue {
            value_type: "string".into(),
            value: json!(name),
        },
    };
    let choices = ChoiceList {
        version: 1,
        choices: vec![choice("adam"), choice("sgd")],
    };
    let layers = IntRange {
        low: 1,
        high: 8,
        log: false,
        step: Some(1),
    };
    vec![
        learning_rate(0.01),
        Param {
            name: "opt".into(),
            dist: Distribution::Cat(Categories { choices }),
            value: ParamValue::Cat(0),
        },
        Param {
            name: "layers".into(),
            dist: Distribution::Int(layers),
            value: ParamValue::I64(4),
        },
        Param {
            name: "use_bn".into(),
            dist: Distribution::Bool,
            value: ParamValue::Bool(true),
        },
    ]
}

/// Five trials: complete, pruned, failed, waiting from a template, and one whose numbers are not finite.
fn make_study(store: &Kept) -> Result<()> {
    use TrialState::{Complete, Failed, Pruned, Running, Waiting};
    store.set_clock(1_000_000);
    let study = store.create_study(&StudyConfig {
        name: "golden".into(),
        directions: vec![Direction::Minimize, Direction::Maximize],
        seed: 167,
        space: None,
        resource_unit: ResourceUnit::Steps,
        metric_names: vec!["loss".into(), "reward".into()],
    })?;
    store.set_study_user_attr(study, "team", &json!("control"))?;
    let trial = store.create_trial(study, None)?;
    store.transition(trial, Waiting, Running)?;
    store.params_batch(trial, &all_kinds_of_params())?;
    store.set_trial_user_attr(trial, "dataset", &json!({ "fold": 2, "split": "train" }))?;
    store.set_clock(1_000_050);
    store.heartbeat(trial, 1_000_050)?;
    store.report(trial, 1, &[f(0.9), f(0.1)])?;
    store.report(trial, 2, &[f(0.5), f(0.4)])?;
    store.set_values(trial, &[f(0.42), f(0.58)])?;
    store.transition(trial, Running, Complete)?;

    store.set_clock(1_001_050);
    let trial = store.create_trial(study, None)?;
    store.transition(trial, Waiting, Running)?;
    store.params_batch(trial, &[learning_rate(0.05)])?;
    store.report(trial, 1, &[f(1.2), f(0.05)])?;
    store.transition(trial, Running, Pruned)?;

    store.set_clock(1_002_050);
    let trial = store.create_trial(study, None)?;
    store.transition(trial, Waiting, Running)?;
    store.set_error(trial, "objective panicked: NaN loss at step 3")?;
    store.transition(trial, Running, Failed)?;

    store.set_clock(1_003_050);
    let fixed = [
        ("lr".to_owned(), ParamValue::F64(f(0.001))),
        ("opt".to_owned(), ParamValue::Cat(1)),
    ];
    store.create_trial(
        study,
        Some(&Template {
            fixed: fixed.into(),
            parent: None,
        }),
    )?;
    let data = json!({ "gamma": 0.25, "observations": 3 });
    let blob = StateBlob {
        kind: "tpe".into(),
        version: 1,
        data,
    };
    store.put_state(StateScope::Sampler(study), &blob)?;

    store.set_clock(1_004_050);
    let trial = store.create_trial(study, None)?;
    store.transition(trial, Waiting, Running)?;
    store.report(trial, 0, &[f(f64::NAN), f(f64::INFINITY)])?;
    store.set_values(trial, &[f(f64::NAN), f(f64::NEG_INFINITY)])?;
    store.transition(trial, Running, Complete)
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens/journal_full_study_v6.jsonl")
}

/// The head file and the data file of the golden.
fn golden() -> (Vec<u8>, Vec<u8>) {
    let bytes = read_all(&RealFs, &golden_path(), 1 << 20).unwrap();
    let ends = bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(at, _)| at + 1);
    let head_len = ends.clone().nth(1).unwrap();
    (bytes[..head_len].to_vec(), bytes[head_len..].to_vec())
}

fn write(path: &Path, bytes: &[u8]) {
    RealFs
        .create_new(path, Access::Shared)
        .unwrap()
        .append(bytes)
        .unwrap();
}

#[test]
fn a_study_made_by_calls_has_the_bytes_of_the_golden() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.atj");
    let store = Kept::create(&path);
    make_study(&store).unwrap();
    let head_file = read_all(&RealFs, &path, 1 << 20).unwrap();
    let names = RealFs.read_dir(&data_folder(&path)).unwrap();
    let is_data = |name: &&str| name.starts_with("data-");
    let names = names.iter().filter_map(|p| p.file_name()?.to_str());
    let names: Vec<&str> = names.filter(is_data).collect();
    let [name] = names.as_slice() else {
        panic!("one writer, one data file: {names:?}");
    };
    assert_eq!(name.len(), DATA_FILE.len());
    let data_file = read_all(&RealFs, &data_folder(&path).join(name), 1 << 20).unwrap();
    let version = concat!("\"atune\":\"", env!("CARGO_PKG_VERSION"), "\"");
    let normalised = |bytes: Vec<u8>| {
        let text = String::from_utf8(bytes).unwrap();
        let text = text.replace(name, DATA_FILE);
        text.replacen(version, "\"atune\":\"0.0.0\"", 1)
            .into_bytes()
    };
    let (head_file, data_file) = (normalised(head_file), normalised(data_file));
    if std::env::var_os("ATUNE_BLESS_JOURNAL_GOLDEN").is_some() {
        publish(
            &RealFs,
            &golden_path(),
            &[head_file.clone(), data_file.clone()].concat(),
        )
        .unwrap();
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (expected_head, expected_data) = golden();
    assert_eq!(text(&head_file), text(&expected_head));
    assert_eq!(text(&data_file), text(&expected_data));
}

#[test]
fn the_golden_is_read_back_into_the_study_that_made_it() {
    let (head_file, data_file) = golden();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.atj");
    write(&path, &head_file);
    RealFs.create_dir(&data_folder(&path)).unwrap();
    write(&data_folder(&path).join(DATA_FILE), &data_file);
    let reader = JournalReader::open(&path).unwrap();
    let store = Kept::create(&folder.path().join("again.atj"));
    make_study(&store).unwrap();
    let read = store.read(&mut |replica| assert_eq!(reader.replica(), replica));
    read.unwrap();
    assert_eq!(
        (
            reader.extent_count(),
            reader.head().ops,
            reader.head().bytes
        ),
        (27, 27, 4166)
    );
    let study = reader.replica().study(StudyId(0)).unwrap();
    let states: Vec<TrialState> = study
        .trials
        .iter()
        .map(|id| reader.replica().trial(*id).unwrap().state)
        .collect();
    let ended = [TrialState::Complete, TrialState::Pruned, TrialState::Failed];
    assert_eq!(states[..3], ended);
    assert_eq!(states[3..], [TrialState::Waiting, TrialState::Complete]);
    let trial = reader.replica().trial(TrialId(4)).unwrap();
    assert!(trial.values.as_ref().unwrap()[0].0.is_nan());
}
