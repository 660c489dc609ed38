//! Checkpoints, pins and restores.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs as _, Outcome, read_all};
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use traza::span::Span;
use traza::store::{Store, StoreError, restore, verify};

use super::support::{DIR, Key, Random, everything, inline, key, open, span};

fn batch(version: u64) -> Vec<Span> {
    let mut random = Random(version);
    (0..6).map(|_| span(&mut random, version)).collect()
}

fn options() -> traza::store::StoreOptions {
    let mut options = inline();
    options.flush_spans = 10;
    options.payload_threshold = Some(16);
    options
}

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// All files below a folder.
fn files(fs: &SimFs, folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fs.contents()
        .into_iter()
        .filter_map(|(path, bytes)| Some((path, bytes?)))
        .filter(|(path, _)| path.starts_with(folder))
        .collect()
}

fn stored(store: &Store) -> BTreeMap<Key, Span> {
    everything(store)
        .into_iter()
        .map(|(key, span)| (key, Arc::unwrap_or_clone(span)))
        .collect()
}

#[test]
fn a_checkpoint_names_every_file_with_its_digest_and_folds_the_log() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    assert_eq!(store.stats().generation, 1);
    for version in 1..6 {
        store.ingest(batch(version)).unwrap();
    }
    assert_eq!(store.checkpoint().unwrap(), 2);
    let manifest = store.manifest().unwrap();
    assert_eq!(manifest.segment_format, Some(8));
    assert_eq!(
        (
            manifest.folded_through.epoch,
            manifest.folded_through.sequence
        ),
        (1, 5)
    );
    for file in &manifest.files {
        let bytes = read_all(&fs, &at(&file.path), 1 << 20).unwrap();
        assert_eq!(file.bytes, bytes.len() as u64);
        let digest = durable::digest::sha256(&bytes);
        assert_eq!(file.sha256, durable::digest::hex(&digest));
    }
    assert!(
        manifest
            .files
            .iter()
            .any(|file| file.path.starts_with("payloads/"))
    );
    assert_eq!(store.stats().wal_bytes, 0);
    assert!(!fs.exists(&at("generations/1")).unwrap());
    let verdict = verify(&fs, Path::new(DIR)).unwrap();
    assert_eq!(verdict.verdict, Outcome::Intact, "{:#?}", verdict.findings);
    // The next frames belong to the new generation, and are replayed.
    store.ingest(batch(6)).unwrap();
    let before = stored(&store);
    drop(store);
    let store = open(&fs, &options()).unwrap();
    assert_eq!(store.opened().replayed_frames, 1);
    assert_eq!(stored(&store), before);
    assert_eq!(store.checkpoint().unwrap(), 3);
}

#[test]
fn frames_that_a_generation_has_folded_are_not_replayed() {
    let fs = SimFs::new();
    let store = open(&fs, &inline()).unwrap();
    store.ingest(batch(1)).unwrap();
    let log = read_all(&fs, &at("wal.log"), 1 << 20).unwrap();
    store.checkpoint().unwrap();
    drop(store);
    // As if the log could not be cut.
    fs.remove_file(&at("wal.log")).unwrap();
    fs.create_new(&at("wal.log"), Access::Shared)
        .unwrap()
        .append(&log)
        .unwrap();
    let store = open(&fs, &inline()).unwrap();
    assert_eq!(store.opened().replayed_frames, 0);
    assert_eq!(store.stats().buffered_spans, 0);
    store.ingest(batch(2)).unwrap();
    drop(store);
    assert_eq!(open(&fs, &inline()).unwrap().opened().replayed_frames, 1);
}

#[test]
fn a_pin_stays_as_it_is_while_the_store_goes_on_and_can_be_restored() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    for version in 1..4 {
        store.ingest(batch(version)).unwrap();
    }
    let kept = stored(&store);
    let pin = store.pin("before the change").unwrap();
    assert_eq!(pin.generation, 2);
    let pinned = files(&fs, &at("pins"));
    for version in 4..9 {
        store.ingest(batch(version)).unwrap();
    }
    store.checkpoint().unwrap();
    assert_eq!(files(&fs, &at("pins")), pinned);
    assert_eq!(store.pins().unwrap(), [pin]);
    let error = store.pin("before the change").unwrap_err();
    assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
    drop(store);
    let source = at("pins/before the change");
    for target in ["/copy", DIR] {
        let restored = restore(&fs, &source, Path::new(target)).unwrap();
        assert_eq!(restored.source_generation, 2);
        let clock = Arc::new(durable::ManualClock::new(1, 1));
        let store = Store::open_with(Arc::new(fs.clone()), clock, Path::new(target), options());
        let store = store.unwrap();
        assert_eq!(stored(&store), kept);
        assert_eq!(store.stats().generation, restored.generation);
        drop(store);
        let verdict = verify(&fs, Path::new(target)).unwrap();
        assert_eq!(verdict.verdict, Outcome::Intact, "{:#?}", verdict.findings);
    }
    assert_eq!(files(&fs, &at("pins")), pinned);
    let store = open(&fs, &options()).unwrap();
    assert!(store.unpin("before the change").unwrap());
    assert!(!store.unpin("before the change").unwrap());
    assert!(files(&fs, &at("pins")).is_empty());
}

