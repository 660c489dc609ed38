//! `cargo dev bench tuner-quality`: the suite that runs our samplers and those of other tuners through their
//! Python packages.

use std::path::{self, Path, PathBuf};

use crate::Outcome;
use crate::python::{Build, install};
use crate::python_env::with_packages;
use crate::shell::{cargo, program, root, run};

/// How the suite is run.
pub(crate) struct Quality<'a> {
    pub(crate) quick: bool,
    pub(crate) json: Option<&'a Path>,
    pub(crate) args: &'a [String],
}

impl Quality<'_> {
    /// Measures latencies if the arguments say so, and otherwise what the samplers find.
    pub(crate) fn run(&self) -> Outcome {
        let is_latency = |arg: &String| arg == "--latency";
        if self.args.iter().any(is_latency) {
            let mut bench = cargo("bench --all-features -p atune_core --bench quality --");
            self.pass(&mut bench)?;
            run(bench.args(self.args))?;
            let python = with_packages("tuner-quality", &suite())?;
            let mut peers = program(&python);
            peers.env("PYTHONDONTWRITEBYTECODE", "1");
            peers.arg(suite().join("latency.py"));
            return run(peers.args(self.quick.then_some("--quick")));
        }
        let python = with_packages("tuner-quality", &suite())?;
        install(&python, &root().join("python"), &Build::MEASURED)?;
        let mut suite_program = program(&python);
        suite_program.env("PYTHONDONTWRITEBYTECODE", "1");
        suite_program.arg(suite().join("main.py"));
        self.pass(&mut suite_program)?;
        run(suite_program.args(self.args))
    }

    fn pass(&self, command: &mut std::process::Command) -> Outcome {
        if self.quick {
            command.arg("--quick");
        }
        if let Some(file) = self.json {
            let file = path::absolute(file)
                .map_err(|e| format!("no absolute form of {}: {e}", file.display()))?;
            command.arg("--json").arg(file);
        }
        Ok(())
    }
}

fn suite() -> PathBuf {
    root().join("crates/atune_core/benches/quality/suite")
}
