//! What opening costs, in time and in memory.

use std::hint::black_box;

use durable::RealFs;
use traza::segment::Segment;

use crate::Result;
use crate::corpus::Corpus;
use crate::measure::Latency;

/// What opening has shown.
pub(crate) struct Opened {
    pub(crate) latencies: Vec<Latency>,
    /// Bytes of memory that the indexes of all segments take.
    pub(crate) index_len: u64,
    /// Bytes of records in memory after opening.
    pub(crate) payload_len: u64,
}

/// Opens every segment file `rounds` times; they are in the page cache.
pub(crate) fn measure(corpus: &Corpus, rounds: u64) -> Result<Opened> {
    let mut lazy = Latency::new("open a segment file");
    let (mut index_len, mut payload_len) = (0, 0);
    for segment in 0..corpus.size.segments() {
        let path = corpus.path(segment);
        let opened = Segment::open(&RealFs, &path)?;
        index_len += opened.resident_index_len() as u64;
        payload_len += opened.resident_payload_len() as u64;
        drop(opened);
        for _ in 0..rounds {
            lazy.call(|| Ok(black_box(Segment::open(&RealFs, &path)?).record_count() as u64))?;
        }
    }
    Ok(Opened {
        latencies: vec![lazy],
        index_len,
        payload_len,
    })
}
