//! Erasures: what was asked to be forgotten, and what was done about it
//! (`docs/formats/traza-store-logs.md`, tombstones).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr as _;
use std::sync::Arc;

use durable::Fs;

use super::file::{Healed, LineFault, LineFormat, LineLog, LogError, Opened};
use super::members::{Members, Writer, shape, string, unsigned};
use crate::json::Value;
use crate::payload::ContentAddress;
use crate::span::{TENANT_LEN_MAX, is_tenant_name};

/// The name of the log in the folder of a store.
pub const FILE_NAME: &str = "tombstones.jsonl";
/// The schema that is written. Schema 1, whose span keys have no tenant, is read.
pub const SCHEMA: u64 = 2;

/// The lines of this log: each append is one.
pub const FORMAT: LineFormat<Line> = LineFormat {
    decode: Line::from_json,
    one_append: |_, after| after.is_empty(),
};

/// What is to be forgotten. An empty tenant is the default one, never all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A trace of one tenant.
    Trace {
        /// Its id.
        trace_id: String,
        /// Its tenant.
        tenant: String,
    },
    /// A span, all versions of it.
    Span {
        /// Its trace.
        trace_id: String,
        /// Its id.
        span_id: String,
        /// Its tenant.
        tenant: String,
    },
    /// Every span of a tenant that belongs to a session.
    Session {
        /// The session.
        session_id: String,
        /// The tenant.
        tenant: String,
    },
    /// The bytes of a payload; spans that refer to it keep a marker.
    Payload {
        /// Its [`ContentAddress`] as text.
        reference: String,
    },
    /// Everything of a tenant.
    Tenant {
        /// The tenant; not the default one.
        tenant: String,
    },
}

/// Why something cannot be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubjectFault {
    /// The trace has no id.
    #[error("trace_id is empty")]
    EmptyTraceId,
    /// The span, or its trace, has no id.
    #[error("trace_id and span_id must both be non-empty")]
    EmptySpanKey,
    /// The session has no id.
    #[error("session_id is empty")]
    EmptySessionId,
    /// The payload is not named by its address.
    #[error("a payload reference is sha256/<64 lowercase hex characters>")]
    Reference,
    /// A tenant is to be erased and none is named.
    #[error("a tenant subject names a non-empty tenant")]
    EmptyTenant,
    /// The tenant is not a name.
    #[error("tenant must be lowercase [a-z0-9][a-z0-9._-], at most {TENANT_LEN_MAX} bytes")]
    Tenant,
}

impl Subject {
    /// Reads a subject: an object whose `kind` says what else it holds. `$tenant` is another name of `tenant`.
    /// Whether it is valid is [`Subject::canonical`]'s to say.
    ///
    /// # Errors
    /// See [`LineFault`].
    pub fn from_value(value: Value) -> Result<Self, LineFault> {
        let mut members = Members::of(value, "subject")?;
        match members.string("kind")?.as_str() {
            "trace" => Ok(Self::Trace {
                trace_id: members.string("trace_id")?,
                tenant: members.tenant()?,
            }),
            "span" => Ok(Self::Span {
                trace_id: members.string("trace_id")?,
                span_id: members.string("span_id")?,
                tenant: members.tenant()?,
            }),
            "session" => Ok(Self::Session {
                session_id: members.string("session_id")?,
                tenant: members.tenant()?,
            }),
            "payload" => Ok(Self::Payload {
                reference: members.string("reference")?,
            }),
            "tenant" => Ok(Self::Tenant {
                tenant: members.tenant()?,
            }),
            other => Err(LineFault::Kind {
                field: "kind",
                found: other.to_owned(),
            }),
        }
    }

