//! `daybook record`: flight-records any command.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use anstream::eprintln;
use clap::{Args, ValueEnum};
use durable::{Fs as _, RealFs};
use omniloop_control::{HaltPolicy, Param};
use omniloop_core::journal::{Durability, JournalOptions, JournalSigner};
use omniloop_core::recorder::{
    Closed, CommandOptions, Links, Policy, RESOURCE_VARIABLE, RecorderOptions, TRACE_VARIABLE,
    new_run_id, record_command_with,
};
use serde_json::{Map, Value};

use super::host;
use crate::amounts::{self, Rotate};
use crate::attesting::{Attesting, Signed};
use crate::controlling::{self, Controlling};
use crate::failure::{COULD_NOT, DONE, Failure, Outcome, is_io};
use crate::keys;
use crate::styles::{HINT, WARN};
use crate::text::{bytes, count};
use crate::trace_parent::TraceParent;

/// Runs a command and records it: its output line by line, its signals, how it started and ended.
///
/// A line of standard output that is a JSON object is a telemetry record and advances the tick; a line
/// `{"mutation": {"name": …, "old": …, "new": …, "cause": …}}` says that the command changed a variable; every
/// other line, and all of standard error, is a log record. The output still goes where it would have
/// gone. Another process can read the file while it grows.
///
/// With --control the command can be attended while it runs, with `daybook ctl`: it is in a process group
/// of its own then, which is halted by SIGSTOP and goes on by SIGCONT; signals and key presses that
/// reach the recorder are passed on to it. What --param names can be changed: the command gets a JSON
/// line with tick, channel and value on its standard input.
///
/// The exit code is the command's own, or 128 and the number of the signal that ended it. It is 2
/// when the command succeeded and its recording did not.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook record -o run.omni -- python train.py --lr 1e-3
  daybook record -o run.omni --rotate 64MiB --rotate 1h -- ./control-loop
  daybook record -o run.omni --key k.pem -- python train.py
  daybook record -o run.omni --stdin --tick-on step -- ./simulator < commands.txt
  daybook record -o run.omni --control run.sock --param lr=0.1,0..1 -- python train.py")]
pub(crate) struct RecordArgs {
    /// Where the recording goes: a file that does not exist yet.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Starts a new file at this size (64MiB, 10MB), number of records (100000) or age (30s, 10min,
    /// 1h). May be repeated with another kind of limit.
    #[arg(long, value_name = "LIMIT", value_parser = amounts::rotate)]
    rotate: Vec<Rotate>,
    /// Signs every file and keeps a signed attestation beside them, with this private key.
    #[arg(long, value_name = "KEY")]
    key: Option<PathBuf>,
    /// The name of the run in its attestation, by default made from machine, path and time.
    #[arg(long, value_name = "ORIGIN", requires = "key")]
    origin: Option<String>,
    /// When records are synced to the disk: buffered (at the end), every=RECORDS,
    /// every=MILLISECONDSms, or each.
    #[arg(long, value_name = "WHEN", default_value = "every=1000ms", value_parser = amounts::durability)]
    durability: Durability,
    /// Takes standard input, records it line by line, and passes it on.
    #[arg(long)]
    stdin: bool,
    /// Only objects with this member are telemetry; others are log records.
    #[arg(long, value_name = "FIELD")]
    tick_on: Option<String>,
    /// Also records this environment variable. May be repeated.
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
    /// When the disk cannot keep up, drops telemetry and records how much, instead of holding up the
    /// command.
    #[arg(long)]
    drop_when_full: bool,
    /// Listens at this socket, which only this user can connect to, for `daybook ctl`.
    #[arg(long, value_name = "SOCK")]
    control: Option<PathBuf>,
    /// What it means when the last controller, a `daybook ctl SOCK attend`, is cut off: the command goes
    /// on, is halted, or is asked to end.
    #[arg(
        long,
        value_name = "POLICY",
        default_value = "halt",
        requires = "control"
    )]
    halt_policy: WhenLost,
    /// A parameter that can be changed over the socket, with its limits if it has any:
    /// NAME=VALUE or NAME=VALUE,MIN..MAX. May be repeated.
    #[arg(long, value_name = "PARAM", value_parser = controlling::param)]
    #[arg(requires = "control", conflicts_with = "stdin")]
    param: Vec<(String, Param)>,
    /// Replaces the recording that stands there, all of its files.
    #[arg(long)]
    force: bool,
    /// Says nothing unless something goes wrong.
    #[arg(short, long)]
    quiet: bool,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What the loss of the last controller means.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum WhenLost {
    Continue,
    Halt,
    Exit,
}

impl From<WhenLost> for HaltPolicy {
    fn from(policy: WhenLost) -> Self {
        match policy {
            WhenLost::Continue => Self::Continue,
            WhenLost::Halt => Self::Halt,
            WhenLost::Exit => Self::Exit,
        }
    }
}

