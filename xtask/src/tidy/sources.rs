//! Rules for Rust source files as files.

use crate::tree::Source;

const LINES_MAX: usize = 800;

/// Files that nobody reads from top to bottom.
pub(super) fn long_files(files: &[Source]) -> Vec<String> {
    files
        .iter()
        .filter(|f| f.is_any(&["rs"]))
        .map(|f| (f, f.text.lines().count()))
        .filter(|(_, lines)| *lines > LINES_MAX)
        .map(|(f, lines)| format!("{}: {lines} lines", f.path))
        .collect()
}

/// Files under `tests/it/` that `main.rs` does not name: they would compile nowhere and test
/// nothing, silently.
pub(super) fn unlisted_test_modules(files: &[Source]) -> Vec<String> {
    const FOLDER: &str = "/tests/it/";
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.is_any(&["rs"])) {
        let Some((package, rest)) = file.path.split_once(FOLDER) else {
            continue;
        };
        let module = match rest.split_once('/') {
            Some((module, "mod.rs")) => module,
            Some(_) => continue,
            None => rest.trim_end_matches(".rs"),
        };
        if module == "main" {
            continue;
        }
        let main = format!("{package}{FOLDER}main.rs");
        let declared = files
            .iter()
            .filter(|f| f.path == main)
            .flat_map(|f| f.text.lines())
            .any(|line| declares(line, module));
        if !declared {
            found.push(format!("{}: not named in {main}", file.path));
        }
    }
    found
}

fn declares(line: &str, module: &str) -> bool {
    line.strip_prefix("mod ")
        .and_then(|rest| rest.strip_suffix(';'))
        .is_some_and(|name| name == module)
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_file_of_801_lines_is_found_and_one_of_800_is_not() {
        let files = [
            file("long.rs", &"\n".repeat(LINES_MAX + 1)),
            file("fits.rs", &"\n".repeat(LINES_MAX)),
        ];
        assert_eq!(long_files(&files), ["long.rs: 801 lines"]);
    }

    #[test]
    fn a_test_module_that_main_does_not_name_is_found() {
        let files = [
            file(
                "crates/a/tests/it/main.rs",
                "mod golden;\n// mod fault;\nmod crash;\n",
            ),
            file("crates/a/tests/it/golden.rs", ""),
            file("crates/a/tests/it/fault.rs", ""),
            file("crates/a/tests/it/crash/mod.rs", ""),
            file("crates/a/tests/it/crash/images.rs", ""),
            file("crates/b/tests/it/lonely.rs", ""),
        ];
        let found = unlisted_test_modules(&files);
        assert_eq!(
            found,
            [
                "crates/a/tests/it/fault.rs: not named in crates/a/tests/it/main.rs",
                "crates/b/tests/it/lonely.rs: not named in crates/b/tests/it/main.rs",
            ]
        );
    }
}
