//! The text files that belong to the project.

use std::fs;

use crate::Outcome;
use crate::shell::{output, program, root};

/// A text file of the project.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path from the root of the workspace, with `/` between folders.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

impl Source {
    /// True when the file's name ends in `.` and one of `kinds`.
    pub(crate) fn is_any(&self, kinds: &[&str]) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.')
            .is_some_and(|(_, ending)| kinds.contains(&ending))
    }

    /// The lines with their 1-based numbers.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

/// Reads every text file that git tracks or would track. Files that are not UTF-8 are left out.
pub(crate) fn sources() -> Outcome<Vec<Source>> {
    let mut git = program("git");
    git.args(["ls-files", "-z", "--cached", "--others"])
        .args(["--exclude-standard", "--deduplicate"]);
    let mut found = Vec::new();
    for path in output(&mut git)?.split_terminator('\0') {
        let file = root().join(path);
        // Git lists files that were removed but not yet committed, and links to folders.
        if !file.is_file() {
            continue;
        }
        let bytes = fs::read(&file).map_err(|e| format!("cannot read {path}: {e}"))?;
        if let Ok(text) = String::from_utf8(bytes) {
            let path = path.to_owned();
            found.push(Source { path, text });
        }
    }
    Ok(found)
}
