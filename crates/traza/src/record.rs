//! The record: what a segment stores of a span, and what it indexes
//! (`docs/formats/traza-segment.md`, records and their derivation).

use std::ops::ControlFlow;

use crate::json::Value;
use crate::span::Span;

/// Attribute key under which every record is indexed by its span's service.
pub const SERVICE_KEY: &str = "\0service";
/// Attribute key under which every record is indexed by its span's name.
pub const NAME_KEY: &str = "\0name";
/// Attribute key under which a record is indexed by its span's tenant, unless that is the default one.
pub const TENANT_KEY: &str = "\0tenant";

/// One record, ready to be encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// What records are sorted by: the start of the span in nanoseconds since the Unix epoch.
    pub timestamp: u64,
    /// The trace that the record is found by.
    pub trace_id: String,
    /// What the record is found by, key by key.
    pub attributes: Attributes,
    /// The canonical JSON of the span. An encoder takes any bytes.
    pub payload: Vec<u8>,
    /// The text whose words the record is found by.
    pub content: Content,
}

/// Derives the record of a span. This derivation is part of the format: it must give the stored digests again
/// for every stored payload.
///
/// ```
/// use traza::{record, span::Span};
/// let span = Span::from_json(br#"{"trace_id":"t","span_id":"s","name":"n","service":"bot",
///     "start_time_ns":1,"end_time_ns":2,"attributes":{"model":"mistral","tokens":7}}"#)?;
/// let record = record::derive(&span);
/// assert_eq!(record.attributes.text("model"), Some("\"mistral\""));
/// assert_eq!(record.attributes.text("tokens"), Some("7"));
/// assert_eq!(record.attributes.text(record::SERVICE_KEY), Some("bot"));
/// # Ok::<(), traza::span::SpanError>(())
/// ```
pub fn derive(span: &Span) -> Record {
    Deriver::default().derive(span)
}

/// [`derive()`] for many spans: what a record is made in is used for the next one, so that no record takes more memory than
/// it needs.
#[derive(Debug, Default)]
pub struct Deriver {
    payload: String,
    pairs: Vec<u8>,
}

impl Deriver {
    /// The record of a span.
    pub fn derive(&mut self, span: &Span) -> Record {
        let mut content_len = 0;
        // The visitors never break.
        let _: ControlFlow<()> = span.each_text(&mut |text| {
            content_len += text.len() + 1;
            ControlFlow::Continue(())
        });
        let mut content = Content::with_capacity(content_len);
        let _: ControlFlow<()> = span.each_text(&mut |text| {
            content.push(text);
            ControlFlow::Continue(())
        });
        self.payload.clear();
        self.pairs.clear();
        let mut attributes = Attributes {
            bytes: std::mem::take(&mut self.pairs),
            ..Attributes::default()
        };
        // The one key that sorts before the reserved ones.
        if let Some(value) = span.attributes.get("") {
            attributes.push("", &value.to_string());
        }
        attributes.push(NAME_KEY, &span.name);
        attributes.push(SERVICE_KEY, &span.service);
        if !span.tenant.is_empty() {
            attributes.push(TENANT_KEY, &span.tenant);
        }
        // Every other key that begins with NUL is kept out, so nothing can pass for a reserved one.
        span.write_noting(&mut self.payload, |key, text| {
            if !key.is_empty() && !key.starts_with('\0') {
                attributes.push(key, text);
            }
        });
        let exact = attributes.bytes.as_slice().to_vec();
        self.pairs = std::mem::replace(&mut attributes.bytes, exact);
        Record {
            timestamp: span.start_time_ns,
            trace_id: span.trace_id.to_string(),
            attributes,
            payload: self.payload.as_bytes().to_vec(),
            content,
        }
    }
}

/// The indexed attributes of a record: for each key the index text of its value, sorted by the bytes of the keys.
///
/// The index text is canonical JSON for a user's attribute and the raw text for a reserved key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// All pairs in one allocation. For each one the length of the value as u32, and then what the digest is of: the
    /// length of the key as u32, the key, the value.
    bytes: Vec<u8>,
    count: usize,
    is_too_large: bool,
}

/// An attribute as the encoder sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawPair<'a> {
    /// The key.
    pub(crate) key: &'a [u8],
    /// What the digest of the pair is of.
    pub(crate) hashed: &'a [u8],
}

const LEN_LEN: usize = 4;

