//! The socket as a file: who may connect, and what stood there before.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use durable::{Fs as _, RealFs};
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, chmod, fchmod, flock, lstat, open};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, socket_with,
};

use crate::error::ServerError;
use crate::protocol::Peer;

/// Connections that the kernel holds before they are accepted.
const BACKLOG: i32 = 16;

/// A listening socket that has a name.
#[derive(Debug)]
pub(crate) struct Named {
    path: PathBuf,
    /// Device and inode: the name may be another's by the time it is removed.
    identity: (u64, u64),
}

/// Listens at `path`, which only this user can connect to. A socket that nobody listens at any more is
/// replaced; anything else that stands there is left alone.
pub(crate) fn listen_at(path: &Path) -> Result<(UnixListener, Named), ServerError> {
    let _folder =
        lock_folder(path).map_err(|source| io_error("lock the folder of", path, source))?;
    make_room(path)?;
    let made = || -> rustix::io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let fd = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        let owner_only = Mode::RUSR | Mode::WUSR;
        // On Linux a socket's name gets the mode of the socket: there is no moment at which others may
        // connect. Elsewhere the mode follows at once, before anything is accepted.
        fchmod(&fd, owner_only).ok();
        bind(&fd, &SocketAddrUnix::new(path)?)?;
        chmod(path, owner_only)?;
        listen(&fd, BACKLOG)?;
        Ok(fd)
    };
    let fd = made().map_err(|errno| io_error("listen at", path, errno.into()))?;
    let stat = lstat(path).map_err(|errno| io_error("look at", path, errno.into()))?;
    let named = Named {
        path: path.to_owned(),
        identity: (stat.st_dev, stat.st_ino),
    };
    Ok((UnixListener::from(fd), named))
}

impl Named {
    /// Takes the name away, if it is still ours.
    pub(crate) fn remove(&self) {
        let Ok(_folder) = lock_folder(&self.path) else {
            return;
        };
        if lstat(&self.path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity) {
            RealFs.remove_file(&self.path).ok();
        }
    }
}

/// Two recorders that find the same stale socket must not replace each other's.
fn lock_folder(path: &Path) -> io::Result<OwnedFd> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = open(folder, flags, Mode::empty())?;
    flock(&fd, FlockOperation::LockExclusive)?;
    Ok(fd)
}

fn make_room(path: &Path) -> Result<(), ServerError> {
    let stat = match lstat(path) {
        Err(Errno::NOENT) => return Ok(()),
        found => found.map_err(|errno| io_error("look at", path, errno.into()))?,
    };
    let path = path.to_owned();
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(ServerError::NotASocket { path });
    }
    // Without waiting: a full backlog is somebody who listens, too.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let tried = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
        .and_then(|fd| connect(&fd, &SocketAddrUnix::new(&path)?));
    match tried {
        Err(Errno::CONNREFUSED) => {
            let removed = RealFs.remove_file(&path);
            removed.map_err(|source| io_error("replace", &path, source))
        }
        _ => Err(ServerError::InUse { path }),
    }
}

pub(crate) fn io_error(op: &'static str, path: &Path, source: io::Error) -> ServerError {
    ServerError::Io {
        op,
        path: path.to_owned(),
        source,
    }
}

/// Who is at the other end.
#[cfg(target_os = "linux")]
pub(crate) fn peer_of(stream: &UnixStream) -> io::Result<Peer> {
    let credentials = rustix::net::sockopt::socket_peercred(stream)?;
    Ok(Peer {
        uid: credentials.uid.as_raw(),
        pid: credentials.pid.as_raw_nonzero().get(),
    })
}

/// Who is at the other end: the socket's mode lets nobody but this user in. Its process is not known.
#[cfg(not(target_os = "linux"))]
pub(crate) fn peer_of(_stream: &UnixStream) -> io::Result<Peer> {
    Ok(Peer {
        uid: rustix::process::geteuid().as_raw(),
        pid: 0,
    })
}
