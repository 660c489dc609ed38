//! Opening a store that an older release has left: its segments are written anew.

use std::path::Path;
use std::time::Instant;

use durable::{Field, RealFs};
use serde_json::{Value, json};
use traza::migration::v6::header_v6;
use traza::segment::layout::{MAGIC, record_header};
use traza::span::Span;
use traza::store::{Store, StoreOptions};

use crate::latency::float;
use crate::spans::Spans;
use crate::write::SEED;
use crate::{Corpus, Result, memory};

/// Spans of a segment.
const PER_SEGMENT: usize = 10_000;

pub(crate) fn measure(corpus: Corpus, dir: &Path) -> Result<Value> {
    durable::create_folder(&RealFs, dir)?;
    let mut spans = Spans::new(corpus.profile, SEED).take(corpus.spans);
    let mut old_len = 0;
    for number in 1.. {
        let mut some: Vec<Span> = spans.by_ref().take(PER_SEGMENT).collect();
        if some.is_empty() {
            break;
        }
        some.sort_by_key(|span| span.start_time_ns);
        let bytes = version_6(&some)?;
        old_len += bytes.len() as u64;
        let path = dir.join(format!("segment-{number:020}.seg"));
        durable::publish(&RealFs, &path, &bytes)?;
    }
    memory::forget_peak()?;
    let (before, _) = memory::resident()?;
    let started = Instant::now();
    let store = Store::open(dir, StoreOptions::default())?;
    let elapsed = started.elapsed();
    let (_, peak) = memory::resident()?;
    let found = store.stats().persisted_records;
    if found != corpus.spans as u64 {
        return Err(format!("{found} spans after the migration").into());
    }
    Ok(json!({
        "from": "version 6",
        "spans": corpus.spans,
        "old_mb": float(old_len) / 1e6,
        "seconds": elapsed.as_secs_f64(),
        "before_mb": float(before) / 1e6,
        "peak_mb": float(peak) / 1e6,
    }))
}

/// A segment of version 6, but for its indexes, which no migration reads.
fn version_6(spans: &[Span]) -> Result<Vec<u8>> {
    let put = |bytes: &mut Vec<u8>, field: Field, value: u64| {
        let value = value.to_le_bytes();
        field.put(bytes, value.get(..field.len).unwrap_or_default())
    };
    let (mut stream, mut table) = (Vec::new(), Vec::new());
    for span in spans {
        table.extend_from_slice(&(stream.len() as u64).to_le_bytes());
        let payload = span.to_json();
        let mut head = vec![0; record_header::LEN];
        put(&mut head, record_header::TIMESTAMP, span.start_time_ns)?;
        let len = span.trace_id.len() as u64;
        put(&mut head, record_header::TRACE_ID_LEN, len)?;
        put(&mut head, record_header::PAYLOAD_LEN, payload.len() as u64)?;
        stream.extend_from_slice(&head);
        stream.extend_from_slice(span.trace_id.as_bytes());
        stream.extend_from_slice(payload.as_bytes());
    }
    let records = header_v6::LEN as u64;
    let behind_records = records + stream.len() as u64;
    let behind_table = behind_records + table.len() as u64;
    let mut file = vec![0; header_v6::LEN];
    if let Some(magic) = file.get_mut(..MAGIC.len()) {
        magic.copy_from_slice(&MAGIC);
    }
    for (field, value) in [
        (header_v6::VERSION, 6),
        (header_v6::HEADER_LEN, records),
        (header_v6::RECORD_COUNT, spans.len() as u64),
        (header_v6::RECORDS_OFFSET, records),
        (header_v6::RECORDS_LEN, stream.len() as u64),
        (header_v6::OFFSETS_OFFSET, behind_records),
        (header_v6::OFFSETS_LEN, table.len() as u64),
        (header_v6::TRACE_OFFSET, behind_table),
        (header_v6::ATTRIBUTE_OFFSET, behind_table),
        (header_v6::CONTENT_OFFSET, behind_table),
    ] {
        put(&mut file, field, value)?;
    }
    Ok([file, stream, table].concat())
}
