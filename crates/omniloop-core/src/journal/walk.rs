//! Walking a file's records front to back and recomputing its chain: the core of verification.
//!
//! The walk never looks at index or trailer. It reads chunks, finds the record boundaries in them by
//! the record headers alone, cuts them into stretches at the checkpoints and hashes the stretches on
//! all cores (or at once, on one thread): each starts from the value that its checkpoint claims, and the claims prove each other
//! (the first stretch starts from the genesis, and each stretch must end in the next claim). Results
//! are then taken in file order, so that the answer is the one of a sequential walk.

use std::sync::atomic::{AtomicUsize, Ordering};

use durable::checksum::{self, Crc32};
use durable::digest::Digest;
use durable::{Cursor, FsFile};

use super::chain::{ChainHasher, LongStep};
use super::codec::{FILE_HEADER_LEN, IndexEntry, RECORD_HEADER_LEN, RecordHeader};
use super::frame::FrameKind;
use super::layout::{
    CHECKPOINT_PAYLOAD_LEN, INDEX_EVERY, INDEX_MAGIC, SIGNATURE_PAYLOAD_LEN, record_header,
};
use super::writer::Stamp;

/// Bytes read and hashed at a time by one thread: they fit its cache from the scan to the hashing.
const CHUNK_LEN_ONE: usize = 512 << 10;
/// Bytes read and hashed at a time by several: enough work to be worth starting them.
const CHUNK_LEN_SEVERAL: usize = 4 << 20;

/// A chain checkpoint whose claim was proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPoint {
    /// Records of the file up to and including the checkpoint.
    pub record_count: u64,
    /// Where the checkpoint's record starts in the file.
    pub offset: u64,
    /// Its tick.
    pub tick: u64,
    /// The chain value that it carries: the one before itself.
    pub value: Digest,
    /// The chain value after it.
    pub after: Digest,
}

/// A signature record, not yet judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureSeen {
    /// Where its record starts in the file.
    pub offset: u64,
    /// Its tick.
    pub tick: u64,
    /// Its payload, if it has the right length.
    pub payload: Option<[u8; SIGNATURE_PAYLOAD_LEN]>,
    /// The checkpoint directly before it, if there is one.
    pub covers: Option<ChainPoint>,
}

/// Is told what a walk comes across, in file order, after it was proved.
pub trait Observer {
    /// A checkpoint.
    fn checkpoint(&mut self, point: &ChainPoint) {
        let _ = point;
    }
    /// A signature record.
    fn signature(&mut self, seen: &SignatureSeen) {
        let _ = seen;
    }
    /// How far the walk has come, in bytes of this file.
    fn progress(&mut self, offset: u64, file_len: u64) {
        let _ = (offset, file_len);
    }
}

/// Looks at nothing.
impl Observer for () {}

/// Why the walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// At the end of the file, on a record boundary.
    File,
    /// At the magic of an index.
    Index,
    /// Fewer bytes are left than a header or its payload needs.
    Torn,
    /// At a header of zeros.
    Zeros,
    /// At a kind that does not exist.
    UnknownKind(u8),
    /// At a checkpoint whose payload has another length.
    MalformedCheckpoint { payload_len: u32 },
    /// At a record whose payload does not have its checksum.
    CrcMismatch,
    /// At a checkpoint that carries another value than the records before it give.
    DigestMismatch { expected: Digest, found: Digest },
}

/// Something odd in a record header that does not end the walk: the first place, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Oddity {
    pub(super) first: Option<(u64, u64)>,
    pub(super) count: u64,
}

impl Oddity {
    fn add(&mut self, offset: u64, tick: u64) {
        self.first.get_or_insert((offset, tick));
        self.count += 1;
    }
}

/// One of the last records, for the rules about the end of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    pub(super) kind: FrameKind,
    pub(super) offset: u64,
    pub(super) stamp: Stamp,
}

/// What a walk found.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// Why it ended, and where.
    pub(super) end: End,
    pub(super) end_offset: u64,
    pub(super) end_tick: u64,
    /// Whole records before the end, and what the index must say of them.
    pub(super) record_count: u64,
    /// Those of them that describe the run.
    pub(super) data_count: u64,
    pub(super) index: Vec<IndexEntry>,
    /// Proved checkpoints.
    pub(super) checkpoint_count: u64,
    pub(super) head: Option<Digest>,
    /// Records after the last checkpoint, a signature directly behind it aside.
    pub(super) unverified_tail: u64,
    /// Data records since the last checkpoint, and how many that checkpoint itself follows.
    pub(super) interval: u64,
    pub(super) last_interval: u64,
    /// The chain value after the last record.
    pub(super) chain: Digest,
    pub(super) padding: Oddity,
    pub(super) ticks_back: Oddity,
    pub(super) first_tick: Option<u64>,
    pub(super) last: Stamp,
    pub(super) recent: Vec<Recent>,
}

