//! The disk: inodes, the names that lead to them, and what a power cut leaves of both.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

use crate::Survival;
use crate::file::FileNode;
use crate::names::{Entries, Entry, Unsynced, apply};
use crate::random::Random;

/// The number of a file or folder. Never used twice.
pub(crate) type Inode = u64;

const ROOT: Inode = 0;

/// Files and folders, live and synced. Faults and call numbers are not its business.
#[derive(Clone, Debug)]
pub(crate) struct Disk {
    files: BTreeMap<Inode, FileNode>,
    live: Entries,
    synced: Entries,
    unsynced: Unsynced,
    next: Inode,
}

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    File(Inode),
    Dir(Inode),
}

impl Found {
    pub(crate) fn inode(self) -> Inode {
        match self {
            Self::File(inode) | Self::Dir(inode) => inode,
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        let root = BTreeMap::from([(ROOT, BTreeMap::new())]);
        Self {
            files: BTreeMap::new(),
            live: root.clone(),
            synced: root,
            unsynced: Unsynced::default(),
            next: ROOT + 1,
        }
    }
}

impl Disk {
    pub(crate) fn find(&self, path: &Path) -> io::Result<Found> {
        let mut found = Found::Dir(ROOT);
        for name in names_of(path) {
            let Found::Dir(dir) = found else {
                return Err(ErrorKind::NotADirectory.into());
            };
            let inode = self
                .entry(dir, &name)
                .ok_or(io::Error::from(ErrorKind::NotFound))?;
            found = self.kind(inode);
        }
        Ok(found)
    }

    pub(crate) fn file(&self, inode: Inode) -> io::Result<&FileNode> {
        self.files
            .get(&inode)
            .ok_or(io::Error::from(ErrorKind::IsADirectory))
    }

    pub(crate) fn file_mut(&mut self, inode: Inode) -> io::Result<&mut FileNode> {
        self.files
            .get_mut(&inode)
            .ok_or(io::Error::from(ErrorKind::IsADirectory))
    }

    /// The names in a folder, sorted.
    pub(crate) fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        match self.find(path)? {
            Found::File(_) => Err(ErrorKind::NotADirectory.into()),
            Found::Dir(dir) => Ok(self.children(dir).keys().cloned().collect()),
        }
    }

    pub(crate) fn close_all(&mut self) {
        for file in self.files.values_mut() {
            file.handles = 0;
            file.locked_by = None;
        }
    }

    /// How many bytes the files hold that have a name or an open handle.
    pub(crate) fn used(&self) -> u64 {
        let named: BTreeSet<Inode> = self
            .live
            .values()
            .flat_map(|d| d.values().copied())
            .collect();
        self.files
            .iter()
            .filter(|(inode, file)| file.handles > 0 || named.contains(inode))
            .map(|(_, file)| file.live().len() as u64)
            .sum()
    }

    pub(crate) fn create_file(&mut self, path: &Path) -> io::Result<Inode> {
        let (dir, name) = self.vacancy(path)?;
        let inode = self.take_inode();
        self.files.insert(inode, FileNode::default());
        self.change(vec![bind(dir, name, inode)]);
        Ok(inode)
    }

