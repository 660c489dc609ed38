//! The threads of a store carry erasures out, also those of an earlier process.

use std::path::Path;
use std::sync::Arc;

use durable::{Fs, SystemClock};
use durable_sim::{ShortWrite, SimFs};
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

#[test]
fn why_an_erasure_is_still_pending_is_told_also_to_other_processes_until_it_is_settled() {
    let fs = SimFs::new();
    let [trace, ..] = cases();
    let store = open(&fs, Upkeep::Inline);
    furnish(&store);
    store.flush().unwrap();
    store.erase(trace.subject.clone(), NOW).unwrap();
    assert_eq!(store.stats().erasure_failure, None);
    let next = fs.calls().len() as u64;
    fs.fail_nth(next + 2, 5, ShortWrite::Nothing);
    store.resume_erasures().unwrap_err();
    let failures = store.erasure_failures();
    assert_eq!(failures.iter().map(|each| each.id).collect::<Vec<_>>(), [1]);
    let reason = failures[0].reason.clone();
    assert!(
        reason.contains("cannot") && reason.contains("os error 5"),
        "{reason}"
    );
    assert_eq!(store.stats().erasure_failure.as_ref(), Some(&reason));
    drop(store);
    let disk: Arc<dyn Fs> = Arc::new(fs.clone());
    let clock = Arc::new(SystemClock::start());
    let reader = Store::open_read_only_with(disk, clock, Path::new(DIR), options()).unwrap();
    assert_eq!(reader.erasure_failures(), failures);
    drop(reader);
    let store = open(&fs, Upkeep::Inline);
    assert_eq!(store.stats().erasure_failure, Some(reason));
    assert_eq!(store.resume_erasures().unwrap(), 1);
    assert_eq!(store.stats().erasure_failure, None);
    assert!(
        !fs.exists(&Path::new(DIR).join(".erasures-failed.json"))
            .unwrap()
    );
}