/// Records in a chunk that are hashed from one known or claimed value.
#[derive(Debug)]
struct Stretch {
    start: usize,
    end: usize,
    from: Digest,
    first_ordinal: u64,
    /// The checkpoint that the stretch starts with.
    opens_with: Option<(u64, u64)>,
    /// The checkpoint that must carry the value which the stretch ends in.
    claim: Option<Claim>,
    signatures: Vec<SignatureSeen>,
}

#[derive(Clone, Copy, Debug)]
struct Claim {
    value: Digest,
    offset: u64,
    tick: u64,
    ordinal: u64,
}

#[derive(Clone, Copy, Debug)]
struct Hashed {
    bad: Option<BadRecord>,
    after_first: Digest,
    end: Digest,
}

#[derive(Clone, Copy, Debug)]
struct BadRecord {
    offset: u64,
    tick: u64,
    ordinal: u64,
}

/// Walks `file` from its first record. `threads` is how many may hash.
pub(super) fn walk(
    file: &dyn FsFile,
    file_len: u64,
    genesis: Digest,
    threads: usize,
    observer: &mut dyn Observer,
) -> std::io::Result<Walk> {
    let mut walker = Walker {
        file_len,
        chunk: Vec::new(),
        chunk_len: if threads == 1 {
            CHUNK_LEN_ONE
        } else {
            CHUNK_LEN_SEVERAL
        },
        chunk_offset: FILE_HEADER_LEN,
        pending: None,
        last_point: None,
        signature_may_follow: false,
        out: Walk {
            end: End::File,
            end_offset: FILE_HEADER_LEN,
            end_tick: 0,
            record_count: 0,
            data_count: 0,
            index: Vec::new(),
            checkpoint_count: 0,
            head: None,
            unverified_tail: 0,
            interval: 0,
            last_interval: 0,
            chain: genesis,
            padding: Oddity::default(),
            ticks_back: Oddity::default(),
            first_tick: None,
            last: Stamp::default(),
            recent: Vec::new(),
        },
    };
    let mut hasher = ChainHasher::new();
    loop {
        walker.read_chunk(file)?;
        let (stretches, hashed, end) = if threads == 1 {
            walker.scan(Some(&mut hasher))
        } else {
            let (stretches, _, end) = walker.scan(None);
            let hashed = hash_all(&walker.chunk, walker.chunk_offset, &stretches, threads);
            (stretches, hashed, end)
        };
        if walker.settle(&stretches, &hashed, observer) {
            return Ok(walker.out);
        }
        observer.progress(walker.out.end_offset, file_len);
        match end {
            Some(ChunkEnd::Walk(end)) => {
                walker.out.end = end;
                return Ok(walker.out);
            }
            Some(ChunkEnd::LongRecord(header))
                if walker.long_record(file, &header, observer)? =>
            {
                return Ok(walker.out);
            }
            Some(ChunkEnd::LongRecord(_)) | None => {}
        }
        walker.chunk_offset = walker.out.end_offset;
    }
}

/// Why a chunk holds no further record.
#[derive(Debug)]
enum ChunkEnd {
    Walk(End),
    /// The next record is longer than a chunk.
    LongRecord([u8; record_header::LEN]),
}

#[derive(Debug)]
struct Walker {
    file_len: u64,
    chunk: Vec<u8>,
    chunk_len: usize,
    chunk_offset: u64,
    /// The checkpoint that the stretch in progress ended with, before its `after` is known.
    pending: Option<Claim>,
    last_point: Option<ChainPoint>,
    signature_may_follow: bool,
    out: Walk,
}

impl Walker {
    fn read_chunk(&mut self, file: &dyn FsFile) -> std::io::Result<()> {
        let left = self.file_len.saturating_sub(self.chunk_offset);
        let len = usize::try_from(left).map_or(self.chunk_len, |left| left.min(self.chunk_len));
        self.chunk.resize(len, 0);
        file.read_exact_at(self.chunk_offset, &mut self.chunk)
    }

