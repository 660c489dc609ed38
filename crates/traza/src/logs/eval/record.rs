//! The seven kinds of lines, and the digests that name examples and versions.

use std::collections::BTreeSet;

use durable::digest::{hex, sha256};

use crate::json::{Object, Value};
use crate::logs::file::{LineFault, LineFormat};
use crate::logs::members::{Members, Writer, shape, string};
use crate::payload::{ERASED_MEMBER, live_reference};

/// The schema of every line.
pub const SCHEMA: u64 = 1;

/// The lines of this log: an append is one, or the examples of a version and the version.
pub const FORMAT: LineFormat<Record> = LineFormat {
    decode: Record::from_json,
    one_append,
};

/// A named collection of examples, in versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dataset {
    /// Its number, from 1, unique in the store.
    pub dataset_id: u64,
    /// Whose it is; empty for the default tenant.
    pub tenant: String,
    /// What it is called.
    pub name: String,
    /// Nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
}

/// What an example says. Named by [`ExampleBody::digest`].
#[derive(Clone, Debug, PartialEq)]
pub struct ExampleBody {
    /// What goes in: any JSON.
    pub input: Value,
    /// What is to come out; JSON `null` is the same as nothing.
    pub expected: Option<Value>,
    /// Which part of the dataset it belongs to, such as `test`; may be empty.
    pub split: String,
    /// Where it came from.
    pub provenance: Option<Provenance>,
}

/// The span, or the trace, that an example was taken from. Each member may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// Its tenant.
    pub tenant: String,
    /// The trace.
    pub trace_id: String,
    /// The span.
    pub span_id: String,
}

/// A version of a dataset: a fixed list of examples. Named by [`Version::id_of`].
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Whose it is: the tenant of the dataset.
    pub tenant: String,
    /// The dataset.
    pub dataset_id: u64,
    /// Its name.
    pub version_id: String,
    /// The version that it was made from.
    pub parent: Option<String>,
    /// How it was made: any JSON but `null`.
    pub provenance: Option<Value>,
    /// The id of each example and the digest of its body, sorted by id.
    pub examples: Vec<(String, String)>,
    /// Nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
}

/// Something that went through the examples of a version.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Its number, from 1, unique in the store.
    pub experiment_id: u64,
    /// Whose it is: the tenant of the dataset.
    pub tenant: String,
    /// The dataset.
    pub dataset_id: u64,
    /// The version of it.
    pub dataset_version: String,
    /// What it is called; may be empty.
    pub name: String,
    /// How it was set up: any JSON but `null`.
    pub config: Option<Value>,
    /// Nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
}

/// One example as an experiment went through it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Whose it is: the tenant of the experiment.
    pub tenant: String,
    /// The experiment.
    pub experiment_id: u64,
    /// The example.
    pub example_id: String,
    /// The trace of it.
    pub trace_id: String,
    /// The span of it, or empty.
    pub span_id: String,
    /// Nanoseconds since the Unix epoch.
    pub created_unix_ns: u64,
}

/// Says that a version is not to be used any more. Its examples stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionTombstone {
    /// Whose it is: the tenant of the dataset.
    pub tenant: String,
    /// The dataset.
    pub dataset_id: u64,
    /// The version.
    pub version_id: String,
    /// Nanoseconds since the Unix epoch.
    pub requested_unix_ns: u64,
    /// Why; may be empty.
    pub reason: String,
}

/// The highest numbers that were ever given out, also to what has been erased since. Despite the names of the members
/// (`dataset_next`, `experiment_next`) these are not the next ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of datasets.
    pub dataset_highest: u64,
    /// Of experiments.
    pub experiment_highest: u64,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// A dataset.
    Dataset(Dataset),
    /// The body of an example.
    Example {
        /// Its name, as the line has it.
        digest: String,
        /// The body.
        body: ExampleBody,
    },
    /// A version of a dataset.
    Version(Version),
    /// An experiment.
    Experiment(Experiment),
    /// A run of an experiment.
    Run(Run),
    /// A version that is not to be used any more.
    VersionTombstone(VersionTombstone),
    /// Numbers that are taken.
    Counters(Counters),
}

impl ExampleBody {
    /// The canonical JSON: members sorted, absent ones left out.
    pub fn to_json(&self) -> String {
        let mut members = Object::from([("input".to_owned(), self.input.clone())]);
        if let Some(expected) = &self.expected {
            members.insert("expected".to_owned(), expected.clone());
        }
        if !self.split.is_empty() {
            members.insert("split".to_owned(), Value::from(self.split.as_str()));
        }
        if let Some(provenance) = &self.provenance {
            let named = [
                ("tenant", &provenance.tenant),
                ("trace_id", &provenance.trace_id),
                ("span_id", &provenance.span_id),
            ];
            let set = named.into_iter().filter(|(_, text)| !text.is_empty());
            let object = set.map(|(name, text)| (name.to_owned(), Value::from(text.as_str())));
            members.insert("provenance".to_owned(), Value::Object(object.collect()));
        }
        Value::Object(members).to_string()
    }

