//! Answers, as the types made from the published schema read them.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message as _;

use traza::otlp::{SUPPRESSED_MESSAGE, response_json, response_protobuf};

#[test]
fn an_answer_says_how_many_spans_were_not_kept_and_nothing_when_all_were() {
    assert_eq!(response_json(0), r#"{"partialSuccess":{}}"#);
    assert!(response_protobuf(0).is_empty());
    assert_eq!(
        response_json(3),
        r#"{"partialSuccess":{"errorMessage":"suppressed by a pending erasure covering these spans","rejectedSpans":3}}"#
    );
    for count in [1, 127, 128, 1 << 40, i64::MAX.unsigned_abs()] {
        let bytes = response_protobuf(count);
        let answer = ExportTraceServiceResponse::decode(bytes.as_slice()).unwrap();
        let partial = answer.partial_success.unwrap();
        assert_eq!(partial.rejected_spans.unsigned_abs(), count);
        assert_eq!(partial.error_message, SUPPRESSED_MESSAGE);
    }
}