    /// Finds the records of the chunk and cuts them into stretches.
    /// With a hasher it hashes them as it goes, while their bytes are at hand.
    fn scan(
        &mut self,
        mut hasher: Option<&mut ChainHasher>,
    ) -> (Vec<Stretch>, Vec<Hashed>, Option<ChunkEnd>) {
        let mut stretches = Vec::new();
        let mut all_hashed = Vec::new();
        let mut hashed = Hashed::from(self.out.chain);
        let mut current = Stretch {
            start: 0,
            end: 0,
            from: self.out.chain,
            first_ordinal: self.out.record_count,
            opens_with: None,
            claim: None,
            signatures: Vec::new(),
        };
        let mut at = 0;
        let end = loop {
            let offset = self.chunk_offset + at as u64;
            let (header, next) = match self.next_in_chunk(at) {
                Ok(found) => found,
                Err(end) => break end,
            };
            let payload = self
                .chunk
                .get(at + record_header::LEN..next)
                .unwrap_or_default();
            let Some(kind) = FrameKind::from_code(header.kind) else {
                break Some(ChunkEnd::Walk(End::UnknownKind(header.kind)));
            };
            if kind == FrameKind::Chain {
                let Ok(value) = Cursor::new(payload).array::<CHECKPOINT_PAYLOAD_LEN>() else {
                    let payload_len = header.payload_len;
                    break Some(ChunkEnd::Walk(End::MalformedCheckpoint { payload_len }));
                };
                if payload.len() != CHECKPOINT_PAYLOAD_LEN {
                    let payload_len = header.payload_len;
                    break Some(ChunkEnd::Walk(End::MalformedCheckpoint { payload_len }));
                }
                let ordinal = self.out.record_count;
                current.claim = Some(Claim {
                    value,
                    offset,
                    tick: header.tick,
                    ordinal,
                });
                let next_stretch = Stretch {
                    start: at,
                    end: at,
                    from: value,
                    first_ordinal: ordinal,
                    opens_with: Some((offset, header.tick)),
                    claim: None,
                    signatures: Vec::new(),
                };
                stretches.push(std::mem::replace(&mut current, next_stretch));
                all_hashed.push(std::mem::replace(&mut hashed, Hashed::from(value)));
            } else if kind == FrameKind::Signature {
                current.signatures.push(SignatureSeen {
                    offset,
                    tick: header.tick,
                    payload: <[u8; SIGNATURE_PAYLOAD_LEN]>::try_from(payload).ok(),
                    covers: None,
                });
            }
            if let Some(hasher) = hasher.as_deref_mut().filter(|_| hashed.bad.is_none()) {
                let record = self.chunk.get(at..next).unwrap_or_default();
                let place = BadRecord {
                    offset,
                    tick: header.tick,
                    ordinal: self.out.record_count,
                };
                let is_first = place.ordinal == current.first_ordinal;
                hashed.add(hasher, record, header.crc32, place, is_first);
            }
            self.note(kind, offset, &header);
            current.end = next;
            at = next;
        };
        self.out.end_offset = self.chunk_offset + at as u64;
        stretches.push(current);
        all_hashed.push(hashed);
        (stretches, all_hashed, end)
    }

    /// The header at `at` and where its record ends; or why there is none in this chunk.
    fn next_in_chunk(&mut self, at: usize) -> Result<(RecordHeader, usize), Option<ChunkEnd>> {
        let offset = self.chunk_offset + at as u64;
        let left = self.file_len - offset;
        let bytes = self.chunk.get(at..).unwrap_or_default();
        if left == 0 {
            return Err(Some(ChunkEnd::Walk(End::File)));
        }
        if left < RECORD_HEADER_LEN {
            let is_index = bytes.starts_with(&INDEX_MAGIC);
            return Err(Some(ChunkEnd::Walk(if is_index {
                End::Index
            } else {
                End::Torn
            })));
        }
        let Some(header_bytes) = bytes.first_chunk::<{ record_header::LEN }>() else {
            return Err(None);
        };
        if header_bytes.starts_with(&INDEX_MAGIC) {
            return Err(Some(ChunkEnd::Walk(End::Index)));
        }
        let Ok(header) = RecordHeader::decode(header_bytes) else {
            return Err(Some(ChunkEnd::Walk(End::Torn)));
        };
        if header.payload_len == 0 && header_bytes.iter().all(|&b| b == 0) {
            return Err(Some(ChunkEnd::Walk(End::Zeros)));
        }
        self.out.end_tick = header.tick;
        if header.record_len() > left {
            return Err(Some(ChunkEnd::Walk(End::Torn)));
        }
        let end = usize::try_from(header.record_len())
            .ok()
            .and_then(|len| at.checked_add(len))
            .filter(|&end| end <= self.chunk.len());
        match end {
            Some(end) => Ok((header, end)),
            // The next chunk starts with it; only if it does not fit a chunk either is it long.
            None if at > 0 => Err(None),
            None => Err(Some(ChunkEnd::LongRecord(*header_bytes))),
        }
    }

