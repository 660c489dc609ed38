//! The log as its one writer has it open.

use std::io;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, FsFile};

use super::{FILE_NAME, MAGIC, PAYLOAD_LEN_MAX, Stamp, frame};

/// Where a rewritten log is prepared.
const TEMPORARY_NAME: &str = ".wal.log.rewrite.tmp";
const EMPTY_LEN: u64 = MAGIC.len() as u64;

/// The open log. Frames are appended whole or not at all.
#[derive(Debug)]
pub(crate) struct Log {
    dir: PathBuf,
    file: Box<dyn FsFile>,
    len: u64,
    last: Stamp,
    /// Counts the times that frames were taken out: a place from before then is none any more.
    cuts: u64,
    /// The file may hold something behind `len`, or cannot be written any more: it is replaced before the next append.
    is_broken: bool,
}

impl Log {
    /// Creates the empty log of a store that has none, durably. An empty file that is there becomes one.
    pub(crate) fn create(fs: &dyn Fs, dir: &Path, last: Stamp) -> io::Result<Self> {
        // Not in place: a crash could leave a part of the magic.
        let file = prepare(fs, dir, &MAGIC)?;
        let synced = fs.sync_dir(dir);
        if synced.is_err() {
            // Another attempt must not take its name for durable.
            fs.remove_file(&dir.join(FILE_NAME)).ok();
        }
        synced?;
        Ok(Self {
            dir: dir.to_owned(),
            file,
            len: EMPTY_LEN,
            last,
            cuts: 0,
            is_broken: false,
        })
    }

    /// Opens a log that was scanned: its whole frames end at `len`, and what is behind is cut off.
    pub(crate) fn open(fs: &dyn Fs, dir: &Path, len: u64, last: Stamp) -> io::Result<Self> {
        let mut file = fs.open_append(&dir.join(FILE_NAME))?;
        if file.len()? != len {
            file.set_len(len)?;
            file.sync()?;
        }
        Ok(Self {
            dir: dir.to_owned(),
            file,
            len,
            last,
            cuts: 0,
            is_broken: false,
        })
    }

    /// A second handle of the file, for syncing it while frames are appended.
    pub(crate) fn for_sync(&self, fs: &dyn Fs) -> io::Result<Box<dyn FsFile>> {
        fs.open_append(&self.dir.join(FILE_NAME))
    }

    /// Bytes of frames.
    pub(crate) fn frames_len(&self) -> u64 {
        self.len - EMPTY_LEN
    }

    /// Bytes of the frames behind `place`; of all frames when that is no place of the log, or none.
    pub(crate) fn len_behind(&self, place: Option<Place>) -> u64 {
        let place = place.filter(|place| place.cuts == self.cuts);
        let behind = place.and_then(|place| self.len.checked_sub(place.offset));
        behind.unwrap_or_else(|| self.frames_len())
    }

    /// The stamp of the last frame, or the one that the next follows.
    pub(crate) fn last(&self) -> Stamp {
        self.last
    }

    /// Frames from now on belong to this generation at least.
    pub(crate) fn raise_epoch(&mut self, epoch: u64) {
        self.last.epoch = self.last.epoch.max(epoch);
    }

    /// True when [`rewrite`](Self::rewrite) must come before the next append.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// A sync of the file failed: what it holds is not known any more.
    pub(crate) fn set_broken(&mut self) {
        self.is_broken = true;
    }

