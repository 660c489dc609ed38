//! Who may do what: bearer tokens, their scopes, and the tenants they are bound to.

use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use traza::span::is_tenant_name;

use crate::http::{Cause, Head, Refusal};

/// What a credential may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
    /// Also erase.
    Admin,
}

/// Who sends a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// What it may do.
    pub scope: Scope,
    /// The only tenant that exists for it; `None` for an operator.
    pub tenant: Option<String>,
}

impl Caller {
    /// Whoever asks a server without tokens.
    pub fn operator() -> Self {
        Self {
            scope: Scope::Admin,
            tenant: None,
        }
    }

    /// The tenant that a read is about when the request names `asked`: a bound caller has its own only.
    pub(crate) fn tenant_of_read(&self, asked: Option<String>) -> Result<Option<String>, Refusal> {
        match (&self.tenant, asked) {
            (None, asked) => Ok(asked),
            (Some(bound), None) => Ok(Some(bound.clone())),
            (Some(bound), Some(asked)) if *bound == asked => Ok(Some(asked)),
            (Some(_), Some(_)) => Err(Refusal::other_tenant()),
        }
    }

    /// True when something of `tenant` exists for the caller.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|bound| bound == tenant)
    }
}

/// A token and what it stands for.
#[derive(Clone)]
struct Credential {
    token: String,
    caller: Caller,
}

/// The tokens of a server; without any, everybody may do everything.
#[derive(Clone, Default)]
pub struct Tokens {
    credentials: Vec<Credential>,
}

impl std::fmt::Debug for Tokens {
    /// Never shows a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokens({})", self.credentials.len())
    }
}

/// Why a list of tokens is none. Says where, and never what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry} of the token list: {what}")]
pub struct TokensError {
    /// Its number, from 1.
    pub entry: usize,
    /// What is wrong.
    pub what: &'static str,
}

impl Tokens {
    /// Reads a list `scope[@tenant]:token,…`; scopes are `ro`, `rw` and `admin`.
    ///
    /// # Errors
    /// See [`TokensError`]; an empty list is one too.
    pub fn parse(list: &str) -> Result<Self, TokensError> {
        let mut tokens = Self::default();
        for (index, entry) in list.split(',').enumerate() {
            let fault = |what| TokensError {
                entry: index + 1,
                what,
            };
            let credential = read_entry(entry).map_err(fault)?;
            let is_known = |known: &Credential| known.token == credential.token;
            if tokens.credentials.iter().any(is_known) {
                return Err(fault("the same token as in an entry before"));
            }
            tokens.credentials.push(credential);
        }
        Ok(tokens)
    }

    /// True when nobody is asked for a token.
    pub fn is_open(&self) -> bool {
        self.credentials.is_empty()
    }

    /// Who a token stands for. Takes the same time for every wrong token of one length.
    pub fn caller(&self, token: &str) -> Option<Caller> {
        let mut found = u64::MAX;
        for (index, credential) in (0_u64..).zip(&self.credentials) {
            let is_it: Choice = credential.token.as_bytes().ct_eq(token.as_bytes());
            found.conditional_assign(&index, is_it);
        }
        let credential = self.credentials.get(usize::try_from(found).ok()?)?;
        Some(credential.caller.clone())
    }

    /// Who sends a request with this value of the field `authorization`, or with none.
    pub fn bearer(&self, authorization: Option<&str>) -> Option<Caller> {
        if self.is_open() {
            return Some(Caller::operator());
        }
        let token = authorization?.strip_prefix("Bearer ")?;
        let is_token = !token.is_empty() && !token.contains([' ', '\t', ',']);
        is_token.then(|| self.caller(token)).flatten()
    }

    /// Lets a request in, by its head alone.
    pub(crate) fn admit(&self, head: &Head) -> Result<Caller, Refusal> {
        let Some(caller) = self.bearer(head.field("authorization")) else {
            return Err(Refusal {
                field: Some(("WWW-Authenticate", "Bearer")),
                cause: Cause::Gate,
                ..Refusal::new(401, "unauthorized")
            });
        };
        if self.is_open() || caller.scope >= needed(head)? {
            return Ok(caller);
        }
        Err(forbidden())
    }
}

fn forbidden() -> Refusal {
    Refusal {
        cause: Cause::Gate,
        ..Refusal::forbidden()
    }
}

