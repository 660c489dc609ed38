//! Trials of one front, by how much of the dominated volume is theirs alone.

use crate::study::History;

/// Of longer fronts only this many are weighed, evenly spaced: the volume of many points costs too much.
const WEIGHED_MAX: usize = 40;

/// The front with those first that add the most; equal ones by number.
pub(super) fn by_contribution(history: &History, front: Vec<u64>) -> Vec<u64> {
    let points: Vec<(u64, Vec<f64>)> = front
        .iter()
        .filter_map(|number| Some((*number, history.signed_values(*number)?)))
        .collect();
    let Some(objectives) = points.first().map(|(_, values)| values.len()) else {
        return front;
    };
    // The corner that volumes are measured to lies a little beyond the worst of each objective.
    let corner: Vec<f64> = (0..objectives)
        .map(|objective| {
            let values = points
                .iter()
                .filter_map(|(_, values)| values.get(objective));
            let finite = values.filter(|value| value.is_finite());
            let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(*v), high.max(*v))
            });
            let width = high - low;
            high + if width > 0.0 { 0.1 * width } else { 1.0 }
        })
        .collect();
    let step = points.len().div_ceil(WEIGHED_MAX).max(1);
    let mut weighed: Vec<(u64, f64)> = Vec::new();
    let mut others = Vec::new();
    let chosen: Vec<&(u64, Vec<f64>)> = points.iter().step_by(step).collect();
    for (at, (number, _)) in points.iter().enumerate() {
        if at % step != 0 {
            others.push(*number);
        }
    }
    for (number, values) in &chosen {
        let rest = chosen.iter().filter(|(other, _)| other != number);
        let rest: Vec<&[f64]> = rest.map(|(_, values)| values.as_slice()).collect();
        weighed.push((*number, exclusive(values, &rest, &corner)));
    }
    weighed.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    weighed
        .into_iter()
        .map(|(number, _)| number)
        .chain(others)
        .collect()
}

/// The volume between a point and the corner.
fn volume_of(point: &[f64], corner: &[f64]) -> f64 {
    let sides = point.iter().zip(corner);
    sides.map(|(at, end)| (end - at).max(0.0)).product()
}

/// The volume that a point dominates and none of the others does.
fn exclusive(point: &[f64], others: &[&[f64]], corner: &[f64]) -> f64 {
    let limited: Vec<Vec<f64>> = others
        .iter()
        .map(|other| other.iter().zip(point).map(|(a, b)| a.max(*b)).collect())
        .collect();
    volume_of(point, corner) - volume(&limited, corner)
}

/// The volume that points dominate together: each adds what is its own before those after it.
fn volume(points: &[Vec<f64>], corner: &[f64]) -> f64 {
    let kept = without_dominated(points);
    let mut sum = 0.0;
    for (at, point) in kept.iter().enumerate() {
        let later: Vec<&[f64]> = kept.iter().skip(at + 1).map(|p| p.as_slice()).collect();
        sum += exclusive(point, &later, corner);
    }
    sum
}

/// The points that no other one dominates, of equal ones the first.
fn without_dominated(points: &[Vec<f64>]) -> Vec<&Vec<f64>> {
    let is_at_least = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| a <= b);
    let mut kept: Vec<&Vec<f64>> = Vec::new();
    for point in points {
        if kept.iter().any(|other| is_at_least(other, point)) {
            continue;
        }
        kept.retain(|other| !is_at_least(point, other));
        kept.push(point);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_of_boxes_are_added_once() {
        let corner = [4.0, 4.0];
        let points = vec![
            vec![1.0, 3.0],
            vec![2.0, 2.0],
            vec![3.0, 1.0],
            vec![3.0, 3.0],
        ];
        assert!((volume(&points, &corner) - 6.0).abs() < 1e-12);
        let corner = [2.0, 2.0, 2.0];
        let points = vec![
            vec![0.0, 1.0, 1.0],
            vec![1.0, 0.0, 1.0],
            vec![1.0, 1.0, 0.0],
        ];
        assert!((volume(&points, &corner) - 4.0).abs() < 1e-12);
        let others: Vec<&[f64]> = points[1..].iter().map(Vec::as_slice).collect();
        assert!((exclusive(&points[0], &others, &corner) - 1.0).abs() < 1e-12);
    }
}
