//! From what was seen to the next point.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::acquisition::Acquisition;
use super::fit::{Prior, fit};
use super::kernel::{Points, Theta};
use super::lbfgs::Limits;
use super::model::Model;
use super::search::{Effort, Region, Search};
use crate::rng::KeyedRng;
use crate::space::Distribution;

/// The kernels are fitted to at most this many trials.
const FIT_MAX: usize = 200;
/// Steps of a fit from each of its starts.
const FIT: Limits = Limits {
    steps: 30,
    evaluations: 40,
    tolerance: 1e-3,
};
/// Trials that are dropped from the exact model change once in so many, so that the factor is kept between.
const BLOCK: usize = 50;
/// Regions of a conditional space that are searched, the best first.
const REGIONS_MAX: usize = 16;
/// A region is told by parameters of at most this many values.
const TELLING_VALUES: u64 = 64;
/// Known points of a region around which is searched.
const CENTRES: usize = 5;

/// Everything that a proposal follows from, but for chance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Task {
    /// The joint space.
    pub(crate) space: Vec<Distribution>,
    /// Finished trials: a place in the unit interval per parameter, NaN where a trial does not have it.
    pub(crate) points: Vec<Vec<f64>>,
    /// Their values, to be minimised.
    pub(crate) losses: Vec<f64>,
    /// Per constraint its values in all trials, NaN where a trial has none: met when at most 0.
    pub(crate) constraints: Vec<Vec<f64>>,
    /// Trials that are running.
    pub(crate) pending: Vec<Vec<f64>>,
    /// Places that are given for the next point, NaN where there is a choice.
    pub(crate) fixed: Vec<f64>,
}

/// Fitted kernels: those of the objective and of each constraint, as rows of logarithms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernels {
    /// The number of trials at the fit.
    pub fitted_at: usize,
    objective: Vec<f64>,
    constraints: Vec<Vec<f64>>,
}

/// Models of an earlier proposal, with the factors that make up most of its work. They change no result.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    models: Vec<Model>,
}

impl Kernels {
    /// Whether enough was seen since that fitting anew may change something: each time at first, and
    /// then whenever a twentieth was added.
    pub(crate) fn are_due(&self, trials: usize) -> bool {
        trials >= self.fitted_at + (self.fitted_at / 20).max(1) || trials < self.fitted_at
    }

    /// Fits the kernels to what was seen, beginning also at `earlier` ones.
    pub(crate) fn fit(task: &Task, earlier: Option<&Self>) -> Option<Self> {
        let earlier_constraint = |at: usize| earlier.and_then(|k| k.constraints.get(at));
        let constraints = task.constraints.iter().enumerate();
        let constraints = constraints
            .map(|(at, values)| task.fit_one(&held(values), earlier_constraint(at)))
            .collect::<Option<_>>()?;
        Some(Self {
            fitted_at: task.points.len(),
            objective: task.fit_one(&task.losses, earlier.map(|k| &k.objective))?,
            constraints,
        })
    }

    /// Whether these are kernels of such a task.
    fn are_of(&self, task: &Task) -> bool {
        let rows = self.constraints.iter().chain([&self.objective]);
        let is_row = |row: &Vec<f64>| {
            row.len() == task.space.len() + 2 && row.iter().all(|v| v.abs() < 100.0)
        };
        self.constraints.len() == task.constraints.len() && { rows }.all(is_row)
    }
}

impl Task {
    fn choices(&self) -> Vec<bool> {
        self.space.iter().map(|dist| !dist.is_numerical()).collect()
    }

    fn fit_one(&self, values: &[f64], earlier: Option<&Vec<f64>>) -> Option<Vec<f64>> {
        let choices = self.choices();
        let prior = Prior::of(choices.len());
        let chosen = thin(&self.losses, FIT_MAX);
        let mut points = Points::new(choices.iter().copied());
        let mut seen = Vec::with_capacity(chosen.len());
        for at in chosen {
            points.push(self.points.get(at)?);
            seen.push(*values.get(at)?);
        }
        let mut starts = vec![prior.centre(choices.len())];
        let is_row = |row: &&Vec<f64>| row.len() == choices.len() + 2;
        starts.extend(earlier.filter(is_row).and_then(|row| Theta::from_row(row)));
        let theta = fit(
            &points,
            &Standard::of(&seen).apply(&seen),
            prior,
            &starts,
            FIT,
        )?;
        Some(theta.to_row())
    }

