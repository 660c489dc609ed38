//! Files that somebody made to mislead: their checksums and chains fit.

use durable::Outcome;
use durable::digest::hex;
use omniloop_core::journal::{ChainBreak, Error, Fault, Section};

use crate::forge::{CHAINED, Forge, RECORD_LEN, Rec};
use crate::support::{codes, outcome, read, read_leniently, verify, verify_as};

/// Ten telemetry records, not closed yet.
fn ten() -> Forge {
    let mut forge = Forge::new(CHAINED, 5, 0);
    for _ in 0..10 {
        forge.telemetry();
    }
    forge
}

#[test]
fn a_forged_file_that_breaks_no_rule_is_intact() {
    let sound = ten().checkpoint().seal();
    let verdict = verify(&sound);
    assert_eq!(outcome(&verdict), Some(Outcome::Intact), "{verdict:?}");
    assert_eq!(outcome(&verify_as(&sound, true)), Some(Outcome::Intact));
}

#[test]
fn an_unknown_kind_is_an_error_that_names_it_and_only_a_lenient_reader_skips_it() {
    let mut forge = ten();
    let at = forge.bytes.len() as u64;
    let bytes = forge
        .push(&Rec::new(9, 10, b"from the future"))
        .telemetry()
        .checkpoint()
        .seal();
    let (records, end) = read(&bytes);
    assert_eq!(records.len(), 10);
    let Err(Error::Corrupt {
        section,
        offset,
        tick,
        fault,
        ..
    }) = end
    else {
        panic!("{end:?}");
    };
    assert_eq!(
        (section, offset, tick),
        (Section::RecordHeader, at, Some(10))
    );
    assert_eq!(fault, Fault::UnknownKind(9));
    let (records, end) = read_leniently(&bytes);
    assert!(end.is_ok());
    assert_eq!(records.len(), 12, "ten, one more, and the checkpoint");
    let verdict = verify(&bytes).unwrap();
    assert!(codes(&verdict).contains(&"unknown_kind"));
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged));
}

#[test]
fn a_newer_version_is_refused_by_its_number() {
    let mut bytes = ten().checkpoint().seal();
    bytes[8] = 3;
    for error in [read(&bytes).1.unwrap_err(), verify(&bytes).unwrap_err()] {
        assert!(
            matches!(
                error,
                Error::Unsupported {
                    found: 3,
                    newest: 2,
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

#[test]
fn unknown_flags_are_ignored_and_mentioned() {
    let mut forge = Forge::new(CHAINED | 0x8000_0010, 5, 0);
    let bytes = forge.telemetry().checkpoint().seal();
    assert!(read(&bytes).1.is_ok());
    let verdict = verify(&bytes).unwrap();
    assert!(codes(&verdict).contains(&"unknown_flags"));
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Intact));
}

#[test]
fn a_length_that_runs_out_of_a_sealed_file_is_corruption() {
    let sealed = ten().checkpoint().seal();
    let fifth = usize::try_from(ten().places[4].1).unwrap();
    let last = usize::try_from(ten().checkpoint().places[10].1).unwrap();
    for (at, len, before) in [(fifth, u32::MAX, 4), (fifth, 1_000_000, 4), (last, 33, 10)] {
        let mut bytes = sealed.clone();
        bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
        let (records, end) = read(&bytes);
        assert_eq!(records.len(), before);
        let is_past_end = matches!(
            end,
            Err(Error::Corrupt { offset, fault: Fault::PastEnd { .. }, .. }) if offset == at as u64
        );
        assert!(is_past_end, "{end:?}");
        assert_eq!(outcome(&verify(&bytes)), Some(Outcome::Damaged));
    }
}

#[test]
fn a_length_that_runs_out_of_an_open_file_ends_the_stream_and_is_damage_if_records_follow() {
    for (number, expected) in [(4, Outcome::Damaged), (9, Outcome::Unproven)] {
        let mut bytes = ten().bytes;
        let at = usize::try_from(ten().places[number].1).unwrap();
        bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let (records, end) = read(&bytes);
        assert!(end.is_ok());
        assert_eq!(records.len(), number);
        assert_eq!(outcome(&verify(&bytes)), Some(expected));
    }
}

#[test]
fn a_tick_that_goes_back_is_an_error_even_if_the_chain_holds() {
    let mut forge = ten();
    let at = forge.bytes.len() as u64;
    let bytes = forge
        .push(&Rec::new(2, 3, b"{}").at(10_000, 9))
        .checkpoint()
        .seal();
    let (records, end) = read(&bytes);
    assert_eq!(records.len(), 10);
    let fault = Fault::TickWentBack {
        previous: 10,
        found: 3,
    };
    assert!(
        matches!(&end, Err(Error::Corrupt { offset, fault: f, .. }) if *offset == at && *f == fault),
        "{end:?}"
    );
    assert!(read_leniently(&bytes).1.is_ok());
    let verdict = verify(&bytes).unwrap();
    assert_eq!(verdict.chain.break_at, None);
    assert!(codes(&verdict).contains(&"tick_went_back"));
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged));
}

#[test]
fn padding_that_is_not_zero_is_read_over_and_reported_as_damage() {
    let mut rec = Rec::new(2, 10, b"{}");
    rec.padding = [0, 0, 1];
    let bytes = ten().push(&rec).checkpoint().seal();
    assert_eq!(read(&bytes).0.len(), 12);
    let verdict = verify(&bytes).unwrap();
    assert_eq!(verdict.chain.break_at, None);
    assert!(codes(&verdict).contains(&"padding"));
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged));
}

