//! A disk in memory that forgets nothing and never fails.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use durable::{Access, FileKind, Fs, FsFile, Metadata, parent_of};

type Bytes = Arc<Mutex<Vec<u8>>>;

/// The disk. Clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    entries: Arc<Mutex<BTreeMap<PathBuf, Entry>>>,
}

#[derive(Clone, Debug)]
enum Entry {
    Folder,
    File(Bytes),
}

#[derive(Debug)]
struct OpenFile(Bytes);

/// A panic of a target must not hide what the disk holds.
fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryDisk {
    /// Puts a file at `path`, in the place of what stands there.
    pub fn put(&self, path: &Path, bytes: &[u8]) {
        let file = Entry::File(Arc::new(Mutex::new(bytes.to_vec())));
        lock(&self.entries).insert(path.to_owned(), file);
    }

    /// The bytes of every file.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let entries = lock(&self.entries);
        let files = entries.iter().filter_map(|(path, entry)| match entry {
            Entry::File(bytes) => Some((path.clone(), lock(bytes).clone())),
            Entry::Folder => None,
        });
        files.collect()
    }

    fn find(&self, path: &Path) -> io::Result<Entry> {
        let found = lock(&self.entries).get(path).cloned();
        found.ok_or(ErrorKind::NotFound.into())
    }

    fn add(&self, path: &Path, entry: Entry) -> io::Result<()> {
        let mut entries = lock(&self.entries);
        check_vacant(&entries, path)?;
        entries.insert(path.to_owned(), entry);
        Ok(())
    }
}

/// The path is free, and its folder is there.
fn check_vacant(entries: &BTreeMap<PathBuf, Entry>, path: &Path) -> io::Result<()> {
    let parent = parent_of(path);
    if parent != Path::new("/") && !matches!(entries.get(parent), Some(Entry::Folder)) {
        return Err(ErrorKind::NotFound.into());
    }
    if entries.contains_key(path) {
        return Err(ErrorKind::AlreadyExists.into());
    }
    Ok(())
}

impl Fs for MemoryDisk {
    fn create_new(&self, path: &Path, _: Access) -> io::Result<Box<dyn FsFile>> {
        let bytes = Bytes::default();
        self.add(path, Entry::File(Arc::clone(&bytes)))?;
        Ok(Box::new(OpenFile(bytes)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        match self.find(path)? {
            Entry::File(bytes) => Ok(Box::new(OpenFile(bytes))),
            Entry::Folder => Err(ErrorKind::IsADirectory.into()),
        }
    }

    fn open_append(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.open(path)
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        Ok(match self.find(path)? {
            Entry::Folder => Metadata {
                kind: FileKind::Directory,
                len: 0,
                modified_ns: 0,
            },
            Entry::File(bytes) => Metadata {
                kind: FileKind::File,
                len: lock(&bytes).len() as u64,
                modified_ns: 0,
            },
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut entries = lock(&self.entries);
        let moved: Vec<PathBuf> = entries
            .keys()
            .filter(|path| path.starts_with(from))
            .cloned()
            .collect();
        if moved.is_empty() {
            return Err(ErrorKind::NotFound.into());
        }
        match check_vacant(&entries, to) {
            // A file replaces a file; folders are never put over one another.
            Err(e)
                if e.kind() == ErrorKind::AlreadyExists
                    && matches!(entries.get(to), Some(Entry::File(_))) => {}
            other => other?,
        }
        for path in moved {
            if let (Some(entry), Ok(rest)) = (entries.remove(&path), path.strip_prefix(from)) {
                let name = if rest.as_os_str().is_empty() {
                    to.to_owned()
                } else {
                    to.join(rest)
                };
                entries.insert(name, entry);
            }
        }
        Ok(())
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let entry = self.find(from)?;
        self.add(to, entry)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.add(path, Entry::Folder)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.find(path)?;
        lock(&self.entries).remove(path);
        Ok(())
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        if !self.read_dir(path)?.is_empty() {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        self.remove_file(path)
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.find(path)?;
        let entries = lock(&self.entries);
        let within = entries.keys().filter(|entry| parent_of(entry) == path);
        Ok(within.cloned().collect())
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl FsFile for OpenFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = lock(&self.0);
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = bytes.get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(lock(&self.0).len() as u64)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let len = usize::try_from(len).map_err(|_| ErrorKind::FileTooLarge)?;
        lock(&self.0).resize(len, 0);
        Ok(())
    }

    fn sync_data(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
