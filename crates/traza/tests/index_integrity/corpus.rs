//! The small segments that are damaged.

use traza::record::{Record, derive};
use traza::segment::{Codec, encode_with_codec};
use traza::span::Span;

/// A span with a few attributes; `filler` repeated makes it as long as the blocks ask for.
fn span(index: u64, trace: u64, filler: usize) -> Record {
    let words = ["refund", "order", "cancel", "booking", "seat"];
    let word = words[usize::try_from(index).unwrap() % words.len()];
    let json = format!(
        r#"{{"trace_id":"trace-{trace}","span_id":"{index:04x}","name":"op-{}","service":"svc-{}",
            "start_time_ns":{},"end_time_ns":{},"attributes":{{"http.status_code":{},
            "model":"m-{}","note":"{word} {}"}}}}"#,
        index % 3,
        index % 2,
        1_000 + index * 10,
        1_005 + index * 10,
        200 + index % 2,
        index % 4,
        "filler ".repeat(filler),
    );
    derive(&Span::from_json(json.as_bytes()).unwrap())
}

/// Records of four traces, some so long that there are four compression blocks, the last but one holding
/// a single record that is longer than the target.
pub(crate) fn records() -> Vec<Record> {
    (0..14)
        .map(|index| {
            let filler = match index {
                4 => 12_000,
                9 => 24_000,
                _ => 1,
            };
            span(index, index % 4, filler)
        })
        .collect()
}

/// The records as a segment.
pub(crate) fn segment(codec: Codec) -> Vec<u8> {
    encode_with_codec(&records(), codec).unwrap()
}

/// A segment of many records, so that the content index has several blocks and its rows several pages.
pub(crate) fn wide_segment() -> (Vec<Record>, Vec<u8>) {
    let records: Vec<Record> = (0..1300).map(|index| span(index, index % 50, 40)).collect();
    let bytes = encode_with_codec(&records, Codec::Lz4).unwrap();
    (records, bytes)
}
