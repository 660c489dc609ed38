//! Schedulers by their names.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{
    AshaScheduler, HyperbandScheduler, MedianScheduler, NoScheduler, PatientScheduler,
    PercentileScheduler, PopulationScheduler, Scheduler, ThresholdScheduler, WilcoxonScheduler,
};

/// Why there is no such scheduler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// No scheduler has this name.
    #[error("no scheduler named {kind:?}; there are {}", SCHEDULER_KINDS.join(", "))]
    UnknownKind {
        /// The name that was asked for.
        kind: String,
    },
    /// The scheduler has no such option.
    #[error("scheduler {kind:?} has no option {option:?}; it has {}", if .known.is_empty() { "none".to_owned() } else { .known.join(", ") })]
    UnknownOption {
        /// The scheduler.
        kind: &'static str,
        /// The option that was given.
        option: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// An option has a value that the scheduler cannot use.
    #[error("option {option:?} of scheduler {kind:?} is {found}: {fault}")]
    BadOption {
        /// The scheduler.
        kind: &'static str,
        /// The option.
        option: String,
        /// The value.
        found: String,
        /// What is wrong with it.
        fault: String,
    },
}

type Made = Result<Arc<dyn Scheduler>, SchedulerError>;
type Make = fn(&'static str, &Value) -> Made;

/// Every scheduler: its name, and how it is made of its options.
const SCHEDULERS: &[(&str, Make)] = &[
    ("none", |kind, given| {
        check_names(kind, given, &Value::Object(serde_json::Map::new()))?;
        Ok(Arc::new(NoScheduler))
    }),
    ("median", made::<MedianScheduler>),
    ("percentile", made::<PercentileScheduler>),
    ("patient", patient),
    ("threshold", made::<ThresholdScheduler>),
    ("asha", made::<AshaScheduler>),
    ("hyperband", made::<HyperbandScheduler>),
    ("wilcoxon", made::<WilcoxonScheduler>),
    ("pbt", made::<PopulationScheduler>),
];

/// The names of all schedulers.
#[expect(
    clippy::indexing_slicing,
    reason = "while it is compiled: an index out of range does not compile"
)]
pub const SCHEDULER_KINDS: [&str; SCHEDULERS.len()] = {
    let mut kinds = [""; SCHEDULERS.len()];
    let mut at = 0;
    while at < SCHEDULERS.len() {
        kinds[at] = SCHEDULERS[at].0;
        at += 1;
    }
    kinds
};

/// The scheduler of this name with these options: an object, of which each member may be missing, or `null`.
///
/// # Errors
/// There is no such scheduler, or it has no such option, or the option no such value.
pub fn by_kind(kind: &str, options: &Value) -> Made {
    match SCHEDULERS.iter().find(|(name, _)| *name == kind) {
        Some((name, make)) => make(name, options),
        None => Err(SchedulerError::UnknownKind {
            kind: kind.to_owned(),
        }),
    }
}

fn made<T>(kind: &'static str, given: &Value) -> Made
where
    T: Scheduler + Default + Serialize + DeserializeOwned + 'static,
{
    let mut all = super::options_of(&T::default());
    check_names(kind, given, &all)?;
    // One by one, so that the error names the one that is wrong.
    for (option, value) in given.as_object().into_iter().flatten() {
        if let Some(place) = all.get_mut(option) {
            *place = value.clone();
        }
        serde_json::from_value::<T>(all.clone()).map_err(|error| SchedulerError::BadOption {
            kind,
            option: option.clone(),
            found: value.to_string(),
            fault: error.to_string(),
        })?;
    }
    let scheduler: T = serde_json::from_value(all).unwrap_or_default();
    Ok(Arc::new(scheduler))
}

fn patient(kind: &'static str, given: &Value) -> Made {
    let mut scheduler = PatientScheduler::default();
    check_names(kind, given, &scheduler.options())?;
    let bad = |option: &str, value: &Value, fault: &str| SchedulerError::BadOption {
        kind,
        option: option.to_owned(),
        found: value.to_string(),
        fault: fault.to_owned(),
    };
    for (option, value) in given.as_object().into_iter().flatten() {
        match option.as_str() {
            "patience" => {
                let patience = value.as_u64().filter(|patience| *patience > 0);
                scheduler.patience =
                    patience.ok_or_else(|| bad(option, value, "it is a whole number from 1"))?;
            }
            "min_delta" => {
                let delta = value.as_f64().filter(|delta| *delta >= 0.0);
                scheduler.min_delta =
                    delta.ok_or_else(|| bad(option, value, "it is a number from 0"))?;
            }
            _ if value.is_null() => scheduler.wrapped = None,
            _ => {
                let kind = value.get("kind").and_then(Value::as_str);
                let kind = kind
                    .ok_or_else(|| bad(option, value, "it is an object of `kind` and `options`"))?;
                let options = value.get("options").unwrap_or(&Value::Null);
                scheduler.wrapped = Some(by_kind(kind, options)?);
            }
        }
    }
    Ok(Arc::new(scheduler))
}

/// Refuses options that are none of `all`.
fn check_names(kind: &'static str, given: &Value, all: &Value) -> Result<(), SchedulerError> {
    let known = || {
        all.as_object()
            .into_iter()
            .flatten()
            .map(|(name, _)| name.clone())
    };
    let stray = given
        .as_object()
        .into_iter()
        .flatten()
        .find(|(name, _)| all.get(name).is_none());
    match stray {
        None => Ok(()),
        Some((option, _)) => Err(SchedulerError::UnknownOption {
            kind,
            option: option.clone(),
            known: known().collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_scheduler_is_made_again_from_its_kind_and_options() {
        for kind in SCHEDULER_KINDS {
            let scheduler = by_kind(kind, &Value::Null).unwrap();
            assert_eq!(scheduler.kind(), kind);
            let again = by_kind(kind, &scheduler.options()).unwrap();
            assert_eq!(again.options(), scheduler.options(), "{kind}");
        }
        let options = json!({"warmup_steps": 3, "startup_trials": 0});
        let options = by_kind("median", &options).unwrap().options();
        assert_eq!(
            options,
            json!({"startup_trials": 0, "warmup_steps": 3, "interval_steps": 1, "min_values": 1})
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (kind, options, what) in [
            ("medain", json!({}), "there are none, median"),
            (
                "median",
                json!({"startup": 3}),
                "no option \"startup\"; it has",
            ),
            ("none", json!({"startup": 3}), "it has none"),
            (
                "asha",
                json!({"reduction_factor": "two"}),
                "\"reduction_factor\" of scheduler \"asha\" is \"two\"",
            ),
            ("asha", json!({"min_resource": -1}), "min_resource"),
            ("patient", json!({"patience": 0}), "from 1"),
            ("patient", json!({"wrapped": 3}), "`kind`"),
            (
                "patient",
                json!({"wrapped": {"kind": "no"}}),
                "no scheduler named \"no\"",
            ),
        ] {
            let told = by_kind(kind, &options).unwrap_err().to_string();
            assert!(told.contains(what), "{kind} {options}: {told}");
        }
    }
}
