//! The parameters of a tuned command: from the command line, from a file, and as a study remembers them.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use atune_core::number::JsonF64;
use atune_core::space::{Distribution, FloatRange, IntRange, ParamValue};
use durable::{RealFs, read_all};
use serde::Deserialize;
use serde_json::Value;

use super::grammar::{self, When, Written};
use crate::failure::Failure;

/// The longest space file.
const FILE_LEN_MAX: u64 = 16 << 20;

/// Parameters in the order in which they are asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Space {
    params: Vec<Declared>,
}

/// One parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) dist: Distribution,
    pub(super) when: Option<Condition>,
}

/// The parameter exists only when another one, which comes before it, has one of these values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) param: String,
    pub(super) values: Vec<ParamValue>,
}

impl Space {
    /// The parameters of a file, if there is one, and then those of the command line.
    pub(super) fn read(file: Option<&Path>, written: &[Written]) -> Result<Self, Failure> {
        let mut space = Self::default();
        if let Some(path) = file {
            let bytes = read_all(&RealFs, path, FILE_LEN_MAX)
                .map_err(|e| Failure::io(&format!("cannot read {}", path.display()), &e))?;
            let refused = |what: String| Failure::new(format!("{}: {what}", path.display()));
            let text =
                str::from_utf8(&bytes).map_err(|e| refused(format!("it is no text: {e}")))?;
            for one in file_params(text).map_err(refused)? {
                space.add(one).map_err(refused)?;
            }
        }
        for one in written {
            let failed = |what| Failure::new(format!("--param {}: {what}", one.name));
            space.add(one.clone()).map_err(failed)?;
        }
        Ok(space)
    }

    fn add(&mut self, written: Written) -> Result<(), String> {
        let Written { name, dist, when } = written;
        if self.get(&name).is_some() {
            return Err(format!("the parameter {name:?} is there twice"));
        }
        let variable = variable(&name);
        if let Some(other) = self
            .params
            .iter()
            .find(|p| self::variable(&p.name) == variable)
        {
            let other = &other.name;
            return Err(format!(
                "{name:?} and {other:?} would both be the variable {variable}"
            ));
        }
        dist.check()
            .map_err(|fault| format!("the parameter {name:?}: {fault}"))?;
        let when = when.map(|when| self.resolve(&name, when)).transpose()?;
        self.params.push(Declared { name, dist, when });
        Ok(())
    }

    fn resolve(&self, name: &str, when: When) -> Result<Condition, String> {
        let When { param, values, .. } = when;
        let decides = self.get(&param).ok_or_else(|| {
            format!("{name:?} depends on {param:?}, which is not declared before it")
        })?;
        let value = |value: &Value| {
            value_of(&decides.dist, value).ok_or_else(|| {
                let spelled = spell_dist(&decides.dist);
                format!("{name:?} depends on {param:?} being {value}, which {spelled} never is")
            })
        };
        let values = values.iter().map(value).collect::<Result<_, String>>()?;
        Ok(Condition { param, values })
    }

    /// In the order in which they are asked for.
    pub(super) fn params(&self) -> &[Declared] {
        &self.params
    }

    pub(super) fn get(&self, name: &str) -> Option<&Declared> {
        self.params.iter().find(|p| p.name == name)
    }

    /// Whether some parameter exists in some trials only.
    pub(super) fn is_conditional(&self) -> bool {
        self.params.iter().any(|p| p.when.is_some())
    }

    /// Whether a study that kept these texts may go on with this space: it is the same, except for lists of
    /// choices that have grown at their end.
    pub(super) fn follows(&self, kept: &[&str]) -> bool {
        let written: Result<Vec<Written>, _> =
            kept.iter().map(|text| grammar::parse(text)).collect();
        let Some(earlier) = written
            .ok()
            .and_then(|written| Self::read(None, &written).ok())
        else {
            return false;
        };
        let is_grown = |(old, new): (&Declared, &Declared)| {
            let dists = match (&old.dist, &new.dist) {
                (Distribution::Cat(old), Distribution::Cat(new)) => {
                    new.choices.choices.starts_with(&old.choices.choices)
                }
                (old, new) => old == new,
            };
            dists && old.name == new.name && old.when == new.when
        };
        earlier.params.len() == self.params.len()
            && earlier.params.iter().zip(&self.params).all(is_grown)
    }

