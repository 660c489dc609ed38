//! Opening a store for reading only.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use durable::{Fs as _, ManualClock};
use durable_sim::SimFs;
use traza::json::{Object, Value};
use traza::span::Span;
use traza::store::{Result, Store, StoreError, StoreOptions};

use super::support::{DIR, Random, everything, inline, open, span};

fn read_only(fs: &SimFs) -> Result<Store> {
    let clock = Arc::new(ManualClock::new(1, 1));
    Store::open_read_only_with(Arc::new(fs.clone()), clock, Path::new(DIR), inline())
}

fn batch(version: u64) -> Vec<Span> {
    let mut random = Random(version);
    (0..6).map(|_| span(&mut random, version)).collect()
}

#[test]
fn a_store_that_is_only_read_answers_beside_its_writer_and_changes_nothing() {
    let fs = SimFs::new();
    let writer = open(&fs, &inline()).unwrap();
    for version in 1..5 {
        writer.ingest(batch(version)).unwrap();
        if version == 2 {
            writer.flush().unwrap();
        }
    }
    let before = fs.contents();
    fs.set_read_only(true);
    let reader = read_only(&fs).unwrap();
    assert_eq!(everything(&reader), everything(&writer));
    assert_eq!(
        reader.stats().persisted_records,
        writer.stats().persisted_records
    );
    for refused in [
        reader.ingest(batch(9)).map(drop),
        reader.flush().map(drop),
        reader.checkpoint().map(drop),
        reader.pin("kept").map(drop),
        reader.unpin("kept").map(drop),
        reader.compact().map(drop),
        reader.expire().map(drop),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    }
    assert_eq!(fs.contents(), before);
    fs.set_read_only(false);
    // It stays as it was.
    let held = everything(&reader);
    writer.ingest(batch(7)).unwrap();
    writer.flush().unwrap();
    assert_eq!(everything(&reader), held);
}

#[test]
fn what_is_no_store_and_what_must_be_migrated_first_is_told() {
    let fs = SimFs::new();
    let error = read_only(&fs).unwrap_err();
    assert!(matches!(error, StoreError::NoStore { .. }), "{error:?}");
    fs.create_dir(Path::new(DIR)).unwrap();
    let error = read_only(&fs).unwrap_err();
    assert!(matches!(error, StoreError::NoStore { .. }), "{error:?}");
    drop(open(&fs, &inline()).unwrap());
    let old = include_bytes!("../fixtures/v6/segment-0.seg");
    let path = Path::new(DIR).join("segment-00000000000000000000.seg");
    fs.create_new(&path, durable::Access::Shared)
        .unwrap()
        .append(old)
        .unwrap();
    let error = read_only(&fs).unwrap_err();
    assert!(matches!(error, StoreError::Older { .. }), "{error:?}");
}

#[test]
fn every_look_at_a_busy_store_sees_what_was_acknowledged_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::default();
    options.flush_spans = 40;
    let writer = Store::open(dir.path(), options.clone()).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for version in 1..=150u64 {
                let spans = (0..10u64).map(|number| Span {
                    trace_id: "trace".into(),
                    span_id: format!("span-{number}").into(),
                    name: "work".into(),
                    service: "bot".into(),
                    start_time_ns: number,
                    end_time_ns: number,
                    attributes: Object::from([("version".to_owned(), Value::from(version))]),
                    ..Span::default()
                });
                writer.ingest(spans.collect()).unwrap();
            }
            is_done.store(true, Ordering::SeqCst);
        });
        let mut seen = 0;
        while !is_done.load(Ordering::SeqCst) {
            let reader = Store::open_read_only(dir.path(), options.clone()).unwrap();
            let spans = reader.get_trace("trace", None).unwrap();
            let versions: Vec<u64> = spans
                .iter()
                .map(|span| span.attributes["version"].as_u64().unwrap())
                .collect();
            assert!(versions.len() == 10 || versions.is_empty() && seen == 0);
            assert!(
                versions.windows(2).all(|pair| pair[0] == pair[1]),
                "{versions:?}"
            );
            let version = versions.first().copied().unwrap_or(0);
            assert!(version >= seen, "{version} after {seen}");
            seen = version;
        }
    });
}
