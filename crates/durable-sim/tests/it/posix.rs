//! Promise: without faults, the simulated disk answers as the real file system does.
//! Attack: random operations on a few names that collide, on both. Oracle: the real file system, by
//! results, kinds of errors, and what is visible at the end.

use std::io;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, FsFile, RealFs};
use durable_sim::SimFs;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    CreateNew(PathBuf),
    Open(PathBuf),
    OpenAppend(PathBuf),
    Append(usize, Vec<u8>),
    SetLen(usize, u64),
    Read(usize, u64),
    Len(usize),
    Sync(usize),
    Close(usize),
    Rename(PathBuf, PathBuf),
    HardLink(PathBuf, PathBuf),
    CreateDir(PathBuf),
    CreateDirAll(PathBuf),
    RemoveFile(PathBuf),
    RemoveDir(PathBuf),
    ReadDir(PathBuf),
    Metadata(PathBuf),
    SyncDir(PathBuf),
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::sample::select(vec![
        "a", "b", "d", "d/a", "d/b", "d/e", "d/e/a", "./b", "a/x", "q/x", "d/e/f/g",
    ])
    .prop_map(PathBuf::from)
}

fn op() -> impl Strategy<Value = Op> {
    let handle = 0..4usize;
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![
        3 => path().prop_map(Op::CreateNew),
        1 => path().prop_map(Op::Open),
        1 => path().prop_map(Op::OpenAppend),
        3 => (handle.clone(), bytes).prop_map(|(h, b)| Op::Append(h, b)),
        1 => (handle.clone(), 0..30u64).prop_map(|(h, len)| Op::SetLen(h, len)),
        1 => (handle.clone(), 0..30u64).prop_map(|(h, at)| Op::Read(h, at)),
        1 => handle.clone().prop_map(Op::Len),
        1 => handle.clone().prop_map(Op::Sync),
        1 => handle.prop_map(Op::Close),
        3 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
        1 => (path(), path()).prop_map(|(from, to)| Op::HardLink(from, to)),
        2 => path().prop_map(Op::CreateDir),
        1 => path().prop_map(Op::CreateDirAll),
        1 => path().prop_map(Op::RemoveFile),
        1 => path().prop_map(Op::RemoveDir),
        1 => path().prop_map(Op::ReadDir),
        1 => path().prop_map(Op::Metadata),
        1 => path().prop_map(Op::SyncDir),
    ]
}

/// One file system under test, with the handles that the operations opened.
struct Side<'a> {
    fs: &'a dyn Fs,
    root: &'a Path,
    handles: Vec<Box<dyn FsFile>>,
}

impl Side<'_> {
    /// What the operation answers, as text that does not depend on the side.
    fn answer(&mut self, op: &Op) -> Result<String, io::ErrorKind> {
        self.act(op).map_err(|e| e.kind())
    }

    fn act(&mut self, op: &Op) -> io::Result<String> {
        let (fs, root) = (self.fs, self.root);
        match op {
            Op::CreateNew(p) => self.keep(fs.create_new(&root.join(p), Access::Shared)),
            Op::Open(p) => self.keep(fs.open(&root.join(p))),
            Op::OpenAppend(p) => self.keep(fs.open_append(&root.join(p))),
            Op::Append(h, bytes) => self.with(*h, |f| f.append(bytes)),
            Op::SetLen(h, len) => self.with(*h, |f| f.set_len(*len)),
            Op::Len(h) => self.with(*h, |f| f.len()),
            Op::Sync(h) => self.with(*h, |f| f.sync().and_then(|()| f.sync_data())),
            Op::Read(h, at) => self.with(*h, |f| {
                let mut buf = [0; 10];
                let count = f.read_at(*at, &mut buf)?;
                Ok((count, buf))
            }),
            Op::Close(h) => {
                if *h < self.handles.len() {
                    self.handles.remove(*h);
                }
                Ok(String::new())
            }
            Op::Rename(from, to) => text(fs.rename(&root.join(from), &root.join(to))),
            Op::HardLink(from, to) => text(fs.hard_link(&root.join(from), &root.join(to))),
            Op::CreateDir(p) => text(fs.create_dir(&root.join(p))),
            Op::CreateDirAll(p) => text(fs.create_dir_all(&root.join(p))),
            Op::RemoveFile(p) => text(fs.remove_file(&root.join(p))),
            Op::RemoveDir(p) => text(fs.remove_dir(&root.join(p))),
            Op::ReadDir(p) => {
                let entries = fs.read_dir(&root.join(p))?;
                text(Ok(entries
                    .iter()
                    .map(|e| e.strip_prefix(root).unwrap().to_owned())
                    .collect::<Vec<_>>()))
            }
            Op::Metadata(p) => {
                let found = fs.metadata(&root.join(p))?;
                let len = (found.kind == durable::FileKind::File).then_some(found.len);
                text(Ok((found.kind, len)))
            }
            Op::SyncDir(p) => text(fs.sync_dir(&root.join(p))),
        }
    }

    fn keep(&mut self, file: io::Result<Box<dyn FsFile>>) -> io::Result<String> {
        self.handles.push(file?);
        Ok(String::new())
    }

    fn with<T: std::fmt::Debug>(
        &mut self,
        handle: usize,
        act: impl FnOnce(&mut dyn FsFile) -> io::Result<T>,
    ) -> io::Result<String> {
        match self.handles.get_mut(handle) {
            Some(file) => text(act(file.as_mut())),
            None => Ok("no such handle".to_owned()),
        }
    }
}

fn text<T: std::fmt::Debug>(result: io::Result<T>) -> io::Result<String> {
    result.map(|value| format!("{value:?}"))
}

/// A folder's handle has no length of its own here, and a real one does.
fn is_about_a_folders_handle(op: &Op, side: &Side<'_>) -> bool {
    let mut buf = [0];
    let handle = match op {
        Op::Len(h) => *h,
        _ => return false,
    };
    side.handles.get(handle).is_some_and(|f| {
        f.read_at(0, &mut buf)
            .is_err_and(|e| e.kind() == io::ErrorKind::IsADirectory)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_simulated_disk_answers_as_the_real_one(ops in prop::collection::vec(op(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let sim = SimFs::new();
        let mut real = Side { fs: &RealFs, root: dir.path(), handles: Vec::new() };
        let mut simulated = Side { fs: &sim, root: Path::new("/"), handles: Vec::new() };
        for op in ops {
            // The one deliberate difference: syncing a file as if it were a folder is refused.
            let path_is_a_file = |p: &Path| sim.metadata(&Path::new("/").join(p))
                .is_ok_and(|m| m.kind == durable::FileKind::File);
            if let Op::SyncDir(p) = &op && path_is_a_file(p) {
                prop_assert_eq!(simulated.answer(&op), Err(io::ErrorKind::NotADirectory));
                continue;
            }
            if is_about_a_folders_handle(&op, &simulated) {
                continue;
            }
            prop_assert_eq!(simulated.answer(&op), real.answer(&op), "{:?}", op);
        }
        for (path, expected) in sim.contents() {
            let path = dir.path().join(path.strip_prefix("/").unwrap());
            let found = durable::read_all(&RealFs, &path, 1 << 20);
            match expected {
                Some(bytes) => prop_assert_eq!(found.unwrap(), bytes),
                None => prop_assert!(found.is_err_and(|e| e.kind() == io::ErrorKind::IsADirectory)),
            }
        }
    }
}
