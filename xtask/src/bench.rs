//! `cargo dev bench`: runs a benchmark program.

use std::path::{self, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::Outcome;
use crate::quality::Quality;
use crate::shell::{cargo, run};

/// Runs one of the benchmark programs, which live beside their crates.
#[derive(Args, Debug)]
pub(crate) struct Bench {
    /// The program.
    #[arg(value_parser = PossibleValuesParser::new(PROGRAMS.map(|p| p.0)))]
    name: String,
    /// Measures less, to see that the program works.
    #[arg(long)]
    quick: bool,
    /// Also writes the results there, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// More arguments for the program.
    #[arg(last = true)]
    args: Vec<String>,
}

/// Name, package and bench target of each program.
const PROGRAMS: [(&str, &str, &str); 8] = [
    ("atj", "atune_core", "atj"),
    ("omni", "omniloop-core", "omni"),
    ("storage-bench", "traza", "storage-bench"),
    ("traza", "daybook-records", "traza"),
    ("traza-segment", "traza", "traza-segment"),
    ("traza-store", "traza", "traza-store"),
    ("tuner-functions", "atune_core", "quality"),
    // The suite in Python, which the bench target only gives latencies to.
    (QUALITY, "atune_core", "quality"),
];

const QUALITY: &str = "tuner-quality";

impl Bench {
    pub(crate) fn run(&self) -> Outcome {
        if self.name == QUALITY {
            return Quality {
                quick: self.quick,
                json: self.json.as_deref(),
                args: &self.args,
            }
            .run();
        }
        for (_, package, target) in PROGRAMS.iter().filter(|p| p.0 == self.name) {
            let mut bench = cargo("bench --all-features");
            bench.args(["-p", package, "--bench", target, "--"]);
            if self.quick {
                bench.arg("--quick");
            }
            if let Some(file) = &self.json {
                // Cargo starts the program in its package's folder, not in the caller's.
                let file = path::absolute(file)
                    .map_err(|e| format!("no absolute form of {}: {e}", file.display()))?;
                bench.arg("--json").arg(file);
            }
            run(bench.args(&self.args))?;
        }
        Ok(())
    }
}
