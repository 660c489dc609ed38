//! Payloads whose members stand in the order of the format page.

use std::borrow::Cow;

use serde::ser::SerializeMap as _;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A JSON object that keeps the order in which its members were added.
#[derive(Debug)]
#[must_use]
pub struct Payload(Vec<(Cow<'static, str>, Value)>);

impl Payload {
    /// An object with its first member.
    pub fn new(name: &'static str, value: impl Into<Value>) -> Self {
        Self(vec![(name.into(), value.into())])
    }

    /// Adds a member.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.0.push((name.into(), value.into()));
        self
    }

    /// Adds a member whose name the caller chose, unless one of that name is there.
    pub fn with_named(mut self, name: &str, value: Value) -> Self {
        if self.0.iter().all(|(taken, _)| taken != name) {
            self.0.push((name.to_owned().into(), value));
        }
        self
    }

    /// Adds a member if there is a value.
    pub fn with_some(self, name: &'static str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// The object's text.
    pub fn bytes(&self) -> Vec<u8> {
        // String keys and JSON values: writing them to memory cannot fail.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_the_order_in_which_they_were_added() {
        let payload = Payload::new("event", "stop")
            .with_some("none", None::<u32>)
            .with("a", 1);
        assert_eq!(payload.bytes(), br#"{"event":"stop","a":1}"#);
    }
}
