//! Opens a store to ask it, beside its writer or where nothing can be written.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Clock, Fs, RealFs, SystemClock};

use super::erase::Mask;
use super::error::{During as _, Result, StoreError};
use super::generation::{self, Manifest};
use super::line_logs::LineLogs;
use super::open::{Loaded, Logged, Opened};
use super::options::{StoreOptions, Upkeep};
use super::sealed::{Home, Sealed};
use super::{Store, View, Writer, layout, migrate};
use crate::segment::BlockCache;
use crate::segment::SegmentError;
use crate::wal::{Commit, Stamp};

/// How often a store that is being changed is looked at again. A change of its segments takes longer than a look.
const ATTEMPTS: usize = 64;

impl Store {
    /// Opens a store for reading only. It writes nothing, takes no lock, and stays as the store was at one moment: what
    /// is taken in, merged or expired afterwards does not change its answers.
    ///
    /// # Errors
    /// [`StoreError::NoStore`], [`StoreError::Older`] for one that must be migrated first; otherwise as [`Store::open`].
    pub fn open_read_only(dir: &Path, options: StoreOptions) -> Result<Self> {
        let clock = Arc::new(SystemClock::start());
        Self::open_read_only_with(Arc::new(RealFs), clock, dir, options)
    }

    /// [`Store::open_read_only`] on another file system and with another clock.
    ///
    /// # Errors
    /// Those of [`Store::open_read_only`].
    pub fn open_read_only_with(
        fs: Arc<dyn Fs>,
        clock: Arc<dyn Clock>,
        dir: &Path,
        mut options: StoreOptions,
    ) -> Result<Self> {
        options.upkeep = Upkeep::Inline;
        let home = Home {
            fs,
            dir: dir.to_owned(),
            pricing: Arc::clone(&options.pricing),
            blocks: BlockCache::new(options.block_cache_len),
            meters: Arc::default(),
            is_writable: false,
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            match look(&home) {
                Ok(Some((loaded, opened))) => {
                    return Ok(Self::of(home, clock, options, loaded, None, opened));
                }
                // It was changed meanwhile, which can look like damage.
                Ok(None) | Err(_) if attempts < ATTEMPTS && is_changing(&home)? => {}
                Ok(None) if attempts < ATTEMPTS => {}
                Ok(None) => {
                    return Err(StoreError::Invalid {
                        what: "the store is changed faster than it can be read".to_owned(),
                    });
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// True when somebody writes the store now.
fn is_changing(home: &Home) -> Result<bool> {
    let path = home.dir.join(super::lock::FILE_NAME);
    home.fs.exists(&path).during("look for", &path)
}

/// Names and lengths of the segments.
type Listing = Vec<(u64, u64)>;

/// One look. Nothing when the segments were changed while the log was read: then spans could be in neither.
fn look(home: &Home) -> Result<Option<(Loaded, Opened)>> {
    let (fs, dir) = (home.fs.as_ref(), home.dir.as_path());
    let before = list(fs, dir)?;
    let (live, fold) = match generation::current(fs, dir)? {
        Some(id) => (id, Manifest::read(fs, dir, id)?.folded_through.into()),
        None => (0, Stamp::default()),
    };
    let segments = before
        .iter()
        .map(|(id, _)| Ok(Arc::new(Sealed::open(home, *id)?)))
        .collect::<Result<Vec<_>>>()
        .map_err(|error| older(error, dir))?;
    if !migrate::are_current(fs, dir)? {
        // Of a release that knew no indexes yet.
        return Err(StoreError::Older {
            path: dir.to_owned(),
        });
    }
    let logged = Logged::read(fs, dir, fold)?;
    if list(fs, dir)? != before {
        return Ok(None);
    }
    let mut opened = Opened {
        generation: live,
        ..Opened::default()
    };
    opened.take(&logged);
    let logs = LineLogs::read_only(&home.fs, dir)?;
    let mask = Arc::new(Mask::of(logs.tombstones().pending()));
    let loaded = Loaded {
        logs,
        writer: Writer {
            generation: live,
            ..Writer::default()
        },
        commit: Commit::default(),
        view: View {
            buffer: logged.buffer,
            segments: segments.into(),
            mask,
        },
    };
    Ok(Some((loaded, opened)))
}

/// Says what to do about a segment of an older version.
fn older(error: StoreError, dir: &Path) -> StoreError {
    match error {
        StoreError::Segment {
            source: SegmentError::Version { found, newest },
            ..
        } if found < newest => StoreError::Older {
            path: dir.to_owned(),
        },
        other => other,
    }
}

fn list(fs: &dyn Fs, dir: &Path) -> Result<Listing> {
    let no_store = || StoreError::NoStore {
        path: PathBuf::from(dir),
    };
    let segments = match layout::segments(fs, dir) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Err(no_store());
        }
        other => other?,
    };
    let mut listing = Listing::new();
    for (id, path) in segments {
        let len = fs.metadata(&path).during("look at", &path)?.len;
        listing.push((id, len));
    }
    if listing.is_empty() && generation::current(fs, dir)?.is_none() {
        return Err(no_store());
    }
    Ok(listing)
}
