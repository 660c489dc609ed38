//! `get_payload`: a text that was too long for its span.

use std::fmt::Write as _;

use serde_json::Value;
use traza::payload::{ContentAddress, live_references};
use traza::store::StoreError;

use crate::mcp::args::Args;
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::schema;

/// What is left for the rest of a result.
const FRAME_LEN: usize = 512;
/// So many bytes of what is no text are shown.
const HEX_BYTES: usize = 32;
/// The clock is looked at after so many spans.
const CLOCK_EVERY: usize = 256;

pub(in crate::mcp) fn schema() -> Value {
    schema::object(
        &[
            (
                "reference",
                schema::text("All that stands in '$payload', with 'sha256/' at its beginning."),
            ),
            (
                "max_bytes",
                schema::at_least_one("How many bytes; the server has limits of its own."),
            ),
        ],
        &["reference"],
    )
}

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    args.only("get_payload", &["reference", "max_bytes"])?;
    let reference = args.required("reference")?;
    let len_max = args.limit("max_bytes", usize::MAX, usize::MAX)?;
    payload(context, reference, len_max)?.ok_or_else(|| {
        ToolError::new(
            "There is no payload with this reference. Pass all that stands in '$payload', with its 'sha256/', as it is.",
        )
    })
}

/// A payload, `None` when there is none that the caller may see.
pub(in crate::mcp) fn payload(
    context: &Context<'_>,
    reference: &str,
    len_max: usize,
) -> Result<Option<Report>, ToolError> {
    let Some(content) = content(context, reference)? else {
        return Ok(None);
    };
    let options = context.options;
    let result_len_max = options.result_len_max;
    let limit = len_max
        .min(options.payload_len_max)
        .min(result_len_max.saturating_sub(FRAME_LEN));
    let Ok(text) = std::str::from_utf8(&content) else {
        return Ok(Some(binary(&content)));
    };
    // Escapes can make it longer than it is: the longest part that fits whole.
    let fits = |len| report(text, len).fits(result_len_max);
    if fits(limit) {
        return Ok(Some(report(text, limit)));
    }
    let (mut low, mut high) = (0, limit);
    while high - low > 1 {
        let middle = low.midpoint(high);
        if fits(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(Some(report(text, low)))
}

fn content(context: &Context<'_>, reference: &str) -> Result<Option<Vec<u8>>, ToolError> {
    let Ok(address) = reference.parse::<ContentAddress>() else {
        return Ok(None);
    };
    if address.to_string() != reference {
        return Ok(None);
    }
    if let Some(tenant) = context.caller.tenant
        && !holds_payload(context, tenant, reference)?
    {
        return Ok(None);
    }
    Ok(context.store.payload(address)?)
}

fn report(text: &str, len_max: usize) -> Report {
    let shown = clean::prefix(text, len_max);
    let is_cut = shown.len() < text.len();
    let len = format::bytes(text.len() as u64);
    let head = if is_cut {
        format!(
            "The first {} of a payload of {len}.",
            format::bytes(shown.len() as u64)
        )
    } else {
        format!("A payload of {len}, whole.")
    };
    let mut report = Report::new(head, "with a smaller 'max_bytes'");
    report.row(clean::line(shown, usize::MAX));
    if is_cut {
        report.note(
            "More of it: raise 'max_bytes', up to the server's --mcp-max-payload-bytes and --mcp-max-result-bytes.",
        );
    }
    report
}

fn binary(content: &[u8]) -> Report {
    let len = format::bytes(content.len() as u64);
    let head = format!("A payload of {len} that is not text. Its beginning in hexadecimal:");
    let mut report = Report::new(head, "");
    let mut hex = String::new();
    for byte in content.iter().take(HEX_BYTES) {
        write!(hex, "{byte:02x}").ok();
    }
    if content.len() > HEX_BYTES {
        hex.push('…');
    }
    report.row(hex);
    report
}

/// True when a span or an example of the tenant refers to the payload: what lets a caller that is bound to it read the
/// payload. Looks at every span of the tenant, within the deadline of the context.
///
/// # Errors
/// [`StoreError::Deadline`]; damage of a segment that had to be read.
pub fn holds_payload(
    context: &Context<'_>,
    tenant: &str,
    reference: &str,
) -> Result<bool, StoreError> {
    let stopwatch = context.stopwatch();
    let store = context.store;
    let is_in_example = store.read_evals(|evals| {
        evals
            .datasets()
            .filter(|dataset| dataset.tenant == tenant)
            .flat_map(|dataset| evals.versions(dataset.dataset_id))
            .flat_map(|version| &version.examples)
            .filter_map(|(_, digest)| evals.example(digest))
            .any(|example| {
                let mut found = std::collections::BTreeSet::new();
                example.payload_references(&mut found);
                found.contains(reference)
            })
    });
    if is_in_example {
        return Ok(true);
    }
    let mut filter = traza::store::Filter::default();
    filter.tenant = Some(tenant.to_owned());
    let view = store.snapshot();
    for (index, span) in view.spans(&filter).enumerate() {
        if index.is_multiple_of(CLOCK_EVERY) {
            stopwatch.check()?;
        }
        if live_references(&*span?).any(|found| found == reference) {
            return Ok(true);
        }
    }
    Ok(false)
}
