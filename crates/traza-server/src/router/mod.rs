//! From a request to its route.

mod routes;

use crate::api::{Answered, Call};
use crate::http::{Answer, Head, Refusal, Request, Response};
use crate::metrics::Class;
use crate::server::Server;

pub(crate) use routes::{Body, Query, ROUTES, Route};

/// What kind of request it is, by its head alone.
pub(crate) fn class(head: &Head) -> Class {
    let path = head.path.as_str();
    if path == "/v1/mcp" {
        return Class::Mcp;
    }
    match head.method.as_str() {
        "POST" if matches!(path, "/v1/spans" | "/v1/traces") => Class::Ingest,
        "GET" => match path {
            "/v1/spans" => Class::Search,
            "/v1/export" | "/v1/tail" => Class::Stream,
            "/v1/sessions" => Class::Stats,
            "/v1/annotations" => Class::Lookup,
            _ if path.starts_with("/v1/stats") => Class::Stats,
            _ if ["/v1/traces/", "/v1/sessions/", "/v1/payloads/"]
                .iter()
                .any(|prefix| path.starts_with(prefix)) =>
            {
                Class::Lookup
            }
            _ => Class::Other,
        },
        _ => Class::Other,
    }
}

/// Answers a request that was let in.
pub(crate) fn answer<'a>(
    server: &'a Server,
    request: &'a Request<'a>,
) -> Result<Answer<'a>, Refusal> {
    let head = &request.head;
    for route in ROUTES {
        if route.method != head.method && route.method != "*" {
            continue;
        }
        let Some(captured) = capture(route.path, &head.path) else {
            continue;
        };
        if route.is_unbound && request.caller.tenant.is_some() {
            return Err(Refusal::forbidden());
        }
        return (route.handler)(&Call {
            server,
            request,
            route,
            captured,
        });
    }
    Err(Refusal::not_found("not found"))
}

/// What stands in the places of a pattern: `{name}` is one part of a path, `{name*}` all that follows.
fn capture<'p>(pattern: &str, path: &'p str) -> Option<Vec<&'p str>> {
    let mut captured = Vec::new();
    let mut rest = path;
    let mut parts = pattern.split('/').skip(1).peekable();
    while let Some(part) = parts.next() {
        rest = rest.strip_prefix('/')?;
        if part.ends_with("*}") {
            captured.push(rest);
            return Some(captured);
        }
        let len = if parts.peek().is_some() {
            rest.find('/')?
        } else {
            rest.len()
        };
        let (found, behind) = rest.split_at(len);
        if found.contains('/') {
            return None;
        }
        if part.starts_with('{') {
            captured.push(found);
        } else if part != found {
            return None;
        }
        rest = behind;
    }
    (rest.is_empty() && !captured.contains(&"")).then_some(captured)
}

/// The API described for programs.
#[expect(
    clippy::unnecessary_wraps,
    reason = "all handlers of routes have one type"
)]
pub(crate) fn openapi<'a>(_: &Call<'a>) -> Answered<'a> {
    Ok(Response::json_text(crate::openapi::document().to_string()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_takes_parts_or_the_rest() {
        let found = |pattern, path| capture(pattern, path);
        assert_eq!(found("/v1/stats", "/v1/stats"), Some(vec![]));
        assert_eq!(found("/v1/stats", "/v1/stats/"), None);
        assert_eq!(
            found("/v1/traces/{id*}", "/v1/traces/a/b"),
            Some(vec!["a/b"])
        );
        assert_eq!(
            found("/v1/d/{id}/versions", "/v1/d/7/versions"),
            Some(vec!["7"])
        );
        assert_eq!(found("/v1/d/{id}/versions", "/v1/d/7/runs"), None);
        assert_eq!(found("/v1/d/{id}", "/v1/d/7/runs"), None);
        assert_eq!(found("/v1/d/{id}", "/v1/d/"), None);
    }
}
