//! M(w) = E[W^w] of a truncated law for w with a large real part, from E[e^{sW}] on one line Re s = λ.
//!
//! For Re w > 0, Γ(1 + w)/(2πi)·∫ s^{−w−1}·e^{sx} ds over Re s = λ > 0 is x^w for x > 0 and 0 for x < 0. So the rule with spacing h,
//! D = 2π/h, gives exactly Σ_m e^{−λmD}·E[(W + mD)₊^w]. As x₊^w ≤ (w/(eλ'))^w·e^{λ'x} for every λ' > 0, its terms with m ≥ 1 are at
//! most those of a geometric series with any λ' < λ, and those with m ≤ −1 of one with any λ' > λ. The line through the saddle point
//! λ = w/W passes through those of all w + iy, so that one set of values serves all y.

use crate::approx::Approx;
use crate::loss::allocation::modulus::Modulus;
use crate::loss::allocation::tilting::Tilting;
use crate::loss::allocation::truncated_law::TruncatedLaw;
use crate::loss::privacy_loss::TiltedMoments;
use crate::special::complex_gamma::{digamma_and_trigamma, ln_gamma};
use crate::special::log_space::log_add;
use crate::special::root::newton_bracket;
use crate::special::{exponential, trigonometric, vector};
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use std::f64::consts::{LN_2, TAU};

/// −log of what spacing and ends may change.
const LEVEL: f64 = 38.0;
/// Points at most, and where one batch has a large likelihood ratio: the others hardly vary beside it, so that a line with a small exponent has thousands. With 6,000 for these, 32 epochs of
/// 144,826 batches with noise 1.083 had an ε 1e-3 wide at δ = 4.3e-75 that is 5e-8 wide; with 1,500, five of 54,302 batches one 4 % wide.
const MOST_POINTS: usize = 5000;
const MOST_POINTS_WITH_LARGE: usize = 20_000;
/// Steps in which the saddle point is found, and its accuracy.
const ROUNDS: usize = 40;
const CLOSE: f64 = 1e-3;
/// λ'/λ that are tried in the bounds on what the spacing adds.
const SMALLER: [f64; 9] = [0.95, 0.9, 0.8, 0.7, 0.55, 0.4, 0.25, 0.15, 0.08];
const LARGER: [f64; 8] = [1.05, 1.1, 1.2, 1.35, 1.6, 2.0, 3.0, 5.0];
/// Relative error of a bound on a modulus that stands for the value itself: both are at most twice the bound apart.
const UNKNOWN: f64 = 2.0;
/// Terms whose logarithms are below this are not computed, but counted as errors.
const LEAST_TERM: f64 = -46.0;
/// A bound on such a term: e^−46 is 1.0530617e-20.
const LEAST_SIZE: f64 = 1.054e-20;

/// A point s of the line.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// log |s/λ| and arg s.
    log_size: f64,
    angle: f64,
    /// log of the weight times E[e^{sW}]·s^{−w−1} over its value at λ: far from the saddle point of w it is beyond the range of numbers.
    log: Complex64,
    /// The modulus of that logarithm.
    norm: f64,
    /// Relative.
    error: f64,
}

/// The sum for the exponents w + iy.
#[derive(Debug)]
pub(crate) struct VerticalLine {
    pub(crate) w: f64,
    pub(crate) lambda: f64,
    /// log E[e^{λW}], and a bound on its error.
    pub(crate) log_transform: f64,
    base_error: f64,
    pub(crate) modulus: Modulus,
    spacing: f64,
    points: Vec<Point>,
    sum: f64,
    /// log M(w) and its derivatives.
    pub(crate) log: Approx,
    pub(crate) mean: f64,
    pub(crate) variance: f64,
    /// Bound on what the spacing adds, over M(w).
    aliasing: f64,
}

/// log Γ(1 + w).
pub(crate) fn log_factorial(w: f64) -> f64 {
    ln_gamma(Complex64::new(1.0 + w, 0.0)).0.re
}

