//! Attesting a journal that lies on disk.

use std::path::{Path, PathBuf};

use durable::digest::hex;
use durable::{Fs, Severity, publish, sync_parent};

use super::derive::{LeafCollector, RunFiles};
use super::error::AttestError;
use super::leaf::{Leaf, LeafKind};
use super::merkle::Frontier;
use super::note::{NOTE_LEN_MAX, Note, default_origin, is_origin};
use super::sequence::matching;
use super::sidecar::{Side, leaves_len_max};
use crate::journal::segments::{segments_on_disk, sidecar_paths};
use crate::journal::{
    ChainVerification, Error, JournalSigner, PublicKey, VerifyOptions, verify_chain_with,
};

/// How a run is attested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestOptions {
    /// The name of the run; by default the one in the note that is there, else
    /// [`default_origin`].
    pub origin: Option<String>,
    /// The machine, for the default origin.
    pub host: String,
    /// Whether to say that the run is complete when its last segment is sealed. Must be false for a
    /// rotated set that is still being written: between two segments it looks complete.
    pub closed: bool,
    /// Keys that may have signed before. Without the key of the last note among them, another
    /// signer is refused: whoever cuts a journal can sign the rest with a key of their own.
    pub previous_keys: Vec<PublicKey>,
    /// Threads that hash; 0 means one per core.
    pub threads: usize,
}

impl Default for AttestOptions {
    fn default() -> Self {
        Self {
            origin: None,
            host: "localhost".to_owned(),
            closed: true,
            previous_keys: Vec::new(),
            threads: 0,
        }
    }
}

/// What an attestation consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attestation {
    /// The newest note.
    pub note: Note,
    /// Where it stands.
    pub note_path: PathBuf,
    /// Where the leaves stand.
    pub leaves_path: PathBuf,
    /// Records of the run, from its start, that the note covers.
    pub covers_records: u64,
    /// Whether the note says that the run is complete.
    pub closed: bool,
    /// False when everything was there already.
    pub changed: bool,
}

/// Verifies the set that starts at `base` and signs how far it goes. Attesting again when nothing
/// is new changes nothing.
///
/// # Errors
/// `Broken` when the journal does not verify; `Disagrees` when it is not the one that the note
/// beside it was signed over; `OtherOrigin` and `OtherKey` for a change of name or of key that was
/// not asked for; `Journal` for everything about files.
///
/// # Durability
/// Journal, then leaves, then note: each is durable before the next is written, so that no crash
/// leaves a note ahead of what it speaks of. When it returns, all three are durable.
pub fn attest(
    fs: &dyn Fs,
    base: &Path,
    signer: &JournalSigner,
    options: &AttestOptions,
) -> Result<Attestation, AttestError> {
    let (derived, created_wall_ns) = verified_leaves(fs, base, options.threads)?;
    let [leaves_path, note_path] = sidecar_paths(base);
    let file = Side::read(fs, &leaves_path, leaves_len_max(derived.leaves().len()))?;
    let disagrees = |path: &Path, code, what| AttestError::Disagrees {
        path: path.to_owned(),
        code,
        what,
    };
    let malformed = |what: String| disagrees(&note_path, "note_malformed", what);
    let held = match Side::read(fs, &note_path, NOTE_LEN_MAX)? {
        Side::Missing => None,
        Side::TooLong => return Err(malformed("longer than a note may be".to_owned())),
        Side::Bytes(bytes) => Some(Note::parse(&bytes).map_err(|e| malformed(e.to_string()))?),
    };
    let origin = origin_of(held.as_ref(), options, base, created_wall_ns)?;

    let mut leaves = Vec::new();
    let mut rest = derived.all();
    if !options.closed {
        rest.truncate(derived.leaves().len());
    }
    if let Some(note) = &held {
        let changes_key = judge_key(note, signer, &options.previous_keys)
            .map_err(|error| error.at(&note_path))?;
        let sequence = matching(&derived, &file.leaves(), note.size, &note.root)
            .map_err(|d| disagrees(&note_path, d.code, d.what))?;
        let signed = usize::try_from(note.size).unwrap_or(usize::MAX);
        leaves.extend(sequence.iter().copied().take(signed));
        let own = leaves
            .iter()
            .filter(|leaf| leaf.kind.is_derivable())
            .count();
        rest.drain(..own.min(rest.len()));
        if changes_key {
            leaves.extend(leaves.last().map(|last| Leaf {
                kind: LeafKind::KeyChange,
                value: signer.public_key().to_bytes(),
                ..*last
            }));
        }
    } else {
        refuse_longer_leaves(&derived, &file.leaves())
            .map_err(|what| disagrees(&leaves_path, "leaves_beyond_journal", what))?;
    }
    leaves.extend(rest);

    let wrote_leaves = write_leaves(fs, &leaves_path, &file, &leaves)?;
    let tree = Frontier::of(&leaves);
    let held = held.filter(|note| note.size == tree.size());
    let wrote_note = held.is_none();
    let note = held.unwrap_or_else(|| Note::sign(&origin, &tree, signer));
    if wrote_note {
        publish(fs, &note_path, note.to_text().as_bytes())
            .map_err(Error::io("write", &note_path))?;
    }
    Ok(Attestation {
        note,
        note_path,
        leaves_path,
        covers_records: leaves.last().map_or(0, |leaf| leaf.records),
        closed: leaves.iter().any(|leaf| leaf.kind == LeafKind::RunClosed),
        changed: wrote_leaves || wrote_note,
    })
}

