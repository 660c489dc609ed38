//! The decoded blocks that are kept: a few of a segment that was opened by itself, or a bounded number of bytes for all
//! segments of a store together.

use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

/// Bytes of decoded blocks kept for a segment that was opened without a cache to share.
pub const BLOCK_CACHE_LEN: usize = 512 * 1024;
/// What most blocks take.
const BLOCK_LEN_USUAL: usize = 128 * 1024;
/// So many blocks that were asked for and are not kept are remembered: few enough to stay small, and so many that two
/// which are asked for in turn rarely have one place.
const ASKED_MIN: usize = 64;
const ASKED_MAX: usize = 1 << 16;

/// A decoded block, or only the front of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decoded {
    /// Memory for the whole block; what is behind `len` has no meaning.
    pub(crate) bytes: Vec<u8>,
    /// How many bytes of it are decoded.
    pub(crate) len: usize,
}

impl Decoded {
    /// Memory for a block of `len` bytes, of which nothing is decoded yet. New memory is as much as `usual` at least,
    /// so that the next block fits into it.
    pub(crate) fn room_for(&mut self, len: usize, usual: usize) -> &mut [u8] {
        self.len = 0;
        if self.bytes.len() < len {
            self.bytes = vec![0; len.max(usual)];
        }
        self.bytes.get_mut(..len).unwrap_or_default()
    }

    /// The decoded bytes.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

/// Decoded record blocks, those used longest ago given up first. Copies share what is kept, so that many open segments
/// together stay within one bound.
///
/// A block is kept when it is asked for a second time: most blocks that a lookup passes are not needed again soon, and
/// one that is not kept is decoded into memory that is near the processor already.
#[derive(Clone, Debug)]
pub struct BlockCache {
    slots: Arc<Mutex<Slots>>,
}

/// A segment's name in the caches. Never given twice, so that nothing is taken for the block of another segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Owner(u64);

impl Owner {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

type Key = (Owner, usize);

/// What a cache knows of a block.
#[derive(Debug)]
pub(crate) enum Known {
    /// It is kept.
    Kept(Arc<Decoded>),
    /// It was asked for not long ago: it should be kept now.
    Wanted,
    /// It was not asked for lately.
    Unknown,
}

/// One lock, never held while bytes are read or decoded.
#[derive(Debug)]
struct Slots {
    len_max: usize,
    /// Bytes of all blocks.
    len: usize,
    /// Counts uses.
    now: u64,
    blocks: HashMap<Key, Slot, RandomState>,
    /// The same by their last use.
    by_use: BTreeMap<u64, Key>,
    /// Blocks that were asked for lately, each in the place that its hash names.
    asked: Box<[Option<Key>]>,
}

#[derive(Debug)]
struct Slot {
    /// When it was used last.
    used: u64,
    block: Arc<Decoded>,
}

impl BlockCache {
    /// Keeps at most `len_max` bytes; 0 keeps nothing.
    pub fn new(len_max: usize) -> Self {
        // About as many as could be kept.
        let asked = (len_max / BLOCK_LEN_USUAL).clamp(ASKED_MIN, ASKED_MAX);
        let asked = asked.next_power_of_two();
        Self {
            slots: Arc::new(Mutex::new(Slots {
                len_max,
                len: 0,
                now: 0,
                blocks: HashMap::default(),
                by_use: BTreeMap::new(),
                asked: vec![None; asked].into(),
            })),
        }
    }

    /// Bytes that the blocks kept take in memory.
    pub fn resident_len(&self) -> usize {
        self.slots().len
    }

    /// Those of one segment.
    pub(crate) fn resident_len_of(&self, owner: Owner) -> usize {
        let slots = self.slots();
        let own = slots.blocks.iter().filter(|((of, _), _)| *of == owner);
        own.map(|(_, slot)| slot.block.bytes.capacity()).sum()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a block.
    pub(crate) fn ask(&self, owner: Owner, index: usize) -> Known {
        let key = (owner, index);
        let mut slots = self.slots();
        let slots = &mut *slots;
        if let Some(slot) = slots.blocks.get_mut(&key) {
            slots.now += 1;
            slots.by_use.remove(&slot.used);
            slots.by_use.insert(slots.now, key);
            slot.used = slots.now;
            return Known::Kept(Arc::clone(&slot.block));
        }
        if slots.len_max == 0 {
            return Known::Unknown;
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "any bits of the hash will do"
        )]
        let place = slots.blocks.hasher().hash_one(key) as usize & (slots.asked.len() - 1);
        let asked = slots.asked.get_mut(place);
        match asked.and_then(|asked| asked.replace(key)) {
            Some(before) if before == key => Known::Wanted,
            _ => Known::Unknown,
        }
    }

