//! A rotated set: how its files are named, and reading them as one stream.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Fs, RealFs, parent_of};

use super::codec::FileHeader;
use super::error::{Error, Fault, Result, Section};
use super::frame::{FrameRecord, FrameRef};
use super::layout::{FILE_MAGIC, file_header};
use super::player::{JournalPlayer, PlayerOptions};

/// The path of segment `ordinal` of the set that starts at `base`: the ordinal goes before the last
/// extension; a name without an extension gets `.N` appended. Segment 0 is `base` itself.
pub fn segment_path(base: &Path, ordinal: u64) -> PathBuf {
    if ordinal == 0 {
        return base.to_owned();
    }
    let mut name = base.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{ordinal}"));
    if let Some(extension) = base.extension() {
        name.push(".");
        name.push(extension);
    }
    base.with_file_name(name)
}

/// The files of the set that starts at `base`, in order, up to the first missing ordinal. A journal
/// that was written without rotation is a set of one.
///
/// # Errors
/// `Io` when `base` cannot be read.
pub fn segment_paths(base: impl AsRef<Path>) -> Result<Vec<PathBuf>> {
    segment_paths_on(&RealFs, base.as_ref())
}

/// [`segment_paths`] on a given file system.
pub(crate) fn segment_paths_on(fs: &dyn Fs, base: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = vec![base.to_owned()];
    if !starts_a_set(fs, base)? {
        return Ok(paths);
    }
    loop {
        let next = segment_path(base, paths.len() as u64);
        if !fs.exists(&next).map_err(Error::io("look at", &next))? {
            return Ok(paths);
        }
        paths.push(next);
    }
}

/// True when the file at `base` says that it is segment 0 of a rotated set. A header that cannot be
/// judged answers false: opening the file will say what is wrong with it.
pub(crate) fn starts_a_set(fs: &dyn Fs, base: &Path) -> Result<bool> {
    let file = fs.open(base).map_err(Error::io("open", base))?;
    let mut bytes = [0; file_header::LEN];
    match file.read_exact_at(0, &mut bytes) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
        Err(e) => {
            return Err(Error::Io {
                op: "read",
                path: base.to_owned(),
                source: e,
            });
        }
    }
    let is_journal = file_header::MAGIC
        .of(&bytes)
        .is_ok_and(|magic| magic == FILE_MAGIC);
    let header = FileHeader::decode(&bytes);
    Ok(is_journal && header.is_ok_and(|h| h.is_segmented() && h.segment_index == 0))
}

/// The continuation segments of `base` that the folder holds, whatever is missing between them,
/// sorted by ordinal.
pub(crate) fn segments_on_disk(fs: &dyn Fs, base: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let folder = parent_of(base);
    let entries = match fs.read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => {
            return Err(Error::Io {
                op: "list",
                path: folder.to_owned(),
                source: e,
            });
        }
    };
    let mut found: Vec<(u64, PathBuf)> = entries
        .into_iter()
        .filter_map(|entry| {
            let (stem, ordinal) = split_ordinal(&entry)?;
            (stem == base.file_name()?).then(|| (ordinal, segment_path(base, ordinal)))
        })
        .collect();
    found.sort();
    Ok(found)
}

/// The name of segment 0 and the ordinal that a continuation segment's name spells; `None` when
/// the name is not of that form.
pub(crate) fn split_ordinal(path: &Path) -> Option<(std::ffi::OsString, u64)> {
    let parse = |digits: &str| -> Option<u64> {
        let ordinal = digits.parse().ok()?;
        // `run.01.omni` and `run.+1.omni` are other files.
        (ordinal > 0 && digits == format!("{ordinal}")).then_some(ordinal)
    };
    let extension = path.extension()?;
    let stem = Path::new(path.file_stem()?);
    if let Some(ordinal) = stem.extension().and_then(|e| e.to_str()).and_then(parse) {
        let mut name = stem.file_stem()?.to_owned();
        name.push(".");
        name.push(extension);
        return Some((name, ordinal));
    }
    let ordinal = parse(extension.to_str()?)?;
    stem.extension()
        .is_none()
        .then(|| (stem.as_os_str().to_owned(), ordinal))
}

/// The files that an attestation keeps beside segment 0: leaves, then note.
pub(crate) fn sidecar_paths(base: &Path) -> [PathBuf; 2] {
    [".leaves", ".checkpoint"].map(|suffix| {
        let mut name = base.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    })
}

/// A rotated set as one stream; a journal without rotation behaves the same.
#[derive(Debug)]
pub struct SegmentedPlayer {
    fs: Arc<dyn Fs>,
    options: PlayerOptions,
    base: PathBuf,
    paths: Vec<PathBuf>,
    ordinal: usize,
    current: JournalPlayer,
    last_tick: u64,
    ended: bool,
}

