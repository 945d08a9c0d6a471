//! Chernoff's bound on δ from one moment: what the Rényi divergence of one order says.

use crate::interval::Enclosure;

/// What A(c) ≤ `log_moment` says of δ(ε).
///
/// For c > 0: δ ≤ e^{A(c) − cε}·sup (1 − e^{−u})e^{−cu}, the bound of the Rényi divergence of order c + 1, converted as
/// by RGP Lemma 2.2. For c in (−1, 0), for laws of mass 1: 1 − δ = E[min(1, e^{ε−S})] ≤ e^{A(c) − cε}.
pub(crate) fn chernoff(c: f64, log_moment: f64, epsilon: f64) -> Enclosure {
    let rounding = 8.0 * f64::EPSILON * (log_moment.abs() + (c * epsilon).abs());
    let log = log_moment - c * epsilon + rounding;
    if c > 0.0 {
        let most = c * (c / (c + 1.0)).ln() - (c + 1.0).ln();
        Enclosure::of_logs(f64::NEG_INFINITY, log + most * (1.0 - 8.0 * f64::EPSILON))
    } else {
        Enclosure::of_complement_logs(f64::NEG_INFINITY, log)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::normal::log_upper_tail;

    #[test]
    fn it_bounds_the_curve_of_two_gaussians() {
        let distance = 1.5f64;
        let epsilon = 2.0;
        let (a, b) = (0.5 * distance, epsilon / distance);
        let delta = log_upper_tail(b - a).exp() - (epsilon + log_upper_tail(a + b)).exp();
        for c in [-0.6, -0.1, 0.3, 1.0, 2.5] {
            let log_moment = 0.5 * c * (c + 1.0) * distance * distance;
            assert!(chernoff(c, log_moment, epsilon).upper() >= delta, "{c}");
        }
    }
}
