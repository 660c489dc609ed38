//! What is promised: the journal keeps its promises on any bytes: it ends, without a panic, and what
//! readers, writers and verdicts say agrees. The committed corpora of the fuzz targets are replayed here,
//! with variations of them that are the same every time. The oracle is in `atune_core::fuzzing`, which
//! the fuzz targets call too.

use std::path::{Path, PathBuf};

use atune_core::fuzzing;
use durable::{Fs as _, RealFs, read_all};

use crate::random::Random;

type Target = fn(&[u8]) -> bool;

/// Each target, and the inputs of its corpus that are sound: it must not be all damage.
const TARGETS: [(&str, Target, &[&str]); 4] = [
    (
        "atj_head",
        fuzzing::head,
        &["members-swapped", "no-tip", "sound"],
    ),
    (
        "atj_data",
        fuzzing::data,
        &[
            "checksum",
            "cut-in-metadata",
            "empty",
            "kind-last",
            "loop",
            "magic",
            "managed-operations",
            "more-behind",
            "raw-operations",
            "record-last",
            "sound",
        ],
    ),
    (
        "atj_folder",
        fuzzing::folder,
        &["first-extent-only", "golden", "sound"],
    ),
    (
        "atj_old",
        fuzzing::old,
        &[
            "carriage-returns",
            "header-alone",
            "managed",
            "no-intent",
            "no-lines",
            "raw",
            "sound-1",
            "sound-2",
            "sound-3",
            "sound-4",
            "sound-5",
            "torn",
            "unmarked-reservation",
        ],
    ),
];

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let files = RealFs.read_dir(&folder).unwrap();
    assert!(files.len() > 5, "{} holds a corpus", folder.display());
    files
        .into_iter()
        .map(|file| {
            let bytes = read_all(&RealFs, &file, 1 << 20).unwrap();
            (file, bytes)
        })
        .collect()
}

/// Names the input before a panic of `target` unwinds. Answers whether the study is sound.
fn replay(target: fn(&[u8]) -> bool, what: &str, bytes: &[u8]) -> bool {
    let result = std::panic::catch_unwind(|| target(bytes));
    result.unwrap_or_else(|_| panic!("{what} breaks a promise"))
}

#[test]
fn every_committed_input_keeps_the_promises_of_its_target() {
    for (name, target, expected) in TARGETS {
        let mut sound = Vec::new();
        for (file, bytes) in corpus(name) {
            if replay(target, &file.display().to_string(), &bytes) {
                sound.push(file.file_name().unwrap().to_str().unwrap().to_owned());
            }
        }
        assert_eq!(sound, expected, "{name}");
    }
}

#[test]
fn variations_of_the_committed_inputs_keep_the_promises_of_their_target() {
    let mut random = Random(1);
    let mut draw = |below: usize| usize::try_from(random.below(below.max(1) as u64)).unwrap();
    for (name, target, _) in TARGETS {
        for (file, bytes) in corpus(name) {
            for round in 0..30 {
                let mut varied = bytes.clone();
                for _ in 0..=draw(3) {
                    let at = draw(varied.len());
                    match draw(6) {
                        0 => varied.truncate(at),
                        1 if at < varied.len() => varied[at] ^= 1 << draw(8),
                        // Another digit: numbers are what the parts of a journal agree by.
                        2 => {
                            if let Some(digit) = varied[at..].iter().position(u8::is_ascii_digit) {
                                varied[at + digit] = b'0' + u8::try_from(draw(10)).unwrap();
                            }
                        }
                        3 => {
                            let from = draw(varied.len());
                            let to = varied.len().min(from + draw(200));
                            let piece = varied[from.min(to)..to].to_vec();
                            varied.splice(at..at, piece);
                        }
                        4 => {
                            // A line twice, or in another place.
                            let lines: Vec<&[u8]> =
                                varied.split_inclusive(|&b| b == b'\n').collect();
                            let (from, to) = (draw(lines.len()), draw(lines.len()));
                            let mut lines: Vec<Vec<u8>> =
                                lines.into_iter().map(<[u8]>::to_vec).collect();
                            if let Some(line) = lines.get(from).cloned() {
                                lines.insert(to, line);
                            }
                            varied = lines.concat();
                        }
                        _ => drop(varied.drain(at..varied.len().min(at + draw(64)))),
                    }
                }
                let what = format!("{} round {round}", file.display());
                replay(target, &what, &varied);
            }
        }
    }
}
