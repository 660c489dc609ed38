//! Values of variables: looking one up, and telling two apart.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::export::{flatten, number_of};

/// The value of a variable in a telemetry object: that of the member of this name, or of the leaf that
/// [`flatten`] names so (`arm.joints.0`).
pub fn value_of<'v>(telemetry: &'v Value, name: &str) -> Option<&'v Value> {
    if let Some(value) = telemetry.get(name) {
        return Some(value);
    }
    if !name.contains('.') && !name.contains('\\') {
        return None;
    }
    let mut at = telemetry;
    for step in steps(name) {
        at = match at {
            Value::Object(members) => members.get(&step)?,
            Value::Array(elements) => elements.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
    }
    Some(at)
}

/// The names of the members on the way: those between dots that have no backslash before them.
fn steps(name: &str) -> Vec<String> {
    let mut steps = vec![String::new()];
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        let step = match c {
            '.' => {
                steps.push(String::new());
                continue;
            }
            '\\' => chars.next().unwrap_or('\\'),
            c => c,
        };
        if let Some(last) = steps.last_mut() {
            last.push(step);
        }
    }
    steps
}

/// How far apart two numbers may be and still count as one: `tolerance` times the largest of 1 and their
/// amounts. With 0 they must be equal, or both NaN.
fn are_close(a: f64, b: f64, tolerance: f64) -> bool {
    if a.partial_cmp(&b) == Some(Ordering::Equal) || (a.is_nan() && b.is_nan()) {
        return true;
    }
    let scale = a.abs().max(b.abs()).max(1.0);
    (a - b).abs() <= tolerance * scale && scale.is_finite()
}

/// Whether two leaves are the same value. Whole numbers are compared exactly, however large.
fn is_same_leaf(a: &Value, b: &Value, tolerance: f64) -> bool {
    if a == b {
        return true;
    }
    if let (Value::Number(a), Value::Number(b)) = (a, b) {
        let are_whole = !a.is_f64() && !b.is_f64();
        if are_whole && tolerance <= 0.0 {
            return false;
        }
    }
    match (number_of(a), number_of(b)) {
        (Some(a), Some(b)) => are_close(a, b, tolerance),
        _ => false,
    }
}

/// Whether two values are the same, numbers by what they are and not by how they are written.
pub(super) fn is_same(a: &Value, b: &Value, tolerance: f64) -> bool {
    first_difference(a, b, tolerance, &mut |_| false).is_none()
}

/// The first leaf in which two values differ: its name as [`flatten`] spells it, and what either has there.
#[derive(Debug, PartialEq)]
pub(super) struct Difference {
    pub(super) field: String,
    pub(super) a: Option<Value>,
    pub(super) b: Option<Value>,
}

/// The first difference by name. Leaves, objects and arrays whose name `is_ignored` are left out.
pub(super) fn first_difference(
    a: &Value,
    b: &Value,
    tolerance: f64,
    is_ignored: &mut dyn FnMut(&str) -> bool,
) -> Option<Difference> {
    let mut name = String::new();
    compare(Some(a), Some(b), tolerance, &mut name, is_ignored)
}

fn compare(
    a: Option<&Value>,
    b: Option<&Value>,
    tolerance: f64,
    name: &mut String,
    is_ignored: &mut dyn FnMut(&str) -> bool,
) -> Option<Difference> {
    if !name.is_empty() && is_ignored(name) {
        return None;
    }
    let len = name.len();
    match (a, b) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let mut members: Vec<&String> = a.keys().chain(b.keys()).collect();
            members.sort();
            members.dedup();
            members.into_iter().find_map(|member| {
                push_member(name, member);
                let found = compare(a.get(member), b.get(member), tolerance, name, is_ignored);
                name.truncate(len);
                found
            })
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            (0..a.len().max(b.len())).find_map(|index| {
                push_step(name, &index.to_string());
                let found = compare(a.get(index), b.get(index), tolerance, name, is_ignored);
                name.truncate(len);
                found
            })
        }
        (Some(a), Some(b)) if is_same_leaf(a, b, tolerance) => None,
        (a, b) => differing(a, b, name, is_ignored),
    }
}

