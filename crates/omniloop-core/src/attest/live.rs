//! Attesting a run while it is recorded.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::{Access, Fs, FsFile, publish, sync_parent};

use super::derive::SealDigest;
use super::error::AttestError;
use super::leaf::{Leaf, LeafKind};
use super::merkle::Frontier;
use super::note::{Note, default_origin};
use super::tail::SegmentTail;
use super::write::checked_origin;
use crate::journal::segments::{segment_path, sidecar_paths};
use crate::journal::{Error, JournalSigner};

/// Follows a journal that is being written, and signs how far it has come.
///
/// For a thread beside the recorder: it reads the files, never the writer's memory. Sync the journal
/// before each [`advance`](Self::advance), so that there is something new to see.
#[derive(Debug)]
pub struct Attestor {
    fs: Arc<dyn Fs>,
    base: PathBuf,
    signer: JournalSigner,
    origin: String,
    /// The segment that is being followed.
    tail: SegmentTail,
    /// Records of the segments before it.
    earlier: u64,
    seals: SealDigest,
    tree: Frontier,
    leaves_file: Option<Box<dyn FsFile>>,
    covers_records: u64,
    closed: bool,
    failed: bool,
}

impl Attestor {
    /// Begins with the journal at `base`, which exists and was not attested yet. `origin` is by
    /// default the [`default_origin`] of `host`.
    ///
    /// # Errors
    /// `Journal` with `AlreadyExists` when an attestation stands beside the journal: `attest` goes
    /// on with that one. Otherwise as [`JournalPlayer::open`](crate::journal::JournalPlayer::open).
    pub fn create(
        fs: Arc<dyn Fs>,
        base: impl AsRef<Path>,
        signer: JournalSigner,
        origin: Option<String>,
        host: &str,
    ) -> Result<Self, AttestError> {
        let base = base.as_ref().to_owned();
        for path in sidecar_paths(&base) {
            if fs.exists(&path).map_err(Error::io("look at", &path))? {
                let source = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
                return Err(Error::io("create", &path)(source).into());
            }
        }
        let tail = SegmentTail::open(fs.as_ref(), &base, 0)?;
        let origin =
            origin.unwrap_or_else(|| default_origin(host, &base, tail.header().created_wall_ns));
        Ok(Self {
            origin: checked_origin(origin)?,
            fs,
            base,
            signer,
            tail,
            earlier: 0,
            seals: SealDigest::default(),
            tree: Frontier::default(),
            leaves_file: None,
            covers_records: 0,
            closed: false,
            failed: false,
        })
    }

    /// The name of the run.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// Records of the run, from its start, that the last note covers.
    pub fn covers_records(&self) -> u64 {
        self.covers_records
    }

    /// Reads what has come since the last call, and signs a new note when it holds a checkpoint, a
    /// seal or a new segment. Costs a read and a hash of the new bytes, at most four syncs, and one
    /// signature; nothing of it grows with the length of the run.
    ///
    /// `closed` says that the journal was sealed and is complete: the note then says so too.
    ///
    /// # Errors
    /// `Broken` when the bytes do not continue the chain; `Misuse` for `closed` when the last segment
    /// is not sealed. After an error every later call fails; `attest` can go on from the files.
    ///
    /// # Durability
    /// As [`attest`](super::attest): the bytes are synced here before they are signed for.
    pub fn advance(&mut self, closed: bool) -> Result<Option<Note>, AttestError> {
        if self.failed {
            let what = "an earlier call failed; attest the journal from its files";
            return Err(Error::Misuse { what }.into());
        }
        let result = self.advance_once(closed);
        self.failed = result.is_err();
        result
    }

    fn advance_once(&mut self, closed: bool) -> Result<Option<Note>, AttestError> {
        let mut leaves = Vec::new();
        loop {
            let before = leaves.len();
            self.tail.advance(self.earlier, &mut leaves)?;
            if leaves.len() > before {
                self.tail.sync()?;
            }
            if !self.next_segment()? {
                break;
            }
        }
        if closed && !self.closed {
            let seal = self.tail.seal().ok_or(Error::Misuse {
                what: "the last segment is not sealed, so the run is not complete",
            })?;
            let mut seals = self.seals.clone();
            seals.add(&seal);
            leaves.push(seals.close(&seal, self.tail.file_len()));
            self.closed = true;
        }
        let Some(last) = leaves.last() else {
            return Ok(None);
        };
        self.covers_records = last.records;
        self.publish(&leaves).map(Some)
    }

    /// Goes to the next segment when this one is sealed and the next is there.
    fn next_segment(&mut self) -> Result<bool, AttestError> {
        let Some(seal) = self.tail.seal() else {
            return Ok(false);
        };
        if !self.tail.header().is_segmented() {
            return Ok(false);
        }
        let ordinal = seal.segment + 1;
        let path = segment_path(&self.base, ordinal);
        if !self.fs.exists(&path).map_err(Error::io("look at", &path))? {
            return Ok(false);
        }
        match SegmentTail::open(self.fs.as_ref(), &path, ordinal) {
            Ok(tail) => self.tail = tail,
            // Its header is being written.
            Err(AttestError::Journal(Error::Incomplete { .. })) => return Ok(false),
            Err(error) => return Err(error),
        }
        self.seals.add(&seal);
        self.earlier = seal.records;
        Ok(true)
    }

    fn publish(&mut self, leaves: &[Leaf]) -> Result<Note, AttestError> {
        let [leaves_path, note_path] = sidecar_paths(&self.base);
        let mut bytes = Vec::new();
        for leaf in leaves {
            debug_assert_ne!(leaf.kind, LeafKind::KeyChange, "one key signs a recording");
            let leaf = leaf.encode();
            self.tree.push(&leaf);
            bytes.extend_from_slice(&leaf);
        }
        let fs = self.fs.as_ref();
        let write = |e| Error::io("write", &leaves_path)(e);
        let file = match &mut self.leaves_file {
            Some(file) => file,
            slot @ None => {
                let file = fs.create_new(&leaves_path, Access::Shared).map_err(write)?;
                sync_parent(fs, &leaves_path).map_err(write)?;
                slot.insert(file)
            }
        };
        file.append(&bytes).map_err(write)?;
        file.sync_data().map_err(write)?;
        let note = Note::sign(&self.origin, &self.tree, &self.signer);
        publish(fs, &note_path, note.to_text().as_bytes())
            .map_err(Error::io("write", &note_path))?;
        Ok(note)
    }
}
