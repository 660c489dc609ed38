//! A server of traces, asked over HTTP instead of a folder.

use std::fmt::Display;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use durable::{RealFs, read_all};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use serde_json::Value;
use ureq::http::Uri;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::failure::Failure;

/// A longer answer is refused, not held in memory.
const ANSWER_LEN_MAX: u64 = 512 << 20;
/// So much of an answer is enough to say what went wrong.
const REFUSAL_LEN_MAX: u64 = 64 << 10;
/// The longest file of certificates.
const CA_LEN_MAX: u64 = 1 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// An erasure or a checkpoint answers when it is done.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(10);
/// A connection that was unused for longer may be closed already.
const IDLE_MAX: Duration = Duration::from_secs(3);
/// Waits before a request that was refused as too much is sent again, each twice as long as the one before.
const RETRY_WAIT: Duration = Duration::from_millis(100);
const RETRIES: u32 = 5;

/// What a URL shows as it is.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What is asked for: a path with parameters.
#[derive(Clone, Debug)]
pub(super) struct Target {
    text: String,
    has_parameters: bool,
}

impl Target {
    pub(super) fn new(path: &str) -> Self {
        Self {
            text: path.to_owned(),
            has_parameters: false,
        }
    }

    /// Another part of the path.
    pub(super) fn part(mut self, part: impl Display) -> Self {
        self.text.push('/');
        self.escaped(&part.to_string());
        self
    }

    pub(super) fn with(mut self, key: &str, value: impl Display) -> Self {
        self.text.push(if self.has_parameters { '&' } else { '?' });
        self.has_parameters = true;
        self.escaped(key);
        self.text.push('=');
        self.escaped(&value.to_string());
        self
    }

    pub(super) fn with_some(self, key: &str, value: Option<impl Display>) -> Self {
        match value {
            Some(value) => self.with(key, value),
            None => self,
        }
    }

    fn escaped(&mut self, text: &str) {
        self.text.extend(utf8_percent_encode(text, ESCAPED));
    }
}

/// Whether a text is the address of a server rather than the path of a folder.
pub(super) fn is_address(text: &str) -> bool {
    ["http://", "https://"]
        .iter()
        .any(|scheme| starts_with(text, scheme))
}

fn starts_with(text: &str, scheme: &str) -> bool {
    let begin = text.get(..scheme.len());
    begin.is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
}

/// What was answered, whatever the status.
struct Answer {
    status: u16,
    body: Vec<u8>,
}

/// A server, and what it is told about who asks.
pub(super) struct Server {
    agent: ureq::Agent,
    /// Without a slash at the end.
    url: String,
    authorization: Option<String>,
}

