//! The hash chain: `docs/formats/omni.md`, section "Hash chain".

use durable::digest::{Digest, Sha256, ShortMessages, sha256};

use super::layout::{file_header, record_header};

const GENESIS_TAG: &[u8] = b"omniloop-chain-v1-genesis";
const STEP_TAG: &[u8; 22] = b"omniloop-chain-v1-step";

/// The chain value before the first record of a file.
pub(crate) fn genesis(header: &[u8; file_header::LEN]) -> Digest {
    sha256(&[GENESIS_TAG, header].concat())
}

/// Advances chain values; holds the scratch space that makes it quick.
#[derive(Clone, Debug)]
pub(crate) struct ChainHasher {
    messages: ShortMessages,
}

impl ChainHasher {
    pub(crate) fn new() -> Self {
        Self {
            messages: ShortMessages::with_capacity(2048),
        }
    }

    /// The chain value after a record.
    #[inline]
    pub(crate) fn step(
        &mut self,
        previous: &Digest,
        header: &[u8; record_header::LEN],
        payload: &[u8],
    ) -> Digest {
        self.messages.digest([STEP_TAG, previous, header, payload])
    }
}

/// The chain value after a record whose payload is too long to hold at once.
#[derive(Debug)]
pub(crate) struct LongStep(Sha256);

impl LongStep {
    pub(crate) fn new(previous: &Digest, header: &[u8; record_header::LEN]) -> Self {
        let mut hasher = Sha256::default();
        hasher.update(STEP_TAG);
        hasher.update(previous);
        hasher.update(header);
        Self(hasher)
    }

    pub(crate) fn update(&mut self, payload_piece: &[u8]) {
        self.0.update(payload_piece);
    }

    pub(crate) fn finish(self) -> Digest {
        self.0.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_digest_of_tag_value_header_and_payload() {
        let (previous, header, payload) = ([7; 32], [9; 36], [5; 100]);
        let expected =
            sha256(&[&b"omniloop-chain-v1-step"[..], &previous, &header, &payload].concat());
        assert_eq!(
            ChainHasher::new().step(&previous, &header, &payload),
            expected
        );
        let mut long = LongStep::new(&previous, &header);
        long.update(&payload[..40]);
        long.update(&payload[40..]);
        assert_eq!(long.finish(), expected);
    }
}
