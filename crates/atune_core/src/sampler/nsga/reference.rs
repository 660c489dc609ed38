//! Reference directions of NSGA-III (Deb and Jain 2014): even points of the simplex, along which the last
//! front is thinned out.

use nalgebra::{DMatrix, DVector};

use super::select::Member;
use crate::rng::KeyedRng;

/// Even directions over the objectives.
#[derive(Clone, Debug)]
pub(crate) struct Niches {
    directions: Vec<Vec<f64>>,
}

impl Niches {
    /// The points of the simplex whose coordinates are multiples of one part in so many, as many parts as
    /// leave at most `count` points, and at least one.
    pub(crate) fn new(objectives: usize, count: usize) -> Self {
        let mut parts = 1;
        while objectives > 1 && points(objectives, parts + 1).is_some_and(|more| more <= count) {
            parts += 1;
        }
        let mut directions = Vec::new();
        spread(objectives, parts, parts, &mut Vec::new(), &mut directions);
        Self { directions }
    }

    /// Adds `wanted` of `last` to the chosen ones, from the directions with the fewest of them.
    pub(crate) fn fill(
        &self,
        members: &[Member],
        chosen: &mut Vec<usize>,
        last: Vec<usize>,
        wanted: usize,
        rng: &mut KeyedRng,
    ) {
        let all: Vec<usize> = chosen.iter().chain(&last).copied().collect();
        let places = normalise(members, &all);
        let mut homes = places.iter().map(|place| self.nearest(place));
        let mut crowds = vec![0_usize; self.directions.len()];
        for (home, _) in homes.by_ref().take(chosen.len()) {
            if let Some(crowd) = crowds.get_mut(home) {
                *crowd += 1;
            }
        }
        // The place in the list, its direction, and the distance from that.
        let mut left: Vec<(usize, usize, f64)> = last
            .into_iter()
            .zip(homes)
            .map(|(at, (home, off))| (at, home, off))
            .collect();
        for _ in 0..wanted {
            let crowd = |home: usize| crowds.get(home).copied().unwrap_or_default();
            let Some(least) = left.iter().map(|(_, home, _)| crowd(*home)).min() else {
                break;
            };
            let open = left
                .iter()
                .map(|(_, home, _)| *home)
                .filter(|home| crowd(*home) == least);
            let mut niches: Vec<usize> = open.collect();
            niches.sort_unstable();
            niches.dedup();
            let Some(niche) = niches.get(rng.place(niches.len())).copied() else {
                break;
            };
            let here = || left.iter().filter(|(_, home, _)| *home == niche);
            // The nearest one opens a direction; after that any will do.
            let picked = if least == 0 {
                here().min_by(|a, b| a.2.total_cmp(&b.2))
            } else {
                here().nth(rng.place(here().count()))
            };
            let Some((picked, ..)) = picked.copied() else {
                break;
            };
            chosen.push(picked);
            left.retain(|(at, ..)| *at != picked);
            if let Some(crowd) = crowds.get_mut(niche) {
                *crowd += 1;
            }
        }
    }

    /// The direction that a place is nearest to, and how far off it is.
    fn nearest(&self, place: &[f64]) -> (usize, f64) {
        let mut best = (0, f64::INFINITY);
        for (at, direction) in self.directions.iter().enumerate() {
            let along: f64 = direction.iter().zip(place).map(|(d, p)| d * p).sum();
            let length: f64 = direction.iter().map(|d| d * d).sum();
            let off: f64 = direction
                .iter()
                .zip(place)
                .map(|(d, p)| p - d * along / length)
                .map(|rest| rest * rest)
                .sum();
            if off.sqrt() < best.1 {
                best = (at, off.sqrt());
            }
        }
        best
    }
}

/// How many points a simplex has.
fn points(objectives: usize, parts: usize) -> Option<usize> {
    let mut count: usize = 1;
    for k in 1..objectives {
        count = count.checked_mul(parts + k)? / k;
    }
    Some(count)
}

fn spread(left: usize, rest: usize, parts: usize, head: &mut Vec<f64>, all: &mut Vec<Vec<f64>>) {
    #[expect(clippy::cast_precision_loss, reason = "small counts")]
    let share = |n: usize| n as f64 / parts as f64;
    if left <= 1 {
        let mut whole = head.clone();
        whole.push(share(rest));
        all.push(whole);
        return;
    }
    for n in 0..=rest {
        head.push(share(n));
        spread(left - 1, rest - n, parts, head, all);
        head.pop();
    }
}

