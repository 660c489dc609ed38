//! Lines of the protocol: requests, answers and refusals (`docs/formats/omni-control.md`).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::watch::{Operator, WatchPolicy};

/// The longest request, its line feed included. What is longer is refused and the connection ended.
pub const LINE_LEN_MAX: usize = 4096;
/// The version of the protocol, which `status` names.
pub(crate) const VERSION: u64 = 1;

const CORRELATION_LEN_MAX: usize = 128;
/// All commands, in the order of the format page.
const COMMANDS: [&str; 9] = [
    "status", "halt", "resume", "step", "set", "watch", "unwatch", "attend", "leave",
];

/// What can be asked of a loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// Tells how things stand. The one command that changes nothing, and so is not recorded.
    Status {},
    /// Halts at the next tick.
    Halt {
        /// Why, in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Lets a halted loop go on.
    Resume {
        /// Why, in words.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reason: String,
    },
    /// Lets a halted loop go on for so many ticks.
    Step {
        /// Ticks, 1 or more.
        #[serde(default = "one")]
        count: u64,
    },
    /// Changes a parameter that the loop has declared.
    Set {
        /// The parameter.
        name: String,
        /// Its new value, of the kind of the old one. Out of bounds it is brought to the nearest one.
        value: Value,
    },
    /// Looks at a variable of every tick from now on.
    Watch {
        /// The variable: a member of the telemetry, or a nested one as tables name it.
        name: String,
        /// How it is compared.
        op: Operator,
        /// With what; nothing for `not_finite`.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        than: Value,
        /// What a trip means.
        #[serde(default)]
        policy: WatchPolicy,
    },
    /// Takes back every watch of this variable that came over the socket.
    Unwatch {
        /// The variable.
        name: String,
    },
    /// Makes this connection a controller, whose loss has the meaning of the halt policy.
    Attend {},
    /// The connection is a controller no longer; nothing follows from its end.
    Leave {},
}

fn one() -> u64 {
    1
}

impl Command {
    /// The name on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Status {} => "status",
            Self::Halt { .. } => "halt",
            Self::Resume { .. } => "resume",
            Self::Step { .. } => "step",
            Self::Set { .. } => "set",
            Self::Watch { .. } => "watch",
            Self::Unwatch { .. } => "unwatch",
            Self::Attend {} => "attend",
            Self::Leave {} => "leave",
        }
    }
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What is asked.
    pub command: Command,
    /// What ties the records of this request together; made here when the client gave none.
    pub correlation_id: String,
}

impl Request {
    /// Reads a line, without its line feed. The bytes are hostile.
    ///
    /// # Errors
    /// `NotJson`, `UnknownCommand` or `BadRequest`.
    pub fn parse(line: &[u8]) -> Result<Self, Refusal> {
        let mut members: Map<String, Value> = serde_json::from_slice(line).map_err(|error| {
            let what = format!("a request is one JSON object on one line: {error}");
            Refusal::new(RefusalKind::NotJson, what)
        })?;
        let name = members.get("command").and_then(Value::as_str);
        let name = name.ok_or_else(|| bad("the member command is missing, or no text"))?;
        if !COMMANDS.contains(&name) {
            let short: String = name.chars().take(40).collect();
            let what = format!("no command {short:?}; there are {}", COMMANDS.join(", "));
            return Err(Refusal::new(RefusalKind::UnknownCommand, what));
        }
        let correlation_id = match members.remove("correlation_id") {
            None => random_id(),
            Some(Value::String(id)) if (1..=CORRELATION_LEN_MAX).contains(&id.len()) => id,
            Some(_) => return Err(bad("a correlation_id is text of 1 to 128 bytes")),
        };
        let command: Command = serde_json::from_value(Value::Object(members))
            .map_err(|error| bad(&error.to_string()))?;
        if matches!(command, Command::Step { count: 0 }) {
            return Err(bad("a step has 1 tick or more"));
        }
        Ok(Self {
            command,
            correlation_id,
        })
    }
}

fn bad(what: &str) -> Refusal {
    Refusal::new(RefusalKind::BadRequest, what)
}

/// 128 random bits in hex.
fn random_id() -> String {
    let mut bytes = [0; 16];
    // Without random numbers, early in a boot, the id is shared; it ties records, it keeps no secret.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok();
    durable::digest::hex(&bytes)
}

