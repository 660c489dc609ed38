//! What catches changes: of a byte, of a byte and its checksum, and of the end of a signed set.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use durable::checksum::crc32;
use durable::{RealFs, publish, read_all};
use omniloop_core::journal::{JournalPlayer, layout::record_header, segment_path, segment_paths};

use super::steps::{Steps, at};
use super::study::Tuned;
use crate::failure::Failure;

/// The tick whose loss is forged.
const TICK: u64 = 20;
/// More than any file of the demo.
const LEN_MAX: u64 = 64 << 20;

/// A byte flipped in a copy, the same with its checksum repaired, and what can be saved.
pub(super) fn tamper(steps: &Steps, tuned: &Tuned) -> Result<(), Failure> {
    let run = steps.path(&tuned.best.run());
    steps.say(
        "7. Tamper with copies of the run.",
        "A digit of a recorded loss is changed. Then again, by someone who also repairs the checksum beside it.",
    )?;
    for (name, repair_checksum, caught_by) in [
        ("flipped.omni", false, "its checksum"),
        ("forged.omni", true, "the hash chain"),
    ] {
        forge(&run, &steps.path(name), repair_checksum)?;
        let copy = steps.text(name);
        steps.run(&["verify", &copy], 1)?;
        let told = steps.ask(&["verify", &copy], 1)?;
        steps.claim(
            &format!("{name} is damaged: {caught_by} does not match"),
            at(&told, "/verdict") == "damaged",
        )?;
    }
    let flipped = steps.text("flipped.omni");
    steps.run(&["recover", &flipped], 0)?;
    let saved = steps.text("flipped.recovered.omni");
    let count = |path: &str| {
        let told = steps.ask(&["inspect", path], 0)?;
        Ok::<_, Failure>(at(&told, "/counts/telemetry").as_u64())
    };
    let whole = count(&steps.text(&tuned.best.run()))?;
    let left = count(&saved)?;
    steps.claim(
        "one flipped bit costs one record: all others are saved",
        whole.is_some() && left.map(|left| left + 1) == whole,
    )
}

/// The best values trained once more: as a rotated set that is signed and attested.
pub(super) fn sign(steps: &Steps, tuned: &Tuned) -> Result<(), Failure> {
    steps.say(
        "8. Train the best values once more, signed.",
        "A chain alone does not tell that its end is missing. A key and an attestation do.",
    )?;
    let (key, public) = (steps.text("operator.pem"), steps.text("operator.pub.pem"));
    let (set, cut) = (steps.text("signed.omni"), steps.text("cut.omni"));
    steps.run(&["key", "new", "-o", &key], 0)?;
    let trainer = steps.trainer();
    let values = tuned.best.arguments();
    let record = [
        "record", "-o", &set, "--rotate", "4KiB", "--key", &key, "--",
    ];
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    steps.run_quietly(&[&record[..], &[&trainer, "demo-train"], &values].concat())?;
    let run = steps.text(&tuned.best.run());
    let told = steps.ask(&["diff", &run, &set], 0)?;
    steps.claim(
        "it is the same training, tick by tick",
        at(&told, "/divergence").is_null(),
    )?;
    steps.run(&["verify", &set, "--trust", &public], 0)?;
    let told = steps.ask(&["verify", &set, "--trust", &public], 0)?;
    steps.claim(
        "the set is intact, and signed by that key",
        at(&told, "/verdict") == "intact",
    )?;
    steps.tell("The last file of a copy goes. Each one that is left is intact by itself.")?;
    copy_all_but_last(&steps.path("signed.omni"), &steps.path("cut.omni"))?;
    steps.run(&["verify", &cut, "--trust", &public], 1)?;
    let told = steps.ask(&["verify", &cut, "--trust", &public], 1)?;
    steps.claim(
        "the attestation knows that the end of cut.omni is missing",
        at(&told, "/verdict") == "damaged",
    )
}

/// A copy of a run in which a digit of the loss at one tick is another one.
fn forge(run: &Path, copy: &Path, repair_checksum: bool) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::io(&format!("cannot write {}", copy.display()), &e);
    let mut player = JournalPlayer::open(run)?;
    player.seek_to_tick(TICK)?;
    let record = player
        .read_next_data_record()?
        .ok_or_else(|| Failure::new(format!("the run has fewer than {TICK} ticks")))?;
    let mut bytes = read_all(&RealFs, run, LEN_MAX).map_err(failed)?;
    let mut payload = record.payload;
    let loss = b"\"loss\":0.";
    let digit = payload
        .windows(loss.len())
        .position(|window| window == loss)
        .and_then(|at| payload.get_mut(at + loss.len()))
        .ok_or_else(|| Failure::new(format!("the run has no loss below 1 at tick {TICK}")))?;
    *digit = if *digit == b'9' { b'1' } else { b'9' };
    let start = usize::try_from(record.offset).unwrap_or(usize::MAX);
    let record_bytes = bytes.get_mut(start..).unwrap_or_default();
    if repair_checksum {
        record_header::CRC32
            .put(record_bytes, &crc32(&payload).to_le_bytes())
            .map_err(|e| Failure::new(e.to_string()))?;
    }
    let place = record_bytes
        .get_mut(record_header::LEN..)
        .unwrap_or_default();
    for (to, from) in place.iter_mut().zip(&payload) {
        *to = *from;
    }
    publish(&RealFs, copy, &bytes).map_err(failed)
}

fn copy_all_but_last(from: &Path, to: &Path) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::io(&format!("cannot copy {}", from.display()), &e);
    let segments = segment_paths(from)?;
    let kept = segments.len().saturating_sub(1);
    if kept == 0 {
        return Err(Failure::new("the signed set has one file only"));
    }
    let mut pairs: Vec<(PathBuf, PathBuf)> = (0u64..)
        .zip(segments.iter().take(kept))
        .map(|(ordinal, path)| (path.clone(), segment_path(to, ordinal)))
        .collect();
    for suffix in [".leaves", ".checkpoint"] {
        pairs.push((with_suffix(from, suffix), with_suffix(to, suffix)));
    }
    for (from, to) in pairs {
        let bytes = read_all(&RealFs, &from, LEN_MAX).map_err(failed)?;
        publish(&RealFs, &to, &bytes).map_err(failed)?;
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}
