//! The `.omni` journal: writing, reading, verifying and recovering. Format page:
//! `docs/formats/omni.md`.

pub(crate) mod chain;
pub(crate) mod codec;
mod error;
mod frame;
pub mod layout;
mod legacy;
mod player;
mod recover;
mod resync;
pub(crate) mod segments;
mod set;
mod sign;
mod verify;
mod walk;
mod writer;

pub use codec::{FileHeader, RecordHeader};
pub use error::{Error, ErrorKind, Fault, Result, Section};
pub use frame::{FrameKind, FrameRecord, FrameRef};
pub use player::{JournalPlayer, PlayerOptions};
pub use recover::{
    Gap, Neighbour, RecoverOptions, RecoveredSegment, Recovery, RecoveryAction, Unproven, recover,
};
pub use segments::{SegmentedPlayer, segment_path, segment_paths};
pub use set::{SegmentVerification, SetOptions, SetVerification, verify_set};
#[cfg(feature = "signing")]
pub use sign::JournalSigner;
pub use sign::{PublicKey, SignatureVerification, Signer, verify_signed, verify_signed_with};
pub use verify::{
    ChainBreak, ChainVerification, IndexState, VerifyOptions, verify_chain, verify_chain_with,
};
pub use walk::{ChainPoint, Observer, SignatureSeen};
pub use writer::{Durability, JournalOptions, RotationPolicy, Sealed, Stamp, StateJournal};