    /// The next point, NaN where it has no parameter; `None` when nothing was seen.
    pub(crate) fn propose(
        &self,
        kernels: &Kernels,
        exact: usize,
        cache: &mut Cache,
        rng: &mut KeyedRng,
    ) -> Option<Vec<f64>> {
        if !kernels.are_of(self) || self.points.is_empty() {
            return None;
        }
        let kept = self.kept(exact);
        let pick = |values: &[f64]| -> Vec<f64> {
            kept.iter()
                .filter_map(|at| values.get(*at).copied())
                .collect()
        };
        let points: Vec<Vec<f64>> = kept
            .iter()
            .filter_map(|at| self.points.get(*at).cloned())
            .collect();
        let choices = self.choices();
        let mut earlier = std::mem::take(&mut cache.models).into_iter();
        let mut model = |row: &[f64], values: &[f64]| {
            let theta = Theta::from_row(row)?;
            let fresh = || Model::new(theta.clone(), &choices);
            let mut model = match earlier.next() {
                Some(model) if model.is_of(&theta, &choices) => model,
                _ => fresh(),
            };
            model.hold(&points);
            model.see(values);
            Some(model)
        };

        let losses = pick(&self.losses);
        let losses = Standard::of(&losses).apply(&losses);
        let mut objective = model(&kernels.objective, &losses)?;
        let means = objective.means(&losses);
        let mut constraints = Vec::new();
        let mut is_feasible = vec![true; points.len()];
        for (values, row) in self.constraints.iter().zip(&kernels.constraints) {
            let values = pick(&held(values));
            for (is_feasible, value) in is_feasible.iter_mut().zip(&values) {
                *is_feasible &= *value <= 0.0;
            }
            let standard = Standard::of(&values);
            let model = model(row, &standard.apply(&values))?;
            constraints.push((model, standard.apply_one(0.0)));
        }
        for point in &self.pending {
            objective.believe(point);
            for (model, _) in &mut constraints {
                model.believe(point);
            }
        }
        let feasible = means
            .iter()
            .zip(&is_feasible)
            .filter(|(_, is_feasible)| **is_feasible);
        let best = feasible.map(|(mean, _)| *mean).reduce(f64::min);
        // What is believed of a running trial is no improvement to look for.
        let running = || {
            objective
                .at_all(&self.pending)
                .into_iter()
                .map(|normal| normal.mean)
        };
        let best = best.map(|best| running().fold(best, f64::min));
        let regions = self.regions(&points, &means, &is_feasible);
        let (objective, spare) = match best {
            Some(best) => (Some((objective, best)), None),
            None => (None, Some(objective)),
        };
        let acquisition = Acquisition {
            objective,
            constraints,
        };
        let known: Vec<Vec<f64>> = self.points.iter().chain(&self.pending).cloned().collect();
        let search = Search {
            space: &self.space,
            regions: &regions,
            acquisition: &acquisition,
            fixed: &self.fixed,
            known: &known,
        };
        let point = search.run(Effort::of(points.len()), rng);
        let models = acquisition
            .objective
            .map(|(model, _)| model)
            .or(spare)
            .into_iter();
        let others = acquisition.constraints.into_iter().map(|(model, _)| model);
        cache.models = models.chain(others).collect();
        point
    }

    /// The trials that the model is made of: all, up to `exact`; of more the newest, and of the older
    /// ones the better half and some of the others, evenly.
    fn kept(&self, exact: usize) -> Vec<usize> {
        let n = self.points.len();
        if n <= exact {
            return (0..n).collect();
        }
        let older = n - n % BLOCK;
        let mut kept = thin(
            self.losses.get(..older).unwrap_or_default(),
            exact.saturating_sub(BLOCK),
        );
        kept.extend(older..n);
        kept
    }