/// Places with the best of each objective at 0, and at 1 where the plane through the extreme members meets
/// its axis, or the worst when there is no such plane.
fn normalise(members: &[Member], all: &[usize]) -> Vec<Vec<f64>> {
    let rows: Vec<&Vec<f64>> = all
        .iter()
        .filter_map(|at| members.get(*at))
        .map(|member| &member.values)
        .collect();
    let count = rows.first().map_or(0, |row| row.len());
    let finite = |at: usize| {
        let column = rows.iter().filter_map(move |row| row.get(at).copied());
        column.filter(|value| value.is_finite())
    };
    let ends: Vec<(f64, f64)> = (0..count)
        .map(|at| {
            let low = finite(at).reduce(f64::min).unwrap_or_default();
            (low, finite(at).reduce(f64::max).unwrap_or_default())
        })
        .collect();
    let moved: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| {
            let each = row.iter().zip(&ends);
            each.map(|(value, (low, high))| value.clamp(*low, *high) - low)
                .collect()
        })
        .collect();
    let widths = || ends.iter().map(|(low, high)| high - low).collect();
    let scales: Vec<f64> = intercepts(&moved, count).unwrap_or_else(widths);
    let scale = |row: &Vec<f64>| {
        let each = row.iter().zip(&scales);
        each.map(|(value, end)| if *end > 0.0 { value / end } else { 0.0 })
            .collect()
    };
    moved.iter().map(scale).collect()
}

/// Where the plane through the extreme member of each objective meets the axes.
fn intercepts(moved: &[Vec<f64>], count: usize) -> Option<Vec<f64>> {
    let extreme = |axis: usize| {
        let stretch = |row: &Vec<f64>| {
            let weigh = |(at, value): (usize, &f64)| if at == axis { *value } else { value * 1e6 };
            row.iter().enumerate().map(weigh).fold(0.0, f64::max)
        };
        moved
            .iter()
            .min_by(|a, b| stretch(a).total_cmp(&stretch(b)))
    };
    let corners: Vec<&Vec<f64>> = (0..count).map(extreme).collect::<Option<_>>()?;
    let cell = |row: usize, column: usize| {
        let cell = corners.get(row).and_then(|corner| corner.get(column));
        cell.copied().unwrap_or_default()
    };
    let plane = DMatrix::from_fn(count, count, cell);
    let slopes = plane.lu().solve(&DVector::from_element(count, 1.0))?;
    let ends: Vec<f64> = slopes.iter().map(|slope| 1.0 / slope).collect();
    let fits = |end: &f64| end.is_finite() && *end > 1e-12;
    ends.iter().all(fits).then_some(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::nsga::select::{Thinning, survivors};

    #[test]
    fn directions_are_the_even_points_of_the_simplex() {
        let niches = Niches::new(3, 15);
        assert_eq!(niches.directions.len(), 15);
        for direction in &niches.directions {
            assert!((direction.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        }
        assert_eq!(Niches::new(2, 10).directions.len(), 10);
        assert_eq!(Niches::new(1, 10).directions, [[1.0]]);
    }

    #[test]
    fn every_direction_keeps_someone() {
        // A crowd in the middle of the front, and one at each end, on scales that differ.
        let places = [0.0, 0.49, 0.5, 0.51, 0.52, 1.0];
        let members: Vec<Member> = (0..)
            .zip(places)
            .map(|(number, x)| Member {
                number,
                values: vec![x, 1000.0 * (1.0 - x)],
                violation: 0.0,
            })
            .collect();
        let niches = Niches::new(2, 3);
        let mut rng = KeyedRng::new(1, 0, "niches");
        let kept = survivors(&members, 3, Thinning::Directions(&niches, &mut rng));
        assert_eq!(kept, [0, 2, 5]);
    }

    #[test]
    fn equal_and_infinite_values_are_thinned_out_all_the_same() {
        let members: Vec<Member> = (0..8)
            .map(|number| Member {
                number,
                values: vec![if number == 7 { f64::INFINITY } else { 1.0 }, 1.0, 1.0],
                violation: 0.0,
            })
            .collect();
        let niches = Niches::new(3, 6);
        let mut rng = KeyedRng::new(1, 0, "niches");
        let kept = survivors(&members, 4, Thinning::Directions(&niches, &mut rng));
        assert_eq!(kept.len(), 4);
        assert!(!kept.contains(&7));
    }
}
