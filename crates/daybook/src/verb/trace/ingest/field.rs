//! Names the field of a JSON text that stands at an offset.

use std::fmt::Write as _;

use crate::text::shorten;

enum Level<'t> {
    /// With the name of the member that is being read.
    Object(Option<&'t [u8]>),
    /// With the index of the element that is being read.
    Array(usize),
}

/// Such as `events[2].name`; empty for the value itself. The text is sound up to the offset.
pub(super) fn field_at(text: &[u8], offset: usize) -> String {
    path(&levels(text, offset))
}

/// The object that holds the field, as [`field_at`] names it.
pub(super) fn object_at(text: &[u8], offset: usize) -> String {
    let levels = levels(text, offset);
    path(levels.split_last().map_or(&[], |(_, outer)| outer))
}

fn levels(text: &[u8], offset: usize) -> Vec<Level<'_>> {
    let text = text.get(..offset).unwrap_or(text);
    let mut levels = Vec::new();
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match (byte, levels.last_mut()) {
            (b'{', _) => levels.push(Level::Object(None)),
            (b'[', _) => levels.push(Level::Array(0)),
            (b'}' | b']', _) => drop(levels.pop()),
            (b',', Some(Level::Object(name))) => *name = None,
            (b',', Some(Level::Array(index))) => *index += 1,
            (b'"', level) => {
                let inside = text.get(at + 1..).unwrap_or_default();
                let len = string_len(inside);
                if let Some(Level::Object(name @ None)) = level {
                    *name = inside.get(..len);
                }
                at += len + 1;
            }
            _ => {}
        }
        at += 1;
    }
    levels
}

fn path(levels: &[Level<'_>]) -> String {
    let mut path = String::new();
    for level in levels {
        match level {
            Level::Object(None) => {}
            Level::Object(Some(name)) => {
                let dot = if path.is_empty() { "" } else { "." };
                let name = shorten(&String::from_utf8_lossy(name), 60);
                // Writing to a string does not fail.
                write!(path, "{dot}{name}").ok();
            }
            Level::Array(index) => {
                write!(path, "[{index}]").ok();
            }
        }
    }
    path
}

/// Bytes before the closing quote.
fn string_len(inside: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = inside.iter().position(|byte| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    });
    end.unwrap_or(inside.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_named_by_the_members_and_elements_around_it() {
        let text = br#"{"a":"x,\"}","b":[1,{"c\"d":[[],{"e":!}]}]}"#;
        let offset = text.iter().position(|byte| *byte == b'!').unwrap();
        assert_eq!(field_at(text, offset), r#"b[1].c\"d[1].e"#);
        assert_eq!(object_at(text, offset), r#"b[1].c\"d[1]"#);
        assert_eq!(field_at(text, 5), "a");
        assert_eq!(field_at(text, 1), "");
        assert_eq!(field_at(b"[1,2", 3), "[1]");
        assert_eq!(field_at(b"", 9), "");
    }
}
