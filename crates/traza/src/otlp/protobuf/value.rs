//! Attributes: key and value pairs, and the values in them.

use durable::digest::hex;

use super::wire::{Part, Wire};
use super::{Fault, Room};
use crate::json::{ObjectBuilder, Text, Value};
use crate::otlp::error::Result;
use crate::otlp::{double, signed};

/// Arrays and maps of values may nest so many levels deep.
pub const VALUE_DEPTH_MAX: u32 = 32;

/// What an `AnyValue` says. It should be one thing; where it is several, [`AnyValue::into_value`] chooses, and what is
/// said in parts adds up.
#[derive(Default)]
pub(super) struct AnyValue<'a> {
    pub(super) text: Option<&'a str>,
    truth: Option<bool>,
    integer: Option<i64>,
    double: Option<f64>,
    array: Option<Vec<Value>>,
    list: Option<ObjectBuilder>,
    bytes: Option<&'a [u8]>,
}

/// Reads a `KeyValue`: a missing key is the empty one, and a missing value is nothing.
pub(super) fn key_value<'a>(
    entry: Part<'a>,
    room: &mut Room,
    depth: u32,
) -> Result<(&'a str, AnyValue<'a>)> {
    let mut key = "";
    let mut value = AnyValue::default();
    entry.message().each(|number, wire| {
        match (number, wire) {
            (1, Wire::Bytes(part)) => key = part.text()?,
            (2, Wire::Bytes(part)) => value.read(part, room, depth)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

/// Adds an attribute; a later one replaces an earlier one.
pub(super) fn add_attribute(
    attributes: &mut ObjectBuilder,
    entry: Part<'_>,
    room: &mut Room,
    depth: u32,
) -> Result<()> {
    let (key, value) = key_value(entry, room, depth)?;
    if attributes.is_empty() {
        room.take(MAP_LEN, entry.offset)?;
    }
    room.take(2 * size_of::<(Text, Value)>() + key.len(), entry.offset)?;
    attributes.push(key, value.into_value());
    Ok(())
}

/// What the first entry of a map takes besides itself and the room for one more.
const MAP_LEN: usize = 2 * size_of::<(Text, Value)>();

impl<'a> AnyValue<'a> {
    fn read(&mut self, value: Part<'a>, room: &mut Room, depth: u32) -> Result<()> {
        if depth > VALUE_DEPTH_MAX {
            return Err(Fault::Depth.at(value.offset));
        }
        value.message().each(|number, wire| {
            match (number, wire) {
                (1, Wire::Bytes(part)) => self.text = Some(part.text()?),
                (2, Wire::Varint(truth)) => self.truth = Some(truth != 0),
                (3, Wire::Varint(integer)) => self.integer = Some(integer.cast_signed()),
                (4, Wire::Fixed64(bits)) => self.double = Some(f64::from_bits(bits)),
                (5, Wire::Bytes(part)) => {
                    let array = self.array.get_or_insert_default();
                    part.message().each(|number, wire| {
                        if let (1, Wire::Bytes(item)) = (number, wire) {
                            room.take(size_of::<Value>(), item.offset)?;
                            let mut value = AnyValue::default();
                            value.read(item, room, depth + 1)?;
                            array.push(value.into_value());
                        }
                        Ok(())
                    })?;
                }
                (6, Wire::Bytes(part)) => {
                    let list = self.list.get_or_insert_default();
                    part.message().each(|number, wire| {
                        if let (1, Wire::Bytes(entry)) = (number, wire) {
                            add_attribute(list, entry, room, depth + 1)?;
                        }
                        Ok(())
                    })?;
                }
                (7, Wire::Bytes(part)) => self.bytes = Some(part.bytes),
                _ => {}
            }
            Ok(())
        })
    }

    /// The order of the questions decides, not that of the fields; it is that of the JSON requests.
    pub(super) fn into_value(self) -> Value {
        if let Some(text) = self.text {
            return Value::from(text);
        }
        if let Some(integer) = self.integer {
            return signed(integer);
        }
        if let Some(number) = self.double {
            return double(number);
        }
        if let Some(truth) = self.truth {
            return Value::Bool(truth);
        }
        if let Some(array) = self.array {
            return Value::Array(array);
        }
        if let Some(list) = self.list {
            return Value::Object(list.finish());
        }
        self.bytes.map_or(Value::Null, |b| Value::from(hex(b)))
    }
}
