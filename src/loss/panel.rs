//! One interval of the real line, with bounds on the integrands of [`crate::loss::moment`] around it.
//!
//! The integrands are E_{N(0)}[·] of functions of the ratio r = mixture / N(0, σ²), continued to complex
//! z = x + iy. What is used of r there:
//!
//! * |r(z)| ≤ r(x), since every weight is positive;
//! * |N(z; 0, σ²)| = N(x; 0, σ²)·e^{y²/2σ²};
//! * |r(z)| ≥ kept·r(x), see [`MixturePair::surroundings`];
//! * log r is convex in x: at most its chord, at least its tangent.

use crate::loss::line::{Line, Normal};
use crate::loss::mixture_pair::MixturePair;
use crate::loss::power_excess::{Scaled, log_excess};
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};
use crate::special::log_space::log_add;
use std::f64::consts::FRAC_PI_2;

/// What is integrated against N(0, σ²).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Integrand {
    /// r^p − 1 − p(r − 1), which is non-negative for p outside (0, 1) and integrates to E[r^p] − 1.
    Excess,
    /// r^p.
    Power,
}

/// An interval and what is known of the ratio on the ellipse around it; independent of the exponent p.
#[derive(Debug)]
pub(crate) struct Panel {
    /// Midpoint and half-width of the interval.
    pub centre: f64,
    /// Half of the interval's length.
    pub half_width: f64,
    /// Ends of the ellipse on the real line.
    left: f64,
    right: f64,
    normal: Normal,
    chord: Line,
    tangent: Line,
    /// log of a factor the ratio keeps of its value on the real line; −∞ if it may vanish on the ellipse.
    log_kept: f64,
    /// Bound on |r − 1| over the ellipse, where it is below 1/4.
    distance_from_one: Option<f64>,
    /// Bound on |Im log r| over the ellipse.
    turn: f64,
    /// Log ratio and log density of the mixture at the nodes.
    ratios: Option<Box<[(f64, f64); NODES]>>,
}

impl Panel {
    /// The panel on [centre − half_width, centre + half_width].
    pub(crate) fn new(pair: &MixturePair, centre: f64, half_width: f64, scratch: &mut Vec<f64>) -> Self {
        let reach = REAL_AXIS * half_width;
        let height = IMAGINARY_AXIS * half_width;
        let (left, right) = (centre - reach, centre + reach);
        let normal = Normal::new(pair.noise_multiplier());
        let around = pair.surroundings(centre, reach, height, scratch);
        Self {
            centre,
            half_width,
            left,
            right,
            normal,
            chord: Line {
                at: left,
                value: around.left.log_ratio,
                slope: (around.right.log_ratio - around.left.log_ratio) / (right - left),
            },
            tangent: Line {
                at: centre,
                value: around.centre.log_ratio,
                slope: around.centre.mean_shift / normal.variance,
            },
            log_kept: if around.kept > 0.0 {
                around.kept.ln()
            } else {
                f64::NEG_INFINITY
            },
            distance_from_one: pair.distance_from_one(left, right, height),
            // Terms point within ±φ of one direction, and what is beyond their quantiles turns their sum by less than π/2.
            turn: height * around.left.low_shift.abs().max(around.right.high_shift.abs()) / normal.variance
                + FRAC_PI_2,
            ratios: None,
        }
    }

    /// Largest of `factor`·line(x) + log N(x; 0, σ²) between the ends of the ellipse.
    fn highest(&self, line: Line, factor: f64) -> f64 {
        self.normal.highest(line, factor, self.left, self.right)
    }

    /// log of a bound on |integrand| over the ellipse; +∞ if the integrand may be singular there.
    pub(crate) fn log_bound(&self, exponent: f64, integrand: Integrand) -> f64 {
        let height = IMAGINARY_AXIS * self.half_width;
        let growth = 0.5 * height * height / self.normal.variance;
        if self.log_kept == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        self.log_real_bound(exponent, integrand, self.log_kept) + growth
    }

    /// log of a bound on the integrand over the real interval.
    pub(crate) fn log_upper(&self, exponent: f64, integrand: Integrand) -> f64 {
        self.log_real_bound(exponent, integrand, 0.0)
    }

