//! `daybook key`: keys for signing runs.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use durable::Access;
use durable::digest::hex;
use omniloop_core::journal::{JournalSigner, PublicKey};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::json;

use crate::failure::{DONE, Failure, Outcome};
use crate::keys;
use crate::new_file::{NewFile, refuse_existing};
use crate::output::Out;

/// Makes and shows keys for signing runs.
///
/// Who holds the private key can sign; keep it away from the runs. The public half is what `daybook
/// verify --trust` takes.
#[derive(Args, Debug)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:
  daybook key new -o k.pem            writes k.pem (yours alone) and k.pub.pem (for everyone)
  daybook key show k.pub.pem
  daybook record -o run.omni --key k.pem -- python train.py
  daybook verify run.omni --trust k.pub.pem"
)]
pub(crate) struct KeyArgs {
    #[command(subcommand)]
    verb: KeyVerb,
}

#[derive(Debug, Subcommand)]
enum KeyVerb {
    New(NewArgs),
    Show(ShowArgs),
}

/// Makes a key pair: Ed25519, the private half as PKCS#8 PEM that only its owner can read.
#[derive(Args, Debug)]
struct NewArgs {
    /// Where the private key goes; the public one goes beside it, with `.pub` in its name.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replaces keys that stand there. What the old key signed can then no longer be continued.
    #[arg(long)]
    force: bool,
    /// Prints the public half as JSON.
    #[arg(long)]
    json: bool,
}

/// Shows the public half of a key.
#[derive(Args, Debug)]
struct ShowArgs {
    /// A PEM file with a private or public key, or 64 hexadecimal digits.
    key: String,
    /// Prints it as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &KeyArgs) -> Outcome {
    match &args.verb {
        KeyVerb::New(args) => new(args),
        KeyVerb::Show(args) => show(keys::public(&args.key)?, None, args.json),
    }
}

fn new(args: &NewArgs) -> Outcome {
    let public_path = args.output.with_extension("pub.pem");
    // Both names are looked at before either file is written.
    refuse_existing(&args.output, args.force)?;
    refuse_existing(&public_path, args.force)?;
    let signer = JournalSigner::from_seed(&seed()?);
    let public = signer.public_key();
    write(&args.output, Access::Private, args.force, &signer.to_pem()?)?;
    write(&public_path, Access::Shared, args.force, &public.to_pem()?)?;
    show(public, Some((&args.output, &public_path)), args.json)
}

fn write(path: &Path, access: Access, force: bool, text: &str) -> Result<(), Failure> {
    let mut file = NewFile::create(path, access, force)?;
    file.write_all(text.as_bytes())
        .map_err(|error| Failure::io(&format!("cannot write {}", path.display()), &error))?;
    file.finish()
}

/// 32 bytes that nobody can guess, from the operating system.
fn seed() -> Result<[u8; 32], Failure> {
    let mut seed = [0; 32];
    // Up to 256 bytes come whole, or not at all.
    match getrandom(&mut seed, GetRandomFlags::empty()) {
        Ok(32) => Ok(seed),
        Ok(_) => Err(Failure::new("the system gave too few random bytes")),
        Err(error) => Err(Failure::io("cannot get random bytes", &error.into())),
    }
}

fn show(key: PublicKey, written: Option<(&Path, &Path)>, as_json: bool) -> Outcome {
    let (digits, pem) = (hex(&key.to_bytes()), key.to_pem()?);
    let mut out = Out::for_json(as_json);
    if as_json {
        let (private_file, public_file) = written.unzip();
        out.json(&json!({
            "id": key.id(),
            "key": digits,
            "pem": pem,
            "private_file": private_file,
            "public_file": public_file,
        }))?;
        return Ok(DONE);
    }
    if let Some((private, public)) = written {
        out.line(format_args!(
            "private key: {} (keep it away from the runs)",
            private.display()
        ))?;
        out.line(format_args!("public key:  {}", public.display()))?;
    }
    out.line(format_args!("id:          {}", key.id()))?;
    out.line(format_args!("hex:         {digits}"))?;
    out.line(pem.trim_end())?;
    out.flush()?;
    Ok(DONE)
}
