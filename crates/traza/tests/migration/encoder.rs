//! Small segments of the old versions, for what no released one is small or odd enough. Their query indexes are left
//! empty: no migration reads those.

use durable::Field;
use durable::checksum::crc32;
use traza::migration::v6::header_v6;
use traza::migration::v7::header_v7;
use traza::segment::layout::{BLOCK_RAW_FLAG, MAGIC, directory_entry, record_header};
use traza::span::Span;

/// A span of a made-up trace.
pub(crate) fn span(trace: &str, start: u64, text: &str) -> Span {
    let json = format!(
        r#"{{"trace_id":"{trace}","span_id":"s{start}","name":"chat","service":"bot","start_time_ns":{start},
            "end_time_ns":{},"attributes":{{"text":"{text}"}}}}"#,
        start + 5
    );
    Span::from_json(json.as_bytes()).unwrap()
}

fn put(bytes: &mut [u8], field: Field, value: u64) {
    field.put(bytes, &value.to_le_bytes()[..field.len]).unwrap();
}

/// The record stream, and where each record begins.
fn stream(spans: &[Span]) -> (Vec<u8>, Vec<u64>) {
    let (mut stream, mut offsets) = (Vec::new(), Vec::new());
    for span in spans {
        offsets.push(stream.len() as u64);
        let payload = span.to_json();
        let mut head = vec![0; record_header::LEN];
        put(&mut head, record_header::TIMESTAMP, span.start_time_ns);
        put(
            &mut head,
            record_header::TRACE_ID_LEN,
            span.trace_id.len() as u64,
        );
        put(&mut head, record_header::PAYLOAD_LEN, payload.len() as u64);
        stream.extend_from_slice(&head);
        stream.extend_from_slice(span.trace_id.as_bytes());
        stream.extend_from_slice(payload.as_bytes());
    }
    (stream, offsets)
}

fn table(offsets: &[u64]) -> Vec<u8> {
    offsets
        .iter()
        .flat_map(|offset| offset.to_le_bytes())
        .collect()
}

pub(crate) fn v6(spans: &[Span]) -> Vec<u8> {
    let (stream, offsets) = stream(spans);
    let table = table(&offsets);
    let mut file = vec![0; header_v6::LEN];
    file[..8].copy_from_slice(&MAGIC);
    let records = header_v6::LEN as u64;
    let behind_records = records + stream.len() as u64;
    let behind_table = behind_records + table.len() as u64;
    for (field, value) in [
        (header_v6::VERSION, 6),
        (header_v6::HEADER_LEN, records),
        (header_v6::RECORD_COUNT, offsets.len() as u64),
        (header_v6::RECORDS_OFFSET, records),
        (header_v6::RECORDS_LEN, stream.len() as u64),
        (header_v6::OFFSETS_OFFSET, behind_records),
        (header_v6::OFFSETS_LEN, table.len() as u64),
        (header_v6::TRACE_OFFSET, behind_table),
        (header_v6::ATTRIBUTE_OFFSET, behind_table),
        (header_v6::CONTENT_OFFSET, behind_table),
    ] {
        put(&mut file, field, value);
    }
    [file, stream, table].concat()
}

pub(crate) fn v7(spans: &[Span]) -> Vec<u8> {
    let (stream, offsets) = stream(spans);
    let table = table(&offsets);
    let mut entry = vec![0; directory_entry::LEN];
    let stored_len = u64::from(BLOCK_RAW_FLAG) | stream.len() as u64;
    put(&mut entry, directory_entry::STORED_LEN, stored_len);
    put(
        &mut entry,
        directory_entry::CRC32,
        u64::from(crc32(&stream)),
    );
    put(
        &mut entry,
        directory_entry::MIN_TIMESTAMP,
        spans[0].start_time_ns,
    );
    let mut file = vec![0; header_v7::LEN];
    file[..8].copy_from_slice(&MAGIC);
    let records = header_v7::LEN as u64;
    let directory = records + stream.len() as u64;
    let behind_directory = directory + entry.len() as u64;
    let behind_table = behind_directory + table.len() as u64;
    for (field, value) in [
        (header_v7::VERSION, 7),
        (header_v7::HEADER_LEN, records),
        (header_v7::CODEC, 1),
        (header_v7::RECORD_COUNT, offsets.len() as u64),
        (header_v7::RECORDS_OFFSET, records),
        (header_v7::RECORDS_LEN, stream.len() as u64),
        (header_v7::OFFSETS_OFFSET, behind_directory),
        (header_v7::OFFSETS_LEN, table.len() as u64),
        (header_v7::TRACE_OFFSET, behind_table),
        (header_v7::ATTRIBUTE_OFFSET, behind_table),
        (header_v7::MIN_TIMESTAMP, spans[0].start_time_ns),
        (
            header_v7::MAX_TIMESTAMP,
            spans[spans.len() - 1].start_time_ns,
        ),
        (header_v7::CONTENT_OFFSET, behind_table),
        (header_v7::DIRECTORY_OFFSET, directory),
        (header_v7::DIRECTORY_LEN, entry.len() as u64),
        (header_v7::LOGICAL_LEN, stream.len() as u64),
    ] {
        put(&mut file, field, value);
    }
    [file, stream, entry, table].concat()
}
