//! Successive halving without waiting: of the trials that came as far as a rung, the best go on.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Scheduler, SchedulerView, curve};
use crate::study::PastTrial;
use crate::trial::Direction;

/// Asynchronous successive halving (ASHA). Rungs lie at `min_resource × reduction_factor^(skipped_rungs + k)`
/// steps. A trial whose report reaches a rung goes on if it is among the best `1 / reduction_factor` of those
/// that reached it so far, itself counted; of fewer than `reduction_factor` only the best goes on. Between
/// rungs nothing is decided.
///
/// `NaN`: a trial that reaches a rung with it is ended; those that were there with one are left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AshaScheduler {
    /// The step of the lowest rung; without it, the hundredth part of the steps that the first complete trial
    /// took, and nothing is decided before there is one.
    pub min_resource: Option<u64>,
    /// One of so many goes on. At least 2.
    pub reduction_factor: u64,
    /// How many of the lowest rungs are left out.
    pub skipped_rungs: u32,
}

impl Default for AshaScheduler {
    fn default() -> Self {
        Self {
            min_resource: None,
            reduction_factor: 4,
            skipped_rungs: 0,
        }
    }
}

impl Scheduler for AshaScheduler {
    fn kind(&self) -> &'static str {
        "asha"
    }

    fn options(&self) -> Value {
        super::options_of(self)
    }

    fn decide(&self, view: &SchedulerView<'_>) -> Decision {
        let lowest = || Some((curve::full_length(view)? / 100).max(1));
        let (Some(direction), Some(lowest)) =
            (curve::direction(view), self.min_resource.or_else(lowest))
        else {
            return Decision::Continue;
        };
        let rungs = Rungs {
            lowest,
            factor: self.reduction_factor.max(2),
            skipped: self.skipped_rungs,
        };
        rungs.decide(direction, view, &curve::others(view))
    }
}

/// The rungs of one bracket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rungs {
    pub(super) lowest: u64,
    pub(super) factor: u64,
    pub(super) skipped: u32,
}

impl Rungs {
    /// Decides among `peers`, which compete for the same rungs.
    pub(super) fn decide<'a>(
        self,
        direction: Direction,
        view: &SchedulerView<'_>,
        peers: &(impl Iterator<Item = &'a PastTrial> + Clone),
    ) -> Decision {
        let Some(((last, values), earlier)) = view.reports.split_last() else {
            return Decision::Continue;
        };
        let was_at = earlier.iter().map(|(step, _)| *step).max();
        let own = curve::signed(direction, values);
        for rung in self.steps().take_while(|rung| rung <= last) {
            if was_at.is_some_and(|step| step >= rung) {
                continue;
            }
            if own.is_nan() {
                return Decision::Prune;
            }
            let at_rung = peers.clone().filter_map(|past| {
                let (_, values) = past.reports.iter().find(|(step, _)| *step >= rung)?;
                Some(curve::signed(direction, values)).filter(|value| !value.is_nan())
            });
            let (mut count, mut better) = (1, 0);
            for value in at_rung {
                count += 1;
                better += u64::from(value < own);
            }
            if better >= (count / self.factor).max(1) {
                return Decision::Prune;
            }
        }
        Decision::Continue
    }

    /// The steps of the rungs, ascending.
    fn steps(self) -> impl Iterator<Item = u64> {
        let factor = self.factor;
        let first = factor
            .checked_pow(self.skipped)
            .and_then(|scale| self.lowest.max(1).checked_mul(scale));
        std::iter::successors(first, move |step| step.checked_mul(factor))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Ended, Scene, ask, ask_as};
    use super::*;

    fn asha(min_resource: u64, reduction_factor: u64) -> AshaScheduler {
        AshaScheduler {
            min_resource: Some(min_resource),
            reduction_factor,
            skipped_rungs: 0,
        }
    }

    #[test]
    fn rungs_are_where_the_definition_says() {
        let rungs = Rungs {
            lowest: 2,
            factor: 3,
            skipped: 1,
        };
        assert_eq!(rungs.steps().take(4).collect::<Vec<_>>(), [6, 18, 54, 162]);
        let far = Rungs {
            lowest: u64::MAX / 2,
            factor: 4,
            skipped: 0,
        };
        assert_eq!(far.steps().count(), 1);
    }

