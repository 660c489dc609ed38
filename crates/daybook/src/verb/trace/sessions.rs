//! `daybook trace sessions`: what belongs together across traces.

use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};
use traza::rollup::Counters;
use traza::store::analytics::{Scope, SessionDetail, SessionSummary};

use super::folder;
use crate::failure::{DONE, Failure, Outcome};
use crate::moment::moment;
use crate::output::Out;
use crate::styles::{BAD, FAINT, STRONG};
use crate::text::{count, duration, number, shorten, wall_time};

/// The sessions of a store, those first that ended last; or the traces of one.
///
/// A session is what spans name by an attribute such as `session.id` or `gen_ai.conversation.id`.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace sessions traces/ --since -1d
  daybook trace sessions traces/ user-4711
  daybook trace sessions traces/ --json | jq -r '.sessions[].session_id'")]
pub(super) struct SessionsArgs {
    /// The folder of the store.
    dir: PathBuf,
    /// The session whose traces are shown.
    id: Option<String>,
    /// Of this tenant; an empty text for those without one.
    #[arg(long, value_name = "TENANT")]
    tenant: Option<String>,
    /// Only spans count that started then or later.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, conflicts_with = "id")]
    since: Option<u64>,
    /// Only spans count that started then or earlier.
    #[arg(long, value_name = "TIME", value_parser = moment, allow_hyphen_values = true, conflicts_with = "id")]
    until: Option<u64>,
    /// At most so many sessions; 0 for all.
    #[arg(long, value_name = "N", default_value_t = 100, conflicts_with = "id")]
    limit: usize,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &SessionsArgs) -> Outcome {
    let view = folder::open_to_read(&args.dir)?.snapshot();
    let mut out = Out::for_json(args.json);
    if let Some(id) = &args.id {
        let Some(detail) = view.session(id, args.tenant.as_deref())? else {
            let hint = format!("`daybook trace sessions {}` lists them", args.dir.display());
            return Err(Failure::new(format!("there is no session {id:?}")).with_hint(hint));
        };
        show(&mut out, &detail, args.json)?;
    } else {
        let scope = Scope {
            since: args.since,
            until: args.until,
            tenant: args.tenant.clone(),
        };
        let limit = if args.limit == 0 {
            usize::MAX
        } else {
            args.limit
        };
        let sessions = view.sessions(&scope, limit)?;
        list(&mut out, &sessions, args.json)?;
    }
    out.flush()?;
    Ok(DONE)
}

fn list(out: &mut Out, sessions: &[SessionSummary], as_json: bool) -> io::Result<()> {
    if as_json {
        let sessions = sessions.iter().map(|each| Value::Object(document(each)));
        return out.json(&json!({ "sessions": sessions.collect::<Vec<_>>() }));
    }
    for session in sessions {
        out.line(summary_line(session))?;
    }
    Ok(())
}

fn show(out: &mut Out, detail: &SessionDetail, as_json: bool) -> io::Result<()> {
    if as_json {
        let traces = detail.traces.iter().map(|trace| {
            let mut members = sums(&trace.counters);
            members.insert("trace_id".into(), json!(trace.trace_id));
            members.insert("root_name".into(), json!(trace.root_name));
            members.insert("first_start_ns".into(), json!(trace.first_start_ns));
            members.insert("last_end_ns".into(), json!(trace.last_end_ns));
            Value::Object(members)
        });
        let mut members = document(&detail.summary);
        members.insert("traces".into(), traces.collect());
        return out.json(&members);
    }
    out.line(summary_line(&detail.summary))?;
    for trace in &detail.traces {
        let took = trace.last_end_ns.saturating_sub(trace.first_start_ns);
        out.line(format_args!(
            "  {}  {:>10}  {}  {}  {FAINT}{}{FAINT:#}",
            wall_time(trace.first_start_ns),
            duration(took),
            shorten(&trace.root_name, 40),
            counts(&trace.counters),
            shorten(&trace.trace_id, 40)
        ))?;
    }
    Ok(())
}

fn summary_line(session: &SessionSummary) -> String {
    let tenant = match session.id.tenant.as_str() {
        "" => String::new(),
        tenant => format!("[{}] ", shorten(tenant, 64)),
    };
    let took = session.last_end_ns.saturating_sub(session.first_start_ns);
    format!(
        "{}  {:>10}  {tenant}{STRONG}{}{STRONG:#}  {}, {}",
        wall_time(session.first_start_ns),
        duration(took),
        shorten(&session.id.session, 40),
        count(session.trace_count as u64, "trace"),
        counts(&session.counters)
    )
}

/// Spans, errors, calls, tokens and cost; of the last three what there is.
fn counts(counters: &Counters) -> String {
    let mut parts = vec![count(counters.spans, "span")];
    if counters.errors > 0 {
        let errors = count(counters.errors, "error");
        parts.push(format!("{BAD}{errors}{BAD:#}"));
    }
    for (amount, what) in [
        (counters.llm_calls, "model call"),
        (counters.total_tokens, "token"),
    ] {
        if amount > 0 {
            parts.push(count(amount, what));
        }
    }
    if counters.cost_usd > 0.0 {
        parts.push(format!("${}", number(counters.cost_usd)));
    }
    parts.join(", ")
}

fn document(session: &SessionSummary) -> Map<String, Value> {
    let mut members = sums(&session.counters);
    let key = session.key.map(traza::llm::SessionKey::attribute);
    members.insert("session_id".into(), json!(session.id.session));
    members.insert("session_attribute".into(), json!(key));
    members.insert("tenant".into(), json!(session.id.tenant));
    members.insert("trace_count".into(), json!(session.trace_count));
    members.insert("first_start_ns".into(), json!(session.first_start_ns));
    members.insert("last_end_ns".into(), json!(session.last_end_ns));
    members
}

fn sums(counters: &Counters) -> Map<String, Value> {
    [
        ("span_count", json!(counters.spans)),
        ("error_count", json!(counters.errors)),
        ("llm_calls", json!(counters.llm_calls)),
        ("prompt_tokens", json!(counters.prompt_tokens)),
        ("completion_tokens", json!(counters.completion_tokens)),
        ("total_tokens", json!(counters.total_tokens)),
        ("cost_usd", json!(counters.cost_usd)),
        ("cost_derived_usd", json!(counters.cost_derived_usd)),
        ("cost_metered_calls", json!(counters.cost_metered_calls)),
        ("cost_derived_calls", json!(counters.cost_derived_calls)),
        ("cost_unpriced_calls", json!(counters.cost_unpriced_calls)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}