    /// The sets of parameters that trials have together.
    fn regions(&self, points: &[Vec<f64>], means: &[f64], is_feasible: &[bool]) -> Vec<Region> {
        let mut by_set: BTreeMap<Vec<bool>, Vec<Member<'_>>> = BTreeMap::new();
        for ((point, mean), is_feasible) in points.iter().zip(means).zip(is_feasible) {
            let has = point.iter().map(|place| !place.is_nan()).collect();
            by_set
                .entry(has)
                .or_default()
                .push((!is_feasible, *mean, point));
        }
        for members in by_set.values_mut() {
            members.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        }
        let telling: Vec<bool> = self
            .space
            .iter()
            .map(|dist| {
                dist.value_count()
                    .is_some_and(|count| count <= TELLING_VALUES)
            })
            .collect();
        let mut regions = Vec::new();
        for (has, members) in &by_set {
            let own = places(members.iter().map(|member| member.2), &telling);
            let strangers = by_set.iter().filter(|(other, _)| *other != has);
            let others = strangers.flat_map(|(_, members)| members.iter().map(|member| member.2));
            let mut elsewhere = places(others, &telling);
            for ((places, own), has) in elsewhere.iter_mut().zip(&own).zip(has) {
                places.retain(|place| *has && !own.contains(place));
            }
            let fits = self.fixed.iter().zip(has).zip(&elsewhere);
            let is_open = fits.into_iter().all(|((fixed, has), elsewhere)| {
                fixed.is_nan() || (*has && !elsewhere.contains(fixed))
            });
            let best = members
                .iter()
                .take(CENTRES)
                .map(|member| member.2.clone())
                .collect();
            let first = members.first().map(|member| (member.0, member.1));
            regions.push((
                !is_open,
                first,
                Region {
                    has: has.clone(),
                    elsewhere,
                    best,
                },
            ));
        }
        let key = |first: &Option<(bool, f64)>| first.unwrap_or((true, f64::INFINITY));
        regions.sort_by(|a, b| {
            let (x, y) = (key(&a.1), key(&b.1));
            a.0.cmp(&b.0).then(x.0.cmp(&y.0)).then(x.1.total_cmp(&y.1))
        });
        let open = regions.iter().filter(|region| !region.0).count();
        // Given places that go with no known set leave the choice among all of them.
        regions.truncate(if open > 0 {
            open.min(REGIONS_MAX)
        } else {
            REGIONS_MAX
        });
        regions.into_iter().map(|(.., region)| region).collect()
    }
}

/// A trial of a region: whether it is infeasible, the mean there, and where it is.
type Member<'a> = (bool, f64, &'a Vec<f64>);

/// Per parameter that tells regions apart, the places that some points have.
fn places<'a>(points: impl Iterator<Item = &'a Vec<f64>>, telling: &[bool]) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::new(); telling.len()];
    for point in points {
        for ((places, place), telling) in all.iter_mut().zip(point).zip(telling) {
            if *telling && !place.is_nan() && !places.contains(place) {
                places.push(*place);
            }
        }
    }
    all
}

impl Effort {
    /// Less work the more trials there are, since each evaluation costs their square.
    fn of(trials: usize) -> Self {
        let square = (trials * trials).max(1);
        let climbs = if trials <= 300 { 6 } else { 4 };
        Self {
            candidates: (30_000_000 / (square / 2 + 50 * trials + 1)).clamp(128, 1000),
            climbs,
            evaluations: (30_000_000 / square).clamp(80, 240) / climbs,
        }
    }
}

/// At most `count` places of a list: the lower half of its values, and of the others every so many.
/// Ascending.
fn thin(values: &[f64], count: usize) -> Vec<usize> {
    if values.len() <= count {
        return (0..values.len()).collect();
    }
    let mut order: Vec<(f64, usize)> = values.iter().copied().zip(0..).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (better, others) = order.split_at(count.div_ceil(2).min(order.len()));
    let mut others: Vec<usize> = others.iter().map(|(_, at)| *at).collect();
    others.sort_unstable();
    let wanted = count - better.len();
    let every = (0..wanted).filter_map(|k| others.get(k * others.len() / wanted.max(1)));
    let mut kept: Vec<usize> = better
        .iter()
        .map(|(_, at)| *at)
        .chain(every.copied())
        .collect();
    kept.sort_unstable();
    kept
}

/// Values of a constraint, with numbers where there are none: as bad as the worst.
fn held(values: &[f64]) -> Vec<f64> {
    let numbers = values.iter().copied().filter(|value| value.is_finite());
    let worst = numbers.fold(1.0, f64::max);
    let hold = |value: &f64| if value.is_nan() { worst } else { *value };
    values.iter().map(hold).collect()
}

/// A shift and a scale that give values the mean 0 and the deviation 1.
#[derive(Clone, Copy, Debug)]
struct Standard {
    low: f64,
    high: f64,
    width: f64,
    mean: f64,
    deviation: f64,
}

impl Standard {
    /// Infinite values are taken for the most extreme finite ones.
    #[expect(clippy::cast_precision_loss, reason = "a count of trials")]
    fn of(values: &[f64]) -> Self {
        let finite = || values.iter().copied().filter(|value| value.is_finite());
        let low = finite().reduce(f64::min).unwrap_or_default();
        let high = finite().reduce(f64::max).unwrap_or_default();
        // Halves: the width of finite numbers need not be finite.
        let width = high / 2.0 - low / 2.0;
        let mut standard = Self {
            low,
            high,
            width: if width > 0.0 { width } else { 1.0 },
            mean: 0.0,
            deviation: 1.0,
        };
        let n = values.len().max(1) as f64;
        let mean = values.iter().map(|v| standard.apply_one(*v)).sum::<f64>() / n;
        let off = |v: &f64| standard.apply_one(*v) - mean;
        let variance = values.iter().map(|v| off(v) * off(v)).sum::<f64>() / n;
        standard.mean = mean;
        standard.deviation = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        standard
    }

