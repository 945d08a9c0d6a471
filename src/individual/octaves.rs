//! K(z; v) = log E[e^{zℓ}] of one record's step on octaves of v: Chebyshev coefficients with certified errors.
//!
//! With p = z + 1 for "remove" and p = −z for "add", e^K = E[(1 + u)^p] = 1 + E[(1 + u)^p − 1 − pu] (see `step_moments`). By
//! Taylor's formula the modulus of the bracket is at most κ = |p(p − 1)|/(p'(p' − 1)) times that of the real exponent p' = Re p,
//! which is not negative. For complex v its mean is at most the ellipse's blow-up times that at v' = |v|²/Re v, where it grows
//! with v'. So |e^K − 1| ≤ b in the whole ellipse by one moment of real order; if b < 1 then |K| ≤ −log(1 − b) there, and
//! interpolation errs as [`Ellipse`] says.

use crate::approx::Approx;
use crate::individual::basis::{Ellipse, LEBESGUE, TERMS, Terms, coefficients, error_of_place, nodes, size};
use crate::individual::decay::{best_shift, growth};
use crate::individual::losses::Frequencies;
use crate::individual::step_moments::{Outputs, exponent};
use crate::loss::characteristic_function::smooth_changes;
use crate::special::log_space::complex_ln_1p;
use crate::step::Direction;
use realfft::num_complex::Complex64;

/// Largest b for which the logarithm is bounded, by 3 at most: with b nearer to 1 the certified errors would be useless.
const MAX_EXCESS: f64 = 0.95;
/// Largest product of v and the order for which moments are computed: e^K is beyond any use there.
const MAX_PRODUCT: f64 = 1e4;

/// One direction of the steps at one sample rate in one octave of v.
#[derive(Debug)]
pub(crate) struct Octave {
    rate: f64,
    octave: i32,
    direction: Direction,
}

/// K at a real c, and a bound on the error.
#[derive(Debug, Clone)]
pub(crate) struct RealTerms {
    pub(crate) value: Terms,
    /// Σ of the moduli of the coefficients.
    pub(crate) size: f64,
    pub(crate) error: f64,
    /// About the largest y up to which the interpolation of K(c + iy) is certified.
    pub(crate) reach: f64,
}

/// K(c + iy) − K(c) at the frequencies y = h, 2h, …, and bounds on the modulus beyond some of these.
#[derive(Debug, Clone)]
pub(crate) struct LineTerms {
    /// For each frequency from h on.
    pub(crate) changes: Vec<ChangeTerms>,
    /// For each end, a bound on log |E[e^{zℓ}]| − K(c) at all frequencies beyond it, and its error.
    pub(crate) decays: Vec<(Terms, f64)>,
}

/// K(c + iy) − K(c) at one frequency.
#[derive(Debug, Clone)]
pub(crate) struct ChangeTerms {
    pub(crate) real: Terms,
    pub(crate) imaginary: Terms,
    pub(crate) error: f64,
    /// Σ of the moduli of the coefficients of both.
    pub(crate) size: f64,
}

impl RealTerms {
    /// From values at the nodes, with a bound on the error of interpolation and one on that of the values; the rounding of the
    /// place where it is evaluated comes to them.
    fn new(values: &Terms, reach: f64, errors: (f64, f64)) -> Self {
        let value = coefficients(values);
        Self {
            size: size(&value),
            error: of_interpolant(errors) + error_of_place(&value, 1.0),
            value,
            reach,
        }
    }
}

impl ChangeTerms {
    /// From real and imaginary parts at the nodes, with a bound on the error of interpolation and one on that of the values.
    fn new(values: [&Terms; 2], errors: (f64, f64)) -> Self {
        let [real, imaginary] = values.map(coefficients);
        let of_place = error_of_place(&real, 1.0) + error_of_place(&imaginary, 1.0);
        Self {
            size: size(&real) + size(&imaginary),
            real,
            imaginary,
            error: of_interpolant(errors) + of_place,
        }
    }
}

