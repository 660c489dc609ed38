//! Verifying everything that a base path stands for: each file, and their place in the set.

use std::path::{Path, PathBuf};

use durable::{Finding, Fs, Outcome, Severity, Verdict};
use serde::Serialize;
use serde_json::{Map, Value};

use super::error::{Error, Result};
use super::segments::{segments_on_disk, split_ordinal, starts_a_set};
use super::sign::{PublicKey, SignatureVerification, verify_signed_with};
use super::verify::{ChainBreak, VerifyOptions};
use super::walk::{ChainPoint, Observer, SignatureSeen};
use crate::attest::{AttestationReport, LeafCollector, check_attestation};

/// How a set is verified.
#[derive(Clone, Debug, Default)]
pub struct SetOptions {
    /// How each file is verified.
    pub verify: VerifyOptions,
    /// Keys that the caller trusts. With any of them given, what no trusted key signed is unproven.
    pub trusted: Vec<PublicKey>,
    /// An attestation note that was kept elsewhere: the set must still agree with it.
    pub older_note: Option<String>,
}

/// One file of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SegmentVerification {
    /// The file.
    pub path: PathBuf,
    /// The place that its name gives it.
    pub ordinal: u64,
    /// What its own bytes prove; `None` when they cannot be read as a journal at all.
    #[serde(flatten)]
    pub result: Option<SignatureVerification>,
    /// What is wrong with the file or with its place.
    #[serde(skip)]
    pub findings: Vec<Finding>,
}

/// The result of verifying a set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SetVerification {
    /// The path that was asked about.
    pub base: PathBuf,
    /// Its files, in order.
    pub segments: Vec<SegmentVerification>,
    /// What the attestation beside the set proves, if there is one.
    pub attestation: Option<AttestationReport>,
    /// What is wrong between the files.
    #[serde(skip)]
    pub set_findings: Vec<Finding>,
}

impl SetVerification {
    /// Everything found, segment by segment.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        let in_segments = self.segments.iter().flat_map(|segment| {
            let own = segment
                .result
                .iter()
                .flat_map(|result| &result.chain.findings);
            own.chain(&segment.findings)
        });
        let in_attestation = self.attestation.iter().flat_map(|report| &report.findings);
        in_segments.chain(&self.set_findings).chain(in_attestation)
    }

    /// The answer in one word.
    pub fn outcome(&self) -> Outcome {
        let severity = self.findings().map(|f| f.severity).max();
        match severity {
            Some(Severity::Damage) => Outcome::Damaged,
            Some(Severity::Unproven) => Outcome::Unproven,
            Some(Severity::Note) | None => Outcome::Intact,
        }
    }

    /// Records in all files, of every kind.
    pub fn record_count(&self) -> u64 {
        self.results().map(|result| result.chain.records).sum()
    }

    /// The results of the files that could be read as journals.
    pub fn results(&self) -> impl Iterator<Item = &SignatureVerification> {
        self.segments
            .iter()
            .filter_map(|segment| segment.result.as_ref())
    }

    /// The first place at which a chain breaks, with its file.
    pub fn break_at(&self) -> Option<(&Path, &ChainBreak)> {
        self.segments.iter().find_map(|segment| {
            let at = segment.result.as_ref()?.chain.break_at.as_ref()?;
            Some((segment.path.as_path(), at))
        })
    }

    /// The verdict in the form that all record kinds share.
    pub fn verdict(&self) -> Verdict {
        let mut facts = Map::new();
        let sealed = self.results().all(|r| r.chain.finalized);
        let chained = self.results().all(|r| r.chain.declared_chained);
        let checkpoints: u64 = self.results().map(|r| r.chain.checkpoints).sum();
        let first_tick = self.results().find_map(|r| r.chain.first_tick);
        let last_tick = self.results().filter_map(|r| r.chain.last_tick).last();
        let head = self.results().filter_map(|r| r.chain.head.clone()).last();
        facts.insert("records".into(), self.record_count().into());
        facts.insert("checkpoints".into(), checkpoints.into());
        facts.insert("first_tick".into(), first_tick.into());
        facts.insert("last_tick".into(), last_tick.into());
        facts.insert("head".into(), head.into());
        facts.insert("sealed".into(), sealed.into());
        facts.insert("declared_chained".into(), chained.into());
        facts.insert("segments".into(), as_value(&self.segments));
        facts.insert("attestation".into(), as_value(&self.attestation));
        Verdict {
            path: self.base.clone(),
            kind: "run",
            verdict: self.outcome(),
            findings: self.findings().cloned().collect(),
            facts,
        }
    }
}

fn as_value(value: &impl Serialize) -> Value {
    // These types have string keys and no maps of their own: serialising them cannot fail.
    serde_json::to_value(value).unwrap_or(Value::Null)
}

/// Verifies every file of the set that starts at `base`, whatever is missing between them, their
/// places and ticks, and the attestation beside them. `progress` is told file, offset and length.
///
/// # Errors
/// Those of [`verify_chain`](super::verify_chain) for the file at `base`; `Io` for any file;
/// `Unsupported` for a segment of a newer version.
pub fn verify_set(
    fs: &dyn Fs,
    base: &Path,
    options: &SetOptions,
    progress: &mut dyn FnMut(&Path, u64, u64),
) -> Result<SetVerification> {
    let mut files = vec![(0, base.to_owned())];
    if starts_a_set(fs, base)? {
        files.extend(segments_on_disk(fs, base)?);
    }
    let mut collector = LeafCollector::new();
    let mut segments = Vec::new();
    for (ordinal, path) in &files {
        let mut observer = Watch {
            path,
            collector: &mut collector,
            progress,
        };
        let result = verify_signed_with(fs, path, &options.trusted, options.verify, &mut observer);
        let segment = match result {
            Ok(result) => {
                collector.finish_segment(&result.chain);
                SegmentVerification {
                    path: path.clone(),
                    ordinal: *ordinal,
                    result: Some(result),
                    findings: Vec::new(),
                }
            }
            Err(error) => unreadable(path, *ordinal, error)?,
        };
        segments.push(segment);
    }
    let mut set = SetVerification {
        base: base.to_owned(),
        segments,
        attestation: None,
        set_findings: Vec::new(),
    };
    set.judge_places();
    set.attestation = check_attestation(
        fs,
        base,
        &collector,
        &options.trusted,
        options.older_note.as_deref(),
    )?;
    set.judge_trust(&options.trusted);
    set.drop_what_the_attestation_proves();
    Ok(set)
}

