//! Reading every record of a damaged file that can be read.

use std::io;
use std::path::Path;

use durable::digest::Digest;
use durable::{Fs, checksum};

use super::super::chain::{ChainHasher, genesis};
use super::super::codec::{FILE_HEADER_LEN, FileHeader, RECORD_HEADER_LEN, RecordHeader};
use super::super::error::{Error, Result};
use super::super::frame::FrameKind;
use super::super::layout::{INDEX_MAGIC, record_header};
use super::super::player::open_window;
use super::super::resync::Resync;
use super::super::writer::Stamp;
use super::{Gap, Neighbour, Unproven};

/// Is handed every record that a salvage can read.
pub(super) type Take<'a> = dyn FnMut(FrameKind, &[u8], Stamp) -> Result<()> + 'a;

/// What a salvage came across beside the records.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) gaps: Vec<Gap>,
    pub(super) unproven: Vec<Unproven>,
}

/// Reads every record that can be read.
pub(super) struct Scan {
    window: durable::Window,
    end: u64,
    resync: Resync,
    hasher: ChainHasher,
    /// The chain value here; `None` between a gap and the next checkpoint.
    chain: Option<Digest>,
    floor: Stamp,
    stretch_start: u64,
    before: Option<Neighbour>,
    seen: Seen,
}

impl Scan {
    /// Reads `source` from its first record. `floor` is the stamp before it, and `header` the file's
    /// header if it could be read.
    pub(super) fn open(
        fs: &dyn Fs,
        source: &Path,
        floor: Stamp,
        header: Option<&FileHeader>,
    ) -> Result<Self> {
        let window = open_window(fs, source)?;
        let file = fs.open(source).map_err(Error::io("open", source))?;
        Ok(Self {
            end: window.file_len(),
            window,
            resync: Resync::new(file).map_err(Error::io("read", source))?,
            hasher: ChainHasher::new(),
            chain: header.map(|h| genesis(&h.encode())),
            floor,
            stretch_start: FILE_HEADER_LEN,
            before: None,
            seen: Seen::default(),
        })
    }

    pub(super) fn run(
        mut self,
        take: &mut Take<'_>,
        read: &dyn Fn(io::Error) -> Error,
    ) -> Result<Seen> {
        let mut at = FILE_HEADER_LEN;
        while at < self.end {
            if self.window.bytes(at, INDEX_MAGIC.len()).map_err(read)? == INDEX_MAGIC {
                break;
            }
            if let Some((kind, header)) = self.good_record(at).map_err(read)? {
                self.accept(at, kind, &header, take, read)?;
                at += header.record_len();
                continue;
            }
            let next = self.after_bad(at).map_err(read)?;
            let after = match next {
                Some(place) if place < self.end => self.neighbour(place).map_err(read)?,
                _ => None,
            };
            let end = next.unwrap_or(self.end);
            self.seen.gaps.push(Gap {
                start: at,
                end,
                before: self.before,
                after,
            });
            self.chain = None;
            at = end;
        }
        Ok(self.seen)
    }

    fn accept(
        &mut self,
        at: u64,
        kind: FrameKind,
        header: &RecordHeader,
        take: &mut Take<'_>,
        read: &dyn Fn(io::Error) -> Error,
    ) -> Result<()> {
        let stamp = stamp_of(header);
        let len = usize::try_from(header.record_len()).unwrap_or(usize::MAX);
        let bytes = self.window.bytes(at, len).map_err(read)?;
        let Some((head, payload)) = bytes.split_first_chunk::<{ record_header::LEN }>() else {
            return Ok(());
        };
        if kind == FrameKind::Chain {
            let claim = payload.first_chunk::<32>().copied();
            if self.chain.is_some() && self.chain != claim {
                self.seen.unproven.push(Unproven {
                    start: self.stretch_start,
                    end: at,
                });
            }
            self.chain = claim;
            self.stretch_start = at;
        }
        self.chain = self
            .chain
            .map(|chain| self.hasher.step(&chain, head, payload));
        if kind.is_data() {
            take(kind, payload, stamp)?;
        }
        self.floor = stamp;
        self.before = Some(Neighbour {
            offset: at,
            tick: header.tick,
            kind,
        });
        Ok(())
    }

