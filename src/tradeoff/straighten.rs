//! What is known of any curve from points of it: how a curve without a pair of laws becomes a factor.

use super::between::{Between, Branch};
use super::curve::{Node, TradeoffCurve};
use crate::error::Result;
use std::sync::Arc;

impl TradeoffCurve {
    /// The curve between two with straight edges.
    ///
    /// # Errors
    /// As those of the curve.
    pub(super) fn between(&self) -> Result<Between> {
        let quick = self.quick()?;
        let inverse = quick.inverse()?;
        let limits = |curve: &Self| -> Result<(f64, f64, f64)> {
            Ok((
                curve.widest_distance(),
                curve.most_loss(),
                curve.delta_at_infinity()?.upper,
            ))
        };
        let limits = [limits(self)?, limits(&self.inverse()?)?];
        if let Node::Between(between) = &*quick.0 {
            return Ok((**between).clone());
        }
        let forward = quick.branch(&inverse)?;
        let backward = if quick.is_symmetric() {
            None
        } else {
            Some(inverse.branch(&quick)?)
        };
        Ok(Between::new(forward, backward, limits))
    }

    /// δ for ε ≥ 0, from the side that is at hand.
    fn branch(&self, inverse: &Self) -> Result<Branch> {
        let at_infinity = self.delta_at_infinity()?;
        let parallel = !self.needs_engine();
        if self.is_known_by_power() {
            return Branch::of_powers(&|alpha| self.power(alpha), at_infinity, self.is_symmetric(), parallel);
        }
        Branch::of_deltas(
            &|epsilon| self.delta(epsilon),
            &|epsilon| inverse.delta(epsilon),
            at_infinity,
            parallel,
        )
    }

    /// True if δ is found by a search over α.
    fn is_known_by_power(&self) -> bool {
        matches!(&*self.0, Node::Group { .. } | Node::Most(..))
    }

    /// True if the power is found by a search over ε.
    fn is_known_by_delta(&self) -> bool {
        match &*self.0 {
            Node::Composed(_) | Node::Least(..) => true,
            Node::Subsampled { of, .. } => of.fixed_point().is_none(),
            _ => false,
        }
    }

    /// The same curve with parts that are asked for the side that they have at hand.
    fn quick(&self) -> Result<Self> {
        let node = match &*self.0 {
            Node::Group { size, of } => Node::Group {
                size: *size,
                of: of.with_power()?,
            },
            Node::Most(a, b) => Node::Most(a.with_power()?, b.with_power()?),
            Node::Least(a, b) => Node::Least(a.with_delta()?, b.with_delta()?),
            Node::Subsampled { rate, of } => Node::Subsampled {
                rate: *rate,
                of: of.with_delta()?,
            },
            _ => return Ok(self.clone()),
        };
        Ok(Self::new(node))
    }

    fn with_power(&self) -> Result<Self> {
        if self.is_known_by_delta() {
            return Ok(Self::new(Node::Between(Arc::new(self.between()?))));
        }
        self.quick()
    }

    fn with_delta(&self) -> Result<Self> {
        if self.is_known_by_power() {
            return Ok(Self::new(Node::Between(Arc::new(self.between()?))));
        }
        self.quick()
    }
}
