//! What a path is, told from the bytes that stand there.

use std::io;
use std::path::{Path, PathBuf};

use durable::{FileKind, Fs as _, RealFs};
use omniloop_core::journal::{Error, JournalPlayer, PlayerOptions};

use crate::failure::Failure;

/// A kind of record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An `.omni` journal, or the first segment of a rotated set.
    Run,
    /// An `.atj` study file.
    Study,
    /// A segment of a trace store.
    Segment,
    /// The folder of a trace store.
    Store,
}

impl Kind {
    /// Goes on with a run; of another kind it says what to do instead.
    pub(crate) fn run(self, path: &Path, instead: &str) -> Result<(), Failure> {
        match self {
            Self::Run => Ok(()),
            Self::Study | Self::Segment | Self::Store => {
                Err(self.instead_of("a run", path).with_hint(instead))
            }
        }
    }

    /// Says that the path is of this kind, and not what was asked for.
    pub(crate) fn instead_of(self, wanted: &str, path: &Path) -> Failure {
        let is = match self {
            Self::Run => "a run",
            Self::Study => "a study",
            Self::Segment => "a segment of traces",
            Self::Store => "a store of traces",
        };
        Failure::new(format!("{} is {is}, not {wanted}", path.display()))
    }
}

/// Why a path is no record: a stable word for programs, and the words for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoRecord {
    pub(crate) code: &'static str,
    pub(crate) failure: Failure,
}

impl From<NoRecord> for Failure {
    fn from(no: NoRecord) -> Self {
        no.failure
    }
}

/// Tells what stands at `path`. A damaged or newer record still is one: its own verb says what is
/// wrong with it.
pub(crate) fn kind_of(path: &Path) -> Result<Kind, NoRecord> {
    let no = |code, failure| Err(NoRecord { code, failure });
    let shown = path.display();
    let unreadable = |error: &io::Error| Failure::io(&format!("cannot open {shown}"), error);
    let found = match RealFs.metadata(path) {
        Ok(found) => found,
        Err(error) => return no("unreadable", unreadable(&error)),
    };
    match found.kind {
        FileKind::Directory
            if is_store(path).map_err(|error| unreadable_folder(path, &error))? =>
        {
            return Ok(Kind::Store);
        }
        FileKind::Directory => {
            let failure = Failure::new(format!("{shown} is a folder, and no store of records"));
            let hint = format!(
                "name a file in it, such as {}",
                path.join("run.omni").display()
            );
            return no("folder", failure.with_hint(hint));
        }
        FileKind::Other => {
            let what =
                format!("{shown} is a pipe, a socket or a device; a record is a regular file");
            return no("not_a_file", Failure::new(what));
        }
        FileKind::File if found.len == 0 => {
            return no(
                "empty_file",
                Failure::new(format!("{shown} is empty: no record was begun")),
            );
        }
        FileKind::File => {}
    }
    let starts_with = |start: &[u8]| {
        starts_with(path, start).map_err(|error| NoRecord {
            code: "unreadable",
            failure: unreadable(&error),
        })
    };
    if starts_with(STUDY_START)? {
        return Ok(Kind::Study);
    }
    if starts_with(&traza::segment::layout::MAGIC)? {
        return Ok(Kind::Segment);
    }
    let lenient = PlayerOptions {
        lenient: true,
        ..PlayerOptions::default()
    };
    match JournalPlayer::open_with(&RealFs, path, lenient) {
        Err(Error::NotAJournal { .. }) => {
            let failure = Failure::new(format!("{shown} is no record that daybook knows"));
            let hint = "what a file is, is told from its bytes; daybook reads .omni runs, .atj studies, .seg segments and \
                        folders that are stores of traces";
            no("unknown_kind", failure.with_hint(hint))
        }
        Err(Error::Io { source, .. }) => no("unreadable", unreadable(&source)),
        Ok(_) | Err(_) => Ok(Kind::Run),
    }
}

/// A store names its generation in a file, and keeps what it holds beside that.
fn is_store(path: &Path) -> io::Result<bool> {
    let has = |name: &str| RealFs.exists(&path.join(name));
    Ok(has("CURRENT")? && (has("wal.log")? || has("generations")? || has_segment(path)?))
}

/// True for a folder with a segment file, also of a store that has no generation yet.
pub(crate) fn has_segment(path: &Path) -> io::Result<bool> {
    let is_segment = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("segment-") && name.ends_with(".seg")
    };
    Ok(RealFs.read_dir(path)?.iter().any(is_segment))
}

fn unreadable_folder(path: &Path, error: &io::Error) -> NoRecord {
    NoRecord {
        code: "unreadable",
        failure: Failure::io(&format!("cannot open {}", path.display()), error),
    }
}

/// A study file starts with its header line.
const STUDY_START: &[u8] = br#"{"record":"header""#;

fn starts_with(path: &Path, start: &[u8]) -> io::Result<bool> {
    let mut bytes = vec![0; start.len()];
    match RealFs.open(path)?.read_exact_at(0, &mut bytes) {
        Ok(()) => Ok(bytes == start),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
