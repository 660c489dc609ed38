//! Writes a segment: records in, bytes out. No files.
//!
//! Equal records give equal bytes, whatever the number of threads: the work is split into jobs whose results are
//! put together in a fixed order.

mod blocks;
mod keys;
mod near;
mod packer;
mod parallel;
mod postings;
mod tokens;
mod vocabulary;
mod words;

use std::num::NonZero;
use std::ops::Range;

use self::blocks::{BlockWriter, Output, StoredBlock};
use self::keys::{KeyedPairs, SharePairs};
use self::postings::Occurrence;
use self::words::WordLists;
use super::codec::{Codec, len_u64, wrap};
use super::directory::{Block, put_entry};
use super::error::{Result, SegmentError};
use super::header::Header;
use super::index::{attribute, content, offsets, trace};
use super::layout::{
    BODY_LEN_MAX, CONTENT_BLOCK_RECORDS, EMPTY_MAX_TIMESTAMP, EMPTY_MIN_TIMESTAMP, attribute_pair,
    header, record_header,
};
use crate::record::Record;

/// The most records that one segment can hold: ordinals fit 32 bits in memory.
const RECORDS_MAX: u64 = u32::MAX as u64;
/// Below this many bytes of records, starting threads costs more than they save.
const PARALLEL_LEN_MIN: u64 = 1 << 20;

/// How a segment is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodeOptions {
    /// How record blocks are compressed.
    pub codec: Codec,
    /// False leaves the content index out: a word query must then scan the segment.
    pub content_index: bool,
    /// How many threads work on it; `None` for as many as the machine has cores, and for one when there is little to
    /// do. The bytes are the same.
    pub threads: Option<NonZero<usize>>,
}

impl Default for EncodeOptions {
    /// LZ4, with a content index, on all cores.
    fn default() -> Self {
        Self {
            codec: Codec::Lz4,
            content_index: true,
            threads: None,
        }
    }
}

/// The bytes of a segment of these records, which it sorts by timestamp; records with one timestamp keep their order.
///
/// ```
/// use traza::{record, segment, span::Span};
/// let span = Span::from_json(br#"{"trace_id":"t","span_id":"s","name":"n","service":"bot",
///     "start_time_ns":1,"end_time_ns":2}"#)?;
/// let bytes = segment::encode(&[record::derive(&span)])?;
/// assert!(bytes.starts_with(b"TRAZASEG"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`SegmentError::TooLarge`] for a record that reaches 2 GiB, [`SegmentError::Limit`] when there is too much for one
/// segment.
pub fn encode(records: &[Record]) -> Result<Vec<u8>> {
    encode_with(records, &EncodeOptions::default())
}

/// [`encode`] with another codec for the record blocks. Under [`Codec::Raw`] the metadata sections are stored as they
/// are, too.
///
/// # Errors
/// Those of [`encode`].
pub fn encode_with_codec(records: &[Record], codec: Codec) -> Result<Vec<u8>> {
    encode_with(
        records,
        &EncodeOptions {
            codec,
            ..EncodeOptions::default()
        },
    )
}

