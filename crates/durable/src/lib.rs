//! The durable substrate under every Daybook engine. It knows no format.
//!
//! * [`Fs`] and [`FsFile`]: the only door to the file system, implemented by [`RealFs`] here and by
//!   the simulated disk of the crate `durable-sim`.
//! * [`publish()`]: replaces a small file so that a crash leaves the old or the new one, never a mix.
//! * [`layout!`]: one table per fixed structure, from which code, docs, errors and damage sweeps come.
//! * [`Cursor`]: a bounded reader over bytes that nobody vouches for.
//! * [`checksum`], [`digest`], [`varint`]: the arithmetic of the formats, pinned to check values.
//! * [`Clock`]: time as a parameter.
//! * [`Verdict`]: what `verify` says about any kind of record.
//!
//! ```
//! use durable::{Fs, RealFs, publish};
//! let dir = std::env::temp_dir().join(format!("durable-doc-{}", std::process::id()));
//! RealFs.create_dir_all(&dir)?;
//! publish(&RealFs, &dir.join("head"), b"generation 1")?;
//! assert_eq!(durable::read_all(&RealFs, &dir.join("head"), 1 << 20)?, b"generation 1");
//! # RealFs.remove_file(&dir.join("head"))?; RealFs.remove_dir(&dir)?;
//! # Ok::<(), std::io::Error>(())
//! ```

pub mod checksum;
mod clock;
mod cursor;
pub mod digest;
mod fs;
pub mod layout;
mod map;
mod publish;
mod real;
pub mod varint;
mod verdict;
#[cfg(target_os = "linux")]
mod watch;
mod window;

pub use clock::{Clock, ManualClock, SystemClock};
pub use cursor::{Cursor, Short};
pub use fs::{Access, FileKind, Fs, FsFile, Metadata, Watcher, read_all};
pub use layout::Field;
pub use map::Map;
pub use publish::{TEMPORARY_SUFFIX, create_folder, parent_of, publish, sync_parent};
pub use real::RealFs;
pub use verdict::{Finding, Outcome, Severity, Verdict};
pub use window::Window;
