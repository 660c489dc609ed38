//! Verifying one file: its chain from byte 0, and then whether index and trailer agree with it.
//!
//! Nothing here shares the reading path's shortcuts: the index never decides what is hashed, and a
//! file is never mapped.

use std::path::Path;

use durable::digest::{Digest, hex};
use durable::{Finding, Fs, FsFile, RealFs, Severity};
use serde::Serialize;

use super::chain::genesis;
use super::codec::{FILE_HEADER_LEN, FileHeader, RECORD_HEADER_LEN, Trailer, encode_seal};
use super::error::{Error, Result};
use super::frame::FrameKind;
use super::layout::{
    FLAG_CHAINED, FLAG_SEGMENTED, LEGACY_VERSION, file_header, record_header, trailer,
};
use super::legacy;
use super::player::{open_window, read_identity};
use super::resync::Resync;
use super::walk::{End, Observer, Walk, walk};
use super::writer::Stamp;

/// How a file is verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyOptions {
    /// Insists that the closing checkpoint, and a signature after it, carry the stamps that this
    /// writer gives them. Nothing in the file covers those bytes otherwise.
    pub strict: bool,
    /// Threads that hash; 0 means one per core.
    pub threads: usize,
}

/// Where and how the chain breaks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type")]
pub enum ChainBreak {
    /// A checkpoint carries another value than the records before it give: one of them was altered,
    /// removed, inserted, re-timed or re-ordered since the checkpoint before.
    DigestMismatch {
        /// Where the checkpoint stands.
        offset: u64,
        /// Its tick.
        tick: u64,
        /// The value that the records give, hex.
        expected: String,
        /// The value that the checkpoint carries, hex.
        found: String,
    },
    /// A payload does not have its header's checksum.
    CrcMismatch {
        /// Where the record stands.
        offset: u64,
        /// Its tick.
        tick: u64,
    },
    /// A chain record whose payload is not 32 bytes.
    MalformedCheckpoint {
        /// Where the record stands.
        offset: u64,
        /// The length of its payload.
        len: u64,
    },
    /// The header claims no chain and there is no checkpoint: nothing was proved.
    NotChained,
    /// The header claims a chain, but no checkpoint is there.
    ChainedButNoCheckpoints,
}

/// How index and trailer compare with the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IndexState {
    /// Byte for byte what the records call for.
    Consistent,
    /// Something else.
    Inconsistent,
    /// The file was not sealed, or the walk broke off before it came to the index.
    Absent,
}

/// The result of verifying one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainVerification {
    /// False if anything failed.
    pub ok: bool,
    /// Whether the header claims a chain at all.
    pub declared_chained: bool,
    /// How many checkpoints were checked and hold.
    pub checkpoints: u64,
    /// The value that the last good checkpoint carries, hex: what a signature covers.
    pub head: Option<String>,
    /// Where the chain breaks, if it does.
    pub break_at: Option<ChainBreak>,
    /// Whole records before the place where the walk ended.
    pub records: u64,
    /// Whether the file ends in a trailer.
    pub finalized: bool,
    /// Records after the last good checkpoint, which nothing in the file covers yet.
    pub unverified_tail: u64,
    /// Whether the file ends in the middle of a record, of its index or of its trailer.
    pub truncated: bool,
    /// How index and trailer compare with the walk.
    pub index: IndexState,
    /// Bytes after the trailer.
    pub trailing_bytes: u64,
    /// 2, or 1 for a legacy file.
    pub version: u32,
    /// The ordinal that the header gives this segment; `None` outside a rotated set.
    pub segment_index: Option<u64>,
    /// When the file was created, Unix nanoseconds.
    pub created_wall_ns: u64,
    /// Tick of the first record.
    pub first_tick: Option<u64>,
    /// Tick of the last record.
    pub last_tick: Option<u64>,
    /// The chain value before the first record, hex; `None` for a legacy file.
    pub genesis: Option<String>,
    /// The chain value after the last record, hex; what an attestation covers.
    pub chain_end: Option<String>,
    /// Where the last whole record ends, in bytes; the index of a sealed file starts there.
    pub records_end: u64,
    /// Everything found, in words.
    pub findings: Vec<Finding>,
}

