//! `daybook study`: makes study files, and shows what they hold.

mod compare;
mod create;
mod difference;
mod export;
mod facts;
mod importance;
mod listing;
mod plot;
mod tail;
mod values;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use atune_core::replica::Study;
use atune_core::storage::journal::JournalReader;
use atune_core::trial::{StudyId, TrialState};
use clap::{Args, Subcommand, ValueEnum};

use crate::failure::{DONE, Failure, Outcome};
use crate::kind::{Kind, kind_of};
use crate::output::Out;
pub(crate) use difference::first_difference;
pub(crate) use facts::{print_facts, summary};
pub(crate) use values::{param_text, trial as trial_json};

/// Creates, shows and exports studies.
///
/// A study file is read without a lock, also while others write to it: what is shown is the history as
/// its head names it at that moment.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook study create study.atj --minimize loss
  daybook study show study.atj
  daybook study best study.atj --json
  daybook study trials study.atj --state failed --limit 0
  daybook study export study.atj --to csv -o trials.csv
  daybook study importance study.atj
  daybook study plot study.atj -o study.html
  daybook study ops study.atj | tail -5")]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    verb: StudyVerb,
}

#[derive(Debug, Subcommand)]
enum StudyVerb {
    Create(create::CreateArgs),
    /// What the study is about, its trials by state, and its best.
    Show(Which),
    /// The trials, one per line.
    Trials(TrialsArgs),
    /// The best trial, or those that no other dominates.
    Best(Which),
    /// What users attached to the study and its trials.
    Attrs(Which),
    /// The trials as JSON Lines or comma-separated values.
    Export(export::StudyExportArgs),
    Importance(importance::ImportanceArgs),
    Plot(plot::PlotArgs),
    Compare(compare::CompareArgs),
    /// The operations that make up the file, one per line, as they stand in it.
    Ops(OpsArgs),
    Tail(tail::TailArgs),
}

/// A study of a file.
#[derive(Args, Debug)]
struct Which {
    /// The study file.
    path: PathBuf,
    /// Its name, when the file holds several.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct TrialsArgs {
    #[command(flatten)]
    which: Which,
    /// Only trials in this state. May be repeated.
    #[arg(long, value_enum)]
    state: Vec<State>,
    /// Shows at most so many trials, the last ones; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
}

#[derive(Args, Debug)]
struct OpsArgs {
    /// The study file.
    path: PathBuf,
    /// Only operations after this sequence number.
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: u64,
    /// Prints one JSON array instead of one object per line.
    #[arg(long)]
    json: bool,
}

/// A state, as the command line spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    Waiting,
    Running,
    Paused,
    Complete,
    Pruned,
    Failed,
}

impl State {
    fn of(self) -> TrialState {
        match self {
            Self::Waiting => TrialState::Waiting,
            Self::Running => TrialState::Running,
            Self::Paused => TrialState::Paused,
            Self::Complete => TrialState::Complete,
            Self::Pruned => TrialState::Pruned,
            Self::Failed => TrialState::Failed,
        }
    }
}

pub(crate) fn run(args: &StudyArgs) -> Outcome {
    match &args.verb {
        StudyVerb::Create(args) => create::run(args),
        StudyVerb::Show(which) => with_study(which, listing::show),
        StudyVerb::Best(which) => with_study(which, listing::best),
        StudyVerb::Attrs(which) => with_study(which, listing::attrs),
        StudyVerb::Trials(args) => {
            let states: Vec<TrialState> = args.state.iter().map(|state| state.of()).collect();
            with_study(&args.which, |out, reader, study, as_json| {
                listing::trials(out, reader, study, &states, args.limit, as_json)
            })
        }
        StudyVerb::Export(args) => export::run(args),
        StudyVerb::Importance(args) => importance::run(args),
        StudyVerb::Plot(args) => plot::run(args),
        StudyVerb::Compare(args) => compare::run(args),
        StudyVerb::Tail(args) => tail::run(args),
        StudyVerb::Ops(args) => listing::ops(&args.path, args.after, args.json),
    }
}

fn with_study(
    which: &Which,
    print: impl FnOnce(&mut Out, &JournalReader, &Study, bool) -> std::io::Result<()>,
) -> Outcome {
    let reader = open(&which.path)?;
    let study = chosen(&reader, which.study.as_deref())?;
    let mut out = Out::for_json(which.json);
    print(&mut out, &reader, study, which.json)?;
    out.flush()?;
    Ok(DONE)
}

/// Opens a study file; another kind of record is named.
pub(crate) fn open(path: &Path) -> Result<JournalReader, Failure> {
    match kind_of(path)? {
        Kind::Study => Ok(JournalReader::open(path)?),
        other => {
            let hint = format!("daybook inspect {}", path.display());
            Err(other.instead_of("a study", path).with_hint(hint))
        }
    }
}

/// The study that was asked for, or the only one.
pub(crate) fn chosen<'a>(
    reader: &'a JournalReader,
    name: Option<&str>,
) -> Result<&'a Study, Failure> {
    let replica = reader.replica();
    let names = || {
        let names: Vec<&str> = replica
            .studies()
            .iter()
            .map(|s| s.config.name.as_str())
            .collect();
        names.join(", ")
    };
    if let Some(name) = name {
        return replica.study_by_name(name).ok_or_else(|| {
            let what = format!("{} holds no study named {name:?}", reader.path().display());
            Failure::new(what).with_hint(format!("it holds: {}", names()))
        });
    }
    match replica.studies() {
        [only] => Ok(only),
        [] => Err(Failure::new(format!(
            "{} holds no study yet",
            reader.path().display()
        ))),
        _ => {
            let what = format!("{} holds several studies", reader.path().display());
            Err(Failure::new(what).with_hint(format!("choose one with --study: {}", names())))
        }
    }
}

/// The identity of the study that was asked for, or of the only one.
fn chosen_id(reader: &JournalReader, name: Option<&str>) -> Result<StudyId, Failure> {
    chosen(reader, name).map(|study| study.id)
}
