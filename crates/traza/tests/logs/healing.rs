//! What opening makes of every kind of end, and what it refuses.

use std::path::Path;

use durable::Fs as _;
use durable_sim::SimFs;
use traza::logs::annotation::{Annotation, FORMAT};
use traza::logs::file::{Healed, LineFault, LineFormat, LineLog, LogError, Opened, scan};

use crate::disk::{LOG, at, bytes, fixture, with};

fn open(fs: &SimFs) -> Result<Opened<Annotation>, LogError> {
    let (fs, path) = at(fs);
    LineLog::open(fs, path, &FORMAT)
}

fn line(value: &str) -> String {
    format!(r#"{{"name":"a","value":{value}}}"#)
}

fn with_hole(text: &str, hole: std::ops::Range<usize>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    bytes[hole].fill(0);
    String::from_utf8(bytes).unwrap()
}

fn values(opened: &Opened<Annotation>) -> String {
    let values = opened.records.iter().map(|a| a.value.to_string());
    values.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_end_that_a_crash_can_leave_is_healed_and_reported() {
    let (one, two) = (line("1"), line("2"));
    let torn = |line, offset: usize, len: usize| {
        Some(Healed::TornTail {
            line,
            offset: offset as u64,
            len: len as u64,
        })
    };
    let whole = format!("{one}\n");
    let cut = two.get(..two.len() - 3).unwrap();
    // The disk lost the second sector of the file.
    let long = line(&format!("\"{}\"", "x".repeat(1200)));
    let hole = with_hole(&format!("{one}\n{long}"), 512..1024);
    let hole_len = hole.len() - whole.len();
    let early = with_hole(&format!("{one}\n{long}"), whole.len()..512);
    let cases = [
        (String::new(), "", None, String::new()),
        (whole.clone(), "1", None, whole.clone()),
        (
            format!("\n \t\n{one}\n\n{two}\n"),
            "1 2",
            None,
            format!("\n \t\n{one}\n\n{two}\n"),
        ),
        (format!("{one}\r\n"), "1", None, format!("{one}\r\n")),
        (
            format!("{one}\n{two}"),
            "1 2",
            Some(Healed::Newline { line: 2 }),
            format!("{one}\n{two}\n"),
        ),
        (
            format!("{one}\n  "),
            "1",
            Some(Healed::Newline { line: 2 }),
            format!("{one}\n  \n"),
        ),
        (
            format!("{one}\n{cut}"),
            "1",
            torn(2, whole.len(), cut.len()),
            whole.clone(),
        ),
        (
            format!("{one}\n\u{0}\u{0}"),
            "1",
            torn(2, whole.len(), 2),
            whole.clone(),
        ),
        (
            format!("{hole}\n"),
            "1",
            torn(2, whole.len(), hole_len + 1),
            whole.clone(),
        ),
        (hole, "1", torn(2, whole.len(), hole_len), whole.clone()),
        (
            format!("{early}\n"),
            "1",
            torn(2, whole.len(), hole_len + 1),
            whole.clone(),
        ),
        (cut.to_owned(), "", torn(1, 0, cut.len()), String::new()),
    ];
    for (before, found, healed, after) in cases {
        let fs = with(before.as_bytes());
        let opened = open(&fs).unwrap();
        assert_eq!(values(&opened), found, "{before:?}");
        assert_eq!(opened.healed, healed, "{before:?}");
        assert_eq!(opened.log.len(), after.len() as u64, "{before:?}");
        assert_eq!(bytes(&fs), after.as_bytes(), "{before:?}");
        let again = open(&fs).unwrap();
        assert_eq!(
            (values(&again).as_str(), again.healed),
            (found, None),
            "{before:?}"
        );
    }
}

#[test]
fn any_other_malformed_line_is_refused_by_file_line_and_offset() {
    let good = line("1");
    let zeros = good.replace("name", "\0\0\0\0");
    let long = line(&format!("\"{}\"", "x".repeat(1200)));
    let hole = with_hole(&long, 512..1024);
    let cases = [
        (format!("{good}\nx\n"), 2, good.len() + 1),
        (format!("x\n{good}"), 1, 0),
        (format!("\n\n{{}}\n{good}\n"), 3, 2),
        (format!("{good}\n{zeros}\n"), 2, good.len() + 1),
        (format!("{hole}\n{good}\n"), 1, 0),
        (format!("{hole}\n{}", good.get(..4).unwrap()), 1, 0),
    ];
    for (before, line, offset) in cases {
        let fs = with(before.as_bytes());
        match open(&fs) {
            Err(LogError::Malformed {
                path,
                line: found,
                offset: at,
                ..
            }) => {
                assert_eq!(path, Path::new(LOG), "{before:?}");
                assert_eq!((found, at), (line, offset as u64), "{before:?}");
            }
            other => panic!("{before:?}: {other:?}"),
        }
        assert_eq!(bytes(&fs), before.as_bytes(), "refusing changes nothing");
    }
}

#[test]
fn damaged_logs_of_a_released_version_are_judged_as_that_version_did() {
    let torn = fixture("annotations-torn.jsonl");
    let opened = open(&with(&torn)).unwrap();
    assert_eq!(values(&opened), "0 1");
    assert!(matches!(
        opened.healed,
        Some(Healed::TornTail { line: 3, .. })
    ));
    match open(&with(&fixture("annotations-damaged.jsonl"))) {
        Err(LogError::Malformed {
            line: 2,
            offset: 145,
            source: LineFault::Json(e),
            ..
        }) => {
            assert_eq!(e.offset, 0);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn scanning_reads_the_same_and_changes_nothing() {
    let torn = fixture("annotations-torn.jsonl");
    let scanned = scan(Path::new(LOG), &torn, &FORMAT).unwrap();
    let opened = open(&with(&torn)).unwrap();
    assert_eq!(scanned.records, opened.records);
    assert_eq!(scanned.healed, opened.healed);
}

#[test]
fn a_missing_log_is_empty_and_appears_with_the_first_line() {
    let fs = SimFs::new();
    let mut opened = open(&fs).unwrap();
    assert!(opened.records.is_empty() && opened.log.is_empty());
    assert!(!fs.exists(Path::new(LOG)).unwrap());
    opened.log.append(&[]).unwrap();
    assert!(!opened.log.rewrite(&[]).unwrap());
    assert!(!fs.exists(Path::new(LOG)).unwrap());
    opened.log.append(&[line("1")]).unwrap();
    assert_eq!(bytes(&fs), format!("{}\n", line("1")).as_bytes());
}

#[test]
fn what_an_interrupted_rewrite_left_is_removed() {
    let fs = with(b"");
    let temporary = Path::new("/log.jsonl.tmp");
    fs.create_new(temporary, durable::Access::Shared).unwrap();
    open(&fs).unwrap();
    assert!(!fs.exists(temporary).unwrap());
}

#[test]
fn a_rewrite_that_changes_nothing_writes_nothing() {
    let fs = SimFs::new();
    let mut log = open(&fs).unwrap().log;
    log.append(&[line("1"), line("2")]).unwrap();
    let calls = fs.calls().len();
    assert!(!log.rewrite(&[line("1"), line("2")]).unwrap());
    assert_eq!(fs.calls().len(), calls);
    assert!(log.rewrite(&[line("2")]).unwrap());
    log.append(&[line("3")]).unwrap();
    assert_eq!(values(&open(&fs).unwrap()), "2 3");
    assert_eq!(log.len(), bytes(&fs).len() as u64);
}

/// Numbers below 10 lead an append, the others end one.
const APPENDS: LineFormat<u64> = LineFormat {
    decode: |line| match traza::json::Value::parse(line)?.as_u64() {
        Some(number) => Ok(number),
        None => Err(LineFault::Missing { field: "number" }),
    },
    one_append: |_, after| {
        let last = after.len().saturating_sub(1);
        let leads = |line: &Option<u64>| line.is_none_or(|number| number < 10);
        after
            .get(..last)
            .is_none_or(|leading| leading.iter().all(leads))
    },
};

#[test]
fn lines_behind_a_hole_go_with_it_only_as_one_append() {
    let path = Path::new(LOG);
    // A zero stands for the zeros up to the end of the sector.
    for (text, found) in [
        ("11\n\u{0}\n1\n12\n", Some(vec![11])),
        ("11\n1\n\u{0}\n12\n", Some(vec![11, 1])),
        ("11\n\u{0}\n1\n\u{0}2\n12\n", Some(vec![11])),
        ("11\n\u{0}\n1\n{", Some(vec![11])),
        ("\u{0}\n12\n1\n12\n", None),
        ("\u{0}\n12\n{", None),
        ("\u{0}\nx\n12\n", None),
    ] {
        let (before, after) = text.split_once('\0').unwrap();
        let text = format!("{before}{}{after}", "\0".repeat(512 - before.len()));
        let scanned = scan(path, text.as_bytes(), &APPENDS);
        assert_eq!(scanned.ok().map(|scan| scan.records), found, "{text:?}");
    }
}

#[test]
fn a_line_or_a_file_over_its_limit_is_refused_before_anything_is_written() {
    let fs = SimFs::new();
    let mut log = open(&fs).unwrap().log;
    let long = " ".repeat(usize::try_from(traza::logs::file::LINE_LEN_MAX).unwrap());
    assert!(matches!(
        log.append(&[format!("{long} ")]),
        Err(LogError::TooLong { what: "line", .. })
    ));
    assert!(
        fs.calls()
            .iter()
            .all(|call| !call.to_string().contains("create"))
    );
    assert!(log.is_empty());
}
