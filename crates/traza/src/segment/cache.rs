//! The few decoded blocks that an open segment keeps.

use std::sync::{Arc, Mutex, PoisonError};

/// Blocks kept per open segment.
pub const BLOCK_CACHE_SLOTS: usize = 4;

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

/// The blocks decoded last, the latest first. One lock, never held while bytes are read or decoded.
#[derive(Debug, Default)]
pub(crate) struct BlockCache {
    slots: Mutex<Vec<(usize, Arc<Decoded>)>>,
}

impl BlockCache {
    /// The first `len` bytes of the block at least, if they are kept.
    pub(crate) fn get(&self, index: usize, len: usize) -> Option<Arc<Decoded>> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |(kept, block): &(usize, Arc<Decoded>)| *kept == index && block.len >= len;
        let at = slots.iter().position(is_it)?;
        let found = slots.remove(at);
        let block = Arc::clone(&found.1);
        slots.insert(0, found);
        Some(block)
    }

    /// Memory for a block that is about to be decoded: that of the block used longest ago when there are
    /// as many as may be kept and nobody reads it any more.
    pub(crate) fn spare(&self) -> Decoded {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = slots.len() >= BLOCK_CACHE_SLOTS;
        let oldest = if is_full { slots.pop() } else { None };
        drop(slots);
        oldest
            .and_then(|(_, block)| Arc::try_unwrap(block).ok())
            .unwrap_or_default()
    }

    /// Keeps a decoded block, in place of a shorter front of it.
    pub(crate) fn put(&self, index: usize, block: &Arc<Decoded>) {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have decoded the same block meanwhile, and more of it.
        if slots
            .iter()
            .any(|(kept, known)| *kept == index && known.len >= block.len)
        {
            return;
        }
        slots.retain(|(kept, _)| *kept != index);
        slots.insert(0, (index, Arc::clone(block)));
        slots.truncate(BLOCK_CACHE_SLOTS);
    }

    /// Bytes of all blocks kept.
    pub(crate) fn resident_len(&self) -> usize {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.iter().map(|(_, block)| block.bytes.capacity()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(len: usize) -> Arc<Decoded> {
        let bytes = vec![0; len];
        Arc::new(Decoded { bytes, len })
    }

    #[test]
    fn the_block_used_longest_ago_makes_room() {
        let cache = BlockCache::default();
        for index in 0..BLOCK_CACHE_SLOTS {
            cache.put(index, &decoded(10));
        }
        assert!(cache.get(0, 10).is_some());
        cache.put(9, &decoded(10));
        assert!(cache.get(1, 10).is_none(), "1 was used longest ago");
        assert!(cache.get(0, 10).is_some() && cache.get(9, 10).is_some());
        assert_eq!(cache.resident_len(), 10 * BLOCK_CACHE_SLOTS);
    }

    #[test]
    fn a_front_of_a_block_serves_what_it_holds_and_gives_way_to_more_of_it() {
        let cache = BlockCache::default();
        cache.put(0, &decoded(10));
        assert!(cache.get(0, 10).is_some() && cache.get(0, 11).is_none());
        cache.put(0, &decoded(20));
        cache.put(0, &decoded(10));
        assert_eq!(cache.get(0, 5).map(|block| block.len), Some(20));
        assert_eq!(cache.resident_len(), 20);
    }

    #[test]
    fn the_memory_of_a_block_is_used_again_only_when_nobody_reads_it() {
        let cache = BlockCache::default();
        let read = decoded(10);
        cache.put(0, &read);
        assert_eq!(cache.spare().bytes.capacity(), 0, "there is room left");
        for index in 1..BLOCK_CACHE_SLOTS {
            cache.put(index, &decoded(10));
        }
        assert_eq!(cache.spare().bytes.capacity(), 0, "block 0 is being read");
        cache.put(0, &decoded(10));
        assert_eq!(cache.spare().bytes.capacity(), 10, "block 1 is not");
    }
}
