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
        self.file = file;
        self.len = bytes.len() as u64;
        self.last = last;
        self.is_broken = true;
        fs.sync_dir(&self.dir)?;
        self.is_broken = false;
        Ok(())
    }
}

/// Puts a file with these bytes, which are synced, in the place of the log. Its name is durable after a sync of the
/// folder.
fn prepare(fs: &dyn Fs, dir: &Path, bytes: &[u8]) -> io::Result<Box<dyn FsFile>> {
    let temporary = dir.join(TEMPORARY_NAME);
    match fs.remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = fs.create_new(&temporary, Access::Shared)?;
    let written = file.append(bytes).and_then(|()| file.sync());
    if let Err(error) = written.and_then(|()| fs.rename(&temporary, &dir.join(FILE_NAME))) {
        // It is in nobody's way: an open sweeps it as well.
        fs.remove_file(&temporary).ok();
        return Err(error);
    }
    Ok(file)
}
