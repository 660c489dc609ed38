//! Promised: the bytes of the format do not move. Journals written today are, byte for byte, those
//! that are committed under `tests/goldens/omni`, each beside a dump that a person can read.
//!
//! Attacked by writing each of them again with a clock that only moves when told, and, for one, by
//! a second encoder that shares no code with the writer.
//!
//! The oracle is the committed file. `DAYBOOK_BLESS=1` rewrites bytes and dumps, for review as a diff.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use durable::digest::hex;
use durable::{Fs as _, RealFs, publish};
use durable_sim::SimFs;
use omniloop_core::fuzzing::OneFile;
use omniloop_core::journal::layout::{file_header, index_entry, index_header, trailer};
use omniloop_core::journal::{
    FrameKind, JournalOptions, JournalPlayer, PlayerOptions, RotationPolicy, StateJournal,
    segment_path,
};

use crate::forge::{CHAINED, Forge, Rec};
use crate::support::{
    START_WALL_NS, STEP_NS, append_in_turn, bytes_of, options, path, payload, sealed, verify,
};

#[test]
fn a_journal_of_every_kind_has_its_golden_bytes() {
    check("all-kinds.omni", &sealed(70));
}

#[test]
fn each_segment_of_a_rotated_set_has_its_golden_bytes() {
    let fs = SimFs::new();
    let rotation = Some(RotationPolicy {
        max_records: Some(9),
        ..RotationPolicy::default()
    });
    let options = JournalOptions {
        rotation,
        ..options(&fs)
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    append_in_turn(&mut journal, 21);
    assert_eq!(journal.seal().unwrap().paths.len(), 3);
    for ordinal in 0..3 {
        let name = segment_path(Path::new("rotated.omni"), ordinal);
        check(
            name.to_str().unwrap(),
            &bytes_of(&fs, &segment_path(path(), ordinal)),
        );
    }
}

#[cfg(feature = "signing")]
#[test]
fn a_signed_journal_has_its_golden_bytes() {
    let bytes = crate::support::sealed_as(140, |options| JournalOptions {
        signer: Some(crate::support::signer()),
        sign_every: std::num::NonZeroU64::new(2),
        ..options
    });
    check("signed.omni", &bytes);
}

#[test]
fn a_legacy_file_has_its_golden_bytes() {
    let bytes: Vec<u8> = (0..5u64)
        .map(|n| payload(FrameKind::Telemetry, n))
        .flat_map(|p| [&u32::try_from(p.len()).unwrap().to_le_bytes()[..], &p].concat())
        .collect();
    check("legacy.omni", &bytes);
}

#[test]
fn a_journal_that_was_never_sealed_has_its_golden_bytes() {
    let fs = SimFs::new();
    let mut journal = StateJournal::create_with(path(), options(&fs)).unwrap();
    append_in_turn(&mut journal, 67);
    drop(journal);
    check("unfinalised.omni", &bytes_of(&fs, path()));
}

#[test]
fn a_sealed_journal_without_records_has_its_golden_bytes() {
    check("empty.omni", &sealed(0));
}

#[test]
fn an_independent_encoder_gives_the_bytes_that_the_writer_gives() {
    // Creating a journal reads the monotonic clock once, each append once more.
    let created = START_WALL_NS + STEP_NS;
    let mut forge = Forge::new(CHAINED, created, 0);
    let codes = [3, 5, 0, 1, 2, 4, 8];
    let mut tick = 0;
    for n in 0..70u64 {
        let kind = codes[usize::try_from(n % 7).unwrap()];
        tick += u64::from(kind == 0);
        let mono = (n + 1) * STEP_NS;
        let body = payload(FrameKind::from_code(kind).unwrap(), n);
        // The wall clock is read again at each checkpoint, and that reads the monotonic one too.
        let extra = u64::from(n >= 64) * STEP_NS;
        forge.push(&Rec::new(kind, tick, &body).at(mono + extra, created + mono + extra));
        if n == 63 {
            forge.checkpoint();
        }
    }
    forge.checkpoint();
    assert_eq!(hex(&forge.seal()), hex(&sealed(70)));
}

/// Compares with the committed bytes and dump, or writes them when that is asked for.
fn check(name: &str, bytes: &[u8]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/goldens/omni")
        .join(name);
    let mut dump_file = file.clone().into_os_string();
    dump_file.push(".txt");
    let dump_file = PathBuf::from(dump_file);
    let dump = dump(bytes);
    if std::env::var_os("DAYBOOK_BLESS").is_some_and(|v| v == "1") {
        RealFs.create_dir_all(file.parent().unwrap()).unwrap();
        publish(&RealFs, &file, bytes).unwrap();
        publish(&RealFs, &dump_file, dump.as_bytes()).unwrap();
    }
    let golden_dump = String::from_utf8(bytes_of(&RealFs, &dump_file)).unwrap();
    assert_eq!(dump, golden_dump, "{name}: the dump");
    assert!(bytes == bytes_of(&RealFs, &file), "{name}: the bytes");
}

/// Everything in the file, for a person.
fn dump(bytes: &[u8]) -> String {
    let mut out = format!("{} bytes\n", bytes.len());
    let fs = OneFile::new(bytes);
    let mut player = JournalPlayer::open_with(&fs, path(), PlayerOptions::default()).unwrap();
    if player.version() == 2 {
        writeln!(out, "\nfile header").unwrap();
        fields(&mut out, 0, bytes, file_header::FIELDS);
    }
    writeln!(out, "\nrecords").unwrap();
    while let Some(record) = player.read_next_record().unwrap() {
        let text = match record.kind {
            FrameKind::Chain | FrameKind::Signature => hex(&record.payload),
            _ => String::from_utf8(record.payload.clone()).unwrap(),
        };
        let crc = durable::checksum::crc32(&record.payload);
        writeln!(
            out,
            "{:6} {:9} tick={} mono={} wall={} crc={crc:08x} {text}",
            record.offset, record.kind, record.tick, record.mono_ns, record.wall_ns,
        )
        .unwrap();
    }
    writeln!(out, "end truncated={}", player.is_truncated()).unwrap();
    if let Some(count) = player.record_count() {
        let trailer_at = bytes.len() - trailer::LEN;
        let entries = usize::try_from(count.div_ceil(64)).unwrap();
        let index_at = trailer_at - entries * index_entry::LEN - index_header::LEN;
        writeln!(out, "\nindex").unwrap();
        fields(&mut out, index_at, bytes, index_header::FIELDS);
        for entry in 0..entries {
            let at = index_at + index_header::LEN + entry * index_entry::LEN;
            fields(&mut out, at, bytes, index_entry::FIELDS);
        }
        writeln!(out, "\ntrailer").unwrap();
        fields(&mut out, trailer_at, bytes, trailer::FIELDS);
    }
    let verification = serde_json::to_string_pretty(&verify(bytes).unwrap()).unwrap();
    writeln!(out, "\nverification\n{verification}").unwrap();
    out
}

/// One line per field of a structure at `at`.
fn fields(out: &mut String, at: usize, bytes: &[u8], table: &[durable::Field]) {
    for field in table {
        let place = &bytes[at + field.offset..at + field.offset + field.len];
        let value = match *place {
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).to_string(),
            _ if place.starts_with(b"OMNI") => String::from_utf8_lossy(place).into_owned(),
            _ => u64::from_le_bytes(place.try_into().unwrap()).to_string(),
        };
        writeln!(out, "{:6} {} {value}", at + field.offset, field.name).unwrap();
    }
}
