//! Trade-off functions and their algebra.
//!
//! A curve f is kept as the expression it was built by, and asked in one of two ways: for its power 1 − f(α), or for its
//! hockey-stick curve δ(ε) = sup_α 1 − f(α) − e^ε α. Each is the other's conjugate: 1 − f(α) = inf_ε δ(ε) + e^ε α (Dong, Roth and
//! Su 2022, Proposition 6). An operation has a closed form on one of the two sides, and the other side is a minimum of a
//! convex function ([`crate::tradeoff::convex`]). Answers are enclosures: nothing is rounded to the unsafe side, and how far the safe
//! side may be from the exact curve is known.
//!
//! | operation | side | formula |
//! |---|---|---|
//! | C_p(f) = min{f_p, f_p^{-1}}**, f_p = pf + (1 − p)(1 − α) | δ | p·δ(log(1 + (e^ε − 1)/p)) for ε ≥ 0, and its mirror image |
//! | f ⊗ g | δ | the composed privacy curve ([`crate::tradeoff::composed`]) |
//! | k-fold group 1 − (1 − f)^{∘k} | power | k-fold iterate |
//! | min{f, g}** | δ | the larger of both |
//! | max{f, g} | power | the smaller of both |
//! | inverse | | of the leaves; every operation above commutes with it |

use crate::curve::one_step;
use crate::error::{Error, Result, require, require_sample_rate};
use crate::loss::StepLoss;
use crate::step::{Adjacency, Step};
use crate::tradeoff::bracket::Between;
use crate::tradeoff::closed_forms::{delta_of_pair, gaussian_tail, laplace_delta, laplace_power, mirrored};
use crate::tradeoff::composed::{Composed, Law, Mixture};
use crate::tradeoff::convex::Bounds;
use crate::tradeoff::polygon::Polygon;
use crate::tradeoff::split_bounds::SplitBound;
use crate::tradeoff::subsampling::{subsampled, subsampled_delta};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, LazyLock, OnceLock};

/// Largest distance of a Gaussian, and largest loss of a bounded one: e^ε is far from overflow.
const MOST_DISTANCE: f64 = 1e6;
const MOST_LOSS: f64 = 600.0;
/// Largest group of a k-fold iterate that has no closed form.
pub const LARGEST_GROUP: u64 = 10_000;

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
        /// Searches over α so far, and the same of what is known of `of` from points, once there were some.
        searches: AtomicU32,
        quick: OnceLock<TradeoffCurve>,
    },
    /// min{f, g}**.
    Least(TradeoffCurve, TradeoffCurve),
    /// max{f, g}.
    Most(TradeoffCurve, TradeoffCurve),
    /// What is known of a curve from points of it, in place of one whose other side is asked for often.
    Between(Arc<Between>),
}

/// Takes the place of a curve that was moved.
static NOTHING: LazyLock<TradeoffCurve> =
    LazyLock::new(|| TradeoffCurve(Arc::new(Node::Gaussian { distance: 0.0 })));

/// Makes what is otherwise made at its first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    LazyLock::force(&NOTHING);
}

