//! Attributes: lists of keys with values that say their kind.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use durable::digest::hex;

use super::{double, members, number, signed, text};
use crate::json::{Object, ObjectBuilder, Parser, Text, Value};
use crate::otlp::error::Result;

/// An entry of such a list.
pub(super) struct Entry<'k> {
    pub(super) key: Cow<'k, str>,
    pub(super) value: AnyValue,
}

/// Reads a list as attributes; anything else has none. Of equal keys the last counts.
pub(super) fn attributes(parser: &mut Parser<'_>) -> Result<Object> {
    let mut found = ObjectBuilder::default();
    if !parser.is_array() {
        parser.skip()?;
        return Ok(found.finish());
    }
    parser.array(|parser| -> Result<()> {
        if let Some(Entry { key, value }) = entry(parser)? {
            parser.charge_member(found.is_empty(), &key)?;
            found.push(key, value.into_value());
        }
        Ok(())
    })?;
    Ok(found.finish())
}

/// Hands out the entries of a list; anything else has none. Their memory is the caller's to account for.
pub(super) fn entries(parser: &mut Parser<'_>, mut visit: impl FnMut(Entry<'_>)) -> Result<()> {
    if !parser.is_array() {
        return Ok(parser.skip()?);
    }
    parser.array(|parser| {
        if let Some(entry) = entry(parser)? {
            visit(entry);
        }
        Ok(())
    })
}

/// An entry without a value is left out, and a key that is no text is the empty one.
fn entry<'a>(parser: &mut Parser<'a>) -> Result<Option<Entry<'a>>> {
    let mut key = Cow::Borrowed("");
    let mut value = None;
    members(parser, |parser, name| {
        match name {
            "key" => key = parser.text()?.unwrap_or_default(),
            "value" => value = Some(any_value(parser)?),
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    Ok(value.map(|value| Entry { key, value }))
}

/// An `AnyValue`: what its members say, of which only the first is meant. Where several are given, their order here decides,
/// not that of the text.
#[derive(Default)]
pub(super) struct AnyValue {
    string: Option<Value>,
    int: Option<Value>,
    double: Option<Value>,
    bool: Option<Value>,
    array: Option<Value>,
    list: Option<Value>,
    bytes: Option<Value>,
}

impl AnyValue {
    pub(super) fn into_value(self) -> Value {
        self.string
            .or(self.int)
            .or(self.double)
            .or(self.bool)
            .or(self.array)
            .or(self.list)
            .or(self.bytes)
            .unwrap_or(Value::Null)
    }

    /// What was sent as a text.
    pub(super) fn into_text(self) -> Option<String> {
        match self.string {
            Some(Value::String(text)) => Some(text.into()),
            _ => None,
        }
    }
}

/// Nests as deep as the JSON does, which the parser bounds. A member of another shape than its name says is passed.
fn any_value(parser: &mut Parser<'_>) -> Result<AnyValue> {
    let mut value = AnyValue::default();
    members(parser, |parser, name| {
        match name {
            "stringValue" => value.string = text(parser)?.map(Value::from),
            "intValue" => {
                value.int = match number(parser)? {
                    Some(number) => Some(Value::Number(number)),
                    None => text(parser)?.map(integer),
                };
            }
            "doubleValue" => {
                value.double = match number(parser)? {
                    Some(number) => Some(double(number.as_f64())),
                    // NaN and the infinities are spelt as texts.
                    None => parser
                        .text()?
                        .map(|text| text.parse().map_or(Value::Null, double)),
                };
            }
            "boolValue" => value.bool = parser.truth()?.map(Value::Bool),
            "arrayValue" => value.array = array(parser)?,
            "kvlistValue" => value.list = list(parser)?,
            "bytesValue" => {
                value.bytes = text(parser)?
                    .map(|text| bytes(&text).map_or(Value::Null, |b| Value::from(hex(&b))));
            }
            _ => parser.skip()?,
        }
        Ok(())
    })?;
    Ok(value)
}

fn array(parser: &mut Parser<'_>) -> Result<Option<Value>> {
    let is_object = parser.is_object();
    let mut items = Vec::new();
    members(parser, |parser, name| {
        if name != "values" {
            return Ok(parser.skip()?);
        }
        items = Vec::new();
        if !parser.is_array() {
            return Ok(parser.skip()?);
        }
        parser.array(|parser| {
            parser.charge(size_of::<Value>())?;
            items.push(any_value(parser)?.into_value());
            Ok(())
        })
    })?;
    Ok(is_object.then_some(Value::Array(items)))
}

fn list(parser: &mut Parser<'_>) -> Result<Option<Value>> {
    let is_object = parser.is_object();
    let mut found = Object::new();
    members(parser, |parser, name| {
        if name != "values" {
            return Ok(parser.skip()?);
        }
        found = attributes(parser)?;
        Ok(())
    })?;
    Ok(is_object.then_some(Value::Object(found)))
}

fn integer(digits: Text) -> Value {
    match digits.parse::<i64>() {
        Ok(number) => signed(number),
        Err(_) => Value::from(digits),
    }
}

/// Base64 in either alphabet, padded or not.
fn bytes(text: &str) -> Option<Vec<u8>> {
    const CONFIG: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, CONFIG);
    const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, CONFIG);
    let engine = if text.contains(['-', '_']) {
        URL_SAFE
    } else {
        STANDARD
    };
    engine.decode(text).ok()
}