/// The leaves of a journal that verifies, and its creation time; its bytes are made durable.
fn verified_leaves(
    fs: &dyn Fs,
    base: &Path,
    threads: usize,
) -> Result<(LeafCollector, u64), AttestError> {
    let options = VerifyOptions {
        threads,
        ..VerifyOptions::default()
    };
    let broken = |place: String, what: String| AttestError::Broken { place, what };
    let files = RunFiles::find(fs, base)?;
    let paths = &files.whole;
    let count = (paths.len() + usize::from(files.begun.is_some())) as u64;
    if count > 1
        && let Some((ordinal, path)) = segments_on_disk(fs, base)?.pop()
        && ordinal >= count
    {
        let what = format!("segment {count} is missing, though a later one exists");
        return Err(broken(path.display().to_string(), what));
    }
    let mut collector = LeafCollector::new();
    let mut created_wall_ns = None;
    let mut last_tick = 0;
    for path in paths {
        let result = verify_chain_with(fs, path, options, &mut collector)?;
        collector.finish_segment(&result);
        if let Some(finding) = first_damage(&result) {
            return Err(broken(finding.0, finding.1));
        }
        if let Some(stop) = collector.stopped() {
            let place = format!("{} byte {}", path.display(), stop.offset);
            return Err(broken(place, stop.what.to_owned()));
        }
        if result.first_tick.is_some_and(|first| first < last_tick) {
            let what = "it starts below the tick at which the segment before ends";
            return Err(broken(path.display().to_string(), what.to_owned()));
        }
        last_tick = result.last_tick.unwrap_or(last_tick);
        created_wall_ns.get_or_insert(result.created_wall_ns);
    }
    if files.begun.is_some() {
        collector.keep_open();
    }
    // After the walk, so that every byte that was hashed is durable before it is signed for.
    for path in paths {
        let mut file = fs.open(path).map_err(Error::io("open", path))?;
        file.sync_data().map_err(Error::io("sync", path))?;
    }
    sync_parent(fs, base).map_err(Error::io("sync the folder of", base))?;
    Ok((collector, created_wall_ns.unwrap_or_default()))
}

/// Place and text of the first finding that contradicts the journal, or of a missing chain.
fn first_damage(result: &ChainVerification) -> Option<(String, String)> {
    let weighs = |finding: &&durable::Finding| {
        finding.severity == Severity::Damage || finding.code == "not_chained"
    };
    let finding = result.findings.iter().find(weighs)?;
    Some((finding.place.clone(), finding.what.clone()))
}

