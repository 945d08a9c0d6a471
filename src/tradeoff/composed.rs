//! Tensor products: the trade-off function of a composition, from its composed privacy curve.
//!
//! f ⊗ g = T(P × P', Q × Q') for f = T(P, Q), g = T(P', Q') (SHUFFLE §4; Dong, Roth and Su 2022, Definition 3.1). Each factor
//! is kept as a pair of laws, whose privacy losses add up in the exact engine; nothing is multiplied on a grid of α.

use crate::curve::PointAccuracy;
use crate::curve::composed_loss::ComposedLoss;
use crate::curve::composition::Composition;
use crate::error::Result;
use crate::interval::Interval;
use crate::locks::Renewable;
use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::pairs::StepOutcome;
use crate::special::log_space::log1p_exp;
use crate::special::normal::quantile;
use crate::step::members::factored;
use crate::step::{Adjacency, Direction, GroupLaw, Mechanism, Step};
use crate::tradeoff::bracket::Between;
use crate::tradeoff::convex::Bounds;
use crate::tradeoff::laplace_sum::{Factor, LaplaceSum};
use crate::tradeoff::lattice::LatticeLaw;
use crate::tradeoff::polygon::Polygon;
use std::sync::Arc;

/// What is aimed at: that of 1 − f is no wider.
const CLOSE: PointAccuracy = PointAccuracy {
    relative: 1e-9,
    absolute: 1e-10,
    coarse: 1e-6,
};
/// Steps of Laplace noise below which [`LESS_CLOSE`] is aimed at: losses stay nearly discrete, and that is a hundred times as fast.
const FEW_STEPS: u64 = 50;
/// Steps of subsampled Gaussian noise below which [`LESS_CLOSE`] is aimed at.
const FEW_SAMPLED_STEPS: u64 = 20;
const LESS_CLOSE: PointAccuracy = PointAccuracy {
    relative: 1e-7,
    absolute: 1e-8,
    coarse: 1e-6,
};

/// What a finite sum is used for as it is: a width of δ that no read-out would show.
const CLOSE_SUM: f64 = 1e-13;

/// What is aimed at for factors that are known from points only, which differ more from the curve.
const FROM_POINTS: PointAccuracy = PointAccuracy {
    relative: 1e-7,
    absolute: 1e-9,
    coarse: 1e-5,
};

/// A pair whose trade-off function is a factor.
#[derive(Debug, Clone, PartialEq)]
pub enum Law {
    /// N(0, 1) and N(μ, 1).
    Gaussian {
        /// μ > 0.
        distance: f64,
    },
    /// Laplace noise of scale 1 around 0 and μ.
    Laplace {
        /// μ > 0.
        distance: f64,
    },
    /// The symmetrised subsampled Gaussian, C_p(G_μ): one joined law (PITFALLS Theorem 14).
    SubsampledGaussian {
        /// p in (0, 1).
        rate: f64,
        /// μ > 0.
        distance: f64,
    },
    /// The symmetrised subsampled Laplace curve (PITFALLS Theorem 14).
    SubsampledLaplace {
        /// p in (0, 1).
        rate: f64,
        /// μ > 0.
        distance: f64,
    },
    /// f_{ε,δ}: with probability δ all is told, else one of two answers with odds e^ε.
    EpsilonDelta {
        /// ε ≥ 0.
        epsilon: f64,
        /// δ in [0, 1].
        delta: f64,
    },
    /// Straight edges.
    Polygon(Arc<Polygon>),
    /// A curve that is known from points of it; the law is that of one that is nowhere above it.
    Between(Arc<Between>),
    /// N(0, 1) and N(μ_j, 1) with probability w_j, and everyone sees j.
    Mixture(Arc<Mixture>),
    /// A step of the exact engine; `direction` is `None` for replacement.
    Step {
        /// The step.
        scheme: Box<Step>,
        /// Which ordered pair.
        direction: Option<Direction>,
    },
}

/// Gaussian pairs of which everyone sees which it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// μ_j ≥ 0.
    pub distances: Vec<f64>,
    /// log w_j.
    pub log_weights: Vec<f64>,
    /// Bound on the probability that is not listed, and on absolute errors of the listed.
    pub left_out: f64,
    /// Bound on the relative rounding error of the listed probabilities.
    pub rounding: f64,
    /// Bound on all distances, those that are not listed included.
    pub widest: f64,
}

