//! Storage 1 to 5 and 9 to 12: what the files of a study keep, whatever happens to them, and what they cost.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use atune_core::lifecycle::FencedMutation;
use atune_core::number::JsonF64;
use atune_core::outbox::Intent;
use atune_core::replica::{Refusal, Replica};
use atune_core::storage::conformance::example_config;
use atune_core::storage::journal::record::OpLine;
use atune_core::storage::journal::{
    Durability, Fault, Identity, JournalError, JournalOptions, JournalReader, JournalStorage,
    Section, data_folder, verify_study,
};
use atune_core::storage::{MemoryStorage, Storage, StorageError};
use atune_core::trial::{Direction, TrialId, TrialState, WorkerId};
use durable::{ManualClock, Outcome, RealFs, SystemClock};
use durable_sim::{ENOSPC, SimFs};
use serde_json::{Value, json};

use crate::disk::{Countdown, Counter, WatchedDisk};
use crate::files::{
    self, STUDY, Scratch, complete, create_study, leased, open_on, options, rewrite, start,
};
use crate::processes::{Member, part, say};

/// The operating system's number for a file that would be longer than its process may write.
const EFBIG: i32 = 27;

/// Starts and completes a trial: an extent of two records, and one of one.
fn one_trial(storage: &dyn Storage, worker: u64) -> TrialId {
    let fence = start(storage, worker);
    storage
        .terminal(fence, &complete(0.5), &Intent::default())
        .unwrap();
    fence.trial
}

/// Asserts that bytes behind the published ones change nothing, are told, and that writing goes on.
fn assert_ignored(tail: &[u8]) {
    let scratch = Scratch::new();
    one_trial(&scratch.open(1), 1);
    let data = scratch.data_files();
    let whole: Replica = scratch.reader().replica().clone();
    let last = data.last().unwrap();
    files::append(last, tail);

    assert_eq!(*scratch.reader().replica(), whole);
    scratch.assert_intact();
    let told = scratch.reader().data_files().unwrap();
    let told: u64 = told.iter().map(|file| file.unpublished).sum();
    assert_eq!(told, tail.len() as u64);
    assert!(
        scratch.verdict().facts["data_files"]
            .to_string()
            .contains(&tail.len().to_string())
    );

    for worker in 2..4 {
        one_trial(&scratch.open(worker), worker);
        scratch.assert_intact();
    }
    let trials = scratch.reader();
    let trials = trials.replica().trials();
    assert_eq!(trials.len(), 3);
    assert!(trials.iter().all(|t| t.state == TrialState::Complete));
}

#[test]
fn storage_01_a_torn_tail_is_ignored_reported_and_written_past() {
    let scratch = Scratch::new();
    let first = scratch.data_files().remove(0);
    let extent = files::read(&first);
    let metadata = extent.iter().position(|&b| b == b'\n').unwrap() + 1;
    // Within the metadata line, at its end, within the records, and whole but never published.
    for len in [
        1,
        metadata - 1,
        metadata,
        metadata + 1,
        extent.len() - 1,
        extent.len(),
    ] {
        assert_ignored(&extent[..len]);
    }
}

