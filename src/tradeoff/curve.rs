//! Trade-off functions and their algebra.
//!
//! A curve f is kept as the expression it was built by, and asked in one of two ways: for its power 1 − f(α), or for its
//! hockey-stick curve δ(ε) = sup_α 1 − f(α) − e^ε α. Each is the other's conjugate: 1 − f(α) = inf_ε δ(ε) + e^ε α (Dong, Roth and
//! Su 2022, Proposition 6). An operation has a closed form on one of the two sides, and the other side is a minimum of a
//! convex function ([`super::convex`]). Answers are enclosures: nothing is rounded to the unsafe side, and how far the safe
//! side may be from the exact curve is known.
//!
//! | operation | side | formula |
//! |---|---|---|
//! | C_p(f) = min{f_p, f_p^{-1}}**, f_p = pf + (1 − p)(1 − α) | δ | p·δ(log(1 + (e^ε − 1)/p)) for ε ≥ 0, and its mirror image |
//! | f ⊗ g | δ | the composed privacy curve ([`super::composed`]) |
//! | k-fold group 1 − (1 − f)^{∘k} | power | k-fold iterate |
//! | min{f, g}** | δ | the larger of both |
//! | max{f, g} | power | the smaller of both |
//! | inverse | | of the leaves; every operation above commutes with it |

use super::composed::{Composed, Law, Mixture};
use super::convex::{Bounds, minimum};
use super::polygon::{Edge, Polygon};
use super::split_bounds::SplitBound;
use crate::error::{Error, Result, require, require_sample_rate};
use crate::hockey_stick::one_step;
use crate::pair::StepLoss;
use crate::pair::scheme::{Neighbours, Scheme};
use crate::special::log_space::log1p_exp;
use crate::special::normal::{log_upper_tail, quantile};
use crate::special::root::solve_decreasing;
use std::sync::Arc;

/// log of the smallest α and of the largest e^ε that conjugates are searched over.
const LOG_RANGE: f64 = 700.0;
/// Largest distance of a Gaussian, and largest loss of a bounded one: e^ε is far from overflow.
const MOST_DISTANCE: f64 = 1e6;
const MOST_LOSS: f64 = 600.0;
/// ε beyond which a curve that is known by its power is not looked at.
const FARTHEST: f64 = 650.0;
/// Below this distance the fixed point of a Gaussian is a normal number.
const MOST_FIXED: f64 = 60.0;
/// Below this α the power is that at it: e^ε would be out of range.
const LEAST_ALPHA: f64 = 1e-290;
/// Largest group of a k-fold iterate that has no closed form.
pub const LARGEST_GROUP: u64 = 10_000;

/// A trade-off function; cheap to clone, never changed.
#[derive(Debug, Clone)]
pub struct TradeoffCurve(Arc<Node>);

#[derive(Debug)]
enum Node {
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
    },
    /// min{f, g}**.
    Least(TradeoffCurve, TradeoffCurve),
    /// max{f, g}.
    Most(TradeoffCurve, TradeoffCurve),
}

impl TradeoffCurve {
    fn new(node: Node) -> Self {
        Self(Arc::new(node))
    }

    /// G_μ: N(0, 1) against N(μ, 1) (SHUFFLE §4).
    ///
    /// # Errors
    /// μ out of range.
    ///
    /// # Example
    /// ```
    /// use hockeystick::tradeoff::curve::TradeoffCurve;
    /// let curve = TradeoffCurve::gaussian(1.0)?;
    /// assert!((curve.beta(0.1)?.lower - 0.610_856_308).abs() < 1e-9);
    /// # Ok::<(), hockeystick::error::Error>(())
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

    fn of_polygon(polygon: Polygon) -> Self {
        Self::new(Node::Polygon(Arc::new(polygon)))
    }