    /// Appends a frame. It is durable after a sync.
    pub(crate) fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other(
                "the write-ahead log must be rewritten first",
            ));
        }
        if payload.is_empty() || payload.len() as u64 > PAYLOAD_LEN_MAX {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        let stamp = Stamp {
            sequence: self.last.sequence.saturating_add(1),
            ..self.last
        };
        let bytes = frame(stamp, payload);
        if let Err(error) = self.file.append(&bytes) {
            // A part of it may be there, and would be damage in front of the next frame.
            self.is_broken = self.file.set_len(self.len).is_err();
            return Err(error);
        }
        self.len += bytes.len() as u64;
        self.last = stamp;
        Ok(())
    }

    /// Empties the log: no acknowledged span needs it. Durable.
    pub(crate) fn reset(&mut self) -> io::Result<()> {
        if self.len == EMPTY_LEN && !self.is_broken {
            return Ok(());
        }
        let done = self
            .file
            .set_len(EMPTY_LEN)
            .and_then(|()| self.file.sync_data());
        self.is_broken |= done.is_err();
        self.cuts += 1;
        done?;
        self.len = EMPTY_LEN;
        Ok(())
    }

    /// Replaces the log by one whose single frame holds `payload`; without one, by an empty log. Durable.
    pub(crate) fn rewrite(&mut self, fs: &dyn Fs, payload: Option<&[u8]>) -> io::Result<()> {
        let mut bytes = MAGIC.to_vec();
        let mut last = self.last;
        if let Some(payload) = payload {
            if payload.len() as u64 > PAYLOAD_LEN_MAX {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            last.sequence = last.sequence.saturating_add(1);
            bytes.extend_from_slice(&frame(last, payload));
        }
        let file = prepare(fs, &self.dir, &bytes)?;
        // From here on the name leads to the new file, also when its folder cannot be synced.
        self.last = last;
        self.adopt(fs, file, bytes.len() as u64)
    }

    /// Goes on with the file that now stands at its path.
    fn adopt(&mut self, fs: &dyn Fs, file: Box<dyn FsFile>, len: u64) -> io::Result<()> {
        self.file = file;
        self.len = len;
        self.cuts += 1;
        self.is_broken = true;
        fs.sync_dir(&self.dir)?;
        self.is_broken = false;
        Ok(())
    }

    /// Behind the last frame.
    pub(crate) fn end(&self) -> Place {
        Place {
            offset: self.len,
            cuts: self.cuts,
        }
    }

    /// Begins to copy the frames behind `place`. `None` when that is no place of the log any more.
    pub(crate) fn copy_behind(&self, fs: &dyn Fs, place: Place) -> io::Result<Option<Tail>> {
        if self.is_broken || place.cuts != self.cuts || place.offset > self.len {
            return Ok(None);
        }
        let source = fs.open(&self.dir.join(FILE_NAME))?;
        let mut copy = create_temporary(fs, &self.dir)?;
        copy.append(&MAGIC)?;
        Ok(Some(Tail {
            source,
            copy,
            from: place.offset,
            copied: place,
        }))
    }

    /// Puts a copy into the place of the log, once it has copied what came meanwhile. Durable. Answers the file that was the
    /// log: with its last handle all of it is given back to the disk, which takes long. `None`, and nothing is done, when
    /// frames were taken out of the log since the copy was begun.
    pub(crate) fn replace(
        &mut self,
        fs: &dyn Fs,
        mut tail: Tail,
    ) -> io::Result<Option<Box<dyn FsFile>>> {
        if self.is_broken || tail.copied.cuts != self.cuts {
            return Ok(None);
        }
        tail.copy_up_to(self.end())?;
        tail.copy.sync()?;
        fs.rename(&self.dir.join(TEMPORARY_NAME), &self.dir.join(FILE_NAME))?;
        let len = EMPTY_LEN + (self.len - tail.from);
        self.adopt(fs, tail.copy, len)?;
        Ok(Some(tail.source))
    }
}

/// A place between two frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    offset: u64,
    cuts: u64,
}

/// The last frames of a log, on their way into a log of their own. They are copied while others are appended, so that
/// batches do not wait for it.
#[derive(Debug)]
pub(crate) struct Tail {
    source: Box<dyn FsFile>,
    copy: Box<dyn FsFile>,
    from: u64,
    copied: Place,
}

impl Tail {
    /// Copies the frames up to `end`. Answers how many bytes they have.
    pub(crate) fn copy_up_to(&mut self, end: Place) -> io::Result<u64> {
        let wanted = end.offset.saturating_sub(self.copied.offset);
        if end.cuts != self.copied.cuts || wanted == 0 {
            return Ok(0);
        }
        let mut piece = vec![0; usize::try_from(wanted).unwrap_or(PIECE_LEN).min(PIECE_LEN)];
        while self.copied.offset < end.offset {
            let left = end.offset - self.copied.offset;
            let len = usize::try_from(left).unwrap_or(usize::MAX).min(piece.len());
            let piece = piece.get_mut(..len).unwrap_or_default();
            self.source.read_exact_at(self.copied.offset, piece)?;
            self.copy.append(piece)?;
            self.copy.sync_data()?;
            self.copied.offset += len as u64;
        }
        Ok(wanted)
    }
}

/// What is copied and synced at once, in bytes. A sync of the log would wait for all that the disk has to write before it.
const PIECE_LEN: usize = 512 << 10;

/// Puts a file with these bytes, which are synced, in the place of the log. Its name is durable after a sync of the
/// folder.
fn prepare(fs: &dyn Fs, dir: &Path, bytes: &[u8]) -> io::Result<Box<dyn FsFile>> {
    let temporary = dir.join(TEMPORARY_NAME);
    let mut file = create_temporary(fs, dir)?;
    let written = file.append(bytes).and_then(|()| file.sync());
    if let Err(error) = written.and_then(|()| fs.rename(&temporary, &dir.join(FILE_NAME))) {
        // It is in nobody's way: an open sweeps it as well.
        fs.remove_file(&temporary).ok();
        return Err(error);
    }
    Ok(file)
}

/// An empty file where a log is prepared.
fn create_temporary(fs: &dyn Fs, dir: &Path) -> io::Result<Box<dyn FsFile>> {
    let temporary = dir.join(TEMPORARY_NAME);
    match fs.remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs.create_new(&temporary, Access::Shared)
}

#[cfg(test)]
mod tests {
    use durable_sim::{BoxError, Image, Ledger, SimFs, for_each_crash, for_each_failure};

    use super::super::scan;
    use super::*;

    const DIR: &str = "/store";

