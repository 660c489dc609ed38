//! Records spelled as this crate's writers spell them, read in one pass that compares and never searches.
//!
//! Such a text names its members in the order of the tables, without spaces, and its strings have no
//! escapes. What is spelled otherwise, and every type that is rare or nested too freely, is not read
//! here: the answer is `None`, and the caller asks the JSON library, which knows all spellings and says
//! what is wrong. So nothing is refused here, and what is read here is what the library reads.

use serde_json::Value;

use crate::lifecycle::{FencedMutation, Outcome};
use crate::number::JsonF64;
use crate::outbox::{Attempt, Effect, EffectKey, Intent, OutboxKey, Phase};
use crate::space::{
    Categories, Choice, ChoiceList, ChoiceValue, Distribution, FloatRange, IntRange, Param,
    ParamValue, Template,
};
use crate::trial::{
    ScopedBlob, StateBlob, StateScope, StudyConfig, StudyId, TrialId, TrialState, WorkerId,
};

/// Longer numbers are left to the library; writers need 24 bytes.
const FLOAT_LEN_MAX: usize = 32;
/// Any number of so many digits is a `u64`.
const WHOLE_LEN_MAX: usize = 19;
/// Any number of so many digits is a float, and so is the power of ten of as many digits. The quotient
/// of two floats is the float nearest to it: the value of the number that the digits spell.
const EXACT_DIGITS: usize = 15;

/// What was not read yet.
pub(super) struct Text<'a>(&'a [u8]);

/// What has a canonical spelling.
pub(super) trait Canonical: Sized {
    /// Reads a value at the front of `text`.
    fn read(text: &mut Text<'_>) -> Option<Self>;

    /// Reads a member; `name` is its name with all that belongs before the value.
    fn read_member(text: &mut Text<'_>, name: &str) -> Option<Self> {
        text.skip(name)?;
        Self::read(text)
    }
}

/// A value at the front of `bytes`, and how long its text is.
pub(super) fn read_first<T: Canonical>(bytes: &[u8]) -> Option<(T, usize)> {
    let mut text = Text(bytes);
    let value = T::read(&mut text)?;
    Some((value, bytes.len() - text.0.len()))
}

impl<'a> Text<'a> {
    /// Goes past `literal`, if it is next.
    #[inline]
    pub(super) fn skip(&mut self, literal: &str) -> Option<()> {
        self.0 = self.0.strip_prefix(literal.as_bytes())?;
        Some(())
    }

    /// What stands between quotes, whatever it is.
    #[inline]
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        self.skip("\"")?;
        let len = self.0.iter().position(|&b| b == b'"')?;
        let (word, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        self.skip("\"")?;
        Some(word)
    }

    /// The value of the digits at the front, of at most 19 of them, and how many there are.
    #[inline]
    fn digits(&mut self) -> (u64, usize) {
        let (mut value, mut len) = (0u64, 0);
        for byte in self.0 {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            len += 1;
        }
        self.0 = self.0.get(len..).unwrap_or_default();
        (value, len)
    }

    /// As [`digits`](Self::digits): a whole number, which has no zeros before it.
    #[inline]
    fn whole(&mut self) -> Option<(u64, usize)> {
        let starts_with_zero = self.0.first() == Some(&b'0');
        let (value, len) = self.digits();
        (len == 1 || (len > 1 && !starts_with_zero)).then_some((value, len))
    }

    /// A number with a fraction or an exponent.
    fn float(&mut self) -> Option<f64> {
        let start = self.0;
        let is_negative = self.skip("-").is_some();
        let (whole, whole_len) = self.whole()?;
        let has_fraction = self.skip(".").is_some();
        let (fraction, fraction_len) = if has_fraction { self.digits() } else { (0, 0) };
        let has_exponent = self.skip("e").is_some();
        if has_fraction == (fraction_len == 0) || !(has_fraction || has_exponent) {
            return None;
        }
        if !has_exponent && whole_len + fraction_len <= EXACT_DIGITS {
            let power = 10u64.pow(u32::try_from(fraction_len).ok()?);
            #[expect(clippy::cast_precision_loss, reason = "so many digits fit a float")]
            let value = (whole * power + fraction) as f64 / power as f64;
            return Some(if is_negative { -value } else { value });
        }
        if has_exponent {
            self.skip("-")
                .or_else(|| self.skip("+"))
                .unwrap_or_default();
            if self.digits().1 == 0 {
                return None;
            }
        }
        let text = start.get(..start.len() - self.0.len())?;
        if text.len() > FLOAT_LEN_MAX {
            return None;
        }
        let value = std::str::from_utf8(text).ok()?.parse();
        value.ok().filter(|value: &f64| value.is_finite())
    }
}

impl Canonical for u64 {
    #[inline]
    fn read(text: &mut Text<'_>) -> Option<Self> {
        let start = text.0;
        let (value, len) = text.whole()?;
        if len <= WHOLE_LEN_MAX {
            return Some(value);
        }
        // Half of all checksums are longer, and may be too large.
        std::str::from_utf8(start.get(..len)?).ok()?.parse().ok()
    }
}

impl Canonical for u32 {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        u64::read(text)?.try_into().ok()
    }
}

impl Canonical for i64 {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        if text.skip("-").is_none() {
            return u64::read(text)?.try_into().ok();
        }
        // The library takes a zero with a sign for a float.
        let value = u64::read(text).filter(|value| *value != 0)?;
        0i64.checked_sub_unsigned(value)
    }
}

impl Canonical for bool {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        match text.skip("true") {
            Some(()) => Some(true),
            None => text.skip("false").map(|()| false),
        }
    }
}

