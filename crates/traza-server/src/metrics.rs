//! What the server counts of its own work.

use std::fmt::Write as _;
use std::time::Duration;

use traza::histogram::Histogram;
use traza::json::{Number, Object, Value};
use traza::store::metrics::{Counter, Stage, Timed};

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Ingest,
    Lookup,
    Search,
    Stats,
    /// Counted; how long it takes is up to the client.
    Stream,
    Mcp,
    Other,
}

impl Class {
    pub(crate) const ALL: [Self; 7] = [
        Self::Ingest,
        Self::Lookup,
        Self::Search,
        Self::Stats,
        Self::Stream,
        Self::Mcp,
        Self::Other,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Lookup => "lookup",
            Self::Search => "search",
            Self::Stats => "stats",
            Self::Stream => "stream",
            Self::Mcp => "mcp",
            Self::Other => "other",
        }
    }
}

/// The counters of a server.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    requests: Stage,
    classes: [Stage; 7],
    streams: Counter,
    rejected: Counter,
    malformed: Counter,
    accepted: Counter,
    refused: Counter,
    panics: Counter,
    deadlines: Counter,
    answers: [Counter; 3],
    decoded: Counter,
    decode: Stage,
    tail_gaps: Counter,
}

impl Metrics {
    /// An answer that is about to be written.
    pub(crate) fn answered(&self, class: Class, status: u16, took: Duration) {
        let kind = match status {
            ..400 => 0,
            400..500 => 1,
            _ => 2,
        };
        if let Some(counter) = self.answers.get(kind) {
            counter.add(1);
        }
        if class == Class::Stream {
            self.streams.add(1);
            return;
        }
        self.requests.record(took);
        if let Some(stage) = self.classes.get(class as usize) {
            stage.record(took);
        }
    }

    /// A request that the gate refused.
    pub(crate) fn reject(&self) {
        self.rejected.add(1);
    }

    /// A request whose head or body could not be read.
    pub(crate) fn malformed(&self) {
        let count = self.malformed.add(1);
        if count.is_power_of_two() {
            log::warn!("{count} requests could not be read so far; RUST_LOG=info says why");
        }
    }

    pub(crate) fn deadline(&self) {
        self.deadlines.add(1);
    }

    pub(crate) fn panicked(&self) {
        self.panics.add(1);
    }

    pub(crate) fn connection_accepted(&self) {
        self.accepted.add(1);
    }

    /// Says so in the log, less often the more there are.
    pub(crate) fn connection_refused(&self) {
        let count = self.refused.add(1);
        if count.is_power_of_two() {
            log::warn!("at the limit of connections; {count} refused so far");
        }
    }

    /// A body that became spans.
    pub(crate) fn decoded(&self, spans: usize, took: Duration) {
        self.decoded.add(spans as u64);
        self.decode.record(took);
    }

    pub(crate) fn tail_gap(&self) {
        self.tail_gaps.add(1);
    }
}

/// A page of the text format of Prometheus.
#[derive(Debug, Default)]
pub(crate) struct Page(String);

impl Page {
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    pub(crate) fn counter(&mut self, name: &str, value: u64) {
        self.sample(name, "counter", value);
    }

    pub(crate) fn gauge(&mut self, name: &str, value: u64) {
        self.sample(name, "gauge", value);
    }

    fn sample(&mut self, name: &str, kind: &str, value: u64) {
        // Writing into a string does not fail.
        writeln!(self.0, "# TYPE {name} {kind}\n{name} {value}").ok();
    }

    /// Count, sum, maximum and percentiles of what was timed, in nanoseconds.
    pub(crate) fn stage(&mut self, name: &str, timed: &Timed) {
        let (durations, sum_ns) = (&timed.durations, timed.sum_ns);
        self.counter(&format!("{name}_ns_count"), durations.count());
        self.counter(&format!("{name}_ns_sum"), sum_ns);
        self.gauge(&format!("{name}_ns_max"), durations.max());
        self.percentiles(name, durations);
    }

    fn percentiles(&mut self, name: &str, durations: &Histogram) {
        for percent in [50, 95, 99] {
            let value = durations.percentile(percent);
            self.gauge(&format!("{name}_ns_p{percent}"), value);
        }
    }
}

