//! Checking everything that a study file proves about itself.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use durable::{Finding, Fs, Severity, Verdict};
use serde_json::{Map, Value, json};

use super::error::{JournalError, Result, Section};
use super::reader::JournalReader;
use super::record::FORMAT_VERSION;

/// Walks the whole published history of the study at `path`: magic, lengths, checksums, back-pointers,
/// contiguity, totals, and every operation against the state machine. What no head has published is a
/// fact, not damage.
///
/// # Errors
/// `Io`, `NotAStudy` and `Unsupported`: nothing could be checked. Damage is in the verdict.
pub fn verify_study(fs: Arc<dyn Fs>, path: &Path) -> Result<Verdict> {
    let mut findings = Vec::new();
    let mut facts = Map::new();
    match JournalReader::open_on(fs, path) {
        Ok(reader) => {
            facts = facts_of(&reader)?;
            if reader.header().format < FORMAT_VERSION {
                let what = format!(
                    "format {} has no checksums: every line parses and every operation is legal, and \
                     nothing more can be told",
                    reader.header().format
                );
                findings.push(finding(Severity::Unproven, "no_checksums", path, 0, what));
            }
            if reader.torn_tail() > 0 {
                let (at, len) = (reader.head().bytes, reader.torn_tail());
                let what = format!("the last {len} bytes are a line that was never finished");
                findings.push(finding(Severity::Note, "torn_tail", path, at, what));
            }
            let what = "checksums tell accidents: whoever can write the files can change them and \
                        compute new ones";
            findings.push(finding(
                Severity::Note,
                "not_authenticated",
                path,
                0,
                what.to_owned(),
            ));
        }
        Err(JournalError::Corrupt {
            path,
            section,
            offset,
            fault,
        }) => {
            let code = match section {
                Section::Header => "header_damaged",
                Section::Head => "head_damaged",
                Section::Extent => "extent_damaged",
                Section::Operations => "operations_damaged",
            };
            let what = format!("{section}: {fault}");
            findings.push(finding(Severity::Damage, code, &path, offset, what));
        }
        Err(other) => return Err(other),
    }
    let verdict = Verdict::outcome_of(&findings);
    Ok(Verdict {
        path: path.to_owned(),
        kind: "study",
        verdict,
        findings,
        facts,
    })
}

/// What a reader came across, for `verify` and `inspect`.
///
/// # Errors
/// `Io` when the folder of data files cannot be listed.
pub fn facts_of(reader: &JournalReader) -> Result<Map<String, Value>> {
    let replica = reader.replica();
    let mut states = BTreeMap::new();
    for trial in replica.trials() {
        *states
            .entry(format!("{:?}", trial.state).to_lowercase())
            .or_insert(0u64) += 1;
    }
    let names: Vec<&str> = replica
        .studies()
        .iter()
        .map(|s| s.config.name.as_str())
        .collect();
    let mut facts = Map::new();
    facts.insert("format".into(), reader.header().format.into());
    facts.insert("atune".into(), reader.header().atune.clone().into());
    facts.insert(
        "created_at_millis".into(),
        reader.header().created_at_millis.into(),
    );
    facts.insert("operations".into(), reader.head().ops.into());
    facts.insert("stream_bytes".into(), reader.head().bytes.into());
    facts.insert("extents".into(), reader.extent_count().into());
    facts.insert("data_files".into(), json!(reader.data_files()?));
    facts.insert("studies".into(), json!(names));
    facts.insert("trials".into(), json!(replica.trials().len()));
    facts.insert("trials_by_state".into(), json!(states));
    Ok(facts)
}

fn finding(
    severity: Severity,
    code: &'static str,
    path: &Path,
    offset: u64,
    what: String,
) -> Finding {
    let place = format!("{} byte {offset}", path.display());
    Finding {
        code,
        severity,
        place,
        what,
    }
}
