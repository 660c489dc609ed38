//! Reads a log back, and tells a torn end from damage.

use std::io;

use durable::FsFile;
use durable::checksum::crc32;

use super::{MAGIC, PAYLOAD_LEN_MAX, Stamp, frame_header};

/// What a disk writes as one piece: of an append that a power loss interrupted, such pieces are missing.
const SECTOR_LEN: u64 = 512;
/// How far the sequence of a later frame may be ahead for it to count as one of this log.
const SEQUENCE_STEP_MAX: u64 = 1 << 24;

/// A frame of the log.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Where it begins, in bytes from the start of the file.
    pub offset: u64,
    /// Its stamp, which no checksum covers.
    pub stamp: Stamp,
    /// The spans: a JSON array.
    pub payload: &'a [u8],
}

/// What a scan found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Length of the log up to the end of its last whole frame; 0 when not even the magic was there.
    pub len: u64,
    /// Bytes behind that, of an append that was never finished.
    pub torn_len: u64,
    /// Number of whole frames.
    pub frames: u64,
    /// The highest stamp.
    pub last: Option<Stamp>,
}

/// What is wrong with the frame at an offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameFault {
    /// The file does not begin with [`MAGIC`].
    #[error("not a write-ahead log: it does not begin with TRZWAL02")]
    Magic,
    /// The length word is zero or above the limit.
    #[error("payload length is {found}, expected 1 to {PAYLOAD_LEN_MAX}")]
    PayloadLen {
        /// As stored.
        found: u64,
    },
    /// The length word points behind the end of the file, and yet there are whole frames later on.
    #[error(
        "payload length is {found}, which leads behind the end of the file, but a whole frame follows at byte {next}"
    )]
    PastEnd {
        /// As stored.
        found: u64,
        /// Where the next whole frame begins.
        next: u64,
    },
    /// The payload is not what was written.
    #[error("checksum mismatch: stored={stored:08x} computed={computed:08x}")]
    Checksum {
        /// As stored.
        stored: u32,
        /// Of the bytes that are there.
        computed: u32,
    },
    /// The sequence does not go on from the frame before.
    #[error("sequence is {found}, the frame before has {before}")]
    Sequence {
        /// As stored.
        found: u64,
        /// Of the frame before.
        before: u64,
    },
    /// The payload is not an array of spans.
    #[error("not an array of spans: {reason}")]
    Spans {
        /// What the parser says.
        reason: String,
    },
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScanError {
    /// It is damaged.
    #[error("frame at byte {offset}: {fault}")]
    Damaged {
        /// Where the frame begins.
        offset: u64,
        /// What is wrong with it.
        fault: FrameFault,
    },
    /// Reading failed.
    #[error("cannot read")]
    Io(#[from] io::Error),
}

fn damaged(offset: u64, fault: FrameFault) -> ScanError {
    ScanError::Damaged { offset, fault }
}

/// Reads all frames, front to back, and hands each whole one to `visit`.
///
/// What a power loss leaves at the end is told from damage: an unfinished frame with nothing whole behind it, or a
/// last frame of which a sector was never written, which shows because canonical JSON has no zero bytes. Everything
/// else that is not as written is damage, also in the last frame.
///
/// # Errors
/// [`ScanError`]; what `visit` answers.
pub fn scan(
    file: &dyn FsFile,
    visit: &mut dyn FnMut(Frame<'_>) -> Result<(), FrameFault>,
) -> Result<Recovered, ScanError> {
    let file_len = file.len()?;
    let mut magic = [0; MAGIC.len()];
    if file_len < MAGIC.len() as u64 {
        return match file_len {
            0 => Ok(Recovered::default()),
            _ => Err(damaged(0, FrameFault::Magic)),
        };
    }
    file.read_exact_at(0, &mut magic)?;
    if magic != MAGIC {
        return Err(damaged(0, FrameFault::Magic));
    }
    let mut reader = Reader {
        file,
        file_len,
        found: Recovered {
            len: MAGIC.len() as u64,
            ..Recovered::default()
        },
        payload: Vec::new(),
    };
    while reader.next(visit)? {}
    reader.found.torn_len = file_len - reader.found.len;
    Ok(reader.found)
}

struct Reader<'f> {
    file: &'f dyn FsFile,
    file_len: u64,
    found: Recovered,
    payload: Vec<u8>,
}

/// The words of a frame's header.
struct Header {
    payload_len: u64,
    crc: u32,
    stamp: Stamp,
}

impl Header {
    fn decode(bytes: &[u8; frame_header::LEN]) -> Self {
        // The header is as long as its table.
        Self {
            payload_len: u64::from(frame_header::PAYLOAD_LEN.u32(bytes).unwrap_or(0)),
            crc: frame_header::CRC32.u32(bytes).unwrap_or(0),
            stamp: Stamp {
                epoch: frame_header::EPOCH.u64(bytes).unwrap_or(0),
                sequence: frame_header::SEQUENCE.u64(bytes).unwrap_or(0),
            },
        }
    }
}

impl Reader<'_> {
    /// Reads the next frame; false at the end of the log, which may be a torn one.
    fn next(
        &mut self,
        visit: &mut dyn FnMut(Frame<'_>) -> Result<(), FrameFault>,
    ) -> Result<bool, ScanError> {
        let offset = self.found.len;
        let left = self.file_len - offset;
        if left < frame_header::LEN as u64 {
            return Ok(false);
        }
        let mut bytes = [0; frame_header::LEN];
        self.file.read_exact_at(offset, &mut bytes)?;
        let header = Header::decode(&bytes);
        let behind = offset + frame_header::LEN as u64;
        if header.payload_len == 0 || header.payload_len > PAYLOAD_LEN_MAX {
            if self.starts_unwritten(offset)? && self.next_frame(offset)?.is_none() {
                return Ok(false);
            }
            let found = header.payload_len;
            return Err(damaged(offset, FrameFault::PayloadLen { found }));
        }
        if header.payload_len > self.file_len - behind {
            return match self.next_frame(offset)? {
                None => Ok(false),
                Some(next) => {
                    let found = header.payload_len;
                    Err(damaged(offset, FrameFault::PastEnd { found, next }))
                }
            };
        }
        let end = behind + header.payload_len;
        self.read_payload(behind, header.payload_len)?;
        let computed = crc32(&self.payload);
        if computed != header.crc {
            let is_last = end == self.file_len;
            if is_last && self.has_unwritten_sector(offset, &bytes) {
                return Ok(false);
            }
            let stored = header.crc;
            return Err(damaged(offset, FrameFault::Checksum { stored, computed }));
        }
        if let Some(before) = self.found.last
            && header.stamp <= before
        {
            let fault = FrameFault::Sequence {
                found: header.stamp.sequence,
                before: before.sequence,
            };
            return Err(damaged(offset, fault));
        }
        let frame = Frame {
            offset,
            stamp: header.stamp,
            payload: &self.payload,
        };
        visit(frame).map_err(|fault| damaged(offset, fault))?;
        self.found.frames += 1;
        self.found.last = Some(header.stamp);
        self.found.len = end;
        Ok(true)
    }

    fn read_payload(&mut self, at: u64, len: u64) -> io::Result<()> {
        // At most the rest of the file, and at most `PAYLOAD_LEN_MAX`.
        self.payload.resize(usize::try_from(len).unwrap_or(0), 0);
        self.file.read_exact_at(at, &mut self.payload)
    }

    /// True when the file is zero from `offset` to the end of the sector, the whole header included.
    fn starts_unwritten(&self, offset: u64) -> io::Result<bool> {
        let to_bound = SECTOR_LEN - offset % SECTOR_LEN;
        let len = to_bound
            .max(frame_header::LEN as u64)
            .min(self.file_len - offset);
        let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
        self.file.read_exact_at(offset, &mut bytes)?;
        Ok(bytes.iter().all(|byte| *byte == 0))
    }

    /// True when a sector of the frame at `offset`, whose payload was read, is zero as far as it belongs to the frame.
    fn has_unwritten_sector(&self, offset: u64, header: &[u8]) -> bool {
        let first_len = SECTOR_LEN - offset % SECTOR_LEN;
        let mut sectors: Vec<u8> = Vec::with_capacity(header.len() + self.payload.len());
        sectors.extend_from_slice(header);
        sectors.extend_from_slice(&self.payload);
        let first_len = usize::try_from(first_len).unwrap_or(0).min(sectors.len());
        let (first, rest) = sectors.split_at(first_len);
        let is_zero = |sector: &[u8]| sector.iter().all(|byte| *byte == 0);
        let sector_len = usize::try_from(SECTOR_LEN).unwrap_or(512);
        is_zero(first) || rest.chunks(sector_len).any(is_zero)
    }

    /// Where a whole frame begins behind `offset` that may follow the frames before it. A torn end has none: an
    /// append ends the file.
    fn next_frame(&mut self, offset: u64) -> io::Result<Option<u64>> {
        let before = self.found.last.unwrap_or_default();
        let len = frame_header::LEN as u64;
        let mut window = vec![0; 1 << 16];
        let mut at = offset + 1;
        while at + len <= self.file_len {
            let piece = (self.file_len - at).min(window.len() as u64);
            let Some(bytes) = window.get_mut(..usize::try_from(piece).unwrap_or(0)) else {
                break;
            };
            self.file.read_exact_at(at, bytes)?;
            let mut candidates = Vec::new();
            for (index, header) in (0u64..).zip(bytes.array_windows::<{ frame_header::LEN }>()) {
                let header = Header::decode(header);
                let steps = header.stamp.sequence.wrapping_sub(before.sequence);
                let is_plausible = (1..=PAYLOAD_LEN_MAX).contains(&header.payload_len)
                    && header.payload_len <= self.file_len - (at + index + len)
                    && header.stamp > before
                    && header.stamp.epoch.wrapping_sub(before.epoch) <= SEQUENCE_STEP_MAX
                    && steps <= SEQUENCE_STEP_MAX;
                if is_plausible {
                    candidates.push((at + index, header));
                }
            }
            for (start, header) in candidates {
                self.read_payload(start + len, header.payload_len)?;
                if crc32(&self.payload) == header.crc {
                    return Ok(Some(start));
                }
            }
            at += (piece + 1).saturating_sub(len).max(1);
        }
        Ok(None)
    }
}
