//! What was measured, as one JSON document and as Markdown tables.

use std::fmt::{Result as FmtResult, Write};

use serde_json::{Map, Value, json};

use crate::Result;
use crate::floor::APPEND_LEN;
use crate::stats::{median, quantile};

/// A table: its name in JSON, and name and heading of each column.
type Table = (&'static str, &'static [(&'static str, &'static str)]);

const TABLES: [Table; 3] = [
    (
        "rates",
        &[
            ("engine", "store"),
            ("held", "trials held before"),
            ("processes", "processes"),
            ("threads", "threads of each"),
            ("trials", "trials"),
            ("per_s", "trials/s"),
            ("per_s_min", "slowest round"),
            ("per_s_max", "quickest round"),
            ("floors", "floors per trial"),
            ("fairness", "slowest / quickest process"),
            ("commit_p50_us", "commit p50 µs"),
            ("commit_p99_us", "commit p99 µs"),
            ("rounds", "rounds"),
        ],
    ),
    (
        "opens",
        &[
            ("engine", "store"),
            ("trials", "trials"),
            ("open_ms", "open ms"),
            ("memory_mib", "peak memory MiB"),
            ("bytes_per_trial", "bytes per trial"),
            ("rounds", "rounds"),
        ],
    ),
    (
        "stall",
        &[
            ("name", "one of eight processes killed"),
            ("value", "value"),
        ],
    ),
];

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    machine: Value,
    rounds: u64,
    /// Microseconds of one synced append, one median per round.
    pub(crate) floors_us: Vec<f64>,
    rows: Map<String, Value>,
    pub(crate) stall: Option<Value>,
    skipped: Vec<String>,
}

impl Report {
    pub(crate) fn new(machine: Value, rounds: u64) -> Self {
        Self {
            machine,
            rounds,
            floors_us: Vec::new(),
            rows: Map::new(),
            stall: None,
            skipped: Vec::new(),
        }
    }

    pub(crate) fn floor_us(&self) -> f64 {
        median(&self.floors_us)
    }

    pub(crate) fn add(&mut self, table: &str, row: Value) {
        let rows = self.rows.entry(table).or_insert_with(|| json!([]));
        if let Value::Array(rows) = rows {
            rows.push(row);
        }
    }

    pub(crate) fn add_or_skip(&mut self, table: &str, engine: &str, row: Result<Value>) {
        match row {
            Ok(row) => self.add(table, row),
            Err(why) => self.skip(engine, &why.to_string()),
        }
    }

    pub(crate) fn skip(&mut self, engine: &str, why: &str) {
        let line = format!("peer skipped: {engine}: {why}");
        if !self.skipped.contains(&line) {
            self.skipped.push(line);
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "bench": "atj",
            "machine": self.machine,
            "rounds": self.rounds,
            "floor": {
                "append_len": APPEND_LEN,
                "append_and_sync_us": self.floor_us(),
                "append_and_sync_us_min": quantile(&self.floors_us, 0, 1),
                "append_and_sync_us_max": quantile(&self.floors_us, 1, 1),
            },
            "rates": self.rows.get("rates"),
            "opens": self.rows.get("opens"),
            "stall": self.stall,
            "skipped": self.skipped,
        })
    }

    pub(crate) fn markdown(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        self.write(&mut text).ok();
        text
    }

    fn write(&self, text: &mut String) -> FmtResult {
        let facts = self.machine.as_object();
        let mut facts: Vec<Value> = named(facts.into_iter().flatten());
        facts.push(json!({"name": "rounds", "value": self.rounds}));
        let floor = format!("floor: append {APPEND_LEN} bytes and sync, µs");
        facts.push(json!({"name": floor, "value": self.floor_us()}));
        write_table(text, &[("name", "fact"), ("value", "value")], &facts)?;
        let stall = self.stall.as_ref().and_then(Value::as_object);
        let stall = named(stall.into_iter().flatten());
        for (name, columns) in TABLES {
            let rows = self.rows.get(name).and_then(Value::as_array);
            write_table(
                text,
                columns,
                rows.unwrap_or(if name == "stall" { &stall } else { EMPTY }),
            )?;
        }
        if !self.skipped.is_empty() {
            writeln!(text)?;
        }
        self.skipped
            .iter()
            .try_for_each(|line| writeln!(text, "{line}"))
    }
}

const EMPTY: &Vec<Value> = &Vec::new();

fn named<'a>(members: impl Iterator<Item = (&'a String, &'a Value)>) -> Vec<Value> {
    members
        .map(|(name, value)| json!({"name": name, "value": value}))
        .collect()
}

fn write_table(text: &mut String, columns: &[(&str, &str)], rows: &[Value]) -> FmtResult {
    if rows.is_empty() {
        return Ok(());
    }
    let heads: Vec<&str> = columns.iter().map(|(_, heading)| *heading).collect();
    writeln!(text, "\n| {} |", heads.join(" | "))?;
    writeln!(text, "|{}", "---|".repeat(columns.len()))?;
    for row in rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|(name, _)| row.get(name).map(plain).unwrap_or_default())
            .collect();
        writeln!(text, "| {} |", cells.join(" | "))?;
    }
    Ok(())
}

/// A value without the quotes of JSON, and with two decimals at most. What was not measured is empty.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or(String::new(), |n| format!("{n:.2}"))
        }
        other => other.to_string(),
    }
}
