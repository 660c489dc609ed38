//! Merging segments.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use durable::{Access, Fs, Outcome, read_all};
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use traza::logs::tombstone::Subject;
use traza::segment::codec::Codec;
use traza::span::Span;
use traza::store::{Compaction, Store, StoreOptions, survey, verify};

use super::support::{DIR, Key, Random, everything, inline, key, open, span, version};

fn options() -> StoreOptions {
    let mut options = inline();
    options.compaction = Some(Compaction {
        fanout: 3,
        base_len: 1 << 20,
        output_len_max: 0,
        records_len_max: 0,
    });
    options
}

fn batch(version: u64) -> Vec<Span> {
    let mut random = Random(version);
    (0..8).map(|_| span(&mut random, version)).collect()
}

/// A store with so many segments, many of whose spans replace others.
fn store_of(fs: &SimFs, options: &StoreOptions, segments: u64) -> Store {
    let store = open(fs, options).unwrap();
    for version in 1..=segments {
        store.ingest(batch(version)).unwrap();
        store.flush().unwrap();
    }
    store
}

fn versions(store: &Store) -> BTreeMap<Key, u64> {
    everything(store)
        .into_iter()
        .map(|(key, span)| (key, version(&span)))
        .collect()
}

#[test]
fn merging_keeps_the_newest_version_of_every_span_and_drops_the_others() {
    let fs = SimFs::new();
    let store = store_of(&fs, &options(), 7);
    let before = versions(&store);
    let records = store.stats().persisted_records;
    let done = store.compact().unwrap();
    assert_eq!((done.merged_segments, done.written_segments), (7, 1));
    let stats = store.stats();
    assert_eq!(stats.segments, 1);
    assert_eq!(stats.persisted_records, before.len() as u64);
    assert_eq!(done.dropped_records, records - before.len() as u64);
    assert_eq!(versions(&store), before);
    assert_eq!(store.compact().unwrap(), traza::store::Compacted::default());
    drop(store);
    let store = open(&fs, &options()).unwrap();
    assert_eq!(versions(&store), before);
    // The next segment is newer than the merged one.
    store.ingest(batch(99)).unwrap();
    store.flush().unwrap();
    assert!(versions(&store).values().filter(|v| **v == 99).count() >= 6);
    store.checkpoint().unwrap();
    let verdict = verify(&fs, Path::new(DIR)).unwrap();
    assert_eq!(verdict.verdict, Outcome::Intact, "{:#?}", verdict.findings);
}

#[test]
fn a_limit_of_the_output_gives_several_segments_in_the_old_order() {
    let fs = SimFs::new();
    let mut options = options();
    let store = store_of(&fs, &options, 6);
    let before = versions(&store);
    let len = store.stats().segment_bytes / 6;
    drop(store);
    options.compaction = Some(Compaction {
        fanout: 3,
        base_len: 1 << 20,
        output_len_max: len * 5 / 2,
        records_len_max: 0,
    });
    let store = open(&fs, &options).unwrap();
    let done = store.compact().unwrap();
    assert_eq!(done.merged_segments, 6);
    assert_eq!(done.written_segments, 3);
    assert_eq!(versions(&store), before);
}

#[test]
fn a_merge_journal_is_decided_by_which_files_are_there() {
    let name = |id: u64| format!("segment-{id:020}.seg");
    let journal = |inputs: &[u64], outputs: &[u64]| {
        let names = |ids: &[u64]| ids.iter().map(|id| name(*id)).collect::<Vec<_>>().join(",");
        format!("inputs {}\noutputs {}\n", names(inputs), names(outputs))
    };
    // The journal, files that are missing, and those that stay.
    let cases: [(String, &[u64], &[u64]); 6] = [
        (journal(&[0, 1], &[2, 3]), &[], &[2, 3]),
        (journal(&[0, 1], &[2, 9]), &[], &[0, 1, 3]),
        (journal(&[0, 1], &[2, 3]), &[1], &[2, 3]),
        (journal(&[0, 1], &[3, 9]), &[1], &[2, 3]),
        (format!("inputs {}\n", name(0)), &[], &[0, 1, 2, 3]),
        (
            format!("inputs {}\noutputs {}", name(0), name(2)),
            &[],
            &[0, 1, 2, 3],
        ),
    ];
    for (text, missing, stay) in cases {
        let fs = SimFs::new();
        drop(store_of(&fs, &inline(), 4));
        for id in missing {
            fs.remove_file(&Path::new(DIR).join(name(*id))).unwrap();
        }
        let path = Path::new(DIR).join(format!(".supersede.{}.journal", name(2)));
        fs.create_new(&path, Access::Shared)
            .unwrap()
            .append(text.as_bytes())
            .unwrap();
        let store = open(&fs, &inline()).unwrap();
        assert_eq!(store.opened().resolved_merges, 1);
        assert!(!fs.exists(&path).unwrap());
        for id in 0..4 {
            let exists = fs.exists(&Path::new(DIR).join(name(id))).unwrap();
            assert_eq!(exists, stay.contains(&id), "{id} after {text}");
        }
    }
}

#[test]
fn a_merge_journal_that_names_other_files_is_refused_and_removes_nothing() {
    for name in ["../segment-00000000000000000000.seg", "CURRENT", "wal.log"] {
        let fs = SimFs::new();
        drop(store_of(&fs, &inline(), 1));
        let path = Path::new(DIR).join(".supersede.segment-00000000000000000002.seg.journal");
        let text = format!("inputs {name}\noutputs segment-00000000000000000000.seg\n");
        fs.create_new(&path, Access::Shared)
            .unwrap()
            .append(text.as_bytes())
            .unwrap();
        let before = fs.contents();
        open(&fs, &inline()).unwrap_err();
        assert_eq!(fs.contents(), before);
    }
}

