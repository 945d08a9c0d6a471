//! δ of one epoch with little noise, where one batch stands out: bounds that hold for every ε, also where δ is next to 1 and many batches count.
//! Where the others hardly vary beside the threshold, those of the file `one_large` are far closer.
//!
//! With a large v the sum W = still + Σ Y_i/t consists of its largest term nearly always. Let κ = e^ε − still > 0 be the rest of the
//! threshold, t the number of batches, and G_i(x) = E[(Y_i − e^x)_+], the curve of a Gaussian pair at x. If the record is removed,
//! δ = E[(Σ Y_i/t − κ)_+] is at least
//!
//! > Σ G_i(log tκ)/t,
//!
//! as Σ Y_i/t − κ is at least the sum of Y_i/t − κ over the terms that are above κ alone, and at most, for every a in (0, 1),
//!
//! > Σ G_i(log (1 − a)tκ)/t + Σ_j G_j(log x)/t·p(x)(n − 1)/2 + Σ_j G_j(log x')·p(x')²(n − 1)(n − 2)/6,
//!
//! x = atκ/2, x' = aκ/2, with the number n of released batches and p(x) = max_i P(Y_i > x): κ is divided among the largest term, the second
//! one and all others, which are at most the third one times t (`docs/theory/random-allocation.md`, Proposition 12).
//!
//! If the record is added, δ = E[(1 − e^ε·W)_+] is at most the probability that W < e^{−ε}, so that no term is larger, and at least half of
//! that where all terms together are at most half as large.

use crate::interval::Enclosure;
use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::one_step::gaussian_delta;
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;
use crate::step::Direction;
use std::f64::consts::LN_2;

/// The a that are tried, as powers of 10: the smaller a, the nearer the first term to the lower bound, and the larger the others.
const EXPONENTS: std::ops::RangeInclusive<i32> = -12..=-1;
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

/// Bounds on δ(ε) of one epoch.
pub(super) fn delta(bins: &Bins, direction: Direction, epsilon: f64) -> Enclosure {
    let found = match direction {
        Direction::Remove => removed(bins, epsilon),
        Direction::Add => added(bins, epsilon),
    };
    found.unwrap_or(Enclosure::TRIVIAL)
}

fn removed(bins: &Bins, epsilon: f64) -> Option<Enclosure> {
    let log_total = bins.total.ln();
    let rest = Logarithm::without(epsilon, bins.still)?;
    let whole = rest.plus(log_total);
    let lower = log_sum(&bins.parts, |part| {
        gaussian_delta(part.variance.sqrt(), whole.upper()).log_lower
    }) - log_total;
    let upper = |exponent: i32| {
        let mut sum = LogSum::default();
        for part in parts_above(bins, rest, 10f64.powi(exponent)) {
            sum.add(part);
        }
        let log = sum.ln();
        log + SLACK * (4.0 + log_total + log.abs())
    };
    let upper = EXPONENTS.map(upper).fold(0.0, f64::min);
    Some(Enclosure::of_logs(
        lower - SLACK * (4.0 + log_total + lower.abs()),
        upper,
    ))
}

/// log of bounds on what the largest term adds to δ, the second one, and all others, where they have the parts 1 − a, a/2 and a/2 of the
/// threshold e^`rest`, a = `share`.
fn parts_above(bins: &Bins, rest: Logarithm, share: f64) -> [f64; 3] {
    let log_total = bins.total.ln();
    let released = released(bins);
    let excess = |x: Logarithm| {
        log_sum(&bins.parts, |part| {
            gaussian_delta(part.variance.sqrt(), x.lower()).log_upper
        })
    };
    let largest_mass = |x: Logarithm| {
        let logs = bins.parts.iter().map(|part| log_mass_above(part, x));
        logs.fold(f64::NEG_INFINITY, f64::max)
    };
    let others = |count: f64, ways: f64| ((released - count).max(0.0) / ways).ln();
    let (whole, half) = (rest.plus(log_total), share.ln() - LN_2);
    let (second, third) = (whole.plus(half), rest.plus(half));
    [
        excess(whole.plus((-share).ln_1p())) - log_total,
        excess(second) + largest_mass(second) + others(1.0, 2.0) - log_total,
        excess(third) + 2.0 * largest_mass(third) + others(1.0, 2.0) + others(2.0, 3.0),
    ]
}

/// n.
fn released(bins: &Bins) -> f64 {
    bins.parts.iter().map(|part| part.count).sum()
}

