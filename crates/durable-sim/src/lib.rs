//! A simulated disk that loses, tears and refuses what a real one may. For tests only: no shipped
//! crate depends on it.
//!
//! * [`SimFs`] is a [`durable::Fs`] in memory that knows of every byte and every name whether a sync
//!   has made it durable. It numbers every mutating call, fails or stops at the one it is told to,
//!   fills up, and turns into any disk that a power cut may leave ([`SimFs::after_crash`]).
//! * [`for_each_crash`] runs a workload once per mutating call, stops the disk there, and hands every
//!   disk that may be left to a check. [`for_each_failure`] does the same with errors that the
//!   workload survives.
//! * [`Ledger`] holds what the workload submitted and what was acknowledged to it: the oracle is
//!   *acknowledged ⊆ recovered ⊆ submitted, in order*.
//!
//! ```
//! use std::path::Path;
//! use durable::{Fs as _, publish, read_all};
//! use durable_sim::{Ledger, SimFs, for_each_crash};
//!
//! let head = Path::new("head");
//! let swept = for_each_crash(
//!     |fs: &SimFs, ledger: &mut Ledger<String>| {
//!         for generation in ["one", "two"] {
//!             ledger.submit(generation.to_owned());
//!             publish(fs, head, generation.as_bytes())?;
//!             ledger.acknowledge_all();
//!         }
//!         Ok(())
//!     },
//!     |image, ledger| {
//!         let acknowledged = ledger.acknowledged().last();
//!         if !image.fs.exists(head)? {
//!             assert_eq!(acknowledged, None);
//!             return Ok(());
//!         }
//!         let found = String::from_utf8(read_all(&image.fs, head, 100)?)?;
//!         assert!(ledger.submitted().contains(&found));
//!         assert!(acknowledged.is_none_or(|a| *a == found) || ledger.submitted().last() == Some(&found));
//!         Ok(())
//!     },
//! );
//! assert!(swept.unwrap().images > 20);
//! ```

mod call;
mod disk;
mod file;
mod ledger;
mod names;
mod random;
mod sim;
mod sweep;

pub use call::{Action, Call, EIO, ENOSPC, EROFS, ShortWrite, is_stopped};
pub use ledger::{Ledger, OracleBreak};
pub use sim::SimFs;
pub use sweep::{BoxError, Image, Sweep, SweepFailure, Swept, for_each_crash, for_each_failure};

/// What a crash leaves of that which no sync has made durable. What was synced always survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// All of it: the process was killed, the machine went on.
    Everything,
    /// None of it.
    Nothing,
    /// Every name, no bytes: the disk wrote the folders first.
    NamesOnly,
    /// Every byte, no names: the disk wrote the files first.
    BytesOnly,
    /// Some of it, drawn from a seed: changes of names independently (those that share a name in
    /// order, a rename whole or not at all), bytes by 512-byte sectors, missing ones reading as zeros.
    Seeded(u64),
}
