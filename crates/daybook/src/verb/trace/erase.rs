//! `daybook trace erase|erasures|receipt`: what is forgotten, with a proof.

use std::io::Write as _;
use std::path::Path;

use clap::{ArgGroup, Args};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use traza::logs::tombstone::Subject;
use traza::store::{Store, StoreError};

use super::place::{Place, PlaceArgs};
use super::server::{Server, Target};
use super::{folder, now_ns, stored};
use crate::failure::{DONE, Failure, Outcome};
use crate::output::Out;
use crate::styles::{BAD, GOOD, STRONG, WARN};
use crate::text::{clean, wall_time};

/// The receipt says that something of the subject is left.
const NOT_ERASED: u8 = 2;
/// Erased, and something was found that only a person can judge.
const INCONCLUSIVE: u8 = 3;

/// Forgets a trace, a span, a session, a tenant or a payload, and prints the receipt.
///
/// From the moment on that the request is recorded nothing of the subject is shown any more. Then the log, the segments,
/// annotations, datasets and payloads are rewritten without it, and a checkpoint is made. Interrupted, the erasure goes on
/// when the store is next opened for writing. Pins keep what they hold, and the receipt says so.
///
/// The exit code is 0 when the subject is erased, 3 when it is and something asks for a person's judgment, and 2 when
/// something is left.
#[derive(Args, Debug)]
#[command(group(ArgGroup::new("subject").required(true).args(["trace", "session", "payload", "all_of_tenant"])), after_help = "Examples:
  daybook trace erase traces/ --trace 4bf92f3577b34da6a3ce929d0e0e4736
  daybook trace erase traces/ --trace 4bf9… --span 00f067aa0ba902b7 --tenant acme
  daybook trace erase traces/ --session user-4711 --json
  daybook trace erase traces/ --all-of-tenant acme
  daybook trace erase --url http://127.0.0.1:4318 --session user-4711")]
pub(super) struct EraseArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The trace; with --span only that span of it.
    #[arg(long, value_name = "ID")]
    trace: Option<String>,
    /// The span of the trace, all versions of it.
    #[arg(long, value_name = "ID", requires = "trace")]
    span: Option<String>,
    /// Every span of the session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The bytes of a payload, sha256/…; the spans stay.
    #[arg(long, value_name = "REFERENCE")]
    payload: Option<String>,
    /// Everything of a tenant.
    #[arg(long, value_name = "TENANT")]
    all_of_tenant: Option<String>,
    /// Whose trace or session it is; the default tenant's without it.
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

/// The erasures of a store, and why those that are pending could not be carried out when that was tried last.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace erasures traces/
  daybook trace erasures --url http://127.0.0.1:4318")]
pub(super) struct ErasuresArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Looks everywhere for what is left of an erased subject.
///
/// The exit code is 0 when it is erased, 3 when it is and something asks for a person's judgment, and 2 when something
/// is left.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trace receipt traces/ latest
  daybook trace receipt traces/ 3 --json
  daybook trace receipt --url http://127.0.0.1:4318 latest")]
