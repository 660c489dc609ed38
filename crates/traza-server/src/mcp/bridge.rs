//! From standard input to the endpoint of a server, for clients that start a program and talk to it.
//!
//! One message per line, in both directions. TLS is refused: the bridge is for a server on the same machine or behind a
//! tunnel that encrypts by itself, and so needs no store of certificates.

use std::io::{BufRead, Read as _, Write};
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Uri;

/// Where the endpoint of a server is when its address has no path.
const PATH_DEFAULT: &str = "/v1/mcp";
/// The longest message, and the longest answer, in bytes.
const MESSAGE_LEN_MAX: u64 = 64 << 20;
/// How long an answer may take. A question has a deadline on the server, which is shorter.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// Why there is no bridge.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BridgeError {
    /// The address is none.
    #[error("--url {url:?} is not the address of a server: {why}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The token cannot stand in a header.
    #[error("the token holds white space or control characters")]
    Token,
    /// Standard input or output has failed.
    #[error("the client's stream failed")]
    Stream(#[from] std::io::Error),
}

/// The endpoint of a server.
#[derive(Clone, Debug)]
pub struct Endpoint {
    uri: Uri,
    /// What stands behind `Authorization`.
    authorization: Option<String>,
}

impl Endpoint {
    /// Reads the address of a server, `http://HOST[:PORT][/PATH]`. Without a path, or with `/`, it is that of the endpoint;
    /// the port is 80 when none is given. `token` is sent with every message.
    ///
    /// # Errors
    /// [`BridgeError::Url`], also for `https`; [`BridgeError::Token`].
    pub fn new(url: &str, token: Option<&str>) -> Result<Self, BridgeError> {
        let wrong = |why: &str| BridgeError::Url {
            url: url.to_owned(),
            why: why.to_owned(),
        };
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(wrong(
                    "the bridge speaks http only; for https put it beside the server or behind a tunnel",
                ));
            }
            _ => return Err(wrong("it must begin with http://")),
        }
        let authority = uri
            .authority()
            .ok_or_else(|| wrong("it names no host"))?
            .clone();
        if authority.host().is_empty() || authority.as_str().contains('@') {
            return Err(wrong("it must name a host, without a user"));
        }
        let path = match uri
            .path_and_query()
            .map(ureq::http::uri::PathAndQuery::as_str)
        {
            None | Some("" | "/") => PATH_DEFAULT,
            Some(path) => path,
        };
        let uri = Uri::builder()
            .scheme("http")
            .authority(authority)
            .path_and_query(path)
            .build()
            .map_err(|error| wrong(&format!("{error}")))?;
        let is_visible =
            |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.is_some_and(|token| !is_visible(token)) {
            return Err(BridgeError::Token);
        }
        Ok(Self {
            uri,
            authorization: token.map(|token| format!("Bearer {token}")),
        })
    }
}

/// Sends every line of `input` to the endpoint and writes what comes back to `output`, a line each, until the input ends.
/// A message that asks for no answer gets none. What fails is told to `failures`, and to the client if it waits for an answer.
///
/// # Errors
/// [`BridgeError::Stream`] when `input` cannot be read or `output` cannot be written.
pub fn bridge(
    endpoint: &Endpoint,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
    failures: &mut dyn Write,
) -> Result<(), BridgeError> {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        // A message may change something, and goes to the address that was given or nowhere.
        .max_redirects(0)
        // The server may have closed a kept connection meanwhile, and a message must not be sent twice.
        .max_idle_connections(0)
        // The server is near; a proxy of the environment would not reach it, and would see the token.
        .proxy(None)
        .timeout_global(Some(ANSWER_TIMEOUT))
        .build()
        .into();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut *input)
            .take(MESSAGE_LEN_MAX + 1)
            .read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(());
        }
        if line.len() as u64 > MESSAGE_LEN_MAX {
            return Err(std::io::Error::other(format!(
                "a message is longer than {MESSAGE_LEN_MAX} bytes"
            ))
            .into());
        }
        let message = line.trim_ascii();
        if message.is_empty() {
            continue;
        }
        let answer = match post(&agent, endpoint, message) {
            Ok(answer) => answer,
            Err(why) => {
                // Nobody can be told that nobody can be told.
                writeln!(failures, "mcp: {why}").ok();
                failure(message, &why)
            }
        };
        if let Some(answer) = answer {
            output.write_all(answer.as_bytes())?;
            output.write_all(b"\n")?;
            output.flush()?;
        }
    }
}

/// The answer as one line; `None` when there is none.
fn post(
    agent: &ureq::Agent,
    endpoint: &Endpoint,
    message: &[u8],
) -> Result<Option<String>, String> {
    let mut request = agent
        .post(&endpoint.uri)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream");
    if let Some(authorization) = &endpoint.authorization {
        request = request.header("Authorization", authorization);
    }
    let sent = request.send(message);
    let mut response =
        sent.map_err(|error| format!("{} does not answer: {error}", endpoint.uri))?;
    let status = response.status();
    let body = response
        .body_mut()
        .with_config()
        .limit(MESSAGE_LEN_MAX)
        .read_to_string()
        .map_err(|error| format!("the answer of {} cannot be read: {error}", endpoint.uri))?;
    match status.as_u16() {
        200 => Ok(Some(one_line(&body))),
        202 => Ok(None),
        code => {
            let begin: String = one_line(&body).chars().take(500).collect();
            Err(format!("{} answers HTTP {code}: {begin}", endpoint.uri))
        }
    }
}

/// In JSON a line break can only stand between tokens, where a space is as good.
fn one_line(body: &str) -> String {
    body.trim().replace(['\r', '\n'], " ")
}

/// What the client is told when the server could not be asked.
fn failure(message: &[u8], why: &str) -> Option<String> {
    let message: Value = serde_json::from_slice(message).ok()?;
    message.get("method")?;
    let id = message.get("id").filter(|id| !id.is_null())?;
    Some(
        json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32_603, "message": why}}).to_string(),
    )
}
