//! Digests, checksums, varints and the LZ4 encoder.

use durable::digest::{Sha256, hex};
use durable::{Cursor, checksum, varint};
use traza::digest::{hash128, pair_digest};

use super::{bytes_of, items, text, vectors};

#[test]
fn digests_of_bytes_are_those_of_the_vectors() {
    for case in items(&vectors!("digest"), "raw") {
        let digest = hash128(&bytes_of(case, "input_hex"));
        assert_eq!(hex(&digest.0), text(case, "digest"), "{case}");
    }
}

#[test]
fn digests_of_attribute_pairs_are_those_of_the_vectors() {
    for case in items(&vectors!("digest"), "attribute") {
        let digest = pair_digest(text(case, "key"), text(case, "value_text"));
        assert_eq!(hex(&digest.0), text(case, "digest"), "{case}");
    }
}

#[test]
fn a_pair_digest_is_the_digest_of_its_parts_in_one_piece() {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    for key_len in 0..20 {
        for value_len in 0..20 {
            let (key, value) = (&letters[..key_len], &letters[26 - value_len..]);
            let mut whole = u32::try_from(key_len).unwrap().to_le_bytes().to_vec();
            whole.extend_from_slice(key.as_bytes());
            whole.extend_from_slice(value.as_bytes());
            assert_eq!(
                pair_digest(key, value),
                hash128(&whole),
                "{key_len} {value_len}"
            );
        }
    }
}

#[test]
fn checksums_are_those_of_the_vectors() {
    for case in items(&vectors!("crc32"), "cases") {
        let crc = checksum::crc32(text(case, "input").as_bytes());
        assert_eq!(format!("{crc:08x}"), text(case, "crc"), "{case}");
    }
}

#[test]
fn varints_are_those_of_the_vectors_and_other_spellings_are_refused() {
    let vectors = vectors!("varint");
    for case in items(&vectors, "encode") {
        let mut out = Vec::new();
        varint::encode(case["value"].as_u64().unwrap(), &mut out);
        assert_eq!(hex(&out), text(case, "hex"), "{case}");
        assert_eq!(
            varint::decode(&mut Cursor::new(&out)).ok(),
            case["value"].as_u64()
        );
    }
    for case in items(&vectors, "refuse") {
        let bytes = bytes_of(case, "hex");
        assert!(varint::decode(&mut Cursor::new(&bytes)).is_err(), "{case}");
    }
}

#[test]
fn the_pinned_lz4_encoder_writes_the_bytes_of_the_vectors() {
    for case in items(&vectors!("lz4"), "cases") {
        let input = bytes_of(case, "input_hex");
        let packed = lz4_flex::block::compress(&input);
        assert_eq!(hex(&packed), text(case, "lz4_hex"), "{case}");
        assert_eq!(
            packed.len() < input.len(),
            case["stored_compressed"].as_bool().unwrap()
        );
    }
}

/// Computed with the encoder's other build, which checks every access.
const LZ4_OUTPUTS: &str = "58ad6c6fa49bbeb4a2b84ee997e17fa1386673e9c63e86c494e658d662bc0bad";

#[test]
fn the_quick_lz4_encoder_writes_what_the_checked_one_writes() {
    let mut outputs = Sha256::default();
    for input in lz4_inputs() {
        let packed = lz4_flex::block::compress(&input);
        assert_eq!(
            lz4_flex::block::decompress(&packed, input.len()).unwrap(),
            input
        );
        outputs.update(&packed);
    }
    assert_eq!(hex(&outputs.finish()), LZ4_OUTPUTS);
}

/// Inputs of all lengths around the limits of the encoder and of many kinds, the same ones every time.
fn lz4_inputs() -> impl Iterator<Item = Vec<u8>> {
    let mut state = 1u64;
    let mut next = move |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let lens = (0..80usize)
        .chain([65_534, 65_535, 65_536, 131_071, 131_072, 300_000])
        .chain((0..300).map(|i| i * 223));
    lens.enumerate().map(move |(index, len)| {
        let words = [
            "the ",
            "order ",
            "\"service\":\"",
            "0af7651916cd43dd",
            "\n",
            "refund issued; ",
        ];
        let period = 1 + next(4000);
        let mut input: Vec<u8> = Vec::with_capacity(len + 20);
        while input.len() < len {
            match index % 6 {
                0 => input.push(u8::try_from(next(256)).unwrap()),
                1 => input.extend(words[next(words.len())].bytes()),
                2 => input.push(b"abc"[next(3)]),
                3 if input.len() >= period => input.push(input[input.len() - period]),
                4 => input.extend(
                    format!("{{\"id\":{},\"name\":\"n{}\"}},", next(100_000), next(7)).bytes(),
                ),
                5 => {
                    input.extend(std::iter::repeat_n(b'-', next(300)));
                    input.extend(words[next(6)].bytes());
                }
                _ => input.push(u8::try_from(next(64)).unwrap()),
            }
        }
        input.truncate(len);
        input
    })
}
