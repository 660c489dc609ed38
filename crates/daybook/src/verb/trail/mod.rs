//! `daybook trail`: from a trial, a run or a trace to everything that is linked with it, every hop verified.

mod hops;
mod places;
mod show;
mod walk;

use std::path::{Path, PathBuf};

use clap::Args;
use durable::{Fs as _, RealFs};

use crate::failure::{Failure, Outcome};
use crate::kind::{Kind, kind_of};
use crate::output::Out;
use places::{Places, TrialAt};
use walk::Walk;

/// Walks from a trial to its run and its trace, or from any of them to the others, and verifies every hop.
///
/// The trial keeps the head of its run's hash chain, and the run must end with it; the run says which trial it belongs
/// to, and must say the right one; runs, studies and stores are verified whole. What is named and is nowhere among the
/// paths is "not here"; what contradicts is damage.
///
/// A folder among the paths is searched for `.omni` and `.atj` files and stores, three levels deep. Without a path, the
/// folder of the study or run is searched, or for a trace the current one; where a study and a run name each other,
/// they are found without being searched for.
///
/// The exit code is 0 when everything that is named is here and holds, 1 when something is damaged or contradicts, 2 when
/// something is not here or cannot be proved. The trace of a trial counts as missing only if there is a store or a server
/// to look for it in: commands need not emit spans.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook trail study.atj#12
  daybook trail study.atj#12 traces/
  daybook trail runs/trial-12.omni http://127.0.0.1:4318
  daybook trail 4bf92f3577b34da6a3ce929d0e0e4736 study.atj traces/
  daybook trail study.atj#12 . --json | jq '.nodes[] | {kind, name, outcome}'")]
pub(crate) struct TrailArgs {
    /// A trial as STUDY#NUMBER, a run, the id of a trace, or the id of a run.
    subject: String,
    /// Studies, runs, stores, servers, and folders that hold such.
    #[arg(value_name = "PATH")]
    places: Vec<PathBuf>,
    /// The study, when its file holds several.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// The token that a server knows; without it that of the environment, `TRAZA_TOKEN`.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// The certificates, in PEM, that vouch for a server that is asked over TLS.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

/// Where the walk begins.
enum Subject {
    Trial(TrialAt),
    /// The place of a run among those that are known.
    Run(usize),
    Trace(String),
}

pub(crate) fn run(args: &TrailArgs) -> Outcome {
    let mut places = Places::new(args.token.clone(), args.ca.clone());
    let begin = begin(args);
    match &begin {
        // Before anything that only stands beside it.
        Begin::Run(path) => places.add(path)?,
        Begin::Trial { path, .. } if RealFs.exists(path).unwrap_or(true) => places.add(path)?,
        Begin::Trial { .. } | Begin::Id(_) => {}
    }
    for place in &args.places {
        places.add(place)?;
    }
    if args.places.is_empty() {
        places.search(&begin.folder())?;
    }
    let subject = begin.subject(args, &mut places)?;
    let mut walk = Walk::new(&mut places);
    walk.from(&subject)?;
    let trail = walk.end();
    let mut out = Out::for_json(args.json);
    show::print(&mut out, &args.subject, &trail, args.json)?;
    std::io::Write::flush(&mut out)?;
    Ok(trail.outcome().exit_code())
}

/// What the subject is, by its spelling and what stands under that name.
enum Begin {
    Trial { path: PathBuf, number: u64 },
    Run(PathBuf),
    Id(String),
}

fn begin(args: &TrailArgs) -> Begin {
    if let Some((path, number)) = args.subject.rsplit_once('#')
        && let Ok(number) = number.parse()
    {
        let path = PathBuf::from(path);
        return Begin::Trial { path, number };
    }
    let path = Path::new(&args.subject);
    let is_path = args.subject.contains('/') || path.extension().is_some();
    match kind_of(path) {
        Ok(_) => Begin::Run(path.to_owned()),
        Err(_) if is_path => Begin::Run(path.to_owned()),
        Err(_) => Begin::Id(args.subject.clone()),
    }
}

impl Begin {
    /// What is searched when nothing was named.
    fn folder(&self) -> PathBuf {
        let folder = match self {
            Self::Trial { path, .. } | Self::Run(path) => path.parent(),
            Self::Id(_) => None,
        };
        let folder = folder.filter(|folder| !folder.as_os_str().is_empty());
        folder.unwrap_or(Path::new(".")).to_owned()
    }

    fn subject(&self, args: &TrailArgs, places: &mut Places) -> Result<Subject, Failure> {
        match self {
            Self::Trial { path, number } => {
                let study = places.study_at(path, args.study.as_deref())?;
                places.trial(study, *number).map(Subject::Trial)
            }
            Self::Run(path) => match kind_of(path)? {
                Kind::Run => Ok(Subject::Run(places.run_at(path))),
                Kind::Study => {
                    let what = format!("{} is a study: which trial of it?", path.display());
                    Err(Failure::new(what).with_hint(format!("{}#NUMBER", path.display())))
                }
                other => Err(other.instead_of("a trial, a run or a trace", path)),
            },
            Self::Id(id) => match places.run_named(id) {
                Some(run) => Ok(Subject::Run(run)),
                None => Ok(Subject::Trace(id.clone())),
            },
        }
    }
}
