//! The Rényi divergence of the mechanisms of RGP §4 for k records without sampling.
//!
//! All are in units of one record's sensitivity, as in the paper, but for Skellam noise, which is on whole numbers and has a variance
//! and a sensitivity of its own.

use crate::special::log_space::{exp_m1_minus, log_add};
use crate::step::Mechanism;

impl Mechanism {
    /// τ*_k(α) in nats: the divergence of order α > 1, or RGP's bound on it, for k records without sampling.
    ///
    /// - Gaussian: αk²/2σ² (Lemma 4.2), attained.
    /// - Laplace: log Φ/(α − 1) with Φ = α/(2α−1)·e^{(α−1)u} + (α−1)/(2α−1)·e^{−αu}, u = k/b (Theorem 4.3), attained. As
    ///   the terms that are linear in u cancel, Φ − 1 = (α·g((α−1)u) + (α−1)·g(−αu))/(2α−1), g(x) = e^x − 1 − x ≥ 0.
    /// - Skellam: αΔ²/2V + min{((2α−1)Δ² + 6Δ)/4V², 3Δ/2V} with Δ = kC (equation 18, whose μ is V/C²), an upper bound
    ///   for whole α.
    /// - Randomised response: log Φ/(α − 1) for every k ≥ 1, with t = log(p/(1−p)), s = (α−1)t and
    ///   Φ = p·e^s + (1−p)·e^{−s} = 1 + tanh(t/2)·sinh s + 2·sinh²(s/2) (equation 20), attained.
    ///
    /// The value is right to a few units in the last place.
    pub fn component(self, order: f64, count: f64) -> f64 {
        if count == 0.0 {
            return 0.0;
        }
        let excess_order = order - 1.0;
        match self {
            Self::Gaussian { noise_multiplier } => {
                let distance = count / noise_multiplier;
                0.5 * order * distance * distance
            }
            Self::Laplace { scale } => {
                let u = count / scale;
                let double = 2.0 * order - 1.0;
                let (rising, falling) = (excess_order * u, -order * u);
                let log_phi = if rising > 30.0 {
                    log_add((order / double).ln() + rising, (excess_order / double).ln() + falling)
                } else {
                    let excess = order * exp_m1_minus(rising) + excess_order * exp_m1_minus(falling);
                    (excess / double).ln_1p()
                };
                log_phi / excess_order
            }
            Self::Skellam { variance, sensitivity } => {
                let shift = count * sensitivity as f64;
                let (square, double) = (shift * shift / variance, 2.0 * order - 1.0);
                let first = (double * square + 6.0 * shift / variance) / (4.0 * variance);
                let second = 1.5 * shift / variance;
                0.5 * order * square + first.min(second)
            }
            Self::RandomizedResponse { keep } => {
                // log(p/(1−p)), whose digits survive p near one half.
                let t = ((2.0 * keep - 1.0) / (1.0 - keep)).ln_1p();
                let s = excess_order * t;
                let log_phi = if s > 30.0 {
                    log_add(keep.ln() + s, (-keep).ln_1p() - s)
                } else {
                    ((0.5 * t).tanh() * s.sinh() + 2.0 * (0.5 * s).sinh().powi(2)).ln_1p()
                };
                log_phi / excess_order
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-13, "{found} {expected}");
    }

    #[test]
    fn components_are_the_formulas_of_the_paper() {
        close(Mechanism::Gaussian { noise_multiplier: 2.0 }.component(3.0, 4.0), 6.0);
        let laplace = |alpha: f64, u: f64| {
            let phi = alpha / (2.0 * alpha - 1.0) * ((alpha - 1.0) * u).exp()
                + (alpha - 1.0) / (2.0 * alpha - 1.0) * (-alpha * u).exp();
            phi.ln() / (alpha - 1.0)
        };
        close(Mechanism::Laplace { scale: 2.0 }.component(3.0, 5.0), laplace(3.0, 2.5));
        close(
            Mechanism::Laplace { scale: 0.1 }.component(9.0, 5.0),
            laplace(9.0, 50.0),
        );
        // Small u: αu²/2·(1 + (α − 2)·u/3...) has no digits left in the formula itself; the leading terms are
        // αu²/2·(1 + (α−1−α)u/3).
        let u = 1e-6;
        let small = Mechanism::Laplace { scale: 1.0 / u }.component(4.0, 1.0);
        assert!(
            (small / (0.5 * 4.0 * u * u * (1.0 - u / 3.0)) - 1.0).abs() < 1e-11,
            "{small}"
        );
        // μ = 10, C = 2 in the symbols of the paper.
        let skellam = Mechanism::Skellam {
            variance: 40.0,
            sensitivity: 2,
        };
        let first: f64 = (5.0 * 9.0 * 2.0 + 18.0) / (4.0 * 8.0 * 100.0);
        close(skellam.component(3.0, 3.0), 3.0 * 9.0 / 20.0 + first.min(9.0 / 40.0));
        let p: f64 = 0.8;
        let phi = p.powi(4) * (1.0 - p).powi(-3) + (1.0 - p).powi(4) * p.powi(-3);
        close(
            Mechanism::RandomizedResponse { keep: p }.component(4.0, 7.0),
            phi.ln() / 3.0,
        );
        // p = 1/2 + x: α·(2x)²·2·(1 + …) to leading order.
        let x = f64::powi(2.0, -30);
        let near = Mechanism::RandomizedResponse { keep: 0.5 + x }.component(2.0, 1.0);
        assert!((near / (16.0 * x * x) - 1.0).abs() < 1e-13, "{near}");
        close(
            Mechanism::RandomizedResponse { keep: p }.component(400.0, 1.0),
            (p.ln() + 399.0 * 4f64.ln()) / 399.0,
        );
    }
}
