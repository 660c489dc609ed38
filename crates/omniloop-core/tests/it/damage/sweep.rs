//! Every length and every bit.

use std::collections::BTreeSet;
use std::ops::Range;

use durable::{Field, Outcome};
use omniloop_core::journal::layout::record_header;
use omniloop_core::journal::{Error, FrameKind, FrameRecord};

use crate::support::{outcome, read, sealed, verify, verify_as};

/// Enough for a regular checkpoint, a closing one, and two index entries.
const RECORDS: u64 = 66;

#[test]
fn a_journal_cut_at_any_length_is_never_intact_and_reads_as_a_prefix() {
    cut_everywhere(&sealed(RECORDS));
}

#[test]
fn any_flipped_bit_is_noticed_and_no_record_is_invented() {
    let journal = sealed(RECORDS);
    let unnoticed = flip_everywhere(&journal);
    let named = unprotected(&journal);
    assert_eq!(named.len(), 1, "the closing checkpoint");
    assert_eq!(unnoticed, set(&named));
}

#[test]
fn any_flipped_bit_of_a_journal_without_records_is_noticed() {
    let journal = sealed(0);
    let unnoticed = flip_everywhere(&journal);
    let [stamps] = unprotected(&journal).try_into().unwrap();
    // The checkpoint is the first record, so that the index repeats its tick.
    assert_eq!(unnoticed, (stamps.start + 8..stamps.end).collect());
}

#[cfg(feature = "signing")]
mod signed {
    use std::num::NonZeroU64;

    use omniloop_core::journal::JournalOptions;

    use super::*;
    use crate::support::{sealed_as, signer};

    fn journal() -> Vec<u8> {
        sealed_as(RECORDS, |options| JournalOptions {
            signer: Some(signer()),
            sign_every: NonZeroU64::new(1),
            ..options
        })
    }

    #[test]
    fn a_signed_journal_cut_at_any_length_is_never_intact_and_reads_as_a_prefix() {
        cut_everywhere(&journal());
    }

    #[test]
    fn any_flipped_bit_of_a_signed_journal_is_noticed_and_no_record_is_invented() {
        let journal = journal();
        let unnoticed = flip_everywhere(&journal);
        let [checkpoint, signature] = unprotected(&journal).try_into().unwrap();
        // The checkpoint's tick stands between two others that are the same: it cannot move alone.
        assert_eq!(
            unnoticed,
            set(&[checkpoint.start + 8..checkpoint.end, signature])
        );
    }
}

fn cut_everywhere(journal: &[u8]) {
    let (original, end) = read(journal);
    assert!(end.is_ok());
    for len in 0..journal.len() {
        let cut = &journal[..len];
        let verdict = verify(cut);
        let (records, end) = read(cut);
        if len < 32 {
            assert!(
                matches!(verdict, Err(Error::Incomplete { .. })),
                "len={len}"
            );
            assert!(matches!(end, Err(Error::Incomplete { .. })), "len={len}");
            continue;
        }
        // Cut off is not the same as damaged: a crash does it.
        assert_eq!(
            outcome(&verdict),
            Some(Outcome::Unproven),
            "len={len} {verdict:?}"
        );
        assert!(end.is_ok(), "len={len} {end:?}");
        let whole = original.iter().filter(|r| end_of(r) <= len).count();
        assert!(records == original[..whole], "len={len}");
    }
}

