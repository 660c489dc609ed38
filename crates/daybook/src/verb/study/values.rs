//! Trials and their parts as JSON and as text.

use atune_core::number::JsonF64;
use atune_core::replica::{Study, Trial, TrialParam};
use atune_core::space::{Distribution, ParamValue};
use serde_json::{Map, Value, json};

use crate::text::number;

/// A parameter's value: a choice as the value that the program got.
pub(super) fn param(param: &TrialParam) -> Value {
    match (&param.value, &param.key.dist) {
        (ParamValue::Cat(at), Distribution::Cat(list)) => {
            let choices = &list.choices.choices;
            let choice = usize::try_from(*at).ok().and_then(|at| choices.get(at));
            choice.map_or(Value::Null, |choice| choice.value.value.clone())
        }
        (ParamValue::F64(v), _) => json!(v),
        (ParamValue::I64(v), _) => json!(v),
        (ParamValue::Bool(v), _) => json!(v),
        (ParamValue::Cat(at), _) => json!(at),
    }
}

/// A parameter's value as people read it.
pub(crate) fn param_text(p: &TrialParam) -> String {
    match param(p) {
        Value::String(text) => text,
        Value::Number(n) if n.is_f64() => n.as_f64().map_or_else(|| n.to_string(), number),
        other => other.to_string(),
    }
}

/// A float as people read it.
pub(super) fn float_text(value: JsonF64) -> String {
    number(value.0)
}

/// A word for a state, a direction or a unit: as the file spells it, in lower case.
pub(super) fn word(value: impl std::fmt::Debug) -> String {
    format!("{value:?}").to_lowercase()
}

/// Everything about a trial.
pub(crate) fn trial(trial: &Trial) -> Value {
    let params: Map<String, Value> = trial
        .params
        .iter()
        .map(|p| (p.key.name.clone(), param(p)))
        .collect();
    let reports: Vec<Value> = trial
        .reports
        .iter()
        .map(|r| json!({ "step": r.step, "values": r.values }))
        .collect();
    let attrs: Map<String, Value> = trial
        .user_attrs()
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect();
    json!({
        "number": trial.number,
        "id": trial.id,
        "state": word(trial.state),
        "values": trial.values,
        "params": params,
        "reports": reports,
        "error": trial.error(),
        "user_attrs": attrs,
        "managed": trial.managed,
        "owner": trial.owner,
        "epoch": trial.epoch,
        "heartbeat_millis": trial.heartbeat_millis,
        "retry_of": trial.retry_of(),
        "attempt": trial.attempt(),
        "created_at_millis": trial.times.created,
        "started_at_millis": trial.times.started,
        "ended_at_millis": trial.times.ended,
    })
}

/// A study without its trials.
pub(super) fn study(study: &Study) -> Value {
    let directions: Vec<String> = study.config.directions.iter().map(word).collect();
    json!({
        "name": study.config.name,
        "directions": directions,
        "metric_names": study.config.metric_names,
        "seed": study.config.seed,
        "resource_unit": word(study.config.resource_unit),
        "space": study.config.space,
        "user_attrs": study.user_attrs,
    })
}
