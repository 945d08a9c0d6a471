//! What is known of any curve from points of it: how a curve without a pair of laws becomes a factor.

use crate::error::Result;
use crate::tradeoff::bracket::{Between, Branch};
use crate::tradeoff::curve::{Node, TradeoffCurve};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Searches over α of a group before points of the curve are looked for.
const DIRECT_SEARCHES: u32 = 8;

impl TradeoffCurve {
    /// The curve between two with straight edges.
    ///
    /// # Errors
    /// As those of the curve.
    pub(crate) fn between(&self) -> Result<Between> {
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

    /// This curve with its parts in the form that is cheap here: power functions in groups and maxima, hockey-stick curves in minima
    /// and under subsampling.
    fn quick(&self) -> Result<Self> {
        let node = match &*self.0 {
            Node::Group { size, of, .. } => return Ok(Self::group_of(*size, of.with_power()?)),
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

    /// A group of what is known of a composed curve from points, for searches over α, each of which would ask for the power of the
    /// composed curve a hundred times; `None` for other curves and for the first few searches. Points are looked for once.
    ///
    /// # Errors
    /// As those of the curve.
    pub(crate) fn quick_group(&self) -> Result<Option<&Self>> {
        let Node::Group {
            size,
            of,
            searches,
            quick,
        } = &*self.0
        else {
            return Ok(None);
        };
        let is_worth_it = of.is_known_by_delta() && of.needs_engine() && !of.is_dear();
        if !is_worth_it || searches.fetch_add(1, Ordering::Relaxed) < DIRECT_SEARCHES {
            return Ok(None);
        }
        if let Some(known) = quick.get() {
            searches.store(DIRECT_SEARCHES, Ordering::Relaxed);
            return Ok(Some(known));
        }
        let made = Self::group_of(*size, of.with_power()?);
        Ok(Some(quick.get_or_init(|| made)))
    }

    /// True if thousands of points would take long: compositions of a few steps that the engine has no short way for.
    fn is_dear(&self) -> bool {
        match &*self.0 {
            Node::Composed(composed) => composed.is_dear(),
            Node::Subsampled { of, .. } | Node::Group { of, .. } => of.is_dear(),
            Node::Least(a, b) | Node::Most(a, b) => a.is_dear() || b.is_dear(),
            _ => false,
        }
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
