//! Floating-point numbers in JSON: `docs/formats/atj.md`, "Why the floats are special".

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A float that keeps its value in JSON: the three that are not finite are the strings `"NaN"`,
/// `"Infinity"` and `"-Infinity"`, every other one is a plain number.
///
/// Equality is of the value that is stored, so `NaN` equals itself here.
#[derive(Clone, Copy, Debug, Default)]
pub struct JsonF64(pub f64);

impl PartialEq for JsonF64 {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_bits() == other.0.to_bits()
            || self.0 == other.0
            || (self.0.is_nan() && other.0.is_nan())
    }
}

impl From<f64> for JsonF64 {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl Serialize for JsonF64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            v if v.is_finite() => serializer.serialize_f64(v),
            v if v.is_nan() => serializer.serialize_str("NaN"),
            v if v > 0.0 => serializer.serialize_str("Infinity"),
            _ => serializer.serialize_str("-Infinity"),
        }
    }
}

impl<'de> Deserialize<'de> for JsonF64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;
        impl Visitor<'_> for Number {
            type Value = JsonF64;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a number, \"NaN\", \"Infinity\" or \"-Infinity\"")
            }

            fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<JsonF64, E> {
                Ok(JsonF64(value))
            }

            #[expect(
                clippy::cast_precision_loss,
                reason = "the number was written as a float"
            )]
            fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<JsonF64, E> {
                Ok(JsonF64(value as f64))
            }

            #[expect(
                clippy::cast_precision_loss,
                reason = "the number was written as a float"
            )]
            fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<JsonF64, E> {
                Ok(JsonF64(value as f64))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<JsonF64, E> {
                match text {
                    "NaN" => Ok(JsonF64(f64::NAN)),
                    "Infinity" => Ok(JsonF64(f64::INFINITY)),
                    "-Infinity" => Ok(JsonF64(f64::NEG_INFINITY)),
                    other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
                }
            }
        }
        deserializer
            .deserialize_any(Number)
            .map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_have_the_spelling_of_the_format() {
        for (value, text) in [
            (0.00001, "0.00001"),
            (1e-7, "1e-7"),
            (1e300, "1e+300"),
            (100.0, "100.0"),
            (0.42, "0.42"),
            (-0.0, "-0.0"),
            (f64::NAN, "\"NaN\""),
            (f64::INFINITY, "\"Infinity\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(serde_json::to_string(&JsonF64(value)).unwrap(), text);
        }
    }

    #[test]
    fn null_and_other_texts_are_no_numbers() {
        for text in ["null", "\"nan\"", "\"1\"", "true", "[]"] {
            assert!(serde_json::from_str::<JsonF64>(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_float_round_trips(bits: u64) {
            let value = f64::from_bits(bits);
            let text = serde_json::to_string(&JsonF64(value)).unwrap();
            let back: JsonF64 = serde_json::from_str(&text).unwrap();
            prop_assert!(back.0.to_bits() == bits || (value.is_nan() && back.0.is_nan()));
        }
    }
}
