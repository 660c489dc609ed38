//! `daybook trace annotate|annotations`: what is noted beside the spans.

use std::io::{self, Write as _};

use clap::{ArgGroup, Args};
use serde::de::IgnoredAny;
use serde_json::json;
use traza::json::Value;
use traza::logs::annotation::{Annotation, Subject};
use traza::store::{Annotated, AnnotationFilter};

use super::place::{Place, PlaceArgs};
use super::server::{Server, Target};
use super::{folder, now_ns, stored};
use crate::failure::{DONE, Failure, Outcome};
use crate::moment::moment;
use crate::output::Out;
use crate::styles::{FAINT, STRONG};
use crate::text::{shorten, wall_time};

/// Notes a judgment about a trace, a span or a session, or the score of an example in an experiment.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("subject").required(true).args(["trace", "session", "experiment"]).multiple(true)), after_help = "Examples:
  daybook trace annotate traces/ --trace 4bf92f3577b34da6a3ce929d0e0e4736 quality 0.4 --source human:ann
  daybook trace annotate traces/ --session user-4711 resolved true --comment 'asked again a day later'
  daybook trace annotate traces/ --experiment 3 --example ex-1 pass true --source eval:nightly
  daybook trace annotate --url http://127.0.0.1:4318 --session user-4711 resolved true")]
pub(super) struct AnnotateArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// What is judged.
    name: String,
    /// The judgment: JSON, or else a text.
    value: String,
    /// The trace; with --span that span of it.
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// The span of the trace.
    #[arg(long, value_name = "ID", requires = "trace")]
    span: Option<String>,
    /// The session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The experiment of a score; the trace and span of the run may be named besides.
    #[arg(long, value_name = "N", requires = "example")]
    experiment: Option<u64>,
    /// The example of the experiment.
    #[arg(long, value_name = "ID", requires = "experiment")]
    example: Option<String>,
    /// Whose it is.
    #[arg(
        long,
        value_name = "TENANT",
        default_value = "",
        hide_default_value = true
    )]
    tenant: String,
    /// Who judges.
    #[arg(long, default_value = "", hide_default_value = true)]
    source: String,
    /// More about it.
    #[arg(long, default_value = "", hide_default_value = true)]
    comment: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// The judgments that all conditions hold for, the newest first.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace annotations traces/ --trace 4bf92f3577b34da6a3ce929d0e0e4736
  daybook trace annotations traces/ --name quality --source human: --since -7d --json
  daybook trace annotations --url http://127.0.0.1:4318 --name quality")]
pub(super) struct AnnotationsArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Naming this trace, also by one of its spans or in a score.
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// Naming a span with this id.
    #[arg(long, value_name = "ID")]
    span: Option<String>,
    /// About this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Scores of this experiment.
    #[arg(long, value_name = "N")]
    experiment: Option<u64>,
    /// Scores of an example with this id.
    #[arg(long, value_name = "ID")]
    example: Option<String>,
    /// With this name.
    #[arg(long)]
    name: Option<String>,
    /// From a source that begins like this.
    #[arg(long, value_name = "PREFIX")]
    source: Option<String>,
    /// Of this tenant; an empty text for those without one.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Made then or later.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    since: Option<u64>,
    /// Made then or earlier.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true)]
    until: Option<u64>,
    /// At most so many; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn annotate(args: &AnnotateArgs) -> Outcome {
    let value =
        Value::parse(args.value.as_bytes()).unwrap_or_else(|_| Value::from(args.value.as_str()));
    let annotation = Annotation {
        trace_id: args.trace.clone().unwrap_or_default(),
        span_id: args.span.clone().unwrap_or_default(),
        tenant: args.tenant.clone(),
        session_id: args.session.clone().unwrap_or_default(),
        experiment_id: args.experiment,
        example_id: args.example.clone().unwrap_or_default(),
        name: args.name.clone(),
        value,
        source: args.source.clone(),
        comment: args.comment.clone(),
        timestamp_ns: now_ns(),
    };
    let is_recorded = match args.place.place()? {
        Place::Folder(dir) => {
            let done = folder::open_to_change(dir)?.annotate(annotation)?;
            matches!(done, Annotated::Recorded)
        }
        Place::Server(server) => {
            let target = Target::new("/v1/annotations");
            server.post::<IgnoredAny>(&target, &annotation.to_json())?;
            true
        }
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&json!({ "path": args.place.name(), "recorded": is_recorded }))?;
    } else if is_recorded {
        out.line("recorded")?;
    } else {
        out.line("not recorded: its subject is being erased")?;
    }
    out.flush()?;
    Ok(DONE)
}

