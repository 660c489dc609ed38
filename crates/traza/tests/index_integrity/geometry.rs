//! Header words, wrappers and block extents, forged behind fresh checksums.

use traza::segment::codec::Codec;
use traza::segment::layout::{BLOCK_RAW_FLAG, directory_entry, header, wrapper};
use traza::segment::{Fault, Section, Segment, SegmentError};

use super::corpus::segment;
use super::forge::{Forge, METADATA};
use super::memory_file::MemoryFile;

/// Both opens refuse the file, for the same reason.
fn refusal(bytes: &[u8]) -> SegmentError {
    let lazy = MemoryFile::new(bytes).open().unwrap_err();
    let eager = Segment::from_bytes(bytes.to_vec()).unwrap_err();
    assert_eq!(lazy.to_string(), eager.to_string());
    lazy
}

fn forge() -> Forge {
    Forge::of(&segment(Codec::Lz4))
}

#[test]
fn every_other_version_is_refused_as_a_version_before_the_checksum() {
    for version in [0u16, 1, 2, 3, 4, 5, 6, 7, 9, 10, 0xff, 0xffff] {
        let mut bytes = segment(Codec::Lz4);
        header::VERSION
            .put(&mut bytes, &version.to_le_bytes())
            .unwrap();
        let error = refusal(&bytes);
        assert!(
            matches!(error, SegmentError::Version { found, newest: 8 } if found == version),
            "{error}"
        );
    }
}

#[test]
fn an_unknown_codec_is_refused_by_its_id() {
    for id in [3u32, 9, u32::MAX] {
        let mut forged = forge();
        header::CODEC
            .put(&mut forged.header, &id.to_le_bytes())
            .unwrap();
        let error = refusal(&forged.build());
        assert!(
            matches!(error, SegmentError::Unsupported { section: Section::Header, found, .. } if found == u64::from(id)),
            "{error}"
        );
    }
}

#[test]
fn the_wrong_codec_of_the_three_is_refused() {
    for (written, claimed) in [
        (Codec::Lz4, Codec::Zstd),
        (Codec::Zstd, Codec::Lz4),
        (Codec::Lz4, Codec::Raw),
        (Codec::Zstd, Codec::Raw),
    ] {
        let mut forged = Forge::of(&segment(written));
        header::CODEC
            .put(&mut forged.header, &claimed.id().to_le_bytes())
            .unwrap();
        let error = refusal(&forged.build());
        assert!(
            matches!(
                error.section(),
                Some(Section::Records | Section::BlockDirectory)
            ),
            "{written:?} as {claimed:?}: {error}"
        );
    }
}

#[test]
fn sections_that_do_not_follow_each_other_are_refused() {
    let sound = forge();
    for field in [
        header::RECORDS_OFFSET,
        header::RECORDS_LEN,
        header::DIRECTORY_OFFSET,
        header::DIRECTORY_LEN,
        header::OFFSETS_OFFSET,
        header::OFFSETS_LEN,
        header::TRACE_OFFSET,
        header::TRACE_LEN,
        header::ATTRIBUTE_OFFSET,
        header::CONTENT_OFFSET,
    ] {
        let value = sound.word(field);
        for value in [
            0,
            value - 1,
            value + 1,
            value + 1000,
            u64::MAX / 2,
            u64::MAX,
        ] {
            let mut forged = sound.clone();
            forged.set_word(field, value);
            let error = refusal(&forged.build_as_placed());
            assert!(
                error.section().is_some(),
                "{} = {value}: {error}",
                field.name
            );
        }
    }
    // Two words together: a length that grows and the place behind it.
    let mut forged = sound.clone();
    forged.set_word(header::TRACE_LEN, u64::MAX);
    forged.set_word(header::ATTRIBUTE_OFFSET, u64::MAX);
    forged.set_word(header::CONTENT_OFFSET, u64::MAX);
    assert_eq!(
        refusal(&forged.build_as_placed()).section(),
        Some(Section::Header)
    );
}

