//! Judgments about traces, spans, sessions and examples of experiments
//! (`docs/formats/traza-store-logs.md`, annotations).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use durable::Fs;

use super::file::{Healed, LineFault, LineFormat, LineLog, LogError, Opened};
use super::members::{Members, Writer};
use crate::json::Value;
use crate::span::{TENANT_LEN_MAX, is_tenant_name};

/// The name of the log in the folder of a store.
pub const FILE_NAME: &str = "annotations.jsonl";

/// The lines of this log: each append is one.
pub const FORMAT: LineFormat<Annotation> = LineFormat {
    decode: Annotation::from_json,
    one_append: |_, after| after.is_empty(),
};

/// A judgment. Which of the ids are set says what it is about: see [`Annotation::subject`].
#[derive(Clone, Debug, PartialEq)]
pub struct Annotation {
    /// The trace, or empty.
    pub trace_id: String,
    /// The span of the trace, or empty.
    pub span_id: String,
    /// Whose it is; empty for the default tenant.
    pub tenant: String,
    /// The session, or empty.
    pub session_id: String,
    /// The experiment, for a score.
    pub experiment_id: Option<u64>,
    /// The example of the experiment, or empty.
    pub example_id: String,
    /// What is judged, such as `quality`.
    pub name: String,
    /// The judgment: any JSON.
    pub value: Value,
    /// Who judged, such as `human:ann` or `eval:nightly`; may be empty.
    pub source: String,
    /// Free text; may be empty.
    pub comment: String,
    /// When, in nanoseconds since the Unix epoch; 0 when nobody said.
    pub timestamp_ns: u64,
}

/// What an annotation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject<'a> {
    /// A whole trace.
    Trace {
        /// Its id.
        trace_id: &'a str,
    },
    /// One span.
    Span {
        /// Its trace.
        trace_id: &'a str,
        /// Its id.
        span_id: &'a str,
    },
    /// A session.
    Session {
        /// Its id.
        session_id: &'a str,
    },
    /// A score: an example as an experiment went through it. The annotation may also name the trace and the span of the run.
    Score {
        /// The experiment.
        experiment_id: u64,
        /// The example.
        example_id: &'a str,
    },
}

/// Why an annotation cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AnnotationFault {
    /// It has no name.
    #[error("annotation name is empty")]
    EmptyName,
    /// The tenant is neither empty nor a name.
    #[error(
        "annotation tenant must be lowercase [a-z0-9][a-z0-9._-], at most {TENANT_LEN_MAX} bytes"
    )]
    Tenant,
    /// A span is named without its trace.
    #[error("annotation span_id requires its trace_id")]
    SpanWithoutTrace,
    /// An experiment is named without an example, or the other way round.
    #[error("a score names both experiment_id and example_id")]
    HalfScore,
    /// A session is named together with a trace or an experiment.
    #[error("a session annotation names only its session_id")]
    SessionAndMore,
    /// Nothing is named.
    #[error("annotation must address a trace, a span, a session, or an experiment example")]
    NoSubject,
}

/// Why an annotation was not appended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// It is not valid.
    #[error(transparent)]
    Fault(#[from] AnnotationFault),
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
}

impl Annotation {
    /// Reads an annotation from JSON: a line of the log, or what a client sends. `name` and `value` are required, `$tenant` is
    /// another name of `tenant`, and unknown members are ignored. Whether it is valid is [`Annotation::subject`]'s to say.
    ///
    /// # Errors
    /// See [`LineFault`].
    pub fn from_json(line: &[u8]) -> Result<Self, LineFault> {
        let mut members = Members::parse(line)?;
        Ok(Self {
            trace_id: members.string_or_empty("trace_id")?,
            span_id: members.string_or_empty("span_id")?,
            tenant: members.tenant()?,
            session_id: members.string_or_empty("session_id")?,
            experiment_id: members.optional_u64("experiment_id")?,
            example_id: members.string_or_empty("example_id")?,
            name: members.string("name")?,
            value: members.value("value")?,
            source: members.string_or_empty("source")?,
            comment: members.string_or_empty("comment")?,
            timestamp_ns: members.u64_or_zero("timestamp_ns")?,
        })
    }

