//! Checking the attestation beside a journal. Believes nothing in it but what a key signed.

use std::path::Path;

use durable::digest::hex;
use durable::{Finding, Fs, Severity};

use super::derive::LeafCollector;
use super::leaf::{Leaf, LeafKind, layout};
use super::note::{NOTE_LEN_MAX, Note, key_id};
use super::report::{AttestationReport, LeavesState, NoteSigner, SignatureState};
use super::sequence::{has_root, matching};
use super::sidecar::{Side, leaves_len_max};
use crate::journal::segments::sidecar_paths;
use crate::journal::{PublicKey, Result};

/// Compares the attestation beside `base` with the leaves that its journal gave. `older_note` is the
/// text of a note of the same run that was kept elsewhere.
///
/// Answers `None` when there is no note, no file of leaves and no older note.
///
/// # Errors
/// `Io` when a file beside the journal exists and cannot be read.
pub fn check_attestation(
    fs: &dyn Fs,
    base: &Path,
    derived: &LeafCollector,
    trusted: &[PublicKey],
    older_note: Option<&str>,
) -> Result<Option<AttestationReport>> {
    let [leaves_path, note_path] = sidecar_paths(base);
    let note = Side::read(fs, &note_path, NOTE_LEN_MAX)?;
    let leaves = Side::read(fs, &leaves_path, leaves_len_max(derived.leaves().len()))?;
    if note.is_missing() && leaves.is_missing() && older_note.is_none() {
        return Ok(None);
    }
    let mut check = Check {
        derived,
        trusted,
        note_place: note_path.display().to_string(),
        leaves_place: leaves_path.display().to_string(),
        file: leaves.leaves(),
        report: AttestationReport {
            origin: None,
            size: 0,
            covers_records: 0,
            closed: false,
            signature: SignatureState::None,
            signers: Vec::new(),
            root_matches: false,
            leaves_file: LeavesState::Missing,
            unproven_tail_records: derived.records(),
            anchored_records: None,
            findings: Vec::new(),
        },
    };
    let note = check.read_note(&note);
    let sequence = note.as_ref().and_then(|note| check.judge_note(note));
    check.judge_leaves(&leaves, note.as_ref(), sequence.as_deref());
    if let Some(text) = older_note {
        check.judge_older(text, note.as_ref());
    }
    Ok(Some(check.report))
}

struct Check<'a> {
    derived: &'a LeafCollector,
    trusted: &'a [PublicKey],
    note_place: String,
    leaves_place: String,
    /// What the file of leaves says.
    file: Vec<Leaf>,
    report: AttestationReport,
}