/// Coefficients of a bound on the log of a modulus with these values at the nodes, and its error, from one of interpolation and one of
/// the values: bounds that are too large at the nodes may lead to an interpolant that is too small between them.
fn decay_terms(values: &Terms, errors: (f64, f64)) -> (Terms, f64) {
    let terms = coefficients(values);
    (terms, of_interpolant(errors) + error_of_place(&terms, 1.0))
}

/// A bound on the error of an interpolant, where interpolation of the exact values errs by up to the first number and the values are off
/// by up to the second.
fn of_interpolant((interpolation, of_nodes): (f64, f64)) -> f64 {
    interpolation + LEBESGUE * of_nodes
}

/// K(c + iy) − K(c) and bounds on the decay at the interpolation nodes.
struct NodeValues {
    /// Real and imaginary parts at each frequency.
    changes: Vec<[Terms; 2]>,
    /// For each frequency the largest error at the nodes.
    errors: Vec<f64>,
    /// For each end, log of the bound on the modulus.
    decays: Vec<Terms>,
    /// For each end, by how much these may be too large at most.
    decay_errors: Vec<f64>,
}

/// Bounds on the error of interpolating K(c + iy) in v on an octave.
struct InterpolationBound {
    c: f64,
    ellipses: [Ellipse; 5],
    /// For each ellipse, a bound on |e^{K(c)} − 1| in it.
    excesses: [f64; 5],
}

impl InterpolationBound {
    fn new(octave: &Octave, c: f64) -> Self {
        let ellipses = Ellipse::all(1.0);
        let excesses = ellipses
            .each_ref()
            .map(|ellipse| ellipse.blow_up(octave.start()) * octave.excess(c, ellipse));
        Self { c, ellipses, excesses }
    }

    /// Each ellipse with its bound on |e^{K(c)} − 1|.
    fn parts(&self) -> impl Iterator<Item = (&Ellipse, &f64)> {
        self.ellipses.iter().zip(&self.excesses)
    }

    /// The bound at frequency y: κ is |z(z + 1)|/(c(c + 1)) for either direction.
    fn at(&self, y: f64) -> f64 {
        let c = self.c;
        let kappa = (c.hypot(y) * (c + 1.0).hypot(y)) / (c * (c + 1.0));
        let of = |(ellipse, excess): (&Ellipse, &f64)| ellipse.factor * bound_on_log(kappa * excess);
        self.parts().map(of).fold(f64::INFINITY, f64::min)
    }
}

impl Octave {
    /// An octave at a sample rate in (0, 1).
    pub(crate) fn new(rate: f64, octave: i32, direction: Direction) -> Self {
        Self {
            rate,
            octave,
            direction,
        }
    }

    /// 2^j.
    fn start(&self) -> f64 {
        f64::powi(2.0, self.octave)
    }

    /// e^K − 1 of real order at the largest v' of an ellipse.
    fn excess(&self, c: f64, ellipse: &Ellipse) -> f64 {
        let exponent = self.exponent(c);
        let farthest = ellipse.farthest * self.start();
        if farthest * exponent.abs().max(1.0) > MAX_PRODUCT {
            return f64::INFINITY;
        }
        let Approx { value, error } = Outputs::new(self.rate, farthest, exponent).log_moment(exponent);
        // Also for v' that is one rounding off.
        (value + 4.0 * error).exp_m1()
    }

