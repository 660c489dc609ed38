//! Which web pages may talk to the endpoint.
//!
//! A browser names the page that a request comes from in `Origin`. A program that is no browser sends none, and is not
//! asked. The header is never compared with `Host`: a page that has rebound its name to this machine names itself in both.

/// An origin that the operator has named: lower case, without a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedOrigin(String);

/// A text that is no origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("origin {text:?} has no scheme; write it like https://HOST")]
pub struct NotAnOrigin {
    /// The text.
    pub text: String,
}

impl std::str::FromStr for AllowedOrigin {
    type Err = NotAnOrigin;

    /// Reads the value of `--mcp-allowed-origin`.
    fn from_str(text: &str) -> Result<Self, NotAnOrigin> {
        if text.contains("://") {
            Ok(Self(normal(text)))
        } else {
            Err(NotAnOrigin {
                text: text.to_owned(),
            })
        }
    }
}

/// True when a request with this value of `Origin` is served: from a page of this machine, on any port, or of an origin
/// that the operator has named.
pub fn origin_allowed(origin: &str, allowed: &[AllowedOrigin]) -> bool {
    is_loopback(origin) || allowed.iter().any(|named| named.0 == normal(origin))
}

fn normal(origin: &str) -> String {
    origin.trim_end_matches('/').to_ascii_lowercase()
}

/// `http` or `https`, the host of this machine by one of its three fixed names, and maybe a port.
fn is_loopback(origin: &str) -> bool {
    let origin = normal(origin);
    let Some(authority) = origin
        .strip_prefix("http://")
        .or_else(|| origin.strip_prefix("https://"))
    else {
        return false;
    };
    ["localhost", "127.0.0.1", "[::1]"].iter().any(|host| {
        authority.strip_prefix(host).is_some_and(|rest| {
            rest.is_empty()
                || rest
                    .strip_prefix(':')
                    .is_some_and(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `http` with `rest` behind its slashes.
    fn http(rest: &str) -> String {
        format!("http://{rest}")
    }

    #[test]
    fn a_page_of_this_machine_is_served_on_any_port() {
        for host in ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"] {
            for port in ["", ":1", ":3000", ":65535", "/"] {
                let origin = http(&format!("{host}{port}"));
                assert!(origin_allowed(&origin, &[]), "{origin}");
                let secure = origin.replace("http:", "HTTPS:");
                assert!(origin_allowed(&secure, &[]), "{secure}");
            }
        }
    }

    #[test]
    fn what_only_looks_like_this_machine_is_refused() {
        for rest in [
            "",
            ":80",
            "localhost.evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "127.0.0.2",
            "0.0.0.0",
            "localhost:",
            "localhost:+80",
            "localhost:99999",
            "localhost:80@evil.example",
            "localhost/path",
            "user@localhost",
            "[::1",
            "::1",
            "[::1]x",
        ] {
            assert!(!origin_allowed(&http(rest), &[]), "{rest}");
        }
        for origin in [
            "",
            "null",
            "localhost",
            "//localhost",
            "ftp://localhost",
            "file://localhost",
        ] {
            assert!(!origin_allowed(origin, &[]), "{origin}");
        }
    }

    #[test]
    fn a_named_origin_is_served_whatever_its_case_and_its_last_slash() {
        let named = |text: &str| vec![http(text).parse::<AllowedOrigin>().unwrap()];
        let allowed = named("App.Example.org/");
        for rest in ["app.example.org", "APP.example.org/"] {
            assert!(origin_allowed(&http(rest), &allowed), "{rest}");
        }
        let other_scheme = http("app.example.org").replace("http:", "https:");
        for origin in [
            other_scheme,
            http("app.example.org.evil.example"),
            http("app.example.org:8443"),
            http("other.example.org"),
            "null".to_owned(),
        ] {
            assert!(!origin_allowed(&origin, &allowed), "{origin}");
        }
    }

    #[test]
    fn an_origin_without_a_scheme_cannot_be_named() {
        assert!("app.example.org".parse::<AllowedOrigin>().is_err());
        assert!("null".parse::<AllowedOrigin>().is_err());
    }
}
