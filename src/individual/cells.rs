//! F(z; v) = E[e^{zℓ}] of one record's step as polynomials on cells, parts of octaves of v.
//!
//! With p = z + 1 for "remove" and p = −z for "add", F = E[(1 + u)^p] is analytic for Re v > 0 and has a modulus of at most
//! `blow_up` times E[(1 + u)^{p'}] at v' = |v|²/Re v and p' = Re p (see `octaves`), F − 1 one of at most κ·`blow_up` times that
//! less 1. So the error of interpolation is bounded by one moment of real order, whether or not F has zeros. It has to be small
//! in relation to F(c; v), which needs the finer cells the steeper F(c; v) is. All values are over e^{K₀}, K₀ near log F(c; v)
//! in the cell.

use crate::approx::Approx;
use crate::individual::basis::{
    Ellipse, LEBESGUE, TERMS, Terms, coefficients, error_of_place, nodes_of, product, size,
};
use crate::individual::decay::{best_shift, growth};
use crate::individual::losses::Frequencies;
use crate::individual::plans::{LINES, line_at};
use crate::individual::step_moments::{Outputs, exponent};
use crate::loss::characteristic_function::smooth_changes;
use crate::step::Direction;
use std::f64::consts::LN_2;

/// Numbers of halvings of an octave that are tried.
pub(crate) const HALVINGS: [u32; 3] = [0, 2, 4];
/// Largest relative error of interpolation at c: an eighth of what the errors of the moments at the nodes contribute, so that ten
/// times as much would dominate.
const TOLERANCE: f64 = 1e-13;
/// Largest product of v and the order for which moments are computed: e^K is beyond any use there.
const MAX_PRODUCT: f64 = 1e4;
/// log F(c; v) below which K₀ = 0, so that F − 1 has no cancellation.
const SMALL: f64 = 0.5;
/// Sum of the moduli of the coefficients that are left out, and are part of the error.
const NEGLIGIBLE: f64 = 1e-18;

/// One direction of the steps at one sample rate in one octave of v.
#[derive(Debug)]
pub(crate) struct CellOctave {
    rate: f64,
    start: f64,
    direction: Direction,
    /// For each line, as far as there are cells with a small error, their number of halvings.
    halvings: Vec<u32>,
}

/// Part of an octave: halvings, and which of the parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Cell {
    halvings: u32,
    index: u32,
}

/// F(c; v)/e^{K₀} − 1 in a cell.
#[derive(Debug)]
pub(crate) struct RealCell {
    reference: f64,
    terms: Terms,
    error: f64,
}

/// F(c + iy; v)/e^{K₀} − 1 in a cell at all frequencies y of a line.
#[derive(Debug)]
pub(crate) struct LineCell {
    /// F(c; v)/e^{K₀} − 1, the value at y = 0.
    pub(crate) base: RealCell,
    /// For each polynomial its coefficients at all frequencies, real parts first.
    pub(crate) columns: Vec<[Vec<f64>; 2]>,
    /// For each frequency.
    pub(crate) errors: Vec<f64>,
    /// For each end the imaginary shift a, the bound on |F(c + iy; v)|/e^{K₀ + a²/2v} beyond it, and the error of that.
    decays: Vec<(f64, Terms, f64)>,
}

impl Cell {
    /// The cell that holds log₂(v/2^j) = `part` in [0, 1), and τ in [−1, 1].
    pub(crate) fn of(part: f64, halvings: u32) -> (Self, f64) {
        let place = part * f64::from(1u32 << halvings);
        let index = place.floor();
        let cell = Self {
            halvings,
            index: index as u32,
        };
        (cell, 2.0 * (place - index) - 1.0)
    }

    /// In octaves.
    fn length(&self) -> f64 {
        1.0 / f64::from(1u32 << self.halvings)
    }

    /// Bound on Σ |a_n| times the rounding of T_n(τ), and that of the sum.
    fn rounding(&self, terms: &Terms) -> f64 {
        error_of_place(terms, self.length()) + f64::EPSILON * (32.0 * size(terms) + 8.0)
    }
}

