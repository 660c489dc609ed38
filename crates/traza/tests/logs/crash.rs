//! What is promised: after a crash at any call every acknowledged line is there, in order, and nothing that was never
//! submitted; a call that failed leaves memory as it was, and later ones work.

use durable_sim::{BoxError, Image, Ledger, SimFs, Survival};
use traza::json::Value;
use traza::logs::annotation::{Annotation, Annotations};

use crate::disk::{at, sweep, with};

/// Longer than a sector, so that a crash can keep a part of it.
fn annotation(number: u64) -> Annotation {
    let line = format!(
        r#"{{"trace_id":"t{number}","name":"n","value":{number},"comment":"{}"}}"#,
        "long ".repeat(150)
    );
    Annotation::from_json(line.as_bytes()).unwrap()
}

fn open(fs: &SimFs) -> Result<Annotations, BoxError> {
    let (fs, path) = at(fs);
    Ok(Annotations::open(fs, path)?.0)
}

fn numbers(annotations: &Annotations) -> Vec<u64> {
    let values = annotations.all().iter().filter_map(|a| a.value.as_u64());
    values.collect()
}

/// Appends and notes; on an error, memory is as before.
fn note(
    annotations: &mut Annotations,
    ledger: &mut Ledger<u64>,
    number: u64,
) -> Result<(), BoxError> {
    let before = numbers(annotations);
    ledger.submit(number);
    let appended = annotations.append(annotation(number));
    if appended.is_err() {
        assert_eq!(numbers(annotations), before);
    }
    appended?;
    ledger.acknowledge(number);
    Ok(())
}

fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
    let mut annotations = open(&image.fs)?;
    ledger.check_in_order(&numbers(&annotations))?;
    annotations.append(annotation(99))?;
    assert_eq!(numbers(&open(&image.fs)?), numbers(&annotations));
    Ok(())
}

#[test]
fn a_crash_at_any_call_of_an_append_keeps_what_was_acknowledged() {
    let swept = sweep()
        .for_each_crash(
            |fs, ledger| {
                let mut annotations = open(fs)?;
                note(&mut annotations, ledger, 1)?;
                note(&mut annotations, ledger, 2)?;
                drop(annotations);
                note(&mut open(fs)?, ledger, 3)
            },
            check,
        )
        .unwrap();
    assert!(swept.calls > 10, "{swept:?}");
}

#[test]
fn a_failure_of_any_call_of_an_append_loses_nothing_and_later_appends_work_also_after_a_crash() {
    sweep()
        .for_each_failure(
            |fs, ledger| {
                let mut annotations = open(fs).or_else(|_| open(fs))?;
                for number in 1..4 {
                    if note(&mut annotations, ledger, number).is_err() {
                        // One call fails, so what is tried again has to work: the log mends itself.
                        note(&mut annotations, ledger, number + 10)?;
                    }
                }
                Ok(())
            },
            |image, ledger| {
                if image.survival == Survival::Everything {
                    // No crash: what failed is not there at all.
                    assert_eq!(numbers(&open(&image.fs)?), ledger.acknowledged());
                }
                check(image, ledger)
            },
        )
        .unwrap();
}

#[test]
fn a_crash_at_any_call_of_a_drop_leaves_the_old_log_or_the_new_one() {
    let start = SimFs::new();
    let mut annotations = open(&start).unwrap();
    for number in 1..4 {
        annotations.append(annotation(number)).unwrap();
    }
    let doomed = |a: &Annotation| a.value == Value::from(2);
    let sweep = sweep().starting_from(&start);
    let check = |image: &Image, ledger: &Ledger<u64>| {
        let found = numbers(&open(&image.fs)?);
        let (old, new) = ([1, 2, 3].as_slice(), [1, 3].as_slice());
        let (kept, later) = found.split_at(found.len().min(if found.contains(&2) { 3 } else { 2 }));
        assert!(
            kept == new || (kept == old && !ledger.acknowledged().contains(&2)),
            "{found:?}"
        );
        assert!(
            later == [4] || later.is_empty() && !ledger.acknowledged().contains(&4),
            "{found:?}"
        );
        Ok(())
    };
    sweep
        .for_each_crash(
            |fs, ledger| {
                let mut annotations = open(fs)?;
                annotations.drop_where(doomed)?;
                ledger.acknowledge(2);
                annotations.append(annotation(4))?;
                ledger.acknowledge(4);
                Ok(())
            },
            check,
        )
        .unwrap();
    sweep
        .for_each_failure(
            |fs, ledger| {
                let mut annotations = open(fs).or_else(|_| open(fs))?;
                if annotations.drop_where(doomed).is_err() {
                    assert_eq!(numbers(&annotations), [1, 2, 3]);
                } else {
                    ledger.acknowledge(2);
                }
                annotations
                    .append(annotation(4))
                    .or_else(|_| annotations.append(annotation(4)))?;
                ledger.acknowledge(4);
                assert_eq!(numbers(&open(&fs.fork())?), numbers(&annotations));
                Ok(())
            },
            check,
        )
        .unwrap();
}

#[test]
fn a_full_disk_refuses_and_takes_up_again_when_there_is_room_before_and_after_a_crash() {
    let line_len = annotation(1).to_json().len() as u64 + 1;
    for spare in [0, 1, 100, line_len - 1] {
        let fs = with(b"");
        let mut annotations = open(&fs).unwrap();
        annotations.append(annotation(1)).unwrap();
        fs.set_capacity(Some(line_len + spare));
        annotations.append(annotation(2)).unwrap_err();
        annotations.append(annotation(3)).unwrap_err();
        annotations
            .drop_where(|a| a.value == Value::from(7))
            .unwrap();
        assert_eq!(numbers(&annotations), [1]);
        fs.set_capacity(None);
        annotations.append(annotation(4)).unwrap();
        let after = fs.after_crash(Survival::Nothing);
        assert_eq!(numbers(&open(&after).unwrap()), [1, 4]);
    }
}

#[test]
fn what_a_killed_process_left_unsynced_is_durable_once_it_was_handed_out_whatever_crash_follows() {
    use durable::{Access, Fs as _};
    let fs = SimFs::new();
    let line = format!("{}\n", annotation(1).to_json());
    let mut file = fs
        .create_new(std::path::Path::new(crate::disk::LOG), Access::Shared)
        .unwrap();
    file.append(line.as_bytes()).unwrap();
    drop(file);
    assert_eq!(numbers(&open(&fs).unwrap()), [1]);
    let after = fs.after_crash(Survival::Nothing);
    assert_eq!(numbers(&open(&after).unwrap()), [1]);
}
