//! A run as spans: the run, its phases, and in them as events what was done to the loop.
//!
//! A phase is a stretch between control records `halt`, `resume` and `checkpoint`; one with very many events goes on in the
//! next. Telemetry is no event: a phase has its count and its last values. The spans belong to the trace that the run names
//! and hang under the span that began it; a run without one is a trace of its own. Ids follow from the run, so that the same
//! run gives the same spans again.

use std::io::Write;
use std::path::Path;

use durable::digest::{hex, sha256};
use omniloop_core::export::{ExportError, Exported, Selection, each_selected, flatten, number_of};
use omniloop_core::journal::{FrameKind, FrameRef, SegmentedPlayer};
use omniloop_core::recorder::{
    Links, RUN_ID, RUN_TICK, SESSION_ID, STUDY_ID, TRACE_VARIABLE, TRIAL_NUMBER,
};
use serde_json::{Value as Json, json};
use traza::json::{Object, Value};
use traza::otlp::{Losses, write_request};
use traza::span::{Event, Span};

/// Events of one span, and the bytes of their payloads.
const EVENTS_MAX: usize = 1000;
const EVENTS_LEN_MAX: usize = 4 << 20;
/// A longer payload is left out, and its length is told.
const PAYLOAD_LEN_MAX: usize = 64 << 10;
/// Last values of telemetry that a phase tells.
const VALUES_MAX: usize = 64;
/// Spans of one request.
const REQUEST_SPANS: usize = 100;

/// What was written.
pub(super) struct Written {
    pub(super) exported: Exported,
    pub(super) spans: u64,
}

/// Writes the selected records as export requests, one in a line. `facts` are further attributes of the run's span.
pub(super) fn write(
    out: impl Write,
    player: &mut SegmentedPlayer,
    selection: &Selection,
    path: &Path,
    facts: &[(String, String)],
) -> Result<Written, ExportError> {
    let start = start_of(player);
    let mut spans = Spans::new(out, &start, player, path);
    let exported = each_selected(player, selection, u64::MAX, |_, frame| spans.take(frame))?;
    let spans = spans.end(&exported, facts)?;
    Ok(Written { exported, spans })
}

/// The start record; null when there is none at the begin.
fn start_of(player: &SegmentedPlayer) -> Json {
    let first = || {
        let mut player = player.reopen().ok()?;
        let frame = player.next_data_frame().ok()??;
        let is_start = frame.kind == FrameKind::Lifecycle;
        let payload = is_start.then_some(frame.payload)?;
        serde_json::from_slice(payload).ok()
    };
    first().unwrap_or_default()
}

/// A phase that goes on.
struct Phase {
    name: &'static str,
    first: Stamp,
    last: Stamp,
    telemetry: u64,
    values: Object,
    events: Vec<Event>,
    events_len: usize,
}

#[derive(Clone, Copy)]
struct Stamp {
    wall_ns: u64,
    tick: u64,
}

struct Spans<W> {
    out: W,
    /// Names of the run for every span.
    names: Object,
    service: String,
    trace_id: String,
    parent: Option<String>,
    run: Span,
    phase: Option<Phase>,
    phases: u64,
    exit: Option<bool>,
    waiting: Vec<Span>,
    written: u64,
}

