//! Random numbers that hang on what they are for, never on what was drawn before.
//!
//! Every draw of a study comes from a stream that is keyed by the study's seed, the number of the trial
//! and a purpose, which is mostly the name of a parameter. So a study that is resumed goes on as one that
//! was never interrupted, and it does not matter which worker draws first.
//!
//! The streams are `ChaCha` with 8 rounds, and every step from their bits to a number is written here or
//! in `libm`: equal keys give equal numbers on every platform.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// A stream of random numbers for one purpose of one trial.
#[derive(Clone, Debug)]
pub struct KeyedRng(ChaCha8Rng);

impl KeyedRng {
    /// The stream of `purpose` for the trial with this number.
    pub fn new(seed: u64, number: u64, purpose: &str) -> Self {
        let mut key = [0; 32];
        let words = [
            seed,
            number,
            fnv1a(FNV_BASIS, purpose),
            // A second sum over the same text, so that names that share the first do not share a stream.
            fnv1a(FNV_BASIS ^ purpose.len() as u64, purpose),
        ];
        for (bytes, word) in key.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to below 1, one of 2^53 that lie evenly.
    pub fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let bits = (self.next_u64() >> 11) as f64;
        bits * (f64::EPSILON / 2.0)
    }

    /// A number strictly between 0 and 1: what inverse distribution functions take.
    pub fn open_unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "52 bits and a half are exact")]
        let bits = (self.next_u64() >> 12) as f64 + 0.5;
        bits * f64::EPSILON
    }

    /// A whole number from 0 to below `n`, each as likely; 0 when `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // Those products whose low word is short of this would make some numbers likelier.
        let short = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            #[expect(clippy::cast_possible_truncation, reason = "its two halves")]
            let (high, low) = ((product >> 64) as u64, product as u64);
            if low >= short {
                return high;
            }
        }
    }

    /// A place in a list of `len` items; 0 when it is empty.
    pub fn place(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).unwrap_or_default()
    }

    /// A number of the standard normal distribution.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.open_unit())).sqrt();
        radius * libm::cos(std::f64::consts::TAU * self.unit())
    }

    /// Puts the items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.place(at + 1));
        }
    }
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a over the bytes of a text, from any start.
fn fnv1a(start: u64, text: &str) -> u64 {
    text.bytes().fold(start, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(seed: u64, number: u64, purpose: &str) -> u64 {
        KeyedRng::new(seed, number, purpose).next_u64()
    }

    #[test]
    fn the_streams_are_those_of_an_independent_implementation() {
        assert_eq!(first(0, 0, ""), 0xb33e_cba3_97ef_5a4c);
        assert_eq!(first(42, 7, "lr"), 0xb4a9_40a0_984f_761e);
        let unit = KeyedRng::new(42, 7, "lr").unit();
        assert!((unit - 0.705_707_587_440_256_5).abs() < 1e-15);
    }

    #[test]
    fn another_seed_number_or_purpose_is_another_stream() {
        let mut all = vec![first(1, 2, "x"), first(2, 1, "x"), first(1, 1, "x")];
        all.extend([
            first(1, 2, "y"),
            first(1, 2, ""),
            first(1, 2, "x\0"),
            first(1, 2, "xx"),
        ]);
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert_eq!(first(1, 2, "x"), first(1, 2, "x"));
    }

    #[test]
    fn numbers_below_a_bound_are_all_drawn_and_equally_often() {
        let mut rng = KeyedRng::new(3, 0, "counts");
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[rng.place(7)] += 1;
        }
        // Six standard deviations of a binomial count of 10,000.
        assert!(
            counts.iter().all(|n| n.abs_diff(10_000) < 560),
            "{counts:?}"
        );
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
    }

    #[test]
    fn unit_and_normal_numbers_have_their_moments() {
        let mut rng = KeyedRng::new(4, 0, "moments");
        let n = 100_000;
        let (mut sum, mut normal, mut square) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            let unit = rng.unit();
            assert!((0.0..1.0).contains(&unit));
            sum += unit;
            let drawn = rng.normal();
            normal += drawn;
            square += drawn * drawn;
        }
        let n = f64::from(n);
        assert!((sum / n - 0.5).abs() < 0.005);
        assert!((normal / n).abs() < 0.02);
        assert!((square / n - 1.0).abs() < 0.03);
    }
}
