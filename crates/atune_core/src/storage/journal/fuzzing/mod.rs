//! What the fuzz targets call, over a study in memory. The tests replay the committed corpora through the
//! same functions.
//!
//! Each function takes bytes that nobody vouches for and panics when a promise of the journal is broken:
//! that is how a fuzzer learns of it. It answers whether the study is sound. None of them is of use to a
//! program.

mod disk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Fs, ManualClock, Outcome};

pub use disk::MemoryDisk;

use super::codec::{extent, head_line, header_line};
use super::error::{JournalError, Result};
use super::identity::Identity;
use super::options::JournalOptions;
use super::reader::{JournalReader, data_folder};
use super::record::{ExtentPointer, FORMAT_VERSION, Head, Header, OpLine};
use super::snapshot::write_study;
use super::storage::JournalStorage;
use super::verify::verify_study;
use crate::storage::Storage;
use crate::storage::conformance::example_config;
use crate::trial::{Direction, WorkerId};

/// Where the study stands.
pub const PATH: &str = "/study.atj";
/// The name of its data file.
pub const DATA_FILE: &str = "data-0000000000000000-00000000-0000000000000000";

/// The operations of a sound study: raw and managed trials, numbers that are not finite, an outbox.
const SOUND: &[u8] = br#"{"record":"op","seq":1,"worker":0,"at_millis":1,"op":{"kind":"create-study","study":0,"config":{"name":"sound","directions":["Minimize"],"seed":1,"space":[{"name":"x","dist":{"Float":{"low":0.0,"high":1.0,"log":false,"step":0.25}}},{"name":"c","dist":{"Cat":{"choices":{"version":1,"choices":[{"label":"a","value":{"type":"string","value":"a"}}]}}}}],"resource_unit":"Steps","metric_names":["loss"]}}}
{"record":"op","seq":2,"worker":0,"at_millis":2,"op":{"kind":"create-trial","study":0,"trial":0,"number":0,"template":{"fixed":{"x":{"F64":0.5}},"parent":null}}}
{"record":"op","seq":3,"worker":0,"at_millis":3,"op":{"kind":"transition","trial":0,"from":"Waiting","to":"Running"}}
{"record":"op","seq":4,"worker":0,"at_millis":4,"op":{"kind":"report","trial":0,"step":1,"values":["NaN"]}}
{"record":"op","seq":5,"worker":0,"at_millis":5,"op":{"kind":"set-trial-user-attr","trial":0,"key":"k","value":{"a":[1,null,"b"]}}}
{"record":"op","seq":6,"worker":1,"at_millis":6,"op":{"kind":"lifecycle-reserve","study":0,"trial":1,"number":1,"managed":true}}
{"record":"op","seq":7,"worker":1,"at_millis":7,"op":{"kind":"lifecycle-claim","trial":1,"from":"Waiting","worker":1,"heartbeat_millis":7,"epoch":1,"heartbeat_seq":1,"params":[{"name":"x","dist":{"Float":{"low":0.0,"high":1.0,"log":false,"step":0.25}},"value":{"F64":0.75}}]}}
{"record":"op","seq":8,"worker":1,"at_millis":8,"op":{"kind":"lifecycle-fenced","trial":1,"worker":1,"epoch":1,"mutation":{"kind":"report","step":1,"values":["-Infinity"]}}}
{"record":"op","seq":9,"worker":1,"at_millis":9,"op":{"kind":"lifecycle-terminal","trial":1,"worker":1,"epoch":1,"outcome":{"state":"Failed","error":"e"},"intent":{"sampler":true,"scheduler":false,"callbacks":["c"]}}}
{"record":"op","seq":10,"worker":1,"at_millis":10,"op":{"kind":"outbox-advance","key":{"trial":1,"epoch":1},"phase":"Effects","effects":[{"kind":"retry"},{"kind":"exploit","source":0,"params":{}}]}}
{"record":"op","seq":11,"worker":1,"at_millis":11,"op":{"kind":"outbox-replacement","effect":{"trial":1,"epoch":1,"index":0},"study":0,"trial":2,"number":2,"attempt":{"number":1,"max":2},"retry_of":1}}
"#;

/// The head file and the data file of a sound study with two extents.
pub fn sound_study() -> (Vec<u8>, Vec<u8>) {
    let lines: Vec<&[u8]> = SOUND.split_inclusive(|&b| b == b'\n').collect();
    let (first, second) = lines.split_at(lines.len() / 2);
    encode(&[first.concat(), second.concat()])
}

/// The same operations as a file of an older version.
pub fn sound_old_file(version: u32) -> Vec<u8> {
    [&header_line(&header(version)), SOUND].concat()
}

fn header(format: u32) -> Header {
    Header {
        format,
        atune: "0.0.0".to_owned(),
        created_at_millis: 1,
        created_by: WorkerId(0),
    }
}