#[test]
fn storage_01_a_torn_last_line_of_an_older_file_is_told_and_does_not_glue_to_the_next_write() {
    let scratch = Scratch::empty();
    let header =
        r#"{"record":"header","format":5,"atune":"0.5.0","created_at_millis":5,"created_by":2}"#;
    let config = serde_json::to_value(example_config("s", &[Direction::Minimize])).unwrap();
    let op = json!({ "kind": "create-study", "study": 0, "config": config });
    let line = format!(r#"{{"record":"op","seq":1,"worker":2,"at_millis":7,"op":{op}}}"#);
    let torn = r#"{"record":"op","seq":2,"worker":2,"at_mil"#;
    let old = format!("{header}\n{line}\n{torn}");
    files::replace(&scratch.path, old.as_bytes());

    let reader = scratch.reader();
    assert_eq!(
        (reader.replica().seq(), reader.torn_tail()),
        (1, torn.len() as u64)
    );
    let verdict = scratch.verdict();
    assert!(
        verdict
            .findings
            .iter()
            .any(|finding| finding.code == "torn_tail")
    );
    assert_eq!(files::read(&scratch.path), old.as_bytes());

    one_trial(&scratch.open(1), 1);
    scratch.assert_intact();
    let reader = scratch.reader();
    assert_eq!(
        (reader.header().format, reader.replica().trials().len()),
        (6, 1)
    );
    let kept = data_folder(&scratch.path).join("legacy-v5.jsonl");
    assert_eq!(files::read(&kept), old.as_bytes());
}

#[test]
fn storage_02_nul_bytes_and_blank_lines_behind_the_end_are_ignored_and_written_past() {
    for tail in [
        &b"\0"[..],
        &[0; 4096],
        b"\n",
        b"\n\n\r\n",
        b"\0\n\0",
        b"\xff\xfe",
    ] {
        assert_ignored(tail);
    }
}

#[test]
fn storage_02_a_write_cut_short_by_a_size_limit_is_told_and_the_writer_goes_on() {
    let test =
        "storage::storage_02_a_write_cut_short_by_a_size_limit_is_told_and_the_writer_goes_on";
    if let Some(part) = part() {
        let storage = JournalStorage::open(&part.study, options(part.worker)).unwrap();
        let mut refused = 0;
        let filling = Value::from("x".repeat(300));
        for number in 0.. {
            while let Err(error) =
                storage.set_study_user_attr(STUDY, &format!("k{number}"), &filling)
            {
                let StorageError::Journal(JournalError::Io { path, source, .. }) = &error else {
                    panic!("{error}");
                };
                assert_eq!(source.raw_os_error(), Some(EFBIG), "{error}");
                assert!(path.starts_with(data_folder(&part.study)), "{error}");
                refused += 1;
                assert!(refused < 10, "a new data file does not help");
            }
            say(number);
            if refused == 3 {
                return;
            }
        }
    }
    let scratch = Scratch::new();
    // Without the signal that comes with the limit, the system writes what fits and then refuses.
    let limited = ["sh", "-c", r#"trap "" XFSZ; ulimit -f 16; exec "$0" "$@""#];
    let acknowledged = Member::start_by(&limited, test, &scratch.path, 1, "").finish();
    assert!(acknowledged.len() > 10, "{acknowledged:?}");

    scratch.assert_intact();
    let reader = scratch.reader();
    let uses = reader.data_files().unwrap();
    assert!(
        uses.iter().any(|file| file.unpublished > 0),
        "no write was cut short"
    );
    let study = reader.replica().study(STUDY).unwrap();
    assert_eq!(study.user_attrs.len(), acknowledged.len());
    assert_eq!(reader.head().ops, 1 + acknowledged.len() as u64);
    one_trial(&scratch.open(2), 2);
    scratch.assert_intact();
}

#[test]
fn storage_03_a_flipped_digit_is_a_checksum_error_that_names_file_and_offset() {
    let scratch = Scratch::new();
    let storage = scratch.open(1);
    let fence = start(&storage, 1);
    let report = FencedMutation::Report {
        step: 3,
        values: vec![JsonF64(0.125)],
    };
    storage.fenced(fence, &report).unwrap();
    storage
        .terminal(fence, &complete(0.5), &Intent::default())
        .unwrap();
    drop(storage);
    let data = scratch.data_files().pop().unwrap();
    let whole = String::from_utf8(files::read(&data)).unwrap();
    let digit = whole.find("0.125").unwrap() + 2;
    let payload = whole[..digit].rfind('\n').unwrap() + 1;
    files::replace(&data, whole.replace("0.125", "0.225").as_bytes());

    let error = scratch.error();
    let JournalError::Corrupt {
        path,
        section,
        offset,
        fault,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (path, *section, *offset),
        (&data, Section::Operations, payload as u64)
    );
    assert!(matches!(fault, Fault::ChecksumMismatch { .. }), "{fault}");
    let text = error.to_string();
    assert!(text.contains(data.to_str().unwrap()), "{text}");
    assert!(text.contains(&format!("byte {payload}")), "{text}");

    let verdict = scratch.verdict();
    assert_eq!(verdict.verdict, Outcome::Damaged);
    let place = &verdict.findings[0].place;
    assert_eq!(*place, format!("{} byte {payload}", data.display()));
    // Nobody writes on top of damage.
    let refused = JournalStorage::open(&scratch.path, options(2));
    assert!(matches!(refused, Err(JournalError::Corrupt { .. })));

    files::replace(&data, whole.as_bytes());
    scratch.assert_intact();
}

/// A study whose operations are: its creation, and for each of three trials a reservation, a claim and an
/// ending.
fn three_trials() -> Scratch {
    let scratch = Scratch::empty();
    let storage = JournalStorage::create(&scratch.path, options(1)).unwrap();
    create_study(&storage);
    for _ in 0..3 {
        one_trial(&storage, 1);
    }
    drop(storage);
    assert_eq!(scratch.ops().len(), 10);
    scratch
}

/// Makes the sequence numbers of operation lines fit.
fn renumbered(lines: Vec<String>) -> Vec<String> {
    let renumber = |(line, seq): (String, u64)| {
        let (before, rest) = line.split_once(r#""seq":"#).unwrap();
        let (_, after) = rest.split_once(',').unwrap();
        format!(r#"{before}"seq":{seq},{after}"#)
    };
    lines.into_iter().zip(1..).map(renumber).collect()
}

#[test]
fn storage_04_a_lost_or_doubled_record_is_refused_by_its_sequence_number() {
    let unchanged = three_trials();
    rewrite(&unchanged, |lines| lines);
    unchanged.assert_intact();
    for at in 0..9 {
        for is_lost in [true, false] {
            let scratch = three_trials();
            rewrite(&scratch, |mut lines| {
                if is_lost {
                    lines.remove(at);
                } else {
                    lines.insert(at, lines[at].clone());
                }
                lines
            });
            let error = scratch.error();
            let JournalError::Corrupt { path, fault, .. } = &error else {
                panic!("{error}");
            };
            assert_eq!(*path, scratch.data_files()[0]);
            assert!(
                matches!(fault, Fault::NotContiguous { .. }),
                "{at} {is_lost}: {fault}"
            );
            assert_eq!(scratch.verdict().verdict, Outcome::Damaged);
        }
    }
}

#[test]
fn storage_04_a_lost_or_doubled_record_is_refused_by_its_identity_though_the_numbers_were_made_to_fit()
 {
    // The second trial's three records stand at 4, 5 and 6, and are told by the one that follows.
    let one = TrialId(1);
    for at in 4..=6 {
        for is_lost in [true, false] {
            let scratch = three_trials();
            rewrite(&scratch, |mut lines| {
                if is_lost {
                    lines.remove(at);
                } else {
                    lines.insert(at, lines[at].clone());
                }
                renumbered(lines)
            });
            let found = JournalReader::open(&scratch.path);
            if is_lost && at == 6 {
                // A trial without its ending is one that still runs: nothing follows from it.
                let state = found.unwrap().replica().trial(one).unwrap().state;
                assert_eq!(state, TrialState::Running);
                continue;
            }
            let Err(JournalError::Corrupt { path, fault, .. }) = found else {
                panic!("{at} {is_lost}: {found:?}");
            };
            assert_eq!(path, scratch.data_files()[0]);
            let Fault::Refused { seq, refusal } = fault else {
                panic!("{at} {is_lost}: {fault}");
            };
            assert_eq!(seq, if is_lost { at + 1 } else { at + 2 } as u64);
            let is_right = match (at, is_lost) {
                (4, true) => refusal == Refusal::UnknownTrial(one),
                (4, false) => matches!(
                    refusal,
                    Refusal::WrongIdentity {
                        expected: 2,
                        found: 1,
                        ..
                    }
                ),
                (5, true) => matches!(refusal, Refusal::WrongEpoch { trial, .. } if trial == one),
                (5, false) => matches!(refusal, Refusal::WrongFrom { trial, .. } if trial == one),
                _ => refusal == Refusal::Ended(one),
            };
            assert!(is_right, "{at} {is_lost}: {refusal}");
        }
    }
}

/// The operating system's numbers: what a change is answered with that has taken place.
const LIES: [i32; 3] = [5, 17, 2];

#[test]
fn storage_04_a_change_that_took_place_and_was_answered_with_an_error_doubles_no_record() {
    // Over a network an answer gets lost, and the question that is put again finds that all is done.
    for lie in LIES {
        for number in 1.. {
            let scratch = Scratch::new();
            let countdown = Countdown::default();
            let counting = countdown.clone();
            let disk = WatchedDisk::new(move |touch| {
                if counting.is_at(touch) {
                    return Err(std::io::Error::from_raw_os_error(lie));
                }
                Ok(())
            });
            let unthreaded = JournalOptions {
                threads: false,
                ..leased(1, Duration::from_millis(100))
            };
            let storage = open_on(disk, &scratch.path, unthreaded);
            storage.create_trial(STUDY, None).unwrap();
            countdown.start(number);
            let told = storage.create_trial(STUDY, None);
            if !countdown.stop() {
                break;
            }
            let place = format!("errno {lie} at change {number}: {told:?}");
            let is_uncertain = matches!(
                told,
                Err(StorageError::Journal(JournalError::Unsettled { .. }))
            );
            let trials = scratch.reader().replica().trials().len();
            assert_eq!(
                trials,
                1 + usize::from(told.is_ok() || is_uncertain),
                "{place}"
            );
            storage.create_trial(STUDY, None).unwrap();
            assert_eq!(
                scratch.reader().replica().trials().len(),
                trials + 1,
                "{place}"
            );
            scratch.assert_intact();
        }
    }
}

#[test]
fn storage_05_a_newer_version_is_refused_by_its_number_and_older_ones_are_read() {
    let scratch = three_trials();
    let head = String::from_utf8(files::read(&scratch.path)).unwrap();
    let newer = head.replace(r#""format":6"#, r#""format":7"#);
    assert_ne!(newer, head);
    files::replace(&scratch.path, newer.as_bytes());
    let before = scratch.bytes();
    for error in [
        scratch.error(),
        JournalStorage::open(&scratch.path, options(2)).unwrap_err(),
        verify_study(Arc::new(RealFs), &scratch.path).unwrap_err(),
    ] {
        assert!(matches!(
            error,
            JournalError::Unsupported {
                found: 7,
                newest: 6,
                ..
            }
        ));
        let text = error.to_string();
        assert!(text.contains("version 7"), "{text}");
        assert!(text.contains(scratch.path.to_str().unwrap()), "{text}");
    }
    assert_eq!(scratch.bytes(), before);

    files::replace(&scratch.path, head.as_bytes());
    let now = scratch.reader();
    let data = String::from_utf8(files::read(&scratch.data_files()[0])).unwrap();
    let ops: Vec<&str> = data
        .lines()
        .filter(|l| l.starts_with(r#"{"record""#))
        .collect();
    for version in 1..=5 {
        let old = Scratch::empty();
        let header = head.lines().next().unwrap();
        let header = header.replace(r#""format":6"#, &format!(r#""format":{version}"#));
        files::replace(
            &old.path,
            format!("{header}\n{}\n", ops.join("\n")).as_bytes(),
        );
        assert_eq!(old.reader().replica(), now.replica(), "version {version}");
    }
}

#[test]
fn storage_05_an_unknown_operation_is_named_with_its_place_and_what_stands_before_it_is_shown() {
    let scratch = three_trials();
    rewrite(&scratch, |mut lines| {
        lines[7] = lines[7].replace("lifecycle-reserve", "lifecycle-dream");
        lines
    });
    let mut shown = Vec::new();
    let mut watch = |line: &OpLine, _: u64| shown.push(line.seq);
    let error = JournalReader::open_watched(Arc::new(RealFs), &scratch.path, &mut watch);
    let Err(JournalError::Corrupt {
        path,
        offset,
        fault: Fault::UnknownOperation { kind },
        ..
    }) = error
    else {
        panic!("{error:?}");
    };
    assert_eq!(path, scratch.data_files()[0]);
    assert_eq!(kind, "lifecycle-dream");
    let bytes = String::from_utf8(files::read(&path)).unwrap();
    let line = &bytes[usize::try_from(offset).unwrap()..];
    assert!(line.starts_with(r#"{"record":"op","seq":8"#), "{line}");
    assert_eq!(shown, (1..=7).collect::<Vec<_>>());
}

#[test]
fn storage_09_a_full_disk_is_told_by_its_name_and_the_study_goes_on_when_there_is_room() {
    let path = Path::new("/study.atj");
    let on_sim = |fs: &SimFs, seed| {
        // A second passes with every look: nobody waits long for the lease of a dead owner.
        let clock = ManualClock::new(1_000_000_000_000, 900_000_000);
        (Arc::new(fs.clone()), Arc::new(clock), Identity::fixed(seed))
    };
    let unthreaded = || JournalOptions {
        threads: false,
        ..options(1)
    };
    let mut free = 0;
    loop {
        let fs = SimFs::new();
        let (shared, clock, identity) = on_sim(&fs, 1);
        let storage =
            JournalStorage::create_on(shared, clock, identity, path, unthreaded()).unwrap();
        create_study(&storage);
        fs.set_capacity(Some(fs.used() + free));
        let tried = storage.create_trial(STUDY, None);
        let kept = u64::from(tried.is_ok());
        if let Err(error) = &tried {
            let StorageError::Journal(JournalError::Io { source, path, .. }) = error else {
                panic!("{error}");
            };
            assert_eq!(source.raw_os_error(), Some(ENOSPC), "{error}");
            assert!(error.to_string().contains(path.to_str().unwrap()));
        }
        // Reading needs no room.
        let reader = JournalReader::open_on(Arc::new(fs.clone()), path).unwrap();
        assert_eq!(reader.head().ops, 1 + kept, "{free} bytes were free");
        let verdict = verify_study(Arc::new(fs.clone()), path).unwrap();
        assert_eq!(verdict.verdict, Outcome::Intact, "{:?}", verdict.findings);

        // The same handle goes on, and so does the next.
        fs.set_capacity(None);
        storage.create_trial(STUDY, None).unwrap();
        drop(storage);
        let (shared, clock, identity) = on_sim(&fs, 2);
        let next = JournalStorage::open_on(shared, clock, identity, path, unthreaded()).unwrap();
        next.create_trial(STUDY, None).unwrap();
        let reader = JournalReader::open_on(Arc::new(fs), path).unwrap();
        assert_eq!(reader.replica().trials().len() as u64, 2 + kept);
        if kept == 1 {
            break;
        }
        free += 13;
    }
    assert!(free > 500, "an operation takes more room than {free} bytes");
}

#[test]
fn storage_10_the_files_hold_lines_of_json_and_nothing_else() {
    let scratch = three_trials();
    scratch
        .open(2)
        .set_study_user_attr(STUDY, "note", &json!({ "a": [1, null, "ü"] }))
        .unwrap();
    for (path, bytes) in scratch.bytes() {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.ends_with('\n'), "{}", path.display());
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let members = value.as_object().unwrap();
            let kind = ["record", "magic", "tip"]
                .iter()
                .find(|name| members.contains_key(**name));
            assert!(kind.is_some(), "{line}");
        }
    }
}

#[test]
fn storage_10_an_attribute_is_checked_before_anything_is_written_on_both_stores() {
    let scratch = Scratch::new();
    let journal = scratch.open(1);
    let memory = MemoryStorage::new(Arc::new(SystemClock::start()), WorkerId(1));
    create_study(&memory);
    for storage in [&memory as &dyn Storage, &journal] {
        let raw = storage.create_trial(STUDY, None).unwrap();
        let owned = start(storage, 1);
        let before = scratch.bytes();
        let (key, value) = ("atune:internal", json!(1));
        let fenced = FencedMutation::SetUserAttr {
            key: key.to_owned(),
            value: value.clone(),
        };
        for refused in [
            storage.set_study_user_attr(STUDY, key, &value),
            storage.set_trial_user_attr(raw, key, &value),
            storage.fenced(owned, &fenced),
            storage.set_trial_user_attr(owned.trial, "managed", &value),
            storage.set_trial_user_attr(TrialId(99), "unknown", &value),
        ] {
            let Err(StorageError::Refused(refusal)) = refused else {
                panic!("{refused:?}");
            };
            let is_right = matches!(
                refusal,
                Refusal::ReservedKey(_) | Refusal::Managed(_) | Refusal::UnknownTrial(_)
            );
            assert!(is_right, "{refusal}");
        }
        assert_eq!(scratch.bytes(), before);
        for id in [raw, owned.trial] {
            assert_eq!(storage.trial(id).unwrap().user_attrs().count(), 0);
        }
        assert!(storage.study(STUDY).unwrap().user_attrs.is_empty());
    }
    let capped = JournalOptions {
        record_len_max: 2000,
        ..options(2)
    };
    let capped = JournalStorage::open(&scratch.path, capped).unwrap();
    let before = scratch.bytes();
    let long = capped.set_study_user_attr(STUDY, "long", &Value::from("x".repeat(3000)));
    let text = long.unwrap_err().to_string();
    assert!(text.contains("2000"), "{text}");
    assert_eq!(scratch.bytes(), before);
    capped
        .set_study_user_attr(STUDY, "short", &json!(1))
        .unwrap();
    scratch.assert_intact();
}

/// A study on a disk that counts, written without syncs and threads: the same calls every time.
fn counted(scratch: &Scratch) -> (JournalStorage, Arc<Counter>) {
    let (disk, counter) = Counter::on_disk();
    let options = JournalOptions {
        threads: false,
        durability: Durability::Process,
        ..options(1)
    };
    let (clock, identity) = (Arc::new(SystemClock::start()), Identity::of_this_process());
    let storage = JournalStorage::create_on(disk, clock, identity, &scratch.path, options).unwrap();
    create_study(&storage);
    (storage, counter)
}

#[test]
fn storage_11_a_report_costs_the_same_after_a_thousand_as_after_ten() {
    let scratch = Scratch::empty();
    let (storage, counter) = counted(&scratch);
    let fence = start(&storage, 1);
    let mut costs = Vec::new();
    for step in 0..1010 {
        let report = FencedMutation::Report {
            step,
            values: vec![JsonF64(0.5)],
        };
        counter.take();
        storage.fenced(fence, &report).unwrap();
        costs.push(counter.take());
    }
    let (early, late) = (costs[10], costs[1009]);
    assert_eq!((late.calls, late.opened), (early.calls, early.opened));
    // Numbers grow by some digits.
    assert!(late.written < early.written + 40, "{early:?} {late:?}");
    assert!(late.read < early.read + 40, "{early:?} {late:?}");
}

#[test]
fn storage_11_opening_reads_every_byte_about_once_and_little_at_a_time() {
    let scratch = Scratch::empty();
    let (storage, _) = counted(&scratch);
    let filling = Value::from("x".repeat(2000));
    for number in 0..1000 {
        storage
            .set_study_user_attr(STUDY, &format!("k{}", number % 7), &filling)
            .unwrap();
    }
    drop(storage);
    let len: u64 = scratch
        .bytes()
        .values()
        .map(|bytes| bytes.len() as u64)
        .sum();
    assert!(len > 2_000_000);
    let (disk, counter) = Counter::on_disk();
    let reader = JournalReader::open_on(disk, &scratch.path).unwrap();
    let cost = counter.take();
    assert_eq!(reader.extent_count(), 1001);
    // Back over the pointers once, and forward over the operations once.
    assert!(cost.read < 3 * len, "{cost:?} of {len}");
    assert!(cost.longest_read < len / 4, "{cost:?} of {len}");
    assert!(cost.opened < 5, "{cost:?}");
}

#[test]
fn storage_12_a_trial_costs_the_same_after_a_thousand_as_after_a_hundred() {
    let scratch = Scratch::empty();
    let (storage, counter) = counted(&scratch);
    let mut costs = BTreeMap::new();
    for trial in 0..1100 {
        if trial % 100 == 0 {
            counter.take();
        }
        one_trial(&storage, 1);
        if trial % 100 == 99 {
            costs.insert(trial, counter.take());
        }
    }
    // Of a hundred trials each. The first hundred also made folders and files.
    let (early, late) = (costs[&199], costs[&1099]);
    assert!(
        late.calls <= early.calls + early.calls / 100,
        "{early:?} {late:?}"
    );
    assert!(
        late.opened <= early.opened + early.opened / 100,
        "{early:?} {late:?}"
    );
    assert!(
        late.written <= early.written + early.written / 20,
        "{early:?} {late:?}"
    );
    assert!(
        late.read <= early.read + early.read / 20,
        "{early:?} {late:?}"
    );
}
