//! Messages of JSON-RPC 2.0, one at a time.

use serde_json::{Map, Value, json};

/// What is to be sent back for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A response: HTTP 200 with this JSON.
    Answer(String),
    /// The message is no single JSON value: HTTP 400 with this JSON.
    Malformed(String),
    /// The message asks for no response: HTTP 202 without a body.
    Accepted,
}

/// An error response.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcError {
    code: i64,
    message: String,
    data: Option<Value>,
}

impl RpcError {
    const PARSE: i64 = -32_700;
    const INVALID_REQUEST: i64 = -32_600;
    const METHOD_NOT_FOUND: i64 = -32_601;
    const INVALID_PARAMS: i64 = -32_602;
    const INTERNAL: i64 = -32_603;
    const RESOURCE_NOT_FOUND: i64 = -32_002;

    fn new(code: i64, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }

    pub(super) fn method_not_found(method: &str) -> Self {
        let method = super::clean::name(method);
        Self::new(
            Self::METHOD_NOT_FOUND,
            format!("method not found: {method}"),
        )
    }

    pub(super) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(Self::INVALID_PARAMS, message)
    }

    pub(super) fn internal(message: impl Into<String>) -> Self {
        Self::new(Self::INTERNAL, message)
    }

    pub(super) fn resource_not_found(uri: &str) -> Self {
        Self {
            data: Some(json!({ "uri": uri })),
            ..Self::new(Self::RESOURCE_NOT_FOUND, "resource not found")
        }
    }

    fn response(self, id: &Value) -> String {
        let mut error = json!({"code": self.code, "message": self.message});
        if let (Some(data), Some(error)) = (self.data, error.as_object_mut()) {
            error.insert("data".to_owned(), data);
        }
        json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
    }
}

/// Reads one message, lets `call` answer a request by its method and its parameters, and writes the response.
pub(super) fn reply(
    message: &[u8],
    call: impl FnOnce(&str, &Map<String, Value>) -> Result<Value, RpcError>,
) -> Reply {
    let invalid = |message: &str| RpcError::new(RpcError::INVALID_REQUEST, message);
    let message: Value = match serde_json::from_slice(message) {
        Ok(message) => message,
        Err(error) => {
            let error = RpcError::new(RpcError::PARSE, format!("parse error: {error}"));
            return Reply::Malformed(error.response(&Value::Null));
        }
    };
    let message = match message {
        Value::Object(message) => message,
        Value::Array(_) => {
            let error = invalid("a batch is not served; send one message at a time");
            return Reply::Malformed(error.response(&Value::Null));
        }
        _ => return Reply::Answer(invalid("a message is an object").response(&Value::Null)),
    };
    let id = message.get("id").unwrap_or(&Value::Null);
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Reply::Answer(invalid("jsonrpc must be \"2.0\"").response(id));
    }
    // Without a method it is a response, to a request that was never made; without an id nobody waits.
    let (Some(method), false) = (message.get("method"), id.is_null()) else {
        return Reply::Accepted;
    };
    let Some(method) = method.as_str() else {
        return Reply::Answer(invalid("method must be a string").response(id));
    };
    let none = Map::new();
    let params = message
        .get("params")
        .and_then(Value::as_object)
        .unwrap_or(&none);
    Reply::Answer(match call(method, params) {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
        Err(error) => error.response(id),
    })
}
