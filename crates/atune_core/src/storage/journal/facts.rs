//! Looking at the lease of a study without taking part.

use std::path::Path;

use durable::Fs;
use serde::Serialize;

use super::error::{JournalError, Result};
use super::identity::Identity;
use super::lease::{LeaseFolder, Owner};
use super::reader::data_folder;
use super::waiting::Waiting;

/// Who holds the lease of a study, or held it last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseFacts {
    /// The generation.
    pub generation: u64,
    /// Whether it is held.
    pub is_held: bool,
    /// Its owner; absent when that cannot be read.
    pub owner: Option<Owner>,
    /// Whether the owner ran on this machine and is gone.
    pub is_owner_gone: bool,
    /// How many processes wait for it.
    pub waiting: usize,
}

/// Looks at the lease of the study at `path`, without taking part. `None`: nobody ever held it.
///
/// # Errors
/// `Io` when the folder of data files cannot be listed.
pub fn lease_facts(fs: &dyn Fs, path: &Path) -> Result<Option<LeaseFacts>> {
    let folder = data_folder(path);
    if !fs
        .exists(&folder)
        .map_err(JournalError::io("look at", &folder))?
    {
        return Ok(None);
    }
    let leases = LeaseFolder {
        fs,
        folder: &folder,
    };
    let survey = leases.survey()?;
    if survey.largest == 0 {
        return Ok(None);
    }
    let owner = leases.owner(survey.largest, survey.is_held);
    let is_owner_gone = survey.is_held
        && owner.as_ref().is_some_and(|owner| {
            leases.is_owner_gone(survey.largest, owner, &Identity::of_this_process())
        });
    Ok(Some(LeaseFacts {
        generation: survey.largest,
        is_held: survey.is_held,
        owner,
        is_owner_gone,
        waiting: Waiting {
            fs,
            folder: &folder.join("waiting"),
        }
        .entered()
        .len(),
    }))
}
