//! The operations of extents whose places are known: fetched, compared with their checksums, decoded, and
//! handed out in order.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use durable::checksum::{fnv1a_64, fnv1a_64_of_four};

use super::codec::first_op;
use super::error::{Fault, JournalError, Result, Section};
use super::history::{DataFiles, Place};
use super::record::OpLine;

/// Takes an operation and where it stands in its file.
pub(super) type Take<'a> = dyn FnMut(OpLine, u64) -> std::result::Result<(), Fault> + 'a;

/// Extents from which on a second thread fetches and compares while the first decodes and applies.
const MANY: usize = 64;
/// Bytes of payload that go from one thread to the other at a time, and how often that much may wait.
const BATCH_LEN: usize = 128 * 1024;
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

/// So many whole extents, and how it went on.
struct Batch {
    extents: usize,
    content: Content,
    ended: Result<()>,
}

enum Content {
    /// One payload behind the other.
    Payloads(Vec<u8>),
    /// Operations and where they stand; the last ones may be of an extent that could not be read whole.
    Ops(Vec<(OpLine, u64)>),
}

fn fetch_all(files: &mut DataFiles, places: &[Place], batches: &SyncSender<Batch>) {
    let mut rest = places;
    while !rest.is_empty() {
        let (these, batch) = fetch_batch(files, &mut rest);
        // While the other thread has enough to do, this one does a part of its work.
        let batch = match batches.try_send(batch) {
            Ok(()) => continue,
            Err(TrySendError::Full(batch)) => decode_ahead(files, these, batch),
            // It has found a fault.
            Err(TrySendError::Disconnected(_)) => return,
        };
        let is_over = batch.ended.is_err();
        if batches.send(batch).is_err() || is_over {
            return;
        }
    }
}

/// Takes places from the front until their payloads fill a batch.
fn fetch_batch<'a>(files: &mut DataFiles, places: &mut &'a [Place]) -> (&'a [Place], Batch) {
    let mut payloads = Vec::with_capacity(BATCH_LEN + BATCH_LEN / 8);
    let mut ended = Ok(());
    let mut extents = 0;
    while payloads.len() < BATCH_LEN
        && let Some(place) = places.get(extents)
    {
        match payload(files, place) {
            Ok(payload) => payloads.extend_from_slice(payload),
            Err(error) => {
                ended = Err(error);
                break;
            }
        }
        extents += 1;
    }
    let (mut these, rest) = places.split_at(extents);
    *places = rest;
    if let Err((whole, error)) = compare_all(files, these, &payloads) {
        these = these.get(..whole).unwrap_or_default();
        ended = Err(error);
    }
    if ended.is_err() {
        *places = &[];
    }
    let (extents, content) = (these.len(), Content::Payloads(payloads));
    let batch = Batch {
        extents,
        content,
        ended,
    };
    (these, batch)
}

/// Decodes a batch, unless it is so long that its operations would take much memory together.
fn decode_ahead(files: &DataFiles, places: &[Place], batch: Batch) -> Batch {
    let payloads = match batch.content {
        Content::Payloads(payloads) if payloads.len() <= 2 * BATCH_LEN => payloads,
        content => return Batch { content, ..batch },
    };
    let mut ops = Vec::new();
    let keep = &mut |op, offset| {
        ops.push((op, offset));
        Ok(())
    };
    let mut rest = payloads.as_slice();
    let mut ended = batch.ended;
    let mut extents = 0;
    for place in places {
        let payload = split_payload(&mut rest, place);
        if let Err(error) = decode(payload, place, files.path(place.file), keep) {
            ended = Err(error);
            break;
        }
        extents += 1;
    }
    let content = Content::Ops(ops);
    Batch {
        extents,
        content,
        ended,
    }
}

/// The payload of an extent at the front of those of many.
fn split_payload<'a>(payloads: &mut &'a [u8], place: &Place) -> &'a [u8] {
    let (payload, rest) = payloads.split_at(place.payload().1.min(payloads.len()));
    *payloads = rest;
    payload
}

