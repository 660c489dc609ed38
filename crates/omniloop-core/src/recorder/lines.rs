//! What a line of a command's output is recorded as.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::links::new_run_id;
use super::payload::Payload;
use crate::journal::FrameKind;

/// The one member of a line that says that the command has changed a variable.
const MUTATION: &str = "mutation";
/// Who changed it: whatever else a line claims, it was the command.
const SOURCE: &str = "command";

/// The longest line that is kept whole; a longer one is recorded in pieces.
pub(super) const LINE_LEN_MAX: usize = 8 << 20;

/// Cuts a stream of bytes into lines of bounded length.
#[derive(Debug, Default)]
pub(super) struct LineCutter {
    held: Vec<u8>,
    in_pieces: bool,
}

/// A line, or a piece of one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) bytes: Vec<u8>,
    /// The line goes on in the next piece, or this continues one.
    pub(super) is_piece: bool,
}

impl LineCutter {
    /// Adds bytes and hands every line that they complete to `take`.
    pub(super) fn push(&mut self, mut bytes: &[u8], take: &mut dyn FnMut(Line)) {
        while let Some(at) = bytes.iter().position(|&b| b == b'\n') {
            let (line, rest) = bytes.split_at(at);
            self.held.extend_from_slice(line);
            self.emit(take);
            self.in_pieces = false;
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.held.extend_from_slice(bytes);
        if self.held.len() >= LINE_LEN_MAX {
            self.in_pieces = true;
            self.emit(take);
        }
    }

    /// Hands over what no line feed completed.
    pub(super) fn finish(&mut self, take: &mut dyn FnMut(Line)) {
        if !self.held.is_empty() {
            self.emit(take);
        }
    }

    fn emit(&mut self, take: &mut dyn FnMut(Line)) {
        let mut bytes = std::mem::take(&mut self.held);
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        take(Line {
            bytes,
            is_piece: self.in_pieces,
        });
    }
}

/// The record of a line of standard output: an object is telemetry, or a change of which it tells;
/// anything else is a log line.
///
/// With `tick_on`, an object is telemetry only when it has that member; another object is a log line
/// that keeps its members.
pub(super) fn stdout_record(
    line: &Line,
    tick_on: Option<&str>,
) -> (FrameKind, Vec<u8>, Option<Map<String, Value>>) {
    let object = (!line.is_piece).then(|| as_object(&line.bytes)).flatten();
    if let Some((text, object)) = object {
        if let Some(payload) = mutation(&object) {
            return (FrameKind::Mutation, payload.bytes(), None);
        }
        if tick_on.is_none_or(|field| object.contains_key(field)) {
            return (FrameKind::Telemetry, text, Some(object));
        }
        let payload = Payload::new("command", "log")
            .with("stream", "stdout")
            .with("fields", object);
        return (FrameKind::Control, payload.bytes(), None);
    }
    (FrameKind::Control, log_payload("stdout", line), None)
}

/// The change of which an object tells: `{"mutation": {"name": …, "old": …, "new": …}}` and nothing else,
/// with `cause` and `correlation_id` if the command has them to tell (`docs/formats/omni.md`, "Recorded
/// commands"). Source and principal are not the command's to say: what it prints is its own doing.
fn mutation(object: &Map<String, Value>) -> Option<Payload> {
    let told = object.get(MUTATION).filter(|_| object.len() == 1)?;
    let told = told.as_object()?;
    let is_known =
        |member: &String| ["name", "old", "new", "cause", "correlation_id"].contains(&&**member);
    let text = |member| match told.get(member) {
        None => Some(None),
        Some(Value::String(text)) => Some(Some(text.clone())),
        Some(_) => None,
    };
    let (name, cause, id) = (text("name")??, text("cause")?, text("correlation_id")?);
    if !told.keys().all(is_known) {
        return None;
    }
    let changed = Payload::new("name", name)
        .with_some("old", told.get("old").cloned())
        .with("new", told.get("new")?.clone())
        .with("source", SOURCE)
        .with("correlation_id", id.unwrap_or_else(new_run_id))
        .with_some("cause", cause);
    Some(changed)
}

/// The payload of a log record.
pub(super) fn log_payload(stream: &str, line: &Line) -> Vec<u8> {
    with_text(
        Payload::new("command", "log").with("stream", stream),
        "line",
        line,
    )
    .bytes()
}

/// The payload of an input record.
pub(super) fn input_payload(channel: &str, line: &Line) -> Vec<u8> {
    with_text(Payload::new("channel", channel), "value", line).bytes()
}

fn with_text(payload: Payload, member: &'static str, line: &Line) -> Payload {
    let text = String::from_utf8_lossy(&line.bytes);
    // The text shows U+FFFD where the bytes were no UTF-8; then the bytes themselves are kept too.
    let exact = matches!(text, Cow::Borrowed(_));
    let bytes_hex = (!exact).then(|| durable::digest::hex(&line.bytes));
    payload
        .with(member, text.into_owned())
        .with_some("bytes_hex", bytes_hex)
        .with_some("piece", line.is_piece.then_some(true))
}

/// The object that a line spells, and the text to record for it.
///
/// Many programs print `NaN` and `Infinity` bare, above all when a loss diverges; these become
/// strings, as everywhere in the product. Otherwise the text is kept as it was printed.
fn as_object(bytes: &[u8]) -> Option<(Vec<u8>, Map<String, Value>)> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    if !text.starts_with('{') {
        return None;
    }
    if let Ok(object) = serde_json::from_str(text) {
        return Some((text.as_bytes().to_vec(), object));
    }
    let quoted = quote_non_finite(text)?;
    let object = serde_json::from_str(&quoted).ok()?;
    Some((quoted.into_bytes(), object))
}

