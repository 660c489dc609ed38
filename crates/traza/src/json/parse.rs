//! The strict parser: RFC 8259, no extensions, bounded depth.

use std::borrow::Cow;

use super::number::scaled;
use super::{Number, ObjectBuilder, Text, Value};

/// Arrays and objects may nest fewer levels than this.
pub const DEPTH_MAX: u32 = 128;

/// What the values of one text may take in memory, in bytes, as far as they can be told beforehand. Text of two bytes can
/// become a value of more than a hundred times that.
pub const MEMORY_MAX: usize = 256 << 20;
/// A place in an array or an object.
const SLOT_LEN: usize = size_of::<Value>();
/// A place in an object.
const MEMBER_LEN: usize = size_of::<(Text, Value)>();
/// What an object that is not empty has room for at least, in members.
const MEMBERS_MIN: usize = 4;

/// Why bytes are not JSON, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault} at byte {offset}")]
pub struct JsonError {
    /// Offset in bytes from the start of the input.
    pub offset: usize,
    /// What is wrong there.
    pub fault: JsonFault,
}

/// What can be wrong with JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// The input ends inside the value.
    #[error("unexpected end of JSON")]
    End,
    /// Something else was expected.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A control character stands unescaped in a string.
    #[error("unescaped control character in a string")]
    Control,
    /// A backslash is followed by no escape that JSON knows.
    #[error("invalid escape in a string")]
    Escape,
    /// A `\u` escape is one half of a surrogate pair.
    #[error("lone surrogate in a string")]
    Surrogate,
    /// A number is spelt as JSON does not allow.
    #[error("invalid number")]
    Number,
    /// A number is above the range of a double.
    #[error("number out of range")]
    NumberRange,
    /// Arrays and objects nest too deeply.
    #[error("nested {DEPTH_MAX} levels deep or deeper")]
    Depth,
    /// The values would take too much memory.
    #[error("values that would take more than {MEMORY_MAX} bytes of memory")]
    Memory,
    /// Something follows the value.
    #[error("trailing characters")]
    Trailing,
    /// The bytes are not UTF-8.
    #[error("not UTF-8")]
    Utf8,
}

/// A place in a text that can be gone back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    position: usize,
    depth: u32,
}

/// Reads values from the front of a text. White space before a value is skipped by whoever reads the value.
pub(crate) struct Parser<'a> {
    text: &'a str,
    position: usize,
    depth: u32,
    /// What may still be taken, in bytes.
    memory: usize,
}

