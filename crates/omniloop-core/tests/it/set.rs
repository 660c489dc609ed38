//! Promised: verifying a base path judges every file of the set, whatever is missing between them,
//! and their places and ticks; a key that the caller trusts has to vouch for all of it.
//!
//! Attacked by removing, exchanging, cutting and renaming the segments of a sound set.
//!
//! The oracle is the sound set: it alone is intact. What its files cannot tell (the last ones are
//! gone) is stated here too, and is what the attestation is for.

use std::path::{Path, PathBuf};

use durable::{Access, Fs as _, Outcome};
use durable_sim::SimFs;
use omniloop_core::journal::{
    Error, JournalOptions, RotationPolicy, SetOptions, SetVerification, StateJournal, segment_path,
    verify_set,
};

use crate::forge::{CHAINED, Forge, SEGMENTED};
use crate::support::{append_in_turn, bytes_of, options, path};

fn write_set(options: JournalOptions) {
    let options = JournalOptions {
        rotation: Some(RotationPolicy {
            max_records: Some(5),
            ..RotationPolicy::default()
        }),
        ..options
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    append_in_turn(&mut journal, 18);
    assert_eq!(journal.seal().unwrap().paths.len(), 4);
}

fn sound() -> SimFs {
    let fs = SimFs::new();
    write_set(options(&fs));
    fs
}

fn segment(ordinal: u64) -> PathBuf {
    segment_path(path(), ordinal)
}

fn put(fs: &SimFs, path: &Path, bytes: &[u8]) {
    if fs.exists(path).unwrap() {
        fs.remove_file(path).unwrap();
    }
    let mut file = fs.create_new(path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

fn judge(fs: &SimFs) -> SetVerification {
    verify_set(fs, path(), &SetOptions::default(), &mut |_, _, _| {}).unwrap()
}

/// The outcome, and that the finding with this code names this file.
fn is_found(fs: &SimFs, outcome: Outcome, code: &str, file: &Path) {
    let set = judge(fs);
    assert_eq!(set.outcome(), outcome, "{code}");
    let finding = set.findings().find(|f| f.code == code);
    let finding = finding.unwrap_or_else(|| panic!("no {code} in {:?}", set.verdict().findings));
    assert!(
        finding.place.contains(file.to_str().unwrap()),
        "{finding:?}"
    );
    assert_eq!(set.verdict().verdict, outcome);
}

#[test]
fn a_sound_set_is_intact_and_every_record_is_counted() {
    let fs = sound();
    let set = judge(&fs);
    assert_eq!(set.outcome(), Outcome::Intact);
    assert_eq!(set.segments.len(), 4);
    assert_eq!(set.record_count(), 18 + 4);
    assert_eq!(set.break_at(), None);
    let verdict = set.verdict();
    assert_eq!(verdict.kind, "run");
    assert_eq!(verdict.facts["records"], 22);
    assert_eq!(verdict.facts["sealed"], true);
}

#[test]
fn progress_tells_every_file_to_its_end() {
    let fs = sound();
    let mut told = Vec::new();
    let mut progress = |path: &Path, offset: u64, len: u64| {
        assert!(offset <= len);
        if told.last().is_none_or(|p| p != path) {
            told.push(path.to_owned());
        }
    };
    verify_set(&fs, path(), &SetOptions::default(), &mut progress).unwrap();
    assert_eq!(told, [0, 1, 2, 3].map(segment));
}

#[test]
fn a_missing_segment_is_damage_though_every_file_verifies() {
    for gone in [1, 2] {
        let fs = sound();
        fs.remove_file(&segment(gone)).unwrap();
        is_found(&fs, Outcome::Damaged, "segment_missing", &segment(gone + 1));
    }
}

#[test]
fn the_files_alone_cannot_tell_that_the_last_ones_are_gone() {
    let fs = sound();
    fs.remove_file(&segment(3)).unwrap();
    assert_eq!(judge(&fs).outcome(), Outcome::Intact);
}

#[test]
fn a_missing_first_segment_cannot_be_judged() {
    let fs = sound();
    fs.remove_file(path()).unwrap();
    let error = verify_set(&fs, path(), &SetOptions::default(), &mut |_, _, _| {}).unwrap_err();
    assert!(matches!(error, Error::Io { .. }), "{error:?}");
}

#[test]
fn exchanged_segments_are_damage() {
    let fs = sound();
    let (one, two) = (bytes_of(&fs, &segment(1)), bytes_of(&fs, &segment(2)));
    put(&fs, &segment(1), &two);
    put(&fs, &segment(2), &one);
    is_found(&fs, Outcome::Damaged, "wrong_segment", &segment(1));
    is_found(&fs, Outcome::Damaged, "tick_went_back", &segment(2));
}

#[test]
fn a_file_without_the_mark_of_a_set_does_not_belong_to_it() {
    let fs = sound();
    let mut forge = Forge::new(CHAINED, 5, 0);
    put(&fs, &segment(4), &forge.checkpoint().seal());
    is_found(&fs, Outcome::Damaged, "not_segmented", &segment(4));
}

#[test]
fn a_segment_of_another_run_is_damage_when_its_ticks_do_not_follow() {
    let fs = sound();
    let mut forge = Forge::new(CHAINED | SEGMENTED, 5, 4);
    put(&fs, &segment(4), &forge.telemetry().checkpoint().seal());
    is_found(&fs, Outcome::Damaged, "tick_went_back", &segment(4));
}

#[test]
fn an_unsealed_segment_is_damage_inside_a_set_and_unproven_at_its_end() {
    for (ordinal, outcome, code) in [
        (1, Outcome::Damaged, "unsealed_inside"),
        (3, Outcome::Unproven, "not_sealed"),
    ] {
        let fs = sound();
        let file = segment(ordinal);
        let bytes = bytes_of(&fs, &file);
        let index_offset = u64::from_le_bytes(bytes[bytes.len() - 16..][..8].try_into().unwrap());
        put(&fs, &file, &bytes[..usize::try_from(index_offset).unwrap()]);
        is_found(&fs, outcome, code, &file);
    }
}

#[test]
fn a_last_segment_that_a_crash_left_without_a_header_is_unproven() {
    for len in [0, 1, 31] {
        let fs = sound();
        let file = segment(3);
        let bytes = bytes_of(&fs, &file);
        put(&fs, &file, &bytes[..len]);
        is_found(&fs, Outcome::Unproven, "segment_cut_off", &file);
    }
}

#[test]
fn a_segment_with_a_damaged_header_or_of_another_kind_is_damage() {
    let fs = sound();
    let mut bytes = bytes_of(&fs, &segment(2));
    bytes[0] ^= 1;
    put(&fs, &segment(2), &bytes);
    is_found(&fs, Outcome::Damaged, "header_damaged", &segment(2));
    put(&fs, &segment(2), &[b'?'; 500]);
    is_found(&fs, Outcome::Damaged, "segment_not_a_journal", &segment(2));
}

#[test]
fn a_break_inside_any_segment_is_damage_and_is_named_with_its_file() {
    for ordinal in 0..4 {
        let fs = sound();
        let file = segment(ordinal);
        let mut bytes = bytes_of(&fs, &file);
        bytes[32 + 16] ^= 1;
        put(&fs, &file, &bytes);
        let set = judge(&fs);
        assert_eq!(set.outcome(), Outcome::Damaged);
        assert_eq!(set.break_at().unwrap().0, file);
    }
}

#[test]
fn a_segment_verified_alone_says_so() {
    let fs = sound();
    let alone = segment(2);
    let set = verify_set(&fs, &alone, &SetOptions::default(), &mut |_, _, _| {}).unwrap();
    assert_eq!(set.outcome(), Outcome::Intact);
    assert!(set.findings().any(|f| f.code == "one_segment_of_a_set"));
}

#[test]
fn a_journal_without_rotation_ignores_files_with_the_names_of_segments() {
    let fs = SimFs::new();
    StateJournal::create_with(path(), options(&fs))
        .unwrap()
        .seal()
        .unwrap();
    put(&fs, &segment(1), b"a file of its own");
    let set = judge(&fs);
    assert_eq!(set.outcome(), Outcome::Intact);
    assert_eq!(set.segments.len(), 1);
}

#[cfg(feature = "signing")]
mod signed {
    use omniloop_core::journal::JournalSigner;

    use super::*;
    use crate::support::signer;

    fn judge_with_key(fs: &SimFs) -> SetVerification {
        let options = SetOptions {
            trusted: vec![signer().public_key()],
            ..SetOptions::default()
        };
        verify_set(fs, path(), &options, &mut |_, _, _| {}).unwrap()
    }

    fn signed_by(signer: JournalSigner) -> SimFs {
        let fs = SimFs::new();
        write_set(JournalOptions {
            signer: Some(signer),
            ..options(&fs)
        });
        fs
    }

    #[test]
    fn a_set_is_intact_under_the_key_that_signed_it() {
        assert_eq!(
            judge_with_key(&signed_by(signer())).outcome(),
            Outcome::Intact
        );
    }

    #[test]
    fn a_missing_or_foreign_signature_leaves_the_set_unproven() {
        for fs in [sound(), signed_by(JournalSigner::from_seed(&[9; 32]))] {
            let set = judge_with_key(&fs);
            assert_eq!(set.outcome(), Outcome::Unproven);
            let code = "not_signed_by_a_trusted_key";
            assert!(set.findings().any(|f| f.code == code));
        }
    }

    #[test]
    fn one_segment_without_a_signature_leaves_the_set_unproven() {
        let fs = signed_by(signer());
        put(&fs, &segment(1), &bytes_of(&sound(), &segment(1)));
        assert_eq!(judge_with_key(&fs).outcome(), Outcome::Unproven);
    }
}