impl Canonical for String {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        let word = text.word()?;
        // A quote behind a backslash does not end the string, and has cut it short here.
        let is_plain = !word.iter().any(|&b| b == b'\\' || b < b' ');
        let word = std::str::from_utf8(word).ok().filter(|_| is_plain)?;
        Some(word.to_owned())
    }
}

impl Canonical for JsonF64 {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        text.float().map(Self)
    }
}

impl<T: Canonical> Canonical for Option<T> {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        match text.skip("null") {
            Some(()) => Some(None),
            None => T::read(text).map(Some),
        }
    }

    /// The library reads a member that is not there as one that is null.
    fn read_member(text: &mut Text<'_>, name: &str) -> Option<Self> {
        match text.skip(name) {
            Some(()) => Self::read(text),
            None => Some(None),
        }
    }
}

impl<T: Canonical> Canonical for Vec<T> {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        text.skip("[")?;
        let mut items = Self::new();
        if text.skip("]").is_some() {
            return Some(items);
        }
        loop {
            items.push(T::read(text)?);
            if text.skip("]").is_some() {
                return Some(items);
            }
            text.skip(",")?;
        }
    }
}

/// Reads the members of an object, from the name of the first to the brace at the end.
macro_rules! members {
    ($text:ident, $($path:ident)::+ { $first:ident $(, $field:ident)* $(,)? }) => {{
        let $first = Canonical::read_member($text, concat!("\"", stringify!($first), "\":"))?;
        $(let $field = Canonical::read_member($text, concat!(",\"", stringify!($field), "\":"))?;)*
        $text.skip("}")?;
        Some($($path)::+ { $first $(, $field)* })
    }};
}
pub(super) use members;

macro_rules! structs {
    ($($name:ident { $($field:ident),+ })+) => {
        $(impl Canonical for $name {
            fn read(text: &mut Text<'_>) -> Option<Self> {
                text.skip("{")?;
                members!(text, Self { $($field),+ })
            }
        })+
    };
}

structs! {
    Attempt { number, max }
    Categories { choices }
    Choice { label, value }
    ChoiceList { version, choices }
    EffectKey { trial, epoch, index }
    FloatRange { low, high, log, step }
    IntRange { low, high, log, step }
    Intent { sampler, scheduler, callbacks }
    Outcome { state, values, error, blob }
    OutboxKey { trial, epoch }
    Param { name, dist, value }
}

macro_rules! numbers {
    ($($name:ident)+) => {
        $(impl Canonical for $name {
            fn read(text: &mut Text<'_>) -> Option<Self> {
                u64::read(text).map(Self)
            }
        })+
    };
}

numbers! { StudyId TrialId WorkerId }

/// Enums whose variants have no values.
macro_rules! names {
    ($($name:ident { $($variant:ident),+ })+) => {
        $(impl Canonical for $name {
            fn read(text: &mut Text<'_>) -> Option<Self> {
                let word = text.word()?;
                $(if word == stringify!($variant).as_bytes() {
                    return Some(Self::$variant);
                })+
                None
            }
        })+
    };
}

names! {
    TrialState { Waiting, Running, Paused, Complete, Pruned, Failed }
    Phase { Sampler, Scheduler, Effects, Done }
}

/// Enums whose variants have one value each, but one that may have none.
macro_rules! variants {
    ($($name:ident { $($variant:ident),+ $(; $plain:ident)? })+) => {
        $(impl Canonical for $name {
            fn read(text: &mut Text<'_>) -> Option<Self> {
                $(if text.skip(concat!("{\"", stringify!($variant), "\":")).is_some() {
                    let value = Canonical::read(text)?;
                    text.skip("}")?;
                    return Some(Self::$variant(value));
                })+
                $(if text.skip(concat!("\"", stringify!($plain), "\"")).is_some() {
                    return Some(Self::$plain);
                })?
                None
            }
        })+
    };
}

variants! {
    Distribution { Float, Int, Cat; Bool }
    ParamValue { F64, I64, Cat, Bool }
}

impl Canonical for FencedMutation {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        if text.skip(r#"{"kind":"report","#).is_some() {
            return members!(text, Self::Report { step, values });
        }
        text.skip(r#"{"kind":"params-batch","#)?;
        members!(text, Self::ParamsBatch { params })
    }
}

impl Canonical for ChoiceValue {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        text.skip("{\"type\":")?;
        let value_type = Canonical::read(text)?;
        let value = Canonical::read_member(text, ",\"value\":")?;
        text.skip("}")?;
        Some(Self { value_type, value })
    }
}

/// Lists and objects are left to the library.
impl Canonical for Value {
    fn read(text: &mut Text<'_>) -> Option<Self> {
        match text.0.first()? {
            b'n' => text.skip("null").map(|()| Self::Null),
            b't' | b'f' => bool::read(text).map(Self::Bool),
            b'"' => String::read(text).map(Self::String),
            _ => {
                let start = text.0;
                if let Some(value) = text.float() {
                    return Some(value.into());
                }
                text.0 = start;
                match start.first()? {
                    b'-' => i64::read(text).map(Into::into),
                    _ => u64::read(text).map(Into::into),
                }
            }
        }
    }
}

/// What is left to the library.
macro_rules! rare {
    ($($name:ident)+) => {
        $(impl Canonical for $name {
            fn read(_: &mut Text<'_>) -> Option<Self> {
                None
            }
        })+
    };
}

rare! { Effect ScopedBlob StateBlob StateScope StudyConfig Template }
