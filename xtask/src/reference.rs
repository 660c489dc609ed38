//! A command line's reference in Markdown, made from the definition that parses it.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// One section of heading depth `depth` per verb of `command`, hidden ones left out: what it does,
/// its usage line, and its arguments.
pub fn reference(command: Command, depth: usize) -> String {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut out = String::new();
    for verb in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        section(verb, depth, &mut out);
    }
    out
}

fn section(command: &Command, depth: usize, out: &mut String) {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    let _ = write!(
        out,
        "{} `{name}`\n\n{}\n\n```text\n{usage}\n```\n\n",
        "#".repeat(depth),
        sentences(&about)
    );
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|a| !a.is_hide_set() && !["help", "version"].contains(&a.get_id().as_str()))
        .collect();
    for argument in &arguments {
        let _ = writeln!(out, "{}", line(argument));
    }
    if !arguments.is_empty() {
        out.push('\n');
    }
    for verb in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        section(verb, depth + 1, out);
    }
}

fn line(argument: &Arg) -> String {
    let short = match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, "),
        _ => String::new(),
    };
    let help = argument.get_long_help().or(argument.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let mut text = format!("- `{short}{argument}`: {}", sentence(&one_line(&help)));
    let takes_value = argument.get_action().takes_values();
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|v| takes_value && !v.is_hide_set())
        .map(|v| format!("`{}`", v.get_name()))
        .collect();
    if !values.is_empty() {
        let _ = write!(text, "\n  One of {}.", values.join(", "));
    }
    let defaults: Vec<String> = argument
        .get_default_values()
        .iter()
        .filter(|_| takes_value)
        .map(|v| format!("`{}`", v.to_string_lossy()))
        .collect();
    if !defaults.is_empty() {
        let _ = write!(text, "\n  Default: {}.", defaults.join(", "));
    }
    text
}

/// Every paragraph ends as a sentence does: clap drops the full stop of a docstring's first line.
fn sentences(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|p| sentence(p.trim()));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn sentence(text: &str) -> String {
    if text.is_empty() || text.ends_with(['.', ':', '!', '?', '`']) {
        text.to_owned()
    } else {
        format!("{text}.")
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    fn sample() -> Command {
        let seed = Arg::new("seed")
            .short('s')
            .long("seed")
            .value_name("N")
            .default_value("7");
        Command::new("tool")
            .subcommand(
                Command::new("walk")
                    .about("Walks")
                    .arg(seed.help("Where to start"))
                    .arg(
                        Arg::new("fast")
                            .long("fast")
                            .action(ArgAction::SetTrue)
                            .help("Runs."),
                    ),
            )
            .subcommand(Command::new("secret").hide(true))
    }

    #[test]
    fn a_verb_is_shown_with_its_usage_its_arguments_and_their_defaults() {
        let text = reference(sample(), 2);
        assert!(text.starts_with("## `tool walk`\n\nWalks.\n"), "{text}");
        assert!(text.contains("```text\ntool walk [OPTIONS]\n```"), "{text}");
        let seed = "- `-s, --seed <N>`: Where to start.\n  Default: `7`.\n";
        assert!(text.contains(seed), "{text}");
        let fast = "- `--fast`: Runs.\n\n";
        assert!(text.ends_with(fast), "{text}");
    }

    #[test]
    fn hidden_verbs_and_the_help_that_clap_adds_are_left_out() {
        let text = reference(sample(), 2);
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains("help"), "{text}");
    }
}