    /// The line of the log, without its newline.
    pub fn to_json(&self) -> String {
        let mut out = Writer::new();
        out.string("trace_id", &self.trace_id)
            .string("span_id", &self.span_id)
            .string_unless_empty("tenant", &self.tenant)
            .string_unless_empty("session_id", &self.session_id)
            .optional_u64("experiment_id", self.experiment_id)
            .string_unless_empty("example_id", &self.example_id)
            .string("name", &self.name)
            .value("value", &self.value)
            .string("source", &self.source)
            .string("comment", &self.comment)
            .u64("timestamp_ns", self.timestamp_ns);
        out.finish()
    }

    /// What it is about, if it is valid. Whether that exists is another question.
    ///
    /// # Errors
    /// The first [`AnnotationFault`], in the order of that list.
    pub fn subject(&self) -> Result<Subject<'_>, AnnotationFault> {
        if self.name.is_empty() {
            return Err(AnnotationFault::EmptyName);
        }
        if !self.tenant.is_empty() && !is_tenant_name(&self.tenant) {
            return Err(AnnotationFault::Tenant);
        }
        let (trace_id, span_id) = (self.trace_id.as_str(), self.span_id.as_str());
        let (session_id, example_id) = (self.session_id.as_str(), self.example_id.as_str());
        if !span_id.is_empty() && trace_id.is_empty() {
            return Err(AnnotationFault::SpanWithoutTrace);
        }
        if self.experiment_id.is_some() == example_id.is_empty() {
            return Err(AnnotationFault::HalfScore);
        }
        if !session_id.is_empty() {
            return if trace_id.is_empty() && self.experiment_id.is_none() {
                Ok(Subject::Session { session_id })
            } else {
                Err(AnnotationFault::SessionAndMore)
            };
        }
        if let Some(experiment_id) = self.experiment_id {
            return Ok(Subject::Score {
                experiment_id,
                example_id,
            });
        }
        match (trace_id.is_empty(), span_id.is_empty()) {
            (true, _) => Err(AnnotationFault::NoSubject),
            (false, true) => Ok(Subject::Trace { trace_id }),
            (false, false) => Ok(Subject::Span { trace_id, span_id }),
        }
    }
}

/// All annotations of a store, in the order in which they were recorded. Equal ones may occur; none changes.
#[derive(Debug)]
pub struct Annotations {
    log: LineLog,
    list: Vec<Annotation>,
    places: Places,
}

/// Where in the list the annotations that name something are, ascending.
#[derive(Debug, Default)]
struct Places {
    traces: HashMap<String, Vec<usize>>,
    sessions: HashMap<String, Vec<usize>>,
    experiments: HashMap<u64, Vec<usize>>,
}

impl Annotations {
    /// Opens the log at `path`, and tells what was healed: see [`LineLog::open`].
    ///
    /// # Errors
    /// As [`LineLog::open`].
    pub fn open(fs: Arc<dyn Fs>, path: PathBuf) -> Result<(Self, Option<Healed>), LogError> {
        let opened = LineLog::open(fs, path, &FORMAT)?;
        let healed = opened.healed;
        Ok((Self::of(opened), healed))
    }

    /// Reads the log at `path`: see [`LineLog::read_only`].
    ///
    /// # Errors
    /// As [`LineLog::read_only`].
    pub fn read_only(fs: Arc<dyn Fs>, path: PathBuf) -> Result<Self, LogError> {
        Ok(Self::of(LineLog::read_only(fs, path, &FORMAT)?))
    }

    fn of(opened: Opened<Annotation>) -> Self {
        let places = Places::of(&opened.records);
        Self {
            log: opened.log,
            list: opened.records,
            places,
        }
    }

    /// The file, for its place and its length.
    pub fn log(&self) -> &LineLog {
        &self.log
    }

