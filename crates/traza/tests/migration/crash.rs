//! The machine stops, or one call fails, anywhere in a migration.
//!
//! The oracle: every file of the store is at every moment what the release wrote or what becomes of it, and the next
//! opening brings all of it to the present format, to the same bytes as an undisturbed migration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use durable::Severity;
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use traza::payload::ContentAddress;
use traza::store::{restore, verify};

use super::disk::{
    DIR, at, files, is_a, manifest, open, open_at, put, segment_name, settled, spans,
};
use super::encoder::{self, span};

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A small store of both old versions with old blobs, a pin and a log; without a generation when it is adopted.
fn old_store(is_adopted: bool) -> SimFs {
    let contents = [
        "the first payload",
        "the second payload, the second payload",
    ];
    let one = span("trace", 10, "one");
    let two = span("trace", 20, "two");
    let three = span("trace", 10, "three");
    let mut there: Vec<(String, Vec<u8>)> = vec![
        (segment_name(0), encoder::v6(&[one, two])),
        (
            segment_name(3),
            encoder::v7(&[three, span("other", 30, "four")]),
        ),
        (
            "annotations.jsonl".to_owned(),
            b"{\"name\":\"quality\",\"value\":1}\n".to_vec(),
        ),
    ];
    for content in contents {
        let address = ContentAddress::of(content.as_bytes());
        there.push((address.relative_path(), content.as_bytes().to_vec()));
    }
    let listed: Vec<(&str, &[u8])> = there
        .iter()
        .map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
        .collect();
    let kept = manifest(2, None, &listed);
    let fs = SimFs::new();
    for (path, bytes) in &there {
        put(&fs, &at(path), bytes);
        put(&fs, &at("pins/one").join(path), bytes);
    }
    put(&fs, &at("pins/one/state-manifest.json"), &kept);
    let logged = format!("[{}]", span("logged", 40, "five").to_json());
    let crc = durable::checksum::crc32(logged.as_bytes()).to_le_bytes();
    let len = u32::try_from(logged.len()).unwrap().to_le_bytes();
    if is_adopted {
        let log = [&len, &crc, logged.as_bytes()].concat();
        put(&fs, &at("wal.log"), &log);
    } else {
        let stamp = [2u64.to_le_bytes(), 10u64.to_le_bytes()].concat();
        let log = [b"TRZWAL02", &len[..], &crc, &stamp, logged.as_bytes()].concat();
        put(&fs, &at("wal.log"), &log);
        put(&fs, &at("CURRENT"), b"2\n");
        put(&fs, &at("generations/2/state-manifest.json"), &kept);
    }
    settled(&fs)
}

/// The files that hold what must not be lost, and are not written by an opening for other reasons.
fn evidence(fs: &SimFs) -> Files {
    let mut all = files(fs);
    all.retain(|path, _| {
        !is_a(path, "rollup")
            && !is_a(path, "tmp")
            && !path.ends_with("CURRENT")
            && !path.starts_with(at("generations"))
    });
    all
}

struct Oracle {
    before: Files,
    after: Files,
    spans: Vec<String>,
}

impl Oracle {
    fn of(disk: &SimFs) -> Self {
        let fs = disk.fork();
        let store = open(&fs).unwrap();
        let spans = spans(&store);
        drop(store);
        Self {
            before: evidence(disk),
            after: evidence(&fs),
            spans,
        }
    }

    fn check(&self, image: &Image) -> Result<(), BoxError> {
        let fs = &image.fs;
        let found = evidence(fs);
        for (path, bytes) in &self.before {
            let is_known = found
                .get(path)
                .is_some_and(|found| found == bytes || *found == self.after[path]);
            if !is_known {
                return Err(format!("{} is neither old nor new", path.display()).into());
            }
        }
        let store = open(fs)?;
        if spans(&store) != self.spans {
            return Err("the spans are others".into());
        }
        drop(store);
        if evidence(fs) != self.after {
            return Err("the files are others".into());
        }
        let left = files(fs);
        let left = left.keys().find(|path| is_a(path, "tmp"));
        if let Some(left) = left {
            return Err(format!("{} is left over", left.display()).into());
        }
        let verdict = verify(fs, Path::new(DIR))?;
        for finding in &verdict.findings {
            if finding.severity != Severity::Note {
                return Err(format!("{finding:?}").into());
            }
        }
        let restored = Path::new("/restored");
        restore(fs, &at("pins/one"), restored)?;
        if spans(&open_at(fs, restored)?).len() != 3 {
            return Err("the pin is another".into());
        }
        Ok(())
    }
}

#[test]
fn a_migration_that_crashes_at_any_call_is_completed_by_the_next_opening() {
    for is_adopted in [false, true] {
        let disk = old_store(is_adopted);
        let oracle = Oracle::of(&disk);
        let swept = Sweep::default()
            .seeded_images(3)
            .starting_from(&disk)
            .for_each_crash(
                |fs, _: &mut Ledger<()>| {
                    open(fs)?;
                    Ok(())
                },
                |image, _| oracle.check(image),
            )
            .unwrap();
        assert!(swept.calls > 60, "{swept:?}");
    }
}

#[test]
fn a_migration_of_which_any_call_fails_is_completed_by_the_next_opening_and_survives_a_crash() {
    for is_adopted in [false, true] {
        let disk = old_store(is_adopted);
        let oracle = Oracle::of(&disk);
        Sweep::default()
            .seeded_images(3)
            .starting_from(&disk)
            .for_each_failure(
                |fs, _: &mut Ledger<()>| {
                    // Only one call fails, so the second opening does everything that is left.
                    if open(fs).is_err() {
                        open(fs)?;
                    }
                    Ok(())
                },
                |image, _| oracle.check(image),
            )
            .unwrap();
    }
}

#[test]
fn a_disk_that_is_full_during_a_migration_crashes_nothing_and_goes_on_when_there_is_room() {
    let disk = old_store(false);
    let oracle = Oracle::of(&disk);
    for room in (0..4_000).step_by(150) {
        let fs = disk.fork();
        fs.set_capacity(Some(fs.used() + room));
        let opened = open(&fs);
        let is_full = opened.is_err();
        drop(opened);
        if room == 0 {
            assert!(is_full);
        }
        fs.set_capacity(None);
        let image = Image {
            fs: settled(&fs),
            survival: durable_sim::Survival::Everything,
        };
        oracle.check(&image).unwrap();
    }
}
