//! Files of versions 1 to 5: one line after another, read front to back through a bounded window.

use std::io;
use std::path::Path;

use durable::{FsFile, Window};

use super::codec::decode_op;
use super::error::{Fault, JournalError, Result, Section};
use super::history::PAYLOAD_LEN_READ_MAX;
use super::record::OpLine;

/// Bytes that are fetched at a time.
const READ_LEN: usize = 256 * 1024;
/// Bytes that are searched for the end of a line at a time: most lines are shorter.
const SEARCH_LEN: usize = 4096;
/// The longest line that is read: migrated, it must fit a payload that readers take.
const LINE_LEN_MAX: u64 = PAYLOAD_LEN_READ_MAX;

/// Reads the operations from the line at `offset` on, in order, each with the offsets of its line and
/// of the one after. Answers how many bytes a torn last line has.
///
/// # Errors
/// `Io`; `Corrupt` for a line that is no operation, that `take` refuses, or that is longer than any.
pub(super) fn read_lines(
    path: &Path,
    file: Box<dyn FsFile>,
    offset: u64,
    take: &mut dyn FnMut(&OpLine, u64, u64) -> std::result::Result<(), Fault>,
) -> Result<u64> {
    let io = |error| JournalError::io("read", path)(error);
    let mut window = Window::buffered(file, READ_LEN).map_err(io)?;
    let mut offset = offset;
    loop {
        let corrupt = |fault| JournalError::corrupt(path, Section::Operations, offset, fault);
        let end = match line_end(&mut window, offset).map_err(io)? {
            Line::Whole { end } => end,
            Line::Torn { len } => return Ok(len),
            Line::TooLong => {
                let max = usize::try_from(LINE_LEN_MAX).unwrap_or(usize::MAX);
                return Err(corrupt(Fault::LineTooLong { max }));
            }
        };
        let len = usize::try_from(end - offset).unwrap_or(usize::MAX);
        let line = window.bytes(offset, len).map_err(io)?;
        // Shortened meanwhile: what is left of it is a torn line.
        let Some(text) = line.strip_suffix(b"\n") else {
            return Ok(line.len() as u64);
        };
        let op = decode_op(text).map_err(corrupt)?;
        take(&op, offset, end).map_err(corrupt)?;
        offset = end;
    }
}

enum Line {
    /// With the offset behind its newline.
    Whole {
        end: u64,
    },
    Torn {
        len: u64,
    },
    TooLong,
}

/// Looks for the end of the line at `offset`, without keeping what lies before it.
fn line_end(window: &mut Window, offset: u64) -> io::Result<Line> {
    let mut at = offset;
    loop {
        let piece = window.bytes(at, SEARCH_LEN)?;
        let len = piece.len() as u64;
        if let Some(newline) = piece.iter().position(|&b| b == b'\n') {
            let end = at + newline as u64 + 1;
            return Ok(if end - offset > LINE_LEN_MAX {
                Line::TooLong
            } else {
                Line::Whole { end }
            });
        }
        at += len;
        if at - offset > LINE_LEN_MAX {
            return Ok(Line::TooLong);
        }
        if len == 0 {
            return Ok(Line::Torn { len: at - offset });
        }
    }
}
