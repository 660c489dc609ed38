//! `daybook ctl`: attends a recorded loop or command while it runs.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anstream::eprintln;
use clap::{Args, Subcommand, ValueEnum};
use omniloop_control::{Client, ClientError};
use serde_json::{Map, Value, json};

use crate::amounts;
use crate::controlling::value_of;
use crate::failure::{COULD_NOT, DONE, Failure, Outcome, chain_text};
use crate::output::Out;
use crate::styles::{BAD, FAINT, STRONG, WARN};
use crate::text::{clean, count, shorten};

/// Characters of a value that are shown.
const VALUE_WIDTH: usize = 60;

/// Attends a loop or a command that is recorded with --control: asks how it stands, halts it, changes its
/// parameters.
///
/// What is asked is carried out at the loop's next tick and recorded there, as an input and as what came of
/// it, with the user that asked. The answer comes when that is done.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook ctl run.sock status
  daybook ctl run.sock halt --reason 'smells odd'
  daybook ctl run.sock step 10
  daybook ctl run.sock set lr 0.01
  daybook ctl run.sock watch loss '>' 10
  daybook ctl run.sock watch loss not-finite --policy record
  daybook ctl run.sock attend                       commands line by line; being cut off has consequences

Exit codes: 0 done, 2 it was refused, or nobody listens there.")]
pub(crate) struct CtlArgs {
    /// The socket that the recorder was given with --control.
    socket: PathBuf,
    #[command(subcommand)]
    ask: Ask,
    /// Prints the answers as JSON, one per line.
    #[arg(long, global = true)]
    json: bool,
    /// Waits so long for an answer: 10s, 1min. By default as long as the loop takes for a tick.
    #[arg(long, global = true, value_name = "TIME", value_parser = amounts::nanos)]
    timeout: Option<u64>,
    /// Ties the records of this command together; by default a new one.
    #[arg(long, global = true, value_name = "ID")]
    correlation_id: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Ask {
    /// Tells how the loop stands: tick, parameters with their limits, watches.
    Status,
    /// Halts the loop at its next tick, or the command where it is.
    Halt {
        /// Why, for the record.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Lets a halted loop go on.
    Resume {
        /// Why, for the record.
        #[arg(long, value_name = "TEXT", default_value = "")]
        reason: String,
    },
    /// Lets a halted loop go on for so many ticks.
    Step {
        /// Ticks.
        #[arg(default_value_t = 1, value_name = "N")]
        count: u64,
    },
    /// Changes a parameter. A number out of its limits is brought to the nearest one.
    Set {
        /// The parameter.
        name: String,
        /// Its new value: JSON, or text.
        #[arg(allow_hyphen_values = true)]
        value: String,
    },
    /// Looks at a variable of every tick, and halts the loop when the condition holds.
    Watch {
        /// The variable: a member of the telemetry, or a nested one as tables name it (arm.joints.0).
        name: String,
        /// How it is compared.
        op: Op,
        /// With what; nothing for not-finite.
        #[arg(allow_hyphen_values = true)]
        than: Option<String>,
        /// What it means when the condition holds.
        #[arg(long, value_name = "POLICY", default_value = "halt")]
        policy: Policy,
    },
    /// Takes back the watches of a variable.
    Unwatch {
        /// The variable.
        name: String,
    },
    /// Stays connected as a controller and takes these commands from standard input, line by line. At its end the
    /// controller leaves; when the connection is cut instead, the recorder's --halt-policy says what that means.
    Attend,
}

/// How a watch compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Op {
    #[value(name = ">", alias = "gt")]
    Greater,
    #[value(name = ">=", alias = "ge")]
    GreaterOrEqual,
    #[value(name = "<", alias = "lt")]
    Less,
    #[value(name = "<=", alias = "le")]
    LessOrEqual,
    #[value(name = "==", alias = "eq")]
    Equal,
    #[value(name = "!=", alias = "ne")]
    NotEqual,
    NotFinite,
}

/// What a watch does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Policy {
    Halt,
    Record,
}

pub(crate) fn run(args: &CtlArgs) -> Outcome {
    let patience = args.timeout.map(Duration::from_nanos);
    let mut client = Client::connect(&args.socket, patience)?;
    let mut out = Out::for_json(args.json);
    let request = match &args.ask {
        Ask::Attend => return attend(args, &mut client, &mut out),
        ask => request(ask)?,
    };
    let answer = ask(args, &mut client, request)?;
    let code = tell(&mut out, &answer, args.json)?;
    out.flush()?;
    Ok(code)
}

fn ask(args: &CtlArgs, client: &mut Client, mut request: Value) -> Result<Value, Failure> {
    if let (Some(id), Value::Object(members)) = (&args.correlation_id, &mut request) {
        members.insert("correlation_id".to_owned(), json!(id));
    }
    Ok(client.ask(&request)?)
}