pub(super) fn annotations(args: &AnnotationsArgs) -> Outcome {
    let mut filter = AnnotationFilter::default();
    filter.trace_id.clone_from(&args.trace);
    filter.span_id.clone_from(&args.span);
    filter.tenant.clone_from(&args.tenant);
    filter.session_id.clone_from(&args.session);
    filter.experiment_id = args.experiment;
    filter.example_id.clone_from(&args.example);
    filter.name.clone_from(&args.name);
    filter.source_prefix.clone_from(&args.source);
    filter.since = args.since;
    filter.until = args.until;
    filter.limit = (args.limit > 0).then_some(args.limit);
    let found = match args.place.place()? {
        Place::Folder(dir) => folder::open_to_read(dir)?.annotations(&filter),
        Place::Server(server) => {
            let target = Target::new("/v1/annotations")
                .with_some("trace_id", args.trace.as_deref())
                .with_some("span_id", args.span.as_deref())
                .with_some("session_id", args.session.as_deref())
                .with_some("experiment_id", args.experiment)
                .with_some("example_id", args.example.as_deref())
                .with_some("name", args.name.as_deref())
                .with_some("source", args.source.as_deref())
                .with_some("tenant", args.tenant.as_deref())
                .with_some("since_ns", args.since)
                .with_some("until_ns", args.until)
                .with_some("limit", filter.limit);
            of_answer(&server, &server.get(&target)?, "annotations")?
        }
    };
    let mut out = Out::for_json(args.json);
    list(&mut out, &found, args.json)?;
    out.flush()?;
    Ok(DONE)
}

/// The annotations that an answer of a server has as this member.
pub(super) fn of_answer(
    server: &Server,
    body: &[u8],
    member: &str,
) -> Result<Vec<Annotation>, Failure> {
    let document = Value::parse(body).map_err(|error| server.strange(&error))?;
    let list = document.as_object().and_then(|members| members.get(member));
    let Some(Value::Array(list)) = list else {
        return Err(server.strange(&format_args!("it has no list of {member}")));
    };
    list.iter()
        .map(|each| Annotation::from_json(each.to_string().as_bytes()))
        .collect::<Result<_, _>>()
        .map_err(|error| server.strange(&error))
}

/// Annotations as a listing, or as they are stored.
pub(super) fn list(out: &mut Out, annotations: &[Annotation], as_json: bool) -> io::Result<()> {
    if as_json {
        let stored = annotations.iter().map(|each| stored(&each.to_json()));
        return out.json(&stored.collect::<Vec<_>>());
    }
    for annotation in annotations {
        out.line(line(annotation))?;
    }
    Ok(())
}

fn line(annotation: &Annotation) -> String {
    let about = match annotation.subject() {
        Ok(Subject::Trace { trace_id }) => format!("trace {}", shorten(trace_id, 40)),
        Ok(Subject::Span { trace_id, span_id }) => {
            format!("span {} {}", shorten(trace_id, 40), shorten(span_id, 40))
        }
        Ok(Subject::Session { session_id }) => format!("session {}", shorten(session_id, 40)),
        Ok(Subject::Score {
            experiment_id,
            example_id,
        }) => format!(
            "experiment {experiment_id}, example {}",
            shorten(example_id, 40)
        ),
        Err(fault) => fault.to_string(),
    };
    let tenant = match annotation.tenant.as_str() {
        "" => String::new(),
        tenant => format!("[{}] ", shorten(tenant, 64)),
    };
    let mut rest = String::new();
    for text in [&annotation.source, &annotation.comment] {
        if !text.is_empty() {
            rest.push_str("  ");
            rest.push_str(&shorten(text, 60));
        }
    }
    format!(
        "{}  {tenant}{about}  {STRONG}{}{STRONG:#} = {}{FAINT}{rest}{FAINT:#}",
        wall_time(annotation.timestamp_ns),
        shorten(&annotation.name, 40),
        shorten(&annotation.value.to_string(), 80),
    )
}
