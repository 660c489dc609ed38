//! Why a socket cannot be had.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Why nobody can attend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// Another process listens there.
    #[error("{} is in use: another recorder listens there", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// What stands there is no socket, and is left alone.
    #[error("{} stands there already and is no socket", path.display())]
    NotASocket {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("cannot {op} {}", path.display())]
    Io {
        /// What was tried.
        op: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl ServerError {
    /// The number of the system for it, by which languages tell refusals apart.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::InUse { .. } => Some(Errno::ADDRINUSE.raw_os_error()),
            Self::NotASocket { .. } => Some(Errno::EXIST.raw_os_error()),
            Self::Io { source, .. } => source.raw_os_error(),
        }
    }

    /// The socket.
    pub fn path(&self) -> &Path {
        match self {
            Self::InUse { path } | Self::NotASocket { path } | Self::Io { path, .. } => path,
        }
    }
}
