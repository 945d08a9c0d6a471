//! One interval of the real line, with bounds on the integrands of [`crate::loss::moment`] around it.
//!
//! The integrands are E_{N(0)}[·] of functions of the ratio r = mixture / N(0, σ²), continued to complex
//! z = x + iy. What is used of r there:
//!
//! * |r(z)| ≤ r(x), since every weight is positive;
//! * |N(z; 0, σ²)| = N(x; 0, σ²)·e^{y²/2σ²};
//! * |r(z)| is at least a certain fraction of r(x), see [`MixturePair::surroundings`] and [`MixturePair::strip`];
//! * log r is convex in x: at most its chord, at least its tangent.

use crate::loss::line::{Line, Normal};
use crate::loss::mixture_pair::MixturePair;
use crate::loss::power_excess::{Scaled, log_excess};
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};
use crate::special::log_space::log_add;
use std::f64::consts::FRAC_PI_2;

/// The functions that are integrated against N(0, σ²).
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
    /// log of a lower bound on |r(z)|/r(Re z) on the ellipse; −∞ if r may vanish there.
    log_modulus_ratio: f64,
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
        let strip = pair.strip([&around.left, &around.centre, &around.right], reach);
        let at_height = strip.and_then(|strip| strip.at(height));
        let kept = at_height.map_or(0.0, |bounds| bounds.modulus_ratio).max(around.kept);
        let shifts = around.left.low_shift.abs().max(around.right.high_shift.abs());
        let turn = if around.kept > 0.0 {
            // Terms point within ±φ of one direction, and what is beyond their quantiles turns their sum by less than π/2.
            height * shifts / normal.variance + FRAC_PI_2
        } else {
            at_height.map_or(f64::INFINITY, |bounds| {
                height * around.right.mean_shift / normal.variance * bounds.turn
            })
        };
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
            log_modulus_ratio: if kept > 0.0 { kept.ln() } else { f64::NEG_INFINITY },
            distance_from_one: pair.distance_from_one(left, right, height),
            turn,
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
        if self.log_modulus_ratio == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        self.log_real_bound(exponent, integrand, self.log_modulus_ratio) + growth
    }

    /// log of a bound on the integrand over the real interval.
    pub(crate) fn log_upper(&self, exponent: f64, integrand: Integrand) -> f64 {
        self.log_real_bound(exponent, integrand, 0.0)
    }

    /// The bound without e^{y²/2σ²}; `log_modulus_ratio` is the log of |r(z)|/r(x) at its smallest.
    fn log_real_bound(&self, exponent: f64, integrand: Integrand, log_modulus_ratio: f64) -> f64 {
        let power = if exponent > 0.0 {
            self.highest(self.chord, exponent)
        } else {
            self.highest(self.tangent, exponent) + exponent * log_modulus_ratio
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
        let sum = sum.min(self.log_bound_near_0_and_1(exponent, (power, ratio, one), log_modulus_ratio));
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
    fn log_bound_near_0_and_1(
        &self,
        exponent: f64,
        (power, ratio, one): (f64, f64, f64),
        log_modulus_ratio: f64,
    ) -> f64 {
        const NEAR: f64 = 0.125;
        let distance = if exponent > 0.0 { exponent - 1.0 } else { -exponent };
        if distance > NEAR {
            return f64::INFINITY;
        }
        let ends = [self.left, self.right].into_iter();
        let sizes = ends.map(|x| self.chord.at(x).abs().max(self.tangent.at(x).abs()));
        let size = sizes.fold(0.0, f64::max) - log_modulus_ratio + self.turn;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;
    use realfft::num_complex::Complex64;
    use std::f64::consts::{LN_2, PI};

    fn pair() -> MixturePair {
        MixturePair::new(&GroupLaw::binomial(2, 0.1).unwrap(), 1.5).unwrap()
    }

    fn panel(centre: f64, half_width: f64) -> Panel {
        Panel::new(&pair(), centre, half_width, &mut Vec::new())
    }

    /// |integrand| at complex z by its definition.
    fn modulus(z: Complex64, p: f64, integrand: Integrand) -> f64 {
        let variance = 2.25;
        let weights = [0.81, 0.18, 0.01];
        let parts = weights.iter().enumerate();
        let r: Complex64 = parts
            .map(|(j, w)| *w * ((z * j as f64 - 0.5 * (j * j) as f64) / variance).exp())
            .sum();
        let power = (p * r.ln()).exp();
        let value = match integrand {
            Integrand::Power => power,
            Integrand::Excess => power - 1.0 - p * (r - 1.0),
        };
        (value * (-z * z / (2.0 * variance)).exp() / (2.0 * PI * variance).sqrt()).norm()
    }

    /// The bound holds all around the ellipse, and half of it does not where the panel is short and r^p outweighs the rest.
    #[test]
    fn the_bound_holds_on_the_ellipse_and_is_close_for_short_panels() {
        for integrand in [Integrand::Power, Integrand::Excess] {
            let mut closest = f64::INFINITY;
            for centre in [-4.0, -0.5, 1.0, 9.0] {
                for half_width in [3.8, 1.0, 0.3, 0.02] {
                    let panel = panel(centre, half_width);
                    for p in [7.5, 2.0, 1.03125, -0.03125, -3.0] {
                        let bound = panel.log_bound(p, integrand);
                        let at = |i: i32| {
                            let angle = 2.0 * PI * f64::from(i) / 256.0;
                            let (x, y) = (REAL_AXIS * angle.cos(), IMAGINARY_AXIS * angle.sin());
                            modulus(centre + half_width * Complex64::new(x, y), p, integrand).ln()
                        };
                        let largest = (0..256).map(at).fold(f64::NEG_INFINITY, f64::max);
                        let named = format!("{integrand:?} {centre} {half_width} {p}");
                        assert!(largest <= bound + 1e-9, "{named}: {largest} {bound}");
                        closest = closest.min(bound - largest);
                        let upper = panel.log_upper(p, integrand);
                        for i in -10..=10 {
                            let x = centre + half_width * f64::from(i) / 10.0;
                            let here = modulus(Complex64::new(x, 0.0), p, integrand).ln();
                            assert!(here <= upper + 1e-9, "{named} {x}: {here} {upper}");
                        }
                    }
                }
            }
            assert!(closest < LN_2, "{integrand:?} {closest}");
        }
    }

    /// mpmath, 34 digits, with the densities above: log(quad(N(x)*(r(x)**p - 1 - p*(r(x)-1)), [0.5, 1, 1.5])) and
    /// log(quad(N(x)*r(x)**p, [0.5, 1, 1.5])).
    #[test]
    fn sums_over_the_nodes_are_the_integrals() {
        for (p, excess, power) in [
            (3.0, -6.307_315_460_395_377, -1.428_000_610_406_499_6),
            (-2.0, -6.428_527_217_077_049, -1.638_446_267_731_242_9),
            (1.007_812_5, -12.992_716_749_431_011, -1.514_497_058_054_676_6),
        ] {
            let mut panel = panel(1.0, 0.5);
            let found = panel.log_integral(&pair(), p, Integrand::Excess);
            assert!((found - excess).abs() < 1e-12, "{p}: {found}");
            let found = panel.log_integral(&pair(), p, Integrand::Power);
            assert!((found - power).abs() < 1e-13, "{p}: {found}");
        }
    }
}
