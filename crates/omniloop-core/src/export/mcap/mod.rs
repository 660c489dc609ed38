//! MCAP: a run for the viewers of the robotics world.
//!
//! One channel for each kind of record (`/telemetry`, `/mutation`, …) whose messages are JSON objects
//! `{"tick", "payload"}` with a JSON Schema, and a channel `/log` of `foxglove.Log` that tells in words what
//! was done to the loop. `log_time` is the time of creation plus the monotonic time, so that it never goes
//! back; `publish_time` is the wall clock's. Checkpoints and signatures are no messages: what they prove is
//! in the metadata record `omni.run`, and the attestation's files are attachments.
//!
//! With [`McapEncoding::Protobuf`] the same messages are in protobuf, and telemetry has a field for each variable.

mod protobuf;

use std::collections::BTreeMap;
use std::io::{self, Write};

use durable::digest::hex;
use mcap::records::{MessageHeader, Metadata};
use mcap::write::NoSeek;
use mcap::{Attachment, McapError, MessageStream, WriteOptions, Writer};
use serde_json::{Value, json};

use super::columns::Columns;
use super::{ExportError, Exported, Selection, each_selected, json_text};
use crate::journal::{FrameKind, FrameRef, SegmentedPlayer};
use crate::recorder::SchemaDeriver;

/// Lines of `/log` at most: viewers keep all of them in memory. How many were left out is in the metadata.
pub const LOG_LINES_MAX: u64 = 100_000;

/// How messages are spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum McapEncoding {
    /// JSON, with JSON Schemas. A variable keeps the name and type that it has in each record.
    #[default]
    Json,
    /// Protobuf, with descriptors. Each variable is a field of one type.
    Protobuf,
}