/// What a request needs; no scope is enough for methods that nothing answers to.
fn needed(head: &Head) -> Result<Scope, Refusal> {
    let path = head.path.as_str();
    match head.method.as_str() {
        _ if path == "/v1/mcp" => Ok(Scope::ReadOnly),
        "GET" => Ok(Scope::ReadOnly),
        "POST" => {
            let is_tombstone = path.starts_with("/v1/datasets/") && path.ends_with("/tombstone");
            if path == "/v1/erasures" || is_tombstone {
                Ok(Scope::Admin)
            } else {
                Ok(Scope::ReadWrite)
            }
        }
        _ => Err(forbidden()),
    }
}

fn read_entry(entry: &str) -> Result<Credential, &'static str> {
    if entry.is_empty() {
        return Err("is empty");
    }
    if entry.trim() != entry {
        return Err("white space around it");
    }
    let (who, token) = entry.split_once(':').ok_or("no : behind the scope")?;
    let (scope, tenant) = match who.split_once('@') {
        Some((scope, tenant)) => (scope, Some(tenant)),
        None => (who, None),
    };
    let scope = match scope {
        "ro" => Scope::ReadOnly,
        "rw" => Scope::ReadWrite,
        "admin" => Scope::Admin,
        _ => return Err("the scope is not ro, rw or admin"),
    };
    if tenant.is_some_and(|tenant| !is_tenant_name(tenant)) {
        return Err("the tenant is not 1 to 64 of a-z 0-9 . _ -, the first a letter or digit");
    }
    if token.is_empty() || token.contains(char::is_whitespace) {
        return Err("the token is empty or has white space in it");
    }
    Ok(Credential {
        token: token.to_owned(),
        caller: Caller {
            scope,
            tenant: tenant.map(str::to_owned),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(tokens: &Tokens, method: &str, path: &str, authorization: &str) -> u16 {
        let text = format!("{method} {path} HTTP/1.1\r\nAuthorization: {authorization}\r\n\r\n");
        let head = Head::parse(text.as_bytes()).unwrap();
        tokens
            .admit(&head)
            .map_or_else(|refusal| refusal.status, |_| 200)
    }

    #[test]
    fn a_scope_opens_the_methods_that_it_is_for() {
        let tokens = Tokens::parse("ro:r,rw:w,admin:a").unwrap();
        for (method, path, ro, rw, admin) in [
            ("GET", "/v1/stats", 200, 200, 200),
            ("POST", "/v1/spans", 403, 200, 200),
            ("POST", "/v1/mcp", 200, 200, 200),
            ("DELETE", "/v1/mcp", 200, 200, 200),
            ("POST", "/v1/erasures", 403, 403, 200),
            ("POST", "/v1/datasets/1/versions/x/tombstone", 403, 403, 200),
            ("PUT", "/v1/spans", 403, 403, 403),
            ("HEAD", "/v1/stats", 403, 403, 403),
        ] {
            for (token, status) in [("r", ro), ("w", rw), ("a", admin)] {
                let found = admit(&tokens, method, path, &format!("Bearer {token}"));
                assert_eq!(found, status, "{method} {path} {token}");
            }
        }
    }

    #[test]
    fn only_a_well_formed_bearer_token_is_one() {
        let tokens = Tokens::parse("ro:r@:x").unwrap();
        assert_eq!(admit(&tokens, "GET", "/v1/stats", "Bearer r@:x"), 200);
        for wrong in [
            "bearer r@:x",
            "Bearer  r@:x",
            "Bearer r@:x,y",
            "Bearer",
            "r@:x",
            "Bearer r",
        ] {
            assert_eq!(admit(&tokens, "GET", "/v1/stats", wrong), 401, "{wrong}");
        }
    }

    #[test]
    fn a_token_list_that_is_wrong_is_refused_without_showing_it() {
        for list in [
            "",
            "ro",
            "ro:",
            "xx:secret",
            "ro:secret,",
            "ro: secret",
            " ro:secret",
            "ro@:secret",
            "ro@Upper:secret",
            "ro:secret,rw:secret",
            "ro:sec ret",
        ] {
            let error = Tokens::parse(list).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_bound_caller_has_its_tenant_only() {
        let tokens = Tokens::parse("rw@acme:t").unwrap();
        let caller = tokens.caller("t").unwrap();
        assert_eq!(
            caller.tenant_of_read(None).unwrap().as_deref(),
            Some("acme")
        );
        assert_eq!(
            caller
                .tenant_of_read(Some(String::new()))
                .unwrap_err()
                .status,
            403
        );
        assert!(caller.sees("acme") && !caller.sees(""));
    }
}