fn request(ask: &Ask) -> Result<Value, Failure> {
    Ok(match ask {
        Ask::Status => json!({ "command": "status" }),
        Ask::Halt { reason } => json!({ "command": "halt", "reason": reason }),
        Ask::Resume { reason } => json!({ "command": "resume", "reason": reason }),
        Ask::Step { count } => json!({ "command": "step", "count": count }),
        Ask::Set { name, value } => {
            json!({ "command": "set", "name": name, "value": value_of(value) })
        }
        Ask::Watch {
            name,
            op,
            than,
            policy,
        } => {
            if than.is_some() == (*op == Op::NotFinite) {
                return Err(Failure::new(
                    "a watch compares with one value, and not-finite with none",
                ));
            }
            let op = match op {
                Op::Greater => ">",
                Op::GreaterOrEqual => ">=",
                Op::Less => "<",
                Op::LessOrEqual => "<=",
                Op::Equal => "==",
                Op::NotEqual => "!=",
                Op::NotFinite => "not_finite",
            };
            let policy = match policy {
                Policy::Halt => "halt",
                Policy::Record => "record",
            };
            let than = than.as_deref().map(value_of);
            json!({ "command": "watch", "name": name, "op": op, "than": than, "policy": policy })
        }
        Ask::Unwatch { name } => json!({ "command": "unwatch", "name": name }),
        Ask::Attend => json!({ "command": "attend" }),
    })
}

/// Commands from standard input until its end. A refused one does not end it.
fn attend(args: &CtlArgs, client: &mut Client, out: &mut Out) -> Outcome {
    let answer = ask(args, client, json!({ "command": "attend" }))?;
    let mut code = tell(out, &answer, args.json)?;
    out.flush()?;
    if code != DONE {
        return Ok(code);
    }
    if io::stdin().is_terminal() {
        eprintln!("{FAINT}status, halt, resume, step N, set NAME VALUE, …; Ctrl-D leaves{FAINT:#}");
    }
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::io("cannot read standard input", &error))?;
        match typed(&line) {
            Ok(None) => {}
            Ok(Some(request)) => {
                let answer = ask(args, client, request)?;
                code = code.max(tell(out, &answer, args.json)?);
                out.flush()?;
            }
            Err(failure) => {
                failure.print("daybook");
                code = COULD_NOT;
            }
        }
    }
    let answer = ask(args, client, json!({ "command": "leave" }))?;
    code = code.max(tell(out, &answer, args.json)?);
    out.flush()?;
    Ok(code)
}

/// One line of `attend`: words as on the command line, the last value as long as the line, or a request in JSON.
fn typed(line: &str) -> Result<Option<Value>, Failure> {
    let line = line.trim();
    if line.is_empty() {
        return Ok(None);
    }
    if line.starts_with('{') {
        let request: Map<String, Value> = serde_json::from_str(line)
            .map_err(|error| Failure::new(format!("no JSON object: {error}")))?;
        return Ok(Some(Value::Object(request)));
    }
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    let two = || {
        let parts = rest.split_once(char::is_whitespace);
        parts.map(|(name, value)| (name.to_owned(), value.trim_start().to_owned()))
    };
    let ask = match word {
        "status" => Ask::Status,
        "halt" => Ask::Halt {
            reason: rest.to_owned(),
        },
        "resume" => Ask::Resume {
            reason: rest.to_owned(),
        },
        "step" if rest.is_empty() => Ask::Step { count: 1 },
        "step" => Ask::Step {
            count: rest
                .parse()
                .map_err(|_| Failure::new(format!("{rest:?} is no number of ticks")))?,
        },
        "set" => {
            let (name, value) = two().ok_or(Failure::new("it is: set NAME VALUE"))?;
            Ask::Set { name, value }
        }
        "unwatch" => Ask::Unwatch {
            name: rest.to_owned(),
        },
        "watch" => {
            let (name, rest) = two().ok_or(Failure::new("it is: watch NAME OP VALUE"))?;
            let (op, than) = match rest.split_once(char::is_whitespace) {
                Some((op, than)) => (op.to_owned(), Some(than.trim_start().to_owned())),
                None => (rest, None),
            };
            let op = Op::from_str(&op, false).map_err(Failure::new)?;
            Ask::Watch {
                name,
                op,
                than,
                policy: Policy::Halt,
            }
        }
        _ => {
            let what = format!("no command {word:?} here");
            let hint = "there are status, halt, resume, step, set, watch, unwatch";
            return Err(Failure::new(what).with_hint(hint));
        }
    };
    request(&ask).map(Some)
}

/// An answer for people, or as it came. The code is that of a verb which did only this.
fn tell(out: &mut Out, answer: &Value, as_json: bool) -> Result<u8, Failure> {
    let is_done = member(answer, "ok").as_bool() == Some(true);
    if as_json {
        out.line(answer)?;
    } else if !is_done {
        let word = |name: &str| member(answer, name).as_str().unwrap_or_default().to_owned();
        let (message, error) = (word("message"), word("error"));
        eprintln!(
            "{BAD}daybook:{BAD:#} {}{FAINT} ({}){FAINT:#}",
            clean(&message),
            clean(&error)
        );
    } else if *member(answer, "command") == "status" {
        tell_status(out, answer)?;
    } else {
        tell_done(out, answer)?;
    }
    Ok(if is_done { DONE } else { COULD_NOT })
}

