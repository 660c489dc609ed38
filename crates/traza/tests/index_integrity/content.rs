//! The content index, forged inside a sound wrapper, and its rows read page by page.

use traza::content::Query;
use traza::segment::layout::{CONTENT_PAGE_LEN, content_prologue};
use traza::segment::{Codec, Fault, Section, Segment, SegmentError};

use super::answers::Oracle;
use super::corpus::{records, segment, wide_segment};
use super::forge::Forge;
use super::memory_file::MemoryFile;

fn refusal(bytes: &[u8]) -> SegmentError {
    let lazy = MemoryFile::new(bytes).open().unwrap_err();
    let eager = Segment::from_bytes(bytes.to_vec()).unwrap_err();
    assert_eq!(lazy.to_string(), eager.to_string());
    lazy
}

fn forge() -> Forge {
    Forge::of(&segment(Codec::Lz4))
}

fn with_field(field: durable::Field, value: &[u8]) -> Vec<u8> {
    let mut forged = forge();
    forged.change_body(Section::ContentIndex, |body| {
        field.put(body, value).unwrap();
    });
    forged.build()
}

#[test]
fn impossible_filter_sizes_are_refused_before_they_size_anything() {
    let max = |bytes: u64| bytes * 8;
    for (field, values) in [
        (
            content_prologue::SUMMARY_BITS,
            [0, 1, 4, 2047, 3000, max(32 * 1024) * 2, 1 << 63, u64::MAX],
        ),
        (
            content_prologue::BLOCK_BITS,
            [
                0,
                3,
                511,
                513,
                max(8 * 1024) * 2,
                1 << 40,
                1 << 63,
                u64::MAX,
            ],
        ),
    ] {
        for value in values {
            let error = refusal(&with_field(field, &value.to_le_bytes()));
            let is_right = matches!(
                error,
                SegmentError::Corrupt {
                    section: Section::ContentIndex,
                    fault: Fault::Geometry { .. },
                    ..
                }
            );
            assert!(is_right, "{} = {value}: {error}", field.name);
        }
    }
    // Powers of two within the limits, which the section's length contradicts.
    for (field, value) in [
        (content_prologue::SUMMARY_BITS, 4096u64),
        (content_prologue::SUMMARY_BITS, max(32 * 1024)),
        (content_prologue::BLOCK_BITS, 1024),
        (content_prologue::BLOCK_BITS, max(8 * 1024)),
    ] {
        let error = refusal(&with_field(field, &value.to_le_bytes()));
        assert_eq!(error.section(), Some(Section::ContentIndex), "{error}");
    }
}

#[test]
fn another_number_of_hashes_is_refused_as_another_decoder() {
    for hashes in [0u32, 1, 3, 5, u32::MAX] {
        let error = refusal(&with_field(content_prologue::HASHES, &hashes.to_le_bytes()));
        assert!(
            matches!(error, SegmentError::Unsupported { section: Section::ContentIndex, found, .. } if found == u64::from(hashes)),
            "{error}"
        );
    }
}

#[test]
fn a_block_count_that_does_not_follow_from_the_records_is_refused() {
    for (field, value) in [
        (content_prologue::BLOCK_COUNT, 2u32),
        (content_prologue::BLOCK_COUNT, u32::MAX),
        (content_prologue::RECORDS_PER_BLOCK, 0),
        (content_prologue::RECORDS_PER_BLOCK, 1),
        (content_prologue::RECORDS_PER_BLOCK, 13),
    ] {
        let error = refusal(&with_field(field, &value.to_le_bytes()));
        assert_eq!(
            error.section(),
            Some(Section::ContentIndex),
            "{} {value}: {error}",
            field.name
        );
    }
    // Another number of records per block is honoured when it gives the same count.
    let bytes = with_field(content_prologue::RECORDS_PER_BLOCK, &14u32.to_le_bytes());
    let segment = Segment::from_bytes(bytes).unwrap();
    Oracle::of(&records()).is_answered_by(&segment);
}

