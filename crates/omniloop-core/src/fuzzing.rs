//! What the fuzz targets call, over one file in memory. The tests replay the committed corpora
//! through the same functions.
//!
//! Each function takes bytes that nobody vouches for and panics when a promise of the reading side
//! is broken: that is how a fuzzer learns of it. None of them is of use to a program.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, FileKind, Fs, FsFile, Metadata, Outcome, Verdict, checksum};

use crate::journal::layout::FLAG_CHAINED;
use crate::journal::{
    FileHeader, FrameKind, FrameRecord, IndexState, JournalPlayer, PlayerOptions, RecordHeader,
    Result, SegmentedPlayer, SignatureVerification, VerifyOptions, verify_chain_with,
    verify_signed_with,
};

/// Where the file of a [`OneFile`] stands.
pub const PATH: &str = "run.omni";

/// A read-only file system that holds one file, at [`PATH`].
#[derive(Clone, Debug)]
pub struct OneFile {
    bytes: Arc<[u8]>,
}

impl OneFile {
    /// A file system whose file holds `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.into(),
        }
    }
}

#[derive(Debug)]
struct OpenFile(Arc<[u8]>);

fn refused<T>() -> io::Result<T> {
    Err(ErrorKind::ReadOnlyFilesystem.into())
}

impl Fs for OneFile {
    fn create_new(&self, _: &Path, _: Access) -> io::Result<Box<dyn FsFile>> {
        refused()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn FsFile>> {
        self.metadata(path)?;
        Ok(Box::new(OpenFile(Arc::clone(&self.bytes))))
    }

    fn open_append(&self, _: &Path) -> io::Result<Box<dyn FsFile>> {
        refused()
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        if path != Path::new(PATH) {
            return Err(ErrorKind::NotFound.into());
        }
        Ok(Metadata {
            kind: FileKind::File,
            len: self.bytes.len() as u64,
            modified_ns: 0,
        })
    }

    fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn hard_link(&self, _: &Path, _: &Path) -> io::Result<()> {
        refused()
    }

    fn create_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_file(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn remove_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }

    fn read_dir(&self, _: &Path) -> io::Result<Vec<PathBuf>> {
        Ok(vec![PathBuf::from(PATH)])
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        refused()
    }
}

impl FsFile for OpenFile {
    fn append(&mut self, _: &[u8]) -> io::Result<()> {
        refused()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = self.0.get(start..).unwrap_or_default();
        let len = rest.len().min(buf.len());
        if let (Some(to), Some(from)) = (buf.get_mut(..len), rest.get(..len)) {
            to.copy_from_slice(from);
        }
        Ok(len)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn set_len(&mut self, _: u64) -> io::Result<()> {
        refused()
    }

    fn sync_data(&mut self) -> io::Result<()> {
        refused()
    }

    fn sync(&mut self) -> io::Result<()> {
        refused()
    }
}

/// The records that a reader gives before it ends or fails, and how it ended.
pub fn read_all_records(
    fs: &dyn Fs,
    path: &Path,
    options: PlayerOptions,
) -> (Vec<FrameRecord>, Result<()>) {
    let mut records = Vec::new();
    let outcome = JournalPlayer::open_with(fs, path, options).and_then(|mut player| {
        while let Some(record) = player.read_next_record()? {
            records.push(record);
        }
        Ok(())
    });
    (records, outcome)
}

/// Reads `bytes` as a journal, strictly and leniently, front to back and from several ticks.
///
/// # Panics
/// When records overlap or lie outside the file, when a strict reader gives another record than a
/// lenient one, when a set of one file reads differently from the file, or when a seek with an
/// honest index does not lead to the first record of its tick.
pub fn player(bytes: &[u8]) {
    let fs = OneFile::new(bytes);
    let path = Path::new(PATH);
    let (strict, strict_end) = read_all_records(&fs, path, PlayerOptions::default());
    let lenient = PlayerOptions {
        lenient: true,
        ..PlayerOptions::default()
    };
    let (forgiven, _) = read_all_records(&fs, path, lenient);
    assert!(
        forgiven.starts_with(&strict),
        "a lenient reader gives all that a strict one gives"
    );
    let mut end = 0;
    for record in &forgiven {
        assert!(record.offset >= end, "records do not overlap");
        end = record.offset + record.payload.len() as u64;
        assert!(end <= bytes.len() as u64, "records lie within the file");
    }
    if strict_end.is_ok() {
        if index_is_honest(&fs) {
            seeks_agree_with_reading(&fs, &strict);
        }
        let set = SegmentedPlayer::open_with(Arc::new(fs), path, PlayerOptions::default());
        let as_set: Option<Vec<_>> = set.ok().and_then(|set| set.collect::<Result<_>>().ok());
        assert_eq!(
            as_set.as_deref(),
            Some(strict.as_slice()),
            "a set of one is the file"
        );
    }
}

/// True without an index, and with the one that the records call for. Nothing covers an index:
/// one that was made to mislead can lead a seek into a payload, which only verification tells.
fn index_is_honest(fs: &dyn Fs) -> bool {
    verify_chain_with(fs, Path::new(PATH), VerifyOptions::default(), &mut ())
        .is_ok_and(|v| v.index != IndexState::Inconsistent)
}

/// Seeks to every tick that occurs and to its neighbours; a seek may fail, but not mislead.
fn seeks_agree_with_reading(fs: &dyn Fs, records: &[FrameRecord]) {
    let Ok(mut player) = JournalPlayer::open_with(fs, PATH, PlayerOptions::default()) else {
        return;
    };
    let step = records.len() / 64 + 1;
    let near = records
        .iter()
        .step_by(step)
        .flat_map(|r| [r.tick.saturating_sub(1), r.tick, r.tick.saturating_add(1)]);
    for tick in near.chain([0, u64::MAX]) {
        if player.seek_to_tick(tick).is_ok() {
            let found = player.read_next_record();
            let expected = records.iter().find(|r| r.tick >= tick);
            assert!(
                found.as_ref().is_ok_and(|f| f.as_ref() == expected),
                "tick={tick} found={found:?} expected={expected:?}"
            );
        }
    }
}

/// Verifies `bytes` with one thread and with two, plainly and strictly.
///
/// # Panics
/// When the number of threads changes the result, when a strict check is milder than a plain one,
/// when a file that verifies cannot be read whole, or when `ok` and the findings contradict each
/// other.
pub fn verifier(bytes: &[u8]) {
    let fs = OneFile::new(bytes);
    let verify = |strict, threads| {
        let options = VerifyOptions { strict, threads };
        verify_signed_with(&fs, Path::new(PATH), &[], options, &mut ())
    };
    let (one, two) = (verify(false, 1), verify(false, 2));
    assert_eq!(
        format!("{one:?}"),
        format!("{two:?}"),
        "threads do not change the result"
    );
    let outcome = |v: &SignatureVerification| Verdict::outcome_of(&v.chain.findings);
    let (Ok(plain), Ok(strict)) = (one, verify(true, 2)) else {
        return;
    };
    assert!(
        outcome(&strict) >= outcome(&plain),
        "strict finds no less: {strict:?} {plain:?}"
    );
    if plain.chain.ok {
        assert_ne!(outcome(&plain), Outcome::Damaged, "{plain:?}");
        let (records, end) = read_all_records(&fs, Path::new(PATH), PlayerOptions::default());
        assert!(end.is_ok(), "what verifies can be read: {end:?}");
        assert_eq!(records.len() as u64, plain.chain.records);
    } else {
        assert_ne!(outcome(&plain), Outcome::Intact, "{plain:?}");
    }
}

/// Puts `bytes` behind sound records, where index and trailer stand, and reads and seeks.
///
/// # Panics
/// When bytes behind the records change what is read: every record given must be one of those that
/// are there, in their order, and every seek must fail or lead to the right one.
pub fn trailer(bytes: &[u8]) {
    let sound = sound_records();
    let whole = [sound.as_slice(), bytes].concat();
    let fs = OneFile::new(&whole);
    let (expected, end) = read_all_records(
        &OneFile::new(&sound),
        Path::new(PATH),
        PlayerOptions::default(),
    );
    assert!(end.is_ok(), "the fixed part is sound: {end:?}");
    let (found, _) = read_all_records(&fs, Path::new(PATH), PlayerOptions::default());
    let common = found.len().min(expected.len());
    assert_eq!(
        found.get(..common),
        expected.get(..common),
        "the records before the tail are as written"
    );
    let Ok(mut player) = JournalPlayer::open_with(&fs, PATH, PlayerOptions::default()) else {
        return;
    };
    for tick in (0..=SOUND_TICKS).step_by(4) {
        if player.seek_to_tick(tick).is_err() {
            continue;
        }
        let expected = expected.iter().find(|r| r.tick >= tick);
        match player.read_next_record() {
            // The tail may end the records early, or follow them with more of its own.
            Ok(Some(record)) if expected.is_none_or(|e| record.offset > e.offset) => {
                assert!(record.offset >= sound.len() as u64, "{record:?}");
            }
            Ok(found) => assert!(
                found.is_none() || found.as_ref() == expected,
                "tick={tick} {found:?}"
            ),
            Err(_) => {}
        }
    }
}

/// Ticks of the records before the bytes of [`trailer`]: enough for three index entries.
const SOUND_TICKS: u64 = 150;

/// A file header and telemetry records with the ticks 1 to `SOUND_TICKS`, without a chain.
pub fn sound_records() -> Vec<u8> {
    let header = FileHeader {
        flags: FLAG_CHAINED,
        created_wall_ns: 0,
        segment_index: 0,
    };
    let mut bytes = header.encode().to_vec();
    for tick in 1..=SOUND_TICKS {
        let payload = tick.to_le_bytes();
        let header = RecordHeader {
            payload_len: 8,
            kind: FrameKind::Telemetry.code(),
            padding: [0; 3],
            tick,
            mono_ns: tick,
            wall_ns: tick,
            crc32: checksum::crc32(&payload),
        };
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(&payload);
    }
    bytes
}
