//! What the figures were taken on.

use std::path::Path;

use durable::{Clock as _, Fs as _, RealFs, SystemClock};
use serde_json::{Value, json};

use crate::Result;

/// Reads a file of `/proc`, whose length is only known once it was read.
pub(crate) fn read_proc(path: &str) -> Result<String> {
    const PIECE_LEN: usize = 64 * 1024;
    let file = RealFs.open(Path::new(path))?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE_LEN];
    loop {
        let len = file.read_at(bytes.len() as u64, &mut piece)?;
        if len == 0 {
            return Ok(String::from_utf8_lossy(&bytes).into_owned());
        }
        bytes.extend_from_slice(piece.get(..len).unwrap_or_default());
    }
}

/// The value behind `name:` in a file of `/proc`.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

/// Date, processor and operating system.
pub(crate) fn facts() -> Result<Value> {
    // On a machine without /proc the facts are unknown; the figures are not.
    let cpu = read_proc("/proc/cpuinfo").unwrap_or_default();
    let load = read_proc("/proc/loadavg").unwrap_or_default();
    let flags: Vec<&str> = field(&cpu, "flags")
        .unwrap_or_default()
        .split(' ')
        .collect();
    let now = jiff::Timestamp::from_nanosecond(SystemClock::start().wall_ns().into())?;
    Ok(json!({
        "date": now.strftime("%Y-%m-%d").to_string(),
        "cpu": field(&cpu, "model name").unwrap_or("unknown"),
        "cpu_family": field(&cpu, "cpu family").unwrap_or("unknown"),
        "cpu_model": field(&cpu, "model").unwrap_or("unknown"),
        "cores": std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        "avx512": flags.contains(&"avx512f"),
        "virtual_machine": flags.contains(&"hypervisor"),
        "arch": std::env::consts::ARCH,
        "os": std::env::consts::OS,
        "load_average_at_start": load.trim(),
    }))
}
