//! The two ways to open a segment, which prove the same.

use std::path::Path;

use durable::checksum::Crc32;
use durable::{Fs, FsFile};

use super::Segment;
use super::cache::{BLOCK_CACHE_LEN, BlockCache, Owner};
use super::codec::{PostingBounds, WrapperHead, len_u64, unwrap};
use super::directory;
use super::error::{Fault, Result, Section, SegmentError};
use super::header::Header;
use super::index::attribute::AttributeIndex;
use super::index::content::ContentIndex;
use super::index::offsets::RecordOffsets;
use super::index::trace::TraceIndex;
use super::layout::{BLOCK_LEN_TARGET, BODY_LEN_MAX, header, wrapper};
use super::read::Reader;
use super::scratch;
use super::source::Source;

impl Segment {
    /// Opens a segment that is wholly in memory, and decodes every block and every record of it: for
    /// checking a file before it replaces another, and for tests.
    ///
    /// # Errors
    /// As [`Segment::open`]; damage of any record is found here.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self> {
        let cache = BlockCache::new(BLOCK_CACHE_LEN);
        let segment = Self::open_source(Source::Bytes(bytes.into()), cache)?;
        segment.check_every_record()?;
        Ok(segment)
    }

    /// Opens the segment at `path`. Kept in memory are the header, the block directory, the record
    /// offsets, the trace and the attribute index, and of the content index the summary and the page
    /// table; records and content rows are read by range when a query needs them.
    ///
    /// Header and metadata sections are checked whole, and the declared range of timestamps is compared
    /// with the first and the last record. A damaged block in between is found by the query that reads it.
    ///
    /// # Errors
    /// [`SegmentError::NotASegment`], [`SegmentError::Version`] and [`SegmentError::Unsupported`] for what
    /// another decoder is needed for; [`SegmentError::Corrupt`] naming the damaged section;
    /// [`SegmentError::Io`].
    pub fn open(fs: &dyn Fs, path: &Path) -> Result<Self> {
        Self::open_with(fs, path, &BlockCache::new(BLOCK_CACHE_LEN))
    }

    /// [`Segment::open`], with the blocks that it keeps in a cache that may be that of other segments too.
    ///
    /// # Errors
    /// As [`Segment::open`].
    pub fn open_with(fs: &dyn Fs, path: &Path, cache: &BlockCache) -> Result<Self> {
        let file = fs.open(path).map_err(|source| SegmentError::Io {
            op: "open",
            path: path.to_owned(),
            source,
        })?;
        Self::open_file_with(file, path, cache.clone())
    }

    /// Opens a segment that is an open file already; `path` is what errors call it.
    ///
    /// # Errors
    /// As [`Segment::open`].
    pub fn open_file(file: Box<dyn FsFile>, path: &Path) -> Result<Self> {
        Self::open_file_with(file, path, BlockCache::new(BLOCK_CACHE_LEN))
    }

    fn open_file_with(file: Box<dyn FsFile>, path: &Path, cache: BlockCache) -> Result<Self> {
        let len = file.len().map_err(|source| SegmentError::Io {
            op: "ask the length of",
            path: path.to_owned(),
            source,
        })?;
        let path = path.to_owned();
        Self::open_source(Source::File { file, path, len }, cache)
    }

    fn open_source(source: Source, cache: BlockCache) -> Result<Self> {
        let file_len = source.len();
        let head = 0..file_len.min(len_u64(header::LEN));
        let header = scratch::with_stored(|buffer| {
            Header::decode(source.read(Section::Header, head, buffer)?, file_len)
        })?;
        let bounds = PostingBounds {
            record_count: header.record_count,
            logical_len: header.logical_len,
        };
        let [_, _, directory, offsets, traces, attributes, content] = header.sections(file_len);
        let directory_body = body_of(&source, &directory)?;
        let mut body_lens = [len_u64(directory_body.len()), 0, 0, 0, 0];
        let [_, offsets_len, traces_len, attributes_len, content_len] = &mut body_lens;
        let offsets = decode(&source, &offsets, |body| {
            *offsets_len = len_u64(body.len());
            RecordOffsets::decode(&body, bounds)
        })?;
        let blocks = directory::decode(&directory_body, &header, &offsets)
            .map_err(|fault| SegmentError::corrupt(directory.0, directory.1.start, fault))?;
        let traces = decode(&source, &traces, |body| {
            *traces_len = len_u64(body.len());
            TraceIndex::decode(body, bounds)
        })?;
        let attributes = decode(&source, &attributes, |body| {
            *attributes_len = len_u64(body.len());
            AttributeIndex::decode(body, bounds)
        })?;
        let (section, range) = content;
        let content = scratch::with_stored(|buffer| {
            let stored = source.read(section, range.clone(), buffer)?;
            let body = unwrap(section, range.start, stored)?;
            *content_len = len_u64(body.len());
            ContentIndex::decode(&body, header.record_count, range.start)
        })?;
        let usual = blocks.iter().map(|block| block.logical_len);
        let usual = usual.filter(|len| *len <= BLOCK_LEN_TARGET).max();
        let segment = Self {
            usual_block_len: usize::try_from(usual.unwrap_or(0)).unwrap_or(0),
            body_lens,
            header,
            source,
            offsets,
            blocks,
            traces,
            attributes,
            content,
            cache,
            owner: Owner::new(),
        };
        segment.check_bounds()?;
        Ok(segment)
    }

    /// The declared range of timestamps is that of the directory, and then that of the records: the
    /// directory could have been changed together with the header. Decodes the first and the last block.
    fn check_bounds(&self) -> Result<()> {
        let range = |field: durable::Field, declared, found| {
            if declared == found {
                return Ok(());
            }
            let field = field.name;
            Err(SegmentError::corrupt(
                Section::Header,
                0,
                Fault::Range {
                    field,
                    declared,
                    found,
                },
            ))
        };
        let (Some(first), Some(last)) = (self.blocks.first(), self.blocks.last()) else {
            return Ok(());
        };
        let Header {
            min_timestamp: min,
            max_timestamp: max,
            ..
        } = self.header;
        range(header::MIN_TIMESTAMP, min, first.min_timestamp)?;
        if max < last.min_timestamp {
            return range(header::MAX_TIMESTAMP, max, last.min_timestamp);
        }
        let mut reader = Reader::passing(self);
        range(header::MIN_TIMESTAMP, min, reader.timestamp(0)?)?;
        let last = self.record_count().saturating_sub(1);
        range(header::MAX_TIMESTAMP, max, reader.timestamp(last)?)
    }

    /// Decodes every record; their timestamps never decrease.
    fn check_every_record(&self) -> Result<()> {
        let mut reader = Reader::passing(self);
        let mut before = 0;
        for ordinal in 0..self.record_count() {
            let timestamp = reader.record(ordinal)?.timestamp();
            if timestamp < before {
                return Err(SegmentError::corrupt(
                    Section::Records,
                    self.header.records_offset,
                    Fault::Order {
                        field: "timestamps of the records",
                        entry: len_u64(ordinal),
                    },
                ));
            }
            before = timestamp;
        }
        Ok(())
    }
}

