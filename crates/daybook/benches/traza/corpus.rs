//! What is sent, made before any clock starts.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use traza::otlp::{Losses, write_request};
use traza::span::Span;

use crate::spans::{Profile, RARE_EVERY, Spans, rare_word};
use crate::{Encoding, Result};

/// Start of the generator: the one of the benchmark of stores.
const SEED: u64 = 7;
/// Every so many spans one is asked for.
const SUBJECT_EVERY: u64 = 53;

pub(crate) struct Corpus {
    pub(crate) profile: Profile,
    pub(crate) spans: usize,
    pub(crate) json: Vec<Vec<u8>>,
    pub(crate) protobuf: Vec<Vec<u8>>,
    /// What is asked for.
    pub(crate) subjects: Vec<Span>,
    /// How many spans each trace has.
    pub(crate) trace_lens: HashMap<String, usize>,
    /// How many spans each rare word is in.
    pub(crate) word_counts: HashMap<String, usize>,
}

impl Corpus {
    pub(crate) fn new(profile: Profile, spans: usize, batch: usize) -> Result<Self> {
        let mut corpus = Self {
            profile,
            spans,
            json: Vec::new(),
            protobuf: Vec::new(),
            subjects: Vec::new(),
            trace_lens: HashMap::new(),
            word_counts: HashMap::new(),
        };
        let mut source = Spans::new(profile, SEED).take(spans).enumerate();
        loop {
            let taken: Vec<(usize, Span)> = source.by_ref().take(batch).collect();
            if taken.is_empty() {
                return Ok(corpus);
            }
            for (index, span) in &taken {
                *corpus
                    .trace_lens
                    .entry(span.trace_id.to_string())
                    .or_default() += 1;
                let index = *index as u64;
                if index.is_multiple_of(RARE_EVERY) {
                    let word = rare_word(index / RARE_EVERY);
                    *corpus.word_counts.entry(word).or_default() += 1;
                }
                if index.is_multiple_of(SUBJECT_EVERY) {
                    corpus.subjects.push(span.clone());
                }
            }
            let spans: Vec<Span> = taken.into_iter().map(|(_, span)| span).collect();
            corpus.json.push(json_body(&spans));
            corpus.protobuf.push(protobuf_body(&spans)?);
        }
    }

    /// The bodies in one encoding.
    pub(crate) fn bodies(&self, encoding: Encoding) -> &[Vec<u8>] {
        match encoding {
            Encoding::Json => &self.json,
            Encoding::Protobuf => &self.protobuf,
        }
    }
}

/// An array of spans.
pub(crate) fn json_body(spans: &[Span]) -> Vec<u8> {
    let texts: Vec<String> = spans.iter().map(Span::to_json).collect();
    format!("[{}]", texts.join(",")).into_bytes()
}

/// The same spans as an exporter encodes them.
fn protobuf_body(spans: &[Span]) -> Result<Vec<u8>> {
    let mut request = String::new();
    write_request(spans, &mut request, &mut Losses::default())?;
    let request: ExportTraceServiceRequest = serde_json::from_str(&request)?;
    Ok(request.encode_to_vec())
}
