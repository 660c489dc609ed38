//! The summary of a run, for people.

use std::io;

use serde_json::Value;

use super::InspectArgs;
use super::survey::Survey;
use crate::output::{Out, terminal_width};
use crate::series::Series;
use crate::sparkline::sparkline;
use crate::styles::{FAINT, STRONG, WARN};
use crate::text::{bytes, clean, count, duration, number, shorten, wall_time};

/// Width of the drawings where there is no terminal.
const PLAIN_WIDTH: usize = 100;

pub(super) fn print(out: &mut Out, survey: &Survey, args: &InspectArgs) -> io::Result<()> {
    head(out, survey)?;
    origin(out, survey)?;
    contents(out, survey)?;
    segments(out, survey)?;
    variables(out, survey, args.plot)?;
    timeline(out, survey)
}

fn head(out: &mut Out, survey: &Survey) -> io::Result<()> {
    let path = survey.path.display();
    let len = bytes(survey.segments.iter().filter_map(|s| s.bytes).sum());
    let files = count(survey.segments.len() as u64, "file");
    let state = match (survey.sealed, survey.truncated) {
        (true, _) => "sealed",
        (false, false) => "not sealed: still being written, or cut off",
        (false, true) => "not sealed, ends in the middle of a record",
    };
    let version = survey.version;
    out.line(format_args!(
        "{STRONG}{path}:{STRONG:#} run, .omni version {version}, {files}, {len}, {state}"
    ))
}

fn row(out: &mut Out, name: &str, value: &str) -> io::Result<()> {
    out.line(format_args!("  {FAINT}{name:<9}{FAINT:#} {}", clean(value)))
}

fn text<'a>(value: Option<&'a Value>, member: &str) -> Option<&'a str> {
    value?.get(member)?.as_str()
}

fn origin(out: &mut Out, survey: &Survey) -> io::Result<()> {
    if survey.created_wall_ns > 0 {
        row(out, "created", &wall_time(survey.created_wall_ns))?;
    }
    let start = survey.start.as_ref();
    if let Some(Value::Array(argv)) = start.and_then(|s| s.get("argv")) {
        let words: Vec<&str> = argv.iter().filter_map(Value::as_str).collect();
        row(out, "command", &words.join(" "))?;
    }
    if let Some(host) = text(start, "host") {
        let cwd = text(start, "cwd").unwrap_or("an unknown folder");
        row(out, "host", &format!("{host}, in {cwd}"))?;
    }
    match &survey.stop {
        Some(stop) => row(out, "ended", &ending(stop)),
        None if start.is_some() => row(out, "ended", "no stop record: still running, or cut off"),
        None => Ok(()),
    }
}

fn ending(stop: &Value) -> String {
    let exit = stop.get("exit");
    let member = |name| exit.and_then(|exit| exit.get(name));
    if let Some(code) = member("code") {
        return format!("exit code {code}");
    }
    if let Some(name) = member("name").and_then(Value::as_str) {
        return format!("by {name}");
    }
    match member("error").and_then(Value::as_str) {
        Some(error) => format!("never started: {error}"),
        None => "stopped".to_owned(),
    }
}

fn contents(out: &mut Out, survey: &Survey) -> io::Result<()> {
    let kinds = survey.counts.iter().map(|(kind, n)| format!("{n} {kind}"));
    let kinds = kinds.collect::<Vec<_>>().join(", ");
    let total = count(survey.record_count(), "record");
    let payload = bytes(survey.payload_bytes);
    let total = match survey.record_count() {
        0 => total,
        _ => format!("{total} ({kinds}), {payload} of payload"),
    };
    row(out, "contains", &total)?;
    let (Some(first), Some(last)) = (survey.first, survey.last) else {
        return Ok(());
    };
    let pace = survey.telemetry_hz.map_or_else(String::new, |hz| {
        format!(", {} telemetry records per second", number(hz))
    });
    let ticks = format!(
        "{} to {}, over {}{pace}",
        first.tick,
        last.tick,
        duration(survey.duration_ns)
    );
    row(out, "ticks", &ticks)?;
    if last.wall_ns > 0 {
        let times = format!(
            "{} to {}",
            wall_time(first.wall_ns),
            wall_time(last.wall_ns)
        );
        row(out, "times", &times)?;
    }
    Ok(())
}

fn segments(out: &mut Out, survey: &Survey) -> io::Result<()> {
    if survey.segments.len() > 1 {
        out.line(format_args!("{STRONG}files{STRONG:#}"))?;
        for (ordinal, segment) in survey.segments.iter().enumerate() {
            let state = match (segment.sealed, segment.records) {
                (true, Some(records)) => format!("sealed, {}", count(records, "record")),
                _ => "not sealed".to_owned(),
            };
            let len = segment.bytes.map_or_else(|| "unreadable".to_owned(), bytes);
            out.line(format_args!(
                "  {ordinal:>3}  {}  {len}, {state}",
                segment.path.display()
            ))?;
        }
    }
    for path in &survey.stranded {
        let path = path.display();
        out.line(format_args!(
            "  {WARN}not read:{WARN:#} {path}, since a file before it is missing"
        ))?;
    }
    Ok(())
}

fn variables(out: &mut Out, survey: &Survey, plot: bool) -> io::Result<()> {
    if survey.variables.is_empty() {
        return Ok(());
    }
    let width = terminal_width().or(plot.then_some(PLAIN_WIDTH));
    let names = survey.variables.iter().map(|s| s.name.chars().count());
    let name_width = names.max().unwrap_or_default().clamp(4, 28);
    out.line(format_args!(
        "{STRONG}variables{STRONG:#} (least, greatest, last)"
    ))?;
    for series in &survey.variables {
        let name = shorten(&series.name, name_width);
        let values = values(series);
        let drawing = width.map_or_else(String::new, |width| {
            let width = width.saturating_sub(name_width + 50).clamp(8, 120);
            format!("{:<width$}  ", sparkline(&series.buckets(), width))
        });
        out.line(format_args!("  {name:<name_width$}  {drawing}{values}"))?;
    }
    if survey.variables_partial {
        let shown = survey.variables.len();
        out.line(format_args!(
            "  the first {shown} variables; there are more"
        ))?;
    }
    Ok(())
}

fn values(series: &Series) -> String {
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), number);
    let last = if series.last.is_none() {
        "not finite".to_owned()
    } else {
        shown(series.last)
    };
    let non_finite = match series.non_finite {
        0 => String::new(),
        n => format!("  {WARN}{} not finite{WARN:#}", count(n, "value")),
    };
    format!(
        "{:>10} {:>10} {last:>10}{non_finite}",
        shown(series.min),
        shown(series.max)
    )
}

fn timeline(out: &mut Out, survey: &Survey) -> io::Result<()> {
    if survey.lines.is_empty() {
        return Ok(());
    }
    out.line(format_args!(
        "{STRONG}timeline{STRONG:#} (tick, time, kind; telemetry left out)"
    ))?;
    for line in &survey.lines {
        out.line(line)?;
    }
    let more = survey.records_chosen - survey.lines.len() as u64;
    if more > 0 {
        out.line(format_args!("  … and {more} more (--limit 0 shows all)"))?;
    }
    Ok(())
}
