//! What a check of an attestation says.

use durable::Finding;
use serde::Serialize;

/// What the signatures of a note are worth to the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SignatureState {
    /// A key that the caller trusts signed it.
    Trusted,
    /// Only keys signed it that the caller did not name, so that nothing could be checked.
    UnknownKey,
    /// A line claims a trusted key and is not its signature, or the note cannot be read.
    Bad,
    /// There is no note.
    None,
}

/// How the file of leaves compares with note and journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeavesState {
    /// It holds what was signed.
    Consistent,
    /// There is none. Costs no proof unless the note covers a key change.
    Missing,
    /// It holds something else.
    Inconsistent,
}

/// One signature line of a note.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NoteSigner {
    /// Name of the key.
    pub name: String,
    /// Its id under that name, hex.
    pub key_id: String,
    /// What the line is worth.
    pub state: SignatureState,
}

/// What the attestation beside a run proves, verdict by verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AttestationReport {
    /// The name of the run that the note gives.
    pub origin: Option<String>,
    /// Leaves that the note covers.
    pub size: u64,
    /// Records of the run, from its start, up to the last covered leaf. 0 unless the root matches
    /// and no signature is bad; by whom it was signed is another verdict.
    pub covers_records: u64,
    /// True when the note says that the run is complete, and the root matches.
    pub closed: bool,
    /// What the signatures are worth.
    pub signature: SignatureState,
    /// Each signature line.
    pub signers: Vec<NoteSigner>,
    /// Whether the journal gives the root that the note has.
    pub root_matches: bool,
    /// How the file of leaves compares.
    pub leaves_file: LeavesState,
    /// Records after the last covered leaf: nothing outside the journal speaks for them.
    pub unproven_tail_records: u64,
    /// Records of the run that a note kept elsewhere covers, when the journal agrees with it.
    pub anchored_records: Option<u64>,
    /// Everything found, in words.
    pub findings: Vec<Finding>,
}

impl AttestationReport {
    /// True when a trusted key says that this is the whole run, and it is.
    pub fn proves_all(&self) -> bool {
        self.signature == SignatureState::Trusted
            && self.root_matches
            && self.closed
            && self.unproven_tail_records == 0
    }
}
