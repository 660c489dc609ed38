//! `GET /v1/sessions` and `GET /v1/sessions/{id}`.

use traza::json::Value;
use traza::store::analytics::Scope;

use super::{Answered, Call, json};
use crate::http::Refusal;
use crate::parameters::Parameters;
use crate::render::{list, object, session as render, session_detail};

/// The window and the tenant that a question is about.
pub(super) fn scope(call: &Call<'_>, parameters: &Parameters) -> Result<Scope, Refusal> {
    Ok(Scope {
        since: parameters.moment("since")?,
        until: parameters.moment("until")?,
        tenant: call.caller().tenant_of_read(parameters.owned("tenant"))?,
    })
}

pub(crate) fn sessions<'a>(call: &Call<'a>) -> Answered<'a> {
    if Parameters::parse(call.query()).text("group_by").is_some() {
        let text = "group_by is not a /v1/sessions parameter";
        return Err(Refusal::bad_request(text));
    }
    let parameters = call.parameters()?;
    let limit = parameters.limit()?.unwrap_or(100);
    let scope = scope(call, &parameters)?;
    let found = call.view().sessions(&scope, limit)?;
    let sessions = list(&found, |summary| Value::Object(render(summary)));
    json(&object([("sessions", sessions)]))
}

pub(crate) fn session<'a>(call: &Call<'a>) -> Answered<'a> {
    let parameters = call.parameters()?;
    let asked = parameters.owned("tenant");
    let tenant = call.caller().tenant_of_read(asked)?;
    match call.view().session(&call.id(0), tenant.as_deref())? {
        Some(detail) => json(&session_detail(&detail)),
        None => Err(Refusal::not_found("session not found")),
    }
}
