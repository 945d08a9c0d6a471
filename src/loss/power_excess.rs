//! F = r^p − 1 − p(r − 1) of a ratio r = e^u, whose mean is `E[r^p] − 1` where `E[r] = 1`, without cancellation.
//!
//! Near r = 1 it is about p(p − 1)u²/2, and next to p = 0 and 1 it vanishes with the distance of p from there.

/// A positive value, as the log of its ratio to 1 or, `by_ratio`, to e^u.
///
/// Where u is large, e^u·N(x; 0, σ²) is the density of the mixture, which is known without the cancellation
/// of u against x²/2σ².
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scaled {
    pub(crate) log_factor: f64,
    pub(crate) by_ratio: bool,
}

/// From here on values are scaled by e^u.
const LARGE_RATIO: f64 = 1.0;

impl Scaled {
    /// e^{pu}.
    pub(crate) fn power(u: f64, p: f64) -> Self {
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
pub(crate) fn log_excess(u: f64, p: f64) -> Scaled {
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
    let second = p * (p - 1.0);
    let mut gap = second; // p^n − p, of order p − 1 where that is small
    let mut tail = 0.0;
    for n in 3..=16 {
        term *= u / f64::from(n);
        gap = p * gap + second;
        tail += gap * term;
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

/// F = e^{pu} − 1 − p(e^u − 1), which is not negative for p outside (0, 1), and how fast it changes with u.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PowerExcess {
    /// log F, right to some ten units in the last place, relative to 1 + |log F|, as far as u and p are.
    pub(crate) log_value: f64,
    /// log|dF/du|.
    pub(crate) log_slope: f64,
}

impl PowerExcess {
    /// F at u for the power p.
    pub(crate) fn at(u: f64, p: f64) -> Self {
        Self {
            log_value: log_excess(u, p).ln(u),
            log_slope: log_slope(u, p),
        }
    }
}

/// log of |dF/du| = |p|·|e^{pu} − e^u|.
fn log_slope(u: f64, p: f64) -> f64 {
    let gap = (p - 1.0) * u;
    p.abs().ln() + u + if gap > 30.0 { gap } else { gap.exp_m1().abs().ln() }
}

/// |d log F/du|.
pub(crate) fn excess_sensitivity(u: f64, p: f64) -> f64 {
    if u == 0.0 {
        return 0.0; // F is quadratic there: relative errors of u double, absolute ones do not matter
    }
    (log_slope(u, p) - log_excess(u, p).ln(u)).exp()
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
