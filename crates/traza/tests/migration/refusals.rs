//! What cannot be converted is named and left as it is.

use std::path::{Path, PathBuf};

use durable::Field;
use durable::digest::{hex, sha256};
use durable_sim::SimFs;
use traza::migration::v6::header_v6;
use traza::migration::v7::header_v7;
use traza::payload;
use traza::segment::SegmentError;
use traza::store::{Store, StoreError};

use super::disk::{Release, at, files, get, open, put, segment_name, settled, spans};

fn word(bytes: &[u8], field: Field) -> usize {
    usize::try_from(field.u64(bytes).unwrap()).unwrap()
}

fn set(bytes: &mut [u8], field: Field, value: usize) {
    field.put(bytes, &(value as u64).to_le_bytes()).unwrap();
}

/// Where an old version keeps its record-offset index, and what follows it.
struct Layout {
    count: Field,
    offsets: Field,
    offsets_len: Field,
    behind: [Field; 3],
}

fn layout(format: u16) -> Layout {
    if format == 6 {
        Layout {
            count: header_v6::RECORD_COUNT,
            offsets: header_v6::OFFSETS_OFFSET,
            offsets_len: header_v6::OFFSETS_LEN,
            behind: [
                header_v6::TRACE_OFFSET,
                header_v6::ATTRIBUTE_OFFSET,
                header_v6::CONTENT_OFFSET,
            ],
        }
    } else {
        Layout {
            count: header_v7::RECORD_COUNT,
            offsets: header_v7::OFFSETS_OFFSET,
            offsets_len: header_v7::OFFSETS_LEN,
            behind: [
                header_v7::TRACE_OFFSET,
                header_v7::ATTRIBUTE_OFFSET,
                header_v7::CONTENT_OFFSET,
            ],
        }
    }
}

/// Takes one entry out of the offset index, and makes every count and place agree with that.
fn shortened(sound: &[u8], layout: &Layout, omitted: usize) -> Vec<u8> {
    let mut forged = sound.to_vec();
    let start = word(sound, layout.offsets) + omitted * 8;
    forged.drain(start..start + 8);
    set(
        &mut forged,
        layout.offsets_len,
        word(sound, layout.offsets_len) - 8,
    );
    set(&mut forged, layout.count, word(sound, layout.count) - 1);
    for field in layout.behind {
        set(&mut forged, field, word(sound, field) - 8);
    }
    forged
}

fn nudged(sound: &[u8], layout: &Layout, entry: usize) -> Vec<u8> {
    let mut forged = sound.to_vec();
    forged[word(sound, layout.offsets) + entry * 8] ^= 1;
    forged
}

/// Bytes behind the last record that no offset leads to.
fn trailing(sound: &[u8], format: u16, layout: &Layout) -> Vec<u8> {
    let mut forged = sound.to_vec();
    if format == 6 {
        let end = word(sound, layout.offsets);
        forged.splice(end..end, [0; 24]);
        set(
            &mut forged,
            header_v6::RECORDS_LEN,
            word(sound, header_v6::RECORDS_LEN) + 24,
        );
        set(&mut forged, layout.offsets, end + 24);
        for field in layout.behind {
            set(&mut forged, field, word(sound, field) + 24);
        }
    } else {
        // The declared length of the records goes beyond what the last block holds.
        set(
            &mut forged,
            header_v7::LOGICAL_LEN,
            word(sound, header_v7::LOGICAL_LEN) + 24,
        );
    }
    forged
}

/// The segment error of an opening, and the file that it names.
#[track_caller]
fn refused_segment(opened: Result<Store, StoreError>) -> (PathBuf, SegmentError) {
    match opened {
        Err(StoreError::Segment { path, source }) => (path, source),
        other => panic!("{other:?}"),
    }
}

/// The damaged file that an opening names.
#[track_caller]
fn refused_damage(opened: Result<Store, StoreError>) -> PathBuf {
    match opened {
        Err(StoreError::Damaged { path, .. }) => path,
        other => panic!("{other:?}"),
    }
}

