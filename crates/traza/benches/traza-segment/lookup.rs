//! What questions cost, over all segments of a corpus in one process.

use std::hint::black_box;
use std::ops::Range;

use traza::content::Query;
use traza::json::Value;
use traza::record;
use traza::segment::Segment;
use traza::span::Span;

use crate::Result;
use crate::corpus::Corpus;
use crate::measure::Latency;
use crate::spans::{Profile, RARE_WORDS, Random, rare_word};

/// A page of an answer.
const LIMIT: usize = 100;
/// Nanoseconds of a window.
const WINDOW_NS: u64 = 2_000_000_000;

/// Asks the corpus; `subjects` are some of its spans.
pub(crate) fn measure(corpus: &Corpus, subjects: &[Span], quick: bool) -> Result<Vec<Latency>> {
    let segments = corpus.open()?;
    let calls = if quick { 50 } else { 1000 };
    let mut random = Random::from_seed(11);
    let [first, again] = traces(&segments, subjects, calls, &mut random)?;
    let mut latencies = vec![
        first,
        again,
        trace_candidates(&segments, subjects, calls, &mut random)?,
        blocks(&segments, calls, &mut random)?,
        records(corpus, calls, &mut random)?,
        traces_pruned(&segments, subjects, calls, &mut random)?,
    ];
    for (name, key) in filters(corpus.size.profile) {
        latencies.push(filter(name, key, &segments, subjects, calls, &mut random)?);
    }
    latencies.push(probes(&segments, calls)?);
    latencies.push(words(&segments, calls, &mut random)?);
    latencies.push(windows(&segments, subjects, calls, &mut random)?);
    Ok(latencies)
}

fn subject<'a>(subjects: &'a [Span], random: &mut Random) -> Result<&'a Span> {
    let index = usize::try_from(random.below(subjects.len() as u64))?;
    Ok(subjects.get(index).ok_or("no spans to ask for")?)
}

/// All spans of a trace, wherever they are: every segment is asked. Each trace twice, the second time when all others were
/// asked for meanwhile: then some of the blocks are kept.
fn traces(
    segments: &[Segment],
    subjects: &[Span],
    calls: usize,
    random: &mut Random,
) -> Result<[Latency; 2]> {
    let mut wanted = Vec::new();
    for _ in 0..calls {
        wanted.push(subject(subjects, random)?.trace_id.as_str());
    }
    let ask = |name| -> Result<Latency> {
        let mut latency = Latency::new(name);
        for trace_id in &wanted {
            latency.call(|| trace(segments.iter(), trace_id))?;
        }
        Ok(latency)
    };
    Ok([
        ask("trace, every segment asked")?,
        ask("trace, every segment asked again")?,
    ])
}

/// What the trace indexes alone take: no record is read.
fn trace_candidates(
    segments: &[Segment],
    subjects: &[Span],
    calls: usize,
    random: &mut Random,
) -> Result<Latency> {
    let mut latency = Latency::new("trace, index only");
    for _ in 0..calls {
        let trace_id = &subject(subjects, random)?.trace_id;
        latency.call(|| {
            let candidates = segments
                .iter()
                .map(|segment| segment.trace_candidate_offsets(trace_id).len() as u64);
            Ok(candidates.sum())
        })?;
    }
    Ok(latency)
}

/// What a block takes: read, compared with its checksum, and decoded whole.
fn blocks(segments: &[Segment], calls: usize, random: &mut Random) -> Result<Latency> {
    let mut latency = Latency::new("one block, decoded whole");
    for _ in 0..calls {
        let segment = usize::try_from(random.below(segments.len() as u64))?;
        let segment = segments.get(segment).ok_or("no segments")?;
        let ordinal = usize::try_from(random.below(segment.record_count() as u64))?;
        latency.call(|| {
            let records = segment.scan_range(ordinal..ordinal + 1);
            Ok(black_box(records.collect::<Result<Vec<_>, _>>()?).len() as u64)
        })?;
    }
    Ok(latency)
}

/// What a lookup cannot do without: a block read, compared with its checksum, and decoded as far as one record needs it.
/// With segments that keep no blocks.
fn records(corpus: &Corpus, calls: usize, random: &mut Random) -> Result<Latency> {
    let segments = corpus.open_with(0)?;
    let mut latency = Latency::new("one record, not parsed");
    for _ in 0..calls {
        let segment = usize::try_from(random.below(segments.len() as u64))?;
        let segment = segments.get(segment).ok_or("no segments")?;
        let ordinal = usize::try_from(random.below(segment.record_count() as u64))?;
        latency.call(|| Ok(u64::from(segment.reader().record(ordinal)?.timestamp() > 0)))?;
    }
    Ok(latency)
}

/// The same when the caller knows about when the trace was: segments of other times are skipped.
fn traces_pruned(
    segments: &[Segment],
    subjects: &[Span],
    calls: usize,
    random: &mut Random,
) -> Result<Latency> {
    let mut latency = Latency::new("trace, within a window");
    for _ in 0..calls {
        let wanted = subject(subjects, random)?;
        let since = wanted.start_time_ns.saturating_sub(WINDOW_NS);
        let until = wanted.start_time_ns.saturating_add(WINDOW_NS);
        let near = segments
            .iter()
            .filter(|segment| segment.may_contain_timestamps(Some(since), Some(until)));
        latency.call(|| trace(near, &wanted.trace_id))?;
    }
    Ok(latency)
}