impl<W: Write> Spans<W> {
    fn new(out: W, start: &Json, player: &SegmentedPlayer, path: &Path) -> Self {
        let links = Links::from_start(start);
        let created = player.segment().header().created_wall_ns;
        let own = links.run_id.clone().unwrap_or_else(|| {
            // Without a name, what tells it from others: when it was created, and its start.
            let facts = format!("{created}\n{start}");
            hex(&sha256(facts.as_bytes())).chars().take(32).collect()
        });
        let parent = start
            .pointer("/env")
            .and_then(|env| env.get(TRACE_VARIABLE));
        let parent = parent.and_then(Json::as_str).unwrap_or_default();
        let parent = parent.split('-').nth(2).unwrap_or_default();
        let mut names = Object::new();
        let mut name = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                names.insert(key.to_owned(), value);
            }
        };
        name(RUN_ID, Some(own.as_str().into()));
        name(STUDY_ID, links.study_id.as_deref().map(Value::from));
        name(TRIAL_NUMBER, links.trial_number.map(number));
        name(SESSION_ID, links.session_id.as_deref().map(Value::from));
        let program = start
            .pointer("/script/path")
            .or_else(|| start.pointer("/argv/0"));
        let program = program.and_then(Json::as_str).map_or(path, Path::new);
        let service = program.file_name().unwrap_or_default().to_string_lossy();
        let service = service.into_owned();
        let trace_id = links.trace_id.clone().unwrap_or_else(|| own.clone());
        let mut run = Span {
            name: format!("run {service}").into(),
            start_time_ns: created,
            end_time_ns: created,
            ..Span::default()
        };
        if let Some(argv) = start.get("argv") {
            run.attributes
                .insert("process.command_args".to_owned(), stored(argv));
        }
        Self {
            out,
            names,
            service,
            parent: links
                .trace_id
                .map(|_| parent.to_owned())
                .filter(|id| id.len() == 16),
            trace_id,
            run,
            phase: None,
            phases: 0,
            exit: None,
            waiting: Vec::new(),
            written: 0,
        }
    }

    fn take(&mut self, frame: &FrameRef<'_>) -> Result<(), ExportError> {
        let stamp = Stamp {
            wall_ns: frame.wall_ns,
            tick: frame.tick,
        };
        let payload = serde_json::from_slice::<Json>(frame.payload).ok();
        if let Some(name) = payload
            .as_ref()
            .and_then(|payload| turn(frame.kind, payload))
        {
            self.end_phase()?;
            self.begin_phase(name, stamp);
        }
        let is_full =
            |phase: &Phase| phase.events.len() >= EVENTS_MAX || phase.events_len >= EVENTS_LEN_MAX;
        if self.phase.as_ref().is_some_and(is_full) {
            let name = self.phase.as_ref().map_or("running", |phase| phase.name);
            self.end_phase()?;
            self.begin_phase(name, stamp);
        }
        if self.phase.is_none() {
            self.begin_phase("running", stamp);
        }
        if let (FrameKind::Lifecycle, Some(payload)) = (frame.kind, &payload) {
            let code = payload.pointer("/exit/code").and_then(Json::as_i64);
            let ended = payload.get("exit").is_some();
            self.exit = if ended {
                Some(code == Some(0))
            } else {
                self.exit
            };
        }
        let Some(phase) = &mut self.phase else {
            return Ok(());
        };
        phase.last = stamp;
        if frame.kind == FrameKind::Telemetry {
            phase.telemetry += 1;
            if let Some(payload) = &payload {
                phase.values = values_of(payload);
            }
            return Ok(());
        }
        phase.events_len += frame.payload.len().min(PAYLOAD_LEN_MAX);
        phase.events.push(event(frame, payload.as_ref()));
        Ok(())
    }

    fn begin_phase(&mut self, name: &'static str, at: Stamp) {
        self.phase = Some(Phase {
            name,
            first: at,
            last: at,
            telemetry: 0,
            values: Object::new(),
            events: Vec::new(),
            events_len: 0,
        });
    }

    fn end_phase(&mut self) -> Result<(), ExportError> {
        let Some(phase) = self.phase.take() else {
            return Ok(());
        };
        self.phases += 1;
        let mut attributes = phase.values;
        attributes.insert(RUN_TICK.to_owned(), number(phase.last.tick));
        attributes.insert("run.tick.first".to_owned(), number(phase.first.tick));
        attributes.insert("omni.telemetry".to_owned(), number(phase.telemetry));
        let end = phase.last.wall_ns.max(phase.first.wall_ns);
        self.run.end_time_ns = self.run.end_time_ns.max(end);
        self.run
            .attributes
            .insert(RUN_TICK.to_owned(), number(phase.last.tick));
        let span = Span {
            span_id: self.id(self.phases).into(),
            parent_span_id: Some(self.id(0).into()),
            name: phase.name.into(),
            start_time_ns: phase.first.wall_ns,
            end_time_ns: end,
            attributes,
            events: phase.events,
            ..Span::default()
        };
        self.put(span)
    }

    /// The id of the run's span, and of those of its phases from 1.
    fn id(&self, ordinal: u64) -> String {
        let names = self.names.get(RUN_ID).and_then(Value::as_str);
        let facts = format!("{}\n{ordinal}", names.unwrap_or_default());
        hex(&sha256(facts.as_bytes())).chars().take(16).collect()
    }

    fn put(&mut self, mut span: Span) -> Result<(), ExportError> {
        span.trace_id = self.trace_id.as_str().into();
        span.service = self.service.as_str().into();
        for (name, value) in &self.names {
            span.attributes.insert(name.clone(), value.clone());
        }
        self.waiting.push(span);
        let len: usize = self.waiting.iter().map(|span| span.events.len()).sum();
        if self.waiting.len() >= REQUEST_SPANS || len >= EVENTS_MAX {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ExportError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        let (mut request, mut losses) = (String::new(), Losses::default());
        write_request(&self.waiting, &mut request, &mut losses).map_err(std::io::Error::other)?;
        request.push('\n');
        self.out.write_all(request.as_bytes())?;
        self.written += self.waiting.len() as u64;
        self.waiting.clear();
        Ok(())
    }

    fn end(mut self, exported: &Exported, facts: &[(String, String)]) -> Result<u64, ExportError> {
        self.end_phase()?;
        let mut run = std::mem::take(&mut self.run);
        run.span_id = self.id(0).into();
        run.parent_span_id = self.parent.take().map(Into::into);
        run.status = match self.exit {
            Some(true) => "ok".into(),
            Some(false) => "error".into(),
            None => String::new().into(),
        };
        let mut fact = |name: &str, value: Value| run.attributes.insert(name.to_owned(), value);
        fact("omni.records", number(exported.records));
        if let Some(stopped) = &exported.stopped {
            fact("omni.stopped", Value::from(stopped.to_string().as_str()));
        }
        for (name, value) in facts {
            fact(name, Value::from(value.as_str()));
        }
        self.put(run)?;
        self.flush()?;
        self.out.flush()?;
        Ok(self.written)
    }
}

