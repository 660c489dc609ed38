//! Journals: the native half of the package `omniloop`.

mod options;
mod player;
mod record;
mod recorder;
mod verify;
mod writer;

pub(crate) use options::{Durability, RotationPolicy};
pub(crate) use player::{JournalPlayer, SegmentedPlayer};
pub(crate) use record::{FrameRecord, Stamp};
pub(crate) use recorder::Recorder;
pub(crate) use verify::{journal_segments, verify_chain};
pub(crate) use writer::StateJournal;
