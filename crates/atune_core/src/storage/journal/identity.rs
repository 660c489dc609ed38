//! Who a writer is: what makes its names differ from everybody else's.

use std::sync::atomic::{AtomicU64, Ordering};

use durable::Fs;

/// Where Linux tells one start of the machine from the next.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// The identity of one handle of one process.
#[derive(Debug)]
pub struct Identity {
    pub(super) pid: u32,
    pub(super) host: String,
    pub(super) boot: String,
    is_of_process: bool,
    seed: u64,
    drawn: AtomicU64,
}

impl Identity {
    /// The identity of this process, with random numbers of the system.
    pub fn of_this_process() -> Self {
        let mut seed = [0; 8];
        // An early boot without random numbers: the process number and the time still differ.
        rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()).ok();
        let boot = read_text(BOOT_ID);
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        Self {
            pid: std::process::id(),
            host,
            boot,
            is_of_process: true,
            seed: u64::from_le_bytes(seed),
            drawn: AtomicU64::new(0),
        }
    }

    /// An identity whose names are the same every time, for tests that compare bytes or calls.
    pub fn fixed(seed: u64) -> Self {
        Self {
            pid: u32::try_from(seed & 0xffff).unwrap_or(0),
            host: "host".to_owned(),
            boot: "boot".to_owned(),
            is_of_process: false,
            seed,
            drawn: AtomicU64::new(0),
        }
    }

    /// False in a child that was forked from the process that made the handle.
    pub(super) fn is_this_process(&self) -> bool {
        !self.is_of_process || self.pid == std::process::id()
    }

    /// The next number that nobody else has: the seed's own sequence (`SplitMix64`).
    pub(super) fn draw(&self) -> u64 {
        let step = self.drawn.fetch_add(1, Ordering::Relaxed) + 1;
        let mut z = self
            .seed
            .wrapping_add(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

fn read_text(path: &str) -> String {
    // The file reports a length of 0; what it holds is short.
    let bytes = durable::RealFs
        .open(path.as_ref())
        .and_then(|file| {
            let mut bytes = vec![0; 64];
            let len = file.read_at(0, &mut bytes)?;
            bytes.truncate(len);
            Ok(bytes)
        })
        .unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}
