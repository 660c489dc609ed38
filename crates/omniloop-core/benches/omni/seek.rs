//! Going to a random tick and reading one record there.

use std::hint::black_box;

use mcap::Summary;
use omniloop_core::journal::JournalPlayer;

use crate::files::Prepared;
use crate::mcap_side;
use crate::measure::{Basis, Numbers, timed};
use crate::read::open;
use crate::report::Latency;
use crate::texts::Texts;
use crate::{Plan, Result};

const MAPPED: &str = "seek and read one, mapped";
const BUFFERED: &str = "seek and read one, buffered";
const FIRST_MAPPED: &str = "open and first seek, mapped";
const FIRST_BUFFERED: &str = "open and first seek, buffered";

/// Seeks of each kind, in as many turns.
const SEEKS: u64 = 2000;
const TURNS: u64 = 10;
/// An MCAP seek may take a thousand times as long.
const MCAP_SEEKS: u64 = 200;

pub(crate) fn measure(plan: &Plan, texts: &Texts, prepared: &Prepared) -> Result<Vec<Latency>> {
    let mut numbers = Numbers::from_seed(7);
    let mut mapped = open(prepared, true)?;
    let mut buffered = open(prepared, false)?;
    // The index is read by the first seek, which has a row of its own.
    to_tick(&mut mapped, 1)?;
    to_tick(&mut buffered, 1)?;
    let mut rows: Vec<Latency> = [MAPPED, BUFFERED, FIRST_MAPPED, FIRST_BUFFERED]
        .into_iter()
        .chain(prepared.mcaps.iter().map(|(variant, _)| variant.seeking()))
        .map(|name| Latency::new(name, texts.payload_len))
        .collect();
    let summaries: Vec<(&[u8], Summary)> = prepared
        .mcaps
        .iter()
        .map(|(_, map)| {
            let summary = Summary::read(map)?.ok_or("an mcap file without a summary")?;
            Ok((&**map, summary))
        })
        .collect::<Result<_>>()?;
    for _ in 0..TURNS {
        let mut next = || numbers.below(plan.records) + 1;
        let mut record = |row: usize, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let (times, ()) = timed(work)?;
            if let Some(row) = rows.get_mut(row) {
                row.micros.push(times.seconds(Basis::Wall) * 1e6);
            }
            Ok(())
        };
        for _ in 0..SEEKS / TURNS {
            let tick = next();
            record(0, &mut || to_tick(&mut mapped, tick))?;
        }
        for _ in 0..SEEKS / TURNS {
            let tick = next();
            record(1, &mut || to_tick(&mut buffered, tick))?;
        }
        for _ in 0..10 {
            let tick = next();
            record(2, &mut || to_tick(&mut open(prepared, true)?, tick))?;
            record(3, &mut || to_tick(&mut open(prepared, false)?, tick))?;
        }
        for (at, (map, summary)) in summaries.iter().enumerate() {
            for _ in 0..MCAP_SEEKS / TURNS {
                let message = next() - 1;
                record(4 + at, &mut || mcap_side::seek(map, summary, message))?;
            }
        }
    }
    Ok(rows)
}

fn to_tick(player: &mut JournalPlayer, tick: u64) -> Result<()> {
    player.seek_to_tick(tick)?;
    let frame = player.next_frame()?.ok_or("no record behind the tick")?;
    if frame.tick != tick {
        return Err("seeking led to another record".into());
    }
    black_box(frame.payload);
    Ok(())
}
