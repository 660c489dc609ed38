//! The bytes of a sidecar.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use std::collections::{BTreeMap, BTreeSet};

use durable::checksum::fnv1a_64;
use durable::{Cursor, Short};

use super::layout::{CHECKSUM_LEN, NO_SESSION_KEY, counters, prologue};
use super::prologue::check_sum;
use super::{Binding, Counters, Prologue, Rollup, RollupError, SessionId, SessionTotals, Totals};
use crate::llm::SessionKey;

/// The sidecar of a segment. Equal rollups give equal bytes.
///
/// A count or a text that is too long for the format, 2^32 or more, gives a sidecar that [`decode`] refuses.
pub fn encode(rollup: &Rollup, binding: &Binding) -> Vec<u8> {
    let prologue = Prologue {
        min_end_ns: rollup.min_end_ns,
        max_end_ns: rollup.max_end_ns,
    };
    let mut out = prologue.encode(binding).to_vec();
    let totals = &rollup.totals;
    for groups in [
        &totals.by_model,
        &totals.by_provider,
        &totals.by_service,
        &totals.by_day,
    ] {
        put_count(&mut out, groups.len());
        for (name, counters) in groups {
            put_text(&mut out, name);
            put_counters(&mut out, counters);
        }
    }
    put_count(&mut out, totals.sessions.len());
    for (id, session) in &totals.sessions {
        put_session_counters(&mut out, id, session);
    }
    put_count(&mut out, totals.sessions.len());
    for (id, session) in &totals.sessions {
        put_session_counters(&mut out, id, session);
        put_u64(&mut out, session.first_start_ns);
        put_u64(&mut out, session.last_end_ns);
        put_texts(&mut out, &session.trace_ids);
        put_u32(&mut out, index_of(session.key));
    }
    put_u64(
        &mut out,
        u64::try_from(rollup.key_hashes.len()).unwrap_or(u64::MAX),
    );
    for hash in &rollup.key_hashes {
        put_u64(&mut out, *hash);
    }
    put_texts(&mut out, &rollup.payload_references);
    let checksum = fnv1a_64(&out);
    put_u64(&mut out, checksum);
    out
}