impl Attributes {
    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keys and index texts, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.raw().map(|pair| {
            let value = pair
                .hashed
                .get(LEN_LEN + pair.key.len()..)
                .unwrap_or_default();
            // Both were put in as texts.
            let text = |bytes| std::str::from_utf8(bytes).unwrap_or_default();
            (text(pair.key), text(value))
        })
    }

    /// The pairs without proving again that they are texts.
    #[inline]
    pub(crate) fn raw(&self) -> impl Iterator<Item = RawPair<'_>> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (value_len, behind) = rest.split_first_chunk::<LEN_LEN>()?;
            let (key_len, from_key) = behind.split_first_chunk::<LEN_LEN>()?;
            let key_len = u32::from_le_bytes(*key_len) as usize;
            let len = LEN_LEN + key_len + u32::from_le_bytes(*value_len) as usize;
            let (hashed, next) = behind.split_at_checked(len)?;
            rest = next;
            Some(RawPair {
                key: from_key.get(..key_len)?,
                hashed,
            })
        })
    }

    /// The index text under `key`.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.iter()
            .find_map(|(found, text)| (found == key).then_some(text))
    }

    /// The memory that all pairs are in.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// True when a pair was left out because a text of it reaches 4 GiB: the record cannot be encoded.
    pub(crate) fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// Appends a pair whose key sorts behind all others.
    fn push(&mut self, key: &str, value: &str) {
        let (Ok(key_len), Ok(value_len)) = (u32::try_from(key.len()), u32::try_from(value.len()))
        else {
            self.is_too_large = true;
            return;
        };
        self.bytes.extend_from_slice(&value_len.to_le_bytes());
        self.bytes.extend_from_slice(&key_len.to_le_bytes());
        self.bytes.extend_from_slice(key.as_bytes());
        self.bytes.extend_from_slice(value.as_bytes());
        self.count += 1;
    }
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: AsRef<str>, V: AsRef<str>> FromIterator<(K, V)> for Attributes {
    /// Sorts the pairs; of several with one key the last counts.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(K, V)> = pairs.into_iter().collect();
        pairs.sort_by(|(a, _), (b, _)| a.as_ref().cmp(b.as_ref()));
        let mut attributes = Self::default();
        let mut pairs = pairs.iter().peekable();
        while let Some((key, value)) = pairs.next() {
            if pairs
                .peek()
                .is_none_or(|(next, _)| next.as_ref() != key.as_ref())
            {
                attributes.push(key.as_ref(), value.as_ref());
            }
        }
        attributes
    }
}

/// The searchable text of a record, or that it has none.
///
/// The texts are kept in one piece with a line break between them, which separates words as their ends do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Content {
    text: String,
    is_present: bool,
}

impl Content {
    /// No text yet, with room for so many bytes of it.
    fn with_capacity(len: usize) -> Self {
        Self {
            text: String::with_capacity(len),
            is_present: false,
        }
    }

    /// Adds a text. An empty one counts as text too: a segment in which no record has any has no content index.
    pub fn push(&mut self, text: &str) {
        if self.is_present {
            self.text.push('\n');
        }
        self.is_present = true;
        self.text.push_str(text);
    }

    /// All texts with line breaks between them; `None` when there was none.
    pub fn text(&self) -> Option<&str> {
        self.is_present.then_some(self.text.as_str())
    }
}

impl<T: AsRef<str>> FromIterator<T> for Content {
    fn from_iter<I: IntoIterator<Item = T>>(texts: I) -> Self {
        let mut content = Self::default();
        for text in texts {
            content.push(text.as_ref());
        }
        content
    }
}

/// True when an attribute filter for `wanted` takes the value `stored`.
///
/// Strings, numbers and booleans are equal when their text is, whatever their type: `200` takes `"200"`.
/// Everything else is equal as a value.
pub fn value_matches(stored: &Value, wanted: &Value) -> bool {
    match (scalar_text(stored), scalar_text(wanted)) {
        (Some(stored), Some(wanted)) => stored == wanted,
        (None, None) => stored == wanted,
        _ => false,
    }
}

/// The index texts under which a value that [`value_matches`] `wanted` may be stored: what to look up in an
/// attribute index.
pub fn attribute_texts(wanted: &Value) -> Vec<String> {
    let Some(text) = scalar_text(wanted) else {
        return vec![wanted.to_string()];
    };
    let mut texts = vec![Value::from(text.as_str()).to_string()];
    if is_scalar_spelling(&text) {
        texts.push(text);
    }
    texts
}

/// The text of a string, number or boolean.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.to_string()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// True when a number or a boolean is written just like this.
fn is_scalar_spelling(text: &str) -> bool {
    match Value::parse(text.as_bytes()) {
        Ok(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string() == text,
        _ => false,
    }
}
