//! Damage that arrives while the segment is open surfaces at the query that touches it, and an open
//! segment holds no more records than its cache may.

use traza::content::Query;
use traza::segment::{BLOCK_CACHE_LEN, Codec, Fault, Section, Segment, SegmentError};

use super::answers::Oracle;
use super::corpus::{records, segment, wide_segment};
use super::memory_file::MemoryFile;

fn place(at: u64) -> usize {
    usize::try_from(at).unwrap()
}

#[test]
fn every_byte_of_the_records_that_changes_after_open_is_corrupt_when_its_block_is_read() {
    let oracle = Oracle::of(&records());
    for codec in [Codec::Lz4, Codec::Zstd] {
        let bytes = segment(codec);
        let file = MemoryFile::new(&bytes);
        let header = *file.open().unwrap().header();
        let range = place(header.records_offset)..place(header.directory_offset);
        let step = (range.len() / 100).max(1);
        for at in range.step_by(step) {
            let segment = file.open().unwrap();
            file.change(|bytes| bytes[at] ^= 0x10);
            let errors = oracle.errors_of(&segment);
            assert!(!errors.is_empty(), "byte {at}");
            for error in errors {
                assert_eq!(error.section(), Some(Section::Records), "{error}");
            }
            file.change(|bytes| bytes[at] ^= 0x10);
            oracle.is_answered_by(&segment);
        }
    }
}

#[test]
fn every_byte_of_the_rows_that_changes_after_open_is_corrupt_or_never_read() {
    let (records, bytes) = wide_segment();
    let file = MemoryFile::new(&bytes);
    let segment = file.open().unwrap();
    let rows_len = place(segment.content_geometry().unwrap().rows_len());
    let words = ["refund", "order", "cancel", "booking", "seat", "filler"];
    let candidates = |segment: &Segment| -> Vec<Result<_, SegmentError>> {
        words
            .map(|word| segment.content_candidates(&Query::new(word)))
            .into()
    };
    let sound: Vec<_> = candidates(&segment)
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let mut seen_damage = 0;
    for at in (bytes.len() - rows_len..bytes.len()).step_by(7) {
        file.change(|bytes| bytes[at] ^= 1 << (at % 8));
        for (sound, found) in sound.iter().zip(candidates(&segment)) {
            match found {
                Ok(found) => assert_eq!(found, *sound, "byte {at}"),
                Err(error) => {
                    assert!(matches!(
                        error,
                        SegmentError::Corrupt {
                            section: Section::ContentRows,
                            fault: Fault::Page { .. },
                            ..
                        }
                    ));
                    seen_damage += 1;
                }
            }
        }
        file.change(|bytes| bytes[at] ^= 1 << (at % 8));
    }
    assert!(seen_damage > 0);
    assert_eq!(records.len(), segment.record_count());
}

#[test]
fn a_file_that_is_cut_while_it_is_open_is_corrupt_at_the_query_that_misses_the_bytes() {
    let oracle = Oracle::of(&records());
    let bytes = segment(Codec::Lz4);
    for len in [bytes.len() - 1, bytes.len() / 2, 132, 0] {
        let file = MemoryFile::new(&bytes);
        let segment = file.open().unwrap();
        file.change(|bytes| bytes.truncate(len));
        let errors = oracle.errors_of(&segment);
        assert!(!errors.is_empty(), "len={len}");
        for error in errors {
            assert!(
                matches!(
                    error,
                    SegmentError::Corrupt {
                        fault: Fault::CutOff { .. },
                        ..
                    }
                ),
                "len={len}: {error}"
            );
        }
    }
}

#[test]
fn metadata_that_changes_after_open_does_not_matter_since_it_is_held() {
    let bytes = segment(Codec::Lz4);
    let file = MemoryFile::new(&bytes);
    let segment = file.open().unwrap();
    let header = *segment.header();
    let attributes_end = place(header.content_offset);
    file.change(|bytes| {
        bytes[..132].fill(0xee);
        bytes[place(header.directory_offset)..attributes_end].fill(0xee);
    });
    Oracle::of(&records()).is_answered_by(&segment);
}

#[test]
fn a_freshly_opened_segment_holds_no_records_and_a_used_one_a_bounded_number_of_blocks() {
    let (records, bytes) = wide_segment();
    let segment = MemoryFile::new(&bytes).open().unwrap();
    assert_eq!(segment.resident_payload_len(), 0);
    assert!(segment.header().logical_len > BLOCK_CACHE_LEN as u64);
    for record in &records {
        segment.trace(&record.trace_id).unwrap();
        assert!(segment.resident_payload_len() <= BLOCK_CACHE_LEN);
    }
    assert!(segment.resident_payload_len() > 0);
    let before = segment.resident_payload_len();
    assert_eq!(segment.scan().filter_map(Result::ok).count(), records.len());
    assert_eq!(
        segment.resident_payload_len(),
        before,
        "a scan leaves the cache alone"
    );
}

#[test]
fn threads_that_share_a_segment_get_the_same_answers() {
    let (records, bytes) = wide_segment();
    let segment = MemoryFile::new(&bytes).open().unwrap();
    let traces: Vec<usize> = (0..50)
        .map(|trace| {
            let id = format!("trace-{trace}");
            records
                .iter()
                .filter(|record| record.trace_id == id)
                .count()
        })
        .collect();
    std::thread::scope(|scope| {
        for start in 0..4 {
            let (segment, traces) = (&segment, &traces);
            scope.spawn(move || {
                for round in 0..200 {
                    let trace = (start * 13 + round * 7) % 50;
                    let found = segment.trace(&format!("trace-{trace}")).unwrap();
                    assert_eq!(found.len(), traces[trace]);
                }
            });
        }
    });
}
