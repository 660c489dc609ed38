//! Ends trials whose values left the range of the sensible.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Scheduler, SchedulerView, curve};

/// Ends a trial that reports a value outside of these bounds, which are the study's own numbers, whatever
/// its direction.
///
/// `NaN`: lies outside of any bounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThresholdScheduler {
    /// The lowest sensible value.
    pub lower: Option<f64>,
    /// The highest sensible value.
    pub upper: Option<f64>,
    /// Reports of earlier steps are not looked at.
    pub warmup_steps: u64,
    /// Of so many steps the first report is looked at.
    pub interval_steps: u64,
}

impl Default for ThresholdScheduler {
    fn default() -> Self {
        Self {
            lower: None,
            upper: None,
            warmup_steps: 0,
            interval_steps: 1,
        }
    }
}

impl Scheduler for ThresholdScheduler {
    fn kind(&self) -> &'static str {
        "threshold"
    }

    fn options(&self) -> Value {
        super::options_of(self)
    }

    fn decide(&self, view: &SchedulerView<'_>) -> Decision {
        let due = curve::due(view.reports, self.warmup_steps, self.interval_steps);
        let (Some((_, values)), Some(_)) = (due, curve::direction(view)) else {
            return Decision::Continue;
        };
        let value = values.first().map_or(f64::NAN, |value| value.0);
        let is_inside = !value.is_nan()
            && self.lower.is_none_or(|lower| value >= lower)
            && self.upper.is_none_or(|upper| value <= upper);
        if is_inside {
            Decision::Continue
        } else {
            Decision::Prune
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Scene, ask};
    use super::*;
    use crate::trial::Direction;

    #[test]
    fn a_value_outside_of_the_bounds_ends_the_trial_whatever_the_direction() {
        let bounds = ThresholdScheduler {
            lower: Some(0.0),
            upper: Some(10.0),
            ..ThresholdScheduler::default()
        };
        for direction in [Direction::Minimize, Direction::Maximize] {
            let scene = Scene::new(direction);
            for (value, decision) in [
                (0.0, Decision::Continue),
                (10.0, Decision::Continue),
                (-0.1, Decision::Prune),
                (10.1, Decision::Prune),
                (f64::NAN, Decision::Prune),
                (f64::INFINITY, Decision::Prune),
            ] {
                assert_eq!(ask(&bounds, &scene, &[(1, value)]), decision, "{value}");
            }
        }
    }

    #[test]
    fn without_bounds_only_nan_lies_outside() {
        let scene = Scene::new(Direction::Minimize);
        let none = ThresholdScheduler::default();
        assert_eq!(
            ask(&none, &scene, &[(1, f64::NEG_INFINITY)]),
            Decision::Continue
        );
        assert_eq!(ask(&none, &scene, &[(1, f64::NAN)]), Decision::Prune);
    }

    #[test]
    fn the_warm_up_is_left_alone() {
        let scene = Scene::new(Direction::Minimize);
        let bounds = ThresholdScheduler {
            upper: Some(1.0),
            warmup_steps: 3,
            ..ThresholdScheduler::default()
        };
        assert_eq!(ask(&bounds, &scene, &[(2, 5.0)]), Decision::Continue);
        assert_eq!(ask(&bounds, &scene, &[(2, 5.0), (3, 5.0)]), Decision::Prune);
    }
}