/// A head file and a data file whose extents have these payloads, whatever they hold: everything about
/// them is right but what is in them.
fn encode(payloads: &[Vec<u8>]) -> (Vec<u8>, Vec<u8>) {
    let header = header_line(&header(FORMAT_VERSION));
    let mut head = Head {
        tip: None,
        ops: 0,
        bytes: header.len() as u64,
    };
    let mut data = Vec::new();
    for payload in payloads {
        let count = payload.split_inclusive(|&b| b == b'\n').count() as u64;
        let (first, last) = (head.ops + 1, head.ops + count);
        let bytes = extent(head.tip.take(), first, last, head.bytes, payload);
        head = Head {
            tip: Some(ExtentPointer {
                file: DATA_FILE.to_owned(),
                offset: data.len() as u64,
                len: bytes.len() as u64,
            }),
            ops: last,
            bytes: head.bytes + payload.len() as u64,
        };
        data.extend_from_slice(&bytes);
    }
    ([header, head_line(&head)].concat(), data)
}

/// Reads `bytes` as the file at a study's path, beside a sound data file.
///
/// # Panics
/// When a promise of the journal is broken: see [`check`].
pub fn head(bytes: &[u8]) -> bool {
    check(&lay_out(bytes, Some(&sound_study().1)))
}

/// Reads `bytes` as a data file, under the head of a sound one; then what stands between its metadata
/// lines as payloads whose numbers, lengths and checksums are right.
///
/// # Panics
/// When a promise of the journal is broken: see [`check`].
pub fn data(bytes: &[u8]) -> bool {
    check(&lay_out(&sound_study().0, Some(bytes)));
    let mut payloads = vec![Vec::new()];
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        if line.starts_with(br#"{"magic":"#) {
            payloads.push(Vec::new());
        } else if let Some(payload) = payloads.last_mut() {
            payload.extend_from_slice(line);
        }
    }
    payloads.retain(|payload| !payload.is_empty());
    let (head, data) = encode(&payloads);
    check(&lay_out(&head, Some(&data)))
}

/// Reads the first two lines of `bytes` as the file at a study's path, and the rest as its data file.
///
/// # Panics
/// When a promise of the journal is broken: see [`check`].
pub fn folder(bytes: &[u8]) -> bool {
    let mut ends = (0..).zip(bytes).filter(|(_, b)| **b == b'\n');
    let end = ends.nth(1).map_or(bytes.len(), |(at, _)| at + 1);
    let (head, data) = bytes.split_at(end);
    check(&lay_out(head, Some(data)))
}

/// Reads `bytes` as a study of any version in one file, at once and while it grows.
///
/// # Panics
/// When a promise of the journal is broken: see [`check`]. When a reader that followed the file comes to
/// another result than one that finds it whole.
pub fn old(bytes: &[u8]) -> bool {
    let is_sound = check(&lay_out(bytes, None));
    if is_sound {
        follow(bytes);
    }
    is_sound
}

/// Reads a sound file while it grows by its second half.
fn follow(bytes: &[u8]) {
    let half = bytes.len() / 2;
    let rest = bytes.get(half..).unwrap_or_default();
    let line_end = rest.iter().position(|&b| b == b'\n');
    let (start, rest) = bytes.split_at(line_end.map_or(bytes.len(), |at| half + at + 1));
    let disk = lay_out(start, None);
    let Ok(mut reader) = read(&disk) else {
        return;
    };
    if reader.header().format == FORMAT_VERSION {
        return;
    }
    let appended = disk.open_append(Path::new(PATH));
    let appended = appended.and_then(|mut file| file.append(rest));
    assert!(appended.is_ok(), "the disk in memory never fails");
    let followed = reader.refresh();
    assert!(followed.is_ok(), "followed: {followed:?}");
    is_the_same(&read(&disk), &reader, "what was followed");
}

/// A disk with these bytes as the file at the study's path and, if there are any, as its data file.
fn lay_out(head: &[u8], data: Option<&[u8]>) -> MemoryDisk {
    let disk = MemoryDisk::default();
    disk.put(Path::new(PATH), head);
    if let Some(data) = data {
        let folder = data_folder(Path::new(PATH));
        assert!(disk.create_dir(&folder).is_ok(), "an empty disk");
        disk.put(&folder.join(DATA_FILE), data);
    }
    disk
}

fn read(disk: &MemoryDisk) -> Result<JournalReader> {
    JournalReader::open_on(Arc::new(disk.clone()), PATH)
}

fn write(disk: &MemoryDisk) -> Result<JournalStorage> {
    let (fs, clock) = (Arc::new(disk.clone()), ManualClock::new(1_000_000, 1));
    let options = JournalOptions {
        threads: false,
        ..JournalOptions::default()
    };
    JournalStorage::open_on(fs, Arc::new(clock), Identity::fixed(1), PATH, options)
}

