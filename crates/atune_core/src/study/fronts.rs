//! Trials of several objectives in fronts.

use super::History;

/// Trials with values, sorted into fronts: feasible ones by who dominates whom, then the infeasible by how
/// far they miss their constraints.
#[derive(Debug)]
pub struct Fronts {
    fronts: Vec<Vec<u64>>,
    feasible_count: usize,
}

impl Fronts {
    pub(super) fn of(history: &History) -> Self {
        let mut feasible = Vec::new();
        let mut infeasible = Vec::new();
        for number in history.with_values() {
            let violation = history.trial(number).and_then(|past| past.violation);
            match violation.unwrap_or_default() {
                missed if missed > 0.0 => infeasible.push((missed, number)),
                _ => feasible.extend(history.signed_values(number).map(|v| (v, number))),
            }
        }
        let mut fronts = sort(feasible);
        let feasible_count = fronts.len();
        infeasible.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        fronts.extend(infeasible.into_iter().map(|(_, number)| vec![number]));
        Self {
            fronts,
            feasible_count,
        }
    }

    /// All fronts, the best first; numbers within one ascend.
    pub fn all(&self) -> &[Vec<u64>] {
        &self.fronts
    }

    /// The feasible trials that no other dominates, by number.
    pub fn best(&self) -> &[u64] {
        match self.fronts.first() {
            Some(front) if self.feasible_count > 0 => front,
            _ => &[],
        }
    }
}

/// True when `a` is nowhere worse than `b` and somewhere better; less is better.
pub fn dominates(a: &[f64], b: &[f64]) -> bool {
    let mut is_better = false;
    for (a, b) in a.iter().zip(b) {
        if a > b {
            return false;
        }
        is_better |= a < b;
    }
    is_better
}

/// Sorts points into fronts. In lexicographic order nobody is dominated by a later point, so each goes
/// into the first front none of whose members dominates it, and that is found by halving.
fn sort(mut points: Vec<(Vec<f64>, u64)>) -> Vec<Vec<u64>> {
    let order = |a: &[f64], b: &[f64]| {
        let pairs = a.iter().zip(b);
        pairs.fold(std::cmp::Ordering::Equal, |so_far, (a, b)| {
            so_far.then(a.total_cmp(b))
        })
    };
    points.sort_by(|a, b| order(&a.0, &b.0).then(a.1.cmp(&b.1)));
    let mut fronts: Vec<Vec<&(Vec<f64>, u64)>> = Vec::new();
    for point in &points {
        let is_above = |front: &Vec<&(Vec<f64>, u64)>| {
            front
                .iter()
                .rev()
                .any(|other| dominates(&other.0, &point.0))
        };
        let at = fronts.partition_point(is_above);
        match fronts.get_mut(at) {
            Some(front) => front.push(point),
            None => fronts.push(vec![point]),
        }
    }
    let numbers = |front: Vec<&(Vec<f64>, u64)>| {
        let mut numbers: Vec<u64> = front.into_iter().map(|point| point.1).collect();
        numbers.sort_unstable();
        numbers
    };
    fronts.into_iter().map(numbers).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Peels off what nobody left dominates, again and again.
    fn peel(points: &[(Vec<f64>, u64)]) -> Vec<Vec<u64>> {
        let mut left: Vec<_> = points.to_vec();
        let mut fronts = Vec::new();
        while !left.is_empty() {
            let (front, rest): (Vec<_>, Vec<_>) = left
                .iter()
                .cloned()
                .partition(|p| !left.iter().any(|other| dominates(&other.0, &p.0)));
            fronts.push(front.into_iter().map(|point| point.1).collect());
            left = rest;
        }
        fronts
    }

    proptest! {
        #[test]
        fn fronts_are_what_peeling_gives(
            values in proptest::collection::vec(proptest::collection::vec(0..6i8, 3), 0..40),
        ) {
            let numbers = |v: Vec<i8>| v.into_iter().map(f64::from).collect::<Vec<f64>>();
            let points: Vec<_> = values.into_iter().map(numbers).zip(0u64..).collect();
            prop_assert_eq!(sort(points.clone()), peel(&points));
        }
    }
}
