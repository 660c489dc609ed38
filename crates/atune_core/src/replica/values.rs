//! Values of objectives, as trials keep them.

use std::ops::Deref;

use serde::{Serialize, Serializer};

use crate::number::JsonF64;

/// A list of values, one per direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Values(Kept);

/// Most studies have one objective, and most of what they hold is its values: these need no memory
/// beside the list itself, and do not pay for the longer ones either, which are kept two steps away.
#[derive(Clone, Debug, PartialEq)]
enum Kept {
    One(JsonF64),
    Several(Box<Several>),
}

#[derive(Clone, Debug, PartialEq)]
struct Several(Box<[JsonF64]>);

impl Deref for Values {
    type Target = [JsonF64];

    fn deref(&self) -> &[JsonF64] {
        match &self.0 {
            Kept::One(value) => std::slice::from_ref(value),
            Kept::Several(values) => &values.0,
        }
    }
}

impl From<&[JsonF64]> for Values {
    fn from(values: &[JsonF64]) -> Self {
        Self(match values {
            [value] => Kept::One(*value),
            values => Kept::Several(Box::new(Several(values.into()))),
        })
    }
}

impl FromIterator<JsonF64> for Values {
    fn from_iter<I: IntoIterator<Item = JsonF64>>(values: I) -> Self {
        Vec::from_iter(values).as_slice().into()
    }
}

impl Default for Values {
    fn default() -> Self {
        Self::from(&[][..])
    }
}

impl<'a> IntoIterator for &'a Values {
    type Item = &'a JsonF64;
    type IntoIter = std::slice::Iter<'a, JsonF64>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_holds_what_it_was_made_of() {
        for numbers in [
            &[][..],
            &[0.5],
            &[f64::NAN],
            &[1.0, 2.0],
            &[0.0, f64::INFINITY, -1.0],
        ] {
            let numbers: Vec<JsonF64> = numbers.iter().copied().map(JsonF64).collect();
            let values = Values::from(numbers.as_slice());
            assert_eq!(*values, *numbers);
            assert_eq!(values, numbers.iter().copied().collect());
            let texts = [
                serde_json::to_string(&values),
                serde_json::to_string(&numbers),
            ];
            assert_eq!(texts[0].as_ref().unwrap(), texts[1].as_ref().unwrap());
        }
        assert_eq!(Values::default().len(), 0);
    }

    #[test]
    fn a_trial_without_values_and_one_with_a_value_need_two_words() {
        assert_eq!(size_of::<Option<Values>>(), 2 * size_of::<u64>());
    }
}