    /// All of them, in the order of recording.
    pub fn all(&self) -> &[Annotation] {
        &self.list
    }

    /// Those that name the trace, also by one of its spans or in a score, of every tenant.
    pub fn of_trace(&self, trace_id: &str) -> impl Iterator<Item = &Annotation> {
        self.at(self.places.traces.get(trace_id))
    }

    /// Those that name the span, also in a score, of every tenant.
    pub fn of_span(&self, trace_id: &str, span_id: &str) -> impl Iterator<Item = &Annotation> {
        self.of_trace(trace_id)
            .filter(move |annotation| annotation.span_id == span_id)
    }

    /// Those of the session, of every tenant.
    pub fn of_session(&self, session_id: &str) -> impl Iterator<Item = &Annotation> {
        self.at(self.places.sessions.get(session_id))
    }

    /// The scores of an experiment.
    pub fn scores(&self, experiment_id: u64) -> impl Iterator<Item = &Annotation> {
        self.at(self.places.experiments.get(&experiment_id))
    }

    /// The scores of one example in an experiment.
    pub fn scores_of(
        &self,
        experiment_id: u64,
        example_id: &str,
    ) -> impl Iterator<Item = &Annotation> {
        self.scores(experiment_id)
            .filter(move |annotation| annotation.example_id == example_id)
    }

    /// Records one more. Whether its experiment exists is for the caller to ask before.
    ///
    /// # Errors
    /// [`AppendError::Fault`] for one that is not valid; [`AppendError::Log`] as [`LineLog::append`]. It is not recorded then.
    ///
    /// # Durability
    /// When it returns `Ok`, the annotation survives a power loss.
    pub fn append(&mut self, annotation: Annotation) -> Result<(), AppendError> {
        annotation.subject()?;
        self.log.append(&[annotation.to_json()])?;
        self.places.add(self.list.len(), &annotation);
        self.list.push(annotation);
        Ok(())
    }

    /// Drops those that `doomed` holds for and answers how many there were. If there are any, the log is replaced, and unknown
    /// members of its lines are lost; if there are none, it stays as it is.
    ///
    /// # Errors
    /// As [`LineLog::rewrite`]. None is dropped then.
    ///
    /// # Durability
    /// As [`LineLog::rewrite`].
    pub fn drop_where(&mut self, doomed: impl Fn(&Annotation) -> bool) -> Result<usize, LogError> {
        let kept: Vec<_> = self.list.iter().map(|each| !doomed(each)).collect();
        let count = kept.iter().filter(|kept| !**kept).count();
        if count == 0 {
            return Ok(0);
        }
        let survivors = self.list.iter().zip(&kept).filter(|(_, kept)| **kept);
        let lines: Vec<_> = survivors.map(|(each, _)| each.to_json()).collect();
        self.log.rewrite(&lines)?;
        let mut kept = kept.into_iter();
        self.list.retain(|_| kept.next().unwrap_or(true));
        self.places = Places::of(&self.list);
        Ok(count)
    }

    fn at(&self, places: Option<&Vec<usize>>) -> impl Iterator<Item = &Annotation> {
        let places = places.map(Vec::as_slice).unwrap_or_default();
        places.iter().filter_map(|place| self.list.get(*place))
    }
}

impl Places {
    fn of(list: &[Annotation]) -> Self {
        let mut places = Self::default();
        for (place, annotation) in list.iter().enumerate() {
            places.add(place, annotation);
        }
        places
    }

    fn add(&mut self, place: usize, annotation: &Annotation) {
        let note = |index: &mut HashMap<String, Vec<usize>>, id: &str| {
            if !id.is_empty() {
                index.entry(id.to_owned()).or_default().push(place);
            }
        };
        note(&mut self.traces, &annotation.trace_id);
        note(&mut self.sessions, &annotation.session_id);
        if let Some(id) = annotation.experiment_id {
            self.experiments.entry(id).or_default().push(place);
        }
    }
}