    /// The name of the body: the SHA-256 of its canonical JSON, in 64 lower-case digits.
    pub fn digest(&self) -> String {
        hex(&sha256(self.to_json().as_bytes()))
    }

    /// Adds every payload that the input and the expectation refer to, however deep: the texts of their `$payload` members.
    pub fn payload_references<'a>(&'a self, found: &mut BTreeSet<&'a str>) {
        references(&self.input, found);
        if let Some(expected) = &self.expected {
            references(expected, found);
        }
    }

    pub(super) fn from_value(value: Value) -> Result<Self, LineFault> {
        let mut members = Members::of(value, "body")?;
        Ok(Self {
            input: members.value("input")?,
            expected: members.optional("expected"),
            split: members.string_or_empty("split")?,
            provenance: members
                .optional("provenance")
                .map(Provenance::from_value)
                .transpose()?,
        })
    }

    /// The body as the line of its example has it: in the order of the format.
    fn line_json(&self) -> String {
        let mut out = Writer::new();
        out.value("input", &self.input)
            .optional("expected", self.expected.as_ref())
            .string_unless_empty("split", &self.split);
        if let Some(provenance) = &self.provenance {
            let mut inner = Writer::new();
            inner
                .string_unless_empty("tenant", &provenance.tenant)
                .string_unless_empty("trace_id", &provenance.trace_id)
                .string_unless_empty("span_id", &provenance.span_id);
            out.json("provenance", &inner.finish());
        }
        out.finish()
    }
}