    pub(crate) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        let (dir, name) = self.vacancy(path)?;
        let inode = self.take_inode();
        self.live.insert(inode, BTreeMap::new());
        self.synced.insert(inode, BTreeMap::new());
        self.change(vec![bind(dir, name, inode)]);
        Ok(())
    }

    pub(crate) fn hard_link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let source = self.find(from)?;
        let (dir, name) = self.vacancy(to)?;
        let Found::File(inode) = source else {
            return Err(ErrorKind::PermissionDenied.into());
        };
        self.change(vec![bind(dir, name, inode)]);
        Ok(())
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        // The order of the checks is that of Linux, since each has an error kind of its own.
        let (from_dir, from_name) = self.place(from)?;
        let (to_dir, to_name) = self.place(to)?;
        let source = self.find(from)?;
        let (from_names, to_names) = (names_of(from), names_of(to));
        if to_names != from_names {
            if to_names.starts_with(&from_names) {
                return Err(ErrorKind::InvalidInput.into());
            }
            if from_names.starts_with(&to_names) {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
        }
        match (source, self.entry(to_dir, &to_name).map(|i| self.kind(i))) {
            // Two names of one file: POSIX says that nothing happens.
            (source, Some(target)) if source == target => return Ok(()),
            (Found::Dir(_), Some(Found::File(_))) => {
                return Err(ErrorKind::NotADirectory.into());
            }
            (Found::Dir(_), Some(Found::Dir(target))) if !self.children(target).is_empty() => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            (Found::File(_), Some(Found::Dir(_))) => return Err(ErrorKind::IsADirectory.into()),
            _ => {}
        }
        self.change(vec![
            unbind(from_dir, from_name),
            bind(to_dir, to_name, source.inode()),
        ]);
        Ok(())
    }

    pub(crate) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        if let Found::Dir(_) = self.find(path)? {
            return Err(ErrorKind::IsADirectory.into());
        }
        let (dir, name) = self.place(path)?;
        self.change(vec![unbind(dir, name)]);
        Ok(())
    }

    pub(crate) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        match self.find(path)? {
            Found::File(_) => return Err(ErrorKind::NotADirectory.into()),
            Found::Dir(inode) if !self.children(inode).is_empty() => {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
            Found::Dir(_) => {}
        }
        let (dir, name) = self.place(path)?;
        self.change(vec![unbind(dir, name)]);
        Ok(())
    }

    pub(crate) fn sync_dir(&mut self, dir: Inode) {
        self.unsynced.sync(dir, &mut self.synced);
    }

    pub(crate) fn sync_dir_failed(&mut self, dir: Inode) {
        self.unsynced.sync_failed(dir);
    }

    /// What a crash leaves, with everything on it synced and nothing open.
    pub(crate) fn after_crash(&self, survival: Survival) -> Self {
        let mut random = Random::new(match survival {
            Survival::Seeded(seed) => seed,
            _ => 0,
        });
        let entries = match survival {
            Survival::Everything | Survival::NamesOnly => self.live.clone(),
            Survival::Nothing | Survival::BytesOnly => self.synced.clone(),
            Survival::Seeded(_) => self.unsynced.survivors(self.synced.clone(), &mut random),
        };
        let mut survivor = |file: &FileNode| match survival {
            Survival::Everything | Survival::BytesOnly => file.live().to_vec(),
            Survival::Nothing | Survival::NamesOnly => file.synced().to_vec(),
            Survival::Seeded(_) => file.survivor(&mut random),
        };
        let named: BTreeSet<Inode> = entries.values().flat_map(|d| d.values().copied()).collect();
        let files = self
            .files
            .iter()
            .map(|(inode, file)| (*inode, survivor(file)))
            .filter(|(inode, _)| named.contains(inode))
            .map(|(inode, bytes)| (inode, FileNode::settled(bytes)))
            .collect();
        Self {
            files,
            live: entries.clone(),
            synced: entries,
            unsynced: Unsynced::default(),
            next: self.next,
        }
    }

    /// Every file by its full path, with its live bytes; folders without.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        let mut open = vec![(PathBuf::from("/"), ROOT)];
        while let Some((path, dir)) = open.pop() {
            for (name, inode) in self.children(dir) {
                let path = path.join(name);
                if let Some(file) = self.files.get(inode) {
                    found.insert(path, Some(file.live().to_vec()));
                } else {
                    found.insert(path.clone(), None);
                    open.push((path, *inode));
                }
            }
        }
        found
    }

    fn children(&self, dir: Inode) -> &BTreeMap<OsString, Inode> {
        static NONE: BTreeMap<OsString, Inode> = BTreeMap::new();
        self.live.get(&dir).unwrap_or(&NONE)
    }

    fn entry(&self, dir: Inode, name: &OsString) -> Option<Inode> {
        self.children(dir).get(name).copied()
    }

    fn kind(&self, inode: Inode) -> Found {
        if self.files.contains_key(&inode) {
            Found::File(inode)
        } else {
            Found::Dir(inode)
        }
    }

    /// The folder that holds `path`, and the last name; whether it is taken is not asked.
    fn place(&self, path: &Path) -> io::Result<(Inode, OsString)> {
        let mut names = names_of(path);
        let name = names
            .pop()
            .ok_or(io::Error::from(ErrorKind::InvalidInput))?;
        let parent: PathBuf = names.into_iter().collect();
        match self.find(&parent)? {
            Found::Dir(dir) => Ok((dir, name)),
            Found::File(_) => Err(ErrorKind::NotADirectory.into()),
        }
    }

    /// As [`Disk::place`], for a name that must be free.
    fn vacancy(&self, path: &Path) -> io::Result<(Inode, OsString)> {
        match self.find(path) {
            Ok(_) => Err(ErrorKind::AlreadyExists.into()),
            Err(_) => self.place(path),
        }
    }

    fn take_inode(&mut self) -> Inode {
        let inode = self.next;
        self.next += 1;
        inode
    }

    fn change(&mut self, change: Vec<Entry>) {
        apply(change.clone(), &mut self.live);
        self.unsynced.push(change);
    }
}

fn bind(dir: Inode, name: OsString, inode: Inode) -> Entry {
    Entry {
        dir,
        name,
        target: Some(inode),
    }
}

fn unbind(dir: Inode, name: OsString) -> Entry {
    Entry {
        dir,
        name,
        target: None,
    }
}

/// The names that lead from the root to `path`. Relative paths start at the root, `.` is left out
/// and `..` takes back one name, as text: there are no symbolic links.
fn names_of(path: &Path) -> Vec<OsString> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::ParentDir => {
                names.pop();
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    names
}