    /// Takes a record into the counts.
    fn note(&mut self, kind: FrameKind, offset: u64, header: &RecordHeader) {
        let out = &mut self.out;
        if out.record_count.is_multiple_of(INDEX_EVERY) {
            out.index.push(IndexEntry {
                tick: header.tick,
                offset,
            });
        }
        out.record_count += 1;
        out.data_count += u64::from(kind.is_data());
        out.first_tick.get_or_insert(header.tick);
        if header.padding != [0; 3] {
            out.padding.add(offset, header.tick);
        }
        if header.tick < out.last.tick {
            out.ticks_back.add(offset, header.tick);
        }
        let stamp = Stamp {
            tick: header.tick,
            mono_ns: header.mono_ns,
            wall_ns: header.wall_ns,
        };
        out.last = stamp;
        if out.recent.len() == 64 {
            // Only the last three are ever looked at; moving them once in a while is cheaper.
            out.recent.drain(..61);
        }
        out.recent.push(Recent {
            kind,
            offset,
            stamp,
        });
        match kind {
            FrameKind::Chain => {
                out.unverified_tail = 0;
                out.last_interval = std::mem::take(&mut out.interval);
                self.signature_may_follow = true;
            }
            FrameKind::Signature if self.signature_may_follow => self.signature_may_follow = false,
            _ => {
                out.unverified_tail += 1;
                out.interval += u64::from(kind.is_data());
                self.signature_may_follow = false;
            }
        }
    }

    /// Takes the hashed stretches in order. True when one of them breaks the chain.
    fn settle(
        &mut self,
        stretches: &[Stretch],
        hashed: &[Hashed],
        observer: &mut dyn Observer,
    ) -> bool {
        for (stretch, hashed) in stretches.iter().zip(hashed) {
            let bad_first = hashed
                .bad
                .is_some_and(|bad| bad.ordinal == stretch.first_ordinal);
            if let (Some(claim), Some(_), false) = (self.pending, stretch.opens_with, bad_first) {
                let point = ChainPoint {
                    record_count: claim.ordinal + 1,
                    offset: claim.offset,
                    tick: claim.tick,
                    value: claim.value,
                    after: hashed.after_first,
                };
                self.out.checkpoint_count += 1;
                self.out.head = Some(claim.value);
                self.last_point = Some(point);
                self.pending = None;
                observer.checkpoint(&point);
            }
            if let Some(bad) = hashed.bad {
                self.break_at(End::CrcMismatch, bad);
                return true;
            }
            for seen in &stretch.signatures {
                let directly_after = |p: &ChainPoint| {
                    p.offset + RECORD_HEADER_LEN + CHECKPOINT_PAYLOAD_LEN as u64 == seen.offset
                };
                let covers = self.last_point.filter(directly_after);
                observer.signature(&SignatureSeen {
                    covers,
                    ..seen.clone()
                });
            }
            if let Some(claim) = stretch.claim {
                if claim.value != hashed.end {
                    let end = End::DigestMismatch {
                        expected: hashed.end,
                        found: claim.value,
                    };
                    let place = BadRecord {
                        offset: claim.offset,
                        tick: claim.tick,
                        ordinal: claim.ordinal,
                    };
                    self.break_at(end, place);
                    return true;
                }
                self.pending = Some(claim);
            }
            self.out.chain = hashed.end;
        }
        false
    }

    fn break_at(&mut self, end: End, place: BadRecord) {
        let out = &mut self.out;
        out.end = end;
        out.end_offset = place.offset;
        out.end_tick = place.tick;
        out.record_count = place.ordinal;
        out.last.tick = place.tick;
        let verified = self.last_point.map_or(0, |p| p.record_count);
        out.unverified_tail = place.ordinal.saturating_sub(verified);
        // What lies behind the break was read by lengths that nothing vouches for.
        for oddity in [&mut out.padding, &mut out.ticks_back] {
            if oddity
                .first
                .is_some_and(|(offset, _)| offset > place.offset)
            {
                *oddity = Oddity::default();
            }
        }
    }

