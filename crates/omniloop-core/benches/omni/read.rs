//! Reading a sealed journal front to back, every checksum checked.

use durable::RealFs;
use omniloop_core::journal::{JournalPlayer, PlayerOptions};

use crate::Result;
use crate::files::Prepared;
use crate::measure::{Basis, Sample, Side, timed};
use crate::texts::Texts;

pub(crate) const BUFFERED: &str = "read all, buffered";
pub(crate) const MAPPED: &str = "read all, mapped";

pub(crate) fn sides<'a>(texts: &'a Texts, prepared: &'a Prepared) -> Vec<Side<'a>> {
    let side = move |(name, mapped)| -> Side<'a> {
        Box::new(move || {
            let (times, bytes) = timed(|| read_all(prepared, mapped))?;
            if bytes != texts.payload_bytes(prepared.records) {
                return Err("the journal gave back other bytes than were written".into());
            }
            Ok(vec![Sample {
                name,
                basis: Basis::ThreadCpu,
                times,
                records: prepared.records,
                bytes: texts.record_bytes(prepared.records),
            }])
        })
    };
    [(BUFFERED, false), (MAPPED, true)]
        .into_iter()
        .map(side)
        .collect()
}

pub(crate) fn open(prepared: &Prepared, mapped: bool) -> Result<JournalPlayer> {
    let options = PlayerOptions {
        mapped,
        ..PlayerOptions::default()
    };
    Ok(JournalPlayer::open_with(
        &RealFs,
        &prepared.journal,
        options,
    )?)
}

/// Bytes of the payloads of all data records.
fn read_all(prepared: &Prepared, mapped: bool) -> Result<u64> {
    let mut player = open(prepared, mapped)?;
    let mut bytes = 0;
    while let Some(frame) = player.next_frame()? {
        if frame.kind.is_data() {
            bytes += frame.payload.len() as u64;
        }
    }
    Ok(bytes)
}