/// Verifies one file.
///
/// # Errors
/// `Io`, `NotAJournal`, `Unsupported`, `Incomplete`, or `Corrupt` when the file's first bytes are
/// damaged: nothing could be checked. Whatever is wrong behind the header is in the result.
pub fn verify_chain(path: impl AsRef<Path>) -> Result<ChainVerification> {
    verify_chain_with(&RealFs, path.as_ref(), VerifyOptions::default(), &mut ())
}

/// Verifies one file of a given file system and tells `observer` what it proves on the way.
pub fn verify_chain_with(
    fs: &dyn Fs,
    path: &Path,
    options: VerifyOptions,
    observer: &mut dyn Observer,
) -> Result<ChainVerification> {
    let read = |e| Error::io("read", path)(e);
    let mut window = open_window(fs, path)?;
    let file_len = window.file_len();
    let (version, header) = read_identity(&mut window, path)?;
    if version == LEGACY_VERSION {
        return legacy_verification(&mut window).map_err(read);
    }
    // The window is dropped for a handle of its own: what was sniffed is not what gets hashed.
    drop(window);
    let file = fs.open(path).map_err(Error::io("open", path))?;
    let mut header_bytes = [0; file_header::LEN];
    file.read_exact_at(0, &mut header_bytes).map_err(read)?;
    let genesis = genesis(&header_bytes);
    let walked = walk(
        file.as_ref(),
        file_len,
        genesis,
        thread_count(options.threads),
        observer,
    )
    .map_err(read)?;
    let checked = Check {
        fs,
        path,
        file: file.as_ref(),
        file_len,
        header,
        genesis,
        options,
        walk: &walked,
    };
    checked.verification().map_err(read)
}

fn thread_count(asked: usize) -> usize {
    match asked {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        n => n,
    }
}

struct Check<'a> {
    fs: &'a dyn Fs,
    path: &'a Path,
    file: &'a dyn FsFile,
    file_len: u64,
    header: FileHeader,
    genesis: Digest,
    options: VerifyOptions,
    walk: &'a Walk,
}

/// How the bytes after the last record compare with the index and trailer that belong there.
struct Ending {
    index: IndexState,
    finalized: bool,
    truncated: bool,
    trailing_bytes: u64,
}