impl Server {
    /// Looks at the address; connects to nothing yet.
    pub(super) fn new(url: &str, token: Option<&str>, ca: Option<&Path>) -> Result<Self, Failure> {
        let is_encrypted = check(url)?;
        if ca.is_some() && !is_encrypted {
            let what = "--ca is for servers at https://, and this one is at http://";
            return Err(Failure::new(what));
        }
        let is_visible =
            |token: &str| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.is_some_and(|token| !is_visible(token)) {
            let what = "the token is empty, or holds other than visible ASCII characters";
            return Err(Failure::new(what));
        }
        let mut config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // The token is for the address that was given.
            .max_redirects(0)
            .proxy(None)
            .max_idle_age(IDLE_MAX)
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(ANSWER_TIMEOUT))
            .timeout_recv_body(Some(ANSWER_TIMEOUT));
        if is_encrypted {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let tls = TlsConfig::builder()
                .provider(TlsProvider::Rustls)
                .unversioned_rustls_crypto_provider(provider)
                .root_certs(RootCerts::Specific(Arc::new(roots(ca)?)));
            config = config.tls_config(tls.build());
        }
        Ok(Self {
            agent: config.build().into(),
            url: url.trim_end_matches('/').to_owned(),
            authorization: token.map(|token| format!("Bearer {token}")),
        })
    }

    /// What is there.
    pub(super) fn get(&self, target: &Target) -> Result<Vec<u8>, Failure> {
        self.get_with(target, &[]).map(|answer| answer.body)
    }

    /// What is there; nothing when the server has no such thing.
    pub(super) fn find(&self, target: &Target) -> Result<Option<Vec<u8>>, Failure> {
        let answer = self.get_with(target, &[404])?;
        Ok((answer.status != 404).then_some(answer.body))
    }

    fn get_with(&self, target: &Target, expected: &[u16]) -> Result<Answer, Failure> {
        let mut request = self.agent.get(format!("{}{}", self.url, target.text));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let answer = self.answer(request.call(), expected)?;
        // Of a thing that is not there the server says which; of a route, only this.
        if answer.status == 404 && refusal_text(&answer.body) == "not found" {
            return Err(self.refused(&answer));
        }
        Ok(answer)
    }

    /// [`get`](Self::get) of JSON.
    pub(super) fn read<T: DeserializeOwned>(&self, target: &Target) -> Result<T, Failure> {
        self.parse(&self.get(target)?)
    }

    /// [`find`](Self::find) of JSON.
    pub(super) fn find_and_read<T: DeserializeOwned>(
        &self,
        target: &Target,
    ) -> Result<Option<T>, Failure> {
        let found = self.find(target)?;
        found.map(|body| self.parse(&body)).transpose()
    }

    /// Has something done, and reads the JSON of the answer.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        target: &Target,
        body: &str,
    ) -> Result<T, Failure> {
        let answer = self.post_with(target, body, &[])?;
        self.parse(&answer.body)
    }

    /// [`post`](Self::post) of what may be sent more than once: again after a while, a few times, when the server says that it is
    /// too much.
    pub(super) fn post_patiently<T: DeserializeOwned>(
        &self,
        target: &Target,
        body: &str,
    ) -> Result<T, Failure> {
        for retry in 0..RETRIES {
            let answer = self.post_with(target, body, &[503])?;
            if answer.status != 503 {
                return self.parse(&answer.body);
            }
            let text = refusal_text(&answer.body);
            log::info!("{} answers 503: {text}", self.url);
            std::thread::sleep(RETRY_WAIT * 2_u32.saturating_pow(retry));
        }
        self.post(target, body)
    }

    fn post_with(&self, target: &Target, body: &str, expected: &[u16]) -> Result<Answer, Failure> {
        let mut request = self.agent.post(format!("{}{}", self.url, target.text));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let request = request.header("Content-Type", "application/json");
        self.answer(request.send(body.as_bytes()), expected)
    }

    /// The answer, if it is a success or one of `expected`.
    fn answer(
        &self,
        sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>,
        expected: &[u16],
    ) -> Result<Answer, Failure> {
        let mut response = sent.map_err(|error| self.no_answer(&error))?;
        let status = response.status().as_u16();
        let is_success = response.status().is_success();
        let len_max = if is_success {
            ANSWER_LEN_MAX
        } else {
            REFUSAL_LEN_MAX
        };
        let body = response.body_mut().with_config().limit(len_max);
        let body = match body.read_to_vec() {
            Ok(body) => body,
            Err(ureq::Error::BodyExceedsLimit(_)) if is_success => {
                let max = ANSWER_LEN_MAX >> 20;
                let what = format!("the answer of {} is longer than {max} MiB", self.url);
                return Err(Failure::new(what).with_hint("ask for less"));
            }
            // The status says enough.
            Err(ureq::Error::BodyExceedsLimit(_)) => Vec::new(),
            Err(error) => {
                let what = format!("the answer of {} cannot be read: {error}", self.url);
                return Err(Failure::new(what));
            }
        };
        let answer = Answer { status, body };
        if is_success || expected.contains(&status) {
            return Ok(answer);
        }
        Err(self.refused(&answer))
    }

    pub(super) fn parse<T: DeserializeOwned>(&self, body: &[u8]) -> Result<T, Failure> {
        serde_json::from_slice(body).map_err(|error| self.strange(&error))
    }

    /// The answer is none of a server of traces.
    pub(super) fn strange(&self, error: &dyn Display) -> Failure {
        let what = format!("the answer of {} is not understood: {error}", self.url);
        Failure::new(what).with_hint("is it a server of traces, and of this version?")
    }

    fn no_answer(&self, error: &ureq::Error) -> Failure {
        let tried = format!("{} does not answer", self.url);
        let ureq::Error::Io(cause) = error else {
            return Failure::new(format!("{tried}: {error}"));
        };
        let inner = cause.get_ref();
        let failure = Failure::io(&tried, cause);
        match inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
            Some(rustls::Error::InvalidCertificate(_)) => failure
                .with_hint("--ca FILE names the certificate, in PEM, that vouches for the server"),
            Some(rustls::Error::InvalidMessage(_)) => {
                failure.with_hint("a server without encryption is at http://")
            }
            _ if cause.kind() == std::io::ErrorKind::ConnectionRefused => {
                failure.with_hint("is the server running? `daybook serve` starts one")
            }
            _ => failure,
        }
    }

    fn refused(&self, answer: &Answer) -> Failure {
        let Answer { status, body } = answer;
        let text = refusal_text(body);
        let failure = Failure::new(format!("{} answers {status}: {text}", self.url));
        match (status, &self.authorization) {
            (401, None) => failure.with_hint("--token or TRAZA_TOKEN says who asks"),
            (401, Some(_)) => failure.with_hint("the server does not know the token"),
            (403, _) => failure.with_hint("the token does not allow it"),
            (404, _) if text == "not found" => {
                failure.with_hint("is it a server of traces, and of this version?")
            }
            (503, _) => failure.with_hint("the server is busy or ends: try again later"),
            _ => failure,
        }
    }
}

