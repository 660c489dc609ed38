//! A disk that fails, and what the store does when it works again.

use durable_sim::{EIO, ENOSPC, ShortWrite, SimFs};
use traza::span::{Span, SpanFault};
use traza::store::{Durability, Filter, Query, StoreError};

use super::support::{Random, everything, inline, key, open, span};

fn batch(seed: u64) -> Vec<Span> {
    let mut random = Random(seed);
    (0..5)
        .map(|number| {
            let mut span = span(&mut random, seed);
            span.trace_id = format!("trace-{seed}-{number}").into();
            span
        })
        .collect()
}

#[test]
fn a_full_disk_refuses_batches_and_takes_them_again_when_there_is_space() {
    for durability in [Durability::Wal, Durability::Flushed] {
        let fs = SimFs::new();
        let mut options = inline();
        options.durability = durability;
        let store = open(&fs, &options).unwrap();
        store.ingest(batch(1)).unwrap();
        fs.set_capacity(Some(fs.used() + 300));
        let mut acknowledged = 1;
        for seed in 2..6 {
            let error = store.ingest(batch(seed)).unwrap_err();
            assert!(matches!(error, StoreError::Io { .. }), "{error:?}");
        }
        fs.set_capacity(None);
        for seed in 6..9 {
            store.ingest(batch(seed)).unwrap();
            acknowledged += 1;
        }
        drop(store);
        let recovered = open(&fs.after_crash(durable_sim::Survival::Nothing), &options).unwrap();
        let found = everything(&recovered);
        for seed in [1, 6, 7, 8] {
            for span in batch(seed) {
                assert!(found.contains_key(&key(&span)), "{durability:?} {seed}");
            }
        }
        assert!(found.len() >= acknowledged * 5);
    }
}

#[test]
fn a_failed_sync_is_not_acknowledged_and_the_next_batch_makes_everything_durable() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    store.ingest(batch(1)).unwrap();
    let next_sync = fs.calls().last().unwrap().number + 2;
    fs.fail_nth(next_sync, EIO, ShortWrite::Nothing);
    store.ingest(batch(2)).unwrap_err();
    store.ingest(batch(3)).unwrap();
    let recovered = open(&fs.after_crash(durable_sim::Survival::Nothing), &inline()).unwrap();
    // The second was never acknowledged, but it was buffered and is in the log that the third has written anew.
    assert_eq!(everything(&recovered).len(), 15);
}

#[test]
fn a_seal_that_fails_leaves_the_spans_where_they_are() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    store.ingest(batch(1)).unwrap();
    let now = fs.calls().last().unwrap().number;
    for call in 1..=6 {
        let fs = fs.fork();
        let store = open(&fs, &inline()).unwrap();
        let now_here = fs.calls().last().unwrap().number;
        fs.fail_nth(now_here + call, ENOSPC, ShortWrite::Nothing);
        let sealed = store.flush();
        assert_eq!(everything(&store).len(), 5, "call {call} of {now}");
        assert_eq!(store.stats().seal_failure.is_some(), sealed.is_err());
        if sealed.is_err() {
            assert_eq!(store.flush().unwrap(), 5);
        }
        assert_eq!(store.stats().seal_failure, None);
        drop(store);
        let store = open(&fs, &inline()).unwrap();
        assert_eq!(everything(&store).len(), 5);
        assert_eq!(store.stats().segments, 1);
    }
    drop(store);
}

type Spoil = fn(&mut Span);

#[test]
fn a_batch_with_one_bad_span_is_refused_whole_and_names_it() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    let faults: [(Spoil, SpanFault); 3] = [
        (|span| span.trace_id.clear(), SpanFault::EmptyTraceId),
        (|span| span.span_id.clear(), SpanFault::EmptySpanId),
        (
            |span| span.tenant = "No/../Tenant".into(),
            SpanFault::Tenant {
                tenant: "No/../Tenant".to_owned(),
            },
        ),
    ];
    for (spoil, wanted) in faults {
        let mut spans = batch(1);
        spoil(&mut spans[3]);
        match store.ingest(spans) {
            Err(StoreError::Span { index, source }) => assert_eq!((index, source), (3, wanted)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(everything(&store).len(), 0);
    assert_eq!(store.stats().wal_bytes, 0);
}

#[test]
fn a_question_that_takes_too_long_or_sorts_too_much_says_so() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    for seed in 0..200 {
        store.ingest(batch(seed)).unwrap();
    }
    let mut query = Query::new(Filter::default());
    query.limit = usize::MAX;
    // The clock of the test moves on by a microsecond at each look.
    query.deadline = Some(std::time::Duration::from_nanos(1));
    match store.query(&query) {
        Err(StoreError::Deadline { .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn segments_of_an_older_version_and_damaged_ones_are_refused_by_name() {
    use durable::{Access, Fs as _};
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    store.ingest(batch(1)).unwrap();
    store.flush().unwrap();
    drop(store);
    let path = std::path::Path::new(super::support::DIR).join("segment-00000000000000000000.seg");
    let sound = durable::read_all(&fs, &path, 1 << 20).unwrap();
    for at in [0, 9, 20, 130, sound.len() - 1] {
        let fs = fs.fork();
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        fs.remove_file(&path).unwrap();
        fs.create_new(&path, Access::Shared)
            .unwrap()
            .append(&bytes)
            .unwrap();
        let error = open(&fs, &inline()).unwrap_err();
        match &error {
            StoreError::Segment { path: named, .. } => assert_eq!(*named, path),
            other => panic!("byte {at}: {other:?}"),
        }
    }
}