    /// The object, as a line of the log holds it.
    pub fn to_json(&self) -> String {
        let mut out = Writer::new();
        match self {
            Self::Trace { trace_id, tenant } => out
                .string("kind", "trace")
                .string("trace_id", trace_id)
                .string_unless_empty("tenant", tenant),
            Self::Span {
                trace_id,
                span_id,
                tenant,
            } => out
                .string("kind", "span")
                .string("trace_id", trace_id)
                .string("span_id", span_id)
                .string_unless_empty("tenant", tenant),
            Self::Session { session_id, tenant } => out
                .string("kind", "session")
                .string("session_id", session_id)
                .string_unless_empty("tenant", tenant),
            Self::Payload { reference } => {
                out.string("kind", "payload").string("reference", reference)
            }
            Self::Tenant { tenant } => out.string("kind", "tenant").string("tenant", tenant),
        };
        out.finish()
    }

    /// The subject in the spelling in which it is stored, if it is valid: payload references are lower-case.
    ///
    /// # Errors
    /// See [`SubjectFault`].
    pub fn canonical(mut self) -> Result<Self, SubjectFault> {
        let tenant = match &mut self {
            Self::Trace { trace_id, tenant } => {
                refuse_if(trace_id.is_empty(), SubjectFault::EmptyTraceId)?;
                tenant
            }
            Self::Span {
                trace_id,
                span_id,
                tenant,
            } => {
                let incomplete = trace_id.is_empty() || span_id.is_empty();
                refuse_if(incomplete, SubjectFault::EmptySpanKey)?;
                tenant
            }
            Self::Session { session_id, tenant } => {
                refuse_if(session_id.is_empty(), SubjectFault::EmptySessionId)?;
                tenant
            }
            Self::Payload { reference } => {
                reference.make_ascii_lowercase();
                let unknown = ContentAddress::from_str(reference).is_err();
                refuse_if(unknown, SubjectFault::Reference)?;
                return Ok(self);
            }
            Self::Tenant { tenant } => {
                refuse_if(tenant.is_empty(), SubjectFault::EmptyTenant)?;
                tenant
            }
        };
        let bad = !tenant.is_empty() && !is_tenant_name(tenant);
        refuse_if(bad, SubjectFault::Tenant)?;
        Ok(self)
    }
}

fn refuse_if(wrong: bool, fault: SubjectFault) -> Result<(), SubjectFault> {
    if wrong { Err(fault) } else { Ok(()) }
}

/// What identifies a span. Ordered by tenant, trace and span.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanKey {
    /// Its tenant; empty for the default one.
    pub tenant: String,
    /// Its trace.
    pub trace_id: String,
    /// Its id.
    pub span_id: String,
}

/// What an erasure covers, as far as it was known when it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// What is to be forgotten.
    pub subject: Subject,
    /// The spans that it covers; none are recorded for a tenant.
    pub span_keys: BTreeSet<SpanKey>,
    /// The payloads that those refer to.
    pub payload_refs: BTreeSet<String>,
    /// The datasets of a tenant.
    pub eval_datasets: Vec<u64>,
    /// The experiments of a tenant.
    pub eval_experiments: Vec<u64>,
}

/// What was done, written when nothing of the subject is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settle {
    /// When, in nanoseconds since the Unix epoch.
    pub settled_unix_ns: u64,
    /// The generation of the store that first lacks the subject.
    pub generation: u64,
    /// How many records of spans were removed, replaced versions included.
    pub spans_removed: u64,
    /// How many records of spans had a payload replaced by a marker.
    pub spans_redacted: u64,
    /// How many annotations were removed.
    pub annotations_removed: u64,
    /// The payloads that were removed.
    pub payloads_removed: Vec<String>,
    /// The payloads that were kept.
    pub payloads_retained: Vec<Retained>,
    /// How many records of datasets and experiments were removed.
    pub eval_records_removed: u64,
}

