//! Runs whose steps are in clusters of losses beside a density: few steps of Laplace noise.
//!
//! The transform of such a run hardly decays: with some probability every step has the loss of an atom, or one next to it, and with some all steps but
//! one. δ of these runs is nearly in closed form ([`closed_form`]). With A the transform of the clusters of a step and D = φ − A that of its
//! other outputs, the other runs have the transform
//!
//! > Π φ^T − Π A^T·(1 + Σ T·D/A),
//!
//! that of a positive measure below the law of all runs, so that aliasing is bounded as in [`crate::inversion::contour`]. With a and d bounds on
//! |A| and |D| it is at most the remainder of Π (a + s·d)^T at s = 1 beyond its linear part, and as the second derivative grows with s, at most
//!
//! > ½·Π (a + d)^T·((Σ T·ρ)² − Σ T·ρ²), ρ = d/(a + d).
//!
//! As D falls like 1/y this falls like 1/y², and the integral beyond the last point like 1/y³ (`docs/theory/inversion.md`, Proposition 12).

pub(super) mod closed_form;
mod sums;

use crate::approx::Approx;
use crate::inversion::cluster_runs::closed_form::{ClusterRuns, few_kinds};
use crate::inversion::contour::{COST_OF_POINT, Contour, ContourPoint, Limits, Line, MAX_POINTS, max_points};
use crate::inversion::contour_sum::ContourSum;
use crate::inversion::segment::{ApproxSum, Segment};
use crate::inversion::tilt::Tilt;
use crate::loss::clusters::BesideClusters;
use crate::loss::privacy_loss::TiltedLoss;
use crate::special::root::bisect;
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;
use std::convert::Infallible;
use std::f64::consts::PI;

/// Products of nodes in x and points in y that a contour may cost, some 45 ms of them: the grid that is left otherwise takes longer.
const MOST_PRODUCTS: f64 = 1.5e8;
/// How many times more points a contour of all runs may take than one of the runs without a closed form, which takes sums over counts besides.
const TIMES_MORE: f64 = 2.0;
/// Points of a contour at least. Where nearly all runs have a closed form, no point at all is needed.
const FEWEST_POINTS: f64 = 4.0;
/// Rounds of bisection for the last point.
const ROUNDS: usize = 8;
/// Nodes of a rule for each turn of e^{iyℓ}, about, and the cost of one in products of nodes in x and points in y: that of its density and of its
/// part of a transform.
const NODES_OF_TURN: f64 = 2.0;
const PRODUCTS_OF_NODE: f64 = 800.0;
/// Steps of one kind up to which the transform is a sum over the number of steps in no cluster.
const FEW_TERMS: f64 = 32.0;
/// log of the factor by which rounding may be below the errors that are asked for.
const LOG_MARGIN: f64 = 1.0;

/// The square of the width of clusters, times c and over the errors that are asked for, with one step: about what they are off by.
const SQUARED_WIDTH: f64 = 100.0;
/// How many times wider clusters are that are tried where a contour beside narrow ones would take too many points.
const WIDER: f64 = 8.0;
/// Widest clusters, times c.
const WIDEST: f64 = 0.01;

/// Contours of all runs at a tilt, or of those that have no closed form where that takes far fewer points. Errors of e^`log_tolerance` of δ are asked
/// for.
pub(crate) fn contours(
    segments: &mut [Segment],
    tilt: &Tilt,
    log_tolerance: f64,
    limits: Limits,
) -> Option<ContourSum> {
    let steps: f64 = segments.iter().map(|segment| segment.steps).sum();
    let width = (SQUARED_WIDTH * log_tolerance.exp() / steps).sqrt().min(WIDEST) / tilt.c;
    let mut widths = vec![width, WIDER * width, 0.0];
    widths.retain(|&width| tilt.c > 0.0 && few_kinds(segments, width).is_some());
    let found = if widths.is_empty() {
        None
    } else {
        Steps::new(segments, tilt).and_then(|mut steps| steps.choice(&widths, tilt))
    };
    let is_left_to_all = found.is_none_or(|choice| choice.is_as_short);
    let of_all = is_left_to_all.then(|| Contour::new(segments, tilt, limits)).flatten();
    if let Some(contour) = of_all {
        return Some(ContourSum::from(contour));
    }
    let Choice { width, reach, .. } = found?;
    let contour = Steps::new(segments, tilt)?.contour(width, tilt, reach)?;
    Some(ContourSum::from(contour).with_closed_form(ClusterRuns::new(segments, width)?))
}

