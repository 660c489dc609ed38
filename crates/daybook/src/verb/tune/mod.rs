//! `daybook tune`: tunes the parameters of any command.

pub(crate) mod attributes;
mod child;
mod command;
mod components;
mod grammar;
pub(crate) mod interrupt;
mod pool;
mod result;
mod session;
mod settle;
mod show;
mod space;
mod trial;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::amounts;
use crate::failure::{BAD_CODE, DONE, Failure, Outcome};
use grammar::Written;
use interrupt::Interrupt;
use session::Session;
use show::Summary;

/// What shells say of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Tunes the parameters of any command: runs it again and again with other values, and keeps the best.
///
/// The command gets the values where its arguments say `{name}`, and as environment variables
/// `DAYBOOK_PARAM_NAME`. It reports by printing lines of JSON: `{"step":3,"loss":0.41}` is an intermediate
/// value, and the last such line, or one with `"final":true`, is the result. An objective named
/// `exit_code` is the exit code of the command.
///
/// Every trial is recorded as a run beside the study. Several `daybook tune` may work at one study at
/// once, also on several machines. Repeating the command goes on where it ended, however it ended.
///
/// The exit code is 0 when the trials are done, 1 when all trials that it ran failed, 130 after Ctrl-C.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook tune study.atj --minimize loss --param 'lr=float(1e-5,1e-1,log)' --trials 50 --workers 4 \\
      -- python train.py --lr {lr}
  daybook tune study.atj --maximize accuracy --space space.toml --trials 200 --scheduler asha \\
      -- ./train --lr={lr} --momentum={momentum}
  daybook tune study.atj --minimize exit_code --param 'seed=int(0,1000)' --trials 1000 -- ./flaky {seed}

Parameters:
  lr=float(1e-5,1e-1,log)       a real number, spread evenly over its logarithm
  dropout=float(0,0.5,step=0.1) one of 0, 0.1, 0.2 …
  layers=int(1,8)               a whole number; also with log or step=
  norm=bool                     true or false
  opt=cat(adam,sgd,\"my own\")    one of a list of words, numbers, true, false, null
  momentum=float(0,1) if opt=sgd        only in trials where the other one has that value
  beta=float(0,1) if opt in (adam,lamb) or one of these")]
pub(crate) struct TuneArgs {
    /// The study file. It is made if it does not exist.
    study: PathBuf,
    /// The study's name; without, that of the file.
    #[arg(long)]
    name: Option<String>,
    /// An objective to minimize. May be repeated; these come before those to maximize.
    #[arg(long, value_name = "METRIC")]
    minimize: Vec<String>,
    /// An objective to maximize. May be repeated.
    #[arg(long, value_name = "METRIC")]
    maximize: Vec<String>,
    /// A member of what the command prints that has to be at most 0 in the end: a trial that misses it is
    /// never the best. May be repeated.
    #[arg(long, value_name = "NAME")]
    constraint: Vec<String>,
    /// A parameter, such as 'lr=float(1e-5,1e-1,log)'. May be repeated.
    #[arg(long, value_name = "NAME=KIND", value_parser = param)]
    param: Vec<Written>,
    /// A file with parameters, which come before those of the command line.
    #[arg(long, value_name = "FILE.toml")]
    space: Option<PathBuf>,
    /// How many trials the study is to have, those that it has already included.
    #[arg(long, value_name = "N")]
    trials: Option<u64>,
    /// How many trials run at the same time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// What chooses the values; by default what fits space and budget. Options follow in parentheses:
    /// 'tpe(multivariate=true)'.
    #[arg(long, value_name = "KIND[(OPTIONS)]")]
    sampler: Option<String>,
    /// What ends trials early that are behind: median (the default for one objective), percentile,
    /// patient, threshold, asha, hyperband, wilcoxon, pbt or none. Options follow in parentheses:
    /// `'asha(reduction_factor=3)'`.
    #[arg(long, value_name = "KIND[(OPTIONS)]")]
    scheduler: Option<String>,
    /// Where random numbers start from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Where the trials are recorded; by default the folder `runs` beside the study file.
    #[arg(long, value_name = "DIR")]
    runs: Option<PathBuf>,
    /// How long one trial may take (30s, 10min, 2h) before it has failed.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    timeout: Option<Duration>,
    /// Starts no further trials after this time.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    stop_after: Option<Duration>,
    /// How long a command that was asked to end with SIGTERM may take before SIGKILL ends it.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    grace: Duration,
    /// How often a trial that failed is tried again with the same values.
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,
    /// How long a worker may stay silent before its trials have failed.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    stale_after: Duration,
    /// The member that counts the steps of a report.
    #[arg(long, value_name = "FIELD", default_value = "step")]
    step: String,
    /// Prints a summary as JSON.
    #[arg(long)]
    json: bool,
    /// Says nothing of the single trials, and draws no progress bar.
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn param(text: &str) -> Result<Written, String> {
    grammar::parse(text).map_err(|fault| fault.to_string())
}

fn duration(text: &str) -> Result<Duration, String> {
    match amounts::nanos(text)? {
        0 => Err("it must be longer than nothing".to_owned()),
        nanos => Ok(Duration::from_nanos(nanos)),
    }
}

pub(crate) fn run(args: &TuneArgs) -> Outcome {
    if args.trials.is_none() && args.stop_after.is_none() {
        return Err(
            Failure::new("neither a number of trials nor a time was given")
                .with_hint("--trials N, --stop-after DURATION, or both"),
        );
    }
    let interrupt = Interrupt::default();
    let listening = interrupt.listen()?;
    let session = Session::open(args)?;
    let ended = pool::run(&session, &interrupt)?;
    drop(listening);
    let summary = Summary::of(&session, &ended)?;
    summary.print(args.json)?;
    Ok(if interrupt.is_asked() {
        INTERRUPTED
    } else if ended.counts.all_failed() {
        BAD_CODE
    } else {
        DONE
    })
}
