//! Studies and trials in words and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::Arc;

use atune_core::replica::{Study, Trial};
use atune_core::storage::journal::JournalReader;
use atune_core::trial::TrialState;
use durable::RealFs;
use serde_json::{Map, Value, json};

use super::values::{self, float_text, param_text, word};
use crate::failure::{DONE, Outcome};
use crate::output::Out;
use crate::styles::{FAINT, STRONG};
use crate::text::{clean, count, duration};

pub(super) fn show(
    out: &mut Out,
    reader: &JournalReader,
    study: &Study,
    as_json: bool,
) -> io::Result<()> {
    let states = states(reader, study);
    let best = best_of(reader, study);
    if as_json {
        let mut shown = values::study(study);
        if let Value::Object(shown) = &mut shown {
            shown.insert("trials".into(), study.trials.len().into());
            shown.insert("trials_by_state".into(), json!(states));
            let best: Vec<Value> = best.into_iter().map(values::trial).collect();
            shown.insert("best".into(), json!(best));
        }
        return out.json(&shown);
    }
    let config = &study.config;
    let directions: Vec<String> = config.directions.iter().map(word).collect();
    out.line(format_args!(
        "{STRONG}{}{STRONG:#}: {}",
        clean(&config.name),
        directions.join(", ")
    ))?;
    let by_state: Vec<String> = states
        .iter()
        .map(|(state, n)| format!("{n} {state}"))
        .collect();
    let by_state = by_state.join(", ");
    out.line(format_args!(
        "  trials  {} ({by_state})",
        study.trials.len()
    ))?;
    if !config.metric_names.is_empty() {
        out.line(format_args!(
            "  metrics {}",
            clean(&config.metric_names.join(", "))
        ))?;
    }
    out.line(format_args!("  seed    {}", config.seed))?;
    for trial in best {
        out.line(format_args!("  best    {}", trial_line(trial)))?;
    }
    Ok(())
}

pub(super) fn best(
    out: &mut Out,
    reader: &JournalReader,
    study: &Study,
    as_json: bool,
) -> io::Result<()> {
    let best = best_of(reader, study);
    if as_json {
        let best: Vec<Value> = best.into_iter().map(values::trial).collect();
        return out.json(&best);
    }
    if best.is_empty() {
        return out.line("no trial is complete yet");
    }
    for trial in best {
        out.line(trial_line(trial))?;
        for param in &trial.params {
            out.line(format_args!(
                "  {} = {}",
                clean(&param.key.name),
                clean(&param_text(param))
            ))?;
        }
    }
    Ok(())
}

pub(super) fn trials(
    out: &mut Out,
    reader: &JournalReader,
    study: &Study,
    states: &[TrialState],
    limit: usize,
    as_json: bool,
) -> io::Result<()> {
    let wanted: Vec<&Trial> = trials_of(reader, study)
        .filter(|trial| states.is_empty() || states.contains(&trial.state))
        .collect();
    let skipped = if limit == 0 {
        0
    } else {
        wanted.len().saturating_sub(limit)
    };
    let shown = wanted.get(skipped..).unwrap_or_default();
    if as_json {
        let shown: Vec<Value> = shown.iter().map(|trial| values::trial(trial)).collect();
        return out.json(&json!({ "trials": shown, "skipped": skipped }));
    }
    if skipped > 0 {
        let skipped = count(skipped as u64, "earlier trial");
        out.line(format_args!(
            "{FAINT}({skipped} not shown; --limit 0 shows all){FAINT:#}"
        ))?;
    }
    for trial in shown {
        out.line(trial_line(trial))?;
    }
    Ok(())
}

pub(super) fn attrs(
    out: &mut Out,
    reader: &JournalReader,
    study: &Study,
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        let trials: Map<String, Value> = trials_of(reader, study)
            .filter(|trial| trial.user_attrs().next().is_some())
            .map(|trial| {
                let attrs: Map<String, Value> = trial
                    .user_attrs()
                    .map(|(k, v)| (k.to_owned(), v.clone()))
                    .collect();
                (trial.number.to_string(), Value::Object(attrs))
            })
            .collect();
        return out.json(&json!({ "study": study.user_attrs, "trials": trials }));
    }
    for (key, value) in &study.user_attrs {
        out.line(format_args!(
            "study    {} = {}",
            clean(key),
            clean(&value.to_string())
        ))?;
    }
    for trial in trials_of(reader, study) {
        for (key, value) in trial.user_attrs() {
            let (key, value) = (clean(key), value.to_string());
            out.line(format_args!(
                "trial {:>3} {key} = {}",
                trial.number,
                clean(&value)
            ))?;
        }
    }
    Ok(())
}

/// The operations of a file, read in one pass.
pub(super) fn ops(path: &Path, after: u64, as_json: bool) -> Outcome {
    drop(super::open(path)?);
    let mut out = Out::raw();
    let mut written = Ok(());
    let mut first = true;
    if as_json {
        out.write_all(b"[\n")?;
    }
    JournalReader::open_watched(Arc::new(RealFs), path, &mut |line, _| {
        if line.seq <= after || written.is_err() {
            return;
        }
        let separator: &[u8] = if as_json && !first { b",\n" } else { b"" };
        let end: &[u8] = if as_json { b"" } else { b"\n" };
        first = false;
        written = out
            .write_all(separator)
            .and_then(|()| serde_json::to_writer(&mut out, line).map_err(io::Error::from))
            .and_then(|()| out.write_all(end));
    })?;
    written?;
    if as_json {
        out.write_all(b"\n]\n")?;
    }
    out.flush()?;
    Ok(DONE)
}

fn trials_of<'a>(reader: &'a JournalReader, study: &Study) -> impl Iterator<Item = &'a Trial> {
    // The study is one of this reader's.
    reader.replica().trials_of(study.id).into_iter().flatten()
}

fn best_of<'a>(reader: &'a JournalReader, study: &Study) -> Vec<&'a Trial> {
    reader.replica().best_trials(study.id).unwrap_or_default()
}

fn states(reader: &JournalReader, study: &Study) -> BTreeMap<String, u64> {
    let mut states = BTreeMap::new();
    for trial in trials_of(reader, study) {
        *states.entry(word(trial.state)).or_insert(0) += 1;
    }
    states
}

fn trial_line(trial: &Trial) -> String {
    let values: Vec<String> = trial
        .values
        .iter()
        .flat_map(|v| v.iter())
        .map(|v| float_text(*v))
        .collect();
    let params: Vec<String> = trial
        .params
        .iter()
        .map(|p| format!("{}={}", clean(&p.key.name), clean(&param_text(p))))
        .collect();
    let took = trial
        .times
        .started
        .zip(trial.times.ended)
        .map_or_else(String::new, |(from, to)| {
            duration(to.saturating_sub(from).saturating_mul(1_000_000))
        });
    let error = trial
        .error()
        .map_or_else(String::new, |error| format!("  {}", clean(error)));
    let (number, state) = (trial.number, word(trial.state));
    let line = format!(
        "trial {number:>4}  {state:<8}  {:<12}  {took:>9}  {}{error}",
        values.join(" "),
        params.join(" ")
    );
    line.trim_end().to_owned()
}
