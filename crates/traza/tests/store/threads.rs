//! Many threads at once, on a real disk.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use durable::{FileKind, Fs as _, RealFs};
use traza::json::{Object, Value};
use traza::span::Span;
use traza::store::{Filter, Query, Store, StoreOptions};

use super::support::everything;

fn span(trace: u64, number: u64, version: u64) -> Span {
    Span {
        trace_id: format!("trace-{trace}").into(),
        span_id: format!("span-{number}").into(),
        name: "work".into(),
        service: format!("service-{trace}").into(),
        start_time_ns: 1_000 + number,
        end_time_ns: 2_000 + number,
        attributes: Object::from([("version".to_owned(), Value::from(version))]),
        ..Span::default()
    }
}

#[test]
fn readers_see_one_version_of_every_span_while_others_write_and_seal() {
    const SPANS: u64 = 40;
    let dir = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::default();
    options.flush_spans = 100;
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let acknowledged: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..3u64)
            .map(|trace| {
                let (store, acknowledged) = (&store, &acknowledged);
                scope.spawn(move || {
                    for version in 1..=60 {
                        let batch = (0..SPANS).map(|number| span(trace, number, version));
                        store.ingest(batch.collect()).unwrap();
                        acknowledged[usize::try_from(trace).unwrap()]
                            .store(version, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        for trace in 0..3u64 {
            let (store, acknowledged, is_done) = (&store, &acknowledged, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::SeqCst) {
                    let least =
                        acknowledged[usize::try_from(trace).unwrap()].load(Ordering::SeqCst);
                    let by_id = store.get_trace(&format!("trace-{trace}"), None).unwrap();
                    let mut filter = Filter::default();
                    filter.service = Some(format!("service-{trace}"));
                    let by_query = store.query(&Query::new(filter)).unwrap().spans;
                    for spans in [by_id, by_query] {
                        let count = u64::try_from(spans.len()).unwrap();
                        assert!(count == SPANS || count == 0 && least == 0, "{count}");
                        let versions: Vec<u64> = spans
                            .iter()
                            .map(|span| span.attributes["version"].as_u64().unwrap())
                            .collect();
                        // A batch is seen whole, and one that was acknowledged is seen.
                        assert!(versions.windows(2).all(|pair| pair[0] == pair[1]));
                        assert!(versions.first().is_none_or(|version| *version >= least));
                    }
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        is_done.store(true, Ordering::SeqCst);
    });
    assert!(store.stats().segments > 3, "{:?}", store.stats());
    drop(store);
    let store = Store::open(dir.path(), options).unwrap();
    let found = everything(&store);
    assert_eq!(found.len() as u64, 3 * SPANS);
    assert!(
        found
            .values()
            .all(|span| span.attributes["version"].as_u64() == Some(60))
    );
}

#[test]
fn threads_that_ingest_together_share_syncs_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), StoreOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for trace in 0..8u64 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..25 {
                    store.ingest(vec![span(trace, number, 1)]).unwrap();
                }
            });
        }
    });
    // As a killed process leaves it: the log alone has the spans.
    let copy = tempfile::tempdir().unwrap();
    for name in ["wal.log", "CURRENT"] {
        let bytes = durable::read_all(&durable::RealFs, &dir.path().join(name), 1 << 20).unwrap();
        durable::publish(&durable::RealFs, &copy.path().join(name), &bytes).unwrap();
    }
    let manifest = "generations/1/state-manifest.json";
    let bytes = durable::read_all(&durable::RealFs, &dir.path().join(manifest), 1 << 20).unwrap();
    let path = copy.path().join(manifest);
    durable::create_folder(&durable::RealFs, path.parent().unwrap()).unwrap();
    durable::publish(&durable::RealFs, &path, &bytes).unwrap();
    let recovered = Store::open(copy.path(), StoreOptions::default()).unwrap();
    assert_eq!(everything(&recovered).len(), 200);
    assert_eq!(recovered.opened().replayed_frames, 200);
}

#[test]
fn a_log_that_is_shortened_while_batches_come_has_every_span_that_no_segment_has() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::default();
    options.flush_spans = 40;
    options.flush_wal_bytes = 4_000;
    options.compaction = None;
    let store = Store::open(dir.path(), options).unwrap();
    std::thread::scope(|scope| {
        for trace in 0..4u64 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..300 {
                    store.ingest(vec![span(trace, number, 1)]).unwrap();
                }
            });
        }
    });
    // As a killed process leaves it. The log first: what is not in it is in a segment.
    let copy = tempfile::tempdir().unwrap();
    let log = durable::read_all(&RealFs, &dir.path().join("wal.log"), 1 << 30).unwrap();
    copy_folder(dir.path(), copy.path());
    durable::publish(&RealFs, &copy.path().join("wal.log"), &log).unwrap();
    drop(store);
    assert!(log.len() < 100_000, "it was shortened: {}", log.len());
    let recovered = Store::open(copy.path(), StoreOptions::default()).unwrap();
    assert_eq!(everything(&recovered).len(), 4 * 300);
}

/// While the store is at work: what is gone when its turn comes is not needed any more.
fn copy_folder(from: &Path, to: &Path) {
    durable::create_folder(&RealFs, to).unwrap();
    for path in RealFs.read_dir(from).unwrap() {
        let target = to.join(path.file_name().unwrap());
        match RealFs.metadata(&path).map(|found| found.kind) {
            Ok(FileKind::Directory) => copy_folder(&path, &target),
            _ => {
                if let Ok(bytes) = durable::read_all(&RealFs, &path, 1 << 30) {
                    durable::publish(&RealFs, &target, &bytes).unwrap();
                }
            }
        }
    }
}

#[test]
fn one_payload_of_many_batches_at_once_is_kept_and_none_of_them_fails() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = StoreOptions::default();
    options.payload_threshold = Some(20);
    let store = Store::open(dir.path(), options).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let store = &store;
            scope.spawn(move || {
                for number in 0..30 {
                    let mut span = span(thread, number, 1);
                    let text = format!("the same long text of all threads, {number}");
                    let attributes = &mut span.attributes;
                    attributes.insert("prompt".to_owned(), Value::from(text));
                    store.ingest(vec![span]).unwrap();
                }
            });
        }
    });
    let all = everything(&store);
    assert_eq!(all.len(), 240);
    for span in all.values() {
        let reference = traza::payload::live_reference(&span.attributes["prompt"]).unwrap();
        let content = store.payload(reference.parse().unwrap()).unwrap();
        assert!(content.is_some(), "{reference}");
    }
}
