//! Memory that a thread uses again and again for bytes that nobody keeps.
//!
//! Fresh memory costs more than what is done with it here: the system clears every page of it first.

use std::cell::Cell;

thread_local! {
    /// Stored bytes: blocks and sections as they are in the file.
    static STORED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    /// The decoded block that no cache keeps.
    static DECODED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}
/// A thread does not keep more than this of each; only a giant record or a large section needs more.
const LEN_MAX: usize = 1 << 20;

/// Hands `read` memory for stored bytes. It holds whatever was left in it.
pub(super) fn with_stored<T>(read: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let mut scratch = STORED.take();
    let result = read(&mut scratch);
    if scratch.capacity() <= LEN_MAX {
        STORED.set(scratch);
    }
    result
}

/// Memory for a decoded block, to be given back to [`keep_decoded`]. It holds whatever was left in it.
pub(super) fn take_decoded() -> Vec<u8> {
    DECODED.take()
}

/// Keeps the memory of a decoded block for the next one.
pub(super) fn keep_decoded(scratch: Vec<u8>) {
    if scratch.capacity() <= LEN_MAX {
        DECODED.set(scratch);
    }
}
