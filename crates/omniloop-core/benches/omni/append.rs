//! Appending to a journal: into memory, and into a file.

use std::hint::black_box;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs, FsFile, Metadata};
use omniloop_core::journal::{FrameKind, JournalOptions, StateJournal};

use crate::Result;
use crate::measure::{Basis, Sample, Side, Times, timed};
use crate::texts::Texts;

pub(crate) const TO_MEMORY: &str = "append to memory";
pub(crate) const TO_FILE: &str = "append to a file, without seal";
const TO_FILE_SEALED: &str = "append to a file, with seal and sync";

/// The buffer into which memory sinks copy, over and over.
const SINK_LEN: usize = 256 * 1024;

pub(crate) fn sides<'a>(records: u64, dir: &'a Path, texts: &'a Texts) -> Vec<Side<'a>> {
    vec![
        Box::new(move || {
            let options = JournalOptions {
                fs: Arc::new(MemoryFs),
                ..JournalOptions::default()
            };
            let mut journal = StateJournal::create_with("memory.omni", options)?;
            let (times, ()) = timed(|| append_all(&mut journal, records, texts))?;
            journal.seal()?;
            Ok(vec![sample(
                TO_MEMORY,
                Basis::ThreadCpu,
                times,
                records,
                texts,
            )])
        }),
        Box::new(move || {
            let path = dir.join("append.omni");
            let mut journal = create(&path)?;
            let start = Times::now()?;
            append_all(&mut journal, records, texts)?;
            let appended = Times::now()?.since(start);
            journal.seal()?;
            let sealed = Times::now()?.since(start);
            durable::RealFs.remove_file(&path)?;
            Ok(vec![
                sample(TO_FILE, Basis::ThreadCpu, appended, records, texts),
                sample(TO_FILE_SEALED, Basis::Wall, sealed, records, texts),
            ])
        }),
    ]
}

/// A journal in a real file, replacing what a run that was stopped may have left.
pub(crate) fn create(path: &Path) -> Result<StateJournal> {
    let options = JournalOptions {
        overwrite: true,
        ..JournalOptions::default()
    };
    Ok(StateJournal::create_with(path, options)?)
}

/// Appends `records` telemetry records and hands the last of them to the operating system.
pub(crate) fn append_all(journal: &mut StateJournal, records: u64, texts: &Texts) -> Result<()> {
    texts.try_each(records, |text| {
        journal.append(FrameKind::Telemetry, black_box(text))?;
        Ok(())
    })?;
    Ok(journal.flush()?)
}

/// Counts data records only; the checkpoints are paid inside.
fn sample(name: &'static str, basis: Basis, times: Times, records: u64, texts: &Texts) -> Sample {
    Sample {
        name,
        basis,
        times,
        records,
        bytes: texts.record_bytes(records),
    }
}

/// A place to copy to that never grows.
#[derive(Debug)]
pub(crate) struct Sink {
    buffer: Vec<u8>,
    at: usize,
    pub(crate) total: u64,
}

impl Sink {
    pub(crate) fn new() -> Self {
        Self {
            buffer: vec![0; SINK_LEN],
            at: 0,
            total: 0,
        }
    }

    pub(crate) fn copy(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(SINK_LEN) {
            if self.at + piece.len() > SINK_LEN {
                self.at = 0;
            }
            if let Some(place) = self.buffer.get_mut(self.at..self.at + piece.len()) {
                place.copy_from_slice(piece);
            }
            self.at += piece.len();
        }
        self.total += bytes.len() as u64;
        black_box(&self.buffer);
    }
}

/// Files that take bytes and forget them; syncs do nothing.
#[derive(Debug)]
struct MemoryFs;

#[derive(Debug)]
struct MemoryFile(Sink);

impl FsFile for MemoryFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.copy(bytes);
        Ok(())
    }

    fn read_at(&self, _offset: u64, _buf: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.total)
    }

    fn set_len(&mut self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Fs for MemoryFs {
    fn create_new(&self, _path: &Path, _access: Access) -> io::Result<Box<dyn FsFile>> {
        Ok(Box::new(MemoryFile(Sink::new())))
    }

    fn open(&self, _path: &Path) -> io::Result<Box<dyn FsFile>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn open_append(&self, _path: &Path) -> io::Result<Box<dyn FsFile>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn metadata(&self, _path: &Path) -> io::Result<Metadata> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn hard_link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn create_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove_file(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn remove_dir(&self, _path: &Path) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn read_dir(&self, _path: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}
