//! Random numbers and prose.

use std::fmt::Write as _;

const WORDS: &str = "the a of to and in is it for on with as by at from or be this that are was \
    order invoice account customer region payment request window report table \
    index latency budget queue worker retry timeout cache schema column metric \
    answer question summary plan step tool result search document passage page \
    model token context reply draft review ticket agent policy limit quota \
    green river stone bridge winter garden copper silver north south early late \
    compare explain list describe compute convert validate measure collect merge \
    because although therefore however between under above within without \
    small large quick steady empty full stale fresh local remote shared private \
    parser compiler kernel thread socket buffer packet cursor segment block page \
    January March June August October monday tuesday friday morning evening \
    refund shipment address discount carrier warehouse pallet label barcode";

/// A stream of numbers that is the same in every run: xorshift64.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 up to and without `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        // The upper bits are the better ones.
        (self.next() >> 11) % bound.max(1)
    }

    /// From `low` to `high`.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// From 0 up to and without 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double")]
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn chance(&mut self, part: f64) -> bool {
        self.unit() < part
    }

    pub(crate) fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        items.get(index).copied().unwrap_or_default()
    }

    pub(crate) fn pick_number(&mut self, items: &[u64]) -> u64 {
        let index = usize::try_from(self.below(items.len() as u64)).unwrap_or(0);
        items.get(index).copied().unwrap_or_default()
    }

    /// So many random bytes in hexadecimal.
    pub(crate) fn hex(&mut self, bytes: usize) -> String {
        let mut digits = String::with_capacity(bytes * 2 + 16);
        while digits.len() < bytes * 2 {
            // Writing to a string cannot fail.
            write!(digits, "{:016x}", self.next()).ok();
        }
        digits.truncate(bytes * 2);
        digits
    }

    /// Spread by orders of magnitude between `low` and `high`; a larger `power` favours `low`.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations and lengths far below 2^53"
    )]
    pub(crate) fn skewed(&mut self, low: u64, high: u64, power: f64) -> u64 {
        let (low, high) = (low as f64, high as f64);
        (low * (high / low).powf(self.unit().powf(power))) as u64
    }
}

/// Makes prose of a wanted length out of a pool of prepared sentences.
pub(crate) struct Text {
    pool: Vec<String>,
}

impl Text {
    pub(crate) fn new(random: &mut Random, sentences: usize) -> Self {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let sentence = |_| {
            let count = random.between(6, 18);
            let chosen: Vec<&str> = (0..count).map(|_| random.pick(&words)).collect();
            let text = chosen.join(" ");
            let (first, rest) = text.split_at(1);
            let end = random.pick(&[".", ".", ".", "?", ":", ";"]);
            format!("{}{rest}{end}", first.to_uppercase())
        };
        Self {
            pool: (0..sentences).map(sentence).collect(),
        }
    }

    pub(crate) fn make(&self, random: &mut Random, len: u64) -> String {
        let len = usize::try_from(len).unwrap_or(0);
        let mut text = String::with_capacity(len + 200);
        while text.len() < len {
            if !text.is_empty() {
                text.push(' ');
            }
            let index = usize::try_from(random.below(self.pool.len() as u64)).unwrap_or(0);
            text += self.pool.get(index).map_or("", String::as_str);
        }
        text.truncate(len);
        text
    }
}
