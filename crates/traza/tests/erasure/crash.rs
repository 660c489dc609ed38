//! The machine stops, or a call fails, at every call of an erasure. What was acknowledged as erased is in no answer from then
//! on, everything else is as it was, and the next opening brings the erasure to its end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use durable::Outcome;
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use traza::store::{Annotated, Store, verify};

use super::furnished::{Case, cases, check_answers, check_files, furnish, options, visible};
use super::support::{DIR, NOW, annotation, open};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Annotate,
    Erase,
    Settle,
}

/// A furnished store, with a pin when that is wanted.
fn furnished(is_pinned: bool) -> SimFs {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    furnish(&store);
    if is_pinned {
        store.pin("before").unwrap();
    }
    drop(store);
    fs
}

fn pinned(fs: &SimFs) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut files = fs.contents();
    files.retain(|path, _| path.starts_with(Path::new(DIR).join("pins")));
    files
}

/// Annotates, erases and settles. A step that fails is tried once more, as a client would.
fn run(fs: &SimFs, ledger: &mut Ledger<Step>, case: &Case) -> Result<(), BoxError> {
    let opened = || -> Result<Store, BoxError> {
        Ok(open(fs, &options()).or_else(|_| open(fs, &options()))?)
    };
    let store = opened()?;
    ledger.submit(Step::Annotate);
    let added = || {
        let json = r#"{"trace_id":"trace-new","name":"added","value":1}"#;
        store.annotate(annotation(json))
    };
    assert_eq!(added().or_else(|_| added())?, Annotated::Recorded);
    ledger.acknowledge(Step::Annotate);
    ledger.submit(Step::Erase);
    let erase = || store.erase(case.subject.clone(), NOW);
    erase().or_else(|_| erase())?;
    ledger.acknowledge(Step::Erase);
    check_answers(&store, case, false)?;
    ledger.submit(Step::Settle);
    store.resume_erasures().or_else(|_| {
        check_answers(&store, case, false).unwrap();
        store.resume_erasures()
    })?;
    ledger.acknowledge(Step::Settle);
    check_answers(&store, case, true)?;
    check_files(fs, case)
}

fn check(
    image: &Image,
    ledger: &Ledger<Step>,
    case: &Case,
    pins: &BTreeMap<PathBuf, Option<Vec<u8>>>,
) -> Result<(), BoxError> {
    let fs = &image.fs;
    let store = open(fs, &options())?;
    let is_acknowledged = |step| ledger.acknowledged().contains(&step);
    let erasures = store.erasures();
    if is_acknowledged(Step::Erase) && erasures.is_empty() {
        return Err("the erasure is lost".into());
    }
    let is_settled = |store: &Store| store.erasures().iter().all(|each| each.settle.is_some());
    if is_acknowledged(Step::Settle) && !is_settled(&store) {
        return Err("the settle is lost".into());
    }
    if is_acknowledged(Step::Annotate) && store.trace_annotations("trace-new", None).is_empty() {
        return Err("the annotation is lost".into());
    }
    if erasures.is_empty() {
        let all: usize = 9;
        let shown = visible(&store).len();
        if shown != all {
            return Err(format!("{shown} spans of a store that nothing was erased from").into());
        }
        store.erase(case.subject.clone(), NOW)?;
    }
    check_answers(&store, case, is_settled(&store))?;
    store.resume_erasures()?;
    check_answers(&store, case, true)?;
    check_files(fs, case)?;
    if pinned(fs) != *pins {
        return Err("the pin changed".into());
    }
    let receipt = store.receipt(1)?;
    if receipt.is_erased != pins.is_empty() {
        return Err(format!("{receipt:#?}").into());
    }
    store.unpin("before")?;
    let receipt = store.receipt(1)?;
    if !receipt.is_erased || !receipt.settled {
        return Err(format!("{receipt:#?}").into());
    }
    drop(store);
    let store = open(fs, &options())?;
    check_answers(&store, case, true)?;
    let verdict = verify(fs, Path::new(DIR))?;
    if verdict.verdict == Outcome::Damaged {
        return Err(format!("{:#?}", verdict.findings).into());
    }
    Ok(())
}

fn sweep(index: usize, is_pinned: bool, fails: bool) {
    let case = &cases()[index];
    let disk = furnished(is_pinned);
    let pins = pinned(&disk);
    let sweep = Sweep::default().seeded_images(1).starting_from(&disk);
    let run = |fs: &SimFs, ledger: &mut Ledger<Step>| run(fs, ledger, case);
    let check = |image: &Image, ledger: &Ledger<Step>| check(image, ledger, case, &pins);
    let swept = if fails {
        sweep.for_each_failure(run, check).unwrap()
    } else {
        sweep.for_each_crash(run, check).unwrap()
    };
    assert!(swept.calls > 30, "{swept:?}");
}

#[test]
fn a_crash_at_any_call_of_the_erasure_of_a_trace_brings_nothing_back() {
    sweep(0, true, false);
}

#[test]
fn a_crash_at_any_call_of_the_erasure_of_a_span_brings_nothing_back() {
    sweep(1, false, false);
}

#[test]
fn a_crash_at_any_call_of_the_erasure_of_a_session_brings_nothing_back() {
    sweep(2, false, false);
}

#[test]
fn a_crash_at_any_call_of_the_erasure_of_a_payload_brings_nothing_back() {
    sweep(3, true, false);
}

#[test]
fn a_crash_at_any_call_of_the_erasure_of_a_tenant_brings_nothing_back() {
    sweep(4, false, false);
}

#[test]
fn a_failure_and_then_a_crash_at_any_call_of_an_erasure_brings_nothing_back() {
    for index in 0..5 {
        sweep(index, false, true);
    }
}