    /// The place of any number.
    fn apply_one(&self, value: f64) -> f64 {
        ((value / 2.0 - self.low / 2.0) / self.width - self.mean) / self.deviation
    }

    fn apply(&self, values: &[f64]) -> Vec<f64> {
        let held = values.iter().map(|value| value.clamp(self.low, self.high));
        held.map(|value| self.apply_one(value)).collect()
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what is exact is compared exactly")]
#[expect(clippy::cast_precision_loss, reason = "small counts")]
mod tests {
    use super::*;
    use crate::space::{Categories, FloatRange, IntRange};

    fn floats(n: usize) -> Vec<Distribution> {
        vec![Distribution::Float(FloatRange::plain(0.0..=1.0)); n]
    }

    fn task(space: Vec<Distribution>) -> Task {
        Task {
            fixed: vec![f64::NAN; space.len()],
            space,
            ..Task::default()
        }
    }

    /// Adds trials: random ones first, then proposed ones.
    fn run(task: &mut Task, trials: usize, seed: u64, tell: impl Fn(&mut Task, Vec<f64>)) {
        let (mut kernels, mut cache) = (None, Cache::default());
        for number in 0..trials {
            let mut rng = KeyedRng::new(seed, number as u64, "gp");
            let random = |rng: &mut KeyedRng| {
                let each = task.space.iter();
                each.map(|dist| dist.to_unit(dist.at_unit(rng.unit()).as_f64()))
                    .collect()
            };
            let point = if number < 6 {
                random(&mut rng)
            } else {
                kernels = Kernels::fit(task, kernels.as_ref());
                let kernels = kernels.as_ref().unwrap();
                task.propose(kernels, 1000, &mut cache, &mut rng).unwrap()
            };
            tell(task, point);
        }
    }

    fn least(task: &Task) -> f64 {
        task.losses.iter().copied().fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn a_sphere_is_solved_in_few_trials() {
        let mut task = task(floats(3));
        run(&mut task, 35, 1, |task, point| {
            task.losses
                .push(point.iter().map(|v| (v - 0.7) * (v - 0.7)).sum());
            task.points.push(point);
        });
        assert!(least(&task) < 1e-6, "{}", least(&task));
    }

    #[test]
    fn the_best_of_several_valleys_is_found() {
        let mut task = task(floats(2));
        run(&mut task, 60, 2, |task, point| {
            // Six-hump camel, over its usual box: least -1.0316.
            let (x, y) = (6.0 * point[0] - 3.0, 4.0 * point[1] - 2.0);
            let value =
                (4.0 - 2.1 * x * x + x.powi(4) / 3.0) * x * x + x * y + (4.0 * y * y - 4.0) * y * y;
            task.losses.push(value);
            task.points.push(point);
        });
        assert!(least(&task) < -1.0310, "{}", least(&task));
    }

    #[test]
    fn choices_and_whole_numbers_are_found_and_not_asked_twice() {
        let space = vec![
            Distribution::Cat(Categories::of(["a", "b", "c", "d"])),
            Distribution::Int(IntRange::plain(1..=9)),
        ];
        let mut task = task(space.clone());
        run(&mut task, 25, 3, |task, point| {
            let choice = space[0].at_unit(point[0]).as_f64();
            let number = space[1].at_unit(point[1]).as_f64();
            task.losses
                .push((choice - 2.0).abs() + (number - 7.0).abs());
            task.points.push(point);
        });
        assert_eq!(least(&task), 0.0);
        let mut distinct = task.points.clone();
        distinct[6..].sort_by(|a, b| a.partial_cmp(b).unwrap());
        distinct.dedup();
        assert!(
            distinct.len() >= task.points.len() - 3,
            "{}",
            distinct.len()
        );
    }

    #[test]
    fn a_constraint_is_learned() {
        let mut task = task(floats(2));
        task.constraints = vec![Vec::new()];
        run(&mut task, 40, 4, |task, point| {
            // The least sum where the product is at least a quarter: 1, at (0.5, 0.5).
            task.losses.push(point[0] + point[1]);
            task.constraints[0].push(0.25 - point[0] * point[1]);
            task.points.push(point);
        });
        let feasible = task
            .losses
            .iter()
            .zip(&task.constraints[0])
            .filter(|(_, c)| **c <= 0.0);
        let best = feasible
            .map(|(loss, _)| *loss)
            .fold(f64::INFINITY, f64::min);
        assert!(best < 1.02, "{best}");
    }

    #[test]
    fn running_trials_are_kept_away_from() {
        let mut task = task(floats(1));
        for (at, loss) in [(0.0, 0.4), (0.3, 0.1), (0.5, 0.9), (0.8, 0.2), (1.0, 0.7)] {
            task.points.push(vec![at]);
            task.losses.push(loss);
        }
        let kernels = Kernels::fit(&task, None).unwrap();
        let mut points: Vec<f64> = Vec::new();
        for number in 0..4 {
            let mut rng = KeyedRng::new(7, number, "gp");
            let point = task
                .propose(&kernels, 1000, &mut Cache::default(), &mut rng)
                .unwrap();
            let near = points.iter().any(|other| (other - point[0]).abs() < 1e-3);
            assert!(!near, "{points:?} {point:?}");
            points.push(point[0]);
            task.pending.push(point);
        }
    }

    #[test]
    fn regions_of_a_conditional_space_are_told_apart() {
        let choice = Distribution::Cat(Categories::of(["left", "right"]));
        let mut task = task([vec![choice.clone()], floats(2)].concat());
        let none = f64::NAN;
        for (at, loss) in [(0.1, 3.0), (0.5, 1.0), (0.9, 2.0), (0.6, 0.9)] {
            task.points.push(vec![0.25, at, none]);
            task.losses.push(loss);
            task.points.push(vec![0.75, none, at]);
            task.losses.push(loss + 5.0);
        }
        let kernels = Kernels::fit(&task, None).unwrap();
        let mut cache = Cache::default();
        for (number, fixed) in [(0, none), (1, 0.25), (2, 0.75)] {
            task.fixed[0] = fixed;
            let mut rng = KeyedRng::new(8, number, "gp");
            let point = task.propose(&kernels, 1000, &mut cache, &mut rng).unwrap();
            let is_right = point[0] == 0.75;
            assert_eq!(
                (point[1].is_nan(), point[2].is_nan()),
                (is_right, !is_right)
            );
            assert!(fixed.is_nan() || point[0] == fixed);
        }
    }

    #[test]
    fn a_cache_changes_nothing() {
        let mut task = task(floats(2));
        let mut rng = KeyedRng::new(9, 0, "points");
        let (mut warm, mut kernels) = (Cache::default(), None);
        for number in 0..90 {
            let point = vec![rng.unit(), rng.unit()];
            task.losses.push(libm::sin(9.0 * point[0]) + point[1]);
            task.points.push(point);
            if number % 7 != 3 {
                continue;
            }
            kernels = kernels.or_else(|| Kernels::fit(&task, None));
            let propose = |cache: &mut Cache| {
                let mut rng = KeyedRng::new(9, number, "gp");
                task.propose(kernels.as_ref().unwrap(), 70, cache, &mut rng)
            };
            assert_eq!(propose(&mut warm), propose(&mut Cache::default()));
        }
    }

    #[test]
    fn extreme_equal_and_repeated_trials_still_give_a_point_of_the_cube() {
        let extremes: [fn(usize) -> f64; 4] = [
            |_| 0.0,
            |at| if at % 2 == 0 { f64::MAX } else { f64::MIN },
            |at| if at == 3 { f64::INFINITY } else { 1e-300 },
            |at| {
                if at == 3 {
                    f64::NEG_INFINITY
                } else {
                    at as f64
                }
            },
        ];
        for (number, loss) in (0..).zip(extremes) {
            let mut task = task(floats(2));
            task.constraints = vec![Vec::new()];
            for at in 0..8 {
                task.points.push(vec![0.5, if at < 4 { 0.5 } else { 0.25 }]);
                task.losses.push(loss(at));
                task.constraints[0].push(if at == 2 { f64::NAN } else { 1.0 });
            }
            let kernels = Kernels::fit(&task, None).unwrap();
            let mut rng = KeyedRng::new(10, number, "gp");
            let point = task
                .propose(&kernels, 1000, &mut Cache::default(), &mut rng)
                .unwrap();
            assert!(
                point.iter().all(|place| (0.0..=1.0).contains(place)),
                "{point:?}"
            );
        }
    }

    #[test]
    fn a_subset_has_the_best_and_some_of_all_others() {
        let values: Vec<f64> = (0..100).map(f64::from).rev().collect();
        let kept = thin(&values, 10);
        assert_eq!(kept.len(), 10);
        assert_eq!(kept[5..], [95, 96, 97, 98, 99]);
        assert!(kept[..5].iter().all(|at| *at < 95) && kept[0] == 0);
    }
}