/// A file that is no journal: damage, unless it is one that a crash left empty at the end of a set.
fn unreadable(path: &Path, ordinal: u64, error: Error) -> Result<SegmentVerification> {
    let (severity, code) = match &error {
        Error::Corrupt { .. } => (Severity::Damage, "header_damaged"),
        Error::Incomplete { .. } if ordinal > 0 => (Severity::Unproven, "segment_cut_off"),
        Error::NotAJournal { .. } if ordinal > 0 => (Severity::Damage, "segment_not_a_journal"),
        _ => return Err(error),
    };
    let place = format!("{} byte 0", path.display());
    let findings = vec![Finding {
        code,
        severity,
        place,
        what: error.to_string(),
    }];
    Ok(SegmentVerification {
        path: path.to_owned(),
        ordinal,
        result: None,
        findings,
    })
}

struct Watch<'a> {
    path: &'a Path,
    collector: &'a mut LeafCollector,
    progress: &'a mut dyn FnMut(&Path, u64, u64),
}

impl Observer for Watch<'_> {
    fn checkpoint(&mut self, point: &ChainPoint) {
        self.collector.checkpoint(point);
    }

    fn signature(&mut self, seen: &SignatureSeen) {
        self.collector.signature(seen);
    }

    fn progress(&mut self, offset: u64, file_len: u64) {
        (self.progress)(self.path, offset, file_len);
    }
}

impl SetVerification {
    fn judge_places(&mut self) {
        let mut found = Vec::new();
        let last = self.segments.last().map_or(0, |s| s.ordinal);
        let mut expected = 0;
        let mut last_tick = 0;
        for segment in &self.segments {
            let place = segment.path.display().to_string();
            let mut add = |severity, code, what: String| {
                found.push(Finding {
                    code,
                    severity,
                    place: place.clone(),
                    what,
                });
            };
            if segment.ordinal > expected {
                let what = format!(
                    "segments {expected} to {} are missing, though segment {} is there",
                    segment.ordinal - 1,
                    segment.ordinal
                );
                add(Severity::Damage, "segment_missing", what);
            }
            expected = segment.ordinal + 1;
            let Some(result) = &segment.result else {
                continue;
            };
            let chain = &result.chain;
            match chain.segment_index {
                None if segment.ordinal > 0 => {
                    let what = "its header does not say that it belongs to a rotated set";
                    add(Severity::Damage, "not_segmented", what.to_owned());
                }
                Some(header) if header != segment.ordinal => {
                    let alone = self.segments.len() == 1;
                    let named = split_ordinal(&segment.path).is_some_and(|(_, n)| n == header);
                    if alone && named {
                        let what = format!(
                            "this is segment {header} of a set, verified alone; name segment 0 to \
                             verify the set"
                        );
                        add(Severity::Note, "one_segment_of_a_set", what);
                    } else {
                        let what = format!(
                            "its header says segment {header}, its name says {}",
                            segment.ordinal
                        );
                        add(Severity::Damage, "wrong_segment", what);
                    }
                }
                _ => {}
            }
            if segment.ordinal < last && !chain.finalized {
                let what = "it was never sealed, though a later segment exists";
                add(Severity::Damage, "unsealed_inside", what.to_owned());
            }
            if chain.first_tick.is_some_and(|first| first < last_tick) {
                let what = format!(
                    "it starts at tick {}, below tick {last_tick} at which the segment before ends",
                    chain.first_tick.unwrap_or_default()
                );
                add(Severity::Damage, "tick_went_back", what);
            }
            last_tick = last_tick.max(chain.last_tick.unwrap_or_default());
        }
        self.set_findings.extend(found);
    }

    /// A trusted attestation of the whole run covers the bytes that nothing in the files covers.
    fn drop_what_the_attestation_proves(&mut self) {
        if self
            .attestation
            .as_ref()
            .is_some_and(AttestationReport::proves_all)
        {
            for result in self.segments.iter_mut().filter_map(|s| s.result.as_mut()) {
                result
                    .chain
                    .findings
                    .retain(|f| f.code != "unprotected_stamps");
            }
        }
    }

    /// A missing signature fails when a key is given.
    fn judge_trust(&mut self, trusted: &[PublicKey]) {
        if trusted.is_empty() {
            return;
        }
        let by_attestation = self
            .attestation
            .as_ref()
            .is_some_and(AttestationReport::proves_all);
        let by_signatures = self.segments.iter().all(|s| {
            s.result
                .as_ref()
                .is_some_and(|result| result.closing_is_trusted)
        });
        if by_attestation || by_signatures {
            return;
        }
        let covered = self.results().filter_map(|r| r.trusted_covers).sum::<u64>();
        self.set_findings.push(Finding {
            code: "not_signed_by_a_trusted_key",
            severity: Severity::Unproven,
            place: self.base.display().to_string(),
            what: format!(
                "no trusted key vouches for all of it: {covered} of {} records are covered by \
                 trusted signatures in the files",
                self.record_count()
            ),
        });
    }
}