impl Check<'_> {
    fn verification(&self) -> std::io::Result<ChainVerification> {
        let walk = self.walk;
        let mut findings = Vec::new();
        let break_at = self.chain_break();
        let ending = self.ending(&mut findings)?;
        self.judge_chain(break_at.as_ref(), &ending, &mut findings);
        self.judge_headers(&mut findings);
        self.judge_closing_stamps(&ending, &mut findings);
        let damaged = findings.iter().any(|f| f.severity == Severity::Damage);
        Ok(ChainVerification {
            ok: break_at.is_none() && !damaged,
            declared_chained: self.header.is_chained(),
            checkpoints: walk.checkpoint_count,
            head: walk.head.map(|head| hex(&head)),
            records: walk.record_count,
            finalized: ending.finalized,
            unverified_tail: walk.unverified_tail,
            truncated: ending.truncated,
            index: ending.index,
            trailing_bytes: ending.trailing_bytes,
            version: super::layout::FORMAT_VERSION,
            segment_index: self
                .header
                .is_segmented()
                .then_some(self.header.segment_index),
            created_wall_ns: self.header.created_wall_ns,
            first_tick: walk.first_tick,
            last_tick: (walk.record_count > 0).then_some(walk.last.tick),
            genesis: Some(hex(&self.genesis)),
            chain_end: break_at.is_none().then(|| hex(&walk.chain)),
            records_end: walk.end_offset,
            break_at,
            findings,
        })
    }

    fn chain_break(&self) -> Option<ChainBreak> {
        let (offset, tick) = (self.walk.end_offset, self.walk.end_tick);
        match self.walk.end {
            End::DigestMismatch { expected, found } => Some(ChainBreak::DigestMismatch {
                offset,
                tick,
                expected: hex(&expected),
                found: hex(&found),
            }),
            End::CrcMismatch => Some(ChainBreak::CrcMismatch { offset, tick }),
            End::MalformedCheckpoint { payload_len } => Some(ChainBreak::MalformedCheckpoint {
                offset,
                len: u64::from(payload_len),
            }),
            _ if self.walk.checkpoint_count > 0 => None,
            _ if self.header.is_chained() => Some(ChainBreak::ChainedButNoCheckpoints),
            _ => Some(ChainBreak::NotChained),
        }
    }

    /// Compares what follows the records with the seal that they call for.
    fn ending(&self, findings: &mut Vec<Finding>) -> std::io::Result<Ending> {
        let at = self.walk.end_offset;
        let has_trailer = self.ends_in_trailer()?;
        let mut ending = Ending {
            index: IndexState::Absent,
            finalized: has_trailer,
            truncated: false,
            trailing_bytes: 0,
        };
        match self.walk.end {
            End::File => {
                // The records fill the file: what looked like a trailer is the end of a payload.
                ending.finalized = false;
                findings.push(self.finding(
                    Severity::Unproven,
                    "not_sealed",
                    at,
                    "the file was never sealed: it ends with a whole record, and nothing in it tells \
                     whether more followed",
                ));
            }
            End::Index => self.compare_seal(&mut ending, findings)?,
            End::Torn | End::Zeros => {
                ending.truncated = true;
                let (severity, code, what) = self.torn_tail(has_trailer)?;
                findings.push(self.finding(severity, code, at, what));
            }
            End::UnknownKind(kind) => findings.push(self.finding(
                Severity::Damage,
                "unknown_kind",
                at,
                &format!("record kind {kind} does not exist; verification never skips a record"),
            )),
            End::MalformedCheckpoint { .. } | End::CrcMismatch | End::DigestMismatch { .. } => {}
        }
        Ok(ending)
    }

    /// True when the last bytes are a trailer that fits the file. A payload may end in its magic.
    fn ends_in_trailer(&self) -> std::io::Result<bool> {
        let Some(at) = self.file_len.checked_sub(trailer::LEN as u64) else {
            return Ok(false);
        };
        if at < FILE_HEADER_LEN {
            return Ok(false);
        }
        let mut bytes = [0; trailer::LEN];
        self.file.read_exact_at(at, &mut bytes)?;
        Ok(Trailer::decode(&bytes).is_some_and(|seal| seal.entry_count(self.file_len).is_some()))
    }

    fn compare_seal(
        &self,
        ending: &mut Ending,
        findings: &mut Vec<Finding>,
    ) -> std::io::Result<()> {
        let at = self.walk.end_offset;
        let expected = encode_seal(&self.walk.index, at, self.walk.record_count);
        let left = self.file_len - at;
        let common = usize::try_from(left).map_or(expected.len(), |l| l.min(expected.len()));
        let mut found = vec![0; common];
        self.file.read_exact_at(at, &mut found)?;
        let same = found
            .iter()
            .zip(&expected)
            .take_while(|(a, b)| a == b)
            .count();
        if same < common {
            ending.index = IndexState::Inconsistent;
            findings.push(self.finding(
                Severity::Damage,
                "index_inconsistent",
                at + same as u64,
                "index or trailer is not the one that the records call for",
            ));
        } else if common < expected.len() {
            ending.truncated = true;
            findings.push(self.finding(
                Severity::Unproven,
                "seal_cut_off",
                self.file_len,
                "the file ends inside its index or trailer: sealing was interrupted, or the end is missing",
            ));
        } else {
            ending.index = IndexState::Consistent;
            ending.finalized = true;
            ending.trailing_bytes = left - expected.len() as u64;
            if ending.trailing_bytes > 0 {
                findings.push(self.finding(
                    Severity::Damage,
                    "trailing_bytes",
                    at + expected.len() as u64,
                    &format!("{} bytes follow the trailer", ending.trailing_bytes),
                ));
            }
        }
        Ok(())
    }

    /// Tells the end of a file that was being written from damage inside it.
    fn torn_tail(
        &self,
        has_trailer: bool,
    ) -> std::io::Result<(Severity, &'static str, &'static str)> {
        let at = self.walk.end_offset;
        if has_trailer {
            let what = "a record runs past the end of the records, though the file was sealed";
            return Ok((Severity::Damage, "record_past_end", what));
        }
        if self.walk.end == End::Zeros {
            return Ok(if self.only_zeros_from(at)? {
                let what = "the file ends in zeros: a crash took the last records before they were \
                            durable";
                (Severity::Unproven, "zero_tail", what)
            } else {
                let what = "zeros stand where a record should, with other bytes after them";
                (Severity::Damage, "zeros_inside", what)
            });
        }
        let file = self.fs.open(self.path)?;
        let after = Resync::new(file)?.next_record(at + 1, self.file_len, self.walk.last)?;
        Ok(if after.is_some() {
            let what = "a record's length is wrong: it runs past the end of the file, but whole \
                        records follow inside it";
            (Severity::Damage, "length_damaged", what)
        } else {
            let what = "the file ends in the middle of a record: writing was interrupted, or the end \
                        is missing";
            (Severity::Unproven, "torn_tail", what)
        })
    }

    fn only_zeros_from(&self, mut at: u64) -> std::io::Result<bool> {
        let mut buffer = vec![0; 1 << 20];
        while at < self.file_len {
            let read = self.file.read_at(at, &mut buffer)?;
            let piece = buffer.get(..read).unwrap_or_default();
            if piece.is_empty() {
                break;
            }
            if piece.iter().any(|&b| b != 0) {
                return Ok(false);
            }
            at += read as u64;
        }
        Ok(true)
    }

    fn judge_chain(
        &self,
        break_at: Option<&ChainBreak>,
        ending: &Ending,
        findings: &mut Vec<Finding>,
    ) {
        let at = self.walk.end_offset;
        let (severity, code, what) = match break_at {
            None => {
                let tail = self.walk.unverified_tail;
                if tail > 0 {
                    let severity = if ending.finalized {
                        Severity::Damage
                    } else {
                        Severity::Unproven
                    };
                    let what = format!(
                        "{tail} records after the last checkpoint are not covered by the chain"
                    );
                    findings.push(self.finding(severity, "unverified_tail", at, &what));
                }
                return;
            }
            Some(ChainBreak::DigestMismatch { .. }) => (
                Severity::Damage,
                "digest_mismatch",
                "a record since the checkpoint before this one was altered, removed, inserted or \
                 re-timed",
            ),
            Some(ChainBreak::CrcMismatch { .. }) => (
                Severity::Damage,
                "crc_mismatch",
                "the payload does not have its checksum",
            ),
            Some(ChainBreak::MalformedCheckpoint { .. }) => (
                Severity::Damage,
                "malformed_checkpoint",
                "a chain checkpoint whose payload is not 32 bytes",
            ),
            Some(ChainBreak::NotChained) => (
                Severity::Unproven,
                "not_chained",
                "the file claims no hash chain and has none: nothing was proved",
            ),
            Some(ChainBreak::ChainedButNoCheckpoints) => (
                if ending.finalized {
                    Severity::Damage
                } else {
                    Severity::Unproven
                },
                "no_checkpoints",
                "the file claims a hash chain, but no checkpoint is there",
            ),
        };
        findings.insert(0, self.finding(severity, code, at, what));
    }

    fn judge_headers(&self, findings: &mut Vec<Finding>) {
        let unknown = self.header.flags & !(FLAG_SEGMENTED | FLAG_CHAINED);
        if unknown != 0 {
            findings.push(self.finding(
                Severity::Note,
                "unknown_flags",
                file_header::FLAGS.offset as u64,
                &format!("flag bits {unknown:#x} are not known and were ignored"),
            ));
        }
        if !self.header.is_segmented() && self.header.segment_index != 0 {
            findings.push(self.finding(
                Severity::Damage,
                "segment_index_without_set",
                file_header::SEGMENT_INDEX.offset as u64,
                "the header has a segment ordinal but does not say that it belongs to a set",
            ));
        }
        let walk = self.walk;
        if let Some((offset, tick)) = walk.padding.first {
            let what = format!(
                "padding that is not zero in {} record headers",
                walk.padding.count
            );
            findings.push(self.finding_at(Severity::Damage, "padding", offset, tick, &what));
        }
        if let Some((offset, tick)) = walk.ticks_back.first {
            let what = format!("the tick goes back, {} times in all", walk.ticks_back.count);
            findings.push(self.finding_at(Severity::Damage, "tick_went_back", offset, tick, &what));
        }
    }

    /// Nothing in a file covers the stamps of its closing checkpoint and of a signature behind it.
    fn judge_closing_stamps(&self, ending: &Ending, findings: &mut Vec<Finding>) {
        if !ending.finalized || ending.index != IndexState::Consistent {
            return;
        }
        let first = match self.walk.recent.first() {
            // It goes on from the segment before, which is another file's to say.
            Some(record) if self.header.segment_index > 0 => record.stamp,
            _ => Stamp {
                wall_ns: self.header.created_wall_ns,
                ..Stamp::default()
            },
        };
        let closing: Vec<_> = match self.walk.recent.as_slice() {
            [.., before, checkpoint, signature] if signature.kind == FrameKind::Signature => {
                vec![(before.stamp, checkpoint), (checkpoint.stamp, signature)]
            }
            [checkpoint, signature] if signature.kind == FrameKind::Signature => {
                vec![(first, checkpoint), (checkpoint.stamp, signature)]
            }
            [.., before, checkpoint] => vec![(before.stamp, checkpoint)],
            [checkpoint] => vec![(first, checkpoint)],
            [] => vec![],
        };
        let start = record_header::TICK.offset as u64;
        let end = record_header::CRC32.offset as u64;
        for (expected, record) in closing {
            let place = record.offset;
            if self.options.strict && record.stamp != expected {
                findings.push(self.finding_at(
                    Severity::Damage,
                    "closing_stamps",
                    place,
                    record.stamp.tick,
                    "the closing record does not carry the stamps of the record before it",
                ));
            } else if !self.options.strict {
                let what = format!(
                    "bytes {}..{} (tick and times of the closing {} record) are covered by nothing in \
                     this file; --strict checks them against the writer's rule, an attestation proves \
                     them",
                    place + start,
                    place + end,
                    record.kind,
                );
                findings.push(self.finding(Severity::Note, "unprotected_stamps", place, &what));
            }
        }
    }

    fn finding(&self, severity: Severity, code: &'static str, offset: u64, what: &str) -> Finding {
        let tick = self.walk.last.tick;
        self.finding_at(severity, code, offset, tick, what)
    }

    fn finding_at(
        &self,
        severity: Severity,
        code: &'static str,
        offset: u64,
        tick: u64,
        what: &str,
    ) -> Finding {
        let place = if offset < FILE_HEADER_LEN + RECORD_HEADER_LEN && self.walk.record_count == 0 {
            format!("{} byte {offset}", self.path.display())
        } else {
            format!("{} byte {offset} tick {tick}", self.path.display())
        };
        Finding {
            code,
            severity,
            place,
            what: what.to_owned(),
        }
    }
}

fn legacy_verification(window: &mut durable::Window) -> std::io::Result<ChainVerification> {
    let mut records = 0u64;
    let mut offset = 0u64;
    while let Some(len) = legacy::payload_len(window, offset)? {
        offset += 4 + u64::from(len);
        records += 1;
    }
    Ok(ChainVerification {
        ok: false,
        declared_chained: false,
        checkpoints: 0,
        head: None,
        break_at: Some(ChainBreak::NotChained),
        records,
        finalized: false,
        unverified_tail: records,
        truncated: false,
        index: IndexState::Absent,
        trailing_bytes: 0,
        version: LEGACY_VERSION,
        segment_index: None,
        created_wall_ns: 0,
        first_tick: Some(1),
        last_tick: Some(records),
        genesis: None,
        chain_end: None,
        records_end: offset,
        findings: vec![Finding {
            code: "not_chained",
            severity: Severity::Unproven,
            place: "byte 0".to_owned(),
            what: "a legacy file has no header, no checksums and no chain: nothing was proved"
                .to_owned(),
        }],
    })
}
