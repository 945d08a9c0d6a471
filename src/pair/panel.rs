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
    /// Log ratio and log density of the mixture at the nodes.
    ratios: Option<Box<[(f64, f64); NODES]>>,
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
            ratios: None,
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

/// A positive value, as the log of its ratio to 1 or, `by_ratio`, to e^u.
///
/// Where u is large, e^u·N(x; 0, σ²) is the density of the mixture, which is known without the cancellation
/// of u against x²/2σ².
#[derive(Debug, Clone, Copy)]
struct Scaled {
    log_factor: f64,
    by_ratio: bool,
}

/// From here on values are scaled by e^u.
const LARGE_RATIO: f64 = 1.0;

impl Scaled {
    /// e^{pu}.
    fn power(u: f64, p: f64) -> Self {
        let by_ratio = u > LARGE_RATIO;
        Self {
            log_factor: if by_ratio { (p - 1.0) * u } else { p * u },
            by_ratio,
        }
    }

    /// The log of the value itself.
    fn ln(self, u: f64) -> f64 {
        self.log_factor + if self.by_ratio { u } else { 0.0 }
    }
}

/// F = e^{pu} − 1 − p(e^u − 1) for p outside [0, 1], without cancellation.
fn log_excess(u: f64, p: f64) -> Scaled {
    const SMALL: f64 = 0.25;
    let by_ratio = u > LARGE_RATIO;
    let log_factor = if u.abs() * p.abs().max(1.0) < SMALL {
        log_excess_near_zero(u, p)
    } else if by_ratio {
        log_excess_over_ratio(u, p)
    } else if p < 0.0 {
        // (e^{pu} − 1) − p(e^u − 1), both parts positive or of order p.
        let scale = (p * u).max(0.0);
        scale + (scaled_exp_m1(p * u, scale) - p * u.exp_m1() * (-scale).exp()).ln()
    } else {
        // e^u(e^{(p−1)u} − 1) − (p − 1)(e^u − 1), both parts of order p − 1.
        let scale = (p * u).max(0.0);
        let part = scaled_exp_m1((p - 1.0) * u, scale) * u.exp();
        scale + (part - (p - 1.0) * u.exp_m1() * (-scale).exp()).ln()
    };
    Scaled {
        // A difference of nearly equal parts can round to 0, never below what counts.
        log_factor: if log_factor.is_nan() {
            f64::NEG_INFINITY
        } else {
            log_factor
        },
        by_ratio,
    }
}

/// Σ_{n≥2} (p^n − p) u^n/n! = p(p−1)/2·u²·(1 + …): the terms fall faster than 1/(4^n n!).
fn log_excess_near_zero(u: f64, p: f64) -> f64 {
    let leading = 0.5 * (p * (p - 1.0));
    let leading_term = leading * u * u;
    if leading_term.abs() < 1e-290 {
        return leading.abs().ln() + 2.0 * u.abs().ln();
    }
    let mut term = 0.5 * u * u; // u^n / n!
    let mut power = p * p;
    let mut tail = 0.0;
    for n in 3..=16 {
        term *= u / f64::from(n);
        power *= p;
        tail += (power - p) * term;
    }
    (leading_term + tail).ln()
}

/// log(F/e^u) for u above [`LARGE_RATIO`].
fn log_excess_over_ratio(u: f64, p: f64) -> f64 {
    let part = -(-u).exp_m1(); // 1 − e^{−u}
    if p < 0.0 {
        // e^{−u}(e^{pu} − 1) + |p|(1 − e^{−u})
        return ((-u).exp() * (p * u).exp_m1() - p * part).ln();
    }
    // (e^{(p−1)u} − 1) − (p − 1)(1 − e^{−u}) = e^{(p−1)u}·(1 − (1 + (p − 1)·part)·e^{−(p−1)u})
    let growth = (p - 1.0) * u;
    if growth < 1.0 {
        (growth.exp_m1() - (p - 1.0) * part).ln()
    } else {
        growth + (-(1.0 + (p - 1.0) * part) * (-growth).exp()).ln_1p()
    }
}

/// |d log F/du| for F = e^{pu} − 1 − p(e^u − 1): |p|·|e^{pu} − e^u|/F.
pub(super) fn excess_sensitivity(u: f64, p: f64) -> f64 {
    if u == 0.0 {
        return 0.0; // F is quadratic there: relative errors of u double, absolute ones do not matter
    }
    let gap = (p - 1.0) * u;
    let log_difference = if gap.abs() > 30.0 {
        u + gap.max(0.0)
    } else {
        u + gap.exp_m1().abs().ln()
    };
    (p.abs().ln() + log_difference - log_excess(u, p).ln(u)).exp()
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
            let value = log_excess(u, p).ln(u);
            assert!((value - direct).abs() < tolerance, "{u} {p}: {value} {direct}");
        }
        // F is p(p − 1)u²/2 near 0, |p|e^u far right of it for p < 0, e^{pu} for p > 1.
        assert!((excess_sensitivity(1e-6, 3.0) * 1e-6 - 2.0).abs() < 1e-5);
        assert!((excess_sensitivity(40.0, -9.0) - 1.0).abs() < 1e-12);
        assert!((excess_sensitivity(40.0, 9.0) - 9.0).abs() < 1e-12);
        assert!((log_excess(1e-200, 5.0).ln(1e-200) - (10f64.ln() - 400.0 * 10f64.ln())).abs() < 1e-9);
        assert!((log_excess(500.0, 40.0).ln(500.0) - 20_000.0).abs() < 1e-9);
        assert!((log_excess(-500.0, 3.0).ln(-500.0) - 2f64.ln()).abs() < 1e-12);
        assert!((log_excess(-500.0, -4.0).ln(-500.0) - 2000.0).abs() < 1e-9);
    }
}
