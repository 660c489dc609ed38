//! How a study got better, trial by trial.

use super::hypervolume::hypervolume;
use super::pareto::pareto_front;
use crate::study::History;
use crate::trial::Direction;

/// One step of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The number of the trial that made the step.
    pub number: u64,
    /// The value from there on.
    pub value: f64,
}

/// The best value of the first objective after each complete trial that meets its constraints, by number.
pub fn best_so_far(history: &History) -> Vec<Point> {
    let way = history
        .directions()
        .first()
        .copied()
        .unwrap_or(Direction::Minimize);
    let mut best = f64::INFINITY;
    feasible(history)
        .map(|(number, values)| {
            best = values.first().map_or(best, |value| best.min(*value));
            // Signing twice gives the value back.
            let value = way.signed(best);
            Point { number, value }
        })
        .collect()
}

/// The hypervolume after each complete trial that meets its constraints, by number. `reference` has the
/// directions of the study.
pub fn hypervolume_so_far(history: &History, reference: &[f64]) -> Vec<Point> {
    let signed = reference.iter().zip(history.directions());
    let reference: Vec<f64> = signed.map(|(value, way)| way.signed(*value)).collect();
    let mut front: Vec<Vec<f64>> = Vec::new();
    let mut value = 0.0;
    feasible(history)
        .map(|(number, values)| {
            if !front
                .iter()
                .any(|other| other.iter().zip(&values).all(|(a, b)| a <= b))
            {
                front.push(values);
                let kept = pareto_front(&front);
                front = kept
                    .into_iter()
                    .filter_map(|at| front.get(at).cloned())
                    .collect();
                value = hypervolume(&front, &reference);
            }
            Point { number, value }
        })
        .collect()
}

/// A reference for a study that was given none: a tenth of each objective's width worse than the worst
/// finite value of complete trials, in the directions of the study. `None` before there are any.
pub fn reference_point(history: &History) -> Option<Vec<f64>> {
    let all: Vec<Vec<f64>> = feasible(history).map(|(_, values)| values).collect();
    let each = history.directions().iter().enumerate();
    each.map(|(at, way)| {
        let column = || {
            all.iter()
                .filter_map(|row| row.get(at))
                .copied()
                .filter(|v| v.is_finite())
        };
        let (low, high) = (column().reduce(f64::min)?, column().reduce(f64::max)?);
        let width = if high > low { high - low } else { 1.0 };
        Some(way.signed(high + 0.1 * width))
    })
    .collect()
}

/// Complete trials that meet their constraints, with their values signed so that less is better.
fn feasible(history: &History) -> impl Iterator<Item = (u64, Vec<f64>)> {
    history.with_values().filter_map(|number| {
        let violation = history.trial(number)?.violation.unwrap_or_default();
        let values = history.signed_values(number)?;
        (violation <= 0.0).then_some((number, values))
    })
}
