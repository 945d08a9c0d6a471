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
        let low = (-size).mul_add(b, a) / b;
        Self {
            size,
            rest: low + 4.0 * f64::EPSILON * low.abs(),
            slack: 8.0 * f64::EPSILON * low.abs(),
        }
    }

    /// The largest loss of a run from the numbers of its steps and their largest losses.
    pub(crate) fn sum(steps: impl IntoIterator<Item = (f64, Self)>) -> Self {
        let (mut size, mut rest, mut low_parts, mut slack) = (0.0, 0.0, 0.0, 0.0);
        // Each part and each sum of parts is rounded once.
        let mut roundings = 4.0;
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
            }
            roundings += 3.0;
        }
        Self {
            size,
            rest: rest + roundings * f64::EPSILON * low_parts,
            slack: (slack + f64::EPSILON * roundings * low_parts) * (1.0 + 1e-9),
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
        for a in [1.0, 2.0, 7.0, 1000.0] {
            for b in [0.7, 3.0, 1.0 / 3.0, 0.1, 17.3, 0.25] {
                let found = MaxLoss::quotient(a, b);
                let (product, beyond) = two_product(found.size, b);
                let (missing, rest) = two_sum(a - product, -beyond);
                assert_eq!(rest, 0.0);
                assert!(found.rest * b >= missing, "{a} {b}");
                assert!(
                    found.rest * b - missing <= 8.0 * f64::EPSILON * missing.abs(),
                    "{a} {b}"
                );
                assert!((found.rest - found.slack) * b <= missing, "{a} {b}");
            }
        }
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

    #[test]
    fn gaussian_losses_have_no_largest_one() {
        let largest = MaxLoss::sum([all_steps(Some(StepLoss::shift(1.0)), 2.0)]);
        assert_eq!(largest.rounded_up(), f64::INFINITY);
        assert_eq!(largest.above(1e300), f64::INFINITY);
    }
}
