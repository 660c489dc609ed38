//! What was measured, as one JSON document and as Markdown tables.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::corpus::Corpus;
use crate::measure::{Latency, Rate, float};
use crate::open::Opened;
use crate::write::Sizes;

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Value,
    rounds: u64,
    rates: Vec<Value>,
    latencies: Vec<Value>,
    sizes: Vec<Value>,
}

impl Report {
    pub(crate) fn new(machine: Value, rounds: u64) -> Self {
        Self {
            machine,
            rounds,
            rates: Vec::new(),
            latencies: Vec::new(),
            sizes: Vec::new(),
        }
    }

    pub(crate) fn add_rates(&mut self, corpus: &Corpus, rates: &[Rate]) {
        self.rates.extend(rates.iter().map(|rate| {
            json!({
                "corpus": corpus.size.name(),
                "name": rate.name,
                "clock": rate.basis.name(),
                "mb_per_s": rate.megabytes_per_second(),
                "spans_per_s": rate.spans_per_second(),
            })
        }));
    }

    pub(crate) fn add_latencies(&mut self, corpus: &Corpus, latencies: &[Latency]) {
        self.latencies.extend(latencies.iter().map(|latency| {
            let [p50, p99, max] = latency.quantiles();
            json!({
                "corpus": corpus.size.name(),
                "name": latency.name,
                "calls": latency.micros.len(),
                "cpu_p50_us": latency.cpu_p50(),
                "p50_us": p50,
                "p99_us": p99,
                "max_us": max,
                "results_per_call": float(latency.results) / float(latency.micros.len() as u64),
            })
        }));
    }

    pub(crate) fn add_sizes(&mut self, corpus: &Corpus, sizes: &Sizes) {
        let mut add = |name: &str, value: f64| {
            self.sizes
                .push(json!({"corpus": corpus.size.name(), "name": name, "value": value}));
        };
        add("spans", float(corpus.size.spans));
        add("segments", float(corpus.size.segments()));
        add("span JSON, MB", float(sizes.json) / 1e6);
        add(
            "segment bytes / JSON bytes",
            float(sizes.segments) / float(sizes.json),
        );
        add(
            "zstd segment bytes / JSON bytes",
            float(sizes.zstd_segments) / float(sizes.json),
        );
    }

    pub(crate) fn add_residency(&mut self, corpus: &Corpus, opened: &Opened) {
        let mut add = |name: &str, value: f64| {
            self.sizes
                .push(json!({"corpus": corpus.size.name(), "name": name, "value": value}));
        };
        add(
            "index bytes in memory per span",
            float(opened.index_len) / float(corpus.size.spans),
        );
        add(
            "record bytes in memory after opening",
            float(opened.payload_len),
        );
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "bench": "traza-segment",
            "machine": self.machine,
            "rounds": self.rounds,
            "rates": self.rates,
            "latencies": self.latencies,
            "sizes": self.sizes,
        })
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        let machine = self.machine.as_object().into_iter().flatten();
        let machine = machine
            .map(|(name, value)| json!({"name": name, "value": value}))
            .collect::<Vec<_>>();
        table(&mut text, &[("name", "fact"), ("value", "value")], &machine);
        let columns = [("corpus", "corpus"), ("name", "size"), ("value", "value")];
        table(&mut text, &columns, &self.sizes);
        let columns = [
            ("corpus", "corpus"),
            ("name", "stage"),
            ("clock", "clock"),
            ("mb_per_s", "MB/s of span JSON"),
            ("spans_per_s", "spans/s"),
        ];
        table(&mut text, &columns, &self.rates);
        let columns = [
            ("corpus", "corpus"),
            ("name", "call"),
            ("calls", "calls"),
            ("cpu_p50_us", "CPU p50 µs"),
            ("p50_us", "p50 µs"),
            ("p99_us", "p99 µs"),
            ("max_us", "max µs"),
            ("results_per_call", "results per call"),
        ];
        table(&mut text, &columns, &self.latencies);
        text
    }
}

/// Appends a table: the named members of each row under their headings. Writing to a string cannot fail.
fn table(text: &mut String, columns: &[(&str, &str)], rows: &[Value]) {
    let line = |cells: Vec<String>| format!("| {} |", cells.join(" | "));
    let heads = columns
        .iter()
        .map(|(_, heading)| (*heading).to_owned())
        .collect();
    writeln!(text, "\n{}\n|{}", line(heads), "---|".repeat(columns.len())).ok();
    for row in rows {
        let cells = columns
            .iter()
            .map(|(name, _)| cell(row.get(*name)))
            .collect();
        writeln!(text, "{}", line(cells)).ok();
    }
}

fn cell(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => match number.as_f64() {
            Some(value) if number.is_f64() && value.abs() >= 1000.0 => format!("{value:.0}"),
            Some(value) if number.is_f64() && value.abs() >= 10.0 => format!("{value:.1}"),
            Some(value) if number.is_f64() => format!("{value:.3}"),
            _ => number.to_string(),
        },
        Some(value) => value.to_string(),
        None => String::new(),
    }
}
