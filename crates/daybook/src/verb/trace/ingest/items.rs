//! Takes a stream of JSON apart, one value at a time, without holding more than one.
//!
//! A stream is any number of values, as in JSON Lines. Of an array the elements are handed out, also of the array that
//! an envelope (`{"spans": […]}`, `{"resourceSpans": […]}`) begins with. What is in a value, its reader says.

use std::ops::Range;

use traza::json::Value;

/// The longest value that is taken, in bytes.
pub(super) const ITEM_LEN_MAX: usize = 64 << 20;
/// The array of an envelope begins within so many bytes, white space included; else the envelope is one value.
const ENVELOPE_START_MAX: usize = 4096;
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// What a value is by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A span or a whole export request, as its members tell.
    Value,
    /// An element of `resourceSpans`.
    ResourceSpans,
}

/// One value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Item<'b> {
    pub(super) what: What,
    pub(super) place: Place,
    pub(super) bytes: &'b [u8],
}

/// A place in the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// From 1.
    pub(super) line: u64,
    /// In bytes from the start of the input.
    pub(super) offset: u64,
}

impl Place {
    /// The place behind `bytes`, which stand here.
    pub(super) fn behind(self, bytes: &[u8]) -> Self {
        let lines = bytes.split(|byte| *byte == b'\n').count();
        Self {
            line: self.line + lines as u64 - 1,
            offset: self.offset + bytes.len() as u64,
        }
    }
}

/// Why a stream cannot be taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) place: Place,
    pub(super) what: String,
}

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step<'b> {
    Item(Item<'b>),
    /// That is not known before more of the input is there.
    More,
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Top,
    Array(What, Slot),
    /// An array that an envelope began with; its other members follow.
    Envelope(What, Slot),
    Members,
}

/// What may stand next in an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    ElementOrEnd,
    Element,
    CommaOrEnd,
}

#[derive(Debug)]
pub(super) struct Items {
    buffer: Vec<u8>,
    /// The first byte of the buffer that is not done with, and its place.
    start: usize,
    place: Place,
    /// Length of what was handed out last.
    handed_out: usize,
    scope: Scope,
    /// The value that stands at `start`, as far as it was looked at.
    value: Option<(ValueEnd, usize)>,
    has_ended: bool,
}

impl Items {
    pub(super) fn new() -> Self {
        Self {
            buffer: Vec::new(),
            start: 0,
            place: Place { line: 1, offset: 0 },
            handed_out: 0,
            scope: Scope::Top,
            value: None,
            has_ended: false,
        }
    }

    /// Where the input is appended to.
    pub(super) fn input(&mut self) -> &mut Vec<u8> {
        self.done_with_item();
        self.buffer.drain(..self.start);
        self.start = 0;
        &mut self.buffer
    }

    /// There is no more input.
    pub(super) fn end(&mut self) {
        self.has_ended = true;
    }

