//! MCAP: a run for the viewers of the robotics world.
//!
//! One channel for each kind of record (`/telemetry`, `/mutation`, …) whose messages are JSON objects
//! `{"tick", "payload"}` with a JSON Schema, and a channel `/log` of `foxglove.Log` that tells in words what
//! was done to the loop. `log_time` is the time of creation plus the monotonic time, so that it never goes
//! back; `publish_time` is the wall clock's. Checkpoints and signatures are no messages: what they prove is
//! in the metadata record `omni.run`, and the attestation's files are attachments.

use std::collections::BTreeMap;
use std::io::{self, Write};

use durable::digest::hex;
use mcap::records::{MessageHeader, Metadata};
use mcap::write::NoSeek;
use mcap::{Attachment, McapError, MessageStream, WriteOptions, Writer};
use serde_json::{Value, json};

use super::{ExportError, Exported, Selection, for_each, json_text};
use crate::journal::{FrameKind, FrameRef, SegmentedPlayer};
use crate::recorder::SchemaDeriver;

/// Lines of `/log` at most: viewers keep all of them in memory. How many were left out is in the metadata.
pub const LOG_LINES_MAX: u64 = 100_000;

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
/// `Write`. Damage of the journal is in the result; the file is finished nevertheless, and its metadata says so.
pub fn write_mcap(
    out: impl Write,
    player: &mut SegmentedPlayer,
    selection: &Selection,
    extras: &McapExtras,
) -> Result<Exported, ExportError> {
    let telemetry = telemetry_schema(player, selection)?;
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
    let pass = for_each(player, selection, u64::MAX, |_, frame| {
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

/// The schema of the telemetry objects, learned from all of those that are exported: it stands before them.
fn telemetry_schema(
    player: &SegmentedPlayer,
    selection: &Selection,
) -> Result<Option<Value>, ExportError> {
    let mut deriver = SchemaDeriver::default();
    let only = Selection {
        kinds: vec![FrameKind::Telemetry],
        ..selection.clone()
    };
    let is_wanted = selection.kinds.is_empty() || selection.kinds.contains(&FrameKind::Telemetry);
    // What cannot be read is told when the records are.
    let Some(mut player) = is_wanted.then(|| player.reopen().ok()).flatten() else {
        return Ok(None);
    };
    for_each(&mut player, &only, u64::MAX, |_, frame| {
        if let Ok(Value::Object(object)) = serde_json::from_slice(frame.payload) {
            deriver.learn(&without_non_finite(object));
        }
        Ok(())
    })?;
    Ok(deriver.schema())
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
    telemetry: Option<Value>,
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
        let data = message_of(frame);
        self.write(channel, frame, data.as_bytes())?;
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
        let at = self.log_time(frame);
        let line = json!({
            "timestamp": { "sec": at / 1_000_000_000, "nsec": at % 1_000_000_000 },
            "level": level,
            "message": message,
            "name": frame.kind.as_str(),
            "file": self.script,
            "line": 0,
        });
        self.write(channel, frame, line.to_string().as_bytes())
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
        let payload = match (kind, &self.telemetry) {
            (FrameKind::Telemetry, Some(schema)) => {
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
        let name = format!("omni.{kind}");
        let schema = schema.to_string();
        let schema = self
            .writer
            .add_schema(&name, "jsonschema", schema.as_bytes())?;
        let topic = format!("/{kind}");
        let channel = self
            .writer
            .add_channel(schema, &topic, "json", &BTreeMap::new())?;
        self.channels.insert(kind, channel);
        Ok(channel)
    }

    fn log_channel(&mut self) -> Result<u16, McapError> {
        if let Some(channel) = self.log {
            return Ok(channel);
        }
        let schema = LOG_SCHEMA.as_bytes();
        let schema = self
            .writer
            .add_schema("foxglove.Log", "jsonschema", schema)?;
        let channel = self
            .writer
            .add_channel(schema, LOG_TOPIC, "json", &BTreeMap::new())?;
        self.log = Some(channel);
        Ok(channel)
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
