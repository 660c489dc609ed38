//! Every way to change a signed run, its note or its leaves.

use durable::Fs;
use durable_sim::SimFs;
use omniloop_core::attest::{LeavesState, SignatureState};
use omniloop_core::journal::{VerifyOptions, segment_paths, verify_chain_with};

use crate::support::{
    BASE, LEAVES, NOTE, Run, check, check_again, check_with, codes, derive, is_clean, key, public,
    put, read, record_boundaries, segment, sign,
};

fn cuts_are_caught(fs: &SimFs, ordinal: u64, signed_end: usize) -> usize {
    let path = segment(ordinal);
    let whole = read(fs, &path);
    let mut cuts = record_boundaries(&whole);
    // And inside index and trailer, when they were signed for.
    cuts.extend((*cuts.last().unwrap()..whole.len()).step_by(8));
    cuts.retain(|cut| *cut < signed_end);
    for cut in &cuts {
        let attacked = fs.fork();
        put(&attacked, &path, &whole[..*cut]);
        for leaves_too in [false, true] {
            if leaves_too {
                attacked.remove_file(LEAVES.as_ref()).unwrap();
            }
            let report = check(&attacked);
            assert!(!report.root_matches, "cut at {cut}");
            assert_eq!((report.covers_records, report.closed), (0, false));
            let found = codes(&report);
            assert!(
                found.contains(&"cut_below_signed_size"),
                "cut at {cut}: {found:?}"
            );
        }
    }
    cuts.len()
}

#[test]
fn a_tail_cut_off_below_the_signed_size_is_caught_at_every_record_boundary() {
    let fs = Run::of(300).write();
    sign(&fs);
    let len = read(&fs, BASE).len();
    assert!(cuts_are_caught(&fs, 0, len) > 300);

    let open = Run::of(300).open_end().write();
    let note = sign(&open);
    let bytes = read(&open, BASE);
    let boundaries = record_boundaries(&bytes);
    let signed_end = boundaries[usize::try_from(note.covers_records).unwrap()];
    assert_eq!(
        note.covers_records, 260,
        "four checkpoints of 64 records, and themselves"
    );
    assert!(
        signed_end < bytes.len(),
        "the last 44 records are not covered"
    );
    assert!(cuts_are_caught(&open, 0, signed_end) > 250);
    let beyond = open.fork();
    put(&beyond, BASE, &bytes[..signed_end]);
    let report = check(&beyond);
    assert!(
        is_clean(&report),
        "a cut after the signed point is what the window is about"
    );
    assert_eq!(
        (
            check(&open).unproven_tail_records,
            report.unproven_tail_records
        ),
        (44, 0)
    );
}

#[test]
fn removing_the_last_segments_is_caught_with_and_without_the_leaves() {
    let fs = Run::rotated(400, 100).write();
    sign(&fs);
    for kept in 1..4 {
        for leaves_too in [false, true] {
            let attacked = fs.fork();
            for ordinal in kept..4 {
                attacked.remove_file(&segment(ordinal)).unwrap();
            }
            if leaves_too {
                attacked.remove_file(LEAVES.as_ref()).unwrap();
            }
            let found = codes(&check(&attacked));
            assert!(
                found.contains(&"cut_below_signed_size"),
                "kept {kept}: {found:?}"
            );
        }
    }
}

#[test]
fn a_segment_taken_out_of_the_middle_or_swapped_is_caught() {
    let fs = Run::rotated(400, 100).write();
    sign(&fs);
    let files: Vec<_> = (0..4).map(|n| read(&fs, segment(n))).collect();
    for (name, order) in [("removed", vec![0, 2, 3]), ("swapped", vec![0, 2, 1, 3])] {
        let attacked = fs.fork();
        attacked.remove_file(&segment(3)).unwrap();
        for (place, from) in order.into_iter().enumerate() {
            put(&attacked, segment(place as u64), &files[from]);
        }
        let report = check(&attacked);
        assert!(!report.root_matches, "{name}");
        assert_eq!(codes(&report), ["broken_below_signed_size"], "{name}");
    }
}

#[test]
fn a_run_written_anew_is_caught_with_its_own_leaves_and_without_any() {
    let run = Run::rotated(400, 100);
    let fs = run.write();
    sign(&fs);
    let rewrites = [
        (
            "clock",
            Run {
                start_ns: 2_000,
                ..run
            },
        ),
        (
            "payload",
            Run {
                word: "gain",
                ..run
            },
        ),
        (
            "a record more",
            Run {
                records: 401,
                ..run
            },
        ),
        (
            "a record less",
            Run {
                records: 399,
                ..run
            },
        ),
    ];
    for (what, rewrite) in rewrites {
        let forged = rewrite.write();
        put(&forged, NOTE, &read(&fs, NOTE));
        let without = check(&forged);
        put(&forged, LEAVES, &read(&fs, LEAVES));
        let with_old = check(&forged);
        let again = rewrite.write();
        sign(&again);
        put(&forged, LEAVES, &read(&again, LEAVES));
        let with_own = check(&forged);
        for report in [without, with_old, with_own] {
            assert!(!report.root_matches && !report.proves_all(), "{what}");
            let found = codes(&report);
            let named = ["root_mismatch", "cut_below_signed_size"];
            assert!(
                found.iter().any(|code| named.contains(code)),
                "{what}: {found:?}"
            );
        }
    }
}

