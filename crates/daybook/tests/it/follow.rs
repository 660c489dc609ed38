//! `inspect --follow` shows a run while it is recorded, whole records only, across files; `study tail -f`
//! shows a study while it is written.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Ran, Scratch, lines, wait_until};

#[test]
fn following_sees_every_record_across_files_and_ends_with_the_run() {
    let scratch = Scratch::new();
    let script =
        "i=0; while [ $i -lt 200 ]; do i=$((i+1)); echo \"{\\\"i\\\":$i}\"; sleep 0.002; done";
    let args = [
        "record", "-o", "run.omni", "-q", "--rotate", "20r", "--", "sh", "-c", script,
    ];
    let mut recorder = scratch
        .command(&args)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the journal", || {
        scratch.has("run.omni") && scratch.read("run.omni").len() >= 32
    });
    let followed = scratch
        .daybook(&["inspect", "run.omni", "--follow", "--json"])
        .expect(0);
    assert!(recorder.wait().unwrap().success());
    assert_eq!(lines(&followed.out), scratch.records("run.omni"));
    assert!(scratch.has("run.9.omni"));
}

#[test]
fn following_ends_on_an_interrupt_and_says_what_it_saw() {
    let scratch = Scratch::new();
    let mut journal = scratch.run(3, None);
    journal.flush().unwrap();
    let mut command = scratch.command(&["inspect", "run.omni", "--follow"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..3 {
        output.next().unwrap().unwrap();
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn following_a_finished_run_prints_it_and_ends() {
    let scratch = Scratch::new();
    scratch.run(10, None).seal().unwrap();
    let ran: Ran = scratch.daybook(&["inspect", "run.omni", "--follow", "--ticks", "8.."]);
    assert_eq!(ran.expect(0).out.lines().count(), 3);
}

#[test]
fn following_a_study_shows_what_another_process_writes_and_ends_on_an_interrupt() {
    let scratch = Scratch::new();
    let create = |name: &str| {
        let args = [
            "study",
            "create",
            "s.atj",
            "--name",
            name,
            "--minimize",
            "m",
        ];
        scratch.daybook(&args).expect(0);
    };
    create("one");
    create("two");
    let mut command = scratch.command(&["study", "tail", "-f", "-n", "1", "s.atj"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || output.next().unwrap().unwrap();
    assert!(next().contains("\"two\""));
    create("three");
    assert!(next().contains("\"three\""));
    create("four");
    assert!(next().contains("\"four\""));
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
