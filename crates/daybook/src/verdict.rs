//! A verdict in words: what was found, what is proved and up to which record, and what is not.

use std::io;

use durable::{Finding, Outcome, Severity, Verdict};
use omniloop_core::attest::{AttestationReport, SignatureState};
use omniloop_core::journal::{
    ChainBreak, SegmentVerification, SetVerification, SignatureVerification, Signer,
};

use crate::output::Out;
use crate::styles::{BAD, FAINT, GOOD, STRONG, WARN};
use crate::text::{clean, count};
use crate::verb::inspect::segment::summary as segment_summary;
use crate::verb::inspect::store::summary as store_summary;
use crate::verb::study::summary as study_summary;

/// Prints the verdict on one path.
pub(crate) fn print(
    out: &mut Out,
    verdict: &Verdict,
    run: Option<&SetVerification>,
) -> io::Result<()> {
    if let Some(set) = run {
        for segment in &set.segments {
            out.line(segment_line(segment))?;
        }
    }
    if verdict.kind == "study" && !verdict.facts.is_empty() {
        out.line(format_args!("  {}", study_summary(&verdict.facts)))?;
    }
    if verdict.kind == "segment" && verdict.facts.contains_key("records") {
        out.line(format_args!("  {}", segment_summary(&verdict.facts)))?;
    }
    if verdict.kind == "store" && verdict.facts.contains_key("records") {
        out.line(format_args!("  {}", store_summary(&verdict.facts)))?;
    }
    for (finding, more) in grouped(&verdict.findings) {
        out.line(finding_line(finding, more))?;
    }
    if let Some(set) = run {
        let statement = Statement::about(set);
        for line in &statement.proved {
            out.line(format_args!("  {GOOD}proved:{GOOD:#} {}", clean(line)))?;
        }
        for line in &statement.open {
            out.line(format_args!("  {WARN}not proved:{WARN:#} {}", clean(line)))?;
        }
    }
    let (style, meaning) = match verdict.verdict {
        Outcome::Intact => (GOOD, "everything that it can prove holds"),
        Outcome::Damaged => (BAD, "its bytes contradict what they prove"),
        Outcome::Unproven => (
            WARN,
            "nothing contradicts itself, but not all could be proved",
        ),
    };
    let path = verdict.path.display();
    let word = verdict.verdict.as_str();
    out.line(format_args!(
        "{STRONG}{path}:{STRONG:#} {style}{word}{style:#} ({meaning})"
    ))
}

/// Notes of one code are told once, with how many more there are; graver findings one by one.
fn grouped(findings: &[Finding]) -> Vec<(&Finding, usize)> {
    let mut groups: Vec<(&Finding, usize)> = Vec::new();
    for finding in findings {
        let is_note = finding.severity == Severity::Note;
        match groups
            .iter_mut()
            .find(|(first, _)| is_note && first.code == finding.code)
        {
            Some((_, more)) => *more += 1,
            None => groups.push((finding, 0)),
        }
    }
    groups
}

fn finding_line(finding: &Finding, more: usize) -> String {
    let (style, word) = match finding.severity {
        Severity::Damage => (BAD, "damage"),
        Severity::Unproven => (WARN, "unproven"),
        Severity::Note => (FAINT, "note"),
    };
    let (place, what) = (clean(&finding.place), clean(&finding.what));
    let code = finding.code;
    let more = match more {
        0 => String::new(),
        more => format!(" (and {more} more of this kind)"),
    };
    format!("  {style}{word}:{style:#} {place}: {what}{more} {FAINT}[{code}]{FAINT:#}")
}

fn segment_line(segment: &SegmentVerification) -> String {
    let path = segment.path.display();
    let ordinal = segment.ordinal;
    let Some(result) = &segment.result else {
        return format!("  segment {ordinal}: {path}: could not be read");
    };
    let chain = &result.chain;
    let ticks = match (chain.first_tick, chain.last_tick) {
        (Some(first), Some(last)) => format!("ticks {first} to {last}"),
        _ => "no ticks".to_owned(),
    };
    let state = match (&chain.break_at, chain.finalized) {
        (Some(ChainBreak::NotChained), _) => "no chain",
        (Some(ChainBreak::ChainedButNoCheckpoints), _) => "no checkpoint yet",
        (Some(_), _) => "chain broken",
        (None, true) => "sealed",
        (None, false) if chain.truncated => "not sealed, end torn",
        (None, false) => "not sealed",
    };
    format!(
        "  segment {ordinal}: {path}: {}, {}, {ticks}, {state}",
        count(chain.records, "record"),
        count(chain.checkpoints, "checkpoint")
    )
}

/// What was proved and what was not, in sentences.
struct Statement {
    proved: Vec<String>,
    open: Vec<String>,
}

impl Statement {
    fn about(set: &SetVerification) -> Self {
        let mut statement = Self {
            proved: Vec::new(),
            open: Vec::new(),
        };
        statement.chain(set);
        statement.signatures(set);
        statement.attestation(set);
        statement
    }

