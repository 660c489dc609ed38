//! Questions about a run: why a variable has its value ([`cause_of`]), what a command brought about
//! ([`effects_of`]), where two runs part ([`find_divergence`]), and its inputs once more
//! ([`InputReplayer`]).
//!
//! All of them read the whole set of a rotated run from its base path, once or twice from front to back,
//! and hold what they answer and no more. Where reading has to stop, they answer with the error: an answer
//! from half a run would be wrong. What the members of the records mean is in `docs/formats/omni.md`,
//! "Payloads".

mod cause;
mod divergence;
mod effects;
mod inputs;
mod values;

use serde::Serialize;
use serde_json::Value;

pub use cause::{Cause, Role, cause_of, cause_of_with, value_at, variables_of};
pub use divergence::{
    Divergence, DivergenceOptions, Side, Subject, find_divergence, find_divergence_with,
};
pub use effects::{Effect, Effects, effects_of, effects_of_with};
pub use inputs::{Input, InputReplayer, ReplayOptions};
pub use values::value_of;

use crate::journal::{Error, FrameKind, FrameRef, Result, SegmentedPlayer};

/// Bytes of payloads that one answer holds at most. More is refused, not left out.
pub const ANSWER_LEN_MAX: u64 = 64 << 20;

/// Where a record stands in its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The ordinal of its file in the set.
    pub segment: u64,
    /// Where its header starts in that file, in bytes.
    pub offset: u64,
    /// Its tick.
    pub tick: u64,
    /// Nanoseconds since the journal was created.
    pub mono_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub wall_ns: u64,
}

/// A record that an answer rests on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// What it is.
    pub kind: FrameKind,
    /// What it says.
    pub payload: Value,
}

impl Evidence {
    /// A member of the record that is a text.
    pub fn text(&self, member: &str) -> Option<&str> {
        self.payload.get(member)?.as_str()
    }
}

/// Calls `take` with each record that describes the run and the ordinal of its segment, until it answers
/// false.
///
/// # Errors
/// What stops reading, files behind a missing segment included, and what `take` answers.
fn each_record(
    player: &mut SegmentedPlayer,
    mut take: impl FnMut(u64, &FrameRef<'_>) -> Result<bool>,
) -> Result<()> {
    while let Some((segment, frame)) = player.next_placed_frame()? {
        if frame.kind.is_data() && !take(segment, &frame)? {
            return Ok(());
        }
    }
    player.check_complete()
}

fn place_of(segment: u64, frame: &FrameRef<'_>) -> Place {
    Place {
        segment,
        offset: frame.offset,
        tick: frame.tick,
        mono_ns: frame.mono_ns,
        wall_ns: frame.wall_ns,
    }
}

/// The payload, if it is a JSON object that may have `text` in it as a member's name or value. Most records
/// have not, and need not be parsed to tell.
fn object_with(payload: &[u8], text: &str) -> Option<Value> {
    let may_be_escaped = || memchr::memchr(b'\\', payload).is_some();
    if memchr::memmem::find(payload, text.as_bytes()).is_none() && !may_be_escaped() {
        return None;
    }
    object(payload)
}

fn object(payload: &[u8]) -> Option<Value> {
    let value: Value = serde_json::from_slice(payload).ok()?;
    value.is_object().then_some(value)
}

/// What an answer holds so far.
#[derive(Debug, Default)]
struct Held(u64);

impl Held {
    fn add(&mut self, frame: &FrameRef<'_>, what: &'static str) -> Result<()> {
        self.0 = self.0.saturating_add(frame.payload.len() as u64);
        if self.0 <= ANSWER_LEN_MAX {
            return Ok(());
        }
        Err(Error::Limit {
            what,
            value: self.0,
            max: ANSWER_LEN_MAX,
        })
    }
}
