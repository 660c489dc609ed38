//! The column cache: answers are the same with it, without it, and with whatever else lies in its place.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, read_all};
use durable_sim::SimFs;
use traza::histogram::Histogram;
use traza::span::Span;
use traza::store::{Filter, Query, Store, StoreOptions};

use super::support::{DIR, Key, Random, inline, key, open, span};

fn options() -> StoreOptions {
    let mut options = inline();
    options.flush_spans = 60;
    options
}

/// A store with several segments, replaced spans and a buffer; closed.
fn filled() -> SimFs {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    let mut random = Random(3);
    for version in 0..25 {
        let batch = (0..8).map(|_| span(&mut random, version)).collect();
        store.ingest(batch).unwrap();
    }
    assert!(store.stats().segments > 2 && store.stats().buffered_spans > 0);
    fs
}

fn files(fs: &SimFs) -> Vec<PathBuf> {
    let mut paths = fs.read_dir(Path::new(DIR)).unwrap();
    paths.retain(|path| path.extension().is_some_and(|end| end == "columns"));
    paths
}

fn bytes(fs: &SimFs, path: &Path) -> Vec<u8> {
    read_all(fs, path, 1 << 20).unwrap()
}

fn replace(fs: &SimFs, path: &Path, bytes: &[u8]) {
    fs.remove_file(path).unwrap();
    let mut file = fs.create_new(path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

fn durations(store: &Store) -> Histogram {
    store.snapshot().durations(&Filter::default()).unwrap()
}

#[test]
fn columns_are_written_with_each_segment_and_those_made_from_it_are_the_same() {
    let fs = filled();
    let written = files(&fs);
    let before: Vec<Vec<u8>> = written.iter().map(|path| bytes(&fs, path)).collect();
    let store = open(&fs, &options()).unwrap();
    assert_eq!(written.len(), store.stats().segments);
    let wanted = durations(&store);
    drop(store);
    for path in &written {
        fs.remove_file(path).unwrap();
    }
    let store = open(&fs, &options()).unwrap();
    assert_eq!(files(&fs), Vec::<PathBuf>::new());
    assert_eq!(durations(&store), wanted);
    assert_eq!(files(&fs), written);
    let after: Vec<Vec<u8>> = written.iter().map(|path| bytes(&fs, path)).collect();
    assert_eq!(after, before);
}

#[test]
fn whatever_lies_in_place_of_columns_they_are_made_again_and_the_answer_is_the_same() {
    let fs = filled();
    let store = open(&fs, &options()).unwrap();
    let wanted = durations(&store);
    drop(store);
    let made = files(&fs);
    let good = bytes(&fs, &made[0]);
    let other = bytes(&fs, &made[1]);
    let mut flipped = good.clone();
    flipped[200] ^= 1;
    let cases: [&[u8]; 6] = [
        b"",
        b"TRAZACOL",
        &good[..good.len() - 1],
        &[&good[..], b"x"].concat(),
        &flipped,
        &other,
    ];
    for case in cases {
        replace(&fs, &made[0], case);
        let store = open(&fs, &options()).unwrap();
        assert_eq!(durations(&store), wanted);
        assert_eq!(bytes(&fs, &made[0]), good);
    }
}

#[test]
fn columns_without_their_segment_are_swept_when_the_store_is_opened() {
    let fs = filled();
    let store = open(&fs, &options()).unwrap();
    durations(&store);
    drop(store);
    let made = files(&fs);
    let orphan = made[0].with_file_name("segment-00000000000000000099.columns");
    fs.create_new(&orphan, Access::Shared).unwrap();
    let store = open(&fs, &options()).unwrap();
    assert_eq!(files(&fs), made);
    drop(store);
}

#[test]
fn conditions_that_columns_can_tell_are_answered_as_the_spans_have_it() {
    let mut options = options();
    options.flush_spans = 1_500;
    let fs = SimFs::new();
    let store = open(&fs, &options).unwrap();
    let mut random = Random(11);
    let mut model = BTreeMap::new();
    for batch in 0..40 {
        let spans: Vec<Span> = (0..100)
            .map(|index| Span {
                // The last thousand replace others.
                span_id: format!("s{}", (batch * 100 + index) % 3_000).into(),
                trace_id: "t".into(),
                ..span(&mut random, 0)
            })
            .collect();
        model.extend(spans.iter().map(|span| (key(span), span.clone())));
        store.ingest(spans).unwrap();
    }
    assert!(store.stats().segments > 1);
    for status in [None, Some("ok"), Some("nothing")] {
        for (min, max) in [(None, None), (Some(20), None), (Some(10), Some(12))] {
            for service in [None, Some("bot")] {
                let mut filter = Filter::default();
                filter.status = status.map(str::to_owned);
                filter.not_status = vec!["error".to_owned(), "never seen".to_owned()];
                filter.min_duration_ns = min;
                filter.max_duration_ns = max;
                filter.service = service.map(str::to_owned);
                let mut query = Query::new(filter);
                query.limit = usize::MAX;
                let found = store.query(&query).unwrap().spans;
                let found: BTreeMap<_, _> = found.iter().map(|span| (key(span), span)).collect();
                let wanted = model.iter().filter(|(_, span)| query.filter.matches(span));
                let wanted: Vec<(&Key, &Span)> = wanted.collect();
                assert_eq!(found.len(), wanted.len(), "{query:?}");
                for (key, span) in wanted {
                    assert_eq!(found[key].as_ref(), span);
                }
            }
        }
    }
    assert!(!files(&fs).is_empty());
}
