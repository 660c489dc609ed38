//! What is promised: after a crash at any call, every acknowledged operation is there, once, and the study
//! goes on.

use std::path::Path;
use std::sync::Arc;

use atune_core::storage::Storage;
use atune_core::storage::conformance::example_config;
use atune_core::storage::journal::{JournalReader, JournalStorage, data_folder, verify_study};
use atune_core::trial::{Direction, StudyId};
use durable::{Access, Fs, Outcome};
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use serde_json::json;

use crate::shared::{on_sim, unthreaded};

pub(crate) const PATH: &str = "/study.atj";

pub(crate) fn open(fs: &SimFs, seed: u64) -> Result<JournalStorage, BoxError> {
    let (fs, clock, identity) = on_sim(fs, seed);
    Ok(JournalStorage::open_on(
        fs,
        clock,
        identity,
        PATH,
        unthreaded(),
    )?)
}

fn create(fs: &SimFs) -> Result<JournalStorage, BoxError> {
    let (fs, clock, identity) = on_sim(fs, 1);
    Ok(JournalStorage::create_on(
        fs,
        clock,
        identity,
        PATH,
        unthreaded(),
    )?)
}

/// Sets an attribute; the ledger knows the operations by their values.
fn note(storage: &JournalStorage, ledger: &mut Ledger<u64>, value: u64) -> Result<(), BoxError> {
    ledger.submit(value);
    storage.set_study_user_attr(StudyId(0), &format!("k{value}"), &value.into())?;
    ledger.acknowledge(value);
    Ok(())
}

pub(crate) fn started() -> SimFs {
    let fs = SimFs::new();
    let storage = create(&fs).unwrap();
    let config = example_config("a", &[Direction::Minimize]);
    storage.create_study(&config).unwrap();
    drop(storage);
    fs.after_crash(durable_sim::Survival::Everything)
}

/// What the study holds, in order; it is intact and can be written.
fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
    let fs: Arc<dyn Fs> = Arc::new(image.fs.clone());
    let verdict = verify_study(Arc::clone(&fs), Path::new(PATH))?;
    if verdict.verdict != Outcome::Intact {
        return Err(format!("not intact: {:?}", verdict.findings).into());
    }
    let mut found = Vec::new();
    JournalReader::open_watched(Arc::clone(&fs), PATH, &mut |line, _| {
        if let atune_core::storage::journal::record::Op::SetStudyUserAttr(op) = &line.op {
            found.extend(op.value.as_u64());
        }
    })?;
    ledger.check_in_order(&found)?;
    let storage = open(&image.fs, 99)?;
    storage.set_study_user_attr(StudyId(0), "after", &true.into())?;
    Ok(())
}

fn three_commits(fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
    let storage = open(fs, 2)?;
    for value in 0..3 {
        note(&storage, ledger, value)?;
    }
    Ok(())
}

#[test]
fn a_crash_at_any_call_of_an_append_loses_nothing_acknowledged() {
    let swept = Sweep::default()
        .starting_from(&started())
        .for_each_crash(three_commits, check)
        .unwrap();
    assert!(swept.calls > 30, "{swept:?}");
}

#[test]
fn a_failure_of_any_call_of_an_append_loses_nothing_acknowledged() {
    Sweep::default()
        .starting_from(&started())
        .for_each_failure(
            |fs, ledger| {
                let storage = open(fs, 2)?;
                for value in 0..3 {
                    // What fails is tried once more, as a worker would.
                    if note(&storage, ledger, value).is_err() {
                        note(&storage, ledger, value + 10).ok();
                    }
                }
                Ok(())
            },
            check,
        )
        .unwrap();
}

#[test]
fn a_crash_at_any_call_of_a_creation_leaves_a_whole_study_or_none() {
    let run = |fs: &SimFs, ledger: &mut Ledger<u64>| {
        let storage = create(fs)?;
        ledger.submit(0);
        storage.create_study(&example_config("a", &[Direction::Minimize]))?;
        ledger.acknowledge(0);
        Ok(())
    };
    let check = |image: &Image, ledger: &Ledger<u64>| {
        if !image.fs.exists(Path::new(PATH))? {
            if !ledger.acknowledged().is_empty() {
                return Err("an acknowledged study is gone".into());
            }
            drop(create(&image.fs)?);
            return Ok(());
        }
        let storage = open(&image.fs, 99)?;
        let mut studies = 0;
        storage.read(&mut |replica| studies = replica.studies().len())?;
        if studies < ledger.acknowledged().len() {
            return Err("an acknowledged study is empty".into());
        }
        storage.create_study(&example_config("b", &[Direction::Minimize]))?;
        Ok(())
    };
    Sweep::default().for_each_crash(run, check).unwrap();
}