#[test]
fn a_file_that_claims_no_chain_and_has_none_proves_nothing() {
    let mut forge = Forge::new(0, 5, 0);
    let bytes = forge.telemetry().telemetry().seal();
    assert!(read(&bytes).1.is_ok());
    let verdict = verify(&bytes).unwrap();
    assert!(!verdict.chain.ok && !verdict.chain.declared_chained);
    assert_eq!(verdict.chain.break_at, Some(ChainBreak::NotChained));
    assert_ne!(outcome(&Ok(verdict)), Some(Outcome::Intact));
}

#[test]
fn a_chain_that_the_header_does_not_claim_is_verified_all_the_same() {
    let mut forge = Forge::new(0, 5, 0);
    let bytes = forge.telemetry().checkpoint().seal();
    let verdict = verify(&bytes).unwrap();
    assert!(verdict.chain.ok && !verdict.chain.declared_chained);
    assert_eq!(verdict.chain.checkpoints, 1);
    let mut flipped = bytes;
    flipped[32 + 20] ^= 1;
    let verdict = verify(&flipped).unwrap();
    assert!(matches!(
        verdict.chain.break_at,
        Some(ChainBreak::DigestMismatch { .. })
    ));
}

#[test]
fn a_chain_that_is_claimed_needs_checkpoints() {
    let verdict = verify(&ten().seal()).unwrap();
    assert!(!verdict.chain.ok);
    assert_eq!(
        verdict.chain.break_at,
        Some(ChainBreak::ChainedButNoCheckpoints)
    );
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged));
    // An open file has not come to its first checkpoint yet.
    let verdict = verify(&ten().bytes).unwrap();
    assert_eq!(
        verdict.chain.break_at,
        Some(ChainBreak::ChainedButNoCheckpoints)
    );
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Unproven));
}

#[test]
fn a_sealed_file_whose_records_go_on_after_the_last_checkpoint_is_damaged() {
    let bytes = ten().checkpoint().telemetry().seal();
    let verdict = verify(&bytes).unwrap();
    assert_eq!(verdict.chain.unverified_tail, 1);
    assert!(codes(&verdict).contains(&"unverified_tail"));
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged));
}

#[test]
fn a_checkpoint_of_another_length_is_malformed() {
    for len in [0usize, 31, 33, 5_000_000] {
        let mut forge = ten();
        let offset = forge.bytes.len() as u64;
        let bytes = forge
            .push(&Rec::new(6, 10, &vec![1; len]))
            .checkpoint()
            .seal();
        let verdict = verify(&bytes).unwrap();
        let len = len as u64;
        assert_eq!(
            verdict.chain.break_at,
            Some(ChainBreak::MalformedCheckpoint { offset, len })
        );
        assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged), "len={len}");
    }
}

