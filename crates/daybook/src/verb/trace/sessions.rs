//! `daybook trace sessions`: what belongs together across traces.

use std::io::{self, Write as _};

use clap::Args;
use serde::{Deserialize, Deserializer, Serialize};
use traza::rollup::Counters;
use traza::store::analytics::{Scope, SessionDetail, SessionSummary};

use super::folder;
use super::place::{Place, PlaceArgs};
use super::server::Target;
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
  daybook trace sessions --url http://127.0.0.1:4318 user-4711
  daybook trace sessions traces/ --json | jq -r '.sessions[].session_id'")]
pub(super) struct SessionsArgs {
    #[command(flatten)]
    place: PlaceArgs,
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

/// What spans add up to.
#[derive(Deserialize, Serialize)]
struct Sums {
    span_count: u64,
    error_count: u64,
    /// This one and the next two, a server does not tell of a single trace.
    llm_calls: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    total_tokens: u64,
    cost_usd: f64,
    cost_derived_usd: f64,
    cost_metered_calls: u64,
    cost_derived_calls: u64,
    cost_unpriced_calls: u64,
}

#[derive(Deserialize, Serialize)]
struct Session {
    session_id: String,
    /// Which attribute of the spans names it.
    #[serde(deserialize_with = "not_empty")]
    session_attribute: Option<String>,
    #[serde(default)]
    tenant: String,
    trace_count: u64,
    first_start_ns: u64,
    last_end_ns: u64,
    #[serde(flatten)]
    sums: Sums,
}

#[derive(Deserialize, Serialize)]
struct Listing {
    sessions: Vec<Session>,
}

#[derive(Deserialize, Serialize)]
struct Trace {
    trace_id: String,
    root_name: String,
    first_start_ns: u64,
    last_end_ns: u64,
    #[serde(flatten)]
    sums: Sums,
}

/// A session and its traces.
#[derive(Deserialize, Serialize)]
struct Detail {
    #[serde(flatten)]
    summary: Session,
    traces: Vec<Trace>,
}

pub(super) fn run(args: &SessionsArgs) -> Outcome {
    let place = args.place.place()?;
    let mut out = Out::for_json(args.json);
    if let Some(id) = &args.id {
        let Some(detail) = detail(&place, id, args.tenant.as_deref())? else {
            let hint = format!("`daybook trace sessions {}` lists them", args.place.name());
            return Err(Failure::new(format!("there is no session {id:?}")).with_hint(hint));
        };
        show(&mut out, &detail, args.json)?;
    } else {
        let listing = listing(&place, args)?;
        if args.json {
            out.json(&listing)?;
        } else {
            for session in &listing.sessions {
                out.line(summary_line(session))?;
            }
        }
    }
    out.flush()?;
    Ok(DONE)
}

fn listing(place: &Place<'_>, args: &SessionsArgs) -> Result<Listing, Failure> {
    let limit = if args.limit == 0 {
        usize::MAX
    } else {
        args.limit
    };
    match place {
        Place::Folder(dir) => {
            let scope = Scope {
                since: args.since,
                until: args.until,
                tenant: args.tenant.clone(),
            };
            let found = folder::open_to_read(dir)?
                .snapshot()
                .sessions(&scope, limit)?;
            Ok(Listing {
                sessions: found.into_iter().map(Session::from).collect(),
            })
        }
        Place::Server(server) => {
            let target = Target::new("/v1/sessions")
                .with_some("since_ns", args.since)
                .with_some("until_ns", args.until)
                .with_some("tenant", args.tenant.as_deref())
                .with("limit", limit);
            server.read(&target)
        }
    }
}

fn detail(place: &Place<'_>, id: &str, tenant: Option<&str>) -> Result<Option<Detail>, Failure> {
    match place {
        Place::Folder(dir) => {
            let found = folder::open_to_read(dir)?.snapshot().session(id, tenant)?;
            Ok(found.map(Detail::from))
        }
        Place::Server(server) => {
            let target = Target::new("/v1/sessions").part(id);
            server.find_and_read(&target.with_some("tenant", tenant))
        }
    }
}

/// A server spells an attribute that there is not as an empty text.
fn not_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.filter(|text| !text.is_empty()))
}

