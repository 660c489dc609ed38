//! Hops: what two records say of each other, compared.

use std::collections::{BTreeMap, BTreeSet};

use durable::Severity;
use omniloop_core::recorder::{RUN_HEAD, RUN_ID, RUN_TICK, STUDY_ID, TRIAL_NUMBER};
use serde_json::Value;
use traza::json::Value as Stored;
use traza::span::Span;

use super::walk::Node;
use crate::verb::tune::attributes::TRACE_ID;

/// So many different names of one kind are followed from a trace.
const NAMES_MAX: usize = 100;

/// What the spans of a trace say of runs and trials.
#[derive(Debug, Default)]
pub(super) struct Claims {
    pub(super) runs: BTreeSet<String>,
    pub(super) trials: BTreeSet<(String, u64)>,
    /// The last tick of a run that a span names.
    pub(super) ticks: BTreeMap<String, u64>,
}

impl Claims {
    pub(super) fn learn(&mut self, span: &Span) {
        let text = |name: &str| span.attributes.get(name).and_then(Stored::as_str);
        if let Some(run) = text(RUN_ID)
            && (self.runs.len() < NAMES_MAX || self.runs.contains(run))
        {
            self.runs.insert(run.to_owned());
            if let Some(tick) = span.attributes.get(RUN_TICK).and_then(whole) {
                let last = self.ticks.entry(run.to_owned()).or_insert(tick);
                *last = tick.max(*last);
            }
        }
        let number = span.attributes.get(TRIAL_NUMBER).and_then(whole);
        if let (Some(study), Some(number)) = (text(STUDY_ID), number)
            && self.trials.len() < NAMES_MAX
        {
            self.trials.insert((study.to_owned(), number));
        }
    }
}

/// A whole number, also one that was sent as a text.
fn whole(value: &Stored) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// Compares a trial with its run. `is_named`: the trial itself names it, and it is not a further run that says so.
pub(super) fn check_run(nodes: &mut [Node], trial: usize, run: usize, is_named: bool) {
    let (name, of_trial) = match nodes.get(trial) {
        Some(node) => (node.name.clone(), node.facts.clone()),
        None => return,
    };
    let Some(node) = nodes.get_mut(run) else {
        return;
    };
    let number_of_trial = of_trial.get("number").cloned();
    let of_trial = |fact: &str| text(of_trial.get(fact));
    let of_run = |node: &Node, fact: &str| text(node.facts.get(fact));
    if let Some(own) = of_run(node, STUDY_ID) {
        let number = node.facts.get(TRIAL_NUMBER).cloned();
        let is_same = of_trial(STUDY_ID).as_ref() == Some(&own) && number == number_of_trial;
        if is_same {
            node.proved.push(format!("it says that it is {name}"));
        } else {
            let number = number.unwrap_or_default();
            let what = format!(
                "{name} names it, and it says that it is trial {number} of the study {own}"
            );
            node.find("other_trial", Severity::Damage, what);
        }
    }
    if !is_named {
        return;
    }
    match (of_trial(RUN_HEAD), of_run(node, "head")) {
        (Some(kept), Some(found)) if kept == found => {
            let what = format!("its chain ends with the head that {name} keeps");
            node.proved.push(what);
        }
        (Some(kept), found) => {
            let found = found.unwrap_or_else(|| "none".to_owned());
            let what = format!(
                "{name} keeps the head {kept}, and that of the run is {found}: it is not the run that the trial means, or \
                 was written anew"
            );
            node.find("head_mismatch", Severity::Damage, what);
        }
        (None, _) => {
            let what = format!("{name} keeps no head of it: it ended before the run was sealed");
            node.find("head_not_kept", Severity::Unproven, what);
        }
    }
    for (fact, code, called) in [
        (RUN_ID, "run_id_mismatch", "name"),
        (TRACE_ID, "trace_mismatch", "trace"),
    ] {
        match (of_trial(fact), of_run(node, fact)) {
            (Some(kept), Some(own)) if kept != own => {
                let what = format!("{name} keeps the {called} {kept} for it, and it says {own}");
                node.find(code, Severity::Damage, what);
            }
            (Some(kept), None) => {
                let what = format!("{name} keeps the {called} {kept} for it, and it says none");
                node.find(code, Severity::Unproven, what);
            }
            _ => {}
        }
    }
}

/// Compares what the spans of a trace say with the runs and trials that were reached.
pub(super) fn check_trace(nodes: &mut [Node], trace: usize, claims: &Claims) {
    let Some(id) = nodes.get(trace).map(|node| node.name.clone()) else {
        return;
    };
    let mut found: Vec<(&'static str, String)> = Vec::new();
    let mut proved = Vec::new();
    for node in nodes.iter() {
        let fact = |name: &str| text(node.facts.get(name));
        if let ("run", Some(run)) = (node.kind, fact(RUN_ID))
            && let Some(tick) = claims.ticks.get(&run)
        {
            let last = node.facts.get("last_tick").and_then(Value::as_u64);
            let is_sealed = node.facts.get("sealed") == Some(&Value::Bool(true));
            let name = &node.name;
            if is_sealed && last.is_none_or(|last| *tick > last) {
                let last = last.unwrap_or_default();
                let what =
                    format!("a span is of tick {tick} of {name}, which ends with tick {last}");
                found.push(("tick_beyond_run", what));
            } else {
                proved.push(format!("its spans are of ticks that {name} has"));
            }
        }
        let names_it = fact(TRACE_ID).as_ref() == Some(&id);
        if let ("trial", true, Some(study)) = (node.kind, names_it, fact(STUDY_ID)) {
            let number = node.facts.get("number").and_then(Value::as_u64);
            let other = claims
                .trials
                .iter()
                .find(|(of, other)| *of == study && Some(*other) != number);
            if let Some((_, other)) = other {
                let name = &node.name;
                let what = format!(
                    "{name} names it, and a span says that it is of trial {other} of that study"
                );
                found.push(("span_of_other_trial", what));
            }
        }
    }
    if let Some(node) = nodes.get_mut(trace) {
        node.proved.extend(proved);
        for (code, what) in found {
            node.find(code, Severity::Damage, what);
        }
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}
