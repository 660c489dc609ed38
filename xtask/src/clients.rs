//! The step `clients` of the gate: clients that others wrote talk to the built server over sockets.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::python_env::{self, is_made_of, mark, twice};
use crate::shell::{cargo, output, program, root, run, tools_folder};

const TESTS: &str = "tests/clients";
const GET_NODE: &str = "install Node.js 18.19 or newer, with npm";

/// Brings the clients in, builds the programs and runs the tests.
pub(crate) fn run_tests() -> Outcome {
    let python = python_env::with_packages("clients-python", &root().join(TESTS))?;
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

fn said(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}
