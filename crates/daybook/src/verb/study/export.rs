//! `daybook study export`: the trials for other tools.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use atune_core::replica::{Study, Trial};
use atune_core::storage::journal::JournalReader;
use clap::{Args, ValueEnum};
use durable::Access;
use serde_json::Value;

use super::values::{self, word};
use super::{chosen_id, open};
use crate::failure::{DONE, Failure, Outcome};
use crate::new_file::{NewFile, would_replace};
use crate::output::Out;

#[derive(Args, Debug)]
pub(super) struct StudyExportArgs {
    /// The study file.
    path: PathBuf,
    /// The study's name, when the file holds several.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// The format.
    #[arg(long, value_enum)]
    to: Format,
    /// Where it goes; by default standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replaces the output file if it exists.
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One object per trial, nothing lost.
    Jsonl,
    /// One row per trial: number, state, times, values, parameters.
    Csv,
}

pub(super) fn run(args: &StudyExportArgs) -> Outcome {
    let reader = open(&args.path)?;
    let id = chosen_id(&reader, args.study.as_deref())?;
    let study = reader
        .replica()
        .study(id)
        .map_err(|e| Failure::new(e.to_string()))?;
    let Some(output) = &args.output else {
        let mut out = Out::raw();
        write(args.to, &mut out, &reader, study)?;
        out.flush()?;
        return Ok(DONE);
    };
    if would_replace(output, &args.path) {
        return Err(Failure::new("the output would replace the study itself"));
    }
    let file = NewFile::create(output, Access::Shared, args.force)?;
    let mut buffered = BufWriter::new(file);
    write(args.to, &mut buffered, &reader, study)?;
    let file = buffered
        .into_inner()
        .map_err(io::IntoInnerError::into_error)?;
    file.finish()?;
    Ok(DONE)
}

fn write(
    format: Format,
    to: &mut dyn Write,
    reader: &JournalReader,
    study: &Study,
) -> io::Result<()> {
    match format {
        Format::Jsonl => jsonl(to, reader, study),
        Format::Csv => csv_rows(to, reader, study),
    }
}

fn trials<'a>(reader: &'a JournalReader, study: &Study) -> impl Iterator<Item = &'a Trial> {
    reader.replica().trials_of(study.id).into_iter().flatten()
}

fn jsonl(to: &mut dyn Write, reader: &JournalReader, study: &Study) -> io::Result<()> {
    for trial in trials(reader, study) {
        serde_json::to_writer(&mut *to, &values::trial(trial))?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

fn csv_rows(to: &mut dyn Write, reader: &JournalReader, study: &Study) -> io::Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for param in trials(reader, study).flat_map(|trial| &trial.params) {
        if !names.contains(&param.key.name.as_str()) {
            names.push(&param.key.name);
        }
    }
    let metrics: Vec<String> = (0..study.config.directions.len())
        .map(|at| match study.config.metric_names.get(at) {
            Some(name) => format!("value_{name}"),
            None => format!("value_{at}"),
        })
        .collect();
    let mut rows = csv::Writer::from_writer(to);
    let fixed = [
        "number",
        "state",
        "created_at_millis",
        "started_at_millis",
        "ended_at_millis",
    ];
    let params = names.iter().map(|name| format!("param_{name}"));
    let titles = fixed
        .map(str::to_owned)
        .into_iter()
        .chain(metrics.iter().cloned())
        .chain(params);
    rows.write_record(titles)?;
    let optional = |millis: Option<u64>| millis.map_or_else(String::new, |m| m.to_string());
    for trial in trials(reader, study) {
        let mut row = vec![
            trial.number.to_string(),
            word(trial.state),
            trial.times.created.to_string(),
            optional(trial.times.started),
            optional(trial.times.ended),
        ];
        row.extend((0..metrics.len()).map(|at| {
            let value = trial.values.as_ref().and_then(|values| values.get(at));
            value.map_or_else(String::new, |v| text_of(&serde_json::json!(v)))
        }));
        row.extend(names.iter().map(|name| {
            trial
                .param(name)
                .map_or_else(String::new, |param| text_of(&values::param(param)))
        }));
        rows.write_record(row)?;
    }
    rows.flush()
}

/// A value as a cell: text without quotes, everything else as JSON spells it.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
