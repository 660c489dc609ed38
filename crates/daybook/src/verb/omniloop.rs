//! `omniloop verify`: the check of a run, in the words of the format's own documents.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use omniloop_core::journal::{IndexState, SetOptions, SetVerification};
use serde_json::{Value, json};

use super::verify::code_of;
use super::verify_run;
use crate::failure::{Failure, Outcome};
use crate::output::Out;
use crate::verdict;

/// Checks `.omni` journals.
#[derive(Debug, Parser)]
#[command(
    name = "omniloop",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub(crate) struct Omniloop {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Verify(VerifyArgs),
}

/// Verifies the hash chain of a journal, every segment of a set included.
///
/// The exit code is 0 when it is intact, 1 when it is not, and 2 when that cannot be told.
#[derive(Args, Debug)]
struct VerifyArgs {
    /// The journal, or the first segment of a set.
    #[arg(value_name = "RUN")]
    path: PathBuf,
    /// Prints the result as JSON.
    #[arg(long)]
    json: bool,
}

impl Omniloop {
    pub(crate) fn run(self) -> Outcome {
        let Verb::Verify(args) = self.verb;
        let mut out = Out::for_json(args.json);
        let set = match verify_run(&args.path, &SetOptions::default()) {
            Ok(set) => set,
            Err(error) => {
                let code = code_of(&error);
                let failure = Failure::from(error).with_code(crate::failure::COULD_NOT);
                if args.json {
                    let finding = json!({ "code": code, "severity": "unproven",
                        "where": args.path, "what": failure.message });
                    out.json(&json!({ "ok": false, "break_at": null, "findings": [finding] }))?;
                }
                return Err(failure);
            }
        };
        if args.json {
            out.json(&document(&set))?;
        } else {
            verdict::print(&mut out, &set.verdict(), Some(&set))?;
        }
        std::io::Write::flush(&mut out)?;
        Ok(set.outcome().exit_code())
    }
}

/// The members of `ChainVerification`, over all segments of a set.
fn document(set: &SetVerification) -> Value {
    let chains = || set.results().map(|result| &result.chain);
    let readable = set.segments.iter().all(|segment| segment.result.is_some());
    let index = chains()
        .map(|chain| chain.index)
        .max_by_key(|state| match state {
            IndexState::Consistent => 0,
            IndexState::Absent => 1,
            IndexState::Inconsistent => 2,
        });
    let break_at = set.break_at().map(|(path, at)| {
        let mut at = json!(at);
        if let (Value::Object(members), true) = (&mut at, set.segments.len() > 1) {
            members.insert("path".to_owned(), json!(path));
        }
        at
    });
    let sound = set.outcome() != durable::Outcome::Damaged;
    json!({
        "ok": sound && readable && chains().all(|chain| chain.ok),
        "declared_chained": readable && chains().all(|chain| chain.declared_chained),
        "checkpoints": chains().map(|chain| chain.checkpoints).sum::<u64>(),
        "head": chains().last().and_then(|chain| chain.head.clone()),
        "break_at": break_at,
        "records": set.record_count(),
        "finalized": readable && chains().all(|chain| chain.finalized),
        "unverified_tail": chains().map(|chain| chain.unverified_tail).sum::<u64>(),
        "truncated": chains().any(|chain| chain.truncated),
        "index": index,
        "trailing_bytes": chains().map(|chain| chain.trailing_bytes).sum::<u64>(),
        "segments": set.segments,
        "attestation": set.attestation,
        "findings": set.findings().collect::<Vec<_>>(),
    })
}