#[test]
fn a_content_index_of_another_length_is_refused() {
    for len in [0, 1, 31] {
        let mut forged = forge();
        forged.change_body(Section::ContentIndex, |body| body.truncate(len));
        assert_eq!(
            refusal(&forged.build()).section(),
            Some(Section::ContentIndex)
        );
    }
    let mut forged = forge();
    forged.change_body(Section::ContentIndex, |body| body.push(0));
    assert_eq!(
        refusal(&forged.build()).section(),
        Some(Section::ContentIndex)
    );
    let mut forged = forge();
    forged.change_body(Section::ContentIndex, |body| {
        body.pop();
    });
    assert_eq!(
        refusal(&forged.build()).section(),
        Some(Section::ContentIndex)
    );
}

#[test]
fn a_segment_without_content_index_is_scanned_by_word_searches() {
    let bytes = with_field(content_prologue::BLOCK_COUNT, &0u32.to_le_bytes());
    for segment in [
        MemoryFile::new(&bytes).open().unwrap(),
        Segment::from_bytes(bytes).unwrap(),
    ] {
        assert_eq!(segment.content_geometry(), None);
        let query = Query::new("nowhere");
        assert!(segment.may_contain_words(&query));
        assert_eq!(
            segment.content_candidates(&query).unwrap(),
            vec![0..records().len()]
        );
        Oracle::of(&records()).is_answered_by(&segment);
    }
}

#[test]
fn rows_that_do_not_match_the_page_table_are_corrupt_when_they_are_read() {
    let (_, sound) = wide_segment();
    let geometry = Segment::from_bytes(sound.clone())
        .unwrap()
        .content_geometry()
        .unwrap();
    let rows_len = geometry.rows_len();
    // A cleared row and a true wrapper checksum: only the page table can tell.
    let mut forged = Forge::of(&sound);
    forged.change_body(Section::ContentIndex, |body| {
        let at = body.len() - usize::try_from(rows_len).unwrap();
        body[at..].fill(0);
    });
    let bytes = forged.build();
    for segment in [
        MemoryFile::new(&bytes).open().unwrap(),
        Segment::from_bytes(bytes).unwrap(),
    ] {
        for word in ["refund", "order", "cancel"] {
            let error = segment.content_candidates(&Query::new(word)).unwrap_err();
            let is_right = matches!(
                error,
                SegmentError::Corrupt {
                    section: Section::ContentRows,
                    fault: Fault::Page { .. },
                    ..
                }
            );
            assert!(is_right, "{error}");
        }
        assert!(
            segment
                .content_candidates(&Query::new("nowhere"))
                .unwrap()
                .is_empty()
        );
    }
}

#[test]
fn rows_that_lie_across_pages_are_read_whole() {
    // 33 content blocks give rows of 5 bytes, which do not divide a page.
    let (_, bytes) = wide_segment();
    let records: Vec<_> = (0..4)
        .flat_map(|round| {
            wide_segment().0.into_iter().map(move |mut record| {
                record.timestamp += round;
                record
            })
        })
        .collect();
    let wide = traza::segment::encode(&records).unwrap();
    let segment = MemoryFile::new(&wide).open().unwrap();
    let geometry = segment.content_geometry().unwrap();
    assert!(
        geometry.row_len() > 1 && !CONTENT_PAGE_LEN.is_multiple_of(geometry.row_len()),
        "{geometry:?}"
    );
    for (segment, count) in [
        (segment, records.len()),
        (MemoryFile::new(&bytes).open().unwrap(), 1300),
    ] {
        for word in ["refund", "order", "cancel", "booking", "seat", "filler"] {
            let query = Query::new(word);
            let candidates = segment.content_candidates(&query).unwrap();
            let covered: usize = candidates
                .iter()
                .map(std::iter::ExactSizeIterator::len)
                .sum();
            assert_eq!(covered, count, "{word} is in every block");
        }
    }
}