impl VerticalLine {
    /// The line for w + iy, |y| ≤ `reach`; `None` where the sum does not determine M.
    pub(crate) fn new(law: &TruncatedLaw, w: f64, reach: f64) -> Option<Self> {
        let (lambda, tilting) = saddle(law, w)?;
        let spacing = TAU / period(law, w, lambda, tilting)?;
        let modulus = Modulus::new(law, lambda)?;
        let mut line = Self {
            w,
            lambda,
            log_transform: tilting.log,
            base_error: 0.0,
            modulus,
            spacing,
            points: Vec::new(),
            sum: 0.0,
            log: Approx::default(),
            mean: 0.0,
            variance: 0.0,
            aliasing: 0.0,
        };
        let most = if law.large.is_some() {
            MOST_POINTS_WITH_LARGE
        } else {
            MOST_POINTS
        };
        let last = line.last(reach, most).or_else(|| {
            line.modulus.turn(law, lambda);
            line.last(reach, most)
        })?;
        line.fill(law, last)?;
        line.finish(law)?;
        Some(line)
    }

    /// Number of points.
    pub(crate) fn size(&self) -> usize {
        self.points.len()
    }

    /// The last point: what lies beyond is negligible at y = 0 and y = `reach`. `None` where there would be more than `most`.
    fn last(&self, reach: f64, most: usize) -> Option<usize> {
        let ends = [(0.0, 0.0), (reach, self.log_gamma(reach).0.re)];
        let mut last = 0;
        while ends.iter().any(|&(y, gamma)| self.log_beyond(last, y) + gamma > -LEVEL) {
            last += 1 + last / 16;
            if last > most {
                return None;
            }
        }
        Some(last)
    }

    /// Computes the points up to the last one.
    fn fill(&mut self, law: &TruncatedLaw, last: usize) -> Option<()> {
        let on_line = law.on_line(self.lambda, self.spacing, last)?;
        self.log_transform = on_line.at_lambda.value;
        self.base_error = on_line.at_lambda.error;
        let power = self.w + 1.0;
        for (k, (found, log_most)) in on_line.points.into_iter().enumerate() {
            checkpoint();
            let tau = k as f64 * self.spacing;
            let x = tau / self.lambda;
            let (log_size, angle) = (0.5 * (x * x).ln_1p(), x.atan());
            let rounding = found.value.norm() + power * (log_size + angle);
            let error = (found.error + 4.0 * f64::EPSILON * (rounding + 2.0)).exp_m1();
            let change = closest(Approx::new(found.value, error), self.modulus.log(tau).min(log_most));
            let weight = if k == 0 { -LN_2 } else { 0.0 };
            let log = change.value - Complex64::new(log_size, angle) * power + weight;
            self.points.push(Point {
                log_size,
                angle,
                log,
                norm: log.norm(),
                error: change.error,
            });
        }
        Some(())
    }

    /// log of a bound on the sum of the moduli beyond the k-th point at y, over Γ(1 + w + iy)/Γ(1 + w).
    ///
    /// From τ on |s|^{−w−1}·e^{y·arg s} falls at least like τ^{−ν}, ν = ((w + 1)τ² − yλτ)/(λ² + τ²), which grows with τ.
    fn log_beyond(&self, k: usize, y: f64) -> f64 {
        let tau = k as f64 * self.spacing;
        let (power, lambda) = (self.w + 1.0, self.lambda);
        let x = tau / lambda;
        let exponent = (power * x * x - y * x) / (1.0 + x * x);
        if exponent < 1.2 {
            return f64::INFINITY;
        }
        let at = -0.5 * power * (x * x).ln_1p() + y * x.atan() + self.modulus.log(tau);
        at + (tau / (self.spacing * (exponent - 1.0))).ln() + LN_2
    }

