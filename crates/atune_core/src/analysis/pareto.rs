//! The points that no other dominates.

use crate::study::dominates;

/// The places of the points that no other dominates, ascending; less is better. Of equal points all are
/// there; points with a coordinate that is not a number are not.
pub fn pareto_front(points: &[Vec<f64>]) -> Vec<usize> {
    let mut order: Vec<(usize, &Vec<f64>)> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| point.iter().all(|value| !value.is_nan()))
        .collect();
    // In lexicographic order nobody is dominated by a later point.
    order.sort_by(|(_, a), (_, b)| {
        let pairs = a.iter().zip(*b);
        pairs.fold(std::cmp::Ordering::Equal, |so_far, (a, b)| {
            so_far.then(a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal))
        })
    });
    let mut front: Vec<(usize, &Vec<f64>)> = Vec::new();
    for (at, point) in order {
        if !front.iter().rev().any(|(_, other)| dominates(other, point)) {
            front.push((at, point));
        }
    }
    let mut places: Vec<usize> = front.into_iter().map(|(at, _)| at).collect();
    places.sort_unstable();
    places
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_front_is_what_nobody_dominates(
            values in proptest::collection::vec(proptest::collection::vec(-4..4i8, 3), 0..40),
        ) {
            let points: Vec<Vec<f64>> = values
                .into_iter()
                .map(|point| point.into_iter().map(f64::from).collect())
                .collect();
            let is_beaten = |point: &Vec<f64>| points.iter().any(|other| dominates(other, point));
            let expected: Vec<usize> =
                (0..points.len()).filter(|at| !is_beaten(&points[*at])).collect();
            prop_assert_eq!(pareto_front(&points), expected);
        }
    }

    #[test]
    fn what_is_no_number_is_in_no_front() {
        let points = vec![
            vec![f64::NAN, 0.0],
            vec![1.0, 1.0],
            vec![f64::NEG_INFINITY, 2.0],
        ];
        assert_eq!(pareto_front(&points), [1, 2]);
        assert!(pareto_front(&[]).is_empty());
    }
}
