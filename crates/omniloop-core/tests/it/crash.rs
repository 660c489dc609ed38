//! Promised: a crash at any moment keeps every record that was acknowledged as durable, gives back a
//! beginning of what was appended, and leaves nothing that verification calls damaged; an error of
//! the disk is returned, is returned again by every later call, and costs no record before it.
//!
//! Attacked on the simulated disk: the workloads stop, and fail, at every call that changes it, and
//! every disk that may be left is read and verified. `DAYBOOK_CRASH_SEED` draws other disks.
//!
//! The oracle: acknowledged ⊆ recovered ⊆ appended, in order, and the verdict of the product's own
//! verifier. Where the disk kept later sectors of unsynced bytes and lost earlier ones, there are holes
//! that nobody can tell from damage: only behind what was acknowledged may the verifier say so.

use std::path::Path;
use std::sync::Arc;

use durable::{Fs as _, Outcome, Severity};
use durable_sim::{BoxError, Image, Ledger, SimFs, Survival, Sweep};
use omniloop_core::journal::{
    Durability, Error, ErrorKind, FrameKind, JournalOptions, JournalPlayer, PlayerOptions,
    RotationPolicy, SegmentedPlayer, SetOptions, StateJournal, VerifyOptions, segment_path,
    verify_set, verify_signed_with,
};

use crate::support::{options, path};

fn sweep() -> Sweep {
    let seed = std::env::var("DAYBOOK_CRASH_SEED").map_or(1, |seed| seed.parse().unwrap());
    Sweep::default().seed(seed)
}

/// A workload: how many records, how they become durable, and how they rotate.
#[derive(Clone, Copy)]
struct Plan {
    records: u64,
    payload_len: usize,
    durability: Durability,
    rotation: Option<RotationPolicy>,
    /// Records after which the caller syncs.
    sync_after: Option<u64>,
    overwrite: bool,
}

const PLAN: Plan = Plan {
    records: 10,
    payload_len: 30,
    durability: Durability::EachRecord,
    rotation: None,
    sync_after: None,
    overwrite: false,
};

fn body(n: u64, len: usize) -> Vec<u8> {
    let mut bytes = format!("{{\"n\":{n:04}}}").into_bytes();
    bytes.resize(bytes.len().max(len), b' ');
    bytes
}

fn number(payload: &[u8]) -> u64 {
    let digits = std::str::from_utf8(&payload[5..9]).unwrap();
    digits.parse().unwrap()
}

impl Plan {
    fn options(&self, fs: &SimFs) -> JournalOptions {
        JournalOptions {
            durability: self.durability,
            rotation: self.rotation,
            overwrite: self.overwrite,
            ..options(fs)
        }
    }

    fn run(&self, fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
        let mut journal = StateJournal::create_with(path(), self.options(fs))?;
        for n in 0..self.records {
            ledger.submit(n);
            let payload = body(n, self.payload_len);
            if let Err(first) = journal.append(FrameKind::Telemetry, &payload) {
                stays_failed(&mut journal, &first);
                return Err(first.into());
            }
            match self.durability {
                Durability::EachRecord => ledger.acknowledge_all(),
                Durability::EveryN(every) if (n + 1).is_multiple_of(every) => {
                    ledger.acknowledge_all();
                }
                _ => {}
            }
            if self.sync_after == Some(n + 1) {
                journal.sync()?;
                ledger.acknowledge_all();
            }
        }
        journal.seal()?;
        ledger.acknowledge_all();
        Ok(())
    }

    fn survives(&self) {
        let swept = sweep()
            .for_each_crash(|fs, ledger| self.run(fs, ledger), check)
            .unwrap();
        assert!(swept.images > swept.calls);
    }
}

/// After an error every call gives that error, and changes nothing.
fn stays_failed(journal: &mut StateJournal, first: &Error) {
    let again = [
        journal.append(FrameKind::Control, b"{}").unwrap_err(),
        journal.flush().unwrap_err(),
        journal.sync().unwrap_err(),
    ];
    for later in again {
        assert_eq!(later.to_string(), first.to_string());
        assert_eq!(later.kind(), ErrorKind::Io);
    }
}

/// The records of the set, up to its end or to the error that ends it.
fn recovered(fs: &SimFs) -> (Vec<u64>, Result<(), Error>) {
    let mut found = Vec::new();
    let outcome =
        SegmentedPlayer::open_with(Arc::new(fs.clone()), path(), PlayerOptions::default())
            .and_then(|mut player| {
                while let Some(record) = player.read_next_data_record()? {
                    found.push(number(&record.payload));
                }
                Ok(())
            });
    (found, outcome)
}

/// True when the disk may have kept later sectors of a write and lost earlier ones.
fn may_have_holes(survival: Survival) -> bool {
    matches!(survival, Survival::Seeded(_))
}

fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
    let fs = &image.fs;
    let (found, end) = recovered(fs);
    ledger.check_prefix(&found)?;
    if let Err(error) = end {
        let excused = match error.kind() {
            // The machine stopped while the journal was being created: nothing was promised yet.
            ErrorKind::Io => !fs.exists(path())?,
            ErrorKind::Incomplete => ledger.acknowledged().is_empty(),
            ErrorKind::Corrupt | ErrorKind::Unsupported => may_have_holes(image.survival),
            ErrorKind::Misuse => false,
        };
        assert!(excused, "{error}");
    }
    if fs.exists(path())? && !ledger.submitted().is_empty() && !may_have_holes(image.survival) {
        let set = verify_set(fs, path(), &SetOptions::default(), &mut |_, _, _| {})?;
        assert_ne!(set.outcome(), Outcome::Damaged, "{:?}", set.verdict());
    }
    let mut data_before = 0;
    for ordinal in 0.. {
        let file = segment_path(path(), ordinal);
        if !fs.exists(&file)? {
            break;
        }
        data_before = verdict_is_fair(image, ledger, &file, data_before)?;
    }
    Ok(())
}

