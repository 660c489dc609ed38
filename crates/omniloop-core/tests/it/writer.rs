//! Promised: what the writing API says of refusals, stamps, checkpoints, rotation and errors.
//!
//! Attacked through that API alone, on a disk in memory and with a clock that the test moves.
//!
//! The oracle is the documentation of each call, and the records that are read back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use durable::{Access, Clock, Fs as _, Outcome};
use durable_sim::SimFs;
use omniloop_core::journal::layout::PAYLOAD_LEN_MAX;
use omniloop_core::journal::{
    Durability, Error, ErrorKind, FrameKind, FrameRecord, JournalOptions, JournalPlayer,
    PlayerOptions, RotationPolicy, StateJournal, segment_path,
};

use crate::support::{
    START_WALL_NS, STEP_NS, append_in_turn, bytes_of, codes, options, outcome, path, read, verify,
    verify_as,
};

fn create(fs: &SimFs) -> StateJournal {
    StateJournal::create_with(path(), options(fs)).unwrap()
}

fn rotating(fs: &SimFs, policy: RotationPolicy) -> StateJournal {
    let options = JournalOptions {
        rotation: Some(policy),
        ..options(fs)
    };
    StateJournal::create_with(path(), options).unwrap()
}

fn by_records(max_records: u64) -> RotationPolicy {
    RotationPolicy {
        max_records: Some(max_records),
        ..RotationPolicy::default()
    }
}

fn segment(fs: &SimFs, ordinal: u64) -> Vec<FrameRecord> {
    read(&bytes_of(fs, &segment_path(path(), ordinal))).0
}

fn is_already_there(result: omniloop_core::journal::Result<StateJournal>) -> bool {
    matches!(
        result,
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::AlreadyExists
    )
}

#[test]
fn an_existing_path_is_refused_and_left_as_it_was() {
    let fs = SimFs::new();
    create(&fs).seal().unwrap();
    let before = fs.contents();
    assert!(is_already_there(StateJournal::create_with(
        path(),
        options(&fs)
    )));
    assert_eq!(fs.contents(), before);
}

#[test]
fn a_rotated_set_is_refused_where_any_of_its_segments_would_stand() {
    let fs = SimFs::new();
    let stray = segment_path(path(), 7);
    fs.create_new(&stray, Access::Shared).unwrap();
    let options = JournalOptions {
        rotation: Some(by_records(1)),
        ..options(&fs)
    };
    assert!(is_already_there(StateJournal::create_with(path(), options)));
    assert!(!fs.exists(path()).unwrap());
}

#[test]
fn overwriting_removes_the_whole_set_and_its_attestation() {
    let fs = SimFs::new();
    let mut journal = rotating(&fs, by_records(2));
    append_in_turn(&mut journal, 7);
    journal.seal().unwrap();
    for sidecar in ["run.omni.leaves", "run.omni.checkpoint", "other.omni"] {
        fs.create_new(sidecar.as_ref(), Access::Shared).unwrap();
    }
    let options = JournalOptions {
        overwrite: true,
        ..options(&fs)
    };
    StateJournal::create_with(path(), options)
        .unwrap()
        .seal()
        .unwrap();
    let left: Vec<_> = fs.contents().into_keys().collect();
    assert_eq!(
        left,
        ["/other.omni", "/run.omni"].map(Into::into) as [std::path::PathBuf; 2]
    );
}

#[test]
fn overwriting_leaves_a_neighbour_alone_that_only_looks_like_a_segment() {
    let fs = SimFs::new();
    create(&fs).seal().unwrap();
    let neighbour = segment_path(path(), 1);
    StateJournal::create_with(&neighbour, options(&fs))
        .unwrap()
        .seal()
        .unwrap();
    let options = JournalOptions {
        overwrite: true,
        ..options(&fs)
    };
    StateJournal::create_with(path(), options)
        .unwrap()
        .seal()
        .unwrap();
    assert!(fs.exists(&neighbour).unwrap(), "it is a journal of its own");
}