#[test]
fn labels_that_lead_elsewhere_are_refused_before_anything_happens() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    let long = "x".repeat(10_000_000);
    let labels = [
        "", ".", "..", ".hidden", "a/b", "a\\b", "a\0b", "a\nb", &long,
    ];
    for label in labels {
        for error in [
            store.pin(label).unwrap_err(),
            store.unpin(label).unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Invalid { .. }), "{error:?}");
        }
    }
    assert_eq!(store.stats().generation, 1);
}

/// A store with two pins of one generation, the later one damaged by `spoil`.
fn damaged_pin(spoil: impl Fn(&SimFs, &Path)) -> SimFs {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    store.ingest(batch(1)).unwrap();
    store.pin("kept").unwrap();
    drop(store);
    spoil(&fs, &at("pins/kept"));
    fs
}

#[test]
fn a_restore_checks_everything_before_it_changes_anything() {
    let replace = |fs: &SimFs, path: &Path, bytes: &[u8]| {
        fs.remove_file(path).unwrap();
        let mut file = fs.create_new(path, Access::Shared).unwrap();
        file.append(bytes).unwrap();
    };
    let names = files(&damaged_pin(|_, _| {}), &at("pins/kept"));
    for (path, bytes) in names {
        let gone = damaged_pin(|fs, _| fs.remove_file(&path).unwrap());
        let cut = damaged_pin(|fs, _| replace(fs, &path, &bytes[..bytes.len() - 1]));
        let flipped = damaged_pin(|fs, _| {
            let mut bytes = bytes.clone();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            replace(fs, &path, &bytes);
        });
        for fs in [gone, cut, flipped] {
            let before = fs.contents();
            let result = restore(&fs, &at("pins/kept"), Path::new(DIR));
            // A flipped bit of the manifest may be of its time, or of a name that then is missing.
            let is_manifest = path.ends_with("state-manifest.json");
            assert!(result.is_err() || is_manifest, "{}", path.display());
            if result.is_err() {
                assert_eq!(fs.contents(), before);
                let verdict = verify(&fs, Path::new(DIR)).unwrap();
                assert_eq!(verdict.verdict, Outcome::Damaged);
                let told = format!("{:?}", verdict.findings);
                let name = path.file_name().unwrap().to_str().unwrap();
                assert!(is_manifest || told.contains(name), "{told}");
            }
        }
    }
}

#[test]
fn a_manifest_that_leads_out_of_the_pin_is_refused() {
    for path in ["../secret", "/etc/passwd", "a/../../b", "a\\\\b", ""] {
        let fs = damaged_pin(|fs, pin| {
            let name = pin.join("state-manifest.json");
            let manifest = read_all(fs, &name, 1 << 20).unwrap();
            let text = String::from_utf8(manifest).unwrap();
            let spoilt = text.replacen("segment-00000000000000000000.seg", path, 1);
            assert_ne!(text, spoilt);
            fs.remove_file(&name).unwrap();
            let mut file = fs.create_new(&name, Access::Shared).unwrap();
            file.append(spoilt.as_bytes()).unwrap();
        });
        let error = restore(&fs, &at("pins/kept"), Path::new("/copy")).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    }
}

/// Two pins around changes, then the first one restored in place.
fn live(fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
    let store = open(fs, &options())?;
    for version in 1..=2 {
        ledger.submit(version);
        store.ingest(batch(version))?;
        ledger.acknowledge(version);
    }
    store.pin("one")?;
    ledger.acknowledge(100);
    for version in 3..=4 {
        ledger.submit(version);
        store.ingest(batch(version))?;
        ledger.acknowledge(version);
    }
    store.checkpoint()?;
    store.pin("two")?;
    store.unpin("two")?;
    drop(store);
    ledger.submit(200);
    restore(fs, &at("pins/one"), Path::new(DIR))?;
    ledger.acknowledge(200);
    Ok(())
}

