//! RGP equation 12 (Ξ⁻): a lower bound on the divergence of the pair, and so on every bound.

use crate::renyi::divergence::ExactPair;
use crate::renyi::group_bound::{NEGLIGIBLE, ROUNDING};
use crate::renyi::skellam_pair::SkellamPair;
use crate::special::log_space::log_sum_exp;
use crate::step::{Direction, GroupLaw, Mechanism};

/// Bound on the number of masses of Skellam noise that one bound sums, which takes about a second.
const MAX_MASSES: f64 = 1e7;
/// Counts whose term is estimated to be below e^-60 of the largest are left out: they do not change the last digit.
const MARGIN: f64 = 60.0;
/// Standard deviations of the noise beyond its farthest peak to which a sum extends.
const DEVIATIONS: f64 = 9.0;

/// Equation 12 for a mechanism, with components that are attained.
///
/// Those of Skellam noise are sums over its masses, which are expensive: terms are taken in the order of their estimated size, and
/// small ones, or those after ten million masses, are left out. As all terms are positive, this lowers the bound.
pub(crate) fn lower_bound(mechanism: Mechanism, order: f64, law: &GroupLaw) -> f64 {
    let Mechanism::Skellam { variance, sensitivity } = mechanism else {
        return lower(order, |count| mechanism.component(order, count as f64), law);
    };
    let mut pair = SkellamPair::of_count(0, variance, sensitivity);
    let mut estimates: Vec<(f64, usize)> = law
        .log_weights()
        .iter()
        .zip(law.shifts())
        .map(|(log_weight, &count)| {
            let shift = count * sensitivity as f64;
            (order * log_weight + pair.rough_log_moment(order, shift), count as usize)
        })
        .collect();
    estimates.sort_by(|a, b| b.0.total_cmp(&a.0));
    let farthest = law.shifts().last().map_or(0, |&last| last as usize);
    let mut components = vec![f64::NEG_INFINITY; farthest + 1];
    let (largest, mut masses) = (estimates[0].0, 0.0);
    for (estimate, count) in estimates {
        if estimate < largest - MARGIN || masses > MAX_MASSES {
            break;
        }
        // The sum extends to about α·count, and nine standard deviations further.
        masses += order * count as f64 * sensitivity as f64 + DEVIATIONS * variance.sqrt();
        pair = pair.with_count(count);
        if let Ok(found) = pair.of_order(order, Direction::Remove) {
            components[count] = found.lower();
        }
    }
    lower(order, |count| components[count], law)
}

/// RGP equation 12 at one order: log(Σ_k Binomial(m, q)(k)^α·e^{(α−1)·τ_k})/(α − 1), rounded down; 0 where that is
/// negative. `component_rdp` must be attained, or a lower bound on a divergence that is.
///
/// By (Σ a_k)^α ≥ Σ a_k^α for a_k ≥ 0: a lower bound on the divergence of the pair. With Σ w_k = 1 the sum is
/// 1 + Σ w_k (e^{(α−1)(log w_k + τ_k)} − 1), whose terms are as small as α − 1 for orders near 1.
///
/// The relative error of a term is about 2^-53·(α·|log w| + (α−1)·τ): this size, of the terms that count, determines how far the
/// result is rounded down.
fn lower(order: f64, component_rdp: impl Fn(usize) -> f64, law: &GroupLaw) -> f64 {
    let excess_order = order - 1.0;
    let atoms: Vec<(f64, f64, f64)> = law
        .log_weights()
        .iter()
        .zip(law.shifts())
        .map(|(&log_weight, &count)| {
            let rdp = component_rdp(count as usize);
            let gain = excess_order * (log_weight + rdp);
            (log_weight, gain, excess_order * (log_weight.abs() + rdp.max(0.0)))
        })
        .collect();
    let sum = log_sum_exp(&atoms.iter().map(|atom| atom.0 + atom.1).collect::<Vec<f64>>());
    if sum == f64::INFINITY {
        return sum;
    }
    let unit = 4.0 * f64::EPSILON;
    if sum > 1.0 {
        let size = atoms
            .iter()
            .filter(|atom| atom.0 + atom.1 > sum - NEGLIGIBLE)
            .fold(0.0, |size: f64, atom| size.max(atom.0.abs() + atom.2));
        return ((sum - unit * (8.0 + size)) / excess_order).max(0.0) / ROUNDING;
    }
    let (mut excess, mut error) = (0.0, 0.0);
    for (log_weight, gain, size) in atoms {
        let weight = log_weight.exp();
        let term = weight * gain.exp_m1();
        excess += term;
        // The error of w, of the exponent, and of the sum, which counts every term that came before.
        error += term.abs() * (2.0 + log_weight.abs()) + (log_weight + gain).exp() * size + excess.abs();
    }
    let bound = excess - unit * error;
    if bound > 0.0 {
        bound.ln_1p() / excess_order / ROUNDING
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::renyi::pairs::exact_pair;

    /// `mpmath.mp.dps = 40`, log(Σ_k (C(m, k) q^k (1−q)^{m−k})^α e^{(α−1)αk²/2σ²})/(α − 1) for (m, q, α, σ).
    #[test]
    fn the_bound_is_just_below_equation_12() {
        for (size, rate, order, noise_multiplier, exact) in [
            (16, 0.03125, 4.0, 2.0, 54.064_300_740_401_36),
            (3, 0.5, 32.0, 0.5, 573.853_479_698_911_1),
        ] {
            let law = GroupLaw::binomial(size, rate).unwrap();
            let found = lower_bound(Mechanism::Gaussian { noise_multiplier }, order, &law);
            assert!(found <= exact && found >= exact * (1.0 - 1e-13), "{found} {exact}");
        }
        // Negative, −0.2246 for (2, 0.125, 2.5, 1): a divergence is at least 0.
        let law = GroupLaw::binomial(2, 0.125).unwrap();
        assert_eq!(
            lower_bound(Mechanism::Gaussian { noise_multiplier: 1.0 }, 2.5, &law),
            0.0
        );
    }

    /// As the one term of a group that is always sampled, the bound is the divergence: twice or half of it would not be.
    #[test]
    fn the_bound_is_attained_where_the_group_is_always_in_the_batch() {
        let law = GroupLaw::binomial(3, 1.0).unwrap();
        for mechanism in [
            Mechanism::Gaussian { noise_multiplier: 2.0 },
            Mechanism::Laplace { scale: 1.7 },
            Mechanism::Skellam {
                variance: 30.0,
                sensitivity: 2,
            },
        ] {
            let exact = exact_pair(mechanism, &law)
                .unwrap()
                .of_order(5.0, Direction::Remove)
                .unwrap();
            let found = lower_bound(mechanism, 5.0, &law);
            assert!(
                found <= exact.upper && found >= exact.value * (1.0 - 1e-10),
                "{mechanism:?} {found} {exact:?}"
            );
        }
    }

    #[test]
    fn counts_that_are_left_out_do_not_matter() {
        // All masses of all counts, one by one, against those within the margin of the largest term.
        let (variance, order) = (40.0, 3.0);
        let law = GroupLaw::binomial(60, 0.01).unwrap();
        let all = |count: usize| {
            let mut pair = SkellamPair::of_count(count, variance, 1);
            pair.of_order(order, Direction::Remove).unwrap().lower()
        };
        let exact = lower(order, all, &law);
        let found = lower_bound(
            Mechanism::Skellam {
                variance,
                sensitivity: 1,
            },
            order,
            &law,
        );
        assert!(
            found <= exact * (1.0 + 1e-13) && found >= exact * (1.0 - 1e-11),
            "{found} {exact}"
        );
    }
}
