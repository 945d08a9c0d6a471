//! Tensor products: the trade-off function of a composition, from its composed privacy curve.
//!
//! f ⊗ g = T(P × P', Q × Q') for f = T(P, Q), g = T(P', Q') (SHUFFLE §4; Dong, Roth and Su 2022, Definition 3.1). Each factor
//! is a pair of laws, whose privacy losses add up in the exact engine; nothing is multiplied on a grid of α.

use crate::curve::PointAccuracy;
use crate::curve::composed_loss::ComposedLoss;
use crate::curve::composition::Composition;
use crate::error::Result;
use crate::interval::Interval;
use crate::locks::Renewable;
use crate::step::members::factored;
use crate::step::{Adjacency, Direction, Mechanism, Step};
use crate::tradeoff::closed_forms::mirrored;
use crate::tradeoff::factor::Factor;
use crate::tradeoff::laplace_sum::{LaplaceSum, Summand};
use crate::tradeoff::lattice::LatticeLaw;
use crate::tradeoff::limits::Limits;

/// Width of δ that is aimed at: intervals of 1 − f are no wider. Ten times as narrow takes twice the time.
const NARROW: PointAccuracy = PointAccuracy {
    relative: 1e-9,
    absolute: 1e-10,
    coarse: 1e-6,
};
/// Width that is aimed at for a few steps of Laplace or subsampled noise, whose losses are not smooth yet: a hundred times as fast.
const FEW_STEPS_WIDTH: PointAccuracy = PointAccuracy {
    relative: 1e-7,
    absolute: 1e-8,
    coarse: 1e-6,
};
/// Width that is aimed at for factors that are known by bounds, which differ from the curve by more.
const BOUNDED_FACTORS_WIDTH: PointAccuracy = PointAccuracy {
    relative: 1e-7,
    absolute: 1e-9,
    coarse: 1e-5,
};
/// Steps of Laplace noise from which on [`NARROW`] is aimed at.
const FEW_LAPLACE_STEPS: u64 = 50;
/// Steps of subsampled Gaussian noise from which on [`NARROW`] is aimed at.
const FEW_SAMPLED_STEPS: u64 = 20;
/// Width of δ from a finite sum that is narrow enough at any δ: a tenth of what six printed digits of 1e-6 would show.
const NARROW_SUM: f64 = 1e-13;
/// Points of the lattice that the composed loss may be spread over: the transforms of the engine hold them in 16 MB.
const LATTICE_POINTS: f64 = (1 << 20) as f64;
/// Width of the composed loss that counts, in standard deviations: 16 to either side hold all but e^-128 of a Gaussian loss.
const LOSS_WIDTH: f64 = 32.0;
/// Mass from which on an atom has to be on the lattice, where rounding it to a neighbour would be the largest error.
const MIN_ATOM: f64 = 1e-3;
/// The part of what bounds of factors leave open to which δ is computed: more digits would be of no use.
const PART_OF_EXCESS: f64 = 0.05;

/// Relative widths of ε that are aimed at, one after the other, where the engine does not attain that of δ: thirty releases of discrete
/// Gaussian noise had an interval of 16 % (scale 10) and 22 % (scale 1,335) where only 1e-9 was aimed at.
const COARSE_TOLERANCES: [f64; 2] = [1e-4, 1e-2];

/// A tensor product: its factors with how often each occurs.
pub(super) type Product = Vec<(Factor, u64)>;
/// Ordered pairs of hypotheses, each a product.
pub(super) type Products = Vec<Product>;

/// The trade-off function of compositions: the convexified minimum over some ordered pairs.
#[derive(Debug)]
pub(crate) struct Composed {
    products: Products,
    /// True if the pairs are their own inverses, or each other's.
    symmetric: bool,
    /// Engines of the pairs and of their inverses, unless these are the same.
    forward: Renewable<Composition>,
    backward: Option<Renewable<Composition>>,
    /// Finite sums for the pairs and for their inverses where there are some, one for each ordered pair.
    sums: [Option<Vec<LaplaceSum>>; 2],
    errors: Errors,
    /// Width of δ that is aimed at.
    wanted: PointAccuracy,
    limits: Limits,
}

