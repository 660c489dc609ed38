//! Where the acquisition is highest: quasi-random points, points around the best known ones, and a local
//! climb from the best of both.

use super::acquisition::Acquisition;
use super::lbfgs::{Limits, minimise};
use crate::rng::KeyedRng;
use crate::space::Distribution;

/// Numbers with more values than this are climbed as if they were continuous, and rounded at the end.
const FEW_VALUES: u64 = 200;
/// Of a discrete parameter with more values than this, only some are tried in place of the current one.
const TRY_ALL: u64 = 12;

/// One set of parameters that trials have together, with the values that do not lead to another set.
#[derive(Clone, Debug)]
pub(crate) struct Region {
    /// Per parameter, whether trials here have it.
    pub(crate) has: Vec<bool>,
    /// Per parameter, the places that were only ever seen in other regions.
    pub(crate) elsewhere: Vec<Vec<f64>>,
    /// Known points here, the best first.
    pub(crate) best: Vec<Vec<f64>>,
}

/// How much work a search may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// Points at which the acquisition is evaluated, over all regions.
    pub(crate) candidates: usize,
    /// Climbs.
    pub(crate) climbs: usize,
    /// Evaluations per climb.
    pub(crate) evaluations: usize,
}

/// One search over a joint space.
pub(crate) struct Search<'a> {
    pub(crate) space: &'a [Distribution],
    pub(crate) regions: &'a [Region],
    pub(crate) acquisition: &'a Acquisition,
    /// Places that are given, NaN where there is a choice.
    pub(crate) fixed: &'a [f64],
    /// Points that are not worth proposing again.
    pub(crate) known: &'a [Vec<f64>],
}

