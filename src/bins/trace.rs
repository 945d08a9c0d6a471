//! Products of the operators of the chain on a lattice: E[e^{−sW}] without its error.
//!
//! The matrix of bin a has the entries h·φ_E(H − λH')·exp(−(s/b)·e^{g − G_a/2}), rows H' = H_{a+1} and columns H = H_a. Products are made
//! of real ones, in blocks of [`BLOCK`] terms that are added up one after the other, which bounds their rounding. Bins whose G_a are equal
//! have the same matrix: G_a tends to a limit like λ^{2(b − a)}, so that most of many bins do, and their product is a power. A power of m
//! equal factors by squaring is a tree of m − 1 products, of which equal ones are made once, and its rounding is that of m factors.

use crate::bins::chain::Chain;
use crate::bins::lattice::Lattice;
use crate::special::compensated_sum::CompensatedSum;
use crate::stopping::checkpoint;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, s};
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

/// Terms of an inner product that are added up before they are added to the others.
pub(super) const BLOCK: usize = 32;

/// Drifts that differ by less count as equal: [`SAME_DRIFT_OPERATIONS`] roundings of e^{g − G/2}.
const SAME_DRIFT: f64 = 4.0 / 9_007_199_254_740_992.0;
/// Rounding error of a term that [`SAME_DRIFT`] stands for, in units of 2⁻⁵³.
pub(super) const SAME_DRIFT_OPERATIONS: f64 = 4.0;

/// The factors that are the same in the matrices of all bins and points.
#[derive(Debug)]
pub(super) struct Operators {
    points: Vec<f64>,
    /// h·φ_E(H − λH').
    base: Array2<f64>,
    growth: Growth,
    /// The last kernel, rows x and columns H_1; none in a single epoch.
    closing: Option<Array2<f64>>,
    /// −G_a/2 in the order b, ..., 1.
    drifts: Vec<f64>,
    /// Λ·shift, in the order of the coordinates.
    pull: Vec<f64>,
    /// Bins that follow each other with the same matrix: the first, in that order, and how many.
    alike: Vec<(usize, usize)>,
    bins: f64,
}

/// e^g on the lattice.
#[derive(Debug)]
enum Growth {
    /// α = λ: of the column alone.
    Columns(Vec<f64>),
    Entries(Array2<f64>),
}

/// A complex matrix, or a real one.
struct Split {
    real: Array2<f64>,
    imaginary: Option<Array2<f64>>,
}

impl Operators {
    /// The operators of a chain on a lattice.
    pub(super) fn new(chain: &Chain, lattice: &Lattice) -> Self {
        let points = lattice.points();
        let size = (points.len(), points.len());
        let density = |square: f64, variance: f64| {
            let normal = lattice.spacing / (2.0 * PI * variance).sqrt();
            normal * (-square / (2.0 * variance)).exp()
        };
        // One rounding in each difference: its error is relative to the difference.
        let difference = |(row, column): (usize, usize)| (-chain.decay).mul_add(points[row], points[column]);
        let base = Array2::from_shape_fn(size, |at| density(difference(at).powi(2), chain.epochs));
        let growth = if chain.excess == 0.0 {
            Growth::Columns(points.iter().map(|x| (x / chain.noise).exp()).collect())
        } else {
            let exponent = |(row, column): (usize, usize)| chain.excess.mul_add(points[row], points[column]);
            Growth::Entries(Array2::from_shape_fn(size, |at| (exponent(at) / chain.noise).exp()))
        };
        let closing = chain.closing.map(|closing| {
            Array2::from_shape_fn(size, |(row, column)| {
                let inner = closing.power.mul_add(points[row], -points[column]);
                let rest = closing.weight.mul_add(inner, points[row]);
                density(rest * rest, closing.variance)
            })
        });
        let drifts: Vec<f64> = chain.half_variances.iter().rev().map(|v| -v).collect();
        let pulls = &chain.pull[chain.coordinates() - chain.bins..];
        Self {
            points,
            base,
            growth,
            alike: runs_of_equals(&drifts, pulls),
            closing,
            drifts,
            pull: chain.pull.clone(),
            bins: chain.bins as f64,
        }
    }