/// The files that an opening names.
#[track_caller]
fn refused_files(opened: Result<Store, StoreError>) -> Vec<PathBuf> {
    match opened {
        Err(error @ StoreError::Unreadable { .. }) => {
            let text = error.to_string();
            let StoreError::Unreadable { files } = error else {
                unreachable!()
            };
            let named = files.into_iter().map(|file| file.path);
            named
                .inspect(|path| assert!(text.contains(path.to_str().unwrap()), "{text}"))
                .collect()
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_segment_whose_record_stream_is_contradicted_is_named_and_no_byte_of_it_changes() {
    for format in [6, 7] {
        let release = Release::new(format, false);
        let layout = layout(format);
        let disk = release.disk();
        let mut whole = None;
        for (folder, is_pin) in [(at(""), false), (at("pins/fixture"), true)] {
            let path = folder.join(segment_name(0));
            let sound = get(&disk, &path);
            let last = word(&sound, layout.count) - 1;
            let mut forgeries = vec![trailing(&sound, format, &layout)];
            for entry in [0, last / 2, last] {
                forgeries.push(shortened(&sound, &layout, entry));
                forgeries.push(nudged(&sound, &layout, entry));
            }
            for forged in forgeries {
                let fs = disk.fork();
                put(&fs, &path, &forged);
                let before = files(&fs);
                // That of a pin is not as its manifest says, which is asked before anything is converted; that of the
                // store comes first.
                let named = || {
                    if is_pin {
                        refused_damage(open(&fs))
                    } else {
                        refused_segment(open(&fs)).0
                    }
                };
                assert_eq!(named(), path);
                assert!(files(&fs) == before);
                // Again the same, and with the sound file the migration goes on.
                assert_eq!(named(), path);
                assert!(files(&fs) == before);
                put(&fs, &path, &sound);
                let store = open(&fs).unwrap();
                let whole =
                    whole.get_or_insert_with(|| spans(&open(&release.as_current()).unwrap()));
                assert!(spans(&store) == *whole);
            }
        }
    }
}

#[test]
fn a_damaged_query_index_is_left_behind_and_the_new_segment_is_as_from_a_sound_one() {
    for format in [6, 7] {
        let fs = Release::new(format, false).disk();
        let layout = layout(format);
        let path = at(&segment_name(2));
        let mut bytes = get(&fs, &path);
        let start = word(&bytes, layout.behind[0]);
        bytes[start..].fill(0xa5);
        put(&fs, &path, &bytes);
        drop(open(&fs).unwrap());
        let (_, sound) = Release::new(8, false).segments()[1];
        assert!(get(&fs, &path) == sound);
    }
}

#[test]
fn segments_of_versions_that_have_no_decoder_are_refused_together_before_anything_changes() {
    let fs = Release::new(6, false).disk();
    let (_, sound) = Release::new(6, false).segments()[0];
    let mut wanted = Vec::new();
    for (name, version) in [
        (segment_name(7), 5),
        (segment_name(8), 9),
        (format!("pins/fixture/{}", segment_name(9)), 5),
    ] {
        let mut bytes = sound.to_vec();
        bytes[8] = version;
        put(&fs, &at(&name), &bytes);
        wanted.push(at(&name));
    }
    for (name, bytes) in [
        (segment_name(10), b"not a segment".as_slice()),
        (segment_name(11), b""),
        ("segment-00000000000000000001.jsonl".to_owned(), b"{}\n"),
    ] {
        put(&fs, &at(&name), bytes);
        wanted.push(at(&name));
    }
    wanted.sort();
    let before = files(&fs);
    let mut named = refused_files(open(&fs));
    named.sort();
    assert_eq!(named, wanted);
    assert!(files(&fs) == before);
}

#[test]
fn a_segment_of_json_lines_is_refused_in_every_store() {
    for fs in [
        Release::new(7, false).disk(),
        Release::new(8, false).as_current(),
    ] {
        let path = at("segment-00000000000000000001.jsonl");
        put(&fs, &path, b"{}\n");
        let before = files(&fs);
        assert_eq!(refused_files(open(&fs)), std::slice::from_ref(&path));
        assert!(files(&fs) == before);
        durable::Fs::remove_file(&fs, &path).unwrap();
        open(&fs).unwrap();
    }
}

#[test]
fn a_store_that_declares_a_newer_format_is_refused_and_not_taken_back() {
    let fs = Release::new(8, false).as_current();
    let path = at("generations/1/state-manifest.json");
    let text = String::from_utf8(get(&fs, &path)).unwrap();
    let newer = text.replace("\"segment_format\": 8", "\"segment_format\": 9");
    assert_ne!(newer, text);
    put(&fs, &path, newer.as_bytes());
    let before = files(&fs);
    assert_eq!(refused_files(open(&fs)), [path]);
    assert!(files(&fs) == before);
}

fn blob_path(content: &[u8]) -> String {
    let digits = hex(&sha256(content));
    format!("payloads/{}/{digits}.bin", &digits[..2])
}

#[test]
fn blobs_of_neither_form_are_named_together_and_stay_as_they_are() {
    for format in [6, 7] {
        for folder in ["", "pins/fixture/"] {
            let fs = Release::new(format, false).disk();
            let mut framed = payload::encode(b"a content of which a byte is flipped");
            let end = framed.len() - 1;
            framed[end] ^= 1;
            let mut wanted = Vec::new();
            for (content, bytes) in [
                (b"one".as_slice(), b"another".as_slice()),
                (b"a content of which a byte is flipped", &framed),
                (b"other", &payload::encode(b"else")),
            ] {
                let path = at(&format!("{folder}{}", blob_path(content)));
                put(&fs, &path, bytes);
                wanted.push((path, bytes.to_vec()));
            }
            wanted.sort();
            let mut named = refused_files(open(&fs));
            named.sort();
            assert!(named.iter().eq(wanted.iter().map(|(path, _)| path)));
            for (path, bytes) in &wanted {
                assert!(get(&fs, path) == *bytes);
            }
            // Whoever keeps the store takes them away, and the migration goes on.
            for (path, _) in &wanted {
                durable::Fs::remove_file(&fs, path).unwrap();
            }
            open(&fs).unwrap();
        }
    }
}

#[test]
fn an_old_blob_that_begins_like_a_present_one_is_converted_for_its_digest() {
    let fs = Release::new(6, false).disk();
    let contents = [
        b"TRZBLOB1 is how a text of ours begins".to_vec(),
        payload::encode(b"a whole blob as content"),
    ];
    for content in &contents {
        put(&fs, &at(&blob_path(content)), content);
    }
    // The digits of a name may be of either case, and what is no blob by its name is nobody's business.
    let upper = hex(&sha256(b"upper")).to_uppercase();
    put(&fs, &at(&format!("payloads/UP/{upper}.bin")), b"upper");
    put(&fs, &at("payloads/00/notes.txt"), b"notes");
    put(&fs, &at("payloads/00/.left.1.2.tmp"), b"left over");
    drop(open(&fs).unwrap());
    for content in &contents {
        let blob = get(&fs, &at(&blob_path(content)));
        assert_eq!(payload::decode(&blob).unwrap(), *content);
    }
    let blob = get(&fs, &at(&format!("payloads/UP/{upper}.bin")));
    assert_eq!(payload::decode(&blob).unwrap(), b"upper");
    assert_eq!(get(&fs, &at("payloads/00/notes.txt")), b"notes");
    assert!(!files(&fs).contains_key(&at("payloads/00/.left.1.2.tmp")));
}

/// A store whose files were converted, and whose manifests were not: where a crash may have stopped a migration.
fn before_the_manifests(format: u16) -> SimFs {
    let release = Release::new(format, false);
    let old = release.disk();
    let fs = release.disk();
    drop(open(&fs).unwrap());
    for name in [
        "CURRENT",
        "generations/2/state-manifest.json",
        "pins/fixture/state-manifest.json",
    ] {
        put(&fs, &at(name), &get(&old, &at(name)));
    }
    settled(&fs)
}

#[test]
fn a_digest_in_a_pin_moves_only_for_a_file_that_is_sound_to_its_last_byte() {
    for format in [6, 7] {
        let disk = before_the_manifests(format);
        let path = at("pins/fixture").join(segment_name(2));
        let len = get(&disk, &path).len();
        for offset in (0..len).step_by(len / 40) {
            let fs = disk.fork();
            let mut bytes = get(&fs, &path);
            bytes[offset] ^= 1;
            put(&fs, &path, &bytes);
            let manifest = get(&fs, &at("pins/fixture/state-manifest.json"));
            match open(&fs) {
                Err(StoreError::Segment { path: named, .. }) => assert_eq!(named, path),
                // A byte of its beginning tells what it is.
                Err(StoreError::Unreadable { files }) => assert_eq!(files[0].path, path),
                other => panic!("byte {offset}: {other:?}"),
            }
            assert!(get(&fs, &path) == bytes);
            assert!(get(&fs, &at("pins/fixture/state-manifest.json")) == manifest);
        }
        // With sound files only the manifests are made.
        let store = open(&disk).unwrap();
        let migrated = store.opened().migrated.clone().unwrap();
        assert_eq!(
            (migrated.segments, migrated.blobs, migrated.pins),
            (0, 0, 1)
        );
        assert_eq!(store.opened().generation, 3);
    }
}

#[test]
fn a_pin_that_lacks_a_file_or_holds_one_that_nothing_proves_is_refused_by_its_name() {
    type Spoil = fn(&SimFs, &Path);
    let spoils: [(&str, Spoil); 3] =
        [
            ("state-manifest.json", |fs, path| put(fs, path, b"{}")),
            ("segment-00000000000000000002.seg", |fs, path| {
                durable::Fs::remove_file(fs, path).unwrap();
            }),
            ("payloads/00/strange.bin", |fs, path| {
                let manifest = at("pins/fixture/state-manifest.json");
                let mut json: serde_json::Value =
                    serde_json::from_slice(&get(fs, &manifest)).unwrap();
                json["files"].as_array_mut().unwrap().push(serde_json::json!({
                "path": "payloads/00/strange.bin", "bytes": 3, "sha256": hex(&sha256(b"old")),
            }));
                put(fs, &manifest, &serde_json::to_vec(&json).unwrap());
                put(fs, path, b"new");
            }),
        ];
    for (name, spoil) in spoils {
        let fs = Release::new(7, false).disk();
        let path = at("pins/fixture").join(name);
        spoil(&fs, &path);
        match open(&fs) {
            Err(StoreError::Damaged { path: named, .. }) => assert_eq!(named, path),
            other => panic!("{other:?}"),
        }
        // The store itself still is at its old generation.
        assert_eq!(get(&fs, &at("CURRENT")), b"2\n");
    }
}

#[test]
fn a_segment_of_a_pin_that_is_sound_but_not_the_one_that_was_kept_is_not_converted() {
    for format in [6, 7] {
        let release = Release::new(format, false);
        let fs = release.disk();
        let pin = at("pins/fixture");
        let (kept, other) = (pin.join(segment_name(0)), pin.join(segment_name(2)));
        let (sound, wrong) = (get(&fs, &kept), get(&fs, &other));
        put(&fs, &kept, &wrong);
        let before = files(&fs);
        assert_eq!(refused_damage(open(&fs)), kept);
        assert!(
            files(&fs) == before,
            "nothing was converted, not even of the store"
        );
        put(&fs, &kept, &sound);
        open(&fs).unwrap();
    }
}