/// A payload that an erasure kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retained {
    /// Its address.
    pub reference: String,
    /// Why, for people.
    pub reason: String,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// An erasure was asked for.
    Erase {
        /// The erasure.
        id: u64,
        /// When, in nanoseconds since the Unix epoch.
        requested_unix_ns: u64,
        /// What it covers.
        scope: Box<Scope>,
    },
    /// It covers more payloads.
    Note {
        /// The erasure.
        id: u64,
        /// The payloads.
        payload_refs: BTreeSet<String>,
    },
    /// It is done.
    Settle {
        /// The erasure.
        id: u64,
        /// What was done.
        settle: Settle,
    },
}

impl Line {
    /// Reads a line. The member `op` says what it is; unknown members are ignored.
    ///
    /// # Errors
    /// See [`LineFault`].
    pub fn from_json(line: &[u8]) -> Result<Self, LineFault> {
        let mut members = Members::parse(line)?;
        let op = members.string("op")?;
        members.schema(SCHEMA)?;
        let id = members.u64("id")?;
        match op.as_str() {
            "erase" => Ok(Self::Erase {
                id,
                requested_unix_ns: members.u64("requested_unix_ns")?,
                scope: Box::new(Scope {
                    subject: Subject::from_value(members.value("subject")?)?,
                    span_keys: set(members.array("span_keys", span_key)?),
                    payload_refs: payload_refs(&mut members)?,
                    eval_datasets: ids(&mut members, "eval_datasets")?,
                    eval_experiments: ids(&mut members, "eval_experiments")?,
                }),
            }),
            "note" => Ok(Self::Note {
                id,
                payload_refs: payload_refs(&mut members)?,
            }),
            "settle" => Ok(Self::Settle {
                id,
                settle: Settle {
                    settled_unix_ns: members.u64("settled_unix_ns")?,
                    generation: members.u64("generation")?,
                    spans_removed: members.u64("spans_removed")?,
                    spans_redacted: members.u64("spans_redacted")?,
                    annotations_removed: members.u64("annotations_removed")?,
                    payloads_removed: members.array("payloads_removed", |value| {
                        string(value, "payloads_removed")
                    })?,
                    payloads_retained: members.array("payloads_retained", retained)?,
                    eval_records_removed: members.u64_or_zero("eval_records_removed")?,
                },
            }),
            _ => Err(LineFault::Kind {
                field: "op",
                found: op,
            }),
        }
    }

    /// The line, without its newline.
    pub fn to_json(&self) -> String {
        let mut out = Writer::new();
        match self {
            Self::Erase {
                id,
                requested_unix_ns,
                scope,
            } => {
                out.string("op", "erase")
                    .u64("schema", SCHEMA)
                    .u64("id", *id)
                    .u64("requested_unix_ns", *requested_unix_ns)
                    .json("subject", &scope.subject.to_json())
                    .value(
                        "span_keys",
                        &array(scope.span_keys.iter().map(span_key_value)),
                    )
                    .value("payload_refs", &strings(&scope.payload_refs));
                for (name, ids) in [
                    ("eval_datasets", &scope.eval_datasets),
                    ("eval_experiments", &scope.eval_experiments),
                ] {
                    if !ids.is_empty() {
                        out.value(name, &array(ids.iter().copied().map(Value::from)));
                    }
                }
            }
            Self::Note { id, payload_refs } => {
                out.string("op", "note")
                    .u64("schema", SCHEMA)
                    .u64("id", *id)
                    .value("payload_refs", &strings(payload_refs));
            }
            Self::Settle { id, settle } => {
                out.string("op", "settle")
                    .u64("schema", SCHEMA)
                    .u64("id", *id)
                    .u64("settled_unix_ns", settle.settled_unix_ns)
                    .u64("generation", settle.generation)
                    .u64("spans_removed", settle.spans_removed)
                    .u64("spans_redacted", settle.spans_redacted)
                    .u64("annotations_removed", settle.annotations_removed)
                    .value("payloads_removed", &strings(&settle.payloads_removed))
                    .json(
                        "payloads_retained",
                        &retained_json(&settle.payloads_retained),
                    )
                    .u64("eval_records_removed", settle.eval_records_removed);
            }
        }
        out.finish()
    }
}