impl Search<'_> {
    /// The point with the highest acquisition that was found; NaN where it has no parameter.
    pub(crate) fn run(&self, effort: Effort, rng: &mut KeyedRng) -> Option<Vec<f64>> {
        let each = effort.candidates.div_ceil(self.regions.len().max(1));
        let mut points = Vec::new();
        let mut homes = Vec::new();
        for region in self.regions {
            self.candidates(region, each, rng, &mut points);
            homes.resize(points.len(), region);
        }
        let values = self.acquisition.values(&points);
        let mut order: Vec<usize> = (0..points.len()).collect();
        let value = |at: &usize| values.get(*at).copied().unwrap_or(f64::NEG_INFINITY);
        order.sort_by(|a, b| value(b).total_cmp(&value(a)));
        let mut starts: Vec<(&Vec<f64>, &Region, f64)> = Vec::new();
        let mut ranked = Vec::new();
        for at in order {
            let (Some(point), Some(home)) = (points.get(at), homes.get(at)) else {
                continue;
            };
            if value(&at).is_nan() {
                continue;
            }
            // Climbs from neighbours end on the same hill.
            let apart = |(other, ..): &(&Vec<f64>, &Region, f64)| distance(other, point) > 0.05;
            if starts.len() < effort.climbs && starts.iter().all(apart) {
                starts.push((point, home, value(&at)));
            }
            ranked.push((value(&at), point.clone()));
        }
        for (start, home, value) in starts {
            ranked.push(self.climb(start.clone(), value, home, effort));
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
        let is_known = |point: &Vec<f64>| self.known.iter().any(|known| same(known, point));
        let fresh = ranked.iter().position(|(_, point)| !is_known(point));
        ranked
            .into_iter()
            .nth(fresh.unwrap_or_default())
            .map(|(_, point)| point)
    }

    /// Candidates of one region: half of them evenly over it, the others around its best points.
    fn candidates(
        &self,
        region: &Region,
        count: usize,
        rng: &mut KeyedRng,
        points: &mut Vec<Vec<f64>>,
    ) {
        let numbers = self.space.len();
        let mut sequence = Evenly::new(numbers, rng);
        let around = if region.best.is_empty() { 0 } else { count / 2 };
        for _ in around..count {
            let mut point = sequence.next();
            self.settle(&mut point, region, rng);
            points.push(point);
        }
        let wide = [0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003];
        for at in 0..around {
            let centre = region.best.get(at % region.best.len().max(1));
            let Some(mut point) = centre.cloned() else {
                continue;
            };
            let reach = wide.get(rng.place(wide.len())).copied().unwrap_or(0.1);
            let share = if rng.unit() < 0.5 {
                1.0
            } else {
                2.0 / self.share()
            };
            for (place, dist) in point.iter_mut().zip(self.space) {
                if dist.is_numerical() {
                    if rng.unit() < share {
                        *place = reflect(*place + reach * rng.normal());
                    }
                } else if rng.unit() < 0.3 / self.share() {
                    *place = rng.unit();
                }
            }
            self.settle(&mut point, region, rng);
            points.push(point);
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a count of parameters")]
    fn share(&self) -> f64 {
        self.space.len().max(1) as f64
    }

    /// Makes a point one of the region: on the values of the space, absent where the region has nothing.
    fn settle(&self, point: &mut [f64], region: &Region, rng: &mut KeyedRng) {
        let axes = self.space.iter().zip(&region.has).zip(&region.elsewhere);
        for ((place, fixed), ((dist, has), elsewhere)) in point.iter_mut().zip(self.fixed).zip(axes)
        {
            if !has || !fixed.is_nan() {
                *place = *fixed;
                continue;
            }
            if place.is_nan() {
                *place = rng.unit();
            }
            *place = snap(dist, *place);
            for _ in 0..64 {
                if !elsewhere.contains(place) {
                    break;
                }
                *place = snap(dist, rng.unit());
            }
        }
    }

    /// Climbs from a point: numbers along the gradient, discrete parameters by exchange.
    fn climb(
        &self,
        mut point: Vec<f64>,
        mut value: f64,
        region: &Region,
        effort: Effort,
    ) -> (f64, Vec<f64>) {
        for _ in 0..3 {
            let (mut low, mut high) = (point.clone(), point.clone());
            for (((low, high), fixed), dist) in low
                .iter_mut()
                .zip(&mut high)
                .zip(self.fixed)
                .zip(self.space)
            {
                if low.is_nan() {
                    (*low, *high) = (0.5, 0.5);
                } else if fixed.is_nan() && dist.is_numerical() && is_smooth(dist) {
                    (*low, *high) = (0.0, 1.0);
                }
            }
            let absent: Vec<bool> = point.iter().map(|place| place.is_nan()).collect();
            let limits = Limits {
                steps: effort.evaluations,
                evaluations: effort.evaluations,
                tolerance: 1e-7,
            };
            let whole = |row: &[f64]| -> Vec<f64> {
                let places = row.iter().zip(&absent);
                places
                    .map(|(place, absent)| if *absent { f64::NAN } else { *place })
                    .collect()
            };
            let start: Vec<f64> = point
                .iter()
                .map(|place| if place.is_nan() { 0.5 } else { *place })
                .collect();
            let end = minimise(&start, &low, &high, limits, |row, gradient| {
                let value = self.acquisition.slope(&whole(row), gradient);
                for g in gradient.iter_mut() {
                    *g = -*g;
                }
                -value
            });
            let mut reached = whole(&end.point);
            for ((place, fixed), dist) in reached.iter_mut().zip(self.fixed).zip(self.space) {
                if !place.is_nan() && fixed.is_nan() {
                    *place = snap(dist, *place);
                }
            }
            // Rounding may have lost what was gained.
            let reached_value = self.acquisition.values(std::slice::from_ref(&reached));
            if let [at] = reached_value.as_slice()
                && *at > value
            {
                (point, value) = (reached, *at);
            }
            let before = value;
            self.exchange(&mut point, &mut value, region);
            if value <= before {
                break;
            }
        }
        (value, point)
    }

    /// Tries other values of each discrete parameter, one after the other.
    fn exchange(&self, point: &mut Vec<f64>, value: &mut f64, region: &Region) {
        for (axis, dist) in self.space.iter().enumerate() {
            let (Some(place), Some(elsewhere)) = (point.get(axis), region.elsewhere.get(axis))
            else {
                continue;
            };
            let is_fixed = self.fixed.get(axis).is_some_and(|fixed| !fixed.is_nan());
            if place.is_nan() || is_fixed || (dist.is_numerical() && is_smooth(dist)) {
                continue;
            }
            let others: Vec<Vec<f64>> = others(dist, *place)
                .into_iter()
                .filter(|other| !elsewhere.contains(other))
                .map(|other| {
                    let mut moved = point.clone();
                    if let Some(place) = moved.get_mut(axis) {
                        *place = other;
                    }
                    moved
                })
                .collect();
            let values = self.acquisition.values(&others);
            for (other, at) in others.into_iter().zip(values) {
                if at > *value {
                    (*point, *value) = (other, at);
                }
            }
        }
    }
}

/// Whether a numerical parameter is climbed as if it were continuous.
fn is_smooth(dist: &Distribution) -> bool {
    dist.value_count().is_none_or(|count| count > FEW_VALUES)
}

/// The place of the value that belongs to a place.
pub(crate) fn snap(dist: &Distribution, place: f64) -> f64 {
    if is_smooth(dist) && matches!(dist, Distribution::Float(_)) && dist.value_count().is_none() {
        return place.clamp(0.0, 1.0);
    }
    dist.to_unit(dist.at_unit(place).as_f64())
}

/// Places of values to try in the place of one.
fn others(dist: &Distribution, place: f64) -> Vec<f64> {
    let count = dist.value_count().unwrap_or(1);
    let at = |value: u64| dist.to_unit(dist.value_at(value).as_f64());
    let mut places: Vec<f64> = if count <= TRY_ALL || !dist.is_numerical() {
        (0..count.min(64)).map(at).collect()
    } else {
        #[expect(clippy::cast_precision_loss, reason = "few values")]
        let width = 1.0 / count as f64;
        let steps = [1.0, 2.0, 4.0, 8.0].into_iter().flat_map(|by| [-by, by]);
        steps
            .map(|by| snap(dist, (place + by * width).clamp(0.0, 1.0)))
            .collect()
    };
    places.retain(|other| other.to_bits() != place.to_bits());
    places.dedup();
    places
}

fn same(a: &[f64], b: &[f64]) -> bool {
    a.iter()
        .zip(b)
        .all(|(a, b)| a.total_cmp(b).is_eq() || (a.is_nan() && b.is_nan()))
}

/// The largest difference of two points; whole where only one has a parameter.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    let each = a
        .iter()
        .zip(b)
        .map(|(a, b)| match (a.is_nan(), b.is_nan()) {
            (true, true) => 0.0,
            (false, false) => (a - b).abs(),
            _ => 1.0,
        });
    each.fold(0.0, f64::max)
}

/// A number near the unit interval, folded back into it.
fn reflect(place: f64) -> f64 {
    let place = place.abs();
    let place = if place > 1.0 { 2.0 - place } else { place };
    place.clamp(0.0, 1.0)
}

/// Points that lie evenly in the unit cube: multiples of powers of a generalised golden ratio, from a
/// random offset.
struct Evenly {
    step: Vec<f64>,
    at: Vec<f64>,
}

impl Evenly {
    fn new(dimensions: usize, rng: &mut KeyedRng) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "a count of parameters")]
        let power = 1.0 / (dimensions as f64 + 1.0);
        // The root of x^(d+1) = x + 1.
        let mut ratio = 1.5;
        for _ in 0..64 {
            ratio = libm::pow(1.0 + ratio, power);
        }
        let mut step = Vec::with_capacity(dimensions);
        let mut last = 1.0;
        for _ in 0..dimensions {
            last /= ratio;
            step.push(last);
        }
        Self {
            at: step.iter().map(|_| rng.unit()).collect(),
            step,
        }
    }

    fn next(&mut self) -> Vec<f64> {
        for (at, step) in self.at.iter_mut().zip(&self.step) {
            *at += step;
            *at -= at.floor();
        }
        self.at.clone()
    }
}