#[test]
fn a_crash_at_any_call_of_a_takeover_loses_nothing_acknowledged() {
    let swept = Sweep::default()
        .starting_from(&started())
        .for_each_crash(
            |fs, ledger| {
                let one = open(fs, 2)?;
                note(&one, ledger, 0)?;
                // The second handle takes the lease from the first in the middle of its commit.
                let two = open(fs, 3)?;
                ledger.submit(2);
                let mut first = true;
                one.commit(&mut |_| {
                    if std::mem::take(&mut first) {
                        let held = fs.contents().into_keys().find(|p| {
                            p.file_name()
                                .is_some_and(|n| n.as_encoded_bytes().starts_with(b"gen-"))
                        });
                        if let Some(held) = held {
                            let name = held.to_string_lossy().replace("/gen-", "/fenced-");
                            fs.rename(&held, Path::new(&name)).ok();
                        }
                        two.set_study_user_attr(StudyId(0), "k1", &1.into()).ok();
                    }
                    Ok(atune_core::storage::journal::record::SetStudyUserAttr {
                        study: StudyId(0),
                        key: "k2".to_owned(),
                        value: 2.into(),
                    }
                    .into())
                })?;
                ledger.acknowledge(2);
                Ok(())
            },
            |image, ledger| {
                // The second handle's own operation may stand between the two.
                let mut known = Ledger::default();
                for value in [0, 1, 2] {
                    known.submit(value);
                }
                for value in ledger.acknowledged() {
                    known.acknowledge(*value);
                }
                check(image, &known)
            },
        )
        .unwrap();
    assert!(swept.calls > 30, "{swept:?}");
}

/// A study of version 3, with a torn last line.
fn old_study() -> SimFs {
    let fs = SimFs::new();
    let config = serde_json::to_value(example_config("old", &[Direction::Minimize])).unwrap();
    let mut lines = vec![
        r#"{"record":"header","format":3,"atune":"0.3.0","created_at_millis":5,"created_by":2}"#
            .to_owned(),
    ];
    let mut add = |op: &serde_json::Value| {
        let seq = lines.len();
        let op = format!(r#""seq":{seq},"worker":2,"at_millis":7,"op":{op}"#);
        lines.push(format!(r#"{{"record":"op",{op}}}"#));
    };
    add(&json!({ "kind": "create-study", "study": 0, "config": config }));
    for value in 0..3 {
        let key = format!("k{value}");
        add(&json!({ "kind": "set-study-user-attr", "study": 0, "key": key, "value": value }));
    }
    let text = lines.join("\n") + "\n{\"record\":\"op\",\"seq\":5,\"wor";
    let mut file = fs.create_new(Path::new(PATH), Access::Shared).unwrap();
    file.append(text.as_bytes()).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    drop(file);
    fs
}

#[test]
fn a_crash_at_any_call_of_a_migration_leaves_the_old_study_or_the_new_one() {
    let old = old_study();
    let before = durable::read_all(&old, Path::new(PATH), 1 << 20).unwrap();
    let run = |fs: &SimFs, ledger: &mut Ledger<u64>| {
        for value in 0..3 {
            ledger.submit(value);
            ledger.acknowledge(value);
        }
        let storage = open(fs, 2)?;
        note(&storage, ledger, 3)
    };
    let check = |image: &Image, ledger: &Ledger<u64>| {
        drop(open(&image.fs, 98)?);
        check(image, ledger)?;
        let legacy = data_folder(Path::new(PATH)).join("legacy-v3.jsonl");
        let kept = durable::read_all(&image.fs, &legacy, 1 << 20)?;
        if kept != before {
            return Err("the old file is not kept as it was".into());
        }
        Ok(())
    };
    Sweep::default()
        .starting_from(&old)
        .for_each_crash(run, check)
        .unwrap();
}

#[test]
fn a_failure_of_any_call_of_a_migration_leaves_the_old_study_or_the_new_one() {
    let run = |fs: &SimFs, ledger: &mut Ledger<u64>| {
        for value in 0..3 {
            ledger.submit(value);
            ledger.acknowledge(value);
        }
        drop(open(fs, 2));
        Ok(())
    };
    Sweep::default()
        .starting_from(&old_study())
        .for_each_failure(run, |image, ledger| {
            drop(open(&image.fs, 98)?);
            check(image, ledger)
        })
        .unwrap();
}
