//! `daybook replay`: the inputs of a run once more.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead as _, IsTerminal as _, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anstream::eprintln;
use clap::Args;
use omniloop_core::analysis::{
    DivergenceOptions, Input, InputReplayer, ReplayOptions, find_divergence,
};
use omniloop_core::journal::{JournalOptions, SegmentedPlayer};
use omniloop_core::recorder::{
    CommandOptions, RecorderOptions, TelemetryListener, record_command_fed,
};
use serde_json::{Map, Value, json};

use super::diff::print_divergence;
use crate::amounts::{Ticks, ticks};
use crate::failure::{COULD_NOT, DONE, Failure, Outcome};
use crate::kind::kind_of;
use crate::output::Out;
use crate::styles::WARN;

/// How long an input is held back for a command that does not come to its tick.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the command's tick is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// Hands the recorded inputs of a run out again, in order, as JSON lines; or feeds them to a command, records that,
/// and compares it with the run.
///
/// With a command, inputs of the channel stdin are the lines that they were, others are JSON lines with tick, channel
/// and value. Each is held back until the command has printed as much telemetry as the recorded one had. The new run is
/// compared with the old one, all but its inputs.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook replay run.omni                           the inputs, one JSON object per line
  daybook replay run.omni --pace 1                  as quickly as they came; --pace 10 ten times as quickly
  daybook replay run.omni --step                    one at each press of Enter
  daybook replay run.omni --ticks 100..200 --loop 3
  daybook replay run.omni -o again.omni -- ./simulator

Exit codes: 0 done, and with a command nothing differs; 1 the runs part, or the run is damaged; 2 it could not be done.")]
pub(crate) struct ReplayArgs {
    /// The run, or the first file of a set.
    path: PathBuf,
    /// Waits between inputs as the run did, so many times as quickly.
    #[arg(long, value_name = "X", conflicts_with = "step")]
    pace: Option<f64>,
    /// Waits for a line on standard input before each input.
    #[arg(long)]
    step: bool,
    /// Only inputs with these ticks: A..B, both included; either may be left out.
    #[arg(long, value_name = "A..B", value_parser = ticks)]
    ticks: Option<Ticks>,
    /// Hands them out so many times over; 0 goes on until it is stopped.
    #[arg(long = "loop", value_name = "N", default_value_t = 1)]
    times: u64,
    /// Where the run of the command is recorded: a file that does not exist yet.
    #[arg(short, long, value_name = "FILE", requires = "command")]
    output: Option<PathBuf>,
    /// A variable that does not count when the runs are compared. May be repeated.
    #[arg(long, value_name = "NAME", requires = "command")]
    ignore: Vec<String>,
    /// Numbers may be so far apart, times the largest of 1 and their amounts.
    #[arg(long, value_name = "X", default_value_t = 0.0, requires = "command")]
    tolerance: f64,
    /// Prints the comparison as JSON.
    #[arg(long, requires = "command")]
    json: bool,
    /// A command that is run again with the inputs.
    #[arg(last = true, value_name = "CMD", conflicts_with_all = ["pace", "step", "ticks", "times"])]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &ReplayArgs) -> Outcome {
    kind_of(&args.path)?.run(&args.path, "`daybook inspect` shows what it is")?;
    if args.command.is_empty() {
        return print(args);
    }
    again(args)
}

fn inputs(path: &Path) -> Result<InputReplayer, Failure> {
    let player = SegmentedPlayer::open(path)?;
    Ok(InputReplayer::new(player, ReplayOptions::default()))
}

fn print(args: &ReplayArgs) -> Outcome {
    if args
        .pace
        .is_some_and(|pace| !(pace > 0.0 && pace.is_finite()))
    {
        return Err(Failure::new("--pace is a number above 0"));
    }
    let selected = args.ticks.unwrap_or_default();
    let mut out = Out::raw();
    let mut lap = 0;
    while args.times == 0 || lap < args.times {
        lap += 1;
        let mut inputs = inputs(&args.path)?;
        let mut pacing: Option<(Instant, u64)> = None;
        let mut were_any = false;
        while let Some(input) = inputs.next_any()? {
            let tick = input.place.tick;
            if selected.last.is_some_and(|last| tick > last) || out.is_closed() {
                break;
            }
            if selected.first.is_some_and(|first| tick < first) {
                continue;
            }
            were_any = true;
            if let Some(pace) = args.pace {
                let (begun, first_ns) =
                    *pacing.get_or_insert_with(|| (Instant::now(), input.place.mono_ns));
                let since = Duration::from_nanos(input.place.mono_ns.saturating_sub(first_ns));
                let due = begun.checked_add(since.div_f64(pace.max(1e-6)));
                out.flush()?;
                sleep(due.map_or(Duration::ZERO, |due| {
                    due.saturating_duration_since(Instant::now())
                }));
            }
            if args.step && !stepped(&mut out)? {
                return Ok(DONE);
            }
            serde_json::to_writer(&mut out, &input).map_err(io::Error::from)?;
            out.line("")?;
        }
        if !were_any || out.is_closed() {
            break;
        }
    }
    out.flush()?;
    Ok(DONE)
}

