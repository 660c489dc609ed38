//! The choices of a simulated power cut, all from one seed.

/// `SplitMix64`: small, and the same sequence for a seed on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed of its own for every combination of `parts`.
    pub(crate) fn seed_of(parts: &[u64]) -> u64 {
        parts.iter().fold(0, |seed, part| {
            Self(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)).next()
        })
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number of `0..=max`.
    pub(crate) fn up_to(&mut self, max: usize) -> usize {
        let span = (max as u64).saturating_add(1);
        usize::try_from(self.next() % span).unwrap_or(max)
    }

    /// A number of `low..=high`; `low` when they cross.
    pub(crate) fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.up_to(high.saturating_sub(low))
    }
}

/// Which of a row of unsynced changes reached the disk.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// The first so many: a disk that writes in order.
    Prefix(usize),
    /// All but one: a hole.
    AllBut(usize),
    /// Each with so many chances in eight.
    Coins(usize, Random),
}

impl Pattern {
    /// Draws a pattern for `count` changes. None and all are drawn often, because a mix of whole
    /// and missing files tells more than many half ones.
    pub(crate) fn draw(random: &mut Random, count: usize) -> Self {
        match random.up_to(4) {
            0 => Self::Prefix(0),
            1 => Self::Prefix(count),
            2 => Self::Prefix(random.up_to(count)),
            3 => Self::AllBut(random.up_to(count.saturating_sub(1))),
            _ => {
                let chances = random.between(1, 7);
                Self::Coins(chances, Random::new(random.next()))
            }
        }
    }

    /// Whether change number `index` survives. Asked once for each, in order.
    pub(crate) fn keeps(&mut self, index: usize) -> bool {
        match self {
            Self::Prefix(count) => index < *count,
            Self::AllBut(missing) => index != *missing,
            Self::Coins(chances, random) => random.up_to(7) < *chances,
        }
    }
}
