//! Old stores on the simulated disk. Segments, payloads, logs and manifests are those that released versions wrote,
//! a part of them: the manifests are cut down to the files that are there, and their digests are the original ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::digest::{hex, sha256};
use durable::{Access, Fs, ManualClock, create_folder, parent_of, read_all};
use durable_sim::{SimFs, Survival};
use serde_json::{Value, json};
use traza::payload;
use traza::span::Span;
use traza::store::{Filter, Query, Result, Store, StoreOptions, Upkeep};

pub(crate) const DIR: &str = "/store";

pub(crate) fn at(relative: &str) -> PathBuf {
    Path::new(DIR).join(relative)
}

pub(crate) fn segment_name(id: u64) -> String {
    format!("segment-{id:020}.seg")
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::new(1_750_000_000_000_000_000, 1_000))
}

pub(crate) fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.upkeep = Upkeep::Inline;
    options
}

pub(crate) fn open(fs: &SimFs) -> Result<Store> {
    open_at(fs, Path::new(DIR))
}

pub(crate) fn open_at(fs: &SimFs, dir: &Path) -> Result<Store> {
    Store::open_with(Arc::new(fs.clone()), clock(), dir, options())
}

pub(crate) fn is_a(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Puts a file at `path`, with the folders above it, in the place of what is there.
pub(crate) fn put(fs: &SimFs, path: &Path, bytes: &[u8]) {
    create_folder(fs, parent_of(path)).unwrap();
    if fs.exists(path).unwrap() {
        fs.remove_file(path).unwrap();
    }
    let mut file = fs.create_new(path, Access::Shared).unwrap();
    file.append(bytes).unwrap();
}

pub(crate) fn get(fs: &SimFs, path: &Path) -> Vec<u8> {
    read_all(fs, path, 1 << 30).unwrap()
}

/// The disk as it is now, all of it durable.
pub(crate) fn settled(fs: &SimFs) -> SimFs {
    fs.after_crash(Survival::Everything)
}

/// Every file that has bytes, but for the lock.
pub(crate) fn files(fs: &SimFs) -> BTreeMap<PathBuf, Vec<u8>> {
    fs.contents()
        .into_iter()
        .filter_map(|(path, bytes)| Some((path, bytes?)))
        .filter(|(path, _)| !path.ends_with("LOCK"))
        .collect()
}

/// Every span of the store, as text, in the order of answers.
pub(crate) fn spans(store: &Store) -> Vec<String> {
    let mut query = Query::new(Filter::default());
    query.limit = usize::MAX;
    let page = store.query(&query).unwrap();
    page.spans.iter().map(|span| Span::to_json(span)).collect()
}

/// The manifest of these files, as a release would have written it.
pub(crate) fn manifest(generation: u64, format: Option<u16>, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut files: Vec<Value> = files
        .iter()
        .map(|(path, bytes)| {
            json!({
                "path": path, "bytes": bytes.len(), "sha256": hex(&sha256(bytes)),
                "modified_unix_ns": 0,
            })
        })
        .collect();
    files.sort_by_key(|file| file["path"].as_str().unwrap().to_owned());
    let mut manifest = json!({
        "generation": generation, "created_unix_ns": 7,
        "folded_through": {"epoch": 1, "sequence": 9}, "files": files,
    });
    if let Some(format) = format {
        manifest["segment_format"] = format.into();
    }
    serde_json::to_vec_pretty(&manifest).unwrap()
}

/// What a release left on the disk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    /// The version of its segments.
    pub(crate) format: u16,
    /// True for the store in which things were erased, which has neither a log nor a pin.
    pub(crate) is_erased: bool,
}

pub(crate) const RELEASES: [Release; 4] = [
    Release::new(6, false),
    Release::new(7, false),
    Release::new(6, true),
    Release::new(7, true),
];

macro_rules! fixture {
    ($name:literal) => {
        include_bytes!(concat!("../fixtures/", $name)).as_slice()
    };
}

impl Release {
    pub(crate) const fn new(format: u16, is_erased: bool) -> Self {
        Self { format, is_erased }
    }

    /// Its segments, with their ids. Those of version 8 hold the same spans.
    pub(crate) fn segments(self) -> Vec<(u64, &'static [u8])> {
        match (self.format, self.is_erased) {
            (6, false) => vec![
                (0, fixture!("v6/segment-0.seg")),
                (2, fixture!("v6/segment-2.seg")),
            ],
            (7, false) => vec![
                (0, fixture!("v7/segment-0.seg")),
                (2, fixture!("v7/segment-2.seg")),
            ],
            (8, false) => vec![
                (0, fixture!("v8/segment-0.seg")),
                (2, fixture!("v8/segment-2.seg")),
            ],
            (6, true) => vec![(0, fixture!("stores/erased/v6-segment-0.seg"))],
            (7, true) => vec![(0, fixture!("stores/erased/v7-segment-0.seg"))],
            (8, true) => vec![(0, fixture!("stores/erased/v8-segment-0.seg"))],
            other => panic!("{other:?}"),
        }
    }

