//! The text of one parameter: `lr=float(1e-5,1e-1,log)`.
//!
//! ```text
//! parameter = name "=" kind [ "if" condition ]
//! kind      = "float(" number "," number { "," ( "log" | "step=" number ) } ")"
//!           | "int("   whole  "," whole  { "," ( "log" | "step=" whole  ) } ")"
//!           | "bool" | "cat(" choice { "," choice } ")"
//! condition = name "=" choice | name "in" "(" choice { "," choice } ")"
//! choice    = "true" | "false" | "null" | number | JSON string | word
//! ```

use std::fmt;

use atune_core::number::JsonF64;
use atune_core::space::{
    CHOICES_VERSION, Categories, Choice, ChoiceList, ChoiceValue, Distribution, FloatRange,
    IntRange,
};
use serde_json::Value;

/// A parameter as it was written: a condition is not resolved yet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Written {
    pub(super) name: String,
    pub(super) dist: Distribution,
    pub(super) when: Option<When>,
}

/// The parameter exists only when another one has one of these values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct When {
    pub(super) param: String,
    pub(super) values: Vec<Value>,
    /// Where the condition stands in the text.
    pub(super) at: usize,
}

/// What is wrong with a text, and with which bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) text: String,
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) what: String,
}

impl Fault {
    /// What is wrong, and where in which text.
    pub(super) fn in_one_line(&self) -> String {
        let before = self.text.get(..self.at).unwrap_or_default();
        let character = before.chars().count() + 1;
        format!("{} (character {character} of {:?})", self.what, self.text)
    }
}

impl fmt::Display for Fault {
    /// What is wrong, and the text with carets under the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let before = self.text.get(..self.at).unwrap_or_default();
        let place = self.text.get(self.at..).unwrap_or_default();
        let place = place.get(..self.len).unwrap_or(place);
        let carets = "^".repeat(place.chars().count().max(1));
        // A tab, or an escape of the terminal, would move the carets away.
        let shown: String = self
            .text
            .chars()
            .map(|c| if c.is_control() { '\u{fffd}' } else { c })
            .collect();
        let indent = " ".repeat(before.chars().count());
        write!(f, "{}\n  {shown}\n  {indent}{carets}", self.what)
    }
}

/// The longest name. It becomes the name of an environment variable, and of a column.
const NAME_LEN_MAX: usize = 128;

/// Reads one parameter.
pub(super) fn parse(text: &str) -> Result<Written, Fault> {
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    let name = reader.name("a parameter is NAME=float(…), int(…), bool or cat(…)")?;
    reader.expect('=', "\"=\" and the kind of the parameter")?;
    let dist = reader.kind()?;
    let when = reader.condition()?;
    reader.end()?;
    Ok(Written { name, dist, when })
}

/// Reads a kind alone, as a space file has it.
pub(super) fn parse_kind(text: &str) -> Result<(Distribution, Option<When>), Fault> {
    let mut reader = Reader { text, at: 0 };
    let dist = reader.kind()?;
    let when = reader.condition()?;
    reader.end()?;
    Ok((dist, when))
}

/// Whether this is a name that a parameter may have.
pub(super) fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    text.len() <= NAME_LEN_MAX
        && chars
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.')
}

