//! Rules for the manifests: what the workspace depends on, and why.

use crate::tree::Source;

const ROOT: &str = "Cargo.toml";
const REASONS: &str = "docs/dependencies.md";

/// External dependencies that have no row in the table of reasons.
pub(super) fn unexplained(files: &[Source]) -> Vec<String> {
    let reasons = text(files, REASONS);
    workspace_dependencies(files)
        .filter(|(_, value)| !value.contains("path ="))
        .filter(|(name, _)| !reasons.contains(&format!("\n| `{name}` |")))
        .map(|(name, _)| format!("{REASONS}: no row for `{name}`"))
        .collect()
}

/// Workspace dependencies that no member takes.
pub(super) fn unused(files: &[Source]) -> Vec<String> {
    workspace_dependencies(files)
        .filter(|(name, _)| {
            !files
                .iter()
                .filter(|f| f.path.ends_with("/Cargo.toml"))
                .any(|f| entries(&f.text, "dependencies]").any(|(taken, _)| taken == *name))
        })
        .map(|(name, _)| format!("{ROOT}: no member uses `{name}`"))
        .collect()
}

fn workspace_dependencies(files: &[Source]) -> impl Iterator<Item = (&str, &str)> {
    entries(text(files, ROOT), "[workspace.dependencies]")
}

fn text<'a>(files: &'a [Source], path: &str) -> &'a str {
    let file = files.iter().find(|f| f.path == path);
    file.map(|f| f.text.as_str()).unwrap_or_default()
}

/// Name and value of the entries of every table whose heading ends in `heading`. Only the little of
/// TOML that this workspace's manifests use is understood: an entry begins its line.
fn entries<'a>(manifest: &'a str, heading: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut inside = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            inside = line.ends_with(heading);
            return None;
        }
        let name = line.split(['.', ' ', '=']).next()?;
        let named = name.starts_with(|c: char| c.is_alphanumeric());
        (inside && named).then(|| (name, line.trim_start_matches(name)))
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const MANIFEST: &str = "[workspace.dependencies]\nown = { path = \"crates/own\" }\n# Why.\n\
        serde = \"1\"\nclap = { version = \"4\" }\n[profile.dev]\ndebug = 1\n";

    fn files(member: &str, reasons: &str) -> [Source; 3] {
        [
            file("Cargo.toml", MANIFEST),
            file("crates/own/Cargo.toml", member),
            file("docs/dependencies.md", reasons),
        ]
    }

    #[test]
    fn an_external_dependency_without_a_row_in_the_table_is_found() {
        let files = files(
            "",
            "# Title\n| `serde` | data | habit |\n| `clapper` | x | y |\n",
        );
        assert_eq!(
            unexplained(&files),
            ["docs/dependencies.md: no row for `clap`"]
        );
    }

    #[test]
    fn a_workspace_dependency_that_no_member_takes_is_found() {
        let member = "[package]\nclap = 1\n[dependencies]\nserde.workspace = true\n\
            [target.'cfg(unix)'.dev-dependencies]\nown = { workspace = true }\n";
        let found = unused(&files(member, ""));
        assert_eq!(found, ["Cargo.toml: no member uses `clap`"]);
    }
}
