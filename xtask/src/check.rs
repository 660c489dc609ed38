//! `cargo dev check`: the gate.

use std::env;
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::Outcome;
use crate::generate_all::{GenerateAll, Mode};
use crate::shell::{cargo, run};
use crate::{clients, python, tidy, tools};

/// Runs the gate: every step, or only the named ones, and lists those that failed.
#[derive(Args, Debug)]
pub(crate) struct Check {
    /// The steps to run, in the order of the gate.
    #[arg(value_name = "STEP", value_parser = PossibleValuesParser::new(STEPS.map(|s| s.name)))]
    steps: Vec<String>,
}

struct Step {
    name: &'static str,
    run: fn() -> Outcome,
}

const STEPS: [Step; 10] = [
    Step {
        name: "format",
        run: || run(&mut cargo("fmt --all --check")),
    },
    Step {
        name: "tidy",
        run: tidy::run,
    },
    Step {
        name: "clippy",
        run: || {
            run(&mut cargo(
                "clippy --workspace --all-targets --all-features -- -D warnings",
            ))
        },
    },
    Step {
        name: "features",
        run: features,
    },
    Step {
        name: "tests",
        run: tests,
    },
    Step {
        name: "clients",
        run: clients::run_tests,
    },
    Step {
        name: "python",
        run: python::run_tests,
    },
    Step {
        name: "doctests",
        run: || run(&mut cargo("test --workspace --all-features --doc")),
    },
    Step {
        name: "docs",
        run: docs,
    },
    Step {
        name: "deny",
        run: || {
            tools::DENY.ensure()?;
            run(&mut cargo("deny check bans licenses sources"))
        },
    },
];

impl Check {
    /// Runs the steps, goes on after a failed one, and fails if any did.
    pub(crate) fn run(&self) -> Outcome {
        let chosen = |s: &&Step| self.steps.is_empty() || self.steps.iter().any(|n| n == s.name);
        let begun = Instant::now();
        let (mut passed, mut failed) = (0, Vec::new());
        for step in STEPS.iter().filter(chosen) {
            println!("== {}", step.name);
            let begun = Instant::now();
            let outcome = (step.run)();
            let seconds = begun.elapsed().as_secs_f64();
            match outcome {
                Ok(()) => {
                    passed += 1;
                    println!("== {}: passed in {seconds:.1} s\n", step.name);
                }
                Err(message) => {
                    failed.push(step.name);
                    println!("{message}\n== {}: FAILED in {seconds:.1} s\n", step.name);
                }
            }
        }
        println!("all steps took {:.1} s", begun.elapsed().as_secs_f64());
        println!("steps: {passed} passed, {} failed", failed.len());
        if failed.is_empty() {
            Ok(())
        } else {
            Err(format!(
                "the gate failed at: {}; repeat with `./test {}`",
                failed.join(", "),
                failed.join(" ")
            ))
        }
    }
}

/// The workspace is linted with every feature; each optional one must also build when it is absent
/// or alone.
fn features() -> Outcome {
    run(&mut cargo("check -p omniloop-core --no-default-features"))?;
    run(&mut cargo(
        "check -p omniloop-core --no-default-features --features signing",
    ))
}

fn tests() -> Outcome {
    tools::NEXTEST.ensure()?;
    let mut nextest = cargo("nextest run --workspace --all-features");
    if env::var_os("CI").is_some_and(|v| !v.is_empty()) {
        nextest.args(["--profile", "ci"]);
    }
    run(&mut nextest)
}

fn docs() -> Outcome {
    let generated = GenerateAll { mode: Mode::Check }.run();
    let rustdoc = run(
        cargo("doc --no-deps --workspace --all-features --document-private-items")
            .env("RUSTDOCFLAGS", "-Dwarnings"),
    );
    generated.and(rustdoc)
}
