//! The step `python` of the gate: the wheel is built, installed, and tested as a user has it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::python_env::{pip_install, with_packages};
use crate::shell::{cargo, program, root, run};

/// Checks the sources and the stubs, and runs the tests against the installed wheel.
pub(crate) fn run_tests() -> Outcome {
    let sources = root().join("python");
    let python = with_packages("python", &sources.join("tests"))?;
    let module = |name: &str| {
        let mut module = program(&python);
        module.args(["-m", name]);
        // The tests leave nothing in the source tree.
        module.env("PYTHONDONTWRITEBYTECODE", "1");
        module
    };
    run(module("ruff")
        .args(["check", "--no-cache", "."])
        .current_dir(&sources))?;
    run(module("ruff")
        .args(["format", "--check", "--no-cache", "."])
        .current_dir(&sources))?;
    run(module("mypy")
        .args(["--cache-dir", "/dev/null"])
        .args(PACKAGES)
        .current_dir(&sources))?;
    // The tests compare with what the program writes. With the features of the step `tests`, so that
    // nothing is built a second time.
    run(&mut cargo("build --workspace --all-features --bins"))?;
    let target = target();
    install(&python, &sources, &Build::TESTED)?;
    run(module("mypy.stubtest")
        .args(PACKAGES)
        .arg("--mypy-config-file")
        .arg(sources.join("pyproject.toml"))
        // Which native classes cannot be bases together is no promise.
        .arg("--ignore-disjoint-bases")
        .current_dir(root()))?;
    // Not from where the sources are: what is imported is what was installed.
    run(module("pytest")
        .arg("-c")
        .arg(sources.join("pyproject.toml"))
        .arg(sources.join("tests"))
        .current_dir(root())
        .env("DAYBOOK_PROGRAMS", root().join(&target).join("debug")))
}

const PACKAGES: [&str; 3] = ["daybook", "omniloop", "atune"];

/// How a wheel is built.
pub(crate) struct Build {
    profile: &'static str,
    /// The folder under the target folder that the wheel goes to.
    wheels: &'static str,
}

impl Build {
    /// As the tests of the workspace are built.
    pub(crate) const TESTED: Self = Self {
        profile: "dev",
        wheels: "wheels",
    };
    /// As users have it.
    pub(crate) const MEASURED: Self = Self {
        profile: "release",
        wheels: "wheels-release",
    };
}

fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the wheel and installs it.
pub(crate) fn install(python: &Path, sources: &Path, build: &Build) -> Outcome {
    let wheels = &root().join(target()).join(build.wheels);
    match fs::remove_dir_all(wheels) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", wheels.display()));
        }
        _ => {}
    }
    run(program(python)
        .args([
            "-m",
            "maturin",
            "build",
            "--profile",
            build.profile,
            "--out",
        ])
        .arg(wheels)
        .current_dir(sources))?;
    let wheel = fs::read_dir(wheels)
        .and_then(|entries| {
            entries
                .map(|entry| entry.map(|e| e.path()))
                .next()
                .transpose()
        })
        .map_err(|error| format!("{}: {error}", wheels.display()))?
        .ok_or("maturin built no wheel")?;
    run(pip_install(python)
        .args(["--no-deps", "--no-index", "--force-reinstall"])
        .arg(wheel))
}
