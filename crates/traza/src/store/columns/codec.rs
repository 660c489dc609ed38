//! The bytes of a column file.
#![warn(clippy::arithmetic_side_effects, clippy::as_conversions)]

use durable::checksum::crc32;
use durable::{Cursor, Field, Short};

use super::layout::{CHECKSUM_LEN, COLUMN_COUNT, FORMAT_VERSION, MAGIC, prologue};
use super::packed::Packed;
use super::{Binding, Columns};

/// Why a file is not the columns of a segment. Whichever it is, they are made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// It ends too early, or has bytes left over.
    #[error("columns cut off or too long: {0:?}")]
    Short(Short),
    /// A word of the front is not the one that the segment asks for.
    #[error("columns with {field}={found}, expected {expected}")]
    Word {
        /// Which word.
        field: &'static str,
        /// What it is.
        found: u64,
        /// What it has to be.
        expected: u64,
    },
    /// The bytes are not those that were written.
    #[error("columns with a wrong checksum")]
    Checksum,
    /// A text is not UTF-8, or not above the one before it.
    #[error("columns with a wrong text at byte {offset}")]
    Text {
        /// Where it ends.
        offset: usize,
    },
    /// Words of a column have no possible length.
    #[error("columns with words of {found} bytes")]
    Width {
        /// Their length.
        found: u8,
    },
}

impl From<Short> for ColumnsError {
    fn from(short: Short) -> Self {
        Self::Short(short)
    }
}

/// The words of the front and what they have to be.
fn words(binding: &Binding) -> [(Field, u64); 7] {
    [
        (prologue::VERSION, u64::from(FORMAT_VERSION)),
        (prologue::RESERVED, 0),
        (prologue::HEADER_CRC, u64::from(binding.header_crc)),
        (prologue::SEGMENT_LEN, binding.segment_len),
        (prologue::RECORD_COUNT, binding.record_count),
        (prologue::MIN_TIMESTAMP, binding.min_timestamp),
        (prologue::MAX_TIMESTAMP, binding.max_timestamp),
    ]
}

