//! Ends trials that are worse than the best one on the same instances, beyond chance.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Decision, Scheduler, SchedulerView, curve};
use crate::study::RankClass;
use crate::trial::TrialState;

/// Up to so many pairs the distribution is counted out. Twice the largest sum of ranks stays small, and all
/// counts are exact in a double.
const EXACT_MAX: usize = 50;

/// For objectives that are a mean over instances, such as the folds of a cross-validation or a list of
/// problems: a report's step names the instance. A trial is compared with the best complete one on the
/// instances that both saw, by the signed-rank test of Wilcoxon, and ended when it is worse both by that test
/// and on average.
///
/// `NaN`: a pair with one is left out, as is a pair of equal infinities.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WilcoxonScheduler {
    /// A trial is ended when the chance of its being no worse lies below this.
    pub p_threshold: f64,
    /// How many instances both must have seen.
    pub startup_steps: usize,
}

impl Default for WilcoxonScheduler {
    fn default() -> Self {
        Self {
            p_threshold: 0.1,
            startup_steps: 2,
        }
    }
}

impl Scheduler for WilcoxonScheduler {
    fn kind(&self) -> &'static str {
        "wilcoxon"
    }

    fn options(&self) -> Value {
        super::options_of(self)
    }

    fn decide(&self, view: &SchedulerView<'_>) -> Decision {
        let Some(direction) = curve::direction(view) else {
            return Decision::Continue;
        };
        let best = view
            .history
            .ranking()
            .iter()
            .find(|rank| rank.number != view.number);
        let best = best
            .filter(|rank| rank.class == RankClass::Feasible)
            .and_then(|rank| view.history.trial(rank.number))
            .filter(|past| past.state == TrialState::Complete);
        let Some(best) = best else {
            return Decision::Continue;
        };
        let steps: std::collections::BTreeSet<u64> =
            view.reports.iter().map(|(step, _)| *step).collect();
        let differences = steps.into_iter().filter_map(|step| {
            let own = curve::value_at(direction, view.reports, step)?;
            let other = curve::value_at(direction, &best.reports, step)?;
            Some(own - other).filter(|difference| !difference.is_nan())
        });
        let differences: Vec<f64> = differences.collect();
        if differences.len() < self.startup_steps.max(2) {
            return Decision::Continue;
        }
        // A mean of both infinities is no number, and shows nothing.
        let is_worse_on_average = differences.iter().sum::<f64>() >= 0.0;
        if is_worse_on_average && p_greater(&differences) < self.p_threshold {
            Decision::Prune
        } else {
            Decision::Continue
        }
    }
}

/// The p-value of the signed-rank test against "greater than zero": how likely at least this sum of the
/// ranks of positive differences is, when every sign is a coin's. Equal sizes share their ranks; the ranks of
/// differences that are zero count half to either side.
///
/// Counted out for up to [`EXACT_MAX`] differences, whatever ties there are; beyond that the normal
/// approximation, corrected for ties. `differences` hold no `NaN`.
fn p_greater(differences: &[f64]) -> f64 {
    let mut sorted: Vec<f64> = differences.to_vec();
    sorted.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the ranks, so that shared ones are whole.
    let mut ranks: Vec<(usize, f64)> = Vec::with_capacity(sorted.len());
    let mut place = 0;
    for group in sorted.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        let doubled = 2 * place + group.len() + 1;
        ranks.extend(group.iter().map(|value| (doubled, *value)));
        place += group.len();
    }
    let flips: Vec<usize> = ranks
        .iter()
        .filter(|(_, v)| *v != 0.0)
        .map(|(r, _)| *r)
        .collect();
    // The zeros' half is on both sides of every comparison.
    let positive: usize = ranks
        .iter()
        .filter(|(_, v)| *v > 0.0)
        .map(|(r, _)| *r)
        .sum();
    if flips.len() <= EXACT_MAX {
        share_at_least(&flips, positive)
    } else {
        normal_tail(&flips, positive)
    }
}

/// The share of all choices of signs whose positive ranks add up to at least `sum`.
fn share_at_least(ranks: &[usize], sum: usize) -> f64 {
    let total: usize = ranks.iter().sum();
    let mut counts = vec![0.0; total + 1];
    if let Some(none) = counts.first_mut() {
        *none = 1.0;
    }
    let mut reached = 0;
    for rank in ranks {
        reached += rank;
        for at in (*rank..=reached).rev() {
            let below = counts.get(at - rank).copied().unwrap_or_default();
            if let Some(count) = counts.get_mut(at) {
                *count += below;
            }
        }
    }
    let at_least: f64 = counts.iter().skip(sum).sum();
    let all: f64 = counts.iter().sum();
    at_least / all
}

