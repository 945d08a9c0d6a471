//! The largest loss: the ε from which on δ is 0, where losses are bounded, as those of Laplace noise and of randomised response.

use crate::special::extended::{two_product, two_sum};

/// An upper bound on the largest loss of a step or of a run, `size` + `rest`.
///
/// Sums have twice the precision of an `f64`. Where the largest losses of all steps have no rounding error, as those of Laplace noise of
/// scale 1 without sampling, and their sum has none, the bound is that sum itself.
#[derive(Debug, Clone, Copy)]
pub struct MaxLoss {
    pub(crate) size: f64,
    rest: f64,
    /// How far the bound may be above the largest loss, if that is an atom; infinite where nothing is known.
    pub(crate) slack: f64,
}

impl MaxLoss {
    /// Losses have no upper bound.
    pub(crate) const UNBOUNDED: Self = Self {
        size: f64::INFINITY,
        rest: 0.0,
        slack: f64::INFINITY,
    };

    /// There are no losses.
    pub(crate) const NOTHING: Self = Self {
        size: f64::NEG_INFINITY,
        rest: 0.0,
        slack: 0.0,
    };

    /// A largest loss that is `bound` or up to `slack` below it.
    pub(crate) const fn within(bound: f64, slack: f64) -> Self {
        Self {
            size: bound,
            rest: 0.0,
            slack,
        }
    }

    /// A loss that is at most `bound`, by an unknown distance.
    pub(crate) const fn at_most(bound: f64) -> Self {
        Self::within(bound, f64::INFINITY)
    }

    /// a/b for a ≥ 0 and b > 0, at twice the precision: the bound is that number where it has no rounding error.
    pub(crate) fn quotient(a: f64, b: f64) -> Self {
        let size = a / b;
        if size.is_infinite() {
            return Self::UNBOUNDED;
        }
        // The remainder of a division is a number, so that its sign says on which side of the quotient the truth is.
        let remainder = (-size).mul_add(b, a);
        let low = remainder / b;
        let left = (-low).mul_add(b, remainder);
        let rest = if left > 0.0 { low.next_up() } else { low };
        Self {
            size,
            rest,
            slack: if left == 0.0 { 0.0 } else { rest - rest.next_down() },
        }
    }

    /// The largest loss of a run from the numbers of its steps and their largest losses.
    ///
    /// Products and sums of the large parts have no rounding errors but those that become small parts. Each product of a small part is
    /// rounded, and each sum of two small parts that are not 0: by half a unit in the last place of the sum of their moduli at most. So
    /// the sum of the small parts is off by `rounding` at most. The bound is the sum plus that, and the largest loss may be below the
    /// bound by twice as much, besides what its parts are below theirs.
    pub(crate) fn sum(steps: impl IntoIterator<Item = (f64, Self)>) -> Self {
        let (mut size, mut rest, mut low_parts, mut slack) = (0.0, 0.0, 0.0, 0.0);
        let mut parts = 0u32;
        for (count, each) in steps {
            let (product, below) = two_product(count, each.size);
            if !product.is_finite() {
                return Self::UNBOUNDED;
            }
            slack += count * each.slack;
            let (sum, beyond) = two_sum(size, product);
            size = sum;
            for part in [beyond, below, count * each.rest] {
                rest += part;
                low_parts += part.abs();
                parts += u32::from(part != 0.0);
            }
        }
        // Of the four more, one is that of the products, one that of adding `rounding`; two are room for errors of second order.
        let rounding = 0.5 * f64::EPSILON * (f64::from(parts) + 4.0) * low_parts;
        Self {
            size,
            rest: rest + rounding,
            slack: (slack + 2.0 * rounding) * (1.0 + 1e-9),
        }
    }

    /// An upper bound on how far the largest loss is above ε: not positive if it is certainly not.
    pub(crate) fn above(self, epsilon: f64) -> f64 {
        if self.size == f64::INFINITY {
            return self.size;
        }
        let (gap, beyond) = two_sum(self.size, -epsilon);
        let distance = gap + (beyond + self.rest);
        distance + f64::EPSILON * (distance.abs() + beyond.abs() + self.rest.abs())
    }

    /// A lower bound on how far the largest loss is above ε, which may be negative.
    pub(crate) fn surely_above(self, epsilon: f64) -> f64 {
        let distance = self.above(epsilon);
        let rounding = distance.abs() + epsilon.abs() * f64::EPSILON + self.rest.abs();
        distance - self.slack - 4.0 * f64::EPSILON * rounding
    }

