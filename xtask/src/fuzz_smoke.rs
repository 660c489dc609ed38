//! `cargo dev fuzz-smoke`: runs each fuzz target for a moment.
//!
//! The targets are libFuzzer's, in the layout of cargo-fuzz, and are built here with plain cargo:
//! the coverage instrumentation is made of stable codegen options. What is left out is the address
//! sanitizer, which needs a nightly compiler and has nothing to find in code without `unsafe`.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use clap::Args;

use crate::Outcome;
use crate::shell::{cargo, output, program, root, run};

/// Runs each fuzz target for a moment, from its committed corpus.
#[derive(Args, Debug)]
pub(crate) struct FuzzSmoke {
    /// How long each target runs.
    #[arg(long, value_name = "N", default_value_t = 10)]
    seconds: u64,
    /// Runs only this target.
    #[arg(value_name = "TARGET")]
    target: Option<String>,
}

/// What cargo-fuzz passes, less the sanitizer.
const FLAGS: [&str; 9] = [
    "--cfg=fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Cdebug-assertions",
    "-Coverflow-checks",
    "-Ccodegen-units=1",
];

impl FuzzSmoke {
    /// Builds all targets once, then runs them one after the other and stops at the first crash.
    pub(crate) fn run(&self) -> Outcome {
        let mut targets = targets(&root().join("fuzz/fuzz_targets"))?;
        if let Some(only) = &self.target {
            targets.retain(|t| t == only);
        }
        if targets.is_empty() {
            return Err("there is no such fuzz target under fuzz/fuzz_targets".to_owned());
        }
        // With an explicit target the flags do not reach build scripts and macros.
        let host = host()?;
        run(
            cargo("build --release --bins --manifest-path fuzz/Cargo.toml")
                .args(["--target-dir", "fuzz/target", "--target", &host])
                .env("RUSTFLAGS", FLAGS.join(" ")),
        )?;
        for target in &targets {
            self.fuzz(target, &host)?;
        }
        Ok(())
    }

    fn fuzz(&self, target: &str, host: &str) -> Outcome {
        // What a run finds goes to the first folder; the committed corpus is only read.
        let found = format!("fuzz/target/corpus/{target}");
        let committed = format!("fuzz/corpus/{target}");
        let artifacts = format!("fuzz/artifacts/{target}/");
        for folder in [&found, &artifacts] {
            fs::create_dir_all(root().join(folder))
                .map_err(|e| format!("cannot create {folder}: {e}"))?;
        }
        let binary = root().join(format!("fuzz/target/{host}/release/{target}"));
        let mut fuzz = program(binary);
        fuzz.arg(format!("-max_total_time={}", self.seconds))
            .arg(format!("-artifact_prefix={artifacts}"))
            .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
            .arg(&found);
        if root().join(&committed).is_dir() {
            fuzz.arg(&committed);
        }
        run(&mut fuzz).map_err(|e| format!("{e}; the input is under {artifacts}"))
    }
}

fn targets(folder: &Path) -> Outcome<Vec<String>> {
    let entries = fs::read_dir(folder)
        .map_err(|e| format!("cannot list fuzz targets in {}: {e}", folder.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let is_rust = path.extension() == Some(OsStr::new("rs"));
            is_rust.then(|| path.file_stem()?.to_str().map(str::to_owned))?
        })
        .collect();
    names.sort();
    Ok(names)
}

/// The triple that the compiler builds for when nobody says otherwise.
fn host() -> Outcome<String> {
    let version = output(program("rustc").arg("-vV"))?;
    version
        .lines()
        .find_map(|l| l.strip_prefix("host: "))
        .map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` does not name its host".to_owned())
}
