//! Sidecars that carry the right checksums and are still not what the format says.

use durable::checksum::fnv1a_64;
use traza::rollup::{Binding, RollupError, decode, layout};

const BINDING: Binding = Binding {
    segment_len: 1,
    record_count: 2,
    min_timestamp: 3,
    max_timestamp: 4,
    pricing_fingerprint: 5,
};

/// A sidecar with this front and this body, and fresh checksums over both.
fn seal(mut front: Vec<u8>, body: &[u8]) -> Vec<u8> {
    front.truncate(layout::prologue::CHECKSUM.offset);
    front.extend_from_slice(&fnv1a_64(&front).to_le_bytes());
    front.extend_from_slice(body);
    front.extend_from_slice(&fnv1a_64(&front).to_le_bytes());
    front
}

fn front() -> Vec<u8> {
    let mut front = b"TRAZAROL\x05\0\0\0\x04\0\0\0".to_vec();
    for word in [1u64, 2, 3, 4, 5, 6, 7] {
        front.extend_from_slice(&word.to_le_bytes());
    }
    front
}

fn refused(body: &[&[u8]]) -> RollupError {
    decode(&seal(front(), &body.concat()), &BINDING).unwrap_err()
}

fn u32s(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn u64s(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn text(text: &str) -> Vec<u8> {
    [
        &u32s(&[u32::try_from(text.len()).unwrap()]),
        text.as_bytes(),
    ]
    .concat()
}

const COUNTERS: [u8; layout::counters::LEN] = [0; layout::counters::LEN];
/// The four groups, empty.
const NO_GROUPS: [u8; 16] = [0; 16];
/// Both lists of sessions, empty.
const NO_SESSIONS: [u8; 8] = [0; 8];
/// No hashes and no references.
const NO_MORE: [u8; 12] = [0; 12];

#[test]
fn an_empty_sidecar_is_sound() {
    let body = [&NO_GROUPS[..], &NO_SESSIONS, &NO_MORE].concat();
    let rollup = decode(&seal(front(), &body), &BINDING).unwrap();
    assert_eq!((rollup.min_end_ns, rollup.max_end_ns), (6, 7));
    assert_eq!(rollup.totals, traza::rollup::Totals::default());
}

#[test]
fn another_identity_or_version_is_refused_by_name() {
    let body = [&NO_GROUPS[..], &NO_SESSIONS, &NO_MORE].concat();
    let with = |at: usize, byte: u8| {
        let mut changed = front();
        changed[at] = byte;
        decode(&seal(changed, &body), &BINDING).unwrap_err()
    };
    assert_eq!(with(0, b't'), RollupError::Magic);
    for (at, wanted) in [(8, "VERSION"), (10, "RESERVED"), (12, "SCHEMA_VERSION")] {
        let error = with(at, 6);
        assert!(
            matches!(error, RollupError::Word { field, found: 6, .. } if field == wanted),
            "{error}"
        );
    }
}

#[test]
fn a_count_or_length_beyond_the_bytes_is_refused_as_cut_off() {
    let endless = u32s(&[u32::MAX]);
    for body in [
        [&endless[..], &[]].concat(),
        [&u32s(&[1])[..], &endless, b"x"].concat(),
        [&NO_GROUPS[..], &endless].concat(),
        [&NO_GROUPS[..], &NO_SESSIONS, &u64s(&[u64::MAX])].concat(),
        [&NO_GROUPS[..], &NO_SESSIONS, &u64s(&[1 << 61])].concat(),
        [&NO_GROUPS[..], &NO_SESSIONS, &u64s(&[2, 7])].concat(),
        [&NO_GROUPS[..], &NO_SESSIONS, &u64s(&[0]), &endless].concat(),
    ] {
        assert!(
            matches!(refused(&[&body]), RollupError::Length(_)),
            "{body:?}"
        );
    }
}

#[test]
fn bytes_left_over_are_refused() {
    let error = refused(&[&NO_GROUPS, &NO_SESSIONS, &NO_MORE, b"\0"]);
    assert!(matches!(error, RollupError::Length(short) if short.left == 1));
}

#[test]
fn entries_that_do_not_ascend_are_refused() {
    for (first, second) in [("b", "a"), ("a", "a"), ("a", "")] {
        let groups = [
            &u32s(&[2])[..],
            &text(first),
            &COUNTERS,
            &text(second),
            &COUNTERS,
        ]
        .concat();
        let error = refused(&[&groups]);
        assert!(
            matches!(error, RollupError::Order { .. }),
            "{first} {second}: {error}"
        );
        let references = [&u32s(&[2])[..], &text(first), &text(second)].concat();
        let error = refused(&[&NO_GROUPS, &NO_SESSIONS, &u64s(&[0]), &references]);
        assert!(
            matches!(error, RollupError::Order { .. }),
            "{first} {second}: {error}"
        );
    }
    let error = refused(&[&NO_GROUPS, &NO_SESSIONS, &u64s(&[2, 8, 7]), &u32s(&[0])]);
    assert!(matches!(error, RollupError::Order { .. }), "{error}");
}

#[test]
fn text_that_is_not_utf8_is_refused() {
    let error = refused(&[&u32s(&[1, 1]), b"\xff", &COUNTERS]);
    assert!(matches!(error, RollupError::Utf8 { offset: 88 }), "{error}");
}

#[test]
fn an_amount_that_is_not_finite_is_refused() {
    for field in [
        layout::counters::COST_USD,
        layout::counters::COST_DERIVED_USD,
    ] {
        for amount in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            let mut counters = COUNTERS;
            field.put(&mut counters, &amount.to_le_bytes()).unwrap();
            let error = refused(&[&u32s(&[1]), &text("m"), &counters]);
            assert!(
                matches!(error, RollupError::Amount { offset: 89 }),
                "{error}"
            );
        }
    }
}

/// The body with one session, named by the key at `key`, whose first counter differs by `more` between the two lists.
fn session(key: u32, more: u8) -> Vec<u8> {
    let id = [text("acme"), text("s")].concat();
    let mut counters = COUNTERS;
    counters[0] = more;
    [
        &NO_GROUPS[..],
        &u32s(&[1]),
        &id,
        &COUNTERS,
        &u32s(&[1]),
        &id,
        &counters,
        &u64s(&[1, 2]),
        &u32s(&[0, key]),
        &NO_MORE,
    ]
    .concat()
}

#[test]
fn a_session_key_is_one_of_four_or_none() {
    for key in [0, 1, 2, 3, u32::MAX] {
        let sidecar = seal(front(), &session(key, 0));
        let rollup = decode(&sidecar, &BINDING).unwrap();
        let known = rollup.totals.sessions.first_key_value().unwrap().1.key;
        assert_eq!(known.is_none(), key == u32::MAX, "{key}");
        assert!(traza::rollup::encode(&rollup, &BINDING) == sidecar, "{key}");
    }
    for key in [4, u32::MAX - 1] {
        assert_eq!(
            refused(&[&session(key, 0)]),
            RollupError::SessionKey { found: key }
        );
    }
}

#[test]
fn sessions_that_differ_between_their_two_lists_are_refused() {
    assert_eq!(refused(&[&session(0, 1)]), RollupError::Sessions);
}