#[test]
fn counts_that_contradict_each_other_are_refused_before_they_size_anything() {
    let sound = forge();
    let logical = sound.word(header::LOGICAL_LEN);
    for (field, value) in [
        (header::RECORD_COUNT, 0),
        (header::RECORD_COUNT, 13),
        (header::RECORD_COUNT, 15),
        (header::RECORD_COUNT, logical / 24),
        (header::RECORD_COUNT, logical / 24 + 1),
        (header::RECORD_COUNT, u64::MAX),
        (header::LOGICAL_LEN, 0),
        (header::LOGICAL_LEN, logical - 1),
        (header::LOGICAL_LEN, logical + 1),
        (header::LOGICAL_LEN, u64::MAX),
    ] {
        let mut forged = sound.clone();
        forged.set_word(field, value);
        let error = refusal(&forged.build());
        let is_impossible = field == header::RECORD_COUNT && value > logical / 24;
        let is_right = match error.section() {
            Some(Section::Header) => true,
            // Words that could be true, and that another section contradicts.
            Some(_) => !is_impossible,
            None => false,
        };
        assert!(is_right, "{} = {value}: {error}", field.name);
    }
    let mut forged = Forge::of(&traza::segment::encode(&[]).unwrap());
    forged.set_word(header::LOGICAL_LEN, 24);
    assert!(refusal(&forged.build()).section().is_some());
}

#[test]
fn a_section_that_is_shorter_than_its_wrapper_is_refused_by_name() {
    for section in METADATA {
        for len in 0..wrapper::LEN {
            let mut forged = forge();
            forged.section(section).truncate(len);
            assert_eq!(refusal(&forged.build()).section(), Some(section));
        }
    }
}

#[test]
fn unknown_wrapper_flags_are_refused_as_another_decoder_and_not_as_damage() {
    for section in METADATA {
        for flags in [2u32, 3, 1 << 31, u32::MAX] {
            let mut forged = forge();
            forged.set_wrapper(section, wrapper::FLAGS, &flags.to_le_bytes());
            let error = refusal(&forged.build());
            assert!(
                matches!(error, SegmentError::Unsupported { section: named, .. } if named == section),
                "{error}"
            );
        }
    }
}

#[test]
fn a_forged_body_length_is_refused_by_name() {
    for codec in [Codec::Lz4, Codec::Raw] {
        let sound = Forge::of(&segment(codec));
        for section in METADATA {
            let len = sound.body(section).len() as u64;
            let stored = sound.clone().section(section).len() as u64;
            for value in [0, len - 1, len + 1, stored * 256 + 65, 1 << 40, u64::MAX] {
                let mut forged = sound.clone();
                forged.set_wrapper(section, wrapper::BODY_LEN, &value.to_le_bytes());
                let error = refusal(&forged.build());
                assert_eq!(error.section(), Some(section), "{value}: {error}");
            }
        }
    }
}

#[test]
fn a_compressed_content_index_is_refused_though_it_would_decompress() {
    let mut forged = forge();
    let body = forged.body(Section::ContentIndex);
    *forged.section(Section::ContentIndex) = traza::segment::codec::wrap(&body, Codec::Lz4);
    let error = refusal(&forged.build());
    let is_right = matches!(
        error,
        SegmentError::Corrupt {
            section: Section::ContentIndex,
            fault: Fault::MustBeRaw,
            ..
        }
    );
    assert!(is_right, "{error}");
}

#[test]
fn forged_block_extents_are_refused_by_the_directory() {
    let sound = forge();
    let directory = sound.body(Section::BlockDirectory);
    let count = directory.len() / directory_entry::LEN;
    for block in 0..count {
        let at = block * directory_entry::LEN;
        let entry = &directory[at..at + directory_entry::LEN];
        let start = directory_entry::LOGICAL_START.u64(entry).unwrap();
        let offset = directory_entry::STORED_OFFSET.u64(entry).unwrap();
        let len = directory_entry::STORED_LEN.u32(entry).unwrap();
        for (field, values) in [
            (
                directory_entry::LOGICAL_START,
                vec![start + 1, start.wrapping_sub(1), u64::MAX],
            ),
            (
                directory_entry::STORED_OFFSET,
                vec![offset + 1, offset.wrapping_sub(1), u64::MAX],
            ),
        ] {
            for value in values {
                let mut forged = sound.clone();
                forged.change_body(Section::BlockDirectory, |body| {
                    field
                        .put(
                            &mut body[at..at + directory_entry::LEN],
                            &value.to_le_bytes(),
                        )
                        .unwrap();
                });
                let error = refusal(&forged.build());
                assert_eq!(error.section(), Some(Section::BlockDirectory), "{error}");
            }
        }
        for value in [
            0,
            len - 1,
            len + 1,
            len | BLOCK_RAW_FLAG,
            BLOCK_RAW_FLAG,
            u32::MAX,
        ] {
            let mut forged = sound.clone();
            forged.change_body(Section::BlockDirectory, |body| {
                let entry = &mut body[at..at + directory_entry::LEN];
                directory_entry::STORED_LEN
                    .put(entry, &value.to_le_bytes())
                    .unwrap();
            });
            let error = refusal(&forged.build());
            assert_eq!(
                error.section(),
                Some(Section::BlockDirectory),
                "{value}: {error}"
            );
        }
    }
}

