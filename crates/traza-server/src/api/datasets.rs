//! `/v1/datasets`: examples to try things on, in versions.

use traza::json::{Object, Value};
use traza::logs::eval::record::{Dataset, Version, VersionTombstone};
use traza::logs::eval::{EvalState, NewExample, NewVersion, PayloadRefusal, record};

use super::payloads::tenant_holds;
use super::{Answered, Call, json, optional_text, required_text};
use crate::auth::Caller;
use crate::http::Refusal;
use crate::render::{count, list, object, stored};

const NOT_A_NUMBER: &str = "dataset ids are decimal integers";
/// The version of the shapes of these answers.
pub(super) const SCHEMA: u64 = 1;

/// A tenant in a body, under either of its names.
fn tenant(members: &mut Object) -> Result<String, Refusal> {
    match (
        optional_text(members, "tenant")?,
        optional_text(members, "$tenant")?,
    ) {
        (Some(_), Some(_)) => Err(Refusal::bad_request("duplicate field `tenant`")),
        (Some(tenant), None) | (None, Some(tenant)) => Ok(tenant),
        (None, None) => Ok(String::new()),
    }
}

pub(crate) fn create_dataset<'a>(call: &Call<'a>) -> Answered<'a> {
    let mut members = call.object()?;
    let name = required_text(&mut members, "name")?;
    let mut tenant = tenant(&mut members)?;
    if let Some(bound) = &call.caller().tenant {
        if tenant.is_empty() {
            tenant.clone_from(bound);
        } else if tenant != *bound {
            return Err(Refusal::other_tenant());
        }
    }
    let id = call
        .server
        .store
        .create_dataset(&tenant, &name, call.now_unix_ns())?;
    json(&object([("dataset_id", id.into())]))
}

pub(crate) fn datasets<'a>(call: &Call<'a>) -> Answered<'a> {
    let parameters = call.parameters()?;
    let asked = parameters.owned("tenant");
    let tenant = call.caller().tenant_of_read(asked)?;
    let is_wanted = |dataset: &&Dataset| {
        let tenant = tenant.as_deref();
        tenant.is_none_or(|tenant| dataset.tenant == tenant)
    };
    let found = call.server.store.read_evals(|state| {
        list(state.datasets().filter(is_wanted), |dataset| {
            view(state, dataset)
        })
    });
    json(&object([("datasets", found)]))
}

/// A dataset that exists for the caller.
fn seen<'s>(state: &'s EvalState, caller: &Caller, id: u64) -> Option<&'s Dataset> {
    state
        .dataset(id)
        .filter(|dataset| caller.sees(&dataset.tenant))
}

pub(crate) fn dataset<'a>(call: &Call<'a>) -> Answered<'a> {
    let id = call.number(0, NOT_A_NUMBER)?;
    let found = call
        .server
        .store
        .read_evals(|state| seen(state, call.caller(), id).map(|dataset| view(state, dataset)));
    json(&found.ok_or_else(|| Refusal::not_found("no such dataset"))?)
}

/// Refuses to change a dataset that does not exist for the caller.
fn check_seen(call: &Call<'_>, id: u64) -> Result<(), Refusal> {
    let caller = call.caller();
    let is_seen = call
        .server
        .store
        .read_evals(|state| match state.dataset(id) {
            // One that is hidden because its tenant is being erased is for the store to refuse.
            None => caller.tenant.is_none(),
            Some(dataset) => caller.sees(&dataset.tenant),
        });
    if is_seen {
        return Ok(());
    }
    Err(Refusal::bad_request(format!("no dataset {id}")))
}

