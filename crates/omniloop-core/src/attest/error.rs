//! Why a run is not attested.

use std::path::PathBuf;

use crate::journal::{Error, ErrorKind};

/// Why a run is not attested. Nothing was signed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttestError {
    /// A file cannot be read or written, or is no journal.
    #[error(transparent)]
    Journal(#[from] Error),
    /// The journal does not verify: signing it would vouch for damage.
    #[error("the journal does not verify: {what} ({place})")]
    Broken {
        /// File, byte and tick.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// The journal, or what stands beside it, is not what was signed last. Look at both before
    /// anything new is signed: going on would make a cut or an edit look genuine.
    #[error("{} does not agree with the journal: {what}", path.display())]
    Disagrees {
        /// The note or the file of leaves.
        path: PathBuf,
        /// A stable word for programs, as in the findings of a check.
        code: &'static str,
        /// What is wrong.
        what: String,
    },
    /// The run has another name already, which never changes.
    #[error("the run is attested as {held}, not as {asked}; an origin never changes")]
    OtherOrigin {
        /// The origin in the note.
        held: String,
        /// The one asked for.
        asked: String,
    },
    /// The last note is by a key that the caller did not name.
    #[error(
        "the last note is signed by key {key_ids}; give that public key to hand over to another"
    )]
    OtherKey {
        /// Ids of the keys that signed it, hex.
        key_ids: String,
    },
}

impl AttestError {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Journal(error) => error.kind(),
            Self::Broken { .. } | Self::Disagrees { .. } => ErrorKind::Corrupt,
            Self::OtherOrigin { .. } | Self::OtherKey { .. } => ErrorKind::Misuse,
        }
    }
}