    /// The sum over the lattice that was moved by −iθ·shift, at the point s·e^{−iθ} = `turned`, without the factor e^{θ²·cost/2}.
    pub(super) fn trace(&self, turned: Complex64, turn: f64) -> Complex64 {
        let offset = usize::from(self.closing.is_some());
        let mut product: Option<Split> = None;
        for &(first, count) in &self.alike {
            let point = turned * (self.drifts[first].exp() / self.bins);
            let phases = self.phases(turn * self.pull[first + offset]);
            product = match product {
                Some(before) if self.by_squaring(&before, count) => {
                    let mut operator = self.factor(point);
                    operator.turn_columns(&phases);
                    Some(before.times_power(operator, count))
                }
                mut before => {
                    for _ in 0..count {
                        let mut next = self.times_operator(before, point);
                        next.turn_columns(&phases);
                        before = Some(next);
                    }
                    before
                }
            };
        }
        product.map_or(Complex64::new(1.0, 0.0), |found| self.closed(&found, turn))
    }

    /// Number of bins in the longest run with one matrix.
    #[cfg(test)]
    pub(super) fn longest_power(&self) -> usize {
        self.alike.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }

    /// Takes all bins one by one.
    #[cfg(test)]
    pub(super) fn forget_powers(&mut self) {
        self.alike = (0..self.drifts.len()).map(|k| (k, 1)).collect();
    }

    /// Whether squaring the matrix takes fewer multiplications of numbers than `count` products from the left.
    fn by_squaring(&self, product: &Split, count: usize) -> bool {
        let (rows, size) = (product.real.nrows() as f64, self.points.len() as f64);
        // A product by a real matrix has two parts, that of two complex ones four.
        let alone = if matches!(self.growth, Growth::Columns(_)) {
            2.0
        } else {
            4.0
        };
        let squarings = f64::from(count.max(1).ilog2());
        let products = f64::from(count.count_ones());
        4.0 * (squarings * size + products * rows) < alone * count as f64 * rows
    }

    /// The matrix of a bin with all rows, without phases.
    fn factor(&self, point: Complex64) -> Split {
        match &self.growth {
            Growth::Columns(growth) => {
                let mut found = Split {
                    real: self.base.clone(),
                    imaginary: None,
                };
                found.decay_columns(growth, point);
                found
            }
            Growth::Entries(growth) => self.operator(growth, point),
        }
    }

    /// e^{i·`rate`·H} on the lattice; none where all are 1.
    fn phases(&self, rate: f64) -> Option<Vec<Complex64>> {
        (rate != 0.0).then(|| self.points.iter().map(|x| Complex64::cis(rate * x)).collect())
    }

    /// The product so far times the matrix of a bin; a product without factors is the identity, or its row x = 0 in a single epoch.
    fn times_operator(&self, product: Option<Split>, point: Complex64) -> Split {
        match &self.growth {
            Growth::Columns(growth) => {
                let mut found = product.map_or_else(
                    || Split {
                        real: self.started(&self.base),
                        imaginary: None,
                    },
                    |product| product.times(&self.base),
                );
                found.decay_columns(growth, point);
                found
            }
            Growth::Entries(growth) => {
                let operator = self.operator(growth, point);
                match product {
                    None => Split {
                        real: self.started(&operator.real),
                        imaginary: operator.imaginary.map(|part| self.started(&part)),
                    },
                    Some(product) => product.times_complex(&operator),
                }
            }
        }
    }

    /// All rows, or that of x = 0 in a single epoch.
    fn started(&self, matrix: &Array2<f64>) -> Array2<f64> {
        if self.closing.is_some() {
            return matrix.clone();
        }
        let zero = self.points.len() / 2;
        matrix.slice(s![zero..=zero, ..]).to_owned()
    }

