//! Where records are: the studies, runs, stores and servers that a walk may go to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use atune_core::replica::{Study, Trial};
use atune_core::storage::journal::{JournalReader, study_id};
use atune_core::trial::StudyId;
use durable::{FileKind, Finding, Fs as _, RealFs, Severity};
use omniloop_core::journal::segment_paths;
use omniloop_core::recorder::{Links, start_of};
use serde_json::Value;

use crate::failure::{BAD_CODE, Failure};
use crate::kind::{Kind, kind_of};
use crate::verb::trace::Traces;

/// How deep a folder is searched.
const DEPTH_MAX: usize = 3;
/// How many entries of folders are looked at.
const ENTRIES_MAX: usize = 100_000;

/// A study file.
pub(super) struct StudyFile {
    pub(super) path: PathBuf,
    pub(super) reader: JournalReader,
}

/// A study in one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StudyAt {
    pub(super) file: usize,
    pub(super) study: StudyId,
}

/// A trial of such a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TrialAt {
    pub(super) study: StudyAt,
    pub(super) number: u64,
}

/// A run, and what its start record says.
#[derive(Debug)]
pub(super) struct RunFile {
    pub(super) path: PathBuf,
    pub(super) links: Links,
    /// Where the start record says that the study is.
    study_paths: Vec<PathBuf>,
}

/// Everything that the walk may go to.
pub(super) struct Places {
    pub(super) studies: Vec<StudyFile>,
    pub(super) runs: Vec<RunFile>,
    /// Where they stand, by the paths that all names of a file lead to.
    run_at: BTreeMap<PathBuf, usize>,
    pub(super) traces: Vec<Traces>,
    /// What stands among the paths and cannot be read.
    pub(super) unreadable: Vec<Finding>,
    entries: usize,
    token: Option<String>,
    ca: Option<PathBuf>,
}

impl Places {
    pub(super) fn new(token: Option<String>, ca: Option<PathBuf>) -> Self {
        Self {
            studies: Vec::new(),
            runs: Vec::new(),
            run_at: BTreeMap::new(),
            traces: Vec::new(),
            unreadable: Vec::new(),
            entries: 0,
            token,
            ca,
        }
    }

    /// Adds what was named: a record, a server, or a folder that is searched.
    pub(super) fn add(&mut self, place: &Path) -> Result<(), Failure> {
        if let Some(url) = place.to_str().filter(|text| Traces::is_address(text)) {
            let token = self.token.as_deref();
            let server = Traces::of_server(url, token, self.ca.as_deref())?;
            self.traces.push(server);
            return Ok(());
        }
        match kind_of(place) {
            Ok(kind) => self.add_record(kind, place),
            Err(no) if no.code == "folder" => self.search(place),
            Err(no) => Err(no.into()),
        }
    }

    fn add_record(&mut self, kind: Kind, path: &Path) -> Result<(), Failure> {
        match kind {
            Kind::Run => {
                self.run_at(path);
            }
            Kind::Study => {
                self.open_study(path)?;
            }
            Kind::Store => {
                let is_known =
                    |traces: &Traces| traces.folder().is_some_and(|folder| is_same(folder, path));
                if !self.traces.iter().any(is_known) {
                    self.traces.push(Traces::of_folder(path)?);
                }
            }
            Kind::Segment => {
                return Err(kind.instead_of("a store of traces", path));
            }
        }
        Ok(())
    }

    /// Adds what a folder holds, by the names of files and the bytes in them. What cannot be read is kept as a finding.
    pub(super) fn search(&mut self, folder: &Path) -> Result<(), Failure> {
        self.search_to(folder, DEPTH_MAX)
    }