/// [`encode`] as `options` say.
///
/// # Errors
/// Those of [`encode`].
pub fn encode_with(records: &[Record], options: &EncodeOptions) -> Result<Vec<u8>> {
    limit("number of records", len_u64(records.len()), RECORDS_MAX)?;
    let records = in_time_order(records);
    let places = places(&records)?;
    let threads = match options.threads {
        Some(threads) => threads,
        None if places.logical_len < PARALLEL_LEN_MIN => NonZero::<usize>::MIN,
        None => parallel::cores(),
    };
    let has_text = records.iter().any(|record| record.content.text().is_some());
    let with_words = options.content_index && has_text;

    let shares = shares(&records, threads);
    let done = parallel::run(&shares, threads, |(), share| Share::of(share, with_words));
    let (pairs, words): (Vec<_>, Vec<_>) = done
        .results
        .into_iter()
        .map(|(_, share)| (share.pairs, share.words))
        .unzip();
    let keyed = keys::join(&records, pairs);

    let writer = BlockWriter {
        records: &records,
        pairs: &keyed,
        starts: &places.starts,
        codec: options.codec,
        output_len: usize::try_from(places.logical_len).unwrap_or(0) / threads,
    };
    // The long jobs first, so that no thread ends up waiting for one of them.
    let jobs: Vec<Job> = [Job::Attributes, Job::Content, Job::Traces]
        .into_iter()
        .chain(
            blocks::carve(&places.starts, places.logical_len)
                .into_iter()
                .map(Job::Block),
        )
        .collect();
    let codec = options.codec;
    let done = parallel::run(&jobs, threads, |output: &mut Output, job| match job {
        Job::Attributes => {
            let body = attribute_body(&keyed, &places.starts);
            Ok(Done::Attributes(section("attribute index", &body, codec)?))
        }
        Job::Traces => {
            let body = trace::encode(postings::by_trace(&records, &places.starts).iter());
            Ok(Done::Traces(section("trace index", &body, codec)?))
        }
        Job::Content => {
            let lists: Vec<&WordLists> = words.iter().flatten().collect();
            let body = if lists.is_empty() {
                content::encode_absent()
            } else {
                words::body(&lists)
            };
            // Its rows are read from the file by place, so it is never compressed.
            Ok(Done::Content(section("content index", &body, Codec::Raw)?))
        }
        Job::Block(ordinals) => Ok(Done::Block(writer.write(ordinals.clone(), output)?)),
    });
    let mut parts = Parts::default();
    for (worker, result) in done.results {
        match result? {
            Done::Attributes(section) => parts.attributes = section,
            Done::Traces(section) => parts.traces = section,
            Done::Content(section) => parts.content = section,
            Done::Block(block) => parts.blocks.push((worker, block)),
        }
    }
    parts.outputs = done
        .workers
        .into_iter()
        .map(|output| output.bytes)
        .collect();
    assemble(&records, &places, codec, parts)
}

/// Splits the records between the threads, at the bounds of content blocks.
fn shares<'r, 'a>(records: &'r [&'a Record], threads: NonZero<usize>) -> Vec<&'r [&'a Record]> {
    let blocks = records.len().div_ceil(words::RECORDS_PER_BLOCK);
    let len = blocks.div_ceil(threads.get()).max(1) * words::RECORDS_PER_BLOCK;
    records.chunks(len).collect()
}

/// What is known of some of the records before there is a dictionary of all keys.
struct Share<'a> {
    pairs: SharePairs<'a>,
    words: Option<WordLists>,
}