/// The file. Equal columns give equal bytes.
pub(crate) fn encode(columns: &Columns, binding: &Binding) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    for (field, word) in words(binding) {
        out.extend(word.to_le_bytes().iter().take(field.len));
    }
    put_len(&mut out, columns.dictionary.len());
    for text in &columns.dictionary {
        put_len(&mut out, text.len());
        out.extend_from_slice(text.as_bytes());
    }
    for column in columns.all() {
        column.put(&mut out);
    }
    let checksum = crc32(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// A length beyond 2^32 gives a file that is refused, and so made again each time.
fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

/// The columns in a file that must belong to what `binding` says. Takes memory only for what is there.
pub(crate) fn decode(bytes: &[u8], binding: &Binding) -> Result<Columns, ColumnsError> {
    let word = |field: Field| -> Result<u64, ColumnsError> {
        let mut word = [0; 8];
        let found = field.of(bytes)?;
        for (to, from) in word.iter_mut().zip(found) {
            *to = *from;
        }
        Ok(u64::from_le_bytes(word))
    };
    let magic = (prologue::MAGIC, u64::from_le_bytes(MAGIC));
    for (field, expected) in std::iter::once(magic).chain(words(binding)) {
        let found = word(field)?;
        if found != expected {
            let field = field.name;
            return Err(ColumnsError::Word {
                field,
                found,
                expected,
            });
        }
    }
    let (front, checksum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or(Short {
        position: 0,
        wanted: CHECKSUM_LEN,
        left: bytes.len(),
    })?;
    if crc32(front) != u32::from_le_bytes(*checksum) {
        return Err(ColumnsError::Checksum);
    }
    let mut cursor = Cursor::new(front);
    cursor.bytes(prologue::LEN)?;
    let dictionary = take_dictionary(&mut cursor)?;
    // Bounded: the segment holds that many records.
    let count = usize::try_from(binding.record_count).unwrap_or(usize::MAX);
    let mut columns = Vec::with_capacity(COLUMN_COUNT);
    for _ in 0..COLUMN_COUNT {
        columns.push(Packed::take(&mut cursor, count)?);
    }
    let (position, left) = (cursor.position(), cursor.rest().len());
    cursor.finish()?;
    let columns = columns.try_into().map_err(|_| Short {
        position,
        wanted: COLUMN_COUNT,
        left,
    })?;
    Ok(Columns::assemble(count, dictionary, columns))
}

/// Texts are taken until there are enough, or no more bytes: their count sizes nothing.
fn take_dictionary(cursor: &mut Cursor<'_>) -> Result<Box<[Box<str>]>, ColumnsError> {
    let mut texts: Vec<Box<str>> = Vec::new();
    for _ in 0..cursor.u32()? {
        let len = usize::try_from(cursor.u32()?).unwrap_or(usize::MAX);
        let bytes = cursor.bytes(len)?;
        let offset = cursor.position();
        let text = std::str::from_utf8(bytes).map_err(|_| ColumnsError::Text { offset })?;
        if texts.last().is_some_and(|last| last.as_ref() >= text) {
            return Err(ColumnsError::Text { offset });
        }
        texts.push(text.into());
    }
    Ok(texts.into())
}

#[cfg(test)]
mod tests {
    use super::super::TextColumn;
    use super::super::build::{Builder, identity};
    use super::*;
    use crate::llm::Facts;
    use crate::span::Span;

    fn spans() -> Vec<Span> {
        let json: &[&[u8]] = &[
            br#"{"trace_id":"t","span_id":"a","name":"chat","service":"bot","start_time_ns":5,
                "end_time_ns":9,"status":"error","attributes":{"llm.model":"m","session.id":7,
                "gen_ai.system":"p","gen_ai.usage.input_tokens":3,"llm.cost_usd":0.25}}"#,
            br#"{"trace_id":"t","span_id":"b","$tenant":"acme","name":"tool","service":"","start_time_ns":6,
                "end_time_ns":2,"attributes":{"gen_ai.conversation.id":"c"}}"#,
            br#"{"trace_id":"u","span_id":"a","name":"chat","service":"bot","start_time_ns":70000,
                "end_time_ns":18446744073709551615,"attributes":{"llm.total_tokens":9,"llm.completion_tokens":2}}"#,
        ];
        json.iter()
            .map(|span| Span::from_json(span).unwrap())
            .collect()
    }

    fn columns() -> (Columns, Binding) {
        let mut builder = Builder::default();
        for span in spans() {
            builder.push(&span, &Facts::of(&span));
        }
        let binding = Binding {
            segment_len: 1_000,
            record_count: 3,
            min_timestamp: 5,
            max_timestamp: 70_000,
            header_crc: 77,
        };
        (builder.finish(), binding)
    }

    #[test]
    fn columns_tell_what_the_spans_do_also_when_they_come_from_a_file() {
        let (made, binding) = columns();
        let bytes = encode(&made, &binding);
        let read = decode(&bytes, &binding).unwrap();
        assert_eq!(read, made);
        assert_eq!(encode(&read, &binding), bytes);
        for (ordinal, span) in spans().iter().enumerate() {
            assert_eq!(read.start_ns(ordinal), span.start_time_ns);
            assert_eq!(read.end_ns(ordinal), span.end_time_ns);
            assert_eq!(read.identity(ordinal), identity(span));
            assert_eq!(read.facts(ordinal), Facts::of(span));
            for (column, text) in [
                (TextColumn::Tenant, &span.tenant),
                (TextColumn::Service, &span.service),
                (TextColumn::Name, &span.name),
                (TextColumn::Status, &span.status),
            ] {
                assert_eq!(read.text(column, ordinal), text);
                assert_eq!(read.id_of(text), Some(read.text_id(column, ordinal)));
            }
        }
        assert_eq!(read.id_of("nobody"), None);
        assert_eq!(read.window(Some(6), Some(69_999)), 1..2);
        assert_eq!(read.window(None, None), 0..3);
        assert_eq!(read.window(Some(u64::MAX), Some(0)), 3..3);
    }

    #[test]
    fn identities_that_only_look_alike_when_joined_are_told_apart() {
        let span = |trace: &str, id: &str| Span {
            trace_id: trace.into(),
            span_id: id.into(),
            ..Span::default()
        };
        assert_ne!(identity(&span("a\0b", "c")), identity(&span("a", "b\0c")));
        let acme = Span {
            tenant: "acme".into(),
            ..span("a", "b")
        };
        assert_ne!(identity(&acme), identity(&span("a", "b")));
        assert_eq!(identity(&span("a", "b")), identity(&span("a", "b")));
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let (made, binding) = columns();
        let bytes = encode(&made, &binding);
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(decode(&changed, &binding).is_err(), "byte {at}");
            assert!(decode(&bytes[..at], &binding).is_err(), "cut at {at}");
        }
        let other = Binding {
            header_crc: 78,
            ..binding
        };
        let refused = decode(&bytes, &other).unwrap_err();
        assert!(matches!(
            refused,
            ColumnsError::Word {
                field: "HEADER_CRC",
                ..
            }
        ));
        assert!(decode(&[&bytes[..], b"\0"].concat(), &binding).is_err());
    }

    #[test]
    fn forged_bytes_under_a_right_checksum_do_no_harm() {
        let (made, binding) = columns();
        let bytes = encode(&made, &binding);
        let end = bytes.len() - CHECKSUM_LEN;
        for at in prologue::LEN..end {
            for change in [0x01, 0x80, 0xff] {
                let mut forged = bytes.clone();
                forged[at] ^= change;
                let checksum = crc32(&forged[..end]).to_le_bytes();
                forged[end..].copy_from_slice(&checksum);
                let Ok(columns) = decode(&forged, &binding) else {
                    continue;
                };
                for ordinal in 0..4 {
                    columns.facts(ordinal);
                    columns.duration_ns(ordinal);
                    columns.text(TextColumn::Session, ordinal);
                }
                assert!(columns.window(Some(6), Some(8)).end <= 3);
            }
        }
    }
}
