//! `daybook diff`: where two runs part, or two studies.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use omniloop_core::analysis::{Divergence, DivergenceOptions, Side, Subject, find_divergence};
use serde_json::json;

use super::study::first_difference;
use crate::failure::{BAD_CODE, DONE, Failure, Outcome};
use crate::kind::{Kind, kind_of};
use crate::output::Out;
use crate::styles::{GOOD, STRONG, WARN};
use crate::text::{clean, duration, shorten};

/// Characters of a value that are shown.
const VALUE_WIDTH: usize = 100;

/// Finds the first difference of two runs, or of two studies.
///
/// Runs are compared tick by tick: inputs, then hashes of the state, or the telemetry field by field where there
/// are none. Studies are compared trial by trial: parameters, reports, values, state. Times, processes and
/// owners never count.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook diff good.omni bad.omni
  daybook diff a.omni b.omni --ignore wall_time --tolerance 1e-9
  daybook diff study.atj copy.atj --json

Exit codes: 0 no difference, 1 a difference (or damage), 2 they cannot be compared.")]
pub(crate) struct DiffArgs {
    /// The first run or study.
    a: PathBuf,
    /// The second one, of the same kind.
    b: PathBuf,
    /// A variable that does not count, with all that is inside of it. May be repeated.
    #[arg(long, value_name = "NAME")]
    ignore: Vec<String>,
    /// Numbers of the telemetry may be so far apart, times the largest of 1 and their amounts.
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    tolerance: f64,
    /// Leaves inputs out.
    #[arg(long)]
    ignore_inputs: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &DiffArgs) -> Outcome {
    match (kind_of(&args.a)?, kind_of(&args.b)?) {
        (Kind::Run, Kind::Run) => {
            let options = DivergenceOptions {
                ignore: args.ignore.clone(),
                ignore_inputs: args.ignore_inputs,
                tolerance: args.tolerance,
            };
            let found = find_divergence(&args.a, &args.b, &options)?;
            print_divergence(&args.a, &args.b, found.as_ref(), args.json)
        }
        (Kind::Study, Kind::Study) => {
            let found = first_difference(&args.a, &args.b)?;
            let mut out = Out::for_json(args.json);
            if args.json {
                out.json(&json!({ "a": args.a, "b": args.b, "difference": found }))?;
            } else if let Some(found) = &found {
                let side = |value: &serde_json::Value| shorten(&value.to_string(), VALUE_WIDTH);
                let at = match found.trial {
                    Some(number) => format!("trial {number}"),
                    None => "the study itself".to_owned(),
                };
                out.line(format_args!(
                    "{WARN}{at} differs{WARN:#} in {}",
                    clean(&found.field)
                ))?;
                out.line(format_args!("  {}: {}", args.a.display(), side(&found.a)))?;
                out.line(format_args!("  {}: {}", args.b.display(), side(&found.b)))?;
            } else {
                out.line(format_args!("{GOOD}no difference{GOOD:#}"))?;
            }
            out.flush()?;
            Ok(if found.is_some() { BAD_CODE } else { DONE })
        }
        (Kind::Run | Kind::Study, other @ (Kind::Segment | Kind::Store)) => {
            Err(other.instead_of("a run or a study", &args.b))
        }
        (other @ (Kind::Segment | Kind::Store), _) => {
            Err(other.instead_of("a run or a study", &args.a))
        }
        (a, _) => {
            let wanted = if a == Kind::Run { "a run" } else { "a study" };
            Err(kind_of(&args.b)?.instead_of(&format!("{wanted} as the first one is"), &args.b))
        }
    }
}

/// Prints where two runs part, and answers the exit code for it.
pub(super) fn print_divergence(
    a: &Path,
    b: &Path,
    found: Option<&Divergence>,
    as_json: bool,
) -> Result<u8, Failure> {
    let code = if found.is_some() { BAD_CODE } else { DONE };
    let mut out = Out::for_json(as_json);
    if as_json {
        out.json(&json!({ "a": a, "b": b, "divergence": found }))?;
        return Ok(code);
    }
    let Some(found) = found else {
        out.line(format_args!("{GOOD}no difference{GOOD:#}"))?;
        out.flush()?;
        return Ok(code);
    };
    let field = clean(&found.field);
    let what = match found.subject {
        Subject::Input => format!("the input {field:?}"),
        Subject::Hash if field.is_empty() => "the hash of the state".to_owned(),
        Subject::Hash => format!("the hash of {field}"),
        Subject::Telemetry => format!("the variable {STRONG}{field}{STRONG:#}"),
        Subject::End => "one run goes on and the other does not".to_owned(),
    };
    out.line(format_args!(
        "{WARN}the runs part at tick {}{WARN:#}: {what}",
        found.tick
    ))?;
    for (path, side) in [(a, &found.a), (b, &found.b)] {
        out.line(format_args!("  {}: {}", path.display(), told(side)))?;
    }
    out.line(match found.last_equal {
        Some(tick) => format!("  the same up to tick {tick}"),
        None => "  nothing is the same before it".to_owned(),
    })?;
    out.flush()?;
    Ok(code)
}

fn told(side: &Side) -> String {
    let value = side
        .value
        .as_ref()
        .map(|value| shorten(&value.to_string(), VALUE_WIDTH));
    match (value, &side.place) {
        (Some(value), Some(place)) => format!("{value}, after {}", duration(place.mono_ns)),
        (Some(value), None) => value,
        (None, Some(place)) => format!("has a record after {}", duration(place.mono_ns)),
        (None, None) => "nothing".to_owned(),
    }
}