/// Where the transform of the runs without a closed form has decayed, with clusters of some width.
#[derive(Debug, Clone, Copy)]
struct Choice {
    width: f64,
    reach: f64,
    /// Whether that of all runs has decayed hardly later.
    is_as_short: bool,
}

/// The tilted loss of a step, and how often it is added.
struct Step<'a> {
    tilted: Box<dyn TiltedLoss + 'a>,
    steps: f64,
    /// The largest loss less the smallest one.
    range: f64,
}

/// All steps at one tilt.
struct Steps<'a>(Vec<Step<'a>>);

impl<'a> Steps<'a> {
    /// `None` where the clusters of a loss are not told apart.
    fn new(segments: &'a mut [Segment], tilt: &Tilt) -> Option<Self> {
        let kinds = segments.len() as f64;
        let step = |segment: &'a mut Segment| {
            let steps = segment.steps;
            let losses = segment.loss.clusters(0.0)?.into_iter().map(|cluster| cluster.losses);
            let range = losses
                .clone()
                .fold(f64::NEG_INFINITY, |most, loss| most.max(loss.upper))
                - losses.fold(f64::INFINITY, |least, loss| least.min(loss.lower));
            let log_tolerance = -tilt.level - (steps * kinds).ln() - LOG_MARGIN;
            let tilted = segment.loss.tilted(tilt.c, log_tolerance);
            Some(Step { tilted, steps, range })
        };
        segments.iter_mut().map(step).collect::<Option<_>>().map(Self)
    }

    /// What all steps have beside clusters of some width.
    fn beside(&self, width: f64) -> Option<Beside> {
        let of = |step: &Step<'_>| Some((step.steps, step.tilted.beside_clusters(width)?));
        self.0.iter().map(of).collect::<Option<_>>().map(Beside)
    }

    /// The first of some widths with which a contour is within the limits of what it may cost.
    fn choice(&mut self, widths: &[f64], tilt: &Tilt) -> Option<Choice> {
        let (width, reach) = widths.iter().find_map(|&width| {
            let reach = self.reach(&self.beside(width)?, tilt)?;
            Some((width, reach))
        })?;
        let far = TIMES_MORE * reach;
        let of_all: f64 = self
            .0
            .iter_mut()
            .map(|step| step.steps * step.tilted.log_decay(far))
            .sum();
        Some(Choice {
            width,
            reach,
            is_as_short: of_all <= log_enough(far, tilt),
        })
    }

    /// Where the transform has decayed, to a tenth; `None` beyond the limits of what a contour may cost. The bound is flat before it falls, so that its
    /// slope says nothing.
    fn reach(&self, beside: &Beside, tilt: &Tilt) -> Option<f64> {
        let spacing = 2.0 * PI / tilt.period;
        let most = max_points(MOST_PRODUCTS, self.size()).min(MAX_POINTS) * spacing;
        let is_enough = |reach: f64| beside.log_decay(reach) <= log_enough(reach, tilt);
        let mut reach = FEWEST_POINTS * spacing;
        if is_enough(reach) {
            return Some(reach);
        }
        while !is_enough(reach) {
            if reach > most {
                return None;
            }
            reach *= 2.0;
        }
        let Ok(found) = bisect(
            (0.5 * reach, reach),
            ROUNDS,
            |high| 0.1 * high,
            |reach| Ok::<_, Infallible>(is_enough(reach)),
        );
        // Losses far below the largest need no nodes: e^{cℓ} is below all errors there.
        let losses: f64 = self.0.iter().map(|step| step.range.min(tilt.level / tilt.c)).sum();
        let nodes = NODES_OF_TURN * found * losses / (2.0 * PI);
        (found <= most && nodes * PRODUCTS_OF_NODE <= MOST_PRODUCTS).then_some(found)
    }

    /// Cost of a point: of both transforms, of powers, and of their errors.
    fn size(&self) -> usize {
        let of = |step: &Step<'_>| 2 * (step.tilted.size() + COST_OF_POINT);
        self.0.iter().map(of).sum()
    }

    /// The contour of the runs without a closed form.
    fn contour(mut self, width: f64, tilt: &Tilt, reach: f64) -> Option<Contour> {
        let spacing = 2.0 * PI / tilt.period;
        let last = (reach / spacing).ceil().max(2.0) as usize;
        let decayed = self.beside(width)?.log_decay(reach).exp();
        let size = self.size();
        let mut log_moment = ApproxSum::default();
        let mut transforms = Vec::with_capacity(self.0.len());
        for step in &mut self.0 {
            checkpoint();
            log_moment.add(step.tilted.moments().log_moment.times(step.steps));
            transforms.push((step.steps, step.tilted.transforms_by_clusters(width, spacing, last)?));
        }
        let points = (0..=last).map(|j| match transforms.as_slice() {
            [(steps, of_step)] if *steps <= FEW_TERMS => rest_of_power(of_step[j], *steps as usize),
            all => {
                let mut powers = Powers::default();
                for (steps, of_step) in all {
                    powers.multiply(of_step[j], *steps);
                }
                powers.rest()
            }
        });
        let line = Line {
            c: tilt.c,
            log_moment: log_moment.value(),
            spacing,
            decayed,
            left_out: Vec::new(),
            size,
        };
        Some(Contour::through(line, tilt, points.map(ContourPoint::of).collect()))
    }
}

