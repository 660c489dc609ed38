//! Index and trailer lie outside the chain: verification compares every byte of them with what the
//! records call for, and reading believes them only as far as the records agree.

use std::path::Path;

use durable::Outcome;
use omniloop_core::fuzzing::{OneFile, PATH};
use omniloop_core::journal::{
    Error, Fault, IndexState, JournalPlayer, PlayerOptions, Result, Section,
};

use crate::forge::{CHAINED, Forge};
use crate::support::{codes, outcome, read, verify};

const TICKS: u64 = 200;

fn forge() -> Forge {
    let mut forge = Forge::new(CHAINED, 5, 0);
    for tick in 1..=TICKS {
        forge.telemetry();
        if tick % 64 == 0 {
            forge.checkpoint();
        }
    }
    forge.checkpoint();
    forge
}

fn entries() -> Vec<(u64, u64)> {
    forge().places.into_iter().step_by(64).collect()
}

fn seek(bytes: &[u8], lenient: bool, tick: u64) -> Result<Option<u64>> {
    let options = PlayerOptions {
        lenient,
        ..PlayerOptions::default()
    };
    let mut player = JournalPlayer::open_with(&OneFile::new(bytes), Path::new(PATH), options)?;
    player.seek_to_tick(tick)?;
    Ok(player.read_next_record()?.map(|r| r.tick))
}

/// A seek with this index fails or is right, a lenient one is right, and verification tells.
fn is_told(what: &str, bytes: &[u8]) -> u64 {
    let mut refused = 0;
    for tick in 0..=TICKS + 1 {
        let expected = (tick <= TICKS).then_some(tick.max(1));
        match seek(bytes, false, tick) {
            Ok(found) => assert_eq!(found, expected, "{what}"),
            Err(Error::Corrupt {
                section: Section::Index | Section::Trailer,
                ..
            }) => refused += 1,
            Err(other) => panic!("{what}: {other:?}"),
        }
        assert_eq!(seek(bytes, true, tick).unwrap(), expected, "{what}");
    }
    let verdict = verify(bytes).unwrap();
    assert_eq!(verdict.chain.index, IndexState::Inconsistent, "{what}");
    assert!(codes(&verdict).contains(&"index_inconsistent"), "{what}");
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged), "{what}");
    refused
}

#[test]
fn the_honest_index_leads_every_seek() {
    let bytes = forge().seal();
    for tick in 0..=TICKS + 1 {
        let expected = (tick <= TICKS).then_some(tick.max(1));
        assert_eq!(seek(&bytes, false, tick).unwrap(), expected);
    }
    assert_eq!(outcome(&verify(&bytes)), Some(Outcome::Intact));
}

#[test]
fn a_wrong_index_entry_is_refused_or_harmless_and_never_misleads() {
    let forge = forge();
    let end = forge.bytes.len() as u64;
    let count = forge.places.len() as u64;
    let honest = entries();
    let with = |at: usize, entry: (u64, u64)| {
        let mut entries = honest.clone();
        entries[at] = entry;
        forge.seal_with(&entries, end, count)
    };
    let (tick, offset) = honest[1];
    for (what, bytes) in [
        ("tick too high", with(1, (tick + 1, offset))),
        ("tick too low", with(1, (tick - 1, offset))),
        ("offset one too high", with(1, (tick, offset + 1))),
        ("offset one too low", with(1, (tick, offset - 1))),
        (
            "offset of the record after it",
            with(1, (tick, forge.places[65].1)),
        ),
        ("not ascending", with(1, honest[0])),
        ("offset in the header", with(0, (1, 0))),
        ("offset at the end", with(3, (honest[3].0, end))),
        ("offset beyond the file", with(3, (honest[3].0, u64::MAX))),
        ("tick beyond all", with(3, (u64::MAX, honest[3].1))),
    ] {
        let refused = is_told(what, &bytes);
        // No tick lies behind the last of all, so that no seek goes by that entry.
        assert_eq!(refused == 0, what == "tick beyond all", "{what}");
    }
}

#[test]
fn an_index_with_too_few_or_too_many_entries_is_refused() {
    let forge = forge();
    let end = forge.bytes.len() as u64;
    let count = forge.places.len() as u64;
    let mut more = entries();
    more.push((TICKS, end - 68));
    for (what, entries) in [("fewer", &entries()[..3]), ("more", &more), ("none", &[])] {
        let bytes = forge.seal_with(entries, end, count);
        assert_eq!(is_told(what, &bytes), TICKS + 2, "{what}");
    }
}

#[test]
fn a_trailer_that_does_not_fit_the_file_is_refused() {
    let forge = forge();
    let end = forge.bytes.len() as u64;
    let count = forge.places.len() as u64;
    for (what, index_offset, record_count) in [
        ("offset too low", end - 16, count),
        ("offset too high", end + 16, count),
        ("offset beyond the file", u64::MAX, count),
        ("offset in the header", 0, count),
        ("offset of a record", 32, count),
        ("no records", end, 0),
        ("twice the records", end, 2 * count),
        ("all the records", end, u64::MAX),
    ] {
        let bytes = forge.seal_with(&entries(), index_offset, record_count);
        assert_eq!(is_told(what, &bytes), TICKS + 2, "{what}");
    }
}

#[test]
fn a_record_count_that_is_off_by_one_is_reported() {
    let forge = forge();
    let end = forge.bytes.len() as u64;
    let count = forge.places.len() as u64;
    let bytes = forge.seal_with(&entries(), end, count + 1);
    is_told("one more", &bytes);
}

#[test]
fn bytes_after_the_trailer_are_reported_and_counted() {
    let mut bytes = forge().seal();
    bytes.extend(b"and more");
    assert_eq!(read(&bytes).0.len(), forge().places.len());
    let verdict = verify(&bytes).unwrap();
    assert_eq!(verdict.chain.trailing_bytes, 8);
    assert!(codes(&verdict).contains(&"trailing_bytes"));
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged));
}

#[test]
fn an_entry_that_is_read_past_names_itself() {
    let mut wrong = entries();
    wrong[2].0 -= 1;
    let forge = forge();
    let bytes = forge.seal_with(&wrong, forge.bytes.len() as u64, forge.places.len() as u64);
    let error = seek(&bytes, false, wrong[2].0 + 1).unwrap_err();
    assert!(
        matches!(
            error,
            Error::Corrupt {
                fault: Fault::EntryMismatch(2),
                ..
            }
        ),
        "{error:?}"
    );
}
