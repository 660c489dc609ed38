//! Promised: recovery never touches its input; what was merely cut off becomes, byte for byte, what a
//! clean close after the last whole record would have been; damage costs the records that it hit and
//! no others; and the result was verified before anyone is told of it.
//!
//! Attacked by cutting a journal at every length, flipping every byte, and taking segments away.
//!
//! The oracle is the same journal written again with fewer records, and the records as they were.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs as _, Outcome};
use durable_sim::SimFs;
use omniloop_core::fuzzing::read_all_records;
use omniloop_core::journal::{
    Error, ErrorKind, FrameKind, FrameRecord, JournalOptions, PlayerOptions, RecoverOptions,
    Recovery, RecoveryAction,
    RecoveryAction::{Copied, Replaced},
    Result, RotationPolicy, SegmentedPlayer, SetOptions, StateJournal, recover, segment_path,
    verify_set,
};

use crate::support::{append_in_turn, bytes_of, clock, options, path, read, sealed, verify};

fn output() -> PathBuf {
    PathBuf::from("run.recovered.omni")
}

/// A disk with one journal of these bytes.
fn disk(bytes: &[u8]) -> SimFs {
    let fs = SimFs::new();
    put(&fs, path(), bytes);
    fs
}

fn put(fs: &SimFs, path: &Path, bytes: &[u8]) {
    let mut file = fs.create_new(path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

fn recover_on(fs: &SimFs) -> Result<Recovery> {
    let options = RecoverOptions {
        fs: Arc::new(fs.clone()),
        clock: clock(),
        output: None,
    };
    recover(path(), &options)
}

fn is_data(record: &FrameRecord) -> bool {
    record.kind.is_data()
}

#[test]
fn an_intact_journal_needs_no_recovery_and_nothing_is_written() {
    let fs = disk(&sealed(10));
    let before = fs.contents();
    let recovery = recover_on(&fs).unwrap();
    assert_eq!(recovery.output, None);
    assert!(recovery.segments.is_empty());
    assert_eq!(fs.contents(), before);
}

#[test]
fn a_journal_cut_at_any_length_becomes_what_a_clean_close_would_have_been() {
    let journal = sealed(66);
    let (records, _) = read(&journal);
    let never_interrupted: Vec<Vec<u8>> = (0..=66).map(sealed).collect();
    for len in 32..journal.len() {
        let fs = disk(&journal[..len]);
        let recovery = recover_on(&fs).unwrap();
        let whole = records
            .iter()
            .filter(|r| is_data(r) && r.offset + 36 + r.payload.len() as u64 <= len as u64)
            .count();
        assert!(
            bytes_of(&fs, &output()) == never_interrupted[whole],
            "len={len} whole={whole}"
        );
        assert!(bytes_of(&fs, path()) == journal[..len], "the input stands");
        let [segment] = recovery.segments.as_slice() else {
            panic!("{recovery:?}");
        };
        assert_eq!(segment.action, RecoveryAction::Finalised, "len={len}");
        assert_eq!(segment.records, whole as u64, "len={len}");
    }
}

#[test]
fn a_file_without_a_whole_header_cannot_be_recovered_and_leaves_nothing_behind() {
    for len in [0, 8, 31] {
        let fs = disk(&sealed(3)[..len]);
        assert_eq!(recover_on(&fs).unwrap_err().kind(), ErrorKind::Incomplete);
        assert_eq!(fs.contents().len(), 1);
    }
}

#[test]
fn a_flipped_bit_anywhere_costs_at_most_the_record_it_hit() {
    let journal = sealed(14);
    let (records, _) = read(&journal);
    let data: Vec<&FrameRecord> = records.iter().filter(|r| is_data(r)).collect();
    let mut flipped = journal.clone();
    for at in 32..journal.len() {
        for bit in [0, 6] {
            flipped[at] ^= 1 << bit;
            let fs = disk(&flipped);
            let recovery = recover_on(&fs).unwrap();
            if recovery.output.is_some() {
                let what = format!("byte {at} bit {bit}");
                costs_at_most_one(&fs, &data, at, &what);
            } else {
                let stamps =
                    &records.last().unwrap().offset + 8..records.last().unwrap().offset + 32;
                assert!(
                    stamps.contains(&(at as u64)),
                    "byte {at}: only closing stamps"
                );
            }
            flipped[at] ^= 1 << bit;
        }
    }
}

fn costs_at_most_one(fs: &SimFs, data: &[&FrameRecord], at: usize, what: &str) {
    let set = verify_set(fs, &output(), &SetOptions::default(), &mut |_, _, _| {}).unwrap();
    assert_eq!(set.outcome(), Outcome::Intact, "{what}");
    let (found, end) = read_all_records(fs, &output(), PlayerOptions::default());
    assert!(end.is_ok(), "{what}");
    let found: Vec<FrameRecord> = found.into_iter().filter(is_data).collect();
    for record in data {
        let start = usize::try_from(record.offset).unwrap();
        let hit = (start..start + 36 + record.payload.len()).contains(&at);
        let same = |f: &FrameRecord| {
            (f.kind, f.tick, f.mono_ns, f.wall_ns, &f.payload)
                == (
                    record.kind,
                    record.tick,
                    record.mono_ns,
                    record.wall_ns,
                    &record.payload,
                )
        };
        assert!(hit || found.iter().any(same), "{what}: lost {record:?}");
    }
}

#[test]
fn a_damaged_payload_is_named_as_a_gap_with_its_neighbours() {
    let journal = sealed(20);
    let (records, _) = read(&journal);
    let mut damaged = journal.clone();
    let hit = &records[7];
    damaged[usize::try_from(hit.offset).unwrap() + 40] ^= 1;
    let fs = disk(&damaged);
    let recovery = recover_on(&fs).unwrap();
    let [segment] = recovery.segments.as_slice() else {
        panic!("{recovery:?}");
    };
    assert_eq!(segment.action, RecoveryAction::Salvaged);
    assert_eq!(segment.records, 19);
    let [gap] = segment.gaps.as_slice() else {
        panic!("{segment:?}");
    };
    assert_eq!((gap.start, gap.end), (hit.offset, records[8].offset));
    assert_eq!(gap.before.unwrap().offset, records[6].offset);
    assert_eq!(gap.after.unwrap().offset, records[8].offset);

    let (found, _) = read_all_records(&fs, &output(), PlayerOptions::default());
    let first = &found[0];
    assert_eq!(first.kind, FrameKind::Control);
    let told = first.json().unwrap();
    assert_eq!(told["command"], "recovered");
    assert_eq!(told["gap_count"], 1);
    let digest = durable::digest::hex(&durable::digest::sha256(&damaged));
    assert_eq!(told["sha256"], digest.as_str());
    let strays: Vec<PathBuf> = fs.contents().into_keys().collect();
    assert_eq!(strays.len(), 2, "no temporary file is left: {strays:?}");
}

#[test]
fn a_damaged_magic_does_not_cost_the_records() {
    let mut damaged = sealed(20);
    damaged[3] ^= 1;
    let fs = disk(&damaged);
    assert_eq!(recover_on(&fs).unwrap().segments[0].records, 20);
}

#[test]
fn an_output_that_exists_is_never_written_over() {
    let fs = disk(&sealed(5)[..200]);
    put(&fs, &output(), b"an earlier one");
    let Err(Error::Io { source, path, .. }) = recover_on(&fs) else {
        panic!("refused");
    };
    assert_eq!(source.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(path, output());
    assert_eq!(bytes_of(&fs, &output()), b"an earlier one");
}

fn set() -> SimFs {
    let fs = SimFs::new();
    let options = JournalOptions {
        rotation: Some(RotationPolicy {
            max_records: Some(5),
            ..RotationPolicy::default()
        }),
        ..options(&fs)
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    append_in_turn(&mut journal, 18);
    journal.seal().unwrap();
    fs
}

fn data_of_set(fs: &SimFs, base: &Path) -> Vec<Vec<u8>> {
    SegmentedPlayer::open_with(Arc::new(fs.clone()), base, PlayerOptions::default())
        .unwrap()
        .map(Result::unwrap)
        .filter(is_data)
        .map(|r| r.payload)
        .collect()
}

#[test]
fn a_missing_segment_is_replaced_by_one_that_says_so_and_the_set_reads_through() {
    let fs = set();
    let before = data_of_set(&fs, path());
    fs.remove_file(&segment_path(path(), 1)).unwrap();
    let recovery = recover_on(&fs).unwrap();
    let actions: Vec<_> = recovery.segments.iter().map(|s| s.action).collect();
    assert_eq!(actions, [Copied, Replaced, Copied, Copied]);
    let after = data_of_set(&fs, &output());
    let told: serde_json::Value = serde_json::from_slice(&after[5]).unwrap();
    assert_eq!(told["missing"], true);
    assert_eq!(
        [&after[..5], &after[6..]].concat(),
        [&before[..5], &before[10..]].concat()
    );
    let verified = verify_set(&fs, &output(), &SetOptions::default(), &mut |_, _, _| {}).unwrap();
    assert_eq!(verified.outcome(), Outcome::Intact);
}

#[test]
fn a_set_cut_inside_its_last_segment_is_closed_there() {
    let fs = set();
    let last = segment_path(path(), 3);
    let bytes = bytes_of(&fs, &last);
    fs.remove_file(&last).unwrap();
    put(&fs, &last, &bytes[..bytes.len() / 2]);
    let whole = data_of_set(&fs, path());
    recover_on(&fs).unwrap();
    assert_eq!(data_of_set(&fs, &output()), whole);
    for ordinal in 0..3 {
        assert_eq!(
            bytes_of(&fs, &segment_path(&output(), ordinal)),
            bytes_of(&fs, &segment_path(path(), ordinal)),
            "a sound segment is copied"
        );
    }
}

#[test]
fn a_failed_call_is_an_error_and_never_a_half_written_output() {
    let cut = &sealed(20)[..1500];
    let healthy = disk(cut);
    let calls_before = healthy.calls().len() as u64;
    recover_on(&healthy).unwrap();
    let expected = bytes_of(&healthy, &output());
    let calls = healthy.calls().len() as u64 - calls_before;
    assert!(calls > 3);
    for number in 1..=calls {
        let fs = disk(cut);
        let next = fs.calls().len() as u64 + number;
        fs.fail_nth(
            next,
            durable_sim::ENOSPC,
            durable_sim::ShortWrite::Bytes(10),
        );
        let result = recover_on(&fs);
        assert_eq!(bytes_of(&fs, path()), cut);
        if fs.exists(&output()).unwrap() {
            assert_eq!(bytes_of(&fs, &output()), expected, "call {number}");
        }
        if let Err(error) = result {
            assert_eq!(error.kind(), ErrorKind::Io, "call {number}");
        }
        assert!(verify(cut).is_ok());
    }
}
