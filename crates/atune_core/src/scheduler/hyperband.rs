//! Hyperband: several halvings side by side, from the impatient to the patient.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::halving::Rungs;
use super::{Decision, Scheduler, SchedulerView, curve};
use crate::rng::KeyedRng;

/// The most brackets: more rungs than that no range of steps has.
const BRACKETS_MAX: u32 = 64;

/// Hyperband. Bracket `b` is an [ASHA](super::AshaScheduler) that leaves out the `b` lowest rungs; there are
/// as many as rungs fit between `min_resource` and `max_resource`. Which bracket a trial belongs to hangs on
/// the study's seed and its number alone, with the shares that give every bracket about the same work.
///
/// `NaN`: as in [ASHA](super::AshaScheduler).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HyperbandScheduler {
    /// The step of the lowest rung.
    pub min_resource: u64,
    /// The steps of a whole trial; without it, those of the first complete trial, and nothing is decided
    /// before there is one.
    pub max_resource: Option<u64>,
    /// One of so many goes on. At least 2.
    pub reduction_factor: u64,
}

impl Default for HyperbandScheduler {
    fn default() -> Self {
        Self {
            min_resource: 1,
            max_resource: None,
            reduction_factor: 3,
        }
    }
}

impl HyperbandScheduler {
    /// How many brackets there are for trials of so many steps.
    pub fn bracket_count(&self, max_resource: u64) -> u32 {
        let factor = self.factor();
        let lowest = self.min_resource.max(1);
        let rungs = std::iter::successors(Some(lowest), |step| step.checked_mul(factor));
        let count = rungs
            .take_while(|step| *step <= max_resource)
            .take(BRACKETS_MAX as usize)
            .count();
        u32::try_from(count).unwrap_or(BRACKETS_MAX).max(1)
    }

    /// The bracket of a trial, from 0, the most impatient.
    pub fn bracket(&self, seed: u64, number: u64, bracket_count: u32) -> u32 {
        let weight = |bracket: u32| self.weight(bracket, bracket_count);
        let total = (0..bracket_count).fold(0u64, |sum, b| sum.saturating_add(weight(b)));
        let mut left = KeyedRng::new(seed, number, "scheduler/bracket").below(total);
        for bracket in 0..bracket_count {
            match left.checked_sub(weight(bracket)) {
                Some(rest) => left = rest,
                None => return bracket,
            }
        }
        bracket_count.saturating_sub(1)
    }

    /// How many trials a bracket gets, in proportion: with `s` rungs that can end a trial, the definition of
    /// Hyperband starts `⌈count × factor^s / (s + 1)⌉`.
    fn weight(&self, bracket: u32, bracket_count: u32) -> u64 {
        let s = bracket_count.saturating_sub(bracket + 1);
        let scale = self.factor().saturating_pow(s);
        // Below 2^57, so that the sum of all of them is a u64.
        u64::from(bracket_count)
            .saturating_mul(scale)
            .div_ceil(u64::from(s) + 1)
            .clamp(1, 1 << 57)
    }

    fn factor(&self) -> u64 {
        self.reduction_factor.max(2)
    }
}

impl Scheduler for HyperbandScheduler {
    fn kind(&self) -> &'static str {
        "hyperband"
    }

    fn options(&self) -> Value {
        super::options_of(self)
    }

    fn decide(&self, view: &SchedulerView<'_>) -> Decision {
        let (Some(direction), Some(max)) = (
            curve::direction(view),
            self.max_resource.or_else(|| curve::full_length(view)),
        ) else {
            return Decision::Continue;
        };
        let count = self.bracket_count(max);
        let bracket_of = |number| self.bracket(view.config.seed, number, count);
        let own = bracket_of(view.number);
        let rungs = Rungs {
            lowest: self.min_resource.max(1),
            factor: self.factor(),
            skipped: own,
        };
        let peers = curve::numbered(view).filter(|(number, _)| bracket_of(*number) == own);
        rungs.decide(direction, view, &peers.map(|(_, past)| past))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Ended, Scene, ask_as};
    use super::*;
    use crate::trial::Direction;

    fn hyperband(max: u64) -> HyperbandScheduler {
        HyperbandScheduler {
            max_resource: Some(max),
            ..HyperbandScheduler::default()
        }
    }

    #[test]
    fn there_are_as_many_brackets_as_rungs() {
        for (min, max, factor, count) in [
            (1, 81, 3, 5),
            (1, 80, 3, 4),
            (1, 1, 3, 1),
            (10, 5, 3, 1),
            (2, 64, 2, 6),
            (1, u64::MAX, 2, 64),
        ] {
            let scheduler = HyperbandScheduler {
                min_resource: min,
                max_resource: Some(max),
                reduction_factor: factor,
            };
            assert_eq!(
                scheduler.bracket_count(max),
                count,
                "{min}..{max} by {factor}"
            );
        }
    }

    #[test]
    fn brackets_get_the_shares_of_the_definition() {
        let scheduler = hyperband(81);
        // ⌈5 × 3^s / (s + 1)⌉ for s = 4, 3, 2, 1, 0.
        let weights = [81, 34, 15, 8, 5];
        let total: u64 = weights.iter().sum();
        let number_of_trials = 20_000;
        let mut counts = [0u64; 5];
        for number in 0..number_of_trials {
            counts[scheduler.bracket(7, number, 5) as usize] += 1;
        }
        for (count, weight) in counts.into_iter().zip(weights) {
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let (share, expected) = (
                count as f64 / number_of_trials as f64,
                weight as f64 / total as f64,
            );
            // Five standard deviations.
            let tolerance = 5.0 * (expected * (1.0 - expected) / 20_000.0).sqrt();
            assert!((share - expected).abs() < tolerance, "{counts:?}");
        }
    }

    #[test]
    fn a_trial_competes_within_its_bracket_only() {
        let scheduler = hyperband(9);
        let mut scene = Scene::new(Direction::Minimize);
        let seed = scene.config.seed;
        let bracket = |number| scheduler.bracket(seed, number, 3);
        let impatient: Vec<u64> = (0..200).filter(|n| bracket(*n) == 0).collect();
        let patient: Vec<u64> = (0..200).filter(|n| bracket(*n) == 2).collect();
        for number in 0..200 {
            // Those of the patient bracket are all better.
            let value = if bracket(number) == 2 { 0.0 } else { 5.0 };
            scene.trial(Ended::Running, &[(1, value), (9, value)]);
        }
        let best_of_its_own = [(1, 4.0)];
        assert_eq!(
            ask_as(&scheduler, &scene, impatient[3], &best_of_its_own),
            Decision::Continue
        );
        assert_eq!(
            ask_as(&scheduler, &scene, impatient[3], &[(1, 6.0)]),
            Decision::Prune
        );
        // The patient bracket has its only rung at the end.
        assert_eq!(
            ask_as(&scheduler, &scene, patient[3], &[(8, 6.0)]),
            Decision::Continue
        );
        assert_eq!(
            ask_as(&scheduler, &scene, patient[3], &[(9, 6.0)]),
            Decision::Prune
        );
    }

    #[test]
    fn nothing_is_ended_before_the_length_of_a_trial_is_known() {
        let scheduler = HyperbandScheduler::default();
        let mut scene = Scene::new(Direction::Minimize);
        for _ in 0..50 {
            scene.trial(Ended::Running, &[(1, 0.0)]);
        }
        for number in 0..50 {
            assert_eq!(
                ask_as(&scheduler, &scene, number, &[(1, 1.0)]),
                Decision::Continue
            );
        }
    }
}