#[expect(
    clippy::cast_precision_loss,
    reason = "sums of ranks of few reports are exact"
)]
fn normal_tail(ranks: &[usize], sum: usize) -> f64 {
    let mean = ranks.iter().sum::<usize>() as f64 / 2.0;
    let variance = ranks
        .iter()
        .map(|rank| (*rank as f64) * (*rank as f64))
        .sum::<f64>()
        / 4.0;
    let z = (sum as f64 - mean) / variance.sqrt();
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{Ended, Scene, ask};
    use super::*;
    use crate::trial::Direction;

    #[track_caller]
    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
    }

    /// Reference: `scipy.stats.wilcoxon(d, alternative="greater", method="exact")`, and the tables of
    /// textbooks for the first ones.
    #[test]
    fn p_values_are_the_known_ones() {
        close(p_greater(&[1.0, 2.0, 3.0, 4.0, 5.0]), 1.0 / 32.0);
        close(p_greater(&[-1.0, 2.0, 3.0, 4.0, 5.0]), 2.0 / 32.0);
        close(p_greater(&[-1.0, -2.0, -3.0, -4.0, -5.0]), 1.0);
        close(
            p_greater(&[0.3, -1.1, 2.2, 3.7, -0.9, 4.1, 5.3, 1.7]),
            0.039_062_5,
        );
        // The depression scores of Hollander and Wolfe.
        let hamilton = [0.952, -0.147, 1.022, 0.43, 0.62, 0.59, 0.49, -0.08, 0.01];
        close(p_greater(&hamilton), 0.019_531_25);
        let mixed = [
            -0.5, 1.5, -2.5, 3.5, 4.5, -5.5, 6.5, 7.5, 8.5, -9.5, 10.5, 11.5,
        ];
        close(p_greater(&mixed), 0.075_683_593_75);
    }

    /// Reference: `scipy.stats.wilcoxon(d, alternative="greater", method="approx", correction=False)`.
    #[test]
    fn the_approximation_of_many_pairs_is_the_known_one() {
        // 60 differences that are mostly, but not all, positive.
        let differences: Vec<f64> = (1..=60)
            .map(|i| {
                if i % 3 == 0 {
                    -f64::from(i)
                } else {
                    f64::from(i)
                }
            })
            .collect();
        close(p_greater(&differences), 0.017_950_061_607_939_057);
    }

    #[test]
    fn equal_sizes_and_zeros_are_counted_out_too() {
        // Four choices of signs of two equal sizes: sums 0, 1.5, 1.5, 3.
        close(p_greater(&[1.0, 1.0]), 0.25);
        close(p_greater(&[1.0, -1.0]), 0.75);
        close(p_greater(&[0.0, 1.0, 2.0]), 0.25);
        close(p_greater(&[0.0, 0.0]), 1.0);
    }

    fn scene(direction: Direction, best: &[f64]) -> Scene {
        let mut scene = Scene::new(direction);
        let curve: Vec<(u64, f64)> = (0..).zip(best.iter().copied()).collect();
        scene.trial(Ended::Complete, &curve);
        scene
    }

    #[test]
    fn a_trial_that_is_worse_beyond_chance_is_ended_in_either_direction() {
        let scheduler = WilcoxonScheduler::default();
        for (direction, sign) in [(Direction::Minimize, 1.0), (Direction::Maximize, -1.0)] {
            let scene = scene(direction, &[0.0; 8]);
            let decide = |values: &[f64]| {
                let reports: Vec<(u64, f64)> = (0..).zip(values.iter().map(|v| sign * v)).collect();
                ask(&scheduler, &scene, &reports)
            };
            // Of two coins both show heads one time in four, of four one time in sixteen.
            assert_eq!(decide(&[1.0, 2.0]), Decision::Continue);
            assert_eq!(decide(&[1.0, 2.0, 3.0]), Decision::Continue);
            assert_eq!(decide(&[1.0, 2.0, 3.0, 4.0]), Decision::Prune);
            assert_eq!(decide(&[-1.0, -2.0, -3.0, -4.0]), Decision::Continue);
            // Worse on most, better on average.
            assert_eq!(
                decide(&[1.0, 2.0, 3.0, 4.0, 5.0, -90.0]),
                Decision::Continue
            );
        }
    }

    #[test]
    fn instances_are_paired_by_their_step_in_any_order() {
        let scene = scene(Direction::Minimize, &[10.0, 0.0, 30.0, 20.0]);
        let reports = [(3, 20.5), (0, 10.1), (9, 900.0), (2, 30.2), (1, 0.3)];
        assert_eq!(
            ask(&WilcoxonScheduler::default(), &scene, &reports),
            Decision::Prune
        );
        let reports = [(3, 19.5), (0, 9.9), (9, 900.0), (2, 29.0), (1, -0.3)];
        assert_eq!(
            ask(&WilcoxonScheduler::default(), &scene, &reports),
            Decision::Continue
        );
    }

    #[test]
    fn pairs_with_nan_are_left_out() {
        let scene = scene(
            Direction::Minimize,
            &[0.0, f64::NAN, 0.0, 0.0, f64::INFINITY],
        );
        let reports = [
            (0, 1.0),
            (1, 1.0),
            (2, f64::NAN),
            (3, 1.0),
            (4, f64::INFINITY),
        ];
        assert_eq!(
            ask(&WilcoxonScheduler::default(), &scene, &reports),
            Decision::Continue
        );
    }

    #[test]
    fn without_a_complete_trial_nothing_is_ended() {
        let mut scene = Scene::new(Direction::Minimize);
        scene.trial(Ended::Pruned, &[(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.0)]);
        let reports = [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)];
        assert_eq!(
            ask(&WilcoxonScheduler::default(), &scene, &reports),
            Decision::Continue
        );
    }

    proptest! {
        #[test]
        fn the_exact_share_and_the_approximation_agree_when_there_are_many(
            differences in proptest::collection::vec(-100..100i32, 40..=50),
        ) {
            let d: Vec<f64> = differences.iter().map(|v| f64::from(*v) + 0.25).collect();
            let exact = p_greater(&d);
            let mut sorted = d.clone();
            sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            let ranks: Vec<usize> = (1..=d.len()).map(|rank| 2 * rank).collect();
            let positive = ranks.iter().zip(&sorted).filter(|(_, v)| **v > 0.0).map(|(r, _)| *r).sum();
            prop_assert!((0.0..=1.0).contains(&exact));
            prop_assert!((normal_tail(&ranks, positive) - exact).abs() < 0.03);
        }
    }
}
