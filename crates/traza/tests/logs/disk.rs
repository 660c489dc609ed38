//! A simulated disk with one log on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs, RealFs, read_all};
use durable_sim::{SimFs, Sweep};

pub(crate) const LOG: &str = "/log.jsonl";

pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs");
    read_all(&RealFs, &folder.join(name), 1 << 20).unwrap()
}

/// A disk with `bytes` as the log.
pub(crate) fn with(bytes: &[u8]) -> SimFs {
    let fs = SimFs::new();
    let mut file = fs.create_new(Path::new(LOG), Access::Shared).unwrap();
    file.append(bytes).unwrap();
    file.sync().unwrap();
    fs.sync_dir(Path::new("/")).unwrap();
    fs
}

/// The file system and the path, as the logs take them.
pub(crate) fn at(fs: &SimFs) -> (Arc<dyn Fs>, PathBuf) {
    (Arc::new(fs.clone()), PathBuf::from(LOG))
}

pub(crate) fn bytes(fs: &SimFs) -> Vec<u8> {
    read_all(fs, Path::new(LOG), 1 << 30).unwrap()
}

pub(crate) fn lines(text: &[u8]) -> Vec<String> {
    let text = std::str::from_utf8(text).unwrap();
    text.lines().map(str::to_owned).collect()
}

pub(crate) fn sweep() -> Sweep {
    let seed = std::env::var("DAYBOOK_CRASH_SEED").map_or(1, |seed| seed.parse().unwrap());
    Sweep::default().seed(seed).seeded_images(12)
}
