//! A trace store of an older release is migrated once, and what cannot be converted is named.

use durable::{Fs as _, RealFs, create_folder};
use serde_json::json;

use crate::support::Scratch;

const V6: &[u8] = include_bytes!("../../../traza/tests/fixtures/v6/segment-0.seg");
const V8: &[u8] = include_bytes!("../../../traza/tests/fixtures/v8/segment-0.seg");
const NAME: &str = "traces/segment-00000000000000000000.seg";

fn store(segment: &[u8]) -> Scratch {
    let scratch = Scratch::new();
    create_folder(&RealFs, &scratch.path("traces")).unwrap();
    scratch.write(NAME, segment);
    scratch
}

#[test]
fn an_older_store_is_migrated_once_and_then_there_is_nothing_to_do() {
    let scratch = store(V6);
    let done = scratch
        .daybook(&["migrate", "traces", "--json"])
        .expect(0)
        .json();
    assert_eq!(done["migrated"], true);
    assert_eq!((&done["from"], &done["to"]), (&json!([6]), &json!(8)));
    assert_eq!((&done["segments"], &done["pins"]), (&json!(1), &json!(0)));
    assert_eq!(done["generation"], 2);
    assert!(scratch.read(NAME) == V8);
    let again = scratch.daybook(&["migrate", "traces"]).expect(0);
    assert!(again.out.contains("nothing to do"), "{}", again.out);
    let again = scratch
        .daybook(&["migrate", "traces", "--json"])
        .expect(0)
        .json();
    assert_eq!(again["migrated"], false);
    assert_eq!(again["generation"], 2);
}

#[test]
fn a_store_that_cannot_be_converted_names_the_file_and_leaves_it() {
    let mut damaged = V6.to_vec();
    // The length of the first record's payload.
    damaged[104 + 16] ^= 1;
    let scratch = store(&damaged);
    let refused = scratch.daybook(&["migrate", "traces"]).expect(1);
    assert!(refused.err.contains(NAME), "{}", refused.err);
    assert!(scratch.read(NAME) == damaged);
    let mut newer = V6.to_vec();
    newer[8] = 5;
    let scratch = store(&newer);
    let refused = scratch.daybook(&["migrate", "traces"]).expect(2);
    assert!(refused.err.contains(NAME), "{}", refused.err);
    assert!(scratch.read(NAME) == newer);
}

#[test]
fn a_folder_without_a_store_is_refused_and_none_is_made_in_it() {
    let scratch = Scratch::new();
    create_folder(&RealFs, &scratch.path("empty")).unwrap();
    scratch.daybook(&["migrate", "empty"]).expect(2);
    assert!(RealFs.read_dir(&scratch.path("empty")).unwrap().is_empty());
}
