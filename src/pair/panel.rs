//! One interval of the real line, with bounds on the integrands of [`super::moment`] around it.
//!
//! The integrands are E_{N(0)}[·] of functions of the ratio r = mixture / N(0, σ²), continued to complex
//! z = x + iy. What is used of r there:
//!
//! * |r(z)| ≤ r(x), since every weight is positive;
//! * |N(z; 0, σ²)| = N(x; 0, σ²)·e^{y²/2σ²};
//! * |r(z)| ≥ kept·r(x), see [`MixturePair::surroundings`];
//! * log r is convex in x: at most its chord, at least its tangent.

use super::line::{Line, Normal};
use super::ratio::MixturePair;
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};

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
pub(super) struct Panel {
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
    log_ratios: Option<Box<[f64; NODES]>>,
}

impl Panel {
    /// The panel on [centre − half_width, centre + half_width].
    pub(super) fn new(pair: &MixturePair, centre: f64, half_width: f64, scratch: &mut Vec<f64>) -> Self {
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
            log_ratios: None,
        }
    }

    /// Largest of `factor`·line(x) + log N(x; 0, σ²) between the ends of the ellipse.
    fn highest(&self, line: Line, factor: f64) -> f64 {
        self.normal.highest(line, factor, self.left, self.right)
    }

    /// log of a bound on |integrand| over the ellipse; +∞ if the integrand may be singular there.
    pub(super) fn log_bound(&self, exponent: f64, integrand: Integrand) -> f64 {
        let height = IMAGINARY_AXIS * self.half_width;
        let growth = 0.5 * height * height / self.normal.variance;
        if self.log_kept == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        self.log_real_bound(exponent, integrand, self.log_kept) + growth
    }

    /// log of a bound on the integrand over the real interval.
    pub(super) fn log_upper(&self, exponent: f64, integrand: Integrand) -> f64 {
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
        // |r^p − 1 − p(r − 1)| ≤ |r|^p + |p||r| + |p − 1|.
        let linear = self.highest(self.chord, 1.0) + exponent.abs().ln();
        let constant_line = Line {
            at: self.centre,
            value: 0.0,
            slope: 0.0,
        };
        let constant = self.highest(constant_line, 1.0) + (exponent - 1.0).abs().ln();
        let largest = power.max(linear).max(constant);
        let sum = largest + ((power - largest).exp() + (linear - largest).exp() + (constant - largest).exp()).ln();
        // |(1+v)^p − 1 − pv| ≤ |p(p−1)|/2·|v|²·max over t of |1 + tv|^(p−2) (Taylor with integral remainder).
        let Some(v) = self.distance_from_one else {
            return sum;
        };
        let stretch = (exponent - 2.0) * if exponent > 2.0 { v.ln_1p() } else { (-v).ln_1p() };
        let quadratic = (0.5 * exponent * (exponent - 1.0)).abs().ln() + 2.0 * v.ln() + stretch;
        sum.min(quadratic + self.highest(constant_line, 1.0))
    }

    /// log of the Gauss–Legendre sum of the integrand over the interval.
    pub(super) fn log_integral(&mut self, pair: &MixturePair, exponent: f64, integrand: Integrand) -> f64 {
        let rule = GaussLegendre::get();
        let (centre, half_width) = (self.centre, self.half_width);
        let log_ratios = *self
            .log_ratios
            .get_or_insert_with(|| {
                Box::new(std::array::from_fn(|i| {
                    pair.log_ratio(centre + half_width * rule.nodes[i])
                }))
            })
            .as_ref();
        let logs: [f64; NODES] = std::array::from_fn(|i| {
            let log_value = match integrand {
                Integrand::Excess => log_excess(log_ratios[i], exponent),
                Integrand::Power => exponent * log_ratios[i],
            };
            log_value + self.normal.log_density(centre + half_width * rule.nodes[i])
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

/// log(e^{pu} − 1 − p(e^u − 1)) for p outside [0, 1], without cancellation.
fn log_excess(u: f64, p: f64) -> f64 {
    const SMALL: f64 = 0.25;
    let reach = u.abs() * p.abs().max(1.0);
    if reach < SMALL {
        // Σ_{n≥2} (p^n − p) u^n/n! = p(p−1)/2·u²·(1 + …): the terms fall faster than SMALL^n/n!.
        let mut term = 0.5 * u * u; // u^n / n!
        let mut power = p * p;
        let mut tail = 0.0;
        let leading = 0.5 * (p * (p - 1.0));
        for n in 3..=16 {
            term *= u / f64::from(n);
            power *= p;
            tail += (power - p) * term;
        }
        let leading_term = leading * u * u;
        if leading_term.abs() < 1e-290 {
            return leading.abs().ln() + 2.0 * u.abs().ln();
        }
        return (leading_term + tail).ln();
    }
    // The larger of pu and u decides the scale; what is below it is added as differences.
    let scale = (p * u).max(u).max(0.0);
    let value = if p < 0.0 {
        // (e^{pu} − 1) − p(e^u − 1), both parts of order p.
        scaled_exp_m1(p * u, scale) - p * scaled_exp_m1(u, scale)
    } else {
        // e^u (e^{(p−1)u} − 1) − (p − 1)(e^u − 1), both parts of order p − 1.
        let part = if u > 0.0 || (p - 1.0) * u > -1.0 {
            // e^{u − scale}·(e^{(p−1)u} − 1)
            scaled_exp_m1((p - 1.0) * u, scale - u)
        } else {
            (p * u - scale).exp() - (u - scale).exp()
        };
        part - (p - 1.0) * scaled_exp_m1(u, scale)
    };
    scale + value.max(0.0).ln()
}

/// (e^a − 1)·e^{−scale}, without overflow for a ≤ scale + 700 and without cancellation near a = 0.
fn scaled_exp_m1(a: f64, scale: f64) -> f64 {
    if a.abs() < 1.0 {
        a.exp_m1() * (-scale).exp()
    } else {
        (a - scale).exp() - (-scale).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_excess_has_no_cancellation() {
        let tiny = f64::powi(2.0, -30);
        for (u, p) in [
            (1e-8, 2.0),
            (1e-3, 3.0),
            (2.0, 1.0 + tiny),
            (-3.0, -0.5),
            (-0.2, -tiny),
            (0.2, 100.0),
        ] {
            let v = f64::exp_m1(u);
            let (direct, tolerance) = if p == 2.0 {
                (2.0 * v.ln(), 1e-13)
            } else if p == 3.0 {
                ((v * v * (3.0 + v)).ln(), 1e-13)
            } else if p == 1.0 + tiny {
                // e·(u e^u − e^u + 1) + O(e²)
                ((tiny * (u * u.exp() - v)).ln(), 1e-8)
            } else if p == -tiny {
                // e·(e^u − 1 − u) + O(e²)
                ((tiny * (v - u)).ln(), 1e-8)
            } else {
                (((p * u).exp() - 1.0 - p * v).ln(), 1e-13)
            };
            let value = log_excess(u, p);
            assert!((value - direct).abs() < tolerance, "{u} {p}: {value} {direct}");
        }
        assert!((log_excess(1e-200, 5.0) - (10f64.ln() - 400.0 * 10f64.ln())).abs() < 1e-9);
        assert!((log_excess(500.0, 40.0) - 20_000.0).abs() < 1e-9);
        assert!((log_excess(-500.0, 3.0) - 2f64.ln()).abs() < 1e-12);
        assert!((log_excess(-500.0, -4.0) - 2000.0).abs() < 1e-9);
    }
}
