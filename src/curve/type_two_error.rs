//! The trade-off function of a privacy curve, from its conjugate: lines that every ε gives.

use crate::special::root::golden_section;

/// Evaluations of either search for the best line: the bracket shrinks to 1e-8 of its width.
const ROUNDS: usize = 40;
/// Rounding of a line's value, relatively, and of a difference, over the larger one of its terms.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// A lower bound on the type II error of any test at level α between neighbours whose curve is at most `delta` in both orders:
///
/// > β(α) = sup over ε ≥ 0 of max(1 − δ(ε) − e^ε α, e^{−ε}(1 − δ(ε) − α))
///
/// (SHUFFLE §2; Dong, Roth and Su 2022, Proposition 6). Every ε gives a valid bound; a search over [0, `limit`] returns a large one.
pub(super) fn lower_bound(alpha: f64, limit: f64, mut delta: impl FnMut(f64) -> f64) -> f64 {
    // Terms cancel. Next to α = 1 the difference 1 − α has all of its digits, and 1 − δ has not.
    let difference = |large: f64, small: f64| large - small - ROUNDING * large.max(small);
    // Both are concave in e^ε or e^{−ε}: one maximum each.
    let steep_limit = if alpha > 0.0 { limit.min(-alpha.ln()) } else { limit };
    let (_, steep) = golden_section(0.0, steep_limit, ROUNDS, |epsilon| {
        -difference(1.0 - delta(epsilon), epsilon.exp() * alpha)
    });
    let (_, flat) = golden_section(0.0, limit, ROUNDS, |epsilon| {
        -(-epsilon).exp() * difference(1.0 - alpha, delta(epsilon))
    });
    let at_zero = difference(1.0 - alpha, delta(0.0));
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

    /// β = Φ(Φ⁻¹(1 − α) − 2) by mpmath in 40 digits: it is a part of 1 − α = 1.4e-9, of which a number next to 1 keeps seven digits.
    #[test]
    fn a_type_two_error_far_below_the_rounding_of_one_is_not_overstated() {
        let (alpha, exact) = (0.999_999_998_589_872_4, 9.968_834_588_277_775e-16);
        let found = lower_bound(alpha, 40.0, |epsilon| gaussian_delta(2.0, epsilon).upper());
        assert!(found <= exact && found > exact * (1.0 - 1e-5), "{found} {exact}");
    }
}
