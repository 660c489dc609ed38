//! Words that have no place in the project.

use crate::tree::Source;

/// This file spells the words out, and cargo writes the address of its registry into its lock files.
const EXEMPT: [&str; 3] = ["xtask/src/tidy/words.rs", "Cargo.lock", "fuzz/Cargo.lock"];

/// Folders of one person, as the start of an absolute path.
const PLACES: [&str; 3] = ["/root/", "/home/", "/Users/"];

/// The hosts that the project refers to: standards and licences. Where packages are fetched from is for
/// each machine's settings to say.
const HOSTS: [&str; 4] = [
    "c2sp.org",
    "json-schema.org",
    "www.apache.org",
    "www.rfc-editor.org",
];

/// Marks of work left for later.
const UNFINISHED: [&str; 7] = [
    "TODO",
    "FIXME",
    "XXX",
    "#[ignore",
    "todo!(",
    "unimplemented!(",
    "NotImplementedError",
];

/// The endings of files that are code; `test` and `run` are the scripts without one.
const CODE: [&str; 8] = ["rs", "toml", "py", "pyi", "sh", "js", "css", "html"];
const SCRIPTS: [&str; 2] = ["test", ".ci/run"];

/// Paths that exist on one machine only, and addresses of hosts that the project does not refer to.
pub(super) fn foreign_places(files: &[Source]) -> Vec<String> {
    // `./root/` and `$DIR/home/` are not at the start of a path.
    let starts = |before: Option<char>| {
        before.is_none_or(|c| !c.is_alphanumeric() && !['/', '.', '_', '-', '}', '*'].contains(&c))
    };
    let mut found = occurrences(files, &PLACES, |_| true, starts);
    for file in files.iter().filter(|f| !EXEMPT.contains(&f.path.as_str())) {
        for (number, line) in file.lines() {
            let hosts = line.split("://").skip(1).map(host);
            let foreign = hosts.filter(|host| host.contains('.') && !is_ours(host));
            found.extend(foreign.map(|host| format!("{}:{number}: `{host}`", file.path)));
        }
    }
    found
}

/// True for the hosts that the project refers to, for this machine, and for names that nobody can have (RFC 2606).
fn is_ours(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    HOSTS.contains(&host.as_str())
        || host.starts_with("127.")
        || matches!(host.rsplit('.').next(), Some("example" | "test"))
}

/// The host at the front of what follows `://`.
fn host(address: &str) -> &str {
    let end = address.find(|c: char| !c.is_ascii_alphanumeric() && !['.', '-'].contains(&c));
    address
        .get(..end.unwrap_or(address.len()))
        .unwrap_or_default()
}

/// Marks of unfinished work in code.
pub(super) fn unfinished(files: &[Source]) -> Vec<String> {
    let is_code = |s: &Source| s.is_any(&CODE) || SCRIPTS.contains(&s.path.as_str());
    let whole_word = |before: Option<char>| before.is_none_or(|c| !c.is_alphanumeric());
    occurrences(files, &UNFINISHED, is_code, whole_word)
}

fn occurrences(
    files: &[Source],
    words: &[&str],
    concerns: impl Fn(&Source) -> bool,
    may_follow: impl Fn(Option<char>) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        if EXEMPT.contains(&file.path.as_str()) || !concerns(file) {
            continue;
        }
        for (number, line) in file.lines() {
            for word in words {
                let hit = line
                    .match_indices(word)
                    .any(|(at, _)| may_follow(line.get(..at).and_then(|b| b.chars().next_back())));
                if hit {
                    found.push(format!("{}:{number}: `{word}`", file.path));
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_machine_path_and_a_foreign_host_are_found_and_a_relative_folder_is_not() {
        let bad = "see /home/me/x\nfrom https://packages.example.org/simple\n";
        let found = foreign_places(&[file("docs/a.md", bad)]);
        assert_eq!(
            found,
            [
                "docs/a.md:1: `/home/`",
                "docs/a.md:2: `packages.example.org`"
            ]
        );
        let good = "docs/home/a.md ./root/x ${DIR}/home/x https://c2sp.org/x http://HOST:1/\n\
                    http://127.0.0.1:4318 https://Traces.Example/x http://a.test\n";
        assert!(foreign_places(&[file("docs/a.md", good)]).is_empty());
    }

    #[test]
    fn a_mark_of_unfinished_work_is_found_in_code_and_may_be_spoken_of_in_prose() {
        let text = "// TODO later\n#[ignore]\nlet x = todo!();\n";
        assert_eq!(unfinished(&[file("a.rs", text)]).len(), 3);
        assert_eq!(unfinished(&[file("test", "# FIXME\n")]).len(), 1);
        assert!(unfinished(&[file("a.md", "No TODO in code.\n")]).is_empty());
        assert!(unfinished(&[file("a.rs", "let MASTODON = 1;\n")]).is_empty());
    }
}