    /// The bound without e^{y²/2σ²}; `log_kept` is the log of |r(z)|/r(x) at its smallest.
    fn log_real_bound(&self, exponent: f64, integrand: Integrand, log_kept: f64) -> f64 {
        let power = if exponent > 0.0 {
            self.highest(self.chord, exponent)
        } else {
            self.highest(self.tangent, exponent) + exponent * log_kept
        };
        if integrand == Integrand::Power {
            return power;
        }
        let ratio = self.highest(self.chord, 1.0);
        let constant_line = Line {
            at: self.centre,
            value: 0.0,
            slope: 0.0,
        };
        let one = self.highest(constant_line, 1.0);
        // |r^p − 1 − p(r − 1)| ≤ |r|^p + |p||r| + |p − 1|.
        let linear = ratio + exponent.abs().ln();
        let constant = one + (exponent - 1.0).abs().ln();
        let largest = power.max(linear).max(constant);
        let sum = largest + ((power - largest).exp() + (linear - largest).exp() + (constant - largest).exp()).ln();
        let sum = sum.min(self.log_bound_near_0_and_1(exponent, (power, ratio, one), log_kept));
        // |(1+v)^p − 1 − pv| ≤ |p(p−1)|/2·|v|²·max over t of |1 + tv|^(p−2) (Taylor with integral remainder).
        let Some(v) = self.distance_from_one else {
            return sum;
        };
        let stretch = (exponent - 2.0) * if exponent > 2.0 { v.ln_1p() } else { (-v).ln_1p() };
        let quadratic = (0.5 * exponent * (exponent - 1.0)).abs().ln() + 2.0 * v.ln() + stretch;
        sum.min(quadratic + one)
    }

    /// log of a bound on |r^p − 1 − p(r − 1)| that vanishes with the distance of p from 0 or 1; given those on |r|^p, |r| and 1.
    ///
    /// As a function of p it is 0 there, and its derivative is log(r)·r^p − (r − 1): it is at most the distance times the largest
    /// modulus of that in between, where |r|^p is at most the sum of its values at both ends.
    fn log_bound_near_0_and_1(&self, exponent: f64, (power, ratio, one): (f64, f64, f64), log_kept: f64) -> f64 {
        const NEAR: f64 = 0.125;
        let distance = if exponent > 0.0 { exponent - 1.0 } else { -exponent };
        if distance > NEAR {
            return f64::INFINITY;
        }
        let ends = [self.left, self.right].into_iter();
        let sizes = ends.map(|x| self.chord.at(x).abs().max(self.tangent.at(x).abs()));
        let size = sizes.fold(0.0, f64::max) - log_kept + self.turn;
        let powers = log_add(power, if exponent > 0.0 { ratio } else { one });
        distance.ln() + log_add(size.ln() + powers, log_add(ratio, one))
    }

    /// log of the Gauss–Legendre sum of the integrand over the interval.
    pub(crate) fn log_integral(&mut self, pair: &MixturePair, exponent: f64, integrand: Integrand) -> f64 {
        let rule = GaussLegendre::get();
        let (centre, half_width) = (self.centre, self.half_width);
        let ratios = self.ratios.get_or_insert_with(|| {
            let at = |i: usize| pair.log_ratio_and_density(centre + half_width * rule.nodes[i]);
            Box::new(std::array::from_fn(at))
        });
        let normal = self.normal;
        let logs: [f64; NODES] = std::array::from_fn(|i| {
            let (log_ratio, log_mixture) = ratios[i];
            let log_value = match integrand {
                Integrand::Excess => log_excess(log_ratio, exponent),
                Integrand::Power => Scaled::power(log_ratio, exponent),
            };
            // N(x; 0, σ²)·r = mixture: whichever of the two the value is scaled by is put back here.
            log_value.log_factor
                + if log_value.by_ratio {
                    log_mixture + normal.log_scale()
                } else {
                    normal.log_density(centre + half_width * rule.nodes[i])
                }
        });
        let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            return largest;
        }
        let sum: f64 = logs
            .iter()
            .zip(&rule.weights)
            .map(|(l, w)| w * (l - largest).exp())
            .sum();
        largest + (half_width * sum).ln()
    }
}
