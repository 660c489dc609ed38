//! Brings memory near before it is used.
//!
//! Records lie scattered in memory, and the work on each of them begins with waiting for it. Reads that do not depend on
//! each other are waited for together, so some bytes of a whole block of records are read first. Measured on records of 400
//! bytes, encoding takes a seventh less time.

use std::hint::black_box;

/// Bytes that come near together.
const LINE_LEN: usize = 64;
/// The processor notices by itself that what follows is read in order.
const LINES_MAX: usize = 6;

/// Brings the first bytes of each piece near.
pub(super) fn bring<'a>(pieces: impl Iterator<Item = &'a [u8]>) {
    let mut sum = 0;
    for piece in pieces {
        for line in piece.chunks(LINE_LEN).take(LINES_MAX) {
            sum ^= line.first().copied().unwrap_or(0);
        }
    }
    black_box(sum);
}
