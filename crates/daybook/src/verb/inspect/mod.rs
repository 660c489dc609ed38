//! `daybook inspect`: what is in a record.

mod follow;
mod listing;
mod overview;
pub(crate) mod segment;
pub(crate) mod store;
mod survey;

use std::io::Write as _;
use std::path::PathBuf;

use atune_core::storage::journal::JournalReader;
use clap::Args;
use durable::RealFs;
use omniloop_core::export::Selection;
use omniloop_core::journal::{Error, FrameKind, PlayerOptions, Result, SegmentedPlayer};

use crate::amounts::{Ticks, ticks};
use crate::failure::{DONE, Failure, Outcome};
use crate::kind::{Kind, kind_of};
use crate::output::Out;
use crate::verb::study::print_facts;
use listing::Listing;
use survey::Survey;

/// Shows what is in a run: its files, its times, its variables, and what happened in it. Of a study, its
/// trials; of a segment of traces, its parts with their sizes, its times, its keys and its blocks.
///
/// Without a choice of records, a summary and a timeline of everything but telemetry. With --kind or
/// --ticks, these records, one per line. A damaged run is shown up to the damage, which is then named;
/// the exit code is 1.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook inspect run.omni
  daybook inspect run.omni --kind mutation --limit 0
  daybook inspect run.omni --ticks 1000..1010
  daybook inspect run.omni --follow --kind telemetry       while it is recorded
  daybook inspect run.omni --json | jq .variables
  daybook inspect segment-00000000000000000000.seg")]
pub(crate) struct InspectArgs {
    /// The run, or the first file of a set; a study file; a segment.
    path: PathBuf,
    /// Prints JSON: one object, or with --follow one line per record.
    #[arg(long)]
    json: bool,
    /// Shows records as they are written, until the run ends or Ctrl-C.
    #[arg(short, long, conflicts_with_all = ["limit", "plot"])]
    follow: bool,
    /// Only records with these ticks: A..B, both included; either may be left out.
    #[arg(long, value_name = "A..B", value_parser = ticks)]
    ticks: Option<Ticks>,
    /// Only records of this kind. May be repeated.
    #[arg(long, value_name = "KIND")]
    kind: Vec<FrameKind>,
    /// Shows at most so many records, of a segment so many keys and blocks; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: u64,
    /// Draws the variables even when the output is no terminal.
    #[arg(long)]
    plot: bool,
}

impl InspectArgs {
    fn selects(&self) -> bool {
        self.ticks.is_some() || !self.kind.is_empty()
    }

    /// The records that are listed: those asked for, or everything that happened but telemetry.
    fn selection(&self) -> Selection {
        let ticks = self.ticks.unwrap_or_default();
        let kinds = if self.selects() || self.follow {
            self.kind.clone()
        } else {
            let told = |kind: &FrameKind| kind.is_data() && *kind != FrameKind::Telemetry;
            FrameKind::ALL.into_iter().filter(told).collect()
        };
        Selection {
            kinds,
            first_tick: ticks.first,
            last_tick: ticks.last,
        }
    }

    fn limit(&self) -> u64 {
        if self.limit == 0 {
            u64::MAX
        } else {
            self.limit
        }
    }
}

pub(crate) fn run(args: &InspectArgs) -> Outcome {
    let kind = kind_of(&args.path)?;
    let path = args.path.display();
    let records = match kind {
        Kind::Run => None,
        Kind::Store => Some(("a store of traces", format!("daybook trace query {path}"))),
        Kind::Study => Some(("a study", format!("daybook study ops {path}"))),
        Kind::Segment => Some(("a segment of traces", format!("daybook trace dump {path}"))),
    };
    if let Some((is, hint)) = records.filter(|_| args.follow || args.selects()) {
        let what = format!("--follow, --kind and --ticks choose records of a run; this is {is}");
        return Err(Failure::new(what).with_hint(hint));
    }
    let mut out = Out::for_json(args.json);
    match kind {
        Kind::Run => {}
        Kind::Store => {
            store::print(&mut out, &args.path, args.limit(), args.json)?;
            out.flush()?;
            return Ok(DONE);
        }
        Kind::Study => {
            print_facts(&mut out, &JournalReader::open(&args.path)?, args.json)?;
            out.flush()?;
            return Ok(DONE);
        }
        Kind::Segment => {
            segment::print(&mut out, &args.path, args.limit(), args.json)?;
            out.flush()?;
            return Ok(DONE);
        }
    }
    let (mut player, opening) = open(args)?;
    let damage = if args.follow {
        follow::follow(&mut out, &mut player, args)?
    } else if args.selects() && !args.json {
        let mut listing = Listing::new(args.limit());
        let damage = listing.print(&mut out, &mut player, &args.selection())?;
        out.flush()?;
        listing.tell_rest();
        damage
    } else {
        let survey = Survey::of(&mut player, args, opening.as_ref())?;
        if args.json {
            out.json(&survey)?;
        } else {
            overview::print(&mut out, &survey, args)?;
        }
        out.flush()?;
        survey.damage_error
    };
    out.flush()?;
    // What the end of the file says about its shape outweighs where reading stopped for it.
    match opening.or(damage) {
        None => Ok(DONE),
        Some(error) => Err(Failure::from(error)),
    }
}

/// Opens the run. One whose index does not fit is read without it, and the damage told afterwards.
fn open(args: &InspectArgs) -> Result<(SegmentedPlayer, Option<Error>)> {
    match SegmentedPlayer::open(&args.path) {
        Ok(player) => Ok((player, None)),
        Err(error @ Error::Corrupt { .. }) => {
            let options = PlayerOptions {
                lenient: true,
                ..PlayerOptions::default()
            };
            let fs = std::sync::Arc::new(RealFs);
            match SegmentedPlayer::open_with(fs, &args.path, options) {
                Ok(player) => Ok((player, Some(error))),
                Err(_) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}
