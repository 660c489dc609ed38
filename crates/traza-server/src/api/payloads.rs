//! `GET /v1/payloads/{reference}`.

use traza::payload::ContentAddress;
use traza::span::PAYLOAD_MEMBER;
use traza::store::Filter;

use super::{Answered, Call};
use crate::http::{Refusal, Response};

fn not_found() -> Refusal {
    Refusal::not_found("payload not found")
}

pub(crate) fn payload<'a>(call: &Call<'a>) -> Answered<'a> {
    let reference = call.id(0);
    let address: ContentAddress = reference.parse().map_err(|_| not_found())?;
    // One that is spelled otherwise is not what the store gave out.
    if address.to_string() != reference {
        return Err(not_found());
    }
    if let Some(tenant) = call.caller().tenant.as_deref() {
        let holds = tenant_holds(call, tenant, &reference)?;
        if !holds {
            return Err(not_found());
        }
    }
    let bytes = call.server.store.payload(address)?.ok_or_else(not_found)?;
    Ok(Response::new(200, "application/octet-stream", bytes).into())
}

/// True when a span or an example of the tenant refers to the payload.
pub(super) fn tenant_holds(
    call: &Call<'_>,
    tenant: &str,
    reference: &str,
) -> Result<bool, Refusal> {
    let is_of_example = call.server.store.read_evals(|state| {
        let mut versions = state
            .datasets()
            .filter(|dataset| dataset.tenant == tenant)
            .flat_map(|dataset| state.versions(dataset.dataset_id));
        versions.any(|version| {
            let mut digests = version.examples.iter().map(|(_, digest)| digest);
            digests.any(|digest| {
                let mut found = std::collections::BTreeSet::new();
                if let Some(body) = state.example(digest) {
                    body.payload_references(&mut found);
                }
                found.contains(reference)
            })
        })
    });
    if is_of_example {
        return Ok(true);
    }
    let mut filter = Filter::default();
    filter.tenant = Some(tenant.to_owned());
    let deadline = call.server.options.query_deadline;
    let started = std::time::Instant::now();
    for (index, span) in call.server.store.snapshot().spans(&filter).enumerate() {
        let span = span?;
        let is_over = || deadline.is_some_and(|deadline| started.elapsed() > deadline);
        if index % 4_096 == 4_095 && is_over() {
            let limit_ms = deadline.unwrap_or_default().as_millis();
            return Err(traza::store::StoreError::Deadline {
                limit_ms: u64::try_from(limit_ms).unwrap_or(u64::MAX),
            }
            .into());
        }
        if span_refers(&span, reference) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn span_refers(span: &traza::span::Span, reference: &str) -> bool {
    let attributes = std::iter::once(&span.attributes)
        .chain(span.events.iter().map(|event| &event.attributes))
        .chain(span.links.iter().map(|link| &link.attributes));
    attributes.flat_map(|object| object.values()).any(|value| {
        let members = value.as_object();
        let found = members.and_then(|members| members.get(PAYLOAD_MEMBER));
        found.and_then(traza::json::Value::as_str) == Some(reference)
    })
}
