//! The other side of the comparison: the `mcap` crate, writing and reading the same payloads.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use mcap::records::MessageHeader;
use mcap::sans_io::{IndexedReadEvent, IndexedReader, IndexedReaderOptions};
use mcap::{Compression, WriteOptions};
use tempfile::NamedTempFile;

use crate::Result;
use crate::append::Sink;
use crate::files::Prepared;
use crate::measure::{Basis, Sample, Side, timed};
use crate::texts::Texts;

/// How an MCAP file is written. All have chunks of 1 MiB with checksums and indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The crate's own defaults: zstd, compressed by one thread per physical core.
    Default,
    Lz4,
    None,
}

impl Variant {
    pub(crate) const ALL: [Self; 3] = [Self::Default, Self::Lz4, Self::None];

    fn options(self) -> WriteOptions {
        match self {
            Self::Default => WriteOptions::new(),
            Self::Lz4 => WriteOptions::new().compression(Some(Compression::Lz4)),
            Self::None => WriteOptions::new().compression(None),
        }
    }

    pub(crate) fn to_memory(self) -> &'static str {
        match self {
            Self::Default => "mcap write to memory, default",
            Self::Lz4 => "mcap write to memory, lz4",
            Self::None => "mcap write to memory, no compression",
        }
    }

    pub(crate) fn to_file(self) -> &'static str {
        match self {
            Self::Default => "mcap write to a file, default",
            Self::Lz4 => "mcap write to a file, lz4",
            Self::None => "mcap write to a file, no compression",
        }
    }

    pub(crate) fn reading(self) -> &'static str {
        match self {
            Self::Default => "mcap read all, default",
            Self::Lz4 => "mcap read all, lz4",
            Self::None => "mcap read all, no compression",
        }
    }

    pub(crate) fn seeking(self) -> &'static str {
        match self {
            Self::Default => "mcap seek, default",
            Self::Lz4 => "mcap seek, lz4",
            Self::None => "mcap seek, no compression",
        }
    }
}

/// Nanoseconds between messages, and when the first one was.
const STEP_NS: u64 = 1_000_000;
const START_NS: u64 = 1_700_000_000_000_000_000;

fn log_time(message: u64) -> u64 {
    START_NS + message * STEP_NS
}

pub(crate) fn write_sides<'a>(records: u64, dir: &'a Path, texts: &'a Texts) -> Vec<Side<'a>> {
    let sample = move |name, times| Sample {
        name,
        basis: Basis::Wall,
        times,
        records,
        bytes: texts.payload_bytes(records),
    };
    let mut sides: Vec<Side<'a>> = Vec::new();
    for variant in Variant::ALL {
        sides.push(Box::new(move || {
            let sink = SeekableSink {
                sink: Sink::new(),
                at: 0,
                len: 0,
            };
            let (times, _) = timed(|| write_all(variant, sink, records, texts))?;
            Ok(vec![sample(variant.to_memory(), times)])
        }));
        sides.push(Box::new(move || {
            let (times, _) = timed(|| write_file(variant, dir, records, texts))?;
            Ok(vec![sample(variant.to_file(), times)])
        }));
    }
    sides
}

/// A complete file, not synced; removed when the handle is dropped.
pub(crate) fn write_file(
    variant: Variant,
    dir: &Path,
    records: u64,
    texts: &Texts,
) -> Result<NamedTempFile> {
    let file = BufWriter::with_capacity(256 * 1024, NamedTempFile::new_in(dir)?);
    let file = write_all(variant, file, records, texts)?;
    file.into_inner().map_err(|e| e.into_error().into())
}

fn write_all<W: Write + Seek>(to: Variant, sink: W, records: u64, texts: &Texts) -> Result<W> {
    let mut writer = to.options().create(sink)?;
    let schema = writer.add_schema("telemetry", "jsonschema", br#"{"type":"object"}"#)?;
    let channel_id = writer.add_channel(schema, "/telemetry", "json", &BTreeMap::new())?;
    let mut message = 0;
    texts.try_each(records, |text| {
        let header = MessageHeader {
            channel_id,
            sequence: u32::try_from(message)?,
            log_time: log_time(message),
            publish_time: log_time(message),
        };
        message += 1;
        Ok(writer.write_to_known_channel(&header, black_box(text))?)
    })?;
    writer.finish()?;
    Ok(writer.into_inner())
}

/// The memory sink with a position: the writer goes back to fill in the length of a chunk.
struct SeekableSink {
    sink: Sink,
    at: u64,
    len: u64,
}

impl Write for SeekableSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.sink.copy(bytes);
        self.at += bytes.len() as u64;
        self.len = self.len.max(self.at);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for SeekableSink {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.len.checked_add_signed(by),
        };
        self.at = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

pub(crate) fn read_sides<'a>(texts: &'a Texts, prepared: &'a Prepared) -> Vec<Side<'a>> {
    let side = move |(variant, map): &'a (Variant, durable::Map)| -> Side<'a> {
        Box::new(move || {
            let (times, bytes) = timed(|| read_all(map))?;
            if bytes != texts.payload_bytes(prepared.records) {
                return Err("the mcap file gave back other bytes than were written".into());
            }
            Ok(vec![Sample {
                name: variant.reading(),
                basis: Basis::ThreadCpu,
                times,
                records: prepared.records,
                bytes,
            }])
        })
    };
    prepared.mcaps.iter().map(side).collect()
}

fn read_all(map: &[u8]) -> Result<u64> {
    let mut bytes = 0;
    for message in mcap::read::RawMessageStream::new(map)? {
        bytes += message?.data.len() as u64;
    }
    Ok(bytes)
}

/// Finds the first message at or after the time of message `number` through the chunk index.
pub(crate) fn seek(map: &[u8], summary: &mcap::Summary, number: u64) -> Result<()> {
    let wanted = log_time(number);
    let options = IndexedReaderOptions::new().starting_at(wanted);
    let mut reader = IndexedReader::new_with_options(summary, options)?;
    while let Some(event) = reader.next_event() {
        match event? {
            IndexedReadEvent::ReadChunkRequest { offset, length } => {
                let start = usize::try_from(offset)?;
                let chunk = map.get(start..start + length).ok_or("a chunk outside")?;
                reader.insert_chunk_record_data(offset, chunk)?;
            }
            IndexedReadEvent::Message { header, data } => {
                black_box(data);
                if header.log_time == wanted {
                    return Ok(());
                }
                break;
            }
        }
    }
    Err("seeking led to another message".into())
}
