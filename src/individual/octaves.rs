//! K(z; v) = log E[e^{zℓ}] of one record's step on octaves of v: Chebyshev coefficients with certified errors.
//!
//! With p = z + 1 for "remove" and p = −z for "add", e^K = E[(1 + u)^p] = 1 + E[(1 + u)^p − 1 − pu] (see `step_moments`). By
//! Taylor's formula the modulus of the bracket is at most κ = |p(p − 1)|/(p'(p' − 1)) times that of the real exponent p' = Re p,
//! which is not negative. For complex v its mean is at most the ellipse's blow-up times that at v' = |v|²/Re v, where it grows
//! with v'. So |e^K − 1| ≤ b in the whole ellipse by one moment of real order; if b < 1 then |K| ≤ −log(1 − b) there, and
//! interpolation errs as [`Ellipse`] says.

use crate::individual::basis::{Ellipse, LEBESGUE, TERMS, Terms, coefficients, nodes, size};
use crate::individual::step_moments::{Outputs, RELATIVE_ERROR, exponent};
use crate::loss::characteristic_function::smooth_changes;
use crate::special::log_space::log_modulus_1p;
use crate::step::Direction;

/// Shift of y at most.
const LARGEST_LIFT: f64 = 0.5;
/// b at most.
const LARGEST: f64 = 0.95;

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
    /// Up to about this Im z the interpolation of K(c + iy) is certified.
    pub(crate) reach: f64,
}

/// K(c + iy) − K(c) at y = h, 2h, …, and bounds on the modulus beyond some of these heights.
#[derive(Debug, Clone)]
pub(crate) struct LineTerms {
    /// For each height from the first on.
    pub(crate) heights: Vec<HeightTerms>,
    /// log |E[e^{zℓ}]| − K(c) at most, for all heights beyond the wanted ones, and the error of that.
    pub(crate) decays: Vec<(Terms, f64)>,
}

