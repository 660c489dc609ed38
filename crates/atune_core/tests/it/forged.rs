//! What is promised: a history is refused, naming file and offset, when its numbers do not hold together,
//! even though every checksum is right. One forgery at a time, each with the fault that must be found.

use atune_core::replica::Refusal;
use atune_core::storage::journal::{Fault, JournalError, JournalReader, Section};
use atune_core::trial::{TrialId, TrialState};
use durable::{Access, Fs, RealFs};

use crate::journal::{A, B, HEADER, Journal, Meta, Pointer, lines, op_line, put};

/// The small study with a third extent (operations 4 to 6, in file A) whose metadata `forge` changes.
fn with_forged_third(forge: impl FnOnce(&mut Meta)) -> Journal {
    let mut journal = Journal::new();
    journal.extent(A, 2, &lines(1, 2));
    journal.extent(B, 3, &lines(3, 3));
    journal.forged(A, 6, &lines(4, 6), forge);
    journal.extent(B, 8, &lines(7, 8));
    journal
}

/// The small study with these lines as its last extent.
fn with_last(payload: &str) -> Journal {
    let mut journal = Journal::new();
    journal.extent(A, 6, &lines(1, 6));
    journal.extent(B, 8, payload);
    journal
}

fn is_not_contiguous(fault: &Fault) -> bool {
    matches!(fault, Fault::NotContiguous { .. })
}

#[test]
fn a_missing_data_file_is_named() {
    let mut journal = Journal::small();
    journal.data.remove(A);
    let (file, _, fault) = journal.fault();
    assert_eq!((file.as_str(), fault), (A, Fault::MissingFile));
}

#[test]
fn a_foreign_data_file_in_the_place_of_one_is_refused() {
    let mut other = Journal::new();
    other.extent(A, 2, &lines(1, 2).replace("small", "other"));
    other.extent(A, 6, &lines(3, 6));
    let mut journal = Journal::small();
    journal.data.insert(A.to_owned(), other.data[A].clone());
    assert_eq!(journal.fault().0, A);
    journal.data.insert(A.to_owned(), vec![0; 4096]);
    assert_eq!(journal.fault().0, A);
    journal.data.insert(A.to_owned(), journal.data[B].repeat(3));
    assert_eq!(journal.fault().0, A);
}

#[test]
fn a_pointer_that_leads_out_of_the_folder_is_refused_unopened() {
    for name in [
        "../study.atj",
        "..",
        ".",
        "",
        "data-a/b",
        "data-\0",
        "/etc/passwd",
        "data-..",
    ] {
        let unsafe_name = Fault::UnsafeName(name.to_owned());
        let mut journal = Journal::small();
        journal.tip.as_mut().unwrap().file = name.to_owned();
        let (file, _, fault) = journal.fault();
        assert_eq!((file.as_str(), fault), ("study.atj", unsafe_name.clone()));
        let journal =
            with_forged_third(|meta| meta.previous.as_mut().unwrap().file = name.to_owned());
        let (file, _, fault) = journal.fault();
        assert_eq!((file.as_str(), fault), (A, unsafe_name));
    }
}

#[test]
fn an_extent_that_points_to_itself_or_to_a_later_one_is_a_loop() {
    let tip = Journal::small().tip.unwrap();
    let later = with_forged_third(|meta| meta.previous = Some(tip.clone()));
    assert_eq!(later.tip.as_ref().unwrap().len, tip.len);
    assert_eq!(
        later.fault(),
        (B.to_owned(), tip.offset, Fault::BackwardLoop)
    );

    let mut journal = Journal::new();
    journal.extent(A, 2, &lines(1, 2));
    let offset = journal.data[A].len() as u64;
    let own = Pointer {
        file: A.to_owned(),
        offset,
        len: 0,
    };
    let mut probe = journal.clone();
    probe.forged(A, 3, &lines(3, 3), |meta| {
        meta.previous = Some(Pointer {
            len: 100,
            ..own.clone()
        });
    });
    let len = probe.tip.unwrap().len;
    journal.forged(A, 3, &lines(3, 3), |meta| {
        meta.previous = Some(Pointer { len, ..own });
    });
    assert_eq!(journal.tip.as_ref().unwrap().len, len);
    assert_eq!(journal.fault(), (A.to_owned(), offset, Fault::BackwardLoop));
}

