//! The covariance of a point with another: Matérn 5/2 over weighted squared distances.
//!
//! A point has one coordinate per parameter, in the unit interval; a parameter that a trial did not have
//! is NaN there. Per parameter the squared distance is that of the places for numbers, and 0 or 1 for
//! choices. A parameter that only one of both has counts as if the other stood in the middle, and one unit
//! aside. All of these are squared distances of an embedding, so every kernel over them is positive
//! definite.

use super::factor::row_start;

const SQRT_5: f64 = 2.236_067_977_499_79;

/// The kernel's parameters, all positive; kept by their logarithms, in which they are fitted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Theta {
    /// Per parameter the logarithm of the inverse squared length scale.
    pub(crate) log_weights: Vec<f64>,
    /// The logarithm of the variance of the function.
    pub(crate) log_scale: f64,
    /// The logarithm of the variance of the noise.
    pub(crate) log_noise: f64,
}

impl Theta {
    /// All logarithms in one row: weights, scale, noise.
    pub(crate) fn to_row(&self) -> Vec<f64> {
        let mut row = self.log_weights.clone();
        row.extend([self.log_scale, self.log_noise]);
        row
    }

    /// Undoes [`Theta::to_row`].
    pub(crate) fn from_row(row: &[f64]) -> Option<Self> {
        let [weights @ .., scale, noise] = row else {
            return None;
        };
        Some(Self {
            log_weights: weights.to_vec(),
            log_scale: *scale,
            log_noise: *noise,
        })
    }

    pub(crate) fn weights(&self) -> Vec<f64> {
        self.log_weights.iter().map(|w| libm::exp(*w)).collect()
    }

    pub(crate) fn scale(&self) -> f64 {
        libm::exp(self.log_scale)
    }

    pub(crate) fn noise(&self) -> f64 {
        libm::exp(self.log_noise)
    }
}

/// The correlation at a squared distance, and its derivative by that.
pub(crate) fn matern(squared: f64) -> (f64, f64) {
    let r = SQRT_5 * squared.max(0.0).sqrt();
    let decay = libm::exp(-r);
    (
        (1.0 + r + r * r / 3.0) * decay,
        -(5.0 / 6.0) * (1.0 + r) * decay,
    )
}

/// The squared distance of two places of one parameter.
pub(crate) fn squared(is_choice: bool, a: f64, b: f64) -> f64 {
    match (a.is_nan(), b.is_nan()) {
        (false, false) if is_choice => f64::from(u8::from(a.to_bits() != b.to_bits())),
        (false, false) => (a - b) * (a - b),
        (true, true) => 0.0,
        _ if is_choice => 1.0,
        (true, false) => 1.0 + (b - 0.5) * (b - 0.5),
        (false, true) => 1.0 + (a - 0.5) * (a - 0.5),
    }
}

/// Points by columns: one per parameter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    columns: Vec<Column>,
    rows: usize,
}

#[derive(Clone, Debug)]
struct Column {
    is_choice: bool,
    /// Whether some point does not have it.
    has_gaps: bool,
    places: Vec<f64>,
}

impl Points {
    /// No points yet, of parameters of which these are choices.
    pub(crate) fn new(choices: impl IntoIterator<Item = bool>) -> Self {
        let column = |is_choice| Column {
            is_choice,
            has_gaps: false,
            places: Vec::new(),
        };
        Self {
            columns: choices.into_iter().map(column).collect(),
            rows: 0,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Which parameters are choices.
    pub(crate) fn choices(&self) -> impl Iterator<Item = bool> {
        self.columns.iter().map(|column| column.is_choice)
    }

    pub(crate) fn push(&mut self, point: &[f64]) {
        for (column, place) in self.columns.iter_mut().zip(point) {
            column.has_gaps |= place.is_nan();
            column.places.push(*place);
        }
        self.rows += 1;
    }

    /// Drops all points from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.rows = self.rows.min(rows);
        self.columns
            .iter_mut()
            .for_each(|column| column.places.truncate(rows));
    }

    /// How many of `points`, from the first, are the points here.
    pub(crate) fn common(&self, points: &[Vec<f64>]) -> usize {
        let alike = |(row, point): &(usize, &Vec<f64>)| {
            let mut places = self.columns.iter().map(|column| column.places.get(*row));
            let same = |(here, there): (Option<&f64>, &f64)| {
                here.is_some_and(|here| here.to_bits() == there.to_bits())
            };
            places.by_ref().zip(*point).all(same)
        };
        let rows = points.iter().take(self.rows).enumerate();
        rows.take_while(alike).count()
    }

    /// Squared distances of all pairs, one packed triangle without the diagonal per parameter.
    pub(crate) fn distances(&self) -> Vec<Vec<f64>> {
        let triangle = |column: &Column| {
            let mut cells = Vec::with_capacity(row_start(self.rows));
            for (i, a) in column.places.iter().enumerate() {
                let above = column.places.iter().take(i);
                cells.extend(above.map(|b| squared(column.is_choice, *a, *b)));
            }
            cells
        };
        self.columns.iter().map(triangle).collect()
    }

    /// Weighted squared distances of `point` to all points.
    pub(crate) fn weighted(&self, weights: &[f64], point: &[f64]) -> Vec<f64> {
        let mut sums = vec![0.0; self.rows];
        for ((column, weight), place) in self.columns.iter().zip(weights).zip(point) {
            if column.is_choice || column.has_gaps || place.is_nan() {
                for (sum, other) in sums.iter_mut().zip(&column.places) {
                    *sum += weight * squared(column.is_choice, *place, *other);
                }
            } else {
                for (sum, other) in sums.iter_mut().zip(&column.places) {
                    // As `squared` would: the short way must not give other bits.
                    *sum += weight * ((place - other) * (place - other));
                }
            }
        }
        sums
    }

    /// Adds up, per numerical parameter that `point` has, `factors` times half of the derivative of the
    /// squared distances by its place there; 0 for all others.
    pub(crate) fn pull(&self, point: &[f64], factors: &[f64]) -> Vec<f64> {
        let by = |(column, place): (&Column, &f64)| {
            if column.is_choice || place.is_nan() {
                return 0.0;
            }
            let towards = |other: &f64| if other.is_nan() { 0.5 } else { *other };
            let terms = column.places.iter().zip(factors);
            terms
                .map(|(other, factor)| factor * (place - towards(other)))
                .sum()
        };
        self.columns.iter().zip(point).map(by).collect()
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "what is exact is compared exactly")]
mod tests {
    use super::*;

    #[test]
    fn the_derivative_of_the_kernel_is_its_slope() {
        for squared in [1e-6, 0.01, 0.3, 2.0, 30.0] {
            let step = squared * 1e-6;
            let slope = (matern(squared + step).0 - matern(squared - step).0) / (2.0 * step);
            let (_, derivative) = matern(squared);
            assert!(
                (slope - derivative).abs() < 1e-4 * derivative.abs(),
                "{squared}"
            );
        }
        assert_eq!(matern(0.0).0, 1.0);
    }

    #[test]
    fn choices_are_alike_or_not_and_absence_is_a_place_of_its_own() {
        assert_eq!(squared(true, 0.25, 0.25), 0.0);
        assert_eq!(squared(true, 0.25, 0.75), 1.0);
        assert_eq!(squared(true, f64::NAN, 0.75), 1.0);
        assert_eq!(squared(true, f64::NAN, f64::NAN), 0.0);
        assert_eq!(squared(false, f64::NAN, 0.0), 1.25);
        assert_eq!(squared(false, 0.5, f64::NAN), 1.0);
    }
}
