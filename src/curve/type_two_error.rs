//! The trade-off function of a privacy curve, from its conjugate: lines that every ε gives.

use crate::special::root::golden_section;

/// Evaluations of either search for the best line: the bracket shrinks to 1e-8 of its width.
const ROUNDS: usize = 40;
/// Rounding of a line's value, relatively.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A lower bound on the type II error of any test at level α between neighbours whose curve is at most `delta` in both orders:
///
/// > β(α) = sup over ε ≥ 0 of max(1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α))
///
/// (SHUFFLE §2; Dong, Roth and Su 2022, Proposition 6). Every ε gives a valid bound; a search over [0, `limit`] returns a large one.
pub(super) fn lower_bound(alpha: f64, limit: f64, mut delta: impl FnMut(f64) -> f64) -> f64 {
    // Both are concave in e^ε or e^{−ε}: one maximum each.
    let steep_limit = if alpha > 0.0 { limit.min(-alpha.ln()) } else { limit };
    let (_, steep) = golden_section(0.0, steep_limit, ROUNDS, |epsilon| {
        delta(epsilon) - 1.0 + epsilon.exp() * alpha
    });
    let (_, flat) = golden_section(0.0, limit, ROUNDS, |epsilon| {
        (-epsilon).exp() * (delta(epsilon) - 1.0 + alpha)
    });
    let at_zero = 1.0 - delta(0.0) - alpha;
    at_zero.max(-steep).max(-flat).clamp(0.0, 1.0) * (1.0 - ROUNDING)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::one_step::gaussian_delta;
    use crate::special::normal::log_upper_tail;

    /// The trade-off function of N(0, 1) and N(μ, 1) is Φ(Φ⁻¹(1 − α) − μ): a test above the threshold z has α = Φ(−z).
    #[test]
    fn gaussian_curves_have_the_gaussian_trade_off_function() {
        for (mu, z) in [(1.0, 0.3), (0.2, 1.5), (2.5, 2.0), (1.0, -1.0)] {
            let alpha = log_upper_tail(z).exp();
            let exact = log_upper_tail(mu - z).exp();
            let found = lower_bound(alpha, 40.0, |epsilon| gaussian_delta(mu, epsilon).upper());
            assert!(found <= exact && found > exact - 1e-7, "{mu} {z}: {found} {exact}");
        }
    }
}
