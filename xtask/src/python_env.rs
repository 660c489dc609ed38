//! Environments in `.tools/` with the Python packages of a list.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::shell::{output, program, run, tools_folder};

/// The oldest Python that the tests were written for.
const PYTHON_MINOR_MIN: u32 = 11;
const GET_PYTHON: &str = "install Python 3.11 or newer with its modules venv and pip";

/// The interpreter of the environment `name`, which has the packages of the `requirements.txt` in
/// `tests`; made when they have changed.
pub(crate) fn with_packages(name: &str, tests: &Path) -> Outcome<PathBuf> {
    let wanted = tests.join("requirements.txt");
    let folder = tools_folder().join(name);
    let python = folder.join("bin/python");
    if is_made_of(&folder, &wanted) && output(program(&python).arg("--version")).is_ok() {
        return Ok(python);
    }
    let own =
        output(program("python3").args(["-c", "import sys, venv; print(sys.version_info.minor)"]));
    let minor = own.map_err(|error| format!("{error}\n{GET_PYTHON}"))?;
    if minor
        .trim()
        .parse()
        .is_ok_and(|minor: u32| minor < PYTHON_MINOR_MIN)
    {
        return Err(format!(
            "python3 is version 3.{}: {GET_PYTHON}",
            minor.trim()
        ));
    }
    println!("bringing Python packages into .tools/{name} (a minute or two, once)");
    run(program("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder))
    .map_err(|error| format!("{error}\n{GET_PYTHON}"))?;
    twice(|| run(pip_install(&python).arg("-r").arg(&wanted)))?;
    mark(&folder, &wanted)?;
    Ok(python)
}

/// `pip install`, which wants to be told what.
pub(crate) fn pip_install(python: &Path) -> std::process::Command {
    let mut install = program(python);
    install.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    install
}

/// A folder remembers the list that it was made from.
pub(crate) fn is_made_of(folder: &Path, wanted: &Path) -> bool {
    let (made, wanted) = (fs::read(made_from(folder)), fs::read(wanted));
    matches!((made, wanted), (Ok(made), Ok(wanted)) if made == wanted)
}

/// Makes a folder remember the list that it was made from.
pub(crate) fn mark(folder: &Path, wanted: &Path) -> Outcome {
    let copied = fs::copy(wanted, made_from(folder));
    copied
        .map(|_| ())
        .map_err(|error| format!("{}: {error}", folder.display()))
}

fn made_from(folder: &Path) -> PathBuf {
    folder.join("made-from")
}

/// What needs the network may need a second try.
pub(crate) fn twice(work: impl Fn() -> Outcome) -> Outcome {
    work().or_else(|first| {
        println!("{first}; trying once more");
        work()
    })
}
