//! Portable JSON: an object names each of its members once.
//!
//! Of two members with one name, readers take the first, or the last, or complain; what two readers of a
//! journal must agree upon cannot hang on that. So a name that stands twice is refused wherever it
//! stands, also in the values that users hand in.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::marker::PhantomData;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// A JSON value whose objects name each member once.
pub(crate) struct Portable(pub(crate) Value);

/// Reads a [`Portable`] value: for `deserialize_with`.
pub(crate) fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Portable::deserialize(deserializer).map(|portable| portable.0)
}

/// Reads values by names that stand once each: for `deserialize_with`.
pub(crate) fn by_name<'de, D, V>(deserializer: D) -> Result<BTreeMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct ByName<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> Visitor<'de> for ByName<V> {
        type Value = BTreeMap<String, V>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut members = BTreeMap::new();
            while let Some(name) = map.next_key::<String>()? {
                match members.entry(name) {
                    Entry::Vacant(free) => free.insert(map.next_value()?),
                    Entry::Occupied(taken) => return Err(twice(taken.key())),
                };
            }
            Ok(members)
        }
    }
    deserializer.deserialize_map(ByName(PhantomData))
}

/// A member's name stands twice.
pub(crate) fn twice<E: Error>(name: &str) -> E {
    E::custom(format_args!("member {name:?} twice"))
}

impl<'de> Deserialize<'de> for Portable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Portable;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a JSON value")
            }

            fn visit_unit<E>(self) -> Result<Portable, E> {
                Ok(Portable(Value::Null))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Portable, E> {
                Ok(Portable(Value::Bool(value)))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Portable, E> {
                Ok(Portable(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Portable, E> {
                Ok(Portable(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Portable, E> {
                let number = Number::from_f64(value);
                let number = number.ok_or_else(|| E::custom("a number that is not finite"))?;
                Ok(Portable(Value::Number(number)))
            }

            fn visit_str<E>(self, value: &str) -> Result<Portable, E> {
                Ok(Portable(value.into()))
            }

            fn visit_string<E>(self, value: String) -> Result<Portable, E> {
                Ok(Portable(Value::String(value)))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Portable, A::Error> {
                let mut list = Vec::new();
                while let Some(Portable(item)) = items.next_element()? {
                    list.push(item);
                }
                Ok(Portable(Value::Array(list)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Portable, A::Error> {
                let mut members = Map::new();
                while let Some(name) = map.next_key::<String>()? {
                    if members.contains_key(&name) {
                        return Err(twice(&name));
                    }
                    let Portable(value) = map.next_value()?;
                    members.insert(name, value);
                }
                Ok(Portable(Value::Object(members)))
            }
        }
        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Value, serde_json::Error> {
        serde_json::from_str::<Portable>(text).map(|portable| portable.0)
    }

    #[test]
    fn a_value_is_read_as_the_json_library_reads_it() {
        for text in [
            "null",
            "true",
            "-0.0",
            "18446744073709551615",
            "-9223372036854775808",
            "1e300",
            "0.1",
            r#""gr\u00f6\u00dfer""#,
            r#"[1,[],{"a":{"b":[null]},"c":{}}]"#,
        ] {
            assert_eq!(
                read(text).unwrap(),
                serde_json::from_str::<Value>(text).unwrap()
            );
        }
    }

    #[test]
    fn a_member_that_stands_twice_at_any_depth_is_refused_and_named() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"b":[{"a":{"c":0},"a":null}]}"#,
            r#"{"a":1,"\u0061":2}"#,
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(r#"member "a" twice"#), "{error}");
        }
    }
}
