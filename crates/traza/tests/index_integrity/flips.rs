//! Every bit of the header and of the metadata, one at a time.

use traza::segment::layout::header;
use traza::segment::{Codec, Section, Segment, SegmentError};

use super::answers::Oracle;
use super::corpus::{records, segment};
use super::memory_file::MemoryFile;

/// Where each part lies.
fn sections(bytes: &[u8]) -> Vec<(Section, std::ops::Range<usize>)> {
    let sound = Segment::from_bytes(bytes.to_vec()).unwrap();
    let parts = sound.header().sections(bytes.len() as u64);
    let place = |at: u64| usize::try_from(at).unwrap();
    let parts = parts.map(|(section, range)| (section, place(range.start)..place(range.end)));
    parts.into()
}

/// True for a refusal that a flipped bit of `section` explains.
fn is_named(error: &SegmentError, section: Section, at: usize) -> bool {
    match error {
        SegmentError::Corrupt { section: named, .. } => *named == section,
        // Magic and version stand before the checksum, so that a newer format is told from damage.
        SegmentError::NotASegment => at < header::VERSION.offset,
        SegmentError::Version { .. } => (8..10).contains(&at),
        _ => false,
    }
}

fn sweep(codec: Codec) {
    let sound = segment(codec);
    let mut flipped = 0;
    for (section, range) in sections(&sound) {
        if section == Section::Records {
            continue;
        }
        for at in range {
            for bit in 0..8 {
                let mut bytes = sound.clone();
                bytes[at] ^= 1 << bit;
                let lazy = MemoryFile::new(&bytes).open().unwrap_err();
                assert!(
                    is_named(&lazy, section, at),
                    "{section} byte {at} bit {bit}: {lazy}"
                );
                let eager = Segment::from_bytes(bytes).unwrap_err();
                assert_eq!(
                    lazy.to_string(),
                    eager.to_string(),
                    "{section} byte {at} bit {bit}"
                );
                flipped += 1;
            }
        }
    }
    assert!(flipped > 8 * 1500, "only {flipped} bits");
}

#[test]
fn every_flipped_bit_of_header_and_metadata_is_refused_by_both_opens_and_names_the_section() {
    sweep(Codec::Lz4);
}

#[test]
fn every_flipped_bit_of_an_uncompressed_segment_is_refused_alike() {
    sweep(Codec::Raw);
}

#[test]
fn every_flipped_bit_of_a_segment_with_zstandard_blocks_is_refused_alike() {
    sweep(Codec::Zstd);
}

#[test]
fn a_flipped_bit_of_the_records_is_never_a_wrong_or_shorter_answer() {
    let oracle = Oracle::of(&records());
    for codec in [Codec::Lz4, Codec::Raw, Codec::Zstd] {
        let sound = segment(codec);
        let (_, range) = sections(&sound).swap_remove(1);
        let step = (range.len() / 200).max(1);
        for at in range.step_by(step) {
            let mut bytes = sound.clone();
            bytes[at] ^= 1 << (at % 8);
            let eager = Segment::from_bytes(bytes.clone()).unwrap_err();
            assert_eq!(
                eager.section(),
                Some(Section::Records),
                "byte {at}: {eager}"
            );
            match MemoryFile::new(&bytes).open() {
                Ok(lazy) => {
                    let errors = oracle.errors_of(&lazy);
                    assert!(!errors.is_empty(), "byte {at}");
                    for error in errors {
                        assert_eq!(
                            error.section(),
                            Some(Section::Records),
                            "byte {at}: {error}"
                        );
                    }
                }
                Err(error) => assert_eq!(error.section(), Some(Section::Records)),
            }
        }
    }
}

#[test]
fn a_cut_at_any_length_and_a_byte_behind_the_end_are_refused_by_both_opens() {
    let sound = segment(Codec::Lz4);
    for len in 0..sound.len() {
        let bytes = sound[..len].to_vec();
        let lazy = MemoryFile::new(&bytes).open().unwrap_err();
        assert!(
            matches!(lazy, SegmentError::Corrupt { .. }),
            "len={len}: {lazy}"
        );
        assert!(Segment::from_bytes(bytes).is_err(), "len={len}");
    }
    let longer = [&sound[..], &[0]].concat();
    for error in [
        MemoryFile::new(&longer).open().unwrap_err(),
        Segment::from_bytes(longer).unwrap_err(),
    ] {
        assert_eq!(error.section(), Some(Section::ContentIndex), "{error}");
    }
}

#[test]
fn a_sound_segment_answers_as_the_records_say_whichever_way_it_is_opened() {
    let oracle = Oracle::of(&records());
    for codec in [Codec::Lz4, Codec::Raw, Codec::Zstd] {
        let bytes = segment(codec);
        oracle.is_answered_by(&MemoryFile::new(&bytes).open().unwrap());
        let eager = Segment::from_bytes(bytes).unwrap();
        oracle.is_answered_by(&eager);
        assert!(eager.blocks().len() >= 3, "{:?}", eager.blocks());
    }
}
