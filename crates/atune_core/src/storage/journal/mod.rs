//! The `.atj` journal. Format page: `docs/formats/atj.md`.

mod acquire;
mod aside;
mod canonical;
mod codec;
mod error;
mod facts;
pub mod fuzzing;
mod history;
mod identity;
mod lease;
mod migrate;
mod old;
mod options;
mod publish;
mod reader;
pub mod record;
mod replay;
mod snapshot;
mod storage;
mod study_id;
mod turn;
mod verify;
mod waiting;

pub use error::{Fault, JournalError, Section};
pub use facts::{LeaseFacts, lease_facts};
pub use identity::Identity;
pub use lease::Owner;
pub use options::{Durability, JournalOptions};
pub use reader::{DataFileUse, JournalReader, data_folder, read_header};
pub use snapshot::write_study;
pub use storage::JournalStorage;
pub use study_id::study_id;
pub use verify::{facts_of, verify_study};