fn set<T: Ord>(items: Vec<T>) -> BTreeSet<T> {
    items.into_iter().collect()
}

fn payload_refs(members: &mut Members) -> Result<BTreeSet<String>, LineFault> {
    let read = |value| string(value, "payload_refs");
    Ok(set(members.array("payload_refs", read)?))
}

fn ids(members: &mut Members, field: &'static str) -> Result<Vec<u64>, LineFault> {
    members.array_or_empty(field, |value| unsigned(&value, field))
}

/// Tenant, trace and span; the two of schema 1 are trace and span of the default tenant.
fn span_key(value: Value) -> Result<SpanKey, LineFault> {
    let malformed = || shape("span_keys", "an array of [tenant, trace, span]");
    let Value::Array(parts) = value else {
        return Err(malformed());
    };
    let parts: Vec<_> = parts
        .into_iter()
        .map(|part| string(part, "span_keys"))
        .collect::<Result<_, _>>()?;
    let (tenant, trace_id, span_id) = match <[String; 3]>::try_from(parts) {
        Ok([tenant, trace_id, span_id]) => (tenant, trace_id, span_id),
        Err(parts) => match <[String; 2]>::try_from(parts) {
            Ok([trace_id, span_id]) => (String::new(), trace_id, span_id),
            Err(_) => return Err(malformed()),
        },
    };
    Ok(SpanKey {
        tenant,
        trace_id,
        span_id,
    })
}

fn span_key_value(key: &SpanKey) -> Value {
    strings([&key.tenant, &key.trace_id, &key.span_id])
}

fn retained(value: Value) -> Result<Retained, LineFault> {
    let mut members = Members::of(value, "payloads_retained")?;
    Ok(Retained {
        reference: members.string("reference")?,
        reason: members.string("reason")?,
    })
}

/// The members in the order of the format, which is not the canonical one.
fn retained_json(retained: &[Retained]) -> String {
    let object = |each: &Retained| {
        let mut out = Writer::new();
        out.string("reference", &each.reference)
            .string("reason", &each.reason);
        out.finish()
    };
    let objects: Vec<_> = retained.iter().map(object).collect();
    format!("[{}]", objects.join(","))
}

fn array(items: impl Iterator<Item = Value>) -> Value {
    Value::Array(items.collect())
}

fn strings<'a>(texts: impl IntoIterator<Item = &'a String>) -> Value {
    array(texts.into_iter().map(|text| Value::from(text.as_str())))
}

/// An erasure and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// Its number, from 1.
    pub id: u64,
    /// When it was asked for, in nanoseconds since the Unix epoch.
    pub requested_unix_ns: u64,
    /// What it covers, with what was noted since.
    pub scope: Scope,
    /// What was done; none while it is pending.
    pub settle: Option<Settle>,
}

