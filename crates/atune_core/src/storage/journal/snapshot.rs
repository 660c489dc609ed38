//! Writing a whole history as a new study file: copies, and studies that come from elsewhere.

use std::io;
use std::path::{Path, PathBuf};

use durable::{Access, Fs, TEMPORARY_SUFFIX, sync_parent};

use super::codec::{check_name, extent, head_line, header_line, op_line};
use super::error::{Fault, JournalError, Result, Section};
use super::history::PAYLOAD_LEN_READ_MAX;
use super::reader::data_folder;
use super::record::{ExtentPointer, FORMAT_VERSION, Head, Header, METADATA_LEN_MAX, OpLine};
use crate::replica::Replica;

/// Writes a study at `path`, which must not exist yet, with one extent for each list of operations that
/// `extents` gives. What a reader would refuse is not written: every operation is applied to a replica
/// first, and header, records and extents are held to the lengths that readers take.
///
/// # Errors
/// `Io` with `AlreadyExists` when a study or its folder stands there; `Corrupt` for a header of another
/// format than today's, for operations that are no history, for a header or operations that are too
/// long, and for a data file's name that is none; otherwise as the disk says. After an error the data
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
    write_within(fs, path, header, data_file, extents, PAYLOAD_LEN_READ_MAX)
}

/// As [`write_study`], with payloads of at most so many bytes.
fn write_within(
    fs: &dyn Fs,
    path: &Path,
    header: &Header,
    data_file: &str,
    extents: &mut dyn Iterator<Item = Vec<OpLine>>,
    payload_len_max: u64,
) -> Result<Head> {
    refuse_existing(fs, path)?;
    check_header(path, header)?;
    let folder = data_folder(path);
    let data_path = folder.join(data_file);
    check_name(data_file)
        .map_err(|fault| JournalError::corrupt(&data_path, Section::Extent, 0, fault))?;
    fs.create_dir(&folder)
        .map_err(JournalError::io("create", &folder))?;
    let written = write_data(fs, &data_path, header, extents, payload_len_max);
    let head = written.and_then(|head| {
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
    extents: &mut dyn Iterator<Item = Vec<OpLine>>,
    payload_len_max: u64,
) -> Result<Head> {
    let data_file = data_path.file_name().unwrap_or_default().to_string_lossy();
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
        let mut payload = Vec::new();
        for op in &ops {
            let refused = |refusal| Fault::Refused {
                seq: op.seq,
                refusal,
            };
            replica
                .apply_line(op)
                .map_err(refused)
                .and_then(|()| {
                    let line = op_line(op);
                    let len = payload.len() + line.len();
                    check_len("an extent's payload", len, payload_len_max)?;
                    payload.extend_from_slice(&line);
                    Ok(())
                })
                .map_err(|fault| {
                    JournalError::corrupt(data_path, Section::Operations, offset, fault)
                })?;
        }
        let (Some(first), Some(last)) = (ops.first(), ops.last()) else {
            continue;
        };
        let bytes = extent(head.tip.take(), first.seq, last.seq, head.bytes, &payload);
        data.append(&bytes).map_err(io("write"))?;
        let len = bytes.len() as u64;
        head.tip = Some(ExtentPointer {
            file: data_file.clone().into_owned(),
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

/// Refuses a header that no reader takes.
fn check_header(path: &Path, header: &Header) -> Result<()> {
    let len = header_line(header).len();
    let checked = if header.format == FORMAT_VERSION {
        check_len("a header line", len, METADATA_LEN_MAX as u64)
    } else {
        let format = header.format;
        let what = format!("format {format} where {FORMAT_VERSION} is written");
        Err(Fault::BadRecord(what))
    };
    checked.map_err(|fault| JournalError::corrupt(path, Section::Header, 0, fault))
}

/// Refuses what is longer than readers take.
pub(super) fn check_len(
    what: &'static str,
    len: usize,
    max: u64,
) -> std::result::Result<(), Fault> {
    let len = len as u64;
    if len <= max {
        Ok(())
    } else {
        Err(Fault::TooLong { what, len, max })
    }
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
    let placed = (file.append(bytes).map_err(io("write")))
        .and_then(|()| file.sync().map_err(io("sync")))
        .and_then(|()| {
            let linked = fs.hard_link(&temporary, path);
            linked.map_err(JournalError::io("create", path))
        });
    drop(file);
    // Also of an attempt that came too late; the first error is the one to tell.
    let removed = fs.remove_file(&temporary).map_err(io("remove"));
    placed.and(removed)?;
    sync_parent(fs, path).map_err(JournalError::io("sync the folder of", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::conformance::example_config;
    use crate::storage::journal::JournalReader;
    use crate::storage::journal::record::{CreateStudy, SetStudyUserAttr};
    use crate::trial::{Direction, StudyId, WorkerId};
    use durable_sim::SimFs;
    use std::sync::Arc;

    const PATH: &str = "/study.atj";

    fn history() -> Vec<OpLine> {
        let study = StudyId(0);
        let create = CreateStudy {
            study,
            config: example_config("a", &[Direction::Minimize]),
        };
        let attr = SetStudyUserAttr {
            study,
            key: "k".to_owned(),
            value: "v".into(),
        };
        let ops = [create.into(), attr.clone().into(), attr.into()];
        let line = |(seq, op)| OpLine {
            seq,
            worker: WorkerId(0),
            at_millis: 1,
            op,
        };
        (1..).zip(ops).map(line).collect()
    }

    fn write(fs: &SimFs, extent_lens: &[usize], payload_len_max: u64) -> Result<Head> {
        let header = Header {
            format: FORMAT_VERSION,
            atune: "1.0.0".to_owned(),
            created_at_millis: 1,
            created_by: WorkerId(0),
        };
        let mut rest = history().into_iter();
        let mut extents = extent_lens
            .iter()
            .map(|len| rest.by_ref().take(*len).collect());
        let path = Path::new(PATH);
        write_within(fs, path, &header, "data-a", &mut extents, payload_len_max)
    }

    #[test]
    fn an_extent_or_a_record_that_no_reader_takes_is_refused_and_leaves_nothing() {
        let lens: Vec<u64> = history()
            .iter()
            .map(|op| op_line(op).len() as u64)
            .collect();
        for extents in [&[3][..], &[1, 2], &[2, 1], &[1, 1, 1]] {
            let mut rest = lens.iter();
            let payload = |len: &usize| rest.by_ref().take(*len).sum();
            let max: u64 = extents.iter().map(payload).max().unwrap();
            let fs = SimFs::new();
            assert_eq!(write(&fs, extents, max).unwrap().ops, 3);
            let reader = JournalReader::open_on(Arc::new(fs), PATH).unwrap();
            assert_eq!(reader.extent_count(), extents.len());

            let fs = SimFs::new();
            let found = write(&fs, extents, max - 1);
            let Err(JournalError::Corrupt { section, fault, .. }) = found else {
                panic!("{found:?}")
            };
            assert_eq!(section, Section::Operations);
            let (what, len) = ("an extent's payload", max);
            let max = max - 1;
            assert_eq!(fault, Fault::TooLong { what, len, max });
            assert_eq!(fs.contents(), SimFs::new().contents());
        }
    }
}
