//! Older segments: what the record stream does not bear out is never converted, and a damaged query index
//! never reaches the new file.

use durable::Field;
use durable::checksum::crc32;
use traza::migration::v6::header_v6;
use traza::migration::v7::header_v7;
use traza::migration::{records, to_current, walk};
use traza::segment::layout::{BLOCK_RAW_FLAG, directory_entry};
use traza::segment::{Fault, Section, SegmentError};

const V6: &[u8] = include_bytes!("../fixtures/v6/segment-0.seg");
const V7: &[u8] = include_bytes!("../fixtures/v7/segment-2.seg");
const V7_AS_CURRENT: &[u8] = include_bytes!("../fixtures/v8/segment-2.seg");
const V6_AS_CURRENT: &[u8] = include_bytes!("../fixtures/v8/segment-0.seg");

fn word(bytes: &[u8], field: Field) -> usize {
    usize::try_from(field.u64(bytes).unwrap()).unwrap()
}

fn set(bytes: &mut [u8], field: Field, value: usize) {
    field.put(bytes, &(value as u64).to_le_bytes()).unwrap();
}

/// Offsets that the record-offset index holds.
fn table(bytes: &[u8], offset: Field, len: Field) -> Vec<u64> {
    let start = word(bytes, offset);
    let (offsets, _) = bytes[start..start + word(bytes, len)].as_chunks::<8>();
    offsets
        .iter()
        .map(|bytes| u64::from_le_bytes(*bytes))
        .collect()
}

/// Removes one entry of the offset index and makes every count and place agree with that.
fn without_entry(
    bytes: &[u8],
    omitted: usize,
    fields: &[Field],
    offsets: Field,
    len: Field,
    count: Field,
) -> Vec<u8> {
    let mut forged = bytes.to_vec();
    let at = word(bytes, offsets) + omitted * 8;
    forged.drain(at..at + 8);
    let (new_len, new_count) = (word(bytes, len) - 8, word(bytes, count) - 1);
    set(&mut forged, len, new_len);
    set(&mut forged, count, new_count);
    for field in fields {
        let value = word(bytes, *field) - 8;
        set(&mut forged, *field, value);
    }
    forged
}

#[track_caller]
fn refused(bytes: &[u8]) -> Fault {
    match (to_current(bytes), records(bytes)) {
        (Err(SegmentError::Corrupt { fault, .. }), Err(_)) => fault,
        (Err(other), _) => panic!("{other}"),
        (Ok(_), _) => panic!("converted"),
    }
}

const BEHIND_V6: [Field; 3] = [
    header_v6::TRACE_OFFSET,
    header_v6::ATTRIBUTE_OFFSET,
    header_v6::CONTENT_OFFSET,
];
const BEHIND_V7: [Field; 3] = [
    header_v7::TRACE_OFFSET,
    header_v7::ATTRIBUTE_OFFSET,
    header_v7::CONTENT_OFFSET,
];

#[test]
fn an_offset_index_that_was_shortened_consistently_is_refused_whichever_entry_is_missing() {
    let count = word(V6, header_v6::RECORD_COUNT);
    for omitted in [0, 1, count / 2, count - 2, count - 1] {
        let (o, l, c) = (
            header_v6::OFFSETS_OFFSET,
            header_v6::OFFSETS_LEN,
            header_v6::RECORD_COUNT,
        );
        let fault = refused(&without_entry(V6, omitted, &BEHIND_V6, o, l, c));
        assert!(
            matches!(fault, Fault::Stream { .. }),
            "v6 {omitted}: {fault}"
        );
    }
    let count = word(V7, header_v7::RECORD_COUNT);
    for omitted in [0, 1, count / 2, count - 2, count - 1] {
        let (o, l, c) = (
            header_v7::OFFSETS_OFFSET,
            header_v7::OFFSETS_LEN,
            header_v7::RECORD_COUNT,
        );
        let fault = refused(&without_entry(V7, omitted, &BEHIND_V7, o, l, c));
        assert!(
            matches!(fault, Fault::Stream { .. }),
            "v7 {omitted}: {fault}"
        );
    }
}

#[test]
fn an_offset_that_was_nudged_into_a_record_is_refused() {
    for (bytes, offsets, count) in [
        (V6, header_v6::OFFSETS_OFFSET, header_v6::RECORD_COUNT),
        (V7, header_v7::OFFSETS_OFFSET, header_v7::RECORD_COUNT),
    ] {
        for entry in [0, 1, word(bytes, count) - 1] {
            for nudge in [1u8, 8] {
                let mut forged = bytes.to_vec();
                let at = word(bytes, offsets) + entry * 8;
                forged[at] ^= nudge;
                assert!(matches!(refused(&forged), Fault::Stream { .. }));
            }
        }
    }
}

