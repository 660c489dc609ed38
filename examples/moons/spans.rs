//! The spans of a program, sent as OTLP JSON over HTTP when it ends: what an SDK of OpenTelemetry does, in short.

use std::io::{self, Write as _};
use std::time::Duration;

use durable::{Clock as _, SystemClock};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

/// A server that takes longer is not waited for.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The spans of one trace, if there is a server to send them to.
pub(crate) struct Spans {
    clock: SystemClock,
    begun: u64,
    target: Option<Target>,
    gathered: Vec<Value>,
}

/// Where the spans go, and what they belong to.
struct Target {
    endpoint: String,
    trace: String,
    /// The span that started this program.
    parent: String,
    /// The number of the program's own span; those inside of it have the numbers behind it.
    root: u64,
    resource: Vec<Value>,
}

impl Spans {
    /// As the environment says: `OTEL_EXPORTER_OTLP_ENDPOINT`, `TRACEPARENT` and `OTEL_RESOURCE_ATTRIBUTES`.
    pub(crate) fn from_environment() -> Self {
        let clock = SystemClock::start();
        Self {
            begun: clock.wall_ns(),
            clock,
            target: Target::from_environment(),
            gathered: Vec::new(),
        }
    }

    /// Nanoseconds since the Unix epoch.
    pub(crate) fn now(&self) -> u64 {
        self.clock.wall_ns()
    }

    /// A span that ends now.
    pub(crate) fn add(&mut self, name: &str, begun: u64, attributes: &[(&str, Value)]) {
        let Some(target) = &self.target else {
            return;
        };
        let number = target.root.wrapping_add(1 + self.gathered.len() as u64);
        let (id, parent) = (span_id(number), span_id(target.root));
        let times = (begun, self.now());
        let span = target.span(name, &id, &parent, times, attributes);
        self.gathered.push(span);
    }

    /// Ends the program's own span and sends all. What a server does not take is lost, and does no harm.
    pub(crate) fn send(mut self, name: &str, attributes: &[(&str, Value)]) {
        let Some(target) = &self.target else {
            return;
        };
        let (id, times) = (span_id(target.root), (self.begun, self.now()));
        let own = target.span(name, &id, &target.parent, times, attributes);
        self.gathered.push(own);
        let scope = json!({ "scope": { "name": "moons" }, "spans": self.gathered });
        let resource = json!({ "attributes": target.resource });
        let request = json!({ "resourceSpans": [{ "resource": resource, "scopeSpans": [scope] }] });
        if let Err(error) = target.post(&request.to_string()) {
            writeln!(io::stderr(), "the spans were not taken: {error}").ok();
        }
    }
}

impl Target {
    fn from_environment() -> Option<Self> {
        let variable = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let endpoint = variable("OTEL_EXPORTER_OTLP_ENDPOINT")?;
        let around = variable("TRACEPARENT")?;
        let mut parts = around.split('-').skip(1);
        let (trace, parent) = (parts.next()?.to_owned(), parts.next()?.to_owned());
        let mut resource = vec![attribute("service.name", &json!("moons"))];
        let named = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        for (name, value) in named.split(',').filter_map(|pair| pair.split_once('=')) {
            let value = percent_decode_str(value).decode_utf8_lossy();
            resource.push(attribute(name, &json!(value)));
        }
        Some(Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            trace,
            // Unlike its parent, whose number is random, and unlike its own spans.
            root: u64::from_str_radix(&parent, 16).ok()?.wrapping_add(1),
            parent,
            resource,
        })
    }

    fn span(
        &self,
        name: &str,
        id: &str,
        parent: &str,
        (begun, ended): (u64, u64),
        attributes: &[(&str, Value)],
    ) -> Value {
        let attributes: Vec<Value> = attributes
            .iter()
            .map(|(name, value)| attribute(name, value))
            .collect();
        json!({
            "traceId": self.trace, "spanId": id, "parentSpanId": parent, "name": name, "kind": 1,
            "startTimeUnixNano": begun.to_string(), "endTimeUnixNano": ended.to_string(),
            "attributes": attributes,
        })
    }

    fn post(&self, body: &str) -> Result<(), ureq::Error> {
        let config = ureq::Agent::config_builder().timeout_global(Some(TIMEOUT));
        let agent: ureq::Agent = config.proxy(None).build().into();
        let request = agent.post(format!("{}/v1/traces", self.endpoint));
        let request = request.header("Content-Type", "application/json");
        request.send(body).map(|_| ())
    }
}

fn span_id(number: u64) -> String {
    format!("{number:016x}")
}

/// An attribute as OTLP spells it.
fn attribute(name: &str, value: &Value) -> Value {
    let value = match value {
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": name, "value": value })
}
