//! Rényi divergences with an upper bound, and the interface of the pairs that have one.

use crate::error::Result;
use crate::step::Direction;
use std::fmt::Debug;

/// A divergence in nats, with a bound that accounts for quadrature, truncation and rounding.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Divergence {
    /// Best value.
    pub value: f64,
    /// Certified upper bound.
    pub upper: f64,
}

impl Divergence {
    /// The divergence of two equal laws.
    pub(super) const ZERO: Self = Self { value: 0.0, upper: 0.0 };

    /// Certified lower bound: the errors of the value are bounded by `upper - value` to both sides.
    pub fn lower(self) -> f64 {
        (2.0 * self.value - self.upper).max(0.0)
    }
}

/// A pair of output laws whose Rényi divergences are computed exactly.
pub(super) trait ExactPair: Debug + Send {
    /// D_α of the pair, D(P‖Q) for "remove" and D(Q‖P) for "add", for α in (1, 10⁶], and in (1, 10⁴] for replaced records.
    ///
    /// # Errors
    /// A divergence that is too expensive to compute; the message names an alternative.
    fn of_order(&mut self, order: f64, direction: Direction) -> Result<Divergence>;
}

/// A pair with one divergence at all orders: 0 where the group is never in a batch, infinity where nothing is known.
#[derive(Debug)]
pub(super) struct ConstantPair(pub(super) f64);

impl ExactPair for ConstantPair {
    fn of_order(&mut self, _: f64, _: Direction) -> Result<Divergence> {
        Ok(Divergence {
            value: self.0,
            upper: self.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_bound_is_as_far_from_the_value_as_the_upper_one() {
        let found = Divergence {
            value: 1.0,
            upper: 1.25,
        };
        assert_eq!(found.lower(), 0.75);
        assert_eq!(Divergence { value: 0.1, upper: 0.3 }.lower(), 0.0);
        assert_eq!(ConstantPair(0.0).of_order(3.0, Direction::Add), Ok(Divergence::ZERO));
    }
}
