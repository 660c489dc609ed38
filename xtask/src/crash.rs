//! `cargo dev crash`: soaks the crash sweeps.

use clap::Args;

use crate::Outcome;
use crate::shell::{cargo, run};
use crate::tools::NEXTEST;

/// Runs the crash sweeps with other seeds than the gate's, round after round.
#[derive(Args, Debug)]
pub(crate) struct Crash {
    /// Seed of the first round; each later round adds one.
    #[arg(long, value_name = "N")]
    seed: u64,
    /// How many rounds to run.
    #[arg(long, value_name = "M", default_value_t = 1)]
    rounds: u64,
}

impl Crash {
    /// Runs the rounds and stops at the first that fails, with the seed that repeats it.
    pub(crate) fn run(&self) -> Outcome {
        NEXTEST.ensure()?;
        for round in 0..self.rounds {
            let seed = self.seed.wrapping_add(round);
            println!(
                "== crash round {} of {}, seed {seed}",
                round + 1,
                self.rounds
            );
            run(cargo("nextest run --workspace --all-features")
                .args(["-E", "test(crash)"])
                .env("DAYBOOK_CRASH_SEED", seed.to_string()))
            .map_err(|e| format!("{e}; repeat with `cargo dev crash --seed {seed}`"))?;
        }
        Ok(())
    }
}