fn added(bins: &Bins, epsilon: f64) -> Option<Enclosure> {
    let log_total = bins.total.ln();
    let Some(rest) = Logarithm::without(-epsilon, bins.still) else {
        // Unless W may be that small, δ is 0; rounding says nothing where it may.
        let never = bins.still > (-epsilon).exp() * (1.0 + 1e-12 * (1.0 + epsilon.abs()));
        return never.then_some(Enclosure::ZERO);
    };
    let released = released(bins);
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

    fn bins(batches: &[(u64, f64)]) -> Bins {
        Bins::new(batches).unwrap()
    }

    /// δ of two batches, by a sum over the normal variable of one of them: given it, the other gives a curve of a Gaussian pair.
    fn exact_of_two(variance: f64, still: f64, epsilon: f64) -> f64 {
        let root = variance.sqrt();
        let total = 2.0 / (1.0 - still);
        let (step, mut sum) = (2e-4, 0.0);
        let mut g = -9.0;
        while g < root + 12.0 {
            let y = (root * g - 0.5 * variance).exp();
            let left = total * (epsilon.exp() - still) - y;
            let excess = if left > 0.0 {
                gaussian_delta(root, left.ln()).upper()
            } else {
                1.0 - left
            };
            sum += (-0.5 * g * g).exp() * step * excess;
            g += step;
        }
        sum / (2.0 * std::f64::consts::PI).sqrt() / total
    }

    /// Where noise is little both ends are δ; where it is not, δ is well above the lower end and still below the upper one.
    #[test]
    fn two_batches_are_enclosed() {
        for (variance, epsilon, narrow) in [
            (80.0, 60.0, true),
            (40.0, 45.0, true),
            (16.0, 12.0, false),
            (2.0, 1.5, false),
        ] {
            let exact = exact_of_two(variance, 0.0, epsilon);
            let found = delta(&bins(&[(2, variance)]), Direction::Remove, epsilon);
            let (lower, upper) = (found.lower(), found.upper());
            assert!(
                lower <= exact * (1.0 + 1e-7) && exact <= upper * (1.0 + 1e-7),
                "{variance}: {exact} {found:?}"
            );
            assert_eq!(upper < lower * (1.0 + 1e-6), narrow, "{variance}: {found:?}");
            assert!(
                narrow || variance > 10.0 || lower < 0.9 * exact,
                "{variance}: {exact} {found:?}"
            );
        }
        // Two of five batches are released.
        let some = bins(&[(2, 60.0), (3, 0.0)]);
        let found = delta(&some, Direction::Remove, 30.0);
        let exact = exact_of_two(60.0, 0.6, 30.0);
        assert!(
            (found.lower() / exact - 1.0).abs() < 1e-7 && (found.upper() / exact - 1.0).abs() < 1e-6,
            "{found:?} {exact}"
        );
    }

    /// Ratios next to 1 that are all above the parts of the threshold: what the second of two adds is E[min Y − x]/t, and what the third of
    /// three adds is E[min Y − x'], both next to 1 − x. With half of either bound it would be more.
    #[test]
    fn what_other_terms_than_the_largest_add_is_bounded_and_attained() {
        let variance = 1e-6;
        let rest = Logarithm { value: 0.0, error: 0.0 };
        for share in [0.01, 0.1] {
            let [_, second, none] = parts_above(&bins(&[(2, variance)]), rest, share);
            let (exact, found) = (0.5 * (1.0 - share), second.exp());
            assert!(
                exact * 0.999 <= found && found < 1.01 * exact,
                "{share}: {exact} {found}"
            );
            assert_eq!(none, f64::NEG_INFINITY);
            let [.., third] = parts_above(&bins(&[(3, variance)]), rest, share);
            let (exact, found) = (1.0 - 0.5 * share, third.exp());
            assert!(
                exact * 0.999 <= found && found < 1.01 * exact,
                "{share}: {exact} {found}"
            );
        }
        // Of a hundred batches none stands out: δ is at least E[W] − K, all of it from terms after the second one.
        let epsilon = -0.7f64;
        let found = delta(&bins(&[(100, 0.01)]), Direction::Remove, epsilon);
        assert!(found.upper() >= -epsilon.exp_m1(), "{found:?}");
    }

    /// Batches of two kinds: the term of each is the curve of its own pair, in proportion to their numbers.
    #[test]
    fn batches_of_two_kinds_add_their_curves() {
        let found = delta(&bins(&[(30, 90.0), (70, 100.0)]), Direction::Remove, 80.0);
        let at = 80.0 + 100f64.ln();
        let exact = 0.3 * gaussian_delta(90f64.sqrt(), at).upper() + 0.7 * gaussian_delta(10.0, at).upper();
        assert!(
            (found.lower() / exact - 1.0).abs() < 1e-9 && (found.upper() / exact - 1.0).abs() < 1e-8,
            "{found:?}"
        );
    }

    /// If the record is added all terms must be small: the more batches there are, the rarer that is.
    #[test]
    fn an_added_record_is_enclosed() {
        let (variance, epsilon) = (80.0f64, 30.0);
        // One batch has a closed form.
        let one = delta(&bins(&[(1, variance)]), Direction::Add, epsilon);
        let exact = gaussian_delta(variance.sqrt(), epsilon);
        assert!(one.lower() <= exact.lower() && exact.upper() <= one.upper());
        assert!(one.upper() < 5.0 * one.lower(), "{one:?}");
        // With batches that are not released W is at least their share.
        let still = delta(&bins(&[(1, variance), (1, 0.0)]), Direction::Add, 1.0);
        assert_eq!(still, Enclosure::ZERO);
        let of = |count: u64| delta(&bins(&[(count, variance)]), Direction::Add, 60.0);
        assert!(
            of(10).upper() < 1e-3 * of(1).lower() && of(10).lower() > 0.0,
            "{:?}",
            of(10)
        );
        // e^ε may be beyond the range of numbers.
        let found = delta(&bins(&[(34_421, 747.0)]), Direction::Add, 727.8);
        assert!(found.log_upper < -1e6, "{found:?}");
    }
}