    /// K at each of the ascending c > 0, up to the first where its interpolation is not certified.
    pub(crate) fn real(&self, tilts: &[f64]) -> Vec<RealTerms> {
        let ellipses = Ellipse::all(1.0);
        let interpolation = |c: f64| {
            let (mut error, mut smallest) = (f64::INFINITY, f64::INFINITY);
            for ellipse in &ellipses {
                let size = ellipse.blow_up(self.start()) * self.excess(c, ellipse);
                error = error.min(ellipse.factor * bound_on_log(size));
                smallest = smallest.min(size);
            }
            // |z(z + 1)| is about c(c + 1) + y².
            (error, (c * (c + 1.0) * (MAX_EXCESS / smallest - 1.0)).max(0.0).sqrt())
        };
        let errors: Vec<(f64, f64)> = tilts
            .iter()
            .map(|&c| interpolation(c))
            .take_while(|(error, _)| error.is_finite())
            .collect();
        // Where nothing is certified v may be as large as any number, and the sums as long.
        let Some(&largest) = errors.len().checked_sub(1).and_then(|last| tilts.get(last)) else {
            return Vec::new();
        };
        let mut values = vec![([0.0; TERMS], 0.0f64); errors.len()];
        for (k, v) in nodes(self.octave).into_iter().enumerate() {
            let outputs = Outputs::new(self.rate, v, self.exponent(largest));
            for ((values, of_nodes), &c) in values.iter_mut().zip(tilts) {
                let Approx { value, error } = outputs.log_moment(self.exponent(c));
                values[k] = value;
                *of_nodes = of_nodes.max(error);
            }
        }
        let terms = values
            .iter()
            .zip(errors)
            .map(|((values, of_nodes), (error, reach))| RealTerms::new(values, reach, (error, *of_nodes)));
        terms.collect()
    }

    fn exponent(&self, c: f64) -> f64 {
        exponent(self.direction, c)
    }

    /// K(c + iy) − K(c) at the frequencies of a line, fewer if the interpolation of the others is not certified; and the decay
    /// from those of the ends on that are certified.
    pub(crate) fn line(&self, frequencies: &Frequencies) -> LineTerms {
        let &Frequencies { c, spacing, .. } = frequencies;
        let bound = InterpolationBound::new(self, c);
        let certified = (1..=frequencies.count())
            .take_while(|&j| bound.at(j as f64 * spacing).is_finite())
            .count();
        // One imaginary shift for all v of the octave: the best one for its middle.
        let ends: Vec<(f64, f64)> = frequencies
            .ends
            .iter()
            .filter(|&&end| end <= certified)
            .map(|&end| (end as f64 * spacing, self.shift(c, end as f64 * spacing)))
            .collect();
        let values = self.at_nodes(c, spacing, certified, &ends);
        let base = bound.at(0.0);
        let at_frequency = |(j, ([real, imaginary], error)): (usize, (&[Terms; 2], &f64))| {
            let by_interpolation = base + bound.at((j + 1) as f64 * spacing);
            ChangeTerms::new([real, imaginary], (by_interpolation, *error))
        };
        let beyond_end = |((decay, of_nodes), &(y, shift)): ((&Terms, &f64), &(f64, f64))| {
            let by_interpolation = base + self.error_of_decay(c, y, shift, &bound);
            decay_terms(decay, (by_interpolation, *of_nodes))
        };
        let decays = values.decays.iter().zip(&values.decay_errors).zip(&ends);
        let changes = values.changes.iter().zip(&values.errors).enumerate();
        LineTerms {
            changes: changes.map(at_frequency).collect(),
            decays: decays.map(beyond_end).collect(),
        }
    }

    /// K(c + iy) − K(c) at `count` frequencies and bounds on the decay from some (y, imaginary shift) on, at the interpolation
    /// nodes.
    fn at_nodes(&self, c: f64, spacing: f64, count: usize, ends: &[(f64, f64)]) -> NodeValues {
        let mut values = NodeValues {
            changes: vec![[[0.0; TERMS]; 2]; count],
            errors: vec![0.0f64; count],
            decays: vec![[0.0; TERMS]; ends.len()],
            decay_errors: vec![0.0f64; ends.len()],
        };
        let exponent = self.exponent(c);
        for (k, v) in nodes(self.octave).into_iter().enumerate() {
            let outputs = Outputs::for_line(self.rate, v, exponent, count as f64 * spacing);
            let tilted = outputs.tilted(c, exponent);
            let changes = smooth_changes(&tilted, spacing, count, 0.0);
            for (j, &Approx { value, error }) in changes[1..].iter().enumerate() {
                let log = complex_ln_1p(value);
                values.changes[j][0][k] = log.re;
                values.changes[j][1][k] = log.im;
                values.errors[j] = values.errors[j].max(error_of_log(value, error));
            }
            for (i, &(y, shift)) in ends.iter().enumerate() {
                let Approx { value, error } = outputs.log_decay(&tilted, exponent, y, shift);
                values.decays[i][k] = value;
                values.decay_errors[i] = values.decay_errors[i].max(error);
            }
        }
        values
    }