/// One side has nothing here, or something of another kind. What is ignored of it does not count.
fn differing(
    a: Option<&Value>,
    b: Option<&Value>,
    name: &str,
    is_ignored: &mut dyn FnMut(&str) -> bool,
) -> Option<Difference> {
    if let (None, Some(only)) | (Some(only), None) = (a, b) {
        let mut counts = false;
        match only {
            Value::Object(Map { .. }) | Value::Array(_) => flatten(only, &mut |leaf, _| {
                let mut full = name.to_owned();
                push_step(&mut full, leaf);
                counts |= !is_ignored(&full);
            }),
            _ => counts = true,
        }
        if !counts {
            return None;
        }
    }
    Some(Difference {
        field: if name.is_empty() { "payload" } else { name }.to_owned(),
        a: a.cloned(),
        b: b.cloned(),
    })
}

fn push_member(name: &mut String, member: &str) {
    let escaped = member.replace('\\', "\\\\").replace('.', "\\.");
    push_step(name, &escaped);
}

fn push_step(name: &mut String, step: &str) {
    if !name.is_empty() {
        name.push('.');
    }
    name.push_str(step);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn difference(a: &Value, b: &Value) -> Option<String> {
        first_difference(a, b, 0.0, &mut |_| false).map(|found| found.field)
    }

    #[test]
    fn a_variable_is_found_by_the_name_that_a_table_gives_it() {
        let telemetry =
            json!({"a.b": 1, "a": {"b": 2, "c.d": 3}, "arm": {"joints": [4, [5, 6]]}, "e\\": 7});
        let value = |name| value_of(&telemetry, name).cloned();
        assert_eq!(
            value("a.b"),
            Some(json!(1)),
            "a member's own name comes first"
        );
        assert_eq!(value("a.c\\.d"), Some(json!(3)));
        assert_eq!(value("arm.joints.1.0"), Some(json!(5)));
        assert_eq!(value("arm.joints"), Some(json!([4, [5, 6]])));
        assert_eq!(value("e\\"), Some(json!(7)));
        assert_eq!(value("arm.joints.2"), None);
        assert_eq!(value("arm.joints.x"), None);
        assert_eq!(value("nothing"), None);
    }

    #[test]
    fn numbers_are_compared_by_value_and_large_whole_ones_exactly() {
        assert_eq!(difference(&json!(1), &json!(1.0)), None);
        assert_eq!(difference(&json!("NaN"), &json!("NaN")), None);
        assert_eq!(difference(&json!(0.0), &json!(-0.0)), None);
        let (a, b) = (
            json!(9_007_199_254_740_993_u64),
            json!(9_007_199_254_740_992_u64),
        );
        assert_eq!(difference(&a, &b), Some("payload".to_owned()));
        assert_eq!(
            difference(&json!("Infinity"), &json!("-Infinity")),
            Some("payload".to_owned())
        );
        assert!(is_same(&json!(100.0), &json!(100.9), 0.01));
        assert!(!is_same(&json!(100.0), &json!(101.2), 0.01));
        assert!(
            !is_same(&json!("Infinity"), &json!(1.0), 0.5),
            "nothing is near to infinity"
        );
    }

    #[test]
    fn the_first_difference_has_the_name_of_the_leaf_and_ignored_ones_do_not_count() {
        let a = json!({"arm": {"joints": [1, 2]}, "loss": 1, "time": 5});
        let b = json!({"arm": {"joints": [1, 3]}, "loss": 2});
        assert_eq!(difference(&a, &b), Some("arm.joints.1".to_owned()));
        let mut ignored = |name: &str| name == "arm" || name == "loss" || name == "time";
        assert_eq!(first_difference(&a, &b, 0.0, &mut ignored), None);
        let found = first_difference(&a, &b, 0.0, &mut |name| name != "time").map(|d| (d.a, d.b));
        assert_eq!(found, Some((Some(json!(5)), None)));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(|x: f64| json!(x)),
            "[a-c.\\\\]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-c.\\\\]{1,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_value_differs_from_itself_nowhere(value in any_value()) {
            prop_assert_eq!(difference(&value, &value), None);
        }

        #[test]
        fn which_of_two_comes_first_does_not_decide_whether_and_where_they_differ(
            a in any_value(),
            b in any_value(),
        ) {
            prop_assert_eq!(difference(&a, &b), difference(&b, &a));
        }

        #[test]
        fn every_leaf_of_a_table_is_found_by_its_name(value in any_value()) {
            let object = json!({"v": value});
            let mut leaves = Vec::new();
            flatten(&object, &mut |name, leaf| leaves.push((name.to_owned(), leaf.clone())));
            for (name, leaf) in leaves {
                prop_assert_eq!(value_of(&object, &name), Some(&leaf), "{}", name);
            }
        }
    }
}