/// Who is at the other end, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The effective user of the process that connected.
    pub uid: u32,
    /// That process.
    pub pid: i32,
}

impl Peer {
    /// As records name it.
    pub fn principal(&self) -> String {
        format!("uid:{}", self.uid)
    }
}

/// Why a request was not carried out. The names are part of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalKind {
    /// The line has more than [`LINE_LEN_MAX`] bytes. The connection is ended.
    LineTooLong,
    /// The line is no JSON object.
    NotJson,
    /// There is no such command.
    UnknownCommand,
    /// A member is missing, unknown, or has a value that it cannot have.
    BadRequest,
    /// The loop has declared no such parameter, or has no such watch.
    UnknownName,
    /// The value is of another kind than the parameter's.
    BadValue,
    /// Only a halted loop resumes or steps.
    NotHalted,
    /// The command does not take the change: it reads no input, or has closed it.
    Undeliverable,
    /// There are as many watches as there may be.
    TooMany,
    /// Too many connections; this one is ended.
    Busy,
    /// Nothing was said for too long; the connection is ended.
    Idle,
    /// The run has ended.
    Ended,
    /// The journal cannot be written.
    RecordingFailed,
}

/// A request that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its kind.
    pub kind: RefusalKind,
    /// What is wrong, in words.
    pub message: String,
}

impl Refusal {
    pub(crate) fn new(kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// The answer.
    pub fn answer(&self) -> Value {
        json!({ "ok": false, "error": self.kind, "message": self.message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(line: &[u8]) -> RefusalKind {
        Request::parse(line).unwrap_err().kind
    }

    #[test]
    fn every_command_is_read_as_it_is_written() {
        let commands = [
            Command::Status {},
            Command::Halt {
                reason: "too hot".into(),
            },
            Command::Resume {
                reason: String::new(),
            },
            Command::Step { count: 3 },
            Command::Set {
                name: "lr".into(),
                value: json!(0.5),
            },
            Command::Watch {
                name: "loss".into(),
                op: Operator::Greater,
                than: json!(2),
                policy: WatchPolicy::Record,
            },
            Command::Unwatch {
                name: "loss".into(),
            },
            Command::Attend {},
            Command::Leave {},
        ];
        let names: Vec<_> = commands.iter().map(Command::name).collect();
        assert_eq!(names, COMMANDS);
        for command in commands {
            let line = serde_json::to_vec(&command).unwrap();
            let request = Request::parse(&line).unwrap();
            assert_eq!(request.command, command);
            assert_eq!(request.correlation_id.len(), 32);
        }
        let step = Request::parse(br#"{"command":"step","correlation_id":"c-1"}"#).unwrap();
        assert_eq!(step.command, Command::Step { count: 1 });
        assert_eq!(step.correlation_id, "c-1");
    }

    #[test]
    fn hostile_lines_are_refused_by_name() {
        for line in [&b""[..], b"\xff\xfe", b"[1]", b"{", b"halt", b"null"] {
            assert_eq!(kind(line), RefusalKind::NotJson, "{line:?}");
        }
        let deep = format!("{{\"command\":{}", "[".repeat(4000));
        assert_eq!(kind(deep.as_bytes()), RefusalKind::NotJson);
        assert_eq!(
            kind(br#"{"command":"explode"}"#),
            RefusalKind::UnknownCommand
        );
        for line in [
            "{}",
            r#"{"command":7}"#,
            r#"{"command":"set","name":"lr"}"#,
            r#"{"command":"set","name":7,"value":1}"#,
            r#"{"command":"step","count":0}"#,
            r#"{"command":"step","count":-1}"#,
            r#"{"command":"step","count":18446744073709551616}"#,
            r#"{"command":"halt","force":true}"#,
            r#"{"command":"status","force":true}"#,
            r#"{"command":"watch","name":"loss","op":"~","than":1}"#,
            r#"{"command":"halt","correlation_id":""}"#,
            r#"{"command":"halt","correlation_id":7}"#,
        ] {
            assert_eq!(kind(line.as_bytes()), RefusalKind::BadRequest, "{line}");
        }
    }
}
