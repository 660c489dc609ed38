//! Compression, the wrapper of a metadata section, and the varints inside its body. No files.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::borrow::Cow;

use durable::checksum::crc32;
use durable::varint;

use super::error::{Fault, Result, Section, SegmentError};
use super::layout::{BODY_LEN_MAX, WRAPPER_FLAG_LZ4, wrapper};

/// How the record blocks of a segment are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Codec {
    /// Nothing is compressed, the metadata sections neither.
    Raw,
    /// LZ4 block format for the record blocks, and for the metadata sections but the content index.
    Lz4,
    /// Zstandard for the record blocks; the metadata sections as with [`Codec::Lz4`].
    Zstd,
}

/// LZ4 turns a byte into at most this many, give or take [`LZ4_EXPANSION_SLACK`] in all.
const LZ4_EXPANSION: u64 = 256;
const LZ4_EXPANSION_SLACK: u64 = 64;
/// A Zstandard block takes 4 bytes at least and holds at most 128 KiB.
const ZSTD_EXPANSION: u64 = 32 * 1024;
const ZSTD_EXPANSION_SLACK: u64 = 128 * 1024;
/// The longest that liblz4 takes.
const LIBLZ4_LEN_MAX: usize = 0x7e00_0000;
/// Level of the Zstandard encoder: its output is format bytes.
pub(crate) const ZSTD_LEVEL: i32 = 9;

impl Codec {
    /// The codec's number in the header.
    pub fn id(self) -> u32 {
        match self {
            Self::Raw => 0,
            Self::Lz4 => 1,
            Self::Zstd => 2,
        }
    }

    /// The codec of a number in the header.
    ///
    /// # Errors
    /// [`SegmentError::Unsupported`] for a number that this build has no decoder for.
    pub fn from_id(id: u32) -> Result<Self> {
        match id {
            0 => Ok(Self::Raw),
            1 => Ok(Self::Lz4),
            2 => Ok(Self::Zstd),
            _ => Err(SegmentError::Unsupported {
                section: Section::Header,
                what: "codec id",
                found: u64::from(id),
            }),
        }
    }

    /// The name that people use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }

    /// The codec of the metadata sections of a segment whose blocks have this one.
    pub(crate) fn of_sections(self) -> Self {
        match self {
            Self::Raw => Self::Raw,
            Self::Lz4 | Self::Zstd => Self::Lz4,
        }
    }

    /// The longest that `stored_len` bytes can become.
    pub(crate) fn expanded_len_max(self, stored_len: u64) -> u64 {
        match self {
            Self::Raw => stored_len,
            Self::Lz4 => stored_len
                .saturating_mul(LZ4_EXPANSION)
                .saturating_add(LZ4_EXPANSION_SLACK),
            Self::Zstd => stored_len
                .saturating_mul(ZSTD_EXPANSION)
                .saturating_add(ZSTD_EXPANSION_SLACK),
        }
    }

    /// Refuses a block whose own bytes say that it decompresses to another length than `len`, before memory
    /// is taken for that. Only Zstandard says so; the lengths of the others are bounded well enough.
    pub(crate) fn check_declared(self, stored: &[u8], len: u64) -> Result<(), Fault> {
        let found = match self {
            Self::Raw | Self::Lz4 => return Ok(()),
            Self::Zstd => zstd::zstd_safe::get_frame_content_size(stored),
        };
        match found {
            Ok(Some(found)) if found == len => Ok(()),
            _ => Err(Fault::Decompress { declared: len }),
        }
    }

    /// Compresses `bytes`; `None` when that does not make them strictly shorter.
    pub(crate) fn compress(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let packed = match self {
            Self::Raw => return None,
            Self::Lz4 => lz4_flex::block::compress(bytes),
            // The encoder fails only when it finds no memory; the bytes are then stored as they are.
            Self::Zstd => zstd::bulk::compress(bytes, ZSTD_LEVEL).ok()?,
        };
        (packed.len() < bytes.len()).then_some(packed)
    }

    /// Decompresses a block of records into `out`, which has the length that the result must have.
    ///
    /// LZ4 goes through liblz4, which takes half the time of the decoder that [`Self::decompress_into`] uses.
    pub(crate) fn decompress_block(self, stored: &[u8], out: &mut [u8]) -> Result<(), Fault> {
        // The lengths of a block are below 2^31, which is what liblz4 counts with.
        let fits = stored.len().max(out.len()) <= LIBLZ4_LEN_MAX;
        if self == Self::Lz4 && fits && lzzzz::lz4::decompress(stored, out).ok() == Some(out.len())
        {
            return Ok(());
        }
        // What the one decoder refuses, the other one judges.
        self.decompress_into(stored, out)
    }

