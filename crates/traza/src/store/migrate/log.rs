//! The log of a store without generations, as the log of its first one.

use std::io;
use std::path::Path;

use durable::checksum::crc32;
use durable::{Cursor, Fs, read_all};

use super::replace;
use crate::span::Span;
use crate::store::error::{During as _, Result, StoreError};
use crate::store::open::spans_of;
use crate::wal::{self, FrameFault, PAYLOAD_LEN_MAX, Stamp};

/// Length and checksum of the payload, each a u32.
const HEADER_LEN: usize = 8;
/// Both are there, or the log holds nothing that was acknowledged.
const BRACKETS_LEN: u64 = 2;

/// Converts the log of a store that has no generation yet. Answers how many bytes at its end were left out: of an append
/// that was never acknowledged.
///
/// # Errors
/// [`StoreError::Damaged`] naming the frame that is not as it was written; the log is as it was then.
pub(in crate::store) fn adopt(fs: &dyn Fs, dir: &Path) -> Result<u64> {
    let path = dir.join(wal::FILE_NAME);
    let old = match read_all(fs, &path, u64::MAX) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        other => other.during("read", &path)?,
    };
    // As the length of an old frame the present magic would be too large.
    if old.is_empty() || old.starts_with(&wal::MAGIC) {
        return Ok(0);
    }
    let (spans, torn_len) = scan(&old).map_err(|(offset, fault)| StoreError::Damaged {
        path: path.clone(),
        offset: Some(offset),
        what: fault.to_string(),
    })?;
    replace(fs, &path, &old, &encode(&spans)?)?;
    Ok(torn_len)
}

/// The spans of all frames, and how many bytes of an unfinished frame follow.
fn scan(log: &[u8]) -> Result<(Vec<Span>, u64), (u64, FrameFault)> {
    let mut spans = Vec::new();
    let mut rest = log;
    while let Some((payload_len, stored)) = header(rest) {
        let offset = (log.len() - rest.len()) as u64;
        let damaged = |fault| Err((offset, fault));
        let found = u64::from(payload_len);
        if found == 0 || found > PAYLOAD_LEN_MAX {
            if rest.iter().all(|byte| *byte == 0) {
                break;
            }
            return damaged(FrameFault::PayloadLen { found });
        }
        let behind = rest.get(HEADER_LEN..).unwrap_or_default();
        let Some((payload, next)) = split(behind, payload_len) else {
            let Some(distance) = next_frame(behind) else {
                break;
            };
            let next = offset + (HEADER_LEN + distance) as u64;
            return damaged(FrameFault::PastEnd { found, next });
        };
        let computed = crc32(payload);
        if computed != stored {
            return damaged(FrameFault::Checksum { stored, computed });
        }
        spans.extend(spans_of(payload).map_err(|fault| (offset, fault))?);
        rest = next;
    }
    Ok((spans, rest.len() as u64))
}

fn header(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut cursor = Cursor::new(bytes);
    Some((cursor.u32().ok()?, cursor.u32().ok()?))
}

fn split(bytes: &[u8], len: u32) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(usize::try_from(len).ok()?)
}

/// Where the next whole frame begins. Behind a frame that was never finished there is none, so one means that the length
/// in front of it is damaged. Text is soon done with: its letters make lengths that are too large.
fn next_frame(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len()).find(|start| {
        let bytes = bytes.get(*start..).unwrap_or_default();
        let frame = header(bytes).filter(|(len, _)| u64::from(*len) <= PAYLOAD_LEN_MAX);
        let behind = bytes.get(HEADER_LEN..).unwrap_or_default();
        frame.is_some_and(|(len, stored)| {
            split(behind, len)
                .is_some_and(|(payload, _)| payload.starts_with(b"[") && crc32(payload) == stored)
        })
    })
}

/// The log with these spans in one frame; in more when they do not fit into one.
fn encode(spans: &[Span]) -> Result<Vec<u8>> {
    let mut log = wal::MAGIC.to_vec();
    let mut sequence = 0;
    let mut end_frame = |payload: &mut String| {
        payload.push(']');
        sequence += 1;
        let stamp = Stamp { epoch: 1, sequence };
        log.extend_from_slice(&wal::frame(stamp, payload.as_bytes()));
        payload.clear();
    };
    let mut payload = String::new();
    for span in spans {
        let text = span.to_json();
        let len = text.len() as u64 + BRACKETS_LEN;
        if len > PAYLOAD_LEN_MAX {
            let what = "span of the log";
            let max = PAYLOAD_LEN_MAX;
            return Err(StoreError::TooLarge { what, len, max });
        }
        if payload.len() as u64 + len > PAYLOAD_LEN_MAX {
            end_frame(&mut payload);
        }
        payload.push(if payload.is_empty() { '[' } else { ',' });
        payload.push_str(&text);
    }
    if !payload.is_empty() {
        end_frame(&mut payload);
    }
    Ok(log)
}
