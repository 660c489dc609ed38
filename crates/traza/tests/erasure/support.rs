//! Stores on the simulated disk, and what is put into them.

use std::path::Path;
use std::sync::Arc;

use durable::{Fs, ManualClock};
use durable_sim::SimFs;
use traza::logs::annotation::Annotation;
use traza::store::{Result, Store, StoreOptions, Upkeep};

pub(crate) const DIR: &str = "/store";
/// When the clock of the tests starts.
pub(crate) const NOW: u64 = 1_750_000_000_000_000_000;

/// A store that does everything in the calling thread, so that its calls are the same every time.
pub(crate) fn open(fs: &SimFs, options: &StoreOptions) -> Result<Store> {
    let fs: Arc<dyn Fs> = Arc::new(fs.clone());
    let clock = Arc::new(ManualClock::new(NOW, 1_000));
    Store::open_with(fs, clock, Path::new(DIR), options.clone())
}

pub(crate) fn inline() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.upkeep = Upkeep::Inline;
    options.compaction = None;
    options
}

/// An annotation from its JSON.
pub(crate) fn annotation(json: &str) -> Annotation {
    Annotation::from_json(json.as_bytes()).unwrap()
}
