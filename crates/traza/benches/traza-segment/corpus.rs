//! The segment files of one corpus.

use std::path::{Path, PathBuf};

use durable::{Fs as _, RealFs};
use traza::segment::{BlockCache, Segment};
use traza::store::StoreOptions;

use crate::Result;
use crate::spans::{Profile, Spans};

/// What spans there are, and how many go into a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) profile: Profile,
    pub(crate) spans: u64,
    pub(crate) per_segment: u64,
}

impl Size {
    pub(crate) fn name(&self) -> String {
        let thousands = |count: u64| count / 1000;
        format!(
            "{} {}k in segments of {}k",
            self.profile.name(),
            thousands(self.spans),
            thousands(self.per_segment)
        )
    }

    pub(crate) fn segments(&self) -> u64 {
        self.spans.div_ceil(self.per_segment)
    }
}

/// A corpus and the folder of its segments.
#[derive(Debug)]
pub(crate) struct Corpus {
    pub(crate) size: Size,
    dir: PathBuf,
}

impl Corpus {
    pub(crate) fn new(size: Size, scratch: &Path) -> Result<Self> {
        let dir = scratch.join(size.profile.name());
        RealFs.create_dir(&dir)?;
        Ok(Self { size, dir })
    }

    /// The spans, which are the same every time.
    pub(crate) fn spans(&self) -> Spans {
        Spans::new(self.size.profile, 7)
    }

    pub(crate) fn path(&self, segment: u64) -> PathBuf {
        self.dir.join(format!("segment-{segment:020}.seg"))
    }

    /// Opens all segments, the oldest first, with a cache that they share.
    pub(crate) fn open(&self) -> Result<Vec<Segment>> {
        self.open_with(StoreOptions::default().block_cache_len)
    }

    /// The same with a cache of so many bytes.
    pub(crate) fn open_with(&self, cache_len: usize) -> Result<Vec<Segment>> {
        let cache = BlockCache::new(cache_len);
        (0..self.size.segments())
            .map(|segment| Ok(Segment::open_with(&RealFs, &self.path(segment), &cache)?))
            .collect()
    }

    pub(crate) fn remove(&self) -> Result<()> {
        for path in RealFs.read_dir(&self.dir)? {
            RealFs.remove_file(&path)?;
        }
        Ok(RealFs.remove_dir(&self.dir)?)
    }
}
