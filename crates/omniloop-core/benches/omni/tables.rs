//! The report as Markdown tables: for people, and for `docs/benchmarks/omni.md`.

use std::fmt::{Result, Write};

use serde_json::Value;

use crate::measure::{median, quantile};
use crate::report::Report;

/// The facts of the machine that are shown; the JSON document has all of them.
const FACTS: [&str; 9] = [
    "date",
    "cpu",
    "cpu_family",
    "cpu_model",
    "cores",
    "sha_ni",
    "avx512",
    "virtual_machine",
    "os",
];

pub(crate) fn markdown(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    facts(report, &mut text)
        .and_then(|()| rates(report, &mut text))
        .and_then(|()| ratios(report, &mut text))
        .and_then(|()| latencies(report, &mut text))
        .and_then(|()| memory(report, &mut text))
        .ok();
    text
}

/// An empty line, the head of a table and the rule below it.
fn head(text: &mut String, columns: &[&str]) -> Result {
    writeln!(text, "\n| {} |", columns.join(" | "))?;
    writeln!(text, "|{}", "---|".repeat(columns.len()))
}

fn facts(report: &Report, text: &mut String) -> Result {
    head(text, &["fact", "value"])?;
    for name in FACTS {
        let value = report.machine.get(name).map(plain).unwrap_or_default();
        writeln!(text, "| {name} | {value} |")?;
    }
    writeln!(text, "| records per repetition | {} |", report.records)?;
    writeln!(text, "| rounds | {} |", report.runs)
}

fn rates(report: &Report, text: &mut String) -> Result {
    if report.series.is_empty() {
        return Ok(());
    }
    head(
        text,
        &[
            "measurement",
            "payload bytes",
            "clock",
            "million records/s",
            "slowest to quickest round",
            "MB/s",
        ],
    )?;
    for series in &report.series {
        let rates = series.rates(series.basis);
        writeln!(
            text,
            "| {} | {} | {} | {:.2} | {:.2} to {:.2} | {:.0} |",
            series.name,
            series.payload_len,
            series.basis.name(),
            median(&rates) / 1e6,
            quantile(&rates, 0, 1) / 1e6,
            quantile(&rates, 1, 1) / 1e6,
            series.megabytes_per_second(),
        )?;
    }
    Ok(())
}

fn ratios(report: &Report, text: &mut String) -> Result {
    let rows = report.ratio_rows();
    if rows.is_empty() {
        return Ok(());
    }
    head(
        text,
        &[
            "ratio of rates",
            "payload bytes",
            "clock",
            "median of the rounds",
            "target",
        ],
    )?;
    for (ratio, payload_len, value) in rows {
        let target = ratio
            .target(payload_len)
            .map_or(String::new(), |target| format!("at least {target:.2}"));
        let (name, clock) = (ratio.name, ratio.basis.name());
        writeln!(
            text,
            "| {name} | {payload_len} | {clock} | {value:.2} | {target} |"
        )?;
    }
    Ok(())
}

fn latencies(report: &Report, text: &mut String) -> Result {
    if report.latencies.is_empty() {
        return Ok(());
    }
    head(
        text,
        &[
            "call",
            "payload bytes",
            "calls",
            "p50 µs",
            "p99 µs",
            "p99.9 µs",
            "longest µs",
            "dropped",
        ],
    )?;
    for latency in &report.latencies {
        let [p50, p99, p999, max] = latency.quantiles();
        writeln!(
            text,
            "| {} | {} | {} | {p50:.1} | {p99:.1} | {p999:.1} | {max:.1} | {} |",
            latency.name,
            latency.payload_len,
            latency.micros.len(),
            latency
                .dropped
                .map_or(String::new(), |count| count.to_string()),
        )?;
    }
    Ok(())
}

fn memory(report: &Report, text: &mut String) -> Result {
    let Some(memory) = report.memory.as_ref().and_then(Value::as_object) else {
        return Ok(());
    };
    head(text, &["memory while appending", "value"])?;
    for (name, value) in memory {
        writeln!(text, "| {name} | {} |", plain(value))?;
    }
    Ok(())
}

/// A value without the quotes of JSON, and with two decimals at most.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or(String::new(), |n| format!("{n:.2}"))
        }
        other => other.to_string(),
    }
}
