//! What released versions wrote, opened by this one.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use durable::{Outcome, Severity};
use durable_sim::{Action, Call};
use serde_json::Value;
use traza::llm::Pricing;
use traza::rollup::{Binding, Rollup, decode};
use traza::segment::Segment;
use traza::span::Span;
use traza::store::{Store, restore, verify};

use super::disk::{
    DIR, RELEASES, Release, at, clock, files, get, is_a, open, open_at, options, segment_name,
    settled, spans,
};

fn json(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

#[test]
fn the_segments_and_blobs_of_both_versions_become_those_of_the_present_one_byte_for_byte() {
    for release in RELEASES {
        let fs = release.disk();
        let before = files(&fs);
        let store = open(&fs).unwrap();
        let migrated = store.opened().migrated.clone().unwrap();
        let pins = usize::from(!release.is_erased);
        assert_eq!(migrated.from, BTreeSet::from([release.format]));
        assert_eq!(migrated.segments, release.segments().len() * (1 + pins));
        assert_eq!(migrated.blobs > 0, release.format == 6);
        assert_eq!(migrated.pins, pins);
        let after = files(&fs);
        let kept = |path: &&std::path::PathBuf| {
            let text = path.to_str().unwrap();
            !text.contains("generations") && !text.ends_with(".rollup")
        };
        if release.is_erased {
            // It had no log.
            assert!(after.contains_key(&at("wal.log")));
        } else {
            let names: Vec<_> = before.keys().filter(kept).collect();
            assert_eq!(names, after.keys().filter(kept).collect::<Vec<_>>());
            assert!(before[&at("wal.log")] == after[&at("wal.log")]);
        }
        let current = Release::new(8, release.is_erased);
        let folders = [at(""), at("pins/fixture")];
        for folder in &folders[..=pins] {
            for (id, bytes) in current.segments() {
                assert!(
                    after[&folder.join(segment_name(id))] == bytes,
                    "{release:?} {id}"
                );
            }
        }
        for (path, bytes) in current.blobs() {
            assert!(after[&at(&path)] == bytes, "{release:?} {path}");
            let pinned = at("pins/fixture").join(&path);
            assert!(after.get(&pinned).is_none_or(|pinned| *pinned == bytes));
        }
        for log in ["annotations.jsonl", "evals.jsonl"] {
            assert!(before.get(&at(log)) == after.get(&at(log)));
        }
    }
}

#[test]
fn every_span_of_a_migrated_store_is_that_of_a_store_of_the_present_version() {
    for release in RELEASES {
        let old = open(&release.disk()).unwrap();
        let new = open(&release.as_current()).unwrap();
        assert_eq!(new.opened().migrated, None);
        assert_eq!(
            old.opened().replayed_spans,
            if release.is_erased { 0 } else { 150 }
        );
        let (old, new) = (spans(&old), spans(&new));
        assert!(old.len() > 100);
        assert!(old == new, "{release:?}");
    }
}

#[test]
fn the_generation_behind_the_old_one_declares_the_format_with_digests_of_what_is_there() {
    for release in RELEASES {
        let fs = release.disk();
        let live = if release.is_erased { 6 } else { 2 };
        let path = |generation| at(&format!("generations/{generation}/state-manifest.json"));
        let before = json(&get(&fs, &path(live)));
        let store = open(&fs).unwrap();
        assert_eq!(store.opened().generation, live + 1);
        assert!(!files(&fs).contains_key(&path(live)));
        let after = json(&get(&fs, &path(live + 1)));
        assert_eq!(after["segment_format"], 8);
        assert_eq!(after["folded_through"], before["folded_through"]);
        drop(store);
        // A client may refer to a payload that it never sent.
        let verdict = verify(&fs, Path::new(DIR)).unwrap();
        for finding in &verdict.findings {
            let is_fine = finding.severity == Severity::Note
                || finding.code == "payload_missing" && finding.place.contains("abababababab");
            assert!(is_fine, "{finding:?}");
        }
    }
}

#[test]
fn a_pin_from_before_restores_the_same_spans_and_says_the_same_of_its_generation_and_logs() {
    for format in [6, 7] {
        let fs = Release::new(format, false).disk();
        let path = at("pins/fixture/state-manifest.json");
        let before = json(&get(&fs, &path));
        drop(open(&fs).unwrap());
        let after = json(&get(&fs, &path));
        assert_eq!(after["segment_format"], 8);
        for key in ["generation", "created_unix_ns", "folded_through"] {
            assert_eq!(after[key], before[key]);
        }
        for (old, new) in before["files"]
            .as_array()
            .unwrap()
            .iter()
            .zip(after["files"].as_array().unwrap())
        {
            assert_eq!(old["path"], new["path"]);
            let name = old["path"].as_str().unwrap();
            let is_kept =
                is_a(Path::new(name), "jsonl") || format == 7 && is_a(Path::new(name), "bin");
            assert_eq!(is_kept, old == new, "{name}");
        }
        let dir = Path::new("/restored");
        restore(&fs, &at("pins/fixture"), dir).unwrap();
        let restored = open_at(&fs, dir).unwrap();
        assert_eq!(restored.opened().migrated, None);
        let current = Release::new(8, false).as_current();
        durable::Fs::remove_file(&current, &at("wal.log")).unwrap();
        assert!(spans(&restored) == spans(&open(&current).unwrap()));
    }
}

#[test]
fn a_pin_that_is_taken_after_the_migration_and_the_store_verify() {
    for format in [6, 7] {
        let fs = Release::new(format, false).disk();
        let store = open(&fs).unwrap();
        store.pin("after").unwrap();
        drop(store);
        let verdict = verify(&fs, Path::new(DIR)).unwrap();
        assert_ne!(verdict.verdict, Outcome::Damaged);
        assert!(verdict.findings.iter().all(|finding| {
            finding.severity == Severity::Note || finding.code == "payload_missing"
        }));
        restore(&fs, &at("pins/after"), Path::new("/restored")).unwrap();
        open_at(&fs, Path::new("/restored")).unwrap();
    }
}

#[test]
fn the_sidecars_are_those_of_the_new_segments_and_pins_have_none() {
    let fs = Release::new(6, false).disk();
    drop(open(&fs).unwrap());
    for (id, _) in Release::new(6, false).segments() {
        let path = at(&segment_name(id));
        let segment = Segment::open(&fs, &path).unwrap();
        let pricing = Pricing::default();
        let binding = Binding::of(segment.header(), segment.file_len(), &pricing);
        let found = decode(&get(&fs, &path.with_extension("rollup")), &binding).unwrap();
        let spans = segment
            .scan()
            .map(|record| Span::from_json(record.unwrap().payload()).unwrap());
        assert_eq!(found, Rollup::fold(spans, &pricing));
    }
    let is_pinned = |path: &std::path::PathBuf| path.starts_with(at("pins"));
    let all = files(&fs);
    let mut pinned = all.keys().filter(|path| is_pinned(path));
    assert!(pinned.all(|path| path.extension().unwrap() != "rollup"));
}

#[test]
fn a_store_is_migrated_once_and_the_next_opening_writes_nothing_but_its_lock() {
    for release in RELEASES {
        let fs = release.disk();
        drop(open(&fs).unwrap());
        let fs = settled(&fs);
        let before = files(&fs);
        let store = open(&fs).unwrap();
        assert_eq!(store.opened().migrated, None);
        drop(store);
        assert!(files(&fs) == before);
        let calls = fs.calls();
        // The logs of what is not a span are synced, so that what a killed process left in them is durable.
        let changes_nothing = |call: &Call| {
            let is_temporary = call.path.extension().is_some_and(|end| end == "tmp");
            call.path == at("LOCK")
                || matches!(call.action, Action::Sync | Action::SyncDir)
                || is_temporary && call.action == Action::RemoveFile
        };
        assert!(calls.iter().all(changes_nothing), "{calls:?}");
    }
}

#[test]
fn progress_grows_with_every_file_up_to_the_total() {
    let fs = Release::new(6, false).disk();
    let mut told = Vec::new();
    let store = Store::open_with_progress(
        Arc::new(fs.clone()),
        clock(),
        Path::new(DIR),
        options(),
        &mut |progress| {
            assert!(progress.path.starts_with(DIR));
            told.push((progress.done_bytes, progress.total_bytes));
        },
    )
    .unwrap();
    let migrated = store.opened().migrated.clone().unwrap();
    assert_eq!(told.len(), migrated.segments + migrated.blobs);
    assert!(told.is_sorted());
    assert!(told.iter().all(|(_, total)| *total == told[0].1));
    let (done, total) = told[told.len() - 1];
    assert_eq!(done, total);
}
