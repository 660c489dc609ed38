//! Minimising a smooth function in a box: L-BFGS with projection.
//!
//! Both what the kernel is fitted with and what the acquisition is climbed with. The crates at hand have no
//! bounds, or wrap a Fortran program; this is the two-loop recursion over those coordinates that are free
//! to move, with a backtracking line search along the projected path.

use super::factor::dot;

/// How many pairs of steps and gradient changes are kept.
const MEMORY: usize = 8;

/// What stops a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The largest number of steps.
    pub(crate) steps: usize,
    /// The largest number of evaluations.
    pub(crate) evaluations: usize,
    /// A step that lowers the value by less than this is the last.
    pub(crate) tolerance: f64,
}

/// Where a search ended.
#[derive(Clone, Debug)]
pub(crate) struct Minimum {
    pub(crate) point: Vec<f64>,
    pub(crate) value: f64,
}

/// Minimises `function`, which gives the value and writes the gradient, from `start` within `low` and
/// `high`. Values that are not finite are taken as too high to go to.
pub(crate) fn minimise(
    start: &[f64],
    low: &[f64],
    high: &[f64],
    limits: Limits,
    mut function: impl FnMut(&[f64], &mut [f64]) -> f64,
) -> Minimum {
    let clamp = |at: usize, value: f64| match (low.get(at), high.get(at)) {
        (Some(low), Some(high)) => value.clamp(*low, *high),
        _ => value,
    };
    let mut point: Vec<f64> = start
        .iter()
        .enumerate()
        .map(|(at, v)| clamp(at, *v))
        .collect();
    let mut gradient = vec![0.0; point.len()];
    let mut value = function(&point, &mut gradient);
    let mut evaluations = 1;
    let mut memory: Vec<Pair> = Vec::new();
    for _ in 0..limits.steps {
        if !value.is_finite() || gradient.iter().any(|g| !g.is_finite()) {
            break;
        }
        // At a bound, with the way down leading out.
        let held: Vec<bool> = point
            .iter()
            .zip(&gradient)
            .enumerate()
            .map(|(at, (p, g))| *g != 0.0 && (clamp(at, p - g.signum() * 1e-9) - p).abs() < 1e-12)
            .collect();
        let mut way = direction(&gradient, &held, &memory);
        let mut slope = dot(&way, &gradient);
        if slope >= 0.0 || !slope.is_finite() {
            memory.clear();
            way = direction(&gradient, &held, &memory);
            slope = dot(&way, &gradient);
        }
        if slope > -1e-18 || !slope.is_finite() {
            break;
        }
        let length = dot(&way, &way).sqrt();
        // Without a memory of the curvature, a first step of a moderate length.
        let mut step = if memory.is_empty() {
            (0.3 / length).min(1.0)
        } else {
            1.0
        };
        let mut next = None;
        while evaluations < limits.evaluations {
            let mut new_gradient = vec![0.0; point.len()];
            let new_point: Vec<f64> = point
                .iter()
                .zip(&way)
                .enumerate()
                .map(|(at, (p, w))| clamp(at, p + step * w))
                .collect();
            let new_value = function(&new_point, &mut new_gradient);
            evaluations += 1;
            let moved: Vec<f64> = new_point.iter().zip(&point).map(|(a, b)| a - b).collect();
            if new_value.is_finite() && new_value <= value + 1e-4 * dot(&moved, &gradient) {
                next = Some((new_point, new_value, new_gradient, moved));
                break;
            }
            step *= if new_value.is_finite() { 0.35 } else { 0.1 };
            if step * length < 1e-14 {
                break;
            }
        }
        let Some((new_point, new_value, new_gradient, moved)) = next else {
            break;
        };
        let change: Vec<f64> = new_gradient
            .iter()
            .zip(&gradient)
            .map(|(a, b)| a - b)
            .collect();
        let curvature = dot(&moved, &change);
        if curvature > 1e-12 * dot(&change, &change) {
            if memory.len() == MEMORY {
                memory.remove(0);
            }
            memory.push(Pair {
                moved,
                change,
                curvature,
            });
        }
        let gain = value - new_value;
        (point, value, gradient) = (new_point, new_value, new_gradient);
        if gain < limits.tolerance {
            break;
        }
    }
    Minimum { point, value }
}

/// One step, the change of the gradient along it, and their product.
struct Pair {
    moved: Vec<f64>,
    change: Vec<f64>,
    curvature: f64,
}

/// The quasi-Newton direction over the coordinates that are not held.
fn direction(gradient: &[f64], held: &[bool], memory: &[Pair]) -> Vec<f64> {
    let free = |v: &mut Vec<f64>| {
        for (v, held) in v.iter_mut().zip(held) {
            if *held {
                *v = 0.0;
            }
        }
    };
    let mut way = gradient.to_vec();
    free(&mut way);
    let mut weights = Vec::with_capacity(memory.len());
    for pair in memory.iter().rev() {
        let weight = dot(&pair.moved, &way) / pair.curvature;
        way.iter_mut()
            .zip(&pair.change)
            .for_each(|(w, c)| *w -= weight * c);
        weights.push(weight);
    }
    if let Some(last) = memory.last() {
        let scale = last.curvature / dot(&last.change, &last.change);
        for w in &mut way {
            *w *= scale;
        }
    }
    for (pair, weight) in memory.iter().zip(weights.iter().rev()) {
        let back = dot(&pair.change, &way) / pair.curvature;
        way.iter_mut()
            .zip(&pair.moved)
            .for_each(|(w, m)| *w += (weight - back) * m);
    }
    free(&mut way);
    for w in &mut way {
        *w = -*w;
    }
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: Limits = Limits {
        steps: 200,
        evaluations: 1000,
        tolerance: 0.0,
    };

    #[test]
    fn a_curved_valley_is_followed_to_its_end() {
        let rosenbrock = |x: &[f64], g: &mut [f64]| {
            let bend = x[1] - x[0] * x[0];
            g[0] = -400.0 * x[0] * bend - 2.0 * (1.0 - x[0]);
            g[1] = 200.0 * bend;
            100.0 * bend * bend + (1.0 - x[0]) * (1.0 - x[0])
        };
        let end = minimise(&[-1.2, 1.0], &[-2.0; 2], &[2.0; 2], MANY, rosenbrock);
        assert!(end.value < 1e-10, "{end:?}");
    }

    #[test]
    fn a_minimum_outside_of_the_box_is_approached_along_its_side() {
        let shifted = |x: &[f64], g: &mut [f64]| {
            let centre = [2.0, 0.25, -1.0];
            for (g, (x, c)) in g.iter_mut().zip(x.iter().zip(centre)) {
                *g = 2.0 * (x - c);
            }
            x.iter().zip(centre).map(|(x, c)| (x - c) * (x - c)).sum()
        };
        let end = minimise(&[0.9, 0.9, 0.9], &[0.0; 3], &[1.0; 3], MANY, shifted);
        for (at, expected) in end.point.iter().zip([1.0, 0.25, 0.0]) {
            assert!((at - expected).abs() < 1e-6, "{end:?}");
        }
    }

    #[test]
    fn values_that_are_no_numbers_end_the_search_where_it_was() {
        let end = minimise(&[0.5], &[0.0], &[1.0], MANY, |_, g| {
            g[0] = f64::NAN;
            f64::NAN
        });
        assert_eq!(end.point, [0.5]);
    }
}