/// `text` with bare `NaN`, `Infinity` and `-Infinity` in quotes; `None` when there are none.
fn quote_non_finite(text: &str) -> Option<String> {
    const WORDS: [&str; 3] = ["-Infinity", "Infinity", "NaN"];
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    let mut in_string = false;
    let mut found = false;
    while let Some(first) = rest.chars().next() {
        if in_string && first == '\\' {
            let len = rest.chars().take(2).map(char::len_utf8).sum();
            let (escape, after) = rest.split_at(len);
            out.push_str(escape);
            rest = after;
            continue;
        }
        if first == '"' {
            in_string = !in_string;
        } else if let Some(word) = WORDS
            .into_iter()
            .find(|word| !in_string && rest.starts_with(word))
        {
            out.push('"');
            out.push_str(word);
            out.push('"');
            rest = rest.strip_prefix(word).unwrap_or_default();
            found = true;
            continue;
        }
        out.push(first);
        rest = rest.strip_prefix(first).unwrap_or_default();
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line {
            bytes: text.as_bytes().to_vec(),
            is_piece: false,
        }
    }

    fn recorded(text: &str, tick_on: Option<&str>) -> (FrameKind, String) {
        let (kind, payload, _) = stdout_record(&line(text), tick_on);
        (kind, String::from_utf8(payload).unwrap())
    }

    #[test]
    fn an_object_is_telemetry_as_it_was_printed_and_anything_else_is_a_log_line() {
        let object = r#"{"loss": 0.50, "lr":1e-3}"#;
        assert_eq!(
            recorded(&format!("  {object} "), None),
            (FrameKind::Telemetry, object.into())
        );
        for text in ["epoch 3", "[1,2]", "{not json}", "", "3"] {
            let (kind, payload) = recorded(text, None);
            assert_eq!(kind, FrameKind::Control, "{text}");
            let payload: Value = serde_json::from_str(&payload).unwrap();
            assert_eq!(payload["command"], "log");
            assert_eq!(payload["line"], text);
        }
    }

    #[test]
    fn bare_non_finite_numbers_become_strings_outside_of_strings_only() {
        let (kind, payload) = recorded(r#"{"loss":NaN,"a":[-Infinity],"note":"NaN \" NaN"}"#, None);
        assert_eq!(kind, FrameKind::Telemetry);
        assert_eq!(
            payload,
            r#"{"loss":"NaN","a":["-Infinity"],"note":"NaN \" NaN"}"#
        );
    }

    #[test]
    fn with_tick_on_an_object_without_the_member_is_a_log_line_that_keeps_its_members() {
        assert_eq!(
            recorded(r#"{"step":1}"#, Some("step")).0,
            FrameKind::Telemetry
        );
        let (kind, payload) = recorded(r#"{"eta":9}"#, Some("step"));
        assert_eq!(kind, FrameKind::Control);
        let payload: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(payload["fields"]["eta"], 9);
    }

    #[test]
    fn a_change_that_the_command_tells_of_is_a_mutation_by_the_command() {
        let told = r#"{"mutation":{"name":"lr","old":0.8,"new":0.4,"cause":"plateau","correlation_id":"p-1"}}"#;
        for tick_on in [None, Some("step")] {
            let (kind, payload) = recorded(told, tick_on);
            assert_eq!(kind, FrameKind::Mutation);
            assert_eq!(
                payload,
                r#"{"name":"lr","old":0.8,"new":0.4,"source":"command","correlation_id":"p-1","cause":"plateau"}"#
            );
        }
        let (kind, payload) = recorded(r#"{"mutation":{"name":"lr","new":NaN}}"#, None);
        assert_eq!(kind, FrameKind::Mutation);
        let payload: Value = serde_json::from_str(&payload).unwrap();
        assert_eq!(payload["new"], "NaN");
        assert_eq!(payload.get("old"), None);
        assert_eq!(payload["correlation_id"].as_str().unwrap().len(), 32);
    }

    #[test]
    fn an_object_that_only_looks_like_a_change_is_telemetry_as_ever() {
        for object in [
            r#"{"mutation":{"name":"lr","new":1},"step":3}"#,
            r#"{"mutation":{"name":"lr"}}"#,
            r#"{"mutation":{"new":1}}"#,
            r#"{"mutation":{"name":1,"new":1}}"#,
            r#"{"mutation":{"name":"lr","new":1,"correlation_id":7}}"#,
            r#"{"mutation":{"name":"lr","new":1,"principal":"root"}}"#,
            r#"{"mutation":{"name":"lr","new":1,"source":"control"}}"#,
            r#"{"mutation":0.25}"#,
        ] {
            assert_eq!(
                recorded(object, None),
                (FrameKind::Telemetry, object.to_owned())
            );
        }
    }

    #[test]
    fn lines_are_cut_whatever_the_pieces_they_arrive_in() {
        let whole = b"one\r\ntwo\n\nthree";
        for piece_len in 1..whole.len() {
            let mut cutter = LineCutter::default();
            let mut lines = Vec::new();
            for piece in whole.chunks(piece_len) {
                cutter.push(piece, &mut |l| {
                    lines.push(String::from_utf8(l.bytes).unwrap());
                });
            }
            cutter.finish(&mut |l| lines.push(String::from_utf8(l.bytes).unwrap()));
            assert_eq!(lines, ["one", "two", "", "three"], "{piece_len}");
        }
    }

    #[test]
    fn an_endless_line_is_recorded_in_pieces_of_bounded_length() {
        let mut cutter = LineCutter::default();
        let mut lines = Vec::new();
        for _ in 0..20 {
            cutter.push(&vec![b'x'; 1 << 20], &mut |l| {
                lines.push((l.bytes.len(), l.is_piece));
            });
        }
        cutter.push(b"\nshort\n", &mut |l| {
            lines.push((l.bytes.len(), l.is_piece));
        });
        assert_eq!(
            lines,
            [
                (8 << 20, true),
                (8 << 20, true),
                (4 << 20, true),
                (5, false)
            ]
        );
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_beside_their_readable_form() {
        let line = Line {
            bytes: vec![b'a', 0xff],
            is_piece: false,
        };
        let payload: Value = serde_json::from_slice(&log_payload("stderr", &line)).unwrap();
        assert_eq!(payload["line"], "a\u{fffd}");
        assert_eq!(payload["bytes_hex"], "61ff");
    }
}
