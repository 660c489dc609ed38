//! A file in memory, whose bytes a test can change while it is open.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use durable::FsFile;
use traza::segment::{Result, Segment};

/// What the file is called in errors.
pub(crate) const NAME: &str = "segment.seg";

#[derive(Clone, Debug)]
pub(crate) struct MemoryFile {
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl MemoryFile {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: Arc::new(Mutex::new(bytes.to_vec())),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Vec<u8>)) {
        change(&mut self.bytes.lock().unwrap());
    }

    pub(crate) fn open(&self) -> Result<Segment> {
        Segment::open_file(Box::new(self.clone()), Path::new(NAME))
    }
}

fn refused<T>() -> io::Result<T> {
    Err(ErrorKind::ReadOnlyFilesystem.into())
}

impl FsFile for MemoryFile {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let start = usize::try_from(offset).unwrap().min(bytes.len());
        let len = buf.len().min(bytes.len() - start);
        buf[..len].copy_from_slice(&bytes[start..start + len]);
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        refused()
    }

    fn sync(&mut self) -> io::Result<()> {
        refused()
    }
}