/// Reads, verifies and writes the study on a disk. Answers whether it is sound.
///
/// # Panics
/// When reader, verdict and writer do not agree on whether it is sound; when a refused study is changed;
/// when one that was read is another one after it was read again, copied, migrated or followed; when a
/// commit changes anything but its own data file and the head.
pub fn check(disk: &MemoryDisk) -> bool {
    let before = disk.files();
    let fs: Arc<dyn Fs> = Arc::new(disk.clone());
    let mut lines = Vec::new();
    let opened = JournalReader::open_watched(Arc::clone(&fs), PATH, &mut |line, _| {
        lines.push(line.clone());
    });
    let verdict = verify_study(Arc::clone(&fs), Path::new(PATH));
    let is_damaged = verdict.as_ref().map(|v| v.verdict == Outcome::Damaged);
    let mut reader = match opened {
        Ok(reader) => reader,
        Err(error) => {
            match is_damaged {
                Ok(is_damaged) => {
                    let is_corrupt = matches!(error, JournalError::Corrupt { .. });
                    assert!(is_corrupt && is_damaged, "{error} {verdict:?}");
                }
                Err(other) => assert_eq!(error.to_string(), other.to_string()),
            }
            let written = write(disk).map(drop).map_err(|error| error.to_string());
            assert_eq!(written, Err(error.to_string()), "the writer's refusal");
            assert_eq!(disk.files(), before, "what is refused is not touched");
            return false;
        }
    };
    assert!(matches!(is_damaged, Ok(false)), "{verdict:?}");
    let counts = (reader.head().ops, reader.replica().seq());
    assert_eq!(counts, (lines.len() as u64, lines.len() as u64));
    is_the_same(&read(disk), &reader, "read again");
    is_the_same(&copy(reader.header(), lines), &reader, "copied");
    let refreshed = reader.refresh();
    assert!(matches!(refreshed, Ok(0)), "{refreshed:?}");

    let is_old = reader.header().format != FORMAT_VERSION;
    let storage = write(disk);
    assert!(storage.is_ok(), "{storage:?}");
    if is_old {
        let refreshed = reader.refresh();
        assert!(matches!(refreshed, Ok(0)), "migrated: {refreshed:?}");
        assert_eq!(reader.header().format, FORMAT_VERSION);
        is_the_same(&read(disk), &reader, "migrated");
    }
    let Ok(storage) = storage else {
        return false;
    };
    commit(&storage, disk, &mut reader);
    let after = disk.files();
    let is_kept = |(path, bytes): (&PathBuf, &Vec<u8>)| {
        path == Path::new(PATH) || after.get(path) == Some(bytes)
    };
    assert!(
        before.iter().all(is_kept),
        "a commit appends to its own file"
    );
    true
}

/// One more study, which the reader sees as the only thing that is new.
fn commit(storage: &JournalStorage, disk: &MemoryDisk, reader: &mut JournalReader) {
    let replica = reader.replica();
    let names = (0..).map(|number: u64| format!("fuzz {number}"));
    let mut free = names.filter(|name| replica.study_by_name(name).is_none());
    let name = free.next().unwrap_or_default();
    let committed = storage.create_study(&example_config(&name, &[Direction::Minimize]));
    assert!(committed.is_ok(), "{committed:?}");
    let refreshed = reader.refresh();
    assert!(matches!(refreshed, Ok(1)), "{refreshed:?}");
    assert!(reader.replica().study_by_name(&name).is_some());
    is_the_same(&read(disk), reader, "after a commit");
}

/// The history as a new study on a disk of its own, read back.
fn copy(header: &Header, lines: Vec<OpLine>) -> Result<JournalReader> {
    let disk = MemoryDisk::default();
    let header = Header {
        format: FORMAT_VERSION,
        // A file of an older version need not have one that fits.
        atune: "0.0.0".to_owned(),
        ..header.clone()
    };
    let mut extents = std::iter::once(lines);
    write_study(&disk, Path::new(PATH), &header, DATA_FILE, &mut extents)?;
    read(&disk)
}

fn is_the_same(found: &Result<JournalReader>, expected: &JournalReader, what: &str) {
    match found {
        Ok(found) => assert_eq!(found.replica(), expected.replica(), "{what}"),
        Err(error) => assert_eq!(error.to_string(), "", "{what}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sound_study_is_sound() {
        let (head, data) = sound_study();
        let reader = read(&lay_out(&head, Some(&data))).unwrap();
        assert_eq!((reader.head().ops, reader.extent_count()), (11, 2));
        let old = read(&lay_out(&sound_old_file(5), None)).unwrap();
        assert_eq!(old.replica(), reader.replica());
    }

    #[test]
    fn what_is_sound_keeps_the_promises_of_every_target() {
        let (head_file, data_file) = sound_study();
        assert!(head(&head_file));
        assert!(data(&data_file));
        assert!(folder(&[head_file, data_file].concat()));
        assert!((1..=5).all(|version| old(&sound_old_file(version))));
    }
}
