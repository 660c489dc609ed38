//! Attesting again and again: what goes on, what is refused, what is repaired.

use std::path::Path;
use std::sync::Arc;

use durable_sim::SimFs;
use omniloop_core::attest::{
    AttestError, AttestOptions, Attestor, LeafKind, LeavesState, SignatureState, attest,
    derive_leaves,
};
use omniloop_core::journal::{ErrorKind, VerifyOptions};

use crate::support::{
    BASE, LEAVES, NOTE, Run, check, check_with, codes, is_clean, key, public, put, read,
    record_boundaries, sign,
};

fn attest_with(
    fs: &SimFs,
    signer: u8,
    options: &AttestOptions,
) -> Result<omniloop_core::attest::Attestation, AttestError> {
    attest(fs, Path::new(BASE), &key(signer), options)
}

#[test]
fn attesting_a_sealed_run_proves_all_of_it_on_a_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("run.omni");
    let run = Run::rotated(300, 100);
    let fs = Arc::new(durable::RealFs);
    let mut journal = run.start(fs.clone(), &base);
    run.append(&mut journal, 0..300);
    let sealed = journal.seal().unwrap();
    let options = AttestOptions {
        host: "rig-7".to_owned(),
        ..AttestOptions::default()
    };
    let attestation = attest(fs.as_ref(), &base, &key(1), &options).unwrap();
    assert!(attestation.closed && attestation.changed);
    assert_eq!(attestation.covers_records, sealed.record_count);
    assert_eq!(attestation.note.origin, "rig-7/omni/run-f4628");
    let derived = derive_leaves(fs.as_ref(), &base, VerifyOptions::default()).unwrap();
    let report =
        omniloop_core::attest::check_attestation(fs.as_ref(), &base, &derived, &[public(1)], None);
    let report = report.unwrap().unwrap();
    assert!(report.proves_all() && is_clean(&report), "{report:?}");
    assert_eq!(report.findings, vec![]);
}

#[test]
fn attesting_again_with_nothing_new_changes_nothing() {
    for run in [
        Run::rotated(250, 100),
        Run::of(250).open_end(),
        Run::of(0),
        Run::of(0).open_end(),
    ] {
        let fs = run.write();
        assert!(sign(&fs).changed);
        let before = fs.contents();
        let again = sign(&fs);
        assert!(!again.changed, "{run:?}");
        assert_eq!(fs.contents(), before);
        assert!(is_clean(&check(&fs)), "{run:?}");
        assert_eq!(again.closed, run.seal);
    }
}

#[test]
fn a_note_kept_elsewhere_is_the_root_of_the_first_leaves_of_every_later_state() {
    let run = Run::rotated(500, 150);
    let fs = SimFs::new();
    let mut journal = run.start(Arc::new(fs.clone()), Path::new(BASE));
    let going_on = AttestOptions {
        closed: false,
        ..AttestOptions::default()
    };
    let mut kept = Vec::new();
    for number in 0..run.records {
        run.append(&mut journal, number..number + 1);
        if number % 50 == 0 {
            journal.sync().unwrap();
            kept.push(attest_with(&fs, 1, &going_on).unwrap());
        }
    }
    journal.seal().unwrap();
    kept.push(sign(&fs));
    for older in &kept {
        let report = check_with(&fs, &[public(1)], Some(&older.note.to_text())).unwrap();
        assert!(report.proves_all() && is_clean(&report), "{report:?}");
        assert_eq!(report.anchored_records, Some(older.covers_records));
    }
    assert!(
        kept.windows(2)
            .all(|pair| pair[0].note.size <= pair[1].note.size)
    );
}

#[test]
fn a_journal_and_note_set_back_together_are_caught_by_a_note_kept_elsewhere() {
    let run = Run::of(300).open_end();
    let fs = run.write();
    let later = sign(&fs).note.to_text();
    let bytes = read(&fs, BASE);
    let cut = record_boundaries(&bytes)[130];
    let earlier = SimFs::new();
    put(&earlier, BASE, &bytes[..cut]);
    sign(&earlier);
    assert!(is_clean(&check(&earlier)), "nothing on this disk tells");
    let report = check_with(&earlier, &[public(1)], Some(&later)).unwrap();
    assert!(
        codes(&report).contains(&"older_note_mismatch"),
        "{:?}",
        codes(&report)
    );
    assert!(codes(&report).contains(&"note_set_back"));
    assert_eq!(report.anchored_records, None);

    let other = Run { start_ns: 5, ..run }.write();
    let foreign = sign(&other).note.to_text();
    let report = check_with(&fs, &[public(1)], Some(&foreign)).unwrap();
    assert_eq!(codes(&report), ["older_note_mismatch"]);
    let report = check_with(&fs, &[public(1)], Some("no note")).unwrap();
    assert_eq!(codes(&report), ["older_note_malformed"]);
}