/// The phase that a control record begins.
fn turn(kind: FrameKind, payload: &Json) -> Option<&'static str> {
    let is_control = kind == FrameKind::Control;
    let command = payload.get("command").filter(|_| is_control)?;
    match command.as_str()? {
        "halt" => Some("halted"),
        "resume" | "checkpoint" => Some("running"),
        _ => None,
    }
}

fn event(frame: &FrameRef<'_>, payload: Option<&Json>) -> Event {
    let text = |name: &str| payload.and_then(|payload| payload.get(name)?.as_str());
    let what = ["command", "event", "name", "channel", "algorithm"]
        .iter()
        .find_map(|name| text(name));
    let kind = frame.kind.as_str();
    let name = what.map_or_else(|| kind.to_owned(), |what| format!("{kind} {what}"));
    let mut attributes = Object::new();
    attributes.insert(RUN_TICK.to_owned(), number(frame.tick));
    let len = frame.payload.len();
    match payload {
        _ if len > PAYLOAD_LEN_MAX => {
            attributes.insert("omni.payload_len".to_owned(), number(len as u64));
        }
        Some(Json::Object(members)) => {
            for (member, value) in members {
                attributes.insert(member.clone(), stored(value));
            }
        }
        Some(other) => {
            attributes.insert("omni.payload".to_owned(), stored(other));
        }
        None => {
            let raw = hex(frame.payload);
            attributes.insert("omni.payload_hex".to_owned(), raw.as_str().into());
        }
    }
    Event {
        name: name.into(),
        timestamp_ns: frame.wall_ns,
        attributes,
    }
}

/// The numbers of a telemetry record, by their names.
fn values_of(payload: &Json) -> Object {
    let mut values = Object::new();
    flatten(payload, &mut |name, value| {
        if values.len() < VALUES_MAX && number_of(value).is_some() {
            values.insert(format!("telemetry.{name}"), stored(value));
        }
    });
    values
}

fn number(value: u64) -> Value {
    stored(&json!(value))
}

/// The same value in the library's own JSON; one that only `serde_json` can spell is its text.
fn stored(value: &Json) -> Value {
    let text = value.to_string();
    Value::parse(text.as_bytes()).unwrap_or_else(|_| text.as_str().into())
}
