//! Samples to rates, ratios and JSON.

use serde_json::{Value, json};

use crate::mcap_side::Variant;
use crate::measure::{Basis, Sample, median, quantile};
use crate::{append, floor, read, verify};

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) machine: Value,
    pub(crate) records: u64,
    pub(crate) runs: u64,
    pub(crate) series: Vec<Series>,
    pub(crate) latencies: Vec<Latency>,
    pub(crate) memory: Option<Value>,
}

/// One measurement's samples, one per round.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) payload_len: usize,
    pub(crate) basis: Basis,
    samples: Vec<Sample>,
}

/// How long single calls took.
#[derive(Debug)]
pub(crate) struct Latency {
    pub(crate) name: &'static str,
    pub(crate) payload_len: usize,
    pub(crate) micros: Vec<f64>,
    /// Records that a recorder dropped on the way, where that can happen.
    pub(crate) dropped: Option<u64>,
}

impl Latency {
    pub(crate) fn new(name: &'static str, payload_len: usize) -> Self {
        Self {
            name,
            payload_len,
            micros: Vec::new(),
            dropped: None,
        }
    }

    pub(crate) fn with_dropped(mut self, dropped: u64) -> Self {
        self.dropped = Some(dropped);
        self
    }

    /// p50, p99, p99.9 and the longest.
    pub(crate) fn quantiles(&self) -> [f64; 4] {
        [(1, 2), (99, 100), (999, 1000), (1, 1)].map(|(part, of)| quantile(&self.micros, part, of))
    }
}

/// One rate divided by another of the same round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) name: &'static str,
    of: &'static str,
    to: &'static str,
    pub(crate) basis: Basis,
    /// What it should be at the least, with payloads of [`TARGET_PAYLOAD_LEN`].
    target: Option<f64>,
}

const TARGET_PAYLOAD_LEN: usize = 256;

impl Ratio {
    pub(crate) fn target(&self, payload_len: usize) -> Option<f64> {
        self.target.filter(|_| payload_len == TARGET_PAYLOAD_LEN)
    }
}

const fn ratio(
    name: &'static str,
    of: &'static str,
    to: &'static str,
    basis: Basis,
    target: Option<f64>,
) -> Ratio {
    Ratio {
        name,
        of,
        to,
        basis,
        target,
    }
}

fn ratios() -> Vec<Ratio> {
    use Basis::{ProcessCpu, ThreadCpu, Wall};
    let mcap = Variant::Default;
    vec![
        ratio(
            "append to memory / floor",
            append::TO_MEMORY,
            floor::FLOOR,
            ThreadCpu,
            Some(0.75),
        ),
        ratio(
            "append to a file / floor",
            append::TO_FILE,
            floor::FLOOR,
            ThreadCpu,
            Some(0.60),
        ),
        ratio(
            "verify, one thread / floor",
            verify::ONE,
            floor::FLOOR,
            ThreadCpu,
            Some(0.85),
        ),
        ratio(
            "verify, all cores / floor",
            verify::ALL,
            floor::FLOOR,
            Wall,
            None,
        ),
        ratio(
            "verify, all cores / one thread",
            verify::ALL,
            verify::ONE,
            Wall,
            Some(1.3),
        ),
        ratio(
            "append / mcap default, memory",
            append::TO_MEMORY,
            mcap.to_memory(),
            Wall,
            Some(2.0),
        ),
        ratio(
            "append / mcap default, file",
            append::TO_FILE,
            mcap.to_file(),
            Wall,
            Some(2.0),
        ),
        ratio(
            "append / mcap default, file",
            append::TO_FILE,
            mcap.to_file(),
            ProcessCpu,
            None,
        ),
        ratio(
            "append / mcap lz4, file",
            append::TO_FILE,
            Variant::Lz4.to_file(),
            Wall,
            None,
        ),
        ratio(
            "append / mcap no compression, file",
            append::TO_FILE,
            Variant::None.to_file(),
            Wall,
            None,
        ),
        ratio(
            "read all mapped / mcap default",
            read::MAPPED,
            mcap.reading(),
            ThreadCpu,
            None,
        ),
        ratio(
            "read all mapped / mcap no compression",
            read::MAPPED,
            Variant::None.reading(),
            ThreadCpu,
            None,
        ),
    ]
}

