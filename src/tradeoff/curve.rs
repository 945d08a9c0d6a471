//! Trade-off functions and their algebra.
//!
//! A curve f is the expression it was built by, and is evaluated on one of two sides ([`crate::tradeoff::evaluation`]): its power
//! 1 − f(α), or its hockey-stick curve δ(ε) = sup_α 1 − f(α) − e^ε α. Each is the other's conjugate: 1 − f(α) = inf_ε δ(ε) + e^ε α
//! (Dong, Roth and Su 2022, Proposition 6). An operation has a closed form on one of the two sides, and the other side is a minimum
//! of a convex function ([`crate::tradeoff::convex`]). All values are certified intervals.
//!
//! | operation | side | formula |
//! |---|---|---|
//! | C_p(f) = min{f_p, f_p^{-1}}**, f_p = pf + (1 − p)(1 − α) | δ | p·δ(log(1 + (e^ε − 1)/p)) for ε ≥ 0, and its mirror image |
//! | f ⊗ g | δ | the composed privacy curve ([`crate::tradeoff::composed`]) |
//! | k-fold group 1 − (1 − f)^{∘k} | power | k-fold iterate |
//! | min{f, g}** | δ | the larger of both |
//! | max{f, g} | power | the smaller of both |
//! | inverse | | of the leaves; every operation above commutes with it |

use crate::error::{Error, Result, require, require_sample_rate};
use crate::interval::Interval;
use crate::step::{Adjacency, Step};
use crate::tradeoff::closed_forms::{delta_of_pair, product};
use crate::tradeoff::composed::{Composed, Products};
use crate::tradeoff::envelope::Envelope;
use crate::tradeoff::factor::{Factor, PublicMixture};
use crate::tradeoff::polygon::Polygon;
use crate::tradeoff::split_bounds::SplitBound;
use crate::tradeoff::subsampling::subsampled_polygon;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock, OnceLock};

/// Largest μ of a Gaussian curve: μ² and the quantiles it is added to keep nine digits.
const MAX_DISTANCE: f64 = 1e6;
/// Largest loss of a curve of bounded loss: e^ε is far from overflow, at 709.
const MAX_LOSS: f64 = 600.0;
/// Largest group of an iterate without a closed form: each record costs one evaluation of the power.
pub const MAX_GROUP: u64 = 10_000;
/// Whole numbers above this may be rounded to an `f64`.
const LARGEST_EXACT: u64 = 1 << 53;

/// A trade-off function; cheap to clone, never changed.
#[derive(Debug, Clone)]
pub struct TradeoffCurve(pub(crate) Arc<Node>);

#[derive(Debug)]
pub(crate) enum Node {
    /// G_μ.
    Gaussian {
        distance: f64,
    },
    /// T(Lap(0, 1), Lap(μ, 1)).
    Laplace {
        distance: f64,
        /// Lower bound on μ, which is below `distance` where that is a rounded product.
        nearest: f64,
    },
    /// f_{ε,δ}.
    EpsilonDelta {
        epsilon: f64,
        delta: f64,
    },
    Polygon(Arc<Polygon>),
    /// f^U or f^L of SHUFFLE.
    Split(SplitBound),
    Composed(Box<Composed>),
    /// C_p; no curve whose subsampled form has a node of its own.
    Subsampled {
        rate: f64,
        of: TradeoffCurve,
    },
    Group {
        size: u64,
        of: TradeoffCurve,
        /// Number of searches over α so far.
        searches: AtomicU32,
        /// The group of the bounds on `of`, computed after the first few searches.
        enveloped: OnceLock<TradeoffCurve>,
    },
    /// min{f, g}**.
    Minimum(TradeoffCurve, TradeoffCurve),
    /// max{f, g}.
    Maximum(TradeoffCurve, TradeoffCurve),
    /// Bounds on a curve, in place of one whose other side is needed often.
    Envelope(Arc<Envelope>),
}

/// Stands in for a curve that was taken out of its expression.
static PLACEHOLDER: LazyLock<TradeoffCurve> =
    LazyLock::new(|| TradeoffCurve(Arc::new(Node::Gaussian { distance: 0.0 })));