impl CellOctave {
    /// Both directions of an octave; for each as many lines as the other has, and one more.
    pub(crate) fn both(rate: f64, octave: i32) -> [Self; 2] {
        let mut both = Direction::BOTH.map(|direction| Self {
            rate,
            start: f64::powi(2.0, octave),
            direction,
            halvings: Vec::new(),
        });
        for line in 0..LINES {
            for cells in &mut both {
                cells.try_line(line);
            }
            if both.iter().any(|cells| cells.halvings.len() < line) {
                break;
            }
        }
        both
    }

    /// Finds the cells of the next line, which are no larger than those of the last.
    fn try_line(&mut self, line: usize) {
        if self.halvings.len() == line {
            let last = self.halvings.last().copied().unwrap_or(0);
            let mut smaller = HALVINGS.into_iter().filter(|&halvings| halvings >= last);
            self.halvings
                .extend(smaller.find(|&halvings| self.is_fine(line_at(line), halvings)));
        }
    }

    /// Lines that have cells.
    pub(crate) fn lines(&self) -> usize {
        self.halvings.len()
    }

    /// Halvings of the octave on a line.
    pub(crate) fn halvings(&self, line: usize) -> u32 {
        self.halvings[line]
    }

    fn start_of(&self, cell: Cell) -> f64 {
        self.start * (LN_2 * f64::from(cell.index) * cell.length()).exp()
    }

    /// log F(c; v).
    fn log_moment(&self, c: f64, v: f64) -> Approx {
        let exponent = exponent(self.direction, c);
        if v * exponent.abs().max(1.0) > MAX_PRODUCT {
            return Approx::exact(f64::INFINITY);
        }
        Outputs::new(self.rate, v, exponent).log_moment(exponent)
    }

    /// Whether interpolation between real moments is accurate in the steepest cell.
    fn is_fine(&self, c: f64, halvings: u32) -> bool {
        let cell = Cell {
            halvings,
            index: (1 << halvings) - 1,
        };
        let start = self.log_moment(c, self.start_of(cell)).value;
        let largest = TOLERANCE * start.exp_m1().min(1.0);
        let ellipses = Ellipse::all(cell.length());
        ellipses
            .iter()
            .any(|ellipse| self.interpolation_in(ellipse, c, cell, start)(1.0) <= largest)
    }

    /// Bounds on the errors of interpolating F/e^{K₀}, for each κ.
    fn interpolation(&self, c: f64, cell: Cell, reference: f64, kappas: &[f64]) -> Vec<f64> {
        let bounds =
            Ellipse::all(cell.length()).map(|ellipse| self.interpolation_in(&ellipse, c, cell, reference));
        let smallest = |kappa: &f64| bounds.iter().map(|bound| bound(*kappa)).fold(f64::INFINITY, f64::min);
        kappas.iter().map(smallest).collect()
    }

    /// The bound on the interpolation error that one Bernstein ellipse gives, for each κ.
    fn interpolation_in(
        &self,
        ellipse: &Ellipse,
        c: f64,
        cell: Cell,
        reference: f64,
    ) -> impl Fn(f64) -> f64 + use<> {
        let start = self.start_of(cell);
        // Also for v' that is one rounding off.
        let Approx { value, error } = self.log_moment(c, ellipse.farthest * start);
        let log_moment = value + 4.0 * error;
        let scale = ellipse.factor * ellipse.blow_up(start) * 1.001;
        move |kappa| {
            let whole = (log_moment - reference).exp();
            let excess = if log_moment.is_finite() {
                -(-log_moment).exp_m1() * whole
            } else {
                f64::INFINITY
            };
            let size = scale * whole.min(kappa * excess);
            if size.is_nan() { f64::INFINITY } else { size }
        }
    }

    /// F(c; v) in a cell for the lines of a range.
    pub(crate) fn real(&self, cell: Cell, lines: std::ops::Range<usize>) -> Vec<RealCell> {
        let largest = exponent(self.direction, line_at(lines.end - 1));
        let nodes = nodes_of(self.start_of(cell), cell.length());
        let outputs = nodes.map(|v| Outputs::new(self.rate, v, largest));
        lines
            .map(|line| {
                let c = line_at(line);
                let exponent = exponent(self.direction, c);
                let moments = std::array::from_fn(|k| outputs[k].log_moment(exponent));
                self.real_cell(c, cell, &moments)
            })
            .collect()
    }

