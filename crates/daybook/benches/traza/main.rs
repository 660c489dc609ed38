//! `cargo dev bench traza`: what a server of traces does in a second, and how long its callers wait, beside the reference's
//! released server where there is one. The method is in `docs/benchmarks/traza.md`.

mod ask;
mod corpus;
mod figure;
#[path = "../../../traza/benches/traza-store/folder.rs"]
mod folder;
mod ingest;
mod load;
#[path = "../../../traza/benches/traza-segment/machine.rs"]
mod machine;
mod server;
#[path = "../../../traza/benches/traza-segment/spans/mod.rs"]
mod spans;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use durable::{Fs as _, RealFs};
use serde_json::json;

use crate::corpus::Corpus;
use crate::figure::{Figure, Measured};
use crate::server::{Program, Server};
use crate::spans::Profile;

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

/// How spans are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Encoding {
    /// `POST /v1/spans` with an array of spans.
    Json,
    /// `POST /v1/traces` with an export request of OTLP in protobuf.
    Protobuf,
}

/// Measures servers of traces.
#[derive(Debug, Parser)]
struct Options {
    /// Few spans: shows that everything works.
    #[arg(long)]
    quick: bool,
    /// Only this profile.
    #[arg(long, value_enum)]
    profile: Option<Profile>,
    /// Only this encoding; questions and export are measured with `json`.
    #[arg(long, value_enum)]
    encoding: Option<Encoding>,
    /// So many spans instead of the usual ones.
    #[arg(long)]
    spans: Option<usize>,
    /// Spans of a call.
    #[arg(long, default_value_t = 500)]
    batch: usize,
    /// Connections that send at one time.
    #[arg(long, default_value_t = 4)]
    connections: usize,
    /// Instead of the figures one by one: 64 connections that write and read for so many seconds.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    load: Option<u64>,
    /// The server that is measured [default: the one of this build].
    #[arg(long, value_name = "FILE")]
    server: Option<PathBuf>,
    /// The reference's server [default: this server alone].
    #[arg(long, value_name = "FILE")]
    peer: Option<PathBuf>,
    /// Folder for the stores, which are removed [default: the build's own temporary folder].
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes the JSON document there instead of to standard output.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Given by cargo to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Options {
    fn corpora(&self) -> Vec<(Profile, usize)> {
        let (generic, llm) = if self.quick {
            (5_000, 1_500)
        } else {
            (200_000, 50_000)
        };
        [(Profile::Generic, generic), (Profile::Llm, llm)]
            .into_iter()
            .filter(|(profile, _)| self.profile.is_none_or(|only| only == *profile))
            .map(|(profile, usual)| (profile, self.spans.unwrap_or(usual)))
            .collect()
    }

    fn programs(&self) -> Vec<Program> {
        let ours = Program {
            name: "this server",
            path: self
                .server
                .clone()
                .unwrap_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_traza-server"))),
        };
        let peer = self.peer.clone().map(|path| Program {
            name: "the reference",
            path,
        });
        std::iter::once(ours).chain(peer).collect()
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            writeln!(io::stderr(), "traza bench: {error}").ok();
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let dir = options.dir.as_deref();
    let dir = dir.unwrap_or(Path::new(env!("CARGO_TARGET_TMPDIR")));
    RealFs.create_dir_all(dir)?;
    let programs = options.programs();
    let machine = machine::facts()?;
    let mut corpora = Vec::new();
    for (profile, spans) in options.corpora() {
        let scratch = tempfile::tempdir_in(dir)?;
        let name = match options.load {
            Some(seconds) => format!("{} for {seconds} s", profile.name()),
            None => format!("{} {}k", profile.name(), spans / 1000),
        };
        let figures = match options.load {
            Some(seconds) => {
                let one_program =
                    |program| load::measure(program, profile, seconds, scratch.path());
                say(&format!("{name}: 64 connections"))?;
                figure::side_by_side(programs.iter().map(one_program).collect::<Result<_>>()?)
            }
            None => one_by_one(
                options,
                &name,
                &Corpus::new(profile, spans, options.batch)?,
                scratch.path(),
            )?,
        };
        corpora.push((name, figures));
    }
    let mut text = String::new();
    for (name, figures) in &corpora {
        figure::write_table(&mut text, name, figures);
    }
    let corpora = corpora.iter().map(|(name, figures)| {
        let figures: Vec<_> = figures.iter().map(Figure::to_json).collect();
        json!({ "corpus": name, "figures": figures })
    });
    let report = json!({
        "machine": machine,
        "command": std::env::args().skip(1).collect::<Vec<_>>(),
        "corpora": corpora.collect::<Vec<_>>(),
    });
    let document = serde_json::to_string_pretty(&report)? + "\n";
    match &options.json {
        Some(path) => durable::publish(&RealFs, path, document.as_bytes())?,
        None => io::stdout().write_all(document.as_bytes())?,
    }
    io::stderr().write_all(text.as_bytes())?;
    Ok(())
}

/// Every figure by itself. The servers take turns, also between one question and the next.
fn one_by_one(
    options: &Options,
    name: &str,
    corpus: &Corpus,
    scratch: &Path,
) -> Result<Vec<Figure>> {
    let programs = options.programs();
    let mut figures = Vec::new();
    for encoding in [Encoding::Protobuf, Encoding::Json] {
        if options.encoding.is_some_and(|only| only != encoding) {
            continue;
        }
        let mut filled: Vec<Server> = Vec::new();
        let mut measured = Vec::new();
        for (number, program) in programs.iter().enumerate() {
            say(&format!("{name}: {} takes in {encoding:?}", program.name))?;
            let server = Server::start(program, &scratch.join(format!("{encoding:?}-{number}")))?;
            measured.push(ingest::measure(
                &server,
                corpus,
                encoding,
                options.connections,
            )?);
            match encoding {
                Encoding::Protobuf => server.remove()?,
                Encoding::Json => {
                    server.settle()?;
                    filled.push(server);
                }
            }
        }
        figures.extend(figure::side_by_side(measured));
        if filled.is_empty() {
            continue;
        }
        say(&format!("{name}: asking"))?;
        figures.extend(figure::side_by_side(ask::measure(
            &filled,
            corpus,
            options.quick,
        )?));
        say(&format!("{name}: exporting"))?;
        figures.extend(figure::side_by_side(ask::export(&filled, corpus)?));
        let sizes = filled.iter().map(|server| server.sizes(corpus));
        figures.extend(figure::side_by_side(sizes.collect::<Result<_>>()?));
        let mut restarts = Vec::new();
        for (server, program) in filled.into_iter().zip(&programs) {
            let (server, took) = server.restart(program)?;
            server.remove()?;
            let millis = took.as_secs_f64() * 1e3;
            restarts.push(vec![Measured::new(
                "killed, until the next start answers",
                "ms",
                millis,
            )]);
        }
        figures.extend(figure::side_by_side(restarts));
    }
    Ok(figures)
}

/// Where the run has come to, for whoever waits.
pub(crate) fn say(what: &str) -> io::Result<()> {
    writeln!(io::stderr(), "# {what}")
}