/// Bounds on how far δ of the engine's pairs is from that of the curves.
#[derive(Debug, Clone, Copy)]
struct Errors {
    /// Probability of outcomes that were left out.
    left_out: f64,
    /// Relative rounding error of the probabilities of the others.
    rounding: f64,
    /// By how much δ may be above that of the curves, for factors that are known by bounds.
    excess: f64,
}

/// Errors and limits of one product: sums over the factors, with how often they occur.
fn totals(product: &[(Factor, u64)]) -> Result<(Errors, Limits)> {
    let gap = lattice_gap(product);
    let (mut left_out, mut rounding, mut excess) = (0.0, 0.0, 0.0);
    let (mut square, mut loss, mut log_common) = (0.0, 0.0, 0.0);
    for (factor, count) in product {
        let times = *count as f64;
        let limits = factor.limits()?;
        square += times * limits.distance * limits.distance;
        loss += times * limits.epsilon;
        log_common += times * (-limits.singular).ln_1p();
        match factor {
            Factor::Mixture(mixture) => {
                left_out += times * mixture.left_out;
                rounding += times * mixture.rounding;
            }
            Factor::Polygon(polygon) => {
                let (relative, absolute) = polygon.rounding();
                left_out += times * absolute;
                rounding += times * relative;
            }
            Factor::Envelope(envelope) => excess += times * LatticeLaw::new(envelope, gap).excess(),
            _ => {}
        }
    }
    let errors = Errors {
        left_out,
        // (1 + r)^T − 1
        rounding: f64::exp_m1(rounding),
        excess,
    };
    let limits = Limits {
        distance: f64::sqrt(square) * (1.0 + 1e-14),
        epsilon: loss * (1.0 + 1e-14),
        singular: -f64::exp_m1(log_common),
    };
    Ok((errors, limits))
}

impl Errors {
    /// δ of the curves from δ of the engine's pairs.
    fn widened(&self, delta: Interval) -> Interval {
        Interval {
            lower: (delta.lower * (1.0 - self.rounding) - self.left_out - self.excess).max(0.0),
            upper: (delta.upper * (1.0 + self.rounding) + self.left_out).min(1.0),
        }
    }
}

