//! The `.atj` journal. Format page: `docs/formats/atj.md`.

mod codec;
mod error;
mod history;
mod reader;
pub mod record;
mod snapshot;
mod verify;

pub use error::{Fault, JournalError, Section};
pub use reader::{DataFileUse, JournalReader, data_folder};
pub use snapshot::write_study;
pub use verify::{facts_of, verify_study};