    fn real_cell(&self, c: f64, cell: Cell, moments: &[Approx; TERMS]) -> RealCell {
        let middle = moments[TERMS / 2].value;
        let reference = if middle < SMALL { 0.0 } else { middle };
        let terms = coefficients(&moments.map(|moment| (moment.value - reference).exp_m1()));
        let at_nodes = LEBESGUE * error_of_moments(moments, reference);
        let between = self.interpolation(c, cell, reference, &[1.0])[0];
        RealCell {
            reference,
            error: between + at_nodes + cell.rounding(&terms),
            terms,
        }
    }

    /// F(c + iy; v) in a cell at the frequencies of a line, and bounds beyond its ends.
    pub(crate) fn line(&self, cell: Cell, frequencies: &Frequencies) -> LineCell {
        let &Frequencies { c, spacing, .. } = frequencies;
        let exponent = exponent(self.direction, c);
        let nodes = nodes_of(self.start_of(cell), cell.length());
        let moments = nodes.map(|v| Outputs::new(self.rate, v, exponent).log_moment(exponent));
        let base = self.real_cell(c, cell, &moments);
        let ends: Vec<(f64, f64)> = frequencies
            .ends
            .iter()
            .map(|&end| {
                let (y, highest) = (end as f64 * spacing, Outputs::max_shift(self.start_of(cell)));
                let shift = best_shift(self.rate, nodes[TERMS / 2], (c, exponent), y, highest);
                (y, shift)
            })
            .collect();
        let values = self.at_nodes(&nodes, &moments, base.reference, frequencies, &ends);
        let kappas: Vec<f64> = (1..=frequencies.count())
            .map(|j| {
                let y = j as f64 * spacing;
                (c.hypot(y) * (c + 1.0).hypot(y)) / (c * (c + 1.0))
            })
            .collect();
        let at_nodes = error_of_moments(&moments, base.reference);
        let mut errors = self.interpolation(c, cell, base.reference, &kappas);
        for (error, at_node) in errors.iter_mut().zip(&values.errors) {
            *error += LEBESGUE * (at_nodes + at_node) + NEGLIGIBLE;
        }
        let columns = columns_of(&values.real_and_imaginary, cell, &mut errors);
        let decay = |(bound, &(_, shift)): (&DecayValues, &(f64, f64))| {
            let (terms, error) = self.decay(c, cell, (base.reference, at_nodes), bound, shift);
            (shift, terms, error)
        };
        LineCell {
            columns,
            errors,
            decays: values.decays.iter().zip(&ends).map(decay).collect(),
            base,
        }
    }

    /// F(c + iy; v)/e^{K₀} − 1 at the frequencies of a line, and bounds from some (y, imaginary shift) on, at the interpolation
    /// nodes; `moments` are log F(c; v) there.
    fn at_nodes(
        &self,
        nodes: &Terms,
        moments: &[Approx; TERMS],
        reference: f64,
        frequencies: &Frequencies,
        ends: &[(f64, f64)],
    ) -> NodeValues {
        let (&Frequencies { c, spacing, .. }, count) = (frequencies, frequencies.count());
        let exponent = exponent(self.direction, c);
        let mut values = NodeValues {
            real_and_imaginary: vec![[[0.0; TERMS]; 2]; count],
            errors: vec![0.0f64; count],
            decays: vec![DecayValues::default(); ends.len()],
        };
        for (k, &v) in nodes.iter().enumerate() {
            let outputs = Outputs::for_line(self.rate, v, exponent, count as f64 * spacing);
            let tilted = outputs.tilted(c, exponent);
            let scale = (moments[k].value - reference).exp();
            let offset = (moments[k].value - reference).exp_m1();
            let changes = smooth_changes(&tilted, spacing, count, 0.0);
            for (j, &Approx { value, error }) in changes[1..].iter().enumerate() {
                values.real_and_imaginary[j][0][k] = offset + scale * value.re;
                values.real_and_imaginary[j][1][k] = scale * value.im;
                values.errors[j] = values.errors[j].max(scale * error);
            }
            for (&(y, shift), bound) in ends.iter().zip(&mut values.decays) {
                let Approx { value, error } = outputs.log_decay(&tilted, exponent, y, shift);
                bound.values[k] = scale * (value - shift * shift / (2.0 * v)).exp();
                bound.error = bound.error.max(bound.values[k] * -(-error).exp_m1());
            }
        }
        values
    }