impl Composed {
    /// The composition of each product; `symmetric` says that the products are each other's inverses.
    ///
    /// # Errors
    /// A factor that the exact engine refuses.
    pub(crate) fn new(products: Products, symmetric: bool) -> Result<Self> {
        let symmetric = symmetric || products.iter().flatten().all(|(factor, _)| factor.is_symmetric());
        let inverses = inverted(&products);
        let mut errors = Errors {
            left_out: 0.0,
            rounding: 0.0,
            excess: 0.0,
        };
        let mut limits = Limits::NO_INFORMATION;
        for product in &products {
            let (added, reached) = totals(product)?;
            errors.left_out = errors.left_out.max(added.left_out);
            errors.rounding = errors.rounding.max(added.rounding);
            errors.excess = errors.excess.max(added.excess);
            limits.distance = limits.distance.max(reached.distance);
            limits.epsilon = limits.epsilon.max(reached.epsilon);
            limits.singular = limits.singular.max(reached.singular);
        }
        let backward = if symmetric {
            None
        } else {
            Some(Renewable::holding(engine(&inverses)?))
        };
        let inverse_sums = if symmetric { None } else { finite_sums(&inverses) };
        Ok(Self {
            forward: Renewable::holding(engine(&products)?),
            backward,
            wanted: wanted(&products, errors.excess),
            sums: [finite_sums(&products), inverse_sums],
            products,
            symmetric,
            errors,
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
            let factor = |(step, count): &(Step, u64)| {
                let factor = Factor::Step {
                    step: Box::new(step.clone()),
                    direction: *direction,
                };
                (factor, *count)
            };
            steps.iter().map(factor).collect()
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

    /// True if values of δ far out take milliseconds each: for a few steps whose losses are not smooth.
    pub(crate) fn is_expensive(&self) -> bool {
        self.sums[0].is_none() && self.products.iter().any(|product| is_few_steps(product))
    }

    /// The composition of the inverses.
    ///
    /// # Errors
    /// As [`Composed::new`].
    pub(crate) fn inverted(&self) -> Result<Self> {
        Self::new(inverted(&self.products), self.symmetric)
    }

    /// Simple trade-off functions below this one.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// 1 − f(0).
    pub(crate) fn delta_at_infinity(&self) -> Interval {
        self.errors.widened(Interval::around(self.limits.singular, 1e-14))
    }

    /// δ(ε) = sup_α 1 − f(α) − e^ε α for any real ε.
    ///
    /// # Errors
    /// ε not finite.
    pub(crate) fn delta(&self, epsilon: f64) -> Result<Interval> {
        if epsilon >= 0.0 {
            return self.ask(false, epsilon);
        }
        Ok(mirrored(epsilon, self.ask(true, -epsilon)?))
    }

    /// The smallest ε ≥ 0 with δ(ε) ≤ `delta` where one engine answers, `None` elsewhere: for finite sums, and for factors that are known
    /// by bounds, whose grids serve further questions about δ.
    pub(crate) fn epsilon(&self, delta: f64) -> Option<Result<Interval>> {
        let Errors {
            left_out,
            rounding,
            excess,
        } = self.errors;
        let slack = left_out + delta * rounding;
        // δ of the engine's pairs where that of the curves is no more than `delta`, and where it is no less.
        let safe = (delta - left_out) / (1.0 + rounding) * (1.0 - 4.0 * f64::EPSILON);
        let other = (delta + left_out) / (1.0 - rounding.min(1.0)) * (1.0 + 4.0 * f64::EPSILON);
        if safe <= 0.5 * delta || other >= 1.0 || excess > 0.0 || self.sums[0].is_some() {
            return None;
        }
        let ask = |engine: &mut Composition| {
            let Interval { mut lower, upper } = closely(engine, safe, self.wanted.relative)?;
            if slack > 0.0 {
                lower = closely(engine, other, self.wanted.relative)?.lower;
            }
            Ok(Interval { lower, upper })
        };
        Some(self.forward.with(|| engine(&self.products), ask))
    }

    /// δ at ε ≥ 0 of the pairs or, if `of_inverse`, of their inverses.
    fn ask(&self, of_inverse: bool, epsilon: f64) -> Result<Interval> {
        let backward = self.backward.as_ref().filter(|_| of_inverse);
        let sums = &self.sums[usize::from(backward.is_some())];
        let mut found = Interval { lower: 0.0, upper: 1.0 };
        if let Some(sums) = sums {
            found = sums
                .iter()
                .map(|sum| sum.delta(epsilon))
                .fold(Interval::exact(0.0), Interval::max);
        }
        let width = found.width();
        let is_narrow = width <= NARROW_SUM
            || width <= FEW_STEPS_WIDTH.relative * found.lower
            || (width <= FEW_STEPS_WIDTH.absolute && width <= FEW_STEPS_WIDTH.coarse * found.lower);
        if sums.is_none() || !is_narrow {
            let ask = |engine: &mut Composition| engine.delta_nearby(epsilon, self.wanted);
            let by_engine = match backward {
                Some(backward) => backward.with(|| engine(&inverted(&self.products)), ask),
                None => self.forward.with(|| engine(&self.products), ask),
            }?;
            found = Interval::of_bounds(found.lower.max(by_engine.lower()), found.upper.min(by_engine.upper()))?;
        }
        Ok(self.errors.widened(found))
    }
}

/// Bounds on ε at δ, of about this relative width where the engine attains it.
///
/// Losses that are atoms on no common lattice are composed on grids, of which the search for so narrow an interval spends all of its budget on
/// the first few: the last enclosures are then no better than Chernoff's bound. A search that asks for less ends well.
///
/// # Errors
/// Bounds that contradict each other.
fn closely(engine: &mut Composition, delta: f64, tolerance: f64) -> Result<Interval> {
    let mut found = engine.epsilon(delta, tolerance)?;
    for coarse in COARSE_TOLERANCES {
        if found.width() <= coarse * found.upper {
            break;
        }
        let again = engine.epsilon(delta, coarse)?;
        found = Interval::of_bounds(found.lower.max(again.lower), found.upper.min(again.upper))?;
    }
    Ok(found)
}

/// The width of δ that is aimed at; `excess` is that of the factors that are known by bounds.
fn wanted(products: &[Product], excess: f64) -> PointAccuracy {
    if excess > 0.0 {
        PointAccuracy {
            absolute: BOUNDED_FACTORS_WIDTH.absolute.max(PART_OF_EXCESS * excess),
            ..BOUNDED_FACTORS_WIDTH
        }
    } else if products.iter().any(|product| is_few_steps(product)) {
        FEW_STEPS_WIDTH
    } else {
        NARROW
    }
}

/// The finite sums of all pairs, if all have one.
fn finite_sums(products: &[Product]) -> Option<Vec<LaplaceSum>> {
    let summand = |(factor, count): &(Factor, u64)| {
        let summand = match factor {
            Factor::Laplace { distance } => Summand::Laplace(*distance),
            Factor::Gaussian { distance } => Summand::Gaussian(*distance),
            Factor::EpsilonDelta { .. } | Factor::Polygon(_) => Summand::Outcome(factor.outcome(1.0).ok()?),
            _ => return None,
        };
        Some((summand, *count))
    };
    let sum = |product: &Product| {
        let summands: Option<Vec<(Summand, u64)>> = product.iter().map(summand).collect();
        LaplaceSum::new(&summands?)
    };
    products.iter().map(sum).collect()
}

/// True for a few steps that are not all of Gaussian noise, whose losses are not smooth yet.
fn is_few_steps(product: &[(Factor, u64)]) -> bool {
    let count_of = |chosen: fn(&Factor) -> bool| -> u64 {
        let counts = product
            .iter()
            .filter(|(factor, _)| chosen(factor))
            .map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    };
    let laplace = count_of(|factor| match factor {
        Factor::Laplace { .. } | Factor::SubsampledLaplace { .. } => true,
        Factor::Step { step, .. } => matches!(step.mechanism, Mechanism::Laplace { .. }),
        _ => false,
    });
    let sampled = count_of(|factor| matches!(factor, Factor::SubsampledGaussian { .. }));
    let whole = count_of(|factor| matches!(factor, Factor::Gaussian { .. }));
    let all = count_of(|_| true);
    (laplace == all && (2..FEW_LAPLACE_STEPS).contains(&all))
        || (whole == 0 && sampled > 0 && all < FEW_SAMPLED_STEPS)
}

/// The inverse of each pair.
fn inverted(products: &[Product]) -> Products {
    let inverse = |product: &Product| {
        let factors = product.iter().map(|(factor, count)| (factor.inverted(), *count));
        factors.collect()
    };
    products.iter().map(inverse).collect()
}

/// Gap of the lattice for the factors that are known by bounds: the loss of the largest atom, or 1, over a power of two.
fn lattice_gap(product: &[(Factor, u64)]) -> f64 {
    let variance = |(factor, count): &(Factor, u64)| match factor {
        Factor::Envelope(envelope) => *count as f64 * envelope.variance(),
        _ => 0.0,
    };
    let spread = product.iter().map(variance).sum::<f64>().sqrt();
    let largest_atom = |(factor, _): &(Factor, u64)| match factor {
        Factor::Envelope(envelope) => envelope.largest_atom(),
        _ => (0.0, 0.0),
    };
    let (mass, loss) = product
        .iter()
        .map(largest_atom)
        .fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
    let gap = LOSS_WIDTH * spread / LATTICE_POINTS;
    let base = if mass > MIN_ATOM && loss > gap { loss } else { 1.0 };
    base * (gap / base).log2().ceil().clamp(-60.0, 0.0).exp2()
}

/// The exact engine of the ordered pairs, of which the worst counts.
fn engine(products: &[Product]) -> Result<Composition> {
    let mut directions = Vec::with_capacity(products.len());
    for product in products {
        let gap = lattice_gap(product);
        let mut steps = Vec::with_capacity(product.len());
        let mut adds = false;
        for (factor, count) in product {
            adds |= matches!(
                factor,
                Factor::Step {
                    direction: Some(Direction::Add),
                    ..
                }
            );
            steps.push((factor.outcome(gap)?, *count));
        }
        directions.push(ComposedLoss::new(steps, adds));
    }
    Ok(Composition::of_directions(directions))
}

#[cfg(test)]
mod tests;