    /// A composition of steps of the exact engine; the worst of both orders of each pair.
    ///
    /// # Errors
    /// As [`Scheme::outcome`].
    pub fn of_steps(steps: &[(Scheme, u64)], neighbours: Neighbours) -> Result<Self> {
        Composed::of_steps(steps, neighbours).map(|composed| Self::new(Node::Composed(Box::new(composed))))
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
            (Node::Group { size: k, of: a }, Node::Group { size: l, of: b }) => k == l && a.is_inverse_of(b),
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
            Node::Group { size, of } => Self::new(Node::Group {
                size: *size,
                of: of.inverse()?,
            }),
            Node::Least(a, b) => Self::new(Node::Least(a.inverse()?, b.inverse()?)),
            Node::Most(a, b) => Self::new(Node::Most(a.inverse()?, b.inverse()?)),
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
            Node::Group { size: first, of } => of.group(first.saturating_mul(size)),
            _ => {
                require(size <= LARGEST_GROUP, "k", size, "at most 10000 without closed form")?;
                Ok(Self::new(Node::Group { size, of: self.clone() }))
            }
        }
    }

    /// f ⊗ g.
    ///
    /// # Errors
    /// [`Error::Mismatch`] where a factor is neither a pair of laws nor made of such by compositions and at most one
    /// subsampling before them.
    pub fn compose(&self, other: &Self) -> Result<Self> {
        match (&*self.0, &*other.0) {
            (Node::Gaussian { distance: a }, Node::Gaussian { distance: b }) => Self::gaussian(a.hypot(*b)),
            (Node::Gaussian { distance: 0.0 }, _) => Ok(other.clone()),
            (_, Node::Gaussian { distance: 0.0 }) => Ok(self.clone()),
            _ => {
                if let (Some(a), Some(b)) = (self.straight(), other.straight())
                    && let Some(product) = a.product(&b)
                {
                    return Ok(Self::of_polygon(product));
                }
                let (first, second) = (self.factors()?, other.factors()?);
                let symmetric = self.is_symmetric() && other.is_symmetric();
                // Ordered pairs that are each other's inverses go with each other; one pair goes with all.
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
                if let Some(product) = self.straight().and_then(|polygon| polygon.power_of(times)) {
                    return Ok(Self::of_polygon(product));
                }
                let mut products = self.factors()?;
                for (_, count) in products.iter_mut().flatten() {
                    *count = count.saturating_mul(times).min(1 << 53);
                }
                Ok(Self::new(Node::Composed(Box::new(Composed::new(
                    products,
                    self.is_symmetric(),
                )?))))
            }
        }
    }

    /// The curve as a polygon, if it is one.
    fn straight(&self) -> Option<Polygon> {
        match &*self.0 {
            Node::EpsilonDelta { epsilon, delta } => Some(Polygon::of_epsilon_delta(*epsilon, *delta)),
            Node::Polygon(polygon) => Some((**polygon).clone()),
            _ => None,
        }
    }

    /// The factors of a tensor product.
    fn factors(&self) -> Result<Vec<Vec<(Law, u64)>>> {
        let law = match &*self.0 {
            Node::Composed(composed) => return Ok(composed.products().clone()),
            Node::Gaussian { distance } => Law::Gaussian { distance: *distance },
            Node::Laplace { distance } => Law::Laplace { distance: *distance },
            Node::EpsilonDelta { epsilon, delta } => Law::EpsilonDelta {
                epsilon: *epsilon,
                delta: *delta,
            },
            Node::Polygon(polygon) => Law::Polygon(polygon.clone()),
            Node::Subsampled { rate, of } => match &*of.0 {
                Node::Gaussian { distance } => Law::SubsampledGaussian {
                    rate: *rate,
                    distance: *distance,
                },
                Node::Laplace { distance } => Law::SubsampledLaplace {
                    rate: *rate,
                    distance: *distance,
                },
                _ => return Err(no_pair()),
            },
            _ => return Err(no_pair()),
        };
        Ok(vec![vec![(law, 1)]])
    }

    /// 1 − f(α): what a test finds at false positive rate α.
    ///
    /// # Errors
    /// α outside [0, 1].
    pub fn power(&self, alpha: f64) -> Result<Bounds> {
        require((0.0..=1.0).contains(&alpha), "alpha", alpha, "in [0, 1]")?;
        let found = match &*self.0 {
            Node::Gaussian { distance } => {
                let (lower, error) = self.gaussian_tail(*distance, alpha, true);
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
            Node::Group { size, of } => {
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
            let (value, error) = self.gaussian_tail(*distance, alpha, false);
            return Ok(Bounds::around(value, error).within(0.0, 1.0 - alpha));
        }
        let power = self.power(alpha)?;
        Ok(Bounds {
            lower: (1.0 - power.upper) - f64::EPSILON,
            upper: (1.0 - power.lower) + f64::EPSILON,
        }
        .within(0.0, 1.0 - alpha))
    }

    /// α with f(α) = α and f'(α) = −1 there, where a closed form is known.
    fn fixed_point(&self) -> Option<f64> {
        match &*self.0 {
            Node::Gaussian { distance } if *distance < MOST_FIXED => Some(log_upper_tail(0.5 * distance).exp()),
            Node::Laplace { distance } => Some(0.5 * (-0.5 * distance).exp()),
            _ => None,
        }
    }

    /// 1 − C_p(f)(α) for a symmetric f with a known fixed point x: f_p up to x, then the line of slope −1, then f_p^{-1}
    /// (Dong, Roth and Su 2022, Section 4.2).
    fn subsampled_power(&self, rate: f64, alpha: f64) -> Result<Bounds> {
        let x = self.fixed_point().unwrap_or(0.0);
        let mixed = |alpha: f64| -> Result<Bounds> {
            let power = self.power(alpha)?;
            let rest = (1.0 - rate) * alpha;
            Ok(Bounds {
                lower: (rate * power.lower + rest) * (1.0 - 2.0 * f64::EPSILON),
                upper: (rate * power.upper + rest) * (1.0 + 2.0 * f64::EPSILON),
            })
        };
        if alpha <= x {
            return mixed(alpha);
        }
        let at_x = mixed(x)?;
        let line = Bounds {
            lower: at_x.lower + (alpha - x) * (1.0 - 2.0 * f64::EPSILON) - f64::EPSILON,
            upper: at_x.upper + (alpha - x) * (1.0 + 2.0 * f64::EPSILON) + f64::EPSILON,
        };
        if alpha <= 1.0 - at_x.upper || alpha == 1.0 {
            return Ok(line);
        }
        // t with f_p(t) = α; f_p falls faster than t grows, so that an error of f_p is one of t at most.
        let t = solve_decreasing(0.0, x, f64::EPSILON * x, |t| {
            mixed(t).map(|power| (1.0 - power.lower) - alpha)
        })?;
        let power = mixed(t)?;
        let error = (alpha - (1.0 - power.upper))
            .abs()
            .max((alpha - (1.0 - power.lower)).abs())
            + 4.0 * f64::EPSILON;
        Ok(Bounds {
            lower: (1.0 - t) - error,
            upper: ((1.0 - t) + error).min(line.upper),
        })
    }

    /// Φ(Φ^{-1}(α) + μ) or, if not `below`, what is left of it to 1, with a relative error.
    fn gaussian_tail(&self, distance: f64, alpha: f64, below: bool) -> (f64, f64) {
        let (t, error) = quantile(alpha);
        if t.is_infinite() {
            return (if (t > 0.0) == below { 1.0 } else { 0.0 }, 0.0);
        }
        let threshold = if below { -(t + distance) } else { t + distance };
        let hazard = threshold.max(0.0) + 1.0;
        let wrong = error + f64::EPSILON * (t.abs() + distance);
        (
            log_upper_tail(threshold).exp(),
            hazard * wrong + 2e-15 * (4.0 + threshold.max(0.0).powi(2)),
        )
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
                let found = one_step::delta(&StepLoss::shift(*distance), epsilon);
                Bounds {
                    lower: found.lower(),
                    upper: found.upper(),
                }
            }
            Node::Laplace { distance } => Bounds::around(laplace_delta(*distance, epsilon), 1e-15),
            Node::EpsilonDelta { epsilon: bound, delta } => delta_of_pair(*bound, *delta, epsilon),
            Node::Polygon(polygon) => polygon.delta(epsilon.exp()),
            Node::Split(bound) => mirrored(epsilon, bound.delta(epsilon.abs())),
            Node::Composed(composed) => composed.delta(epsilon)?,
            Node::Subsampled { rate, of } => subsampled_delta(of, *rate, epsilon)?,
            Node::Least(a, b) => a.delta(epsilon)?.max(b.delta(epsilon)?),
            Node::Group { .. } | Node::Most(..) => self.delta_by_power(epsilon)?,
        };
        Ok(found.within((-epsilon.exp_m1()).max(0.0) * (1.0 - 4.0 * f64::EPSILON), 1.0))
    }

    /// ε at δ in (0, 1) by the engine of a composition; `None` for other curves.
    pub(super) fn composed_epsilon(&self, delta: f64) -> Option<Result<Bounds>> {
        match &*self.0 {
            Node::Composed(composed) if composed.is_symmetric() => composed.epsilon(delta),
            _ => None,
        }
    }

    /// ε at δ in (0, 1) of a curve that is known by its power, `None` for others: e^ε = sup_α (1 − f(α) − δ)/α, in one search.
    ///
    /// With x = 1/α that is the supremum of x(1 − f(1/x)) − δx, concave as the perspective of a concave function is.
    ///
    /// # Errors
    /// As those of the power.
    pub(super) fn epsilon_by_power(&self, delta: f64) -> Result<Option<Bounds>> {
        if !matches!(&*self.0, Node::Group { .. } | Node::Most(..)) {
            return Ok(None);
        }
        let mut failure = None;
        let found = minimum((0.0, LOG_RANGE), (2.0, 0.25), None, |x| {
            match self.power((1.0 / x).min(1.0)) {
                Ok(power) => Bounds {
                    lower: x * (delta - power.upper) - 2.0 * f64::EPSILON * x,
                    upper: x * (delta - power.lower) + 2.0 * f64::EPSILON * x,
                },
                Err(error) => {
                    failure = Some(error);
                    Bounds::exactly(f64::INFINITY)
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        let log = |t: f64| if t > 1.0 { t.ln() } else { 0.0 };
        // What even the smallest α that was looked at finds: should it be more than δ, the supremum may lie beyond.
        let lost = self.power((-LOG_RANGE).exp())?;
        Ok(Some(Bounds {
            lower: log(-found.upper) * (1.0 - 4.0 * f64::EPSILON),
            upper: if lost.upper >= delta {
                f64::INFINITY
            } else {
                log(-found.lower) * (1.0 + 4.0 * f64::EPSILON)
            },
        }))
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
            Node::Subsampled { rate, of } => (rate * of.most_loss().exp_m1()).ln_1p() * (1.0 + 1e-14),
            Node::Group { size, of } => *size as f64 * of.most_loss(),
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
            Node::Subsampled { of, .. } => of.widest_distance(),
            Node::Group { size, of } => *size as f64 * of.widest_distance(),
            Node::Least(a, b) => a.widest_distance().max(b.widest_distance()),
            Node::Most(a, b) => a.widest_distance().min(b.widest_distance()),
            _ => super::composed::distance_of_pure(self.most_loss()),
        }
    }

    /// The conjugate: inf over e^ε = t of δ + tα.
    fn power_by_delta(&self, alpha: f64) -> Result<Bounds> {
        if alpha == 0.0 {
            return self.delta_at_infinity();
        }
        if alpha == 1.0 {
            return Ok(Bounds::exactly(1.0));
        }
        if alpha < LEAST_ALPHA {
            return Ok(Bounds {
                lower: self.delta_at_infinity()?.lower,
                upper: self.power_by_delta(LEAST_ALPHA)?.upper,
            });
        }
        // Where the optimum would be for G_μ of the same advantage 2Φ(μ/2) − 1.
        let advantage = self.delta(0.0)?.upper;
        let mu = (2.0 * quantile(0.5 + 0.5 * advantage).0).clamp(1e-3, 30.0);
        let start = (-mu * quantile(alpha).0 - 0.5 * mu * mu, 0.25 * mu.min(1.0));
        let mut failure = None;
        let found = minimum((-LOG_RANGE, LOG_RANGE), start, Some(0.0), |t| {
            match self.delta(t.ln()) {
                Ok(delta) => Bounds {
                    lower: delta.lower + t * alpha * (1.0 - f64::EPSILON),
                    upper: delta.upper + t * alpha * (1.0 + f64::EPSILON),
                },
                Err(error) => {
                    failure = Some(error);
                    Bounds::exactly(f64::INFINITY)
                }
            }
        });
        match failure {
            Some(error) => Err(error),
            None => Ok(found),
        }
    }

    /// The conjugate: sup over α of 1 − f(α) − tα.
    fn delta_by_power(&self, epsilon: f64) -> Result<Bounds> {
        if epsilon > FARTHEST {
            // δ falls.
            return Ok(Bounds {
                lower: self.delta_at_infinity()?.lower,
                upper: self.delta_by_power(FARTHEST)?.upper,
            });
        }
        let t = epsilon.exp();
        let start = (-0.5 * epsilon.abs() - 1.0, 0.25);
        let mut failure = None;
        // 1 + tα − power is convex in α.
        let found = minimum((-LOG_RANGE, 0.0), start, None, |alpha| {
            match self.power(alpha.min(1.0)) {
                Ok(power) => Bounds {
                    lower: t * alpha * (1.0 - f64::EPSILON) - power.upper,
                    upper: t * alpha * (1.0 + f64::EPSILON) - power.lower,
                },
                Err(error) => {
                    failure = Some(error);
                    Bounds::exactly(f64::INFINITY)
                }
            }
        });
        if let Some(error) = failure {
            return Err(error);
        }
        // What is left of the range of α.
        let (at_zero, beside) = (self.power(0.0)?, self.power((-LOG_RANGE).exp())?);
        Ok(Bounds {
            lower: (-found.upper).max(at_zero.lower),
            upper: (-found.lower).max(beside.upper),
        })
    }
}

/// A factor that is known by its curve alone.
fn no_pair() -> Error {
    Error::Mismatch(
        "a curve of group, minimum or maximum, or subsampled after composition, has no pair of laws and cannot be \
         composed: compose before such operations"
            .into(),
    )
}

/// Both lists of factors as one, equal factors counted once.
fn merged(first: &[(Law, u64)], second: &[(Law, u64)]) -> Vec<(Law, u64)> {
    let mut all = first.to_vec();
    for (law, count) in second {
        match all.iter_mut().find(|known| known.0 == *law) {
            Some(known) => known.1 = known.1.saturating_add(*count).min(1 << 53),
            None => all.push((law.clone(), *count)),
        }
    }
    all
}

/// 1 − f(α) of Laplace noise: e^μ α up to e^{−μ}/2, then 1 − e^{−μ}/4α up to 1/2, then 1 − e^{−μ}(1 − α).
fn laplace_power(distance: f64, alpha: f64) -> f64 {
    let shrink = (-distance).exp();
    if alpha <= 0.5 * shrink {
        alpha * distance.exp()
    } else if alpha <= 0.5 {
        1.0 - shrink / (4.0 * alpha)
    } else {
        1.0 - shrink * (1.0 - alpha)
    }
}

/// δ(ε) of Laplace noise: 1 − e^{(ε − μ)/2} for |ε| ≤ μ.
fn laplace_delta(distance: f64, epsilon: f64) -> f64 {
    if epsilon >= distance {
        0.0
    } else if epsilon >= -distance {
        -(0.5 * (epsilon - distance)).exp_m1()
    } else {
        -epsilon.exp_m1()
    }
}

/// δ(ε) of f_{`bound`,`delta`}: δ is told in any case, and the rest is randomised response.
fn delta_of_pair(bound: f64, delta: f64, epsilon: f64) -> Bounds {
    // P(ℓ = ±bound) = 1/(1 + e^{∓bound})
    let part = |loss: f64, log_mass: f64| {
        let gain = loss - epsilon;
        if gain > 0.0 {
            log_mass.exp() * -(-gain).exp_m1()
        } else {
            0.0
        }
    };
    if epsilon >= bound {
        return Bounds::exactly(delta);
    }
    let rest = part(bound, -log1p_exp(-bound)) + part(-bound, -log1p_exp(bound));
    Bounds::around(delta + (1.0 - delta) * rest, 4e-15)
}

/// C_p of a symmetric polygon with the points (ε ≥ 0, δ), of which the first has ε = 0.
fn subsampled(steep: &[(f64, f64)], rate: f64) -> Polygon {
    let edge = |&(epsilon, delta): &(f64, f64)| Edge {
        slope: 1.0 + rate * epsilon.exp_m1(),
        delta: rate * delta,
    };
    let mut edges: Vec<Edge> = steep.iter().map(edge).collect();
    edges.dedup_by(|next, first| next.slope <= first.slope);
    Polygon::symmetric(&edges)
}

/// δ of C_p(f): p·δ(log(1 + (e^ε − 1)/p)) for ε ≥ 0, of f or its inverse; below, by the symmetry of C_p(f).
///
/// f_p^{-1} has (1 − (1 − p)e^ε)·δ(log(1/(1 − (1 − e^{−ε})/p))), which is no more where f is symmetric: it is that of "add"
/// against "remove" after one step.
fn subsampled_delta(of: &TradeoffCurve, rate: f64, epsilon: f64) -> Result<Bounds> {
    let raised = epsilon.abs();
    let inner = (raised.exp_m1() / rate).ln_1p();
    let inner = if inner.is_finite() { inner } else { raised - rate.ln() };
    let mut found = of.delta(inner)?;
    if !of.is_symmetric() {
        found = found.max(of.inverse()?.delta(inner)?);
    }
    let mut found = Bounds {
        lower: rate * found.lower,
        upper: rate * found.upper,
    };
    if !of.is_symmetric() {
        let (left, below) = (1.0 - (1.0 - rate) * raised.exp(), 1.0 + (-raised).exp_m1() / rate);
        if left > 0.0 && below > 0.0 {
            let other = of.delta(-below.ln())?.max(of.inverse()?.delta(-below.ln())?);
            found = found.max(Bounds {
                lower: left * other.lower,
                upper: left * other.upper,
            });
        }
    }
    // The slope of log δ in ε is at most 1 + 1/p or so where δ counts.
    let rounding = 8.0 * f64::EPSILON * (2.0 + raised + inner);
    let found = Bounds {
        lower: found.lower * (1.0 - rounding),
        upper: found.upper * (1.0 + rounding),
    };
    Ok(mirrored(epsilon, found))
}

/// δ(ε) of a symmetric curve from that of |ε|: δ(ε) = 1 − e^ε + e^ε δ(−ε).
fn mirrored(epsilon: f64, of_size: Bounds) -> Bounds {
    if epsilon >= 0.0 {
        return of_size;
    }
    let (gap, t) = (-epsilon.exp_m1(), epsilon.exp());
    Bounds {
        lower: (gap + t * of_size.lower) * (1.0 - 4.0 * f64::EPSILON),
        upper: (gap + t * of_size.upper) * (1.0 + 4.0 * f64::EPSILON),
    }
}
