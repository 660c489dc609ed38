//! `record_annotation`: a judgment of an agent.

use serde_json::Value;
use traza::logs::annotation::Annotation;

use crate::mcp::args::{Args, stored_value};
use crate::mcp::clean;
use crate::mcp::context::Context;
use crate::mcp::error::ToolError;
use crate::mcp::report::Report;
use crate::mcp::schema;

/// Who judges here. Nobody can claim to be another.
const SOURCE: &str = "agent:mcp";

pub(in crate::mcp) fn schema() -> Value {
    schema::object(
        &[
            ("trace_id", schema::text("The trace.")),
            (
                "span_id",
                schema::text("The span of the trace; leave it out to judge the whole trace."),
            ),
            ("name", schema::text("What is judged, such as 'quality'.")),
            ("value", schema::any("The judgment: any JSON.")),
            ("comment", schema::text("Why.")),
        ],
        &["trace_id", "name", "value"],
    )
}

pub(in crate::mcp) fn run(context: &Context<'_>, args: &Args<'_>) -> Result<Report, ToolError> {
    if args.contains("source") {
        return Err(ToolError::new(format!(
            "'source' cannot be set here: what agents record is signed {SOURCE}, so that it is never taken for the word of a \
             person."
        )));
    }
    args.only(
        "record_annotation",
        &["trace_id", "span_id", "name", "value", "comment"],
    )?;
    let text = |name| Ok::<_, ToolError>(args.string(name)?.unwrap_or_default().to_owned());
    let trace_id = args.required("trace_id")?.to_owned();
    let name = args.required("name")?.to_owned();
    // `null` is a judgment too.
    let value = args
        .raw("value")
        .ok_or_else(|| ToolError::new("value is required."))?;
    let annotation = Annotation {
        trace_id,
        span_id: text("span_id")?,
        tenant: context.caller.tenant.unwrap_or_default().to_owned(),
        session_id: String::new(),
        experiment_id: None,
        example_id: String::new(),
        name,
        value: stored_value("value", value)?,
        source: SOURCE.to_owned(),
        comment: text("comment")?,
        timestamp_ns: context.clock.wall_ns(),
    };
    let recorded = format!(
        "Recorded {:?} as {SOURCE}.",
        clean::line(&annotation.name, 64)
    );
    // Of what is being erased it is taken and forgotten, as everywhere.
    context.store.annotate(annotation)?;
    Ok(Report::new(recorded, ""))
}
