//! Flushes, checkpoints, verification and backups.

use traza::json::Value;
use traza::store::StoreError;

use super::{Answered, Call, json};
use crate::http::{Refusal, Response, chain};
use crate::render::{list, object};

fn unavailable(error: &StoreError) -> Refusal {
    Refusal::unavailable(format!("storage I/O error: {}", chain(error)))
}

pub(crate) fn flush<'a>(call: &Call<'a>) -> Answered<'a> {
    call.server
        .store
        .flush()
        .map_err(|error| unavailable(&error))?;
    json(&object([("flushed", true.into())]))
}

pub(crate) fn checkpoint<'a>(call: &Call<'a>) -> Answered<'a> {
    let generation = call
        .server
        .store
        .checkpoint()
        .map_err(|error| unavailable(&error))?;
    json(&object([("generation", generation.into())]))
}

pub(crate) fn verify<'a>(call: &Call<'a>) -> Answered<'a> {
    let found = call
        .server
        .store
        .verify_generation()
        .map_err(|error| unavailable(&error))?;
    json(&object([
        ("generation", found.generation.into()),
        ("intact", found.problems.is_empty().into()),
        ("problems", list(found.problems, Value::from)),
    ]))
}

pub(crate) fn pin<'a>(call: &Call<'a>) -> Answered<'a> {
    let label = call.raw(0);
    let store = &call.server.store;
    let pin = store
        .pin(label)
        .map_err(|error| Refusal::new(409, format!("storage I/O error: {}", chain(&error))))?;
    let path = store.dir().join("pins").join(label);
    let found = store
        .verify_pin(label)
        .map_err(|error| unavailable(&error))?;
    if !found.problems.is_empty() {
        let problems = list(found.problems, Value::from);
        return Err(Refusal::new(500, "the backup does not verify").with("problems", problems));
    }
    let body = object([
        ("backup", label.into()),
        ("generation", pin.generation.into()),
        ("path", path.to_string_lossy().into_owned().into()),
        ("verified", true.into()),
    ]);
    let mut response = Response::json(&body);
    response.status = 201;
    Ok(response.into())
}

pub(crate) fn unpin<'a>(call: &Call<'a>) -> Answered<'a> {
    let label = call.raw(0);
    match call.server.store.unpin(label) {
        // A label that no backup can have is no failure of the store.
        Err(error @ StoreError::Invalid { .. }) => Err(Refusal::bad_request(error.to_string())),
        Err(error) => Err(unavailable(&error)),
        Ok(_) => json(&object([
            ("backup", label.into()),
            ("released", true.into()),
        ])),
    }
}