fn show(out: &mut Out, detail: &Detail, as_json: bool) -> io::Result<()> {
    if as_json {
        return out.json(detail);
    }
    out.line(summary_line(&detail.summary))?;
    for trace in &detail.traces {
        let took = trace.last_end_ns.saturating_sub(trace.first_start_ns);
        out.line(format_args!(
            "  {}  {:>10}  {}  {}  {FAINT}{}{FAINT:#}",
            wall_time(trace.first_start_ns),
            duration(took),
            shorten(&trace.root_name, 40),
            trace.sums.in_words(),
            shorten(&trace.trace_id, 40)
        ))?;
    }
    Ok(())
}

fn summary_line(session: &Session) -> String {
    let tenant = match session.tenant.as_str() {
        "" => String::new(),
        tenant => format!("[{}] ", shorten(tenant, 64)),
    };
    let took = session.last_end_ns.saturating_sub(session.first_start_ns);
    format!(
        "{}  {:>10}  {tenant}{STRONG}{}{STRONG:#}  {}, {}",
        wall_time(session.first_start_ns),
        duration(took),
        shorten(&session.session_id, 40),
        count(session.trace_count, "trace"),
        session.sums.in_words()
    )
}

impl Sums {
    /// Spans, errors, calls, tokens and cost; of the last three what there is.
    fn in_words(&self) -> String {
        let mut parts = vec![count(self.span_count, "span")];
        if self.error_count > 0 {
            let errors = count(self.error_count, "error");
            parts.push(format!("{BAD}{errors}{BAD:#}"));
        }
        for (amount, what) in [
            (self.llm_calls.unwrap_or(0), "model call"),
            (self.total_tokens, "token"),
        ] {
            if amount > 0 {
                parts.push(count(amount, what));
            }
        }
        if self.cost_usd > 0.0 {
            parts.push(format!("${}", number(self.cost_usd)));
        }
        parts.join(", ")
    }
}

impl From<Counters> for Sums {
    fn from(counters: Counters) -> Self {
        Self {
            span_count: counters.spans,
            error_count: counters.errors,
            llm_calls: Some(counters.llm_calls),
            prompt_tokens: Some(counters.prompt_tokens),
            completion_tokens: Some(counters.completion_tokens),
            total_tokens: counters.total_tokens,
            cost_usd: counters.cost_usd,
            cost_derived_usd: counters.cost_derived_usd,
            cost_metered_calls: counters.cost_metered_calls,
            cost_derived_calls: counters.cost_derived_calls,
            cost_unpriced_calls: counters.cost_unpriced_calls,
        }
    }
}

impl From<SessionSummary> for Session {
    fn from(summary: SessionSummary) -> Self {
        let key = summary.key.map(traza::llm::SessionKey::attribute);
        Self {
            session_id: summary.id.session,
            session_attribute: key.map(str::to_owned),
            tenant: summary.id.tenant,
            trace_count: summary.trace_count as u64,
            first_start_ns: summary.first_start_ns,
            last_end_ns: summary.last_end_ns,
            sums: summary.counters.into(),
        }
    }
}

impl From<SessionDetail> for Detail {
    fn from(detail: SessionDetail) -> Self {
        let traces = detail.traces.into_iter().map(|trace| Trace {
            trace_id: trace.trace_id,
            root_name: trace.root_name,
            first_start_ns: trace.first_start_ns,
            last_end_ns: trace.last_end_ns,
            sums: trace.counters.into(),
        });
        Self {
            traces: traces.collect(),
            summary: detail.summary.into(),
        }
    }
}