/// Flips every bit; gives the bytes in which a flip leaves the file intact.
fn flip_everywhere(journal: &[u8]) -> BTreeSet<usize> {
    let (original, end) = read(journal);
    assert!(end.is_ok());
    assert_eq!(outcome(&verify(journal)), Some(Outcome::Intact));
    assert_eq!(outcome(&verify_as(journal, true)), Some(Outcome::Intact));
    let mut unnoticed = BTreeSet::new();
    let mut flipped = journal.to_vec();
    for at in 0..journal.len() {
        for bit in 0..8 {
            flipped[at] ^= 1 << bit;
            if outcome(&verify(&flipped)) == Some(Outcome::Intact) {
                unnoticed.insert(at);
            }
            let strict = verify_as(&flipped, true);
            assert_ne!(
                outcome(&strict),
                Some(Outcome::Intact),
                "byte {at} bit {bit}"
            );
            let (records, _) = read(&flipped);
            assert!(records.len() <= original.len(), "byte {at} bit {bit}");
            for (found, written) in records.iter().zip(&original) {
                let told = as_far_as_checksums_tell(found, written, at);
                assert!(
                    told == *written,
                    "byte {at} bit {bit}: {found:?} {written:?}"
                );
            }
            flipped[at] ^= 1 << bit;
        }
    }
    unnoticed
}

/// `found`, with that one field taken from `written` which the flip at `at` may have changed without
/// a reader noticing: a checksum covers the payload, and only the chain covers kind and stamps.
fn as_far_as_checksums_tell(found: &FrameRecord, written: &FrameRecord, at: usize) -> FrameRecord {
    let mut told = found.clone();
    let inside = |field: &Field| {
        let start = usize::try_from(written.offset).unwrap() + field.offset;
        (start..start + field.len).contains(&at)
    };
    if inside(&record_header::KIND) {
        told.kind = written.kind;
    } else if inside(&record_header::TICK) {
        told.tick = written.tick;
    } else if inside(&record_header::MONO_NS) {
        told.mono_ns = written.mono_ns;
    } else if inside(&record_header::WALL_NS) {
        told.wall_ns = written.wall_ns;
    }
    told
}

fn end_of(record: &FrameRecord) -> usize {
    usize::try_from(record.offset).unwrap() + record_header::LEN + record.payload.len()
}

/// The ranges that the verifier names as covered by nothing.
fn unprotected(journal: &[u8]) -> Vec<Range<usize>> {
    let found = verify(journal).unwrap().chain.findings;
    found
        .iter()
        .filter(|f| f.code == "unprotected_stamps")
        .map(|f| {
            let range = f.what.split_whitespace().nth(1).unwrap();
            let (start, end) = range.split_once("..").unwrap();
            start.parse().unwrap()..end.parse().unwrap()
        })
        .collect()
}

fn set(ranges: &[Range<usize>]) -> BTreeSet<usize> {
    ranges.iter().cloned().flatten().collect()
}

#[test]
fn a_record_that_was_dropped_doubled_swapped_or_retimed_breaks_the_chain() {
    let journal = sealed(RECORDS);
    let (records, _) = read(&journal);
    let piece = |n: usize| {
        let start = usize::try_from(records[n].offset).unwrap();
        journal[start..end_of(&records[n])].to_vec()
    };
    // Two telemetry records of the same length, seven apart.
    let (a, b) = (9, 16);
    assert_eq!(piece(a).len(), piece(b).len());
    assert_eq!(records[a].kind, FrameKind::Telemetry);
    let between: Vec<u8> = (a + 1..b).flat_map(piece).collect();
    let all_between = [piece(a), between.clone(), piece(b)].concat();
    let at = usize::try_from(records[a].offset).unwrap();
    assert_eq!(journal[at..at + all_between.len()], all_between);
    let mut retimed = piece(a);
    retimed[16] ^= 1;
    for (what, edit) in [
        ("dropped", [between.clone(), piece(b)].concat()),
        (
            "doubled",
            [piece(a), piece(a), between.clone(), piece(b)].concat(),
        ),
        ("swapped", [piece(b), between.clone(), piece(a)].concat()),
        ("retimed", [retimed, between.clone(), piece(b)].concat()),
    ] {
        let edited = [&journal[..at], &edit, &journal[at + all_between.len()..]].concat();
        let verdict = verify(&edited);
        assert_eq!(outcome(&verdict), Some(Outcome::Damaged), "{what}");
        let is_mismatch = matches!(
            verdict.unwrap().chain.break_at,
            Some(omniloop_core::journal::ChainBreak::DigestMismatch { .. })
        );
        assert!(is_mismatch, "{what}");
    }
}