    /// One line per parameter, as the command line could spell it.
    pub(super) fn spelled(&self) -> Vec<String> {
        let spell = |p: &Declared| {
            let dist = spell_dist(&p.dist);
            match &p.when {
                None => format!("{}={dist}", p.name),
                Some(when) => {
                    let decides = self.get(&when.param).map(|p| &p.dist);
                    let values: Vec<String> = when
                        .values
                        .iter()
                        .map(|v| decides.map_or_else(String::new, |d| spell_value(&json_of(d, v))))
                        .collect();
                    format!(
                        "{}={dist} if {} in ({})",
                        p.name,
                        when.param,
                        values.join(",")
                    )
                }
            }
        };
        self.params.iter().map(spell).collect()
    }
}

impl Declared {
    /// Whether the parameter exists beside these values.
    pub(super) fn is_active(&self, chosen: &BTreeMap<String, ParamValue>) -> bool {
        self.when.as_ref().is_none_or(|when| {
            chosen
                .get(&when.param)
                .is_some_and(|value| when.values.contains(value))
        })
    }
}

/// The environment variable of a parameter.
pub(super) fn variable(name: &str) -> String {
    let upper = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    format!(
        "DAYBOOK_PARAM_{}",
        name.chars().map(upper).collect::<String>()
    )
}

/// A value as a program reads it: what a choice stands for, not its place.
pub(super) fn json_of(dist: &Distribution, value: &ParamValue) -> Value {
    match (dist, value) {
        (Distribution::Cat(list), ParamValue::Cat(at)) => {
            let at = usize::try_from(*at).unwrap_or(usize::MAX);
            let choice = list.choices.choices.get(at);
            choice.map_or(Value::Null, |choice| choice.value.value.clone())
        }
        (_, ParamValue::F64(v)) => serde_json::json!(v),
        (_, ParamValue::I64(v)) => Value::from(*v),
        (_, ParamValue::Bool(v)) => Value::from(*v),
        (_, ParamValue::Cat(at)) => Value::from(*at),
    }
}

