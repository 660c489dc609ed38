//! `daybook attest`: signs how far a run goes.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use durable::RealFs;
use omniloop_core::attest::{AttestOptions, Attestation, attest, key_id};
use omniloop_core::journal::PublicKey;
use serde_json::json;

use super::host;
use crate::failure::{DONE, Failure, Outcome};
use crate::keys;
use crate::kind::kind_of;
use crate::output::Out;
use crate::text::{clean, count};

/// Verifies a run and signs how far it goes, in a note beside it.
///
/// The note proves what no file can prove of itself: that nothing was cut off the end, that no file of
/// a set is missing, and that the run was not written anew as a whole. A copy of the note kept on
/// another machine proves it even against who holds the key.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook attest run.omni --key k.pem
  cp run.omni.checkpoint elsewhere/                           keep a copy of the note
  daybook verify run.omni --trust k.pub.pem --note elsewhere/run.omni.checkpoint
  daybook attest run.omni --key new.pem --previous-key old.pub.pem   hand over to another key")]
pub(crate) struct AttestArgs {
    /// The run, or the first file of a set.
    path: PathBuf,
    /// The private key that signs.
    #[arg(long, value_name = "KEY")]
    key: PathBuf,
    /// The name of the run, which never changes; by default made from machine, path and time.
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// A key that signed before and now hands over: a PEM file or 64 hexadecimal digits. May be repeated.
    #[arg(long, value_name = "KEY")]
    previous_key: Vec<String>,
    /// Prints what was signed as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &AttestArgs) -> Outcome {
    kind_of(&args.path)?.run(&args.path, "a study has no attestation")?;
    let signer = keys::signer(&args.key)?;
    let previous: Result<Vec<_>, Failure> = args
        .previous_key
        .iter()
        .map(|text| keys::public(text))
        .collect();
    let options = AttestOptions {
        origin: args.origin.clone(),
        host: host(),
        previous_keys: previous?,
        ..AttestOptions::default()
    };
    let attestation = attest(&RealFs, &args.path, &signer, &options)?;
    let mut out = Out::for_json(args.json);
    if args.json {
        out.json(&document(&attestation, signer.public_key()))?;
    } else {
        show(&mut out, &attestation, signer.public_key())?;
    }
    out.flush()?;
    Ok(DONE)
}

fn document(attestation: &Attestation, key: PublicKey) -> serde_json::Value {
    let note = &attestation.note;
    json!({
        "origin": note.origin,
        "note": attestation.note_path,
        "leaves": attestation.leaves_path,
        "size": note.size,
        "root": durable::digest::hex(&note.root),
        "covers_records": attestation.covers_records,
        "closed": attestation.closed,
        "changed": attestation.changed,
        "key": key.id(),
        "note_key_id": durable::digest::hex(&key_id(&note.origin, key)),
    })
}

fn show(out: &mut Out, attestation: &Attestation, key: PublicKey) -> std::io::Result<()> {
    let note = &attestation.note;
    let state = if attestation.changed {
        "signed"
    } else {
        "already signed"
    };
    out.line(format_args!("{state}: {}", attestation.note_path.display()))?;
    out.line(format_args!("origin:  {}", clean(&note.origin)))?;
    out.line(format_args!(
        "covers:  {} ({} leaves)",
        count(attestation.covers_records, "record"),
        note.size
    ))?;
    out.line(format_args!("key:     {}", key.id()))?;
    let end = if attestation.closed {
        "the run is complete"
    } else {
        "the run was still open, so that more may have followed"
    };
    out.line(format_args!(
        "proves, to who trusts the key: none of these records is missing, altered or replaced; {end}"
    ))
}
