//! `daybook trace dataset`: collections of examples, in versions.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use durable::{RealFs, read_all};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use traza::json;
use traza::logs::eval::{EvalState, NewExample, NewVersion, record};

use super::place::{Place, PlaceArgs};
use super::server::{Server, Target};
use super::{folder, json_value, no_such, now_ns, stored};
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::{BAD, FAINT, STRONG};
use crate::text::{count, shorten, wall_time};

/// The examples of a version are read whole.
const EXAMPLES_LEN_MAX: u64 = 256 << 20;

/// Collections of examples that experiments run over.
///
/// A dataset grows by versions: fixed lists of examples, each named by a digest of what is in it. A version is never changed;
/// one that is not to be used any more gets a tombstone.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace dataset create traces/ hard-cases
  daybook trace dataset version traces/ 1 examples.jsonl
  daybook trace dataset list traces/
  daybook trace dataset list --url http://127.0.0.1:4318
  daybook trace dataset show traces/ 1 035bcd7e420d…")]
pub(super) struct DatasetArgs {
    #[command(subcommand)]
    verb: DatasetVerb,
}

#[derive(Debug, Subcommand)]
enum DatasetVerb {
    Create(CreateArgs),
    List(ListArgs),
    Show(ShowArgs),
    Version(VersionArgs),
    Tombstone(TombstoneArgs),
}

/// Creates a dataset without versions, and prints its number.
#[derive(Args, Debug)]
struct CreateArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// What it is called.
    name: String,
    /// Whose it is.
    #[arg(
        long,
        value_name = "TENANT",
        default_value = "",
        hide_default_value = true
    )]
    tenant: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The datasets of a store.
#[derive(Args, Debug)]
struct ListArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Of this tenant; an empty text for those without one.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// A dataset with its versions, or a version with its examples.
#[derive(Args, Debug)]
struct ShowArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The number of the dataset.
    dataset: u64,
    /// The version; the first digits of its name do, when no other version has them.
    version: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Creates a version of a dataset, unless there is the same one already, and prints its name.
///
/// An example is a JSON object: `example_id` and `input` (any JSON), and, if wanted, `expected` (any JSON), `split` (a
/// text) and `provenance` (`tenant`, `trace_id` and `span_id` of what it was taken from).
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace dataset version traces/ 1 examples.jsonl
  echo '{\"example_id\":\"a\",\"input\":{\"q\":\"1+1\"},\"expected\":2}' | daybook trace dataset version traces/ 1 -")]
struct VersionArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The number of the dataset.
    dataset: u64,
    /// The examples: JSON lines, or a JSON array; - for standard input.
    examples: PathBuf,
    /// The version that it was made from.
    #[arg(long, value_name = "VERSION")]
    parent: Option<String>,
    /// How it was made: any JSON.
    #[arg(long, value_name = "JSON", value_parser = json_value)]
    provenance: Option<json::Value>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Says that a version is not to be used any more. What there is of it stays.
#[derive(Args, Debug)]
struct TombstoneArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The number of the dataset.
    dataset: u64,
    /// The version.
    version: String,
    /// Why.
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// A dataset, of a store or of a server.
#[derive(Deserialize, Serialize)]
pub(super) struct Dataset {
    dataset_id: u64,
    #[serde(default)]
    tenant: String,
    name: String,
    created_unix_ns: u64,
    versions: Vec<Version>,
}

/// A version without what is in it.
#[derive(Deserialize, Serialize)]
pub(super) struct Version {
    pub(super) version_id: String,
    parent: Option<String>,
    examples: u64,
    created_unix_ns: u64,
    tombstoned: bool,
    /// Why; a server does not tell.
    #[serde(skip)]
    reason: String,
}

/// A version with its examples.
#[derive(Serialize)]
struct Whole {
    dataset_id: u64,
    version_id: String,
    tenant: String,
    parent: Option<String>,
    created_unix_ns: u64,
    provenance: Option<Value>,
    examples: Vec<Example>,
    tombstone: Option<Tombstone>,
}

#[derive(Deserialize, Serialize)]
struct Example {
    example_id: String,
    digest: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<Value>,
}

#[derive(Serialize)]
struct Tombstone {
    requested_unix_ns: u64,
    reason: String,
}

#[derive(Deserialize, Serialize)]
struct Datasets {
    datasets: Vec<Dataset>,
}

/// A version as a server spells it, which hands out none that has a tombstone.
#[derive(Deserialize)]
struct Told {
    dataset_id: u64,
    version_id: String,
    #[serde(default)]
    tenant: String,
    parent: Option<String>,
    created_unix_ns: u64,
    provenance: Option<Value>,
    examples: Vec<(String, String)>,
    bodies: Vec<Example>,
}

