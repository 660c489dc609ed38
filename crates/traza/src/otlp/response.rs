//! Writes the answer to an export request: `ExportTraceServiceResponse`, which says how many spans were not kept, and why.

use crate::json::Value;

/// Why spans are not kept although nothing is wrong with them.
pub const SUPPRESSED_MESSAGE: &str = "suppressed by a pending erasure covering these spans";

/// The answer in JSON. `suppressed` spans were dropped because they are being erased.
///
/// ```
/// assert_eq!(traza::otlp::response_json(0), r#"{"partialSuccess":{}}"#);
/// ```
pub fn response_json(suppressed: u64) -> String {
    let mut partial = crate::json::Object::new();
    if suppressed > 0 {
        let message = Value::from(SUPPRESSED_MESSAGE);
        partial.insert("errorMessage".to_owned(), message);
        partial.insert("rejectedSpans".to_owned(), Value::from(suppressed));
    }
    let answer = [("partialSuccess".to_owned(), Value::Object(partial))];
    Value::Object(answer.into()).to_string()
}

/// The answer in protobuf: empty when every span was kept, else `partial_success` (field 1) with `rejected_spans` (1)
/// and `error_message` (2).
pub fn response_protobuf(suppressed: u64) -> Vec<u8> {
    if suppressed == 0 {
        return Vec::new();
    }
    let mut partial = vec![0x08];
    // The field is an int64, which no count of spans in memory exceeds.
    write_varint(suppressed.min(i64::MAX.unsigned_abs()), &mut partial);
    partial.push(0x12);
    write_varint(SUPPRESSED_MESSAGE.len() as u64, &mut partial);
    partial.extend(SUPPRESSED_MESSAGE.bytes());
    let mut answer = vec![0x0a];
    write_varint(partial.len() as u64, &mut answer);
    answer.extend(partial);
    answer
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            out.push(low & 0x7f);
            return;
        }
        out.push(low | 0x80);
    }
}