#[test]
fn bytes_behind_the_last_record_are_refused() {
    // Version 6: a few bytes more in the record region, and everything behind moved along.
    let end = word(V6, header_v6::OFFSETS_OFFSET);
    let mut forged = V6.to_vec();
    forged.splice(end..end, [0; 24]);
    set(
        &mut forged,
        header_v6::RECORDS_LEN,
        word(V6, header_v6::RECORDS_LEN) + 24,
    );
    for field in [header_v6::OFFSETS_OFFSET].iter().chain(&BEHIND_V6) {
        set(&mut forged, *field, word(V6, *field) + 24);
    }
    assert!(matches!(refused(&forged), Fault::Stream { .. }));
    // One byte less than the last record has.
    let mut forged = V6.to_vec();
    forged.remove(end - 1);
    set(
        &mut forged,
        header_v6::RECORDS_LEN,
        word(V6, header_v6::RECORDS_LEN) - 1,
    );
    for field in [header_v6::OFFSETS_OFFSET].iter().chain(&BEHIND_V6) {
        set(&mut forged, *field, word(V6, *field) - 1);
    }
    assert!(matches!(refused(&forged), Fault::CutOff { .. }));
}

#[test]
fn counts_and_places_of_an_old_header_that_do_not_agree_are_refused() {
    for (bytes, fields) in [
        (
            V6,
            &[
                header_v6::RECORD_COUNT,
                header_v6::RECORDS_OFFSET,
                header_v6::RECORDS_LEN,
                header_v6::OFFSETS_OFFSET,
                header_v6::OFFSETS_LEN,
                header_v6::TRACE_OFFSET,
                header_v6::TRACE_LEN,
                header_v6::ATTRIBUTE_OFFSET,
            ][..],
        ),
        (
            V7,
            &[
                header_v7::RECORD_COUNT,
                header_v7::RECORDS_OFFSET,
                header_v7::RECORDS_LEN,
                header_v7::DIRECTORY_OFFSET,
                header_v7::DIRECTORY_LEN,
                header_v7::OFFSETS_OFFSET,
                header_v7::OFFSETS_LEN,
                header_v7::TRACE_OFFSET,
                header_v7::TRACE_LEN,
                header_v7::ATTRIBUTE_OFFSET,
                header_v7::LOGICAL_LEN,
            ],
        ),
    ] {
        for field in fields {
            for change in [1u64, u64::MAX, u64::MAX / 3] {
                let mut forged = bytes.to_vec();
                let value = field.u64(bytes).unwrap().wrapping_add(change);
                field.put(&mut forged, &value.to_le_bytes()).unwrap();
                refused(&forged);
            }
        }
    }
}

#[test]
fn a_damaged_query_index_of_an_old_segment_is_rebuilt_and_not_believed() {
    let mut damaged = V6.to_vec();
    let start = word(V6, header_v6::TRACE_OFFSET);
    damaged[start..].fill(0xa5);
    assert!(to_current(&damaged).unwrap() == V6_AS_CURRENT);
    let mut damaged = V7.to_vec();
    let start = word(V7, header_v7::TRACE_OFFSET);
    damaged[start..].fill(0xa5);
    assert!(to_current(&damaged).unwrap() == V7_AS_CURRENT);
}

/// The directory entries of version 7, each with its place.
fn entries() -> Vec<usize> {
    let start = word(V7, header_v7::DIRECTORY_OFFSET);
    let len = word(V7, header_v7::DIRECTORY_LEN);
    (start..start + len).step_by(directory_entry::LEN).collect()
}

#[test]
fn a_flipped_bit_of_a_version_7_block_or_of_its_directory_is_refused() {
    let start = word(V7, header_v7::RECORDS_OFFSET);
    let end = word(V7, header_v7::DIRECTORY_OFFSET);
    for at in (start..end).step_by(97) {
        let mut damaged = V7.to_vec();
        damaged[at] ^= 1 << (at % 8);
        assert!(
            matches!(refused(&damaged), Fault::Checksum { .. }),
            "byte {at}"
        );
    }
    assert_eq!(entries().len(), 2, "two blocks");
    for entry in entries() {
        for at in entry..entry + directory_entry::LEN {
            for bit in 0..8 {
                let mut damaged = V7.to_vec();
                damaged[at] ^= 1 << bit;
                refused(&damaged);
            }
        }
    }
}

