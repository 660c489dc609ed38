//! The encodings of export requests.

use traza::span::Span;

/// How an export request is spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// Whatever is not said to be protobuf is read as JSON.
    pub(crate) fn of(content_type: Option<&str>) -> Self {
        let content_type = content_type.unwrap_or_default().trim().to_ascii_lowercase();
        if content_type.starts_with("application/x-protobuf") {
            Self::Protobuf
        } else {
            Self::Json
        }
    }
}

/// The spans of an export request, or what is wrong with it.
pub(crate) fn decode(encoding: Encoding, body: &[u8]) -> Result<Vec<Span>, String> {
    match encoding {
        Encoding::Json => traza::otlp::spans_from_json(body).map_err(|error| error.to_string()),
        Encoding::Protobuf => {
            traza::otlp::spans_from_protobuf(body).map_err(|error| error.to_string())
        }
    }
}
