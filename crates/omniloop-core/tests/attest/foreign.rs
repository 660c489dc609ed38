//! Note and root, read by other implementations of the same specifications.

use std::path::Path;
use std::sync::Arc;

use ct_merkle::mem_backed_tree::MemoryBackedTree;
use durable::digest::hex;
use omniloop_core::attest::{AttestOptions, Attestor, LeafKind, attest, verifier_key};
use signed_note::{Note, StandardVerifier, VerifierList};
use tlog_tiles::Checkpoint;

use crate::support::{BASE, LEAVES, Run, key, public, read};

#[test]
fn notes_and_roots_of_a_growing_run_hold_for_other_implementations() {
    let run = Run::rotated(700, 200);
    let fs = durable_sim::SimFs::new();
    let mut journal = run.start(Arc::new(fs.clone()), Path::new(BASE));
    let mut attestor =
        Attestor::create(Arc::new(fs.clone()), BASE, key(1), None, "bench.example").unwrap();
    let mut sizes = Vec::new();
    for number in 0..run.records {
        run.append(&mut journal, number..number + 1);
        journal.flush().unwrap();
        let Some(note) = attestor.advance(false).unwrap() else {
            continue;
        };
        sizes.push(note.size);
        let text = note.to_text();

        let parsed = Note::from_bytes(text.as_bytes()).unwrap();
        let verifier = StandardVerifier::new(&verifier_key(&note.origin, public(1))).unwrap();
        let known = VerifierList::new(vec![Box::new(verifier)]);
        let (verified, unverified) = parsed.verify(&known).unwrap();
        assert_eq!((verified.len(), unverified.len()), (1, 0));
        let stranger = StandardVerifier::new(&verifier_key(&note.origin, public(2))).unwrap();
        let stranger = VerifierList::new(vec![Box::new(stranger)]);
        assert!(parsed.verify(&stranger).is_err());

        let checkpoint = Checkpoint::from_bytes(parsed.text()).unwrap();
        assert_eq!(checkpoint.origin(), note.origin);
        assert_eq!(checkpoint.size(), note.size);
        assert_eq!(checkpoint.hash().0, note.root);
        assert_eq!(checkpoint.extension(), "");

        let mut tree = MemoryBackedTree::<sha2::Sha256, Vec<u8>>::new();
        for leaf in read(&fs, LEAVES).chunks(64) {
            tree.push(leaf.to_vec());
        }
        assert_eq!(tree.len(), note.size);
        assert_eq!(tree.root().as_bytes()[..], note.root);
    }
    // Four opens and three seals, three points in each of three segments, one in the last.
    assert_eq!(*sizes.last().unwrap(), 4 + 3 + 3 * 4 + 1);
    assert!(sizes.len() >= 10, "{sizes:?}");
}

const PAGE: &str = include_str!("../../../../docs/formats/omni-attestation.md");

#[test]
fn the_vector_and_the_kinds_on_the_format_page_are_what_the_code_writes() {
    let fs = Run::of(0).write();
    let options = AttestOptions {
        origin: Some("example.org/run".to_owned()),
        ..AttestOptions::default()
    };
    let attestation = attest(&fs, Path::new(BASE), &key(1), &options).unwrap();
    let lines =
        |bytes: &[u8], len| -> String { bytes.chunks(len).map(|line| hex(line) + "\n").collect() };
    let parts = [
        lines(&read(&fs, BASE), 32),
        lines(&read(&fs, LEAVES), 64),
        attestation.note.to_text(),
    ];
    for part in parts {
        let block = format!("```\n{part}```\n");
        assert!(PAGE.contains(&block), "the page lacks this:\n{block}");
    }
    for kind in LeafKind::ALL {
        let given = if kind.is_derivable() { "yes" } else { "no" };
        let row = format!("| {} | {kind} | {given} |", kind.code());
        assert!(PAGE.contains(&row), "the page lacks {row}");
    }
}
