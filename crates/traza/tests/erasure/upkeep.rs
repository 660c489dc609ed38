//! The threads of a store carry erasures out, also those of an earlier process.

use std::path::Path;
use std::sync::Arc;

use durable::{Fs, SystemClock};
use durable_sim::SimFs;
use traza::store::{Store, Upkeep};

use super::furnished::{cases, check_answers, furnish, options};
use super::support::{DIR, NOW};

fn open(fs: &SimFs, upkeep: Upkeep) -> Store {
    let mut options = options();
    options.upkeep = upkeep;
    let disk: Arc<dyn Fs> = Arc::new(fs.clone());
    let clock = Arc::new(SystemClock::start());
    Store::open_with(disk, clock, Path::new(DIR), options).unwrap()
}

/// Ends by the limit of the test when nobody settles it.
fn wait_until_settled(store: &Store) {
    while store.erasures().iter().any(|each| each.settle.is_none()) {
        std::thread::yield_now();
    }
}

#[test]
fn the_threads_settle_what_is_asked_for_and_what_an_earlier_process_left() {
    let fs = SimFs::new();
    let [trace, .., tenant] = cases();
    let store = open(&fs, Upkeep::Background);
    furnish(&store);
    store.erase(trace.subject.clone(), NOW).unwrap();
    wait_until_settled(&store);
    check_answers(&store, &trace, true).unwrap();
    drop(store);
    let store = open(&fs, Upkeep::Inline);
    store.erase(tenant.subject.clone(), NOW).unwrap();
    drop(store);
    let store = open(&fs, Upkeep::Background);
    wait_until_settled(&store);
    assert!(store.receipt(2).unwrap().is_erased);
}