    fn search_to(&mut self, folder: &Path, depth: usize) -> Result<(), Failure> {
        let could_not = |error| Failure::io(&format!("cannot search {}", folder.display()), &error);
        let mut entries = RealFs.read_dir(folder).map_err(could_not)?;
        entries.sort();
        self.entries += entries.len();
        if self.entries > ENTRIES_MAX {
            let what = format!("{} holds more than {ENTRIES_MAX} entries", folder.display());
            return Err(Failure::new(what).with_hint("name the records themselves"));
        }
        let is_named = |path: &PathBuf| path.extension().is_some_and(|end| end == "omni");
        let runs = entries.iter().filter(|path| is_named(path));
        // Segments of a set stand beside its first file and belong to it.
        let segments: BTreeSet<PathBuf> = runs
            .flat_map(|run| segment_paths(run).unwrap_or_default().into_iter().skip(1))
            .collect();
        for path in entries {
            let extension = path.extension().unwrap_or_default();
            let is_file = match RealFs.metadata(&path).map(|found| found.kind) {
                Ok(FileKind::File) => true,
                Ok(FileKind::Directory) => false,
                _ => continue,
            };
            let is_record = extension == "omni" || extension == "atj";
            if is_file && !is_record {
                continue;
            }
            let kind = match kind_of(&path) {
                Ok(Kind::Store) => Kind::Store,
                Ok(kind @ (Kind::Run | Kind::Study)) if !segments.contains(&path) => kind,
                // The data files of a study are its own.
                Err(_) if !is_file && extension != "d" && depth > 1 => {
                    self.search_to(&path, depth - 1)?;
                    continue;
                }
                _ => continue,
            };
            if let Err(failure) = self.add_record(kind, &path) {
                self.note_unreadable(&path, &failure);
            }
        }
        Ok(())
    }

    fn note_unreadable(&mut self, path: &Path, failure: &Failure) {
        let (code, severity) = match failure.code {
            BAD_CODE => ("damaged", Severity::Damage),
            _ => ("unreadable", Severity::Unproven),
        };
        self.unreadable.push(Finding {
            code,
            severity,
            place: path.display().to_string(),
            what: failure.message.clone(),
        });
    }

    /// The study of a file, by name if it holds several. The path may be a name or an id of one that is known.
    pub(super) fn study_at(&mut self, path: &Path, name: Option<&str>) -> Result<StudyAt, Failure> {
        let spelled = path.to_string_lossy();
        if !RealFs.exists(path).unwrap_or(true)
            && let Some(known) = self.study_called(&spelled)
        {
            return Ok(known);
        }
        let file = self.open_study(path)?;
        let Some(known) = self.studies.get(file) else {
            return Err(Failure::new(format!("{spelled} is no study")));
        };
        let study = crate::verb::study::chosen(&known.reader, name)?.id;
        Ok(StudyAt { file, study })
    }

    fn open_study(&mut self, path: &Path) -> Result<usize, Failure> {
        let known = self.studies.iter();
        if let Some(at) = known
            .enumerate()
            .find(|(_, study)| is_same(&study.path, path))
        {
            return Ok(at.0);
        }
        let reader = crate::verb::study::open(path)?;
        self.studies.push(StudyFile {
            path: path.to_owned(),
            reader,
        });
        Ok(self.studies.len() - 1)
    }

    /// A trial that must be there.
    pub(super) fn trial(&self, study: StudyAt, number: u64) -> Result<TrialAt, Failure> {
        let at = TrialAt { study, number };
        if self.trial_of(at).is_some() {
            return Ok(at);
        }
        let file = self.studies.get(study.file);
        let path = file.map_or_else(String::new, |file| file.path.display().to_string());
        let what = format!("{path} has no trial {number}");
        Err(Failure::new(what).with_hint(format!("`daybook study trials {path}` lists them")))
    }

    /// What its file says of a study.
    pub(super) fn study(&self, at: StudyAt) -> Option<(&StudyFile, &Study)> {
        let file = self.studies.get(at.file)?;
        let study = file.reader.replica().study(at.study).ok()?;
        Some((file, study))
    }

