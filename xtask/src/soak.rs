//! `cargo dev soak`: processes that are killed at random: workers of one study, and writers of a trace store.

use clap::Args;

use crate::Outcome;
use crate::shell::{cargo, run};

/// Runs processes that are killed at random, more and longer than the gate does: workers of one study, then writers of a
/// trace store.
#[derive(Args, Debug)]
pub(crate) struct Soak {
    /// How many processes work at a time.
    #[arg(long, value_name = "N", default_value_t = 8)]
    processes: u64,
    /// How many trials there are for each process.
    #[arg(long, value_name = "N", default_value_t = 500)]
    trials: u64,
    /// When the study is stopped if its budget is not used up by then.
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Which process is killed or stopped, and for how long; not when, which the machine says.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How often a process that takes spans in on four threads is killed.
    #[arg(long, value_name = "N", default_value_t = 100)]
    rounds: u64,
    /// One of the two only.
    #[arg(long, value_name = "WHAT")]
    only: Option<Only>,
}

/// What is killed.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Only {
    /// Workers of one study.
    Study,
    /// Writers of a trace store.
    Traces,
}

const STUDY: &str = "kill::workers_that_are_killed_and_stopped_lose_nothing_and_keep_to_the_budget";
const TRACES: &str =
    "rounds::no_span_that_was_acknowledged_to_one_of_four_threads_is_lost_in_a_crash_by_sigkill";

impl Soak {
    /// Runs the tests that the gate runs small. What was done and found is their output.
    pub(crate) fn run(&self) -> Outcome {
        if self.only != Some(Only::Traces) {
            run(cargo("test --package atune_core --test acceptance")
                .args(["--", STUDY, "--exact", "--nocapture"])
                .env("DAYBOOK_SOAK_PROCESSES", self.processes.to_string())
                .env("DAYBOOK_SOAK_TRIALS", self.trials.to_string())
                .env("DAYBOOK_SOAK_SECONDS", self.seconds.to_string())
                .env("DAYBOOK_CRASH_SEED", self.seed.to_string()))?;
        }
        if self.only != Some(Only::Study) {
            run(cargo("test --package traza --test store_kill")
                .args(["--", TRACES, "--exact", "--nocapture"])
                .env("DAYBOOK_SOAK_ROUNDS", self.rounds.to_string()))?;
        }
        Ok(())
    }
}
