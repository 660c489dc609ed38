//! `promote_failures_to_dataset`: what a diagnosis implicates, as examples.

use durable::digest::{hex, sha256};
use serde_json::{Map, Value, json};
use traza::json::{Object, Value as Stored};
use traza::logs::eval::record::{ExampleBody, Provenance};
use traza::logs::eval::{Created, NewExample, NewVersion};
use traza::span::Span;
use traza::store::Result as StoreResult;

use super::diagnose;
use crate::mcp::args::Args;
use crate::mcp::context::Context;
use crate::mcp::diagnosis::diagnose;
use crate::mcp::error::ToolError;
use crate::mcp::format;
use crate::mcp::report::Report;
use crate::mcp::schema;

/// So many spans become examples.
const EXAMPLES_MAX: usize = 50;
/// The part of a dataset that the examples are for.
const SPLIT: &str = "regression";

pub(in crate::mcp) fn schema() -> Value {
    schema::object(
        &[
            (
                "session_id",
                schema::text("The session whose faults become examples."),
            ),
            (
                "dataset",
                schema::text("The name of the dataset; one that exists is used again."),
            ),
        ],
        &["session_id", "dataset"],
    )
}

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    args.only("promote_failures_to_dataset", &["session_id", "dataset"])?;
    let session_id = args.required("session_id")?;
    let dataset = args.required("dataset")?;
    // An operator writes to the default tenant, and so reads nothing else here.
    let tenant = context.caller.tenant.unwrap_or_default();
    let session = diagnose::read(context, session_id, Some(tenant), diagnose::SPANS_MAX)?;
    let places = diagnose(&session.spans).implicated(EXAMPLES_MAX);
    if places.is_empty() {
        return Err(ToolError::new(
            "Nothing to promote: no step of this session is at fault by the diagnosis. diagnose_session tells what it saw.",
        ));
    }
    let spans = places.iter().filter_map(|place| session.spans.get(*place));
    let examples = spans.map(|span| example(span)).collect();

    let now_ns = context.clock.wall_ns();
    let dataset_id = dataset_id(context, tenant, dataset, now_ns)?;
    let new = NewVersion {
        dataset_id,
        parent: None,
        provenance: Some(Stored::Object(Object::from([
            ("source".to_owned(), Stored::from("agent:mcp")),
            ("session_id".to_owned(), Stored::from(session_id)),
        ]))),
        examples,
    };
    // The spans are the tenant's own, and so is what they refer to.
    let created = context.store.create_version(new, |_| Ok(()), now_ns)?;
    Ok(report(dataset_id, &created))
}

/// The dataset of this name, the oldest if there are several; created when there is none.
fn dataset_id(context: &Context<'_>, tenant: &str, name: &str, now_ns: u64) -> StoreResult<u64> {
    let known = context.store.read_evals(|evals| {
        evals
            .datasets()
            .filter(|dataset| dataset.tenant == tenant && dataset.name == name)
            .map(|dataset| dataset.dataset_id)
            .min()
    });
    match known {
        Some(id) => Ok(id),
        None => context.store.create_dataset(tenant, name, now_ns),
    }
}

fn example(span: &Span) -> NewExample {
    let mut input = Object::new();
    input.insert("service".to_owned(), Stored::from(span.service.as_str()));
    input.insert("name".to_owned(), Stored::from(span.name.as_str()));
    input.insert("status".to_owned(), Stored::from(span.status.as_str()));
    input.insert(
        "attributes".to_owned(),
        Stored::Object(span.attributes.clone()),
    );
    NewExample {
        example_id: example_id(span),
        body: ExampleBody {
            input: Stored::Object(input),
            expected: None,
            split: SPLIT.to_owned(),
            provenance: Some(Provenance {
                tenant: span.tenant.to_string(),
                trace_id: span.trace_id.to_string(),
                span_id: span.span_id.to_string(),
            }),
        },
    }
}

/// The same for the same span whenever it is asked, so that promoting again makes nothing new.
fn example_id(span: &Span) -> String {
    // As JSON, no two spans have one address.
    let address = json!([*span.tenant, *span.trace_id, *span.span_id]).to_string();
    let digest = hex(&sha256(address.as_bytes()));
    format!("span-{}", digest.get(..32).unwrap_or(&digest))
}

fn report(dataset_id: u64, created: &Created) -> Report {
    let what = if created.created {
        "a new version"
    } else {
        "a version that was there already, unchanged"
    };
    let mut report = Report::new(
        format!(
            "{} in dataset {dataset_id}: {what}. A step is an example when the diagnosis puts it at fault, also when it did \
             not fail itself.",
            format::counted_len(created.examples, "example")
        ),
        "",
    );
    let mut fields = Map::new();
    fields.insert("dataset_id".to_owned(), json!(dataset_id));
    fields.insert("version_id".to_owned(), json!(created.version_id));
    fields.insert("examples".to_owned(), json!(created.examples));
    fields.insert("created".to_owned(), json!(created.created));
    report.structure(&[], fields, None);
    report
}
