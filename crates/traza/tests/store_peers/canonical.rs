//! The JSON over which the expected answers were digested: keys sorted, no white space, ASCII only, and doubles in the
//! shortest digits with an exponent from 1e16 up and below 1e-4.

use std::fmt::Write as _;

use durable::digest::{hex, sha256};
use traza::json::{Number, Value};

pub(crate) fn json(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The first 16 digits of the SHA-256.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&sha256(bytes))[..16].to_owned()
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(&flag.to_string()),
        Value::Number(Number::Unsigned(number)) => out.push_str(&number.to_string()),
        Value::Number(Number::Negative(number)) => out.push_str(&number.to_string()),
        Value::Number(number) => out.push_str(&double(number.as_f64())),
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (key, member)) in members.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                string(key, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04x}").unwrap();
                }
            }
        }
    }
    out.push('"');
}

fn double(value: f64) -> String {
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap();
    let exponent: i32 = exponent.parse().unwrap();
    if !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

#[test]
fn doubles_are_written_as_in_the_expected_answers() {
    for (value, text) in [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1e16, "1e+16"),
        (1e15, "1000000000000000.0"),
        (1.5e-5, "1.5e-05"),
        (0.0001, "0.0001"),
        (1e300, "1e+300"),
        (0.048_035, "0.048035"),
    ] {
        assert_eq!(double(value), text);
    }
}
