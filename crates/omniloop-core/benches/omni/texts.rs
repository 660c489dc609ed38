//! The payloads: telemetry as a control loop writes it, the same in every run.

use std::fmt::Write as _;

use crate::Result;
use crate::measure::{Numbers, float};

/// Distinct texts; they are written in turn.
const COUNT: u64 = 1024;

/// JSON objects of exactly one length.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) payload_len: usize,
    all: Vec<Vec<u8>>,
}

impl Texts {
    pub(crate) fn new(payload_len: usize) -> Self {
        Self {
            payload_len,
            all: (0..COUNT).map(|seed| text(payload_len, seed)).collect(),
        }
    }

    /// `count` payloads, starting over after the last text.
    pub(crate) fn cycle(&self, count: u64) -> impl Iterator<Item = &[u8]> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.all.iter().map(Vec::as_slice).cycle().take(count)
    }

    /// Bytes of `count` records with their headers.
    pub(crate) fn record_bytes(&self, count: u64) -> u64 {
        count * (self.payload_len as u64 + 36)
    }

    /// Bytes of `count` payloads.
    pub(crate) fn payload_bytes(&self, count: u64) -> u64 {
        count * self.payload_len as u64
    }

    /// Calls `work` with `count` payloads in turn.
    pub(crate) fn try_each(&self, count: u64, work: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.cycle(count).try_for_each(work)
    }
}

/// `{"step":7,"q0":-0.123456,"q1":…}`, filled up with spaces before the closing brace.
fn text(payload_len: usize, seed: u64) -> Vec<u8> {
    let mut numbers = Numbers::from_seed(seed + 1);
    let mut text = format!("{{\"step\":{seed}");
    for joint in 0.. {
        let angle = float(numbers.below(2_000_000)) / 1e6 - 1.0;
        let mut member = String::new();
        // Writing to a string cannot fail.
        write!(member, ",\"q{joint}\":{angle:.6}").ok();
        if text.len() + member.len() + 1 > payload_len {
            break;
        }
        text += &member;
    }
    let mut bytes = text.into_bytes();
    bytes.resize(payload_len.saturating_sub(1), b' ');
    bytes.push(b'}');
    bytes
}
