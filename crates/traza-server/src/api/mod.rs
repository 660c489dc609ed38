//! The routes, one file per subject.

mod annotations;
mod datasets;
mod erasures;
mod experiments;
mod export;
mod generations;
mod health;
mod ingest;
mod mcp;
mod payloads;
mod sessions;
mod spans;
mod statistics;
mod tail;

pub(crate) use annotations::{annotate, annotations};
pub(crate) use datasets::{
    create_dataset, create_version, dataset, datasets, tombstone_version, version,
};
pub(crate) use erasures::{erase, erasure, erasures, receipt};
pub(crate) use experiments::{
    add_run, create_experiment, diff, experiment, experiments, runs, scores, summary,
};
pub(crate) use export::export;
pub(crate) use generations::{checkpoint, flush, pin, unpin, verify};
pub(crate) use health::{healthy, metrics, metrics_json, panic_now, ready, stats};
pub(crate) use ingest::{bind, ingest_otlp, ingest_spans};
pub(crate) use mcp::mcp;
pub(crate) use payloads::payload;
pub(crate) use sessions::{session, sessions};
pub(crate) use spans::{spans, trace};
pub(crate) use statistics::{durations, failures, llm, series, slowest, tenants};
pub(crate) use tail::tail;

use traza::json::Value;
use traza::store::SnapshotView;

use crate::auth::Caller;
use crate::http::{Answer, Refusal, Request, Response};
use crate::parameters::Parameters;
use crate::router::{Query, Route};
use crate::server::Server;

/// A request that has found its route.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Server,
    pub(crate) request: &'a Request<'a>,
    /// The route.
    pub(crate) route: &'static Route,
    /// What stands in the places of the route's pattern, as it was sent.
    pub(crate) captured: Vec<&'a str>,
}

/// What a route does.
pub(crate) type Answered<'a> = Result<Answer<'a>, Refusal>;

impl<'a> Call<'a> {
    fn caller(&self) -> &'a Caller {
        &self.request.caller
    }

    fn query(&self) -> &'a str {
        &self.request.head.query
    }

    /// The query string of a route that says which parameters it takes.
    fn parameters(&self) -> Result<Parameters, Refusal> {
        let parameters = Parameters::parse(self.query());
        if let Query::Only(known) = self.route.query {
            parameters.only(known)?;
        }
        Ok(parameters)
    }

    fn body(&self) -> &'a [u8] {
        self.request.body
    }

    /// The captured part, decoded.
    fn id(&self, index: usize) -> String {
        crate::parameters::decode(self.captured.get(index).copied().unwrap_or_default())
    }

    fn raw(&self, index: usize) -> &'a str {
        self.captured.get(index).copied().unwrap_or_default()
    }

    /// The captured number, or what is answered when it is none.
    fn number(&self, index: usize, refusal: &str) -> Result<u64, Refusal> {
        let text = self.raw(index);
        let is_decimal = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_decimal
            .then(|| text.parse().ok())
            .flatten()
            .ok_or_else(|| Refusal::bad_request(refusal))
    }

    /// A view for a question that may not take for ever.
    fn view(&self) -> SnapshotView {
        let view = self.server.store.snapshot();
        match self.server.options.query_deadline {
            Some(deadline) => view.within(deadline),
            None => view,
        }
    }

    fn now_unix_ns(&self) -> u64 {
        self.server.clock.wall_ns()
    }

    /// The body as an object.
    fn object(&self) -> Result<traza::json::Object, Refusal> {
        match Value::parse_request(self.body()) {
            Ok(Value::Object(members)) => Ok(members),
            Ok(_) => Err(Refusal::bad_request("the body must be a JSON object")),
            Err(error) => Err(Refusal::bad_request(error.to_string())),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "handlers end with it")]
fn json<'a>(value: &Value) -> Answered<'a> {
    Ok(Response::json(value).into())
}

/// A member of a body that must be a string.
fn required_text(members: &mut traza::json::Object, name: &str) -> Result<String, Refusal> {
    optional_text(members, name)?
        .ok_or_else(|| Refusal::bad_request(format!("missing field `{name}`")))
}

/// A member of a body that may be left out; null is no string.
fn optional_text(members: &mut traza::json::Object, name: &str) -> Result<Option<String>, Refusal> {
    match members.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.into())),
        Some(_) => Err(Refusal::bad_request(format!("`{name}` must be a string"))),
    }
}