pub(crate) fn create_version<'a>(call: &Call<'a>) -> Answered<'a> {
    let dataset_id = call.number(0, NOT_A_NUMBER)?;
    let mut members = call.object()?;
    let examples = match members.remove("examples") {
        Some(Value::Array(examples)) => examples,
        Some(_) => return Err(Refusal::bad_request("`examples` must be an array")),
        None => return Err(Refusal::bad_request("missing field `examples`")),
    };
    let not_null = |value: &Value| *value != Value::Null;
    let parent = match members.remove("parent").filter(not_null) {
        None => None,
        Some(Value::String(parent)) => Some(parent.into()),
        Some(_) => return Err(Refusal::bad_request("`parent` must be a string or null")),
    };
    let new = NewVersion {
        dataset_id,
        parent,
        provenance: members.remove("provenance").filter(not_null),
        examples: examples
            .into_iter()
            .map(example)
            .collect::<Result<_, _>>()?,
    };
    check_seen(call, dataset_id)?;
    let bound = call.caller().tenant.as_deref();
    // Before the store is asked, which holds its logs while it looks at payloads.
    let mut references = std::collections::BTreeSet::new();
    for example in &new.examples {
        example.body.payload_references(&mut references);
    }
    let mut held = std::collections::BTreeSet::new();
    if let Some(tenant) = bound {
        for reference in references {
            if tenant_holds(call, tenant, reference)? {
                held.insert(reference.to_owned());
            }
        }
    }
    let admit = |address: traza::payload::ContentAddress| {
        if bound.is_none() || held.contains(&address.to_string()) {
            Ok(())
        } else {
            Err(PayloadRefusal::Unreachable)
        }
    };
    let created = call
        .server
        .store
        .create_version(new, admit, call.now_unix_ns())
        .map_err(|error| hide_absent(error, bound.is_some()))?;
    json(&object([
        ("version_id", created.version_id.into()),
        ("examples", count(created.examples)),
        ("created", created.created.into()),
    ]))
}

/// To a bound caller, a payload of somebody else and one that is not there are the same.
fn hide_absent(error: traza::store::StoreError, is_bound: bool) -> Refusal {
    use traza::logs::eval::EvalError;
    match error {
        traza::store::StoreError::Eval(EvalError::Payload {
            reference,
            refusal: PayloadRefusal::Missing,
        }) if is_bound => Refusal::new(
            409,
            EvalError::Payload {
                reference,
                refusal: PayloadRefusal::Unreachable,
            }
            .to_string(),
        ),
        error => error.into(),
    }
}

fn example(value: Value) -> Result<NewExample, Refusal> {
    let Value::Object(mut members) = value else {
        return Err(Refusal::bad_request("an example must be an object"));
    };
    let example_id = required_text(&mut members, "example_id")?;
    let input = members
        .remove("input")
        .ok_or_else(|| Refusal::bad_request("missing field `input`"))?;
    let not_null = |value: &Value| *value != Value::Null;
    let provenance = match members.remove("provenance").filter(not_null) {
        None => None,
        Some(Value::Object(mut from)) => Some(record::Provenance {
            tenant: tenant(&mut from)?,
            trace_id: optional_text(&mut from, "trace_id")?.unwrap_or_default(),
            span_id: optional_text(&mut from, "span_id")?.unwrap_or_default(),
        }),
        Some(_) => return Err(Refusal::bad_request("`provenance` must be an object")),
    };
    Ok(NewExample {
        example_id,
        body: record::ExampleBody {
            input,
            expected: members.remove("expected").filter(not_null),
            split: optional_text(&mut members, "split")?.unwrap_or_default(),
            provenance,
        },
    })
}

pub(crate) fn version<'a>(call: &Call<'a>) -> Answered<'a> {
    let dataset_id = call.number(0, NOT_A_NUMBER)?;
    let version_id = call.raw(1);
    let caller = call.caller();
    call.server.store.read_evals(|state| {
        let absent = || Refusal::not_found("no such dataset version");
        seen(state, caller, dataset_id).ok_or_else(absent)?;
        let version = state.version(dataset_id, version_id).ok_or_else(absent)?;
        if let Some(tombstone) = state.tombstone(dataset_id, version_id) {
            let text = "this dataset version is tombstoned";
            let member = tombstone_view(tombstone);
            return Err(Refusal::new(410, text).with("tombstone", member));
        }
        json(&version_view(state, version))
    })
}

