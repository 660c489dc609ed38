//! The object of one line: reading its members by name and type, and writing them in a fixed order.

use super::file::LineFault;
use crate::json::{Object, ObjectBuilder, Parser, Text, Value, write_string, write_u64};

/// What names a tenant in spans; read wherever a line may name one.
const TENANT_ALIAS: &str = "$tenant";

/// The members of an object that have not been taken yet. What is never taken is ignored.
pub(super) struct Members(Object);

impl Members {
    /// Reads a line. A member that occurs twice is refused: which one holds cannot be known.
    pub(super) fn parse(line: &[u8]) -> Result<Self, LineFault> {
        let mut parser = Parser::new(line)?;
        let mut members = ObjectBuilder::default();
        parser.object(|parser, name| {
            let value = parser.value()?;
            members.push(name, value);
            Ok::<(), LineFault>(())
        })?;
        parser.finish()?;
        let twice = |name: Text| LineFault::Twice { field: name.into() };
        Ok(Self(members.finish_of_distinct().map_err(twice)?))
    }

    /// The members of the object `value`, which stands in `field`.
    pub(super) fn of(value: Value, field: &'static str) -> Result<Self, LineFault> {
        match value {
            Value::Object(members) => Ok(Self(members)),
            _ => Err(shape(field, "an object")),
        }
    }

    /// Any value, `null` too.
    pub(super) fn value(&mut self, field: &'static str) -> Result<Value, LineFault> {
        self.0.remove(field).ok_or(LineFault::Missing { field })
    }

    /// A value that may be absent; `null` is the same as absent.
    pub(super) fn optional(&mut self, field: &'static str) -> Option<Value> {
        self.0.remove(field).filter(|value| *value != Value::Null)
    }

    pub(super) fn string(&mut self, field: &'static str) -> Result<String, LineFault> {
        string(self.value(field)?, field)
    }

    /// A string, empty when absent.
    pub(super) fn string_or_empty(&mut self, field: &'static str) -> Result<String, LineFault> {
        match self.0.remove(field) {
            Some(value) => string(value, field),
            None => Ok(String::new()),
        }
    }

    pub(super) fn optional_string(
        &mut self,
        field: &'static str,
    ) -> Result<Option<String>, LineFault> {
        self.optional(field)
            .map(|value| string(value, field))
            .transpose()
    }

    /// The tenant under either of its names, empty when absent.
    pub(super) fn tenant(&mut self) -> Result<String, LineFault> {
        let alias = self.0.remove(TENANT_ALIAS);
        match (self.0.remove("tenant"), alias) {
            (Some(_), Some(_)) => Err(LineFault::Twice {
                field: "tenant".to_owned(),
            }),
            (Some(value), None) | (None, Some(value)) => string(value, "tenant"),
            (None, None) => Ok(String::new()),
        }
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, LineFault> {
        unsigned(&self.value(field)?, field)
    }

    /// An integer, 0 when absent.
    pub(super) fn u64_or_zero(&mut self, field: &'static str) -> Result<u64, LineFault> {
        match self.0.remove(field) {
            Some(value) => unsigned(&value, field),
            None => Ok(0),
        }
    }

    pub(super) fn optional_u64(&mut self, field: &'static str) -> Result<Option<u64>, LineFault> {
        self.optional(field)
            .map(|value| unsigned(&value, field))
            .transpose()
    }

    /// The items of an array, each read by `item`.
    pub(super) fn array<T>(
        &mut self,
        field: &'static str,
        item: impl Fn(Value) -> Result<T, LineFault>,
    ) -> Result<Vec<T>, LineFault> {
        match self.value(field)? {
            Value::Array(items) => items.into_iter().map(item).collect(),
            _ => Err(shape(field, "an array")),
        }
    }

    /// An array, empty when absent.
    pub(super) fn array_or_empty<T>(
        &mut self,
        field: &'static str,
        item: impl Fn(Value) -> Result<T, LineFault>,
    ) -> Result<Vec<T>, LineFault> {
        if self.0.contains_key(field) {
            self.array(field, item)
        } else {
            Ok(Vec::new())
        }
    }

    /// The schema number, which has to be one of 1 to `newest`: a later one may mean something else by the same names.
    pub(super) fn schema(&mut self, newest: u64) -> Result<(), LineFault> {
        match self.u64("schema")? {
            found if (1..=newest).contains(&found) => Ok(()),
            found => Err(LineFault::Schema { found, newest }),
        }
    }
}

pub(super) fn string(value: Value, field: &'static str) -> Result<String, LineFault> {
    match value {
        Value::String(text) => Ok(text.into()),
        _ => Err(shape(field, "a string")),
    }
}

pub(super) fn unsigned(value: &Value, field: &'static str) -> Result<u64, LineFault> {
    value
        .as_u64()
        .ok_or_else(|| shape(field, "an integer from 0 to 18446744073709551615"))
}

pub(super) fn shape(field: &'static str, wanted: &'static str) -> LineFault {
    LineFault::Shape { field, wanted }
}

/// An object under construction; members are written in the order of the calls.
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn new() -> Self {
        Self(String::from("{"))
    }

    pub(super) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) -> &mut String {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        write_string(name, &mut self.0);
        self.0.push(':');
        &mut self.0
    }

    pub(super) fn string(&mut self, name: &str, text: &str) -> &mut Self {
        write_string(text, self.name(name));
        self
    }

    pub(super) fn string_unless_empty(&mut self, name: &str, text: &str) -> &mut Self {
        if text.is_empty() {
            return self;
        }
        self.string(name, text)
    }

    pub(super) fn u64(&mut self, name: &str, value: u64) -> &mut Self {
        write_u64(value, self.name(name));
        self
    }

    pub(super) fn optional_u64(&mut self, name: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.u64(name, value),
            None => self,
        }
    }

    pub(super) fn value(&mut self, name: &str, value: &Value) -> &mut Self {
        value.write(self.name(name));
        self
    }

    pub(super) fn optional(&mut self, name: &str, value: Option<&Value>) -> &mut Self {
        match value {
            Some(value) => self.value(name, value),
            None => self,
        }
    }

    /// A member whose value is JSON text already.
    pub(super) fn json(&mut self, name: &str, json: &str) -> &mut Self {
        self.name(name).push_str(json);
        self
    }
}
