//! The committed corpora of the fuzz targets, and variations of them that are the same every time. The
//! oracle is in `traza::fuzzing`, which the fuzz targets call too.

use std::path::{Path, PathBuf};

use durable::{Fs as _, RealFs, read_all};
use traza::fuzzing;

type Target = fn(&[u8]) -> bool;

/// Each target, and the inputs of its corpus that are sound: it must not be all damage.
const TARGETS: [(&str, Target, &[&str]); 10] = [
    (
        "traza_open",
        fuzzing::open,
        &[
            "empty-segment",
            "no-content",
            "sound-lz4",
            "sound-raw",
            "sound-zstd",
            "three-blocks",
        ],
    ),
    (
        "traza_section",
        fuzzing::section,
        &["attribute", "content", "offsets", "trace", "trace-unsorted"],
    ),
    ("traza_blob", fuzzing::blob, &["nothing", "packed", "raw"]),
    (
        "traza_v6",
        fuzzing::legacy,
        &["no-records", "one-record", "three-records"],
    ),
    (
        "traza_v7",
        fuzzing::legacy,
        &["no-records", "raw-block", "three-records"],
    ),
    (
        "traza_rollup",
        fuzzing::rollup,
        &["larger", "no-spans", "sound"],
    ),
    (
        "traza_columns",
        fuzzing::columns,
        &["no-records", "one-record", "three-records"],
    ),
    (
        "traza_wal",
        fuzzing::wal,
        &[
            "empty",
            "epochs",
            "magic-only",
            "no-spans",
            "torn",
            "torn-header",
            "two-frames",
            "zeros-behind",
        ],
    ),
    (
        "traza_lines",
        fuzzing::lines,
        &[
            "annotations",
            "blank-lines",
            "evals",
            "no-newline",
            "nothing",
            "pending",
            "tombstones",
            "torn",
            "torn-version",
            "zeros",
        ],
    ),
    (
        "traza_manifest",
        fuzzing::manifest,
        &[
            "largest",
            "no-files",
            "no-format",
            "sound",
            "unknown-member",
        ],
    ),
];

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(name);
    let files = RealFs.read_dir(&folder).unwrap();
    assert!(files.len() > 5, "{} holds a corpus", folder.display());
    let bytes_of = |file: &PathBuf| read_all(&RealFs, file, 1 << 20).unwrap();
    files
        .iter()
        .map(|file| (file.clone(), bytes_of(file)))
        .collect()
}

/// Names the input before a panic of `target` unwinds. Answers whether the input is sound.
fn replay(target: Target, what: &str, bytes: &[u8]) -> bool {
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

/// Numbers that look random and are the same every time: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }
}

#[test]
fn variations_of_the_committed_inputs_keep_the_promises_of_their_target() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for (name, target, _) in TARGETS {
        for (file, bytes) in corpus(name) {
            for round in 0..60 {
                let mut varied = bytes.clone();
                for _ in 0..=random.below(3) {
                    let at = random.below(varied.len());
                    let end = varied.len().min(at + random.below(16));
                    match random.below(6) {
                        0 => varied.truncate(at),
                        1 | 2 if at < varied.len() => varied[at] ^= 1 << random.below(8),
                        3 => drop(varied.drain(at..end)),
                        4 => {
                            let piece = varied[at..end].to_vec();
                            varied.splice(at..at, piece);
                        }
                        _ => varied[at..end].fill([0, 1, 0x7f, 0x80, 0xff][random.below(5)]),
                    }
                }
                replay(
                    target,
                    &format!("{} round {round}", file.display()),
                    &varied,
                );
            }
        }
    }
}