    fn log(fs: &SimFs) -> io::Result<Log> {
        fs.create_dir_all(Path::new(DIR))?;
        fs.sync_dir(Path::new("/"))?;
        Log::create(fs, Path::new(DIR), Stamp::default())
    }

    /// A number, as long as a batch.
    fn payload(number: u64) -> Vec<u8> {
        format!("{number:0900}").into_bytes()
    }

    fn numbers(fs: &SimFs) -> Vec<u64> {
        let file = fs.open(&Path::new(DIR).join(FILE_NAME)).unwrap();
        let mut numbers = Vec::new();
        scan(file.as_ref(), &mut |frame| {
            numbers.push(std::str::from_utf8(frame.payload).unwrap().parse().unwrap());
            Ok(())
        })
        .unwrap();
        numbers
    }

    /// Frames 1 and 2 are in a segment when the log is shortened; 4 comes while 3 is copied, and 5 afterwards.
    fn shorten(fs: &SimFs, ledger: &mut Ledger<u64>) -> Result<(), BoxError> {
        let mut log = log(fs)?;
        let mut append = |log: &mut Log, number| -> io::Result<()> {
            ledger.submit(number);
            log.append(&payload(number))?;
            log.for_sync(fs)?.sync_data()?;
            ledger.acknowledge(number);
            Ok(())
        };
        append(&mut log, 1)?;
        append(&mut log, 2)?;
        let sealed = log.end();
        append(&mut log, 3)?;
        let mut tail = log.copy_behind(fs, sealed)?.ok_or("no place of the log")?;
        tail.copy_up_to(log.end())?;
        append(&mut log, 4)?;
        if log.replace(fs, tail)?.is_none() {
            return Err("it was not replaced".into());
        }
        append(&mut log, 5)?;
        Ok(())
    }

    /// Everything acknowledged that no segment holds is there, in its order and once.
    fn check(image: &Image, ledger: &Ledger<u64>) -> Result<(), BoxError> {
        let path = Path::new(DIR).join(FILE_NAME);
        if !image.fs.exists(&path)? {
            return match ledger.acknowledged() {
                [] => Ok(()),
                _ => Err("the log is gone".into()),
            };
        }
        let found = numbers(&image.fs);
        let is_in_order = found.is_sorted_by(|a, b| a + 1 == *b);
        let kept = ledger.acknowledged().iter().filter(|n| **n > 2);
        if is_in_order && kept.clone().all(|number| found.contains(number)) {
            return Ok(());
        }
        Err(format!("{found:?} after {:?}", ledger.acknowledged()).into())
    }

    #[test]
    fn a_log_that_is_shortened_loses_no_frame_in_a_crash() {
        for_each_crash(shorten, check).unwrap();
        for_each_failure(shorten, check).unwrap();
        let fs = SimFs::new();
        shorten(&fs, &mut Ledger::default()).unwrap();
        assert_eq!(numbers(&fs), [3, 4, 5]);
    }

    #[test]
    fn a_copy_is_of_no_use_when_frames_were_taken_out_meanwhile() {
        let fs = SimFs::new();
        let mut log = log(&fs).unwrap();
        log.append(&payload(1)).unwrap();
        let place = log.end();
        log.append(&payload(2)).unwrap();
        let begun = log.copy_behind(&fs, place).unwrap().unwrap();
        log.rewrite(&fs, Some(&payload(2))).unwrap();
        log.append(&payload(3)).unwrap();
        assert!(log.replace(&fs, begun).unwrap().is_none());
        assert!(log.copy_behind(&fs, place).unwrap().is_none());
        assert_eq!(numbers(&fs), [2, 3]);
    }

    #[test]
    fn what_is_behind_a_place_is_counted_until_frames_are_taken_out() {
        let fs = SimFs::new();
        let mut log = log(&fs).unwrap();
        log.append(&payload(1)).unwrap();
        let one = log.frames_len();
        let place = log.end();
        assert_eq!(
            (log.len_behind(None), log.len_behind(Some(place))),
            (one, 0)
        );
        log.append(&payload(2)).unwrap();
        assert_eq!(
            (log.frames_len(), log.len_behind(Some(place))),
            (2 * one, one)
        );
        let tail = log.copy_behind(&fs, place).unwrap().unwrap();
        assert!(log.replace(&fs, tail).unwrap().is_some());
        log.append(&payload(3)).unwrap();
        assert_eq!(log.len_behind(Some(place)), 2 * one);
        log.reset().unwrap();
        assert_eq!(log.len_behind(Some(place)), 0);
    }

    #[test]
    fn a_broken_log_is_not_copied() {
        let fs = SimFs::new();
        let mut log = log(&fs).unwrap();
        let place = log.end();
        log.append(&payload(1)).unwrap();
        let begun = log.copy_behind(&fs, place).unwrap().unwrap();
        log.set_broken();
        assert!(log.replace(&fs, begun).unwrap().is_none());
        assert!(log.copy_behind(&fs, place).unwrap().is_none());
    }
}