    /// The matrix of a bin.
    fn operator(&self, growth: &Array2<f64>, point: Complex64) -> Split {
        let size = self.base.raw_dim();
        if point.im == 0.0 {
            let mut real = self.base.clone();
            real.zip_mut_with(growth, |value, g| *value *= (-point.re * g).exp());
            return Split { real, imaginary: None };
        }
        let (mut real, mut imaginary) = (Array2::zeros(size), Array2::zeros(size));
        let parts = real.rows_mut().into_iter().zip(imaginary.rows_mut());
        for ((mut re, mut im), (base, growth)) in parts.zip(self.base.rows().into_iter().zip(growth.rows())) {
            checkpoint();
            for i in 0..base.len() {
                let factor = decaying(point * growth[i]);
                re[i] = base[i] * factor.re;
                im[i] = base[i] * factor.im;
            }
        }
        Split {
            real,
            imaginary: Some(imaginary),
        }
    }

    /// The sum of all entries of the product, by the last kernel.
    fn closed(&self, product: &Split, turn: f64) -> Complex64 {
        let phases = if self.closing.is_some() {
            self.phases(turn * self.pull[0])
        } else {
            None
        };
        let (mut real, mut imaginary) = (CompensatedSum::default(), CompensatedSum::default());
        for row in 0..product.real.nrows() {
            let (mut re, mut im) = (CompensatedSum::default(), CompensatedSum::default());
            for column in 0..self.points.len() {
                let weight = self.closing.as_ref().map_or(1.0, |closing| closing[(row, column)]);
                re.add(weight * product.real[(row, column)]);
                im.add(
                    product
                        .imaginary
                        .as_ref()
                        .map_or(0.0, |part| weight * part[(row, column)]),
                );
            }
            let sum = Complex64::new(re.value(), im.value());
            let sum = phases.as_ref().map_or(sum, |phases| sum * phases[row]);
            real.add(sum.re);
            imaginary.add(sum.im);
        }
        Complex64::new(real.value(), imaginary.value())
    }
}

impl Split {
    /// The product with a real matrix.
    fn times(&self, right: &Array2<f64>) -> Self {
        Self {
            real: product(&self.real, right),
            imaginary: self.imaginary.as_ref().map(|part| product(part, right)),
        }
    }

    /// The product with a complex matrix, or a real one.
    fn times_complex(&self, right: &Self) -> Self {
        let Some(turned) = &right.imaginary else {
            return self.times(&right.real);
        };
        let mut real = product(&self.real, &right.real);
        let mut imaginary = product(&self.real, turned);
        if let Some(part) = &self.imaginary {
            real -= &product(part, turned);
            imaginary += &product(part, &right.real);
        }
        Self {
            real,
            imaginary: Some(imaginary),
        }
    }

    /// The product with a power of a matrix, by squaring.
    fn times_power(self, mut square: Self, count: usize) -> Self {
        let (mut found, mut left) = (self, count);
        loop {
            if left & 1 == 1 {
                found = found.times_complex(&square);
            }
            left >>= 1;
            if left == 0 {
                return found;
            }
            square = square.times_complex(&square);
        }
    }

    /// Multiplies each column by e^{−`point`·g}.
    fn decay_columns(&mut self, growth: &[f64], point: Complex64) {
        let factors: Vec<Complex64> = growth.iter().map(|g| decaying(point * *g)).collect();
        if point.im != 0.0 || self.imaginary.is_some() {
            self.turn_columns(&Some(factors));
            return;
        }
        for mut row in self.real.rows_mut() {
            row.iter_mut()
                .zip(&factors)
                .for_each(|(value, factor)| *value *= factor.re);
        }
    }