/// Why an erasure was not recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EraseError {
    /// What is to be forgotten is not valid.
    #[error(transparent)]
    Subject(#[from] SubjectFault),
    /// There is no such erasure that is pending.
    #[error("no erasure {id} is pending")]
    NotPending {
        /// Its number.
        id: u64,
    },
    /// There are no more numbers.
    #[error("the tombstone log has used up its numbers")]
    NumbersUsedUp,
    /// The log cannot be written.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// All erasures of a store. The log is only ever appended to.
#[derive(Debug)]
pub struct Tombstones {
    log: LineLog,
    erasures: BTreeMap<u64, Erasure>,
}

impl Tombstones {
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

    fn of(opened: Opened<Line>) -> Self {
        Self {
            log: opened.log,
            erasures: replay(opened.records),
        }
    }

    /// The file, for its place and its length.
    pub fn log(&self) -> &LineLog {
        &self.log
    }

    /// All erasures, by number.
    pub fn all(&self) -> impl Iterator<Item = &Erasure> {
        self.erasures.values()
    }

    /// The erasure of that number.
    pub fn erasure(&self, id: u64) -> Option<&Erasure> {
        self.erasures.get(&id)
    }

    /// Those that are not settled, by number.
    pub fn pending(&self) -> impl Iterator<Item = &Erasure> {
        self.all().filter(|erasure| erasure.settle.is_none())
    }

    /// Records that an erasure was asked for and answers its number.
    ///
    /// # Errors
    /// [`EraseError::Subject`] for a subject that is not valid, [`EraseError::NumbersUsedUp`], and [`EraseError::Log`]. Nothing
    /// is recorded then.
    ///
    /// # Durability
    /// When it returns `Ok`, the erasure survives a power loss: it will be carried out.
    pub fn erase(&mut self, mut scope: Scope, requested_unix_ns: u64) -> Result<u64, EraseError> {
        scope.subject = scope.subject.canonical()?;
        let newest = self.erasures.last_key_value().map_or(0, |(id, _)| *id);
        let id = newest.checked_add(1).ok_or(EraseError::NumbersUsedUp)?;
        self.write(Line::Erase {
            id,
            requested_unix_ns,
            scope: Box::new(scope),
        })?;
        Ok(id)
    }

    /// Records that a pending erasure covers these payloads as well. Nothing is written if it does already.
    ///
    /// # Errors
    /// [`EraseError::NotPending`] and [`EraseError::Log`]. Nothing is recorded then.
    ///
    /// # Durability
    /// When it returns `Ok`, that survives a power loss.
    pub fn note(&mut self, id: u64, mut payload_refs: BTreeSet<String>) -> Result<(), EraseError> {
        let known = &self.pending_erasure(id)?.scope.payload_refs;
        payload_refs.retain(|reference| !known.contains(reference));
        if payload_refs.is_empty() {
            return Ok(());
        }
        Ok(self.write(Line::Note { id, payload_refs })?)
    }

    /// Records that a pending erasure is done. Only right when the generation that `settle` names is durable.
    ///
    /// # Errors
    /// [`EraseError::NotPending`] and [`EraseError::Log`]. The erasure stays pending then.
    ///
    /// # Durability
    /// When it returns `Ok`, that survives a power loss.
    pub fn settle(&mut self, id: u64, settle: Settle) -> Result<(), EraseError> {
        self.pending_erasure(id)?;
        Ok(self.write(Line::Settle { id, settle })?)
    }

    fn pending_erasure(&self, id: u64) -> Result<&Erasure, EraseError> {
        let found = self.erasures.get(&id);
        found
            .filter(|erasure| erasure.settle.is_none())
            .ok_or(EraseError::NotPending { id })
    }

    fn write(&mut self, line: Line) -> Result<(), LogError> {
        self.log.append(&[line.to_json()])?;
        apply(&mut self.erasures, line);
        Ok(())
    }
}

/// What the lines of a log amount to: for those that were scanned and not opened.
pub fn replay(lines: Vec<Line>) -> BTreeMap<u64, Erasure> {
    let mut erasures = BTreeMap::new();
    for line in lines {
        apply(&mut erasures, line);
    }
    erasures
}

/// Lines about an erasure that was never asked for say nothing.
fn apply(erasures: &mut BTreeMap<u64, Erasure>, line: Line) {
    match line {
        Line::Erase {
            id,
            requested_unix_ns,
            scope,
        } => {
            let erasure = Erasure {
                id,
                requested_unix_ns,
                scope: *scope,
                settle: None,
            };
            erasures.insert(id, erasure);
        }
        Line::Note { id, payload_refs } => {
            if let Some(erasure) = erasures.get_mut(&id) {
                erasure.scope.payload_refs.extend(payload_refs);
            }
        }
        Line::Settle { id, settle } => {
            if let Some(erasure) = erasures.get_mut(&id) {
                erasure.settle = Some(settle);
            }
        }
    }
}
