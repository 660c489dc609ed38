//! The expected answers, and what was asked.

use std::path::Path;

use durable::{RealFs, read_all};
use traza::content;
use traza::json::{Object, Value};
use traza::store::analytics::Scope;
use traza::store::{Filter, Sort};

pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) status: u64,
    pub(crate) cursor_from: Option<String>,
    pub(crate) members: Object,
}

pub(crate) fn fixtures() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stores")
}

pub(crate) fn cases() -> Vec<Case> {
    let bytes = read_all(&RealFs, &fixtures().join("expected.json"), 1 << 20).unwrap();
    let Value::Array(cases) = Value::parse(&bytes).unwrap() else {
        panic!("no list of cases");
    };
    cases.iter().map(case).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn case(case: &Value) -> Case {
    let members = case.as_object().unwrap();
    let Value::Array(pairs) = &members["query"] else {
        panic!("no query");
    };
    let pair = |pair: &Value| match pair {
        Value::Array(pair) => (text(&pair[0]), text(&pair[1])),
        _ => panic!("no pair"),
    };
    Case {
        id: text(&members["id"]),
        path: text(&members["path"]),
        query: pairs.iter().map(pair).collect(),
        status: members["status"].as_u64().unwrap(),
        cursor_from: members.get("cursor_from").map(text),
        members: members.clone(),
    }
}

impl Case {
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        let mut pairs = self.query.iter().rev();
        pairs.find(|pair| pair.0 == key).map(|pair| pair.1.as_str())
    }

    pub(crate) fn number(&self, key: &str) -> Option<usize> {
        self.value(key).map(|value| value.parse().unwrap())
    }

    /// What stands behind `prefix` in the path, decoded.
    pub(crate) fn rest(&self, prefix: &str) -> Option<String> {
        let rest = self.path.strip_prefix(prefix)?;
        let mut bytes = Vec::new();
        let mut left = rest.bytes();
        while let Some(byte) = left.next() {
            if byte == b'%' {
                let digits = [left.next().unwrap(), left.next().unwrap()];
                let digits = std::str::from_utf8(&digits).unwrap().to_owned();
                bytes.push(u8::from_str_radix(&digits, 16).unwrap());
            } else {
                bytes.push(byte);
            }
        }
        Some(String::from_utf8(bytes).unwrap())
    }

    pub(crate) fn scope(&self) -> Scope {
        let filter = self.filter();
        Scope {
            since: filter.since,
            until: filter.until,
            tenant: filter.tenant,
        }
    }

    pub(crate) fn sort(&self) -> Option<Sort> {
        Some(match self.value("sort")? {
            "duration" | "duration_asc" => Sort::DurationAscending,
            "-duration" | "duration_desc" => Sort::DurationDescending,
            "start" | "start_asc" => Sort::StartAscending,
            "-start" | "start_desc" => Sort::StartDescending,
            other => panic!("no sort {other}"),
        })
    }

    pub(crate) fn filter(&self) -> Filter {
        let mut filter = Filter::default();
        for (key, value) in &self.query {
            let json =
                || Value::parse(value.as_bytes()).unwrap_or_else(|_| Value::from(value.as_str()));
            let owned = Some(value.clone());
            let number = || Some(value.parse::<u64>().unwrap());
            let millis = || number().map(|value| value.saturating_mul(1_000_000));
            match key.as_str() {
                "service" => filter.service = owned,
                "name" => filter.name = owned,
                "status" => filter.status = owned,
                "tenant" => filter.tenant = owned,
                "session" => filter.session = owned,
                "not_status" => filter.not_status.push(value.clone()),
                "content" | "q" => filter.content = Some(content::Query::new(value)),
                "since" | "since_ns" => filter.since = number(),
                "until" | "until_ns" => filter.until = number(),
                "min_duration_ns" => filter.min_duration_ns = number(),
                "max_duration_ns" => filter.max_duration_ns = number(),
                "min_duration_ms" => filter.min_duration_ns = millis(),
                "max_duration_ms" => filter.max_duration_ns = millis(),
                "limit" | "sort" | "buckets" | "group_by" => {}
                other => {
                    let (kind, key) = other.split_once('.').unwrap();
                    let key = key.to_owned();
                    let bound = || value.parse::<f64>().unwrap();
                    match kind {
                        "attr" => filter.attributes.push((key, json())),
                        "not_attr" => filter.not_attributes.push((key, json())),
                        "min_attr" => filter.min_attributes.push((key, bound())),
                        "max_attr" => filter.max_attributes.push((key, bound())),
                        other => panic!("no parameter {other}"),
                    }
                }
            }
        }
        filter
    }
}