#[test]
fn forged_totals_in_the_head_are_refused() {
    for (ops, bytes) in [(0, 0), (1, 0), (-1, 0), (-8, 0), (0, 1), (0, -1), (1, 1)] {
        let mut journal = Journal::small();
        journal.ops = journal.ops.checked_add_signed(ops).unwrap();
        journal.bytes = journal.bytes.checked_add_signed(bytes).unwrap();
        if (ops, bytes) == (0, 0) {
            journal.open().unwrap();
        } else {
            journal.fault();
        }
    }
    for (ops, bytes) in [(u64::MAX, u64::MAX), (u64::MAX, 0), (8, 0), (8, u64::MAX)] {
        let mut journal = Journal::small();
        (journal.ops, journal.bytes) = (ops, bytes);
        journal.fault();
    }
}

#[test]
fn a_head_without_a_tip_has_no_operations() {
    let mut journal = Journal::new();
    let reader = journal.open().unwrap();
    assert_eq!((reader.replica().seq(), reader.extent_count()), (0, 0));
    journal.bytes -= 1;
    assert!(is_not_contiguous(&journal.fault().2));
    let mut journal = Journal::small();
    journal.tip = None;
    let (file, offset, fault) = journal.fault();
    assert_eq!(
        (file.as_str(), offset),
        ("study.atj", HEADER.len() as u64 + 1)
    );
    assert!(is_not_contiguous(&fault));
}

#[test]
fn forged_numbers_of_an_extent_are_refused() {
    type Forge = fn(&mut Meta);
    let forgeries: [(&str, Forge); 16] = [
        ("magic", |m| m.magic = "atune.extent/7".to_owned()),
        ("first is zero", |m| m.first = 0),
        ("first too low", |m| m.first -= 1),
        ("first too high", |m| m.first += 1),
        ("last too low", |m| m.last -= 1),
        ("last too high", |m| m.last += 1),
        ("last before first", |m| m.last = 1),
        ("last is the largest", |m| m.last = u64::MAX),
        ("start too low", |m| m.start -= 1),
        ("start too high", |m| m.start += 1),
        ("start is the largest", |m| m.start = u64::MAX),
        ("payload too short", |m| m.payload_len -= 1),
        ("payload too long", |m| m.payload_len += 1),
        ("payload is the largest", |m| m.payload_len = u64::MAX),
        ("checksum", |m| m.checksum ^= 1),
        ("no previous", |m| m.previous = None),
    ];
    for (what, forge) in forgeries {
        let (file, _, _) = with_forged_third(forge).fault();
        assert!(file == A || file == B, "{what}: {file}");
    }
}

#[test]
fn a_first_extent_that_starts_elsewhere_than_behind_the_header_is_refused() {
    let mut journal = Journal::new();
    journal.forged(A, 2, &lines(1, 2), |meta| meta.start += 7);
    journal.bytes += 7;
    assert!(is_not_contiguous(&journal.fault().2));
    let mut journal = Journal::new();
    journal.forged(A, 2, &lines(1, 2), |meta| meta.first = 2);
    assert!(is_not_contiguous(&journal.fault().2));
}

#[test]
fn a_pointer_with_forged_numbers_is_refused() {
    for (offset, len) in [
        (1, 0),
        (-1, 0),
        (0, 1),
        (0, -1),
        (0, i64::MAX),
        (i64::MAX, 0),
    ] {
        let mut journal = Journal::small();
        let tip = journal.tip.as_mut().unwrap();
        tip.offset = tip.offset.checked_add_signed(offset).unwrap();
        tip.len = tip.len.checked_add_signed(len).unwrap();
        assert_eq!(journal.fault().0, B);
    }
    for (offset, len) in [(0, 0), (u64::MAX, u64::MAX), (u64::MAX, 0), (0, u64::MAX)] {
        let mut journal = Journal::small();
        let file = B.to_owned();
        journal.tip = Some(Pointer { file, offset, len });
        assert_eq!(journal.fault().0, B);
    }
}

