//! δ of one epoch with little noise, where the record is added.
//!
//! δ = E[(1 − e^ε·W)_+] is at most the probability that W < e^{−ε}, so that no term is larger, and at least half of
//! that where all terms together are at most half as large (`docs/theory/random-allocation.md`, Proposition 12).

use crate::interval::Enclosure;
use crate::loss::allocation::bins::{Bins, Part};
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;
use std::f64::consts::LN_2;

/// Rounding of the logarithm of a sum of products of bounds, over the size of the largest logarithm.
pub(super) const SLACK: f64 = 1e-14;
/// Rounding of a sum of logarithms of counts up to 2^40.
const OF_COUNTS: f64 = 2e-14;

/// A logarithm and a bound on its error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Logarithm {
    pub(super) value: f64,
    pub(super) error: f64,
}

impl Logarithm {
    /// log(e^x − `still`); `None` where that may not be positive.
    fn without(x: f64, still: f64) -> Option<Self> {
        // Where there is none, e^−x may be beyond the range of numbers.
        let share = if still > 0.0 { still * (-x).exp() } else { 0.0 };
        let left = 1.0 - share;
        let relative = share * (4.0 + x.abs()) / left;
        (left > 0.0 && relative < 1e10).then(|| Self {
            value: x + (-share).ln_1p(),
            error: f64::EPSILON * (4.0 * x.abs() + 4.0 + relative),
        })
    }

    /// Plus a sum of a few logarithms of counts.
    fn plus(self, other: f64) -> Self {
        let value = self.value + other;
        let error = self.error + 2.0 * f64::EPSILON * (other.abs() + value.abs()) + OF_COUNTS;
        Self { value, error }
    }

    pub(super) fn lower(self) -> f64 {
        self.value - self.error
    }

    pub(super) fn upper(self) -> f64 {
        self.value + self.error
    }
}

/// Bounds on δ(ε) of one epoch where the record is added.
pub(super) fn delta(bins: &Bins, epsilon: f64) -> Enclosure {
    added(bins, epsilon).unwrap_or(Enclosure::TRIVIAL)
}

fn added(bins: &Bins, epsilon: f64) -> Option<Enclosure> {
    let log_total = bins.total.ln();
    let Some(rest) = Logarithm::without(-epsilon, bins.still) else {
        // Unless W may be that small, δ is 0; rounding says nothing where it may.
        let never = bins.still > (-epsilon).exp() * (1.0 + 1e-12 * (1.0 + epsilon.abs()));
        return never.then_some(Enclosure::ZERO);
    };
    let released: f64 = bins.parts.iter().map(|part| part.count).sum();
    let below = |x: Logarithm| -> f64 {
        let log = |part: &Part| part.count * (-log_mass_above(part, x).exp().min(1.0)).ln_1p();
        bins.parts.iter().map(log).sum()
    };
    let surely_below = |x: Logarithm| -> f64 {
        let log = |part: &Part| part.count * log_mass_below(part, x);
        bins.parts.iter().map(log).sum()
    };
    let upper = surely_below(rest.plus(log_total));
    let upper = upper + SLACK * upper.abs();
    // All terms at most y: their sum is at most half of the rest, and e^ε·W at most 1 − e^ε·rest/2.
    let each = rest.plus(log_total - released.ln() - LN_2);
    let gain = rest.lower() + epsilon - LN_2;
    let lower = below(each) + gain.min(-LN_2);
    Some(Enclosure::of_logs(
        lower - SLACK * (4.0 + epsilon.abs() + lower.abs()),
        upper.min(0.0),
    ))
}

/// log Σ count·e^`of`, over the parts.
pub(super) fn log_sum(parts: &[Part], of: impl Fn(&Part) -> f64) -> f64 {
    let mut sum = LogSum::default();
    parts.iter().for_each(|part| sum.add(part.count.ln() + of(part)));
    sum.ln()
}

/// The normal variable of log Y at x, and a bound on its error.
pub(super) fn normal(part: &Part, x: Logarithm) -> Logarithm {
    let root = part.variance.sqrt();
    let value = x.value / root + 0.5 * root;
    let error = x.error / root + 2.0 * f64::EPSILON * (x.value.abs() / root + root);
    Logarithm { value, error }
}

/// log of an upper bound on P(log Y > x) under Q.
pub(super) fn log_mass_above(part: &Part, x: Logarithm) -> f64 {
    let at = normal(part, x).lower();
    log_upper_tail(at) + 1e-15 * (8.0 + at * at)
}

/// log of an upper bound on P(log Y ≤ x) under Q.
fn log_mass_below(part: &Part, x: Logarithm) -> f64 {
    let at = normal(part, x).upper();
    (log_upper_tail(-at) + 1e-15 * (8.0 + at * at)).min(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::one_step::gaussian_delta;

    fn bins(batches: &[(u64, f64)]) -> Bins {
        Bins::new(batches).unwrap()
    }

    /// If the record is added all terms must be small: the more batches there are, the rarer that is.
    #[test]
    fn an_added_record_is_enclosed() {
        let (variance, epsilon) = (80.0f64, 30.0);
        // One batch has a closed form.
        let one = delta(&bins(&[(1, variance)]), epsilon);
        let exact = gaussian_delta(variance.sqrt(), epsilon);
        assert!(one.lower() <= exact.lower() && exact.upper() <= one.upper());
        assert!(one.upper() < 5.0 * one.lower(), "{one:?}");
        // With batches that are not released W is at least their share.
        let still = delta(&bins(&[(1, variance), (1, 0.0)]), 1.0);
        assert_eq!(still, Enclosure::ZERO);
        let of = |count: u64| delta(&bins(&[(count, variance)]), 60.0);
        assert!(
            of(10).upper() < 1e-3 * of(1).lower() && of(10).lower() > 0.0,
            "{:?}",
            of(10)
        );
        // e^ε may be beyond the range of numbers.
        let found = delta(&bins(&[(34_421, 747.0)]), 727.8);
        assert!(found.log_upper < -1e6, "{found:?}");
    }
}