fn merge_often(
    fs: &SimFs,
    ledger: &mut Ledger<u64>,
    options: &StoreOptions,
    batches: u64,
) -> Result<(), BoxError> {
    let store = open(fs, options)?;
    for version in 1..=batches {
        ledger.submit(version);
        store.ingest(batch(version))?;
        ledger.acknowledge(version);
        store.flush()?;
        store.compact()?;
    }
    Ok(())
}

fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
    let store = open(&image.fs, &options())?;
    let found = versions(&store);
    let mut least: BTreeMap<Key, u64> = BTreeMap::new();
    for number in ledger.acknowledged() {
        for span in batch(*number) {
            least.insert(key(&span), *number);
        }
    }
    for (key, number) in least {
        let has = found.get(&key);
        if has.is_none_or(|has| *has < number) {
            return Err(format!("{key:?} is {has:?}, not {number}").into());
        }
    }
    store.compact()?;
    if versions(&store) != found {
        return Err("merging changed the answer".into());
    }
    store.checkpoint()?;
    drop(store);
    let verdict = verify(&image.fs, Path::new(DIR))?;
    match verdict.verdict {
        Outcome::Intact => Ok(()),
        _ => Err(format!("{:?}", verdict.findings).into()),
    }
}

#[test]
fn merges_survive_a_crash_at_every_call() {
    let swept = Sweep::default()
        .seeded_images(2)
        .for_each_crash(|fs, ledger| merge_often(fs, ledger, &options(), 5), check)
        .unwrap();
    assert!(swept.calls > 80, "{swept:?}");
}

/// Every merge makes a segment of the highest size.
fn cold_options() -> StoreOptions {
    let mut options = options();
    options.cold_codec = Some(Codec::Zstd);
    options.compaction = Some(Compaction {
        fanout: 3,
        base_len: 1 << 20,
        output_len_max: 1 << 19,
        records_len_max: 0,
    });
    options
}

#[test]
fn merges_into_another_codec_survive_a_crash_at_every_call() {
    let swept = Sweep::default()
        .seeded_images(2)
        .for_each_crash(
            |fs, ledger| merge_often(fs, ledger, &cold_options(), 3),
            check,
        )
        .unwrap();
    assert!(swept.calls > 40, "{swept:?}");
}

/// The codecs of the segments, the oldest first.
fn codecs(fs: &SimFs) -> Vec<Codec> {
    let disk: Arc<dyn Fs> = Arc::new(fs.clone());
    let survey = survey(&disk, Path::new(DIR)).unwrap();
    survey.segments.iter().map(|each| each.codec).collect()
}

#[test]
fn only_segments_of_the_highest_size_get_the_cold_codec_and_nobody_has_to_be_told() {
    let fs = SimFs::new();
    let store = store_of(&fs, &inline(), 6);
    let before = versions(&store);
    let total = store.stats().segment_bytes;
    drop(store);
    assert_eq!(codecs(&fs), [Codec::Lz4; 6]);
    let merged = |cold_codec, base_len, output_len_max| {
        let fs = fs.fork();
        let mut options = options();
        options.cold_codec = cold_codec;
        options.compaction = Some(Compaction {
            fanout: 3,
            base_len,
            output_len_max,
            records_len_max: 0,
        });
        let store = open(&fs, &options).unwrap();
        assert_eq!(store.compact().unwrap().written_segments, 1);
        drop(store);
        fs
    };
    let segment = |fs: &SimFs| {
        let path = Path::new(DIR).join(format!("segment-{:020}.seg", 6));
        read_all(fs, &path, 1 << 20).unwrap()
    };
    let plain = segment(&merged(None, 1 << 20, total));
    for (base_len, output_len_max) in [(1 << 20, 0), (total, total * 4)] {
        let warm = merged(Some(Codec::Zstd), base_len, output_len_max);
        assert!(segment(&warm) == plain, "{base_len} {output_len_max}");
    }
    let cold = merged(Some(Codec::Zstd), 1 << 20, total);
    assert_eq!(codecs(&cold), [Codec::Zstd]);
    assert!(segment(&cold).len() < plain.len());
    let store = open(&cold, &inline()).unwrap();
    assert_eq!(versions(&store), before);
    // Written anew without something, it stays what it is.
    let trace_id = before.keys().next().unwrap().1.clone();
    let tenant = String::new();
    store.erase(Subject::Trace { trace_id, tenant }, 1).unwrap();
    store.resume_erasures().unwrap();
    assert!(versions(&store).len() < before.len());
    drop(store);
    assert_eq!(codecs(&cold), [Codec::Zstd]);
    let verdict = verify(&cold, Path::new(DIR)).unwrap();
    assert_eq!(verdict.verdict, Outcome::Intact, "{:#?}", verdict.findings);
}

#[test]
fn merges_survive_a_failure_and_then_a_crash_at_every_call() {
    Sweep::default()
        .seeded_images(1)
        .for_each_failure(
            |fs, ledger| {
                // A client goes on after a failure.
                let first = merge_often(fs, ledger, &options(), 5);
                if first.is_err() {
                    let store = open(fs, &options())?;
                    store.ingest(batch(9))?;
                    store.compact()?;
                }
                first
            },
            check,
        )
        .unwrap();
}