#[test]
fn a_sequence_number_that_is_missing_or_stands_twice_is_named() {
    let eight = lines(8, 8);
    let twice = [lines(7, 7), eight.replace(r#""seq":8"#, r#""seq":7"#)].concat();
    let missing = [lines(7, 7), eight.replace(r#""seq":8"#, r#""seq":9"#)].concat();
    for (payload, number) in [(twice, 7), (missing, 9)] {
        let (file, _, fault) = with_last(&payload).fault();
        assert_eq!(file, B);
        let named =
            matches!(fault, Fault::NotContiguous { expected: 8, found, .. } if found == number);
        assert!(named, "{fault}");
    }
    for payload in [
        lines(7, 7),
        lines(7, 8) + &op_line(9, crate::journal::OPS[7]),
    ] {
        assert!(is_not_contiguous(&with_last(&payload).fault().2));
    }
}

#[test]
fn a_payload_that_is_no_list_of_whole_lines_is_refused() {
    let whole = lines(7, 8);
    for payload in [
        whole.trim_end().to_owned(),
        format!("{whole}\n"),
        format!("{HEADER}\n{whole}"),
        whole.replace("create-trial", "create-planet"),
    ] {
        let (file, _, fault) = with_last(&payload).fault();
        assert_eq!(file, B);
        let is_named = matches!(fault, Fault::BadRecord(_) | Fault::UnknownOperation { .. });
        assert!(is_named, "{fault}");
    }
}

#[test]
fn an_operation_that_the_state_machine_refuses_is_named_with_its_reason() {
    let illegal = r#"{"kind":"transition","trial":1,"from":"Waiting","to":"Complete"}"#;
    let journal = with_last(&(lines(7, 7) + &op_line(8, illegal)));
    let (from, to) = (TrialState::Waiting, TrialState::Complete);
    let (file, offset, fault) = journal.fault();
    let refusal = Refusal::ForbiddenMove { from, to };
    assert_eq!(fault, Fault::Refused { seq: 8, refusal });
    let at = journal.data[B].len() - op_line(8, illegal).len();
    assert_eq!((file.as_str(), offset), (B, at as u64));
    let text = fault.to_string();
    assert!(text.contains("operation 8"), "{text}");
    let unknown = op_line(8, r#"{"kind":"heartbeat","trial":5,"at_millis":1}"#);
    let (_, _, fault) = with_last(&(lines(7, 7) + &unknown)).fault();
    let refusal = Refusal::UnknownTrial(TrialId(5));
    assert_eq!(fault, Fault::Refused { seq: 8, refusal });
}

#[test]
fn metadata_lines_end_within_their_cap() {
    let probe = with_forged_third(|_| {});
    let line_len = probe.data[A].split(|&b| b == b'\n').nth(3).unwrap().len() + 1;
    let padded = |len: usize| with_forged_third(|meta| meta.padding = len - line_len);
    padded(2048).open().unwrap();
    let too_long = Fault::LineTooLong { max: 2048 };
    assert_eq!(padded(2049).fault().2, too_long);
    let mut journal = Journal::small();
    journal.header = HEADER.replace("0.0.0", &"0".repeat(2100));
    let found = journal.open();
    let is_header = matches!(
        found,
        Err(JournalError::Corrupt { section: Section::Header, ref fault, .. }) if *fault == too_long
    );
    assert!(is_header, "{found:?}");
}

#[test]
fn a_header_whose_text_is_escaped_otherwise_keeps_its_own_length() {
    let mut journal = Journal::new();
    journal.header = HEADER.replace("0.0.0", "\\u0030.0.0");
    journal.bytes = journal.header.len() as u64 + 1;
    journal.extent(A, 2, &lines(1, 2));
    assert_eq!(journal.open().unwrap().replica().seq(), 2);
}

#[test]
fn a_newer_version_is_refused_by_number_whatever_its_header_holds() {
    for (version, found) in [("7", 7), ("4000000000", 4_000_000_000)] {
        let mut journal = Journal::small();
        journal.header =
            format!(r#"{{"record":"header","format":{version},"new_member":[1],"created_by":0}}"#);
        match journal.open() {
            Err(JournalError::Unsupported {
                found: named,
                newest: 6,
                ..
            }) => {
                assert_eq!(named, found);
            }
            other => panic!("{other:?}"),
        }
    }
    let mut journal = Journal::small();
    journal.header = HEADER.replace("\"format\":6", "\"format\":0");
    journal.fault();
}

#[test]
fn what_is_no_file_of_this_kind_is_told_apart() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("study.atj");
    let is_io = |found: Result<JournalReader, JournalError>| {
        assert!(matches!(found, Err(JournalError::Io { .. })), "{found:?}");
    };
    is_io(JournalReader::open(&path));
    is_io(JournalReader::open(temp.path()));
    put(&RealFs, &path, b"");
    let found = JournalReader::open(&path);
    assert!(
        matches!(found, Err(JournalError::NotAStudy { .. })),
        "{found:?}"
    );
    let text = temp.path().join("notes.txt");
    put(&RealFs, &text, b"{\"record\":\"op\"}\n");
    let found = JournalReader::open(&text);
    assert!(
        matches!(found, Err(JournalError::NotAStudy { .. })),
        "{found:?}"
    );
}

#[test]
fn a_line_of_three_gigabytes_is_refused_after_its_first_bytes() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("study.atj");
    let mut file = RealFs.create_new(&path, Access::Shared).unwrap();
    file.append(HEADER.as_bytes()).unwrap();
    file.set_len(3 << 30).unwrap();
    let found = JournalReader::open(&path);
    let is_long = matches!(
        found,
        Err(JournalError::Corrupt {
            fault: Fault::LineTooLong { max: 2048 },
            ..
        })
    );
    assert!(is_long, "{found:?}");
}
