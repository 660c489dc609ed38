//! Crashes and failing calls while a run is attested. The oracle: the note on disk is absent or one
//! that was about to be published, it agrees with the journal, and attesting again succeeds.

use std::path::Path;
use std::sync::Arc;

use durable::{Fs, Outcome};
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use omniloop_core::attest::{AttestError, AttestOptions, Attestor, Note, SignatureState, attest};
use omniloop_core::journal::{SetOptions, verify_set};

use crate::support::{BASE, NOTE, Run, check, check_with, is_clean, key, public, read};

fn begin() -> SimFs {
    // On disk already, but nothing synced since: attesting has to see to that itself.
    let run = Run::rotated(300, 100);
    let fs = SimFs::new();
    let mut journal = run.start(Arc::new(fs.clone()), Path::new(BASE));
    run.append(&mut journal, 0..280);
    journal.flush().unwrap();
    drop(journal);
    fs
}

fn attest_twice(fs: &SimFs, notes: &mut Ledger<Note>) -> Result<(), BoxError> {
    let base = Path::new(BASE);
    let run = Run::of(300);
    let mut journal = run.try_start(Arc::new(fs.clone()), base)?;
    run.try_append(&mut journal, 0..200)?;
    journal.flush()?;
    let first = attest(fs, base, &key(1), &AttestOptions::default())?;
    notes.submit(first.note.clone());
    notes.acknowledge(first.note);
    run.try_append(&mut journal, 200..300)?;
    journal.seal()?;
    let second = attest(fs, base, &key(1), &AttestOptions::default())?;
    notes.submit(second.note.clone());
    notes.acknowledge(second.note);
    Ok(())
}

fn agrees(image: &Image, notes: &Ledger<Note>) -> Result<(), BoxError> {
    let fs = &image.fs;
    let present = fs.exists(NOTE.as_ref())?;
    assert!(
        present || notes.acknowledged().is_empty(),
        "an acknowledged note is gone"
    );
    if present {
        let report = check(fs);
        assert_eq!(report.signature, SignatureState::Trusted);
        assert!(report.root_matches, "{:?}", report.findings);
        assert!(is_clean(&report), "{:?}", report.findings);
        let note = Note::parse(&read(fs, NOTE))?;
        let newest = notes.acknowledged().last().map_or(0, |note| note.size);
        assert!(note.size >= newest, "the note fell back");
    }
    let set = verify_set(fs, BASE.as_ref(), &SetOptions::default(), &mut |_, _, _| {});
    let Ok(set) = set else {
        assert!(!present, "the journal of a note has at least its header");
        return Ok(());
    };
    match attest(fs, Path::new(BASE), &key(1), &AttestOptions::default()) {
        Ok(_) => assert!(
            is_clean(&check(fs)),
            "attesting again mends what a crash left"
        ),
        // Of records that nobody synced a crash may leave any part; that is not signed.
        Err(AttestError::Broken { .. }) => assert_eq!(set.outcome(), Outcome::Damaged),
        Err(refused) => return Err(refused.into()),
    }
    Ok(())
}

#[test]
fn a_crash_at_any_call_leaves_no_note_ahead_of_the_journal_and_attesting_again_succeeds() {
    let swept = Sweep::default()
        .for_each_crash(attest_twice, agrees)
        .unwrap();
    assert!(swept.calls > 20 && swept.images > swept.calls);
}

#[test]
fn a_failing_call_leaves_no_note_ahead_of_the_journal_and_attesting_again_succeeds() {
    let swept = Sweep::default()
        .for_each_failure(attest_twice, agrees)
        .unwrap();
    assert!(swept.calls > 20);
}

#[test]
fn a_crash_while_a_set_is_attested_for_the_first_time_leaves_it_attestable() {
    let begun = begin();
    Sweep::default()
        .starting_from(&begun)
        .for_each_crash(
            |fs, notes| {
                let done = attest(fs, Path::new(BASE), &key(1), &AttestOptions::default())?;
                notes.submit(done.note.clone());
                notes.acknowledge(done.note);
                Ok(())
            },
            agrees,
        )
        .unwrap();
}

#[test]
fn a_crash_while_a_recording_is_followed_never_leaves_a_note_that_disagrees() {
    let follow = |fs: &SimFs, notes: &mut Ledger<Note>| -> Result<(), BoxError> {
        let run = Run::rotated(220, 100);
        let mut journal = run.try_start(Arc::new(fs.clone()), Path::new(BASE))?;
        let mut attestor = Attestor::create(Arc::new(fs.clone()), BASE, key(1), None, "localhost")?;
        for number in 0..run.records {
            run.try_append(&mut journal, number..number + 1)?;
            if number % 30 == 29 {
                journal.flush()?;
                if let Some(note) = attestor.advance(false)? {
                    notes.submit(note.clone());
                    notes.acknowledge(note);
                }
            }
        }
        journal.seal()?;
        if let Some(note) = attestor.advance(true)? {
            notes.submit(note.clone());
            notes.acknowledge(note);
        }
        Ok(())
    };
    let agrees = |image: &Image, notes: &Ledger<Note>| -> Result<(), BoxError> {
        if !image.fs.exists(NOTE.as_ref())? {
            assert!(notes.acknowledged().is_empty());
            return Ok(());
        }
        let report = check_with(&image.fs, &[public(1)], None).unwrap();
        assert!(report.root_matches && report.signature == SignatureState::Trusted);
        Ok(())
    };
    Sweep::default()
        .seeded_images(2)
        .for_each_crash(follow, agrees)
        .unwrap();
}
