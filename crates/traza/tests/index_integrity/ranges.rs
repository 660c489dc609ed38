//! The declared range of timestamps and the directory's, forged behind fresh checksums.

use traza::segment::layout::{directory_entry, header};
use traza::segment::{Codec, Fault, Section, Segment, SegmentError};

use super::corpus::{records, segment};
use super::forge::Forge;
use super::memory_file::MemoryFile;

/// Both opens refuse the file; answers why.
fn refusals(bytes: &[u8]) -> [SegmentError; 2] {
    [
        MemoryFile::new(bytes).open().unwrap_err(),
        Segment::from_bytes(bytes.to_vec()).unwrap_err(),
    ]
}

fn forge() -> Forge {
    Forge::of(&segment(Codec::Lz4))
}

fn set_fence(forge: &mut Forge, block: usize, value: u64) {
    forge.change_body(Section::BlockDirectory, |body| {
        let at = block * directory_entry::LEN;
        let entry = &mut body[at..at + directory_entry::LEN];
        directory_entry::MIN_TIMESTAMP
            .put(entry, &value.to_le_bytes())
            .unwrap();
    });
}

#[test]
fn a_declared_range_that_is_not_that_of_the_records_is_refused_by_both_opens() {
    let (min, max) = (1000, 1000 + 13 * 10);
    for (field, values) in [
        (header::MIN_TIMESTAMP, [0, min - 1, min + 1, max, u64::MAX]),
        (header::MAX_TIMESTAMP, [0, min, max - 1, max + 1, u64::MAX]),
    ] {
        for value in values {
            let mut forged = forge();
            forged.set_word(field, value);
            for error in refusals(&forged.build()) {
                assert!(
                    matches!(error.section(), Some(Section::Header | Section::Records)),
                    "{} = {value}: {error}",
                    field.name
                );
            }
        }
    }
}

#[test]
fn a_fence_that_is_not_the_first_timestamp_of_its_block_is_refused_or_found_when_the_block_is_read()
{
    let fences: Vec<u64> = Segment::from_bytes(segment(Codec::Lz4))
        .unwrap()
        .blocks()
        .iter()
        .map(|block| block.min_timestamp)
        .collect();
    for (block, fence) in fences.iter().enumerate() {
        for value in [fence - 1, fence + 1] {
            let mut forged = forge();
            set_fence(&mut forged, block, value);
            let bytes = forged.build();
            let eager = Segment::from_bytes(bytes.clone()).unwrap_err();
            assert!(eager.section().is_some(), "{eager}");
            let Ok(lazy) = MemoryFile::new(&bytes).open() else {
                continue;
            };
            // Windows around the block: the search decodes it, or never needed the fence.
            let times: Vec<u64> = records().iter().map(|record| record.timestamp).collect();
            for since in (*fence - 15)..(*fence + 15) {
                let expected = times.partition_point(|time| *time < since)..times.len();
                match lazy.ordinal_range_for_window(Some(since), None) {
                    Ok(range) => assert_eq!(range, expected, "block {block} since {since}"),
                    Err(error) => assert!(
                        matches!(
                            error,
                            SegmentError::Corrupt {
                                fault: Fault::Fence { .. } | Fault::Order { .. },
                                ..
                            }
                        ),
                        "{error}"
                    ),
                }
            }
        }
    }
}

#[test]
fn a_range_and_a_fence_that_were_forged_together_are_refused_by_the_records() {
    for value in [0, 999, 1001] {
        let mut forged = forge();
        set_fence(&mut forged, 0, value);
        forged.set_word(header::MIN_TIMESTAMP, value);
        for error in refusals(&forged.build()) {
            let is_right = matches!(
                error,
                SegmentError::Corrupt {
                    section: Section::Records,
                    fault: Fault::Fence { .. } | Fault::OutsideRange { .. },
                    ..
                }
            );
            assert!(is_right, "{error}");
        }
    }
    let last = Segment::from_bytes(segment(Codec::Lz4))
        .unwrap()
        .blocks()
        .len()
        - 1;
    for value in [2000, u64::MAX] {
        let mut forged = forge();
        set_fence(&mut forged, last, value);
        forged.set_word(header::MAX_TIMESTAMP, value);
        for error in refusals(&forged.build()) {
            assert_eq!(error.section(), Some(Section::Records), "{error}");
        }
    }
}

#[test]
fn fences_that_decrease_are_refused_by_both_opens() {
    let mut forged = forge();
    set_fence(&mut forged, 1, 1);
    for error in refusals(&forged.build()) {
        assert_eq!(error.section(), Some(Section::BlockDirectory), "{error}");
    }
}

#[test]
fn an_empty_segment_declares_the_empty_range_and_nothing_else() {
    let empty = traza::segment::encode(&[]).unwrap();
    assert!(Segment::from_bytes(empty.clone()).is_ok());
    for (field, value) in [
        (header::MIN_TIMESTAMP, 0),
        (header::MIN_TIMESTAMP, u64::MAX - 1),
        (header::MAX_TIMESTAMP, 1),
        (header::MAX_TIMESTAMP, u64::MAX),
    ] {
        let mut forged = Forge::of(&empty);
        forged.set_word(field, value);
        for error in refusals(&forged.build()) {
            assert_eq!(error.section(), Some(Section::Header), "{error}");
        }
    }
}

#[test]
fn a_record_outside_the_declared_range_is_corrupt_wherever_it_is_read() {
    let sound = Segment::from_bytes(segment(Codec::Raw)).unwrap();
    let middle = sound.scan().nth(6).unwrap().unwrap();
    let blocks = sound.blocks();
    let block = blocks.partition_point(|block| block.logical_start <= middle.logical_offset()) - 1;
    let entry = blocks[block];
    for timestamp in [999u64, 5000] {
        let mut forged = Forge::of(&segment(Codec::Raw));
        // Nothing is compressed: logical and stored offsets are the same.
        let at = usize::try_from(middle.logical_offset()).unwrap();
        forged.records[at..at + 8].copy_from_slice(&timestamp.to_le_bytes());
        let start = usize::try_from(entry.stored_offset).unwrap();
        let end = start + usize::try_from(entry.stored_len).unwrap();
        let crc = durable::checksum::crc32(&forged.records[start..end]);
        forged.change_body(Section::BlockDirectory, |body| {
            let entry = &mut body[block * directory_entry::LEN..];
            directory_entry::CRC32
                .put(entry, &crc.to_le_bytes())
                .unwrap();
        });
        let bytes = forged.build();
        let lazy = MemoryFile::new(&bytes).open().unwrap();
        for error in [
            lazy.record_at(middle.logical_offset()).unwrap_err(),
            lazy.trace(middle.trace_id()).unwrap_err(),
            Segment::from_bytes(bytes).unwrap_err(),
        ] {
            let is_right = matches!(
                error,
                SegmentError::Corrupt {
                    section: Section::Records,
                    fault: Fault::OutsideRange { .. },
                    ..
                }
            );
            assert!(is_right, "{error}");
        }
    }
}
