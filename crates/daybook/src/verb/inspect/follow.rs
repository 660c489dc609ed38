//! Showing a run while it is recorded.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use omniloop_core::export::write_jsonl_line;
use omniloop_core::journal::{Error, FrameKind, FrameRef, SegmentedPlayer};
use serde_json::Value;
use signal_hook::consts::SIGINT;

use super::{InspectArgs, listing};
use crate::failure::Failure;
use crate::output::Out;

/// How long after a look the next one comes.
const POLL: Duration = Duration::from_millis(100);

/// Prints records as they come, across files, until the run has ended, Ctrl-C is pressed or nobody
/// reads any more. Answers the damage that reading came to.
pub(super) fn follow(
    out: &mut Out,
    player: &mut SegmentedPlayer,
    args: &InspectArgs,
) -> Result<Option<Error>, Failure> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&interrupted))
        .map_err(|error| Failure::io("cannot listen for Ctrl-C", &error))?;
    let selection = args.selection();
    let mut stopped = false;
    while !interrupted.load(Ordering::Relaxed) && !out.is_closed() {
        match player.next_placed_frame() {
            Ok(Some((_, frame))) if selection.ends_before(&frame) => break,
            Ok(Some((segment, frame))) => {
                stopped |= is_stop(&frame);
                if selection.takes(&frame) {
                    show(out, segment, &frame, args.json)?;
                }
            }
            // The end for now; or the next file has a name and no header yet.
            Ok(None) | Err(Error::Incomplete { .. }) => {
                out.flush()?;
                let rotates = player.segment().is_segmented();
                if player.is_sealed_at_end() && (stopped || !rotates) {
                    break;
                }
                std::thread::sleep(POLL);
                player.refresh()?;
            }
            Err(error) => return Ok(Some(error)),
        }
    }
    Ok(None)
}

fn show(out: &mut Out, segment: u64, frame: &FrameRef<'_>, as_json: bool) -> io::Result<()> {
    if as_json {
        write_jsonl_line(out, segment, frame)
    } else {
        out.line(listing::line(frame))
    }
}

fn is_stop(frame: &FrameRef<'_>) -> bool {
    frame.kind == FrameKind::Lifecycle
        && serde_json::from_slice::<Value>(frame.payload)
            .is_ok_and(|value| value.get("event").is_some_and(|event| event == "stop"))
}