fn origin_of(
    held: Option<&Note>,
    options: &AttestOptions,
    base: &Path,
    created_wall_ns: u64,
) -> Result<String, AttestError> {
    if let (Some(note), Some(asked)) = (held, &options.origin)
        && note.origin != *asked
    {
        return Err(AttestError::OtherOrigin {
            held: note.origin.clone(),
            asked: asked.clone(),
        });
    }
    let origin = held
        .map(|note| note.origin.clone())
        .or_else(|| options.origin.clone())
        .unwrap_or_else(|| default_origin(&options.host, base, created_wall_ns));
    checked_origin(origin)
}

/// Refuses a name that a note cannot carry.
pub(super) fn checked_origin(origin: String) -> Result<String, AttestError> {
    if is_origin(&origin) {
        return Ok(origin);
    }
    let what = "an origin is 1 to 1024 bytes without spaces, plus signs or control characters";
    Err(Error::Misuse { what }.into())
}

/// Why the note's key is not taken over.
enum KeyRefusal {
    Bad,
    Other(String),
}

impl KeyRefusal {
    fn at(self, note_path: &Path) -> AttestError {
        match self {
            Self::Bad => AttestError::Disagrees {
                path: note_path.to_owned(),
                code: "note_signature_bad",
                what: "a line of the note is not the signature of the key that it claims"
                    .to_owned(),
            },
            Self::Other(key_ids) => AttestError::OtherKey { key_ids },
        }
    }
}

/// True when the note is by another key than the signer's, one that the caller named.
fn judge_key(
    note: &Note,
    signer: &JournalSigner,
    previous: &[PublicKey],
) -> Result<bool, KeyRefusal> {
    match note.signature_of(signer.public_key()) {
        Some(true) => return Ok(false),
        Some(false) => return Err(KeyRefusal::Bad),
        None => {}
    }
    let judged: Vec<bool> = previous
        .iter()
        .filter_map(|key| note.signature_of(*key))
        .collect();
    if judged.is_empty() {
        let ids: Vec<_> = note
            .signatures
            .iter()
            .map(|line| hex(&line.key_id))
            .collect();
        return Err(KeyRefusal::Other(ids.join(", ")));
    }
    if judged.contains(&false) {
        return Err(KeyRefusal::Bad);
    }
    Ok(true)
}

/// Without a note nothing is signed, yet leaves beyond a journal that agrees with the others tell
/// of records that were there: the writer makes records durable before their leaves.
fn refuse_longer_leaves(derived: &LeafCollector, file: &[Leaf]) -> Result<(), String> {
    let own = derived.all();
    let open = derived.leaves();
    let agrees = file.starts_with(&own) || file.starts_with(open);
    match file.last() {
        Some(last) if file.len() > own.len() && agrees => Err(format!(
            "it has leaves for {} records, the journal holds {}; was the journal cut? Remove the \
             file to attest what is left",
            last.records,
            derived.records()
        )),
        _ => Ok(()),
    }
}

/// Brings the file of leaves to `leaves`: by appending, or anew when it holds anything else.
fn write_leaves(
    fs: &dyn Fs,
    path: &Path,
    held: &Side,
    leaves: &[Leaf],
) -> Result<bool, AttestError> {
    let bytes: Vec<u8> = leaves.iter().flat_map(Leaf::encode).collect();
    let write = |e| Error::io("write", path)(e);
    match held {
        Side::Bytes(old) if *old == bytes => {
            // A process that stopped before its sync may have left them in memory only.
            let mut file = fs.open(path).map_err(Error::io("open", path))?;
            file.sync_data().map_err(write)?;
            sync_parent(fs, path).map_err(write)?;
            Ok(false)
        }
        Side::Bytes(old) if !old.is_empty() && bytes.starts_with(old) => {
            let mut file = fs.open_append(path).map_err(Error::io("open", path))?;
            let new = bytes.get(old.len()..).unwrap_or_default();
            file.append(new).map_err(write)?;
            file.sync_data().map_err(write)?;
            sync_parent(fs, path).map_err(write)?;
            Ok(true)
        }
        Side::Missing | Side::TooLong | Side::Bytes(_) => {
            publish(fs, path, &bytes).map_err(write)?;
            Ok(true)
        }
    }
}
