//! Big attribute strings, kept out of the spans: blobs under their content address
//! (`docs/formats/traza-segment.md`, payload blobs). No files.

use std::fmt;
use std::str::FromStr;

use durable::checksum::crc32;
use durable::digest::{from_hex, hex, sha256};
use durable::layout;

use crate::json::{Object, Value};
use crate::segment::codec::{Codec, len_u64};
use crate::span::{PAYLOAD_MEMBER, Span};

/// First eight bytes of every blob.
pub const MAGIC: [u8; 8] = *b"TRZBLOB1";
/// How many characters of an offloaded text its reference shows.
pub const PREVIEW_CHARS: usize = 256;
/// The member of a reference object that says that its payload was erased.
pub const ERASED_MEMBER: &str = "erased";
/// The member of a reference object that says how long its payload is, in bytes.
pub const LEN_MEMBER: &str = "bytes";
const ADDRESS_PREFIX: &str = "sha256/";

layout! {
    /// The head of a blob; its body follows.
    pub mod blob_header [24] {
        MAGIC: [0; 8] "File identity, `TRZBLOB1`.",
        CODEC: [8; 4] "Codec of the body, u32: 0 raw, 1 LZ4 block format.",
        CONTENT_LEN: [12; 8] "Length of the content before compression, u64.",
        CRC32: [20; 4] "CRC-32 of the body, u32.",
    }
}

/// Why bytes are not a blob.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// They end inside the header.
    #[error(
        "payload blob cut off: {len} bytes are shorter than its header of {}",
        blob_header::LEN
    )]
    CutOff {
        /// How many bytes there are.
        len: usize,
    },
    /// They do not begin with [`MAGIC`].
    #[error("not a payload blob: it does not begin with TRZBLOB1")]
    Magic,
    /// The codec is none that this build knows.
    #[error("payload blob with codec={found}, which this build cannot read")]
    Codec {
        /// The codec word.
        found: u32,
    },
    /// The body differs from what was written.
    #[error("corrupt payload blob: body checksum is {computed:08x}, header says {stored:08x}")]
    Checksum {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// The declared length is not what the body holds.
    #[error(
        "corrupt payload blob: content length {declared} does not fit its body of {body_len} bytes"
    )]
    ContentLen {
        /// What the header says.
        declared: u64,
        /// Length of the stored body.
        body_len: u64,
    },
    /// The body does not decompress to the declared length.
    #[error("corrupt payload blob: the body does not decompress to {declared} bytes")]
    Decompress {
        /// What the header says.
        declared: u64,
    },
    /// The content is not what the address names.
    #[error("payload blob under {wanted} holds the content of {found}")]
    Address {
        /// Under which address it was looked for.
        wanted: ContentAddress,
        /// Its own address.
        found: ContentAddress,
    },
}

/// The name of a content: its SHA-256. Written `sha256/` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContentAddress([u8; 32]);

impl ContentAddress {
    /// The address of `content`.
    pub fn of(content: &[u8]) -> Self {
        Self(sha256(content))
    }

    /// The 64 digits.
    pub fn digits(self) -> String {
        hex(&self.0)
    }

    /// Where the blob lies, from the folder of the store: `payloads/<first two digits>/<64 digits>.bin`.
    pub fn relative_path(self) -> String {
        let digits = self.digits();
        let shard = digits.get(..2).unwrap_or_default();
        format!("payloads/{shard}/{digits}.bin")
    }
}

impl fmt::Display for ContentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ADDRESS_PREFIX}{}", self.digits())
    }
}

impl fmt::Debug for ContentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no content address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a content address: expected sha256/ and 64 hexadecimal digits")]
pub struct NotAnAddress;

impl FromStr for ContentAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
        text.strip_prefix(ADDRESS_PREFIX)
            .and_then(from_hex)
            .and_then(|bytes| bytes.try_into().ok())
            .map(Self)
            .ok_or(NotAnAddress)
    }
}

/// The blob of `content`: compressed when that makes it strictly shorter. Equal contents give equal bytes.
pub fn encode(content: &[u8]) -> Vec<u8> {
    let packed = Codec::Lz4.compress(content);
    let (codec, body) = match &packed {
        Some(packed) => (Codec::Lz4, packed.as_slice()),
        None => (Codec::Raw, content),
    };
    let mut blob = Vec::with_capacity(blob_header::LEN + body.len());
    blob.extend_from_slice(&MAGIC);
    blob.extend_from_slice(&codec.id().to_le_bytes());
    blob.extend_from_slice(&len_u64(content.len()).to_le_bytes());
    blob.extend_from_slice(&crc32(body).to_le_bytes());
    blob.extend_from_slice(body);
    blob
}