    /// The manifest of its generation, with every file that it had.
    fn manifest(self) -> Value {
        let bytes = match (self.format, self.is_erased) {
            (6, false) => fixture!("stores/manifest-0.23.json"),
            (6, true) => fixture!("stores/manifest-erased-0.23.json"),
            (_, false) => fixture!("stores/manifest-0.24.json"),
            (_, true) => fixture!("stores/manifest-erased-0.24.json"),
        };
        serde_json::from_slice(bytes).unwrap()
    }

    fn evals(self) -> &'static [u8] {
        match self.format {
            6 => fixture!("stores/evals-0.23.jsonl"),
            _ => fixture!("stores/evals-0.24.jsonl"),
        }
    }

    /// Its blobs in the form of its time, by their paths.
    pub(crate) fn blobs(self) -> BTreeMap<String, Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stores/payloads");
        let mut blobs = BTreeMap::new();
        for path in durable::RealFs.read_dir(&folder).unwrap() {
            let name = path.file_name().unwrap().to_str().unwrap();
            let mut blob = read_all(&durable::RealFs, &path, 1 << 20).unwrap();
            if self.format == 6 {
                // In its time the content was the file: its digest is the name, so there is but one such file.
                blob = payload::decode(&blob).unwrap();
            }
            blobs.insert(format!("payloads/{}/{name}", &name[..2]), blob);
        }
        blobs
    }

    /// The store on a disk, all of it durable.
    pub(crate) fn disk(self) -> SimFs {
        let mut there: BTreeMap<String, Vec<u8>> = self.blobs();
        for (id, bytes) in self.segments() {
            there.insert(segment_name(id), bytes.to_vec());
        }
        if !self.is_erased {
            let annotations = fixture!("stores/annotations.jsonl").to_vec();
            there.insert("annotations.jsonl".to_owned(), annotations);
            there.insert("evals.jsonl".to_owned(), self.evals().to_vec());
        }
        let mut manifest = self.manifest();
        let entries = manifest["files"].as_array_mut().unwrap();
        entries.retain(|entry| there.contains_key(entry["path"].as_str().unwrap()));
        let fs = SimFs::new();
        for (path, bytes) in &there {
            put(&fs, &at(path), bytes);
        }
        for entry in entries.iter() {
            let path = entry["path"].as_str().unwrap();
            let len = usize::try_from(entry["bytes"].as_u64().unwrap()).unwrap();
            let kept = &there[path][..len];
            assert_eq!(entry["sha256"], hex(&sha256(kept)), "{path}");
            if !self.is_erased {
                put(&fs, &at("pins/fixture").join(path), kept);
            }
        }
        let generation = manifest["generation"].as_u64().unwrap();
        let bytes = serde_json::to_vec_pretty(&manifest).unwrap();
        let path = format!("generations/{generation}/state-manifest.json");
        put(&fs, &at(&path), &bytes);
        put(&fs, &at("CURRENT"), format!("{generation}\n").as_bytes());
        if !self.is_erased {
            put(&fs, &at("pins/fixture/state-manifest.json"), &bytes);
            put(&fs, &at("wal.log"), fixture!("stores/wal.log"));
        }
        settled(&fs)
    }

    /// A store of the present format with the same spans.
    pub(crate) fn as_current(self) -> SimFs {
        let fs = SimFs::new();
        drop(open(&fs).unwrap());
        let current = Self::new(8, self.is_erased);
        for (id, bytes) in current.segments() {
            put(&fs, &at(&segment_name(id)), bytes);
        }
        for (path, bytes) in current.blobs() {
            put(&fs, &at(&path), &bytes);
        }
        if !self.is_erased {
            // Its frames up to the ninth are in the segments; those behind it are the rest.
            let path = at("generations/1/state-manifest.json");
            let mut manifest: Value = serde_json::from_slice(&get(&fs, &path)).unwrap();
            manifest["folded_through"] = json!({"epoch": 1, "sequence": 9});
            put(&fs, &path, &serde_json::to_vec_pretty(&manifest).unwrap());
            put(&fs, &at("wal.log"), fixture!("stores/wal.log"));
        }
        settled(&fs)
    }
}
