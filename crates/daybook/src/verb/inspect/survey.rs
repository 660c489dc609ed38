//! One pass over a run that gathers everything `inspect` shows, in bounded memory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use durable::{Fs as _, RealFs};
use omniloop_core::export::{Selection, flatten, number_of, write_jsonl_line};
use omniloop_core::journal::{Error, FrameKind, FrameRef, JournalPlayer, SegmentedPlayer};
use serde::Serialize;
use serde_json::Value;

use super::InspectArgs;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::series::{Series, Variables};
use crate::text::approximate;

/// What is in a run.
#[derive(Debug, Serialize)]
pub(super) struct Survey {
    pub(super) path: PathBuf,
    pub(super) kind: &'static str,
    pub(super) version: u32,
    pub(super) created_wall_ns: u64,
    pub(super) segments: Vec<SegmentFacts>,
    /// Files that reading never comes to, since one before them is missing.
    pub(super) stranded: Vec<PathBuf>,
    pub(super) sealed: bool,
    pub(super) truncated: bool,
    pub(super) counts: BTreeMap<FrameKind, u64>,
    pub(super) payload_bytes: u64,
    pub(super) first: Option<Stamps>,
    pub(super) last: Option<Stamps>,
    pub(super) duration_ns: u64,
    /// Telemetry records per second between the first and the last.
    pub(super) telemetry_hz: Option<f64>,
    pub(super) start: Option<Value>,
    pub(super) stop: Option<Value>,
    pub(super) variables: Vec<Series>,
    /// True when there are more variables than are shown.
    pub(super) variables_partial: bool,
    /// How many records the choice takes.
    pub(super) records_chosen: u64,
    /// The first of them, up to the limit.
    pub(super) records: Vec<Value>,
    pub(super) damage: Option<String>,
    #[serde(skip)]
    pub(super) damage_error: Option<Error>,
    #[serde(skip)]
    pub(super) lines: Vec<String>,
}

/// One file.
#[derive(Debug, Serialize)]
pub(super) struct SegmentFacts {
    pub(super) path: PathBuf,
    pub(super) bytes: Option<u64>,
    pub(super) sealed: bool,
    /// From its trailer: nothing proves it but `daybook verify`.
    pub(super) records: Option<u64>,
}

/// When a record was made.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Stamps {
    pub(super) tick: u64,
    pub(super) mono_ns: u64,
    pub(super) wall_ns: u64,
}

impl Survey {
    /// Reads the run once. `opening` is damage that was found before.
    pub(super) fn of(
        player: &mut SegmentedPlayer,
        args: &InspectArgs,
        opening: Option<&Error>,
    ) -> Result<Self, Failure> {
        let first = player.segment();
        let (version, header) = (first.version(), first.header());
        let segments: Vec<SegmentFacts> = player.paths().iter().map(|p| segment_facts(p)).collect();
        let mut pass = Pass::new(args);
        let mut progress = Progress::of_bytes(segments.iter().filter_map(|s| s.bytes).sum());
        let lens: Vec<u64> = segments
            .iter()
            .map(|s| s.bytes.unwrap_or_default())
            .collect();
        let mut seen = 0u64;
        let damage = loop {
            match player.next_placed_frame() {
                Ok(Some((segment, frame))) => {
                    pass.take(segment, &frame)?;
                    seen += 1;
                    if seen.is_multiple_of(4096) {
                        let offset = frame.offset;
                        let ordinal = usize::try_from(segment).unwrap_or(usize::MAX);
                        let len = lens.get(ordinal).copied().unwrap_or_default();
                        progress.at(player.segment().path(), offset, len);
                    }
                }
                Ok(None) => break None,
                Err(error) => break Some(error),
            }
        };
        drop(progress);
        let stranded = player.stranded_paths()?;
        let damage = damage.or_else(|| player.check_complete().err());
        let told = opening.or(damage.as_ref());
        Ok(Self {
            path: args.path.clone(),
            kind: "run",
            version,
            created_wall_ns: header.created_wall_ns,
            sealed: segments.iter().all(|segment| segment.sealed),
            segments,
            stranded,
            truncated: player.is_truncated(),
            counts: pass.counts,
            payload_bytes: pass.payload_bytes,
            duration_ns: span(pass.first, pass.last),
            telemetry_hz: rate(&pass.telemetry),
            first: pass.first,
            last: pass.last,
            start: pass.start,
            stop: pass.stop,
            variables: pass.variables.series().to_vec(),
            variables_partial: pass.variables.is_partial(),
            records_chosen: pass.chosen,
            records: pass.records,
            damage: told.map(|error| crate::failure::chain_text(error)),
            damage_error: damage,
            lines: pass.lines,
        })
    }