fn tell_done(out: &mut Out, answer: &Value) -> io::Result<()> {
    let word = |name: &str| member(answer, name).as_str().unwrap_or_default();
    let state = clean(word("state")).into_owned();
    let tick = member(answer, "tick").as_u64().unwrap_or_default();
    match word("command") {
        "set" => {
            let name = clean(word("name")).into_owned();
            let (old, new) = (text(member(answer, "old")), text(member(answer, "applied")));
            out.line(format_args!(
                "{STRONG}{name}{STRONG:#} {old} → {new} at tick {tick}"
            ))?;
            if *member(answer, "limited") == true {
                let asked = text(member(answer, "requested"));
                eprintln!("{WARN}daybook:{WARN:#} {asked} is out of bounds, it is {new}");
            }
            Ok(())
        }
        "step" => {
            let until = member(answer, "until_tick").as_u64().unwrap_or_default();
            out.line(format_args!("{state} from tick {tick} to {until}"))
        }
        command => {
            let command = clean(command).into_owned();
            out.line(format_args!("{command}: {state} at tick {tick}"))
        }
    }
}

fn tell_status(out: &mut Out, answer: &Value) -> io::Result<()> {
    let word = |name: &str| member(answer, name).as_str().unwrap_or_default();
    let tick = member(answer, "tick").as_u64().unwrap_or_default();
    let reason = match word("reason") {
        "" => String::new(),
        reason => format!(": {}", shorten(reason, VALUE_WIDTH)),
    };
    let state = clean(word("state")).into_owned();
    out.line(format_args!(
        "{STRONG}{state}{STRONG:#} at tick {tick}{reason}"
    ))?;
    out.line(format_args!("  run          {}", clean(word("run"))))?;
    let controllers = member(answer, "controllers").as_u64().unwrap_or_default();
    let policy = clean(word("halt_policy")).into_owned();
    let controllers = count(controllers, "controller");
    out.line(format_args!(
        "  attended by  {controllers}; when the last is lost: {policy}"
    ))?;
    for (name, param) in member(answer, "params").as_object().into_iter().flatten() {
        let limits = match (member(param, "min").as_f64(), member(param, "max").as_f64()) {
            (None, None) => String::new(),
            (min, max) => {
                let limit = |limit: Option<f64>| limit.map_or_else(String::new, |l| l.to_string());
                format!(" in {}..{}", limit(min), limit(max))
            }
        };
        let value = text(member(param, "value"));
        out.line(format_args!(
            "  parameter    {} = {value}{limits}",
            clean(name)
        ))?;
    }
    for watch in member(answer, "watches").as_array().into_iter().flatten() {
        let word = |name: &str| member(watch, name).as_str().unwrap_or_default();
        let than = match member(watch, "than") {
            Value::Null => String::new(),
            than => format!(" {}", text(than)),
        };
        out.line(format_args!(
            "  watch        {} {}{than}, then {}",
            clean(word("name")),
            clean(word("op")),
            clean(word("policy"))
        ))?;
    }
    Ok(())
}

/// What an answer has under this name; null when it does not.
fn member<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer.get(name).unwrap_or(&Value::Null)
}

fn text(value: &Value) -> String {
    shorten(&value.to_string(), VALUE_WIDTH)
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let text = chain_text(&error);
        let ClientError::Io { source, .. } = &error else {
            return Self::new(text);
        };
        match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Self::new(text)
                .with_hint("nobody listens there: `daybook record --control SOCK` would"),
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                Self::new("no answer in time").with_hint("it may still be carried out")
            }
            io::ErrorKind::UnexpectedEof => Self::new("the recorder ended the connection"),
            _ => Self::new(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_the_command_line_is() {
        for (line, request) in [
            ("status", json!({"command": "status"})),
            (
                "halt too hot",
                json!({"command": "halt", "reason": "too hot"}),
            ),
            ("step", json!({"command": "step", "count": 1})),
            ("step 12", json!({"command": "step", "count": 12})),
            (
                "set lr 0.5",
                json!({"command": "set", "name": "lr", "value": 0.5}),
            ),
            (
                "set mode a b",
                json!({"command": "set", "name": "mode", "value": "a b"}),
            ),
            (
                "watch loss > 2",
                json!({"command": "watch", "name": "loss", "op": ">", "than": 2, "policy": "halt"}),
            ),
            (r#"{"command":"new"}"#, json!({"command": "new"})),
        ] {
            assert_eq!(typed(line).unwrap(), Some(request), "{line}");
        }
        assert_eq!(typed("  ").unwrap(), None);
        for odd in [
            "explode",
            "set lr",
            "step x",
            "watch loss",
            "watch loss ~ 1",
            "{",
        ] {
            assert!(typed(odd).is_err(), "{odd}");
        }
    }
}