    /// Multiplies each column by a number.
    fn turn_columns(&mut self, factors: &Option<Vec<Complex64>>) {
        let Some(factors) = factors else {
            return;
        };
        let size = self.real.raw_dim();
        let imaginary = self.imaginary.get_or_insert_with(|| Array2::zeros(size));
        for (mut re, mut im) in self.real.rows_mut().into_iter().zip(imaginary.rows_mut()) {
            for (i, factor) in factors.iter().enumerate() {
                let value = Complex64::new(re[i], im[i]) * factor;
                re[i] = value.re;
                im[i] = value.im;
            }
        }
    }
}

/// Runs of bins with equal pulls and with drifts within [`SAME_DRIFT`] of the first of them: the first, and how many.
fn runs_of_equals(drifts: &[f64], pulls: &[f64]) -> Vec<(usize, usize)> {
    let mut found: Vec<(usize, usize)> = Vec::new();
    for k in 0..drifts.len() {
        match found.last_mut() {
            Some((first, count))
                if pulls[*first].to_bits() == pulls[k].to_bits()
                    && (drifts[*first] - drifts[k]).abs() <= SAME_DRIFT =>
            {
                *count += 1;
            }
            _ => found.push((k, 1)),
        }
    }
    found
}

/// e^{−z} for Re z ≥ 0; 0 where that is below the smallest number.
fn decaying(z: Complex64) -> Complex64 {
    /// e^{−746} is rounded to 0.
    const LARGEST: f64 = 746.0;
    if z.re > LARGEST {
        return Complex64::new(0.0, 0.0);
    }
    (-z).exp()
}

/// The product of two real matrices, by blocks of terms.
fn product(left: &Array2<f64>, right: &Array2<f64>) -> Array2<f64> {
    let mut found = Array2::zeros((left.nrows(), right.ncols()));
    for start in (0..left.ncols()).step_by(BLOCK) {
        checkpoint();
        let end = (start + BLOCK).min(left.ncols());
        let (columns, rows) = (left.slice(s![.., start..end]), right.slice(s![start..end, ..]));
        general_mat_mul(1.0, &columns, &rows, 1.0, &mut found);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_within_the_bound_of_their_blocks() {
        let n = 150;
        let entry = |i: usize, j: usize| 1.0 / ((i * 7 + j * 3) % 11 + 1) as f64;
        let left = Array2::from_shape_fn((3, n), |(i, j)| entry(i, j));
        let right = Array2::from_shape_fn((n, 5), |(i, j)| entry(j, i));
        let found = product(&left, &right);
        for i in 0..3 {
            for j in 0..5 {
                let mut sum = CompensatedSum::default();
                for k in 0..n {
                    sum.add(left[(i, k)] * right[(k, j)]);
                }
                let allowed = (BLOCK + n / BLOCK + 4) as f64 * 1.2e-16 * sum.value();
                assert!((found[(i, j)] - sum.value()).abs() < allowed);
            }
        }
    }

    /// The transform of one log-normal variable, e^{−sY}, by the same lattice without matrices.
    #[test]
    fn one_bin_in_one_epoch_is_a_sum() {
        let chain = Chain::new(1, 1, 0.4, 0.4, 1.5);
        let lattice = Lattice::new(&chain);
        let operators = Operators::new(&chain, &lattice);
        let s = Complex64::new(1.3, 2.1);
        let term = |x: f64| {
            let weight = (-0.5 * x * x).exp() * lattice.spacing / (2.0 * PI).sqrt();
            (-s * (x / 1.5 - 0.5 / 2.25).exp()).exp() * weight
        };
        let direct: Complex64 = lattice.points().into_iter().map(term).sum();
        assert!((operators.trace(s, 0.0) - direct).norm() < 1e-15);
        // Moving the line of integration changes nothing but the factor of the density.
        let turn = 0.6;
        let moved =
            operators.trace(s * Complex64::cis(-turn), turn) * (0.5 * turn * turn * chain.turning_cost).exp();
        assert!((moved - direct).norm() < 1e-14, "{moved} {direct}");
    }
}