    /// The imaginary shift of y with the lowest bound at frequency Y in the middle of the octave.
    fn shift(&self, c: f64, y: f64) -> f64 {
        let v = nodes(self.octave)[TERMS / 2];
        best_shift(self.rate, v, (c, self.exponent(c)), y, Outputs::max_shift(self.start()))
    }

    /// Bound on the error of interpolating log of H(v) = E[|(1 + u)^p|e^{−Yθ}] at y + ia, e^{a²/2v} times which bounds the
    /// modulus.
    ///
    /// With π = qe^y/(1 + u), the argument θ of 1 − q + qe^{y+ia} is at most π tan a and its modulus is at least √(1 − a²π)(1 +
    /// u) and at most 1 + u. So H differs from the moment of real order by at most (Y tan a + b)·E[π(1 + u)^{p'}] with b = (c +
    /// 2)a² for "remove" and (1 − a²)^{−c/2} − 1 for "add". As qe^y = (1 + u) − (1 − q), that mean is E[(1 + u)^{p'}] − (1 −
    /// q)E[(1 + u)^{p'−1}], which grows with v.
    fn error_of_decay(&self, c: f64, y: f64, shift: f64, bound: &InterpolationBound) -> f64 {
        let of = |(ellipse, excess): (&Ellipse, &f64)| {
            ellipse.factor * self.log_decay_on(c, y, shift, (ellipse, *excess))
        };
        bound.parts().map(of).fold(f64::INFINITY, f64::min)
    }

    /// A bound on the modulus of a²/2v + log H(v) in an ellipse with a bound on |e^{K(c)} − 1| in it, see above.
    fn log_decay_on(&self, c: f64, y: f64, shift: f64, (ellipse, excess): (&Ellipse, f64)) -> f64 {
        let shrinks = match self.direction {
            Direction::Remove => (c + 2.0) * shift * shift,
            Direction::Add => growth(c, shift),
        };
        let size = y * shift.tan() + shrinks;
        // For "remove" p' − 1 = c, for "add" −c − 1, whose moment is at least 1.
        let missing = match self.direction {
            Direction::Remove => (1.0 - self.rate) * missing_power(self.rate, c),
            Direction::Add => 0.0,
        };
        let mean = self.rate + self.excess(c, ellipse) + missing;
        let rest = excess + ellipse.blow_up(self.start()) * size * mean;
        bound_on_log(rest) + shift * shift / (2.0 * self.start() * ellipse.nearest)
    }
}

/// A bound on 1 − E[(1 + u)^c].
fn missing_power(rate: f64, c: f64) -> f64 {
    if c >= 1.0 { 0.0 } else { 1.0 - (1.0 - rate).powf(c) }
}

/// A bound on the error of log(1 + z) where z is off by `error`: one of e/m, relative to the modulus m, is one of −log(1 − e/m) at most.
fn error_of_log(z: Complex64, error: f64) -> f64 {
    bound_on_log(error / (1.0 + z).norm())
}

/// −log(1 − b), infinite for b of at least [`MAX_EXCESS`].
fn bound_on_log(size: f64) -> f64 {
    if size < MAX_EXCESS {
        -(-size).ln_1p()
    } else {
        f64::INFINITY
    }
}

#[cfg(test)]
mod tests;