#[test]
fn a_journal_that_lost_signed_records_is_not_signed_again() {
    let fs = Run::of(300).write();
    sign(&fs);
    let bytes = read(&fs, BASE);
    put(&fs, BASE, &bytes[..record_boundaries(&bytes)[200]]);
    let before = fs.contents();
    let refused = attest_with(&fs, 1, &AttestOptions::default()).unwrap_err();
    let AttestError::Disagrees { code, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(
        (*code, refused.kind()),
        ("cut_below_signed_size", ErrorKind::Corrupt)
    );
    // Without the note the leaves still tell.
    durable::Fs::remove_file(&fs, NOTE.as_ref()).unwrap();
    let refused = attest_with(&fs, 1, &AttestOptions::default()).unwrap_err();
    let AttestError::Disagrees { code, .. } = &refused else {
        panic!("{refused}");
    };
    assert_eq!(*code, "leaves_beyond_journal");
    put(&fs, NOTE, before[Path::new(NOTE)].as_ref().unwrap());
    assert_eq!(fs.contents(), before);
}

#[test]
fn a_journal_that_does_not_verify_is_not_signed_and_the_place_is_named() {
    let fs = Run::of(300).write();
    let mut bytes = read(&fs, BASE);
    let at = record_boundaries(&bytes)[100];
    bytes[at + 40] ^= 1;
    put(&fs, BASE, &bytes);
    let refused = attest_with(&fs, 1, &AttestOptions::default()).unwrap_err();
    let AttestError::Broken { place, .. } = &refused else {
        panic!("{refused}");
    };
    assert!(place.contains(&format!("byte {at} ")), "{place}");
    assert!(!fs.contents().contains_key(Path::new(NOTE)));
}

#[test]
fn the_origin_never_changes_and_holds_no_space() {
    let fs = Run::of(10).open_end().write();
    let named = |origin: &str| AttestOptions {
        origin: Some(origin.to_owned()),
        ..AttestOptions::default()
    };
    for bad in ["", "a b", "a+b", "a\nb"] {
        let refused = attest_with(&fs, 1, &named(bad)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Misuse, "{bad:?}");
    }
    attest_with(&fs, 1, &named("rig/omni/1")).unwrap();
    let refused = attest_with(&fs, 1, &named("rig/omni/2")).unwrap_err();
    assert!(
        matches!(refused, AttestError::OtherOrigin { .. }),
        "{refused}"
    );
    assert_eq!(sign(&fs).note.origin, "rig/omni/1");
}

#[test]
fn another_key_takes_over_only_when_the_last_one_is_named_and_leaves_a_leaf() {
    let run = Run::of(300).open_end();
    let fs = run.write();
    let first = sign(&fs);
    let refused = attest_with(&fs, 2, &AttestOptions::default()).unwrap_err();
    assert!(matches!(refused, AttestError::OtherKey { .. }), "{refused}");
    let handed_over = AttestOptions {
        previous_keys: vec![public(3), public(1)],
        ..AttestOptions::default()
    };
    let second = attest_with(&fs, 2, &handed_over).unwrap();
    assert_eq!(second.note.size, first.note.size + 1);
    let report = check_with(&fs, &[public(2)], Some(&first.note.to_text())).unwrap();
    assert!(report.root_matches && report.leaves_file == LeavesState::Consistent);
    assert_eq!(codes(&report), ["older_note_unknown_key"]);
    let both = [public(1), public(2)];
    let report = check_with(&fs, &both, Some(&first.note.to_text())).unwrap();
    assert!(is_clean(&report), "{report:?}");
    let last = read(&fs, LEAVES);
    assert_eq!(last[last.len() - 64], LeafKind::KeyChange.code());
    assert_eq!(last[last.len() - 32..], public(2).to_bytes());
    assert!(
        !attest_with(&fs, 2, &AttestOptions::default())
            .unwrap()
            .changed
    );

    // The old key's holder alone cannot speak for the run any more.
    assert_eq!(check(&fs).signature, SignatureState::UnknownKey);
    // The journal does not give this leaf: without the file there is no proof.
    durable::Fs::remove_file(&fs, LEAVES.as_ref()).unwrap();
    assert!(!check_with(&fs, &both, None).unwrap().root_matches);
}

#[test]
fn a_complete_run_stays_complete_when_another_key_takes_over() {
    let fs = Run::rotated(150, 100).write();
    sign(&fs);
    let handed_over = AttestOptions {
        previous_keys: vec![public(1)],
        ..AttestOptions::default()
    };
    assert!(attest_with(&fs, 2, &handed_over).unwrap().closed);
    let report = check_with(&fs, &[public(2)], None).unwrap();
    assert!(report.proves_all() && is_clean(&report), "{report:?}");
    // Back again: each change is a leaf.
    let back = AttestOptions {
        previous_keys: vec![public(2)],
        ..AttestOptions::default()
    };
    assert!(attest_with(&fs, 1, &back).unwrap().closed);
    assert!(check(&fs).proves_all() && is_clean(&check(&fs)));
}

#[test]
fn torn_or_strange_leaves_are_mended_by_attesting_again() {
    let fs = Run::of(300).write();
    sign(&fs);
    let good = fs.contents();
    let leaves = read(&fs, LEAVES);
    let mut changed = leaves.clone();
    changed[70] ^= 1;
    let torn = leaves[..leaves.len() - 10].to_vec();
    let longer = [&leaves[..], &[0; 100]].concat();
    for strange in [changed, torn, longer, Vec::new(), b"x".to_vec()] {
        put(&fs, LEAVES, &strange);
        assert!(sign(&fs).changed);
        assert_eq!(fs.contents(), good);
    }
    put(&fs, LEAVES, &[&leaves[..], &[0; 100]].concat());
    assert_eq!(codes(&check(&fs)), ["leaves_unsigned_tail"]);
}

#[test]
fn following_a_recording_gives_the_leaves_of_attesting_it_afterwards() {
    for run in [
        Run::rotated(500, 90),
        Run::of(500),
        Run {
            signed: true,
            ..Run::rotated(200, 70)
        },
    ] {
        for stride in [1, 7, 64, 499] {
            let fs = SimFs::new();
            let shared: Arc<dyn durable::Fs> = Arc::new(fs.clone());
            let mut journal = run.start(shared.clone(), Path::new(BASE));
            let mut attestor = Attestor::create(shared, BASE, key(1), None, "localhost").unwrap();
            for number in 0..run.records {
                run.append(&mut journal, number..number + 1);
                if number % stride == 0 {
                    journal.sync().unwrap();
                    attestor.advance(false).unwrap();
                    let report = check(&fs);
                    assert!(is_clean(&report), "{report:?}");
                    assert_eq!(report.covers_records, attestor.covers_records());
                    assert!(report.unproven_tail_records < 64 && !report.closed);
                }
            }
            assert!(attestor.advance(false).is_ok());
            let sealed = journal.seal().unwrap();
            let note = attestor.advance(true).unwrap().unwrap();
            assert_eq!(attestor.advance(true).unwrap(), None);
            assert!(check(&fs).proves_all());
            assert_eq!(attestor.covers_records(), sealed.record_count);

            let live = fs.contents();
            for side in [LEAVES, NOTE] {
                durable::Fs::remove_file(&fs, side.as_ref()).unwrap();
            }
            assert_eq!(sign(&fs).note, note);
            assert_eq!(fs.contents(), live);
        }
    }
}

#[test]
fn following_refuses_to_close_an_open_run_to_go_over_a_break_or_to_begin_twice() {
    let run = Run::of(100).open_end();
    let fs = run.write();
    let shared: Arc<dyn durable::Fs> = Arc::new(fs.clone());
    let begin = || Attestor::create(shared.clone(), BASE, key(1), None, "localhost");
    let mut attestor = begin().unwrap();
    assert_eq!(
        attestor.advance(true).unwrap_err().kind(),
        ErrorKind::Misuse
    );
    assert!(attestor.advance(false).is_err(), "the first error stays");

    let mut bytes = read(&fs, BASE);
    let at = record_boundaries(&bytes)[64];
    bytes[at + 40] ^= 1;
    let broken = fs.fork();
    put(&broken, BASE, &bytes);
    let mut attestor =
        Attestor::create(Arc::new(broken.clone()), BASE, key(1), None, "localhost").unwrap();
    let refused = attestor.advance(false).unwrap_err();
    assert!(matches!(refused, AttestError::Broken { .. }), "{refused}");
    assert!(!broken.contents().contains_key(Path::new(NOTE)));

    sign(&fs);
    assert_eq!(begin().unwrap_err().kind(), ErrorKind::Io);
}