type Place = (Section, std::ops::Range<u64>);

/// Reads a section and takes its body out of the wrapper. One that is stored as it is goes straight to where it stays.
fn body_of(source: &Source, (section, range): &Place) -> Result<Vec<u8>> {
    let (section, start) = (*section, range.start);
    let body_start = start.saturating_add(len_u64(wrapper::LEN)).min(range.end);
    let (head, mut crc) = scratch::with_stored(|buffer| {
        let bytes = source.read(section, start..body_start, buffer)?;
        let mut crc = Crc32::default();
        crc.update(bytes.get(wrapper::FLAGS.offset..).unwrap_or_default());
        WrapperHead::decode(bytes, range.end.saturating_sub(start))
            .map(|head| (head, crc))
            .map_err(|fault| SegmentError::corrupt(section, start, fault))
    })?;
    let body = if head.is_packed() {
        scratch::with_stored(|buffer| {
            let stored = source.read(section, body_start..range.end, buffer)?;
            crc.update(stored);
            head.check(section, start, crc.value())?;
            head.unpack(section, start, stored)
        })?
    } else {
        let mut body = Vec::new();
        source.read_into(section, body_start..range.end, &mut body)?;
        crc.update(&body);
        head.check(section, start, crc.value())?;
        body
    };
    let value = len_u64(body.len());
    if value > BODY_LEN_MAX {
        return Err(SegmentError::Limit {
            what: section.as_str(),
            value,
            max: BODY_LEN_MAX,
        });
    }
    Ok(body)
}

fn decode<T>(
    source: &Source,
    place: &Place,
    decode: impl FnOnce(Vec<u8>) -> Result<T, Fault>,
) -> Result<T> {
    let body = body_of(source, place)?;
    decode(body).map_err(|fault| SegmentError::corrupt(place.0, place.1.start, fault))
}
