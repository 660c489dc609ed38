//! Single mutations of a segment and a blob of a released peer, each with what it did about them.

use serde::Deserialize;
use traza::payload::{self, ContentAddress};
use traza::segment::{Section, Segment, SegmentError};

use super::memory_file::MemoryFile;

const BASE: &[u8] = include_bytes!("../fixtures/corrupt/base.seg");
const BLOB: &[u8] = include_bytes!(
    "../fixtures/corrupt/cd04b2d9e1d17d4e6eb7bb0327974b1b417027b033e02fa4d140f9240747a094.bin"
);
const MUTATIONS: &str = include_str!("../fixtures/corrupt/mutations.json");

#[derive(Deserialize)]
struct Mutations {
    segments: Vec<Mutation>,
    blobs: Vec<Mutation>,
}

#[derive(Deserialize)]
struct Mutation {
    name: String,
    what: String,
    /// Places and what stands there.
    bytes: Vec<(usize, u8)>,
    len: usize,
    #[serde(default)]
    tail: Vec<u8>,
    /// Whether the peer refused to open it; otherwise it served what it could read.
    #[serde(default)]
    refused: bool,
}

impl Mutation {
    fn apply(&self, base: &[u8]) -> Vec<u8> {
        let mut bytes = base.to_vec();
        for (at, byte) in &self.bytes {
            bytes[*at] = *byte;
        }
        bytes.extend_from_slice(&self.tail);
        bytes.truncate(self.len);
        bytes
    }

    /// The section that the mutation's name tells.
    fn section(&self) -> Section {
        let name = self.name.split_once('-').unwrap().1;
        [
            ("header", Section::Header),
            ("directory", Section::BlockDirectory),
            ("offsets", Section::RecordOffsets),
            ("trace", Section::TraceIndex),
            ("attributes", Section::AttributeIndex),
            ("content", Section::ContentIndex),
            ("truncated", Section::ContentIndex),
            ("trailing", Section::ContentIndex),
            ("block", Section::Records),
        ]
        .into_iter()
        .find(|(front, _)| name.starts_with(front))
        .unwrap()
        .1
    }
}

fn mutations() -> Mutations {
    serde_json::from_str(MUTATIONS).unwrap()
}

fn answers(segment: &Segment) -> Result<(usize, usize), SegmentError> {
    let records = segment.scan().collect::<Result<Vec<_>, _>>()?;
    let mut by_trace = 0;
    for (id, _) in segment.traces() {
        by_trace += segment.trace(id)?.len();
    }
    Ok((records.len(), by_trace))
}

#[test]
fn the_sound_base_of_the_mutations_opens_and_answers() {
    let lazy = MemoryFile::new(BASE).open().unwrap();
    assert_eq!(answers(&lazy).unwrap(), (61, 61));
    assert_eq!(
        answers(&Segment::from_bytes(BASE.to_vec()).unwrap()).unwrap(),
        (61, 61)
    );
}

#[test]
fn every_mutation_of_a_peers_segment_is_refused_by_name_or_surfaces_where_it_is_read() {
    let mutations = mutations().segments;
    assert_eq!(mutations.len(), 26);
    for mutation in mutations {
        let bytes = mutation.apply(BASE);
        assert_ne!(bytes, BASE, "{}", mutation.name);
        let told = |error: &SegmentError| {
            let expected = mutation.section();
            let is_named = match error {
                SegmentError::Corrupt { section, .. } => {
                    // A range that the records contradict may be told as either.
                    *section == expected || mutation.name == "09-header-max-time-fixed"
                }
                SegmentError::Unsupported { section, .. } => *section == expected,
                SegmentError::NotASegment => mutation.name == "01-header-magic",
                SegmentError::Version { found: 9, .. } => mutation.name == "02-header-version",
                _ => false,
            };
            assert!(is_named, "{} ({}): {error}", mutation.name, mutation.what);
        };
        told(&Segment::from_bytes(bytes.clone()).unwrap_err());
        match MemoryFile::new(&bytes).open() {
            Err(error) => {
                assert!(mutation.refused, "{}", mutation.name);
                told(&error);
            }
            Ok(segment) => {
                assert!(!mutation.refused, "{} ({})", mutation.name, mutation.what);
                told(&answers(&segment).unwrap_err());
                // What does not touch the damaged block is served.
                let sound = MemoryFile::new(BASE).open().unwrap();
                let mut served = 0;
                for (id, _) in sound.traces() {
                    if let Ok(found) = segment.trace(id) {
                        assert_eq!(found, sound.trace(id).unwrap());
                        served += 1;
                    }
                }
                assert!(served > 0);
            }
        }
    }
}

#[test]
fn every_mutation_of_a_peers_blob_is_refused() {
    let address: ContentAddress =
        "sha256/cd04b2d9e1d17d4e6eb7bb0327974b1b417027b033e02fa4d140f9240747a094"
            .parse()
            .unwrap();
    assert!(payload::decode_as(BLOB, address).is_ok());
    let mutations = mutations().blobs;
    assert_eq!(mutations.len(), 2);
    for mutation in mutations {
        let bytes = mutation.apply(BLOB);
        assert!(
            payload::decode(&bytes).is_err(),
            "{} ({})",
            mutation.name,
            mutation.what
        );
    }
}