/// What the server says about a request that it refuses.
fn refusal_text(body: &[u8]) -> String {
    let document: Option<Value> = serde_json::from_slice(body).ok();
    let text = document.as_ref().and_then(|document| document.get("error"));
    match text.and_then(Value::as_str) {
        Some(text) => text.to_owned(),
        None => String::from_utf8_lossy(body)
            .trim()
            .chars()
            .take(300)
            .collect(),
    }
}

/// Whether the server at that address encrypts.
fn check(url: &str) -> Result<bool, Failure> {
    let wrong = |what: &str| {
        Failure::new(format!("{url} is not the address of a server: {what}"))
            .with_hint("an address is like http://127.0.0.1:4318")
    };
    let uri: Uri = url
        .parse()
        .map_err(|error: ureq::http::uri::InvalidUri| wrong(&error.to_string()))?;
    let is_encrypted = match uri.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err(wrong("it must begin with http:// or https://")),
    };
    let host = uri.authority().filter(|host| !host.host().is_empty());
    if host.is_none_or(|host| host.as_str().contains('@')) {
        return Err(wrong("it must name a host, without a user"));
    }
    if uri.query().is_some() {
        return Err(wrong("it must not have parameters"));
    }
    Ok(is_encrypted)
}

/// Who may vouch for a server: the certificates of that file, else those that the system trusts.
fn roots(ca: Option<&Path>) -> Result<Vec<Certificate<'static>>, Failure> {
    let Some(ca) = ca else {
        let found = rustls_native_certs::load_native_certs().certs;
        if found.is_empty() {
            let what = "no certificates that the system trusts were found";
            let hint = "--ca FILE names the certificate, in PEM, that vouches for the server";
            return Err(Failure::new(what).with_hint(hint));
        }
        let roots = found.iter();
        return Ok(roots
            .map(|root| Certificate::from_der(root).to_owned())
            .collect());
    };
    let path = ca.display();
    let pem = read_all(&RealFs, ca, CA_LEN_MAX)
        .map_err(|error| Failure::io(&format!("cannot read {path}"), &error))?;
    let mut roots = Vec::new();
    for item in parse_pem(&pem) {
        let item = item.map_err(|error| Failure::new(format!("{path}: {error}")))?;
        if let PemItem::Certificate(root) = item {
            roots.push(root);
        }
    }
    if roots.is_empty() {
        return Err(Failure::new(format!("{path}: no certificate in it")));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_parameters_are_escaped() {
        let target = Target::new("/v1/traces")
            .part("a/b c?#+\0ü")
            .with("attr.x=y", "1&2")
            .with_some("tenant", Some(""))
            .with_some("since", None::<u64>);
        assert_eq!(
            target.text,
            "/v1/traces/a%2Fb%20c%3F%23%2B%00%C3%BC?attr.x%3Dy=1%262&tenant="
        );
    }

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_nothing_secret() {
        let fault = |url| check(url).unwrap_err().message;
        assert_eq!(check("http://127.0.0.1:4318/"), Ok(false));
        assert_eq!(check("https://traces.example/behind/a/proxy"), Ok(true));
        assert!(fault("127.0.0.1:4318").contains("http://"));
        assert!(fault("ftp://host").contains("http://"));
        assert!(fault("http://ann:secret@host").contains("without a user"));
        assert!(fault("http://host/?a=b").contains("parameters"));
        assert!(is_address("HTTP://host") && !is_address("http:/host") && !is_address("ü"));
    }

    #[test]
    fn what_is_said_about_a_refusal_is_the_servers_text_or_the_begin_of_any_other() {
        assert_eq!(refusal_text(br#"{"error":"forbidden"}"#), "forbidden");
        assert_eq!(refusal_text(b" <html>\n"), "<html>");
        assert_eq!(refusal_text(&[b'x'; 1000]).len(), 300);
    }
}
