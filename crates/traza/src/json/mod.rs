//! JSON as the format stores it: one canonical spelling for every value
//! (`docs/formats/traza-segment.md`, canonical JSON).
//!
//! The parser and the writer are part of the format, since payloads and attribute digests are made of
//! what they write. They agree with `serde_json` in what they accept and write, but for two things: object members are sorted,
//! and a long decimal literal may be read one unit in the last place off, because [`Number`] says so.

mod number;
mod object;
mod parse;
mod write;

pub use number::Number;
pub use object::{Object, ObjectBuilder};
pub(crate) use parse::Parser;
pub use parse::{DEPTH_MAX, JsonError, JsonFault, MEMORY_MAX};
pub use write::{write_object, write_string, write_u64};

/// A text. Up to 24 bytes, as most names and values have, take no memory of their own.
pub type Text = compact_str::CompactString;

/// A JSON value.
///
/// ```
/// use traza::json::Value;
/// let value = Value::parse(br#"{"b": 1e21, "a": [1, 1.0]}"#)?;
/// assert_eq!(value.to_string(), r#"{"a":[1,1.0],"b":1e+21}"#);
/// # Ok::<(), traza::json::JsonError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Text),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Object),
}

impl Value {
    /// Reads one value; white space around it is fine, anything else is not.
    ///
    /// # Errors
    /// [`JsonError`] when the bytes are not one JSON value in UTF-8, nest deeper than [`DEPTH_MAX`], or hold
    /// a number above the range of a double.
    pub fn parse(bytes: &[u8]) -> Result<Self, JsonError> {
        let mut parser = Parser::new(bytes)?;
        let value = parser.value()?;
        parser.finish()?;
        Ok(value)
    }

    /// [`Value::parse`] of what a client has sent: [`JsonFault::Memory`] for values that would take more than [`MEMORY_MAX`].
    ///
    /// # Errors
    /// Those of [`Value::parse`].
    pub fn parse_request(bytes: &[u8]) -> Result<Self, JsonError> {
        let mut parser = Parser::of_request(bytes)?;
        let value = parser.value()?;
        parser.finish()?;
        Ok(value)
    }

    /// Appends the canonical spelling.
    pub fn write(&self, out: &mut String) {
        write::write_value(self, out);
    }

    /// The string, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The object, if it is one.
    pub fn as_object(&self) -> Option<&Object> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The unsigned integer, if it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Self::Number(Number::Unsigned(value)) => Some(*value),
            _ => None,
        }
    }
}

impl std::fmt::Display for Value {
    /// Writes the canonical spelling.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut out = String::new();
        self.write(&mut out);
        f.write_str(&out)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Self::String(text)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(Number::Unsigned(value))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}