    /// Decompresses the front of a block that decompressed well before: as much as `out` is long. `None`
    /// when this codec cannot stop early.
    pub(crate) fn decompress_front(self, stored: &[u8], out: &mut [u8]) -> Option<()> {
        let fits = stored.len().max(out.len()) <= LIBLZ4_LEN_MAX;
        if self != Self::Lz4 || !fits {
            return None;
        }
        let wanted = out.len();
        let len = lzzzz::lz4::decompress_partial(stored, out, wanted).ok()?;
        (len == wanted).then_some(())
    }

    /// Decompresses `stored` into `out`, which has the length that the result must have.
    pub(crate) fn decompress_into(self, stored: &[u8], out: &mut [u8]) -> Result<(), Fault> {
        let declared = len_u64(out.len());
        let len = match self {
            Self::Raw => {
                if stored.len() == out.len() {
                    out.copy_from_slice(stored);
                }
                Some(stored.len())
            }
            Self::Lz4 => lz4_flex::block::decompress_into(stored, out).ok(),
            Self::Zstd => zstd::bulk::decompress_to_buffer(stored, out).ok(),
        };
        if len == Some(out.len()) {
            Ok(())
        } else {
            Err(Fault::Decompress { declared })
        }
    }
}

/// A length in memory as a stored integer. Lossless: no platform has wider lengths.
pub(crate) fn len_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// Puts `body` into the wrapper of a metadata section, LZ4-compressed when `codec` compresses at all
/// and that makes it strictly shorter.
pub fn wrap(body: &[u8], codec: Codec) -> Vec<u8> {
    let packed = codec.of_sections().compress(body);
    let (flags, stored) = match &packed {
        Some(packed) => (WRAPPER_FLAG_LZ4, packed.as_slice()),
        None => (0, body),
    };
    let mut section = vec![0; wrapper::LEN];
    let done = wrapper::FLAGS
        .put(&mut section, &flags.to_le_bytes())
        .and(wrapper::BODY_LEN.put(&mut section, &len_u64(body.len()).to_le_bytes()));
    section.extend_from_slice(stored);
    let crc = crc32(section.get(wrapper::FLAGS.offset..).unwrap_or_default());
    let done = done.and(wrapper::CRC32.put(&mut section, &crc.to_le_bytes()));
    debug_assert!(done.is_ok(), "the table gives the lengths");
    section
}

/// Takes the body out of the wrapper of `section`, which begins at byte `offset` of the file and whose
/// bytes are `stored`: checksum first, then flags, then lengths.
///
/// # Errors
/// [`SegmentError::Corrupt`] naming the section; [`SegmentError::Unsupported`] for an unknown flag.
pub fn unwrap(section: Section, offset: u64, stored: &[u8]) -> Result<Cow<'_, [u8]>> {
    let head = WrapperHead::decode(stored, len_u64(stored.len()))
        .map_err(|fault| SegmentError::corrupt(section, offset, fault))?;
    let body = stored.get(wrapper::LEN..).unwrap_or_default();
    let covered = stored.get(wrapper::FLAGS.offset..).unwrap_or_default();
    head.check(section, offset, crc32(covered))?;
    if !head.is_packed() {
        return Ok(Cow::Borrowed(body));
    }
    head.unpack(section, offset, body).map(Cow::Owned)
}

/// The fixed part of a wrapper.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WrapperHead {
    crc: u32,
    flags: u32,
    /// Length of the body before compression.
    pub(crate) body_len: u64,
    /// Length of the body as stored.
    stored_body_len: u64,
}

impl WrapperHead {
    /// Reads the wrapper of a section of `section_len` bytes.
    pub(crate) fn decode(head: &[u8], section_len: u64) -> Result<Self, Fault> {
        let cut_off = |_| Fault::CutOff {
            wanted: len_u64(wrapper::LEN),
            left: section_len,
        };
        Ok(Self {
            crc: wrapper::CRC32.u32(head).map_err(cut_off)?,
            flags: wrapper::FLAGS.u32(head).map_err(cut_off)?,
            body_len: wrapper::BODY_LEN.u64(head).map_err(cut_off)?,
            stored_body_len: section_len.saturating_sub(len_u64(wrapper::LEN)),
        })
    }

