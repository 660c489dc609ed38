//! What `verify` says, in one shape for every kind of record.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

/// The answer in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Checked whole, and everything that the format can prove holds.
    Intact,
    /// Nothing contradicts itself, yet something that was asked for is not proved.
    Unproven,
    /// Something contradicts the record's own proofs.
    Damaged,
}

impl Outcome {
    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Intact => "intact",
            Self::Unproven => "unproven",
            Self::Damaged => "damaged",
        }
    }

    /// The exit code that goes with it: 0 intact, 1 not intact, 2 cannot tell.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Intact => 0,
            Self::Damaged => 1,
            Self::Unproven => 2,
        }
    }
}

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; the verdict stands without it.
    Note,
    /// Leaves something unproved.
    Unproven,
    /// Contradicts the record's proofs.
    Damage,
}

/// One thing that verification found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// A stable word for programs.
    pub code: &'static str,
    /// How much it weighs.
    pub severity: Severity,
    /// Where: file, offset, section, tick.
    #[serde(rename = "where")]
    pub place: String,
    /// What it is and what it means, for a person.
    pub what: String,
}

/// The verdict on one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The path that was asked about.
    pub path: PathBuf,
    /// The kind of record, e.g. `run`.
    pub kind: &'static str,
    /// The answer.
    pub verdict: Outcome,
    /// Everything found, in the order of the bytes.
    pub findings: Vec<Finding>,
    /// Counts, heads and times that the check came across.
    pub facts: Map<String, Value>,
}

impl Verdict {
    /// The outcome that follows from findings alone: the gravest one decides.
    pub fn outcome_of(findings: &[Finding]) -> Outcome {
        match findings.iter().map(|f| f.severity).max() {
            Some(Severity::Damage) => Outcome::Damaged,
            Some(Severity::Unproven) => Outcome::Unproven,
            Some(Severity::Note) | None => Outcome::Intact,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_finding_decides_the_outcome() {
        let finding = |severity| Finding {
            code: "x",
            severity,
            place: String::new(),
            what: String::new(),
        };
        assert_eq!(Verdict::outcome_of(&[]), Outcome::Intact);
        assert_eq!(
            Verdict::outcome_of(&[finding(Severity::Note)]),
            Outcome::Intact
        );
        let both = [finding(Severity::Damage), finding(Severity::Unproven)];
        assert_eq!(Verdict::outcome_of(&both), Outcome::Damaged);
        assert_eq!(Verdict::outcome_of(&both[1..]), Outcome::Unproven);
        assert_eq!(
            [0, 2, 1],
            [Outcome::Intact, Outcome::Unproven, Outcome::Damaged].map(Outcome::exit_code)
        );
    }
}