/// What is marked as erased refers to nothing, nor does anything in it.
fn references<'a>(value: &'a Value, found: &mut BTreeSet<&'a str>) {
    match value {
        Value::Array(items) => {
            for item in items {
                references(item, found);
            }
        }
        Value::Object(members) => {
            if members.get(ERASED_MEMBER) == Some(&Value::Bool(true)) {
                return;
            }
            found.extend(live_reference(value));
            for member in members.values() {
                references(member, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

impl Provenance {
    fn from_value(value: Value) -> Result<Self, LineFault> {
        let mut members = Members::of(value, "provenance")?;
        Ok(Self {
            tenant: members.tenant()?,
            trace_id: members.string_or_empty("trace_id")?,
            span_id: members.string_or_empty("span_id")?,
        })
    }
}

impl Version {
    /// The name of a version: the SHA-256 of the canonical JSON of dataset, parent (`null` without one) and examples, which
    /// are sorted by id. In 64 lower-case digits.
    pub fn id_of(dataset_id: u64, parent: Option<&str>, examples: &[(String, String)]) -> String {
        let content = Value::Object(Object::from([
            ("dataset_id".to_owned(), Value::from(dataset_id)),
            ("parent".to_owned(), parent.map_or(Value::Null, Value::from)),
            ("examples".to_owned(), pairs(examples)),
        ]));
        hex(&sha256(content.to_string().as_bytes()))
    }

    /// The digest of the example of that id.
    pub fn digest_of(&self, example_id: &str) -> Option<&str> {
        let found = self.examples.iter().find(|(id, _)| id == example_id);
        found.map(|(_, digest)| digest.as_str())
    }
}

fn pairs(examples: &[(String, String)]) -> Value {
    let pair = |(id, digest): &(String, String)| {
        Value::Array(vec![Value::from(id.as_str()), Value::from(digest.as_str())])
    };
    Value::Array(examples.iter().map(pair).collect())
}

fn pair(value: Value) -> Result<(String, String), LineFault> {
    let malformed = || shape("examples", "an array of [example_id, digest]");
    let Value::Array(parts) = value else {
        return Err(malformed());
    };
    let [id, digest] = <[Value; 2]>::try_from(parts).map_err(|_| malformed())?;
    Ok((string(id, "examples")?, string(digest, "examples")?))
}

impl Record {
    /// Reads a line. The member `record` says what it is; unknown members are ignored. Whether a digest is that of its
    /// content is not asked.
    ///
    /// # Errors
    /// See [`LineFault`].
    pub fn from_json(line: &[u8]) -> Result<Self, LineFault> {
        let mut members = Members::parse(line)?;
        let record = members.string("record")?;
        members.schema(SCHEMA)?;
        match record.as_str() {
            "dataset" => Ok(Self::Dataset(Dataset {
                dataset_id: members.u64("dataset_id")?,
                tenant: members.tenant()?,
                name: members.string("name")?,
                created_unix_ns: members.u64("created_unix_ns")?,
            })),
            "example" => Ok(Self::Example {
                digest: members.string("digest")?,
                body: ExampleBody::from_value(members.value("body")?)?,
            }),
            "dataset_version" => Ok(Self::Version(Version {
                tenant: members.tenant()?,
                dataset_id: members.u64("dataset_id")?,
                version_id: members.string("version_id")?,
                parent: members.optional_string("parent")?,
                provenance: members.optional("provenance"),
                examples: members.array("examples", pair)?,
                created_unix_ns: members.u64("created_unix_ns")?,
            })),
            "experiment" => Ok(Self::Experiment(Experiment {
                experiment_id: members.u64("experiment_id")?,
                tenant: members.tenant()?,
                dataset_id: members.u64("dataset_id")?,
                dataset_version: members.string("dataset_version")?,
                name: members.string_or_empty("name")?,
                config: members.optional("config"),
                created_unix_ns: members.u64("created_unix_ns")?,
            })),
            "run" => Ok(Self::Run(Run {
                tenant: members.tenant()?,
                experiment_id: members.u64("experiment_id")?,
                example_id: members.string("example_id")?,
                trace_id: members.string("trace_id")?,
                span_id: members.string_or_empty("span_id")?,
                created_unix_ns: members.u64("created_unix_ns")?,
            })),
            "dataset_version_tombstone" => Ok(Self::VersionTombstone(VersionTombstone {
                tenant: members.tenant()?,
                dataset_id: members.u64("dataset_id")?,
                version_id: members.string("version_id")?,
                requested_unix_ns: members.u64("requested_unix_ns")?,
                reason: members.string_or_empty("reason")?,
            })),
            "counters" => Ok(Self::Counters(Counters {
                dataset_highest: members.u64("dataset_next")?,
                experiment_highest: members.u64("experiment_next")?,
            })),
            _ => Err(LineFault::Kind {
                field: "record",
                found: record,
            }),
        }
    }

    fn kind(&self) -> &'static str {
        match self {
            Self::Dataset(_) => "dataset",
            Self::Example { .. } => "example",
            Self::Version(_) => "dataset_version",
            Self::Experiment(_) => "experiment",
            Self::Run(_) => "run",
            Self::VersionTombstone(_) => "dataset_version_tombstone",
            Self::Counters(_) => "counters",
        }
    }

    /// The line, without its newline.
    pub fn to_json(&self) -> String {
        let mut out = Writer::new();
        out.string("record", self.kind()).u64("schema", SCHEMA);
        match self {
            Self::Dataset(dataset) => out
                .u64("dataset_id", dataset.dataset_id)
                .string_unless_empty("tenant", &dataset.tenant)
                .string("name", &dataset.name)
                .u64("created_unix_ns", dataset.created_unix_ns),
            Self::Example { digest, body } => {
                out.string("digest", digest).json("body", &body.line_json())
            }
            Self::Version(version) => out
                .string_unless_empty("tenant", &version.tenant)
                .u64("dataset_id", version.dataset_id)
                .string("version_id", &version.version_id)
                .optional(
                    "parent",
                    version.parent.as_deref().map(Value::from).as_ref(),
                )
                .optional("provenance", version.provenance.as_ref())
                .value("examples", &pairs(&version.examples))
                .u64("created_unix_ns", version.created_unix_ns),
            Self::Experiment(experiment) => out
                .u64("experiment_id", experiment.experiment_id)
                .string_unless_empty("tenant", &experiment.tenant)
                .u64("dataset_id", experiment.dataset_id)
                .string("dataset_version", &experiment.dataset_version)
                .string_unless_empty("name", &experiment.name)
                .optional("config", experiment.config.as_ref())
                .u64("created_unix_ns", experiment.created_unix_ns),
            Self::Run(run) => out
                .string_unless_empty("tenant", &run.tenant)
                .u64("experiment_id", run.experiment_id)
                .string("example_id", &run.example_id)
                .string("trace_id", &run.trace_id)
                .string_unless_empty("span_id", &run.span_id)
                .u64("created_unix_ns", run.created_unix_ns),
            Self::VersionTombstone(tombstone) => out
                .string_unless_empty("tenant", &tombstone.tenant)
                .u64("dataset_id", tombstone.dataset_id)
                .string("version_id", &tombstone.version_id)
                .u64("requested_unix_ns", tombstone.requested_unix_ns)
                .string_unless_empty("reason", &tombstone.reason),
            Self::Counters(counters) => out
                .u64("dataset_next", counters.dataset_highest)
                .u64("experiment_next", counters.experiment_highest),
        };
        out.finish()
    }
}

/// Behind the lost examples of a version stand more of them, and at most the version, which then lists one that is not there.
fn one_append(before: &[Record], after: &[Option<Record>]) -> bool {
    let Some((last, leading)) = after.split_last() else {
        return true;
    };
    let is_example = |line: &Option<Record>| matches!(line, None | Some(Record::Example { .. }));
    if !leading.iter().all(is_example) {
        return false;
    }
    match last {
        Some(Record::Version(version)) => {
            let known: BTreeSet<_> = before
                .iter()
                .chain(leading.iter().flatten())
                .filter_map(|record| match record {
                    Record::Example { digest, .. } => Some(digest),
                    _ => None,
                })
                .collect();
            version
                .examples
                .iter()
                .any(|(_, digest)| !known.contains(digest))
        }
        other => is_example(other),
    }
}
