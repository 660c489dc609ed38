//! Waits before it ends a trial.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Decision, Scheduler, SchedulerAnswer, SchedulerView, curve};
use crate::replica::Trial;

/// Lets a trial go on as long as one of its last reports improved on all earlier ones; only then another
/// scheduler is asked, or, without one, the trial ends.
///
/// `NaN`: is no improvement. A trial that reported nothing else has not improved once its patience is over.
#[derive(Clone, Debug)]
pub struct PatientScheduler {
    /// How many reports without an improvement are waited for.
    pub patience: u64,
    /// By how much a value must be better to be an improvement.
    pub min_delta: f64,
    /// Who is asked then.
    pub wrapped: Option<Arc<dyn Scheduler>>,
}

impl Default for PatientScheduler {
    fn default() -> Self {
        Self {
            patience: 5,
            min_delta: 0.0,
            wrapped: None,
        }
    }
}

impl Scheduler for PatientScheduler {
    fn kind(&self) -> &'static str {
        "patient"
    }

    fn options(&self) -> Value {
        let wrapped = self.wrapped.as_ref().map_or(
            Value::Null,
            |wrapped| json!({ "kind": wrapped.kind(), "options": wrapped.options() }),
        );
        json!({ "patience": self.patience, "min_delta": self.min_delta, "wrapped": wrapped })
    }

    fn decide(&self, view: &SchedulerView<'_>) -> Decision {
        let Some(direction) = curve::direction(view) else {
            return Decision::Continue;
        };
        let patience = usize::try_from(self.patience.max(1)).unwrap_or(usize::MAX);
        let Some(at) = view
            .reports
            .len()
            .checked_sub(patience)
            .filter(|at| *at > 0)
        else {
            return Decision::Continue;
        };
        let (before, recent) = view.reports.split_at(at);
        let has_improved = match (
            curve::best(direction, before),
            curve::best(direction, recent),
        ) {
            (Some(before), Some(recent)) => recent < before - self.min_delta.abs(),
            (None, recent) => recent.is_some(),
            (Some(_), None) => false,
        };
        match &self.wrapped {
            _ if has_improved => Decision::Continue,
            Some(wrapped) => wrapped.decide(view),
            None => Decision::Prune,
        }
    }

    fn wants_endings(&self) -> bool {
        self.wrapped
            .as_ref()
            .is_some_and(|wrapped| wrapped.wants_endings())
    }

    fn after_trial(&self, view: &SchedulerView<'_>, ended: &Trial) -> SchedulerAnswer {
        let wrapped = self.wrapped.as_ref();
        wrapped.map_or_else(SchedulerAnswer::default, |wrapped| {
            wrapped.after_trial(view, ended)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ended, Scene, ask};
    use super::super::{MedianScheduler, ThresholdScheduler};
    use super::*;
    use crate::trial::Direction;

    fn curve(values: &[f64]) -> Vec<(u64, f64)> {
        (0..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn a_trial_ends_when_its_patience_is_over_in_either_direction() {
        let patient = PatientScheduler {
            patience: 2,
            ..PatientScheduler::default()
        };
        for (direction, sign) in [(Direction::Minimize, 1.0), (Direction::Maximize, -1.0)] {
            let scene = Scene::new(direction);
            let decide = |values: &[f64]| {
                let values: Vec<f64> = values.iter().map(|v| sign * v).collect();
                ask(&patient, &scene, &curve(&values))
            };
            assert_eq!(decide(&[3.0, 3.0]), Decision::Continue);
            assert_eq!(decide(&[3.0, 3.0, 3.0]), Decision::Prune);
            assert_eq!(decide(&[3.0, 3.0, 2.9]), Decision::Continue);
            assert_eq!(decide(&[3.0, 2.9, 3.0]), Decision::Continue);
            assert_eq!(decide(&[3.0, 2.0, 3.0, 3.0]), Decision::Prune);
        }
    }

    #[test]
    fn an_improvement_is_larger_than_the_least_difference() {
        let patient = PatientScheduler {
            patience: 1,
            min_delta: 0.5,
            wrapped: None,
        };
        let scene = Scene::new(Direction::Minimize);
        assert_eq!(ask(&patient, &scene, &curve(&[3.0, 2.6])), Decision::Prune);
        assert_eq!(
            ask(&patient, &scene, &curve(&[3.0, 2.4])),
            Decision::Continue
        );
    }

    #[test]
    fn the_wrapped_scheduler_has_the_last_word() {
        let mut scene = Scene::new(Direction::Minimize);
        for _ in 0..5 {
            scene.trial(Ended::Complete, &curve(&[1.0; 9]));
        }
        let wrapped = Some(Arc::new(MedianScheduler::default()) as _);
        let patient = PatientScheduler {
            patience: 2,
            min_delta: 0.0,
            wrapped,
        };
        assert_eq!(
            ask(&patient, &scene, &curve(&[5.0, 4.0, 3.0])),
            Decision::Continue
        );
        assert_eq!(
            ask(&patient, &scene, &curve(&[5.0, 5.0, 5.0])),
            Decision::Prune
        );
        assert_eq!(
            ask(&patient, &scene, &curve(&[0.5, 0.5, 0.5])),
            Decision::Continue
        );
    }

    #[test]
    fn nan_is_no_improvement() {
        let patient = PatientScheduler {
            patience: 2,
            ..PatientScheduler::default()
        };
        let scene = Scene::new(Direction::Minimize);
        let nan = f64::NAN;
        assert_eq!(
            ask(&patient, &scene, &curve(&[nan, nan, nan])),
            Decision::Prune
        );
        assert_eq!(
            ask(&patient, &scene, &curve(&[nan, nan, 1.0])),
            Decision::Continue
        );
        assert_eq!(
            ask(&patient, &scene, &curve(&[1.0, nan, nan])),
            Decision::Prune
        );
    }

    #[test]
    fn the_options_name_the_wrapped_scheduler() {
        let wrapped = Some(Arc::new(ThresholdScheduler::default()) as _);
        let patient = PatientScheduler {
            wrapped,
            ..PatientScheduler::default()
        };
        let again = super::super::by_kind("patient", &patient.options()).unwrap();
        assert_eq!(again.options(), patient.options());
        assert_eq!(patient.options()["wrapped"]["kind"], "threshold");
    }
}