impl Law {
    /// The law of the inverse trade-off function.
    fn reversed(&self) -> Self {
        match self {
            Self::Polygon(polygon) => Self::Polygon(Arc::new(polygon.inverted())),
            Self::Between(between) if !between.is_symmetric() => Self::Between(Arc::new(between.inverted())),
            other => other.clone(),
        }
    }

    fn is_symmetric(&self) -> bool {
        match self {
            Self::Polygon(polygon) => polygon.is_symmetric(),
            Self::Between(between) => between.is_symmetric(),
            _ => true,
        }
    }

    /// The privacy loss, on a lattice of this `gap` where it is made from points.
    fn outcome(&self, gap: f64) -> Result<StepOutcome> {
        let loss = match self {
            Self::Gaussian { distance } => StepLoss::shift(*distance),
            Self::Laplace { distance } => {
                let law = GroupLaw::explicit(&[1.0], &[1.0])?;
                StepLoss::new(LaplaceLoss::new(&law, 1.0 / distance, Direction::Remove))
            }
            Self::SubsampledGaussian { rate, distance } => {
                let law = GroupLaw::explicit_log(&[(-rate).ln_1p(), rate.ln()], &[0.0, 1.0])?;
                match StepLoss::replace_fixed_batch(&law, 1.0 / distance)? {
                    Some(loss) => loss,
                    None => return Ok(StepOutcome::Nothing),
                }
            }
            // In units of half the distance.
            Self::SubsampledLaplace { rate, distance } => {
                StepLoss::new(LaplaceLoss::replaced(*rate, 2.0 / distance))
            }
            Self::EpsilonDelta { epsilon, delta } => {
                let log_kept = (-delta).ln_1p();
                if *epsilon == 0.0 || *delta == 1.0 {
                    return Ok(StepOutcome::Partly {
                        log_kept,
                        moved: 0.0,
                        loss: None,
                    });
                }
                let (likely, unlikely) = (-log1p_exp(-epsilon), -log1p_exp(*epsilon));
                let loss = AtomLoss::new(vec![(*epsilon, likely), (-epsilon, unlikely)]);
                return Ok(StepOutcome::Partly {
                    log_kept,
                    moved: 0.0,
                    loss: Some(StepLoss::new(loss)),
                });
            }
            Self::Polygon(polygon) => return Ok(polygon.outcome()),
            Self::Between(between) => return Ok(LatticeLaw::new(between, gap).outcome()),
            Self::Mixture(mixture) => StepLoss::gaussians(mixture.log_weights.clone(), mixture.distances.clone()),
            Self::Step { scheme, direction } => return scheme.outcome(*direction),
        };
        Ok(StepOutcome::Loss(loss))
    }

    /// (μ such that f ≥ G_μ, ε such that f ≥ f_{ε,0}, 1 − f(0)); the first two infinite where there is none.
    pub(crate) fn limits(&self) -> Result<(f64, f64, f64)> {
        let pure = |epsilon: f64| (distance_of_pure(epsilon), epsilon, 0.0);
        Ok(match self {
            Self::Gaussian { distance } | Self::SubsampledGaussian { distance, .. } => {
                (*distance, f64::INFINITY, 0.0)
            }
            Self::Laplace { distance } => pure(*distance),
            Self::SubsampledLaplace { rate, distance } => pure((rate * distance.exp_m1()).ln_1p()),
            Self::EpsilonDelta { epsilon, delta: 0.0 } => pure(*epsilon),
            Self::EpsilonDelta { delta, .. } => (f64::INFINITY, f64::INFINITY, *delta),
            Self::Polygon(polygon) => {
                let lost = polygon.delta_at_infinity();
                // Both orders: the inverse has the loss of the flattest edge.
                let ends = (polygon.edges().first(), polygon.edges().last());
                match ends {
                    (Some(first), Some(last)) if lost == 0.0 && polygon.inverted().delta_at_infinity() == 0.0 => {
                        pure(last.slope.ln().max(-first.slope.ln()))
                    }
                    _ => (f64::INFINITY, f64::INFINITY, lost),
                }
            }
            Self::Mixture(mixture) => (mixture.widest, f64::INFINITY, 0.0),
            Self::Between(between) => between.limits(),
            Self::Step { scheme, direction } => match scheme.outcome(*direction)? {
                StepOutcome::Nothing => (0.0, 0.0, 0.0),
                StepOutcome::Loss(loss) => match loss.widest_distance() {
                    Some(distance) => (distance, f64::INFINITY, 0.0),
                    None => pure(loss.most_loss().0.next_up()),
                },
                StepOutcome::Telling { log_unseen } => (f64::INFINITY, f64::INFINITY, -log_unseen.exp_m1()),
                StepOutcome::Partly { log_kept, .. } => (f64::INFINITY, f64::INFINITY, -log_kept.exp_m1()),
            },
        })
    }
}

