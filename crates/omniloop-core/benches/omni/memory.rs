//! Whether a journal's memory stays flat while millions of records go through it.

use std::path::Path;

use durable::{Fs as _, RealFs};
use serde_json::{Value, json};

use crate::append::{append_all, create};
use crate::machine::{field, read_proc};
use crate::measure::float;
use crate::texts::Texts;
use crate::{Plan, Result};

const PAYLOAD_LEN: usize = 64;
/// Records before the first look: buffers are allocated and code is paged in by then.
const WARM_UP: u64 = 10_000;

pub(crate) fn growth(plan: &Plan, dir: &Path) -> Result<Value> {
    let records: u64 = if plan.quick { 2_000_000 } else { 10_000_000 };
    let texts = Texts::new(PAYLOAD_LEN);
    let path = dir.join("memory.omni");
    let mut journal = create(&path)?;
    append_all(&mut journal, WARM_UP, &texts)?;
    let before = kib("VmRSS")?;
    append_all(&mut journal, records, &texts)?;
    let after = kib("VmRSS")?;
    journal.seal()?;
    let peak = kib("VmHWM")?;
    RealFs.remove_file(&path)?;
    let mib = |kib: u64| float(kib) / 1024.0;
    Ok(json!({
        "records": records,
        "payload_len": PAYLOAD_LEN,
        "rss_before_mib": mib(before),
        "rss_growth_mib": mib(after) - mib(before),
        "peak_growth_with_seal_mib": mib(peak) - mib(before),
    }))
}

/// A figure of this process's memory, in KiB.
fn kib(name: &str) -> Result<u64> {
    let status = read_proc("/proc/self/status")?;
    let value = field(&status, name).and_then(|value| value.split(' ').next());
    Ok(value.ok_or("no memory figures in /proc")?.parse()?)
}