    /// Hashes one record that is longer than a chunk, piece by piece. True when it breaks the chain.
    fn long_record(
        &mut self,
        file: &dyn FsFile,
        header_bytes: &[u8; record_header::LEN],
        observer: &mut dyn Observer,
    ) -> std::io::Result<bool> {
        let offset = self.out.end_offset;
        let Ok(header) = RecordHeader::decode(header_bytes) else {
            return Ok(true);
        };
        let kind = FrameKind::from_code(header.kind);
        let end = match kind {
            None => Some(End::UnknownKind(header.kind)),
            Some(FrameKind::Chain) => Some(End::MalformedCheckpoint {
                payload_len: header.payload_len,
            }),
            Some(_) => None,
        };
        if let Some(end) = end {
            self.out.end = end;
            return Ok(true);
        }
        let mut step = LongStep::new(&self.out.chain, header_bytes);
        let mut crc = Crc32::default();
        let mut at = offset + RECORD_HEADER_LEN;
        let record_end = offset + header.record_len();
        while at < record_end {
            let len =
                usize::try_from(record_end - at).map_or(self.chunk_len, |l| l.min(self.chunk_len));
            self.chunk.resize(len, 0);
            file.read_exact_at(at, &mut self.chunk)?;
            step.update(&self.chunk);
            crc.update(&self.chunk);
            at += len as u64;
            observer.progress(at, self.file_len);
        }
        if crc.value() != header.crc32 {
            let ordinal = self.out.record_count;
            self.break_at(
                End::CrcMismatch,
                BadRecord {
                    offset,
                    tick: header.tick,
                    ordinal,
                },
            );
            return Ok(true);
        }
        self.out.chain = step.finish();
        if let Some(kind) = kind {
            self.note(kind, offset, &header);
            if kind == FrameKind::Signature {
                let seen = SignatureSeen {
                    offset,
                    tick: header.tick,
                    payload: None,
                    covers: None,
                };
                observer.signature(&seen);
            }
        }
        self.out.end_offset = record_end;
        Ok(false)
    }
}

/// Hashes every stretch on several threads: each takes the next stretch that is left.
fn hash_all(chunk: &[u8], chunk_offset: u64, stretches: &[Stretch], threads: usize) -> Vec<Hashed> {
    let threads = threads.min(stretches.len()).max(1);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut hasher = ChainHasher::new();
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(stretch) = stretches.get(number) else {
                return done;
            };
            done.push((number, hash_one(chunk, chunk_offset, stretch, &mut hasher)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_unstable_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, hashed)| hashed).collect()
}

fn hash_one(
    chunk: &[u8],
    chunk_offset: u64,
    stretch: &Stretch,
    hasher: &mut ChainHasher,
) -> Hashed {
    let mut hashed = Hashed::from(stretch.from);
    let mut at = stretch.start;
    let mut ordinal = stretch.first_ordinal;
    let mut cursor = Cursor::new(chunk.get(at..stretch.end).unwrap_or_default());
    // The scan has seen these records whole; a short read here would end the stretch early.
    while let Ok(header) = RecordHeader::decode(cursor.rest()) {
        let len = usize::try_from(header.record_len()).unwrap_or(usize::MAX);
        let Ok(record) = cursor.bytes(len) else { break };
        let place = BadRecord {
            offset: chunk_offset + at as u64,
            tick: header.tick,
            ordinal,
        };
        let is_first = ordinal == stretch.first_ordinal;
        hashed.add(hasher, record, header.crc32, place, is_first);
        if hashed.bad.is_some() {
            break;
        }
        ordinal += 1;
        at = stretch.start + cursor.position();
    }
    hashed
}

impl From<Digest> for Hashed {
    /// A stretch that starts from this value, before its first record.
    fn from(value: Digest) -> Self {
        Self {
            bad: None,
            after_first: value,
            end: value,
        }
    }
}

impl Hashed {
    /// Goes on over one record, or notes that its payload does not have its checksum.
    #[inline]
    fn add(
        &mut self,
        hasher: &mut ChainHasher,
        record: &[u8],
        crc32: u32,
        place: BadRecord,
        is_first: bool,
    ) {
        let Some((header, payload)) = record.split_first_chunk::<{ record_header::LEN }>() else {
            return;
        };
        if checksum::crc32(payload) != crc32 {
            self.bad = Some(place);
            return;
        }
        self.end = hasher.step(&self.end, header, payload);
        if is_first {
            self.after_first = self.end;
        }
    }
}
