//! Writing a whole history as a new study file: copies, and studies that come from elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, TEMPORARY_SUFFIX, sync_parent};

use super::codec::{check_name, extent, head_line, header_line, op_line};
use super::error::{Fault, JournalError, Result, Section};
use super::reader::data_folder;
use super::record::{ExtentPointer, Head, Header, OpLine};
use crate::replica::Replica;

/// Writes a study at `path`, which must not exist yet, with one extent for each list of operations that
/// `extents` gives. Every operation is applied to a replica first: what a reader would refuse is not
/// written.
///
/// # Errors
/// `Io` with `AlreadyExists` when a study or its folder stands there; `Corrupt` for operations that are
/// no history or a data file's name that is none; otherwise as the disk says. After an error the data
/// file and the folder that it had made are removed again, as far as the disk lets it.
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
    let data_path = folder.join(data_file);
    check_name(data_file)
        .map_err(|fault| JournalError::corrupt(&data_path, Section::Extent, 0, fault))?;
    fs.create_dir(&folder)
        .map_err(JournalError::io("create", &folder))?;
    let head = write_data(fs, &data_path, header, data_file, extents).and_then(|head| {
        fs.sync_dir(&folder)
            .map_err(JournalError::io("sync", &folder))?;
        sync_parent(fs, path).map_err(JournalError::io("sync the folder of", path))?;
        Ok(head)
    });
    let head = head.inspect_err(|_| {
        // The first error is the one to tell; a folder that stays behind is refused by its name.
        fs.remove_file(&data_path).ok();
        fs.remove_dir(&folder).ok();
    })?;
    place_new(
        fs,
        path,
        data_file,
        &[header_line(header), head_line(&head)].concat(),
    )?;
    Ok(head)
}

/// Writes the extents into a new data file and syncs it; answers the head that leads to them.
fn write_data(
    fs: &dyn Fs,
    data_path: &Path,
    header: &Header,
    data_file: &str,
    extents: &mut dyn Iterator<Item = Vec<OpLine>>,
) -> Result<Head> {
    let io = |op| JournalError::io(op, data_path);
    let mut data = fs
        .create_new(data_path, Access::Shared)
        .map_err(io("create"))?;
    let mut replica = Replica::new();
    let mut head = Head {
        tip: None,
        ops: 0,
        bytes: header_line(header).len() as u64,
    };
    let mut offset = 0;
    for ops in extents {
        for op in &ops {
            let refused = |refusal| Fault::Refused {
                seq: op.seq,
                refusal,
            };
            replica.apply_line(op).map_err(refused).map_err(|fault| {
                JournalError::corrupt(data_path, Section::Operations, offset, fault)
            })?;
        }
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
    Ok(head)
}

pub(super) fn refuse_existing(fs: &dyn Fs, path: &Path) -> Result<()> {
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
pub(super) fn place_new(fs: &dyn Fs, path: &Path, token: &str, bytes: &[u8]) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    // Two that create the same study must not share the file that they prepare.
    name.push(format!(".{token}{TEMPORARY_SUFFIX}"));
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