/// A value as a word of a command line.
pub(super) fn word_of(dist: &Distribution, value: &ParamValue) -> String {
    match json_of(dist, value) {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// The value that JSON spells, if the distribution has it. No condition can hang on a float.
fn value_of(dist: &Distribution, value: &Value) -> Option<ParamValue> {
    let found = match dist {
        Distribution::Bool => ParamValue::Bool(value.as_bool()?),
        Distribution::Int(_) => ParamValue::I64(value.as_i64()?),
        Distribution::Cat(list) => {
            let at = list
                .choices
                .choices
                .iter()
                .position(|c| c.value.value == *value)?;
            ParamValue::Cat(u32::try_from(at).ok()?)
        }
        Distribution::Float(_) => return None,
    };
    dist.check_value(&found).is_ok().then_some(found)
}

fn spell_value(value: &Value) -> String {
    match value {
        // A word that would be read as itself needs no quotes.
        Value::String(text) => match grammar::parse_kind(&format!("cat({text})")) {
            Ok((Distribution::Cat(list), None))
                if list.choices.choices.len() == 1
                    && list.choices.choices.iter().all(|c| c.value.value == *value) =>
            {
                text.clone()
            }
            _ => value.to_string(),
        },
        other => other.to_string(),
    }
}

pub(super) fn spell_dist(dist: &Distribution) -> String {
    let log_of = |log: bool| if log { ",log" } else { "" };
    match dist {
        Distribution::Float(FloatRange {
            low,
            high,
            log,
            step,
        }) => {
            let step = step
                .map(|s| format!(",step={}", Value::from(s.0)))
                .unwrap_or_default();
            let (low, high) = (Value::from(low.0), Value::from(high.0));
            format!("float({low},{high}{}{step})", log_of(*log))
        }
        Distribution::Int(IntRange {
            low,
            high,
            log,
            step,
        }) => {
            let step = step.filter(|step| *step != 1);
            let step = step.map(|s| format!(",step={s}")).unwrap_or_default();
            format!("int({low},{high}{}{step})", log_of(*log))
        }
        Distribution::Bool => "bool".to_owned(),
        Distribution::Cat(list) => {
            let choices = list.choices.choices.iter();
            let choices: Vec<String> = choices.map(|c| spell_value(&c.value.value)).collect();
            format!("cat({})", choices.join(","))
        }
    }
}

/// A parameter of a space file, when it is a table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "type")]
    kind: Option<String>,
    low: Option<toml::Value>,
    high: Option<toml::Value>,
    #[serde(default)]
    log: bool,
    step: Option<toml::Value>,
    choices: Option<Vec<toml::Value>>,
    #[serde(default)]
    when: HashMap<String, toml::Value>,
}

fn file_params(text: &str) -> Result<Vec<Written>, String> {
    let tables: toml::Table = text.parse().map_err(|e: toml::de::Error| told(text, &e))?;
    let entries = tables.into_iter().map(|(name, value)| {
        let failed = |what: String| format!("the parameter {name:?}: {what}");
        if !grammar::is_name(&name) {
            return Err(failed("no name: it begins with a letter or _ and goes on with letters, digits, _, - and .".to_owned()));
        }
        let (dist, when) = match value {
            toml::Value::String(text) => {
                grammar::parse_kind(&text).map_err(|fault| failed(fault.in_one_line()))?
            }
            toml::Value::Table(table) => {
                let table = table.try_into().map_err(|e: toml::de::Error| failed(e.message().to_owned()))?;
                table_param(&table).map_err(failed)?
            }
            other => {
                return Err(failed(format!("a table or a text is expected, found {}", other.type_str())));
            }
        };
        Ok(Written { name, dist, when })
    });
    entries.collect()
}

fn told(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {line}, column {column}: {}", error.message())
}

fn table_param(table: &Table) -> Result<(Distribution, Option<When>), String> {
    let kind = match (&table.kind, &table.choices) {
        (Some(kind), _) => kind.as_str(),
        (None, Some(_)) => "cat",
        (None, None) => return Err("it has no `type`".to_owned()),
    };
    let only = |allowed: &[&str]| {
        let present = [
            ("low", table.low.is_some()),
            ("high", table.high.is_some()),
            ("log", table.log),
            ("step", table.step.is_some()),
            ("choices", table.choices.is_some()),
        ];
        let stray = present
            .iter()
            .find(|(name, is)| *is && !allowed.contains(name));
        stray.map_or(Ok(()), |(name, _)| {
            Err(format!("`{name}` does not belong to the type {kind:?}"))
        })
    };
    let dist = match kind {
        "float" => {
            only(&["low", "high", "log", "step"])?;
            Distribution::Float(FloatRange {
                low: JsonF64(float(table.low.as_ref(), "low")?),
                high: JsonF64(float(table.high.as_ref(), "high")?),
                log: table.log,
                step: match &table.step {
                    None => None,
                    step => Some(JsonF64(float(step.as_ref(), "step")?)),
                },
            })
        }
        "int" => {
            only(&["low", "high", "log", "step"])?;
            Distribution::Int(IntRange {
                low: int(table.low.as_ref(), "low")?,
                high: int(table.high.as_ref(), "high")?,
                log: table.log,
                step: Some(match &table.step {
                    None => 1,
                    step => int(step.as_ref(), "step")?,
                }),
            })
        }
        "bool" => {
            only(&[])?;
            Distribution::Bool
        }
        "cat" => {
            only(&["choices"])?;
            let choices = table.choices.iter().flatten();
            let choices = choices
                .map(choice)
                .collect::<Result<Vec<Value>, String>>()?;
            let mut seen = std::collections::HashSet::new();
            if let Some(twice) = choices.iter().find(|c| !seen.insert(c.to_string())) {
                return Err(format!("the choice {twice} is there twice"));
            }
            grammar::categories(choices)
        }
        other => return Err(format!("no type {other:?}: it is float, int, bool or cat")),
    };
    let mut conditions = table.when.iter();
    let when = match (conditions.next(), conditions.next()) {
        (None, _) => None,
        (Some((param, value)), None) => {
            let values = match value {
                toml::Value::Array(values) => {
                    values.iter().map(choice).collect::<Result<_, _>>()?
                }
                one => vec![choice(one)?],
            };
            Some(When {
                param: param.clone(),
                values,
                at: 0,
            })
        }
        _ => return Err("`when` names more than one parameter".to_owned()),
    };
    Ok((dist, when))
}

fn float(value: Option<&toml::Value>, name: &str) -> Result<f64, String> {
    let found = match value {
        Some(toml::Value::Float(v)) => Some(*v),
        // Exact below 2^53; a bound above that is as near as a float can be.
        Some(toml::Value::Integer(v)) => v.to_string().parse().ok(),
        _ => None,
    };
    found.ok_or_else(|| format!("`{name}` is missing or no number"))
}

fn int(value: Option<&toml::Value>, name: &str) -> Result<i64, String> {
    let found = value.and_then(toml::Value::as_integer);
    found.ok_or_else(|| format!("`{name}` is missing or no whole number"))
}

fn choice(value: &toml::Value) -> Result<Value, String> {
    match value {
        toml::Value::String(text) => Ok(Value::from(text.as_str())),
        toml::Value::Integer(v) => Ok(Value::from(*v)),
        toml::Value::Float(v) if v.is_finite() => Ok(Value::from(*v)),
        toml::Value::Boolean(v) => Ok(Value::from(*v)),
        other => Err(format!(
            "a choice is a text, a finite number or a truth value, not a {}",
            other.type_str()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(params: &[&str]) -> Result<Space, Failure> {
        let written: Vec<Written> = params.iter().map(|p| grammar::parse(p).unwrap()).collect();
        Space::read(None, &written)
    }

    fn of_file(text: &str) -> Result<Space, String> {
        let mut space = Space::default();
        for one in file_params(text)? {
            space.add(one)?;
        }
        Ok(space)
    }

    const PARAMS: [&str; 6] = [
        "lr=float(0.00001,0.1,log)",
        "drop=float(0.0,0.5,step=0.1)",
        "layers=int(1,64,log)",
        "opt=cat(adam,sgd,\"a b\",3,null)",
        "momentum=float(0.0,1.0) if opt in (sgd,\"a b\")",
        "nesterov=bool if opt in (sgd)",
    ];

    #[test]
    fn a_space_is_spelled_as_it_can_be_read_again() {
        let space = of(&PARAMS).unwrap();
        assert_eq!(space.spelled(), PARAMS);
        let spelled = space.spelled();
        let again: Vec<&str> = spelled.iter().map(String::as_str).collect();
        assert_eq!(of(&again).unwrap(), space);
    }

    #[test]
    fn a_file_says_the_same_in_tables_and_in_texts_and_keeps_its_order() {
        let space = of_file(
            r#"
            lr = "float(1e-5, 1e-1, log)"
            [drop]
            type = "float"
            low = 0
            high = 0.5
            step = 0.1
            [layers]
            type = "int"
            low = 1
            high = 64
            log = true
            [opt]
            choices = ["adam", "sgd", "a b", 3]
            [momentum]
            type = "float"
            low = 0
            high = 1
            when = { opt = ["sgd", "a b"] }
            [nesterov]
            type = "bool"
            when.opt = "sgd"
            "#,
        )
        .unwrap();
        let mut expected = PARAMS.map(str::to_owned);
        expected[3] = expected[3].replace(",null", "");
        assert_eq!(space.spelled(), expected);
    }

    #[test]
    fn a_file_that_makes_no_sense_says_where() {
        for (text, what) in [
            ("lr = ", "line 1, column"),
            ("\nlr = \"flaot(1,2)\"", "no kind \"flaot\""),
            ("lr = 3", "a table or a text"),
            ("[lr]\ntype = \"float\"\nlow = 1", "`high` is missing"),
            (
                "[lr]\ntype = \"float\"\nlow = 2\nhigh = 1",
                "the range is empty",
            ),
            (
                "[lr]\ntype = \"float\"\nlow = 0\nhigh = 1\nlog = true",
                "logarithmic",
            ),
            (
                "[lr]\ntype = \"float\"\nlow = 1\nhigh = 2\nlogg = true",
                "logg",
            ),
            (
                "[n]\ntype = \"int\"\nlow = 1\nhigh = 2.5",
                "`high` is missing or no whole",
            ),
            (
                "[n]\ntype = \"int\"\nlow = 1\nhigh = 2\nchoices = [1]",
                "does not belong",
            ),
            ("[c]\nchoices = []", "the list of choices is empty"),
            ("[c]\nchoices = [1, 1]", "twice"),
            ("[c]\nchoices = [[1]]", "a choice is"),
            ("[c]\nlow = 1", "no `type`"),
            (
                "[m]\ntype = \"bool\"\nwhen.opt = 1",
                "not declared before it",
            ),
            ("\"a b\" = \"bool\"", "no name"),
        ] {
            let told = of_file(text).expect_err(text);
            assert!(told.contains(what), "{text:?}: {told}");
        }
    }

    #[test]
    fn a_condition_hangs_on_an_earlier_parameter_and_a_value_that_it_can_have() {
        for (params, what) in [
            (
                ["m=bool if opt=sgd", "opt=cat(adam,sgd)"],
                "not declared before it",
            ),
            (["opt=cat(adam,sgd)", "m=bool if opt=SGD"], "never is"),
            (["x=float(0,1)", "m=bool if x=0.5"], "never is"),
            (["n=int(1,3)", "m=bool if n=4"], "never is"),
            (["a=bool", "a=bool"], "twice"),
            (
                ["a-b=bool", "a.b=bool"],
                "both be the variable DAYBOOK_PARAM_A_B",
            ),
        ] {
            let told = of(&params).expect_err(what).message;
            assert!(told.contains(what), "{params:?}: {told}");
        }
    }

    #[test]
    fn a_study_goes_on_with_the_same_space_and_with_longer_lists() {
        let space = of(&PARAMS).unwrap();
        assert!(space.follows(&PARAMS));
        let grown = PARAMS.map(|param| param.replace("3,null", "3,null,lamb"));
        let grown: Vec<&str> = grown.iter().map(String::as_str).collect();
        assert!(of(&grown).unwrap().follows(&PARAMS));
        assert!(!space.follows(&grown));
        assert!(!space.follows(&PARAMS[..5]));
        assert!(!of(&PARAMS[..5]).unwrap().follows(&PARAMS));
        let other = PARAMS.map(|param| param.replace("0.1,log", "0.2,log"));
        let other: Vec<&str> = other.iter().map(String::as_str).collect();
        assert!(!of(&other).unwrap().follows(&PARAMS));
    }

    #[test]
    fn a_parameter_is_active_when_its_condition_holds() {
        let space = of(&PARAMS).unwrap();
        let momentum = space.get("momentum").unwrap();
        let with = |at| BTreeMap::from([("opt".to_owned(), ParamValue::Cat(at))]);
        assert!(momentum.is_active(&with(1)) && momentum.is_active(&with(2)));
        assert!(!momentum.is_active(&with(0)));
        assert!(!momentum.is_active(&BTreeMap::new()));
    }

    #[test]
    fn five_hundred_parameters_are_a_space() {
        let params: Vec<String> = (0..500).map(|i| format!("p{i}=float(0,1)")).collect();
        let params: Vec<&str> = params.iter().map(String::as_str).collect();
        assert_eq!(of(&params).unwrap().params().len(), 500);
    }
}