/// The least μ with G_μ ≤ f_{ε,0}: at the corner α = β = 1/(1 + e^ε) of the latter.
pub(crate) fn distance_of_pure(epsilon: f64) -> f64 {
    let (corner, error) = quantile((-log1p_exp(epsilon)).exp());
    2.0 * (error - corner)
}

/// Ordered pairs, each a list of factors with how often each occurs.
pub(super) type Products = Vec<Vec<(Law, u64)>>;

/// The trade-off function of compositions: the convexified smallest of some ordered pairs.
#[derive(Debug)]
pub(crate) struct Composed {
    products: Products,
    /// True if the pairs are their own inverses, or each other's.
    symmetric: bool,
    /// Engines of the pairs and of their inverses, unless these are the same.
    forward: Renewable<Composition>,
    backward: Option<Renewable<Composition>>,
    /// Finite sums for both where they are at hand, one for each ordered pair.
    sums: [Option<Vec<LaplaceSum>>; 2],
    /// Bound on the probability of outcomes that were left out.
    left_out: f64,
    /// Bound on the relative rounding error of the probabilities of those that were not.
    rounding: f64,
    /// How far δ may be above that of the curves themselves, for those that are known from points.
    excess: f64,
    /// What is aimed at.
    wanted: PointAccuracy,
    /// See [`Law::limits`].
    limits: (f64, f64, f64),
}

impl Composed {
    /// The composition of each list; `symmetric` says that the lists are each other's inverses.
    ///
    /// # Errors
    /// A factor that the exact engine refuses.
    pub(crate) fn new(products: Products, symmetric: bool) -> Result<Self> {
        let symmetric = symmetric || products.iter().flatten().all(|(law, _)| law.is_symmetric());
        let reversed = reversed(&products);
        let (mut left_out, mut rounding) = (0.0f64, 0.0f64);
        let mut limits = (0.0f64, 0.0f64, 0.0f64);
        let mut excess = 0.0f64;
        for product in &products {
            let gap = lattice_gap(product);
            let mut above = 0.0;
            let (mut square, mut loss, mut log_kept) = (0.0, 0.0, 0.0);
            let (mut omitted, mut rounded) = (0.0, 0.0);
            for (law, count) in product {
                let times = *count as f64;
                let (distance, most, lost) = law.limits()?;
                square += times * distance * distance;
                loss += times * most;
                log_kept += times * (-lost).ln_1p();
                match law {
                    Law::Mixture(mixture) => {
                        omitted += times * mixture.left_out;
                        rounded += times * mixture.rounding;
                    }
                    Law::Polygon(polygon) => {
                        let (relative, absolute) = polygon.rounding();
                        omitted += times * absolute;
                        rounded += times * relative;
                    }
                    Law::Between(between) => above += times * LatticeLaw::new(between, gap).excess(),
                    _ => {}
                }
            }
            excess = excess.max(above);
            left_out = left_out.max(omitted);
            // (1 + r)^T − 1
            rounding = rounding.max(f64::exp_m1(rounded));
            limits = (
                limits.0.max(square.sqrt() * (1.0 + 1e-14)),
                limits.1.max(loss * (1.0 + 1e-14)),
                limits.2.max(-log_kept.exp_m1()),
            );
        }
        Ok(Self {
            forward: Renewable::holding(engine(&products)?),
            backward: if symmetric {
                None
            } else {
                Some(Renewable::holding(engine(&reversed)?))
            },
            wanted: if excess > 0.0 {
                PointAccuracy {
                    absolute: FROM_POINTS.absolute.max(0.05 * excess),
                    ..FROM_POINTS
                }
            } else if products.iter().any(|product| is_few_steps(product)) {
                LESS_CLOSE
            } else {
                CLOSE
            },
            sums: [
                finite_sums(&products),
                if symmetric { None } else { finite_sums(&reversed) },
            ],
            products,
            symmetric,
            left_out,
            rounding,
            excess,
            limits,
        })
    }

