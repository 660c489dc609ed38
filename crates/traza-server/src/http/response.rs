//! Answers, and how they are written.

use std::io::{self, Write};

use traza::json::Value;

use super::refusal::Refusal;

/// A content type and the bytes of that type.
pub(crate) const JSON: &str = "application/json";

/// An answer whose body is there as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) content_type: &'static str,
    /// More header fields.
    pub(crate) fields: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// True when the connection does not go on.
    pub(crate) closes: bool,
}

impl Response {
    pub(crate) fn new(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self {
            status,
            content_type,
            fields: Vec::new(),
            body,
            closes: false,
        }
    }

    /// The usual answer: 200 and a JSON value.
    pub(crate) fn json(value: &Value) -> Self {
        Self::new(200, JSON, value.to_string().into_bytes())
    }

    /// The same from text that is JSON already.
    pub(crate) fn json_text(text: String) -> Self {
        Self::new(200, JSON, text.into_bytes())
    }

    /// Writes the answer. A header field says whether the connection goes on behind it.
    pub(crate) fn write(&self, to: &mut dyn Write, keeps_alive: bool) -> io::Result<()> {
        let mut head = head_start(self.status, self.content_type);
        head.push_str("Content-Length: ");
        head.push_str(&self.body.len().to_string());
        head.push_str("\r\n");
        for (name, value) in &self.fields {
            push_field(&mut head, name, value);
        }
        push_field(
            &mut head,
            "Connection",
            if keeps_alive { "keep-alive" } else { "close" },
        );
        head.push_str("\r\n");
        // In one piece where that is cheap: a second one would wait for its own packet.
        let mut bytes = head.into_bytes();
        if self.body.len() <= 64 << 10 {
            bytes.extend_from_slice(&self.body);
            to.write_all(&bytes)?;
        } else {
            to.write_all(&bytes)?;
            to.write_all(&self.body)?;
        }
        to.flush()
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        let body = Value::Object(refusal.body).to_string().into_bytes();
        let mut response = Self::new(refusal.status, JSON, body);
        let field = refusal.field.map(|(name, value)| (name, value.to_owned()));
        response.fields.extend(field);
        response.closes = refusal.closes;
        response
    }
}

fn head_start(status: u16, content_type: &str) -> String {
    let mut head = String::with_capacity(256);
    head.push_str("HTTP/1.1 ");
    head.push_str(&status.to_string());
    head.push(' ');
    head.push_str(phrase(status));
    head.push_str("\r\n");
    push_field(&mut head, "Content-Type", content_type);
    head
}

fn push_field(head: &mut String, name: &str, value: &str) {
    head.push_str(name);
    head.push_str(": ");
    head.push_str(value);
    head.push_str("\r\n");
}

/// The phrases that clients of this wire surface know.
fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        202 => "Accepted",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        503 => "Service Unavailable",
        _ => "Error",
    }
}

/// An answer that is written while it is made: chunk by chunk, and then the connection ends.
pub(crate) struct Chunks<'w> {
    to: &'w mut dyn Write,
    bytes: Vec<u8>,
}

/// Chunks that are gathered before they are handed to the system.
const GATHERED_LEN: usize = 64 << 10;

impl<'w> Chunks<'w> {
    /// Writes the head.
    pub(crate) fn begin(
        to: &'w mut dyn Write,
        content_type: &str,
        fields: &[(&str, &str)],
    ) -> io::Result<Self> {
        let mut head = head_start(200, content_type);
        for (name, value) in fields {
            push_field(&mut head, name, value);
        }
        push_field(&mut head, "Connection", "close");
        head.push_str("\r\n");
        to.write_all(head.as_bytes())?;
        to.flush()?;
        Ok(Self {
            to,
            bytes: Vec::with_capacity(GATHERED_LEN + 4_096),
        })
    }

    /// Adds a chunk; nothing for an empty one, which would end the body.
    pub(crate) fn chunk(&mut self, chunk: &[u8]) -> io::Result<()> {
        if chunk.is_empty() {
            return Ok(());
        }
        write!(self.bytes, "{:X}\r\n", chunk.len())?;
        self.bytes.extend_from_slice(chunk);
        self.bytes.extend_from_slice(b"\r\n");
        if self.bytes.len() >= GATHERED_LEN {
            self.hand_on()?;
        }
        Ok(())
    }

    fn hand_on(&mut self) -> io::Result<()> {
        let written = self.to.write_all(&self.bytes);
        self.bytes.clear();
        written
    }

    /// Hands everything on.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.hand_on()?;
        self.to.flush()
    }

    /// Ends the body with these trailers.
    pub(crate) fn end(mut self, trailers: &[(&str, &str)]) -> io::Result<()> {
        self.bytes.extend_from_slice(b"0\r\n");
        let mut fields = String::new();
        for (name, value) in trailers {
            push_field(&mut fields, name, value);
        }
        self.bytes.extend_from_slice(fields.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
        self.flush()
    }
}
