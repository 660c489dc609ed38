//! From versions 1 to 5 to version 6: all operations into one new data file, then the head in the old
//! file's place. The old file stays reachable under another name.

use std::io::ErrorKind;
use std::sync::Arc;

use durable::{Access, Fs};

use super::codec::{extent, header_line, op_line};
use super::error::{JournalError, Result};
use super::lease::Held;
use super::publish::{Press, Unpublished};
use super::reader::JournalReader;
use super::record::{ExtentPointer, FORMAT_VERSION, Head};

/// Rewrites the study under the lease. One that another has rewritten meanwhile is left as it is.
pub(super) fn migrate(
    fs: &Arc<dyn Fs>,
    press: Press<'_>,
    held: &Held,
    data_file: &str,
    extent_len_max: usize,
) -> Result<()> {
    let path = press.folder.join(data_file);
    let io = |op| JournalError::io(op, &path);
    let mut data = None;
    let mut written = Ok(());
    let mut head = Head {
        tip: None,
        ops: 0,
        bytes: 0,
    };
    let mut gathered: (u64, u64, Vec<u8>) = (0, 0, Vec::new());
    let mut offset = 0;
    let header_of = |old: &super::record::Header| super::record::Header {
        format: FORMAT_VERSION,
        atune: env!("CARGO_PKG_VERSION").to_owned(),
        ..old.clone()
    };
    let old_header = super::reader::read_header(fs.as_ref(), press.path)?;
    if old_header.format == FORMAT_VERSION {
        return Ok(());
    }
    let header = header_of(&old_header);
    head.bytes = header_line(&header).len() as u64;
    let mut write = |gathered: &mut (u64, u64, Vec<u8>), head: &mut Head| -> Result<()> {
        let (first, last, payload) = std::mem::take(gathered);
        if payload.is_empty() {
            return Ok(());
        }
        if data.is_none() {
            let created = fs.create_new(&path, Access::Shared);
            data = Some(created.map_err(io("create"))?);
        }
        let bytes = extent(head.tip.take(), first, last, head.bytes, &payload);
        if let Some(file) = &mut data {
            file.append(&bytes).map_err(io("write"))?;
        }
        let len = bytes.len() as u64;
        head.tip = Some(ExtentPointer {
            file: data_file.to_owned(),
            offset,
            len,
        });
        head.ops = last;
        head.bytes += payload.len() as u64;
        offset += len;
        Ok(())
    };
    let reader = JournalReader::open_watched(Arc::clone(fs), press.path, &mut |op, _| {
        let line = op_line(op);
        if gathered.2.len() + line.len() > extent_len_max && written.is_ok() {
            written = write(&mut gathered, &mut head);
        }
        if gathered.2.is_empty() {
            gathered.0 = op.seq;
        }
        gathered.1 = op.seq;
        gathered.2.extend_from_slice(&line);
    })?;
    written?;
    write(&mut gathered, &mut head)?;
    if head.ops != reader.head().ops {
        let why = "it changed while it was migrated; stop the writers of the older version";
        return Err(JournalError::HistoryChanged {
            path: press.path.to_owned(),
            why,
        });
    }
    if let Some(file) = &mut data {
        press.sync_file(file.as_mut()).map_err(io("sync"))?;
    }
    let legacy = press
        .folder
        .join(format!("legacy-v{}.jsonl", old_header.format));
    match fs.hard_link(press.path, &legacy) {
        // Of a migration that was interrupted: the same file.
        Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
        other => other.map_err(JournalError::io("keep the old file as", &legacy))?,
    }
    press.sync_names()?;
    match press.replace_head(&held.own, &header, &head) {
        Ok(()) => press.settle(),
        Err(Unpublished::LeaseLost) => Err(JournalError::LeaseLost {
            path: press.path.to_owned(),
            times: 1,
        }),
        Err(Unpublished::Failed { error, .. }) => Err(error),
    }
}
