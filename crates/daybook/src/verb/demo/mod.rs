//! `daybook demo`: the whole story on real work.
//!
//! Every step is a real command of this program, run as a process of its own and shown before it runs.
//! What the demo claims it has checked, by exit codes and by the JSON that commands print: a claim that does
//! not hold fails the demo.

mod erasure;
mod folder;
mod questions;
mod server;
#[path = "../../../../../examples/moons/spans.rs"]
mod spans;
mod steps;
mod study;
mod tampering;
#[path = "../../../../../examples/moons/train.rs"]
mod train;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::failure::{DONE, Failure, Outcome};
use crate::verb::tune::interrupt::Interrupt;
use server::Served;
use steps::{Steps, at};
pub(crate) use train::TrainArgs;

/// What shells say of a process that Ctrl-C ended.
const INTERRUPTED: u8 = 130;
/// How often it is looked whether the server is still up.
const UP_TICK: Duration = Duration::from_millis(100);

/// Tells the whole story on real work: tunes a training program, asks its best run, tampers with it, erases a trace.
///
/// A server takes the traces, four workers share a study, and one of them is killed. Everything that is said of the
/// records is checked before it is printed; the demo fails when something does not hold. All files stay in a folder, and
/// the server stays up until Ctrl-C, to be tried by hand.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook demo
  daybook demo my-demo --port 4318
  daybook demo --once                   ends by itself, for scripts")]
pub(crate) struct DemoArgs {
    /// The folder that it works in. An earlier demo in it is replaced.
    #[arg(default_value = "daybook-demo")]
    dir: PathBuf,
    /// Ends the server and itself when the story is told.
    #[arg(long)]
    once: bool,
    /// The port of the server of traces; 0 takes a free one.
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
}

pub(crate) fn run(args: &DemoArgs) -> Outcome {
    let interrupt = Interrupt::default();
    let listening = interrupt.listen()?;
    let folder = folder::prepare(&args.dir)?;
    let steps = Steps::new(&args.dir, interrupt)?;
    let told = story(args, &steps);
    // Only now may another demo come, and Ctrl-C end this one at once.
    drop((folder, listening));
    told.map(|()| DONE)
}

/// The training program, under a name that help does not show.
pub(crate) fn train(args: &TrainArgs) -> Outcome {
    train::run(args).map_err(|e| Failure::io("cannot report to standard output", &e))?;
    Ok(DONE)
}

fn story(args: &DemoArgs, steps: &Steps) -> Result<(), Failure> {
    steps.say(
        "1. A server of traces, on a folder.",
        "It takes what OpenTelemetry sends, and needs no other database.",
    )?;
    let server = server::start(steps, args.port)?;
    let told = steps.ask(&["trace", "stats", "--url", &server.url], 0)?;
    steps.claim("the server answers", told.is_object())?;
    let tuned = study::tune(steps, &server.url)?;
    questions::ask_the_run(steps, &tuned)?;
    questions::walk(steps, &tuned, &server.url)?;
    tampering::tamper(steps, &tuned)?;
    tampering::sign(steps, &tuned)?;
    erasure::erase(steps, &tuned, &server.url)?;
    if args.once {
        return end(steps, server);
    }
    invite(steps, &tuned, &server)?;
    wait(steps, server)
}

/// Ends the server, and looks at what it leaves behind.
fn end(steps: &Steps, server: Served) -> Result<(), Failure> {
    steps.say(
        "10. End the server.",
        "What it took is in the folder, whole, and can be proved.",
    )?;
    let status = server.stop()?;
    steps.claim("the server ended cleanly", status.success())?;
    let store = steps.text("traces");
    steps.run(&["verify", &store], 0)?;
    let verdict = steps.ask(&["verify", &store], 0)?;
    steps.claim(
        "the store of traces is intact",
        at(&verdict, "/verdict") == "intact",
    )
}

/// What can be tried by hand.
fn invite(steps: &Steps, tuned: &study::Tuned, server: &Served) -> Result<(), Failure> {
    let (study, best) = (steps.text("study.atj"), &tuned.best);
    steps.say(
        "The server is still up, and all files are here. Open:",
        &format!("  {}\n  {}", server.url, steps.text("study.html")),
    )?;
    let run = steps.text(&best.run());
    steps.say(
        "Try in another terminal:",
        &[
            format!("  daybook inspect {run}"),
            format!("  daybook effects {run} cut-1"),
            format!("  daybook study trials {study}"),
            format!("  daybook study importance {study}"),
            format!("  daybook trail {study}#{} {}", best.number, server.url),
            format!(
                "  daybook trace query --url {} --name train --limit 5",
                server.url
            ),
            format!("  daybook verify {} --json", steps.text("forged.omni")),
            "  daybook record -o mine.omni -- YOUR COMMAND".to_owned(),
        ]
        .join("\n"),
    )?;
    steps.say("Ctrl-C ends the server and this demo.", "")
}

/// Until Ctrl-C, or until somebody else ends the server.
fn wait(steps: &Steps, mut server: Served) -> Result<(), Failure> {
    while steps.check().is_ok() {
        if let Some(status) = server.status()? {
            return Err(Failure::new(format!(
                "the server ended by itself: {status}"
            )));
        }
        std::thread::sleep(UP_TICK);
    }
    let status = server.stop()?;
    if !status.success() {
        return Err(Failure::new(format!("the server ended with {status}")));
    }
    Ok(())
}
