//! `cargo dev bless`: rewrites the golden files.

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::Outcome;
use crate::shell::{cargo, run};
use crate::tools::NEXTEST;

/// Rewrites the golden files from what the code writes today, for review as a diff.
#[derive(Args, Debug)]
pub(crate) struct Bless {
    /// Rewrites the goldens of this package only.
    #[arg(value_parser = PossibleValuesParser::new(GOLDENS.map(|g| g.0)))]
    package: Option<String>,
}

/// The package and the tests that write goldens when they are told to.
const GOLDENS: [(&str, &str); 2] = [
    ("omniloop-core", "test(golden)"),
    ("daybook-records", "binary(vectors)"),
];

impl Bless {
    pub(crate) fn run(&self) -> Outcome {
        NEXTEST.ensure()?;
        let chosen = |g: &&(&str, &str)| self.package.as_ref().is_none_or(|p| p == g.0);
        for (package, tests) in GOLDENS.iter().filter(chosen) {
            run(cargo("nextest run --all-features --no-fail-fast")
                .args(["-p", package, "-E", tests])
                .env("DAYBOOK_BLESS", "1"))?;
        }
        println!("blessed; look at `git diff` before you commit it");
        Ok(())
    }
}