#[test]
fn a_directory_without_a_block_or_with_half_an_entry_is_refused() {
    for len in [0, 1, 31, 33] {
        let mut forged = forge();
        forged.change_body(Section::BlockDirectory, |body| body.truncate(len));
        let error = refusal(&forged.build());
        assert_eq!(
            error.section(),
            Some(Section::BlockDirectory),
            "len={len}: {error}"
        );
    }
    let mut forged = forge();
    forged.change_body(Section::BlockDirectory, |body| body.push(0));
    assert_eq!(
        refusal(&forged.build()).section(),
        Some(Section::BlockDirectory)
    );
}

#[test]
fn a_block_of_several_records_that_is_longer_than_the_target_is_refused() {
    // The records as one block: the carving of an honest writer never makes one.
    let raw = Forge::of(&segment(Codec::Raw));
    let logical = raw.word(header::LOGICAL_LEN);
    let mut forged = raw.clone();
    forged.change_body(Section::BlockDirectory, |body| {
        body.truncate(directory_entry::LEN);
        let len = u32::try_from(logical).unwrap() | BLOCK_RAW_FLAG;
        directory_entry::STORED_LEN
            .put(body, &len.to_le_bytes())
            .unwrap();
        let crc = durable::checksum::crc32(&raw.records);
        directory_entry::CRC32
            .put(body, &crc.to_le_bytes())
            .unwrap();
    });
    let error = refusal(&forged.build());
    let is_right = matches!(
        error,
        SegmentError::Corrupt {
            section: Section::BlockDirectory,
            fault: Fault::Bound { .. },
            ..
        }
    );
    assert!(is_right, "{error}");
}

#[test]
fn a_block_that_decodes_to_another_length_is_refused_where_it_is_read() {
    let sound = segment(Codec::Lz4);
    let block = Segment::from_bytes(sound.clone()).unwrap().blocks()[0];
    let mut forged = Forge::of(&sound);
    // A shorter block in the first one's place: its checksum is right, its length is not.
    let stored =
        lz4_flex::block::compress(&vec![7; usize::try_from(block.logical_len).unwrap() - 1]);
    let old_len = usize::try_from(block.stored_len).unwrap();
    let grown = stored.len() as u64;
    forged.records.splice(..old_len, stored.iter().copied());
    forged.change_body(Section::BlockDirectory, |body| {
        let (first, others) = body.split_at_mut(directory_entry::LEN);
        let len = u32::try_from(stored.len()).unwrap();
        directory_entry::STORED_LEN
            .put(first, &len.to_le_bytes())
            .unwrap();
        let crc = durable::checksum::crc32(&stored);
        directory_entry::CRC32
            .put(first, &crc.to_le_bytes())
            .unwrap();
        for entry in others.chunks_mut(directory_entry::LEN) {
            let offset = directory_entry::STORED_OFFSET.u64(entry).unwrap();
            let offset = offset - u64::from(block.stored_len) + grown;
            directory_entry::STORED_OFFSET
                .put(entry, &offset.to_le_bytes())
                .unwrap();
        }
    });
    let error = refusal(&forged.build());
    let is_right = matches!(
        error,
        SegmentError::Corrupt {
            section: Section::Records,
            fault: Fault::Decompress { .. },
            ..
        }
    );
    assert!(is_right, "{error}");
}