impl Metrics {
    /// Appends the series of the server.
    pub(crate) fn write(&self, page: &mut Page, uptime: Duration, live: usize) {
        let requests = self.requests.read();
        page.gauge("traza_uptime_seconds", uptime.as_secs());
        page.counter("traza_http_requests_total", self.total());
        page.counter("traza_http_rejected_total", self.rejected.get());
        page.counter("traza_http_malformed_total", self.malformed.get());
        page.counter("traza_http_connections_accepted_total", self.accepted.get());
        page.counter("traza_http_connections_refused_total", self.refused.get());
        page.gauge("traza_http_connections_live", live as u64);
        page.counter("traza_query_deadline_exceeded_total", self.deadlines.get());
        page.counter("traza_http_handler_panics_total", self.panics.get());
        page.counter("traza_tail_gaps_total", self.tail_gaps.get());
        page.counter("traza_http_decoded_spans_total", self.decoded.get());
        let decode = self.decode.read();
        page.counter("traza_http_decode_ns_count", decode.durations.count());
        page.counter("traza_http_decode_ns_sum", decode.sum_ns);
        page.gauge("traza_http_decode_ns_max", decode.durations.max());
        page.stage("traza_http_request", &requests);
        for (class, stage) in Class::ALL.iter().zip(&self.classes) {
            let timed = stage.read();
            let name = format!("traza_http_{}", class.name());
            let count = self.count_of(*class, &timed);
            page.counter(&format!("{name}_ns_count"), count);
            page.counter(&format!("{name}_ns_sum"), timed.sum_ns);
            page.percentiles(&name, &timed.durations);
        }
        for (kind, counter) in ["2xx", "4xx", "5xx"].iter().zip(&self.answers) {
            page.counter(&format!("traza_http_responses_{kind}_total"), counter.get());
        }
    }

    fn total(&self) -> u64 {
        self.answers.iter().map(Counter::get).sum()
    }

    fn count_of(&self, class: Class, timed: &Timed) -> u64 {
        match class {
            Class::Stream => self.streams.get(),
            _ => timed.durations.count(),
        }
    }

    /// The members of the JSON page that are the server's.
    pub(crate) fn to_json(&self, live: usize) -> Object {
        let requests = self.requests.read();
        let mut request = times(&requests);
        request.insert("total".to_owned(), Value::from(self.total()));
        request.insert("rejected".to_owned(), Value::from(self.rejected.get()));
        request.insert(
            "deadline_exceeded".to_owned(),
            Value::from(self.deadlines.get()),
        );
        for (kind, counter) in ["2xx", "4xx", "5xx"].iter().zip(&self.answers) {
            request.insert(format!("responses_{kind}"), Value::from(counter.get()));
        }
        let classes = Class::ALL.iter().zip(&self.classes).map(|(class, stage)| {
            let timed = stage.read();
            let mut members = times(&timed);
            let count = self.count_of(*class, &timed);
            members.insert("count".to_owned(), Value::from(count));
            (class.name().to_owned(), Value::Object(members))
        });
        let decode = self.decode.read();
        Object::from([
            ("requests".to_owned(), Value::Object(request)),
            ("by_class".to_owned(), Value::Object(classes.collect())),
            (
                "connections".to_owned(),
                numbers([
                    ("accepted", self.accepted.get()),
                    ("refused", self.refused.get()),
                    ("live", live as u64),
                    ("handler_panics", self.panics.get()),
                ]),
            ),
            (
                "decode".to_owned(),
                numbers([
                    ("spans", self.decoded.get()),
                    ("mean_ns", decode.durations.mean()),
                    ("p95_ns", decode.durations.percentile(95)),
                ]),
            ),
            (
                "percentile_error_bound".to_owned(),
                Value::Number(Number::Float(0.0625)),
            ),
        ])
    }
}

/// An object of numbers.
pub(crate) fn numbers<'n>(members: impl IntoIterator<Item = (&'n str, u64)>) -> Value {
    let members = members.into_iter();
    Value::Object(
        members
            .map(|(name, value)| (name.to_owned(), Value::from(value)))
            .collect(),
    )
}

fn times(timed: &Timed) -> Object {
    let durations = &timed.durations;
    let members = [
        ("mean_ns", durations.mean()),
        ("max_ns", durations.max()),
        ("p50_ns", durations.percentile(50)),
        ("p95_ns", durations.percentile(95)),
        ("p99_ns", durations.percentile(99)),
    ];
    members
        .into_iter()
        .map(|(name, value)| (name.to_owned(), Value::from(value)))
        .collect()
}
