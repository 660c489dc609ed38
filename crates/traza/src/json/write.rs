//! The canonical writer: no white space, sorted members, the fewest escapes, shortest numbers.

use super::parse::plain_len;
use super::{Number, Object, Value};

pub(super) fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(*number, out),
        Value::String(text) => write_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => write_object(members, out),
    }
}

/// Appends the canonical spelling of an object.
pub fn write_object(members: &Object, out: &mut String) {
    out.push('{');
    for (index, (name, value)) in members.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        write_string(name, out);
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

/// Integers in decimal; doubles as short as they round-trip, always with a fraction or an exponent.
fn write_number(number: Number, out: &mut String) {
    match number {
        Number::Unsigned(value) => write_u64(value, out),
        Number::Negative(value) => out.push_str(itoa::Buffer::new().format(value)),
        Number::Float(value) => out.push_str(zmij::Buffer::new().format(value)),
    }
}

/// Appends the digits of a number.
pub fn write_u64(value: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(value));
}

/// Escapes quotes, backslashes and what is below U+0020; nothing else.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some((plain, special)) = rest.split_at_checked(plain_len(rest.as_bytes())) {
        out.push_str(plain);
        let Some(byte) = special.bytes().next() else {
            break;
        };
        write_escape(byte, out);
        rest = special.get(1..).unwrap_or_default();
    }
    out.push('"');
}

fn write_escape(byte: u8, out: &mut String) {
    const HEX: [char; 16] = [
        '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f',
    ];
    let short = match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        0x08 => "\\b",
        b'\t' => "\\t",
        b'\n' => "\\n",
        0x0c => "\\f",
        b'\r' => "\\r",
        other => {
            out.push_str("\\u00");
            for nibble in [other >> 4, other & 15] {
                out.push(HEX.get(usize::from(nibble)).copied().unwrap_or('0'));
            }
            return;
        }
    };
    out.push_str(short);
}
