//! The head of a request: the request line and the header fields, up to the empty line.

use super::refusal::Refusal;

/// The longest head in bytes, its empty line included.
pub(crate) const HEAD_LEN_MAX: usize = 65_536;
/// The longest body in bytes.
pub(crate) const BODY_LEN_MAX: u64 = 64 << 20;
/// The most header fields.
const FIELDS_MAX: usize = 512;

/// Why bytes are no request. The texts are part of the wire contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HeadFault {
    #[error("request headers too large")]
    TooLarge,
    #[error("headers are not UTF-8")]
    NotUtf8,
    #[error("invalid request line")]
    RequestLine,
    #[error("invalid header field")]
    Field,
    #[error("transfer-encoded request bodies are not accepted; send Content-Length")]
    TransferEncoding,
    #[error("duplicate content-length")]
    DuplicateLength,
    #[error("invalid content-length")]
    Length,
    #[error("request body too large")]
    BodyTooLarge,
}

impl From<HeadFault> for Refusal {
    fn from(fault: HeadFault) -> Self {
        Self::bad_request(fault.to_string()).closing()
    }
}

/// How the body of a request is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By its length in bytes.
    Length(u64),
    /// In chunks.
    Chunked,
}

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// As it was sent; methods are compared with their case.
    pub(crate) method: String,
    /// What comes before the `?` of the target, not decoded.
    pub(crate) path: String,
    /// What comes behind it, not decoded; empty when there is none.
    pub(crate) query: String,
    /// True when the connection may stay open behind the answer.
    pub(crate) keeps_alive: bool,
    pub(crate) framing: Framing,
    /// Names in lower case.
    fields: Vec<(String, String)>,
}

/// Where the head ends: behind its empty line. `None` while that has not come.
pub(crate) fn head_len(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(3);
    let rest = bytes.get(from..)?;
    let found = memchr::memmem::find(rest, b"\r\n\r\n")?;
    Some(from + found + 4)
}

impl Head {
    /// Reads a head that ends with its empty line.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, HeadFault> {
        let text = std::str::from_utf8(bytes).map_err(|_| HeadFault::NotUtf8)?;
        let (line, rest) = text.split_once("\r\n").ok_or(HeadFault::RequestLine)?;
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        let (method, target) = match (words.next(), words.next()) {
            (Some(method), Some(target)) if !line.contains(char::is_control) => (method, target),
            _ => return Err(HeadFault::RequestLine),
        };
        let version = words.next();
        if words.next().is_some() || version.is_some_and(|text| !text.starts_with("HTTP/")) {
            return Err(HeadFault::RequestLine);
        }
        let fields = read_fields(rest)?;
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut head = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            keeps_alive: false,
            framing: Framing::Length(0),
            fields,
        };
        head.keeps_alive = if version == Some("HTTP/1.1") {
            !head.lists("connection", "close")
        } else {
            head.lists("connection", "keep-alive")
        };
        head.framing = head.find_framing()?;
        Ok(head)
    }

    /// The value of a header field, by its name in lower case; the first one.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field == name);
        found.map(|(_, value)| value.as_str())
    }

    fn values<'h>(&'h self, name: &'h str) -> impl Iterator<Item = &'h str> {
        self.fields
            .iter()
            .filter(move |(field, _)| field == name)
            .map(|(_, value)| value.as_str())
    }

    /// True when a header field that is a list has `token` in it, in whatever case.
    fn lists(&self, name: &str, token: &str) -> bool {
        self.values(name)
            .flat_map(|value| value.split(','))
            .any(|item| item.trim().eq_ignore_ascii_case(token))
    }

    /// Two ways to delimit one body are how requests are smuggled; there is one way, said once.
    fn find_framing(&self) -> Result<Framing, HeadFault> {
        let mut lengths = self.values("content-length");
        let length = lengths.next();
        if let Some(encoding) = self.field("transfer-encoding") {
            // Exporters that compress while they send cannot know the length, and the one of JavaScript never says it.
            let is_alone = self.values("transfer-encoding").count() == 1 && length.is_none();
            let is_taken = is_alone
                && encoding.trim().eq_ignore_ascii_case("chunked")
                && self.method == "POST"
                && self.path == "/v1/traces"
                && self.field("content-type").is_some();
            return if is_taken {
                Ok(Framing::Chunked)
            } else {
                Err(HeadFault::TransferEncoding)
            };
        }
        if lengths.next().is_some() {
            return Err(HeadFault::DuplicateLength);
        }
        let Some(length) = length else {
            return Ok(Framing::Length(0));
        };
        let length = length.trim();
        if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(HeadFault::Length);
        }
        // A number of digits beyond 64 bits is a length too: one that is too large.
        match length.parse() {
            Ok(length) if length <= BODY_LEN_MAX => Ok(Framing::Length(length)),
            _ => Err(HeadFault::BodyTooLarge),
        }
    }
}