/// K(c + iy) − K(c).
#[derive(Debug, Clone)]
pub(crate) struct HeightTerms {
    pub(crate) real: Terms,
    pub(crate) imaginary: Terms,
    pub(crate) error: f64,
    /// Σ of the moduli of the coefficients of both.
    pub(crate) size: f64,
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
        // No need to know numbers that are too large.
        if farthest * exponent.abs().max(1.0) > 1e4 {
            return f64::INFINITY;
        }
        let log_moment = Outputs::new(self.rate, farthest, exponent).log_moment(exponent);
        log_moment.exp_m1() * (1.0 + 4.0 * RELATIVE_ERROR) * (1.0 + log_moment)
    }

    /// K at each of the ascending c > 0, up to the first where its interpolation is not certified.
    pub(crate) fn real(&self, tilts: &[f64]) -> Vec<RealTerms> {
        let ellipses = Ellipse::all(1.0);
        let interpolation = |c: f64| {
            let (mut error, mut least) = (f64::INFINITY, f64::INFINITY);
            for ellipse in &ellipses {
                let size = ellipse.blow_up(self.start()) * self.excess(c, ellipse);
                error = error.min(ellipse.factor * bound_on_log(size));
                least = least.min(size);
            }
            // |z(z + 1)| is about c(c + 1) + y².
            (error, (c * (c + 1.0) * (LARGEST / least - 1.0)).max(0.0).sqrt())
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
        let mut values = vec![[0.0; TERMS]; errors.len()];
        for (k, v) in nodes(self.octave).into_iter().enumerate() {
            let outputs = Outputs::new(self.rate, v, self.exponent(largest));
            for (values, &c) in values.iter_mut().zip(tilts) {
                values[k] = outputs.log_moment(self.exponent(c));
            }
        }
        let terms = values.iter().zip(errors).map(|(values, (error, reach))| RealTerms {
            reach,
            value: coefficients(values),
            size: size(&coefficients(values)),
            error: error + LEBESGUE * RELATIVE_ERROR * values.iter().copied().fold(0.0, f64::max),
        });
        terms.collect()
    }

    fn exponent(&self, c: f64) -> f64 {
        exponent(self.direction, c)
    }

    /// K(c + iy) − K(c) at `last` heights h apart, fewer if the interpolation of the others is not certified; and decays from the
    /// heights number `ends` on.
    pub(crate) fn line(&self, c: f64, spacing: f64, last: usize, ends: &[usize]) -> LineTerms {
        let ellipses = Ellipse::all(1.0);
        let excesses: Vec<f64> = ellipses
            .iter()
            .map(|ellipse| ellipse.blow_up(self.start()) * self.excess(c, ellipse))
            .collect();
        // |z(z + 1)| is that of either direction.
        let interpolation = |y: f64| {
            let growth = (c.hypot(y) * (c + 1.0).hypot(y)) / (c * (c + 1.0));
            let parts = ellipses.iter().zip(&excesses);
            parts
                .map(|(ellipse, excess)| ellipse.factor * bound_on_log(growth * excess))
                .fold(f64::INFINITY, f64::min)
        };
        let base = interpolation(0.0);
        let certified = (1..=last)
            .take_while(|&j| interpolation(j as f64 * spacing).is_finite())
            .count();
        let reach = certified as f64 * spacing;
        let ends: Vec<usize> = ends.iter().copied().filter(|&end| end <= certified).collect();
        // One imaginary shift for all v of the octave: that which suits its middle.
        let lifts: Vec<f64> = ends.iter().map(|&end| self.lift(c, end as f64 * spacing)).collect();
        let mut changes = vec![[[0.0; TERMS]; 2]; certified];
        let mut errors = vec![0.0f64; certified];
        let mut decays = vec![[0.0; TERMS]; ends.len()];
        let exponent = self.exponent(c);
        for (k, v) in nodes(self.octave).into_iter().enumerate() {
            let outputs = Outputs::for_line(self.rate, v, exponent, reach);
            let found = outputs.tilted(c, exponent);
            for (j, (real, imaginary, error)) in smooth_changes(&found, spacing, certified).into_iter().enumerate()
            {
                if j == 0 {
                    continue;
                }
                let modulus = log_modulus_1p(real, imaginary);
                changes[j - 1][0][k] = modulus;
                changes[j - 1][1][k] = imaginary.atan2(1.0 + real);
                errors[j - 1] = errors[j - 1].max(error / modulus.exp() * 1.1);
            }
            for ((&end, &lift), decay) in ends.iter().zip(&lifts).zip(&mut decays) {
                decay[k] = outputs.log_decay(&found, exponent, end as f64 * spacing, lift);
            }
        }
        let heights = changes
            .into_iter()
            .zip(errors)
            .enumerate()
            .map(|(j, ([real, imaginary], error))| {
                let by_interpolation = base + interpolation((j + 1) as f64 * spacing);
                let (real, imaginary) = (coefficients(&real), coefficients(&imaginary));
                HeightTerms {
                    size: size(&real) + size(&imaginary),
                    real,
                    imaginary,
                    error: by_interpolation + LEBESGUE * error,
                }
            });
        let decays = decays.iter().zip(&ends).zip(&lifts).map(|((decay, &end), &lift)| {
            let error = base + self.error_of_decay(c, end as f64 * spacing, lift, &ellipses, &excesses);
            (coefficients(decay), error)
        });
        LineTerms {
            heights: heights.collect(),
            decays: decays.collect(),
        }
    }

    /// A shift of y that shows the decay at height Y in the middle of the octave.
    fn lift(&self, c: f64, y: f64) -> f64 {
        let v = nodes(self.octave)[TERMS / 2];
        best_lift(self.rate, v, (c, self.exponent(c)), y, Outputs::height(self.start()))
    }

    /// Bound on the error of interpolating log of H(v) = E[|(1 + u)^p|e^{−Yθ}] at y + ia, e^{a²/2v} times which bounds the modulus.
    ///
    /// With π = qe^y/(1 + u), the argument θ of 1 − q + qe^{y+ia} is at most π tan a and its modulus is at least √(1 − a²π)(1 + u) and
    /// at most 1 + u. So H differs from the moment of real order by at most (Y tan a + b)·E[π(1 + u)^{p'}] with b = (c + 2)a² for
    /// "remove" and (1 − a²)^{−c/2} − 1 for "add". As qe^y = (1 + u) − (1 − q), that mean is E[(1 + u)^{p'}] − (1 − q)E[(1 + u)^{p'−1}], which grows with v.
    fn error_of_decay(&self, c: f64, y: f64, lift: f64, ellipses: &[Ellipse], excesses: &[f64]) -> f64 {
        let shrinks = match self.direction {
            Direction::Remove => (c + 2.0) * lift * lift,
            Direction::Add => growth(c, lift),
        };
        let size = y * lift.tan() + shrinks;
        let scale = self.start();
        // For "remove" p' − 1 = c, for "add" −c − 1, whose moment is at least 1.
        let lost = match self.direction {
            Direction::Remove => (1.0 - self.rate) * lost_power(self.rate, c),
            Direction::Add => 0.0,
        };
        let of = |(ellipse, excess): (&Ellipse, &f64)| {
            let seen = self.rate + self.excess(c, ellipse) + lost;
            let rest = excess + ellipse.blow_up(self.start()) * size * seen;
            ellipse.factor * (bound_on_log(rest) + lift * lift / (2.0 * scale * ellipse.nearest))
        };
        ellipses.iter().zip(excesses).map(of).fold(f64::INFINITY, f64::min)
    }
}

/// The shift of y, not above `highest`, that shows most of the decay at height Y; c comes with its exponent.
pub(crate) fn best_lift(rate: f64, v: f64, (c, exponent): (f64, f64), y: f64, highest: f64) -> f64 {
    let outputs = Outputs::for_line(rate, v, exponent, y);
    let found = outputs.tilted(c, exponent);
    let usual = y * v * outputs.mean_part(&found);
    let of = |factor: f64| {
        let lift = (factor * usual).min(LARGEST_LIFT).min(highest);
        (lift, outputs.log_decay(&found, exponent, y, lift))
    };
    let best = [2.0, 1.4, 1.0, 0.7, 0.5, 0.3]
        .map(of)
        .into_iter()
        .min_by(|a, b| a.1.total_cmp(&b.1));
    best.map_or(0.0, |(lift, _)| lift)
}

/// By how much more than 1 a shift by ia may raise the modulus of (1 + u)^{−c} (see [`Octave::error_of_decay`]).
pub(crate) fn growth(c: f64, lift: f64) -> f64 {
    (-0.5 * c * (-lift * lift).ln_1p()).exp_m1()
}

/// 1 − E[(1 + u)^c] at most.
fn lost_power(rate: f64, c: f64) -> f64 {
    if c >= 1.0 { 0.0 } else { 1.0 - (1.0 - rate).powf(c) }
}

/// −log(1 − b), infinite for b near 1 and above.
fn bound_on_log(size: f64) -> f64 {
    if size < LARGEST {
        -(-size).ln_1p()
    } else {
        f64::INFINITY
    }
}