    /// Memory for a block of about `len` bytes that is about to be decoded and kept: that of the block used longest ago
    /// when there is no room for another one and nobody reads it any more.
    pub(crate) fn spare(&self, len: usize) -> Decoded {
        let mut slots = self.slots();
        let is_full = slots.len.saturating_add(len) > slots.len_max;
        let oldest = if is_full { slots.take_oldest() } else { None };
        drop(slots);
        oldest
            .and_then(|block| Arc::try_unwrap(block).ok())
            .unwrap_or_default()
    }

    /// Keeps a whole decoded block, unless it is kept already.
    pub(crate) fn put(&self, owner: Owner, index: usize, block: &Arc<Decoded>) {
        let len = block.bytes.capacity();
        let key = (owner, index);
        let mut slots = self.slots();
        // Another thread may have decoded the same block meanwhile.
        if len > slots.len_max || slots.blocks.contains_key(&key) {
            return;
        }
        while slots.len.saturating_add(len) > slots.len_max && slots.take_oldest().is_some() {}
        slots.now += 1;
        let slot = Slot {
            used: slots.now,
            block: Arc::clone(block),
        };
        slots.len += len;
        slots.by_use.insert(slot.used, key);
        slots.blocks.insert(key, slot);
    }

    /// Gives up the blocks of a segment that is closed.
    pub(crate) fn forget(&self, owner: Owner) {
        let mut slots = self.slots();
        let own = slots.blocks.keys().filter(|(of, _)| *of == owner);
        let own: Vec<Key> = own.copied().collect();
        for key in own {
            slots.take(key);
        }
    }
}

impl Slots {
    fn take(&mut self, key: Key) -> Option<Arc<Decoded>> {
        let slot = self.blocks.remove(&key)?;
        self.by_use.remove(&slot.used);
        self.len = self.len.saturating_sub(slot.block.bytes.capacity());
        Some(slot.block)
    }

    fn take_oldest(&mut self) -> Option<Arc<Decoded>> {
        let (_, key) = self.by_use.first_key_value()?;
        self.take(*key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(len: usize) -> Arc<Decoded> {
        let bytes = vec![0; len];
        Arc::new(Decoded { bytes, len })
    }

    fn is_kept(cache: &BlockCache, owner: Owner, index: usize) -> bool {
        matches!(cache.ask(owner, index), Known::Kept(_))
    }

    #[test]
    fn the_block_used_longest_ago_makes_room() {
        let cache = BlockCache::new(40);
        let owner = Owner::new();
        for index in 0..4 {
            cache.put(owner, index, &decoded(10));
        }
        assert!(is_kept(&cache, owner, 0));
        cache.put(owner, 9, &decoded(10));
        assert!(!is_kept(&cache, owner, 1), "1 was used longest ago");
        assert!(is_kept(&cache, owner, 0) && is_kept(&cache, owner, 9));
        assert_eq!(cache.resident_len(), 40);
        cache.put(owner, 10, &decoded(25));
        assert_eq!(
            cache.resident_len(),
            35,
            "a longer one takes the place of several"
        );
        cache.put(owner, 11, &decoded(41));
        assert!(
            !is_kept(&cache, owner, 11),
            "there is never room for that one"
        );
    }

    #[test]
    fn a_block_is_wanted_when_it_is_asked_for_again_and_not_before() {
        let cache = BlockCache::new(1 << 20);
        let (one, other) = (Owner::new(), Owner::new());
        assert!(matches!(cache.ask(one, 7), Known::Unknown));
        assert!(matches!(cache.ask(one, 7), Known::Wanted));
        assert!(matches!(cache.ask(other, 7), Known::Unknown));
        let none = BlockCache::new(0);
        for _ in 0..3 {
            assert!(matches!(none.ask(one, 7), Known::Unknown), "it keeps none");
        }
    }

    #[test]
    fn segments_share_the_room_but_never_a_block_and_leave_nothing_behind() {
        let cache = BlockCache::new(40);
        let (one, other) = (Owner::new(), Owner::new());
        cache.put(one, 0, &decoded(10));
        assert!(!is_kept(&cache, other, 0));
        cache.put(other, 0, &decoded(20));
        assert_eq!(cache.resident_len_of(one), 10);
        assert_eq!(cache.resident_len_of(other), 20);
        cache.forget(other);
        assert_eq!(cache.resident_len(), 10);
        assert!(is_kept(&cache, one, 0) && !is_kept(&cache, other, 0));
    }

    #[test]
    fn the_memory_of_a_block_is_used_again_only_when_nobody_reads_it() {
        let cache = BlockCache::new(40);
        let owner = Owner::new();
        let read = decoded(10);
        cache.put(owner, 0, &read);
        assert_eq!(cache.spare(10).bytes.capacity(), 0, "there is room left");
        for index in 1..4 {
            cache.put(owner, index, &decoded(10));
        }
        assert_eq!(cache.spare(10).bytes.capacity(), 0, "block 0 is being read");
        cache.put(owner, 0, &decoded(10));
        assert_eq!(cache.spare(10).bytes.capacity(), 10, "block 1 is not");
    }
}
