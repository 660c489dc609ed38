//! What is promised: files of versions 1 to 5, one JSON line after another, are read; a torn last line is
//! ignored and told. The state is compared with that of the same operations.

use atune_core::storage::journal::{Fault, JournalError, JournalReader, Section};
use atune_core::trial::TrialId;
use std::collections::BTreeMap;

use crate::journal::{Files, HEADER, OPS, lines, op_line, state_after};

fn old(version: u32, body: &str) -> Files {
    let header = HEADER.replace("\"format\":6", &format!("\"format\":{version}"));
    let (head, data) = (format!("{header}\n{body}").into_bytes(), BTreeMap::new());
    Files { head, data }
}

fn open(version: u32, body: &str) -> Result<JournalReader, JournalError> {
    old(version, body).open()
}

#[test]
fn every_older_version_is_read_whole() {
    for version in 1..=5 {
        let mut reader = open(version, &lines(1, 8)).unwrap();
        assert_eq!(*reader.replica(), state_after(8));
        assert_eq!(reader.header().format, version);
        assert_eq!((reader.head().ops, reader.torn_tail()), (8, 0));
        assert_eq!(
            reader.head().bytes,
            (HEADER.len() + 1 + lines(1, 8).len()) as u64
        );
        assert_eq!(reader.extent_count(), 0);
        assert_eq!(reader.data_files().unwrap(), []);
        assert_eq!(reader.refresh().unwrap(), 0);
    }
}

#[test]
fn a_last_line_torn_at_any_length_is_ignored_and_told() {
    let whole = lines(1, 7);
    let last = op_line(8, OPS[7]);
    for len in 0..last.len() {
        // Bytes, for a tear can fall into the middle of a letter.
        let mut files = old(5, &whole);
        files.head.extend_from_slice(&last.as_bytes()[..len]);
        let reader = files.open().unwrap();
        assert_eq!(*reader.replica(), state_after(7));
        assert_eq!(reader.torn_tail(), len as u64);
        assert_eq!(reader.head().bytes, (HEADER.len() + 1 + whole.len()) as u64);
    }
}

#[test]
fn damage_before_the_last_line_is_refused_and_named() {
    let first = lines(1, 1);
    let offset = (HEADER.len() + 1 + first.len()) as u64;
    for bad in ["\n", "{}\n", "null\n", &format!("{HEADER}\n"), "\u{0}\n"] {
        match open(3, &format!("{first}{bad}{}", lines(2, 3))) {
            Err(JournalError::Corrupt {
                section: Section::Operations,
                offset: at,
                fault: Fault::BadRecord(_),
                ..
            }) => {
                assert_eq!(at, offset);
            }
            other => panic!("{bad:?}: {other:?}"),
        }
    }
    for body in [
        lines(2, 3),
        lines(1, 2) + &lines(4, 4),
        lines(1, 2) + &lines(2, 2),
    ] {
        let found = open(3, &body);
        let is_refused = matches!(
            found,
            Err(JournalError::Corrupt {
                fault: Fault::Refused { .. },
                ..
            })
        );
        assert!(is_refused, "{found:?}");
    }
}

#[test]
fn a_reservation_without_its_marker_is_a_raw_trial() {
    let reserve = |members: &str| {
        let op =
            format!(r#"{{"kind":"lifecycle-reserve","study":0,"trial":0,"number":0{members}}}"#);
        lines(1, 1) + &op_line(2, &op)
    };
    let managed = |body: &str| {
        open(1, body)
            .unwrap()
            .replica()
            .trial(TrialId(0))
            .unwrap()
            .managed
    };
    assert!(!managed(&reserve("")));
    assert!(managed(&reserve(r#","managed":true"#)));
}

#[test]
fn an_ending_without_an_intent_owes_nothing() {
    let ops = [
        r#"{"kind":"lifecycle-reserve","study":0,"trial":0,"number":0,"managed":true}"#,
        r#"{"kind":"lifecycle-claim","trial":0,"from":"Waiting","worker":3,"heartbeat_millis":5,"epoch":1,"heartbeat_seq":1,"params":[]}"#,
        r#"{"kind":"lifecycle-terminal","trial":0,"worker":3,"epoch":1,"outcome":{"state":"Complete","values":[1.0]}}"#,
    ];
    let body: String = (2..).zip(ops).map(|(seq, op)| op_line(seq, op)).collect();
    let reader = open(3, &(lines(1, 1) + &body)).unwrap();
    assert!(
        reader
            .replica()
            .trial(TrialId(0))
            .unwrap()
            .state
            .is_terminal()
    );
    assert_eq!(reader.replica().outboxes().count(), 0);
}