fn trace<'a>(segments: impl Iterator<Item = &'a Segment>, trace_id: &str) -> Result<u64> {
    let mut found = 0;
    for segment in segments {
        segment.each_of_trace(trace_id, |_, _, record| -> Result<()> {
            black_box(Span::from_json(record.payload())?);
            found += 1;
            Ok(())
        })?;
    }
    if found == 0 {
        return Err(format!("trace {trace_id} was not found").into());
    }
    Ok(found)
}

/// Attribute filters from frequent to rare values.
fn filters(profile: Profile) -> &'static [(&'static str, &'static str)] {
    match profile {
        Profile::Generic => &[
            ("attribute 1 of 7 roots, first 100", "http.status_code"),
            ("attribute 1 of 84 hosts, first 100", "host.name"),
            ("attribute unique", "request.id"),
        ],
        Profile::Llm => &[
            ("attribute 1 of 4 tools, first 100", "gen_ai.tool.name"),
            ("attribute one session", "session.id"),
            ("attribute unique", "gen_ai.tool.call.id"),
        ],
    }
}

/// The newest spans with one value of `key`: proposed by the index, confirmed by the record's pairs and then by the
/// span itself.
fn filter(
    name: &'static str,
    key: &'static str,
    segments: &[Segment],
    subjects: &[Span],
    calls: usize,
    random: &mut Random,
) -> Result<Latency> {
    let mut latency = Latency::new(name);
    let values: Vec<&Value> = subjects
        .iter()
        .filter_map(|span| span.attributes.get(key))
        .collect();
    for _ in 0..calls {
        let index = usize::try_from(random.below(values.len() as u64))?;
        let value = *values.get(index).ok_or("no values to ask for")?;
        latency.call(|| first_with(segments, key, value))?;
    }
    Ok(latency)
}

fn first_with(segments: &[Segment], key: &str, value: &Value) -> Result<u64> {
    let texts = record::attribute_texts(value);
    let mut found = 0;
    for segment in segments.iter().rev() {
        let mut reader = segment.reader();
        let mut offsets: Vec<u64> = texts
            .iter()
            .flat_map(|text| segment.attribute_candidate_offsets(key, text))
            .collect();
        offsets.sort_unstable();
        offsets.dedup();
        // The newest first, also within a segment.
        for offset in offsets.into_iter().rev() {
            let span = Span::from_json(reader.record_at(offset)?.payload())?;
            if span
                .attributes
                .get(key)
                .is_some_and(|stored| record::value_matches(stored, value))
            {
                black_box(span);
                found += 1;
                if found == LIMIT {
                    return Ok(LIMIT as u64);
                }
            }
        }
    }
    Ok(found as u64)
}

/// Which records may hold a rare word: no record is read.
fn probes(segments: &[Segment], calls: usize) -> Result<Latency> {
    let mut latency = Latency::new("word, candidates only");
    for number in 0..calls as u64 {
        let query = Query::new(&rare_word(number));
        latency.call(|| {
            let mut ranges = 0;
            for segment in segments {
                ranges += segment.content_candidates(&query)?.len() as u64;
            }
            Ok(ranges)
        })?;
    }
    Ok(latency)
}

/// The newest spans with a rare word.
fn words(segments: &[Segment], calls: usize, random: &mut Random) -> Result<Latency> {
    let mut latency = Latency::new("word, first 100");
    // Most records of a candidate block are read in vain, so this takes long.
    for _ in 0..calls / 10 {
        let query = Query::new(&rare_word(random.below(RARE_WORDS)));
        latency.call(|| first_holding(segments, &query))?;
    }
    Ok(latency)
}

fn first_holding(segments: &[Segment], query: &Query) -> Result<u64> {
    let mut found = 0;
    for segment in segments.iter().rev() {
        let mut reader = segment.reader();
        for ordinal in newest_first(segment.content_candidates(query)?) {
            let span = Span::from_json(reader.record(ordinal)?.payload())?;
            if query.matches(&span) {
                found += 1;
                if found == LIMIT {
                    return Ok(LIMIT as u64);
                }
            }
        }
    }
    Ok(found as u64)
}

fn newest_first(ranges: Vec<Range<usize>>) -> impl Iterator<Item = usize> {
    ranges.into_iter().rev().flat_map(Iterator::rev)
}

/// The first spans of a window of two seconds.
fn windows(
    segments: &[Segment],
    subjects: &[Span],
    calls: usize,
    random: &mut Random,
) -> Result<Latency> {
    let mut latency = Latency::new("window of 2 s, first 100");
    for _ in 0..calls {
        let since = subject(subjects, random)?.start_time_ns;
        latency.call(|| window(segments, since))?;
    }
    Ok(latency)
}

fn window(segments: &[Segment], since: u64) -> Result<u64> {
    let mut found = 0;
    for segment in segments {
        let ordinals = segment.ordinal_range_for_window(Some(since), Some(since + WINDOW_NS))?;
        let mut reader = segment.reader();
        for ordinal in ordinals.take(LIMIT - found) {
            black_box(Span::from_json(reader.record(ordinal)?.payload())?);
            found += 1;
        }
        if found == LIMIT {
            break;
        }
    }
    Ok(found as u64)
}
