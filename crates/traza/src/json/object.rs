//! Objects: few members, read far more often than changed.

use std::ops::Index;

use litemap::LiteMap;

use super::{Text, Value};

/// The members of an object, sorted by the bytes of their names, in one piece of memory.
///
/// One member that is inserted among many moves those behind it; an object of many members is made by an
/// [`ObjectBuilder`].
///
/// ```
/// use traza::json::{Object, Value};
/// let object = Object::from([("b", Value::from(1)), ("a", Value::Null), ("b", Value::from(2))]);
/// assert_eq!(Value::Object(object).to_string(), r#"{"a":null,"b":2}"#);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    members: LiteMap<Text, Value>,
}

impl Object {
    /// One without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The value under that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// The value under that name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.members.get_mut(name)
    }

    /// True when there is a member of that name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// Puts a value under a name. Answers the one that was there.
    pub fn insert(&mut self, name: impl Into<Text>, value: Value) -> Option<Value> {
        self.members.insert(name.into(), value)
    }

    /// Takes the value under that name out.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    /// Keeps the members for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(&str, &Value) -> bool) {
        self.members.retain(|name, value| keep(name, value));
    }

    /// Names and values, in the order of the names.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Text, &Value)> + DoubleEndedIterator {
        self.members.iter()
    }

    /// The names, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.members.keys()
    }

    /// The values, in the order of their names.
    pub fn values(&self) -> impl Iterator<Item = &Value> {
        self.members.values()
    }

    /// The values, in the order of their names, to be changed.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut Value> {
        self.members.iter_mut().map(|(_, value)| value)
    }
}

impl Index<&str> for Object {
    type Output = Value;

    /// The value under that name; `null` where there is none.
    fn index(&self, name: &str) -> &Value {
        self.get(name).unwrap_or(&Value::Null)
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Object {
    /// Of several members of one name the last counts.
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(members: I) -> Self {
        let mut builder = ObjectBuilder::default();
        for (name, value) in members {
            builder.push(name, value);
        }
        builder.finish()
    }
}

impl<K: Into<Text>, const N: usize> From<[(K, Value); N]> for Object {
    /// Of several members of one name the last counts.
    fn from(members: [(K, Value); N]) -> Self {
        members.into_iter().collect()
    }
}

impl<K: Into<Text>> Extend<(K, Value)> for Object {
    /// Of several members of one name the last counts, and those that are added before those that are there.
    fn extend<I: IntoIterator<Item = (K, Value)>>(&mut self, members: I) {
        let named = |(name, value): (K, Value)| (name.into(), value);
        self.members.extend(members.into_iter().map(named));
    }
}

impl IntoIterator for Object {
    type Item = (Text, Value);
    type IntoIter = std::vec::IntoIter<(Text, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.members.into_tuple_vec().into_iter()
    }
}

impl<'o> IntoIterator for &'o Object {
    type Item = (&'o Text, &'o Value);
    type IntoIter = <&'o LiteMap<Text, Value> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.members.iter()
    }
}

/// Makes an object from members in any order, in a time that hardly grows faster than their number.
#[derive(Clone, Debug, Default)]
pub struct ObjectBuilder {
    /// The members that have come in the order of their names: all of them, where canonical JSON is read.
    sorted: LiteMap<Text, Value>,
    /// The others, as they have come. None has a name that `sorted` gets later.
    others: Vec<(Text, Value)>,
}

impl From<Object> for ObjectBuilder {
    fn from(object: Object) -> Self {
        Self {
            sorted: object.members,
            others: Vec::new(),
        }
    }
}

impl ObjectBuilder {
    /// True when no member was added.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Adds a member.
    pub fn push(&mut self, name: impl Into<Text>, value: Value) {
        if let Some(member) = self.sorted.try_append(name.into(), value) {
            self.others.push(member);
        }
    }

    /// The object. Of several members of one name the last counts.
    pub fn finish(mut self) -> Object {
        if !self.others.is_empty() {
            self.sorted.extend(self.others);
        }
        Object {
            members: self.sorted,
        }
    }

    /// The object, unless two members have one name.
    ///
    /// # Errors
    /// The name of a member that was added twice.
    pub fn finish_of_distinct(mut self) -> Result<Object, Text> {
        self.others.sort_by(|(a, _), (b, _)| a.cmp(b));
        let mut names = self.others.iter().map(|(name, _)| name);
        let mut before = None;
        let twice = names.find(|name| {
            before.replace(*name) == Some(*name) || self.sorted.contains_key(name.as_str())
        });
        match twice {
            Some(name) => Err(name.clone()),
            None => Ok(self.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Short names, so that some occur twice.
    fn members() -> impl Strategy<Value = Vec<(String, u64)>> {
        prop::collection::vec(("[a-d]{0,2}", 0u64..100), 0..12)
    }

    fn object(members: &[(String, u64)]) -> Object {
        let members = members.iter();
        members
            .map(|(name, value)| (name.as_str(), Value::from(*value)))
            .collect()
    }

    fn assert_same(object: &Object, model: &BTreeMap<String, u64>) {
        let found: Vec<_> = object
            .iter()
            .map(|(n, v)| (n.to_string(), v.as_u64()))
            .collect();
        let wanted: Vec<_> = model.iter().map(|(n, v)| (n.clone(), Some(*v))).collect();
        assert_eq!(found, wanted);
        assert_eq!(object.len(), model.len());
    }

    proptest! {
        #[test]
        fn an_object_is_what_a_sorted_map_of_the_same_members_is(
            first in members(), second in members(), taken in members()
        ) {
            let mut model: BTreeMap<String, u64> = first.iter().cloned().collect();
            let mut built = object(&first);
            assert_same(&built, &model);
            built.extend(object(&second));
            model.extend(second);
            assert_same(&built, &model);
            for (name, value) in taken {
                let value = Value::from(value);
                if value.as_u64() < Some(50) {
                    prop_assert_eq!(built.remove(&name).and_then(|v| v.as_u64()), model.remove(&name));
                } else {
                    let before = model.insert(name.clone(), value.as_u64().unwrap());
                    prop_assert_eq!(built.insert(name, value).and_then(|v| v.as_u64()), before);
                }
                assert_same(&built, &model);
            }
        }

        #[test]
        fn a_name_that_comes_twice_is_found(members in members()) {
            let mut builder = ObjectBuilder::default();
            let mut model = BTreeMap::new();
            for (name, value) in &members {
                builder.push(name.as_str(), Value::from(*value));
                model.insert(name.clone(), *value);
            }
            match builder.finish_of_distinct() {
                Ok(object) => {
                    prop_assert_eq!(object.len(), members.len());
                    assert_same(&object, &model);
                }
                Err(name) => {
                    prop_assert!(members.iter().filter(|(other, _)| name == *other).count() > 1);
                }
            }
        }
    }

    #[test]
    fn a_million_members_in_the_wrong_order_are_no_trouble() {
        let members = (0..1_000_000u64).rev();
        let object: Object = members
            .map(|n| (format!("{n:07}"), Value::from(n)))
            .collect();
        assert_eq!(object.len(), 1_000_000);
        assert_eq!(object.get("0000007"), Some(&Value::from(7u64)));
    }
}
