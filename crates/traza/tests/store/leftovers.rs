//! What writes that failed or were stopped have left behind neither counts nor comes back.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use durable::digest::{hex, sha256};
use durable::{Access, Fs, Outcome, create_folder, parent_of, read_all};
use durable_sim::SimFs;
use traza::logs::annotation::Annotation;
use traza::store::{Store, survey, verify};

use super::support::{DIR, Random, everything, inline, open, span};

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn put(fs: &SimFs, path: &Path, bytes: &[u8]) {
    create_folder(fs, parent_of(path)).unwrap();
    let mut file = fs.create_new(path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

fn fill(store: &Store, segments: u64) {
    let mut random = Random(1);
    for version in 1..=segments {
        let spans = (0..4).map(|_| span(&mut random, version)).collect();
        store.ingest(spans).unwrap();
        store.flush().unwrap();
    }
}

#[test]
fn payloads_that_were_never_finished_are_reported_and_swept_by_the_next_opening() {
    let fs = SimFs::new();
    fill(&open(&fs, &inline()).unwrap(), 1);
    let blob = format!("payloads/ab/ab{}", "0".repeat(62));
    let names = [format!("{blob}.bin.tmp"), format!("{blob}.77.3.tmp")].map(|name| at(&name));
    for name in &names {
        put(&fs, name, b"half");
    }
    let disk: Arc<dyn Fs> = Arc::new(fs.clone());
    let mut pending = survey(&disk, Path::new(DIR)).unwrap().pending;
    pending.sort();
    let mut wanted = names.to_vec();
    wanted.sort();
    assert_eq!(pending, wanted);
    let store = open(&fs, &inline()).unwrap();
    assert_eq!(store.opened().swept_files, 2);
    for name in &names {
        assert!(!fs.exists(name).unwrap());
    }
    assert_eq!(
        survey(&disk, Path::new(DIR)).unwrap().pending,
        [] as [PathBuf; 0]
    );
}

#[test]
fn a_generation_has_of_a_log_what_was_acknowledged() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    fill(&store, 1);
    let annotation = r#"{"trace_id":"t","name":"quality","value":1}"#;
    store
        .annotate(Annotation::from_json(annotation.as_bytes()).unwrap())
        .unwrap();
    let path = at("annotations.jsonl");
    let acknowledged = read_all(&fs, &path, 1 << 20).unwrap();
    // As an append leaves it that fails, and whose bytes cannot be cut off either.
    let mut file = fs.open_append(&path).unwrap();
    file.append(b"{\"trace_id\":\"half").unwrap();
    store.checkpoint().unwrap();
    let manifest = store.manifest().unwrap();
    let entry = manifest
        .files
        .iter()
        .find(|file| file.path == "annotations.jsonl")
        .unwrap();
    assert_eq!(entry.bytes, acknowledged.len() as u64);
    assert_eq!(entry.sha256, hex(&sha256(&acknowledged)));
    let pin = store.pin("kept").unwrap();
    assert!(pin.files > 1);
    let kept = read_all(&fs, &at("pins/kept/annotations.jsonl"), 1 << 20).unwrap();
    assert_eq!(kept, acknowledged);
    drop(store);
    let store = open(&fs, &inline()).unwrap();
    assert!(store.opened().healed_logs.annotations.is_some());
    drop(store);
    let verdict = verify(&fs, Path::new(DIR)).unwrap();
    assert_eq!(verdict.verdict, Outcome::Intact, "{:#?}", verdict.findings);
}

#[test]
fn what_has_expired_does_not_come_back_out_of_a_merge_that_failed() {
    let fs = SimFs::new();
    let mut options = inline();
    options.compaction = None;
    options.retention.ttl = Some(Duration::from_secs(1));
    let store = open(&fs, &options).unwrap();
    fill(&store, 2);
    assert!(!everything(&store).is_empty());
    // As a merge leaves it that wrote its output and could then remove neither that nor its journal.
    let name = |id: u64| format!("segment-{id:020}.seg");
    let output = read_all(&fs, &at(&name(1)), 1 << 20).unwrap();
    put(&fs, &at(&name(9)), &output);
    let journal = format!("inputs {},{}\noutputs {}\n", name(0), name(1), name(9));
    let journal_path = at(&format!(".supersede.{}.journal", name(9)));
    put(&fs, &journal_path, journal.as_bytes());
    let expired = store.expire().unwrap();
    assert_eq!(expired.removed_segments, 2);
    assert!(!fs.exists(&journal_path).unwrap());
    assert!(!fs.exists(&at(&name(9))).unwrap());
    drop(store);
    let mut forever = inline();
    forever.compaction = None;
    let store = open(&fs, &forever).unwrap();
    assert!(everything(&store).is_empty());
}