/// What goes into the file beside the messages.
#[derive(Clone, Debug, Default)]
pub struct McapExtras {
    /// Members of the metadata record `omni.run`, added to what the export counts itself.
    pub metadata: BTreeMap<String, String>,
    /// Files that stand beside the run: name, media type, bytes.
    pub attachments: Vec<(String, &'static str, Vec<u8>)>,
}

/// Writes the selected records as an MCAP file. It is written front to back, so that the output may be a pipe.
///
/// # Errors
/// `Write`; `TooManyColumns` in protobuf. Damage of the journal is in the result; the file is finished nevertheless, and its
/// metadata says so.
pub fn write_mcap(
    out: impl Write,
    player: &mut SegmentedPlayer,
    selection: &Selection,
    encoding: McapEncoding,
    extras: &McapExtras,
) -> Result<Exported, ExportError> {
    let telemetry = Telemetry::learn(player, selection, encoding)?;
    let options = WriteOptions::new()
        .profile("")
        .library(format!("daybook {}", env!("CARGO_PKG_VERSION")))
        .compression_threads(0)
        .disable_seeking(true);
    let mut file = Messages {
        writer: options.create(NoSeek::new(out)).map_err(failed)?,
        telemetry,
        channels: BTreeMap::new(),
        log: None,
        log_lines: 0,
        left_out: 0,
        created_wall_ns: player.segment().header().created_wall_ns,
        script: String::new(),
        last_log_time: 0,
    };
    let pass = each_selected(player, selection, u64::MAX, |_, frame| {
        file.take(frame).map_err(failed)
    })?;
    let mut metadata = extras.metadata.clone();
    let mut tell = |name: &str, value: String| metadata.insert(name.to_owned(), value);
    tell("records", pass.records.to_string());
    tell("log_lines_left_out", file.left_out.to_string());
    tell("truncated", pass.truncated.to_string());
    tell(
        "stopped",
        pass.stopped
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
    );
    let writer = &mut file.writer;
    for (name, media_type, data) in &extras.attachments {
        let attachment = Attachment {
            log_time: file.last_log_time,
            create_time: file.created_wall_ns,
            name: name.clone(),
            media_type: (*media_type).to_owned(),
            data: data.into(),
        };
        writer.attach(&attachment).map_err(failed)?;
    }
    let name = "omni.run".to_owned();
    writer
        .write_metadata(&Metadata { name, metadata })
        .map_err(failed)?;
    writer.finish().map_err(failed)?;
    let mut out = file.writer.into_inner().into_inner();
    out.flush()?;
    Ok(Exported {
        records: pass.records,
        truncated: pass.truncated,
        stopped: pass.stopped,
    })
}

/// Reads an MCAP file from front to back, checksums included, and counts its messages, those of `/log` left out.
///
/// # Errors
/// `InvalidData` when it is not whole.
pub fn count_mcap(bytes: &[u8]) -> io::Result<u64> {
    let invalid = |error: McapError| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
    let mut count = 0;
    for message in MessageStream::new(bytes).map_err(invalid)? {
        count += u64::from(message.map_err(invalid)?.channel.topic != LOG_TOPIC);
    }
    let summary = mcap::Summary::read(bytes).map_err(invalid)?;
    if summary.and_then(|summary| summary.stats).is_none() {
        let what = "it has no statistics at its end";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(count)
}

fn failed(error: McapError) -> ExportError {
    ExportError::Write(match error {
        McapError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    })
}

/// What is known of the telemetry before the first message: its schema stands before it.
enum Telemetry {
    /// A JSON Schema of the objects.
    Json(Option<Value>),
    Protobuf(Columns),
}

impl Telemetry {
    /// Reads all of what is to be exported once.
    fn learn(
        player: &SegmentedPlayer,
        selection: &Selection,
        encoding: McapEncoding,
    ) -> Result<Self, ExportError> {
        let mut deriver = SchemaDeriver::default();
        let only = Selection {
            kinds: vec![FrameKind::Telemetry],
            ..selection.clone()
        };
        let kinds = &selection.kinds;
        let is_wanted = kinds.is_empty() || kinds.contains(&FrameKind::Telemetry);
        // What cannot be read is told when the records are.
        let again = is_wanted.then(|| player.reopen().ok()).flatten();
        match (encoding, again) {
            (McapEncoding::Json, None) => Ok(Self::Json(None)),
            (McapEncoding::Protobuf, None) => Ok(Self::Protobuf(Columns::default())),
            (McapEncoding::Protobuf, Some(mut player)) => {
                Ok(Self::Protobuf(Columns::learn(&mut player, &only)?.0))
            }
            (McapEncoding::Json, Some(mut player)) => {
                let _pass = each_selected(&mut player, &only, u64::MAX, |_, frame| {
                    if let Ok(Value::Object(object)) = serde_json::from_slice(frame.payload) {
                        deriver.learn(&without_non_finite(object));
                    }
                    Ok(())
                })?;
                Ok(Self::Json(deriver.schema()))
            }
        }
    }

    fn columns(&self) -> Option<&Columns> {
        match self {
            Self::Json(_) => None,
            Self::Protobuf(columns) => Some(columns),
        }
    }
}

/// Viewers want one type for each variable: the texts that stand for non-finite numbers become null.
fn without_non_finite(
    mut object: serde_json::Map<String, Value>,
) -> serde_json::Map<String, Value> {
    fn clear(value: &mut Value) {
        match value {
            Value::String(text) if is_non_finite(text) => *value = Value::Null,
            Value::Array(elements) => elements.iter_mut().for_each(clear),
            Value::Object(members) => members.values_mut().for_each(clear),
            _ => {}
        }
    }
    object.values_mut().for_each(clear);
    object
}

fn is_non_finite(text: &str) -> bool {
    matches!(text, "NaN" | "Infinity" | "-Infinity")
}

const LOG_TOPIC: &str = "/log";

struct Messages<W: Write> {
    writer: Writer<NoSeek<W>>,
    telemetry: Telemetry,
    channels: BTreeMap<FrameKind, u16>,
    log: Option<u16>,
    log_lines: u64,
    left_out: u64,
    created_wall_ns: u64,
    /// The script of the start record, for the log's lines.
    script: String,
    last_log_time: u64,
}

impl<W: Write> Messages<W> {
    fn take(&mut self, frame: &FrameRef<'_>) -> Result<(), McapError> {
        let channel = self.channel(frame.kind)?;
        let data = match self.telemetry.columns() {
            Some(columns) => protobuf::message(frame, Some(columns)),
            None => message_of(frame).into_bytes(),
        };
        self.write(channel, frame, &data)?;
        if frame.kind == FrameKind::Lifecycle {
            let start: Option<Value> = serde_json::from_slice(frame.payload).ok();
            let script = start
                .as_ref()
                .and_then(|start| start.pointer("/script/path")?.as_str());
            if let Some(script) = script {
                script.clone_into(&mut self.script);
            }
        }
        let Some((level, message)) = log_line(frame) else {
            return Ok(());
        };
        if self.log_lines == LOG_LINES_MAX {
            self.left_out += 1;
            return Ok(());
        }
        self.log_lines += 1;
        let channel = self.log_channel()?;
        let line = LogLine {
            at: self.log_time(frame),
            level,
            message: &message,
            name: frame.kind.as_str(),
            file: &self.script,
        };
        let data = match self.telemetry {
            Telemetry::Json(_) => line.json().into_bytes(),
            Telemetry::Protobuf(_) => protobuf::log_message(&line),
        };
        self.write(channel, frame, &data)
    }

    fn log_time(&self, frame: &FrameRef<'_>) -> u64 {
        self.created_wall_ns.saturating_add(frame.mono_ns)
    }

    fn write(
        &mut self,
        channel_id: u16,
        frame: &FrameRef<'_>,
        data: &[u8],
    ) -> Result<(), McapError> {
        self.last_log_time = self.log_time(frame).max(self.last_log_time);
        let header = MessageHeader {
            channel_id,
            // 32 bits of it: the whole tick is in the message.
            sequence: (frame.tick & u64::from(u32::MAX))
                .try_into()
                .unwrap_or_default(),
            log_time: self.last_log_time,
            publish_time: frame.wall_ns,
        };
        self.writer.write_to_known_channel(&header, data)
    }

    fn channel(&mut self, kind: FrameKind) -> Result<u16, McapError> {
        if let Some(channel) = self.channels.get(&kind) {
            return Ok(*channel);
        }
        let topic = format!("/{kind}");
        let channel = if let Some(columns) = self.telemetry.columns() {
            let schema = protobuf::schema(kind, Some(columns));
            self.add_channel(&topic, &schema.name, "protobuf", &schema.data)?
        } else {
            let (name, schema) = (format!("omni.{kind}"), self.json_schema(kind));
            self.add_channel(&topic, &name, "jsonschema", schema.as_bytes())?
        };
        self.channels.insert(kind, channel);
        Ok(channel)
    }

    fn json_schema(&self, kind: FrameKind) -> String {
        let payload = match (kind, &self.telemetry) {
            (FrameKind::Telemetry, Telemetry::Json(Some(schema))) => {
                let mut schema = schema.clone();
                if let Some(members) = schema.as_object_mut() {
                    members.remove("$schema");
                }
                schema
            }
            _ => json!({ "type": "object" }),
        };
        let schema = json!({
            "title": format!("omni.{kind}"),
            "type": "object",
            "properties": {
                "tick": { "type": "integer" },
                "payload": payload,
                "payload_hex": { "type": "string" },
            },
        });
        schema.to_string()
    }

    /// A channel whose messages are encoded as its schema is.
    fn add_channel(
        &mut self,
        topic: &str,
        name: &str,
        schema_encoding: &str,
        schema: &[u8],
    ) -> Result<u16, McapError> {
        let encoding = match self.telemetry {
            Telemetry::Json(_) => "json",
            Telemetry::Protobuf(_) => "protobuf",
        };
        let schema = self.writer.add_schema(name, schema_encoding, schema)?;
        self.writer
            .add_channel(schema, topic, encoding, &BTreeMap::new())
    }

    fn log_channel(&mut self) -> Result<u16, McapError> {
        if let Some(channel) = self.log {
            return Ok(channel);
        }
        let channel = match self.telemetry {
            Telemetry::Json(_) => {
                let schema = LOG_SCHEMA.as_bytes();
                self.add_channel(LOG_TOPIC, "foxglove.Log", "jsonschema", schema)?
            }
            Telemetry::Protobuf(_) => {
                let schema = protobuf::log_schema();
                self.add_channel(LOG_TOPIC, &schema.name, "protobuf", &schema.data)?
            }
        };
        self.log = Some(channel);
        Ok(channel)
    }
}

/// A line of `/log`.
struct LogLine<'l> {
    /// Unix nanoseconds.
    at: u64,
    level: u8,
    message: &'l str,
    name: &'static str,
    file: &'l str,
}

impl LogLine<'_> {
    fn json(&self) -> String {
        let line = json!({
            "timestamp": { "sec": self.at / 1_000_000_000, "nsec": self.at % 1_000_000_000 },
            "level": self.level,
            "message": self.message,
            "name": self.name,
            "file": self.file,
            "line": 0,
        });
        line.to_string()
    }
}

