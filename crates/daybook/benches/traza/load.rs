//! Everything at one time: connections that write beside connections that read, and whether all is there afterwards.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;
use traza::span::Span;

use crate::corpus::json_body;
use crate::figure::{Bar, Measured, float, quantile};
use crate::server::{Connection, Program, Server};
use crate::spans::{Profile, RARE_WORDS, Random, Spans, rare_word};
use crate::{Encoding, Result};

const WRITERS: u64 = 32;
const READERS: u64 = 32;
/// Spans of a call.
const BATCH: usize = 100;
/// What readers ask, in turns.
const QUESTIONS: [&str; 4] = [
    "trace by id",
    "attribute, first 100",
    "selective word, first 100",
    "newest 100",
];

/// What the connections share.
struct Load<'l> {
    server: &'l Server,
    profile: Profile,
    end: Instant,
    /// A span of every acknowledged call.
    subjects: Mutex<Vec<(String, String)>>,
    errors: AtomicUsize,
    first_error: Mutex<Option<String>>,
}

/// What a writer has done.
#[derive(Default)]
struct Written {
    millis: Vec<f64>,
    /// Of the spans that were acknowledged.
    span_ids: Vec<u64>,
}

/// Loads a server for so long; answers what its callers saw.
pub(crate) fn measure(
    program: &Program,
    profile: Profile,
    seconds: u64,
    scratch: &Path,
) -> Result<Vec<Measured>> {
    let server = Server::start(program, &scratch.join(program.name.replace(' ', "-")))?;
    let started = Instant::now();
    let load = Load {
        server: &server,
        profile,
        end: started + Duration::from_secs(seconds),
        subjects: Mutex::default(),
        errors: AtomicUsize::new(0),
        first_error: Mutex::default(),
    };
    let (written, read) = std::thread::scope(|scope| {
        let load = &load;
        let writers: Vec<_> = (0..WRITERS)
            .map(|seed| scope.spawn(move || load.write(seed)))
            .collect();
        let readers: Vec<_> = (0..READERS)
            .map(|seed| scope.spawn(move || load.read(seed)))
            .collect();
        let written: Vec<_> = writers
            .into_iter()
            .filter_map(|one| one.join().ok())
            .collect();
        let read: Vec<_> = readers
            .into_iter()
            .filter_map(|one| one.join().ok())
            .collect();
        (written, read)
    });
    let elapsed = started.elapsed().as_secs_f64();
    let peak_mb = server.peak_mb()?;
    let all_ended = written.len() as u64 == WRITERS && read.len() as u64 == READERS;
    if !all_ended {
        return Err("a connection of the load panicked".into());
    }
    if let Some(error) = load
        .first_error
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()
    {
        crate::say(&format!("{}: the first error: {error}", program.name))?;
    }
    let mut span_ids: Vec<u64> = written
        .iter()
        .flat_map(|one| one.span_ids.iter().copied())
        .collect();
    let calls: Vec<f64> = written.into_iter().flat_map(|one| one.millis).collect();
    let acknowledged = span_ids.len();
    let missing = missing(&server, &mut span_ids)?;
    let mut figures = vec![
        Measured::new("spans written", "spans/s", float(acknowledged) / elapsed),
        Measured::new("write call, p50", "ms", quantile(&calls, 1, 2)),
        Measured::new("write call, p99", "ms", quantile(&calls, 99, 100)),
        Measured::new("longest write call", "ms", quantile(&calls, 1, 1)),
    ];
    let mut reads = 0;
    for (kind, name) in QUESTIONS.iter().enumerate() {
        let of_kind = read.iter().filter_map(|reader| reader.get(kind));
        let millis: Vec<f64> = of_kind.flatten().copied().collect();
        reads += millis.len();
        figures.push(Measured::new(
            format!("{name}, p50"),
            "ms",
            quantile(&millis, 1, 2),
        ));
        figures.push(Measured::new(
            format!("{name}, p99"),
            "ms",
            quantile(&millis, 99, 100),
        ));
    }
    figures.extend([
        Measured::new("reads", "calls/s", float(reads) / elapsed),
        Measured::new("errors", "", float(load.errors.load(Ordering::Relaxed)))
            .with(Bar::AtMost(0.0)),
        Measured::new("acknowledged spans", "", float(acknowledged)),
        Measured::new("of them not found afterwards", "", float(missing)).with(Bar::AtMost(0.0)),
        Measured::new("peak memory", "MB", peak_mb),
    ]);
    Ok(figures)
}