impl SegmentedPlayer {
    /// Opens the set that starts at `base`.
    pub fn open(base: impl AsRef<Path>) -> Result<Self> {
        Self::open_with(Arc::new(RealFs), base, PlayerOptions::default())
    }

    /// Opens the set that starts at `base` on a given file system.
    ///
    /// # Errors
    /// As [`JournalPlayer::open`] for segment 0.
    pub fn open_with(
        fs: Arc<dyn Fs>,
        base: impl AsRef<Path>,
        options: PlayerOptions,
    ) -> Result<Self> {
        let base = base.as_ref().to_owned();
        let paths = segment_paths_on(fs.as_ref(), &base)?;
        let current = JournalPlayer::open_with(fs.as_ref(), &base, options)?;
        Ok(Self {
            fs,
            options,
            base,
            paths,
            ordinal: 0,
            current,
            last_tick: 0,
            ended: false,
        })
    }

    /// The files of the set behind the first missing ordinal: reading never comes to them.
    ///
    /// # Errors
    /// `Io` when the folder cannot be listed.
    pub fn stranded_paths(&self) -> Result<Vec<PathBuf>> {
        if !starts_a_set(self.fs.as_ref(), &self.base)? {
            return Ok(Vec::new());
        }
        let reached = self.paths.len() as u64;
        let on_disk = segments_on_disk(self.fs.as_ref(), &self.base)?;
        let stranded = on_disk.into_iter().filter(|(n, _)| *n >= reached);
        Ok(stranded.map(|(_, path)| path).collect())
    }

    /// Answers whether the stream, read to its end, was the whole set.
    ///
    /// # Errors
    /// `Corrupt` when files stand behind a missing segment.
    pub fn check_complete(&self) -> Result<()> {
        let Some(later) = self.stranded_paths()?.into_iter().next() else {
            return Ok(());
        };
        Err(Error::Corrupt {
            path: self.current.path().to_owned(),
            section: Section::SegmentSet,
            offset: self.current.position(),
            tick: Some(self.current.last_tick()),
            fault: Fault::SegmentMissing {
                missing: self.paths.len() as u64,
                later,
            },
        })
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.paths.len()
    }

    /// The files, in order.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Records in all sealed segments, from their trailers; `None` when none is sealed. A segment that is
    /// still being written does not count.
    pub fn record_count(&self) -> Result<Option<u64>> {
        let mut total: Option<u64> = None;
        for ordinal in 0..self.paths.len() {
            let segment = self.open_if_begun(ordinal)?;
            if let Some(count) = segment.and_then(|segment| segment.record_count()) {
                total = Some(total.unwrap_or(0).saturating_add(count));
            }
        }
        Ok(total)
    }

    /// True when a segment that was read to its end ended in a torn record.
    pub fn is_truncated(&self) -> bool {
        self.current.is_truncated()
    }

    /// The segment that the last record came from.
    pub fn segment(&self) -> &JournalPlayer {
        &self.current
    }

    /// The next record, chain and signature records included.
    pub fn read_next_record(&mut self) -> Result<Option<FrameRecord>> {
        Ok(self.next_frame()?.map(FrameRef::to_record))
    }

    /// The next record that describes the run: chain and signature records are skipped.
    pub fn read_next_data_record(&mut self) -> Result<Option<FrameRecord>> {
        Ok(self.next_data_frame()?.map(FrameRef::to_record))
    }