pub(crate) fn tombstone_version<'a>(call: &Call<'a>) -> Answered<'a> {
    let dataset_id = call.number(0, NOT_A_NUMBER)?;
    let version_id = call.raw(1);
    let reason = if call.body().is_empty() {
        String::new()
    } else {
        optional_text(&mut call.object()?, "reason")?.unwrap_or_default()
    };
    check_seen(call, dataset_id)?;
    let store = &call.server.store;
    let already = store.tombstone_version(dataset_id, version_id, &reason, call.now_unix_ns())?;
    json(&object([
        ("tombstoned", true.into()),
        ("already", already.into()),
        ("version_id", version_id.into()),
    ]))
}

/// The members that every shape begins with.
pub(super) fn shape(tenant: &str) -> Object {
    let mut members = Object::from([("schema".to_owned(), Value::from(SCHEMA))]);
    if !tenant.is_empty() {
        members.insert("tenant".to_owned(), Value::from(tenant));
    }
    members
}

pub(super) fn put(members: &mut Object, name: &str, value: impl Into<Value>) {
    members.insert(name.to_owned(), value.into());
}

fn view(state: &EvalState, dataset: &Dataset) -> Value {
    let mut members = shape(&dataset.tenant);
    put(&mut members, "dataset_id", dataset.dataset_id);
    put(&mut members, "name", dataset.name.as_str());
    put(&mut members, "created_unix_ns", dataset.created_unix_ns);
    let versions = list(state.versions(dataset.dataset_id), |version| {
        let id = &version.version_id;
        let tombstone = state.tombstone(dataset.dataset_id, id);
        let mut members = Object::new();
        put(&mut members, "version_id", id.as_str());
        if let Some(parent) = &version.parent {
            put(&mut members, "parent", parent.as_str());
        }
        put(&mut members, "examples", count(version.examples.len()));
        put(&mut members, "created_unix_ns", version.created_unix_ns);
        put(&mut members, "tombstoned", tombstone.is_some());
        Value::Object(members)
    });
    put(&mut members, "versions", versions);
    Value::Object(members)
}

fn version_view(state: &EvalState, version: &Version) -> Value {
    let mut members = shape(&version.tenant);
    put(&mut members, "dataset_id", version.dataset_id);
    put(&mut members, "version_id", version.version_id.as_str());
    if let Some(parent) = &version.parent {
        put(&mut members, "parent", parent.as_str());
    }
    if let Some(provenance) = &version.provenance {
        put(&mut members, "provenance", provenance.clone());
    }
    put(&mut members, "created_unix_ns", version.created_unix_ns);
    let examples = list(&version.examples, |(id, digest)| {
        Value::Array(vec![id.as_str().into(), digest.as_str().into()])
    });
    put(&mut members, "examples", examples);
    let bodies = version.examples.iter().filter_map(|(id, digest)| {
        let body = state.example(digest)?;
        Some(object([
            ("example_id", id.as_str().into()),
            ("digest", digest.as_str().into()),
            ("body", stored(&body.to_json())),
        ]))
    });
    put(&mut members, "bodies", Value::Array(bodies.collect()));
    Value::Object(members)
}

fn tombstone_view(tombstone: &VersionTombstone) -> Value {
    let mut members = shape(&tombstone.tenant);
    put(&mut members, "dataset_id", tombstone.dataset_id);
    put(&mut members, "version_id", tombstone.version_id.as_str());
    put(
        &mut members,
        "requested_unix_ns",
        tombstone.requested_unix_ns,
    );
    if !tombstone.reason.is_empty() {
        put(&mut members, "reason", tombstone.reason.as_str());
    }
    Value::Object(members)
}
