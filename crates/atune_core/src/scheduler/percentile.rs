//! Ends trials that are behind most of those that went all the way.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Scheduler, SchedulerView, curve};

/// Keeps a trial while its best value so far is among the best `percentile` percent of what the complete
/// trials reported at the same step.
///
/// `NaN`: a trial that reported nothing else is ended; a `NaN` of another trial is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PercentileScheduler {
    /// The share that is kept, from 0 to 100.
    pub percentile: f64,
    /// When to look.
    #[serde(flatten)]
    pub when: Looking,
}

/// Keeps a trial while its best value so far is not worse than the median of what the complete trials
/// reported at the same step. [`PercentileScheduler`] of 50 percent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MedianScheduler {
    /// When to look.
    #[serde(flatten)]
    pub when: Looking,
}

/// When a trial is looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Looking {
    /// How many trials must be complete before any is ended early.
    pub startup_trials: usize,
    /// Reports of earlier steps are not looked at.
    pub warmup_steps: u64,
    /// Of so many steps the first report is looked at.
    pub interval_steps: u64,
    /// How many values there must be to compare with.
    pub min_values: usize,
}

impl Default for Looking {
    fn default() -> Self {
        Self {
            startup_trials: 5,
            warmup_steps: 0,
            interval_steps: 1,
            min_values: 1,
        }
    }
}

impl Default for PercentileScheduler {
    fn default() -> Self {
        Self {
            percentile: 25.0,
            when: Looking::default(),
        }
    }
}

impl Scheduler for PercentileScheduler {
    fn kind(&self) -> &'static str {
        "percentile"
    }

    fn options(&self) -> Value {
        super::options_of(self)
    }

    fn decide(&self, view: &SchedulerView<'_>) -> Decision {
        decide(view, self.percentile, &self.when)
    }
}

impl Scheduler for MedianScheduler {
    fn kind(&self) -> &'static str {
        "median"
    }

    fn options(&self) -> Value {
        super::options_of(self)
    }

    fn decide(&self, view: &SchedulerView<'_>) -> Decision {
        decide(view, 50.0, &self.when)
    }
}

fn decide(view: &SchedulerView<'_>, percentile: f64, when: &Looking) -> Decision {
    let Some(direction) = curve::direction(view) else {
        return Decision::Continue;
    };
    let Some((step, _)) = curve::due(view.reports, when.warmup_steps, when.interval_steps) else {
        return Decision::Continue;
    };
    let mut complete_count = 0;
    let mut values = Vec::new();
    for past in curve::complete(view) {
        complete_count += 1;
        values.extend(curve::value_at(direction, &past.reports, *step));
    }
    if complete_count < when.startup_trials {
        return Decision::Continue;
    }
    let Some(best) = curve::best(direction, view.reports) else {
        return Decision::Prune;
    };
    if values.len() < when.min_values.max(1) {
        return Decision::Continue;
    }
    match quantile(&mut values, percentile / 100.0) {
        Some(limit) if best > limit => Decision::Prune,
        _ => Decision::Continue,
    }
}