    #[test]
    fn a_trial_is_asked_when_it_reaches_a_rung_and_not_between() {
        let mut scene = Scene::new(Direction::Minimize);
        for value in 0..8 {
            scene.trial(
                Ended::Complete,
                &[(1, f64::from(value)), (4, f64::from(value))],
            );
        }
        let asha = asha(1, 4);
        assert_eq!(ask(&asha, &scene, &[(1, 1.5)]), Decision::Prune);
        assert_eq!(ask(&asha, &scene, &[(1, 0.5)]), Decision::Continue);
        assert_eq!(
            ask(&asha, &scene, &[(1, 0.5), (2, 9.0)]),
            Decision::Continue
        );
        assert_eq!(
            ask(&asha, &scene, &[(1, 0.5), (2, 9.0), (4, 9.0)]),
            Decision::Prune
        );
        // A report that leaps over several rungs is asked at each.
        assert_eq!(ask(&asha, &scene, &[(5, 9.0)]), Decision::Prune);
        assert_eq!(
            ask(&asha, &scene, &[(1, 0.5), (7, 0.5)]),
            Decision::Continue
        );
    }

    #[test]
    fn of_few_only_the_best_goes_on_in_either_direction() {
        for (direction, sign) in [(Direction::Minimize, 1.0), (Direction::Maximize, -1.0)] {
            let mut scene = Scene::new(direction);
            scene.trial(Ended::Running, &[(1, sign * 1.0)]);
            let asha = asha(1, 4);
            assert_eq!(ask(&asha, &scene, &[(1, sign * 0.5)]), Decision::Continue);
            assert_eq!(ask(&asha, &scene, &[(1, sign * 1.5)]), Decision::Prune);
        }
    }

    #[test]
    fn nan_at_a_rung_ends_the_trial_and_counts_for_no_other() {
        let mut scene = Scene::new(Direction::Minimize);
        for _ in 0..9 {
            scene.trial(Ended::Pruned, &[(1, f64::NAN)]);
        }
        assert_eq!(ask(&asha(1, 4), &scene, &[(1, f64::NAN)]), Decision::Prune);
        assert_eq!(ask(&asha(1, 4), &scene, &[(1, 3.0)]), Decision::Continue);
    }

    #[test]
    fn without_a_lowest_rung_the_first_complete_trial_sets_it() {
        let asha = AshaScheduler::default();
        let mut scene = Scene::new(Direction::Minimize);
        scene.trial(Ended::Running, &[(1, 0.0), (1000, 0.0)]);
        assert_eq!(ask(&asha, &scene, &[(1000, 1.0)]), Decision::Continue);
        scene.trial(Ended::Complete, &[(9, 0.0), (1000, 0.0)]);
        assert_eq!(ask(&asha, &scene, &[(9, 1.0)]), Decision::Continue);
        assert_eq!(ask(&asha, &scene, &[(10, 1.0)]), Decision::Prune);
    }

    proptest! {
        #[test]
        fn of_all_that_reached_a_rung_the_right_share_goes_on(
            count in 1..60usize, factor in 2..6u64, seed: u64,
        ) {
            // Distinct values in some order; every trial is asked when all the others are there.
            let mut values: Vec<f64> = (0..count).map(|i| f64::from(u32::try_from(i).unwrap())).collect();
            crate::rng::KeyedRng::new(seed, 0, "order").shuffle(&mut values);
            let mut scene = Scene::new(Direction::Minimize);
            for value in &values {
                scene.trial(Ended::Running, &[(3, *value)]);
            }
            let goes_on = |(number, value): &(u64, f64)| {
                ask_as(&asha(3, factor), &scene, *number, &[(3, *value)]) == Decision::Continue
            };
            let promoted = (0..).zip(values).filter(goes_on).count();
            prop_assert_eq!(promoted, (count / usize::try_from(factor).unwrap()).max(1));
        }

        #[test]
        fn nothing_is_ended_below_the_lowest_rung(
            lowest in 2..50u64, skipped in 0..3u32, step in 0..1000u64, value in -5.0..5.0f64,
        ) {
            let mut scene = Scene::new(Direction::Minimize);
            for _ in 0..10 {
                scene.trial(Ended::Complete, &[(1, -9.0), (1000, -9.0)]);
            }
            let scheduler = AshaScheduler { skipped_rungs: skipped, ..asha(lowest, 2) };
            let decision = ask(&scheduler, &scene, &[(step, value)]);
            let expected = if step < lowest << skipped { Decision::Continue } else { Decision::Prune };
            prop_assert_eq!(decision, expected);
        }
    }
}
