//! Results on standard output, talk on standard error, and a reader that leaves is no failure.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;

use crate::support::{Scratch, create};

/// Reads one line of the output and goes away.
fn first_line_only(scratch: &Scratch, args: &[&str]) -> (String, Option<i32>, String) {
    let mut command = scratch.command(args);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::with_capacity(16, child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    (line, child.wait().unwrap().code(), err)
}

#[test]
fn a_reader_that_goes_away_is_success_and_no_panic() {
    let scratch = Scratch::new();
    scratch.run(20_000, None).seal().unwrap();
    for args in [
        &["export", "run.omni", "--to", "jsonl"][..],
        &["export", "run.omni", "--to", "csv"],
        &["inspect", "run.omni", "--kind", "telemetry", "--limit", "0"],
        &[
            "inspect",
            "run.omni",
            "--kind",
            "telemetry",
            "--limit",
            "0",
            "--json",
        ],
        &["inspect", "run.omni", "--follow"],
        &["completions", "bash"],
    ] {
        let (line, code, err) = first_line_only(&scratch, args);
        assert!(!line.is_empty(), "{args:?}");
        assert_eq!((code, err.as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_verdict_stands_even_when_nobody_reads_it() {
    let scratch = Scratch::new();
    scratch.run(300, Some(2)).seal().unwrap();
    scratch.change("run.7.omni", |bytes| bytes[70] ^= 1);
    let (_, code, err) = first_line_only(&scratch, &["verify", "run.omni"]);
    assert_eq!((code, err.as_str()), (Some(1), ""));
}

#[test]
fn output_has_no_styles_unless_it_goes_to_a_terminal_or_they_are_forced() {
    let scratch = Scratch::new();
    scratch.run(10, None).seal().unwrap();
    let styled = |envs: &[(&str, &str)]| {
        let mut command = scratch.command(&["verify", "run.omni"]);
        let output = command.envs(envs.iter().copied()).output().unwrap();
        String::from_utf8(output.stdout).unwrap().contains('\u{1b}')
    };
    assert!(!styled(&[]));
    assert!(styled(&[("CLICOLOR_FORCE", "1")]));
    assert!(!styled(&[("NO_COLOR", "1")]));
}

#[test]
fn a_failure_is_one_line_on_standard_error_with_a_hint_and_standard_output_stays_empty() {
    let scratch = Scratch::new();
    create(&scratch.path("empty"));
    let ran = scratch.daybook(&["inspect", "missing.omni"]).expect(2);
    assert_eq!(ran.out, "");
    assert_eq!(
        ran.err,
        "daybook: cannot open missing.omni: No such file or directory\n"
    );
    for verb in [&["inspect"][..], &["export", "--to", "csv"], &["recover"]] {
        let ran = scratch.daybook(&[verb, &["empty"]].concat()).expect(2);
        assert_eq!(ran.out, "");
        assert!(
            ran.err.starts_with("daybook: empty is empty"),
            "{}",
            ran.err
        );
    }
    let folder = scratch.daybook(&["inspect", "."]).expect(2);
    assert!(
        folder.err.contains("hint: name a file in it"),
        "{}",
        folder.err
    );
}
