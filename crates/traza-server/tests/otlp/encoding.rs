//! Compressed bodies: what is undone, and what is refused before it takes memory.

use std::borrow::Cow;
use std::io::{Read as _, Write as _};

use flate2::Compression;
use flate2::write::GzEncoder;

use traza_server::encoding::{BODY_LEN_MAX, ContentEncoding, EncodingError};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

#[test]
fn each_encoding_gives_the_body_back() {
    let body: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
    for (name, encoded) in [
        (None, body.clone()),
        (Some(""), body.clone()),
        (Some("Identity"), body.clone()),
        (Some("gzip"), gzip(&body)),
        (Some(" X-GZIP "), gzip(&body)),
        (Some("zstd"), zstd(&body)),
    ] {
        let encoding = ContentEncoding::from_header(name).unwrap();
        let decoded = encoding.decode(&encoded, body.len()).unwrap();
        assert!(decoded.as_ref() == body, "{name:?}");
    }
    let identity = ContentEncoding::Identity
        .decode(&body, BODY_LEN_MAX)
        .unwrap();
    assert!(matches!(identity, Cow::Borrowed(_)));
}

#[test]
fn members_and_frames_after_each_other_are_one_body() {
    let twice = |encode: fn(&[u8]) -> Vec<u8>| [encode(b"one "), encode(b"two")].concat();
    for (encoding, body) in [
        (ContentEncoding::Gzip, twice(gzip)),
        (ContentEncoding::Zstd, twice(zstd)),
    ] {
        assert_eq!(encoding.decode(&body, 100).unwrap().as_ref(), b"one two");
    }
}

#[test]
fn other_encodings_and_lists_of_them_are_unsupported() {
    for name in ["br", "deflate", "gzip, zstd", "gzip;q=1", "g zip"] {
        let error = ContentEncoding::from_header(Some(name)).unwrap_err();
        assert!(
            matches!(&error, EncodingError::Unsupported { name: found } if found == name),
            "{error}"
        );
    }
}

#[test]
fn a_body_longer_than_the_limit_is_refused_in_every_encoding() {
    let body = vec![7; 1001];
    for (encoding, encoded) in [
        (ContentEncoding::Identity, body.clone()),
        (ContentEncoding::Gzip, gzip(&body)),
        (ContentEncoding::Zstd, zstd(&body)),
    ] {
        assert_eq!(encoding.decode(&encoded, 1001).unwrap().len(), 1001);
        let error = encoding.decode(&encoded, 1000).unwrap_err();
        assert!(
            matches!(error, EncodingError::TooLong { max: 1000 }),
            "{error}"
        );
    }
}

#[test]
fn a_bomb_is_refused_before_it_is_unpacked() {
    // 4 GiB of zeros, one MiB in each member or frame: unpacking them all would take far longer than this test may.
    let zeros = vec![0; 1 << 20];
    for (encoding, part) in [
        (ContentEncoding::Gzip, gzip(&zeros)),
        (ContentEncoding::Zstd, zstd(&zeros)),
    ] {
        let bomb = part.repeat(4096);
        assert!(bomb.len() < 64 << 20);
        let error = encoding.decode(&bomb, 4 << 20).unwrap_err();
        assert!(matches!(error, EncodingError::TooLong { .. }), "{error}");
    }
}

#[test]
fn a_zstandard_frame_that_asks_for_a_large_window_is_refused() {
    let mut encoder = zstd::stream::read::Encoder::new(std::io::repeat(0).take(100), 3).unwrap();
    encoder.window_log(27).unwrap();
    let mut frame = Vec::new();
    encoder.read_to_end(&mut frame).unwrap();
    let error = ContentEncoding::Zstd
        .decode(&frame, BODY_LEN_MAX)
        .unwrap_err();
    assert!(
        matches!(
            error,
            EncodingError::Damaged {
                encoding: "zstd",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn damaged_and_cut_off_bodies_are_refused_at_every_length() {
    let body: Vec<u8> = (0..200).collect();
    for (encoding, encoded) in [
        (ContentEncoding::Gzip, gzip(&body)),
        (ContentEncoding::Zstd, zstd(&body)),
    ] {
        for len in 1..encoded.len() {
            let error = encoding.decode(&encoded[..len], BODY_LEN_MAX).unwrap_err();
            assert!(
                matches!(error, EncodingError::Damaged { .. }),
                "{len}: {error}"
            );
        }
        let trailing = [encoded.as_slice(), b"rest"].concat();
        assert!(encoding.decode(&trailing, BODY_LEN_MAX).is_err());
        assert!(encoding.decode(&body, BODY_LEN_MAX).is_err());
    }
}