    /// True when the body is compressed.
    pub(crate) fn is_packed(self) -> bool {
        self.flags & WRAPPER_FLAG_LZ4 != 0
    }

    /// The compressed body `stored` of a wrapper that was judged before, as it was before compression.
    pub(crate) fn unpack(self, section: Section, offset: u64, stored: &[u8]) -> Result<Vec<u8>> {
        let len = usize::try_from(self.body_len).map_err(|_| SegmentError::Limit {
            what: section.as_str(),
            value: self.body_len,
            max: BODY_LEN_MAX,
        })?;
        let mut out = vec![0; len];
        Codec::Lz4
            .decompress_into(stored, &mut out)
            .map_err(|fault| SegmentError::corrupt(section, offset, fault))?;
        Ok(out)
    }

    /// Judges the wrapper, given the checksum of the bytes that it covers.
    pub(crate) fn check(self, section: Section, offset: u64, computed: u32) -> Result<()> {
        let corrupt = |fault| Err(SegmentError::corrupt(section, offset, fault));
        if self.crc != computed {
            return corrupt(Fault::Checksum {
                stored: self.crc,
                computed,
            });
        }
        if self.flags & !WRAPPER_FLAG_LZ4 != 0 {
            return Err(SegmentError::Unsupported {
                section,
                what: "wrapper flags",
                found: u64::from(self.flags),
            });
        }
        if !self.is_packed() {
            if self.body_len != self.stored_body_len {
                return corrupt(Fault::Word {
                    field: wrapper::BODY_LEN.name,
                    found: self.body_len,
                    expected: self.stored_body_len,
                });
            }
            return Ok(());
        }
        if section == Section::ContentIndex {
            return corrupt(Fault::MustBeRaw);
        }
        let max = Codec::Lz4.expanded_len_max(self.stored_body_len);
        if self.body_len > max {
            return corrupt(Fault::Bound {
                field: wrapper::BODY_LEN.name,
                found: self.body_len,
                max,
            });
        }
        Ok(())
    }
}

/// Appends a posting list: the count, the first offset, then the gap to each next one.
/// `offsets` are strictly ascending.
pub(crate) fn put_postings(offsets: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    varint::encode(len_u64(offsets.len()), out);
    let mut before = 0;
    for offset in offsets {
        varint::encode(offset.wrapping_sub(before), out);
        before = offset;
    }
}

/// Appends a length and the bytes.
pub(crate) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::encode(len_u64(bytes.len()), out);
    out.extend_from_slice(bytes);
}

/// Reads the uncompressed body of an index section. Faults carry the place in the body.
#[derive(Clone, Debug)]
pub(crate) struct BodyReader<'a> {
    body: &'a [u8],
    at: usize,
}

impl<'a> BodyReader<'a> {
    /// Reads `body` from byte `at`.
    pub(crate) fn new(body: &'a [u8], at: usize) -> Self {
        Self { body, at }
    }

