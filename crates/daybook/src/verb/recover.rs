//! `daybook recover`: saves what can be read of a damaged or cut-off record.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use durable::Outcome as Word;
use omniloop_core::journal::{
    Gap, Neighbour, RecoverOptions, RecoveredSegment, Recovery, RecoveryAction, SetOptions, recover,
};
use serde_json::{Value, json};

use super::verify_run;
use crate::failure::{COULD_NOT, DONE, Failure, Outcome, is_io};
use crate::kind::kind_of;
use crate::output::Out;
use crate::styles::{GOOD, STRONG, WARN};
use crate::text::count;

/// Writes a sound copy of a record that was cut off or damaged. The record itself is never touched.
///
/// What was merely cut off is closed as a clean end would have closed it. Damage inside is skipped and
/// listed with its place and the records on both sides; the copy begins with a record that names them.
/// The copy is read back and verified before this says that it is done.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook recover run.omni                 writes run.recovered.omni
  daybook recover run.omni -o saved.omni
  daybook recover --json run.omni | jq '.segments[].gaps'")]
pub(crate) struct RecoverArgs {
    /// The record, or the first file of a set.
    path: PathBuf,
    /// Where the copy goes; by default beside it, with `.recovered` in its name.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Prints what was done as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &RecoverArgs) -> Outcome {
    kind_of(&args.path)?.run(
        &args.path,
        "a study needs no recovery: what its head does not name is not part of it",
    )?;
    let options = RecoverOptions {
        output: args.output.clone(),
        ..RecoverOptions::default()
    };
    let recovery = recover(&args.path, &options).map_err(|error| {
        let exists = is_io(&error, io::ErrorKind::AlreadyExists);
        let failure = Failure::from(error).with_code(COULD_NOT);
        if exists {
            failure.with_hint("name another file with -o")
        } else {
            failure
        }
    })?;
    // What was written is judged from its bytes, not from what wrote it.
    let verdict = match &recovery.output {
        Some(output) => verify_run(output, &SetOptions::default())?.outcome(),
        None => Word::Intact,
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&document(&args.path, &recovery, verdict))?;
    } else {
        show(&mut out, &args.path, &recovery, verdict)?;
    }
    out.flush()?;
    Ok(DONE)
}

fn document(path: &Path, recovery: &Recovery, verdict: Word) -> Value {
    json!({
        "path": path,
        "output": recovery.output,
        "verdict": verdict,
        "segments": recovery.segments,
    })
}

fn show(out: &mut Out, path: &Path, recovery: &Recovery, verdict: Word) -> io::Result<()> {
    let Some(output) = &recovery.output else {
        let path = path.display();
        return out.line(format_args!(
            "{path} is {GOOD}intact{GOOD:#}: there is nothing to recover"
        ));
    };
    for segment in &recovery.segments {
        out.line(segment_line(segment))?;
        for gap in &segment.gaps {
            out.line(gap_line(gap))?;
        }
        for span in &segment.unproven {
            out.line(format_args!(
                "  {WARN}not vouched for:{WARN:#} records from byte {} to the checkpoint at byte {}: one of \
                 them was altered in a way that only the chain sees",
                span.start, span.end
            ))?;
        }
    }
    let output = output.display();
    out.line(format_args!(
        "{STRONG}{output}:{STRONG:#} written, read back, {}",
        verdict.as_str()
    ))
}

fn segment_line(segment: &RecoveredSegment) -> String {
    let what = match segment.action {
        RecoveryAction::Copied => "intact, copied byte for byte",
        RecoveryAction::Finalised => "cut off, closed after its last whole record",
        RecoveryAction::Salvaged => "damaged, salvaged into a new chain",
        RecoveryAction::Replaced => "missing, replaced by a segment that says so",
    };
    format!(
        "{}: {what}: {} in {}",
        segment.source.display(),
        count(segment.records, "record"),
        segment.output.display()
    )
}

fn gap_line(gap: &Gap) -> String {
    let side = |neighbour: Option<Neighbour>, none: &str| match neighbour {
        Some(n) => format!("{} of tick {} at byte {}", n.kind, n.tick, n.offset),
        None => none.to_owned(),
    };
    format!(
        "  {WARN}gap:{WARN:#} bytes {}..{} ({}), after {}, before {}",
        gap.start,
        gap.end,
        count(gap.end - gap.start, "byte"),
        side(gap.before, "the start"),
        side(gap.after, "the end")
    )
}
