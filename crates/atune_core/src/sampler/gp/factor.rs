//! Cholesky factors that grow by rows.
//!
//! Rows are made one after the other, each from the rows above it alone, so that a factor to which a row is
//! appended equals, bit for bit, the one that is made of the whole matrix: caching it changes no
//! suggestion. General libraries factor by blocks, in an order that hangs on the size and the processor.

#![expect(
    clippy::indexing_slicing,
    reason = "dense arithmetic; every place is below the number of rows"
)]

/// A lower triangular factor `L` with `L Lᵀ = A`, stored by rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Factor {
    /// Row `i` has `i + 1` numbers and begins at `i (i + 1) / 2`.
    cells: Vec<f64>,
    rows: usize,
}

/// Where row `i` of a packed lower triangle begins.
pub(crate) fn row_start(i: usize) -> usize {
    i * (i + 1) / 2
}

/// The smallest part of its diagonal that a pivot may keep: rows that repeat others, up to rounding,
/// would lose all of it.
const PIVOT_FLOOR: f64 = 1e-11;

impl Factor {
    /// Row `i`, up to its diagonal.
    fn row(&self, i: usize) -> &[f64] {
        &self.cells[row_start(i)..row_start(i + 1)]
    }

    /// Appends a row of the matrix, given up to its diagonal.
    pub(crate) fn push(&mut self, row: &[f64]) {
        debug_assert_eq!(row.len(), self.rows + 1);
        let start = self.cells.len();
        self.cells.reserve(row.len());
        for (j, cell) in row.iter().enumerate().take(self.rows) {
            let above = row_start(j);
            let sum = dot(&self.cells[start..start + j], &self.cells[above..above + j]);
            let value = (cell - sum) / self.cells[above + j];
            self.cells.push(value);
        }
        let own = &self.cells[start..];
        let diagonal = row[self.rows];
        let pivot = (diagonal - dot(own, own)).max(diagonal * PIVOT_FLOOR);
        self.cells.push(pivot.sqrt());
        self.rows += 1;
    }

    /// Drops all rows from `rows` on.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows < self.rows {
            self.cells.truncate(row_start(rows));
            self.rows = rows;
        }
    }

    /// `L⁻¹ b`, in place.
    pub(crate) fn forward(&self, b: &mut [f64]) {
        for i in 0..self.rows {
            let row = self.row(i);
            b[i] = (b[i] - dot(&row[..i], &b[..i])) / row[i];
        }
    }

    /// `L⁻¹ b` of four right sides at once, in place: the rows are read once for all.
    pub(crate) fn forward_four(&self, b: &mut [Vec<f64>; 4]) {
        for i in 0..self.rows {
            let row = self.row(i);
            let sums = dot_four(&row[..i], b);
            for (b, sum) in b.iter_mut().zip(sums) {
                b[i] = (b[i] - sum) / row[i];
            }
        }
    }

    /// `L⁻ᵀ b`, in place.
    pub(crate) fn backward(&self, b: &mut [f64]) {
        for i in (0..self.rows).rev() {
            let row = self.row(i);
            let value = b[i] / row[i];
            b[i] = value;
            for (b, l) in b[..i].iter_mut().zip(row) {
                *b -= value * l;
            }
        }
    }

    /// Half of the logarithm of the determinant of `A`.
    pub(crate) fn half_log_det(&self) -> f64 {
        (0..self.rows).map(|i| libm::log(self.row(i)[i])).sum()
    }

    /// `A⁻¹`, its lower triangle packed by rows.
    pub(crate) fn inverse(&self) -> Vec<f64> {
        // Columns of the inverse factor: column j holds its rows j, j + 1, ….
        let columns: Vec<Vec<f64>> = (0..self.rows)
            .map(|j| {
                let mut column = Vec::with_capacity(self.rows - j);
                column.push(1.0 / self.row(j)[j]);
                for i in j + 1..self.rows {
                    let row = self.row(i);
                    let value = -dot(&row[j..i], &column) / row[i];
                    column.push(value);
                }
                column
            })
            .collect();
        let mut inverse = Vec::with_capacity(row_start(self.rows));
        for i in 0..self.rows {
            for j in 0..=i {
                inverse.push(dot(&columns[i], &columns[j][i - j..]));
            }
        }
        inverse
    }
}