/// Waits for a line; false at the end of standard input.
fn stepped(out: &mut Out) -> Result<bool, Failure> {
    out.flush()?;
    if io::stderr().is_terminal() {
        eprintln!("{WARN}Enter{WARN:#} for the next input, Ctrl-D to end");
    }
    let mut line = String::new();
    let len = io::stdin().lock().read_line(&mut line)?;
    Ok(len > 0)
}

fn again(args: &ReplayArgs) -> Outcome {
    let output = args.output.clone().unwrap_or_else(|| {
        let mut name = args.path.file_stem().unwrap_or_default().to_owned();
        name.push(".replayed.omni");
        args.path.with_file_name(name)
    });
    let ticks = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&ticks);
    let options = CommandOptions {
        argv: args.command.clone(),
        env: Vec::new(),
        environment: Vec::new(),
        record_stdin: true,
        listener: Some(TelemetryListener(Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Release);
        }))),
        group: None,
        tick_on: None,
        context: Map::from_iter([("replay_of".to_owned(), json!(args.path))]),
        recorder: RecorderOptions {
            journal: JournalOptions::default(),
            ..RecorderOptions::default()
        },
    };
    let feed = Feed {
        inputs: inputs(&args.path)?,
        ticks,
        ready: VecDeque::new(),
    };
    let outcome = record_command_fed(
        &output,
        &options,
        Box::new(feed),
        Box::new(io::stderr()),
        Box::new(io::stderr()),
    )?;
    outcome.recording?;
    let code = outcome.exit.code();
    if code != DONE {
        eprintln!("{WARN}daybook:{WARN:#} the command ended with {code}");
    }
    let options = DivergenceOptions {
        ignore: args.ignore.clone(),
        ignore_inputs: true,
        tolerance: args.tolerance,
    };
    let found = find_divergence(&args.path, &output, &options)?;
    let compared = print_divergence(&args.path, &output, found.as_ref(), args.json)?;
    Ok(if compared == DONE && code != DONE {
        COULD_NOT
    } else {
        compared
    })
}

/// The recorded inputs as a stream of lines, each held back until the command has come to its tick.
struct Feed {
    inputs: InputReplayer,
    /// Telemetry records of the command so far.
    ticks: Arc<AtomicU64>,
    ready: VecDeque<u8>,
}

impl Read for Feed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ready.is_empty() {
            let input = loop {
                match self.inputs.next_any().map_err(io::Error::other)? {
                    // Of what came over the control socket the command got the changes alone.
                    Some(input) if is_order(&input) => {}
                    Some(input) => break input,
                    None => return Ok(0),
                }
            };
            self.hold_back(input.place.tick);
            self.ready.extend(line_of(&input));
        }
        self.ready.read(into)
    }
}

impl Feed {
    /// Waits for the tick, or until the command has not moved for a while: then it may be waiting for this.
    fn hold_back(&self, tick: u64) {
        let (mut seen, mut since) = (self.ticks.load(Ordering::Acquire), Instant::now());
        while seen < tick && since.elapsed() < PATIENCE {
            sleep(LOOK);
            let now = self.ticks.load(Ordering::Acquire);
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
    }
}

/// Whether the input came over the control socket and the command saw nothing of it.
fn is_order(input: &Input) -> bool {
    let command = input.value.get("command").and_then(Value::as_str);
    input.channel == "control" && command != Some("set")
}

/// What the command gets: the line that it got, or all that is known of an input of another kind.
fn line_of(input: &Input) -> Vec<u8> {
    let exact = input.bytes_hex.as_deref().and_then(bytes_of);
    let mut line = match (exact, input.channel.as_str(), &input.value) {
        (Some(exact), "stdin", _) => exact,
        (None, "stdin", Value::String(text)) => text.clone().into_bytes(),
        (_, channel, value) => {
            let input = json!({ "tick": input.place.tick, "channel": channel, "value": value });
            input.to_string().into_bytes()
        }
    };
    if !input.piece {
        line.push(b'\n');
    }
    line
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}