/// log of a bound on a transform from `reach` on that leaves as little as is asked for beyond it.
fn log_enough(reach: f64, tilt: &Tilt) -> f64 {
    (PI * reach).ln() - tilt.level
}

/// T, and what a step has beside clusters, for all kinds of steps.
struct Beside(Vec<(f64, BesideClusters)>);

impl Beside {
    /// log of the bound on the transform of the runs without a closed form, for all |Im z| ≥ y.
    fn log_decay(&self, y: f64) -> f64 {
        let of = |(steps, beside): &(f64, BesideClusters)| (*steps, beside.mass_of_clusters, beside.decay(y));
        log_remainder(self.0.iter().map(of))
    }
}

/// log of the bound on what Π (a + d)^T has beyond its part that is linear in the d, from T, a and d of each step.
fn log_remainder(parts: impl Iterator<Item = (f64, f64, f64)>) -> f64 {
    /// Room for the rounding of sums and logarithms.
    const ROOM: f64 = 1e-12;
    let (mut log_product, mut first, mut second, mut count) = (0.0, 0.0, 0.0, 0.0);
    for (steps, clusters, beside) in parts {
        count += steps;
        let whole = clusters + beside;
        let share = beside / whole;
        log_product += steps * whole.ln();
        first += steps * share;
        second += steps * share * share;
    }
    let pairs: f64 = first * first * (1.0 + ROOM) - second;
    log_product + (0.5 * pairs).ln() + ROOM * (1.0 + count + log_product.abs())
}

/// Products of powers over all steps at one y.
#[derive(Debug, Clone, Copy)]
struct Powers {
    /// Π (A + D)^T.
    all: Approx<Complex64>,
    /// Π A^T.
    clusters: Approx<Complex64>,
    /// Σ T·D·A^{T − 1}·Π A^T, the product over the other kinds of steps.
    all_but_one: Approx<Complex64>,
}

impl Default for Powers {
    fn default() -> Self {
        let one = Approx::exact(Complex64::from(1.0));
        Self {
            all: one,
            clusters: one,
            all_but_one: Approx::default(),
        }
    }
}

