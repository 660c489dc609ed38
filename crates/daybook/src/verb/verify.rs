//! `daybook verify`: one verdict per path.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use atune_core::storage::journal::{JournalError, verify_study};
use clap::Args;
use durable::{Finding, Outcome, RealFs, Severity, Verdict};
use omniloop_core::journal::{Error, SetOptions, SetVerification, VerifyOptions};
use serde_json::Map;
use traza::segment::SegmentError;

use super::verify_run;
use crate::failure::{self, BAD_CODE, COULD_NOT, DONE, Failure};
use crate::keys;
use crate::kind::{Kind, kind_of};
use crate::output::Out;
use crate::verdict;

/// Checks everything that records prove about themselves, and says up to where it holds.
///
/// Every record is hashed from the first byte; an index never decides what is checked. A rotated set
/// is checked as a whole, with the attestation beside it. Of a segment of traces every block is decoded,
/// every record derived anew from its span, and every entry of every index compared with the records; of a
/// store of traces every segment is checked like that, and the log, the payloads, the live generation and
/// the pins as well.
///
/// The exit code is 0 when all paths are intact, 1 when one is damaged, and 2 when none is damaged but
/// something that was asked for is not proved, or a path could not be checked.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook verify run.omni
  daybook verify --trust k.pub.pem run.omni       the run must be signed by this key
  daybook verify --note kept.checkpoint run.omni  the run must agree with a note kept elsewhere
  daybook verify segment-00000000000000000000.seg
  daybook verify --json runs/*.omni | jq '.[] | select(.verdict != \"intact\") | .path'")]
pub(crate) struct VerifyArgs {
    /// What to check: a record, or the first file of a set.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Prints a verdict as JSON: an object for one path, an array for several.
    #[arg(long)]
    json: bool,
    /// Insists on what a file cannot prove by itself: the times of its closing records.
    #[arg(long)]
    strict: bool,
    /// A key that must have signed: a PEM file or 64 hexadecimal digits. May be repeated.
    #[arg(long, value_name = "KEY")]
    trust: Vec<String>,
    /// An attestation note of the same run that was kept elsewhere: the run must agree with it.
    #[arg(long, value_name = "FILE")]
    note: Option<PathBuf>,
    /// Threads that hash; 0 takes one per core.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// The verdict on one path, and what it was made from.
struct Checked {
    verdict: Verdict,
    run: Option<SetVerification>,
    hint: Option<String>,
}

pub(crate) fn run(args: &VerifyArgs) -> failure::Outcome {
    let trusted: Result<Vec<_>, Failure> = args.trust.iter().map(|t| keys::public(t)).collect();
    let options = SetOptions {
        verify: VerifyOptions {
            strict: args.strict,
            threads: args.threads,
        },
        trusted: trusted?,
        older_note: args.note.as_deref().map(keys::read).transpose()?,
    };
    let mut out = Out::for_json(args.json);
    let mut verdicts = Vec::new();
    for path in &args.paths {
        let checked = check(path, &options);
        if !args.json {
            verdict::print(&mut out, &checked.verdict, checked.run.as_ref())?;
            if let Some(hint) = &checked.hint {
                out.line(format_args!("  hint: {hint}"))?;
            }
        }
        verdicts.push(checked.verdict);
    }
    if args.json {
        match verdicts.as_slice() {
            [only] => out.json(only)?,
            all => out.json(&all)?,
        }
    }
    std::io::Write::flush(&mut out)?;
    Ok(exit_code(verdicts.iter().map(|v| v.verdict)))
}

/// One damaged path is news that no other path can take back.
fn exit_code(outcomes: impl Iterator<Item = Outcome>) -> u8 {
    match outcomes.max() {
        Some(Outcome::Damaged) => BAD_CODE,
        Some(Outcome::Unproven) => COULD_NOT,
        Some(Outcome::Intact) | None => DONE,
    }
}

fn check(path: &Path, options: &SetOptions) -> Checked {
    match kind_of(path) {
        Ok(Kind::Run) => match verify_run(path, options) {
            Ok(set) => Checked {
                verdict: set.verdict(),
                run: Some(set),
                hint: None,
            },
            Err(error) => could_not(path, "run", code_of(&error), error.into()),
        },
        Ok(Kind::Study) => check_study(path),
        Ok(Kind::Segment) => check_segment(path),
        Ok(Kind::Store) => match traza::store::verify(&RealFs, path) {
            Ok(verdict) => Checked {
                verdict,
                run: None,
                hint: None,
            },
            Err(error) => could_not(path, "store", "unreadable", error.into()),
        },
        Err(no) => could_not(path, "unknown", no.code, no.failure),
    }
}

fn check_study(path: &Path) -> Checked {
    match verify_study(Arc::new(RealFs), path) {
        Ok(verdict) => Checked {
            verdict,
            run: None,
            hint: None,
        },
        Err(error) => {
            let code = match &error {
                JournalError::Io { .. } => "unreadable",
                JournalError::Unsupported { .. } => "newer_version",
                JournalError::NotAStudy { .. } => "unknown_kind",
                _ => "could_not_check",
            };
            could_not(path, "study", code, error.into())
        }
    }
}

fn check_segment(path: &Path) -> Checked {
    match traza::segment::verify(&RealFs, path) {
        Ok(verdict) => Checked {
            verdict,
            run: None,
            hint: None,
        },
        Err(error) => {
            let code = match &error {
                SegmentError::Io { .. } => "unreadable",
                SegmentError::Version { found, newest } if found < newest => "older_version",
                SegmentError::Version { .. } => "newer_version",
                SegmentError::Unsupported { .. } => "unsupported",
                SegmentError::NotASegment => "unknown_kind",
                _ => "could_not_check",
            };
            could_not(path, "segment", code, error.into())
        }
    }
}

/// A stable word for why a run could not be checked.
pub(super) fn code_of(error: &Error) -> &'static str {
    match error {
        Error::Io { .. } => "unreadable",
        Error::Incomplete { .. } => "incomplete",
        Error::Unsupported { .. } => "newer_version",
        Error::NotAJournal { .. } => "unknown_kind",
        _ => "could_not_check",
    }
}

fn could_not(path: &Path, kind: &'static str, code: &'static str, failure: Failure) -> Checked {
    Checked {
        verdict: Verdict {
            path: path.to_owned(),
            kind,
            verdict: Outcome::Unproven,
            findings: vec![Finding {
                code,
                severity: Severity::Unproven,
                place: path.display().to_string(),
                what: failure.message,
            }],
            facts: Map::new(),
        },
        run: None,
        hint: failure.hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_damaged_path_outweighs_everything_and_an_unproven_one_outweighs_intact_ones() {
        use Outcome::{Damaged, Intact, Unproven};
        assert_eq!(exit_code([Intact, Intact].into_iter()), 0);
        assert_eq!(exit_code([Intact, Unproven].into_iter()), 2);
        assert_eq!(exit_code([Unproven, Damaged, Intact].into_iter()), 1);
    }
}