impl Load<'_> {
    /// Sends spans of its own, call after call.
    fn write(&self, seed: u64) -> Written {
        let connection = self.server.connect();
        let mut spans = Spans::new(self.profile, 1_000 + seed);
        let mut written = Written::default();
        while Instant::now() < self.end {
            let batch: Vec<Span> = spans.by_ref().take(BATCH).collect();
            let body = json_body(&batch);
            let started = Instant::now();
            if let Err(error) = connection.send(Encoding::Json, &body) {
                self.failed(error.to_string());
                continue;
            }
            written.millis.push(started.elapsed().as_secs_f64() * 1e3);
            written.span_ids.extend(batch.iter().filter_map(number));
            if let Some(span) = batch.into_iter().next() {
                let mut subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
                subjects.push((span.trace_id.into(), span.span_id.into()));
            }
        }
        written
    }

    /// Asks for what was acknowledged; answers how long each kind of question took.
    fn read(&self, seed: u64) -> [Vec<f64>; QUESTIONS.len()] {
        let connection = self.server.connect();
        let mut random = Random::from_seed(seed);
        let mut millis = QUESTIONS.map(|_| Vec::new());
        while Instant::now() < self.end {
            let subjects = self.subjects.lock().unwrap_or_else(PoisonError::into_inner);
            let index = random.below(subjects.len() as u64);
            let subject = usize::try_from(index)
                .ok()
                .and_then(|index| subjects.get(index))
                .cloned();
            drop(subjects);
            let Some((trace_id, span_id)) = subject else {
                // Nothing was acknowledged yet.
                std::thread::sleep(Duration::from_millis(1));
                continue;
            };
            let word = rare_word(random.below(RARE_WORDS));
            let targets = [
                format!("/v1/traces/{trace_id}"),
                "/v1/spans?attr.topic=harbor&limit=100".to_owned(),
                format!("/v1/spans?content={word}&limit=100"),
                "/v1/spans?sort=-start&limit=100".to_owned(),
            ];
            for (kind, (target, millis)) in targets.iter().zip(&mut millis).enumerate() {
                let started = Instant::now();
                let asked = ask(&connection, target);
                millis.push(started.elapsed().as_secs_f64() * 1e3);
                match asked {
                    Err(error) => self.failed(error.to_string()),
                    // The trace was acknowledged, so it is there.
                    Ok(answer) if kind == 0 && !answer.contains(&span_id) => {
                        self.failed(format!("{target}: {span_id} is not in the answer"));
                    }
                    Ok(_) => {}
                }
            }
        }
        millis
    }

    fn failed(&self, error: String) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = self
            .first_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert(error);
    }
}

fn ask(connection: &Connection, target: &str) -> Result<String> {
    Ok(String::from_utf8(connection.get(target)?)?)
}

/// The generator's span ids are 64 random bits in hexadecimal.
fn number(span: &Span) -> Option<u64> {
    u64::from_str_radix(&span.span_id, 16).ok()
}

/// How many of these spans an export does not have.
fn missing(server: &Server, span_ids: &mut [u64]) -> Result<usize> {
    #[derive(Deserialize)]
    struct Row<'r> {
        span_id: &'r str,
    }
    span_ids.sort_unstable();
    let mut is_found = vec![false; span_ids.len()];
    let mut rows = BufReader::with_capacity(1 << 20, server.connect().stream("/v1/export")?);
    let mut row = String::new();
    while rows.read_line(&mut row)? > 0 {
        let id = serde_json::from_str::<Row<'_>>(&row)?.span_id;
        if let Ok(at) = span_ids.binary_search(&u64::from_str_radix(id, 16)?)
            && let Some(is_found) = is_found.get_mut(at)
        {
            *is_found = true;
        }
        row.clear();
    }
    let stats: Value = server.connect().json("/v1/stats")?;
    let total = stats.get("total_records").and_then(Value::as_u64);
    if total != Some(span_ids.len() as u64) {
        crate::say(&format!(
            "{} spans were acknowledged, {total:?} are counted",
            span_ids.len()
        ))?;
    }
    Ok(is_found.iter().filter(|is_found| !**is_found).count())
}
