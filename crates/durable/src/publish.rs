//! Replacing a small file atomically.

use std::io;
use std::path::{Path, PathBuf};

use crate::{Access, FileKind, Fs};

/// What `publish` appends to the name of the file that it prepares.
pub const TEMPORARY_SUFFIX: &str = ".tmp";

/// The folder that holds `path` (`.` for a bare name).
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes the name of `path` durable by syncing the folder that holds it.
pub fn sync_parent(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    fs.sync_dir(parent_of(path))
}

/// Puts `bytes` at `path`, replacing what stood there.
///
/// Four steps, each for a reason:
/// 1. write `path.tmp` beside it: the old file stays whole while the new one grows, and a rename
///    inside one folder cannot cross file systems;
/// 2. sync it: otherwise the rename could become durable before the bytes, and a crash would leave
///    an empty or torn file under the good name;
/// 3. rename: readers see the old bytes or the new ones, never a mix;
/// 4. sync the folder: otherwise a crash may bring the old file back after success was reported.
///
/// # Durability
/// When it returns `Ok`, the new bytes survive a power loss. When it returns an error, the old or
/// the new bytes stand at `path`.
///
/// # Errors
/// Besides those of the file system, [`io::ErrorKind::InvalidInput`] when something else than a regular file stands at
/// `path`: a rename would put a file in the place of a device or a pipe that others use.
pub fn publish(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> io::Result<()> {
    check_replaceable(fs, path)?;
    let temporary = temporary_for(path);
    match fs.remove_file(&temporary) {
        // A leftover of a publication that a crash interrupted.
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    let mut file = fs.create_new(&temporary, Access::Shared)?;
    let written = file.append(bytes).and_then(|()| file.sync());
    drop(file);
    if let Err(e) = written.and_then(|()| fs.rename(&temporary, path)) {
        // The name may be gone already; what matters is the first error.
        fs.remove_file(&temporary).ok();
        return Err(e);
    }
    sync_parent(fs, path)
}

fn check_replaceable(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    let what = match fs.metadata(path) {
        Ok(found) => match found.kind {
            FileKind::File => return Ok(()),
            FileKind::Directory => "a folder stands there",
            FileKind::Other => "a device, pipe or socket stands there",
        },
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(e),
    };
    let text = format!("{what}, and only regular files are replaced");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

/// Creates the folder `path` and those above it that are missing, each with a durable name.
///
/// # Durability
/// When it returns `Ok`, the names of the folders that it created survive a power loss. When it returns an error, a
/// folder whose name may not be durable was taken away again, so that another attempt starts from the beginning: a
/// later sync would not save a name that a failed one has lost.
pub fn create_folder(fs: &dyn Fs, path: &Path) -> io::Result<()> {
    if path.as_os_str().is_empty() {
        return Ok(());
    }
    match fs.metadata(path) {
        Ok(found) if found.kind == FileKind::Directory => return Ok(()),
        Ok(_) => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    create_folder(fs, parent_of(path))?;
    match fs.create_dir(path) {
        // Somebody else was quicker, and may not have synced it yet.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        other => other?,
    }
    let synced = sync_parent(fs, path);
    if synced.is_err() {
        // Refused when somebody has put something into it meanwhile.
        fs.remove_dir(path).ok();
    }
    synced
}

fn temporary_for(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY_SUFFIX);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RealFs, read_all};

    #[test]
    fn publishing_replaces_the_file_and_leaves_no_temporary_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("head");
        publish(&RealFs, &path, b"one").unwrap();
        publish(&RealFs, &path, b"two").unwrap();
        assert_eq!(read_all(&RealFs, &path, 100).unwrap(), b"two");
        assert_eq!(RealFs.read_dir(dir.path()).unwrap(), vec![path]);
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("folder");
        RealFs.create_dir(&folder).unwrap();
        let mut paths = vec![folder];
        #[cfg(unix)]
        {
            use rustix::fs::{CWD, FileType, Mode, mknodat};
            let pipe = dir.path().join("pipe");
            mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            paths.push(pipe);
            paths.push(PathBuf::from("/dev/null"));
        }
        for path in paths {
            let before = RealFs.metadata(&path).unwrap().kind;
            let error = publish(&RealFs, &path, b"bytes").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
            assert!(error.to_string().contains("only regular files"), "{error}");
            assert_eq!(RealFs.metadata(&path).unwrap().kind, before);
            assert!(RealFs.metadata(&temporary_for(&path)).is_err());
        }
    }

    #[test]
    fn a_folder_is_created_with_those_above_it_and_may_be_there_already() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a").join("b");
        create_folder(&RealFs, &path).unwrap();
        create_folder(&RealFs, &path).unwrap();
        assert_eq!(RealFs.metadata(&path).unwrap().kind, FileKind::Directory);
        let file = path.join("file");
        publish(&RealFs, &file, b"").unwrap();
        let error = create_folder(&RealFs, &file).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }

    #[test]
    fn the_folder_of_a_bare_name_is_the_current_one() {
        assert_eq!(parent_of(Path::new("run.omni")), Path::new("."));
        assert_eq!(parent_of(Path::new("a/run.omni")), Path::new("a"));
    }
}