    /// As [`read_next_record`](Self::read_next_record), borrowed.
    pub fn next_frame(&mut self) -> Result<Option<FrameRef<'_>>> {
        while !self.current.advance()? {
            if !self.next_segment()? {
                return Ok(None);
            }
        }
        Ok(self.current.frame())
    }

    /// As [`read_next_data_record`](Self::read_next_data_record), borrowed.
    pub fn next_data_frame(&mut self) -> Result<Option<FrameRef<'_>>> {
        loop {
            if self.next_frame()?.is_none() {
                return Ok(None);
            }
            if self.current.at_data() {
                return Ok(self.current.frame());
            }
        }
    }

    /// As [`next_frame`](Self::next_frame), with the ordinal of the segment that holds the record.
    pub fn next_placed_frame(&mut self) -> Result<Option<(u64, FrameRef<'_>)>> {
        if self.next_frame()?.is_none() {
            return Ok(None);
        }
        let segment = self.current.segment_index().unwrap_or(0);
        Ok(self.current.frame().map(|frame| (segment, frame)))
    }

    /// A stream over the same files that begins at their start.
    ///
    /// # Errors
    /// As [`open_with`](Self::open_with).
    pub fn reopen(&self) -> Result<Self> {
        Self::open_with(Arc::clone(&self.fs), &self.base, self.options)
    }

    fn next_segment(&mut self) -> Result<bool> {
        if self.ordinal + 1 >= self.paths.len() {
            return Ok(false);
        }
        // A writer seals a segment before it begins the next one: its end is missing.
        if !self.current.is_finalized() && !self.options.lenient {
            return Err(Error::Corrupt {
                path: self.current.path().to_owned(),
                section: Section::SegmentSet,
                offset: self.current.position(),
                tick: Some(self.current.last_tick()),
                fault: Fault::NotSealed,
            });
        }
        self.last_tick = self.current.last_tick().max(self.last_tick);
        let Some(mut next) = self.open_if_begun(self.ordinal + 1)? else {
            return Ok(false);
        };
        next.continue_after(self.last_tick);
        self.current = next;
        self.ordinal += 1;
        Ok(true)
    }

    /// As [`open_segment`](Self::open_segment); `None` when the last segment has no whole header: its
    /// writer was interrupted there, or is about to go on. No record was lost with it.
    fn open_if_begun(&self, ordinal: usize) -> Result<Option<JournalPlayer>> {
        match self.open_segment(ordinal) {
            Err(Error::Incomplete { .. }) if ordinal > 0 && ordinal + 1 == self.paths.len() => {
                Ok(None)
            }
            other => other.map(Some),
        }
    }

    fn open_segment(&self, ordinal: usize) -> Result<JournalPlayer> {
        let path = self.paths.get(ordinal).ok_or(Error::Misuse {
            what: "no such segment",
        })?;
        let player = JournalPlayer::open_with(self.fs.as_ref(), path, self.options)?;
        let corrupt = |fault| Error::Corrupt {
            path: path.clone(),
            section: Section::SegmentSet,
            offset: file_header::FLAGS.offset as u64,
            tick: None,
            fault,
        };
        if ordinal > 0 {
            let found = player
                .segment_index()
                .ok_or_else(|| corrupt(Fault::NotSegmented))?;
            if found != ordinal as u64 {
                return Err(corrupt(Fault::WrongSegment {
                    expected: ordinal as u64,
                    found,
                }));
            }
        }
        Ok(player)
    }

    /// Places the stream so that the next record is the first one with tick ≥ `tick`.
    pub fn seek_to_tick(&mut self, tick: u64) -> Result<()> {
        // The last segment whose first tick is below the target holds the place, or the next one
        // starts with it.
        let mut low = 0;
        let mut high = self.paths.len();
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let first = match self.open_if_begun(middle)? {
                Some(mut segment) => segment.next_frame()?.map(|frame| frame.tick),
                None => None,
            };
            if first.is_some_and(|first| first < tick) {
                low = middle;
            } else {
                high = middle;
            }
        }
        self.current = self.open_segment(low)?;
        self.ordinal = low;
        self.last_tick = 0;
        self.ended = false;
        self.current.seek_to_tick(tick)
    }

    /// Looks again at the files: a writer may have gone on, sealed a segment or begun the next.
    /// Afterwards reading goes on where it had stopped.
    pub fn refresh(&mut self) -> Result<()> {
        self.ended = false;
        // The files first: a writer seals a segment before it begins the next one, so that a current
        // segment looked at afterwards has all its records when a later one is known.
        self.paths = segment_paths_on(self.fs.as_ref(), &self.base)?;
        self.current.refresh()
    }

    /// True when the segment being read is sealed and no other follows it on disk.
    pub fn is_sealed_at_end(&self) -> bool {
        self.current.is_finalized() && self.ordinal + 1 >= self.paths.len()
    }
}

impl Iterator for SegmentedPlayer {
    type Item = Result<FrameRecord>;

    /// The next record; after an error the stream ends.
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.read_next_record().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ordinal_goes_before_the_last_extension() {
        let path = |base: &str, n| {
            segment_path(Path::new(base), n)
                .to_str()
                .unwrap()
                .to_owned()
        };
        assert_eq!(path("a/run.omni", 0), "a/run.omni");
        assert_eq!(path("a/run.omni", 1), "a/run.1.omni");
        assert_eq!(path("a/run.v2.omni", 12), "a/run.v2.12.omni");
        assert_eq!(path("run", 3), "run.3");
    }

    #[test]
    fn a_segment_name_splits_into_the_name_of_segment_0_and_its_ordinal() {
        let split =
            |name: &str| split_ordinal(Path::new(name)).map(|(n, o)| (n.into_string().unwrap(), o));
        assert_eq!(split("d/run.1.omni"), Some(("run.omni".into(), 1)));
        assert_eq!(split("run.v2.12.omni"), Some(("run.v2.omni".into(), 12)));
        assert_eq!(split("run.3"), Some(("run".into(), 3)));
        for other in [
            "run.omni",
            "run.01.omni",
            "run.0.omni",
            "run.x.omni",
            "run",
            "run.+1.omni",
        ] {
            assert_eq!(split(other), None, "{other}");
        }
    }
}
