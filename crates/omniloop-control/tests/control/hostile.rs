//! Whoever asks badly, slowly or not at all holds up nobody.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use omniloop_control::{HaltPolicy, LINE_LEN_MAX, Standing};
use serde_json::{Value, json};

use crate::attended::{Attended, outline};

fn connect(run: &Attended) -> UnixStream {
    let stream = UnixStream::connect(run.socket()).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
}

fn read_answer(stream: &UnixStream) -> Value {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

#[test]
fn bytes_that_are_no_request_are_answered_by_name_and_the_connection_stays() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut stream = connect(&run);
    for (line, error) in [
        (&b"\n"[..], "not_json"),
        (b"\x00\xff\xfe\n", "not_json"),
        (b"{\"command\": \"status\"\n", "not_json"),
        (b"[]\n", "not_json"),
        (b"{\"command\": \"launch\"}\n", "unknown_command"),
        (b"{\"command\": \"set\"}\n", "bad_request"),
        (b"{\"command\": \"leave\"}\n", "bad_request"),
    ] {
        stream.write_all(line).unwrap();
        let answer = read_answer(&stream);
        assert_eq!(answer["error"], error, "{line:?}");
        assert_eq!(answer["ok"], false);
    }
    stream.write_all(b"{\"command\": \"status\"}\n").unwrap();
    assert_eq!(read_answer(&stream)["ok"], true);
    // None of it was a command of anybody.
    assert_eq!(outline(&run.records()), [""; 0]);
}

#[test]
fn a_line_without_end_is_refused_at_its_bound_and_the_connection_ended() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut stream = connect(&run);
    stream.write_all(&vec![b' '; LINE_LEN_MAX]).unwrap();
    assert_eq!(read_answer(&stream)["error"], "line_too_long");
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0, "it is ended");
    // The longest request is one byte shorter and still read.
    let mut stream = connect(&run);
    let mut line = br#"{"command":"status"}"#.to_vec();
    line.resize(LINE_LEN_MAX - 1, b' ');
    line.push(b'\n');
    stream.write_all(&line).unwrap();
    assert_eq!(read_answer(&stream)["ok"], true);
}

#[test]
fn half_a_line_is_no_request() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut stream = connect(&run);
    stream.write_all(br#"{"command":"halt"}"#).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);
    assert_eq!(run.tick(1), Standing::Going);
    assert_eq!(outline(&run.records()), [""; 0]);
}

#[test]
fn a_client_that_reads_no_answers_and_one_that_says_nothing_hold_up_neither_loop_nor_others() {
    let run = Attended::new(HaltPolicy::Halt);
    let silent = connect(&run);
    let mut deaf = connect(&run);
    deaf.set_nonblocking(true).unwrap();
    let status = b"{\"command\":\"status\"}\n".repeat(1000);
    // Until its own buffer and that of the answers are full.
    let mut sent = 0;
    while let Ok(len) = deaf.write(&status) {
        sent += len;
        assert!(sent < 1 << 30);
    }
    for n in 0..1000 {
        assert_eq!(run.tick(n), Standing::Going);
    }
    let answer = run.ask(&mut run.client(), &json!({"command": "halt"}));
    assert_eq!(answer["state"], "halted");
    drop((silent, deaf));
}

#[test]
fn a_connection_too_many_is_told_so_and_a_place_that_becomes_free_is_given_away() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut held: Vec<_> = (0..16).map(|_| connect(&run)).collect();
    for stream in &mut held {
        stream.write_all(b"{\"command\":\"status\"}\n").unwrap();
        assert_eq!(read_answer(stream)["ok"], true);
    }
    assert_eq!(read_answer(&connect(&run))["error"], "busy");
    held.pop();
    run.until(|_| {
        let mut stream = connect(&run);
        stream.write_all(b"{\"command\":\"status\"}\n").is_ok()
            && read_answer(&stream)["ok"] == true
    });
}
