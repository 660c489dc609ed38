//! `daybook trace erase|erasures|receipt`: what is forgotten, with a proof.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use serde_json::{Value, json};
use traza::logs::tombstone::{Erasure, Subject};
use traza::store::{ErasureFailure, Receipt, Standing, Store, StoreError};

use super::{folder, now_ns};
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
  daybook trace erase traces/ --all-of-tenant acme")]
pub(super) struct EraseArgs {
    /// The folder of the store.
    dir: PathBuf,
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
  daybook trace erasures traces/")]
pub(super) struct ErasuresArgs {
    /// The folder of the store.
    dir: PathBuf,
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
  daybook trace receipt traces/ 3 --json")]
pub(super) struct ReceiptArgs {
    /// The folder of the store.
    dir: PathBuf,
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

pub(super) fn erase(args: &EraseArgs) -> Outcome {
    let store = folder::open_to_change(&args.dir)?;
    let id = store.erase(args.subject(), now_ns())?;
    store.resume_erasures()?;
    show(&store, id, args.json)
}

pub(super) fn receipt(args: &ReceiptArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    show_named(&store, &args.erasure, args.json)
}

/// The receipt of an erasure in a folder that nobody may be serving meanwhile.
pub(crate) fn receipt_alone(dir: &Path, erasure: &str, as_json: bool) -> Outcome {
    let store = match folder::open_alone(dir) {
        Err(StoreError::Busy { .. }) => {
            let what = format!("a server is using the directory {}", dir.display());
            let hint = "ask it: GET /v1/erasures/ID/verify";
            return Err(Failure::new(what).with_hint(hint));
        }
        other => other?,
    };
    show_named(&store, erasure, as_json)
}

fn show_named(store: &Store, erasure: &str, as_json: bool) -> Outcome {
    let id = match erasure {
        "latest" => store.erasures().iter().map(|erasure| erasure.id).max(),
        number => number.parse().ok(),
    };
    let Some(id) = id else {
        let hint = format!(
            "`daybook trace erasures {}` lists them",
            store.dir().display()
        );
        let what = format!("there is no erasure {erasure}");
        return Err(Failure::new(what).with_hint(hint));
    };
    show(store, id, as_json)
}

fn show(store: &Store, id: u64, as_json: bool) -> Outcome {
    let receipt = store.receipt(id)?;
    let mut out = Out::for_json(as_json);
    if as_json {
        out.json(&receipt)?;
    } else {
        in_words(&mut out, &receipt)?;
    }
    out.flush()?;
    Ok(match (receipt.is_erased, receipt.is_conclusive) {
        (true, true) => DONE,
        (true, false) => INCONCLUSIVE,
        (false, _) => NOT_ERASED,
    })
}

fn in_words(out: &mut Out, receipt: &Receipt) -> std::io::Result<()> {
    let (style, word) = match (receipt.is_erased, receipt.is_conclusive) {
        (true, true) => (GOOD, "erased"),
        (true, false) => (WARN, "erased, and something asks for a person's judgment"),
        (false, _) => (BAD, "not erased"),
    };
    out.line(format_args!(
        "{STRONG}erasure {}{STRONG:#} of {}, asked for {}: {style}{word}{style:#}",
        receipt.erasure_id,
        receipt.subject.to_json(),
        wall_time(receipt.requested_unix_ns)
    ))?;
    for domain in &receipt.domains {
        let (style, word) = match domain.standing {
            Standing::Clear => (GOOD, "clear"),
            Standing::HoldsData => (BAD, "holds data"),
            Standing::Attention => (WARN, "attention"),
            Standing::RetainedByDesign => (WARN, "retained by design"),
        };
        out.line(format_args!(
            "  {:<16} {style}{word}{style:#}: {}",
            domain.name, domain.detail
        ))?;
        for item in &domain.items {
            out.line(format_args!("    {item}"))?;
        }
    }
    Ok(())
}

pub(super) fn erasures(args: &ErasuresArgs) -> Outcome {
    let store = folder::open_to_read(&args.dir)?;
    let erasures = store.erasures();
    let failures = store.erasure_failures();
    let failure_of = |erasure: &Erasure| failures.iter().find(|failure| failure.id == erasure.id);
    let mut out = Out::for_json(args.json);
    if args.json {
        let erasures = erasures
            .iter()
            .map(|erasure| document(erasure, failure_of(erasure)));
        out.json(&erasures.collect::<Vec<_>>())?;
    } else {
        for erasure in &erasures {
            let state = match &erasure.settle {
                Some(settle) => format!("settled in generation {}", settle.generation),
                None => "pending".to_owned(),
            };
            out.line(format_args!(
                "{:>4}  {}  {}  {state}",
                erasure.id,
                wall_time(erasure.requested_unix_ns),
                erasure.scope.subject.to_json()
            ))?;
            if let Some(failure) = failure_of(erasure) {
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

fn document(erasure: &Erasure, failure: Option<&ErasureFailure>) -> Value {
    // It is JSON of the log's own writer.
    let subject = serde_json::from_str(&erasure.scope.subject.to_json()).unwrap_or(Value::Null);
    json!({
        "id": erasure.id, "subject": subject, "requested_unix_ns": erasure.requested_unix_ns,
        "settled": erasure.settle.is_some(),
        "generation": erasure.settle.as_ref().map(|settle| settle.generation),
        "failure": failure.map(|failure| {
            json!({ "failed_unix_ns": failure.failed_unix_ns, "reason": failure.reason })
        }),
    })
}
