//! The attestation of a run: a signed note beside the journal, over a Merkle tree of its chain
//! values. It catches what no file can prove of itself: records cut off its end, segments removed
//! from a set, the whole run written anew. Format page: `docs/formats/omni-attestation.md`.
//!
//! The leaves of the tree are derived from the journal while it is verified ([`LeafCollector`]), so
//! that a check never has to believe the file of leaves. Checking is always compiled; producing
//! (`attest`, `Attestor`) sits behind the feature `signing`.

mod check;
mod derive;
#[cfg(feature = "signing")]
mod error;
mod leaf;
#[cfg(feature = "signing")]
mod live;
mod merkle;
mod note;
mod report;
mod sequence;
mod sidecar;
#[cfg(feature = "signing")]
mod tail;
#[cfg(feature = "signing")]
mod write;

pub use check::check_attestation;
pub use derive::{LeafCollector, Stop, derive_leaves};
#[cfg(feature = "signing")]
pub use error::AttestError;
pub use leaf::{Leaf, LeafKind, layout};
#[cfg(feature = "signing")]
pub use live::Attestor;
pub use merkle::Frontier;
pub use note::{
    NOTE_LEN_MAX, Note, NoteError, NoteSignature, default_origin, key_id, verifier_key,
};
pub use report::{AttestationReport, LeavesState, NoteSigner, SignatureState};
#[cfg(feature = "signing")]
pub use write::{AttestOptions, Attestation, attest};
