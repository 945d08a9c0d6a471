//! Piecewise linear bounds on any curve, by which a curve without a pair of laws becomes a factor of a tensor product.

use crate::error::Result;
use crate::tradeoff::branch::Branch;
use crate::tradeoff::curve::{Node, TradeoffCurve};
use crate::tradeoff::envelope::Envelope;
use crate::tradeoff::limits::Limits;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Searches over α of a group before bounds on its curve are computed, which cost as much as a few dozen searches.
const DIRECT_SEARCHES: u32 = 8;

impl TradeoffCurve {
    /// Piecewise linear bounds on the curve and on its inverse.
    ///
    /// # Errors
    /// As those of the curve.
    pub(crate) fn envelope(&self) -> Result<Envelope> {
        let prepared = self.prepared()?;
        let inverse = prepared.inverse()?;
        let limits = |curve: &Self| -> Result<Limits> {
            Ok(Limits {
                distance: curve.widest_distance(),
                epsilon: curve.max_loss(),
                singular: curve.delta_at_infinity()?.upper,
            })
        };
        let limits = [limits(self)?, limits(&self.inverse()?)?];
        if let Node::Envelope(envelope) = &*prepared.0 {
            return Ok((**envelope).clone());
        }
        let forward = prepared.branch(&inverse)?;
        let backward = if prepared.is_symmetric() {
            None
        } else {
            Some(inverse.branch(&prepared)?)
        };
        Ok(Envelope::new(forward, backward, limits))
    }

    /// Bounds on δ for ε ≥ 0, from values of the side that has a closed form.
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
        matches!(&*self.0, Node::Group { .. } | Node::Maximum(..))
    }

    /// True if the power is found by a search over ε.
    fn is_known_by_delta(&self) -> bool {
        match &*self.0 {
            Node::Composed(_) | Node::Minimum(..) => true,
            Node::Subsampled { of, .. } => of.fixed_point().is_none(),
            _ => false,
        }
    }

    /// This curve with bounds in place of those parts whose needed side is expensive: the power in groups and maxima, δ in minima and
    /// under subsampling.
    fn prepared(&self) -> Result<Self> {
        let node = match &*self.0 {
            Node::Group { size, of, .. } => return Ok(Self::group_of(*size, of.with_power()?)),
            Node::Maximum(a, b) => Node::Maximum(a.with_power()?, b.with_power()?),
            Node::Minimum(a, b) => Node::Minimum(a.with_delta()?, b.with_delta()?),
            Node::Subsampled { rate, of } => Node::Subsampled {
                rate: *rate,
                of: of.with_delta()?,
            },
            _ => return Ok(self.clone()),
        };
        Ok(Self::new(node))
    }

    /// A group whose curve is replaced by bounds, for searches over α, each of which evaluates the power of the curve a hundred times.
    /// `None` for other curves, and for the first few searches.
    ///
    /// # Errors
    /// As those of the curve.
    pub(crate) fn enveloped_group(&self) -> Result<Option<&Self>> {
        let Node::Group {
            size,
            of,
            searches,
            enveloped,
        } = &*self.0
        else {
            return Ok(None);
        };
        let pays_off = of.is_known_by_delta() && of.needs_engine() && !of.is_expensive();
        if !pays_off || searches.fetch_add(1, Ordering::Relaxed) < DIRECT_SEARCHES {
            return Ok(None);
        }
        if let Some(group) = enveloped.get() {
            searches.store(DIRECT_SEARCHES, Ordering::Relaxed);
            return Ok(Some(group));
        }
        let group = Self::group_of(*size, of.with_power()?);
        Ok(Some(enveloped.get_or_init(|| group)))
    }

    /// True if thousands of values take long: for compositions of a few steps whose losses are not smooth.
    fn is_expensive(&self) -> bool {
        match &*self.0 {
            Node::Composed(composed) => composed.is_expensive(),
            Node::Subsampled { of, .. } | Node::Group { of, .. } => of.is_expensive(),
            Node::Minimum(a, b) | Node::Maximum(a, b) => a.is_expensive() || b.is_expensive(),
            _ => false,
        }
    }

    /// This curve, or its bounds if its power is found by a search.
    fn with_power(&self) -> Result<Self> {
        if self.is_known_by_delta() {
            return Ok(Self::new(Node::Envelope(Arc::new(self.envelope()?))));
        }
        self.prepared()
    }

    /// This curve, or its bounds if its δ is found by a search.
    fn with_delta(&self) -> Result<Self> {
        if self.is_known_by_power() {
            return Ok(Self::new(Node::Envelope(Arc::new(self.envelope()?))));
        }
        self.prepared()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;

    fn assert_compatible(found: Interval, exact: Interval, named: &str) {
        assert!(
            found.lower <= exact.upper && exact.lower <= found.upper,
            "{named} {found:?} {exact:?}"
        );
    }

    /// Bounds on curves that are known by one side, against values of that side and searches for the other.
    #[test]
    fn bounds_on_expressions_hold_their_values() {
        let laplace = TradeoffCurve::laplace(1.2).unwrap();
        let corners = TradeoffCurve::points(&[0.0, 0.1, 0.4, 1.0], &[0.9, 0.5, 0.1, 0.0]).unwrap();
        let gaussian = TradeoffCurve::gaussian(1.0).unwrap();
        for curve in [
            corners.group(3).unwrap(),
            laplace.maximum(&gaussian),
            corners.minimum(&laplace),
            gaussian.subsample(0.2).unwrap().group(4).unwrap(),
        ] {
            let envelope = curve.envelope().unwrap();
            for i in 0..40 {
                let epsilon = f64::from(i - 10) * 0.1;
                assert_compatible(envelope.delta(epsilon), curve.delta(epsilon).unwrap(), "delta");
                let alpha = f64::from(i) / 39.0;
                assert_compatible(envelope.power(alpha), curve.power(alpha).unwrap(), "power");
                let inverse = envelope.inverted().power(alpha);
                assert_compatible(inverse, curve.inverse().unwrap().power(alpha).unwrap(), "inverse");
            }
            assert!(envelope.limits().singular >= curve.delta_at_infinity().unwrap().lower);
        }
    }

    #[test]
    fn the_first_searches_of_a_group_use_the_curve_itself() {
        let composed = TradeoffCurve::laplace(0.4)
            .unwrap()
            .compose(&TradeoffCurve::gaussian(0.5).unwrap())
            .unwrap();
        let group = composed.group(2).unwrap();
        for _ in 0..DIRECT_SEARCHES {
            assert!(group.enveloped_group().unwrap().is_none());
        }
        assert!(composed.enveloped_group().unwrap().is_none());
    }
}
