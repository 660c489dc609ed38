//! Rules for prose.

use crate::tree::Source;

/// Lines that end in a space: an invisible line break, or nothing at all.
pub(super) fn trailing_space(files: &[Source]) -> Vec<String> {
    let documents = files.iter().filter(|f| f.is_any(&["md"]));
    documents
        .flat_map(|file| {
            file.lines()
                .filter(|(_, line)| line.ends_with([' ', '\t']))
                .map(|(number, _)| format!("{}:{number}: trailing space", file.path))
        })
        .collect()
}

/// Lines of prose on which a second sentence begins. With one sentence per line, a diff shows the
/// sentence that changed.
pub(super) fn sentences(files: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files.iter().filter(|f| f.is_any(&["md"])) {
        let mut fenced = false;
        // A generated block holds docstrings, whose lines are the code's.
        let mut generated = false;
        for (number, line) in file.lines() {
            let start = line.trim_start();
            if start.starts_with("```") {
                fenced = !fenced;
            } else if start.starts_with("<!-- generated:") || start.starts_with("<!-- end") {
                generated = !generated;
            } else if !fenced && !generated && !start.starts_with('|') && has_second_sentence(line)
            {
                found.push(format!("{}:{number}: a second sentence", file.path));
            }
        }
    }
    found
}

const ABBREVIATIONS: [&str; 5] = ["e.g", "i.e", "etc", "vs", "cf"];

fn has_second_sentence(line: &str) -> bool {
    line.match_indices(". ").any(|(at, _)| {
        let (before, after) = line.split_at(at);
        let ends_a_sentence = before
            .chars()
            .next_back()
            .is_some_and(|c| c.is_lowercase() || [')', '`', '*'].contains(&c))
            && !ABBREVIATIONS.iter().any(|a| before.ends_with(a))
            // An odd number of backticks: the full stop stands inside code.
            && before.matches('`').count() % 2 == 0;
        let next = after.trim_start_matches(". ").chars().next();
        ends_a_sentence && next.is_some_and(char::is_uppercase)
    })
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    #[test]
    fn a_line_that_ends_in_a_space_is_found_and_numbered() {
        let found = trailing_space(&[file("a.md", "fine\nnot fine \n"), file("b.rs", "x \n")]);
        assert_eq!(found, ["a.md:2: trailing space"]);
    }

    #[test]
    fn a_second_sentence_on_a_line_is_found_outside_code_tables_and_abbreviations() {
        let count = |text: &str| sentences(&[file("a.md", text)]).len();
        assert_eq!(count("It ends. Another begins.\n"), 1);
        assert_eq!(count("Calls `f()`. Then rests.\n"), 1);
        assert_eq!(
            count("One sentence, e.g. Markdown, version 1. Nothing more.\n"),
            0
        );
        assert_eq!(count("| A cell. Another sentence. |\n"), 0);
        assert_eq!(count("```\nIt ends. Another begins.\n```\n"), 0);
        let block = "<!-- generated: x -->\nIt ends. Another begins.\n<!-- end generated -->\n";
        assert_eq!(count(block), 0);
        let behind = format!("{block}It ends. Another begins.\n");
        assert_eq!(count(&behind), 1);
        assert_eq!(count("The text `it ends. Another begins` is code.\n"), 0);
    }
}