/// Compares payloads with their checksums. Otherwise answers how many there are before the first that has
/// another.
fn compare_all(
    files: &DataFiles,
    places: &[Place],
    payloads: &[u8],
) -> std::result::Result<(), (usize, JournalError)> {
    let mut rest = payloads;
    for (before, places) in (0..).step_by(4).zip(places.chunks(4)) {
        let mut four = [&[][..]; 4];
        for (payload, place) in four.iter_mut().zip(places) {
            *payload = split_payload(&mut rest, place);
        }
        for (at, (place, computed)) in (before..).zip(places.iter().zip(fnv1a_64_of_four(four))) {
            compare(files, place, computed).map_err(|error| (at, error))?;
        }
    }
    Ok(())
}

fn decode_all(
    places: &[Place],
    paths: &[PathBuf],
    fetched: &Receiver<Batch>,
    take: &mut Take<'_>,
    done: &mut dyn FnMut(),
) -> Result<()> {
    let path = |place: &Place| paths.get(place.file as usize).map_or(Path::new(""), |p| p);
    let mut places = places.iter();
    for Batch {
        extents,
        content,
        ended,
    } in fetched
    {
        match content {
            Content::Payloads(payloads) => {
                let mut rest = payloads.as_slice();
                for place in places.by_ref().take(extents) {
                    decode(split_payload(&mut rest, place), place, path(place), take)?;
                    done();
                }
            }
            Content::Ops(ops) => {
                let mut ops = ops.into_iter();
                for place in places.by_ref().take(extents) {
                    let count = usize::try_from(place.last - place.first + 1).unwrap_or(usize::MAX);
                    take_all(ops.by_ref().take(count), path(place), take)?;
                    done();
                }
                if ended.is_err()
                    && let Some(broken) = places.next()
                {
                    take_all(ops, path(broken), take)?;
                }
            }
        }
        ended?;
    }
    Ok(())
}

fn take_all(
    ops: impl Iterator<Item = (OpLine, u64)>,
    path: &Path,
    take: &mut Take<'_>,
) -> Result<()> {
    for (op, offset) in ops {
        take(op, offset)
            .map_err(|fault| JournalError::corrupt(path, Section::Operations, offset, fault))?;
    }
    Ok(())
}

/// The payload of an extent, compared with its checksum.
fn fetch<'a>(files: &'a mut DataFiles, place: &Place) -> Result<&'a [u8]> {
    let computed = fnv1a_64(payload(files, place)?);
    compare(files, place, computed)?;
    payload(files, place)
}

fn payload<'a>(files: &'a mut DataFiles, place: &Place) -> Result<&'a [u8]> {
    let (offset, len) = place.payload();
    files.bytes(place.file, offset, len, false)
}

