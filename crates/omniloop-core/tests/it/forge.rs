//! A second encoder of `.omni` files, written from the format's text alone.
//!
//! It shares no code with the writer (only CRC-32 and SHA-256, which have published check values),
//! so that bytes which both give alike are bytes that a third party would give. And it writes what
//! the writer refuses to: unknown kinds, forged lengths, ticks that go back, with a chain that fits.

use durable::checksum::crc32;
use durable::digest::{Digest, sha256};

pub(crate) const SEGMENTED: u32 = 1;
pub(crate) const CHAINED: u32 = 2;
pub(crate) const CHAIN: u8 = 6;
pub(crate) const HEADER_LEN: usize = 32;
pub(crate) const RECORD_LEN: usize = 36;

/// A record as its author wants it; [`Rec::new`] fills in what an honest one would have.
#[derive(Clone, Debug)]
pub(crate) struct Rec {
    pub(crate) len: u32,
    pub(crate) kind: u8,
    pub(crate) padding: [u8; 3],
    pub(crate) tick: u64,
    pub(crate) mono: u64,
    pub(crate) wall: u64,
    pub(crate) crc: u32,
    pub(crate) payload: Vec<u8>,
}

impl Rec {
    pub(crate) fn new(kind: u8, tick: u64, payload: &[u8]) -> Self {
        Self {
            len: u32::try_from(payload.len()).unwrap(),
            kind,
            padding: [0; 3],
            tick,
            mono: tick * 1_000,
            wall: tick * 1_000 + 5,
            crc: crc32(payload),
            payload: payload.to_vec(),
        }
    }

    pub(crate) fn at(mut self, mono: u64, wall: u64) -> Self {
        (self.mono, self.wall) = (mono, wall);
        self
    }

    fn header(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.len.to_le_bytes());
        bytes.push(self.kind);
        bytes.extend(self.padding);
        bytes.extend(self.tick.to_le_bytes());
        bytes.extend(self.mono.to_le_bytes());
        bytes.extend(self.wall.to_le_bytes());
        bytes.extend(self.crc.to_le_bytes());
        assert_eq!(bytes.len(), RECORD_LEN);
        bytes
    }
}

/// A file in the making.
#[derive(Clone, Debug)]
pub(crate) struct Forge {
    pub(crate) bytes: Vec<u8>,
    pub(crate) chain: Digest,
    /// Tick and offset of every record.
    pub(crate) places: Vec<(u64, u64)>,
    last: (u64, u64, u64),
}

impl Forge {
    pub(crate) fn new(flags: u32, created: u64, segment_index: u64) -> Self {
        let mut bytes = b"OMNILOG1".to_vec();
        bytes.extend(2u32.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(created.to_le_bytes());
        bytes.extend(segment_index.to_le_bytes());
        assert_eq!(bytes.len(), HEADER_LEN);
        let chain = sha256(&[b"omniloop-chain-v1-genesis", bytes.as_slice()].concat());
        Self {
            bytes,
            chain,
            places: Vec::new(),
            last: (0, 0, created),
        }
    }

    pub(crate) fn push(&mut self, rec: &Rec) -> &mut Self {
        self.places.push((rec.tick, self.bytes.len() as u64));
        let header = rec.header();
        let step: &[u8] = b"omniloop-chain-v1-step";
        self.chain = sha256(&[step, &self.chain, &header, &rec.payload].concat());
        self.bytes.extend(header);
        self.bytes.extend(&rec.payload);
        self.last = (rec.tick, rec.mono, rec.wall);
        self
    }

    /// A telemetry record of the next tick.
    pub(crate) fn telemetry(&mut self) -> &mut Self {
        let tick = self.last.0 + 1;
        self.push(&Rec::new(0, tick, format!("{{\"x\":{tick}}}").as_bytes()))
    }

    pub(crate) fn checkpoint(&mut self) -> &mut Self {
        let (tick, mono, wall) = self.last;
        let value = self.chain;
        self.push(&Rec::new(CHAIN, tick, &value).at(mono, wall))
    }

    /// Index and trailer over every 64th record.
    pub(crate) fn seal(&self) -> Vec<u8> {
        let entries: Vec<_> = self.places.iter().step_by(64).copied().collect();
        self.seal_with(&entries, self.bytes.len() as u64, self.places.len() as u64)
    }

    pub(crate) fn seal_with(
        &self,
        entries: &[(u64, u64)],
        index_offset: u64,
        record_count: u64,
    ) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes.extend(b"OMNIIDX1");
        bytes.extend((entries.len() as u64).to_le_bytes());
        for (tick, offset) in entries {
            bytes.extend(tick.to_le_bytes());
            bytes.extend(offset.to_le_bytes());
        }
        bytes.extend(b"OMNIEND1");
        bytes.extend(index_offset.to_le_bytes());
        bytes.extend(record_count.to_le_bytes());
        bytes
    }
}
