//! Records as callers see them.

use serde::Serialize;
use serde_json::Value;

/// The kind of a record. The kind space is append-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum FrameKind {
    /// State snapshot, one per tick.
    Telemetry = 0,
    /// Parameter change, with old and new value, source and correlation id.
    Mutation = 1,
    /// System command (halt, resume, step), watch trips, clamps, checkpoints.
    Control = 2,
    /// Session start and stop, carrying schema, argv and script path.
    Lifecycle = 3,
    /// State-hash checkpoint for divergence detection.
    Hash = 4,
    /// External input for deterministic replay.
    Input = 5,
    /// Hash-chain checkpoint: 32 raw bytes.
    Chain = 6,
    /// Ed25519 signature over a chain checkpoint: public key, then signature.
    Signature = 7,
    /// A limit downgrade.
    Guardrail = 8,
}

impl FrameKind {
    /// Every kind, in the order of its code.
    pub const ALL: [Self; 9] = [
        Self::Telemetry,
        Self::Mutation,
        Self::Control,
        Self::Lifecycle,
        Self::Hash,
        Self::Input,
        Self::Chain,
        Self::Signature,
        Self::Guardrail,
    ];

    /// The byte that stands for it in a record header.
    #[inline]
    pub fn code(self) -> u8 {
        match self {
            Self::Telemetry => 0,
            Self::Mutation => 1,
            Self::Control => 2,
            Self::Lifecycle => 3,
            Self::Hash => 4,
            Self::Input => 5,
            Self::Chain => 6,
            Self::Signature => 7,
            Self::Guardrail => 8,
        }
    }

    /// The kind with this code.
    #[inline]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code)).copied()
    }

    /// The word that the command line and JSON use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Telemetry => "telemetry",
            Self::Mutation => "mutation",
            Self::Control => "control",
            Self::Lifecycle => "lifecycle",
            Self::Hash => "hash",
            Self::Input => "input",
            Self::Chain => "chain",
            Self::Signature => "signature",
            Self::Guardrail => "guardrail",
        }
    }

    /// What a record of this kind is, in one line; the table of kinds shows it.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Telemetry => "State snapshot, one per tick.",
            Self::Mutation => {
                "Parameter change, with old and new value, source and correlation id."
            }
            Self::Control => "System command (halt, resume, step), watch trip, clamp, checkpoint.",
            Self::Lifecycle => "Session start or stop, with schema, argv and script path.",
            Self::Hash => "State hash for divergence detection.",
            Self::Input => "External input for deterministic replay: commands, RNG seeds.",
            Self::Chain => "Chain checkpoint: the 32 bytes of the chain value before it.",
            Self::Signature => {
                "Ed25519 over the checkpoint before it: public key (32), signature (64)."
            }
            Self::Guardrail => {
                "A limit downgrade: name, requested, applied, min, max, cause, principal."
            }
        }
    }

    /// True for the kinds that describe the run; false for those that describe the file.
    #[inline]
    pub fn is_data(self) -> bool {
        !matches!(self, Self::Chain | Self::Signature)
    }
}

impl std::fmt::Display for FrameKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl std::str::FromStr for FrameKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| {
                format!(
                    "no record kind {text:?}; there are {}",
                    Self::ALL.map(Self::as_str).join(", ")
                )
            })
    }
}

/// One record, borrowed from the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRef<'a> {
    /// What it is.
    pub kind: FrameKind,
    /// Frame counter.
    pub tick: u64,
    /// Nanoseconds since the journal was created.
    pub mono_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub wall_ns: u64,
    /// Where its header starts in its file.
    pub offset: u64,
    /// Its bytes, as written. Nothing requires them to be JSON.
    pub payload: &'a [u8],
}

impl FrameRef<'_> {
    /// The record with a payload of its own.
    pub fn to_record(self) -> FrameRecord {
        FrameRecord {
            kind: self.kind,
            tick: self.tick,
            mono_ns: self.mono_ns,
            wall_ns: self.wall_ns,
            offset: self.offset,
            payload: self.payload.to_vec(),
        }
    }
}

/// One record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameRecord {
    /// What it is.
    pub kind: FrameKind,
    /// Frame counter.
    pub tick: u64,
    /// Nanoseconds since the journal was created.
    pub mono_ns: u64,
    /// Nanoseconds since the Unix epoch.
    pub wall_ns: u64,
    /// Where its header starts in its file.
    pub offset: u64,
    /// Its bytes, as written. Nothing requires them to be JSON.
    pub payload: Vec<u8>,
}

impl FrameRecord {
    /// The payload parsed as JSON.
    ///
    /// # Errors
    /// The parser's, when the payload is not JSON (a chain checkpoint never is).
    pub fn json(&self) -> serde_json::Result<Value> {
        serde_json::from_slice(&self.payload)
    }
}
