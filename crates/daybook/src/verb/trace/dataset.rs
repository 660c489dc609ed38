//! `daybook trace dataset`: collections of examples, in versions.

use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use durable::{RealFs, read_all};
use serde_json::{Map, Value, json};
use traza::json;
use traza::logs::eval::record::{Dataset, Version};
use traza::logs::eval::{EvalState, NewExample, NewVersion};

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
    /// The folder of the store.
    dir: PathBuf,
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
    /// The folder of the store.
    dir: PathBuf,
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
    /// The folder of the store.
    dir: PathBuf,
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
    /// The folder of the store.
    dir: PathBuf,
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
    /// The folder of the store.
    dir: PathBuf,
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
    let store = folder::open_to_change(&args.dir)?;
    let id = store.create_dataset(&args.tenant, &args.name, now_ns())?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({ "dataset_id": id }))?;
    } else {
        out.line(format_args!("dataset {id}"))?;
    }
    out.flush()?;
    Ok(DONE)
}

fn list(args: &ListArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let mut out = Out::for_json(args.json);
    store.read_evals(|state| -> io::Result<()> {
        let wanted = |dataset: &&Dataset| {
            let tenant = args.tenant.as_deref();
            tenant.is_none_or(|tenant| tenant == dataset.tenant)
        };
        let datasets = state.datasets().filter(wanted);
        if args.json {
            let datasets = datasets.map(|dataset| document(state, dataset));
            return out.json(&json!({ "datasets": datasets.collect::<Vec<_>>() }));
        }
        for dataset in datasets {
            let versions = state.versions(dataset.dataset_id);
            let latest = versions.last().map(|latest| {
                let examples = count(latest.examples.len() as u64, "example");
                format!(", {examples} in the latest")
            });
            out.line(format_args!(
                "{}  {}{}",
                headline(dataset),
                count(versions.len() as u64, "version"),
                latest.unwrap_or_default()
            ))?;
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(DONE)
}

fn show(args: &ShowArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let mut out = Out::for_json(args.json);
    store.read_evals(|state| -> Result<(), Failure> {
        let Some(dataset) = state.dataset(args.dataset) else {
            return Err(no_such("dataset", args.dataset, "dataset", &args.dir));
        };
        if let Some(wanted) = &args.version {
            let version = version_of(state, dataset, wanted)?;
            return Ok(show_version(&mut out, state, version, args.json)?);
        }
        if args.json {
            return Ok(out.json(&document(state, dataset))?);
        }
        out.line(headline(dataset))?;
        for version in state.versions(dataset.dataset_id) {
            out.line(format_args!("  {}", version_line(state, version)))?;
        }
        Ok(())
    })?;
    out.flush()?;
    Ok(DONE)
}

/// The version of that name, or the only one whose name begins like that.
pub(super) fn version_of<'s>(
    state: &'s EvalState,
    dataset: &Dataset,
    wanted: &str,
) -> Result<&'s Version, Failure> {
    let versions = state.versions(dataset.dataset_id);
    let mut found = versions
        .iter()
        .filter(|version| version.version_id.starts_with(wanted));
    let id = dataset.dataset_id;
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

fn show_version(
    out: &mut Out,
    state: &EvalState,
    version: &Version,
    as_json: bool,
) -> io::Result<()> {
    if as_json {
        return out.json(&version_document(state, version));
    }
    out.line(version_line(state, version))?;
    for (id, digest) in &version.examples {
        let Some(body) = state.example(digest) else {
            out.line(format_args!("  {}  {BAD}no body{BAD:#}", shorten(id, 40)))?;
            continue;
        };
        let expected = body.expected.as_ref().map(|expected| {
            let expected = shorten(&expected.to_string(), 60);
            format!("  →  {expected}")
        });
        let split = match body.split.as_str() {
            "" => String::new(),
            split => format!("  {FAINT}{}{FAINT:#}", shorten(split, 20)),
        };
        out.line(format_args!(
            "  {STRONG}{}{STRONG:#}  {}{}{split}",
            shorten(id, 40),
            shorten(&body.input.to_string(), 80),
            expected.unwrap_or_default()
        ))?;
    }
    Ok(())
}

fn version(args: &VersionArgs) -> Outcome {
    let examples = examples(&args.examples)?;
    let store = folder::open_to_change(&args.dir)?;
    let new = NewVersion {
        dataset_id: args.dataset,
        parent: args.parent.clone(),
        provenance: args.provenance.clone(),
        examples,
    };
    let created = store.create_version(new, |_| Ok(()), now_ns())?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({
            "version_id": created.version_id, "examples": created.examples, "created": created.created,
        }))?;
    } else {
        let examples = count(created.examples as u64, "example");
        let known = if created.created { "" } else { ", as before" };
        out.line(format_args!("{}  {examples}{known}", created.version_id))?;
    }
    out.flush()?;
    Ok(DONE)
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
    let store = folder::open_to_change(&args.dir)?;
    let was_there = store.tombstone_version(args.dataset, &args.version, &args.reason, now_ns())?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({
            "version_id": args.version, "tombstoned": true, "already": was_there,
        }))?;
    } else if was_there {
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

fn version_line(state: &EvalState, version: &Version) -> String {
    let tombstone = state.tombstone(version.dataset_id, &version.version_id);
    let tombstone = tombstone.map(|tombstone| match tombstone.reason.as_str() {
        "" => format!("  {BAD}not to be used{BAD:#}"),
        reason => format!("  {BAD}not to be used{BAD:#}: {}", shorten(reason, 60)),
    });
    format!(
        "{}  {}  {}{}",
        version.version_id,
        wall_time(version.created_unix_ns),
        count(version.examples.len() as u64, "example"),
        tombstone.unwrap_or_default()
    )
}

fn document(state: &EvalState, dataset: &Dataset) -> Value {
    let versions = state.versions(dataset.dataset_id).iter().map(|version| {
        let tombstone = state.tombstone(version.dataset_id, &version.version_id);
        json!({
            "version_id": version.version_id, "parent": version.parent, "examples": version.examples.len(),
            "created_unix_ns": version.created_unix_ns, "tombstoned": tombstone.is_some(),
        })
    });
    json!({
        "dataset_id": dataset.dataset_id, "tenant": dataset.tenant, "name": dataset.name,
        "created_unix_ns": dataset.created_unix_ns, "versions": versions.collect::<Vec<_>>(),
    })
}

fn version_document(state: &EvalState, version: &Version) -> Value {
    let examples = version.examples.iter().map(|(id, digest)| {
        let mut members = Map::new();
        members.insert("example_id".into(), json!(id));
        members.insert("digest".into(), json!(digest));
        if let Some(body) = state.example(digest) {
            members.insert("body".into(), stored(&body.to_json()));
        }
        Value::Object(members)
    });
    let provenance = version.provenance.as_ref();
    let tombstone = state.tombstone(version.dataset_id, &version.version_id);
    json!({
        "dataset_id": version.dataset_id, "version_id": version.version_id, "tenant": version.tenant,
        "parent": version.parent, "created_unix_ns": version.created_unix_ns,
        "provenance": provenance.map(|provenance| stored(&provenance.to_string())),
        "examples": examples.collect::<Vec<_>>(),
        "tombstone": tombstone.map(|tombstone| {
            json!({ "requested_unix_ns": tombstone.requested_unix_ns, "reason": tombstone.reason })
        }),
    })
}
