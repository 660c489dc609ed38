//! What a command says of its trial: JSON objects on its standard output.

use serde_json::{Map, Value};

/// The objective that is the command's exit code.
pub(super) const EXIT_CODE: &str = "exit_code";

/// What one line says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// What a constraint came to.
    Constraint {
        name: String,
        value: Result<f64, String>,
    },
    /// An intermediate value of every objective.
    Report { step: u64, values: Vec<f64> },
    /// The result, or the result so far.
    Result {
        values: Result<Vec<f64>, String>,
        is_final: bool,
    },
}

/// The names to look for.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) objectives: Vec<String>,
    /// Members that have to be at most 0 in the end.
    pub(super) constraints: Vec<String>,
    pub(super) step: String,
}

impl Names {
    /// What an object says: of constraints, as a report and as a result, which it may be all at once.
    pub(super) fn read(&self, object: &Map<String, Value>) -> Vec<Said> {
        let is_final = object.get("final") == Some(&Value::Bool(true));
        let names_one = self.objectives.iter().any(|name| object.contains_key(name));
        let constraint = |name: &String| {
            let value = number(object.get(name)?);
            let value =
                value.map_err(|what| format!("its constraint {name:?} is {what}, no number"));
            let name = name.clone();
            Some(Said::Constraint { name, value })
        };
        let mut said: Vec<Said> = self.constraints.iter().filter_map(constraint).collect();
        if !is_final && !names_one {
            return said;
        }
        let values = self.values(object);
        let step = object.get(&self.step).and_then(step);
        if let (Ok(values), Some(step)) = (&values, step) {
            let values = values.clone();
            said.push(Said::Report { step, values });
        }
        said.push(Said::Result { values, is_final });
        said
    }

    fn values(&self, object: &Map<String, Value>) -> Result<Vec<f64>, String> {
        let value = |name: &String| match object.get(name) {
            None => Err(format!("its result has no {name:?}")),
            Some(value) => {
                number(value).map_err(|what| format!("its {name:?} is {what}, no number"))
            }
        };
        self.objectives.iter().map(value).collect()
    }

    /// Whether the exit code is the one value.
    pub(super) fn is_exit_code(&self) -> bool {
        matches!(self.objectives.as_slice(), [only] if only == EXIT_CODE)
    }
}

fn step(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        // Frameworks that count in floats.
        let text = value.as_f64().filter(|v| v.fract() == 0.0)?.to_string();
        text.parse().ok()
    })
}

/// A number; those that are not finite come as the strings that the recorder and most JSON writers make of
/// them.
fn number(value: &Value) -> Result<f64, &'static str> {
    match value {
        Value::Number(n) => n.as_f64().ok_or("out of range"),
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "nan" => Ok(f64::NAN),
            "inf" | "infinity" | "+infinity" => Ok(f64::INFINITY),
            "-inf" | "-infinity" => Ok(f64::NEG_INFINITY),
            _ => Err("a text"),
        },
        Value::Null => Err("null"),
        Value::Bool(_) => Err("a truth value"),
        Value::Array(_) => Err("a list"),
        Value::Object(_) => Err("an object"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(objectives: &[&str], object: &Value) -> Vec<Said> {
        let objectives = objectives.iter().map(|&name| name.to_owned()).collect();
        let names = Names {
            objectives,
            constraints: vec!["memory".to_owned()],
            step: "step".to_owned(),
        };
        names.read(object.as_object().unwrap())
    }

    fn result(values: &[f64]) -> Said {
        Said::Result {
            values: Ok(values.to_vec()),
            is_final: false,
        }
    }

    #[test]
    fn a_line_with_a_step_is_a_report_and_the_result_so_far() {
        let values = vec![0.41];
        assert_eq!(
            read(&["loss"], &json!({"step": 3, "loss": 0.41, "lr": 1})),
            [Said::Report { step: 3, values }, result(&[0.41])]
        );
        let values = vec![2.0];
        assert_eq!(
            read(&["loss"], &json!({"step": 4.0, "loss": 2}))[0],
            Said::Report { step: 4, values }
        );
    }

    #[test]
    fn a_constraint_may_stand_beside_a_result_or_alone() {
        let constraint = |value| Said::Constraint {
            name: "memory".to_owned(),
            value,
        };
        assert_eq!(
            read(&["loss"], &json!({"loss": 1, "memory": -2.5})),
            [constraint(Ok(-2.5)), result(&[1.0])]
        );
        assert_eq!(
            read(&["loss"], &json!({"memory": 3})),
            [constraint(Ok(3.0))]
        );
        let said = read(&["loss"], &json!({"memory": [3]}));
        assert!(
            matches!(&said[..], [Said::Constraint { value: Err(what), .. }] if what.contains("a list"))
        );
    }

    #[test]
    fn a_step_that_is_none_makes_no_report() {
        for step in [json!(-1), json!(1.5), json!("3"), json!(null), json!(1e300)] {
            assert_eq!(
                read(&["loss"], &json!({"step": step, "loss": 1.0})),
                [result(&[1.0])]
            );
        }
    }

    #[test]
    fn a_line_without_an_objective_says_nothing_unless_it_is_final() {
        assert_eq!(read(&["loss"], &json!({"step": 3, "acc": 0.41})), []);
        let said = read(&["loss"], &json!({"final": true, "acc": 1}));
        assert!(
            matches!(&said[..], [Said::Result { values: Err(what), is_final: true }] if what.contains("\"loss\""))
        );
    }

    #[test]
    fn a_missing_or_a_strange_value_is_a_result_that_failed() {
        for (object, what) in [
            (json!({"loss": 1}), "no \"acc\""),
            (json!({"loss": null, "acc": 1}), "null"),
            (json!({"loss": [1, 2], "acc": 1}), "a list"),
            (json!({"loss": "low", "acc": 1}), "a text"),
            (json!({"loss": true, "acc": 1}), "a truth value"),
        ] {
            let said = read(&["loss", "acc"], &object);
            let Some(Said::Result {
                values: Err(told), ..
            }) = said.first()
            else {
                panic!("{said:?}");
            };
            assert!(told.contains(what), "{told}");
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_numbers() {
        let said = read(&["a", "b"], &json!({"a": "Infinity", "b": "-inf"}));
        assert_eq!(said, [result(&[f64::INFINITY, f64::NEG_INFINITY])]);
        let said = read(&["a"], &json!({"a": "NaN"}));
        assert!(matches!(&said[..], [Said::Result { values: Ok(v), .. }] if v[0].is_nan()));
    }
}
