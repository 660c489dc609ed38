//! Bodies that were compressed on the way: what `Content-Encoding` names, undone under a bound.

use std::borrow::Cow;
use std::io::{self, Read};

use flate2::bufread::MultiGzDecoder;

/// The longest body in bytes, before and after decompression, unless the caller says otherwise.
pub const BODY_LEN_MAX: usize = 64 << 20;
/// The largest window of a Zstandard frame, as a power of two: the 8 MiB that RFC 8878 asks every decoder to support. A frame
/// of a few bytes can ask for the memory of its whole window.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How a body is encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentEncoding {
    /// As it is.
    #[default]
    Identity,
    /// `gzip`, RFC 1952.
    Gzip,
    /// `zstd`, RFC 8878.
    Zstd,
}

/// Why a body is not decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EncodingError {
    /// The encoding is none that is understood, or several on top of each other. Status 415.
    #[error("content encoding {name:?} is not supported; send identity, gzip or zstd")]
    Unsupported {
        /// What the header says.
        name: String,
    },
    /// The body is not what its encoding makes. Status 400.
    #[error("the body is not valid {encoding}: {source}")]
    Damaged {
        /// The encoding.
        encoding: &'static str,
        /// What the decoder says.
        source: io::Error,
    },
    /// The decoded body would be too long. Status 413.
    #[error("the body is longer than {max} bytes once it is decoded")]
    TooLong {
        /// The limit.
        max: usize,
    },
}

impl ContentEncoding {
    /// Reads the value of a `Content-Encoding` header; no header and an empty one mean identity.
    ///
    /// # Errors
    /// [`EncodingError::Unsupported`].
    pub fn from_header(value: Option<&str>) -> Result<Self, EncodingError> {
        let name = value.unwrap_or_default().trim();
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if name.is_empty() || is("identity") {
            return Ok(Self::Identity);
        }
        // RFC 9110, 8.4.1.3: the older name means the same.
        if is("gzip") || is("x-gzip") {
            return Ok(Self::Gzip);
        }
        if is("zstd") {
            return Ok(Self::Zstd);
        }
        Err(EncodingError::Unsupported {
            name: name.to_owned(),
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The body as it was before it was encoded. It takes no more memory than `len_max` bytes, twice that while the answer grows,
    /// and stops as soon as it is known to be longer.
    ///
    /// ```
    /// use traza_server::encoding::{BODY_LEN_MAX, ContentEncoding};
    /// let encoding = ContentEncoding::from_header(Some("zstd"))?;
    /// let body = zstd::encode_all(&b"spans"[..], 0).map_err(|error| error.to_string());
    /// assert_eq!(encoding.decode(&body.unwrap_or_default(), BODY_LEN_MAX)?.as_ref(), b"spans");
    /// # Ok::<(), traza_server::encoding::EncodingError>(())
    /// ```
    ///
    /// # Errors
    /// [`EncodingError::Damaged`] and [`EncodingError::TooLong`].
    pub fn decode(self, body: &[u8], len_max: usize) -> Result<Cow<'_, [u8]>, EncodingError> {
        match self {
            Self::Identity if body.len() > len_max => Err(EncodingError::TooLong { max: len_max }),
            Self::Identity => Ok(Cow::Borrowed(body)),
            // Several members after each other are one body.
            Self::Gzip => self.read(MultiGzDecoder::new(body), body.len(), len_max),
            Self::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(body)
                    .map_err(|source| self.damaged(source))?;
                decoder
                    .window_log_max(ZSTD_WINDOW_LOG_MAX)
                    .map_err(|source| self.damaged(source))?;
                self.read(decoder, body.len(), len_max)
            }
        }
    }

    fn read(
        self,
        decoder: impl Read,
        body_len: usize,
        len_max: usize,
    ) -> Result<Cow<'static, [u8]>, EncodingError> {
        // A guess from what is there, not from what the body says of itself.
        let mut decoded = Vec::with_capacity(body_len.saturating_mul(4).min(len_max));
        let one_more = u64::try_from(len_max).unwrap_or(u64::MAX).saturating_add(1);
        decoder
            .take(one_more)
            .read_to_end(&mut decoded)
            .map_err(|source| self.damaged(source))?;
        if decoded.len() > len_max {
            return Err(EncodingError::TooLong { max: len_max });
        }
        Ok(Cow::Owned(decoded))
    }

    fn damaged(self, source: io::Error) -> EncodingError {
        EncodingError::Damaged {
            encoding: self.name(),
            source,
        }
    }
}
