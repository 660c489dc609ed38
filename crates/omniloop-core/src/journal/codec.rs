//! Structures to bytes and back. No files.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use durable::Short;

use super::layout::{
    FILE_MAGIC, FLAG_CHAINED, FLAG_SEGMENTED, FORMAT_VERSION, INDEX_EVERY, INDEX_MAGIC,
    TRAILER_MAGIC, file_header, index_entry, index_header, record_header, trailer,
};

/// The file header, decoded. Magic and version are implied: see [`file_header`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// Flag bits, the unknown ones included.
    pub flags: u32,
    /// Unix nanoseconds at which the file was created.
    pub created_wall_ns: u64,
    /// Ordinal within a rotated set.
    pub segment_index: u64,
}

impl FileHeader {
    /// True when the file belongs to a rotated set.
    pub fn is_segmented(&self) -> bool {
        self.flags & FLAG_SEGMENTED != 0
    }

    /// True when the header claims a hash chain.
    pub fn is_chained(&self) -> bool {
        self.flags & FLAG_CHAINED != 0
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; file_header::LEN] {
        let mut bytes = [0; file_header::LEN];
        let done = file_header::MAGIC
            .put(&mut bytes, &FILE_MAGIC)
            .and(file_header::VERSION.put(&mut bytes, &FORMAT_VERSION.to_le_bytes()))
            .and(file_header::FLAGS.put(&mut bytes, &self.flags.to_le_bytes()))
            .and(file_header::CREATED_WALL_NS.put(&mut bytes, &self.created_wall_ns.to_le_bytes()))
            .and(file_header::SEGMENT_INDEX.put(&mut bytes, &self.segment_index.to_le_bytes()));
        debug_assert!(done.is_ok(), "the table gives the lengths");
        bytes
    }

    /// Decodes flags, time and ordinal; the caller has looked at magic and version.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Short> {
        Ok(Self {
            flags: file_header::FLAGS.u32(bytes)?,
            created_wall_ns: file_header::CREATED_WALL_NS.u64(bytes)?,
            segment_index: file_header::SEGMENT_INDEX.u64(bytes)?,
        })
    }
}

/// The header of one record, decoded but not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Length of the payload in bytes.
    pub payload_len: u32,
    /// Code of the kind, known or not.
    pub kind: u8,
    /// Three bytes that should be zero.
    pub padding: [u8; 3],
    /// Frame counter.
    pub tick: u64,
    /// Nanoseconds since the journal was created.
    pub mono_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub wall_ns: u64,
    /// CRC-32 of the payload.
    pub crc32: u32,
}

impl RecordHeader {
    /// The header's bytes.
    #[inline]
    pub fn encode(&self) -> [u8; record_header::LEN] {
        let mut bytes = [0; record_header::LEN];
        let done = record_header::PAYLOAD_LEN
            .put(&mut bytes, &self.payload_len.to_le_bytes())
            .and(record_header::KIND.put(&mut bytes, &[self.kind]))
            .and(record_header::PADDING.put(&mut bytes, &self.padding))
            .and(record_header::TICK.put(&mut bytes, &self.tick.to_le_bytes()))
            .and(record_header::MONO_NS.put(&mut bytes, &self.mono_ns.to_le_bytes()))
            .and(record_header::WALL_NS.put(&mut bytes, &self.wall_ns.to_le_bytes()))
            .and(record_header::CRC32.put(&mut bytes, &self.crc32.to_le_bytes()));
        debug_assert!(done.is_ok(), "the table gives the lengths");
        bytes
    }

    /// Decodes the 36 bytes of a header.
    ///
    /// # Errors
    /// [`Short`] when `bytes` has fewer.
    #[inline]
    pub fn decode(bytes: &[u8]) -> Result<Self, Short> {
        let padding = record_header::PADDING.of(bytes)?;
        Ok(Self {
            payload_len: record_header::PAYLOAD_LEN.u32(bytes)?,
            kind: record_header::KIND.u8(bytes)?,
            padding: padding.first_chunk().copied().unwrap_or_default(),
            tick: record_header::TICK.u64(bytes)?,
            mono_ns: record_header::MONO_NS.u64(bytes)?,
            wall_ns: record_header::WALL_NS.u64(bytes)?,
            crc32: record_header::CRC32.u32(bytes)?,
        })
    }

    /// Length of header and payload together.
    #[inline]
    pub fn record_len(&self) -> u64 {
        u64::from(self.payload_len).saturating_add(RECORD_HEADER_LEN)
    }
}

/// Length of a record header, as an offset.
pub(crate) const RECORD_HEADER_LEN: u64 = 36;
/// Length of the file header, as an offset.
pub(crate) const FILE_HEADER_LEN: u64 = 32;
const _: () = assert!(record_header::LEN == 36 && file_header::LEN == 32);