pub(super) struct ReceiptArgs {
    #[command(flatten)]
    place: PlaceArgs,
    /// The number of the erasure, or `latest`.
    erasure: String,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

impl EraseArgs {
    fn subject(&self) -> Subject {
        let tenant = self.tenant.clone();
        match (&self.trace, &self.span, &self.session, &self.payload) {
            (Some(trace_id), Some(span_id), _, _) => Subject::Span {
                trace_id: trace_id.clone(),
                span_id: span_id.clone(),
                tenant,
            },
            (Some(trace_id), None, _, _) => Subject::Trace {
                trace_id: trace_id.clone(),
                tenant,
            },
            (None, _, Some(session_id), _) => Subject::Session {
                session_id: session_id.clone(),
                tenant,
            },
            (None, _, None, Some(reference)) => Subject::Payload {
                reference: reference.clone(),
            },
            (None, _, None, None) => Subject::Tenant {
                tenant: self.all_of_tenant.clone().unwrap_or_default(),
            },
        }
    }
}

/// A receipt, of a store or of a server.
#[derive(Deserialize)]
struct Receipt {
    erasure_id: u64,
    subject: Value,
    requested_unix_ns: u64,
    domains: Vec<Domain>,
    result: Verdict,
    conclusive: bool,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum Verdict {
    Erased,
    NotErased,
}

/// A part of a store that was searched.
#[derive(Deserialize)]
struct Domain {
    domain: String,
    result: String,
    detail: String,
    #[serde(default)]
    items: Vec<String>,
}

/// An erasure, as it is listed.
#[derive(Serialize)]
struct Listed {
    id: u64,
    subject: Value,
    requested_unix_ns: u64,
    settled: bool,
    generation: Option<u64>,
    /// Why it could not be carried out; a server does not tell.
    failure: Option<Failed>,
}

#[derive(Serialize)]
struct Failed {
    failed_unix_ns: u64,
    reason: String,
}

/// An erasure, as a server spells it.
#[derive(Deserialize)]
struct Told {
    id: u64,
    subject: Value,
    requested_unix_ns: u64,
    settle: Option<Settled>,
}

#[derive(Deserialize)]
struct Settled {
    generation: u64,
}

#[derive(Deserialize)]
struct ToldAll {
    erasures: Vec<Told>,
}

pub(super) fn erase(args: &EraseArgs) -> Outcome {
    match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_change(dir)?;
            let id = store.erase(args.subject(), now_ns())?;
            store.resume_erasures()?;
            show(&receipt_of_store(&store, id)?, args.json)
        }
        Place::Server(server) => {
            let body = format!("{{\"subject\":{}}}", args.subject().to_json());
            let told: Told = server.post(&Target::new("/v1/erasures"), &body)?;
            show(&receipt_of_server(&server, told.id)?, args.json)
        }
    }
}

pub(super) fn receipt(args: &ReceiptArgs) -> Outcome {
    match args.place.place()? {
        Place::Folder(dir) => {
            let store = folder::open_to_read(dir)?;
            show_named(&store, &args.erasure, args.json)
        }
        Place::Server(server) => {
            let all = || -> Result<Vec<u64>, Failure> {
                let told = told_by(&server)?;
                Ok(told.iter().map(|erasure| erasure.id).collect())
            };
            let id = named(&args.erasure, all, &args.place.name())?;
            show(&receipt_of_server(&server, id)?, args.json)
        }
    }
}

/// The receipt of an erasure in a folder that nobody may be serving meanwhile.
pub(crate) fn receipt_alone(dir: &Path, erasure: &str, as_json: bool) -> Outcome {
    let store = match folder::open_alone(dir) {
        Err(StoreError::Busy { .. }) => {
            let what = format!("a server is using the directory {}", dir.display());
            let hint =
                "ask it: GET /v1/erasures/ID/verify, or `daybook trace receipt --url URL ID`";
            return Err(Failure::new(what).with_hint(hint));
        }
        other => other?,
    };
    show_named(&store, erasure, as_json)
}

fn show_named(store: &Store, erasure: &str, as_json: bool) -> Outcome {
    let all = || Ok(store.erasures().iter().map(|erasure| erasure.id).collect());
    let id = named(erasure, all, &store.dir().display().to_string())?;
    show(&receipt_of_store(store, id)?, as_json)
}

/// The number of an erasure.
fn named(
    erasure: &str,
    all: impl FnOnce() -> Result<Vec<u64>, Failure>,
    place: &str,
) -> Result<u64, Failure> {
    let id = match erasure {
        "latest" => all()?.into_iter().max(),
        number => number.parse().ok(),
    };
    id.ok_or_else(|| {
        let hint = format!("`daybook trace erasures {place}` lists them");
        Failure::new(format!("there is no erasure {erasure}")).with_hint(hint)
    })
}

fn receipt_of_store(store: &Store, id: u64) -> Result<Value, Failure> {
    let receipt = store.receipt(id)?;
    serde_json::to_value(receipt).map_err(|error| Failure::new(format!("the receipt: {error}")))
}

fn receipt_of_server(server: &Server, id: u64) -> Result<Value, Failure> {
    server.read(&Target::new("/v1/erasures").part(id).part("verify"))
}