    /// log M(w), its derivatives and the bound on aliasing.
    fn finish(&mut self, law: &TruncatedLaw) -> Option<()> {
        let (mut sum, mut first, mut second, mut errors, mut sizes) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for point in &self.points {
            let (value, log) = (point.log.exp(), Complex64::new(point.log_size, point.angle));
            sum += 2.0 * value.re;
            first += 2.0 * (value * log).re;
            second += 2.0 * (value * log * log).re;
            let size = 2.0 * value.norm();
            sizes += size;
            errors += size * point.error;
        }
        let last = self.points.len() - 1;
        let beyond = self.log_beyond(last, 0.0).exp();
        self.sum = sum;
        let (gamma, gamma_error) = ln_gamma(Complex64::new(1.0 + self.w, 0.0));
        let powers = (self.w + 1.0) * self.lambda.ln();
        let log = gamma.re + (self.spacing / TAU).ln() - powers + self.log_transform + sum.ln();
        let aliasing = log_aliasing(law, (self.w, self.lambda), TAU / self.spacing, log)?.exp();
        let relative = (errors + beyond + (last as f64 + 8.0) * f64::EPSILON * sizes) / sum + aliasing;
        let rounding = gamma.re.abs() + powers.abs() + self.log_transform.abs() + sum.ln().abs() + 4.0;
        self.aliasing = aliasing;
        self.log = Approx::new(
            log,
            1.1 * relative + gamma_error + self.base_error + 4.0 * f64::EPSILON * rounding,
        );
        let (digamma, trigamma) = digamma_and_trigamma(1.0 + self.w);
        self.mean = digamma - self.lambda.ln() - first / sum;
        self.variance = trigamma + second / sum - (first / sum).powi(2);
        (sum > 0.0 && relative < 0.01 && self.variance > 0.0).then_some(())
    }

    /// log Γ(1 + w + iy)/Γ(1 + w), and a bound on its error.
    pub(crate) fn log_gamma(&self, y: f64) -> (Complex64, f64) {
        let (there, error) = ln_gamma(Complex64::new(1.0 + self.w, y));
        let (here, other) = ln_gamma(Complex64::new(1.0 + self.w, 0.0));
        (there - here, error + other)
    }

    /// M(w + iy)/M(w) − 1 for y ≥ 0, with a bound on its error.
    pub(crate) fn change(&self, y: f64) -> Approx<Complex64> {
        let (gamma, gamma_error) = self.log_gamma(y);
        let of_gamma = gamma.norm();
        let mut errors = 0.0;
        let (mut sizes, mut turns, mut relative) = (Vec::new(), Vec::new(), Vec::new());
        for point in &self.points {
            for sign in [1.0, -1.0] {
                let angle = sign * point.angle;
                let log_size = point.log.re + y * angle + gamma.re;
                if log_size < LEAST_TERM {
                    errors += LEAST_SIZE;
                    continue;
                }
                sizes.push(log_size);
                turns.push(sign * point.log.im + gamma.im - y * point.log_size);
                let rounding = y * (angle.abs() + point.log_size) + of_gamma + point.norm + 4.0;
                relative.push(point.error + 4.0 * f64::EPSILON * rounding);
            }
        }
        let mut sines = vec![0.0; turns.len()];
        exponential::exp(&mut sizes);
        trigonometric::sin_cos(&mut turns, &mut sines);
        let sum = Complex64::new(vector::dot(&sizes, &turns), vector::dot(&sizes, &sines));
        errors += vector::dot(&sizes, &relative);
        let sizes = vector::sum(&sizes);
        let last = self.points.len() - 1;
        let shift = y * self.lambda.ln();
        let value = sum * Complex64::from_polar(1.0 / self.sum, -shift);
        let beyond = (self.log_beyond(last, y) + gamma.re).exp();
        let additions = (2.0 * last as f64 + 8.0) * f64::EPSILON;
        let relative = (errors + beyond + sizes * (additions + gamma_error)) / self.sum;
        let common = self.log.error + 4.0 * f64::EPSILON * (shift.abs() + 2.0);
        let error = relative + self.aliasing + value.norm() * 1.1 * common;
        // |φ| ≤ 1, so that φ − 1 is within 2 of 0.
        if error < 2.0 {
            Approx::new(value - 1.0, error + f64::EPSILON)
        } else {
            Approx::new(Complex64::default(), 2.0)
        }
    }
}

/// The logarithm of a transform with a bound on its relative error. Far out it is next to nothing, and a bound on its modulus is closer than a sum whose terms
/// cancel.
fn closest(log: Approx<Complex64>, log_most: f64) -> Approx<Complex64> {
    if log.error < UNKNOWN {
        log
    } else {
        Approx::new(Complex64::from(log_most), UNKNOWN)
    }
}

