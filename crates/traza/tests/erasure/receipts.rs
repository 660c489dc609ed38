//! What a receipt says of every place, and that it is honest about what is left and what came again.

use std::path::Path;
use std::sync::Arc;

use durable::{Access, Fs as _, ManualClock};
use durable_sim::SimFs;
use traza::json::Value;
use traza::logs::eval::record::Provenance;
use traza::logs::tombstone::Subject;
use traza::payload::reference;
use traza::store::{Annotated, Domain, Receipt, Standing, Store, StoreError};

use super::evals::version_of;
use super::furnished::{
    OF_TENANT, OWN, SHARED, address, batches, cases, check_answers, furnish, options, span, with,
};
use super::support::{DIR, NOW, annotation, open};

fn erased(fs: &SimFs, index: usize) -> (Store, u64) {
    let store = open(fs, &options()).unwrap();
    furnish(&store);
    let id = store.erase(cases()[index].subject.clone(), NOW).unwrap();
    assert_eq!(store.resume_erasures().unwrap(), 1);
    (store, id)
}

fn domain<'r>(receipt: &'r Receipt, name: &str) -> &'r Domain {
    let found = receipt.domains.iter().find(|domain| domain.name == name);
    found.unwrap()
}

#[test]
fn a_settled_erasure_of_each_kind_gives_a_clean_receipt() {
    for (index, case) in cases().iter().enumerate() {
        let fs = SimFs::new();
        let (store, id) = erased(&fs, index);
        check_answers(&store, case, true).unwrap();
        let receipt = store.receipt(id).unwrap();
        assert!(receipt.settled && receipt.is_erased, "{receipt:#?}");
        let names: Vec<_> = receipt.domains.iter().map(|domain| domain.name).collect();
        assert_eq!(
            names,
            [
                "write-buffer",
                "live-tail",
                "write-ahead-log",
                "segments",
                "annotations",
                "eval-records",
                "payloads",
                "derived-caches",
                "pins",
                "generations",
                "tombstone-log"
            ]
        );
        let json = serde_json::to_value(&receipt).unwrap();
        assert_eq!(json["result"], "erased");
        assert_eq!(json["domains"][10]["result"], "retained-by-design");
        assert_eq!(json["domains"][0].get("items"), None);
    }
}

#[test]
fn a_pending_erasure_holds_data_and_is_not_erased() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    furnish(&store);
    let id = store.erase(cases()[0].subject.clone(), NOW).unwrap();
    let receipt = store.receipt(id).unwrap();
    assert!(!receipt.settled && !receipt.is_erased);
    let segments = domain(&receipt, "segments");
    assert_eq!(
        (segments.standing, segments.re_delivered),
        (Standing::HoldsData, 2)
    );
    assert_eq!(
        domain(&receipt, "annotations").standing,
        Standing::HoldsData
    );
    assert!(matches!(
        store.receipt(9),
        Err(StoreError::NoErasure { id: 9 })
    ));
}

