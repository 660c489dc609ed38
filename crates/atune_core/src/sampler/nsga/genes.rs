//! Children: crossover and mutation, one parameter after the other.
//!
//! Numbers are crossed over by simulated binary crossover and mutated by a polynomial, both within the unit
//! interval (Deb and Agrawal 1995; Deb and Goyal 1996); of choices one parent's is taken, and mutating
//! draws another.

use crate::rng::KeyedRng;
use crate::space::Distribution;

/// How children are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rates {
    /// How alike to their parents numbers are after a crossover: the larger, the more.
    pub(crate) crossover_eta: f64,
    /// As that, of mutations.
    pub(crate) mutation_eta: f64,
    /// The probability that a parameter mutates.
    pub(crate) mutation: f64,
}

/// A child's place, of those of its parents. `crosses` says whether this child is made of both.
pub(crate) fn inherit(
    dist: &Distribution,
    (a, b): (f64, f64),
    crosses: bool,
    rates: Rates,
    rng: &mut KeyedRng,
) -> f64 {
    let (swap, spread, mutates, shift) = (rng.unit(), rng.unit(), rng.unit(), rng.unit());
    if !dist.is_numerical() {
        let inherited = if crosses && swap < 0.5 { b } else { a };
        return if mutates < rates.mutation {
            shift
        } else {
            inherited
        };
    }
    let crossed = if crosses {
        cross(a, b, swap, spread, rates.crossover_eta)
    } else {
        a
    };
    if mutates < rates.mutation {
        mutate(crossed, shift, rates.mutation_eta)
    } else {
        crossed
    }
}

/// Simulated binary crossover in the unit interval: one of both children, near one parent or the other.
fn cross(a: f64, b: f64, swap: f64, spread: f64, eta: f64) -> f64 {
    // Half of the coordinates are taken over as they are, as the operator is commonly used.
    let (is_kept, takes_b) = (swap < 0.5, (swap * 4.0).fract() * 2.0 < 1.0);
    if is_kept || (a - b).abs() < 1e-14 {
        return if takes_b { b } else { a };
    }
    let (low, high) = (a.min(b), a.max(b));
    let beta = |room: f64| {
        let alpha = 2.0 - libm::pow(1.0 + 2.0 * room / (high - low), -(eta + 1.0));
        let drawn = spread * alpha;
        let base = if drawn <= 1.0 {
            drawn
        } else {
            1.0 / (2.0 - drawn)
        };
        libm::pow(base, 1.0 / (eta + 1.0))
    };
    let (middle, half) = (0.5 * (low + high), 0.5 * (high - low));
    let place = if takes_b {
        middle + half * beta(1.0 - high)
    } else {
        middle - half * beta(low)
    };
    place.clamp(0.0, 1.0)
}

/// Polynomial mutation in the unit interval.
fn mutate(place: f64, shift: f64, eta: f64) -> f64 {
    let root = |rest: f64| libm::pow(rest, 1.0 / (eta + 1.0));
    let moved = if shift < 0.5 {
        let room = libm::pow(1.0 - place, eta + 1.0);
        place + root(2.0 * shift + (1.0 - 2.0 * shift) * room) - 1.0
    } else {
        let room = libm::pow(place, eta + 1.0);
        place + 1.0 - root(2.0 * (1.0 - shift) + (2.0 * shift - 1.0) * room)
    };
    moved.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{Categories, FloatRange};

    const RATES: Rates = Rates {
        crossover_eta: 2.0,
        mutation_eta: 20.0,
        mutation: 0.1,
    };

    fn children(dist: &Distribution, parents: (f64, f64), rates: Rates) -> Vec<f64> {
        let mut rng = KeyedRng::new(1, 0, "children");
        let one = |_| inherit(dist, parents, true, rates, &mut rng);
        (0..20_000).map(one).collect()
    }

    #[test]
    fn children_lie_around_their_parents_and_within_the_interval() {
        let dist = Distribution::Float(FloatRange::plain(0.0..=1.0));
        let all = children(&dist, (0.2, 0.5), RATES);
        assert!(all.iter().all(|place| (0.0..=1.0).contains(place)));
        let mean = all.iter().sum::<f64>() / 20_000.0;
        assert!((mean - 0.35).abs() < 0.03, "{mean}");
        let beyond = all.iter().filter(|p| **p < 0.19 || **p > 0.51).count();
        assert!((1000..10_000).contains(&beyond), "{beyond}");
    }

    #[test]
    fn a_larger_eta_keeps_children_nearer() {
        let dist = Distribution::Float(FloatRange::plain(0.0..=1.0));
        let off = |eta: f64| -> f64 {
            let rates = Rates {
                crossover_eta: eta,
                mutation: 0.0,
                ..RATES
            };
            let each = children(&dist, (0.4, 0.6), rates).into_iter();
            each.map(|p| (p - 0.4).abs().min((p - 0.6).abs())).sum()
        };
        assert!(off(20.0) < 0.5 * off(2.0));
    }

    #[test]
    fn choices_come_from_either_parent_or_from_a_mutation() {
        let dist = Distribution::Cat(Categories::of(["a", "b", "c", "d"]));
        let rates = Rates {
            mutation: 0.0,
            ..RATES
        };
        let count = |all: &[f64], at: f64| all.iter().filter(|p| (**p - at).abs() < 1e-9).count();
        let all = children(&dist, (0.125, 0.875), rates);
        assert!(count(&all, 0.125).abs_diff(10_000) < 500);
        assert_eq!(count(&all, 0.125) + count(&all, 0.875), 20_000);
        let mutated = children(&dist, (0.125, 0.125), RATES);
        assert!(count(&mutated, 0.125).abs_diff(18_000) < 300);
    }

    #[test]
    fn mutations_stay_inside_at_the_ends() {
        for place in [0.0, 1.0] {
            for step in 0..=100 {
                let moved = mutate(place, f64::from(step) / 100.0, 20.0);
                assert!((0.0..=1.0).contains(&moved));
            }
        }
    }
}