impl Report {
    pub(crate) fn new(machine: Value, records: u64, runs: u64) -> Self {
        Self {
            machine,
            records,
            runs,
            series: Vec::new(),
            latencies: Vec::new(),
            memory: None,
        }
    }

    pub(crate) fn add_samples(&mut self, payload_len: usize, samples: Vec<Sample>) {
        for sample in samples {
            let same = |s: &&mut Series| s.name == sample.name && s.payload_len == payload_len;
            match self.series.iter_mut().find(same) {
                Some(series) => series.samples.push(sample),
                None => self.series.push(Series {
                    name: sample.name,
                    payload_len,
                    basis: sample.basis,
                    samples: vec![sample],
                }),
            }
        }
    }

    fn find(&self, name: &str, payload_len: usize) -> Option<&Series> {
        self.series
            .iter()
            .find(|s| s.name == name && s.payload_len == payload_len)
    }

    /// The median over the rounds; `None` when a side was not measured.
    fn ratio_value(&self, ratio: &Ratio, payload_len: usize) -> Option<f64> {
        let (of, to) = (
            self.find(ratio.of, payload_len)?,
            self.find(ratio.to, payload_len)?,
        );
        let rounds = of.samples.iter().zip(&to.samples);
        let values: Vec<f64> = rounds
            .map(|(of, to)| of.rate(ratio.basis) / to.rate(ratio.basis))
            .collect();
        Some(median(&values))
    }

    /// Each ratio whose sides were measured, with its payload length and value.
    pub(crate) fn ratio_rows(&self) -> Vec<(Ratio, usize, f64)> {
        let mut rows = Vec::new();
        for ratio in ratios() {
            for payload_len in crate::PAYLOAD_LENS {
                if let Some(value) = self.ratio_value(&ratio, payload_len) {
                    rows.push((ratio, payload_len, value));
                }
            }
        }
        rows
    }

    pub(crate) fn json(&self) -> Value {
        let rows: Vec<Value> = self.series.iter().map(Series::json).collect();
        let ratios: Vec<Value> = self
            .ratio_rows()
            .into_iter()
            .map(|(ratio, payload_len, value)| {
                json!({
                    "name": ratio.name,
                    "payload_len": payload_len,
                    "clock": ratio.basis.name(),
                    "ratio": value,
                    "target": ratio.target(payload_len),
                })
            })
            .collect();
        let latencies: Vec<Value> = self.latencies.iter().map(Latency::json).collect();
        json!({
            "bench": "omni",
            "machine": self.machine,
            "records": self.records,
            "runs": self.runs,
            "rates": rows,
            "ratios": ratios,
            "latencies": latencies,
            "memory": self.memory,
        })
    }
}

impl Series {
    pub(crate) fn rates(&self, basis: Basis) -> Vec<f64> {
        self.samples.iter().map(|s| s.rate(basis)).collect()
    }

    pub(crate) fn megabytes_per_second(&self) -> f64 {
        let Some(sample) = self.samples.first() else {
            return f64::NAN;
        };
        let per_record =
            crate::measure::float(sample.bytes) / crate::measure::float(sample.records);
        median(&self.rates(self.basis)) * per_record / 1e6
    }

    fn json(&self) -> Value {
        let rates = self.rates(self.basis);
        json!({
            "name": self.name,
            "payload_len": self.payload_len,
            "clock": self.basis.name(),
            "records_per_s": median(&rates),
            "records_per_s_min": quantile(&rates, 0, 1),
            "records_per_s_max": quantile(&rates, 1, 1),
            "mb_per_s": self.megabytes_per_second(),
            "by_clock": {
                "thread_cpu": median(&self.rates(Basis::ThreadCpu)),
                "process_cpu": median(&self.rates(Basis::ProcessCpu)),
                "wall": median(&self.rates(Basis::Wall)),
            },
        })
    }
}

impl Latency {
    fn json(&self) -> Value {
        let [p50, p99, p999, max] = self.quantiles();
        json!({
            "name": self.name,
            "payload_len": self.payload_len,
            "clock": Basis::Wall.name(),
            "calls": self.micros.len(),
            "p50_us": p50,
            "p99_us": p99,
            "p999_us": p999,
            "max_us": max,
            "dropped": self.dropped,
        })
    }
}