/// About the λ with λ·(log E[e^{λW}])' = w, and log E[e^{λW}] there; `None` where no transform is within the range of numbers.
fn saddle(law: &TruncatedLaw, w: f64) -> Option<(f64, Tilting)> {
    saddle_of(|lambda| law.tilting(lambda), w)
}

/// About the λ with λ·f' = w, and f there, by Newton's method in log λ; `None` where f is never within the range of numbers.
pub(super) fn saddle_of(f: impl Fn(f64) -> Option<Tilting>, w: f64) -> Option<(f64, Tilting)> {
    let mut last = None;
    let step = |log_lambda: f64| {
        let lambda = log_lambda.exp();
        let Some(at) = f(lambda) else {
            return -1.0;
        };
        last = Some((lambda, at));
        let first = lambda * at.first;
        let step = (w - first) / (first + lambda * lambda * at.second);
        if step.abs() < CLOSE { 0.0 } else { step.clamp(-1.0, 1.0) }
    };
    newton_bracket(w.ln(), ROUNDS, |_| CLOSE, step)?;
    last
}

/// Estimates of the moments at w: Laplace's approximation of the integral over the line, over that for W = 1, which it is for λ = w.
///
/// With k = λ²·(log E[e^{λW}])'' it is w·log(w/λ) − w + log E[e^{λW}] − ½·log(1 + k/w), of which λ is a stationary point but for the last term.
pub(crate) fn estimate(law: &TruncatedLaw, w: f64) -> Option<TiltedMoments> {
    let (near, at) = saddle(law, w)?;
    let step = (near * at.first - w) / (near * at.first + near * near * at.second);
    let lambda = near * (-step).exp();
    let at = law.tilting(lambda)?;
    let curvature = lambda * lambda * at.second;
    let ratio = (w / lambda).ln();
    Some(TiltedMoments {
        log_moment: Approx::new(w * ratio - w + at.log - 0.5 * (curvature / w).ln_1p(), f64::INFINITY),
        mean: ratio,
        variance: curvature / (w * (w + curvature)),
    })
}

/// log of bounds on the first terms with m = ±1 but for e^{−|λ − λ'|·D}, and |λ − λ'|.
fn first_terms<'a>(
    law: &'a TruncatedLaw,
    (w, lambda): (f64, f64),
    factors: &'a [f64],
) -> impl Iterator<Item = (f64, f64)> + 'a {
    factors.iter().filter_map(move |factor| {
        let other = factor * lambda;
        let log = law.tilting(other)?.log;
        Some((
            w * (w / other).ln() - w + log + 1e-9 * (1.0 + w),
            (other - lambda).abs(),
        ))
    })
}

/// D for which the spacing adds e^−[`LEVEL`] of M.
fn period(law: &TruncatedLaw, w: f64, lambda: f64, at: Tilting) -> Option<f64> {
    let curvature = w + lambda * lambda * at.second;
    let about = log_factorial(w) - w * lambda.ln() + at.log - 0.5 * (TAU * curvature).ln();
    let of = |factors: &[f64]| {
        let needed = first_terms(law, (w, lambda), factors).map(|(log, rate)| (log - about + LEVEL + LN_2) / rate);
        needed.fold(f64::INFINITY, f64::min)
    };
    let period = of(&SMALLER).max(of(&LARGER));
    period.is_finite().then_some(period)
}

/// log of a bound on what the rule with this period adds, over M(w).
fn log_aliasing(law: &TruncatedLaw, at: (f64, f64), period: f64, log_moment: f64) -> Option<f64> {
    let side = |factors: &[f64]| {
        let sums = first_terms(law, at, factors).map(|(log, rate)| {
            let ratio = -rate * period;
            log + ratio - (-ratio.exp_m1()).ln()
        });
        sums.fold(f64::INFINITY, f64::min)
    };
    let both = log_add(side(&SMALLER), side(&LARGER)) - log_moment;
    both.is_finite().then_some(both)
}

#[cfg(test)]
mod tests;
