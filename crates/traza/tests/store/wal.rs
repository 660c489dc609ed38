//! The log: its bytes, and what recovery takes for a torn end.

use std::path::Path;

use durable::digest::from_hex;
use durable::{Access, Fs as _, read_all};
use durable_sim::SimFs;
use traza::json::{Object, Value};
use traza::span::Span;
use traza::store::{Durability, StoreError, StoreOptions, Upkeep};
use traza::wal::{FILE_NAME, MAGIC, Stamp, scan};

use super::support::{DIR, everything, inline, open};

fn vectors() -> serde_json::Value {
    serde_json::from_str(include_str!("wal.json")).unwrap()
}

fn vector(name: &str) -> Vec<u8> {
    from_hex(vectors()[name].as_str().unwrap()).unwrap()
}

fn log_path() -> std::path::PathBuf {
    Path::new(DIR).join(FILE_NAME)
}

fn put(fs: &SimFs, bytes: &[u8]) {
    if fs.exists(&log_path()).unwrap() {
        fs.remove_file(&log_path()).unwrap();
    }
    let mut file = fs.create_new(&log_path(), Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

fn log_of(fs: &SimFs) -> Vec<u8> {
    read_all(fs, &log_path(), 1 << 20).unwrap()
}

/// The disk of a store with this log and nothing else.
fn disk_with(log: &[u8]) -> SimFs {
    let fs = SimFs::new();
    drop(open(&fs, &inline()).unwrap());
    put(&fs, log);
    fs
}

fn spans_in(frame: &[u8]) -> Vec<Span> {
    Span::batch_from_json(frame).unwrap()
}

#[test]
fn the_log_has_the_bytes_of_the_vectors() {
    let log = vector("log_hex");
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    assert_eq!(log_of(&fs), vector("fresh_log_hex"));
    let file = disk_with(&log).open(&log_path()).unwrap();
    let mut places = Vec::new();
    scan(file.as_ref(), &mut |frame| {
        places.push((frame.offset, frame.payload.len(), frame.stamp));
        store.ingest(spans_in(frame.payload)).unwrap();
        Ok(())
    })
    .unwrap();
    let wanted: Vec<(u64, usize, Stamp)> = vectors()["frames"]
        .as_array()
        .unwrap()
        .iter()
        .map(|frame| {
            let number = |name: &str| frame[name].as_u64().unwrap();
            let stamp = Stamp {
                epoch: number("epoch"),
                sequence: number("sequence"),
            };
            let len = usize::try_from(number("payload_len")).unwrap();
            (number("offset"), len, stamp)
        })
        .collect();
    assert_eq!(places, wanted);
    assert_eq!(log_of(&fs), log);
}

#[test]
fn a_torn_end_is_cut_off_and_reported() {
    let log = vector("log_hex");
    let frames = vectors()["frames"].as_array().unwrap().clone();
    let second = usize::try_from(frames[1]["offset"].as_u64().unwrap()).unwrap();
    let mut zeros = log.clone();
    zeros.extend_from_slice(&[0; 64]);
    let mut stray = log.clone();
    stray.extend_from_slice(&[7; 23]);
    let mut cases = vec![(zeros, log.len()), (stray, log.len())];
    for cut in second..log.len() {
        cases.push((log[..cut].to_vec(), second));
    }
    for (bytes, whole) in cases {
        let fs = disk_with(&bytes);
        let store = open(&fs, &inline()).unwrap();
        assert_eq!(store.opened().torn_bytes, (bytes.len() - whole) as u64);
        assert_eq!(log_of(&fs), log[..whole]);
        let found = everything(&store).len();
        assert_eq!(found, if whole == log.len() { 3 } else { 2 });
    }
}

#[test]
fn a_last_frame_with_a_sector_that_was_never_written_is_a_torn_end() {
    // A payload over several sectors, of which the middle one is missing.
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    let first = vector("log_hex");
    store.ingest(spans_in(&first[8 + 24..884])).unwrap();
    let mut span = Span::from_json(
        br#"{"trace_id":"t","span_id":"s","name":"n","service":"v","start_time_ns":1,"end_time_ns":2}"#,
    )
    .unwrap();
    span.name = "n".repeat(3_000).into();
    store.ingest(vec![span]).unwrap();
    drop(store);
    let mut log = log_of(&fs);
    log[2_048..2_560].fill(0);
    let fs = disk_with(&log);
    let store = open(&fs, &inline()).unwrap();
    assert_eq!(everything(&store).len(), 2);
    assert!(store.opened().torn_bytes > 3_000);
    drop(store);
    // Zeros that do not fill a sector were put there by something else.
    let mut log = log_of(&disk_with(&log));
    log[2_048] = b'n';
    refused_at(&log, 884);
}

fn refused_at(log: &[u8], wanted: u64) {
    let fs = disk_with(log);
    match open(&fs, &inline()) {
        Err(StoreError::Damaged { path, offset, .. }) => {
            assert_eq!(path, log_path());
            assert_eq!(offset, Some(wanted));
        }
        other => panic!("expected damage at byte {wanted}, got {other:?}"),
    }
    // Nothing was cut off or written.
    assert_eq!(log_of(&fs), log);
}

#[test]
fn every_flipped_bit_of_a_payload_is_refused_where_it_is_and_of_a_header_never_loses_a_frame() {
    let log = vector("log_hex");
    for at in 8..log.len() {
        let frame = if at < 884 { 8 } else { 884 };
        for bit in 0..8 {
            let mut damaged = log.clone();
            damaged[at] ^= 1 << bit;
            if at >= frame + 24 {
                refused_at(&damaged, frame as u64);
                continue;
            }
            let fs = disk_with(&damaged);
            match open(&fs, &inline()) {
                // A stamp that is still ascending cannot be told from another one; a length that leads behind the end
                // cannot be told from a torn frame when nothing follows it.
                Ok(store) => {
                    let found = everything(&store).len();
                    let is_last = frame == 884;
                    assert!(found == 3 || is_last && found == 2, "byte {at} bit {bit}");
                    assert!(found == 3 || store.opened().torn_bytes > 0);
                }
                Err(StoreError::Damaged { path, offset, .. }) => {
                    assert_eq!(path, log_path());
                    let offset = offset.unwrap();
                    assert!(
                        offset == 8 || offset == 884,
                        "byte {at} bit {bit}: {offset}"
                    );
                }
                Err(other) => panic!("byte {at} bit {bit}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_length_that_leads_behind_the_end_does_not_take_whole_frames_with_it() {
    let mut log = vector("log_hex");
    log[8..12].copy_from_slice(&100_000u32.to_le_bytes());
    refused_at(&log, 8);
}

#[test]
fn a_log_with_another_magic_or_a_part_of_it_is_refused() {
    for bytes in [&b"TRZWAL01"[..], b"TRZWAL", b"\0\0\0\0\0\0\0\0\0"] {
        refused_at(bytes, 0);
    }
}

#[test]
fn an_empty_file_becomes_a_log() {
    let fs = disk_with(b"");
    drop(open(&fs, &inline()).unwrap());
    assert_eq!(log_of(&fs), MAGIC);
}

#[test]
fn a_store_without_a_log_puts_what_it_finds_in_one_into_a_segment() {
    let fs = disk_with(&vector("log_hex"));
    let mut options = inline();
    options.durability = Durability::Buffered;
    let store = open(&fs, &options).unwrap();
    assert_eq!(store.stats().persisted_records, 3);
    assert_eq!(log_of(&fs), MAGIC);
    drop(store);
    let store = open(&fs, &inline()).unwrap();
    assert_eq!(everything(&store).len(), 3);
}

#[test]
fn a_log_that_survives_a_seal_is_cut_when_everything_is_sealed() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    let log = vector("log_hex");
    store.ingest(spans_in(&log[32..884])).unwrap();
    assert_eq!(store.flush().unwrap(), 2);
    assert_eq!(log_of(&fs), MAGIC);
    assert_eq!(store.stats().wal_bytes, 0);
    // The sequence goes on.
    store.ingest(spans_in(&log[884 + 24..])).unwrap();
    let file = fs.open(&log_path()).unwrap();
    let found = scan(file.as_ref(), &mut |_| Ok(())).unwrap();
    assert_eq!(found.last.unwrap().sequence, 2);
}

#[test]
fn few_spans_are_sealed_when_they_take_much_memory() {
    let mut options = StoreOptions::default();
    options.upkeep = Upkeep::Inline;
    let store = open(&SimFs::new(), &options).unwrap();
    let large = |number: u64| Span {
        trace_id: "t".into(),
        span_id: number.to_string().into(),
        name: "large".into(),
        attributes: Object::from([("text", Value::from("x".repeat(1 << 20)))]),
        ..Span::default()
    };
    for number in 0..15 {
        store.ingest(vec![large(number)]).unwrap();
    }
    assert_eq!(store.stats().segments, 0);
    store.ingest(vec![large(15)]).unwrap();
    let stats = store.stats();
    assert_eq!((stats.segments, stats.buffered_spans), (1, 0));
}