#[test]
fn an_edit_is_placed_between_the_leaves_around_it_when_the_signed_leaves_are_there() {
    let run = Run::of(300);
    let fs = run.write();
    sign(&fs);
    // The same run but for one later record, with a chain that fits.
    let mut journal = run.start(std::sync::Arc::new(SimFs::new()), BASE.as_ref());
    run.append(&mut journal, 0..100);
    drop(journal);
    let forged = SimFs::new();
    let mut journal = run.start(std::sync::Arc::new(forged.clone()), BASE.as_ref());
    run.append(&mut journal, 0..100);
    Run {
        word: "LOSS",
        ..run
    }
    .append(&mut journal, 100..101);
    run.append(&mut journal, 101..300);
    journal.seal().unwrap();
    put(&forged, NOTE, &read(&fs, NOTE));
    put(&forged, LEAVES, &read(&fs, LEAVES));

    let report = check(&forged);
    let what = &report.findings[0].what;
    assert_eq!(codes(&report), ["root_mismatch"]);
    assert!(
        what.contains("after 65 records") && what.contains("after 130 records"),
        "{what}"
    );
}

#[test]
fn no_flipped_bit_of_the_note_leaves_it_trusted_and_matching() {
    let fs = Run::of(70).write();
    sign(&fs);
    let note = read(&fs, NOTE);
    let derived = derive(&fs);
    assert!(is_clean(&check_again(&fs, &derived)));
    for at in 0..note.len() {
        for bit in 0..8 {
            let mut damaged = note.clone();
            damaged[at] ^= 1 << bit;
            put(&fs, NOTE, &damaged);
            let report = check_again(&fs, &derived);
            assert_ne!(
                report.signature,
                SignatureState::Trusted,
                "byte {at} bit {bit}"
            );
            assert!(
                !is_clean(&report) && !report.proves_all(),
                "byte {at} bit {bit}"
            );
        }
    }
    for len in 0..note.len() {
        put(&fs, NOTE, &note[..len]);
        assert_eq!(
            codes(&check_again(&fs, &derived)),
            ["note_malformed"],
            "cut at {len}"
        );
    }
}

#[test]
fn no_flipped_bit_of_the_leaves_leaves_them_consistent_nor_costs_the_proof() {
    let fs = Run::rotated(150, 100).write();
    sign(&fs);
    let leaves = read(&fs, LEAVES);
    let derived = derive(&fs);
    for at in 0..leaves.len() {
        for bit in 0..8 {
            let mut damaged = leaves.clone();
            damaged[at] ^= 1 << bit;
            put(&fs, LEAVES, &damaged);
            let report = check_again(&fs, &derived);
            assert_eq!(
                report.leaves_file,
                LeavesState::Inconsistent,
                "byte {at} bit {bit}"
            );
            assert_eq!(
                codes(&report),
                ["leaves_inconsistent"],
                "byte {at} bit {bit}"
            );
            assert!(report.proves_all(), "byte {at} bit {bit}");
        }
    }
    for len in 0..leaves.len() {
        put(&fs, LEAVES, &leaves[..len]);
        assert_eq!(
            check_again(&fs, &derived).leaves_file,
            LeavesState::Inconsistent,
            "cut at {len}"
        );
    }
    fs.remove_file(LEAVES.as_ref()).unwrap();
    let report = check_again(&fs, &derived);
    assert_eq!(
        (report.leaves_file, codes(&report)),
        (LeavesState::Missing, vec!["leaves_missing"])
    );
    assert!(report.proves_all());
}

#[test]
fn edited_stamps_of_the_closing_records_pass_the_file_and_fail_the_attestation() {
    let fs = Run {
        signed: true,
        ..Run::of(70)
    }
    .write();
    sign(&fs);
    let bytes = read(&fs, BASE);
    let boundaries = record_boundaries(&bytes);
    // The checkpoint before the signature, and the signature.
    let closing = [
        boundaries[boundaries.len() - 3],
        boundaries[boundaries.len() - 2],
    ];
    for start in closing {
        // Mono and wall time; a changed tick may be refused for going back.
        for at in start + 16..start + 32 {
            let mut edited = bytes.clone();
            edited[at] ^= 1;
            put(&fs, BASE, &edited);
            let path = BASE.as_ref();
            let file = verify_chain_with(&fs, path, VerifyOptions::default(), &mut ()).unwrap();
            assert!(file.ok, "nothing in the file covers byte {at}");
            let report = check(&fs);
            assert_eq!(codes(&report), ["root_mismatch"], "byte {at}");
        }
    }
}

#[test]
fn a_key_that_nobody_named_is_a_verdict_of_its_own() {
    let fs = Run::of(70).write();
    sign(&fs);
    let nobody = check_with(&fs, &[], None).unwrap();
    assert_eq!(nobody.signature, SignatureState::UnknownKey);
    assert_eq!(nobody.findings[0].severity, durable::Severity::Note);
    let others = check_with(&fs, &[public(2), public(3)], None).unwrap();
    assert_eq!(others.signature, SignatureState::UnknownKey);
    assert_eq!(others.findings[0].severity, durable::Severity::Unproven);
    assert!(!others.proves_all() && others.root_matches);
    let among = check_with(&fs, &[public(2), key(1).public_key()], None).unwrap();
    assert!(among.proves_all());
}

#[test]
fn the_attestation_lies_beside_a_run_without_joining_its_set() {
    let fs = Run::rotated(150, 100).write();
    assert!(check_with(&fs, &[public(1)], None).is_none());
    sign(&fs);
    let folder = tempfile::tempdir().unwrap();
    for name in fs.read_dir("/".as_ref()).unwrap() {
        let to = folder.path().join(name.file_name().unwrap());
        put(&durable::RealFs, to, &read(&fs, &name));
    }
    assert_eq!(
        segment_paths(folder.path().join("run.omni")).unwrap().len(),
        2
    );
}