/// The content of a blob. The declared length is believed only when the body can expand to it.
///
/// # Errors
/// See [`BlobError`].
pub fn decode(blob: &[u8]) -> Result<Vec<u8>, BlobError> {
    let cut_off = |_| BlobError::CutOff { len: blob.len() };
    if !blob.starts_with(&MAGIC) {
        return Err(if MAGIC.starts_with(blob) {
            BlobError::CutOff { len: blob.len() }
        } else {
            BlobError::Magic
        });
    }
    let codec = match blob_header::CODEC.u32(blob).map_err(cut_off)? {
        0 => Codec::Raw,
        1 => Codec::Lz4,
        found => return Err(BlobError::Codec { found }),
    };
    let declared = blob_header::CONTENT_LEN.u64(blob).map_err(cut_off)?;
    let stored = blob_header::CRC32.u32(blob).map_err(cut_off)?;
    let body = blob.get(blob_header::LEN..).unwrap_or_default();
    let computed = crc32(body);
    if stored != computed {
        return Err(BlobError::Checksum { stored, computed });
    }
    let body_len = len_u64(body.len());
    let misfit = BlobError::ContentLen { declared, body_len };
    if codec == Codec::Raw {
        return if declared == body_len {
            Ok(body.to_vec())
        } else {
            Err(misfit)
        };
    }
    if declared > codec.expanded_len_max(body_len) {
        return Err(misfit);
    }
    let mut content = vec![0; usize::try_from(declared).map_err(|_| misfit)?];
    match codec.decompress_into(body, &mut content) {
        Ok(()) => Ok(content),
        Err(_) => Err(BlobError::Decompress { declared }),
    }
}

/// The content of the blob that was found under `address`.
///
/// # Errors
/// Those of [`decode`], and [`BlobError::Address`] when the content is another one.
pub fn decode_as(blob: &[u8], address: ContentAddress) -> Result<Vec<u8>, BlobError> {
    let content = decode(blob)?;
    let found = ContentAddress::of(&content);
    if found == address {
        Ok(content)
    } else {
        Err(BlobError::Address {
            wanted: address,
            found,
        })
    }
}

/// The object that stands in for an offloaded text.
pub fn reference(text: &str, address: ContentAddress) -> Value {
    let preview = match text.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => text.get(..end).unwrap_or_default(),
        None => text,
    };
    Value::Object(Object::from([
        (PAYLOAD_MEMBER.to_owned(), Value::from(address.to_string())),
        (LEN_MEMBER.to_owned(), Value::from(len_u64(text.len()))),
        ("preview".to_owned(), Value::from(preview)),
    ]))
}

/// Replaces every string longer than `len_max` bytes that stands directly in the attributes of the span, of its events or
/// of its links by a reference, after `keep` has taken the text.
///
/// # Errors
/// What `keep` fails with; the span then holds references only to texts that were kept.
pub fn offload<E>(
    span: &mut Span,
    len_max: usize,
    mut keep: impl FnMut(ContentAddress, &str) -> Result<(), E>,
) -> Result<(), E> {
    for value in attribute_values_mut(span) {
        if let Value::String(text) = value
            && text.len() > len_max
        {
            let address = ContentAddress::of(text.as_bytes());
            keep(address, text)?;
            *value = reference(text, address);
        }
    }
    Ok(())
}

/// What an attribute value refers to: the text of its `$payload`, unless it says that the payload was erased. The text need
/// not be a [`ContentAddress`], since clients may send such objects too.
pub fn live_reference(value: &Value) -> Option<&str> {
    let members = value.as_object()?;
    if members.get(ERASED_MEMBER) == Some(&Value::Bool(true)) {
        return None;
    }
    members.get(PAYLOAD_MEMBER)?.as_str()
}

/// Every live reference of the span, repeated as often as it occurs.
pub fn live_references(span: &Span) -> impl Iterator<Item = &str> {
    attribute_values(span).filter_map(live_reference)
}

/// Every live reference of the span, repeated as often as it occurs, with the length of its payload as it is stated there.
pub fn live_payloads(span: &Span) -> impl Iterator<Item = (&str, Option<u64>)> {
    attribute_values(span).filter_map(|value| {
        let len = value.as_object()?.get(LEN_MEMBER).and_then(Value::as_u64);
        Some((live_reference(value)?, len))
    })
}

fn attribute_values(span: &Span) -> impl Iterator<Item = &Value> {
    let events = span.events.iter().map(|event| &event.attributes);
    let links = span.links.iter().map(|link| &link.attributes);
    std::iter::once(&span.attributes)
        .chain(events)
        .chain(links)
        .flat_map(Object::values)
}

/// Puts a marker into the place of every live reference to `address`: the reference without its preview, and with a member
/// that says that the payload was erased.
pub fn redact(span: &mut Span, address: ContentAddress) {
    for value in attribute_values_mut(span) {
        let refers = live_reference(value).is_some_and(|text| text.parse() == Ok(address));
        if !refers {
            continue;
        }
        let bytes = value.as_object().and_then(|members| members.get("bytes"));
        *value = Value::Object(Object::from([
            (PAYLOAD_MEMBER.to_owned(), Value::from(address.to_string())),
            ("bytes".to_owned(), bytes.cloned().unwrap_or(Value::Null)),
            (ERASED_MEMBER.to_owned(), Value::Bool(true)),
        ]));
    }
}

fn attribute_values_mut(span: &mut Span) -> impl Iterator<Item = &mut Value> {
    let events = span.events.iter_mut().map(|event| &mut event.attributes);
    let links = span.links.iter_mut().map(|link| &mut link.attributes);
    std::iter::once(&mut span.attributes)
        .chain(events)
        .chain(links)
        .flat_map(Object::values_mut)
}
