//! The operations of extents whose places are known: fetched, compared with their checksums, decoded, and
//! handed out in order.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use durable::checksum::fnv1a_64;

use super::codec::first_op;
use super::error::{Fault, JournalError, Result, Section};
use super::history::{DataFiles, Place};
use super::record::OpLine;

/// Takes an operation and where it stands in its file.
pub(super) type Take<'a> = dyn FnMut(OpLine, u64) -> std::result::Result<(), Fault> + 'a;

/// Extents from which on a second thread fetches and compares while the first decodes.
const MANY: usize = 64;
/// Bytes of payload that go from one thread to the other at a time, and how often that much may wait.
const BATCH_LEN: usize = 256 * 1024;
const BATCHES: usize = 4;

/// Reads the operations of extents, in order. `done` is told when an extent was read whole.
pub(super) fn read_extents(
    files: &mut DataFiles,
    places: &[Place],
    take: &mut Take<'_>,
    done: &mut dyn FnMut(),
) -> Result<()> {
    if places.len() < MANY {
        for place in places {
            let path = files.path(place.file).to_owned();
            decode(fetch(files, place)?, place, &path, take)?;
            done();
        }
        return Ok(());
    }
    let paths: Vec<PathBuf> = files.paths().map(Path::to_owned).collect();
    std::thread::scope(|scope| {
        let (batches, fetched) = sync_channel(BATCHES);
        scope.spawn(move || fetch_all(files, places, &batches));
        decode_all(places, &paths, &fetched, take, done)
    })
}

/// Payloads of extents, one behind the other, and how it went on.
struct Batch {
    payloads: Vec<u8>,
    ended: Result<()>,
}

fn fetch_all(files: &mut DataFiles, places: &[Place], batches: &SyncSender<Batch>) {
    let mut payloads = Vec::new();
    for place in places {
        let ended = match fetch(files, place) {
            Ok(payload) => {
                payloads.extend_from_slice(payload);
                Ok(())
            }
            Err(error) => Err(error),
        };
        if ended.is_err() || payloads.len() >= BATCH_LEN {
            let is_over = ended.is_err();
            let payloads = std::mem::take(&mut payloads);
            if batches.send(Batch { payloads, ended }).is_err() || is_over {
                return;
            }
        }
    }
    let ended = Ok(());
    // Nobody takes it when the decoder has found a fault.
    batches.send(Batch { payloads, ended }).ok();
}

fn decode_all(
    places: &[Place],
    paths: &[PathBuf],
    fetched: &Receiver<Batch>,
    take: &mut Take<'_>,
    done: &mut dyn FnMut(),
) -> Result<()> {
    let mut places = places.iter().peekable();
    for Batch { payloads, ended } in fetched {
        let mut rest = payloads.as_slice();
        while let Some(place) = places.peek() {
            let Some((payload, after)) = rest.split_at_checked(place.payload().1) else {
                break;
            };
            let path = paths.get(place.file as usize);
            decode(payload, place, path.map_or(Path::new(""), |p| p), take)?;
            done();
            rest = after;
            places.next();
        }
        ended?;
    }
    Ok(())
}

/// The payload of an extent, compared with its checksum.
fn fetch<'a>(files: &'a mut DataFiles, place: &Place) -> Result<&'a [u8]> {
    let (offset, len) = place.payload();
    let path = files.path(place.file).to_owned();
    let payload = files.bytes(place.file, offset, len, false)?;
    let computed = fnv1a_64(payload);
    if computed == place.checksum {
        return Ok(payload);
    }
    let stored = place.checksum;
    let fault = Fault::ChecksumMismatch { stored, computed };
    Err(JournalError::corrupt(
        &path,
        Section::Operations,
        offset,
        fault,
    ))
}

fn decode(payload: &[u8], place: &Place, path: &Path, take: &mut Take<'_>) -> Result<()> {
    let corrupt = |offset, fault| JournalError::corrupt(path, Section::Operations, offset, fault);
    let (mut offset, _) = place.payload();
    let mut expected = place.first;
    let mut rest = payload;
    while !rest.is_empty() {
        let (op, len) = first_op(rest).map_err(|fault| corrupt(offset, fault))?;
        if op.seq != expected || op.seq > place.last {
            let what = "sequence number";
            return Err(corrupt(
                offset,
                Fault::NotContiguous {
                    what,
                    expected,
                    found: op.seq,
                },
            ));
        }
        take(op, offset).map_err(|fault| corrupt(offset, fault))?;
        expected += 1;
        offset += len as u64;
        rest = rest.get(len..).unwrap_or_default();
    }
    if expected != place.last + 1 {
        let (what, found) = ("number of operations", expected - place.first);
        let expected = place.last + 1 - place.first;
        return Err(corrupt(
            offset,
            Fault::NotContiguous {
                what,
                expected,
                found,
            },
        ));
    }
    Ok(())
}