#[test]
fn a_store_that_is_only_read_hides_what_is_being_erased_and_erases_nothing() {
    for case in cases() {
        let fs = SimFs::new();
        let store = open(&fs, &options()).unwrap();
        furnish(&store);
        store.erase(case.subject.clone(), NOW).unwrap();
        let reader = Store::open_read_only_with(
            Arc::new(fs.clone()),
            Arc::new(ManualClock::new(NOW, 1)),
            Path::new(DIR),
            options(),
        )
        .unwrap();
        let before = fs.contents();
        check_answers(&reader, &case, false).unwrap();
        for refused in [
            reader.erase(case.subject.clone(), NOW).map(drop),
            reader.resume_erasures().map(drop),
            reader.create_dataset("", "more", NOW).map(drop),
            reader
                .annotate(annotation(r#"{"trace_id":"t","name":"n","value":1}"#))
                .map(drop),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        }
        assert_eq!(fs.contents(), before);
    }
}

#[test]
fn what_comes_again_is_told_from_what_is_new_also_after_a_seal_and_reopening() {
    let fs = SimFs::new();
    let (store, id) = erased(&fs, 0);
    store
        .ingest(vec![span("", "trace-one", "span-new", 1)])
        .unwrap();
    let receipt = store.receipt(id).unwrap();
    let buffer = domain(&receipt, "write-buffer");
    assert_eq!((buffer.new_activity, buffer.re_delivered), (1, 0));
    let log = domain(&receipt, "write-ahead-log");
    assert!(log.occurrences > 0 && log.standing == Standing::Attention);
    assert!(receipt.is_erased && !receipt.is_conclusive);
    store.ingest(batches()[0].clone()).unwrap();
    let receipt = store.receipt(id).unwrap();
    assert_eq!(domain(&receipt, "write-buffer").re_delivered, 2);
    assert!(!receipt.is_erased);
    store.flush().unwrap();
    drop(store);
    let store = open(&fs, &options()).unwrap();
    let receipt = store.receipt(id).unwrap();
    assert_eq!(domain(&receipt, "write-buffer").standing, Standing::Clear);
    assert_eq!(domain(&receipt, "segments").re_delivered, 2);
    assert!(!receipt.is_erased);
}

#[test]
fn while_an_erasure_is_pending_what_comes_in_is_suppressed_or_redacted() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    furnish(&store);
    let [trace, .., payload, tenant] = cases();
    for case in [&trace, &payload, &tenant] {
        store.erase(case.subject.clone(), NOW).unwrap();
    }
    let ingested = store
        .ingest(vec![
            span("", "trace-one", "span-new", 1),
            span("acme", "trace-new", "span-a", 1),
            with(span("", "trace-six", "span-a", 1), "text", SHARED),
        ])
        .unwrap();
    assert_eq!((ingested.accepted, ingested.suppressed), (1, 2));
    let shown = store.get_trace("trace-six", None).unwrap();
    let erased = shown[0].attributes["text"].as_object().unwrap();
    assert_eq!(erased["erased"], Value::Bool(true));
    assert!(store.get_trace("trace-one", None).unwrap().is_empty());
    assert!(store.get_trace("trace-new", None).unwrap().is_empty());
    let annotated = store.annotate(annotation(
        r#"{"trace_id":"trace-one","name":"n","value":1}"#,
    ));
    assert_eq!(annotated.unwrap(), Annotated::Suppressed);
    let refused = store.create_dataset("acme", "more", NOW);
    assert!(matches!(refused, Err(StoreError::ErasurePending { .. })));
    for text in [SHARED, OWN, OF_TENANT] {
        assert_eq!(store.payload(address(text)).unwrap(), None);
    }
    assert_eq!(store.resume_erasures().unwrap(), 3);
    store.create_dataset("acme", "more", NOW).unwrap();
    store
        .ingest(vec![span("", "trace-one", "span-a", 7)])
        .unwrap();
    assert_eq!(store.get_trace("trace-one", None).unwrap().len(), 1);
}

#[test]
fn a_pin_holds_the_subject_until_it_is_released() {
    for (index, _) in cases().iter().enumerate() {
        let fs = SimFs::new();
        let store = open(&fs, &options()).unwrap();
        furnish(&store);
        store.pin("before").unwrap();
        let id = store.erase(cases()[index].subject.clone(), NOW).unwrap();
        store.resume_erasures().unwrap();
        store.pin("after").unwrap();
        let receipt = store.receipt(id).unwrap();
        let pins = domain(&receipt, "pins");
        assert_eq!(pins.standing, Standing::HoldsData, "{pins:?}");
        assert_eq!(pins.items.len(), 1, "{pins:?}");
        store.unpin("before").unwrap();
        assert!(store.receipt(id).unwrap().is_erased);
    }
}

#[test]
fn a_sidecar_with_the_name_of_the_subject_asks_for_attention() {
    let fs = SimFs::new();
    let (store, id) = erased(&fs, 2);
    assert!(store.receipt(id).unwrap().is_conclusive);
    let sidecar = Path::new(DIR).join("segment-00000000000000000000.rollup");
    fs.remove_file(&sidecar).unwrap();
    let mut file = fs.create_new(&sidecar, Access::Shared).unwrap();
    file.append(b"of an older release: chat-room").unwrap();
    let receipt = store.receipt(id).unwrap();
    let caches = domain(&receipt, "derived-caches");
    assert_eq!(
        (caches.standing, caches.occurrences),
        (Standing::Attention, 1)
    );
    assert!(receipt.is_erased && !receipt.is_conclusive);
}

#[test]
fn copies_in_examples_ask_for_attention_and_holders_of_a_payload_stay_by_design() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    furnish(&store);
    let mut version = version_of(
        1,
        [("copy", Value::from("taken")), ("other", Value::from(1u64))],
    );
    version.examples[0].body.provenance = Some(Provenance {
        tenant: String::new(),
        trace_id: "trace-one".to_owned(),
        span_id: "span-a".to_owned(),
    });
    store.create_version(version, |_| Ok(()), NOW).unwrap();
    let [trace, _, _, payload, _] = cases();
    let trace = store.erase(trace.subject, NOW).unwrap();
    let payload = store.erase(payload.subject, NOW).unwrap();
    assert_eq!(store.resume_erasures().unwrap(), 2);
    let receipt = store.receipt(trace).unwrap();
    let evals = domain(&receipt, "eval-records");
    assert_eq!(
        (evals.standing, evals.items.len()),
        (Standing::Attention, 1)
    );
    let receipt = store.receipt(payload).unwrap();
    let evals = domain(&receipt, "eval-records");
    assert_eq!(
        (evals.standing, evals.items.len()),
        (Standing::RetainedByDesign, 1)
    );
    assert!(receipt.is_erased);
    // Its bytes are gone, so no new example may refer to it.
    let input = reference(SHARED, address(SHARED));
    let refused = store.create_version(version_of(1, [("x", input)]), |_| Ok(()), NOW);
    assert!(matches!(refused, Err(StoreError::Eval(_))));
}

#[test]
fn a_file_of_a_payload_that_nothing_refers_to_holds_data() {
    let fs = SimFs::new();
    let (store, id) = erased(&fs, 0);
    let path = Path::new(DIR).join(address(OWN).relative_path());
    fs.create_new(&path, Access::Shared).unwrap();
    let receipt = store.receipt(id).unwrap();
    let payloads = domain(&receipt, "payloads");
    assert_eq!(payloads.standing, Standing::HoldsData, "{payloads:?}");
    assert!(!receipt.is_erased);
}

#[test]
fn subjects_that_are_not_valid_are_refused_and_unknown_ones_settle() {
    let fs = SimFs::new();
    let store = open(&fs, &options()).unwrap();
    let empty = Subject::Tenant {
        tenant: String::new(),
    };
    assert!(matches!(store.erase(empty, NOW), Err(StoreError::Erase(_))));
    assert!(store.erasures().is_empty());
    for case in cases() {
        let id = store.erase(case.subject, NOW).unwrap();
        assert_eq!(store.resume_erasures().unwrap(), 1);
        assert!(store.receipt(id).unwrap().is_erased);
    }
    assert_eq!(store.erasures().len(), 5);
}
