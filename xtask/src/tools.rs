//! The cargo tools that the gate needs, at the versions it was tried with.

use crate::Outcome;
use crate::shell::{cargo, output, run, tools_folder};

/// A cargo subcommand that is no part of the toolchain.
#[derive(Debug)]
pub(crate) struct Tool {
    subcommand: &'static str,
    package: &'static str,
    version: &'static str,
    features: &'static str,
}

/// The test runner.
pub(crate) const NEXTEST: Tool = Tool {
    subcommand: "nextest",
    package: "cargo-nextest",
    version: "0.9.143",
    features: "--no-default-features --features default-no-update",
};

/// The checker of licences, bans and sources of dependencies.
pub(crate) const DENY: Tool = Tool {
    subcommand: "deny",
    package: "cargo-deny",
    version: "0.20.2",
    features: "",
};

// The tools work for seconds and build for minutes: optimise the build.
const QUICK_BUILD: [(&str, &str); 4] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "false"),
];

impl Tool {
    /// Makes sure that the tool can be run: the machine's own if it has one, else one that is built
    /// into `.tools/`. Building is tried twice, since it needs the network.
    pub(crate) fn ensure(&self) -> Outcome {
        let present = || output(cargo(self.subcommand).arg("--version")).is_ok();
        if present() {
            return Ok(());
        }
        println!(
            "{} is not installed; building version {} into .tools/ (some minutes, once)",
            self.package, self.version
        );
        let install = || {
            let args = format!(
                "install --locked --quiet {} --version {} {}",
                self.package, self.version, self.features
            );
            run(cargo(&args)
                .arg("--root")
                .arg(tools_folder())
                .envs(QUICK_BUILD))
        };
        install().or_else(|first| {
            println!("{first}; trying once more");
            install()
        })?;
        if present() {
            Ok(())
        } else {
            Err(format!(
                "{} was installed but `cargo {}` still cannot be run",
                self.package, self.subcommand
            ))
        }
    }
}