/// One entry of the seek index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub(crate) tick: u64,
    pub(crate) offset: u64,
}

/// Index and trailer: all that follows the records of a sealed file.
pub(crate) fn encode_seal(entries: &[IndexEntry], index_offset: u64, record_count: u64) -> Vec<u8> {
    let entries_len = entries.len().saturating_mul(index_entry::LEN);
    let fixed_len = index_header::LEN.saturating_add(trailer::LEN);
    let mut bytes = Vec::with_capacity(entries_len.saturating_add(fixed_len));
    bytes.extend_from_slice(&INDEX_MAGIC);
    let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
    bytes.extend_from_slice(&count.to_le_bytes());
    for entry in entries {
        bytes.extend_from_slice(&entry.tick.to_le_bytes());
        bytes.extend_from_slice(&entry.offset.to_le_bytes());
    }
    bytes.extend_from_slice(&TRAILER_MAGIC);
    bytes.extend_from_slice(&index_offset.to_le_bytes());
    bytes.extend_from_slice(&record_count.to_le_bytes());
    bytes
}

/// The trailer, decoded; `None` when the bytes are not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) index_offset: u64,
    pub(crate) record_count: u64,
}

impl Trailer {
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if trailer::MAGIC.of(bytes).ok()? != TRAILER_MAGIC {
            return None;
        }
        Some(Self {
            index_offset: trailer::INDEX_OFFSET.u64(bytes).ok()?,
            record_count: trailer::RECORD_COUNT.u64(bytes).ok()?,
        })
    }

    /// How many index entries a file of `file_len` bytes with this trailer has; `None` when the
    /// trailer does not fit the file.
    pub(crate) fn entry_count(&self, file_len: u64) -> Option<u64> {
        // Each record has a header, so that the records bound the index that is read for them.
        let records_len = self.index_offset.checked_sub(FILE_HEADER_LEN)?;
        if self.record_count > records_len.checked_div(RECORD_HEADER_LEN)? {
            return None;
        }
        let fixed_len = u64::try_from(index_header::LEN.checked_add(trailer::LEN)?).ok()?;
        let entry_len = u64::try_from(index_entry::LEN).ok()?;
        let entries_len = file_len
            .checked_sub(self.index_offset)?
            .checked_sub(fixed_len)?;
        let count = entries_len.checked_div(entry_len)?;
        let whole = count.checked_mul(entry_len)? == entries_len;
        (whole && count == self.record_count.div_ceil(INDEX_EVERY)).then_some(count)
    }
}

pub(crate) fn decode_entry(bytes: &[u8]) -> Option<IndexEntry> {
    Some(IndexEntry {
        tick: index_entry::TICK.u64(bytes).ok()?,
        offset: index_entry::OFFSET.u64(bytes).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_decode_to_what_was_encoded() {
        let file = FileHeader {
            flags: 0xffff_0003,
            created_wall_ns: 5,
            segment_index: u64::MAX,
        };
        assert_eq!(FileHeader::decode(&file.encode()), Ok(file));
        let record = RecordHeader {
            payload_len: u32::MAX,
            kind: 8,
            padding: [1, 2, 3],
            tick: 4,
            mono_ns: 5,
            wall_ns: u64::MAX,
            crc32: 7,
        };
        assert_eq!(RecordHeader::decode(&record.encode()), Ok(record));
        assert!(RecordHeader::decode(&record.encode()[..35]).is_err());
        assert_eq!(record.record_len(), u64::from(u32::MAX) + 36);
    }

    #[test]
    fn a_trailer_that_does_not_fit_the_file_has_no_entry_count() {
        let sealed = encode_seal(
            &[IndexEntry {
                tick: 1,
                offset: 32,
            }],
            1000,
            5,
        );
        assert_eq!(sealed.len(), 16 + 16 + 24);
        let trailer = Trailer::decode(&sealed[32..]).unwrap();
        assert_eq!(
            trailer,
            Trailer {
                index_offset: 1000,
                record_count: 5
            }
        );
        assert_eq!(trailer.entry_count(1056), Some(1));
        assert_eq!(trailer.entry_count(1057), None);
        assert_eq!(trailer.entry_count(10), None);
        assert_eq!(
            Trailer {
                record_count: 65,
                ..trailer
            }
            .entry_count(1056),
            None
        );
        assert_eq!(
            Trailer {
                index_offset: 31,
                ..trailer
            }
            .entry_count(87),
            None
        );
        assert_eq!(Trailer::decode(&sealed[31..]), None);
    }
}
