//! The front of a sidecar: which segment it belongs to, and when its spans end.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use durable::Field;
use durable::checksum::fnv1a_64;

use super::RollupError;
use super::layout::{FORMAT_VERSION, MAGIC, SCHEMA_VERSION, prologue};
use crate::llm::Pricing;
use crate::segment::Header;

/// What a sidecar was made from. It is believed only where all of this is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Length of the segment file in bytes.
    pub segment_len: u64,
    /// Number of the segment's records.
    pub record_count: u64,
    /// Smallest timestamp in the segment's header.
    pub min_timestamp: u64,
    /// Largest timestamp in the segment's header.
    pub max_timestamp: u64,
    /// [`Pricing::fingerprint`] of the price list.
    pub pricing_fingerprint: u64,
}

impl Binding {
    /// The binding to a segment file of `segment_len` bytes, and to a price list.
    pub fn of(header: &Header, segment_len: u64, pricing: &Pricing) -> Self {
        Self {
            segment_len,
            record_count: header.record_count,
            min_timestamp: header.min_timestamp,
            max_timestamp: header.max_timestamp,
            pricing_fingerprint: pricing.fingerprint(),
        }
    }

    fn words(&self) -> [(Field, u64); 5] {
        [
            (prologue::SEGMENT_LEN, self.segment_len),
            (prologue::RECORD_COUNT, self.record_count),
            (prologue::MIN_TIMESTAMP, self.min_timestamp),
            (prologue::MAX_TIMESTAMP, self.max_timestamp),
            (prologue::PRICING_FINGERPRINT, self.pricing_fingerprint),
        ]
    }
}

/// What the first [`prologue::LEN`] bytes of a sidecar tell: enough to see whether all spans of a segment have expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prologue {
    /// Smallest end of a span in nanoseconds since the Unix epoch; 2^64 - 1 without spans.
    pub min_end_ns: u64,
    /// Largest end of a span in nanoseconds since the Unix epoch; 0 without spans.
    pub max_end_ns: u64,
}

impl Prologue {
    /// Reads the front of a sidecar. What follows in `bytes` is neither needed nor looked at.
    ///
    /// # Errors
    /// [`RollupError::Length`], [`RollupError::Magic`], [`RollupError::Word`], [`RollupError::Checksum`] or
    /// [`RollupError::Binding`]; each means that the sidecar has to be made again.
    pub fn decode(bytes: &[u8], binding: &Binding) -> Result<Self, RollupError> {
        if prologue::MAGIC.of(bytes)? != MAGIC {
            return Err(RollupError::Magic);
        }
        for (field, found, expected) in [
            (
                prologue::VERSION,
                u64::from(prologue::VERSION.u16(bytes)?),
                u64::from(FORMAT_VERSION),
            ),
            (
                prologue::RESERVED,
                u64::from(prologue::RESERVED.u16(bytes)?),
                0,
            ),
            (
                prologue::SCHEMA_VERSION,
                u64::from(prologue::SCHEMA_VERSION.u32(bytes)?),
                u64::from(SCHEMA_VERSION),
            ),
        ] {
            if found != expected {
                let field = field.name;
                return Err(RollupError::Word {
                    field,
                    found,
                    expected,
                });
            }
        }
        let stored = prologue::CHECKSUM.u64(bytes)?;
        let len = prologue::CHECKSUM.offset;
        check_sum(bytes.get(..len).unwrap_or_default(), stored)?;
        for (field, expected) in binding.words() {
            let found = field.u64(bytes)?;
            if found != expected {
                let field = field.name;
                return Err(RollupError::Binding {
                    field,
                    found,
                    expected,
                });
            }
        }
        Ok(Self {
            min_end_ns: prologue::MIN_END.u64(bytes)?,
            max_end_ns: prologue::MAX_END.u64(bytes)?,
        })
    }

    /// The bytes, with their checksum.
    pub(super) fn encode(self, binding: &Binding) -> [u8; prologue::LEN] {
        let mut bytes = [0; prologue::LEN];
        let mut put = |field: Field, value: &[u8]| {
            let written = field.put(&mut bytes, value);
            debug_assert!(written.is_ok(), "{}", field.name);
        };
        put(prologue::MAGIC, &MAGIC);
        put(prologue::VERSION, &FORMAT_VERSION.to_le_bytes());
        put(prologue::SCHEMA_VERSION, &SCHEMA_VERSION.to_le_bytes());
        for (field, word) in binding.words() {
            put(field, &word.to_le_bytes());
        }
        put(prologue::MIN_END, &self.min_end_ns.to_le_bytes());
        put(prologue::MAX_END, &self.max_end_ns.to_le_bytes());
        let (front, checksum) = bytes.split_at_mut(prologue::CHECKSUM.offset);
        checksum.copy_from_slice(&fnv1a_64(front).to_le_bytes());
        bytes
    }
}

/// Compares the checksum of the first bytes of a file with what is stored.
pub(super) fn check_sum(bytes: &[u8], stored: u64) -> Result<(), RollupError> {
    let computed = fnv1a_64(bytes);
    if computed == stored {
        return Ok(());
    }
    Err(RollupError::Checksum {
        len: bytes.len(),
        stored,
        computed,
    })
}
