//! The distinct words of some records, numbered by first occurrence.

use std::collections::HashMap;
use std::hash::BuildHasher as _;

use foldhash::fast::RandomState;

use super::tokens::Token;
use crate::content::FILTER_KEY_LEN_MAX;
use crate::digest::{Digest, hash128};

/// Distinct filter keys.
#[derive(Default)]
pub(super) struct Vocabulary {
    /// Those that fit a number.
    short: ShortWords,
    long: HashMap<Box<[u8]>, Word, RandomState>,
    digests: Vec<Digest>,
}

/// A filter key in one of the two forms that the vocabulary keeps.
pub(super) enum Key<'a> {
    Short(u128),
    Long(&'a [u8]),
}

/// What is known about a filter key.
#[derive(Clone, Copy, Default)]
struct Word {
    /// Its place in the vocabulary.
    number: u32,
    /// The block in which it was seen last.
    block: u32,
}

impl Vocabulary {
    /// The number of the token's key, unless it was seen in this block before.
    #[inline]
    pub(super) fn add(&mut self, token: Token<'_>, block: u32) -> Option<u32> {
        let known = match token.short_key() {
            Some(key) => self.short.get_mut(key),
            None => self
                .long
                .get_mut(token.long_key(&mut [0; FILTER_KEY_LEN_MAX])),
        };
        let Some(word) = known else {
            return Some(self.insert(token, block));
        };
        let last = std::mem::replace(&mut word.block, block);
        (last != block).then_some(word.number)
    }

    #[cold]
    fn insert(&mut self, token: Token<'_>, block: u32) -> u32 {
        let number = u32::try_from(self.digests.len()).unwrap_or(u32::MAX);
        let word = Word { number, block };
        let mut folded = [0; FILTER_KEY_LEN_MAX];
        let key = token.long_key(&mut folded);
        self.digests.push(hash128(key));
        match token.short_key() {
            Some(short) => self.short.insert(short, word),
            None => {
                self.long.insert(key.into(), word);
            }
        }
        number
    }

    /// The digest of a word by its number.
    pub(super) fn digest(&self, number: u32) -> Option<Digest> {
        self.digests.get(number as usize).copied()
    }

    pub(super) fn contains(&self, key: &Key<'_>) -> bool {
        match key {
            Key::Short(key) => self.short.contains(*key),
            Key::Long(key) => self.long.contains_key(*key),
        }
    }

    /// All keys with their digests, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Key<'_>, Digest)> {
        let short = self.short.iter().map(|(key, word)| (Key::Short(key), word));
        let long = self.long.iter().map(|(key, word)| (Key::Long(key), *word));
        short
            .chain(long)
            .filter_map(|(key, word)| Some((key, self.digest(word.number)?)))
    }
}

/// A hash table of short keys. Nearly every word of a text is looked up here, and most of them are in it.
struct ShortWords {
    /// A power of two, of which at most half is filled; the key 0, which is none, marks the free ones.
    slots: Vec<(u128, Word)>,
    len: usize,
    /// Secret, so that nobody can choose words that collide.
    seeds: [u64; 2],
}

impl Default for ShortWords {
    fn default() -> Self {
        let random = RandomState::default();
        Self {
            slots: vec![(0, Word::default()); 1 << 10],
            len: 0,
            seeds: [random.hash_one(0u64), random.hash_one(1u64)],
        }
    }
}

impl ShortWords {
    /// Where the key is, or where it belongs.
    #[inline]
    fn place(&self, key: u128) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
        let (low, high) = (key as u64, (key >> 64) as u64);
        let product = u128::from(low ^ self.seeds[0]) * u128::from(high ^ self.seeds[1]);
        let mut place = ((product >> 64) ^ product) as usize;
        let mask = self.slots.len() - 1;
        loop {
            place &= mask;
            match self.slots.get(place) {
                Some((found, _)) if *found != 0 && *found != key => place += 1,
                _ => return place,
            }
        }
    }

    #[inline]
    fn get_mut(&mut self, key: u128) -> Option<&mut Word> {
        let place = self.place(key);
        self.slots
            .get_mut(place)
            .filter(|(found, _)| *found == key)
            .map(|(_, word)| word)
    }

    fn contains(&self, key: u128) -> bool {
        self.slots
            .get(self.place(key))
            .is_some_and(|(found, _)| *found == key)
    }

    /// Adds a key that is not there.
    fn insert(&mut self, key: u128, word: Word) {
        self.len += 1;
        if self.len * 2 > self.slots.len() {
            let larger = vec![(0, Word::default()); self.slots.len() * 2];
            for (key, word) in std::mem::replace(&mut self.slots, larger) {
                if key != 0 {
                    self.put(key, word);
                }
            }
        }
        self.put(key, word);
    }

    fn put(&mut self, key: u128, word: Word) {
        let place = self.place(key);
        if let Some(slot) = self.slots.get_mut(place) {
            *slot = (key, word);
        }
    }

    fn iter(&self) -> impl Iterator<Item = (u128, Word)> {
        self.slots.iter().filter(|(key, _)| *key != 0).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::encode::tokens::each_token;
    use std::collections::BTreeSet;

    #[test]
    fn a_word_is_told_once_per_block_under_one_number() {
        let mut vocabulary = Vocabulary::default();
        let mut add = |text: &str, block| {
            let mut told = Vec::new();
            each_token(text.as_bytes(), |token| {
                told.extend(vocabulary.add(token, block));
            });
            told
        };
        let long = "anexceptionallylongword";
        assert_eq!(add(&format!("a b A {long} {long} b"), 0), [0, 1, 2]);
        assert_eq!(add(&format!("b {long} c"), 0), [3]);
        assert_eq!(add(&format!("c a {long} c"), 1), [3, 0, 2]);
    }

    #[test]
    fn a_vocabulary_of_many_words_holds_each_of_them() {
        let mut vocabulary = Vocabulary::default();
        let words: BTreeSet<String> = (0..5000u64)
            .map(|number| format!("w{:x}", number * 7919))
            .collect();
        let text = words.iter().cloned().collect::<Vec<_>>().join(" ");
        let mut count = 0;
        for block in 0..2 {
            each_token(text.as_bytes(), |token| {
                count += vocabulary.add(token, block).iter().count();
            });
        }
        assert_eq!(count, 2 * words.len());
        let digests: BTreeSet<Digest> = vocabulary.iter().map(|(_, digest)| digest).collect();
        assert_eq!(
            digests,
            words.iter().map(|word| hash128(word.as_bytes())).collect()
        );
        assert!(vocabulary.iter().all(|(key, _)| vocabulary.contains(&key)));
        assert!(
            !vocabulary.contains(&Key::Short(1)) && !vocabulary.contains(&Key::Long(b"absent"))
        );
    }
}
