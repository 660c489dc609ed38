//! `/v1/experiments`: what went through the examples of a dataset, and how it was judged.

use traza::json::{Object, Value};
use traza::logs::eval::EvalState;
use traza::logs::eval::record::{Experiment, Run};
use traza::logs::eval::scores::{ScoreDiff, ScoreSummary};

use super::datasets::{put, shape};
use super::{Answered, Call, json, optional_text, required_text};
use crate::auth::Caller;
use crate::http::Refusal;
use crate::render::{annotation, count, float, list, object};

const NOT_A_NUMBER: &str = "experiment ids are decimal integers";

fn no_such() -> Refusal {
    Refusal::not_found("no such experiment")
}

/// An experiment that exists for the caller.
fn seen<'s>(state: &'s EvalState, caller: &Caller, id: u64) -> Option<&'s Experiment> {
    let found = state.experiment(id);
    found.filter(|experiment| caller.sees(&experiment.tenant))
}

/// The experiment of the path, if it exists for the caller.
fn find(call: &Call<'_>) -> Result<u64, Refusal> {
    let id = call.number(0, NOT_A_NUMBER)?;
    check_seen(call, id)?;
    Ok(id)
}

fn check_seen(call: &Call<'_>, id: u64) -> Result<(), Refusal> {
    let store = &call.server.store;
    let is_seen = store.read_evals(|state| seen(state, call.caller(), id).is_some());
    if is_seen { Ok(()) } else { Err(no_such()) }
}

/// A member of a body that must be a number without a sign or a fraction.
fn required_number(members: &Object, name: &str) -> Result<u64, Refusal> {
    let value = members
        .get(name)
        .ok_or_else(|| Refusal::bad_request(format!("missing field `{name}`")))?;
    let text = || Refusal::bad_request(format!("`{name}` must be an unsigned integer"));
    value.as_u64().ok_or_else(text)
}

pub(crate) fn create_experiment<'a>(call: &Call<'a>) -> Answered<'a> {
    let mut members = call.object()?;
    let dataset_id = required_number(&members, "dataset_id")?;
    let version = required_text(&mut members, "dataset_version")?;
    let name = optional_text(&mut members, "name")?.unwrap_or_default();
    let config = members
        .remove("config")
        .filter(|value| *value != Value::Null);
    let store = &call.server.store;
    let is_foreign = store.read_evals(|state| {
        let dataset = state.dataset(dataset_id);
        dataset.is_some_and(|dataset| !call.caller().sees(&dataset.tenant))
    });
    if is_foreign {
        return Err(Refusal::bad_request(format!("no dataset {dataset_id}")));
    }
    let now = call.now_unix_ns();
    let id = store.create_experiment(dataset_id, &version, &name, config, now)?;
    json(&object([("experiment_id", id.into())]))
}

pub(crate) fn experiments<'a>(call: &Call<'a>) -> Answered<'a> {
    let parameters = call.parameters()?;
    let dataset_id = parameters.number("dataset_id")?;
    let tenant = call.caller().tenant_of_read(parameters.owned("tenant"))?;
    let is_wanted = |experiment: &&Experiment| {
        tenant
            .as_deref()
            .is_none_or(|tenant| experiment.tenant == tenant)
            && dataset_id.is_none_or(|id| experiment.dataset_id == id)
    };
    let found = call.server.store.read_evals(|state| {
        let wanted = state.experiments().filter(is_wanted);
        list(wanted, |experiment| view(state, experiment))
    });
    json(&object([("experiments", found)]))
}

pub(crate) fn experiment<'a>(call: &Call<'a>) -> Answered<'a> {
    let id = call.number(0, NOT_A_NUMBER)?;
    let found = call.server.store.read_evals(|state| {
        seen(state, call.caller(), id).map(|experiment| view(state, experiment))
    });
    json(&found.ok_or_else(no_such)?)
}

pub(crate) fn add_run<'a>(call: &Call<'a>) -> Answered<'a> {
    let id = call.number(0, NOT_A_NUMBER)?;
    let mut members = call.object()?;
    let example_id = required_text(&mut members, "example_id")?;
    let trace_id = required_text(&mut members, "trace_id")?;
    let span_id = optional_text(&mut members, "span_id")?.unwrap_or_default();
    let store = &call.server.store;
    let is_foreign = store.read_evals(|state| {
        let found = state.experiment(id);
        found.is_some_and(|experiment| !call.caller().sees(&experiment.tenant))
    });
    if is_foreign {
        return Err(Refusal::bad_request(format!("no experiment {id}")));
    }
    store.add_run(id, &example_id, &trace_id, &span_id, call.now_unix_ns())?;
    json(&object([("recorded", true.into())]))
}