    /// What its file says of a trial.
    pub(super) fn trial_of(&self, at: TrialAt) -> Option<&Trial> {
        let (file, study) = self.study(at.study)?;
        let id = study.trials.get(usize::try_from(at.number).ok()?)?;
        file.reader.replica().trial(*id).ok()
    }

    /// The name by which others know a study.
    pub(super) fn study_id(&self, at: StudyAt) -> Option<String> {
        let (file, study) = self.study(at)?;
        Some(study_id(file.reader.header(), study))
    }

    /// Every study of every file.
    pub(super) fn all_studies(&self) -> Vec<StudyAt> {
        let files = self.studies.iter().enumerate();
        let of_file = |(file, known): (usize, &StudyFile)| {
            let studies = known.reader.replica().studies().iter();
            let all: Vec<StudyAt> = studies
                .map(|study| StudyAt {
                    file,
                    study: study.id,
                })
                .collect();
            all
        };
        files.flat_map(of_file).collect()
    }

    /// The run at a path, opened if it was not known. One that cannot be read says nothing of itself.
    pub(super) fn run_at(&mut self, path: &Path) -> usize {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some(at) = self.run_at.get(&real) {
            return *at;
        }
        let start = start_of(path).unwrap_or_default();
        let at = self.runs.len();
        self.runs.push(RunFile {
            path: path.to_owned(),
            links: Links::from_start(&start),
            study_paths: study_paths(path, &start),
        });
        self.run_at.insert(real, at);
        at
    }

    /// The run of this name, if it is among those that are known.
    pub(super) fn run_named(&self, id: &str) -> Option<usize> {
        self.runs
            .iter()
            .position(|run| run.links.run_id.as_deref() == Some(id))
    }

    /// The study that a run names: one that is known, or the one at the path that the run was recorded with.
    pub(super) fn study_of_run(&mut self, run: usize) -> Option<StudyAt> {
        let run = self.runs.get(run)?;
        let (id, paths) = (run.links.study_id.clone()?, run.study_paths.clone());
        if let Some(known) = self.study_named(&id) {
            return Some(known);
        }
        for path in paths {
            let is_open =
                matches!(kind_of(&path), Ok(Kind::Study)) && self.open_study(&path).is_ok();
            if let Some(known) = self.study_named(&id).filter(|_| is_open) {
                return Some(known);
            }
        }
        None
    }

    /// The known study with this name or id.
    fn study_called(&self, name: &str) -> Option<StudyAt> {
        let named = |at: &StudyAt| {
            let known = self.study(*at);
            known.is_some_and(|(_, study)| study.config.name == name)
        };
        let by_name = self.all_studies().into_iter().find(named);
        by_name.or_else(|| self.study_named(name))
    }

    /// The known study that others call this.
    pub(super) fn study_named(&self, id: &str) -> Option<StudyAt> {
        let all = self.all_studies();
        all.into_iter()
            .find(|study| self.study_id(*study).as_deref() == Some(id))
    }
}

/// Where the study of a run may be: as the tuner was given it, from where it ran, and beside the folder of the run.
fn study_paths(run: &Path, start: &Value) -> Vec<PathBuf> {
    let text = |pointer: &str| start.pointer(pointer).and_then(Value::as_str);
    let Some(study) = text("/study/path").map(Path::new) else {
        return Vec::new();
    };
    let mut paths = vec![study.to_owned()];
    if let Some(cwd) = text("/cwd") {
        paths.push(Path::new(cwd).join(study));
    }
    let folder = run.parent().unwrap_or(Path::new(""));
    if let Some(name) = study.file_name() {
        paths.push(folder.join(name));
        paths.push(folder.join("..").join(name));
    }
    paths
}

/// Whether two paths are one file.
fn is_same(a: &Path, b: &Path) -> bool {
    a == b
        || match (a.canonicalize(), b.canonicalize()) {
            (Ok(a), Ok(b)) => a == b,
            _ => false,
        }
}