#[test]
fn a_version_7_block_boundary_inside_a_record_is_refused_though_all_checksums_are_true() {
    // The second block begins one byte early: both blocks are encoded anew around the moved bound.
    let [first, second] = entries()[..] else {
        panic!("two blocks");
    };
    let stored = |at: usize| {
        let entry = &V7[at..at + directory_entry::LEN];
        let start = word(V7, header_v7::RECORDS_OFFSET)
            + usize::try_from(directory_entry::STORED_OFFSET.u64(entry).unwrap()).unwrap();
        let len = directory_entry::STORED_LEN.u32(entry).unwrap();
        assert_eq!(len & BLOCK_RAW_FLAG, 0);
        &V7[start..start + usize::try_from(len).unwrap()]
    };
    let split = word(&V7[second..], directory_entry::LOGICAL_START);
    let logical = word(V7, header_v7::LOGICAL_LEN);
    let one = lz4_flex::block::decompress(stored(first), split).unwrap();
    let two = lz4_flex::block::decompress(stored(second), logical - split).unwrap();
    let blocks = [
        lz4_flex::block::compress(&one[..split - 1]),
        lz4_flex::block::compress(&[&one[split - 1..], &two[..]].concat()),
    ];
    let old_len = word(V7, header_v7::RECORDS_LEN);
    let new_len = blocks[0].len() + blocks[1].len();
    let mut forged = V7.to_vec();
    let put = |forged: &mut Vec<u8>, at: usize, field: Field, value: &[u8]| {
        field
            .put(&mut forged[at..at + directory_entry::LEN], value)
            .unwrap();
    };
    put(
        &mut forged,
        second,
        directory_entry::LOGICAL_START,
        &(split as u64 - 1).to_le_bytes(),
    );
    let offset = blocks[0].len() as u64;
    put(
        &mut forged,
        second,
        directory_entry::STORED_OFFSET,
        &offset.to_le_bytes(),
    );
    for (at, block) in [first, second].into_iter().zip(&blocks) {
        let len = u32::try_from(block.len()).unwrap();
        put(
            &mut forged,
            at,
            directory_entry::STORED_LEN,
            &len.to_le_bytes(),
        );
        put(
            &mut forged,
            at,
            directory_entry::CRC32,
            &crc32(block).to_le_bytes(),
        );
    }
    let start = word(V7, header_v7::RECORDS_OFFSET);
    forged.splice(start..start + old_len, blocks.concat());
    set(&mut forged, header_v7::RECORDS_LEN, new_len);
    for field in [header_v7::DIRECTORY_OFFSET, header_v7::OFFSETS_OFFSET]
        .iter()
        .chain(&BEHIND_V7)
    {
        set(&mut forged, *field, word(V7, *field) + new_len - old_len);
    }
    let fault = refused(&forged);
    assert!(matches!(fault, Fault::CutOff { .. }), "{fault}");
}

#[test]
fn the_offset_tables_of_the_fixtures_are_those_of_their_streams() {
    for (bytes, offsets, len) in [
        (V6, header_v6::OFFSETS_OFFSET, header_v6::OFFSETS_LEN),
        (V7, header_v7::OFFSETS_OFFSET, header_v7::OFFSETS_LEN),
    ] {
        let table = table(bytes, offsets, len);
        let mut count = 0;
        let summary = walk(bytes, &mut |_| {
            count += 1;
            Ok(())
        });
        assert_eq!(count, table.len());
        assert_eq!(summary.unwrap().record_count, count as u64);
    }
}

#[test]
fn a_cut_old_segment_is_refused_at_every_length() {
    for (bytes, end) in [
        (V6, header_v6::CONTENT_OFFSET),
        (V7, header_v7::CONTENT_OFFSET),
    ] {
        let metadata_end = word(bytes, end);
        for len in (0..metadata_end).step_by(131).chain([metadata_end - 1]) {
            refused(&bytes[..len]);
        }
    }
}

#[test]
fn versions_that_nothing_reads_are_refused_by_their_number() {
    for version in [0u16, 1, 2, 3, 4, 5, 8, 9, 0xffff] {
        let mut bytes = V6.to_vec();
        header_v6::VERSION
            .put(&mut bytes, &version.to_le_bytes())
            .unwrap();
        let error = to_current(&bytes).unwrap_err();
        assert!(
            matches!(error, SegmentError::Version { found, .. } if found == version),
            "{error}"
        );
    }
    assert!(matches!(
        to_current(b"TRAZASEX\x06\0"),
        Err(SegmentError::NotASegment)
    ));
    assert!(matches!(
        to_current(b"TRAZ"),
        Err(SegmentError::Corrupt {
            section: Section::Header,
            ..
        })
    ));
}

#[test]
fn a_payload_that_is_no_span_is_refused_and_names_its_record() {
    let mut damaged = V6.to_vec();
    // The first payload begins with the span's first key.
    let at = V6
        .windows(11)
        .position(|window| window == b"{\"trace_id\"")
        .unwrap();
    damaged[at + 2] = b'T';
    assert!(matches!(
        refused(&damaged),
        Fault::Payload { ordinal: 0, .. }
    ));
}
