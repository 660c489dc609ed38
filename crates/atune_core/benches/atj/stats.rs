//! The statistics that are taken of samples.

/// The middle value; of an even number the upper one of the two in the middle. NaN without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 1, 2)
}

/// The value below which `part` of `of` equal parts of the values lie. NaN without any.
pub(crate) fn quantile(values: &[f64], part: usize, of: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = (sorted.len() * part / of).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(f64::NAN)
}

/// A count as a number to calculate with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of a benchmark are far below 2^53"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// A stream of numbers that is the same in every run: xorshift64.
#[derive(Clone, Debug)]
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// From -1 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        float(self.below(2_000_001)) / 1e6 - 1.0
    }
}