    /// Bytes read so far.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.body.len().saturating_sub(self.at)
    }

    /// Takes `len` bytes.
    #[inline]
    pub(crate) fn bytes(&mut self, len: u64) -> Result<&'a [u8], Fault> {
        let taken = usize::try_from(len)
            .ok()
            .and_then(|len| self.at.checked_add(len))
            .and_then(|end| Some((self.body.get(self.at..end)?, end)));
        let Some((bytes, end)) = taken else {
            return Err(Fault::CutOff {
                wanted: len,
                left: len_u64(self.left()),
            });
        };
        self.at = end;
        Ok(bytes)
    }

    /// Takes a canonical varint.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Fault> {
        let rest = self.body.get(self.at..).unwrap_or_default();
        let quick = match rest.first_chunk() {
            Some(word) => quick_varint(u64::from_le_bytes(*word)),
            None => None,
        };
        match quick {
            Some((value, len)) => {
                self.at = self.at.saturating_add(len);
                Ok(value)
            }
            None => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Fault> {
        let mut cursor = durable::Cursor::new(self.body.get(self.at..).unwrap_or_default());
        let value = varint::decode(&mut cursor).map_err(|fault| Fault::Varint {
            at: len_u64(self.at),
            fault,
        })?;
        self.at = self.at.saturating_add(cursor.position());
        Ok(value)
    }

    /// Takes a length of at most the bytes that are left, and as many bytes.
    #[inline]
    pub(crate) fn prefixed(&mut self) -> Result<&'a [u8], Fault> {
        let len = self.varint()?;
        self.bytes(len)
    }

    /// Takes length-prefixed text.
    #[inline]
    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, Fault> {
        let bytes = self.prefixed()?;
        let at = len_u64(self.at.saturating_sub(bytes.len()));
        std::str::from_utf8(bytes).map_err(|_| Fault::Utf8 { field, at })
    }

    /// Takes a count of things that take `item_len_min` bytes each at least.
    pub(crate) fn count(&mut self, field: &'static str, item_len_min: u64) -> Result<u64, Fault> {
        let found = self.varint()?;
        let max = len_u64(self.left()).checked_div(item_len_min).unwrap_or(0);
        if found > max {
            return Err(Fault::Bound { field, found, max });
        }
        Ok(found)
    }

    /// Refuses bytes left over.
    pub(crate) fn finish(self) -> Result<(), Fault> {
        match self.left() {
            0 => Ok(()),
            left => Err(Fault::Trailing {
                at: len_u64(self.at),
                left: len_u64(left),
            }),
        }
    }

    /// Reads a posting list and checks it: its count against the records, its offsets ascending and
    /// inside them. Returns the count.
    pub(crate) fn check_postings(&mut self, bounds: PostingBounds) -> Result<u64, Fault> {
        let count = self.varint()?;
        let max = bounds.record_count.min(len_u64(self.left()));
        if count > max {
            return Err(Fault::Bound {
                field: "posting count",
                found: count,
                max,
            });
        }
        let Some(gaps) = count.checked_sub(1) else {
            return Ok(0);
        };
        let first = self.posting(None, bounds.logical_len)?;
        let rest = self.body.get(self.at..).unwrap_or_default();
        match sum_of_gaps(rest, gaps) {
            Some((sum, len)) if first.saturating_add(sum) < bounds.logical_len => {
                self.at = self.at.saturating_add(len);
            }
            // Long gaps, or a fault that must be named.
            _ => {
                let mut before = first;
                for _ in 0..gaps {
                    before = self.posting(Some(before), bounds.logical_len)?;
                }
            }
        }
        Ok(count)
    }

    /// Passes over a posting list that was checked before.
    pub(crate) fn skip_postings(&mut self) -> Result<(), Fault> {
        let count = self.varint()?;
        for _ in 0..count {
            self.varint()?;
        }
        Ok(())
    }

    /// Takes the posting that follows `before`.
    #[inline]
    pub(crate) fn posting(&mut self, before: Option<u64>, logical_len: u64) -> Result<u64, Fault> {
        let at = len_u64(self.at);
        let value = self.varint()?;
        let found = match before {
            None => value,
            Some(_) if value == 0 => return Err(Fault::ZeroGap { at }),
            Some(before) => before.saturating_add(value),
        };
        if found >= logical_len {
            return Err(Fault::OffsetBound {
                at,
                found,
                max: logical_len,
            });
        }
        Ok(found)
    }
}

/// The canonical varint at the low end of `word`, and its length; `None` when it is not canonical, or longer
/// than the word. Posting lists are most of what opening a segment reads.
#[inline]
fn quick_varint(word: u64) -> Option<(u64, usize)> {
    const STOP: u64 = 0x8080_8080_8080_8080;
    let last_bit = (!word & STOP).trailing_zeros();
    if last_bit == 7 {
        return Some((word & 0x7f, 1));
    }
    // The bytes up to and with the first one that does not go on.
    let used = word & u64::MAX.checked_shr(63u32.checked_sub(last_bit)?)?;
    if used.checked_shr(last_bit.saturating_sub(7))? == 0 {
        return None;
    }
    // Seven bits of each byte, moved together two by two.
    let used = used & !STOP;
    let pairs = (used & 0x007f_007f_007f_007f) | ((used & 0x7f00_7f00_7f00_7f00) >> 1);
    let fours = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    let value = (fours & 0x0fff_ffff) | ((fours & 0x0fff_ffff_0000_0000) >> 4);
    let len = usize::try_from(last_bit / 8).ok()?.saturating_add(1);
    Some((value, len))
}

