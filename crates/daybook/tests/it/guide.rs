//! The guide to tuning is run as it stands: its files are written, its commands run in their order.

use std::process::Command;

use crate::support::{Ran, Scratch};

const GUIDE: &str = include_str!("../../../../docs/guide/tuning-a-command.md");

/// Kind and text of every fenced block.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let fenced = GUIDE.split("```").skip(1).step_by(2);
    fenced
        .map(|block| block.split_once('\n').unwrap())
        .collect()
}

#[test]
fn every_command_of_the_guide_to_tuning_does_what_it_says() {
    let scratch = Scratch::new();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_daybook"));
    let path = format!(
        "{}:{}",
        program.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut commands = 0;
    for (kind, text) in blocks() {
        match kind {
            "python" | "toml" => {
                let name = text.lines().next().unwrap().trim_start_matches("# ");
                scratch.write(name, text.as_bytes());
            }
            "sh" => {
                for line in text.lines() {
                    let mut command = Command::new("sh");
                    command
                        .args(["-c", line])
                        .current_dir(scratch.path(""))
                        .env("PATH", &path);
                    let ran: Ran = command.output().unwrap().into();
                    assert_eq!(ran.code, 0, "{line}\n{ran:#?}");
                    commands += 1;
                }
            }
            other => panic!("a block of {other:?}"),
        }
    }
    assert!(commands > 10);
    let best = scratch
        .daybook(&["study", "show", "study.atj", "--json"])
        .expect(0)
        .json();
    assert_eq!(
        best["trials_by_state"]
            .as_object()
            .unwrap()
            .values()
            .filter_map(serde_json::Value::as_u64)
            .sum::<u64>(),
        16
    );
    for name in ["study.html", "trials.csv", "front.svg"] {
        assert!(!scratch.read(name).is_empty(), "{name}");
    }
}