pub(crate) fn runs<'a>(call: &Call<'a>) -> Answered<'a> {
    let id = find(call)?;
    let runs = call
        .server
        .store
        .read_evals(|state| list(state.runs(id), run));
    json(&object([("runs", runs)]))
}

pub(crate) fn scores<'a>(call: &Call<'a>) -> Answered<'a> {
    let id = find(call)?;
    let parameters = call.parameters()?;
    let limit = parameters.limit()?;
    let scores = call
        .server
        .store
        .experiment_scores(id)
        .ok_or_else(no_such)?;
    let shown = scores.iter().take(limit.unwrap_or(usize::MAX));
    json(&object([("scores", list(shown, annotation))]))
}

pub(crate) fn summary<'a>(call: &Call<'a>) -> Answered<'a> {
    let id = find(call)?;
    let summary = call
        .server
        .store
        .summarise_experiment(id)
        .ok_or_else(no_such)?;
    json(&object([
        ("experiment_id", id.into()),
        ("examples_total", count(summary.examples_total)),
        ("scores", list(&summary.scores, score)),
    ]))
}

pub(crate) fn diff<'a>(call: &Call<'a>) -> Answered<'a> {
    let parameters = call.parameters()?;
    let needed = || Refusal::bad_request("diff needs base= and candidate= experiment ids");
    let id = |name| {
        let found = parameters.number(name).map_err(|_| needed())?;
        found.ok_or_else(needed)
    };
    let (base, candidate) = (id("base")?, id("candidate")?);
    check_seen(call, base)?;
    check_seen(call, candidate)?;
    let store = &call.server.store;
    let scores = store
        .compare_experiments(base, candidate)
        .ok_or_else(no_such)?;
    json(&object([
        ("base", base.into()),
        ("candidate", candidate.into()),
        ("scores", list(&scores, score_diff)),
    ]))
}

fn view(state: &EvalState, experiment: &Experiment) -> Value {
    let mut members = shape(&experiment.tenant);
    let (dataset, version) = (experiment.dataset_id, experiment.dataset_version.as_str());
    put(&mut members, "experiment_id", experiment.experiment_id);
    put(&mut members, "dataset_id", dataset);
    put(&mut members, "dataset_version", version);
    if !experiment.name.is_empty() {
        put(&mut members, "name", experiment.name.as_str());
    }
    if let Some(config) = &experiment.config {
        put(&mut members, "config", config.clone());
    }
    put(&mut members, "created_unix_ns", experiment.created_unix_ns);
    let is_deleted = state.tombstone(dataset, version).is_some();
    put(&mut members, "dataset_version_deleted", is_deleted);
    let run_count = state.runs(experiment.experiment_id).len();
    put(&mut members, "run_count", count(run_count));
    Value::Object(members)
}

fn run(run: &Run) -> Value {
    let mut members = shape(&run.tenant);
    put(&mut members, "experiment_id", run.experiment_id);
    put(&mut members, "example_id", run.example_id.as_str());
    put(&mut members, "trace_id", run.trace_id.as_str());
    if !run.span_id.is_empty() {
        put(&mut members, "span_id", run.span_id.as_str());
    }
    put(&mut members, "created_unix_ns", run.created_unix_ns);
    Value::Object(members)
}

fn score(summary: &ScoreSummary) -> Value {
    let mut members = Object::new();
    put(&mut members, "name", summary.name.as_str());
    put(&mut members, "count", count(summary.examples));
    put(&mut members, "examples_scored", count(summary.examples));
    if let Some(numbers) = &summary.numbers {
        put(&mut members, "mean", float(numbers.mean));
        put(&mut members, "min", float(numbers.min));
        put(&mut members, "max", float(numbers.max));
        put(&mut members, "p50", float(numbers.p50));
        put(&mut members, "p95", float(numbers.p95));
    }
    if let Some(rate) = summary.true_rate {
        put(&mut members, "true_rate", float(rate));
    }
    Value::Object(members)
}

fn score_diff(diff: &ScoreDiff) -> Value {
    let ids = |ids: &[String]| list(ids, |id| Value::from(id.as_str()));
    let mut members = Object::new();
    put(&mut members, "name", diff.name.as_str());
    for (name, mean) in [
        ("mean_base", diff.mean_base),
        ("mean_candidate", diff.mean_candidate),
        ("delta", diff.delta()),
    ] {
        if let Some(mean) = mean {
            put(&mut members, name, float(mean));
        }
    }
    put(&mut members, "improved", ids(&diff.improved));
    put(&mut members, "regressed", ids(&diff.regressed));
    put(&mut members, "unchanged", count(diff.unchanged));
    put(&mut members, "changed", ids(&diff.changed));
    put(&mut members, "only_base", ids(&diff.only_base));
    put(&mut members, "only_candidate", ids(&diff.only_candidate));
    Value::Object(members)
}
