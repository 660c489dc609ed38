//! A migration that stopped somewhere, and stores that lack nothing but the declaration.

use std::collections::BTreeSet;

use super::disk::{Release, at, get, manifest, open, put, segment_name, spans};
use super::encoder;

#[test]
fn a_store_that_is_converted_in_part_is_converted_for_the_rest() {
    for format in [6, 7] {
        let release = Release::new(format, false);
        let fs = release.disk();
        let (id, bytes) = Release::new(8, false).segments()[0];
        put(&fs, &at(&segment_name(id)), bytes);
        let store = open(&fs).unwrap();
        let migrated = store.opened().migrated.clone().unwrap();
        assert_eq!(migrated.segments, 3);
        assert!(spans(&store) == spans(&open(&release.as_current()).unwrap()));
    }
}

#[test]
fn a_store_of_both_old_versions_says_so_and_the_newest_name_still_has_the_last_word() {
    let fs = Release::new(8, false).as_current();
    let old = encoder::span("mixed", 10, "old");
    let new = encoder::span("mixed", 10, "new");
    put(&fs, &at(&segment_name(5)), &encoder::v6(&[old]));
    put(
        &fs,
        &at(&segment_name(6)),
        &encoder::v7(std::slice::from_ref(&new)),
    );
    let store = open(&fs).unwrap();
    let migrated = store.opened().migrated.clone().unwrap();
    assert_eq!(migrated.from, BTreeSet::from([6, 7]));
    assert_eq!(migrated.segments, 2);
    let found = store.get_trace("mixed", None).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(*found[0], new);
}

#[test]
fn without_the_declaration_blobs_and_pins_are_looked_at_and_a_generation_declares_it() {
    for declared in [None, Some(7)] {
        let fs = Release::new(8, false).as_current();
        let (_, segment) = Release::new(8, false).segments()[0];
        let path = at("generations/1/state-manifest.json");
        let name = segment_name(0);
        put(&fs, &path, &manifest(1, declared, &[(&name, segment)]));
        let (blob, bytes) = Release::new(6, false).blobs().pop_first().unwrap();
        put(&fs, &at(&blob), &bytes);
        let store = open(&fs).unwrap();
        let migrated = store.opened().migrated.clone().unwrap();
        assert_eq!(migrated.from, BTreeSet::new());
        assert_eq!((migrated.segments, migrated.blobs), (0, 1));
        assert_eq!(store.opened().generation, 2);
        assert_eq!(store.manifest().unwrap().segment_format, Some(8));
        assert!(get(&fs, &at(&blob)) == Release::new(7, false).blobs()[&blob]);
    }
}

#[test]
fn an_old_segment_in_a_pin_alone_starts_a_migration() {
    let fs = Release::new(8, false).as_current();
    let segment = encoder::v6(&[encoder::span("pinned", 10, "text")]);
    let name = segment_name(0);
    put(&fs, &at("pins/one").join(&name), &segment);
    let kept = manifest(1, None, &[(&name, &segment)]);
    put(&fs, &at("pins/one/state-manifest.json"), &kept);
    let store = open(&fs).unwrap();
    let migrated = store.opened().migrated.clone().unwrap();
    assert_eq!((migrated.segments, migrated.pins), (1, 1));
    assert_eq!(store.pins().unwrap().len(), 1);
}
