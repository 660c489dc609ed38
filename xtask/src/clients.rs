//! The step `clients` of the gate: clients that others wrote talk to the built server over sockets.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::shell::{cargo, output, program, root, run, tools_folder};

const TESTS: &str = "tests/clients";
/// The oldest Python that the tests were written for.
const PYTHON_MINOR_MIN: u32 = 11;
const GET_PYTHON: &str = "install Python 3.11 or newer with its modules venv and pip";
const GET_NODE: &str = "install Node.js 18.19 or newer, with npm";

/// Brings the clients in, builds the programs and runs the tests.
pub(crate) fn run_tests() -> Outcome {
    let python = python_with_packages()?;
    bring_node_modules()?;
    // With the features of the step `tests`, so that nothing is built a second time.
    run(&mut cargo("build --workspace --all-features --bins"))?;
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let mut tests = program(python);
    tests.args(["-m", "pytest", TESTS]);
    tests.env("DAYBOOK_PROGRAMS", root().join(target).join("debug"));
    // The tests leave nothing in the source tree.
    tests.env("PYTHONDONTWRITEBYTECODE", "1");
    run(&mut tests)
}

/// The interpreter of an environment that has the packages of the tests, made when they have changed.
fn python_with_packages() -> Outcome<PathBuf> {
    let wanted = root().join(TESTS).join("requirements.txt");
    let folder = tools_folder().join("clients-python");
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
    println!("bringing the Python clients into .tools/ (a minute or two, once)");
    run(program("python3")
        .args(["-m", "venv", "--clear"])
        .arg(&folder))
    .map_err(|error| format!("{error}\n{GET_PYTHON}"))?;
    twice(|| {
        let mut install = program(&python);
        install.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
        ]);
        run(install.arg(&wanted))
    })?;
    mark(&folder, &wanted)?;
    Ok(python)
}

/// Brings the JavaScript packages in, where there is a Node.js to run them.
fn bring_node_modules() -> Outcome {
    let missing = ["node", "npm"]
        .into_iter()
        .find(|name| output(program(*name).arg("--version")).is_err());
    if let Some(name) = missing {
        if env::var_os("CI").is_some_and(|v| !v.is_empty()) {
            return Err(format!("`{name}` cannot be run: {GET_NODE}"));
        }
        println!("`{name}` cannot be run, so the JavaScript exporter is left out: {GET_NODE}");
        return Ok(());
    }
    let source = root().join(TESTS).join("node");
    let wanted = source.join("package-lock.json");
    let folder = tools_folder().join("clients-node");
    if is_made_of(&folder, &wanted) {
        return Ok(());
    }
    println!("bringing the JavaScript clients into .tools/ (half a minute, once)");
    fs::create_dir_all(&folder).map_err(|error| said(&folder, &error))?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(source.join(name), folder.join(name)).map_err(|error| said(&folder, &error))?;
    }
    twice(|| {
        let mut install = program("npm");
        install.args([
            "ci",
            "--no-audit",
            "--no-fund",
            "--ignore-scripts",
            "--prefix",
        ]);
        run(install.arg(&folder))
    })?;
    mark(&folder, &wanted)
}

/// A folder remembers the list that it was made from.
fn is_made_of(folder: &Path, wanted: &Path) -> bool {
    let (made, wanted) = (fs::read(made_from(folder)), fs::read(wanted));
    matches!((made, wanted), (Ok(made), Ok(wanted)) if made == wanted)
}

fn mark(folder: &Path, wanted: &Path) -> Outcome {
    let copied = fs::copy(wanted, made_from(folder));
    copied.map(|_| ()).map_err(|error| said(folder, &error))
}

fn made_from(folder: &Path) -> PathBuf {
    folder.join("made-from")
}

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// What needs the network may need a second try.
fn twice(work: impl Fn() -> Outcome) -> Outcome {
    work().or_else(|first| {
        println!("{first}; trying once more");
        work()
    })
}
