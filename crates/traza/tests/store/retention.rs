//! Spans whose time is over.

use std::path::Path;
use std::time::Duration;

use durable::{Access, Fs as _, Outcome};
use durable_sim::{BoxError, Image, Ledger, SimFs, Sweep};
use traza::json::{Object, Value};
use traza::span::Span;
use traza::store::{Store, StoreOptions, verify};

use super::support::{DIR, everything, inline, open};

/// When the clock of the tests starts.
const NOW: u64 = 1_750_000_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

/// A span that ended so many seconds ago.
fn span(id: &str, tenant: &str, version: u64, age_s: u64) -> Span {
    Span {
        trace_id: "trace".into(),
        span_id: id.into(),
        tenant: tenant.into(),
        name: "work".into(),
        service: "bot".into(),
        start_time_ns: NOW - age_s * SECOND - 5,
        end_time_ns: NOW - age_s * SECOND,
        attributes: Object::from([("version".to_owned(), Value::from(version))]),
        ..Span::default()
    }
}

fn options() -> StoreOptions {
    let mut options = inline();
    options.compaction = None;
    options.retention.ttl = Some(Duration::from_secs(100));
    let tenants = &mut options.retention.tenants;
    tenants.insert("keeper".to_owned(), None);
    tenants.insert("brief".to_owned(), Some(Duration::from_secs(10)));
    options
}

fn ids(store: &Store) -> Vec<String> {
    let mut ids: Vec<String> = everything(store)
        .into_values()
        .map(|span| span.span_id.to_string())
        .collect();
    ids.sort();
    ids
}

#[test]
fn each_tenant_has_its_own_time_and_a_span_that_just_reaches_it_stays() {
    for is_sealed in [false, true] {
        let fs = SimFs::new();
        let store = open(&fs, &options()).unwrap();
        store
            .ingest(vec![
                span("old", "", 1, 200),
                span("new", "", 1, 50),
                span("kept", "keeper", 1, 1_000_000),
                span("brief old", "brief", 1, 11),
                span("brief new", "brief", 1, 5),
            ])
            .unwrap();
        if is_sealed {
            store.flush().unwrap();
        }
        let expired = store.expire().unwrap();
        assert_eq!(expired.records + expired.buffered_spans as u64, 2);
        assert_eq!(ids(&store), ["brief new", "kept", "new"]);
        assert_eq!(store.expire().unwrap(), traza::store::Expired::default());
        drop(store);
        let store = open(&fs, &options()).unwrap();
        assert_eq!(ids(&store), ["brief new", "kept", "new"]);
        store.checkpoint().unwrap();
        let verdict = verify(&fs, Path::new(DIR)).unwrap();
        assert_eq!(verdict.verdict, Outcome::Intact, "{:#?}", verdict.findings);
    }
}

#[test]
fn a_segment_of_which_nothing_is_left_goes_with_its_sidecar() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    store.ingest(vec![span("a", "", 1, 200)]).unwrap();
    store.flush().unwrap();
    store.ingest(vec![span("b", "", 1, 1)]).unwrap();
    store.flush().unwrap();
    let expired = store.expire().unwrap();
    assert_eq!(
        (expired.removed_segments, expired.rewritten_segments),
        (1, 0)
    );
    let names: Vec<String> = fs
        .contents()
        .into_keys()
        .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
        .filter(|name| name.starts_with("segment-"))
        .collect();
    assert_eq!(
        names,
        [
            "segment-00000000000000000001.columns",
            "segment-00000000000000000001.rollup",
            "segment-00000000000000000001.seg"
        ]
    );
}

#[test]
fn the_newest_version_decides_and_no_older_one_comes_to_light() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    // The older version ends later than the newer one.
    store.ingest(vec![span("x", "", 1, 1)]).unwrap();
    store.flush().unwrap();
    store.ingest(vec![span("x", "", 2, 200)]).unwrap();
    store.flush().unwrap();
    // And the other way round: the newer version keeps the span.
    store.ingest(vec![span("y", "", 1, 200)]).unwrap();
    store.flush().unwrap();
    store.ingest(vec![span("y", "", 2, 1)]).unwrap();
    store.expire().unwrap();
    assert_eq!(ids(&store), ["y"]);
    drop(store);
    assert_eq!(ids(&open(&fs, &options()).unwrap()), ["y"]);
}

#[test]
fn frames_of_spans_that_were_sealed_meanwhile_do_not_bring_them_back() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    store.ingest(vec![span("old", "", 1, 200)]).unwrap();
    let log = durable::read_all(&fs, &Path::new(DIR).join("wal.log"), 1 << 20).unwrap();
    store.flush().unwrap();
    drop(store);
    // As if the log could not be cut after the seal.
    fs.remove_file(&Path::new(DIR).join("wal.log")).unwrap();
    fs.create_new(&Path::new(DIR).join("wal.log"), Access::Shared)
        .unwrap()
        .append(&log)
        .unwrap();
    let store = open(&fs, &options()).unwrap();
    store.expire().unwrap();
    drop(store);
    assert!(ids(&open(&fs, &options()).unwrap()).is_empty());
}

fn fill_and_expire(fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
    let store = open(fs, &options())?;
    store.ingest(vec![span("hidden", "", 1, 1), span("a", "", 1, 1)])?;
    store.flush()?;
    store.ingest(vec![span("hidden", "", 2, 200), span("b", "", 1, 300)])?;
    store.flush()?;
    store.ingest(vec![span("c", "", 1, 300), span("d", "", 1, 1)])?;
    ledger.submit(1);
    store.expire()?;
    ledger.acknowledge(1);
    Ok(())
}

fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
    let store = open(&image.fs, &options())?;
    let found = everything(&store);
    let hidden = found.values().find(|span| span.span_id == "hidden");
    let is_exposed = hidden.is_some_and(|span| span.attributes["version"].as_u64() == Some(1));
    // Before the newer version was acknowledged the older one is right.
    if is_exposed && !ledger.submitted().is_empty() {
        return Err("an older version came to light".into());
    }
    if !ledger.acknowledged().is_empty() && ids(&store) != ["a", "d"] {
        return Err(format!("{:?}", ids(&store)).into());
    }
    store.expire()?;
    store.checkpoint()?;
    if !ledger.submitted().is_empty() && ids(&store) != ["a", "d"] {
        return Err(format!("after another pass: {:?}", ids(&store)).into());
    }
    drop(store);
    let verdict = verify(&image.fs, Path::new(DIR))?;
    match verdict.verdict {
        Outcome::Intact => Ok(()),
        _ => Err(format!("{:?}", verdict.findings).into()),
    }
}

#[test]
fn expiry_survives_a_crash_at_every_call() {
    Sweep::default()
        .seeded_images(3)
        .for_each_crash(fill_and_expire, check)
        .unwrap();
}
