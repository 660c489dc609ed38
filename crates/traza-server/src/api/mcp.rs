//! `/v1/mcp`: the endpoint for agents.

use traza::json::Value;

use super::{Answered, Call};
use crate::auth::Scope;
use crate::http::{JSON, Refusal, Response};
use crate::mcp::{self, Caller, Context, PROTOCOL_VERSIONS, Reply};

pub(crate) fn mcp<'a>(call: &Call<'a>) -> Answered<'a> {
    let Some(options) = &call.server.options.mcp else {
        let next = "start the server with --mcp";
        return Err(Refusal::not_found("there is no MCP endpoint").with("next", next.into()));
    };
    let head = &call.request.head;
    let origin = head.field("origin");
    if origin.is_some_and(|origin| !mcp::origin_allowed(origin, &options.allowed_origins)) {
        let next = "name it with --mcp-allowed-origin";
        return Err(Refusal::new(403, "origin not allowed").with("next", next.into()));
    }
    if let Some(version) = head.field("mcp-protocol-version")
        && !mcp::is_served(version)
    {
        let supported = PROTOCOL_VERSIONS
            .iter()
            .map(|version| Value::from(*version));
        return Err(Refusal::bad_request("this protocol version is not served")
            .with("supported", Value::Array(supported.collect())));
    }
    if head.method != "POST" {
        return Err(Refusal::new(405, "MCP messages are sent with POST"));
    }
    let context = context(call, &options.tools);
    Ok(match mcp::handle(&context, call.body()) {
        Reply::Answer(text) => Response::json_text(text),
        Reply::Malformed(text) => Response::new(400, JSON, text.into_bytes()),
        Reply::Accepted => Response::new(202, JSON, Vec::new()),
    }
    .into())
}

/// What the endpoint, and whatever asks the same questions, works with.
pub(super) fn context<'c>(call: &Call<'c>, options: &'c mcp::Options) -> Context<'c> {
    let caller = call.caller();
    Context {
        store: &call.server.store,
        options,
        caller: Caller {
            may_write: caller.scope >= Scope::ReadWrite,
            tenant: caller.tenant.as_deref(),
        },
        deadline: call.server.options.query_deadline,
        clock: call.server.clock.as_ref(),
        server_version: env!("CARGO_PKG_VERSION"),
    }
}
