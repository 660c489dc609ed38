//! A file that appears under its name when it is complete, and never over one that stands there
//! unless that was asked for.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use durable::{Access, Fs as _, FsFile, RealFs, TEMPORARY_SUFFIX, parent_of, sync_parent};

use crate::failure::Failure;

/// A file that is being made under a temporary name. Dropped before [`finish`](Self::finish), it
/// leaves nothing behind.
pub(crate) struct NewFile {
    path: PathBuf,
    temporary: PathBuf,
    replace: bool,
    file: Option<Box<dyn FsFile>>,
}

impl NewFile {
    /// Begins the file; with `replace` it may take the place of another.
    pub(crate) fn create(path: &Path, access: Access, replace: bool) -> Result<Self, Failure> {
        refuse_existing(path, replace)?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}{TEMPORARY_SUFFIX}", std::process::id()));
        let temporary = PathBuf::from(name);
        let file = RealFs
            .create_new(&temporary, access)
            .map_err(|error| Failure::io(&format!("cannot create {}", path.display()), &error))?;
        Ok(Self {
            path: path.to_owned(),
            temporary,
            replace,
            file: Some(file),
        })
    }

    /// The bytes so far, for reading.
    pub(crate) fn reopen(&self) -> io::Result<Box<dyn FsFile>> {
        RealFs.open(&self.temporary)
    }

    /// Gives the file its name.
    ///
    /// # Durability
    /// When it returns `Ok`, the file is durable under its name.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        let Some(mut file) = self.file.take() else {
            return Ok(());
        };
        let tried = format!("cannot write {}", self.path.display());
        let named = file.sync().and_then(|()| self.name());
        if matches!(&named, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
            self.discard();
            return Err(exists(&self.path));
        }
        named
            .and_then(|()| sync_parent(&RealFs, &self.path))
            .map_err(|error| {
                self.discard();
                Failure::io(&tried, &error)
            })
    }

    /// A link refuses a name that came to exist meanwhile, which a rename would replace. A file
    /// system without links gets the rename after a second look.
    fn name(&self) -> io::Result<()> {
        if self.replace {
            return RealFs.rename(&self.temporary, &self.path);
        }
        match RealFs.hard_link(&self.temporary, &self.path) {
            Ok(()) => RealFs.remove_file(&self.temporary),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
            Err(_) if RealFs.exists(&self.path)? => {
                Err(io::Error::from(io::ErrorKind::AlreadyExists))
            }
            Err(_) => RealFs.rename(&self.temporary, &self.path),
        }
    }

    fn discard(&self) {
        // The name may be gone already.
        RealFs.remove_file(&self.temporary).ok();
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.append(bytes).map(|()| bytes.len()),
            None => Err(io::Error::from(io::ErrorKind::NotConnected)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            self.discard();
        }
    }
}

/// Fails when something stands at `path`, unless it may be replaced.
pub(crate) fn refuse_existing(path: &Path, replace: bool) -> Result<(), Failure> {
    let stands = RealFs
        .exists(path)
        .map_err(|error| Failure::io(&format!("cannot look at {}", path.display()), &error))?;
    if stands && !replace {
        return Err(exists(path));
    }
    Ok(())
}

fn exists(path: &Path) -> Failure {
    Failure::new(format!("{} exists already", path.display()))
        .with_hint("choose another name, or replace it with --force")
}

/// True when writing to `output` would replace the file at `input`, by that name or through a link.
pub(crate) fn would_replace(output: &Path, input: &Path) -> bool {
    let Some(name) = output.file_name() else {
        return false;
    };
    let placed = |path: &Path| Some(parent_of(path).canonicalize().ok()?.join(path.file_name()?));
    let Ok(folder) = parent_of(output).canonicalize() else {
        return false;
    };
    let target = Some(folder.join(name));
    placed(input) == target || input.canonicalize().ok() == target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_complete_and_never_over_another_unless_asked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let write = |replace, text: &[u8]| -> Result<(), Failure> {
            let mut file = NewFile::create(&path, Access::Shared, replace)?;
            file.write_all(text).unwrap();
            file.finish()
        };
        write(false, b"one").unwrap();
        assert!(write(false, b"two").is_err());
        assert_eq!(durable::read_all(&RealFs, &path, 10).unwrap(), b"one");
        write(true, b"two").unwrap();
        assert_eq!(durable::read_all(&RealFs, &path, 10).unwrap(), b"two");
        assert_eq!(RealFs.read_dir(dir.path()).unwrap(), [path]);
    }

    #[test]
    fn a_name_that_came_to_exist_meanwhile_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let file = NewFile::create(&path, Access::Shared, false).unwrap();
        let mut other = RealFs.create_new(&path, Access::Shared).unwrap();
        other.append(b"other").unwrap();
        assert!(file.finish().is_err());
        assert_eq!(durable::read_all(&RealFs, &path, 10).unwrap(), b"other");
        assert_eq!(RealFs.read_dir(dir.path()).unwrap(), [path]);
    }

    #[test]
    fn an_abandoned_file_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        drop(NewFile::create(&dir.path().join("out"), Access::Shared, false).unwrap());
        assert!(RealFs.read_dir(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn an_input_is_recognised_by_its_name_and_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("run.omni"), dir.path().join("link.omni"));
        RealFs.create_new(&file, Access::Shared).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert!(would_replace(&file, &file));
        assert!(would_replace(&dir.path().join("./run.omni"), &file));
        assert!(would_replace(&file, &link));
        assert!(!would_replace(&dir.path().join("other"), &file));
    }
}
