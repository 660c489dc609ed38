//! The volume that points dominate, exactly.
//!
//! Of two objectives by a sweep, of three by a sweep over the third with a staircase of the other two, and
//! of more by the algorithm of the Walking Fish Group: the sum of what each point adds to those after it
//! (While, Bradstreet, Barone 2012).

use std::collections::BTreeMap;

use super::pareto::pareto_front;

/// The volume between `reference` and the points that are better than it in every objective; less is better.
/// Points of another length, and those that are not finite, add nothing; nor does a reference that is not
/// finite have a volume.
pub fn hypervolume(points: &[Vec<f64>], reference: &[f64]) -> f64 {
    if reference.is_empty() || reference.iter().any(|value| !value.is_finite()) {
        return 0.0;
    }
    let is_inside = |point: &&Vec<f64>| {
        point.len() == reference.len()
            && point
                .iter()
                .zip(reference)
                .all(|(value, end)| value.is_finite() && value < end)
    };
    let inside: Vec<Vec<f64>> = points.iter().filter(is_inside).cloned().collect();
    volume(&only_front(&inside), reference)
}

/// Points of the front, each once.
fn only_front(points: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut front: Vec<Vec<f64>> = pareto_front(points)
        .into_iter()
        .filter_map(|at| points.get(at).cloned())
        .collect();
    front.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    front.dedup();
    front
}

/// The volume of points that do not dominate each other, ascending by the first objective.
fn volume(front: &[Vec<f64>], reference: &[f64]) -> f64 {
    match reference {
        [end] => front
            .iter()
            .filter_map(|p| p.first())
            .fold(0.0, |most, v| f64::max(most, end - v)),
        [end, top] => area(front, *end, *top),
        [x, y, z] => swept(front, [*x, *y, *z]),
        _ => walked(front, reference),
    }
}

fn area(front: &[Vec<f64>], end: f64, top: f64) -> f64 {
    let (mut sum, mut top) = (0.0, top);
    for point in front {
        if let [x, y] = point.as_slice()
            && *y < top
        {
            sum += (end - x) * (top - y);
            top = *y;
        }
    }
    sum
}

/// Three objectives: layer by layer along the third, over a staircase of the first two.
fn swept(front: &[Vec<f64>], [end, top, last]: [f64; 3]) -> f64 {
    let third = |point: &Vec<f64>| point.get(2).copied().unwrap_or(last);
    let mut front = front.to_vec();
    front.sort_by(|a, b| third(a).total_cmp(&third(b)));
    // The steps by their first objective: each has a lower second one than the steps before it.
    let mut steps: BTreeMap<Ordered, f64> = BTreeMap::new();
    let (mut sum, mut covered) = (0.0, 0.0);
    for (at, point) in front.iter().enumerate() {
        let [x, y, z] = point.as_slice() else {
            continue;
        };
        // What the point adds to the covered area: from its own step up to those around it.
        let before = steps
            .range(..=Ordered(*x))
            .next_back()
            .map_or(top, |(_, y)| *y);
        if *y < before {
            let mut ceiling = before;
            let mut from = *x;
            let beaten: Vec<(Ordered, f64)> = steps
                .range(Ordered(*x)..)
                .take_while(|(_, other)| **other >= *y)
                .map(|(x, y)| (*x, *y))
                .collect();
            for (Ordered(other_x), other_y) in beaten {
                covered += (other_x - from) * (ceiling - y);
                (from, ceiling) = (other_x, other_y.min(ceiling));
                steps.remove(&Ordered(other_x));
            }
            let next = steps.range(Ordered(*x)..).next().map_or(end, |(x, _)| x.0);
            covered += (next - from) * (ceiling - y);
            steps.insert(Ordered(*x), *y);
        }
        let above = front.get(at + 1).map_or(last, third);
        sum += covered * (above - z);
    }
    sum
}

/// A number in its total order.
#[derive(Clone, Copy, Debug)]
struct Ordered(f64);

impl PartialEq for Ordered {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// More objectives: what each point adds to those after it.
fn walked(front: &[Vec<f64>], reference: &[f64]) -> f64 {
    let box_of = |point: &[f64]| -> f64 {
        point
            .iter()
            .zip(reference)
            .map(|(v, end)| end - v)
            .product()
    };
    let mut sum = 0.0;
    let mut rest = front;
    while let [point, after @ ..] = rest {
        // The others as far as they reach into the point's own box.
        let limited: Vec<Vec<f64>> = after
            .iter()
            .map(|other| other.iter().zip(point).map(|(a, b)| a.max(*b)).collect())
            .collect();
        sum += box_of(point) - volume(&only_front(&limited), reference);
        rest = after;
    }
    sum
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what is exact is compared exactly")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Counts the unit cells that some point dominates.
    fn counted(points: &[Vec<f64>], objectives: u32, side: u32) -> f64 {
        let mut count = 0u32;
        for cell in 0..side.pow(objectives) {
            let at: Vec<f64> = (0..objectives)
                .map(|k| f64::from(cell / side.pow(k) % side))
                .collect();
            let covers = |point: &Vec<f64>| point.iter().zip(&at).all(|(p, at)| p <= at);
            count += u32::from(points.iter().any(covers));
        }
        f64::from(count)
    }

    fn points(objectives: usize) -> impl Strategy<Value = Vec<Vec<f64>>> {
        let point = proptest::collection::vec((0..6u8).prop_map(f64::from), objectives);
        proptest::collection::vec(point, 0..14)
    }

    proptest! {
        #[test]
        fn volumes_are_the_cells_that_are_dominated(
            two in points(2), three in points(3), four in points(4), five in points(5),
        ) {
            for (points, objectives) in [(two, 2), (three, 3), (four, 4), (five, 5)] {
                let reference = vec![5.0; objectives as usize];
                let expected = counted(&points, objectives, 5);
                prop_assert!((hypervolume(&points, &reference) - expected).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn what_is_beyond_the_reference_or_no_number_adds_nothing() {
        let points = vec![
            vec![1.0, 1.0],
            vec![3.0, 0.0],
            vec![f64::NAN, 0.0],
            vec![f64::NEG_INFINITY, 0.0],
            vec![0.0],
        ];
        assert_eq!(hypervolume(&points, &[2.0, 2.0]), 1.0);
        assert_eq!(hypervolume(&points, &[f64::INFINITY, 2.0]), 0.0);
        assert_eq!(hypervolume(&[], &[2.0, 2.0]), 0.0);
        assert_eq!(hypervolume(&[vec![0.5], vec![0.25]], &[1.0]), 0.75);
    }
}
