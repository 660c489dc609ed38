//! `/v1/erasures`: something is to be forgotten, and proof that it is.

use traza::json::{Object, Value};
use traza::logs::file::LineFault;
use traza::logs::tombstone::{Erasure, Settle, Subject};

use super::datasets::put;
use super::{Answered, Call, json};
use crate::auth::Caller;
use crate::http::Refusal;
use crate::render::{list, object, stored};

const NOT_A_NUMBER: &str = "erasure ids are decimal integers";
/// The version of the shape of these answers.
const SCHEMA: u64 = 2;

pub(crate) fn erase<'a>(call: &Call<'a>) -> Answered<'a> {
    let mut members = call.object()?;
    let subject = members.remove("subject").ok_or_else(|| {
        Refusal::bad_request(
            "the body must be {\"subject\": {\"kind\": \"trace|span|session|payload|tenant\", …}}",
        )
    })?;
    let mut subject = Subject::from_value(subject).map_err(|fault: LineFault| {
        Refusal::bad_request(format!("subject does not parse: {fault}"))
    })?;
    if let Some(bound) = &call.caller().tenant {
        match tenant_of(&mut subject) {
            None => {
                return Err(Refusal::new(
                    403,
                    "payload subjects are store-global; a credential bound to a tenant cannot name one",
                ));
            }
            Some(tenant) if tenant.is_empty() => tenant.clone_from(bound),
            Some(tenant) if tenant == bound => {}
            Some(_) => return Err(Refusal::other_tenant()),
        }
    }
    let status = call.server.erase(subject, call.now_unix_ns())?;
    json(&view(&status))
}

/// Whose the subject is; none for a payload, which is everybody's.
fn tenant_of(subject: &mut Subject) -> Option<&mut String> {
    match subject {
        Subject::Trace { tenant, .. }
        | Subject::Span { tenant, .. }
        | Subject::Session { tenant, .. }
        | Subject::Tenant { tenant } => Some(tenant),
        Subject::Payload { .. } => None,
    }
}

fn is_seen(caller: &Caller, erasure: &Erasure) -> bool {
    let mut subject = erasure.scope.subject.clone();
    match tenant_of(&mut subject) {
        Some(tenant) => caller.sees(tenant),
        None => caller.tenant.is_none(),
    }
}

pub(crate) fn erasures<'a>(call: &Call<'a>) -> Answered<'a> {
    let found = call.server.store.erasures();
    let seen = found
        .iter()
        .filter(|erasure| is_seen(call.caller(), erasure));
    json(&object([("erasures", list(seen, view))]))
}

fn find(call: &Call<'_>) -> Result<Erasure, Refusal> {
    let id = call.number(0, NOT_A_NUMBER)?;
    let mut found = call.server.store.erasures().into_iter();
    found
        .find(|erasure| erasure.id == id && is_seen(call.caller(), erasure))
        .ok_or_else(|| {
            Refusal::not_found(format!("no erasure {id} is recorded in the tombstone log"))
        })
}

pub(crate) fn erasure<'a>(call: &Call<'a>) -> Answered<'a> {
    json(&view(&find(call)?))
}

pub(crate) fn receipt<'a>(call: &Call<'a>) -> Answered<'a> {
    let erasure = find(call)?;
    let receipt = call.server.receipt(&erasure)?;
    let text = serde_json::to_string(&receipt)
        .map_err(|error| Refusal::unavailable(format!("storage JSON error: {error}")))?;
    json(&stored(&text))
}

fn view(erasure: &Erasure) -> Value {
    let scope = &erasure.scope;
    let mut members = Object::new();
    put(&mut members, "schema", SCHEMA);
    put(&mut members, "id", erasure.id);
    put(&mut members, "requested_unix_ns", erasure.requested_unix_ns);
    put(&mut members, "subject", stored(&scope.subject.to_json()));
    let keys = list(&scope.span_keys, |key| {
        let parts = [&key.tenant, &key.trace_id, &key.span_id];
        list(parts, |part| Value::from(part.as_str()))
    });
    put(&mut members, "span_keys", keys);
    let texts = |texts: &mut dyn Iterator<Item = &String>| {
        Value::Array(texts.map(|text| Value::from(text.as_str())).collect())
    };
    put(
        &mut members,
        "payload_refs",
        texts(&mut scope.payload_refs.iter()),
    );
    for (name, ids) in [
        ("eval_datasets", &scope.eval_datasets),
        ("eval_experiments", &scope.eval_experiments),
    ] {
        if !ids.is_empty() {
            put(&mut members, name, list(ids, |id| Value::from(*id)));
        }
    }
    let settle = erasure.settle.as_ref();
    let settled = settle.map_or(Value::Null, |settle| settle_view(erasure.id, settle));
    put(&mut members, "settle", settled);
    Value::Object(members)
}

fn settle_view(id: u64, settle: &Settle) -> Value {
    object([
        ("schema", SCHEMA.into()),
        ("id", id.into()),
        ("settled_unix_ns", settle.settled_unix_ns.into()),
        ("generation", settle.generation.into()),
        ("spans_removed", settle.spans_removed.into()),
        ("spans_redacted", settle.spans_redacted.into()),
        ("annotations_removed", settle.annotations_removed.into()),
        (
            "payloads_removed",
            list(&settle.payloads_removed, |text| Value::from(text.as_str())),
        ),
        (
            "payloads_retained",
            list(&settle.payloads_retained, |retained| {
                object([
                    ("reference", retained.reference.as_str().into()),
                    ("reason", retained.reason.as_str().into()),
                ])
            }),
        ),
        ("eval_records_removed", settle.eval_records_removed.into()),
    ])
}
