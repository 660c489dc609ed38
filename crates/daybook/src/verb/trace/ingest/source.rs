//! Where spans come from: files and standard input.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use durable::{Fs as _, FsFile, RealFs};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::failure::Failure;

const CHUNK_LEN: usize = 256 << 10;
/// After such a pause of standard input, what has come is not held back any longer.
const PAUSE: Duration = Duration::from_millis(100);

/// What reading came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Read {
    Bytes,
    /// Nothing has come for a moment.
    Pause,
    End,
}

pub(super) enum Source {
    File {
        path: PathBuf,
        file: Box<dyn FsFile>,
        len: u64,
        offset: u64,
    },
    StandardInput,
}

impl Source {
    /// Opens a file; `-` is standard input.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path.as_os_str() == "-" {
            return Ok(Self::StandardInput);
        }
        let opened = RealFs.open(path).and_then(|file| {
            let len = file.len()?;
            Ok((file, len))
        });
        match opened {
            Ok((file, len)) => Ok(Self::File {
                path: path.to_owned(),
                file,
                len,
                offset: 0,
            }),
            Err(error) => Err(cannot_read(&path.display().to_string(), &error)),
        }
    }

    /// How the input is called.
    pub(super) fn name(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::StandardInput => "standard input".to_owned(),
        }
    }

    /// Length of a file.
    pub(super) fn len(&self) -> u64 {
        match self {
            Self::File { len, .. } => *len,
            Self::StandardInput => 0,
        }
    }

    /// Appends what comes next.
    pub(super) fn read(&mut self, to: &mut Vec<u8>) -> Result<Read, Failure> {
        let start = to.len();
        to.resize(start + CHUNK_LEN, 0);
        let space = to.get_mut(start..).unwrap_or_default();
        let read = match self {
            Self::File { file, offset, .. } => match file.read_at(*offset, space) {
                Ok(len) => {
                    *offset += len as u64;
                    Ok(Some(len))
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
                Err(error) => Err(error),
            },
            Self::StandardInput => read_standard_input(space),
        };
        let len = read.as_ref().ok().copied().flatten().unwrap_or(0);
        to.truncate(start + len);
        match read {
            Ok(Some(0)) => Ok(Read::End),
            Ok(Some(_)) => Ok(Read::Bytes),
            Ok(None) => Ok(Read::Pause),
            Err(error) => Err(cannot_read(&self.name(), &error)),
        }
    }
}

fn cannot_read(name: &str, error: &io::Error) -> Failure {
    Failure::io(&format!("cannot read {name}"), error)
}

/// Reads past the buffer of the standard library: what that holds would not be seen by `poll`. Waits only for a moment,
/// so that Ctrl-C is noticed.
fn read_standard_input(space: &mut [u8]) -> io::Result<Option<usize>> {
    let input = io::stdin();
    let timeout =
        Timespec::try_from(PAUSE).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&timeout)) {
        Ok(0) | Err(Errno::INTR) => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    match rustix::io::read(&input, space) {
        Ok(len) => Ok(Some(len)),
        Err(Errno::INTR | Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
