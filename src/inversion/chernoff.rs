//! Chernoff's bound on δ from one moment: what the Rényi divergence of one order implies.

use crate::interval::Enclosure;

/// A bound on one moment of the total loss: A(c) = log E[e^{cS}] ≤ `log_moment`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MomentBound {
    pub(crate) c: f64,
    pub(crate) log_moment: f64,
}

impl MomentBound {
    /// log of the bound on E[e^{c(S − ε)}].
    pub(crate) fn log_above(self, epsilon: f64) -> f64 {
        self.log_moment - self.c * epsilon
    }

    /// The bounds on δ(ε) that follow, where c > −1 and c ≠ 0.
    ///
    /// For c > 0: δ ≤ e^{A(c) − cε}·sup_u (1 − e^{−u})e^{−cu}, the bound of the Rényi divergence of order c + 1, converted as
    /// by RGP Lemma 2.2. The supremum is (c/(c + 1))^c/(c + 1), at e^{−u} = c/(c + 1). For c in (−1, 0) and laws of mass 1:
    /// 1 − δ = E[min(1, e^{ε−S})] ≤ e^{A(c) − cε}.
    pub(crate) fn chernoff(self, epsilon: f64) -> Enclosure {
        let Self { c, log_moment } = self;
        let rounding = 8.0 * f64::EPSILON * (log_moment.abs() + (c * epsilon).abs());
        let log = self.log_above(epsilon) + rounding;
        if c > 0.0 {
            Enclosure::of_logs(f64::NEG_INFINITY, log + log_supremum(c) * (1.0 - 8.0 * f64::EPSILON))
        } else {
            Enclosure::of_complement_logs(f64::NEG_INFINITY, log)
        }
    }
}

/// log of (c/(c + 1))^c/(c + 1), right to a few units in its last place for any c > 0: the quotient would lose all its digits for large c.
pub(crate) fn log_supremum(c: f64) -> f64 {
    -c * c.recip().ln_1p() - c.ln_1p()
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
            assert!(MomentBound { c, log_moment }.chernoff(epsilon).upper() >= delta, "{c}");
        }
    }

    #[test]
    fn an_atom_attains_the_bound_on_delta() {
        // All mass at S = ε + u with e^{−u} = c/(c + 1): δ = 1/(c + 1).
        for c in [1e-3f64, 0.3, 2.0, 40.0] {
            for epsilon in [-3.0, 0.0, 7.5] {
                let loss = epsilon + ((c + 1.0) / c).ln();
                let log_moment = c * loss;
                let bound = MomentBound { c, log_moment }.chernoff(epsilon).upper();
                let delta = 1.0 / (c + 1.0);
                assert!(
                    bound >= delta && bound < delta * (1.0 + 1e-11),
                    "{c} {epsilon}: {bound}"
                );
            }
        }
    }

    /// At ε = 0 with c·S next to 1 nothing else rounds: δ is 1/(c + 1), as above.
    #[test]
    fn an_atom_attains_the_bound_at_large_orders() {
        for c in [1e6f64, 1e8, 1e10, 1e12] {
            let log_moment = c * c.recip().ln_1p();
            let bound = MomentBound { c, log_moment }.chernoff(0.0).upper();
            let delta = 1.0 / (c + 1.0);
            assert!(bound >= delta && bound < delta * (1.0 + 1e-13), "{c}: {bound} {delta}");
        }
    }

    #[test]
    fn a_rare_atom_attains_the_bound_on_the_complement() {
        // Mass w at ε and the rest 80 above: 1 − δ is w + (1 − w)e^{−80}, and E[e^{c(S − ε)}] is w + (1 − w)e^{80c}.
        const MASS: f64 = 0.25;
        for c in [-0.9f64, -0.5] {
            let epsilon = 1.5;
            let log_moment = (MASS * (c * epsilon).exp() + (1.0 - MASS) * (c * (epsilon + 80.0)).exp()).ln();
            let delta = MomentBound { c, log_moment }.chernoff(epsilon).lower();
            assert!(
                delta <= 1.0 - MASS + 1e-16 && delta > 1.0 - MASS - 1e-12,
                "{c}: {delta}"
            );
        }
    }
}