    fn chain(&mut self, set: &SetVerification) {
        let all = set.record_count();
        let covered: u64 = set.results().map(covered_by_chain).sum();
        let last_tick = set.results().filter_map(|r| r.chain.last_tick).last();
        if covered == all && covered > 0 {
            let tick = last_tick.unwrap_or_default();
            self.proved.push(format!(
                "by the chain, all {} (up to tick {tick}): not altered, removed, re-timed or re-ordered \
                 since they were written",
                count(all, "record")
            ));
            return;
        }
        if covered > 0 {
            let first_gap = set.segments.iter().find_map(|segment| {
                let result = segment.result.as_ref()?;
                let covered = covered_by_chain(result);
                let short = covered < result.chain.records || result.chain.break_at.is_some();
                short.then(|| format!("record {covered} of {}", segment.path.display()))
            });
            let up_to = first_gap.map_or_else(String::new, |place| {
                format!(" (without a gap up to {place})")
            });
            self.proved.push(format!(
                "by the chain, {covered} of {all} records{up_to}: not altered, removed, re-timed or \
                 re-ordered since they were written"
            ));
        }
        if all > covered {
            let open = all - covered;
            self.open.push(format!(
                "{open} of {all} records: no chain checkpoint covers them"
            ));
        }
        for segment in &set.segments {
            let at = segment.result.as_ref().map(|r| r.chain.break_at.as_ref());
            let broken = match at {
                Some(None | Some(ChainBreak::NotChained | ChainBreak::ChainedButNoCheckpoints)) => {
                    false
                }
                Some(Some(_)) | None => true,
            };
            if broken {
                let path = segment.path.display();
                self.open.push(format!(
                    "anything in {path} from the place of its damage on"
                ));
            }
        }
    }

    /// One line per key, over all files.
    fn signatures(&mut self, set: &SetVerification) {
        let mut keys: Vec<(&Signer, u64)> = Vec::new();
        for signer in set.results().flat_map(|result| &result.signers) {
            match keys.iter_mut().find(|(first, _)| first.key == signer.key) {
                Some((_, covers)) => *covers += signer.covers,
                None => keys.push((signer, signer.covers)),
            }
        }
        let all = set.record_count();
        for (signer, covers) in keys {
            let id = &signer.id;
            if signer.trusted {
                self.proved.push(format!(
                    "by signatures of key {id}, which you trust, {covers} of {all} records: written by \
                     who holds that key"
                ));
            } else {
                self.open.push(format!(
                    "who wrote it: key {id} signed {covers} of {all} records, and was not among --trust \
                     (its public half is {})",
                    signer.key
                ));
            }
        }
    }

    fn attestation(&mut self, set: &SetVerification) {
        let Some(report) = &set.attestation else {
            self.open.push(
                "that nothing is missing at the end and that it was not written anew as a whole: no \
                 attestation stands beside it (`daybook attest`)"
                    .to_owned(),
            );
            return;
        };
        if let Some(records) = report.anchored_records {
            self.proved.push(format!(
                "by the older note, the first {}: they are the ones that it was signed over",
                count(records, "record")
            ));
        }
        let origin = report.origin.as_deref().unwrap_or("no origin");
        let covers = format!(
            "the first {} of {origin}",
            count(report.covers_records, "record")
        );
        match report.signature {
            SignatureState::Trusted if report.root_matches => self.trusted_note(report, &covers),
            SignatureState::UnknownKey if report.root_matches => self.open.push(format!(
                "by the attestation, {covers} agree with it; that is worth as much as its key {}, which \
                 was not among --trust",
                note_keys(report)
            )),
            SignatureState::Trusted | SignatureState::UnknownKey => self
                .open
                .push("anything by the attestation: the journal does not give its root".to_owned()),
            SignatureState::Bad => self
                .open
                .push("anything by the attestation: its note is not what its key signed".to_owned()),
            SignatureState::None => {
                self.open
                    .push("anything by the attestation: its note is missing".to_owned());
            }
        }
    }

    fn trusted_note(&mut self, report: &AttestationReport, covers: &str) {
        self.proved.push(format!(
            "by the attestation of a key that you trust, {covers}: none missing, none replaced"
        ));
        if report.closed {
            self.proved
                .push("by the same note, the run ended there: it is complete".to_owned());
        } else {
            self.open
                .push("that the run is complete: the note was signed while it went on".to_owned());
        }
        if report.unproven_tail_records > 0 {
            self.open.push(format!(
                "the last {}: they came after the note",
                count(report.unproven_tail_records, "record")
            ));
        }
    }
}

fn covered_by_chain(result: &SignatureVerification) -> u64 {
    result
        .chain
        .records
        .saturating_sub(result.chain.unverified_tail)
}

fn note_keys(report: &AttestationReport) -> String {
    let ids: Vec<&str> = report.signers.iter().map(|s| s.key_id.as_str()).collect();
    ids.join(", ")
}
