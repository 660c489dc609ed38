//! Writing a whole history as a new study file: copies, and studies that come from elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, TEMPORARY_SUFFIX, sync_parent};

use super::codec::{extent, head_line, header_line, op_line};
use super::error::{JournalError, Result};
use super::reader::data_folder;
use super::record::{ExtentPointer, Head, Header, OpLine};

/// Writes a study at `path`, which must not exist yet, with one extent for each list of operations that
/// `extents` gives. The operations are taken as they are: their writer has applied them to a replica.
///
/// # Errors
/// `Io` with `AlreadyExists` when a study or its folder stands there; otherwise as the disk says.
///
/// # Durability
/// The study appears at `path` whole and durable, or not at all: data file, folder and parent are synced
/// before the first head refers to them.
pub fn write_study(
    fs: &dyn Fs,
    path: &Path,
    header: &Header,
    data_file: &str,
    extents: &mut dyn Iterator<Item = Vec<OpLine>>,
) -> Result<Head> {
    refuse_existing(fs, path)?;
    let folder = data_folder(path);
    fs.create_dir(&folder)
        .map_err(JournalError::io("create", &folder))?;
    let data_path = folder.join(data_file);
    let io = |op| JournalError::io(op, &data_path);
    let mut data = fs
        .create_new(&data_path, Access::Shared)
        .map_err(io("create"))?;
    let header_bytes = header_line(header);
    let mut head = Head {
        tip: None,
        ops: 0,
        bytes: header_bytes.len() as u64,
    };
    let mut offset = 0;
    for ops in extents {
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else {
            continue;
        };
        let payload: Vec<u8> = ops.iter().flat_map(op_line).collect();
        let bytes = extent(head.tip.take(), first.seq, last.seq, head.bytes, &payload);
        data.append(&bytes).map_err(io("write"))?;
        let len = bytes.len() as u64;
        head.tip = Some(ExtentPointer {
            file: data_file.to_owned(),
            offset,
            len,
        });
        head.ops = last.seq;
        head.bytes += payload.len() as u64;
        offset += len;
    }
    data.sync().map_err(io("sync"))?;
    fs.sync_dir(&folder)
        .map_err(JournalError::io("sync", &folder))?;
    sync_parent(fs, path).map_err(JournalError::io("sync the folder of", path))?;
    place_new(fs, path, &[header_bytes, head_line(&head)].concat())?;
    Ok(head)
}

fn refuse_existing(fs: &dyn Fs, path: &Path) -> Result<()> {
    for path in [path.to_owned(), data_folder(path)] {
        if fs
            .exists(&path)
            .map_err(JournalError::io("look at", &path))?
        {
            let source = io::Error::from(io::ErrorKind::AlreadyExists);
            return Err(JournalError::Io {
                op: "create",
                path,
                source,
            });
        }
    }
    Ok(())
}

/// Puts a small file at a path that must be free. A rename would replace what somebody else put there
/// meanwhile; a second name is refused then.
fn place_new(fs: &dyn Fs, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY_SUFFIX);
    let temporary = PathBuf::from(name);
    match fs.remove_file(&temporary) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(source) => {
            return Err(JournalError::Io {
                op: "remove",
                path: temporary,
                source,
            });
        }
    }
    let io = |op| JournalError::io(op, &temporary);
    let mut file = fs
        .create_new(&temporary, Access::Shared)
        .map_err(io("create"))?;
    file.append(bytes).map_err(io("write"))?;
    file.sync().map_err(io("sync"))?;
    fs.hard_link(&temporary, path)
        .map_err(JournalError::io("create", path))?;
    fs.remove_file(&temporary).map_err(io("remove"))?;
    sync_parent(fs, path).map_err(JournalError::io("sync the folder of", path))
}
