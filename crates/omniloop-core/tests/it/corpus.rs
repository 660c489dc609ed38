//! Promised: the reading side keeps its promises on any bytes: it ends, without a panic, and what
//! reading, seeking and verifying say agrees.
//!
//! Attacked with the committed corpora of the fuzz targets, replayed here, and with a few thousand
//! variations of them that are the same every time.
//!
//! The oracle is in `omniloop_core::fuzzing`, which the fuzz targets call too.

use std::path::{Path, PathBuf};

use durable::{Fs as _, RealFs};
use omniloop_core::fuzzing;

use crate::support::bytes_of;

type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 3] = [
    ("player", fuzzing::player),
    ("verifier", fuzzing::verifier),
    ("trailer", fuzzing::trailer),
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
            let bytes = bytes_of(&RealFs, &file);
            (file, bytes)
        })
        .collect()
}

/// Names the input before a panic of `target` unwinds.
fn replay(target: fn(&[u8]), what: &str, bytes: &[u8]) {
    let result = std::panic::catch_unwind(|| target(bytes));
    assert!(result.is_ok(), "{what} breaks a promise");
}

#[test]
fn every_committed_input_keeps_the_promises_of_its_target() {
    for (name, target) in TARGETS {
        for (file, bytes) in corpus(name) {
            replay(target, &file.display().to_string(), &bytes);
        }
    }
}

#[test]
fn variations_of_the_committed_inputs_keep_the_promises_of_their_target() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = |below: usize| {
        // Xorshift: nothing but another number each time.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        usize::try_from(random % below.max(1) as u64).unwrap()
    };
    for (name, target) in TARGETS {
        for (file, bytes) in corpus(name) {
            for round in 0..40 {
                let mut varied = bytes.clone();
                for _ in 0..=draw(3) {
                    let at = draw(varied.len());
                    match draw(5) {
                        0 => varied.truncate(at),
                        1 if at < varied.len() => varied[at] ^= 1 << draw(8),
                        2 if at < varied.len() => varied[at] = [0, 1, 0x7f, 0xff][draw(4)],
                        3 => {
                            let from = draw(varied.len());
                            let to = varied.len().min(from + draw(200));
                            let piece = varied[from.min(to)..to].to_vec();
                            varied.splice(at..at, piece);
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