impl Powers {
    /// Multiplies by `steps` steps with A = `clusters` and D = `beside`.
    fn multiply(&mut self, [clusters, beside]: [Approx<Complex64>; 2], steps: f64) {
        let mut whole = clusters + beside;
        whole.error += f64::EPSILON * whole.value.norm();
        self.all = product(self.all, power(whole, steps));
        let one_less = power(clusters, steps - 1.0);
        let of_clusters = product(one_less, clusters);
        let here = product(product(beside, one_less), self.clusters);
        let here = Approx::new(steps * here.value, steps * here.error);
        self.all_but_one = here + product(self.all_but_one, of_clusters);
        self.clusters = product(self.clusters, of_clusters);
    }

    /// The transform of the runs without a closed form, by the difference.
    fn rest(self) -> Approx<Complex64> {
        let closed = self.clusters + self.all_but_one;
        let mut difference = self.all - closed;
        let size = self.all.value.norm() + self.clusters.value.norm() + self.all_but_one.value.norm();
        difference.error += 4.0 * f64::EPSILON * size;
        difference
    }
}

/// Σ_{m ≥ 2} C(T, m)·A^{T − m}·D^m, the transform for steps of one kind: the difference of powers lacks the digits that its terms have.
fn rest_of_power([a, d]: [Approx<Complex64>; 2], steps: usize) -> Approx<Complex64> {
    let (size_a, size_d) = (a.value.norm(), d.value.norm());
    let (mut value, mut size, mut largest) = (Complex64::default(), 0.0, 0.0);
    // By Horner's rule in D, with the powers of A: C(T, m + 1) = C(T, m)·(T − m)/(m + 1).
    let (mut power, mut power_size, mut power_largest) = (Complex64::from(1.0), 1.0, 1.0);
    let mut binomial = 1.0;
    for m in (2..=steps).rev() {
        value = value * d.value + binomial * power;
        size = size * size_d + binomial * power_size;
        largest = largest * (size_d + d.error) + binomial * power_largest;
        power *= a.value;
        power_size *= size_a;
        power_largest *= size_a + a.error;
        binomial *= m as f64 / (steps - m + 1) as f64;
    }
    let square = d.value * d.value;
    let (size, largest) = (size * size_d * size_d, largest * (size_d + d.error).powi(2));
    // The difference of the two is the error, and has their rounding.
    let rounding = f64::EPSILON * (8.0 * steps as f64 + 16.0) * largest;
    Approx::new(value * square, (largest - size).max(0.0) + rounding)
}

/// The power with an exponent of at least 0, with its rounding: of the logarithm and the angle, times the exponent.
fn power(base: Approx<Complex64>, exponent: f64) -> Approx<Complex64> {
    if exponent == 0.0 {
        return Approx::exact(Complex64::from(1.0));
    }
    let (size, angle) = base.value.to_polar();
    let log = exponent * size.ln();
    let modulus = log.exp();
    let rounding = f64::EPSILON * (4.0 + 2.0 * exponent * (1.0 + size.ln().abs().min(1e3) + angle.abs()));
    let growth = exponent * (base.error / size).ln_1p();
    // (|a| + e)^T − |a|^T, by the logarithm where that keeps the difference.
    let error = if growth < 1.0 {
        modulus * growth.exp_m1()
    } else {
        (size + base.error).powf(exponent) * (1.0 + rounding)
    };
    let value = Complex64::from_polar(modulus, exponent * angle);
    Approx::new(value, error + modulus * rounding)
}

/// The product of two numbers, with its rounding.
fn product(a: Approx<Complex64>, b: Approx<Complex64>) -> Approx<Complex64> {
    let value = a.value * b.value;
    let (of_a, of_b) = (a.value.norm(), b.value.norm());
    Approx::new(
        value,
        of_a * b.error + of_b * a.error + a.error * b.error + 4.0 * f64::EPSILON * of_a * of_b,
    )
}

#[cfg(test)]
mod tests;