/// The sum of `count` gaps at the front of `bytes`, and their length in bytes; `None` when one of them is
/// zero, not canonical or longer than four bytes, or the bytes end: then they have to be read one by one.
///
/// Most of opening a segment is this. Gaps are not worth to be told apart when only their sum counts: eight bytes are
/// taken at once, each by its place in its gap.
#[inline]
fn sum_of_gaps(bytes: &[u8], count: u64) -> Option<(u64, usize)> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const LOW_BITS: u64 = ONES * 0x7f;
    let mut left = count;
    let mut sum = 0u64;
    let mut faults = 0u64;
    let mut at = 0usize;
    // A 1 for what the next byte is: the first, second, third or fourth one of its gap.
    let mut next = [1u64, 0, 0, 0];
    for word in bytes.as_chunks::<8>().0 {
        // As long as the last gap cannot end in this word.
        if left <= 8 {
            break;
        }
        let word = u64::from_le_bytes(*word);
        let low = word & LOW_BITS;
        // In each byte a 1: for the last one of a gap, for the others, and by place in the gap.
        let stop = !(word >> 7) & ONES;
        let on = stop ^ ONES;
        let first = (stop << 8) | next[0];
        let second = ((first & on) << 8) | next[1];
        let third = ((second & on) << 8) | next[2];
        let fourth = ((third & on) << 8) | next[3];
        next = [stop, first & on, second & on, third & on].map(|place| place >> 56);
        // A fifth byte; or a last byte of zero, which is a gap of zero or an encoding that is longer than it needs to be.
        faults |= (fourth & on) | (!(low.wrapping_add(LOW_BITS) >> 7) & stop);
        let of = |place: u64| sum_of_bytes(low & (place << 8).wrapping_sub(place));
        sum = sum
            .saturating_add(of(first))
            .saturating_add(of(second) << 7)
            .saturating_add(of(third) << 14)
            .saturating_add(of(fourth) << 21);
        left = left.saturating_sub(sum_of_bytes(stop));
        at = at.saturating_add(8);
    }
    let mut place = next.iter().position(|next| *next != 0)?;
    for byte in bytes.get(at..)? {
        if left == 0 {
            break;
        }
        at = at.saturating_add(1);
        let low = u64::from(byte & 0x7f);
        sum = sum.saturating_add(low.checked_shl(*[0, 7, 14, 21].get(place)?)?);
        if *byte >= 0x80 {
            place = place.saturating_add(1);
        } else {
            faults |= u64::from(low == 0);
            left = left.saturating_sub(1);
            place = 0;
        }
    }
    (left == 0 && faults == 0).then_some((sum, at))
}

/// The sum of the eight bytes of a word.
#[inline]
fn sum_of_bytes(word: u64) -> u64 {
    const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
    let pairs = (word & EVEN).wrapping_add((word >> 8) & EVEN);
    pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48
}

/// What bounds the postings of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostingBounds {
    /// Records in the segment.
    pub(crate) record_count: u64,
    /// Length of all records before compression.
    pub(crate) logical_len: u64,
}

/// A posting list of an index that was checked when the segment was opened: logical offsets of
/// records, ascending. They are candidates, never answers.
#[derive(Clone, Debug)]
pub struct Postings<'a> {
    reader: BodyReader<'a>,
    left: u64,
    before: u64,
}

impl<'a> Postings<'a> {
    /// No postings.
    pub(crate) fn none() -> Self {
        Self {
            reader: BodyReader::new(&[], 0),
            left: 0,
            before: 0,
        }
    }

    /// The list that begins at byte `at` of a checked body.
    pub(crate) fn at(body: &'a [u8], at: usize) -> Self {
        let mut reader = BodyReader::new(body, at);
        let left = reader.varint().unwrap_or(0);
        Self {
            reader,
            left,
            before: 0,
        }
    }
}

impl Iterator for Postings<'_> {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        // The list was read once before; it cannot fail now.
        let gap = self.reader.varint().ok()?;
        self.before = self.before.saturating_add(gap);
        Some(self.before)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        (left, Some(left))
    }
}