fn told_by(server: &Server) -> Result<Vec<Told>, Failure> {
    let all: ToldAll = server.read(&Target::new("/v1/erasures"))?;
    Ok(all.erasures)
}

fn show(document: &Value, as_json: bool) -> Outcome {
    let receipt = Receipt::deserialize(document)
        .map_err(|error| Failure::new(format!("the receipt is not understood: {error}")))?;
    let mut out = Out::for_json(as_json);
    if as_json {
        out.json(document)?;
    } else {
        in_words(&mut out, &receipt)?;
    }
    out.flush()?;
    Ok(match (receipt.result, receipt.conclusive) {
        (Verdict::Erased, true) => DONE,
        (Verdict::Erased, false) => INCONCLUSIVE,
        (Verdict::NotErased, _) => NOT_ERASED,
    })
}

fn in_words(out: &mut Out, receipt: &Receipt) -> std::io::Result<()> {
    let (style, word) = match (receipt.result, receipt.conclusive) {
        (Verdict::Erased, true) => (GOOD, "erased"),
        (Verdict::Erased, false) => (WARN, "erased, and something asks for a person's judgment"),
        (Verdict::NotErased, _) => (BAD, "not erased"),
    };
    out.line(format_args!(
        "{STRONG}erasure {}{STRONG:#} of {}, asked for {}: {style}{word}{style:#}",
        receipt.erasure_id,
        clean(&receipt.subject.to_string()),
        wall_time(receipt.requested_unix_ns)
    ))?;
    for domain in &receipt.domains {
        let style = match domain.result.as_str() {
            "clear" => GOOD,
            "holds-data" => BAD,
            _ => WARN,
        };
        out.line(format_args!(
            "  {:<16} {style}{}{style:#}: {}",
            clean(&domain.domain),
            clean(&domain.result.replace('-', " ")),
            clean(&domain.detail)
        ))?;
        for item in &domain.items {
            out.line(format_args!("    {}", clean(item)))?;
        }
    }
    Ok(())
}

pub(super) fn erasures(args: &ErasuresArgs) -> Outcome {
    let listed = match args.place.place()? {
        Place::Folder(dir) => listed(&folder::open_to_read(dir)?),
        Place::Server(server) => told_by(&server)?.into_iter().map(Listed::from).collect(),
    };
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&listed)?;
    } else {
        for erasure in &listed {
            let state = match erasure.generation {
                Some(generation) => format!("settled in generation {generation}"),
                None => "pending".to_owned(),
            };
            out.line(format_args!(
                "{:>4}  {}  {}  {state}",
                erasure.id,
                wall_time(erasure.requested_unix_ns),
                clean(&erasure.subject.to_string())
            ))?;
            if let Some(failure) = &erasure.failure {
                out.line(format_args!(
                    "      {BAD}failed{BAD:#} {}: {}",
                    wall_time(failure.failed_unix_ns),
                    clean(&failure.reason)
                ))?;
            }
        }
    }
    out.flush()?;
    Ok(DONE)
}

fn listed(store: &Store) -> Vec<Listed> {
    let failures = store.erasure_failures();
    let erasures = store.erasures().into_iter().map(|erasure| {
        let failure = failures.iter().find(|failure| failure.id == erasure.id);
        Listed {
            id: erasure.id,
            subject: stored(&erasure.scope.subject.to_json()),
            requested_unix_ns: erasure.requested_unix_ns,
            settled: erasure.settle.is_some(),
            generation: erasure.settle.map(|settle| settle.generation),
            failure: failure.map(|failure| Failed {
                failed_unix_ns: failure.failed_unix_ns,
                reason: failure.reason.clone(),
            }),
        }
    });
    erasures.collect()
}

impl From<Told> for Listed {
    fn from(told: Told) -> Self {
        Self {
            id: told.id,
            subject: told.subject,
            requested_unix_ns: told.requested_unix_ns,
            settled: told.settle.is_some(),
            generation: told.settle.map(|settle| settle.generation),
            failure: None,
        }
    }
}