#[derive(Deserialize, Serialize)]
struct Created {
    dataset_id: u64,
}

#[derive(Deserialize, Serialize)]
struct CreatedVersion {
    version_id: String,
    examples: u64,
    created: bool,
}

#[derive(Deserialize, Serialize)]
struct Tombstoned {
    version_id: String,
    tombstoned: bool,
    already: bool,
}

pub(super) fn run(args: &DatasetArgs) -> Outcome {
    match &args.verb {
        DatasetVerb::Create(args) => create(args),
        DatasetVerb::List(args) => list(args),
        DatasetVerb::Show(args) => show(args),
        DatasetVerb::Version(args) => version(args),
        DatasetVerb::Tombstone(args) => tombstone(args),
    }
}

fn create(args: &CreateArgs) -> Outcome {
    let created = match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_change(dir)?;
            let dataset_id = store.create_dataset(&args.tenant, &args.name, now_ns())?;
            Created { dataset_id }
        }
        Place::Server(server) => {
            let body = json!({ "name": args.name, "tenant": args.tenant });
            server.post(&Target::new("/v1/datasets"), &body.to_string())?
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&created)?;
    } else {
        out.line(format_args!("dataset {}", created.dataset_id))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn list(args: &ListArgs) -> Outcome {
    let tenant = args.tenant.as_deref();
    let all = match args.place.place()? {
        Place::Folder(dir) => folder::open_to_read(dir)?.read_evals(|state| {
            let datasets = state
                .datasets()
                .filter(|dataset| tenant.is_none_or(|tenant| tenant == dataset.tenant))
                .map(|dataset| Dataset::of(state, dataset));
            Datasets {
                datasets: datasets.collect(),
            }
        }),
        Place::Server(server) => {
            server.read(&Target::new("/v1/datasets").with_some("tenant", tenant))?
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&all)?;
        return Ok(DONE);
    }
    for dataset in &all.datasets {
        let latest = dataset.versions.last().map(|latest| {
            let examples = count(latest.examples, "example");
            format!(", {examples} in the latest")
        });
        out.line(format_args!(
            "{}  {}{}",
            headline(dataset),
            count(dataset.versions.len() as u64, "version"),
            latest.unwrap_or_default()
        ))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn show(args: &ShowArgs) -> Outcome {
    let absent = || no_such("dataset", args.dataset, "dataset", &args.place.name());
    let mut out = Out::for_json(args.json);
    let (dataset, whole) = match args.place.place()? {
        Place::Folder(dir) => folder::open_to_read(dir)?.read_evals(|state| {
            let dataset = Dataset::in_state(state, args.dataset).ok_or_else(absent)?;
            let Some(wanted) = &args.version else {
                return Ok((dataset, None));
            };
            let name = &dataset.version(wanted)?.version_id;
            let whole = state.version(args.dataset, name);
            let whole = whole.map(|version| Whole::of(state, version));
            Ok::<_, Failure>((dataset, whole))
        })?,
        Place::Server(server) => {
            let dataset = Dataset::told_by(&server, args.dataset)?.ok_or_else(absent)?;
            let whole = match &args.version {
                None => None,
                Some(wanted) => {
                    let name = &dataset.version(wanted)?.version_id;
                    let told: Told = server.read(&target_of(args.dataset, name))?;
                    Some(told.into())
                }
            };
            (dataset, whole)
        }
    };
    match whole {
        Some(whole) if args.json => out.json(&whole)?,
        Some(whole) => whole.print(&mut out)?,
        None if args.json => out.json(&dataset)?,
        None => {
            out.line(headline(&dataset))?;
            for version in &dataset.versions {
                out.line(format_args!("  {}", version.line()))?;
            }
        }
    }
    out.flush()?;
    Ok(DONE)
}

/// Where a server has a version.
fn target_of(dataset: u64, version: &str) -> Target {
    Target::new("/v1/datasets")
        .part(dataset)
        .part("versions")
        .part(version)
}

impl Dataset {
    fn of(state: &EvalState, dataset: &record::Dataset) -> Self {
        let versions = state.versions(dataset.dataset_id);
        Self {
            dataset_id: dataset.dataset_id,
            tenant: dataset.tenant.clone(),
            name: dataset.name.clone(),
            created_unix_ns: dataset.created_unix_ns,
            versions: versions
                .iter()
                .map(|version| Version::of(state, version))
                .collect(),
        }
    }

    pub(super) fn in_state(state: &EvalState, id: u64) -> Option<Self> {
        state.dataset(id).map(|dataset| Self::of(state, dataset))
    }

    pub(super) fn told_by(server: &Server, id: u64) -> Result<Option<Self>, Failure> {
        server.find_and_read(&Target::new("/v1/datasets").part(id))
    }

    /// The version of that name, or the only one whose name begins like that.
    pub(super) fn version(&self, wanted: &str) -> Result<&Version, Failure> {
        let id = self.dataset_id;
        let mut found = self
            .versions
            .iter()
            .filter(|version| version.version_id.starts_with(wanted));
        match (found.next(), found.next()) {
            (Some(version), None) if !wanted.is_empty() => Ok(version),
            (Some(_), _) => Err(Failure::new(format!(
                "more than one version of dataset {id} begins with {wanted}"
            ))),
            (None, _) => Err(Failure::new(format!(
                "{wanted} is not a version of dataset {id}"
            ))),
        }
    }
}

impl Version {
    fn of(state: &EvalState, version: &record::Version) -> Self {
        let tombstone = state.tombstone(version.dataset_id, &version.version_id);
        Self {
            version_id: version.version_id.clone(),
            parent: version.parent.clone(),
            examples: version.examples.len() as u64,
            created_unix_ns: version.created_unix_ns,
            tombstoned: tombstone.is_some(),
            reason: tombstone.map_or(String::new(), |tombstone| tombstone.reason.clone()),
        }
    }

    fn line(&self) -> String {
        let tombstone = self.tombstoned.then_some(self.reason.as_str());
        version_line(
            &self.version_id,
            self.created_unix_ns,
            self.examples,
            tombstone,
        )
    }
}

impl Whole {
    fn of(state: &EvalState, version: &record::Version) -> Self {
        let examples = version.examples.iter().map(|(id, digest)| Example {
            example_id: id.clone(),
            digest: digest.clone(),
            body: state.example(digest).map(|body| stored(&body.to_json())),
        });
        let tombstone = state.tombstone(version.dataset_id, &version.version_id);
        let provenance = version.provenance.as_ref();
        Self {
            dataset_id: version.dataset_id,
            version_id: version.version_id.clone(),
            tenant: version.tenant.clone(),
            parent: version.parent.clone(),
            created_unix_ns: version.created_unix_ns,
            provenance: provenance.map(|provenance| stored(&provenance.to_string())),
            examples: examples.collect(),
            tombstone: tombstone.map(|tombstone| Tombstone {
                requested_unix_ns: tombstone.requested_unix_ns,
                reason: tombstone.reason.clone(),
            }),
        }
    }

    fn print(&self, out: &mut Out) -> io::Result<()> {
        let tombstone = self.tombstone.as_ref();
        out.line(version_line(
            &self.version_id,
            self.created_unix_ns,
            self.examples.len() as u64,
            tombstone.map(|tombstone| tombstone.reason.as_str()),
        ))?;
        for Example {
            example_id, body, ..
        } in &self.examples
        {
            let id = shorten(example_id, 40);
            let Some(body) = body else {
                out.line(format_args!("  {id}  {BAD}no body{BAD:#}"))?;
                continue;
            };
            let text = |name: &str, width| {
                let value = body.get(name);
                value.map(|value| shorten(&value.to_string(), width))
            };
            let expected = text("expected", 60).map(|expected| format!("  →  {expected}"));
            let split = match body.get("split").and_then(Value::as_str) {
                None | Some("") => String::new(),
                Some(split) => format!("  {FAINT}{}{FAINT:#}", shorten(split, 20)),
            };
            out.line(format_args!(
                "  {STRONG}{id}{STRONG:#}  {}{}{split}",
                text("input", 80).unwrap_or_default(),
                expected.unwrap_or_default()
            ))?;
        }
        Ok(())
    }
}

impl From<Told> for Whole {
    fn from(told: Told) -> Self {
        let mut bodies: HashMap<String, Option<Value>> = told
            .bodies
            .into_iter()
            .map(|example| (example.example_id, example.body))
            .collect();
        let examples = told.examples.into_iter().map(|(id, digest)| Example {
            body: bodies.remove(&id).flatten(),
            example_id: id,
            digest,
        });
        Self {
            dataset_id: told.dataset_id,
            version_id: told.version_id,
            tenant: told.tenant,
            parent: told.parent,
            created_unix_ns: told.created_unix_ns,
            provenance: told.provenance,
            examples: examples.collect(),
            tombstone: None,
        }
    }
}

fn version(args: &VersionArgs) -> Outcome {
    let examples = examples(&args.examples)?;
    let created = match args.place.place()? {
        Place::Folder(dir) => {
            let new = NewVersion {
                dataset_id: args.dataset,
                parent: args.parent.clone(),
                provenance: args.provenance.clone(),
                examples,
            };
            let store = folder::open_to_change(dir)?;
            let created = store.create_version(new, |_| Ok(()), now_ns())?;
            CreatedVersion {
                version_id: created.version_id,
                examples: created.examples as u64,
                created: created.created,
            }
        }
        Place::Server(server) => {
            let target = Target::new("/v1/datasets").part(args.dataset);
            server.post(&target.part("versions"), &request(args, examples)?)?
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&created)?;
    } else {
        let examples = count(created.examples, "example");
        let known = if created.created { "" } else { ", as before" };
        out.line(format_args!("{}  {examples}{known}", created.version_id))?;
    }
    out.flush()?;
    Ok(DONE)
}

/// What a server is sent for a new version.
fn request(args: &VersionArgs, examples: Vec<NewExample>) -> Result<String, Failure> {
    let mut list = Vec::with_capacity(examples.len());
    for example in examples {
        let body = json::Value::parse(example.body.to_json().as_bytes());
        let Ok(json::Value::Object(mut members)) = body else {
            let what = format!("example {} has no JSON", example.example_id);
            return Err(Failure::new(what));
        };
        members.insert("example_id".to_owned(), example.example_id.into());
        list.push(json::Value::Object(members));
    }
    let mut body = json::Object::new();
    body.insert("examples".to_owned(), json::Value::Array(list));
    if let Some(parent) = &args.parent {
        body.insert("parent".to_owned(), parent.as_str().into());
    }
    if let Some(provenance) = &args.provenance {
        body.insert("provenance".to_owned(), provenance.clone());
    }
    Ok(json::Value::Object(body).to_string())
}

/// Reads examples: an array of them, or one per line.
fn examples(path: &Path) -> Result<Vec<NewExample>, Failure> {
    let cannot_read =
        |error: io::Error| Failure::io(&format!("cannot read {}", path.display()), &error);
    let bytes = if path.as_os_str() == "-" {
        let mut bytes = Vec::new();
        let mut input = io::stdin().lock().take(EXAMPLES_LEN_MAX + 1);
        input.read_to_end(&mut bytes).map_err(cannot_read)?;
        bytes
    } else {
        read_all(&RealFs, path, EXAMPLES_LEN_MAX).map_err(cannot_read)?
    };
    if bytes.len() as u64 > EXAMPLES_LEN_MAX {
        let max = EXAMPLES_LEN_MAX >> 20;
        return Err(Failure::new(format!(
            "the examples are longer than {max} MiB"
        )));
    }
    let wrong = |place: String, error: &dyn std::fmt::Display| {
        Failure::new(format!("{}: {place}: {error}", path.display()))
    };
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let list = json::Value::parse(&bytes).map_err(|error| wrong("the array".into(), &error))?;
        let json::Value::Array(list) = list else {
            return Ok(Vec::new());
        };
        return (1..)
            .zip(list)
            .map(|(number, example)| {
                NewExample::from_value(example)
                    .map_err(|error| wrong(format!("example {number}"), &error))
            })
            .collect();
    }
    (1..)
        .zip(bytes.split(|byte| *byte == b'\n'))
        .filter(|(_, line)| !line.trim_ascii().is_empty())
        .map(|(number, line)| {
            NewExample::from_json(line).map_err(|error| wrong(format!("line {number}"), &error))
        })
        .collect()
}

fn tombstone(args: &TombstoneArgs) -> Outcome {
    let (id, reason) = (args.dataset, args.reason.as_str());
    let done = match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_change(dir)?;
            Tombstoned {
                already: store.tombstone_version(id, &args.version, reason, now_ns())?,
                version_id: args.version.clone(),
                tombstoned: true,
            }
        }
        Place::Server(server) => {
            let target = target_of(id, &args.version).part("tombstone");
            server.post(&target, &json!({ "reason": reason }).to_string())?
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&done)?;
    } else if done.already {
        out.line("was not to be used any more already")?;
    } else {
        out.line("not to be used any more")?;
    }
    out.flush()?;
    Ok(DONE)
}

fn headline(dataset: &Dataset) -> String {
    let tenant = match dataset.tenant.as_str() {
        "" => String::new(),
        tenant => format!("[{}] ", shorten(tenant, 64)),
    };
    format!(
        "{:>4}  {}  {tenant}{STRONG}{}{STRONG:#}",
        dataset.dataset_id,
        wall_time(dataset.created_unix_ns),
        shorten(&dataset.name, 60)
    )
}

/// `tombstone` is the reason of one.
fn version_line(
    version_id: &str,
    created_unix_ns: u64,
    examples: u64,
    tombstone: Option<&str>,
) -> String {
    let tombstone = tombstone.map(|reason| match reason {
        "" => format!("  {BAD}not to be used{BAD:#}"),
        reason => format!("  {BAD}not to be used{BAD:#}: {}", shorten(reason, 60)),
    });
    format!(
        "{}  {}  {}{}",
        shorten(version_id, 64),
        wall_time(created_unix_ns),
        count(examples, "example"),
        tombstone.unwrap_or_default()
    )
}