impl ExactSizeIterator for Postings<'_> {}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "small numbers of the tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quick(bytes: &[u8]) -> Option<(u64, usize)> {
        quick_varint(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    proptest! {
        #[test]
        fn the_quick_varint_decoder_agrees_with_the_plain_one(bits in 0u32..64, value: u64, behind: [u8; 8]) {
            let mut bytes = Vec::new();
            varint::encode(value >> bits, &mut bytes);
            let len = bytes.len();
            bytes.extend_from_slice(&behind);
            let expected = (len <= 8).then_some((value >> bits, len));
            prop_assert_eq!(quick(&bytes), expected);
        }

        #[test]
        fn what_the_quick_varint_decoder_takes_is_canonical(bytes: [u8; 8]) {
            let mut cursor = durable::Cursor::new(&bytes);
            let plain = varint::decode(&mut cursor).ok();
            prop_assert_eq!(quick(&bytes), plain.map(|value| (value, cursor.position())));
        }

        #[test]
        fn quickly_summed_gaps_are_those_that_are_read_one_by_one(
            gaps in prop::collection::vec((0u32..30, any::<u32>()), 0..40),
            odd: [u8; 6],
        ) {
            let mut bytes = Vec::new();
            let mut offset = 0u64;
            let mut all_positive = true;
            for (bits, gap) in &gaps {
                let gap = u64::from(gap >> bits);
                all_positive &= gap > 0;
                offset += gap;
                varint::encode(gap, &mut bytes);
            }
            let len = bytes.len();
            bytes.extend_from_slice(&odd);
            let bounds = PostingBounds { record_count: 1 << 20, logical_len: u64::MAX };
            let mut list = Vec::new();
            varint::encode(len_u64(gaps.len() + 1), &mut list);
            list.push(7);
            list.extend_from_slice(&bytes);
            let mut reader = BodyReader::new(&list, 0);
            let checked = reader.check_postings(bounds);
            prop_assert_eq!(checked.is_ok(), all_positive);
            if let Some((sum, used)) = sum_of_gaps(&bytes, len_u64(gaps.len())) {
                prop_assert_eq!((sum, used), (offset, len));
                prop_assert!(all_positive);
            }
            if all_positive {
                prop_assert_eq!(Postings::at(&list, 0).last(), Some(7 + offset));
            }
        }

        #[test]
        fn whatever_gaps_are_summed_quickly_are_plain(bytes: [u8; 40], count in 0u64..24) {
            if let Some((sum, used)) = sum_of_gaps(&bytes, count) {
                let mut reader = BodyReader::new(&bytes, 0);
                let mut expected = 0;
                for _ in 0..count {
                    let gap = reader.varint();
                    prop_assert!(gap.as_ref().is_ok_and(|gap| *gap > 0), "{:?}", gap);
                    expected += gap.unwrap_or(0);
                }
                prop_assert_eq!((sum, used), (expected, reader.at()));
            }
        }

        #[test]
        fn a_section_comes_out_of_its_wrapper_as_it_went_in(body: Vec<u8>, repeat in 0usize..200) {
            let body = body.repeat(repeat);
            for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd] {
                let section = wrap(&body, codec);
                prop_assert!(section.len() <= body.len() + wrapper::LEN);
                prop_assert_eq!(&*unwrap(Section::TraceIndex, 0, &section).unwrap(), &body[..]);
            }
        }

        #[test]
        fn all_decoders_of_a_codec_agree(body: Vec<u8>, repeat in 1usize..200, cut: prop::sample::Index) {
            let body = body.repeat(repeat);
            for codec in [Codec::Lz4, Codec::Zstd] {
                let Some(stored) = codec.compress(&body) else { continue };
                let mut out = vec![0; body.len()];
                prop_assert!(codec.decompress_into(&stored, &mut out).is_ok());
                prop_assert_eq!(&out, &body);
                out.fill(0);
                prop_assert!(codec.decompress_block(&stored, &mut out).is_ok());
                prop_assert_eq!(&out, &body);
                let len = cut.index(body.len());
                let mut front = vec![0; len];
                match codec.decompress_front(&stored, &mut front) {
                    Some(()) => prop_assert_eq!(&front[..], &body[..len]),
                    None => prop_assert!(codec == Codec::Zstd || len == 0),
                }
            }
        }

        #[test]
        fn bytes_that_are_no_compressed_block_are_refused_alike(stored: Vec<u8>, len in 0usize..5000) {
            for codec in [Codec::Raw, Codec::Lz4, Codec::Zstd] {
                let (mut plain, mut block) = (vec![0; len], vec![0; len]);
                let expected = codec.decompress_into(&stored, &mut plain);
                prop_assert_eq!(codec.decompress_block(&stored, &mut block), expected.clone());
                if expected.is_ok() {
                    prop_assert_eq!(plain, block);
                }
            }
        }
    }
}