/// The sum of products, in an order of its own that is the same everywhere: eight sums side by side, which
/// is what lets the compiler use wide registers.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    let len = a.len().min(b.len());
    let (a, b) = (a[..len].chunks_exact(8), b[..len].chunks_exact(8));
    let tail: f64 = a
        .remainder()
        .iter()
        .zip(b.remainder())
        .map(|(a, b)| a * b)
        .sum();
    let mut sums = [0.0; 8];
    for (a, b) in a.zip(b) {
        for lane in 0..8 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7])) + tail
}

/// [`dot`] of one row with the heads of four others.
fn dot_four(a: &[f64], b: &[Vec<f64>; 4]) -> [f64; 4] {
    let len = a.len();
    let whole = len - len % 2;
    let heads = [&b[0][..len], &b[1][..len], &b[2][..len], &b[3][..len]];
    let mut sums = [[0.0; 2]; 4];
    for k in (0..whole).step_by(2) {
        for (sums, b) in sums.iter_mut().zip(heads) {
            sums[0] += a[k] * b[k];
            sums[1] += a[k + 1] * b[k + 1];
        }
    }
    let tail = |b: &[f64]| {
        if whole < len {
            a[whole] * b[whole]
        } else {
            0.0
        }
    };
    [0, 1, 2, 3].map(|r| sums[r][0] + sums[r][1] + tail(heads[r]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::KeyedRng;

    /// A positive definite matrix, packed.
    fn matrix(n: usize, rng: &mut KeyedRng) -> Vec<Vec<f64>> {
        let base: Vec<Vec<f64>> = (0..n)
            .map(|_| (0..n).map(|_| rng.normal()).collect())
            .collect();
        let entry = |i: usize, j: usize| dot(&base[i], &base[j]) + if i == j { 1.0 } else { 0.0 };
        (0..n)
            .map(|i| (0..=i).map(|j| entry(i, j)).collect())
            .collect()
    }

    fn factor(rows: &[Vec<f64>]) -> Factor {
        let mut factor = Factor::default();
        for row in rows {
            factor.push(row);
        }
        factor
    }

    #[test]
    fn solving_and_inverting_undo_the_matrix() {
        let mut rng = KeyedRng::new(1, 0, "factor");
        let rows = matrix(23, &mut rng);
        let at = |i: usize, j: usize| rows[i.max(j)][i.min(j)];
        let factor = factor(&rows);
        let x: Vec<f64> = (0..23).map(|_| rng.normal()).collect();
        let b: Vec<f64> = (0..23)
            .map(|i| (0..23).map(|j| at(i, j) * x[j]).sum())
            .collect();
        let mut solved = b.clone();
        factor.forward(&mut solved);
        let mut four = [b.clone(), b.clone(), b.clone(), b];
        factor.forward_four(&mut four);
        for (one, other) in solved.iter().zip(&four[3]) {
            assert!((one - other).abs() < 1e-9);
        }
        factor.backward(&mut solved);
        for (solved, x) in solved.iter().zip(&x) {
            assert!((solved - x).abs() < 1e-8, "{solved} {x}");
        }
        let inverse = factor.inverse();
        for i in 0..23 {
            for j in 0..23 {
                let cell = |a: usize, b: usize| inverse[row_start(a.max(b)) + a.min(b)];
                let sum: f64 = (0..23).map(|k| at(i, k) * cell(k, j)).sum();
                assert!((sum - f64::from(u8::from(i == j))).abs() < 1e-8);
            }
        }
    }

    #[test]
    fn a_grown_factor_is_the_whole_one_bit_for_bit() {
        let mut rng = KeyedRng::new(2, 0, "factor");
        let rows = matrix(40, &mut rng);
        let whole = factor(&rows);
        let mut grown = factor(&rows[..25]);
        grown.truncate(17);
        rows[17..].iter().for_each(|row| grown.push(row));
        let bits = |f: &Factor| f.cells.iter().map(|c| c.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&whole), bits(&grown));
    }

    #[test]
    fn repeated_rows_leave_a_usable_factor() {
        let rows: Vec<Vec<f64>> = (0..30).map(|i| vec![1.0; i + 1]).collect();
        let factor = factor(&rows);
        let mut b = vec![1.0; 30];
        factor.forward(&mut b);
        factor.backward(&mut b);
        assert!(b.iter().all(|v| v.is_finite()));
        assert!(factor.half_log_det().is_finite());
    }
}