/// Judges one file; gives how many data records stand in it and before it.
fn verdict_is_fair(
    image: &Image,
    ledger: &Ledger<u64>,
    file: &Path,
    data_before: usize,
) -> Result<usize, BoxError> {
    let options = VerifyOptions {
        strict: true,
        threads: 1,
    };
    let acknowledged = ledger.acknowledged().len();
    let verification = match verify_signed_with(&image.fs, file, &[], options, &mut ()) {
        Ok(verification) => verification,
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::Incomplete)
                    || (error.kind() == ErrorKind::Unsupported && may_have_holes(image.survival)),
                "{error}"
            );
            assert!(data_before >= acknowledged, "{error}");
            return Ok(data_before);
        }
    };
    let mut data = data_before;
    let mut player = JournalPlayer::open_with(&image.fs, file, PlayerOptions::default())?;
    while let Ok(Some(_)) = player.next_data_frame() {
        data += 1;
    }
    let damage: Vec<_> = verification
        .chain
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Damage)
        .collect();
    if !damage.is_empty() {
        assert!(may_have_holes(image.survival), "{damage:?}");
        assert!(data >= acknowledged, "{damage:?}");
    }
    Ok(data)
}

#[test]
fn every_crash_of_a_writer_that_syncs_each_record_keeps_each_record() {
    PLAN.survives();
}

#[test]
fn every_crash_of_a_writer_that_syncs_every_third_record_keeps_those() {
    Plan {
        durability: Durability::EveryN(3),
        ..PLAN
    }
    .survives();
}

#[test]
fn every_crash_of_a_buffered_writer_keeps_what_was_synced_on_request() {
    Plan {
        durability: Durability::Buffered,
        sync_after: Some(6),
        ..PLAN
    }
    .survives();
}

#[test]
fn every_crash_around_checkpoints_keeps_each_record() {
    Plan {
        records: 66,
        ..PLAN
    }
    .survives();
}

#[test]
fn every_crash_of_records_longer_than_the_buffer_keeps_each_record() {
    Plan {
        records: 3,
        payload_len: 270_000,
        ..PLAN
    }
    .survives();
}

#[test]
fn every_crash_during_rotation_keeps_each_record() {
    let rotation = Some(RotationPolicy {
        max_records: Some(4),
        ..RotationPolicy::default()
    });
    for durability in [Durability::EachRecord, Durability::Buffered] {
        Plan {
            durability,
            rotation,
            ..PLAN
        }
        .survives();
    }
}

#[test]
fn every_crash_while_an_old_set_is_overwritten_leaves_the_old_or_the_new() {
    let rotation = Some(RotationPolicy {
        max_records: Some(3),
        ..RotationPolicy::default()
    });
    let old = SimFs::new();
    Plan { rotation, ..PLAN }
        .run(&old, &mut Ledger::default())
        .unwrap();
    let (old_records, _) = recovered(&old);
    let new = Plan {
        overwrite: true,
        ..PLAN
    };
    let swept = sweep()
        .starting_from(&old)
        .for_each_crash(
            |fs, ledger| {
                let mut journal = StateJournal::create_with(path(), new.options(fs))?;
                // From here on the old set is gone for good.
                for n in 1000..1004 {
                    ledger.submit(n);
                    journal.append(FrameKind::Telemetry, &body(n, 0))?;
                    ledger.acknowledge_all();
                }
                journal.seal()?;
                Ok(())
            },
            |image, ledger| {
                let (found, _) = recovered(&image.fs);
                let is_old = found.first().is_some_and(|n| *n < 1000);
                if is_old {
                    assert!(old_records.starts_with(&found));
                    assert!(ledger.submitted().is_empty(), "the old set came back");
                    return Ok(());
                }
                ledger.check_prefix(&found)?;
                Ok(())
            },
        )
        .unwrap();
    assert!(swept.images > 0);
}

#[test]
fn every_failed_call_is_returned_and_costs_no_record_before_it() {
    let rotation = Some(RotationPolicy {
        max_records: Some(4),
        ..RotationPolicy::default()
    });
    for (durability, rotation) in [
        (Durability::EachRecord, None),
        (Durability::EveryN(3), None),
        (Durability::EachRecord, rotation),
    ] {
        let plan = Plan {
            durability,
            rotation,
            ..PLAN
        };
        sweep()
            .for_each_failure(|fs, ledger| plan.run(fs, ledger), check)
            .unwrap();
    }
}

#[test]
fn a_full_disk_is_returned_as_that_and_the_journal_reads_to_its_last_whole_record() {
    for capacity in [40, 100, 500, 700] {
        let fs = SimFs::with_capacity(capacity);
        let mut ledger = Ledger::default();
        let error = PLAN.run(&fs, &mut ledger).unwrap_err();
        let error: Box<Error> = error.downcast().unwrap();
        let Error::Io { source, .. } = *error else {
            panic!("{error:?}");
        };
        assert_eq!(source.raw_os_error(), Some(durable_sim::ENOSPC));
        let (found, end) = recovered(&fs);
        assert!(end.is_ok(), "{end:?}");
        ledger.check_prefix(&found).unwrap();
    }
}