/// One after the other: expressions may be nested more deeply than calls.
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
    /// Moves the curves that this one is made of.
    fn take_parts(&mut self, parts: &mut Vec<TradeoffCurve>) {
        let mut take = |part: &mut TradeoffCurve| parts.push(std::mem::replace(part, NOTHING.clone()));
        match self {
            Self::Subsampled { of, .. } | Self::Group { of, .. } => take(of),
            Self::Least(a, b) | Self::Most(a, b) => {
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
        require((0.0..=MOST_DISTANCE).contains(&distance), "mu", distance, "in [0, 1e6]")?;
        Ok(Self::new(Node::Gaussian { distance }))
    }

    /// Laplace noise of scale 1 around 0 and around μ.
    ///
    /// # Errors
    /// μ out of range.
    pub fn laplace(distance: f64) -> Result<Self> {
        require((0.0..=MOST_LOSS).contains(&distance), "mu", distance, "in [0, 600]")?;
        if distance == 0.0 {
            return Self::gaussian(0.0);
        }
        Ok(Self::new(Node::Laplace { distance }))
    }

    /// f_{ε,δ}(α) = max{0, 1 − δ − e^ε α, e^{−ε}(1 − δ − α)}.
    ///
    /// # Errors
    /// ε outside [0, 600], δ outside [0, 1].
    pub fn epsilon_delta(epsilon: f64, delta: f64) -> Result<Self> {
        require((0.0..=MOST_LOSS).contains(&epsilon), "epsilon", epsilon, "in [0, 600]")?;
        require((0.0..=1.0).contains(&delta), "delta", delta, "in [0, 1]")?;
        Ok(Self::new(Node::EpsilonDelta { epsilon, delta }))
    }

    /// Straight edges, see [`Polygon::of_points`].
    ///
    /// # Errors
    /// As there.
    pub fn points(alpha: &[f64], beta: &[f64]) -> Result<Self> {
        Polygon::of_points(alpha, beta).map(Self::of_polygon)
    }

    pub(crate) fn group_of(size: u64, of: Self) -> Self {
        Self::new(Node::Group {
            size,
            of,
            searches: AtomicU32::new(0),
            quick: OnceLock::new(),
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

    /// Gaussian pairs of which everyone sees which it is (SHUFFLE Definition 5.2).
    ///
    /// # Errors
    /// None for a mixture that makes sense.
    pub fn mixture(mixture: Mixture) -> Result<Self> {
        Self::of_products(vec![vec![(Law::Mixture(Arc::new(mixture)), 1)]])
    }

    fn of_products(products: Vec<Vec<(Law, u64)>>) -> Result<Self> {
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

    /// True if questions go to the exact engine, which answers one at a time.
    pub fn needs_engine(&self) -> bool {
        match &*self.0 {
            Node::Composed(_) => true,
            Node::Subsampled { of, .. } | Node::Group { of, .. } => of.needs_engine(),
            Node::Least(a, b) | Node::Most(a, b) => a.needs_engine() || b.needs_engine(),
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
            Node::Between(between) => between.is_symmetric(),
            Node::Group { of, .. } => of.is_symmetric(),
            Node::Least(a, b) | Node::Most(a, b) => (a.is_symmetric() && b.is_symmetric()) || a.is_inverse_of(b),
        }
    }

    /// True if the expressions are each other's inverses.
    fn is_inverse_of(&self, other: &Self) -> bool {
        if Arc::ptr_eq(&self.0, &other.0) {
            return self.is_symmetric();
        }
        match (&*self.0, &*other.0) {
            (Node::Polygon(a), Node::Polygon(b)) => a.inverted() == **b,
            (Node::Least(a, b), Node::Least(c, d)) | (Node::Most(a, b), Node::Most(c, d)) => {
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

    /// f^{-1}(α) = inf{t : f(t) ≤ α}: what the adversary sees who takes the hypotheses the other way round.
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
            Node::Least(a, b) => Self::new(Node::Least(a.inverse()?, b.inverse()?)),
            Node::Most(a, b) => Self::new(Node::Most(a.inverse()?, b.inverse()?)),
            Node::Between(between) => Self::new(Node::Between(Arc::new(between.inverted()))),
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
        Ok(Self::new(Node::Least(self.clone(), self.inverse()?)))
    }

    /// min{f, g}**, the largest trade-off function below both.
    pub fn minimum(&self, other: &Self) -> Self {
        match (&*self.0, &*other.0) {
            (Node::Gaussian { distance: a }, Node::Gaussian { distance: b }) => {
                if a >= b {
                    self.clone()
                } else {
                    other.clone()
                }
            }
            _ => Self::new(Node::Least(self.clone(), other.clone())),
        }
    }

    /// max{f, g}: what holds if both do.
    pub fn maximum(&self, other: &Self) -> Self {
        match (&*self.0, &*other.0) {
            (Node::Gaussian { distance: a }, Node::Gaussian { distance: b }) => {
                if a <= b {
                    self.clone()
                } else {
                    other.clone()
                }
            }
            _ => Self::new(Node::Most(self.clone(), other.clone())),
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
                rate: first * rate,
                of: of.clone(),
            }),
            Node::EpsilonDelta { epsilon, delta } => Self::of_polygon(subsampled(
                &[(0.0, delta_of_pair(*epsilon, *delta, 0.0).upper), (*epsilon, *delta)],
                rate,
            )),
            Node::Polygon(polygon) if polygon.is_symmetric() => {
                let mut steep = vec![(0.0, polygon.delta(1.0).upper)];
                let above = polygon.edges().iter().filter(|edge| edge.slope > 1.0);
                steep.extend(above.map(|edge| (edge.slope.ln(), edge.delta)));
                Self::of_polygon(subsampled(&steep, rate))
            }
            _ => Self::new(Node::Subsampled { rate, of: self.clone() }),
        })
    }

    /// 1 − (1 − f)^{∘k}: what f for one record implies for a group of k (Dong, Roth and Su 2022, Theorem 6; GROUP Theorem 5).
    ///
    /// # Errors
    /// k = 0, or more than 10,000 for a curve without a closed form.
    pub fn group(&self, size: u64) -> Result<Self> {
        require(size >= 1, "k", size, "at least 1")?;
        let times = size as f64;
        match &*self.0 {
            // Noise that is only shifted: the k-th iterate shifts k times as far.
            Node::Gaussian { distance } => Self::gaussian(times * distance),
            Node::Laplace { distance } => Self::laplace(times * distance),
            _ if size == 1 => Ok(self.clone()),
            Node::Group { size: first, of, .. } => of.group(first.saturating_mul(size)),
            _ => {
                require(size <= LARGEST_GROUP, "k", size, "at most 10000 without closed form")?;
                Ok(Self::group_of(size, self.clone()))
            }
        }
    }

    /// 1 − f(α): what a test finds at false positive rate α.
    ///
    /// # Errors
    /// α outside [0, 1].
    pub fn power(&self, alpha: f64) -> Result<Bounds> {
        require((0.0..=1.0).contains(&alpha), "alpha", alpha, "in [0, 1]")?;
        let found = match &*self.0 {
            Node::Gaussian { distance } => {
                let (lower, error) = gaussian_tail(*distance, alpha, true);
                Bounds::around(lower, error)
            }
            Node::Laplace { distance } => Bounds::around(laplace_power(*distance, alpha), 1e-15),
            Node::EpsilonDelta { epsilon, delta } => {
                let steep = delta + epsilon.exp() * alpha;
                let flat = -(-epsilon).exp_m1() + (-epsilon).exp() * (delta + alpha);
                Bounds::around(steep.min(flat).min(1.0), 1e-15)
            }
            Node::Polygon(polygon) => polygon.power(alpha),
            Node::Split(bound) => bound.power(alpha),
            Node::Between(between) => between.power(alpha),
            Node::Group { size, of, .. } => {
                let (mut lower, mut upper) = (alpha, alpha);
                for _ in 0..*size {
                    let same = lower == upper;
                    let above = of.power(upper)?;
                    lower = if same { above.lower } else { of.power(lower)?.lower };
                    upper = above.upper;
                    lower = lower.clamp(0.0, 1.0);
                    upper = upper.clamp(0.0, 1.0);
                }
                Bounds { lower, upper }
            }
            Node::Most(a, b) => a.power(alpha)?.min(b.power(alpha)?),
            Node::Subsampled { rate, of } if of.fixed_point().is_some() => of.subsampled_power(*rate, alpha)?,
            Node::Composed(_) | Node::Subsampled { .. } | Node::Least(..) => self.power_by_delta(alpha)?,
        };
        // f is at most 1 − α.
        Ok(found.within(alpha, 1.0))
    }

    /// f(α): what a test misses at false positive rate α.
    ///
    /// # Errors
    /// α outside [0, 1].
    pub fn beta(&self, alpha: f64) -> Result<Bounds> {
        if let Node::Gaussian { distance } = &*self.0 {
            require((0.0..=1.0).contains(&alpha), "alpha", alpha, "in [0, 1]")?;
            let (value, error) = gaussian_tail(*distance, alpha, false);
            return Ok(Bounds::around(value, error).within(0.0, 1.0 - alpha));
        }
        let power = self.power(alpha)?;
        Ok(Bounds {
            lower: (1.0 - power.upper) - f64::EPSILON,
            upper: (1.0 - power.lower) + f64::EPSILON,
        }
        .within(0.0, 1.0 - alpha))
    }

    /// δ(ε) = sup_α 1 − f(α) − e^ε α for any real ε: δ of the pair in one order.
    ///
    /// # Errors
    /// ε not finite.
    pub fn delta(&self, epsilon: f64) -> Result<Bounds> {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
        let found = match &*self.0 {
            Node::Gaussian { distance: 0.0 } => Bounds::around(-epsilon.min(0.0).exp_m1(), 1e-15),
            Node::Gaussian { distance } => {
                // Below 0 the closed form would have to be integrated over all that is left of its threshold.
                let found = one_step::delta(&StepLoss::shift(*distance), epsilon.abs());
                let found = Bounds {
                    lower: found.lower(),
                    upper: found.upper(),
                };
                mirrored(epsilon, found)
            }
            Node::Laplace { distance } => Bounds::around(laplace_delta(*distance, epsilon), 1e-15),
            Node::EpsilonDelta { epsilon: bound, delta } => delta_of_pair(*bound, *delta, epsilon),
            Node::Polygon(polygon) => polygon.delta(epsilon.exp()),
            Node::Split(bound) => mirrored(epsilon, bound.delta(epsilon.abs())),
            Node::Composed(composed) => composed.delta(epsilon)?,
            Node::Between(between) => between.delta(epsilon),
            Node::Subsampled { rate, of } => subsampled_delta(of, *rate, epsilon)?,
            Node::Least(a, b) => a.delta(epsilon)?.max(b.delta(epsilon)?),
            Node::Group { .. } | Node::Most(..) => self.delta_by_power(epsilon)?,
        };
        Ok(found.within((-epsilon.exp_m1()).max(0.0) * (1.0 - 4.0 * f64::EPSILON), 1.0))
    }

    /// 1 − f(0): what δ falls to.
    ///
    /// # Errors
    /// As those of the factors of a composition.
    pub fn delta_at_infinity(&self) -> Result<Bounds> {
        Ok(match &*self.0 {
            Node::Gaussian { .. } | Node::Laplace { .. } => Bounds::exactly(0.0),
            Node::EpsilonDelta { delta, .. } => Bounds::exactly(*delta),
            Node::Polygon(polygon) => polygon.power(0.0),
            Node::Split(bound) => Bounds::exactly(if bound.is_upper { 0.0 } else { bound.tail }),
            Node::Composed(composed) => composed.delta_at_infinity(),
            Node::Between(between) => between.power(0.0),
            Node::Subsampled { rate, of } => {
                let found = of.symmetrize()?.delta_at_infinity()?;
                Bounds {
                    lower: rate * found.lower * (1.0 - f64::EPSILON),
                    upper: rate * found.upper * (1.0 + f64::EPSILON),
                }
            }
            Node::Group { .. } => self.power(0.0)?,
            Node::Least(a, b) => a.delta_at_infinity()?.max(b.delta_at_infinity()?),
            Node::Most(a, b) => a.delta_at_infinity()?.min(b.delta_at_infinity()?),
        })
    }

    /// ε with f ≥ f_{ε,0}, infinite if there is none.
    pub fn most_loss(&self) -> f64 {
        match &*self.0 {
            Node::Gaussian { distance: 0.0 } => 0.0,
            Node::Gaussian { .. } | Node::Split(_) => f64::INFINITY,
            Node::Laplace { distance } => *distance,
            Node::EpsilonDelta { epsilon, delta: 0.0 } => *epsilon,
            Node::EpsilonDelta { .. } => f64::INFINITY,
            Node::Polygon(polygon) => Law::Polygon(polygon.clone())
                .limits()
                .map_or(f64::INFINITY, |limits| limits.1),
            Node::Composed(composed) => composed.limits().1,
            Node::Between(between) => between.limits().1,
            Node::Subsampled { rate, of } => (rate * of.most_loss().exp_m1()).ln_1p() * (1.0 + 1e-14),
            Node::Group { size, of, .. } => *size as f64 * of.most_loss(),
            Node::Least(a, b) => a.most_loss().max(b.most_loss()),
            Node::Most(a, b) => a.most_loss().min(b.most_loss()),
        }
    }

    /// Some μ with f ≥ G_μ, infinite if there is none that is known: that of the widest pair behind the curve.
    pub fn widest_distance(&self) -> f64 {
        match &*self.0 {
            Node::Gaussian { distance } => *distance,
            Node::Split(bound) if bound.is_upper || bound.tail == 0.0 => bound.distance,
            Node::Composed(composed) => composed.limits().0,
            Node::Between(between) => between.limits().0,
            Node::Subsampled { of, .. } => of.widest_distance(),
            Node::Group { size, of, .. } => *size as f64 * of.widest_distance(),
            Node::Least(a, b) => a.widest_distance().max(b.widest_distance()),
            Node::Most(a, b) => a.widest_distance().min(b.widest_distance()),
            _ => crate::tradeoff::composed::distance_of_pure(self.most_loss()),
        }
    }
}