#[test]
fn telemetry_advances_the_tick_and_every_other_record_carries_it() {
    let fs = SimFs::new();
    let mut journal = create(&fs);
    let mut ticks = Vec::new();
    for kind in [
        FrameKind::Lifecycle,
        FrameKind::Input,
        FrameKind::Telemetry,
        FrameKind::Mutation,
        FrameKind::Guardrail,
        FrameKind::Telemetry,
        FrameKind::Hash,
    ] {
        let stamp = journal.append(kind, b"{}").unwrap();
        assert_eq!(journal.last_stamp(), stamp);
        ticks.push(stamp.tick);
    }
    assert_eq!(ticks, [0, 0, 1, 1, 1, 2, 2]);
    journal.seal().unwrap();
    let read: Vec<u64> = segment(&fs, 0).iter().map(|r| r.tick).collect();
    assert_eq!(read, [0, 0, 1, 1, 1, 2, 2, 2], "and so does the checkpoint");
}

#[test]
fn stamps_are_the_clocks_times_since_the_journal_was_created() {
    let fs = SimFs::new();
    let clock = Arc::new(durable::ManualClock::new(START_WALL_NS, STEP_NS));
    clock.advance(77_000_000_000);
    let options = JournalOptions {
        clock: clock.clone(),
        ..options(&fs)
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    let created = START_WALL_NS + 77_000_000_000 + STEP_NS;
    let stamp = journal.append(FrameKind::Telemetry, b"{}").unwrap();
    assert_eq!((stamp.mono_ns, stamp.wall_ns), (STEP_NS, created + STEP_NS));
    journal.seal().unwrap();
    let player = JournalPlayer::open_with(&fs, path(), PlayerOptions::default()).unwrap();
    assert_eq!(player.header().created_wall_ns, created);
}

/// A clock whose two times the test sets freely.
#[derive(Debug, Default)]
struct LooseClock {
    mono: AtomicU64,
    wall: AtomicU64,
}

impl LooseClock {
    fn set(&self, mono: u64, wall: u64) {
        self.mono.store(mono, Ordering::SeqCst);
        self.wall.store(wall, Ordering::SeqCst);
    }
}

impl Clock for LooseClock {
    fn mono_ns(&self) -> u64 {
        self.mono.load(Ordering::SeqCst)
    }

    fn wall_ns(&self) -> u64 {
        self.wall.load(Ordering::SeqCst)
    }
}

#[test]
fn monotonic_time_never_goes_back_and_a_step_of_the_wall_clock_is_followed() {
    const SECOND: u64 = 1_000_000_000;
    let fs = SimFs::new();
    let clock = Arc::new(LooseClock::default());
    clock.set(5 * SECOND, 100 * SECOND);
    let options = JournalOptions {
        clock: clock.clone(),
        ..options(&fs)
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    let mut stamp = |mono: u64, wall: u64| {
        clock.set(mono, wall);
        let stamp = journal.append(FrameKind::Telemetry, b"{}").unwrap();
        (stamp.mono_ns, stamp.wall_ns)
    };
    let half = SECOND / 2;
    assert_eq!(
        stamp(5 * SECOND + half, 100 * SECOND + half),
        (half, 100 * SECOND + half)
    );
    // Within a second of the last reading the wall clock is carried on.
    assert_eq!(
        stamp(5 * SECOND + half, 900 * SECOND),
        (half, 100 * SECOND + half)
    );
    // After that it is read again, and has been set back meanwhile.
    assert_eq!(stamp(7 * SECOND, 50 * SECOND), (2 * SECOND, 50 * SECOND));
    assert_eq!(
        stamp(6 * SECOND, 49 * SECOND).0,
        2 * SECOND,
        "monotonic time stands still"
    );
    let earlier = journal
        .append_read_at(FrameKind::Control, b"{}", 0)
        .unwrap();
    assert_eq!(earlier.mono_ns, 2 * SECOND);
    journal.seal().unwrap();
    assert_eq!(
        outcome(&verify(&bytes_of(&fs, path()))),
        Some(Outcome::Intact)
    );
}

#[test]
fn a_checkpoint_follows_each_64th_data_record_and_closes_the_file_always() {
    for (count, expected) in [
        (0, vec![0]),
        (1, vec![1]),
        (63, vec![63]),
        (64, vec![64, 65]),
        (65, vec![64, 66]),
        (128, vec![64, 129, 130]),
    ] {
        let fs = SimFs::new();
        let mut journal = create(&fs);
        append_in_turn(&mut journal, count);
        let sealed = journal.seal().unwrap();
        let records = segment(&fs, 0);
        let places: Vec<usize> = (0..records.len())
            .filter(|n| records[*n].kind == FrameKind::Chain)
            .collect();
        assert_eq!(places, expected, "count={count}");
        assert_eq!(sealed.record_count, records.len() as u64);
        assert_eq!(sealed.head.as_slice(), records.last().unwrap().payload);
        assert_eq!(sealed.paths, [path()]);
        let bytes = bytes_of(&fs, path());
        assert_eq!(outcome(&verify_as(&bytes, true)), Some(Outcome::Intact));
    }
}

#[test]
fn padding_is_zero_and_a_header_is_what_the_page_says() {
    let fs = SimFs::new();
    let mut journal = create(&fs);
    append_in_turn(&mut journal, 70);
    journal.seal().unwrap();
    let bytes = bytes_of(&fs, path());
    assert_eq!(
        &bytes[..16],
        b"OMNILOG1\x02\0\0\0\x02\0\0\0",
        "chained, not segmented"
    );
    assert_eq!(&bytes[24..32], &[0; 8]);
    for record in segment(&fs, 0) {
        let at = usize::try_from(record.offset).unwrap();
        assert_eq!(&bytes[at + 5..at + 8], &[0; 3]);
    }
}

#[test]
fn every_segment_is_marked_numbered_and_dated() {
    let fs = SimFs::new();
    let mut journal = rotating(&fs, by_records(3));
    append_in_turn(&mut journal, 8);
    assert_eq!(journal.segment_ordinal(), 2);
    let sealed = journal.seal().unwrap();
    let mut created = 0;
    let mut records = 0;
    for (ordinal, file) in sealed.paths.iter().enumerate() {
        assert_eq!(*file, segment_path(path(), ordinal as u64));
        let player = JournalPlayer::open_with(&fs, file, PlayerOptions::default()).unwrap();
        assert!(player.is_segmented() && player.is_finalized());
        assert_eq!(player.segment_index(), Some(ordinal as u64));
        assert!(player.header().created_wall_ns > created, "its own time");
        created = player.header().created_wall_ns;
        records += player.record_count().unwrap();
        let bytes = bytes_of(&fs, file);
        assert_eq!(outcome(&verify_as(&bytes, true)), Some(Outcome::Intact));
    }
    assert_eq!(sealed.record_count, records);
    assert_eq!(sealed.paths.len(), 3);
}

#[test]
fn a_set_that_never_rotated_is_marked_as_a_set_all_the_same() {
    let fs = SimFs::new();
    rotating(&fs, RotationPolicy::default()).seal().unwrap();
    let player = JournalPlayer::open_with(&fs, path(), PlayerOptions::default()).unwrap();
    assert_eq!(player.segment_index(), Some(0));
}

#[test]
fn a_record_larger_than_a_segment_gets_one_of_its_own() {
    let fs = SimFs::new();
    let policy = RotationPolicy {
        max_bytes: Some(500),
        ..RotationPolicy::default()
    };
    let mut journal = rotating(&fs, policy);
    for len in [10, 2000, 10, 10] {
        journal.append(FrameKind::Input, &vec![b' '; len]).unwrap();
    }
    assert_eq!(journal.seal().unwrap().paths.len(), 3);
    let lens = |ordinal| -> Vec<usize> {
        let data = segment(&fs, ordinal)
            .into_iter()
            .filter(|r| r.kind.is_data());
        data.map(|r| r.payload.len()).collect()
    };
    assert_eq!(
        [lens(0), lens(1), lens(2)],
        [vec![10], vec![2000], vec![10, 10]]
    );
}

#[test]
fn records_fill_a_segment_to_its_limit_and_not_beyond() {
    let fs = SimFs::new();
    let policy = RotationPolicy {
        max_bytes: Some(32 + 3 * (36 + 10)),
        ..RotationPolicy::default()
    };
    let mut journal = rotating(&fs, policy);
    for n in 0..4 {
        journal.append(FrameKind::Input, &[b' '; 10]).unwrap();
        assert_eq!(journal.segment_ordinal(), n / 3, "record {n}");
    }
}

#[test]
fn a_segment_that_is_old_enough_is_followed_by_the_next() {
    let fs = SimFs::new();
    let clock = Arc::new(durable::ManualClock::new(START_WALL_NS, 0));
    let options = JournalOptions {
        clock: clock.clone(),
        rotation: Some(RotationPolicy {
            max_age: Some(Duration::from_secs(10)),
            ..RotationPolicy::default()
        }),
        ..options(&fs)
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    let mut ordinals = Vec::new();
    for seconds in [0, 9, 1, 9, 1, 30] {
        clock.advance(seconds * 1_000_000_000);
        journal.append(FrameKind::Telemetry, b"{}").unwrap();
        ordinals.push(journal.segment_ordinal());
    }
    assert_eq!(ordinals, [0, 0, 1, 1, 2, 3]);
}

#[test]
fn the_journals_own_kinds_are_refused_without_harm() {
    let fs = SimFs::new();
    let mut journal = create(&fs);
    for kind in [FrameKind::Chain, FrameKind::Signature] {
        let error = journal.append(kind, &[0; 32]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misuse);
    }
    journal.append(FrameKind::Telemetry, b"{}").unwrap();
    journal.seal().unwrap();
    assert_eq!(segment(&fs, 0).len(), 2);
}

#[test]
fn a_payload_over_the_limit_is_refused_without_harm() {
    let fs = SimFs::new();
    let mut journal = create(&fs);
    let error = journal
        .append(FrameKind::Input, &vec![0; PAYLOAD_LEN_MAX + 1])
        .unwrap_err();
    assert!(
        matches!(error, Error::Limit { value, max, .. }
            if value == PAYLOAD_LEN_MAX as u64 + 1 && max == PAYLOAD_LEN_MAX as u64),
        "{error:?}"
    );
    journal.append(FrameKind::Input, b"{}").unwrap();
}

#[test]
fn a_journal_that_is_dropped_leaves_every_record_and_no_seal() {
    let fs = SimFs::new();
    let mut journal = create(&fs);
    append_in_turn(&mut journal, 70);
    drop(journal);
    let bytes = bytes_of(&fs, path());
    assert_eq!(read(&bytes).0.len(), 71);
    let verdict = verify(&bytes).unwrap();
    assert!(!verdict.chain.finalized && !verdict.chain.truncated);
    assert_eq!(verdict.chain.unverified_tail, 6);
    assert!(codes(&verdict).contains(&"not_sealed"));
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Unproven));
}

#[test]
fn the_first_error_is_the_answer_of_every_later_call_and_of_seal() {
    let fs = SimFs::new();
    let options = JournalOptions {
        durability: Durability::EachRecord,
        ..options(&fs)
    };
    let mut journal = StateJournal::create_with(path(), options).unwrap();
    journal.append(FrameKind::Telemetry, b"{}").unwrap();
    let next = fs.calls().len() as u64 + 1;
    fs.fail_nth(next, durable_sim::EIO, durable_sim::ShortWrite::Nothing);
    let first = journal.append(FrameKind::Telemetry, b"{}").unwrap_err();
    let calls = fs.calls().len();
    let code = |error: &Error| match error {
        Error::Io { source, .. } => source.raw_os_error(),
        _ => None,
    };
    assert_eq!(code(&first), Some(durable_sim::EIO));
    for later in [
        journal.append(FrameKind::Control, b"{}").unwrap_err(),
        journal.sync().unwrap_err(),
        journal.seal().unwrap_err(),
    ] {
        assert_eq!(code(&later), Some(durable_sim::EIO));
        assert_eq!(later.to_string(), first.to_string());
    }
    assert_eq!(fs.calls().len(), calls, "nothing more reaches the disk");
    assert_eq!(read(&bytes_of(&fs, path())).0.len(), 1);
}

#[test]
fn a_journal_syncs_as_often_as_it_was_asked_to() {
    let syncs = |durability, wait_ns| {
        let fs = SimFs::new();
        let clock = Arc::new(durable::ManualClock::new(START_WALL_NS, 0));
        let options = JournalOptions {
            clock: clock.clone(),
            durability,
            ..options(&fs)
        };
        let mut journal = StateJournal::create_with(path(), options).unwrap();
        let count = || {
            let of_bytes = |c: &durable_sim::Call| c.action == durable_sim::Action::SyncData;
            fs.calls().iter().filter(|c| of_bytes(c)).count()
        };
        let before = count();
        for _ in 0..10 {
            clock.advance(wait_ns);
            journal.append(FrameKind::Telemetry, b"{}").unwrap();
        }
        let during = count() - before;
        clock.advance(1_000_000_000);
        journal.sync_if_due().unwrap();
        (during, count() - before - during)
    };
    let ms = 1_000_000;
    assert_eq!(syncs(Durability::Buffered, ms), (0, 0));
    assert_eq!(syncs(Durability::EachRecord, ms), (10, 0));
    assert_eq!(syncs(Durability::EveryN(4), ms), (2, 0));
    assert_eq!(syncs(Durability::EveryMs(3), ms), (3, 1));
    assert_eq!(syncs(Durability::EveryMs(5000), ms), (0, 0));
}

#[cfg(feature = "signing")]
mod signing {
    use std::num::NonZeroU64;

    use omniloop_core::journal::{JournalSigner, VerifyOptions, verify_signed_with};

    use super::*;
    use crate::support::{sealed_as, signer};

    #[test]
    fn every_segment_closes_with_a_signature_that_a_trusted_key_made() {
        let fs = SimFs::new();
        let options = JournalOptions {
            signer: Some(signer()),
            rotation: Some(by_records(3)),
            ..options(&fs)
        };
        let mut journal = StateJournal::create_with(path(), options).unwrap();
        append_in_turn(&mut journal, 7);
        for file in journal.seal().unwrap().paths {
            let trusted = [signer().public_key()];
            let verdict =
                verify_signed_with(&fs, &file, &trusted, VerifyOptions::default(), &mut ())
                    .unwrap();
            assert!(verdict.chain.ok && verdict.closing_is_trusted);
            assert_eq!(verdict.signers.len(), 1);
            assert_eq!(verdict.trusted_covers, Some(verdict.chain.records - 1));
        }
    }

    #[test]
    fn a_signature_follows_every_so_many_checkpoints() {
        let bytes = sealed_as(200, |options| JournalOptions {
            signer: Some(signer()),
            sign_every: NonZeroU64::new(2),
            ..options
        });
        let kinds: String = read(&bytes)
            .0
            .iter()
            .filter_map(|r| match r.kind {
                FrameKind::Chain => Some('c'),
                FrameKind::Signature => Some('s'),
                _ => None,
            })
            .collect();
        assert_eq!(kinds, "ccsccs");
    }

    #[test]
    fn a_signature_of_another_key_is_named_and_not_trusted() {
        let bytes = sealed_as(3, |options| JournalOptions {
            signer: Some(JournalSigner::from_seed(&[9; 32])),
            ..options
        });
        let fs = omniloop_core::fuzzing::OneFile::new(&bytes);
        let trusted = [signer().public_key()];
        let verdict =
            verify_signed_with(&fs, path(), &trusted, VerifyOptions::default(), &mut ()).unwrap();
        assert!(verdict.chain.ok, "it is a good signature");
        assert_eq!(verdict.trusted_covers, None);
        assert!(!verdict.closing_is_trusted);
        let [signer] = verdict.signers.as_slice() else {
            panic!("{:?}", verdict.signers);
        };
        assert_eq!(
            signer.key,
            durable::digest::hex(&JournalSigner::from_seed(&[9; 32]).public_key().to_bytes())
        );
        assert!(!signer.trusted);
    }

    #[test]
    fn a_rewrite_without_the_key_cannot_keep_the_signature() {
        let sign = |options: JournalOptions| JournalOptions {
            signer: Some(signer()),
            ..options
        };
        let signed = read(&sealed_as(3, sign)).0;
        let signature = signed.last().unwrap();
        assert_eq!(signature.kind, FrameKind::Signature);
        let mut forge = crate::forge::Forge::new(crate::forge::CHAINED, 5, 0);
        forge.telemetry().checkpoint();
        let rec = crate::forge::Rec::new(7, 1, &signature.payload);
        let verdict = verify(&forge.push(&rec).seal()).unwrap();
        assert_eq!(verdict.chain.break_at, None, "the chain is consistent");
        assert_eq!(verdict.bad_signatures, 1);
        assert!(!verdict.chain.ok);
    }
}