impl<'a> Share<'a> {
    fn of(records: &[&'a Record], with_words: bool) -> Self {
        let mut pairs = SharePairs::with_capacity(records);
        let mut words = with_words.then(WordLists::default);
        // Block by block, so that a record is still at hand for its words.
        for block in records.chunks(words::RECORDS_PER_BLOCK) {
            near::bring(block.iter().flat_map(|record| indexed(record)));
            pairs.add(block);
            if let Some(words) = &mut words {
                words.add(block);
            }
        }
        Self { pairs, words }
    }
}

/// What a share reads of a record.
fn indexed(record: &Record) -> [&[u8]; 2] {
    let text = record.content.text().unwrap_or_default();
    [record.attributes.as_bytes(), text.as_bytes()]
}

/// One piece of the work that needs the dictionary.
enum Job {
    Attributes,
    Traces,
    Content,
    Block(Range<usize>),
}

/// What it gives: a section with its wrapper, or a block.
enum Done {
    Attributes(Vec<u8>),
    Traces(Vec<u8>),
    Content(Vec<u8>),
    Block(StoredBlock),
}

/// What the jobs have made.
#[derive(Default)]
struct Parts {
    attributes: Vec<u8>,
    traces: Vec<u8>,
    content: Vec<u8>,
    /// Each block, and whose output it is in.
    blocks: Vec<(usize, StoredBlock)>,
    outputs: Vec<Vec<u8>>,
}

impl Parts {
    /// Room for the header, and all blocks in their order.
    fn gather_blocks(&mut self) -> Vec<u8> {
        if let [only] = self.outputs.as_mut_slice() {
            // One worker has written them in order.
            return std::mem::take(only);
        }
        let mut out = vec![0; header::LEN];
        for (worker, stored) in &self.blocks {
            let output = self
                .outputs
                .get(*worker)
                .map(Vec::as_slice)
                .unwrap_or_default();
            out.extend_from_slice(output.get(stored.place.clone()).unwrap_or_default());
        }
        out
    }
}

/// The window search of a reader needs the order, so it is made here and not asked of the caller.
fn in_time_order(records: &[Record]) -> Vec<&Record> {
    let mut ordered: Vec<&Record> = records.iter().collect();
    if !ordered.is_sorted_by_key(|record| record.timestamp) {
        ordered.sort_by_key(|record| record.timestamp);
    }
    ordered
}

/// Where the records begin in the uncompressed records.
struct Places {
    starts: Vec<u64>,
    logical_len: u64,
}

fn places(records: &[&Record]) -> Result<Places> {
    let mut logical_len = 0u64;
    let mut starts = Vec::with_capacity(records.len());
    for record in records {
        if record.attributes.is_too_large() {
            return Err(SegmentError::TooLarge {
                trace_id: record.trace_id.clone(),
                timestamp: record.timestamp,
            });
        }
        starts.push(logical_len);
        logical_len = logical_len.saturating_add(record_len(record));
    }
    Ok(Places {
        starts,
        logical_len,
    })
}

fn record_len(record: &Record) -> u64 {
    let pairs = len_u64(record.attributes.len()).saturating_mul(len_u64(attribute_pair::LEN));
    len_u64(record_header::LEN)
        .saturating_add(len_u64(record.trace_id.len()))
        .saturating_add(pairs)
        .saturating_add(len_u64(record.payload.len()))
}

fn attribute_body(keyed: &KeyedPairs<'_>, starts: &[u64]) -> Vec<u8> {
    // Keys come from texts.
    let keys = keyed
        .keys
        .iter()
        .map(|key| std::str::from_utf8(key).unwrap_or_default());
    let occurrences = postings::occurrences(keyed);
    let pairs = || occurrences.chunk_by(Occurrence::is_same_pair);
    let start = |one: &Occurrence| starts.get(one.ordinal as usize).copied().unwrap_or(0);
    let entries = pairs().filter_map(|pair| {
        let first = pair.first()?;
        Some((first.key_id, first.digest, pair.iter().map(start)))
    });
    attribute::encode(keys, pairs().count(), entries)
}

/// A metadata section with its wrapper.
fn section(what: &'static str, body: &[u8], codec: Codec) -> Result<Vec<u8>> {
    limit(what, len_u64(body.len()), BODY_LEN_MAX)?;
    Ok(wrap(body, codec))
}

fn assemble(
    records: &[&Record],
    places: &Places,
    codec: Codec,
    mut parts: Parts,
) -> Result<Vec<u8>> {
    let mut directory = Vec::new();
    let mut records_len = 0u64;
    for (_, stored) in &parts.blocks {
        let block = Block {
            stored_offset: records_len,
            ..stored.block
        };
        put_entry(&block, &mut directory);
        records_len = records_len.saturating_add(u64::from(block.stored_len));
    }
    let directory = section("block directory", &directory, codec)?;
    let offsets = section(
        "record-offset index",
        &offsets::encode(&places.starts),
        codec,
    )?;
    let mut out = parts.gather_blocks();
    let sections = [
        directory,
        offsets,
        parts.traces,
        parts.attributes,
        parts.content,
    ];
    out.reserve_exact(sections.iter().map(Vec::len).sum());
    let mut place = |section: &[u8]| {
        let start = len_u64(out.len());
        out.extend_from_slice(section);
        (start, len_u64(section.len()))
    };
    let [directory, offsets, traces, attributes, content] =
        sections.each_ref().map(|section| place(section));
    let header = Header {
        codec,
        record_count: len_u64(records.len()),
        records_offset: len_u64(header::LEN),
        records_len,
        directory_offset: directory.0,
        directory_len: directory.1,
        offsets_offset: offsets.0,
        offsets_len: offsets.1,
        trace_offset: traces.0,
        trace_len: traces.1,
        attribute_offset: attributes.0,
        content_offset: content.0,
        min_timestamp: records
            .first()
            .map_or(EMPTY_MIN_TIMESTAMP, |record| record.timestamp),
        max_timestamp: records
            .last()
            .map_or(EMPTY_MAX_TIMESTAMP, |record| record.timestamp),
        logical_len: places.logical_len,
    };
    if let Some(room) = out.first_chunk_mut() {
        *room = header.encode();
    }
    Ok(out)
}

fn limit(what: &'static str, value: u64, max: u64) -> Result<()> {
    if value > max {
        return Err(SegmentError::Limit { what, value, max });
    }
    Ok(())
}

const _: () = assert!(CONTENT_BLOCK_RECORDS as usize == words::RECORDS_PER_BLOCK);
