//! `GET /v1/payloads/{reference}`.

use traza::payload::ContentAddress;

use super::mcp::context;
use super::{Answered, Call};
use crate::http::{Refusal, Response};
use crate::mcp;

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
    let options = mcp::Options::default();
    Ok(mcp::holds_payload(
        &context(call, &options),
        tenant,
        reference,
    )?)
}
