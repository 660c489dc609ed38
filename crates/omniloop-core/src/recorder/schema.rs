//! A JSON Schema of telemetry objects, derived from the objects themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

/// Members that are described, all levels together; a program that invents member names without end
/// gets a schema that says it is open.
const MEMBERS_MAX: usize = 1000;
const DEPTH_MAX: usize = 8;

/// What was seen of one value.
#[derive(Debug, Default)]
struct Shape {
    types: BTreeSet<&'static str>,
    seen: u64,
    members: BTreeMap<String, Shape>,
    objects: u64,
    items: Option<Box<Shape>>,
}

/// Learns from objects one by one.
#[derive(Debug, Default)]
pub(crate) struct SchemaDeriver {
    root: Shape,
    member_count: usize,
    is_open: bool,
}

impl SchemaDeriver {
    pub(crate) fn learn(&mut self, object: &Map<String, Value>) {
        let Self {
            root,
            member_count,
            is_open,
        } = self;
        root.types.insert("object");
        learn_members(root, object, 0, member_count, is_open);
    }

    /// The schema; `None` when there was no object.
    pub(crate) fn schema(&self) -> Option<Value> {
        if self.root.objects == 0 {
            return None;
        }
        let mut schema = describe(&self.root);
        if let Value::Object(schema) = &mut schema {
            schema.insert(
                "$schema".into(),
                "https://json-schema.org/draft/2020-12/schema".into(),
            );
            schema.insert("additionalProperties".into(), self.is_open.into());
        }
        Some(schema)
    }
}

fn learn_members(
    shape: &mut Shape,
    object: &Map<String, Value>,
    depth: usize,
    member_count: &mut usize,
    is_open: &mut bool,
) {
    shape.objects += 1;
    for (name, value) in object {
        if !shape.members.contains_key(name) {
            if *member_count >= MEMBERS_MAX {
                *is_open = true;
                continue;
            }
            *member_count += 1;
        }
        let member = shape.members.entry(name.clone()).or_default();
        learn(member, value, depth + 1, member_count, is_open);
    }
}

fn learn(
    shape: &mut Shape,
    value: &Value,
    depth: usize,
    member_count: &mut usize,
    is_open: &mut bool,
) {
    shape.seen += 1;
    shape.types.insert(match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    });
    if depth >= DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(object) => learn_members(shape, object, depth, member_count, is_open),
        Value::Array(items) => {
            let item_shape = shape.items.get_or_insert_default();
            for item in items {
                learn(item_shape, item, depth + 1, member_count, is_open);
            }
        }
        _ => {}
    }
}

fn describe(shape: &Shape) -> Value {
    let mut types = shape.types.clone();
    // Every integer is a number: a variable that was 1 once and 0.5 later is a number.
    if types.contains("number") {
        types.remove("integer");
    }
    let mut out = Map::new();
    let types: Vec<_> = types.into_iter().collect();
    match types.as_slice() {
        [only] => out.insert("type".into(), json!(only)),
        several => out.insert("type".into(), json!(several)),
    };
    if shape.objects > 0 {
        let members = shape
            .members
            .iter()
            .map(|(n, m)| (n.clone(), describe(m)))
            .collect();
        out.insert("properties".into(), Value::Object(members));
        let required: Vec<_> = shape
            .members
            .iter()
            .filter(|(_, member)| member.seen == shape.objects)
            .map(|(name, _)| name.as_str())
            .collect();
        out.insert("required".into(), json!(required));
    }
    if let Some(items) = shape.items.as_ref().filter(|items| items.seen > 0) {
        out.insert("items".into(), describe(items));
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_types_and_the_members_that_were_always_there() {
        let mut deriver = SchemaDeriver::default();
        assert_eq!(deriver.schema(), None);
        for object in [
            json!({"loss": 1, "lr": 0.1, "pos": {"x": 1}}),
            json!({"loss": 0.5, "tags": ["a"], "pos": {"x": null}}),
        ] {
            deriver.learn(object.as_object().unwrap());
        }
        let schema = deriver.schema().unwrap();
        assert_eq!(schema["required"], json!(["loss", "pos"]));
        assert_eq!(schema["properties"]["loss"], json!({"type": "number"}));
        assert_eq!(
            schema["properties"]["pos"]["properties"]["x"]["type"],
            json!(["integer", "null"])
        );
        assert_eq!(
            schema["properties"]["tags"]["items"],
            json!({"type": "string"})
        );
        assert_eq!(schema["additionalProperties"], json!(false));
    }

    #[test]
    fn a_program_that_invents_names_without_end_gets_an_open_schema_of_bounded_size() {
        let mut deriver = SchemaDeriver::default();
        for i in 0..5000 {
            deriver.learn(json!({ format!("name{i}"): i }).as_object().unwrap());
        }
        let schema = deriver.schema().unwrap();
        assert_eq!(schema["properties"].as_object().unwrap().len(), MEMBERS_MAX);
        assert_eq!(schema["additionalProperties"], json!(true));
    }
}
