//! `OmniLoop`: a tamper-evident flight recorder of control and training loops.
//!
//! A run is written as an `.omni` journal, one file or a rotated set, whose records are chained by
//! SHA-256. The byte format is described in `docs/formats/omni.md`.
//!
//! ```
//! use omniloop_core::journal::{FrameKind, JournalPlayer, StateJournal, verify_chain};
//! # let dir = std::env::temp_dir().join(format!("omni-doc-{}", std::process::id()));
//! # durable::Fs::create_dir_all(&durable::RealFs, &dir)?;
//! let path = dir.join("run.omni");
//! let mut journal = StateJournal::create(&path)?;
//! journal.append(FrameKind::Telemetry, br#"{"loss":0.5}"#)?;
//! journal.seal()?;
//!
//! assert!(verify_chain(&path)?.ok);
//! let mut player = JournalPlayer::open(&path)?;
//! let record = player.read_next_data_record()?.expect("one telemetry record");
//! assert_eq!((record.tick, record.payload.as_slice()), (1, &br#"{"loss":0.5}"#[..]));
//! # durable::Fs::remove_file(&durable::RealFs, &path)?;
//! # durable::Fs::remove_dir(&durable::RealFs, &dir)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod analysis;
pub mod attest;
pub mod export;
pub mod fuzzing;
pub mod journal;
pub mod recorder;