    pub(super) fn record_count(&self) -> u64 {
        self.counts.values().sum()
    }
}

fn segment_facts(path: &Path) -> SegmentFacts {
    let player = JournalPlayer::open(path).ok();
    SegmentFacts {
        path: path.to_owned(),
        bytes: RealFs.metadata(path).ok().map(|found| found.len),
        sealed: player.as_ref().is_some_and(JournalPlayer::is_finalized),
        records: player.and_then(|player| player.record_count()),
    }
}

/// Telemetry records, and the time from the first to the last.
#[derive(Debug, Default)]
struct Pace {
    count: u64,
    first_ns: u64,
    last_ns: u64,
}

fn rate(pace: &Pace) -> Option<f64> {
    let span = pace.last_ns.saturating_sub(pace.first_ns);
    (pace.count > 1 && span > 0).then(|| approximate(pace.count - 1) * 1e9 / approximate(span))
}

fn span(first: Option<Stamps>, last: Option<Stamps>) -> u64 {
    match (first, last) {
        (Some(first), Some(last)) => last.mono_ns.saturating_sub(first.mono_ns),
        _ => 0,
    }
}

struct Pass {
    selection: Selection,
    limit: u64,
    as_json: bool,
    counts: BTreeMap<FrameKind, u64>,
    payload_bytes: u64,
    first: Option<Stamps>,
    last: Option<Stamps>,
    telemetry: Pace,
    start: Option<Value>,
    stop: Option<Value>,
    variables: Variables,
    chosen: u64,
    records: Vec<Value>,
    lines: Vec<String>,
}

impl Pass {
    fn new(args: &InspectArgs) -> Self {
        Self {
            selection: args.selection(),
            limit: args.limit(),
            as_json: args.json,
            counts: BTreeMap::new(),
            payload_bytes: 0,
            first: None,
            last: None,
            telemetry: Pace::default(),
            start: None,
            stop: None,
            variables: Variables::default(),
            chosen: 0,
            records: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn take(&mut self, segment: u64, frame: &FrameRef<'_>) -> io::Result<()> {
        *self.counts.entry(frame.kind).or_default() += 1;
        self.payload_bytes += frame.payload.len() as u64;
        if frame.kind.is_data() {
            let stamps = Stamps {
                tick: frame.tick,
                mono_ns: frame.mono_ns,
                wall_ns: frame.wall_ns,
            };
            self.first.get_or_insert(stamps);
            self.last = Some(stamps);
        }
        match frame.kind {
            FrameKind::Telemetry => self.take_telemetry(frame),
            FrameKind::Lifecycle => self.take_lifecycle(frame),
            _ => {}
        }
        if !self.selection.takes(frame) {
            return Ok(());
        }
        self.chosen += 1;
        if self.chosen > self.limit {
            return Ok(());
        }
        if self.as_json {
            self.records.push(record_value(segment, frame)?);
        } else {
            self.lines.push(super::listing::line(frame));
        }
        Ok(())
    }

    fn take_telemetry(&mut self, frame: &FrameRef<'_>) {
        if self.telemetry.count == 0 {
            self.telemetry.first_ns = frame.mono_ns;
        }
        self.telemetry.count += 1;
        self.telemetry.last_ns = frame.mono_ns;
        if let Ok(value) = serde_json::from_slice::<Value>(frame.payload) {
            flatten(&value, &mut |name, value| {
                if let Some(number) = number_of(value) {
                    self.variables.push(name, number);
                }
            });
        }
    }

    fn take_lifecycle(&mut self, frame: &FrameRef<'_>) {
        let Ok(value) = serde_json::from_slice::<Value>(frame.payload) else {
            return;
        };
        match value.get("event").and_then(Value::as_str) {
            Some("start") if self.start.is_none() => self.start = Some(value),
            Some("stop") => self.stop = Some(value),
            _ => {}
        }
    }
}

/// A record as in the export to JSON Lines.
fn record_value(segment: u64, frame: &FrameRef<'_>) -> io::Result<Value> {
    let mut line = Vec::new();
    write_jsonl_line(&mut line, segment, frame)?;
    // A number out of every range is legal JSON that this parser refuses; its bytes are shown then.
    serde_json::from_slice(&line).or_else(|_| {
        let bytes = FrameRef {
            payload: &[],
            ..*frame
        };
        let mut line = Vec::new();
        write_jsonl_line(&mut line, segment, &bytes)?;
        let mut value: Value = serde_json::from_slice(&line)?;
        if let Some(members) = value.as_object_mut() {
            let hex = durable::digest::hex(frame.payload);
            members.insert("payload_hex".to_owned(), hex.into());
        }
        Ok(value)
    })
}