    /// The record at `at` if it can stand by itself and the one after it does not contradict it.
    fn good_record(&mut self, at: u64) -> io::Result<Option<(FrameKind, RecordHeader)>> {
        let Some((kind, header)) = self.sound_record(at, self.floor)? else {
            return Ok(None);
        };
        // Checksums do not cover the stamps. A stamp that was flipped upwards would rule out every
        // later record; so a next record that fits the one before, but not this one, decides.
        let next = at + header.record_len();
        // A tick that follows from the record before it is not in doubt: then it is the next one's.
        let advance = u64::from(kind == FrameKind::Telemetry);
        let tick_follows = header.tick == self.floor.tick.saturating_add(advance);
        let contradicts = |following: &RecordHeader| {
            (following.tick < header.tick && !tick_follows) || following.mono_ns < header.mono_ns
        };
        let following = self.sound_record(next, self.floor)?;
        if following.is_some_and(|(_, following)| contradicts(&following)) {
            return Ok(None);
        }
        Ok(Some((kind, header)))
    }

    /// A record with a known kind, zero padding, stamps not before `floor`, and its checksum.
    fn sound_record(
        &mut self,
        at: u64,
        floor: Stamp,
    ) -> io::Result<Option<(FrameKind, RecordHeader)>> {
        let bytes = self.window.bytes(at, record_header::LEN)?;
        let Ok(header) = RecordHeader::decode(bytes) else {
            return Ok(None);
        };
        let Some(kind) = FrameKind::from_code(header.kind) else {
            return Ok(None);
        };
        let fits = at.saturating_add(header.record_len()) <= self.end
            && header.padding == [0; 3]
            && header.tick >= floor.tick
            && header.mono_ns >= floor.mono_ns
            && (header.wall_ns != 0 || header.payload_len != 0);
        if !fits {
            return Ok(None);
        }
        let len = usize::try_from(header.payload_len).unwrap_or(usize::MAX);
        let payload = self.window.bytes(at + RECORD_HEADER_LEN, len)?;
        Ok((checksum::crc32(payload) == header.crc32).then_some((kind, header)))
    }

    /// Where reading can go on after a record at `at` that is no good.
    fn after_bad(&mut self, at: u64) -> io::Result<Option<u64>> {
        // Its own length first: most damage leaves it whole, and a payload may itself contain records.
        let bytes = self.window.bytes(at, record_header::LEN)?;
        if let Ok(header) = RecordHeader::decode(bytes) {
            let next = at.saturating_add(header.record_len());
            if next < self.end {
                let at_index = self.window.bytes(next, INDEX_MAGIC.len())? == INDEX_MAGIC;
                if at_index || self.sound_record(next, self.floor)?.is_some() {
                    return Ok(Some(next));
                }
            }
        }
        Ok(self
            .resync
            .next_record(at + 1, self.end, self.floor)?
            .map(|(offset, _)| offset))
    }

    fn neighbour(&mut self, at: u64) -> io::Result<Option<Neighbour>> {
        let bytes = self.window.bytes(at, record_header::LEN)?;
        let header = RecordHeader::decode(bytes).ok();
        Ok(header.and_then(|h| {
            let kind = FrameKind::from_code(h.kind)?;
            Some(Neighbour {
                offset: at,
                tick: h.tick,
                kind,
            })
        }))
    }
}

fn stamp_of(header: &RecordHeader) -> Stamp {
    Stamp {
        tick: header.tick,
        mono_ns: header.mono_ns,
        wall_ns: header.wall_ns,
    }
}