/// The rollup in a sidecar that must belong to what `binding` says. Takes memory only for what is there.
///
/// # Errors
/// See [`RollupError`]; whichever it is, the sidecar has to be made again.
pub fn decode(bytes: &[u8], binding: &Binding) -> Result<Rollup, RollupError> {
    let Prologue {
        min_end_ns,
        max_end_ns,
    } = Prologue::decode(bytes, binding)?;
    let (front, checksum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or(Short {
        position: 0,
        wanted: CHECKSUM_LEN,
        left: bytes.len(),
    })?;
    check_sum(front, u64::from_le_bytes(*checksum))?;
    let mut cursor = Cursor::new(front);
    cursor.bytes(prologue::LEN)?;
    let mut totals = Totals {
        by_model: take_groups(&mut cursor)?,
        by_provider: take_groups(&mut cursor)?,
        by_service: take_groups(&mut cursor)?,
        by_day: take_groups(&mut cursor)?,
        sessions: BTreeMap::new(),
    };
    let by_session = take_map(&mut cursor, take_session_id, take_counters)?;
    totals.sessions = take_map(&mut cursor, take_session_id, take_session)?;
    let counters = totals
        .sessions
        .iter()
        .map(|(id, session)| (id, &session.counters));
    if !by_session.iter().eq(counters) {
        return Err(RollupError::Sessions);
    }
    let key_hashes = take_hashes(&mut cursor)?;
    let payload_references = take_texts(&mut cursor)?;
    cursor.finish()?;
    Ok(Rollup {
        totals,
        min_end_ns,
        max_end_ns,
        key_hashes,
        payload_references,
    })
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_count(out: &mut Vec<u8>, count: usize) {
    put_u32(out, u32::try_from(count).unwrap_or(u32::MAX));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_count(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn put_texts(out: &mut Vec<u8>, texts: &BTreeSet<String>) {
    put_count(out, texts.len());
    for text in texts {
        put_text(out, text);
    }
}

fn put_session_counters(out: &mut Vec<u8>, id: &SessionId, session: &SessionTotals) {
    put_text(out, &id.tenant);
    put_text(out, &id.session);
    put_counters(out, &session.counters);
}

/// The words in the order of their rows, which the tests hold to the table.
fn put_counters(out: &mut Vec<u8>, counters: &Counters) {
    for word in [
        counters.spans,
        counters.llm_calls,
        counters.prompt_tokens,
        counters.completion_tokens,
        counters.total_tokens,
        counters.cost_usd.to_bits(),
        counters.cost_derived_usd.to_bits(),
        counters.cost_metered_calls,
        counters.cost_derived_calls,
        counters.cost_unpriced_calls,
        counters.errors,
        counters.llm_duration_ns,
    ] {
        put_u64(out, word);
    }
}

fn take_counters(cursor: &mut Cursor<'_>) -> Result<Counters, RollupError> {
    let offset = cursor.position();
    let bytes = cursor.bytes(counters::LEN)?;
    let amount = |field: durable::Field| {
        let amount = f64::from_bits(field.u64(bytes)?);
        if amount.is_finite() {
            Ok(amount)
        } else {
            Err(RollupError::Amount { offset })
        }
    };
    Ok(Counters {
        spans: counters::SPANS.u64(bytes)?,
        llm_calls: counters::LLM_CALLS.u64(bytes)?,
        prompt_tokens: counters::PROMPT_TOKENS.u64(bytes)?,
        completion_tokens: counters::COMPLETION_TOKENS.u64(bytes)?,
        total_tokens: counters::TOTAL_TOKENS.u64(bytes)?,
        cost_usd: amount(counters::COST_USD)?,
        cost_derived_usd: amount(counters::COST_DERIVED_USD)?,
        cost_metered_calls: counters::COST_METERED_CALLS.u64(bytes)?,
        cost_derived_calls: counters::COST_DERIVED_CALLS.u64(bytes)?,
        cost_unpriced_calls: counters::COST_UNPRICED_CALLS.u64(bytes)?,
        errors: counters::ERRORS.u64(bytes)?,
        llm_duration_ns: counters::LLM_DURATION.u64(bytes)?,
    })
}

/// A u32 count and as many entries, each above the one before it. The count sizes nothing: entries are taken until there
/// are enough, or no more bytes.
fn take_map<K: Ord, V>(
    cursor: &mut Cursor<'_>,
    take_key: impl Fn(&mut Cursor<'_>) -> Result<K, RollupError>,
    take_value: impl Fn(&mut Cursor<'_>) -> Result<V, RollupError>,
) -> Result<BTreeMap<K, V>, RollupError> {
    let mut entries = BTreeMap::new();
    for _ in 0..cursor.u32()? {
        let key = take_key(cursor)?;
        let offset = cursor.position();
        let value = take_value(cursor)?;
        if entries
            .last_key_value()
            .is_some_and(|(last, _)| *last >= key)
        {
            return Err(RollupError::Order { offset });
        }
        entries.insert(key, value);
    }
    Ok(entries)
}

fn take_groups(cursor: &mut Cursor<'_>) -> Result<BTreeMap<String, Counters>, RollupError> {
    take_map(cursor, take_text, take_counters)
}

fn take_texts(cursor: &mut Cursor<'_>) -> Result<BTreeSet<String>, RollupError> {
    let texts = take_map(cursor, take_text, |_| Ok(()))?;
    Ok(texts.into_keys().collect())
}

fn take_text(cursor: &mut Cursor<'_>) -> Result<String, RollupError> {
    let len = cursor.u32()?;
    let offset = cursor.position();
    // Where an address has fewer bits, no text of such a length is there either.
    let bytes = cursor.bytes(usize::try_from(len).unwrap_or(usize::MAX))?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(RollupError::Utf8 { offset }),
    }
}

fn take_session_id(cursor: &mut Cursor<'_>) -> Result<SessionId, RollupError> {
    Ok(SessionId {
        tenant: take_text(cursor)?,
        session: take_text(cursor)?,
    })
}

fn take_session(cursor: &mut Cursor<'_>) -> Result<SessionTotals, RollupError> {
    Ok(SessionTotals {
        counters: take_counters(cursor)?,
        first_start_ns: cursor.u64()?,
        last_end_ns: cursor.u64()?,
        trace_ids: take_texts(cursor)?,
        key: key_at(cursor.u32()?)?,
    })
}

fn take_hashes(cursor: &mut Cursor<'_>) -> Result<Vec<u64>, RollupError> {
    let count = usize::try_from(cursor.u64()?).unwrap_or(usize::MAX);
    let (words, _) = cursor.bytes(count.saturating_mul(8))?.as_chunks();
    let hashes: Vec<u64> = words.iter().copied().map(u64::from_le_bytes).collect();
    if hashes.is_sorted() {
        Ok(hashes)
    } else {
        let offset = cursor.position();
        Err(RollupError::Order { offset })
    }
}

fn index_of(key: Option<SessionKey>) -> u32 {
    let mut indexed = SessionKey::ALL.into_iter().zip(0..);
    indexed
        .find(|(known, _)| Some(*known) == key)
        .map_or(NO_SESSION_KEY, |(_, index)| index)
}

fn key_at(found: u32) -> Result<Option<SessionKey>, RollupError> {
    if found == NO_SESSION_KEY {
        return Ok(None);
    }
    let mut indexed = SessionKey::ALL.into_iter().zip(0..);
    match indexed.find(|(_, index)| *index == found) {
        Some((key, _)) => Ok(Some(key)),
        None => Err(RollupError::SessionKey { found }),
    }
}
