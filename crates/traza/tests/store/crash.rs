//! The machine stops at every call.

use std::collections::BTreeMap;

use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use traza::span::Span;
use traza::store::{Durability, Store, StoreOptions};

use super::support::{Key, Random, everything, inline, key, open, span, version};

/// The batches: few identities, so that later ones replace earlier ones.
fn batches() -> Vec<Vec<Span>> {
    let mut random = Random(42);
    (1..=9)
        .map(|version| (0..6).map(|_| span(&mut random, version)).collect())
        .collect()
}

fn options(durability: Durability) -> StoreOptions {
    let mut options = inline();
    options.durability = durability;
    options.flush_spans = 15;
    options.payload_threshold = Some(16);
    options
}

/// Ingests all batches; those that are not acknowledged are left out, as a client would that gives up.
fn ingest_all(
    fs: &SimFs,
    ledger: &mut Ledger<u64>,
    options: &StoreOptions,
) -> Result<(), BoxError> {
    let mut store: Option<Store> = None;
    let mut failed = None;
    for (number, batch) in (1..).zip(batches()) {
        let at = match &store {
            Some(store) => store,
            None => match open(fs, options) {
                Ok(opened) => store.insert(opened),
                Err(error) => {
                    failed = Some(error);
                    continue;
                }
            },
        };
        ledger.submit(number);
        match at.ingest(batch) {
            Ok(_) => ledger.acknowledge(number),
            Err(error) => failed = Some(error),
        }
        if number == 5 {
            // Closing and opening is part of a store's life.
            drop(store.take());
        }
    }
    match failed {
        Some(error) => Err(error.into()),
        None => Ok(()),
    }
}

/// Every identity has the version of the last acknowledged batch that holds it, or of a later submitted one.
fn check(image: &Image, ledger: &Ledger<u64>, options: &StoreOptions) -> Result<(), BoxError> {
    let store = open(&image.fs, options)?;
    let found = everything(&store);
    let mut acknowledged: BTreeMap<Key, u64> = BTreeMap::new();
    let mut submitted: BTreeMap<Key, Vec<u64>> = BTreeMap::new();
    for (number, batch) in (1..).zip(batches()) {
        for span in &batch {
            if ledger.acknowledged().contains(&number) {
                acknowledged.insert(key(span), number);
            }
            if ledger.submitted().contains(&number) {
                submitted.entry(key(span)).or_default().push(number);
            }
        }
    }
    for (key, number) in &acknowledged {
        let span = found
            .get(key)
            .ok_or_else(|| format!("{key:?} of batch {number} is lost"))?;
        if version(span) < *number {
            return Err(format!("{key:?} is of batch {}, not {number}", version(span)).into());
        }
    }
    for (key, span) in &found {
        let known = submitted
            .get(key)
            .is_some_and(|numbers| numbers.contains(&version(span)));
        if !known {
            return Err(format!("{key:?} was never written like this").into());
        }
        for value in span.attributes.values() {
            if let Some(reference) = traza::payload::live_reference(value) {
                let content = store.payload(reference.parse()?)?;
                content.ok_or_else(|| format!("the payload {reference} is lost"))?;
            }
        }
    }
    // The recovered store takes spans in, seals, and finds them again.
    let mut more = span(&mut Random(7), 99);
    more.trace_id = "after".into();
    store.ingest(vec![more])?;
    store.flush()?;
    drop(store);
    let store = open(&image.fs, options)?;
    if store.get_trace("after", None)?.len() != 1 || everything(&store).len() != found.len() + 1 {
        return Err("the store did not go on".into());
    }
    Ok(())
}

#[test]
fn acknowledged_spans_survive_a_crash_at_every_call_of_a_store_with_a_log() {
    let options = options(Durability::Wal);
    let swept = Sweep::default()
        .seeded_images(2)
        .for_each_crash(
            |fs, ledger| ingest_all(fs, ledger, &options),
            |image, ledger| check(image, ledger, &options),
        )
        .unwrap();
    assert!(swept.calls > 60, "{swept:?}");
}

#[test]
fn acknowledged_spans_survive_a_crash_at_every_call_of_a_store_that_seals_each_batch() {
    let options = options(Durability::Flushed);
    Sweep::default()
        .seeded_images(1)
        .for_each_crash(
            |fs, ledger| ingest_all(fs, ledger, &options),
            |image, ledger| check(image, ledger, &options),
        )
        .unwrap();
}

#[test]
fn acknowledged_spans_survive_a_failure_and_then_a_crash_at_every_call() {
    for durability in [Durability::Wal, Durability::Flushed] {
        let options = options(durability);
        Sweep::default()
            .seeded_images(1)
            .for_each_failure(
                |fs, ledger| ingest_all(fs, ledger, &options),
                |image, ledger| check(image, ledger, &options),
            )
            .unwrap();
    }
}
