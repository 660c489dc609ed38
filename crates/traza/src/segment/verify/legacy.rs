//! Segments of versions 6 and 7: what their record stream proves, and what it cannot.

use durable::Severity;
use serde_json::{Map, Value};

use super::findings::Findings;
use crate::migration::{self, LegacyRecord, v6};
use crate::segment::error::{Result, SegmentError};

/// Walks the record stream of an older segment.
pub(super) fn check(
    bytes: &[u8],
    findings: &mut Findings<'_>,
    facts: &mut Map<String, Value>,
) -> Result<()> {
    let walked = migration::walk(bytes, &mut |legacy| {
        check_record(&legacy, findings);
        Ok(())
    });
    let summary = match walked {
        Ok(summary) => summary,
        Err(error @ SegmentError::Corrupt { .. }) => return findings.take(error),
        Err(error) => return Err(error),
    };
    facts.insert("records".into(), summary.record_count.into());
    facts.insert("logical_bytes".into(), summary.logical_len.into());
    if let Some((first, last)) = summary.timestamps {
        facts.insert("first_timestamp_ns".into(), first.into());
        facts.insert("last_timestamp_ns".into(), last.into());
    }
    if summary.version == v6::VERSION {
        let what = "version 6 has no checksums: the records follow each other without a gap and agree \
                    with their spans, and nothing more can be told";
        findings.add(Severity::Unproven, "no_checksums", 0, what.to_owned());
    }
    let what = format!(
        "version {} is read by the migration only, which never uses the query indexes of such a file; \
         they were not judged",
        summary.version
    );
    findings.add(Severity::Note, "query_indexes_not_read", 0, what);
    Ok(())
}

/// What a record stores beside its span must follow from the span.
fn check_record(legacy: &LegacyRecord<'_>, findings: &mut Findings<'_>) {
    let ordinal = legacy.ordinal;
    let record = match migration::derive(legacy) {
        Ok(record) => record,
        Err(error) => {
            let code = "payload_is_no_span";
            findings.add(Severity::Unproven, code, 0, error.to_string());
            return;
        }
    };
    let is_same = record.trace_id == legacy.trace_id
        && record.timestamp == legacy.timestamp
        && legacy.attributes.agree_with(&record);
    if !is_same {
        let what = format!("record {ordinal} is indexed otherwise than its span says");
        findings.add(Severity::Damage, "record_contradicts_span", 0, what);
    }
}
