//! The step `tidy` of the gate: rules about the project's own files that no other tool knows.

use crate::Outcome;
use crate::tree::{self, Source};

mod manifests;
mod markdown;
mod sources;
mod words;

/// One rule: all files in, one line per breach out.
type Rule = fn(&[Source]) -> Vec<String>;

const RULES: [(&str, Rule); 8] = [
    ("no path or host of a machine", words::foreign_places),
    ("nothing unfinished", words::unfinished),
    ("no trailing space in Markdown", markdown::trailing_space),
    ("one sentence per line in Markdown", markdown::sentences),
    ("no source file over 800 lines", sources::long_files),
    (
        "every test module is listed",
        sources::unlisted_test_modules,
    ),
    ("every dependency is explained", manifests::unexplained),
    ("every workspace dependency is used", manifests::unused),
];

/// Applies every rule to every file and lists all breaches.
pub(crate) fn run() -> Outcome {
    let files = tree::sources()?;
    let mut breaches = 0;
    for (name, rule) in RULES {
        for breach in rule(&files) {
            breaches += 1;
            println!("{breach} ({name})");
        }
    }
    println!("{} files, {} rules", files.len(), RULES.len());
    if breaches == 0 {
        Ok(())
    } else {
        Err(format!("{breaches} breaches of the rules of tidy"))
    }
}

#[cfg(test)]
fn file(path: &str, text: &str) -> Source {
    Source {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}
