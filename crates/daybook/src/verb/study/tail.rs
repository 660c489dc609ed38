//! `daybook study tail`: the newest operations, and those that come.

use std::collections::VecDeque;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use atune_core::storage::journal::{JournalReader, record::OpLine};
use clap::Args;
use durable::{Fs as _, RealFs, Watcher};
use signal_hook::consts::SIGINT;

use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;

/// How long after a look the next one comes, at most: other machines' changes wake nobody.
const POLL: Duration = Duration::from_millis(200);

/// The newest operations of a study file, one per line; with `-f` also those that come.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook study tail study.atj
  daybook study tail -f study.atj | grep lifecycle-terminal")]
pub(super) struct TailArgs {
    /// The study file.
    path: PathBuf,
    /// Goes on with what is published from now on, until Ctrl-C.
    #[arg(short, long)]
    follow: bool,
    /// Starts with so many of the newest.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Lines are JSON anyway; accepted as everywhere.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &TailArgs) -> Outcome {
    drop(super::open(&args.path)?);
    let mut newest = VecDeque::new();
    let mut reader = JournalReader::open_watched(Arc::new(RealFs), &args.path, &mut |line, _| {
        newest.push_back(line.clone());
        if newest.len() > args.lines {
            newest.pop_front();
        }
    })?;
    let mut out = Out::raw();
    for line in &newest {
        print(&mut out, line)?;
    }
    out.flush()?;
    if !args.follow {
        return Ok(DONE);
    }
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))
        .map_err(|error| Failure::io("cannot listen for Ctrl-C", &error))?;
    let watcher = RealFs.watcher().ok().flatten();
    while !interrupted.load(Ordering::Relaxed) && !out.is_closed() {
        wait(watcher.as_deref(), &reader);
        let mut printed = Ok(());
        reader.refresh_watched(&mut |line, _| {
            if printed.is_ok() {
                printed = print(&mut out, line);
            }
        })?;
        printed?;
        out.flush()?;
    }
    Ok(DONE)
}

/// Waits for the next head, and not for ever.
fn wait(watcher: Option<&dyn Watcher>, reader: &JournalReader) {
    // The head is another file after each commit, so it is watched anew.
    let is_watched = watcher.filter(|watcher| watcher.add(reader.path()).is_ok());
    if is_watched.is_none_or(|watcher| watcher.wait(POLL).is_err()) {
        std::thread::sleep(POLL);
    }
}

fn print(out: &mut Out, line: &OpLine) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line).map_err(io::Error::from)?;
    out.write_all(b"\n")
}