/// The value below which this share of the values lies, between two of them in proportion. `values` hold no
/// `NaN`.
fn quantile(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let last = values.len().checked_sub(1)?;
    #[expect(clippy::cast_precision_loss, reason = "a number of trials is exact")]
    let place = share.clamp(0.0, 1.0) * last as f64;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to the last place"
    )]
    let below = place as usize;
    let (low, high) = (*values.get(below)?, *values.get((below + 1).min(last))?);
    let part = place.fract();
    let between = low + part * (high - low);
    // Of two infinite neighbours the difference is no number.
    Some(if part == 0.0 || between.is_nan() {
        low
    } else {
        between
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Ended, Scene, ask};
    use super::*;
    use crate::trial::Direction;

    fn scene(direction: Direction, finals: &[f64]) -> Scene {
        let mut scene = Scene::new(direction);
        for value in finals {
            scene.trial(Ended::Complete, &[(1, *value), (2, *value)]);
        }
        scene
    }

    #[test]
    fn a_trial_on_the_wrong_side_of_the_median_is_ended_in_either_direction() {
        let median = MedianScheduler::default();
        for (direction, good, bad) in [
            (Direction::Minimize, 2.5, 3.5),
            (Direction::Maximize, 3.5, 2.5),
        ] {
            let scene = scene(direction, &[1.0, 2.0, 3.0, 4.0, 5.0]);
            assert_eq!(ask(&median, &scene, &[(1, good)]), Decision::Continue);
            assert_eq!(ask(&median, &scene, &[(1, 3.0)]), Decision::Continue);
            assert_eq!(ask(&median, &scene, &[(1, bad)]), Decision::Prune);
        }
    }

    #[test]
    fn the_best_value_so_far_counts_and_not_the_last() {
        let scene = scene(Direction::Minimize, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let median = MedianScheduler::default();
        assert_eq!(
            ask(&median, &scene, &[(1, 2.0), (2, 9.0)]),
            Decision::Continue
        );
    }

    #[test]
    fn a_percentile_keeps_its_share() {
        let finals: Vec<f64> = (0..101).map(f64::from).collect();
        let scene = scene(Direction::Minimize, &finals);
        for percentile in [0.0, 10.0, 25.0, 75.0, 100.0] {
            let scheduler = PercentileScheduler {
                percentile,
                ..PercentileScheduler::default()
            };
            assert_eq!(
                ask(&scheduler, &scene, &[(1, percentile)]),
                Decision::Continue
            );
            assert_eq!(
                ask(&scheduler, &scene, &[(1, percentile + 0.5)]),
                Decision::Prune
            );
        }
    }

    #[test]
    fn nan_ends_a_trial_that_reported_nothing_else_and_counts_for_no_other() {
        let mut scene = scene(Direction::Minimize, &[1.0, 2.0, 3.0, 4.0, 5.0]);
        let median = MedianScheduler::default();
        assert_eq!(ask(&median, &scene, &[(1, f64::NAN)]), Decision::Prune);
        assert_eq!(
            ask(&median, &scene, &[(1, 1.0), (2, f64::NAN)]),
            Decision::Continue
        );
        for _ in 0..20 {
            scene.trial(Ended::Complete, &[(1, f64::NAN)]);
        }
        assert_eq!(ask(&median, &scene, &[(1, 3.0)]), Decision::Continue);
        assert_eq!(ask(&median, &scene, &[(1, 3.1)]), Decision::Prune);
    }

    #[test]
    fn trials_that_did_not_go_all_the_way_are_no_measure() {
        let mut scene = Scene::new(Direction::Minimize);
        for _ in 0..9 {
            scene.trial(Ended::Pruned, &[(1, 1.0)]);
            scene.trial(Ended::Running, &[(1, 1.0)]);
            scene.trial(Ended::Failed, &[(1, 1.0)]);
        }
        assert_eq!(
            ask(&MedianScheduler::default(), &scene, &[(1, 9.0)]),
            Decision::Continue
        );
    }

    #[test]
    fn of_every_interval_the_first_report_is_looked_at() {
        let when = Looking {
            warmup_steps: 10,
            interval_steps: 5,
            ..Looking::default()
        };
        let median = MedianScheduler { when };
        let mut scene = Scene::new(Direction::Minimize);
        for _ in 0..5 {
            let curve: Vec<(u64, f64)> = (0..30).map(|step| (step, 0.0)).collect();
            scene.trial(Ended::Complete, &curve);
        }
        let mut looked_at = Vec::new();
        let mut reports = Vec::new();
        for step in [0, 9, 10, 11, 14, 17, 18, 20, 20, 29] {
            reports.push((step, 1.0));
            if ask(&median, &scene, &reports) == Decision::Prune {
                looked_at.push(step);
            }
        }
        assert_eq!(looked_at, [10, 17, 20, 29]);
    }

    #[test]
    fn infinite_values_have_a_median() {
        let scene = scene(Direction::Minimize, &[f64::INFINITY; 6]);
        let median = MedianScheduler::default();
        assert_eq!(
            ask(&median, &scene, &[(1, f64::INFINITY)]),
            Decision::Continue
        );
        assert_eq!(ask(&median, &scene, &[(1, 0.0)]), Decision::Continue);
    }

    proptest! {
        #[test]
        fn nothing_is_ended_before_the_warm_up_or_the_startup_trials(
            startup in 0..8usize, warmup in 0..20u64, interval in 0..5u64, done in 0..12usize,
            steps in proptest::collection::vec(0..30u64, 1..10), own in -10.0..10.0f64,
        ) {
            let when = Looking {
                startup_trials: startup, warmup_steps: warmup, interval_steps: interval, min_values: 1,
            };
            let mut scene = Scene::new(Direction::Minimize);
            for i in 0..done {
                let value = f64::from(u32::try_from(i).unwrap());
                let curve: Vec<(u64, f64)> = (0..30).map(|step| (step, value)).collect();
                scene.trial(Ended::Complete, &curve);
            }
            let reports: Vec<(u64, f64)> = steps.iter().map(|step| (*step, own)).collect();
            let decision = ask(&MedianScheduler { when }, &scene, &reports);
            if done < startup || reports.last().unwrap().0 < warmup {
                prop_assert_eq!(decision, Decision::Continue);
            }
        }

        #[test]
        fn at_most_half_of_equal_trials_are_behind_their_median(
            mut finals in proptest::collection::vec(-1e6..1e6f64, 5..40),
        ) {
            let scene = scene(Direction::Minimize, &finals);
            let median = MedianScheduler::default();
            let ended = finals.iter().filter(|v| ask(&median, &scene, &[(1, **v)]) == Decision::Prune);
            let ended = ended.count();
            finals.sort_by(f64::total_cmp);
            prop_assert!(ended <= finals.len() / 2, "{} of {}", ended, finals.len());
        }
    }
}