fn compare(files: &DataFiles, place: &Place, computed: u64) -> Result<()> {
    let stored = place.checksum;
    if computed == stored {
        return Ok(());
    }
    let fault = Fault::ChecksumMismatch { stored, computed };
    let (path, (offset, _)) = (files.path(place.file), place.payload());
    Err(JournalError::corrupt(
        path,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::journal::codec::op_line;
    use crate::storage::journal::fuzzing::MemoryDisk;
    use crate::storage::journal::record::{ExtentPointer, Heartbeat};
    use crate::trial::{TrialId, WorkerId};

    const EXTENTS: usize = 20;

    /// How the operations get from the disk to the one who takes them.
    #[derive(Clone, Copy, Debug)]
    enum Way {
        OneThread,
        Payloads,
        Ops,
    }

    type Found = (DataFiles, Vec<Place>);

    /// Of extents with two operations each.
    fn payloads() -> Vec<Vec<u8>> {
        let line = |seq| {
            let heartbeat = Heartbeat {
                trial: TrialId(0),
                at_millis: seq,
            };
            op_line(&OpLine {
                seq,
                worker: WorkerId(0),
                at_millis: 1,
                op: heartbeat.into(),
            })
        };
        (0..EXTENTS as u64)
            .map(|at| [line(2 * at + 1), line(2 * at + 2)].concat())
            .collect()
    }

    /// A data file with these payloads, and nothing else in it.
    fn lay_out(payloads: &[Vec<u8>]) -> Found {
        let disk = MemoryDisk::default();
        disk.put(Path::new("/d/data-a"), &payloads.concat());
        let mut files = DataFiles::new(PathBuf::from("/d"));
        let pointer = ExtentPointer {
            file: "data-a".to_owned(),
            offset: 0,
            len: 0,
        };
        let file = files.number(&disk, &pointer).unwrap();
        let mut offset = 0;
        let places = payloads
            .iter()
            .zip((1..).step_by(2))
            .map(|(payload, first)| {
                let place = Place {
                    file,
                    offset,
                    len: payload.len() as u64,
                    metadata_len: 0,
                    first,
                    last: first + 1,
                    start: 0,
                    checksum: fnv1a_64(payload),
                };
                offset += place.len;
                place
            });
        (files, places.collect())
    }

    /// What was taken, how many extents were whole, and the error.
    fn read(
        way: Way,
        (mut files, places): Found,
        refused: u64,
    ) -> (Vec<(OpLine, u64)>, usize, Option<String>) {
        let (mut taken, mut whole) = (Vec::new(), 0);
        let mut take = |op: OpLine, offset| {
            if op.seq == refused {
                return Err(Fault::NotTwoLines);
            }
            taken.push((op, offset));
            Ok(())
        };
        let mut done = || whole += 1;
        let found = if let Way::OneThread = way {
            read_extents(&mut files, &places, &mut take, &mut done)
        } else {
            let (batches, fetched) = sync_channel(EXTENTS);
            let mut rest = places.as_slice();
            while !rest.is_empty() {
                // Small batches, so that there are several.
                let mut some = rest.get(..7).unwrap_or(rest);
                let (these, batch) = fetch_batch(&mut files, &mut some);
                rest = rest.get(7..).unwrap_or_default();
                let batch = match way {
                    Way::Ops => decode_ahead(&files, these, batch),
                    _ => batch,
                };
                if batch.ended.is_err() {
                    rest = &[];
                }
                batches.send(batch).unwrap();
            }
            drop(batches);
            let paths: Vec<PathBuf> = files.paths().map(Path::to_owned).collect();
            decode_all(&places, &paths, &fetched, &mut take, &mut done)
        };
        (taken, whole, found.err().map(|error| error.to_string()))
    }

    #[test]
    fn every_way_takes_the_same_operations_and_ends_with_the_same_fault() {
        let sound = || lay_out(&payloads());
        let damaged = |extent: usize, damage: fn(&mut Vec<u8>)| {
            let mut payloads = payloads();
            damage(&mut payloads[extent]);
            lay_out(&payloads)
        };
        let mismatch = |(files, mut places): Found, extent: usize| {
            places[extent].checksum ^= 1;
            (files, places)
        };
        let past_end = |(files, mut places): Found, extent: usize| {
            places[extent].offset += 1 << 20;
            (files, places)
        };
        let cut = |payload: &mut Vec<u8>| payload.truncate(payload.len() / 2);
        let repeat = |payload: &mut Vec<u8>| payload.extend_from_within(..);
        let garble = |payload: &mut Vec<u8>| *payload.last_mut().unwrap() = b' ';
        let empty = |payload: &mut Vec<u8>| payload.clear();
        for at in [0, 3, 6, 7, 12, EXTENTS - 2] {
            let cases: [(&str, &dyn Fn() -> Found); 10] = [
                ("", &sound),
                ("number of operations", &|| damaged(at, cut)),
                ("sequence number", &|| damaged(at, repeat)),
                ("no end", &|| damaged(at, garble)),
                ("number of operations", &|| damaged(at, empty)),
                ("checksum", &|| mismatch(sound(), at)),
                ("the file at byte", &|| past_end(sound(), at)),
                ("checksum", &|| mismatch(damaged(at, cut), at / 2)),
                ("number of operations", &|| {
                    mismatch(damaged(at / 2, cut), at + 1)
                }),
                ("checksum", &|| past_end(mismatch(sound(), at / 2), at + 1)),
            ];
            for (expected, make) in cases {
                for refused in [0, 1, 2 * at as u64, 2 * at as u64 + 1] {
                    let found = read(Way::OneThread, make(), refused);
                    if refused == 0 {
                        let error = found.2.as_deref().unwrap_or_default();
                        assert!(error.contains(expected), "{error}");
                    }
                    for way in [Way::Payloads, Way::Ops] {
                        assert_eq!(read(way, make(), refused), found, "{way:?} {at} {refused}");
                    }
                }
            }
        }
    }
}
