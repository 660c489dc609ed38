//! Requests to services.

use std::collections::VecDeque;

use traza::json::Object;
use traza::span::{Event, Span};

use super::{BASE_NS, MS, Random, Text, Traces, put, rounded};

const SERVICES: [&str; 7] = [
    "checkout",
    "catalog",
    "inventory",
    "billing",
    "identity",
    "notifier",
    "search-api",
];
const GATEWAY: &str = "edge-gateway";
const ROUTES: [&str; 8] = [
    "/cart",
    "/cart/{id}",
    "/checkout",
    "/products",
    "/products/{sku}",
    "/login",
    "/invoices/{id}",
    "/search",
];
const REGIONS: [&str; 4] = ["us-east", "us-west", "eu-central", "ap-south"];

pub(super) struct Requests {
    random: Random,
    text: Text,
    now: u64,
}

impl Requests {
    pub(super) fn new(mut random: Random) -> Self {
        let text = Text::new(&mut random, 120);
        Self {
            random,
            text,
            now: BASE_NS,
        }
    }

    fn root(&mut self, failed: bool, region: &str) -> Span {
        let random = &mut self.random;
        let method = random.pick(&["GET", "GET", "GET", "POST", "PUT", "DELETE"]);
        let route = random.pick(&ROUTES);
        let code = if failed {
            random.pick_number(&[500, 502, 503, 504])
        } else {
            random.pick_number(&[200, 200, 200, 201, 204, 304, 404])
        };
        let mut attributes = Object::new();
        put(&mut attributes, "http.method", method);
        put(&mut attributes, "http.route", route);
        put(&mut attributes, "http.status_code", code);
        put(&mut attributes, "region", region);
        put(
            &mut attributes,
            "customer.tier",
            random.pick(&["free", "free", "pro", "enterprise"]),
        );
        put(&mut attributes, "request.id", random.hex(12));
        let agents = [
            "curl/8.1",
            "Mozilla/5.0 (X11)",
            "okhttp/4.12",
            "python-requests/2.31",
        ];
        put(&mut attributes, "user_agent", random.pick(&agents));
        Span {
            trace_id: random.hex(16).into(),
            span_id: random.hex(8).into(),
            name: format!("{method} {route}").into(),
            start_time_ns: self.now,
            end_time_ns: self.now + random.skewed(2 * MS, 3_000 * MS, 1.6),
            status: if failed { "error" } else { "ok" }.into(),
            service: GATEWAY.into(),
            attributes,
            ..Span::default()
        }
    }

    fn child(&mut self, parent: &Span, failed: bool, region: &str) -> Span {
        let random = &mut self.random;
        let total = parent.end_time_ns.saturating_sub(parent.start_time_ns);
        let start = parent.start_time_ns + random.below(total / 2);
        let end = start + random.skewed(20_000, (total / 2).max(40_000), 1.2);
        let service = random.pick(&SERVICES);
        let mut attributes = Object::new();
        put(&mut attributes, "region", region);
        put(
            &mut attributes,
            "host.name",
            format!("{service}-{:02}", random.below(12)),
        );
        let mut status = "ok";
        let name = match random.below(5) {
            0 => query(random, &mut attributes),
            1 => {
                put(&mut attributes, "cache.hit", random.chance(0.7));
                put(
                    &mut attributes,
                    "cache.key",
                    format!("k:{}", random.below(5000)),
                );
                format!("cache.{}", random.pick(&["get", "set", "del"]))
            }
            2 => {
                put(&mut attributes, "rpc.system", "grpc");
                put(&mut attributes, "rpc.grpc.status_code", 0u64);
                put(&mut attributes, "retry.count", random.below(3));
                format!("rpc {service}/{}", random.pick(&["Get", "List", "Update"]))
            }
            3 => {
                put(
                    &mut attributes,
                    "messaging.destination",
                    random.pick(&["events", "audit", "mail"]),
                );
                put(
                    &mut attributes,
                    "messaging.size",
                    random.skewed(100, 60_000, 1.0),
                );
                status = "";
                "queue.publish".to_owned()
            }
            _ => {
                put(&mut attributes, "cpu.ms", rounded(random.unit() * 40.0, 3));
                let len = random.between(30, 160);
                put(&mut attributes, "note", self.text.make(random, len));
                format!(
                    "work {}",
                    random.pick(&["render", "score", "validate", "rank"])
                )
            }
        };
        if failed && random.chance(0.3) {
            status = "error";
        }
        let mut events = Vec::new();
        if status == "error" {
            let mut attributes = Object::new();
            let kinds = ["TimeoutError", "ConnectionReset", "ValueError"];
            put(&mut attributes, "exception.type", random.pick(&kinds));
            let len = random.between(20, 90);
            put(
                &mut attributes,
                "exception.message",
                self.text.make(random, len),
            );
            events.push(Event {
                name: "exception".into(),
                timestamp_ns: end,
                attributes,
            });
        }
        Span {
            trace_id: parent.trace_id.clone(),
            span_id: random.hex(8).into(),
            parent_span_id: Some(parent.span_id.clone()),
            name: name.into(),
            start_time_ns: start,
            end_time_ns: end,
            status: status.into(),
            service: service.into(),
            attributes,
            events,
            ..Span::default()
        }
    }
}

fn query(random: &mut Random, attributes: &mut Object) -> String {
    let table = random.pick(&["orders", "items", "users", "prices", "sessions"]);
    put(
        attributes,
        "db.system",
        random.pick(&["postgresql", "mysql", "redis"]),
    );
    put(
        attributes,
        "db.operation",
        random.pick(&["SELECT", "INSERT", "UPDATE"]),
    );
    let (id, rows) = (random.below(90_000), random.between(1, 50));
    put(
        attributes,
        "db.statement",
        format!("SELECT * FROM {table} WHERE id = {id} LIMIT {rows}"),
    );
    put(attributes, "db.rows", random.below(500));
    format!("db.query {table}")
}

impl Traces for Requests {
    fn next_trace(&mut self, out: &mut VecDeque<Span>) {
        self.now += self.random.skewed(50_000, 40 * MS, 1.0);
        let region = self.random.pick(&REGIONS);
        let failed = self.random.chance(0.03);
        let children = self.random.between(2, 9);
        let root = self.root(failed, region);
        let mut parents = vec![root.clone()];
        out.push_back(root);
        for _ in 0..children {
            let index = usize::try_from(self.random.below(parents.len() as u64)).unwrap_or(0);
            let Some(parent) = parents.get(index).cloned() else {
                break;
            };
            let child = self.child(&parent, failed, region);
            if parents.len() < 4 {
                parents.push(child.clone());
            }
            out.push_back(child);
        }
    }
}