pub(crate) fn run(args: &RecordArgs) -> Outcome {
    let signer = args.key.as_deref().map(keys::signer).transpose()?;
    let mut options = options(args, signer.as_ref())?;
    let controlling = match &args.control {
        Some(socket) => {
            let (policy, params) = (args.halt_policy.into(), args.param.clone());
            let started = Controlling::start(socket, &args.output, policy, params)?;
            options.group = Some(started.group());
            options.listener = Some(started.listener());
            Some(started)
        }
        None => None,
    };
    let mut attesting = None;
    let recorded = record_command_with(
        &args.output,
        &options,
        Box::new(io::stdout()),
        Box::new(io::stderr()),
        || {
            attesting = signer
                .map(|signer| Attesting::start(&args.output, signer, args.origin.clone(), host()));
        },
    );
    if let Some(controlling) = controlling {
        controlling.finish();
    }
    let attesting = attesting.transpose();
    let outcome = match recorded {
        Ok(outcome) => outcome,
        Err(error) => {
            // The journal says that the command did not start; so may its attestation.
            if let Ok(Some(attesting)) = attesting {
                attesting.finish(true).ok();
            }
            let exists = is_io(&error, io::ErrorKind::AlreadyExists);
            let failure = Failure::from(error);
            return Err(if exists {
                failure.with_hint("--force replaces it, all of its files")
            } else {
                failure
            });
        }
    };
    let attested = match attesting {
        Ok(None) => Ok(None),
        Ok(Some(attesting)) => attesting
            .finish(outcome.recording.is_ok())
            .map(Some)
            .map_err(Failure::from),
        Err(error) => Err(Failure::io("cannot start a thread", &error)),
    };
    let mut lost = false;
    match outcome.recording {
        Ok(closed) if !args.quiet => summarise(args, &closed),
        Ok(_) => {}
        Err(error) => {
            lost = true;
            let path = args.output.display();
            let failure = Failure::from(error);
            let what = format!("the recording is incomplete: {}", failure.message);
            let hint = format!(
                "`daybook inspect {path}` shows what is there, `daybook recover {path}` closes a copy of it"
            );
            Failure::new(what).with_hint(hint).print("daybook");
        }
    }
    match attested {
        Ok(Some(signed)) if !args.quiet && !lost => tell_signed(&signed),
        Ok(_) => {}
        Err(failure) => {
            lost = true;
            let what = format!("the attestation is incomplete: {}", failure.message);
            Failure::new(what).print("daybook");
        }
    }
    if !args.quiet && !lost {
        eprintln!(
            "{HINT}hint:{HINT:#} daybook verify {}",
            args.output.display()
        );
    }
    let code = outcome.exit.code();
    // A lost recording must not look like success.
    Ok(if lost && code == DONE {
        COULD_NOT
    } else {
        code
    })
}

fn options(args: &RecordArgs, signer: Option<&JournalSigner>) -> Result<CommandOptions, Failure> {
    let rotation = amounts::rotation(&args.rotate).map_err(Failure::new)?;
    let (context, environment) = links();
    Ok(CommandOptions {
        argv: args.command.clone(),
        env: args.env.clone(),
        environment,
        record_stdin: args.stdin,
        listener: None,
        group: None,
        tick_on: args.tick_on.clone(),
        context,
        recorder: RecorderOptions {
            journal: JournalOptions {
                durability: args.durability,
                rotation,
                overwrite: args.force,
                signer: signer.cloned(),
                ..JournalOptions::default()
            },
            policy: if args.drop_when_full {
                Policy::DropTelemetry
            } else {
                Policy::Block
            },
            ..RecorderOptions::default()
        },
    })
}

/// What the start record says of the run's place among others, and what the command is told of it: the
/// surroundings' own study, trial, session and trace, and a new name for the run.
fn links() -> (Map<String, Value>, Vec<(OsString, OsString)>) {
    let around = |name: &str| std::env::var(name).ok();
    let (resource, parent) = (around(RESOURCE_VARIABLE), around(TRACE_VARIABLE));
    let links = Links {
        run_id: Some(new_run_id()),
        ..Links::from_environment(resource.as_deref(), parent.as_deref())
    };
    let attributes = links.resource_attributes(resource.as_deref());
    let mut environment = vec![(RESOURCE_VARIABLE.into(), attributes.into())];
    if links.trace_id.is_none() {
        environment.push((TRACE_VARIABLE.into(), TraceParent::new().text().into()));
    }
    let mut context = Map::new();
    links.add_to_start(&mut context);
    (context, environment)
}

fn summarise(args: &RecordArgs, closed: &Closed) {
    let path = args.output.display();
    let files = closed.sealed.paths.len() as u64;
    let lens = closed.sealed.paths.iter();
    let len: u64 = lens
        .filter_map(|p| Some(RealFs.metadata(p).ok()?.len))
        .sum();
    let records = count(closed.sealed.record_count, "record");
    eprintln!(
        "daybook: {records} in {} of {} at {path}",
        count(files, "file"),
        bytes(len)
    );
    if closed.dropped > 0 {
        let dropped = count(closed.dropped, "telemetry record");
        eprintln!("{WARN}daybook:{WARN:#} {dropped} dropped, since the disk did not keep up");
    }
}

fn tell_signed(signed: &Signed) {
    let Signed { origin, records } = signed;
    eprintln!(
        "daybook: the attestation covers {} of {origin}",
        count(*records, "record")
    );
}
