//! `cargo dev generate-all`: the parts of the documents that are made from code.
//!
//! A generated block stands between the lines `<!-- generated: NAME -->` and
//! `<!-- end generated -->`. What makes the blocks is listed in the binary `generate-all`.

use std::collections::BTreeSet;
use std::fs;

use clap::{Args, ValueEnum};

use crate::Outcome;
use crate::shell::{cargo, root, run};
use crate::tree;

/// Writes the generated blocks of the documents, or checks that they are up to date.
#[derive(Args, Debug)]
pub struct GenerateAll {
    /// What to do with a block that differs from the code.
    #[arg(long, value_enum)]
    pub(crate) mode: Mode,
}

/// What to do with a block that differs from the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Replaces it.
    Write,
    /// Names it and fails.
    Check,
}

/// One generated block of one document.
#[derive(Debug)]
pub struct Block {
    /// Path of the document from the root of the workspace.
    pub file: &'static str,
    /// Name of the block, unique in its document.
    pub name: &'static str,
    /// Makes the block's Markdown.
    pub text: fn() -> String,
}

const OPEN: &str = "<!-- generated: ";
const OPEN_END: &str = " -->";
const CLOSE: &str = "<!-- end generated -->";

impl GenerateAll {
    /// Builds and runs the generator, which needs the product's crates while this program does not.
    pub(crate) fn run(&self) -> Outcome {
        let mode = match self.mode {
            Mode::Write => "write",
            Mode::Check => "check",
        };
        run(
            cargo("run --quiet --package xtask --features generate --bin generate-all")
                .args(["--", "--mode", mode]),
        )
    }

    /// Fills or checks `blocks`. A block without a place in its document is an error, and so is a
    /// place that no block fills.
    pub fn apply(&self, blocks: &[Block]) -> Outcome {
        let mut unplaced: BTreeSet<(&str, &str)> =
            blocks.iter().map(|b| (b.file, b.name)).collect();
        let mut stale = Vec::new();
        let documents = tree::sources()?;
        for document in documents.iter().filter(|s| s.is_any(&["md"])) {
            let path = document.path.as_str();
            let filled = fill(&document.text, |name| {
                let block = blocks.iter().find(|b| b.file == path && b.name == name)?;
                unplaced.remove(&(block.file, block.name));
                Some((block.text)())
            })
            .map_err(|e| format!("{path}: {e}"))?;
            if filled.stale.is_empty() {
                continue;
            }
            if self.mode == Mode::Write {
                fs::write(root().join(path), filled.text)
                    .map_err(|e| format!("cannot write {path}: {e}"))?;
            }
            stale.extend(filled.stale.iter().map(|name| format!("{path}/{name}")));
        }
        if let Some((file, name)) = unplaced.first() {
            return Err(format!("{file} has no line `{OPEN}{name}{OPEN_END}`"));
        }
        match self.mode {
            Mode::Write => {
                for block in &stale {
                    println!("wrote {block}");
                }
            }
            Mode::Check if !stale.is_empty() => {
                return Err(format!(
                    "stale: {}; `cargo dev generate-all --mode write` brings them up to date",
                    stale.join(", ")
                ));
            }
            Mode::Check => println!("{} generated blocks are up to date", blocks.len()),
        }
        Ok(())
    }
}

struct Filled {
    text: String,
    stale: Vec<String>,
}

/// The document with every block replaced by what `text_of` says of its name, and the names of the
/// blocks that this changed.
fn fill(document: &str, mut text_of: impl FnMut(&str) -> Option<String>) -> Outcome<Filled> {
    let mut text = String::with_capacity(document.len());
    let mut stale = Vec::new();
    let mut lines = document.split_inclusive('\n');
    while let Some(line) = lines.next() {
        text.push_str(line);
        let Some(name) = opened(line) else { continue };
        let fresh = text_of(name).ok_or_else(|| format!("nothing generates block {name}"))?;
        let fresh = format!("{}\n", fresh.trim_end());
        let mut present = String::new();
        loop {
            let line = lines
                .next()
                .ok_or_else(|| format!("block {name} is not closed"))?;
            if line.trim_end() == CLOSE {
                text.push_str(&fresh);
                text.push_str(line);
                break;
            }
            present.push_str(line);
        }
        if present != fresh {
            stale.push(name.to_owned());
        }
    }
    Ok(Filled { text, stale })
}

fn opened(line: &str) -> Option<&str> {
    line.trim_end().strip_prefix(OPEN)?.strip_suffix(OPEN_END)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "# Title\n\n<!-- generated: table -->\nold\nlines\n\
        <!-- end generated -->\nA sentence about `<!-- generated: x -->`.\n";

    #[test]
    fn a_stale_block_is_replaced_and_named_and_the_text_around_it_stays() {
        let filled = fill(DOCUMENT, |name| Some(format!("new {name}\n\n"))).unwrap();
        assert_eq!(filled.text, DOCUMENT.replace("old\nlines", "new table"));
        assert_eq!(filled.stale, ["table"]);
        let again = fill(&filled.text, |name| Some(format!("new {name}"))).unwrap();
        assert_eq!(again.text, filled.text);
        assert!(again.stale.is_empty());
    }

    #[test]
    fn a_block_that_nothing_generates_or_that_never_ends_is_refused_by_name() {
        let unknown = fill(DOCUMENT, |_| None).err().unwrap();
        assert!(unknown.contains("table"), "{unknown}");
        let cut = DOCUMENT.split_once("<!-- end").unwrap().0;
        let open = fill(cut, |_| Some(String::new())).err().unwrap();
        assert!(open.contains("table"), "{open}");
    }
}