impl<'a> Parser<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, JsonError> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self {
                text,
                position: 0,
                depth: 0,
                memory: usize::MAX,
            }),
            Err(e) => Err(JsonError {
                offset: e.valid_up_to(),
                fault: JsonFault::Utf8,
            }),
        }
    }

    /// For bytes that a client has sent: what they become is bounded by [`MEMORY_MAX`]. What is stored is read whatever it takes,
    /// since it was taken in once.
    pub(crate) fn of_request(bytes: &'a [u8]) -> Result<Self, JsonError> {
        Ok(Self {
            memory: MEMORY_MAX,
            ..Self::new(bytes)?
        })
    }

    pub(crate) fn offset(&self) -> usize {
        self.position
    }

    /// Where the parser is.
    pub(crate) fn place(&self) -> Place {
        Place {
            position: self.position,
            depth: self.depth,
        }
    }

    /// Goes on at a place where it was before. What was taken of the memory stays taken.
    pub(crate) fn go_to(&mut self, place: Place) {
        self.position = place.position;
        self.depth = place.depth;
    }

    /// What may still be taken, in bytes.
    pub(crate) fn memory_left(&self) -> usize {
        self.memory
    }

    /// True when an object stands next.
    pub(crate) fn is_object(&mut self) -> bool {
        self.peek() == Some(b'{')
    }

    /// True when an array stands next.
    pub(crate) fn is_array(&mut self) -> bool {
        self.peek() == Some(b'[')
    }

    pub(crate) fn finish(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.fail(JsonFault::Trailing),
        }
    }

    /// Skips white space and answers the byte behind it.
    #[inline]
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.position += 1,
                other => return other,
            }
        }
    }

    pub(crate) fn value(&mut self) -> Result<Value, JsonError> {
        match self.peek() {
            Some(b'"') => {
                let text = self.string()?;
                self.charge(text.len())?;
                Ok(Value::String(text.into()))
            }
            Some(b'{') => {
                let mut members = ObjectBuilder::default();
                self.object(|parser, name| {
                    parser.charge_member(members.is_empty(), &name)?;
                    let value = parser.value()?;
                    members.push(name, value);
                    Ok(())
                })?;
                Ok(Value::Object(members.finish()))
            }
            Some(b'[') => {
                let mut items = Vec::new();
                self.array(|parser| {
                    parser.charge(SLOT_LEN)?;
                    items.push(parser.value()?);
                    Ok(())
                })?;
                Ok(Value::Array(items))
            }
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.number()?)),
            Some(b't') => self.literal("true").map(|()| Value::Bool(true)),
            Some(b'f') => self.literal("false").map(|()| Value::Bool(false)),
            Some(b'n') => self.literal("null").map(|()| Value::Null),
            _ => self.unexpected("a value"),
        }
    }

    /// Takes the memory of a member of an object.
    pub(crate) fn charge_member(&mut self, is_first: bool, name: &str) -> Result<(), JsonError> {
        // The room for them doubles when it is full.
        let places = if is_first { MEMBERS_MIN } else { 2 };
        self.charge(places * MEMBER_LEN + name.len())
    }

    /// Takes so many bytes of memory.
    pub(crate) fn charge(&mut self, len: usize) -> Result<(), JsonError> {
        match self.memory.checked_sub(len) {
            Some(left) => {
                self.memory = left;
                Ok(())
            }
            None => self.fail(JsonFault::Memory),
        }
    }

    /// Checks a value and forgets it.
    pub(crate) fn skip(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b'{') => self.object(|parser, _| parser.skip()),
            Some(b'[') => self.array(Self::skip),
            Some(b'-' | b'0'..=b'9') => self.number().map(drop),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            _ => self.unexpected("a value"),
        }
    }

    /// Reads an object, member by member: `member` reads the value.
    pub(crate) fn object<E: From<JsonError>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open(b'{', "an object")?;
        if self.peek() == Some(b'}') {
            self.close();
            return Ok(());
        }
        loop {
            if self.peek() != Some(b'"') {
                return Ok(self.unexpected("a member name")?);
            }
            let name = self.string()?;
            if self.peek() != Some(b':') {
                return Ok(self.unexpected("a colon")?);
            }
            self.position += 1;
            member(self, name)?;
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => {
                    self.close();
                    return Ok(());
                }
                _ => return Ok(self.unexpected("a comma or the end of the object")?),
            }
        }
    }

    /// Reads an array: `item` reads one of its values.
    pub(crate) fn array<E: From<JsonError>>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.open(b'[', "an array")?;
        if self.peek() == Some(b']') {
            self.close();
            return Ok(());
        }
        loop {
            item(self)?;
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b']') => {
                    self.close();
                    return Ok(());
                }
                _ => return Ok(self.unexpected("a comma or the end of the array")?),
            }
        }
    }

    /// Reads a string. Borrowed when it has no escapes.
    pub(crate) fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        if self.peek() != Some(b'"') {
            return self.unexpected("a string");
        }
        self.position += 1;
        let start = self.position;
        match self.plain_run()? {
            b'"' => {
                let text = self.slice(start, self.position);
                self.position += 1;
                Ok(Cow::Borrowed(text))
            }
            _ => self.string_with_escapes(start).map(Cow::Owned),
        }
    }

    /// The string that stands next; any other value is passed.
    pub(crate) fn text(&mut self) -> Result<Option<Cow<'a, str>>, JsonError> {
        if self.peek() == Some(b'"') {
            return self.string().map(Some);
        }
        self.skip().map(|()| None)
    }

    /// The truth value that stands next; any other value is passed.
    pub(crate) fn truth(&mut self) -> Result<Option<bool>, JsonError> {
        let first = self.peek();
        self.skip()?;
        Ok(match first {
            Some(b't') => Some(true),
            Some(b'f') => Some(false),
            _ => None,
        })
    }

    /// `null`, if that stands next.
    pub(crate) fn null(&mut self) -> Result<bool, JsonError> {
        if self.peek() == Some(b'n') {
            return self.literal("null").map(|()| true);
        }
        Ok(false)
    }

    pub(crate) fn number(&mut self) -> Result<Number, JsonError> {
        self.peek();
        let negative = self.byte() == Some(b'-');
        if negative {
            self.position += 1;
        }
        let mut significand = 0;
        match self.digit() {
            None => return self.bad_number(),
            Some(0) => {
                if matches!(self.byte(), Some(b'0'..=b'9')) {
                    return self.fail(JsonFault::Number);
                }
            }
            Some(first) => {
                significand = first;
                while let Some(digit) = self.peek_digit() {
                    let Some(longer) = append_digit(significand, digit) else {
                        return self.long_integer(negative, significand);
                    };
                    significand = longer;
                    self.position += 1;
                }
            }
        }
        match self.byte() {
            Some(b'.' | b'e' | b'E') => self.fraction(negative, significand, 0),
            _ if !negative => Ok(Number::Unsigned(significand)),
            _ => Ok(negated(significand)),
        }
    }

    /// The digits of an integer that do not fit 64 bits only count.
    fn long_integer(&mut self, negative: bool, significand: u64) -> Result<Number, JsonError> {
        let mut exponent = 0i32;
        while self.digit().is_some() {
            exponent = exponent.saturating_add(1);
        }
        self.fraction(negative, significand, exponent)
    }

    /// What may follow the integer digits of a double.
    fn fraction(
        &mut self,
        negative: bool,
        mut significand: u64,
        mut exponent: i32,
    ) -> Result<Number, JsonError> {
        if self.byte() == Some(b'.') {
            self.position += 1;
            if self.peek_digit().is_none() {
                return self.bad_number();
            }
            while let Some(digit) = self.peek_digit() {
                let Some(longer) = append_digit(significand, digit) else {
                    // The digits that do not fit are dropped, not rounded: see `scaled`.
                    while self.digit().is_some() {}
                    break;
                };
                significand = longer;
                exponent = exponent.saturating_sub(1);
                self.position += 1;
            }
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.position += 1;
            let falling = self.byte() == Some(b'-');
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            let Some(first) = self.digit() else {
                return self.bad_number();
            };
            let mut shift = i32::try_from(first).unwrap_or(i32::MAX);
            while let Some(digit) = self.digit() {
                let digit = i32::try_from(digit).unwrap_or(i32::MAX);
                shift = match shift.checked_mul(10).and_then(|ten| ten.checked_add(digit)) {
                    Some(longer) => longer,
                    None if falling || significand == 0 => {
                        while self.digit().is_some() {}
                        return Ok(Number::Float(if negative { -0.0 } else { 0.0 }));
                    }
                    None => return self.fail(JsonFault::NumberRange),
                };
            }
            exponent = if falling {
                exponent.saturating_sub(shift)
            } else {
                exponent.saturating_add(shift)
            };
        }
        match scaled(negative, significand, exponent) {
            Some(value) => Ok(Number::Float(value)),
            None => self.fail(JsonFault::NumberRange),
        }
    }

    fn string_with_escapes(&mut self, start: usize) -> Result<String, JsonError> {
        let mut out = self.slice(start, self.position).to_owned();
        loop {
            // A backslash stands here.
            self.position += 1;
            self.escape(&mut out)?;
            let start = self.position;
            let end = self.plain_run()?;
            out.push_str(self.slice(start, self.position));
            if end == b'"' {
                self.position += 1;
                return Ok(out);
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let Some(byte) = self.byte() else {
            return self.fail(JsonFault::End);
        };
        self.position += 1;
        out.push(match byte {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode_escape(out),
            _ => {
                self.position -= 1;
                return self.fail(JsonFault::Escape);
            }
        });
        Ok(())
    }

    fn unicode_escape(&mut self, out: &mut String) -> Result<(), JsonError> {
        let first = self.four_hex_digits()?;
        let code = match first {
            0xd800..=0xdbff => {
                if !self
                    .text
                    .get(self.position..)
                    .is_some_and(|rest| rest.starts_with("\\u"))
                {
                    return self.fail(JsonFault::Surrogate);
                }
                self.position += 2;
                let second = self.four_hex_digits()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return self.fail(JsonFault::Surrogate);
                }
                0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            other => other,
        };
        match char::from_u32(code) {
            Some(c) => {
                out.push(c);
                Ok(())
            }
            None => self.fail(JsonFault::Surrogate),
        }
    }

    fn four_hex_digits(&mut self) -> Result<u32, JsonError> {
        let mut code = 0;
        for _ in 0..4 {
            let Some(byte) = self.byte() else {
                return self.fail(JsonFault::End);
            };
            let Some(digit) = char::from(byte).to_digit(16) else {
                return self.fail(JsonFault::Escape);
            };
            code = code * 16 + digit;
            self.position += 1;
        }
        Ok(code)
    }

    /// Goes on to the next byte that is not plain string text: a quote or a backslash, which it answers.
    #[inline]
    fn plain_run(&mut self) -> Result<u8, JsonError> {
        let rest = self
            .text
            .as_bytes()
            .get(self.position..)
            .unwrap_or_default();
        self.position += plain_len(rest);
        match self.byte() {
            Some(byte @ (b'"' | b'\\')) => Ok(byte),
            Some(_) => self.fail(JsonFault::Control),
            None => self.fail(JsonFault::End),
        }
    }

    fn literal(&mut self, word: &'static str) -> Result<(), JsonError> {
        if self
            .text
            .get(self.position..)
            .is_some_and(|rest| rest.starts_with(word))
        {
            self.position += word.len();
            return Ok(());
        }
        self.unexpected("a value")
    }

    fn open(&mut self, bracket: u8, what: &'static str) -> Result<(), JsonError> {
        if self.peek() != Some(bracket) {
            return self.unexpected(what);
        }
        self.depth += 1;
        if self.depth >= DEPTH_MAX {
            return self.fail(JsonFault::Depth);
        }
        self.position += 1;
        Ok(())
    }

    /// Passes the closing bracket.
    fn close(&mut self) {
        self.depth -= 1;
        self.position += 1;
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    #[inline]
    fn peek_digit(&self) -> Option<u64> {
        self.byte()
            .filter(u8::is_ascii_digit)
            .map(|byte| u64::from(byte - b'0'))
    }

    #[inline]
    fn digit(&mut self) -> Option<u64> {
        let digit = self.peek_digit()?;
        self.position += 1;
        Some(digit)
    }

    fn slice(&self, start: usize, end: usize) -> &'a str {
        self.text.get(start..end).unwrap_or_default()
    }

    fn bad_number<T>(&self) -> Result<T, JsonError> {
        self.fail(if self.byte().is_some() {
            JsonFault::Number
        } else {
            JsonFault::End
        })
    }

    pub(crate) fn unexpected<T>(&self, wanted: &'static str) -> Result<T, JsonError> {
        self.fail(if self.byte().is_some() {
            JsonFault::Expected(wanted)
        } else {
            JsonFault::End
        })
    }

    fn fail<T>(&self, fault: JsonFault) -> Result<T, JsonError> {
        Err(JsonError {
            offset: self.position,
            fault,
        })
    }
}

fn append_digit(significand: u64, digit: u64) -> Option<u64> {
    significand.checked_mul(10)?.checked_add(digit)
}

/// The negative of an integer; a double when it is 0 or below -2^63.
#[expect(clippy::cast_precision_loss, reason = "the nearest double is wanted")]
fn negated(significand: u64) -> Number {
    match 0i64.checked_sub_unsigned(significand) {
        Some(value) if value < 0 => Number::Negative(value),
        _ => Number::Float(-(significand as f64)),
    }
}

/// How many first bytes stand for themselves inside a JSON string: up to the first quote, backslash or control character.
#[inline]
pub(super) fn plain_len(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH_BITS: u64 = ONES << 7;
    // Sets the high bit of each byte that is zero; above the first such byte also of some that are not.
    let zero_bytes = |word: u64| word.wrapping_sub(ONES) & !word & HIGH_BITS;
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let found = zero_bytes(word ^ (ONES * u64::from(b'"')))
            | zero_bytes(word ^ (ONES * u64::from(b'\\')))
            | (word.wrapping_sub(ONES * 0x20) & !word & HIGH_BITS);
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    let plain = tail
        .iter()
        .take_while(|byte| !matches!(byte, b'"' | b'\\' | 0..0x20))
        .count();
    words.len() * 8 + plain
}