    /// Steps of the exact engine, in both orders of each pair.
    ///
    /// # Errors
    /// As [`Step::outcome`].
    pub(crate) fn of_steps(steps: &[(Step, u64)], adjacency: Adjacency) -> Result<Self> {
        let steps = factored(steps)?;
        let product = |direction: &Option<Direction>| {
            let law = |(scheme, count): &(Step, u64)| {
                let law = Law::Step {
                    scheme: Box::new(scheme.clone()),
                    direction: *direction,
                };
                (law, *count)
            };
            steps.iter().map(law).collect()
        };
        Self::new(adjacency.pairs().iter().map(product).collect(), true)
    }

    /// The factors.
    pub(crate) fn products(&self) -> &Products {
        &self.products
    }

    /// True if f is its own inverse.
    pub(crate) fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    /// True if far points of δ take milliseconds each: a few steps whose losses are not smooth.
    pub(crate) fn is_dear(&self) -> bool {
        self.sums[0].is_none() && self.products.iter().any(|product| is_few_steps(product))
    }

    /// The composition of the inverses.
    ///
    /// # Errors
    /// As [`Composed::new`].
    pub(crate) fn inverted(&self) -> Result<Self> {
        let reverse =
            |product: &Vec<(Law, u64)>| product.iter().map(|(law, count)| (law.reversed(), *count)).collect();
        Self::new(self.products.iter().map(reverse).collect(), self.symmetric)
    }

    /// (μ such that f ≥ G_μ, ε such that f ≥ f_{ε,0}).
    pub(crate) fn limits(&self) -> (f64, f64) {
        (self.limits.0, self.limits.1)
    }

    /// 1 − f(0).
    pub(crate) fn delta_at_infinity(&self) -> Bounds {
        let lost = Bounds::around(self.limits.2, 1e-14);
        Bounds {
            lower: (lost.lower - self.excess).max(0.0),
            upper: lost.upper + self.left_out,
        }
    }

    /// δ(ε) = sup_α 1 − f(α) − e^ε α for any real ε.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta(&self, epsilon: f64) -> Result<Bounds> {
        if epsilon >= 0.0 {
            return self.ask(false, epsilon);
        }
        // δ of the inverse at −ε: δ(ε) = 1 − e^ε + e^ε δ'(−ε).
        let found = self.ask(true, -epsilon)?;
        let (gap, t) = (-epsilon.exp_m1(), epsilon.exp());
        Ok(Bounds {
            lower: (gap + t * found.lower) * (1.0 - 4.0 * f64::EPSILON),
            upper: (gap + t * found.upper) * (1.0 + 4.0 * f64::EPSILON),
        })
    }

    /// The smallest ε ≥ 0 with δ(ε) ≤ `delta`, where one engine answers; not for factors that are known from points, whose grids
    /// are better kept for the next question.
    pub(crate) fn epsilon(&self, delta: f64) -> Option<Result<Bounds>> {
        let slack = self.left_out + delta * self.rounding;
        let (safe, other) = ((delta - self.left_out) / (1.0 + self.rounding), delta + 2.0 * slack);
        if safe <= 0.5 * delta || other >= 1.0 || self.excess > 0.0 || self.sums[0].is_some() {
            return None;
        }
        let ask = |engine: &mut Composition| {
            let Interval { mut lower, upper } = engine.epsilon(safe, self.wanted.relative)?;
            if slack > 0.0 {
                lower = engine.epsilon(other, self.wanted.relative)?.lower;
            }
            Ok(Bounds { lower, upper })
        };
        Some(self.forward.with(|| engine(&self.products), ask))
    }

    /// δ at ε ≥ 0 of the pairs or, if `inverted`, of their inverses.
    fn ask(&self, inverted: bool, epsilon: f64) -> Result<Bounds> {
        let backward = self.backward.as_ref().filter(|_| inverted);
        let sums = &self.sums[usize::from(backward.is_some())];
        let mut found = Bounds { lower: 0.0, upper: 1.0 };
        if let Some(sums) = sums {
            found = sums
                .iter()
                .map(|sum| sum.delta(epsilon))
                .fold(Bounds::exactly(0.0), Bounds::max);
        }
        let width = found.upper - found.lower;
        let is_close = width <= CLOSE_SUM
            || width <= LESS_CLOSE.relative * found.lower
            || (width <= LESS_CLOSE.absolute && width <= LESS_CLOSE.coarse * found.lower);
        if sums.is_none() || !is_close {
            let ask = |engine: &mut Composition| engine.delta_nearby(epsilon, self.wanted);
            let asked = match backward {
                Some(backward) => backward.with(|| engine(&reversed(&self.products)), ask),
                None => self.forward.with(|| engine(&self.products), ask),
            }?;
            let Interval { lower, upper } =
                Interval::of_bounds(found.lower.max(asked.lower()), found.upper.min(asked.upper()))?;
            found = Bounds { lower, upper };
        }
        Ok(Bounds {
            lower: (found.lower * (1.0 - self.rounding) - self.left_out - self.excess).max(0.0),
            upper: (found.upper * (1.0 + self.rounding) + self.left_out).min(1.0),
        })
    }
}