fn read_fields(text: &str) -> Result<Vec<(String, String)>, HeadFault> {
    // A line feed alone is no end of a line here, whatever others take for one.
    let is_bare = |(at, _): (usize, &str)| !text.get(..at).is_some_and(|t| t.ends_with('\r'));
    if text.match_indices('\n').any(is_bare) {
        return Err(HeadFault::Field);
    }
    let mut slots = [httparse::EMPTY_HEADER; 64];
    let mut more = Vec::new();
    let mut parsed = httparse::parse_headers(text.as_bytes(), &mut slots);
    if parsed == Err(httparse::Error::TooManyHeaders) {
        more.resize(FIELDS_MAX, httparse::EMPTY_HEADER);
        parsed = httparse::parse_headers(text.as_bytes(), &mut more);
    }
    let fields = match parsed {
        Ok(httparse::Status::Complete((_, fields))) => fields,
        Err(httparse::Error::TooManyHeaders) => return Err(HeadFault::TooLarge),
        Ok(httparse::Status::Partial) | Err(_) => return Err(HeadFault::Field),
    };
    fields
        .iter()
        .map(|field| {
            let value = std::str::from_utf8(field.value).map_err(|_| HeadFault::NotUtf8)?;
            Ok((field.name.to_ascii_lowercase(), value.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Head, HeadFault> {
        Head::parse(text.as_bytes())
    }

    #[test]
    fn a_head_is_split_into_its_parts() {
        let head = parse("GET /v1/spans?a=b?c HTTP/1.1\r\nHost: x\r\nX-Y:  z \r\n\r\n").unwrap();
        assert_eq!(head.method, "GET");
        assert_eq!(head.path, "/v1/spans");
        assert_eq!(head.query, "a=b?c");
        assert_eq!(head.field("x-y"), Some("z"));
        assert_eq!(head.framing, Framing::Length(0));
        assert!(head.keeps_alive);
    }

    #[test]
    fn a_connection_persists_as_version_and_token_list_say() {
        for (version, connection, keeps) in [
            ("HTTP/1.1", "", true),
            ("HTTP/1.1", "Connection: close\r\n", false),
            ("HTTP/1.1", "Connection: Keep-Alive, x\r\n", true),
            ("HTTP/1.1", "Connection: keep-alive, CLOSE\r\n", false),
            ("HTTP/1.0", "", false),
            ("HTTP/1.0", "Connection: x, Keep-Alive\r\n", true),
            ("", "", false),
        ] {
            let head = parse(&format!("GET / {version}\r\n{connection}\r\n")).unwrap();
            assert_eq!(head.keeps_alive, keeps, "{version} {connection}");
        }
    }

    #[test]
    fn a_body_is_delimited_in_one_way_only() {
        let fault = |fields: &str| parse(&format!("POST /v1/spans HTTP/1.1\r\n{fields}\r\n")).err();
        assert_eq!(
            fault("Content-Length: 3\r\nContent-Length: 3\r\n"),
            Some(HeadFault::DuplicateLength)
        );
        for text in ["-1", "+1", "1x", "0x10", "1, 1", ""] {
            let found = fault(&format!("Content-Length: {text}\r\n"));
            assert_eq!(found, Some(HeadFault::Length), "{text}");
        }
        assert_eq!(
            fault("Content-Length: 99999999999999999999999\r\n"),
            Some(HeadFault::BodyTooLarge)
        );
        assert_eq!(
            fault("Content-Length: 67108865\r\n"),
            Some(HeadFault::BodyTooLarge)
        );
        assert_eq!(fault("Content-Length: 67108864\r\n"), None);
        assert_eq!(
            fault("Transfer-Encoding: chunked\r\n"),
            Some(HeadFault::TransferEncoding)
        );
    }

    #[test]
    fn only_an_export_that_names_its_type_may_come_in_chunks() {
        let fields = "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n";
        let head = parse(&format!("POST /v1/traces HTTP/1.1\r\n{fields}\r\n")).unwrap();
        assert_eq!(head.framing, Framing::Chunked);
        for more in ["Content-Length: 1\r\n", "Transfer-Encoding: identity\r\n"] {
            let fault = parse(&format!("POST /v1/traces HTTP/1.1\r\n{fields}{more}\r\n")).err();
            assert_eq!(fault, Some(HeadFault::TransferEncoding));
        }
        let bare = parse("POST /v1/traces HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").err();
        assert_eq!(bare, Some(HeadFault::TransferEncoding));
    }

    #[test]
    fn what_is_no_head_is_refused_by_its_part() {
        for (text, fault) in [
            ("\r\n\r\n", HeadFault::RequestLine),
            ("GET\r\n\r\n", HeadFault::RequestLine),
            ("GET / HTTP/1.1 x\r\n\r\n", HeadFault::RequestLine),
            ("GET / FTP/1.1\r\n\r\n", HeadFault::RequestLine),
            ("GET / HTTP/1.1\r\nno colon\r\n\r\n", HeadFault::Field),
            ("GET / HTTP/1.1\r\na: b\nc: d\r\n\r\n", HeadFault::Field),
            ("GET / HTTP/1.1\r\n a: b\r\n\r\n", HeadFault::Field),
            ("GET / HTTP/1.1\r\na : b\r\n\r\n", HeadFault::Field),
        ] {
            assert_eq!(parse(text).err(), Some(fault), "{text:?}");
        }
        assert_eq!(
            Head::parse(b"GET / HTTP/1.1\r\na: \xff\r\n\r\n").err(),
            Some(HeadFault::NotUtf8)
        );
    }
}