#[test]
fn a_checkpoint_with_another_value_names_both_values() {
    let mut forge = ten();
    let expected = hex(&forge.chain);
    let offset = forge.bytes.len() as u64;
    let bytes = forge.push(&Rec::new(6, 10, &[1; 32])).checkpoint().seal();
    let found = hex(&[1; 32]);
    let verdict = verify(&bytes).unwrap();
    assert_eq!(
        verdict.chain.break_at,
        Some(ChainBreak::DigestMismatch {
            offset,
            tick: 10,
            expected,
            found
        })
    );
    assert_eq!(
        verdict.chain.checkpoints, 0,
        "what follows a break is not counted"
    );
}

#[test]
fn a_signature_that_is_none_is_bad_and_one_that_follows_no_checkpoint_too() {
    let no_checkpoint = ten().push(&Rec::new(7, 10, &[1; 96])).checkpoint().seal();
    let garbage = ten().checkpoint().push(&Rec::new(7, 10, &[1; 96])).seal();
    let too_short = ten().checkpoint().push(&Rec::new(7, 10, &[1; 95])).seal();
    for bytes in [no_checkpoint, garbage, too_short] {
        let verdict = verify(&bytes).unwrap();
        assert_eq!(verdict.bad_signatures, 1);
        assert!(!verdict.chain.ok && verdict.signers.is_empty());
        assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Damaged));
    }
}

#[test]
fn zeros_at_the_end_are_a_torn_tail_and_zeros_inside_are_damage() {
    let mut forge = ten();
    let mut bytes = forge.checkpoint().bytes.clone();
    bytes.extend([0; 5000]);
    let (records, end) = read(&bytes);
    assert!(end.is_ok());
    assert_eq!(records.len(), 11);
    let verdict = verify(&bytes).unwrap();
    assert!(verdict.chain.truncated);
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Unproven));

    bytes.push(1);
    let (records, end) = read(&bytes);
    assert_eq!(records.len(), 11);
    assert!(
        matches!(
            end,
            Err(Error::Corrupt {
                fault: Fault::ZeroHeader,
                ..
            })
        ),
        "{end:?}"
    );
    assert_eq!(outcome(&verify(&bytes)), Some(Outcome::Damaged));
}

#[test]
fn a_payload_that_ends_like_a_trailer_does_not_end_the_records() {
    let mut payload = br#"{"text":"OMNIEND1"#.to_vec();
    payload.extend(b"aaaaaaaaaaaaaa\"}");
    let rec = Rec::new(5, 10, &payload);
    let look_alike = &rec.payload[rec.payload.len() - 24..];
    assert!(look_alike.starts_with(b"OMNIEND1"));
    let open = ten().push(&rec).bytes.clone();
    let (records, end) = read(&open);
    assert!(end.is_ok(), "{end:?}");
    assert_eq!(records.len(), 11);
    let verdict = verify(&open).unwrap();
    assert!(!verdict.chain.finalized);
    assert_eq!(outcome(&Ok(verdict)), Some(Outcome::Unproven));
    let sealed = ten().push(&rec).checkpoint().seal();
    assert!(read(&sealed).1.is_ok());
    assert_eq!(outcome(&verify(&sealed)), Some(Outcome::Intact));
}

#[test]
fn a_payload_that_holds_records_gives_none_of_them() {
    let inner = ten().bytes[32..].to_vec();
    let bytes = ten().push(&Rec::new(5, 10, &inner)).checkpoint().seal();
    assert_eq!(read(&bytes).0.len(), 12);
    assert_eq!(verify(&bytes).unwrap().chain.records, 12);
}

#[test]
fn the_last_record_of_an_open_file_is_complete_or_not_given() {
    let bytes = ten().bytes;
    let last = usize::try_from(ten().places[9].1).unwrap();
    for len in last + 1..bytes.len() {
        assert_eq!(read(&bytes[..len]).0.len(), 9, "len={len}");
    }
    assert_eq!(read(&bytes[..last + RECORD_LEN]).0.len(), 9);
}
