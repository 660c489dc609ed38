//! From span JSON to segment files and back, stage by stage.

use std::hint::black_box;
use std::num::NonZero;

use durable::RealFs;
use traza::record::{self, Record};
use traza::segment::{Codec, EncodeOptions, Segment, encode_with};
use traza::span::Span;

use crate::Result;
use crate::corpus::Corpus;
use crate::measure::{Basis, Rate};

/// Every so many spans one is remembered, to ask for it later.
const SUBJECT_EVERY: usize = 53;

/// What writing the corpus has shown.
pub(crate) struct Written {
    pub(crate) rates: Vec<Rate>,
    pub(crate) sizes: Sizes,
    pub(crate) subjects: Vec<Span>,
}

/// Bytes of the whole corpus.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sizes {
    pub(crate) json: u64,
    pub(crate) segments: u64,
    pub(crate) zstd_segments: u64,
}

struct Stages {
    parse: Rate,
    derive: Rate,
    encode_one: Rate,
    encode_all: Rate,
    encode_zstd: Rate,
    scan: Rate,
    eager: Rate,
}

/// Writes all segments, and measures every stage of it `rounds` times.
pub(crate) fn measure(corpus: &Corpus, rounds: u64) -> Result<Written> {
    let mut stages = Stages {
        parse: Rate::new("parse span JSON", Basis::ThreadCpu),
        derive: Rate::new("derive records", Basis::ThreadCpu),
        encode_one: Rate::new("encode, one thread", Basis::ThreadCpu),
        encode_all: Rate::new("encode, all cores", Basis::Wall),
        encode_zstd: Rate::new("encode zstd, one thread", Basis::ThreadCpu),
        scan: Rate::new("decode all records", Basis::ThreadCpu),
        eager: Rate::new("open eagerly from bytes", Basis::ThreadCpu),
    };
    let mut spans = corpus.spans();
    let mut sizes = Sizes::default();
    let mut subjects = Vec::new();
    for segment in 0..corpus.size.segments() {
        let count = corpus
            .size
            .per_segment
            .min(corpus.size.spans - segment * corpus.size.per_segment);
        let spans: Vec<Span> = spans.by_ref().take(usize::try_from(count)?).collect();
        subjects.extend(spans.iter().step_by(SUBJECT_EVERY).cloned());
        let json: Vec<String> = spans.iter().map(Span::to_json).collect();
        drop(spans);
        measure_segment(corpus, segment, &json, rounds, &mut stages, &mut sizes)?;
    }
    let rates = vec![
        stages.parse,
        stages.derive,
        stages.encode_one,
        stages.encode_all,
        stages.encode_zstd,
        stages.scan,
        stages.eager,
    ];
    Ok(Written {
        rates,
        sizes,
        subjects,
    })
}

fn measure_segment(
    corpus: &Corpus,
    segment: u64,
    json: &[String],
    rounds: u64,
    stages: &mut Stages,
    sizes: &mut Sizes,
) -> Result<()> {
    let bytes = json.iter().map(|json| json.len() as u64).sum();
    let count = json.len() as u64;
    let add = |rate: &mut Rate, work: &mut dyn FnMut() -> Result<()>| {
        let mut seconds = Vec::new();
        for _ in 0..rounds {
            seconds.push(rate.basis.seconds(&mut *work)?.0);
        }
        rate.add(bytes, count, &seconds);
        Ok::<_, Box<dyn std::error::Error>>(())
    };
    let mut spans: Vec<Span> = Vec::new();
    add(&mut stages.parse, &mut || {
        spans = json
            .iter()
            .map(|json| Span::from_json(json.as_bytes()))
            .collect::<Result<_, _>>()?;
        Ok(())
    })?;
    let mut records: Vec<Record> = Vec::new();
    add(&mut stages.derive, &mut || {
        records = spans.iter().map(record::derive).collect();
        Ok(())
    })?;
    drop(spans);
    let options = EncodeOptions {
        threads: Some(NonZero::<usize>::MIN),
        ..EncodeOptions::default()
    };
    let mut file = Vec::new();
    add(&mut stages.encode_one, &mut || {
        file = encode_with(&records, &options)?;
        Ok(())
    })?;
    add(&mut stages.encode_all, &mut || {
        black_box(encode_with(&records, &EncodeOptions::default())?);
        Ok(())
    })?;
    let mut zstd_len = 0;
    let zstd = EncodeOptions {
        codec: Codec::Zstd,
        ..options
    };
    add(&mut stages.encode_zstd, &mut || {
        zstd_len = encode_with(&records, &zstd)?.len();
        Ok(())
    })?;
    drop(records);
    sizes.json += bytes;
    sizes.segments += file.len() as u64;
    sizes.zstd_segments += zstd_len as u64;
    let path = corpus.path(segment);
    durable::publish(&RealFs, &path, &file)?;
    let opened = Segment::open(&RealFs, &path)?;
    add(&mut stages.scan, &mut || {
        for record in opened.scan() {
            black_box(record?);
        }
        Ok(())
    })?;
    let mut copies = vec![file; usize::try_from(rounds)?];
    add(&mut stages.eager, &mut || {
        black_box(Segment::from_bytes(copies.pop().unwrap_or_default())?);
        Ok(())
    })
}
