//! The folder that the demo works in.

use std::io;
use std::path::Path;

use durable::{Fs as _, FsFile, RealFs, publish};
use rustix::fs::{FileType, lstat};

use crate::failure::Failure;

/// Tells a folder of this demo from one that holds something else.
const MARKER: &str = "this-folder-is-daybook-demo.txt";

/// The folder, which is one demo's as long as this lives.
pub(super) struct Folder(
    #[expect(dead_code, reason = "it is locked while it is open")] Box<dyn FsFile>,
);

/// An empty folder. An earlier demo that stands there goes; anything else stays, and is an error.
pub(super) fn prepare(dir: &Path) -> Result<Folder, Failure> {
    let failed = |e: io::Error| Failure::io(&format!("cannot use {}", dir.display()), &e);
    let marker = dir.join(MARKER);
    if RealFs.exists(dir).map_err(failed)? {
        if !RealFs.exists(&marker).map_err(failed)? {
            let what = format!("{} exists and is no earlier demo", dir.display());
            return Err(Failure::new(what).with_hint("name another folder: daybook demo FOLDER"));
        }
    } else {
        RealFs.create_dir_all(dir).map_err(failed)?;
        publish(
            &RealFs,
            &marker,
            b"`daybook demo` replaces everything here.\n",
        )
        .map_err(failed)?;
    }
    let held = RealFs.open(&marker).map_err(failed)?;
    if !held.try_lock().map_err(failed)? {
        let what = format!("another demo is still up in {}", dir.display());
        return Err(Failure::new(what).with_hint("end it with Ctrl-C, or name another folder"));
    }
    for entry in RealFs.read_dir(dir).map_err(failed)? {
        if entry != marker {
            remove(&entry).map_err(failed)?;
        }
    }
    Ok(Folder(held))
}

/// Removes a file, or a folder with all that is in it. A symbolic link goes, and what it leads to stays.
fn remove(path: &Path) -> io::Result<()> {
    let found = lstat(path)?;
    if !FileType::from_raw_mode(found.st_mode).is_dir() {
        return RealFs.remove_file(path);
    }
    for entry in RealFs.read_dir(path)? {
        remove(&entry)?;
    }
    RealFs.remove_dir(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_demo_is_removed_with_its_folders_and_nothing_beyond_them() {
        let scratch = tempfile::tempdir().unwrap();
        let outside = scratch.path().join("outside");
        publish(&RealFs, &outside, b"mine").unwrap();
        let dir = scratch.path().join("demo");
        drop(prepare(&dir).unwrap());
        RealFs.create_dir_all(&dir.join("traces/deep")).unwrap();
        publish(&RealFs, &dir.join("traces/deep/file"), b"x").unwrap();
        rustix::fs::symlink(scratch.path(), dir.join("link")).unwrap();
        let held = prepare(&dir).unwrap();
        assert_eq!(RealFs.read_dir(&dir).unwrap(), [dir.join(MARKER)]);
        assert!(RealFs.exists(&outside).unwrap());
        // Only one demo at a time.
        assert!(prepare(&dir).is_err());
        drop(held);
        drop(prepare(&dir).unwrap());
    }

    #[test]
    fn a_folder_of_something_else_is_left_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let mine = scratch.path().join("mine");
        publish(&RealFs, &mine, b"mine").unwrap();
        assert!(prepare(scratch.path()).is_err());
        assert!(RealFs.exists(&mine).unwrap());
    }
}