    /// The bound on |F|/e^{K₀ + a²/2v} with these values at the nodes as a polynomial, and its error; K₀ comes with the error of
    /// moments at the nodes.
    fn decay(
        &self,
        c: f64,
        cell: Cell,
        (reference, at_nodes): (f64, f64),
        bound: &DecayValues,
        shift: f64,
    ) -> (Terms, f64) {
        let terms = coefficients(&bound.values);
        let largest = bound.values.iter().copied().fold(0.0, f64::max);
        // |(1 + u)^p| rises by no more for complex y (see `octaves`), and e^{−Yθ} ≤ 1.
        let rise = match self.direction {
            Direction::Remove => 1.0,
            Direction::Add => 1.0 + growth(c, shift),
        };
        let between = rise * self.interpolation(c, cell, reference, &[f64::INFINITY])[0];
        let at_nodes = LEBESGUE * (1e-13 * largest + bound.error + at_nodes);
        (terms, between + at_nodes + cell.rounding(&terms))
    }
}

/// Values of one line at the interpolation nodes of a cell.
struct NodeValues {
    /// At each frequency.
    real_and_imaginary: Vec<[Terms; 2]>,
    /// For each frequency the largest error at the nodes.
    errors: Vec<f64>,
    /// For each end.
    decays: Vec<DecayValues>,
}

/// Bounds on the modulus at the interpolation nodes, and by how much they may be too large.
#[derive(Debug, Clone, Copy, Default)]
struct DecayValues {
    values: Terms,
    error: f64,
}

/// Coefficients from values at the nodes, one column of all frequencies for each polynomial, without those at the end that are
/// negligible; adds the roundings of the sums to `errors`.
fn columns_of(values: &[[Terms; 2]], cell: Cell, errors: &mut [f64]) -> Vec<[Vec<f64>; 2]> {
    let count = values.len();
    let mut columns = vec![[vec![0.0; count], vec![0.0; count]]; TERMS];
    let mut used = 1;
    for (j, values) in values.iter().enumerate() {
        for (part, values) in values.iter().enumerate() {
            let terms = coefficients(values);
            errors[j] += cell.rounding(&terms);
            for (column, term) in columns.iter_mut().zip(terms) {
                column[part][j] = term;
            }
            let mut rest = 0.0;
            let last = terms.iter().rposition(|term| {
                rest += term.abs();
                rest > 0.5 * NEGLIGIBLE
            });
            used = used.max(last.map_or(0, |last| last + 1));
        }
    }
    columns.truncate(used);
    columns
}

/// Bound on the errors of e^{K − K₀} at the nodes, from those of K.
fn error_of_moments(moments: &[Approx; TERMS], reference: f64) -> f64 {
    let of = |moment: &Approx| (moment.value - reference).exp() * (1.5 * moment.error).exp_m1();
    moments.iter().map(of).fold(0.0, f64::max)
}

impl RealCell {
    /// F(c; v)/e^{K₀} − 1 from T_n(τ).
    fn value(&self, polynomials: &Terms) -> Approx {
        Approx::new(product(&self.terms, polynomials), self.error)
    }

    /// A lower bound on F(c; v)/e^{K₀}.
    pub(crate) fn lower(&self, polynomials: &Terms) -> f64 {
        let Approx { value, error } = self.value(polynomials);
        1.0 + value - error
    }

    /// F(c; v)/e^{K₀}.
    pub(crate) fn middle(&self, polynomials: &Terms) -> f64 {
        1.0 + self.value(polynomials).value
    }

    /// log F(c; v).
    pub(crate) fn log(&self, polynomials: &Terms) -> Approx {
        let Approx { value, error } = self.value(polynomials);
        let log = self.reference + value.ln_1p();
        let rounding = 4.0 * f64::EPSILON * log.abs();
        Approx::new(log, error / (1.0 + value - error).max(0.0) + rounding)
    }
}