/// A list of choices with their types.
pub(super) fn categories(values: Vec<Value>) -> Distribution {
    let choice = |value: Value| {
        let (value_type, label) = match &value {
            Value::String(text) => ("string", text.clone()),
            Value::Bool(_) => ("bool", value.to_string()),
            Value::Number(n) if n.is_f64() => ("float", value.to_string()),
            Value::Number(_) => ("int", value.to_string()),
            _ => ("null", value.to_string()),
        };
        let value_type = value_type.to_owned();
        Choice {
            label,
            value: ChoiceValue { value_type, value },
        }
    };
    Distribution::Cat(Categories {
        choices: ChoiceList {
            version: CHOICES_VERSION,
            choices: values.into_iter().map(choice).collect(),
        },
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

/// A number and where it stands.
#[derive(Clone, Copy)]
struct Placed<T> {
    value: T,
    at: usize,
    len: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip_space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn fault<T>(&self, at: usize, len: usize, what: impl Into<String>) -> Result<T, Fault> {
        Err(Fault {
            text: self.text.to_owned(),
            at,
            len,
            what: what.into(),
        })
    }

    /// What was expected here, and what stands here instead.
    fn expected<T>(&self, what: &str) -> Result<T, Fault> {
        let word = self.word_at(self.at);
        match self.peek() {
            None => self.fault(
                self.at,
                0,
                format!("the text ends where {what} is expected"),
            ),
            Some(c) if word.is_empty() => self.fault(
                self.at,
                c.len_utf8(),
                format!("expected {what}, found {c:?}"),
            ),
            Some(_) => self.fault(
                self.at,
                word.len(),
                format!("expected {what}, found {word:?}"),
            ),
        }
    }

    /// The bare word that begins here.
    fn word_at(&self, at: usize) -> &'a str {
        let rest = self.text.get(at..).unwrap_or_default();
        let ends = |c: char| c.is_whitespace() || c.is_control() || ",()=\"{}".contains(c);
        rest.get(..rest.find(ends).unwrap_or(rest.len()))
            .unwrap_or_default()
    }

    fn word(&mut self) -> &'a str {
        let word = self.word_at(self.at);
        self.at += word.len();
        word
    }

    fn expect(&mut self, c: char, what: &str) -> Result<(), Fault> {
        self.skip_space();
        if self.peek() != Some(c) {
            return self.expected(what);
        }
        self.at += c.len_utf8();
        self.skip_space();
        Ok(())
    }

    fn name(&mut self, what: &str) -> Result<String, Fault> {
        let at = self.at;
        let word = self.word();
        if word.is_empty() {
            return self.expected(&format!("a name ({what})"));
        }
        if is_name(word) {
            return Ok(word.to_owned());
        }
        let bad = word.char_indices().find(|(i, c)| {
            !is_name_char(*c) || (*i == 0 && !(c.is_ascii_alphabetic() || *c == '_'))
        });
        let rule = "a name begins with a letter or _ and goes on with letters, digits, _, - and .";
        if let Some((i, c)) = bad {
            return self.fault(at + i, c.len_utf8(), rule);
        }
        let what = format!("a name has at most {NAME_LEN_MAX} characters");
        self.fault(at, word.len(), what)
    }

    fn kind(&mut self) -> Result<Distribution, Fault> {
        self.skip_space();
        let at = self.at;
        match self.word() {
            "float" => self.float(),
            "int" => self.int(),
            "bool" => Ok(Distribution::Bool),
            "cat" => {
                self.expect('(', "\"(\" and the choices")?;
                Ok(categories(self.choices()?))
            }
            other => {
                self.at = at;
                if other.is_empty() {
                    return self.expected("float(…), int(…), bool or cat(…)");
                }
                let what = format!("no kind {other:?}: it is float(…), int(…), bool or cat(…)");
                self.fault(at, other.len(), what)
            }
        }
    }

    fn float(&mut self) -> Result<Distribution, Fault> {
        self.expect('(', "\"(\", the lowest and the highest value")?;
        let low = self.number()?;
        self.expect(',', "\",\" and the highest value")?;
        let high = self.number()?;
        let (log, step) = self.options(Self::number)?;
        if low.value > high.value {
            let what = format!("the highest value lies below the lowest, {}", low.value);
            return self.fault(high.at, high.len, what);
        }
        if let Some(step) = step.filter(|step| step.value <= 0.0) {
            return self.fault(step.at, step.len, "a step must be larger than 0");
        }
        if let (true, Some(step)) = (log, step) {
            return self.fault(step.at, step.len, "a logarithmic float has no step");
        }
        if log && low.value <= 0.0 {
            return self.fault(
                low.at,
                low.len,
                "the lowest value of a logarithmic range must be larger than 0",
            );
        }
        Ok(Distribution::Float(FloatRange {
            low: JsonF64(low.value),
            high: JsonF64(high.value),
            log,
            step: step.map(|step| JsonF64(step.value)),
        }))
    }

    fn int(&mut self) -> Result<Distribution, Fault> {
        self.expect('(', "\"(\", the lowest and the highest value")?;
        let low = self.whole()?;
        self.expect(',', "\",\" and the highest value")?;
        let high = self.whole()?;
        let (log, step) = self.options(Self::whole)?;
        if low.value > high.value {
            let what = format!("the highest value lies below the lowest, {}", low.value);
            return self.fault(high.at, high.len, what);
        }
        if let Some(step) = step.filter(|step| step.value <= 0) {
            return self.fault(step.at, step.len, "a step must be larger than 0");
        }
        if let Some(step) = step.filter(|step| log && step.value != 1) {
            return self.fault(
                step.at,
                step.len,
                "a logarithmic range has no step other than 1",
            );
        }
        if log && low.value <= 0 {
            return self.fault(
                low.at,
                low.len,
                "the lowest value of a logarithmic range must be larger than 0",
            );
        }
        Ok(Distribution::Int(IntRange {
            low: low.value,
            high: high.value,
            log,
            step: Some(step.map_or(1, |step| step.value)),
        }))
    }

    /// `,log` and `,step=…` in any order, each at most once, and the closing parenthesis.
    fn options<T: Copy>(
        &mut self,
        read: fn(&mut Self) -> Result<Placed<T>, Fault>,
    ) -> Result<(bool, Option<Placed<T>>), Fault> {
        let (mut log, mut step) = (false, None);
        loop {
            self.skip_space();
            if self.peek() == Some(')') {
                self.at += 1;
                return Ok((log, step));
            }
            self.expect(',', "\")\", \",log\" or \",step=…\"")?;
            let at = self.at;
            match self.word() {
                "log" if !log => log = true,
                "step" if step.is_none() => {
                    self.expect('=', "\"=\" and the step")?;
                    step = Some(read(self)?);
                }
                again @ ("log" | "step") => {
                    return self.fault(at, again.len(), format!("{again:?} stands here twice"));
                }
                _ => {
                    self.at = at;
                    return self.expected("\"log\" or \"step=…\"");
                }
            }
        }
    }

    fn number(&mut self) -> Result<Placed<f64>, Fault> {
        self.skip_space();
        let at = self.at;
        let word = self.word();
        match word.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Placed {
                value,
                at,
                len: word.len(),
            }),
            Ok(_) => self.fault(at, word.len(), "a range must be finite"),
            Err(_) => {
                self.at = at;
                self.expected("a number")
            }
        }
    }

    fn whole(&mut self) -> Result<Placed<i64>, Fault> {
        self.skip_space();
        let at = self.at;
        let word = self.word();
        let len = word.len();
        if let Ok(value) = word.parse::<i64>() {
            return Ok(Placed { value, at, len });
        }
        let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
        if !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()) {
            return self.fault(at, len, "a whole number has at most 64 bits");
        }
        self.at = at;
        self.expected("a whole number")
    }

    /// Choices up to the closing parenthesis.
    fn choices(&mut self) -> Result<Vec<Value>, Fault> {
        let mut values: Vec<Value> = Vec::new();
        // Ten thousand choices must not take their number squared to compare.
        let mut seen = std::collections::HashSet::new();
        loop {
            self.skip_space();
            let at = self.at;
            let value = self.choice()?;
            if !seen.insert(value.to_string()) {
                let what = format!("the choice {value} stands here twice");
                return self.fault(at, self.at - at, what);
            }
            values.push(value);
            self.skip_space();
            match self.peek() {
                Some(',') => self.at += 1,
                Some(')') => {
                    self.at += 1;
                    return Ok(values);
                }
                _ => return self.expected("\",\" and a further choice, or \")\""),
            }
        }
    }

    fn choice(&mut self) -> Result<Value, Fault> {
        self.skip_space();
        let at = self.at;
        if self.peek() == Some('"') {
            let mut stream = serde_json::Deserializer::from_str(self.rest()).into_iter::<String>();
            let read = stream.next();
            let len = stream.byte_offset();
            return match read {
                Some(Ok(text)) => {
                    self.at += len;
                    Ok(Value::String(text))
                }
                _ => self.fault(
                    at,
                    1,
                    "a quoted choice is a JSON string, and this one does not end",
                ),
            };
        }
        let word = self.word();
        if word.is_empty() {
            return self.expected("a choice");
        }
        Ok(match word {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            "null" => Value::Null,
            // Words such as `inf` and `1_000` are no JSON numbers, and stay words.
            _ => match serde_json::from_str(word) {
                Ok(Value::Number(number)) => Value::Number(number),
                _ => Value::String(word.to_owned()),
            },
        })
    }

    fn condition(&mut self) -> Result<Option<When>, Fault> {
        self.skip_space();
        if self.word_at(self.at) != "if" {
            return Ok(None);
        }
        self.at += 2;
        self.skip_space();
        let at = self.at;
        let param = self.name("the parameter that decides")?;
        self.skip_space();
        let values = if self.word_at(self.at) == "in" {
            self.at += 2;
            self.expect('(', "\"(\" and the values")?;
            self.choices()?
        } else {
            self.expect('=', "\"=\" and a value, or \"in\" and a list")?;
            vec![self.choice()?]
        };
        Ok(Some(When { param, values, at }))
    }

    fn end(&mut self) -> Result<(), Fault> {
        self.skip_space();
        if self.rest().is_empty() {
            return Ok(());
        }
        self.expected("the end, or \"if NAME=VALUE\"")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn dist(text: &str) -> Value {
        let written = parse(text).unwrap_or_else(|fault| panic!("{fault}"));
        serde_json::to_value(written.dist).unwrap()
    }

    #[test]
    fn every_kind_is_read_with_its_options_in_any_order() {
        assert_eq!(
            dist("lr=float(1e-5,1e-1,log)"),
            json!({"Float": {"low": 1e-5, "high": 0.1, "log": true, "step": null}})
        );
        assert_eq!(
            dist(" d = float( 0 , 1 , step = 0.25 ) "),
            json!({"Float": {"low": 0.0, "high": 1.0, "log": false, "step": 0.25}})
        );
        assert_eq!(
            dist("n=int(-8,8,step=4)"),
            json!({"Int": {"low": -8, "high": 8, "log": false, "step": 4}})
        );
        assert_eq!(dist("n=int(1,64,step=1,log)"), dist("n=int(1,64,log)"));
        assert_eq!(dist("use-bn=bool"), json!("Bool"));
    }

    #[test]
    fn choices_have_the_type_that_they_are_spelled_with() {
        let typed = dist(r#"c=cat(adam, 3, 0.5, true, null, "a,\"b)", 1e-3, inf, -x)"#);
        let choices = &typed["Cat"]["choices"]["choices"];
        let types: Vec<&str> = (0..9)
            .map(|i| choices[i]["value"]["type"].as_str().unwrap())
            .collect();
        assert_eq!(
            types,
            [
                "string", "int", "float", "bool", "null", "string", "float", "string", "string"
            ]
        );
        assert_eq!(choices[5]["value"]["value"], "a,\"b)");
        assert_eq!(choices[0]["label"], "adam");
    }

    #[test]
    fn a_condition_names_the_parameter_and_its_values() {
        let when = parse("m=float(0,1) if opt=sgd").unwrap().when.unwrap();
        assert_eq!(
            (when.param.as_str(), when.values),
            ("opt", vec![json!("sgd")])
        );
        let when = parse("m=bool if depth in (2, 3)").unwrap().when.unwrap();
        assert_eq!(when.values, vec![json!(2), json!(3)]);
    }

    #[test]
    fn a_fault_points_at_its_place() {
        for (text, place, what) in [
            ("", "", "a name"),
            ("lr", "", "\"=\""),
            ("lr=", "", "float"),
            ("lr=flaot(1,2)", "flaot", "no kind"),
            ("lr=float(1e-5,abc)", "abc", "a number"),
            ("lr=float(1,2", "", "\")\""),
            ("lr=float(1,2,lgo)", "lgo", "\"log\""),
            ("lr=float(1,2,log,log)", "log", "twice"),
            ("lr=float(2,1)", "1", "below the lowest"),
            ("lr=float(0,1,log)", "0", "larger than 0"),
            ("lr=float(1,2,step=0)", "0", "larger than 0"),
            ("lr=float(1,2,step=.5,log)", ".5", "has no step"),
            ("lr=float(1,inf)", "inf", "finite"),
            ("lr=float(nan,1)", "nan", "finite"),
            ("n=int(1,2.5)", "2.5", "a whole number"),
            ("n=int(0,4,log)", "0", "larger than 0"),
            ("n=int(1,9,log,step=2)", "2", "other than 1"),
            (
                "n=int(1,99999999999999999999)",
                "99999999999999999999",
                "64 bits",
            ),
            ("c=cat()", ")", "a choice"),
            ("c=cat(a,b,a)", "a", "twice"),
            ("c=cat(a b)", "b", "a further choice"),
            ("c=cat(\"a)", "\"", "does not end"),
            ("c=cat(a) when x", "when", "the end"),
            ("c=cat(a) if x", "", "\"=\""),
            ("9a=bool", "9", "begins with a letter"),
            ("a b=bool", "b", "\"=\""),
            ("a$=bool", "$", "begins with a letter"),
        ] {
            let fault = parse(text).expect_err(text);
            let found = &text[fault.at..fault.at + fault.len];
            assert_eq!(found, place, "{text}: {fault}");
            assert!(fault.what.contains(what), "{text}: {fault}");
        }
    }

    #[test]
    fn the_carets_stand_under_the_place() {
        let shown = parse("lr=float(1e-5,abc,log)").unwrap_err().to_string();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], "  lr=float(1e-5,abc,log)");
        assert_eq!(lines[2], "                ^^^");
    }

    #[test]
    fn ten_thousand_choices_are_read() {
        let list: Vec<String> = (0..10_000).map(|i| format!("c{i}")).collect();
        let typed = dist(&format!("c=cat({})", list.join(",")));
        assert_eq!(
            typed["Cat"]["choices"]["choices"].as_array().unwrap().len(),
            10_000
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic_and_every_fault_lies_inside_it(text in ".{0,40}") {
            if let Err(fault) = parse(&text) {
                prop_assert!(text.get(fault.at..fault.at + fault.len).is_some());
                prop_assert_eq!(fault.to_string().lines().count(), 3);
            }
        }

        #[test]
        fn what_is_read_is_a_sound_distribution(
            text in r"[a-c]=(float|int|cat|bool)\((-?[0-9.e]{1,4},){1,2}-?[0-9]{1,3}(,log)?(,step=[0-9.]{1,3})?\)"
        ) {
            if let Ok(written) = parse(&text) {
                prop_assert!(written.dist.check().is_ok(), "{}", text);
            }
        }
    }
}