    /// Everything before it was handed out.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn next(&mut self) -> Result<Step<'_>, Fault> {
        self.done_with_item();
        loop {
            if self.value.is_some() {
                let Some(value) = self.value_range()? else {
                    return Ok(Step::More);
                };
                if let Some(what) = self.after_value(&value)? {
                    self.handed_out = value.len();
                    return Ok(Step::Item(Item {
                        what,
                        place: self.place,
                        bytes: self.buffer.get(value).unwrap_or_default(),
                    }));
                }
                continue;
            }
            if self.may_begin_with_a_mark() {
                return Ok(Step::More);
            }
            self.skip_white_space();
            let Some(byte) = self.rest().first().copied() else {
                return match (self.has_ended, self.scope) {
                    (false, _) => Ok(Step::More),
                    (true, Scope::Top) => Ok(Step::End),
                    (true, _) => Err(self.fault("the input ends before the array does")),
                };
            };
            if !self.pass(byte)? {
                return Ok(Step::More);
            }
        }
    }

    /// Passes what stands before a value, or begins one. False when more has to be there to tell.
    fn pass(&mut self, byte: u8) -> Result<bool, Fault> {
        let (what, slot) = match self.scope {
            Scope::Top if byte == b'[' => {
                self.skip(1);
                self.scope = Scope::Array(What::Value, Slot::ElementOrEnd);
                return Ok(true);
            }
            Scope::Top if byte == b'{' => {
                match envelope(self.rest()) {
                    Start::Envelope(what, len) => {
                        self.skip(len);
                        self.scope = Scope::Envelope(what, Slot::ElementOrEnd);
                        return Ok(true);
                    }
                    Start::Unknown if !self.has_ended && self.rest().len() < ENVELOPE_START_MAX => {
                        return Ok(false);
                    }
                    Start::Unknown | Start::Other => {}
                }
                return self.begin(byte);
            }
            Scope::Top | Scope::Members => return self.begin(byte),
            Scope::Array(what, slot) | Scope::Envelope(what, slot) => (what, slot),
        };
        let is_envelope = matches!(self.scope, Scope::Envelope(..));
        let in_slot = |slot| {
            if is_envelope {
                Scope::Envelope(what, slot)
            } else {
                Scope::Array(what, slot)
            }
        };
        match (slot, byte) {
            (Slot::ElementOrEnd | Slot::CommaOrEnd, b']') => {
                self.skip(1);
                self.scope = Scope::Top;
                if is_envelope {
                    self.scope = Scope::Members;
                    self.value = Some((ValueEnd::inside_an_object(), 0));
                }
                Ok(true)
            }
            (Slot::CommaOrEnd, b',') => {
                self.skip(1);
                self.scope = in_slot(Slot::Element);
                Ok(true)
            }
            (Slot::CommaOrEnd, _) => Err(self.fault("expected a comma or the end of the array")),
            (Slot::ElementOrEnd | Slot::Element, _) => self.begin(byte),
        }
    }

    fn begin(&mut self, byte: u8) -> Result<bool, Fault> {
        if matches!(byte, b',' | b':' | b']' | b'}') {
            return Err(self.fault("expected a JSON value"));
        }
        self.value = Some((ValueEnd::default(), 0));
        Ok(true)
    }

    /// The value at `start`, once its end is there.
    fn value_range(&mut self) -> Result<Option<Range<usize>>, Fault> {
        let Some((end, seen)) = &mut self.value else {
            return Ok(None);
        };
        let rest = self.buffer.get(self.start..).unwrap_or_default();
        let len = match end.find(rest.get(*seen..).unwrap_or_default()) {
            Some(len) => *seen + len,
            None if self.has_ended && end.is_bare() => rest.len(),
            None if self.has_ended => {
                return Err(self.fault("the input ends in the middle of this value"));
            }
            None if rest.len() > ITEM_LEN_MAX => usize::MAX,
            None => {
                *seen = rest.len();
                return Ok(None);
            }
        };
        if len > ITEM_LEN_MAX {
            let max = ITEM_LEN_MAX >> 20;
            return Err(self.fault(format!("this value is longer than {max} MiB")));
        }
        Ok(Some(self.start..self.start + len))
    }

    /// Goes on behind a value. Answers what it is, unless it is nothing to hand out.
    fn after_value(&mut self, value: &Range<usize>) -> Result<Option<What>, Fault> {
        self.value = None;
        match self.scope {
            Scope::Top => return Ok(Some(What::Value)),
            Scope::Array(what, _) => {
                self.scope = Scope::Array(what, Slot::CommaOrEnd);
                return Ok(Some(what));
            }
            Scope::Envelope(what, _) => {
                self.scope = Scope::Envelope(what, Slot::CommaOrEnd);
                return Ok(Some(what));
            }
            Scope::Members => {}
        }
        // The array stood for itself; what else the envelope holds has to be JSON too.
        let members = self.buffer.get(value.clone()).unwrap_or_default();
        let whole = [br#"{"":0"#, members].concat();
        if let Err(error) = Value::parse(&whole) {
            return Err(self.fault(format!("behind the array: {}", error.fault)));
        }
        self.skip(value.len());
        self.scope = Scope::Top;
        Ok(None)
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// True while the first bytes can still become a byte-order mark.
    fn may_begin_with_a_mark(&self) -> bool {
        let rest = self.rest();
        let is_part = rest.len() < BYTE_ORDER_MARK.len() && BYTE_ORDER_MARK.starts_with(rest);
        self.place.offset == 0 && !self.has_ended && is_part
    }

    fn skip_white_space(&mut self) {
        let rest = self.rest();
        let mark = if self.place.offset == 0 && rest.starts_with(BYTE_ORDER_MARK) {
            BYTE_ORDER_MARK.len()
        } else {
            0
        };
        let rest = rest.get(mark..).unwrap_or_default();
        let white = rest.iter().take_while(|byte| is_white(**byte)).count();
        self.skip(mark + white);
    }

    fn skip(&mut self, len: usize) {
        let skipped = self.buffer.get(self.start..self.start + len);
        self.place = self.place.behind(skipped.unwrap_or_default());
        self.start += len;
    }

    fn done_with_item(&mut self) {
        let len = std::mem::take(&mut self.handed_out);
        self.skip(len);
    }

    fn fault(&self, what: impl Into<String>) -> Fault {
        Fault {
            place: self.place,
            what: what.into(),
        }
    }
}

fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

/// How an object starts.
enum Start {
    /// With the array of an envelope, and so many bytes up to its first element.
    Envelope(What, usize),
    Other,
    /// What is there can be both.
    Unknown,
}

fn envelope(object: &[u8]) -> Start {
    let names: [(&[u8], What); 2] = [
        (br#""resourceSpans""#, What::ResourceSpans),
        (br#""spans""#, What::Value),
    ];
    let mut is_unknown = false;
    for (name, what) in names {
        let mut rest = object;
        let mut is_there = true;
        for token in [b"{", name, b":", b"["] {
            let white = rest.iter().take_while(|byte| is_white(**byte)).count();
            rest = rest.get(white..).unwrap_or_default();
            let Some(behind) = rest.strip_prefix(token) else {
                is_unknown |= token.starts_with(rest);
                is_there = false;
                break;
            };
            rest = behind;
        }
        if is_there {
            return Start::Envelope(what, object.len() - rest.len());
        }
    }
    if is_unknown {
        Start::Unknown
    } else {
        Start::Other
    }
}

/// Finds the end of a value by its brackets and quotes. Its reader finds everything else that is wrong.
#[derive(Debug, Default)]
struct ValueEnd {
    depth: u64,
    in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl ValueEnd {
    fn inside_an_object() -> Self {
        Self {
            depth: 1,
            has_begun: true,
            ..Self::default()
        }
    }

    /// True for what ends with the input: a number or a word.
    fn is_bare(&self) -> bool {
        self.depth == 0 && !self.in_string
    }

    /// How many of the next bytes belong to the value, once that is known.
    fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        for (index, byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return Some(index + 1);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                // A bare word ends where something else begins.
                b'"' | b'{' | b'[' if self.depth == 0 && self.has_begun => return Some(index),
                b',' | b']' | b'}' if self.depth == 0 => return Some(index),
                byte if self.depth == 0 && is_white(*byte) => return Some(index),
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b']' | b'}' => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(index + 1);
                    }
                }
                _ => {}
            }
            self.has_begun = true;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything in a text that comes in pieces of so many bytes.
    fn taken(text: &str, piece: usize) -> Result<Vec<(What, u64, u64, String)>, Fault> {
        let mut items = Items::new();
        let mut pieces = text.as_bytes().chunks(piece);
        let mut found = Vec::new();
        loop {
            match items.next()? {
                Step::Item(Item { what, place, bytes }) => {
                    let text = String::from_utf8(bytes.to_vec()).unwrap();
                    found.push((what, place.line, place.offset, text));
                }
                Step::More => match pieces.next() {
                    Some(piece) => items.input().extend_from_slice(piece),
                    None => items.end(),
                },
                Step::End => return Ok(found),
            }
        }
    }

    /// The same, which must not depend on how the text comes.
    fn all(text: &str) -> Result<Vec<(What, u64, u64, String)>, Fault> {
        let whole = taken(text, text.len().max(1));
        for piece in [1, 2, 7] {
            assert_eq!(taken(text, piece), whole, "{text} in pieces of {piece}");
        }
        whole
    }

    fn texts(text: &str) -> Vec<String> {
        all(text).unwrap().into_iter().map(|item| item.3).collect()
    }

    #[test]
    fn lines_arrays_and_envelopes_are_taken_apart_whatever_pieces_they_come_in() {
        assert!(texts("").is_empty() && texts(" \n\t").is_empty() && texts("[]").is_empty());
        assert_eq!(texts("{}\n{\"a\":[1,{}]}\n"), ["{}", "{\"a\":[1,{}]}"]);
        assert_eq!(
            texts("[{},\n {\"s\":\"]\\\"}\"}] {}"),
            ["{}", "{\"s\":\"]\\\"}\"}", "{}"]
        );
        assert_eq!(texts("{}{}\u{feff}[1]").len(), 4);
        assert_eq!(texts("\u{feff}[1, true]"), ["1", "true"]);
        assert_eq!(texts("{\"span\":1}"), ["{\"span\":1}"]);
        assert_eq!(texts("{\"spans\":{}}"), ["{\"spans\":{}}"]);
        let found = all("{ \"resourceSpans\" : [ {\"a\":1},{}], \"x\": [\"}\"] }\n{\"spans\":[3]}")
            .unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|(what, line, _, text)| (*what, *line, text.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (What::ResourceSpans, 1, "{\"a\":1}"),
                (What::ResourceSpans, 1, "{}"),
                (What::Value, 2, "3")
            ]
        );
    }

    #[test]
    fn a_value_is_named_by_its_line_and_offset() {
        let found = all("[\n{},\n\n  {\"a\":\n1}]").unwrap();
        let places: Vec<_> = found.iter().map(|item| (item.1, item.2)).collect();
        assert_eq!(places, [(2, 2), (4, 9)]);
    }

    #[test]
    fn what_cannot_be_taken_apart_is_named_with_its_place() {
        for (text, line, offset) in [
            ("[{}\n", 2, 4),
            ("\n{\"a\":", 2, 1),
            ("[{},]", 1, 4),
            ("[,{}]", 1, 1),
            ("[{} {}]", 1, 4),
            ("]", 1, 0),
            ("{\"spans\":[] x}", 1, 11),
            ("{\"spans\":[]", 1, 11),
            ("{\"resourceSpans\":[{}", 1, 20),
            ("\"abc", 1, 0),
        ] {
            let fault = all(text).unwrap_err();
            assert_eq!(
                fault.place,
                Place { line, offset },
                "{text}: {}",
                fault.what
            );
        }
    }
}
