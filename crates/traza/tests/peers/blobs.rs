//! Payload blobs: raw in release 0.23, framed since 0.24.

use std::path::Path;

use durable::{RealFs, read_all};
use traza::payload::{self, ContentAddress};

const NAMES: [&str; 2] = [
    "1369e7a870ebad8127d2774c2a75e604af16d801de3961775939460f1c38f6d9",
    "81ef11bda6156248a9105f72db41a25e33febf2d1d6c39c94e2401e16e3fcfa8",
];

fn blob(release: &str, name: &str) -> Vec<u8> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/blobs");
    let path = fixtures.join(release).join(format!("{name}.bin"));
    read_all(&RealFs, &path, 1 << 20).unwrap()
}

#[test]
fn a_framed_blob_holds_what_the_older_release_stored_raw_under_the_same_name() {
    for name in NAMES {
        let address: ContentAddress = format!("sha256/{name}").parse().unwrap();
        let raw = blob("0.23", name);
        assert_eq!(ContentAddress::of(&raw), address);
        assert!(
            payload::decode(&raw).is_err(),
            "a raw blob is no framed one"
        );
        let framed = blob("0.24", name);
        assert!(payload::decode_as(&framed, address).unwrap() == raw);
        assert!(
            payload::encode(&raw) == framed,
            "the same bytes as the peer's"
        );
    }
}
