//! The run of a trial: what the trial keeps of it, so that `daybook trail` finds each from the other
//! (`docs/guide/trails.md`).

use std::path::{Path, PathBuf};

use atune_core::replica::Replica;
use atune_core::storage::StorageError;
use atune_core::storage::journal::{read_header, study_id};
use atune_core::study;
use durable::{Outcome, RealFs, Severity};
use omniloop_core::journal::{self, SetOptions, verify_set};
use omniloop_core::recorder::{Links, RUN_HEAD, RUN_ID, RUN_PATH, start_of};
use serde_json::Value;

/// Where a study is, and what others call it.
pub(super) struct Place {
    /// The file, by a path that stays true when the process goes elsewhere.
    pub(super) path: PathBuf,
    /// The attribute `study.id`.
    pub(super) id: String,
}

impl Place {
    /// The place of a study that was opened at `path`.
    pub(super) fn of(path: PathBuf, study: &study::Study) -> study::Result<Self> {
        let header = read_header(&RealFs, &path).map_err(StorageError::from)?;
        let mut id = String::new();
        study.storage().read(&mut |replica: &Replica| {
            if let Ok(known) = replica.study(study.id()) {
                id = study_id(&header, known);
            }
        })?;
        Ok(Self { path, id })
    }

    /// A path as the study keeps it: relative to its folder if it lies in it, so that the two can be moved
    /// together.
    fn kept(&self, path: &Path) -> String {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        let kept = path.strip_prefix(folder).unwrap_or(path);
        kept.to_string_lossy().into_owned()
    }
}

/// Why a run cannot be kept.
pub(super) enum Fault {
    /// It cannot be read.
    Journal(journal::Error),
    /// It contradicts its own proofs: where and how.
    Damaged(String),
    /// It is another trial's.
    Other(String),
}

/// What trial `number` of the study at `place` keeps of the run at `path`: attributes and their values.
///
/// The whole run is verified: a head that nobody has checked proves nothing. A run that is not sealed has no
/// head yet.
pub(super) fn kept_of(
    path: &Path,
    place: Option<&Place>,
    number: u64,
) -> Result<Vec<(&'static str, Value)>, Fault> {
    let verified = verify_set(&RealFs, path, &SetOptions::default(), &mut |_, _, _| {});
    let verdict = verified.map_err(Fault::Journal)?.verdict();
    if verdict.verdict == Outcome::Damaged {
        let damage = |finding: &&durable::Finding| finding.severity == Severity::Damage;
        let first = verdict.findings.iter().find(damage);
        let first = first.map(|finding| format!("{}: {}", finding.place, finding.what));
        return Err(Fault::Damaged(first.unwrap_or_default()));
    }
    let links = start_of(path).map_or_else(Links::default, |start| Links::from_start(&start));
    if let (Some(study), Some(place)) = (&links.study_id, place)
        && (*study != place.id || links.trial_number != Some(number))
    {
        let of = links.trial_number;
        let of = of.map_or_else(|| "no trial".to_owned(), |number| format!("trial {number}"));
        return Err(Fault::Other(format!(
            "{} says that it is of {of} of the study {study}; this is trial {number} of {}",
            path.display(),
            place.id
        )));
    }
    let is_sealed = verdict.facts.get("sealed") == Some(&Value::Bool(true));
    let head = verdict.facts.get("head").filter(|_| is_sealed);
    let kept = place.map(|place| place.kept(path));
    let kept = kept.unwrap_or_else(|| path.to_string_lossy().into_owned());
    Ok(vec![
        (RUN_PATH, kept.into()),
        (RUN_ID, links.run_id.into()),
        // Also where there is none: the trial may have kept that of an earlier run.
        (RUN_HEAD, head.cloned().unwrap_or_default()),
    ])
}