/// The members that viewers look for in a `foxglove.Log`.
const LOG_SCHEMA: &str = r#"{"title":"foxglove.Log","type":"object","properties":{"timestamp":{"type":"object","title":"time","properties":{"sec":{"type":"integer","minimum":0},"nsec":{"type":"integer","minimum":0,"maximum":999999999}}},"level":{"type":"integer"},"message":{"type":"string"},"name":{"type":"string"},"file":{"type":"string"},"line":{"type":"integer","minimum":0}}}"#;

const INFO: u8 = 2;
const WARNING: u8 = 3;

/// How loud a record is, and what it says in words; `None` for those that are no news.
fn log_line(frame: &FrameRef<'_>) -> Option<(u8, String)> {
    if !matches!(
        frame.kind,
        FrameKind::Control | FrameKind::Lifecycle | FrameKind::Guardrail | FrameKind::Mutation
    ) {
        return None;
    }
    let payload: Value = serde_json::from_slice(frame.payload).ok()?;
    let text = |name: &str| payload.get(name).and_then(Value::as_str);
    let value = |name: &str| payload.get(name).unwrap_or(&Value::Null);
    Some(match frame.kind {
        FrameKind::Guardrail => (
            WARNING,
            format!(
                "{} limited from {} to {}",
                text("name").unwrap_or_default(),
                value("requested"),
                value("applied")
            ),
        ),
        FrameKind::Mutation => (
            INFO,
            format!(
                "{} set from {} to {}",
                text("name").unwrap_or_default(),
                value("old"),
                value("new")
            ),
        ),
        FrameKind::Lifecycle => (INFO, text("event").unwrap_or_default().to_owned()),
        _ => {
            let command = text("command").unwrap_or_default();
            let level = if matches!(command, "halt" | "watch_trip" | "clamp" | "drop") {
                WARNING
            } else {
                INFO
            };
            let words = text("text")
                .or_else(|| text("reason"))
                .or_else(|| text("name"));
            let words = words.map_or_else(String::new, |words| format!(": {words}"));
            (level, format!("{command}{words}"))
        }
    })
}

fn message_of(frame: &FrameRef<'_>) -> String {
    let tick = frame.tick;
    let Some(text) = json_text(frame.payload) else {
        return format!(
            r#"{{"tick":{tick},"payload":null,"payload_hex":"{}"}}"#,
            hex(frame.payload)
        );
    };
    let has_non_finite = text.contains("NaN\"") || text.contains("Infinity\"");
    if frame.kind == FrameKind::Telemetry
        && has_non_finite
        && let Ok(Value::Object(object)) = serde_json::from_str(&text)
    {
        return json!({ "tick": tick, "payload": without_non_finite(object) }).to_string();
    }
    format!(r#"{{"tick":{tick},"payload":{text}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_non_finite_numbers_become_null_wherever_they_stand() {
        let object = json!({"a": "NaN", "b": [1, "-Infinity", {"c": "Infinity"}], "d": "NaNs"});
        let Value::Object(object) = object else {
            unreachable!()
        };
        let cleared = Value::Object(without_non_finite(object));
        assert_eq!(
            cleared,
            json!({"a": null, "b": [1, null, {"c": null}], "d": "NaNs"})
        );
    }
}
