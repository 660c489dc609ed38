//! `daybook query-run`: the records of a run for which a condition holds.

mod expression;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anstream::eprintln;
use clap::Args;
use omniloop_core::analysis::value_of;
use omniloop_core::export::Selection;
use omniloop_core::journal::{FrameKind, FrameRef, SegmentedPlayer};
use serde_json::{Value, json};

use self::expression::{Condition, Record};
use crate::amounts::{Ticks, ticks};
use crate::failure::{DONE, Failure, Outcome};
use crate::kind::kind_of;
use crate::output::Out;
use crate::styles::{FAINT, STRONG};
use crate::text::{clean, count, duration, shorten};

/// Characters of a value that are shown.
const VALUE_WIDTH: usize = 40;

/// Finds the ticks at which a condition on the variables of a run holds.
///
/// A condition is written as in SQL: comparisons, and, or, not, between, in, is null, arithmetic, and the functions
/// `abs`, `is_nan` and `is_finite`. Text is in single quotes. A variable is a member of the telemetry, or a nested one
/// (`arm.gain`); a name that SQL would not take is in double quotes (`"arm.joints.0"`, `"grad-norm"`). Plain `tick`, `kind`,
/// `mono_ns` and `wall_ns` are the record's own. Where a variable is missing the condition is unknown, and the record is
/// not shown.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook query-run run.omni 'loss > 2 and lr < 0.1'
  daybook query-run run.omni 'is_nan(loss) or abs(grad_norm) > 1e3' --ticks 1000..
  daybook query-run run.omni \"name = 'lr'\" --kind mutation
  daybook query-run run.omni 'loss > 2' --count
  daybook query-run run.omni 'loss > 2' --json | jq '.records[].tick'

Exit codes: 0 searched to the end, found or not; 1 the run is damaged, 2 the condition or the run cannot be read.")]
pub(crate) struct QueryRunArgs {
    /// The run, or the first file of a set.
    path: PathBuf,
    /// The condition.
    #[arg(value_name = "CONDITION")]
    condition: String,
    /// Records of this kind. May be repeated.
    #[arg(long, value_name = "KIND", default_value = "telemetry")]
    kind: Vec<FrameKind>,
    /// Only records with these ticks: A..B, both included; either may be left out.
    #[arg(long, value_name = "A..B", value_parser = ticks)]
    ticks: Option<Ticks>,
    /// Shows so many records at most, and counts them all; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: u64,
    /// Only counts.
    #[arg(long)]
    count: bool,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &QueryRunArgs) -> Outcome {
    let condition = Condition::parse(&args.condition)
        .map_err(|why| Failure::new(format!("the condition is not understood: {why}")))?;
    kind_of(&args.path)?.run(&args.path, "`daybook inspect` shows what it is")?;
    let mut player = SegmentedPlayer::open(&args.path)?;
    let range = args.ticks.unwrap_or_default();
    let selection = Selection {
        kinds: args.kind.clone(),
        first_tick: range.first,
        last_tick: range.last,
    };
    let mut found = Found {
        args,
        condition: &condition,
        out: Out::for_json(args.json),
        looked_at: 0,
        matched: 0,
        shown: 0,
    };
    found.begin()?;
    if let Some(first) = selection.first_tick {
        player.seek_to_tick(first)?;
    }
    loop {
        match player.next_frame()? {
            Some(frame) if selection.ends_before(&frame) => break,
            Some(frame) if selection.takes(&frame) => found.look(&frame)?,
            Some(_) => {}
            None => {
                player.check_complete()?;
                break;
            }
        }
        if found.out.is_closed() {
            return Ok(DONE);
        }
    }
    found.end()
}

/// Looks at records one by one, and shows those that are meant.
struct Found<'a> {
    args: &'a QueryRunArgs,
    condition: &'a Condition,
    out: Out,
    looked_at: u64,
    matched: u64,
    shown: u64,
}

impl Found<'_> {
    fn begin(&mut self) -> io::Result<()> {
        if !self.args.json {
            return Ok(());
        }
        // The records are written as they are found: there may be more of them than fit into memory.
        let path = serde_json::to_string(&self.args.path).map_err(io::Error::from)?;
        let condition = serde_json::to_string(&self.args.condition).map_err(io::Error::from)?;
        write!(
            self.out,
            "{{\"path\":{path},\"condition\":{condition},\"records\":["
        )
    }

    fn look(&mut self, frame: &FrameRef<'_>) -> io::Result<()> {
        self.looked_at += 1;
        // What is no JSON has no variables.
        let Ok(payload) = serde_json::from_slice::<Value>(frame.payload) else {
            return Ok(());
        };
        let record = Record {
            frame,
            payload: &payload,
        };
        if !self.condition.holds(&record) {
            return Ok(());
        }
        self.matched += 1;
        let is_shown = self.args.limit == 0 || self.shown < self.args.limit;
        if self.args.count || !is_shown {
            return Ok(());
        }
        self.shown += 1;
        if self.args.json {
            let separator = if self.shown > 1 { "," } else { "" };
            let record = json!({
                "tick": frame.tick, "kind": frame.kind, "mono_ns": frame.mono_ns, "wall_ns": frame.wall_ns,
                "payload": payload,
            });
            return write!(self.out, "{separator}\n{record}");
        }
        let tick = format!("tick {}", frame.tick);
        let mut line = format!("{tick:<12}{FAINT}{:<12}{FAINT:#}", duration(frame.mono_ns));
        for name in &self.condition.variables {
            if let Some(value) = value_of(&payload, name) {
                let value = shorten(&value.to_string(), VALUE_WIDTH);
                write!(line, "  {}={STRONG}{value}{STRONG:#}", clean(name)).ok();
            }
        }
        self.out.line(line)
    }

    fn end(mut self) -> Outcome {
        let (matched, looked_at) = (self.matched, self.looked_at);
        if self.args.json {
            writeln!(
                self.out,
                "\n],\"matched\":{matched},\"shown\":{},\"looked_at\":{looked_at}}}",
                self.shown
            )?;
        } else if self.args.count {
            self.out.line(matched)?;
        } else {
            let of = count(looked_at, "record");
            eprintln!("daybook: it holds for {matched} of {of}");
            if self.shown < matched {
                eprintln!(
                    "daybook: the first {} are shown (--limit 0 shows all)",
                    self.shown
                );
            }
        }
        self.out.flush()?;
        Ok(DONE)
    }
}
