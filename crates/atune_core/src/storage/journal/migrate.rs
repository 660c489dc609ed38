//! From versions 1 to 5 to version 6: all operations into one new data file, then the head in the old
//! file's place. The old file stays reachable under another name.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use durable::{Access, Fs, Window};

use super::codec::{extent, header_line, op_line};
use super::error::{JournalError, Result, Section};
use super::history::PAYLOAD_LEN_READ_MAX;
use super::lease::Held;
use super::publish::{Press, Unpublished};
use super::reader::JournalReader;
use super::record::{ExtentPointer, FORMAT_VERSION, Head};
use super::snapshot::check_len;

/// Bytes of each file that are compared at a time.
const COMPARED_LEN: usize = 256 * 1024;

/// Operations that become one extent.
#[derive(Default)]
struct Gathered {
    first: u64,
    last: u64,
    payload: Vec<u8>,
    /// Where the first of them stands in the old file.
    old_offset: u64,
}

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
    let mut gathered = Gathered::default();
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
    let mut write = |gathered: &mut Gathered, head: &mut Head| -> Result<()> {
        let Gathered {
            first,
            last,
            payload,
            old_offset,
        } = std::mem::take(gathered);
        if payload.is_empty() {
            return Ok(());
        }
        // Spelled as it is today, a line may be longer than it was.
        check_len("a migrated record", payload.len(), PAYLOAD_LEN_READ_MAX).map_err(|fault| {
            JournalError::corrupt(press.path, Section::Operations, old_offset, fault)
        })?;
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
    let reader = JournalReader::open_watched(Arc::clone(fs), press.path, &mut |op, old_offset| {
        if written.is_err() {
            return;
        }
        let line = op_line(op);
        if gathered.payload.len() + line.len() > extent_len_max {
            written = write(&mut gathered, &mut head);
        }
        if gathered.payload.is_empty() {
            (gathered.first, gathered.old_offset) = (op.seq, old_offset);
        }
        gathered.last = op.seq;
        gathered.payload.extend_from_slice(&line);
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
        Err(e)
            if e.kind() == ErrorKind::AlreadyExists
                && is_same(fs.as_ref(), press.path, &legacy)? => {}
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

/// Whether two files hold the same bytes.
fn is_same(fs: &dyn Fs, one: &Path, two: &Path) -> Result<bool> {
    let open = |path| {
        fs.open(path)
            .and_then(|file| Window::buffered(file, COMPARED_LEN))
            .map_err(JournalError::io("read", path))
    };
    let (mut first, mut second) = (open(one)?, open(two)?);
    let len = first.file_len();
    let mut offset = 0;
    while len == second.file_len() {
        let read = first
            .bytes(offset, COMPARED_LEN)
            .map_err(JournalError::io("read", one))?;
        let other = second
            .bytes(offset, COMPARED_LEN)
            .map_err(JournalError::io("read", two))?;
        if read != other {
            return Ok(false);
        }
        offset += read.len() as u64;
        if read.is_empty() {
            return Ok(offset == len);
        }
    }
    Ok(false)
}
