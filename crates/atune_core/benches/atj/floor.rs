//! The floor: what no durable commit can avoid. About as many bytes as a commit writes are appended
//! to one open file and synced, on the same disk.

use std::path::Path;

use durable::{Access, Fs as _, RealFs};

use crate::Result;
use crate::machine::now_ns;
use crate::stats::float;

/// Bytes of one append.
pub(crate) const APPEND_LEN: usize = 700;
const APPENDS: usize = 200;

/// Microseconds that each of some appends with its sync takes.
pub(crate) fn micros(dir: &Path) -> Result<Vec<f64>> {
    let path = dir.join("floor");
    let mut file = RealFs.create_new(&path, Access::Shared)?;
    let mut micros = Vec::with_capacity(APPENDS);
    for _ in 0..APPENDS {
        let start = now_ns();
        file.append(&[b'x'; APPEND_LEN])?;
        file.sync_data()?;
        micros.push(float(now_ns() - start) / 1e3);
    }
    RealFs.remove_file(&path)?;
    Ok(micros)
}