impl Check<'_> {
    fn find(&mut self, severity: Severity, code: &'static str, place: &str, what: String) {
        self.report.findings.push(Finding {
            code,
            severity,
            place: place.to_owned(),
            what,
        });
    }

    fn find_in_note(&mut self, severity: Severity, code: &'static str, what: String) {
        let place = self.note_place.clone();
        self.find(severity, code, &place, what);
    }

    fn find_in_leaves(&mut self, severity: Severity, code: &'static str, what: String) {
        let place = self.leaves_place.clone();
        self.find(severity, code, &place, what);
    }

    fn read_note(&mut self, side: &Side) -> Option<Note> {
        let why = match side {
            Side::Missing => return None,
            Side::TooLong => "longer than a note may be".to_owned(),
            Side::Bytes(bytes) => match Note::parse(bytes) {
                Ok(note) => return Some(note),
                Err(error) => error.to_string(),
            },
        };
        self.report.signature = SignatureState::Bad;
        // A note is replaced in one step: no crash leaves half of one.
        let what = format!("the attestation note cannot be read: {why}");
        self.find_in_note(Severity::Damage, "note_malformed", what);
        None
    }

    /// Judges signatures and root; returns the leaves in signed order when the root matches.
    fn judge_note(&mut self, note: &Note) -> Option<Vec<Leaf>> {
        self.report.origin = Some(note.origin.clone());
        self.report.size = note.size;
        self.judge_signatures(note);
        match matching(self.derived, &self.file, note.size, &note.root) {
            Ok(sequence) => {
                self.report.root_matches = true;
                let covered = sequence.get(..count_of(note.size)).unwrap_or_default();
                if self.report.signature != SignatureState::Bad {
                    let records = covered.last().map_or(0, |leaf| leaf.records);
                    self.report.covers_records = records;
                    self.report.unproven_tail_records =
                        self.derived.records().saturating_sub(records);
                    self.report.closed = covered.iter().any(|l| l.kind == LeafKind::RunClosed);
                }
                Some(sequence)
            }
            Err(disagreement) => {
                self.find_in_note(Severity::Damage, disagreement.code, disagreement.what);
                None
            }
        }
    }

    fn judge_signatures(&mut self, note: &Note) {
        for line in &note.signatures {
            let known = self.trusted.iter().copied();
            let known = known
                .filter(|key| line.claims(&note.origin, key_id(&note.origin, *key)))
                .find_map(|key| note.signature_of(key));
            self.report.signers.push(NoteSigner {
                name: line.name.clone(),
                key_id: hex(&line.key_id),
                state: match known {
                    Some(true) => SignatureState::Trusted,
                    Some(false) => SignatureState::Bad,
                    None => SignatureState::UnknownKey,
                },
            });
        }
        let any = |state| {
            self.report
                .signers
                .iter()
                .any(|signer| signer.state == state)
        };
        if any(SignatureState::Bad) {
            self.report.signature = SignatureState::Bad;
            let what =
                "a line of the note claims a trusted key and is not its signature".to_owned();
            self.find_in_note(Severity::Damage, "note_signature_bad", what);
        } else if any(SignatureState::Trusted) {
            self.report.signature = SignatureState::Trusted;
        } else {
            self.report.signature = SignatureState::UnknownKey;
            let ids: Vec<_> = self
                .report
                .signers
                .iter()
                .map(|s| s.key_id.as_str())
                .collect();
            let ids = ids.join(", ");
            let (severity, what) = if self.trusted.is_empty() {
                let what = format!(
                    "no trusted key was given, so the signature of key {ids} was not checked"
                );
                (Severity::Note, what)
            } else {
                let what = format!("no trusted key signed the note; key {ids} did");
                (Severity::Unproven, what)
            };
            self.find_in_note(severity, "note_unknown_key", what);
        }
    }

    /// Judges the file of leaves: what the note covers of it, and what stands there beyond.
    fn judge_leaves(&mut self, side: &Side, note: Option<&Note>, sequence: Option<&[Leaf]>) {
        if side.is_missing() {
            if note.is_some() {
                let what =
                    "the file of leaves is missing; the journal gives the leaves again, but \
                            for a key change"
                        .to_owned();
                self.find_in_leaves(Severity::Note, "leaves_missing", what);
            }
            return;
        }
        let signed = note.map_or(0, |note| count_of(note.size));
        let same = |(at, leaf): (usize, &Leaf)| self.file.get(at) == Some(leaf);
        let holds_signed = match (note, sequence) {
            (None, _) => true,
            (Some(_), Some(sequence)) => sequence.iter().take(signed).enumerate().all(same),
            (Some(note), None) => has_root(&self.file, note.size, &note.root),
        };
        if !holds_signed {
            self.report.leaves_file = LeavesState::Inconsistent;
            let what =
                "the file of leaves does not hold the leaves that the note covers".to_owned();
            self.find_in_leaves(Severity::Damage, "leaves_inconsistent", what);
            return;
        }
        self.report.leaves_file = LeavesState::Consistent;
        if note.is_some() && sequence.is_none() {
            return;
        }
        let own = self.derived.all();
        self.judge_unsigned_leaves(side, signed, sequence.unwrap_or(&own));
    }

    /// Leaves after the signed ones: written before a note that a crash prevented, or by anybody.
    fn judge_unsigned_leaves(&mut self, side: &Side, signed: usize, sequence: &[Leaf]) {
        let unsigned = self.file.get(signed..).unwrap_or_default();
        let expected = sequence.get(signed..).unwrap_or_default();
        let agreed = unsigned
            .iter()
            .zip(expected)
            .take_while(|(a, b)| a == b)
            .count();
        let agreed_len = (signed + agreed).saturating_mul(layout::leaf::LEN);
        if agreed == unsigned.len() && side.bytes().len() == agreed_len && *side != Side::TooLong {
            return;
        }
        let ended = agreed == expected.len() && self.derived.stopped().is_none();
        let (severity, code, what) = match unsigned.get(agreed) {
            Some(leaf) if ended && leaf.kind.is_derivable() => (
                Severity::Unproven,
                "leaves_beyond_journal",
                format!(
                    "leaves that no note covers speak of {} records; the journal has {}",
                    leaf.records,
                    self.derived.records()
                ),
            ),
            _ => (
                Severity::Note,
                "leaves_unsigned_tail",
                format!(
                    "from byte {agreed_len} on, the file of leaves holds something that no note \
                     covers and the journal does not give, as an interrupted write may leave"
                ),
            ),
        };
        if signed == 0 {
            self.report.leaves_file = LeavesState::Inconsistent;
        }
        self.find_in_leaves(severity, code, what);
    }

    /// An older note must be the root of the first leaves of the same run.
    fn judge_older(&mut self, text: &str, present: Option<&Note>) {
        const PLACE: &str = "older note";
        let older = match Note::parse(text.as_bytes()) {
            Ok(older) => older,
            Err(error) => {
                let what = format!("the older note cannot be read: {error}");
                return self.find(Severity::Unproven, "older_note_malformed", PLACE, what);
            }
        };
        if let Some(present) = present.filter(|present| present.origin != older.origin) {
            let what = format!(
                "the older note is about {}, the one beside the journal about {}",
                older.origin, present.origin
            );
            return self.find(Severity::Damage, "older_note_mismatch", PLACE, what);
        }
        match matching(self.derived, &self.file, older.size, &older.root) {
            Err(disagreement) => {
                let what = format!(
                    "the run is not the one that the older note covers ({}): {}",
                    disagreement.code, disagreement.what
                );
                self.find(Severity::Damage, "older_note_mismatch", PLACE, what);
            }
            Ok(sequence) => {
                let last = count_of(older.size).checked_sub(1);
                let last = last.and_then(|last| sequence.get(last));
                self.report.anchored_records = Some(last.map_or(0, |leaf| leaf.records));
            }
        }
        let signed = self
            .trusted
            .iter()
            .filter_map(|key| older.signature_of(*key));
        if !self.trusted.is_empty() && !signed.clone().any(|good| good) {
            let what =
                "no trusted key signed the older note; it is worth as much as the place where \
                        it was kept"
                    .to_owned();
            self.find(Severity::Unproven, "older_note_unknown_key", PLACE, what);
        }
        if present.is_some_and(|present| present.size < older.size) {
            let what = "the note beside the journal covers less than the older one".to_owned();
            self.find(Severity::Damage, "note_set_back", PLACE, what);
        }
    }
}

fn count_of(size: u64) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}
