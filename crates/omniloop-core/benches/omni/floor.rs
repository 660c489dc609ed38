//! The floor: what no journal with this chain can avoid, and nothing else. For each record the CRC-32
//! of its payload, and SHA-256 over tag, previous value, header and payload, where header and payload
//! already stand in place: no record is built, copied or written, and no clock is read.
#![expect(
    clippy::big_endian_bytes,
    reason = "SHA-256 is defined over big-endian words"
)]

use std::hint::black_box;

use sha2::Digest as _;
use sha2::block_api::compress256;

use crate::Result;
use crate::measure::{Basis, Sample, Side, Times, timed};
use crate::texts::Texts;

pub(crate) const FLOOR: &str = "floor: the quicker of both";
const PLAIN: &str = "floor: plain hasher";
const BLOCKS: &str = "floor: block function";

const TAG: &[u8; 22] = b"omniloop-chain-v1-step";
const VALUE_AT: usize = TAG.len();
const CRC_AT: usize = VALUE_AT + 32 + 32;
const PAYLOAD_AT: usize = CRC_AT + 4;
const BLOCK_LEN: usize = 64;
const INITIAL_STATE: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// One message of the chain with SHA-256's padding behind it. The value and the checksum are put in
/// place when it is hashed.
struct Message {
    blocks: Vec<[u8; BLOCK_LEN]>,
    len: usize,
}

impl Message {
    fn new(payload: &[u8]) -> Self {
        let len = PAYLOAD_AT + payload.len();
        let mut bytes = [TAG, &[0x11; 32 + 36][..], payload, &[0x80]].concat();
        bytes.resize((len + 1 + 8).next_multiple_of(BLOCK_LEN) - 8, 0);
        bytes.extend_from_slice(&(len as u64 * 8).to_be_bytes());
        let (blocks, _) = bytes.as_chunks::<BLOCK_LEN>();
        Self {
            blocks: blocks.to_vec(),
            len,
        }
    }

    /// Puts the previous value and the payload's checksum in place.
    #[inline]
    fn prepare(&mut self, value: &[u8; 32]) {
        let bytes = self.blocks.as_flattened_mut();
        let (head, rest) = bytes.split_at_mut(PAYLOAD_AT);
        let payload = rest.get(..self.len - PAYLOAD_AT).unwrap_or_default();
        let crc = crc32fast::hash(payload);
        if let Some(place) = head.get_mut(VALUE_AT..).and_then(<[u8]>::first_chunk_mut) {
            *place = *value;
        }
        if let Some(place) = head.last_chunk_mut() {
            *place = crc.to_le_bytes();
        }
    }
}

#[inline]
fn plain(message: &Message) -> [u8; 32] {
    let bytes = message.blocks.as_flattened();
    sha2::Sha256::digest(bytes.get(..message.len).unwrap_or_default()).into()
}

#[inline]
fn blocks(message: &Message) -> [u8; 32] {
    let mut state = INITIAL_STATE;
    compress256(&mut state, &message.blocks);
    let mut value = [0; 32];
    let (words, _) = value.as_chunks_mut::<4>();
    for (place, word) in words.iter_mut().zip(state) {
        *place = word.to_be_bytes();
    }
    value
}

fn chain(
    messages: &mut [Message],
    records: u64,
    digest: impl Fn(&Message) -> [u8; 32],
) -> Result<(Times, [u8; 32])> {
    timed(|| {
        let mut value = [1; 32];
        let mut left = usize::try_from(records)?;
        while left > 0 {
            for message in messages.iter_mut().take(left) {
                message.prepare(&value);
                value = digest(message);
            }
            left = left.saturating_sub(messages.len());
        }
        Ok(black_box(value))
    })
}

pub(crate) fn side(records: u64, texts: &Texts) -> Side<'_> {
    let mut messages: Vec<Message> = texts.cycle(1024).map(Message::new).collect();
    Box::new(move || {
        let (plain_times, plain_value) = chain(&mut messages, records, plain)?;
        let (block_times, block_value) = chain(&mut messages, records, blocks)?;
        if plain_value != block_value {
            return Err("the two ways of hashing disagree".into());
        }
        let sample = |name, times| Sample {
            name,
            basis: Basis::ThreadCpu,
            times,
            records,
            bytes: texts.record_bytes(records),
        };
        let quicker = [plain_times, block_times]
            .into_iter()
            .min_by(|a, b| {
                let seconds = |times: &Times| times.seconds(Basis::ThreadCpu);
                seconds(a).total_cmp(&seconds(b))
            })
            .unwrap_or(block_times);
        Ok(vec![
            sample(PLAIN, plain_times),
            sample(BLOCKS, block_times),
            sample(FLOOR, quicker),
        ])
    })
}
