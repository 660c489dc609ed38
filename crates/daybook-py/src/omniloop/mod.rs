//! Journals: the native half of the package `omniloop`.

mod analysis;
mod control;
mod options;
mod player;
mod record;
mod recorder;
mod verify;
mod writer;

pub(crate) use analysis::{InputReplayer, cause_of, effects_of, find_divergence};
pub(crate) use control::Control;
pub(crate) use options::{Durability, RotationPolicy};
pub(crate) use player::{JournalPlayer, SegmentedPlayer};
pub(crate) use record::{FrameRecord, Stamp};
pub(crate) use recorder::Recorder;
pub(crate) use verify::{journal_segments, verify_chain};
pub(crate) use writer::StateJournal;