/// The finite sums of all pairs, if all have one.
fn finite_sums(products: &Products) -> Option<Vec<LaplaceSum>> {
    let factor = |(law, count): &(Law, u64)| {
        let factor = match law {
            Law::Laplace { distance } => Factor::Laplace(*distance),
            Law::Gaussian { distance } => Factor::Gaussian(*distance),
            Law::EpsilonDelta { .. } | Law::Polygon(_) => Factor::Outcome(law.outcome(1.0).ok()?),
            _ => return None,
        };
        Some((factor, *count))
    };
    let sum = |product: &Vec<(Law, u64)>| {
        let factors: Option<Vec<(Factor, u64)>> = product.iter().map(factor).collect();
        LaplaceSum::new(&factors?)
    };
    products.iter().map(sum).collect()
}

/// True for a few steps that are not all of Gaussian noise: their losses are hardly smooth yet.
fn is_few_steps(product: &[(Law, u64)]) -> bool {
    let of = |wanted: fn(&Law) -> bool| -> u64 {
        let counts = product.iter().filter(|(law, _)| wanted(law)).map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    };
    let laplace = of(|law| match law {
        Law::Laplace { .. } | Law::SubsampledLaplace { .. } => true,
        Law::Step { scheme, .. } => matches!(scheme.mechanism, Mechanism::Laplace { .. }),
        _ => false,
    });
    let sampled = of(|law| matches!(law, Law::SubsampledGaussian { .. }));
    let whole = of(|law| matches!(law, Law::Gaussian { .. }));
    let all = of(|_| true);
    (laplace == all && (2..FEW_STEPS).contains(&all)) || (whole == 0 && sampled > 0 && all < FEW_SAMPLED_STEPS)
}

/// The inverse of each pair.
fn reversed(products: &Products) -> Products {
    products
        .iter()
        .map(|product| product.iter().map(|(law, count)| (law.reversed(), *count)).collect())
        .collect()
}

/// Points that the composed losses may be spread over, which the transform can hold.
const LATTICE: f64 = (1 << 20) as f64;
/// Width of the composed loss that counts, in standard deviations.
const REACH: f64 = 32.0;

/// Mass in one place from which on it is an atom, which the lattice has to meet.
const ATOM: f64 = 1e-3;

/// The gap of the lattice for the factors that are known from points: the loss of the heaviest atom, or 1, over a power of two.
fn lattice_gap(product: &[(Law, u64)]) -> f64 {
    let variance = |(law, count): &(Law, u64)| match law {
        Law::Between(between) => *count as f64 * between.variance(),
        _ => 0.0,
    };
    let spread = product.iter().map(variance).sum::<f64>().sqrt();
    let heaviest = |(law, _): &(Law, u64)| match law {
        Law::Between(between) => between.heaviest(),
        _ => (0.0, 0.0),
    };
    let (mass, place) = product
        .iter()
        .map(heaviest)
        .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
    let gap = REACH * spread / LATTICE;
    let base = if mass > ATOM && place > gap { place } else { 1.0 };
    base * (gap / base).log2().ceil().clamp(-60.0, 0.0).exp2()
}

fn engine(products: &Products) -> Result<Composition> {
    let mut directions = Vec::with_capacity(products.len());
    for product in products {
        let gap = lattice_gap(product);
        let mut steps = Vec::with_capacity(product.len());
        let mut adds = false;
        for (law, count) in product {
            adds |= matches!(
                law,
                Law::Step {
                    direction: Some(Direction::Add),
                    ..
                }
            );
            steps.push((law.outcome(gap)?, *count));
        }
        directions.push(ComposedLoss::new(steps, adds));
    }
    Ok(Composition::of_directions(directions))
}