impl LineCell {
    /// log of a bound on |F(c + iy; v)|/F(c; v) from the `place`-th end on.
    pub(crate) fn log_decay(&self, polynomials: &Terms, v: f64, place: usize) -> Option<f64> {
        let (shift, terms, error) = self.decays.get(place)?;
        let largest = (product(terms, polynomials) + error).max(*error);
        let ratio = largest / self.base.lower(polynomials).max(0.0);
        // No bound is below that of a modulus.
        Some((ratio.ln() + shift * shift / (2.0 * v)).min(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::individual::basis::polynomials;
    use crate::individual::direct::{ROUNDING, excess};
    use realfft::num_complex::Complex64;
    use std::f64::consts::PI;

    #[test]
    fn interpolation_bounds_hold_on_the_ellipses() {
        // Small u: e^{K₀} = 1 and F − 1 is nearly q²p(p − 1)(e^v − 1)/2, so that the bounds are nearly attained.
        let [cells, _] = CellOctave::both(0.05, -6);
        let cell = Cell { halvings: 0, index: 0 };
        let ellipse = Ellipse::new(2.6, 1.0);
        for y in [0.0, 6.0] {
            let c = 1.5f64;
            let kappa = (c.hypot(y) * (c + 1.0).hypot(y)) / (c * (c + 1.0));
            let bound = cells.interpolation_in(&ellipse, c, cell, 0.0)(kappa) / ellipse.factor;
            let half = 0.5 * LN_2;
            let largest = (0..24)
                .map(|i| Complex64::from_polar(1.0, PI * f64::from(i) / 12.0))
                .map(|unit| half + 0.5 * half * (2.6 * unit + unit.inv() / 2.6))
                .map(|place| excess(0.05, cells.start * place.exp(), Complex64::new(c + 1.0, y)).norm())
                .fold(0.0, f64::max);
            assert!(
                largest <= bound + ROUNDING && bound < 1.7 * largest,
                "{y}: {largest} {bound}"
            );
        }
    }

    #[test]
    fn values_in_cells_are_within_their_errors() {
        let frequencies = Frequencies {
            line: 8,
            c: line_at(8),
            spacing: 0.8,
            ends: vec![5, 10],
        };
        let c = frequencies.c;
        for (rate, octave) in [(0.1, -2), (0.3, 0), (0.02, 1)] {
            for (cells, direction) in CellOctave::both(rate, octave).into_iter().zip(Direction::BOTH) {
                let halvings = cells.halvings(frequencies.line);
                for part in [0.03, 0.4, 0.77, 0.999] {
                    let (cell, tau) = Cell::of(part, halvings);
                    let (line, at) = (cells.line(cell, &frequencies), polynomials(tau));
                    let v = cells.start * 2f64.powf(part);
                    let order = |y: f64| Complex64::new(exponent(direction, c), y);
                    let scale = (-line.base.reference).exp();
                    let exact = |y: f64| scale * (1.0 + excess(rate, v.into(), order(y)));
                    let base = exact(0.0).re;
                    let rounding = 10.0 * ROUNDING;
                    assert!(
                        (line.base.middle(&at) - base).abs() <= line.base.error + rounding,
                        "{rate} {v} {base}"
                    );
                    assert!(line.base.lower(&at) <= base + rounding && line.base.error < 1e-11);
                    for (j, error) in line.errors.iter().enumerate() {
                        let mut found = Complex64::new(1.0, 0.0);
                        for ([real, imaginary], at) in line.columns.iter().zip(at) {
                            found += at * Complex64::new(real[j], imaginary[j]);
                        }
                        // The characteristic function is that of the loss, whose sign for "add" is that of p.
                        let sign = exponent(direction, c).signum();
                        let apart = (found - exact(sign * (j + 1) as f64 * frequencies.spacing)).norm();
                        assert!(
                            apart <= error + rounding && *error < 1e-8,
                            "{rate} {v} {j}: {apart:e} {error:e}"
                        );
                    }
                    for (place, &end) in frequencies.ends.iter().enumerate() {
                        let bound = line.log_decay(&at, v, place).unwrap();
                        let exact = (exact(end as f64 * frequencies.spacing).norm() / base).ln();
                        assert!(exact <= bound + 1e-12, "{rate} {v} {end}: {exact} {bound}");
                    }
                }
            }
        }
    }
}
