//! Where two studies part.

use std::path::Path;

use atune_core::replica::{Study, Trial};
use atune_core::storage::journal::JournalReader;
use serde::Serialize;
use serde_json::{Value, json};

use super::{chosen, open, values};
use crate::failure::Failure;

/// The first difference of two studies.
#[derive(Debug, Serialize)]
pub(crate) struct Difference {
    /// The trial's number; `None` when the studies themselves differ.
    pub(crate) trial: Option<u64>,
    /// What differs.
    pub(crate) field: String,
    pub(crate) a: Value,
    pub(crate) b: Value,
}

/// What of a study and of a trial is compared, in this order. Who ran it and when is left out.
const OF_STUDY: [&str; 3] = ["directions", "metric_names", "space"];
const OF_TRIAL: [&str; 5] = ["params", "reports", "values", "state", "error"];

/// Compares the only study of either file, trial by trial.
pub(crate) fn first_difference(a: &Path, b: &Path) -> Result<Option<Difference>, Failure> {
    let (a, b) = (open(a)?, open(b)?);
    let (left, right) = (chosen(&a, None)?, chosen(&b, None)?);
    let differing = members(&values::study(left), &values::study(right), &OF_STUDY, None);
    if differing.is_some() {
        return Ok(differing);
    }
    let mut rights = trials(&b, right);
    for left in trials(&a, left) {
        let Some(right) = rights.next() else {
            return Ok(Some(only_one(left.number, true)));
        };
        let number = Some(left.number);
        let differing = members(
            &values::trial(left),
            &values::trial(right),
            &OF_TRIAL,
            number,
        );
        if differing.is_some() {
            return Ok(differing);
        }
    }
    Ok(rights.next().map(|right| only_one(right.number, false)))
}

fn trials<'r>(reader: &'r JournalReader, study: &Study) -> impl Iterator<Item = &'r Trial> {
    let trials = reader.replica().trials_of(study.id);
    trials.into_iter().flatten()
}

fn members(a: &Value, b: &Value, names: &[&str], trial: Option<u64>) -> Option<Difference> {
    names.iter().find_map(|&name| {
        let (a, b) = (a.get(name)?, b.get(name)?);
        (a != b).then(|| Difference {
            trial,
            field: name.to_owned(),
            a: a.clone(),
            b: b.clone(),
        })
    })
}

fn only_one(trial: u64, is_in_a: bool) -> Difference {
    Difference {
        trial: Some(trial),
        field: "there is no such trial in one of them".to_owned(),
        a: json!(is_in_a),
        b: json!(!is_in_a),
    }
}
