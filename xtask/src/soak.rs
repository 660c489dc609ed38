//! `cargo dev soak`: workers of one study that are killed and stopped at random.

use clap::Args;

use crate::Outcome;
use crate::shell::{cargo, run};

/// Runs workers of one study that are killed and stopped at random, more and longer than the gate does.
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
}

const TEST: &str = "kill::workers_that_are_killed_and_stopped_lose_nothing_and_keep_to_the_budget";

impl Soak {
    /// Runs the test that the gate runs small. What was done and found is its output.
    pub(crate) fn run(&self) -> Outcome {
        run(cargo("test --package atune_core --test acceptance")
            .args(["--", TEST, "--exact", "--nocapture"])
            .env("DAYBOOK_SOAK_PROCESSES", self.processes.to_string())
            .env("DAYBOOK_SOAK_TRIALS", self.trials.to_string())
            .env("DAYBOOK_SOAK_SECONDS", self.seconds.to_string())
            .env("DAYBOOK_CRASH_SEED", self.seed.to_string()))
    }
}
