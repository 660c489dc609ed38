//! Taking spans in: how many in a second, and how long a call waits.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::corpus::Corpus;
use crate::figure::{Bar, Measured, float, quantile};
use crate::server::Server;
use crate::{Encoding, Result};

/// Sends the whole corpus over so many connections, which take the next body each as soon as they are done with one.
pub(crate) fn measure(
    server: &Server,
    corpus: &Corpus,
    encoding: Encoding,
    connections: usize,
) -> Result<Vec<Measured>> {
    let bodies = corpus.bodies(encoding);
    let next = AtomicUsize::new(0);
    let send = || -> Result<Vec<f64>, String> {
        let connection = server.connect();
        let mut millis = Vec::new();
        while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
            let started = Instant::now();
            connection
                .send(encoding, body)
                .map_err(|error| error.to_string())?;
            millis.push(started.elapsed().as_secs_f64() * 1e3);
        }
        Ok(millis)
    };
    let started = Instant::now();
    let done = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..connections).map(|_| scope.spawn(send)).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".to_owned())))
            .collect::<Result<Vec<_>, String>>()
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let millis = done.concat();
    let stats = server.connect().json("/v1/stats")?;
    let total = stats
        .get("total_records")
        .and_then(serde_json::Value::as_u64);
    if total != Some(corpus.spans as u64) {
        return Err(format!("of {} spans the server has {total:?}", corpus.spans).into());
    }
    let (name, times) = match encoding {
        Encoding::Json => ("JSON", 2.0),
        Encoding::Protobuf => ("OTLP protobuf", 3.0),
    };
    let [p50, p99, max] = [(1, 2), (99, 100), (1, 1)].map(|(part, of)| quantile(&millis, part, of));
    Ok(vec![
        Measured::new(
            format!("ingest, {name}"),
            "spans/s",
            float(corpus.spans) / seconds,
        )
        .with(Bar::TimesAtLeast(times)),
        Measured::new(format!("ingest, {name}, call p50"), "ms", p50),
        Measured::new(format!("ingest, {name}, call p99"), "ms", p99).with(Bar::AtMost(50.0)),
        Measured::new(format!("ingest, {name}, longest call"), "ms", max),
        Measured::new(
            format!("ingest, {name}, peak memory"),
            "MB",
            server.peak_mb()?,
        )
        .with(Bar::AtMost(250.0)),
    ])
}