    /// The bound as one number.
    pub(crate) fn rounded_up(self) -> f64 {
        let sum = self.size + self.rest;
        if self.above(sum) > 0.0 { sum.next_up() } else { sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::step::{Direction, GroupLaw};

    fn all_steps(loss: Option<StepLoss>, steps: f64) -> (f64, MaxLoss) {
        (steps, loss.unwrap().max_loss())
    }

    /// a − b·size is a number, so that the correction can be compared with what is missing exactly.
    #[test]
    fn quotients_are_rounded_up_at_twice_the_precision() {
        let mut far = 0;
        for a in [1.0, 2.0, 7.0, 1000.0] {
            for b in [0.7, 3.0, 1.0 / 3.0, 0.1, 17.3, 0.25] {
                let found = MaxLoss::quotient(a, b);
                let (product, beyond) = two_product(found.size, b);
                let (missing, rest) = two_sum(a - product, -beyond);
                assert_eq!(rest, 0.0);
                // The product with b of a correction, less what is missing, has the sign of their difference: the truth is in
                // the upper half of what the slack leaves, or it is the bound itself.
                let beyond = |correction: f64| correction.mul_add(b, -missing);
                assert!(beyond(found.rest) >= 0.0, "{a} {b}");
                assert!(beyond(found.rest - found.slack) <= 0.0, "{a} {b}");
                if found.slack > 0.0 {
                    far += u32::from(beyond(found.rest - 0.5 * found.slack) > 0.0);
                    assert!(beyond(found.rest.next_down()) < 0.0, "{a} {b}");
                }
            }
        }
        // Half of the slack would be too little for some.
        assert!(far > 3, "{far}");
        let exact = MaxLoss::quotient(3.0, 0.25);
        assert_eq!((exact.size, exact.rest, exact.slack), (12.0, 0.0, 0.0));
        assert_eq!(MaxLoss::quotient(3.0, 1e-320).size, f64::INFINITY);
    }

    /// The largest loss of a step of Laplace noise of scale 1 is 1, and of 10⁹ of them 10⁹: nothing is added for rounding.
    #[test]
    fn whole_losses_have_no_rounding_error() {
        let all = GroupLaw::binomial(1, 1.0).unwrap();
        let laplace = || StepLoss::laplace(&all, 1.0, Direction::Remove);
        let largest = MaxLoss::sum([all_steps(laplace(), 3.0), all_steps(laplace(), 1e9)]);
        assert_eq!(largest.rounded_up(), 1e9 + 3.0);
        assert!(largest.above(1e9 + 3.0) <= 0.0 && largest.above(1e9 + 2.0) >= 1.0);
    }

    /// Four kinds of randomised response with p/(1 − p) = 2, 3, 4 and 9: the sum is 7·log 2 + 5·log 3 + 3·log 4 + 1000·log 9.
    #[test]
    fn the_largest_loss_of_different_steps_is_between_its_bounds() {
        let all = GroupLaw::binomial(1, 1.0).unwrap();
        let kinds = [(2.0, 7.0), (3.0, 5.0), (4.0, 3.0), (9.0, 1000.0)];
        let of = |&(odds, steps): &(f64, f64)| {
            all_steps(StepLoss::response(&all, odds / (odds + 1.0), Direction::Remove), steps)
        };
        let largest = MaxLoss::sum(kinds.iter().map(of));
        // 13·log 2 + 2005·log 3, from log 2 = 0.693147180559945309 and log 3 = 1.098612288668109691.
        let exact = 2_211.728_552_126_839;
        assert!(
            largest.rounded_up() >= exact && largest.rounded_up() < exact * (1.0 + 1e-13),
            "{largest:?}"
        );
        for distance in [1e-9, 1.0, 100.0] {
            let (lower, upper) = (largest.surely_above(exact - distance), largest.above(exact - distance));
            assert!(
                lower <= distance + 1e-12 && distance - 1e-12 <= upper,
                "{lower} {distance} {upper}"
            );
            assert!(upper - lower < 1e-10);
        }
    }

    /// A thousand parts of nearly half a unit in the last place of the first one are lost, those of a little more count as a whole unit:
    /// the bound has to add the former, and the slack to cover the latter and what was added.
    #[test]
    fn the_rounding_of_a_sum_is_attained_in_both_directions() {
        const UNIT: f64 = 0.5 * f64::EPSILON;
        let part = |rest: f64| MaxLoss {
            size: 0.0,
            rest,
            slack: 0.0,
        };
        let sum = |small: f64| {
            MaxLoss::sum(
                [part(1.0)]
                    .into_iter()
                    .chain((0..1000).map(|_| part(small)))
                    .map(|each| (1.0, each)),
            )
        };
        for (small, least) in [(UNIT * (1.0 - 1e-3), 0.97), (UNIT * (1.0 + 1e-3), 0.97)] {
            let found = sum(small);
            // The truth is 1 + `missing`.
            let missing = 1000.0 * small;
            let margin = found.rest - 1.0 - missing;
            assert!(margin >= 0.0 && margin <= found.slack, "{margin:e} {found:?}");
            let of_bound = 1.0 - margin / (found.slack * 0.5);
            let of_slack = margin / found.slack;
            assert!(of_bound.max(of_slack) > least, "{of_bound} {of_slack}");
        }
    }

    /// Losses that are below their bounds by all of their slacks.
    #[test]
    fn the_slack_of_a_sum_is_that_of_all_steps() {
        let largest = MaxLoss::sum([(3.0, MaxLoss::within(1.0, 0.25)), (2.0, MaxLoss::within(0.5, 0.125))]);
        assert_eq!(largest.rounded_up(), 4.0);
        let truth = 3.0 * 0.75 + 2.0 * 0.375;
        let found = largest.surely_above(2.5);
        assert!(found <= truth - 2.5 && found > truth - 2.5 - 1e-8, "{found}");
    }

    /// 1 + 2⁻⁵³(1 − 2⁻¹⁰) is rounded to 1, and half of what is added for that would be lost too.
    #[test]
    fn a_distance_that_is_rounded_down_is_bounded() {
        let largest = MaxLoss {
            size: 1.0,
            rest: 0.5 * f64::EPSILON * (1.0 - f64::powi(2.0, -10)),
            slack: 0.0,
        };
        assert_eq!(largest.above(0.0), 1.0f64.next_up());
    }

    #[test]
    fn gaussian_losses_have_no_largest_one() {
        let largest = MaxLoss::sum([all_steps(Some(StepLoss::shift(1.0)), 2.0)]);
        assert_eq!(largest.rounded_up(), f64::INFINITY);
        assert_eq!(largest.above(1e300), f64::INFINITY);
    }
}
