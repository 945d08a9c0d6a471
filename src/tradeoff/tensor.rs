//! Tensor products of curves.
//!
//! A curve with a pair of laws is a factor; any other is replaced by a curve nowhere above it that has one
//! ([`crate::tradeoff::lattice`]).

use crate::error::Result;
use crate::tradeoff::composed::{Composed, Product, Products};
use crate::tradeoff::curve::{Node, TradeoffCurve};
use crate::tradeoff::factor::Factor;
use crate::tradeoff::polygon::Polygon;
use std::sync::Arc;

/// Largest number of times that a factor occurs: whole numbers up to this are exact in an `f64`.
const MAX_COUNT: u64 = 1 << 53;

impl TradeoffCurve {
    /// f ⊗ g.
    ///
    /// # Errors
    /// A factor that the exact engine refuses.
    pub fn compose(&self, other: &Self) -> Result<Self> {
        match (&*self.0, &*other.0) {
            (Node::Gaussian { distance: a }, Node::Gaussian { distance: b }) => Self::gaussian(a.hypot(*b)),
            (Node::Gaussian { distance: 0.0 }, _) => Ok(other.clone()),
            (_, Node::Gaussian { distance: 0.0 }) => Ok(self.clone()),
            _ => {
                if let (Some(a), Some(b)) = (self.as_polygon(), other.as_polygon())
                    && let Some(product) = a.product(&b)
                {
                    return Ok(Self::of_polygon(product));
                }
                let (first, second) = (self.factors()?, other.factors()?);
                let symmetric = self.is_symmetric() && other.is_symmetric();
                // The i-th ordered pairs of both are composed; a single pair is composed with all.
                let count = first.len().max(second.len());
                let mut products = Vec::with_capacity(count);
                for i in 0..count {
                    let (a, b) = (&first[i.min(first.len() - 1)], &second[i.min(second.len() - 1)]);
                    products.push(merged(a, b));
                }
                Ok(Self::new(Node::Composed(Box::new(Composed::new(products, symmetric)?))))
            }
        }
    }

    /// f ⊗ … ⊗ f, n times; the curve of no information for n = 0.
    ///
    /// # Errors
    /// As [`TradeoffCurve::compose`].
    pub fn repeat(&self, times: u64) -> Result<Self> {
        match &*self.0 {
            _ if times == 1 => Ok(self.clone()),
            _ if times == 0 => Self::gaussian(0.0),
            Node::Gaussian { distance } => Self::gaussian(distance * (times as f64).sqrt()),
            _ => {
                if let Some(product) = self.as_polygon().and_then(|polygon| polygon.power_of(times)) {
                    return Ok(Self::of_polygon(product));
                }
                let mut products = self.factors()?;
                for (_, count) in products.iter_mut().flatten() {
                    *count = count.saturating_mul(times).min(MAX_COUNT);
                }
                Ok(Self::new(Node::Composed(Box::new(Composed::new(
                    products,
                    self.is_symmetric(),
                )?))))
            }
        }
    }

    /// The curve as a polygon, if it is one.
    fn as_polygon(&self) -> Option<Polygon> {
        match &*self.0 {
            Node::EpsilonDelta { epsilon, delta } => Some(Polygon::of_epsilon_delta(*epsilon, *delta)),
            Node::Polygon(polygon) => Some((**polygon).clone()),
            _ => None,
        }
    }

    /// The factors of a tensor product.
    fn factors(&self) -> Result<Products> {
        let factor = match &*self.0 {
            Node::Composed(composed) => return Ok(composed.products().clone()),
            Node::Gaussian { distance } => Factor::Gaussian { distance: *distance },
            Node::Laplace { distance } => Factor::Laplace { distance: *distance },
            Node::EpsilonDelta { epsilon, delta } => Factor::EpsilonDelta {
                epsilon: *epsilon,
                delta: *delta,
            },
            Node::Polygon(polygon) => Factor::Polygon(polygon.clone()),
            Node::Subsampled { rate, of } => match &*of.0 {
                Node::Gaussian { distance } => Factor::SubsampledGaussian {
                    rate: *rate,
                    distance: *distance,
                },
                Node::Laplace { distance } => Factor::SubsampledLaplace {
                    rate: *rate,
                    distance: *distance,
                },
                _ => Factor::Envelope(Arc::new(self.envelope()?)),
            },
            _ => Factor::Envelope(Arc::new(self.envelope()?)),
        };
        Ok(vec![vec![(factor, 1)]])
    }
}

/// Both lists of factors as one, equal factors counted once.
fn merged(first: &[(Factor, u64)], second: &[(Factor, u64)]) -> Product {
    let mut all = first.to_vec();
    for (factor, count) in second {
        match all.iter_mut().find(|known| known.0 == *factor) {
            Some(known) => known.1 = known.1.saturating_add(*count).min(MAX_COUNT),
            None => all.push((factor.clone(), *count)),
        }
    }
    all
}
