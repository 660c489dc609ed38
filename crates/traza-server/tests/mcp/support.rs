//! A store on the simulated disk, and calls to the endpoint over it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable::{Fs, ManualClock};
use durable_sim::SimFs;
use serde_json::{Value, json};
use traza::span::Span;
use traza::store::{Store, StoreOptions, Upkeep};
use traza_server::mcp::{Caller, Context, Options, Reply, handle};

/// Nanoseconds.
pub(crate) const SECOND: u64 = 1_000_000_000;
/// When the clock of the tests starts: 2027-01-15T08:00:00Z.
pub(crate) const NOW: u64 = 1_800_000_000 * SECOND;
/// When the spans of the tests start: an hour before.
pub(crate) const START: u64 = NOW - 3_600 * SECOND;

pub(crate) struct Server {
    pub(crate) store: Store,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) options: Options,
    pub(crate) may_write: bool,
    pub(crate) tenant: Option<&'static str>,
    pub(crate) deadline: Option<Duration>,
}

impl Server {
    /// With these spans, each as JSON.
    pub(crate) fn new(spans: &[Value]) -> Self {
        Self::with_options(spans, |_| {})
    }

    pub(crate) fn with_options(spans: &[Value], change: impl Fn(&mut StoreOptions)) -> Self {
        let spans = spans
            .iter()
            .map(|span| Span::from_json(span.to_string().as_bytes()).unwrap());
        Self::of(spans.collect(), change)
    }

    pub(crate) fn of(spans: Vec<Span>, change: impl Fn(&mut StoreOptions)) -> Self {
        Self::on_clock(spans, change, ManualClock::new(NOW, 0))
    }

    pub(crate) fn on_clock(
        spans: Vec<Span>,
        change: impl Fn(&mut StoreOptions),
        clock: ManualClock,
    ) -> Self {
        let mut options = StoreOptions::default();
        options.upkeep = Upkeep::Inline;
        change(&mut options);
        let clock = Arc::new(clock);
        let fs: Arc<dyn Fs> = Arc::new(SimFs::new());
        let store = Store::open_with(
            fs,
            Arc::<ManualClock>::clone(&clock),
            Path::new("/store"),
            options,
        )
        .unwrap();
        store.ingest(spans).unwrap();
        Self {
            store,
            clock,
            options: Options {
                annotations: true,
                promote: true,
                ..Options::default()
            },
            may_write: true,
            tenant: None,
            deadline: None,
        }
    }

    pub(crate) fn send(&self, message: &[u8]) -> Reply {
        let context = Context {
            store: &self.store,
            options: &self.options,
            caller: Caller {
                may_write: self.may_write,
                tenant: self.tenant,
            },
            deadline: self.deadline,
            clock: self.clock.as_ref(),
            server_version: "1.2.3",
        };
        handle(&context, message)
    }

    /// The whole response to a request.
    pub(crate) fn request(&self, method: &str, params: Value) -> Value {
        let mut message = json!({"jsonrpc": "2.0", "id": 7, "method": method});
        message["params"] = params;
        match self.send(message.to_string().as_bytes()) {
            Reply::Answer(answer) => serde_json::from_str(&answer).unwrap(),
            other => panic!("no answer: {other:?}"),
        }
    }

    pub(crate) fn result(&self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params);
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    pub(crate) fn error(&self, method: &str, params: Value) -> Value {
        let mut response = self.request(method, params);
        assert!(response.get("result").is_none(), "{response}");
        response["error"].take()
    }

    /// The result of a tool.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        let mut params = json!({"name": tool});
        params["arguments"] = arguments;
        self.result("tools/call", params)
    }

    /// The text of a tool that could answer.
    pub(crate) fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        text_of(&result)
    }

    /// The text of a tool that could not.
    pub(crate) fn failure(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert!(result.get("structuredContent").is_none());
        text_of(&result)
    }
}

pub(crate) fn text_of(result: &Value) -> String {
    assert_eq!(result["content"].as_array().map(Vec::len), Some(1));
    assert_eq!(result["content"][0]["type"], "text");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// A span of the service `bot` that starts `at` seconds after [`START`] and takes a second.
pub(crate) fn span(trace: &str, id: &str, at: u64, attributes: Value) -> Value {
    let mut span = json!({
        "trace_id": trace,
        "span_id": id,
        "parent_span_id": null,
        "name": "step",
        "service": "bot",
        "status": "",
        "start_time_ns": START + at * SECOND,
        "end_time_ns": START + (at + 1) * SECOND,
    });
    span["attributes"] = attributes;
    span
}

/// The span with other members.
pub(crate) fn with(mut span: Value, members: Value) -> Value {
    let Value::Object(members) = members else {
        panic!("not an object: {members}");
    };
    span.as_object_mut().unwrap().extend(members);
    span
}

/// A session `S1` of an agent: a root, a retry storm, and calls whose context grows; and a session `S2` of one span.
pub(crate) fn furnished() -> Vec<Value> {
    let mut spans = vec![with(
        span("t1", "root", 0, json!({"session.id": "S1"})),
        json!({"name": "agent", "status": "error", "end_time_ns": START + 100 * SECOND}),
    )];
    for n in 0..6 {
        let fetch = span(
            "t1",
            &format!("fetch{n}"),
            1 + n,
            json!({"session.id": "S1", "n": n}),
        );
        spans.push(with(
            fetch,
            json!({"name": "fetch", "status": "error", "parent_span_id": "root"}),
        ));
        let attributes = json!({
            "session.id": "S1",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o",
            "gen_ai.usage.input_tokens": 1_000 << n,
            "gen_ai.usage.output_tokens": 5,
            "llm.cost_usd": 0.0123,
            "prompt": "refund the booking",
        });
        let chat = span("t1", &format!("chat{n}"), 20 + 2 * n, attributes);
        spans.push(with(
            chat,
            json!({"name": "chat", "parent_span_id": "root"}),
        ));
    }
    let solo = span(
        "t2",
        "solo",
        50,
        json!({"session.id": "S2", "session.outcome": "success"}),
    );
    spans.push(with(solo, json!({"name": "solo", "service": "brain"})));
    spans
}
