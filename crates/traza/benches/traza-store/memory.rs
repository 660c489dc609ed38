//! The memory of a process.

use std::path::Path;

use durable::{Fs as _, RealFs};

use crate::Result;

/// Resident bytes of this process now, and the most since [`forget_peak`].
pub(crate) fn resident() -> Result<(u64, u64)> {
    resident_of("self")
}

/// Resident bytes of a process now, and the most there ever were.
pub(crate) fn resident_of(process: &str) -> Result<(u64, u64)> {
    let file = RealFs.open(&Path::new("/proc").join(process).join("status"))?;
    let mut bytes = vec![0; 1 << 14];
    let len = file.read_at(0, &mut bytes)?;
    let text = String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned();
    let kib = |name: &str| -> u64 {
        text.lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| rest.trim().trim_end_matches(" kB").parse().ok())
            .unwrap_or(0)
    };
    Ok((kib("VmRSS:") * 1024, kib("VmHWM:") * 1024))
}

/// Lets the peak begin anew.
pub(crate) fn forget_peak() -> Result<()> {
    let mut file = RealFs.open_append(Path::new("/proc/self/clear_refs"))?;
    Ok(file.append(b"5")?)
}