/// Initialises what is otherwise initialised at its first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    LazyLock::force(&PLACEHOLDER);
}

/// Drops subexpressions one after the other, as expressions may be nested more deeply than the stack allows calls.
impl Drop for Node {
    fn drop(&mut self) {
        let mut open = Vec::new();
        self.take_parts(&mut open);
        while let Some(TradeoffCurve(node)) = open.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                node.take_parts(&mut open);
            }
        }
    }
}

impl Node {
    /// Moves the subexpressions to `parts`.
    fn take_parts(&mut self, parts: &mut Vec<TradeoffCurve>) {
        let mut take = |part: &mut TradeoffCurve| parts.push(std::mem::replace(part, PLACEHOLDER.clone()));
        match self {
            Self::Subsampled { of, .. } | Self::Group { of, .. } => take(of),
            Self::Minimum(a, b) | Self::Maximum(a, b) => {
                take(a);
                take(b);
            }
            _ => {}
        }
    }
}

impl TradeoffCurve {
    pub(crate) fn new(node: Node) -> Self {
        Self(Arc::new(node))
    }

    /// G_μ: N(0, 1) against N(μ, 1) (SHUFFLE §4).
    ///
    /// # Errors
    /// μ out of range.
    ///
    /// # Example
    /// ```
    /// use hockeystick::tradeoff::TradeoffCurve;
    /// let curve = TradeoffCurve::gaussian(1.0)?;
    /// assert!((curve.beta(0.1)?.lower - 0.610_856_308).abs() < 1e-9);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn gaussian(distance: f64) -> Result<Self> {
        require((0.0..=MAX_DISTANCE).contains(&distance), "mu", distance, "in [0, 1e6]")?;
        Ok(Self::new(Node::Gaussian { distance }))
    }

    /// Laplace noise of scale 1 around 0 and around μ.
    ///
    /// # Errors
    /// μ out of range.
    pub fn laplace(distance: f64) -> Result<Self> {
        Self::laplace_within(Interval::exact(distance))
    }

    /// [`TradeoffCurve::laplace`] for a μ that is known up to its rounding.
    ///
    /// # Errors
    /// μ out of range.
    fn laplace_within(distance: Interval) -> Result<Self> {
        let Interval { lower, upper } = distance;
        require((0.0..=MAX_LOSS).contains(&upper), "mu", upper, "in [0, 600]")?;
        if upper == 0.0 {
            return Self::gaussian(0.0);
        }
        Ok(Self::new(Node::Laplace {
            distance: upper,
            nearest: lower,
        }))
    }

    /// f_{ε,δ}(α) = max{0, 1 − δ − e^ε α, e^{−ε}(1 − δ − α)}.
    ///
    /// # Errors
    /// ε outside [0, 600], δ outside [0, 1].
    pub fn epsilon_delta(epsilon: f64, delta: f64) -> Result<Self> {
        require((0.0..=MAX_LOSS).contains(&epsilon), "epsilon", epsilon, "in [0, 600]")?;
        require((0.0..=1.0).contains(&delta), "delta", delta, "in [0, 1]")?;
        Ok(Self::new(Node::EpsilonDelta { epsilon, delta }))
    }

    /// The largest trade-off function below the points (α_i, β_i): α ascends from 0 to 1, β falls to 0, β ≤ 1 − α.
    ///
    /// # Errors
    /// Points that violate this.
    pub fn points(alpha: &[f64], beta: &[f64]) -> Result<Self> {
        Polygon::of_points(alpha, beta).map(Self::of_polygon)
    }

    pub(crate) fn group_of(size: u64, of: Self) -> Self {
        Self::new(Node::Group {
            size,
            of,
            searches: AtomicU32::new(0),
            enveloped: OnceLock::new(),
        })
    }

    pub(crate) fn of_polygon(polygon: Polygon) -> Self {
        Self::new(Node::Polygon(Arc::new(polygon)))
    }

    /// A composition of steps of the exact engine; the worst of both orders of each pair.
    ///
    /// # Errors
    /// As [`Step::outcome`].
    pub fn of_steps(steps: &[(Step, u64)], adjacency: Adjacency) -> Result<Self> {
        Composed::of_steps(steps, adjacency).map(|composed| Self::new(Node::Composed(Box::new(composed))))
    }

    /// A mixture of Gaussian pairs of which the adversary sees the component (SHUFFLE Definition 5.2).
    ///
    /// # Errors
    /// None for probabilities that sum to at most 1 and distances that are at least 0.
    pub fn mixture(mixture: PublicMixture) -> Result<Self> {
        Self::of_products(vec![vec![(Factor::Mixture(Arc::new(mixture)), 1)]])
    }

    fn of_products(products: Products) -> Result<Self> {
        Ok(Self::new(Node::Composed(Box::new(Composed::new(products, false)?))))
    }

    /// f^U or f^L of a split (SHUFFLE Definitions 5.3 and 5.4).
    ///
    /// # Errors
    /// A tail outside [0, 1], a distance that is not positive and finite.
    pub fn split(bound: SplitBound) -> Result<Self> {
        require((0.0..=1.0).contains(&bound.tail), "tail", bound.tail, "in [0, 1]")?;
        require(
            bound.distance > 0.0 && bound.distance.is_finite(),
            "distance",
            bound.distance,
            "in (0, inf)",
        )?;
        Ok(Self::new(Node::Split(bound)))
    }

    /// True if values come from the exact engine, which computes one at a time.
    pub fn needs_engine(&self) -> bool {
        match &*self.0 {
            Node::Composed(_) => true,
            Node::Subsampled { of, .. } | Node::Group { of, .. } => of.needs_engine(),
            Node::Minimum(a, b) | Node::Maximum(a, b) => a.needs_engine() || b.needs_engine(),
            _ => false,
        }
    }

    /// True if f is certainly its own inverse.
    pub fn is_symmetric(&self) -> bool {
        match &*self.0 {
            Node::Gaussian { .. }
            | Node::Laplace { .. }
            | Node::EpsilonDelta { .. }
            | Node::Split(_)
            | Node::Subsampled { .. } => true,
            Node::Polygon(polygon) => polygon.is_symmetric(),
            Node::Composed(composed) => composed.is_symmetric(),
            Node::Envelope(envelope) => envelope.is_symmetric(),
            Node::Group { of, .. } => of.is_symmetric(),
            Node::Minimum(a, b) | Node::Maximum(a, b) => {
                (a.is_symmetric() && b.is_symmetric()) || a.is_inverse_of(b)
            }
        }
    }

    /// True if the expressions are each other's inverses.
    fn is_inverse_of(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return self.is_symmetric();
        }
        match (&*self.0, &*other.0) {
            (Node::Polygon(a), Node::Polygon(b)) => a.inverted() == **b,
            (Node::Minimum(a, b), Node::Minimum(c, d)) | (Node::Maximum(a, b), Node::Maximum(c, d)) => {
                a.is_inverse_of(c) && b.is_inverse_of(d)
            }
            (Node::Group { size: k, of: a, .. }, Node::Group { size: l, of: b, .. }) => {
                k == l && a.is_inverse_of(b)
            }
            (Node::Composed(a), Node::Composed(b)) => {
                a.inverted().is_ok_and(|inverse| inverse.products() == b.products())
            }
            _ => false,
        }
    }

    /// f^{-1}(α) = inf{t : f(t) ≤ α}, the trade-off function of the hypotheses in exchanged order.
    ///
    /// # Errors
    /// As those of the factors of a composition.
    pub fn inverse(&self) -> Result<Self> {
        if self.is_symmetric() {
            return Ok(self.clone());
        }
        Ok(match &*self.0 {
            Node::Polygon(polygon) => Self::of_polygon(polygon.inverted()),
            Node::Composed(composed) => Self::new(Node::Composed(Box::new(composed.inverted()?))),
            // F = 1 − f has the inverse 1 − G(1 − α) with G = 1 − f^{-1}; iterate both.
            Node::Group { size, of, .. } => Self::group_of(*size, of.inverse()?),
            Node::Minimum(a, b) => Self::new(Node::Minimum(a.inverse()?, b.inverse()?)),
            Node::Maximum(a, b) => Self::new(Node::Maximum(a.inverse()?, b.inverse()?)),
            Node::Envelope(envelope) => Self::new(Node::Envelope(Arc::new(envelope.inverted()))),
            _ => self.clone(),
        })
    }

    /// min{f, f^{-1}}**.
    ///
    /// # Errors
    /// As [`TradeoffCurve::inverse`].
    pub fn symmetrize(&self) -> Result<Self> {
        if self.is_symmetric() {
            return Ok(self.clone());
        }
        Ok(Self::new(Node::Minimum(self.clone(), self.inverse()?)))
    }

    /// min{f, g}**, the largest trade-off function below both.
    pub fn minimum(&self, other: &Self) -> Self {
        match (&*self.0, &*other.0) {
            (Node::Gaussian { distance: a }, Node::Gaussian { distance: b }) => {
                (if a >= b { self } else { other }).clone()
            }
            _ => Self::new(Node::Minimum(self.clone(), other.clone())),
        }
    }

    /// max{f, g}, which holds if both do.
    pub fn maximum(&self, other: &Self) -> Self {
        match (&*self.0, &*other.0) {
            (Node::Gaussian { distance: a }, Node::Gaussian { distance: b }) => {
                (if a <= b { self } else { other }).clone()
            }
            _ => Self::new(Node::Maximum(self.clone(), other.clone())),
        }
    }

    /// C_p(f) = min{f_p, f_p^{-1}}** with f_p(α) = pf(α) + (1 − p)(1 − α): one step of a mechanism that runs on a random
    /// part of the data, with records replaced (Dong, Roth and Su 2022, Theorem 9; SHUFFLE Appendix A).
    ///
    /// # Errors
    /// p outside [0, 1].
    pub fn subsample(&self, rate: f64) -> Result<Self> {
        require_sample_rate(rate).map_err(|_| Error::out_of_range("p", rate, "in [0, 1]"))?;
        if rate == 0.0 {
            return Self::gaussian(0.0);
        }
        if rate == 1.0 {
            return self.symmetrize();
        }
        Ok(match &*self.0 {
            Node::Gaussian { distance: 0.0 } => self.clone(),
            Node::Subsampled { rate: first, of } => Self::new(Node::Subsampled {
                // Rounded up: values of a subsampled curve allow for some units in the last place of its rate.
                rate: product(*first, rate).upper.min(1.0),
                of: of.clone(),
            }),
            Node::EpsilonDelta { epsilon, delta } => Self::of_polygon(subsampled_polygon(
                &[(0.0, delta_of_pair(*epsilon, *delta, 0.0).upper), (*epsilon, *delta)],
                rate,
            )),
            Node::Polygon(polygon) if polygon.is_symmetric() => {
                let mut steep = vec![(0.0, polygon.delta(1.0).upper)];
                let above = polygon.edges().iter().filter(|edge| edge.slope > 1.0);
                steep.extend(above.map(|edge| (edge.slope.ln(), edge.delta)));
                Self::of_polygon(subsampled_polygon(&steep, rate))
            }
            _ => Self::new(Node::Subsampled { rate, of: self.clone() }),
        })
    }

    /// 1 − (1 − f)^{∘k}, the trade-off function for a group of k records that f for one record implies (Dong, Roth and Su 2022, Theorem 6; GROUP Theorem 5).
    ///
    /// # Errors
    /// k = 0, or more than 10,000 for a curve without a closed form.
    pub fn group(&self, size: u64) -> Result<Self> {
        require(size >= 1, "k", size, "at least 1")?;
        let times = size as f64;
        let (fewest, most) = if size > LARGEST_EXACT {
            (times.next_down(), times.next_up())
        } else {
            (times, times)
        };
        match &*self.0 {
            // Noise that is shifted by μ: the k-th iterate shifts it by kμ, rounded up. Values of a Gaussian curve allow for some units
            // in the last place of its distance.
            _ if size == 1 => Ok(self.clone()),
            Node::Gaussian { distance } => Self::gaussian(product(most, *distance).upper),
            Node::Laplace { distance, nearest } => Self::laplace_within(Interval {
                lower: product(fewest, *nearest).lower,
                upper: product(most, *distance).upper,
            }),
            Node::Group { size: first, of, .. } => of.group(first.saturating_mul(size)),
            _ => {
                require(size <= MAX_GROUP, "k", size, "at most 10000 without closed form")?;
                Ok(Self::group_of(size, self.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_expressions_are_dropped_without_recursion() {
        let corners = TradeoffCurve::points(&[0.0, 0.1, 1.0], &[0.9, 0.5, 0.0]).unwrap();
        let mut curve = corners.clone();
        for _ in 0..200_000 {
            curve = curve.minimum(&corners);
        }
        drop(curve);
    }

    #[test]
    fn symmetry_is_seen_through_operations() {
        let corners = TradeoffCurve::points(&[0.0, 0.1, 0.4, 1.0], &[0.9, 0.5, 0.1, 0.0]).unwrap();
        assert!(!corners.is_symmetric() && !corners.group(2).unwrap().is_symmetric());
        let both = corners.symmetrize().unwrap();
        assert!(both.is_symmetric() && both.group(2).unwrap().is_symmetric());
        assert!(corners.maximum(&corners.inverse().unwrap()).is_symmetric());
        assert!(corners.subsample(0.1).unwrap().is_symmetric());
    }

    #[test]
    fn closed_forms_of_operations_are_used() {
        let gaussian = TradeoffCurve::gaussian(0.5).unwrap();
        let is_gaussian = |curve: &TradeoffCurve, mu: f64| matches!(&*curve.0, Node::Gaussian { distance } if (distance - mu).abs() < 1e-15);
        assert!(is_gaussian(&gaussian.group(4).unwrap(), 2.0));
        assert!(is_gaussian(&gaussian.repeat(4).unwrap(), 1.0));
        assert!(is_gaussian(
            &gaussian.minimum(&TradeoffCurve::gaussian(0.7).unwrap()),
            0.7
        ));
        assert!(is_gaussian(
            &gaussian.maximum(&TradeoffCurve::gaussian(0.7).unwrap()),
            0.5
        ));
        assert!(is_gaussian(&gaussian.subsample(0.0).unwrap(), 0.0));
        assert!(is_gaussian(&gaussian.subsample(1.0).unwrap(), 0.5));
    }

    /// δ of Laplace noise next to its largest loss, 1 − e^{(ε − kμ)/2}, with mpmath at 40 digits.
    #[test]
    fn rounded_distances_of_groups_are_enclosed() {
        let one = TradeoffCurve::laplace(1.860_019_198_890_123_1).unwrap();
        let group = one.group(3).unwrap();
        let (found, exact) = (group.delta(5.580_057_596_670_364).unwrap(), 2.775_557_561_562_887_4e-15);
        assert!(found.lower <= exact && exact <= found.upper, "{found:?}");
        // Exact products are no wider than what they are made of.
        let exact = TradeoffCurve::laplace(1.5).unwrap().group(3).unwrap();
        assert_eq!(exact.max_loss(), 4.5);
        assert_eq!(exact.delta(4.5).unwrap(), Interval::exact(0.0));
        let twice = one.subsample(0.3).unwrap().subsample(0.7).unwrap();
        assert!(
            matches!(&*twice.0, Node::Subsampled { rate, .. } if *rate >= 0.3 * 0.7 && *rate <= 0.21 * (1.0 + 4e-16))
        );
    }

    #[test]
    fn arguments_out_of_range_are_refused_by_name() {
        let response = TradeoffCurve::epsilon_delta(1.0, 0.1).unwrap();
        for (found, name) in [
            (TradeoffCurve::gaussian(-1.0), "mu"),
            (TradeoffCurve::gaussian(2.0 * MAX_DISTANCE), "mu"),
            (TradeoffCurve::laplace(2.0 * MAX_LOSS), "mu"),
            (TradeoffCurve::epsilon_delta(-1.0, 0.1), "epsilon"),
            (TradeoffCurve::epsilon_delta(1.0, 1.1), "delta"),
            (response.subsample(1.5), "p"),
            (response.group(0), "k"),
            (response.group(MAX_GROUP + 1), "k"),
        ] {
            assert!(found.unwrap_err().to_string().starts_with(name));
        }
    }
}