/// What the first so many batches give.
fn after(versions: u64) -> BTreeMap<Key, Span> {
    let mut all = BTreeMap::new();
    for version in 1..=versions {
        for mut span in batch(version) {
            traza::payload::offload(&mut span, 16, |_, _| Ok::<(), BoxError>(())).unwrap();
            all.insert(key(&span), span);
        }
    }
    all
}

fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
    let store = open(&image.fs, &options())?;
    let found = stored(&store);
    let batches = |numbers: &[u64]| numbers.iter().filter(|number| **number < 100).count() as u64;
    let submitted = batches(ledger.submitted());
    let acknowledged = batches(ledger.acknowledged());
    let mut possible: Vec<u64> = (acknowledged..=submitted).collect();
    if ledger.submitted().contains(&200) {
        possible.push(2);
    }
    if ledger.acknowledged().contains(&200) {
        possible = vec![2];
    }
    if !possible.iter().any(|versions| after(*versions) == found) {
        return Err(format!("{} spans are none of {possible:?}", found.len()).into());
    }
    // A pin is there whole or not at all, and once acknowledged it stays.
    let pins = store.pins()?;
    if ledger.acknowledged().contains(&100) && !pins.iter().any(|pin| pin.label == "one") {
        return Err("the acknowledged pin is lost".into());
    }
    store.checkpoint()?;
    drop(store);
    let verdict = verify(&image.fs, Path::new(DIR))?;
    if verdict.verdict != Outcome::Intact {
        return Err(format!("{:?}", verdict.findings).into());
    }
    for pin in pins {
        let copy = Path::new("/copy");
        restore(&image.fs, &at("pins").join(&pin.label), copy)?;
        let clock = Arc::new(durable::ManualClock::new(1, 1));
        let store = Store::open_with(Arc::new(image.fs.clone()), clock, copy, options())?;
        let wanted = if pin.label == "one" { 2 } else { 4 };
        if stored(&store) != after(wanted) {
            return Err(format!("pin {} changed", pin.label).into());
        }
    }
    Ok(())
}

#[test]
fn checkpoints_pins_and_restores_survive_a_crash_at_every_call() {
    let swept = Sweep::default()
        .seeded_images(1)
        .for_each_crash(live, check)
        .unwrap();
    assert!(swept.calls > 150, "{swept:?}");
}

#[test]
fn the_verdict_on_a_store_names_each_damaged_file() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    for version in 1..4 {
        store.ingest(batch(version)).unwrap();
    }
    store.checkpoint().unwrap();
    store.ingest(batch(4)).unwrap();
    drop(store);
    let all = files(&fs, Path::new(DIR));
    assert!(all.len() > 5);
    for (path, bytes) in &all {
        for spoil in ["delete", "cut", "flip", "extend"] {
            let fs = fs.fork();
            fs.remove_file(path).unwrap();
            let mut bytes = bytes.clone();
            match spoil {
                "cut" => bytes.truncate(bytes.len() / 2),
                "flip" => {
                    let middle = bytes.len() / 2;
                    bytes[middle] ^= 0x10;
                }
                "extend" => bytes.push(b'x'),
                _ => {}
            }
            if spoil != "delete" {
                let mut file = fs.create_new(path, Access::Shared).unwrap();
                file.append(&bytes).unwrap();
            }
            let verdict = verify(&fs, Path::new(DIR)).unwrap();
            let told = format!("{:?}", verdict.findings);
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_log = name == "wal.log";
            // A log that is gone, or ends early, is as if its last batches had never been acknowledged; `CURRENT` says the
            // same with other bytes around its number.
            let is_blind = is_log && spoil == "delete" || name == "CURRENT" && spoil == "cut";
            let is_manifest = name == "state-manifest.json";
            // A cache: without it nothing is missing, and a changed one is told and made again.
            let is_cache = name.ends_with(".rollup") || name.ends_with(".columns");
            if is_cache && (spoil == "delete" || verdict.verdict == Outcome::Intact) {
                continue;
            }
            if is_blind || is_manifest && verdict.verdict != Outcome::Intact {
                continue;
            }
            assert!(
                told.contains(name) || name == "CURRENT",
                "{spoil} {name}: {told}"
            );
            if !is_log {
                assert_ne!(verdict.verdict, Outcome::Intact, "{spoil} {name}");
            }
        }
    }
}
