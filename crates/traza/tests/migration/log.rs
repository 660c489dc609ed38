//! A store of the time before generations: its log has frames without stamps.

use durable::checksum::crc32;
use durable_sim::SimFs;
use traza::span::Span;
use traza::store::StoreError;
use traza::wal;

use super::disk::{at, files, get, open, put, segment_name, settled, spans};
use super::encoder::{self, span};

fn frame(spans: &[Span]) -> Vec<u8> {
    let texts: Vec<String> = spans.iter().map(Span::to_json).collect();
    let payload = format!("[{}]", texts.join(","));
    let len = u32::try_from(payload.len()).unwrap();
    let crc = crc32(payload.as_bytes());
    [&len.to_le_bytes(), &crc.to_le_bytes(), payload.as_bytes()].concat()
}

fn frames() -> [Vec<u8>; 2] {
    [
        frame(&[span("logged", 1, "one"), span("logged", 2, "two")]),
        frame(&[span("logged", 3, "three"), span("logged", 1, "again")]),
    ]
}

fn disk(log: &[u8]) -> SimFs {
    let fs = SimFs::new();
    put(&fs, &at("wal.log"), log);
    settled(&fs)
}

#[test]
fn an_old_log_becomes_one_frame_of_the_first_generation() {
    let fs = disk(&frames().concat());
    put(
        &fs,
        &at(&segment_name(0)),
        &encoder::v6(&[span("sealed", 9, "text")]),
    );
    let store = open(&fs).unwrap();
    assert!(store.opened().is_adopted);
    assert_eq!(store.opened().generation, 2);
    assert_eq!(store.opened().replayed_frames, 1);
    assert_eq!(store.opened().replayed_spans, 4);
    let found = store.get_trace("logged", None).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(*found[0], span("logged", 1, "again"));
    assert_eq!(store.get_trace("sealed", None).unwrap().len(), 1);
    let mut stamps = Vec::new();
    let file = durable::Fs::open(&fs, &at("wal.log")).unwrap();
    wal::scan(file.as_ref(), &mut |frame| {
        stamps.push((frame.stamp.epoch, frame.stamp.sequence));
        Ok(())
    })
    .unwrap();
    assert_eq!(stamps, [(1, 1)]);
    drop(file);
    let before = spans(&store);
    drop(store);
    let store = open(&fs).unwrap();
    assert_eq!(store.opened().migrated, None);
    assert_eq!(spans(&store), before);
}

#[test]
fn an_old_store_without_anything_to_convert_is_at_its_first_generation() {
    let store = open(&disk(&frames().concat())).unwrap();
    assert_eq!(store.opened().generation, 1);
    assert_eq!(store.opened().migrated, None);
    assert_eq!(spans(&store).len(), 3);
}

#[test]
fn the_torn_end_of_an_old_log_is_left_out_wherever_it_was_torn() {
    let [first, second] = frames();
    for cut in 0..second.len() {
        let fs = disk(&[&first[..], &second[..cut]].concat());
        let store = open(&fs).unwrap();
        assert_eq!(store.opened().torn_bytes, cut as u64);
        assert_eq!(spans(&store).len(), 2);
    }
    for zeros in [1, 8, 700] {
        let fs = disk(&[&first[..], &vec![0; zeros]].concat());
        assert_eq!(open(&fs).unwrap().opened().torn_bytes, zeros as u64);
    }
}

#[test]
fn damage_of_an_old_log_is_refused_with_its_place_and_the_log_is_left_as_it_is() {
    let [first, second] = frames();
    let at_second = first.len() as u64;
    let mut logs = Vec::new();
    for (start, place) in [(0, 0), (first.len(), at_second)] {
        for byte in [4, 7, 8, 20] {
            let mut log = frames().concat();
            log[start + byte] ^= 1;
            logs.push((log, place));
        }
        // A length of zero, and one that no frame has.
        for len in [0u32, u32::MAX] {
            let mut log = frames().concat();
            log[start..start + 4].copy_from_slice(&len.to_le_bytes());
            logs.push((log, place));
        }
    }
    // A length that leads behind the end, though a whole frame follows.
    let mut log = frames().concat();
    log[2] ^= 1;
    logs.push((log, 0));
    // A true checksum of something that is no array of spans.
    let text = b"[1]";
    let crc = crc32(text).to_le_bytes();
    logs.push((
        [&second[..], &[3, 0, 0, 0], &crc, text].concat(),
        second.len() as u64,
    ));
    for (log, place) in logs {
        let fs = disk(&log);
        match open(&fs) {
            Err(StoreError::Damaged { path, offset, .. }) => {
                assert_eq!((path, offset), (at("wal.log"), Some(place)));
            }
            other => panic!("{other:?}"),
        }
        assert!(get(&fs, &at("wal.log")) == log);
        assert!(!files(&fs).contains_key(&at("CURRENT")));
    }
}
