//! The atoms of an epoch tilted by e^{cℓ}, and moments of the loss from a few thousand cells of them.

use super::epoch::Epoch;
use crate::approx::Approx;
use crate::loss::lattice::sum::{REACH, TiltedLaw};
use crate::loss::loss_curve::FineAtoms;
use crate::loss::privacy_loss::TiltedMoments;
use crate::step::Direction;

/// Ends of the range of places that is used, in standard deviations from the mean. The nearer, the more is outside; the farther, the more
/// the errors of masses grow there if records are added, as W'^{−c} is convex.
const ENDS: [f64; 10] = [5.5, 6.5, 7.5, 9.0, REACH, 14.0, 18.0, 24.0, 32.0, f64::INFINITY];
/// Rounding of logarithms and exponentials in a tilted mass, relative, over the size of the exponents.
const ROUNDING: f64 = 8.0 * f64::EPSILON;
/// Cells of equal width in the loss from which moments are computed: they widen its interval by a part of 1e-5 or so.
const CELLS: usize = 4096;

/// The loss of an epoch under P for one direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tilt {
    pub(super) direction: Direction,
    /// c.
    pub(super) c: f64,
}

impl Tilt {
    /// The exponent of W' in e^{cℓ} under P, as an expectation under Q.
    pub(super) fn exponent(self) -> f64 {
        match self.direction {
            Direction::Remove => 1.0 + self.c,
            Direction::Add => -self.c,
        }
    }
}

/// The range of places that is used, and the bound on what is outside it, over e^`log_scale`.
struct Used {
    first: usize,
    last: usize,
    outside: f64,
}

/// The atoms of the epoch under a tilt, by the law of the sum under a tilt nearby; their masses sum to 1.
pub(super) fn atoms(epoch: &Epoch, law: &TiltedLaw, tilt: Tilt) -> FineAtoms {
    let exponent = tilt.exponent();
    let center = epoch.log_ratio(law.mean);
    let change = |place: f64, log_ratio: f64| exponent * (log_ratio - center) - law.tilt * (place - law.mean);
    let log_scale = law.log_scale - law.tilt * law.mean + exponent * center;
    let contracted = |place: f64| epoch.log_contracted(place, epoch.batch.contraction);
    let used = used(epoch, law, exponent, log_scale, |place| {
        change(place, epoch.log_ratio(place)).max(change(place, contracted(place)))
    });
    let sign = tilt.direction.sign();
    let number = used.last - used.first + 1;
    let mut found = FineAtoms {
        log_scale,
        upper: Vec::with_capacity(number),
        lower: Vec::with_capacity(number),
        error: 0.0,
    };
    // Losses of the upper law are moved up by their error, and those of the lower one down: at the same probabilities under P that makes the
    // curve of the one larger, and that of the other smaller, also of sums of losses.
    let loss_error = epoch.log_error(law.first + used.first as f64, law.first + used.last as f64);
    // The errors of masses are multiplied by at most e^this, in either law.
    let mut largest = f64::NEG_INFINITY;
    for (i, mass) in law.masses[used.first..=used.last].iter().enumerate() {
        let place = law.first + (used.first + i) as f64;
        let (ratio, below) = (epoch.log_ratio(place), contracted(place));
        let (above, under) = (change(place, ratio), change(place, below));
        largest = largest.max(above).max(under);
        found.upper.push((sign * ratio + loss_error, mass * above.exp()));
        found.lower.push((sign * below - loss_error, mass * under.exp()));
    }
    found.error = law.error * largest.exp() + used.outside;
    if tilt.direction == Direction::Add {
        found.upper.reverse();
        found.lower.reverse();
    }
    let sum: f64 = found.upper.iter().map(|(_, mass)| mass).sum();
    let exponents = 1.0
        + exponent.abs() * center.abs()
        + (law.tilt * law.mean).abs()
        + law.log_scale.abs()
        + REACH * REACH
        + largest.max(0.0);
    // Exponents are off by the error of a logarithm, and tilts by e^{cℓ} are those of the losses that were moved.
    let of_losses = 2.0 * (1.0 + exponent.abs()) * loss_error;
    found.error += sum * (law.relative_error + ROUNDING * exponents + of_losses);
    found.normalise(sum);
    found
}

/// The range for which the bound on all errors is smallest: each end on its own, as the errors of masses matter most at an end, if anywhere.
fn used(epoch: &Epoch, law: &TiltedLaw, exponent: f64, log_scale: f64, change: impl Fn(f64) -> f64) -> Used {
    let last = (law.masses.len() - 1) as f64;
    let middle = law.mean - law.first;
    let best = |above: bool| {
        let sign = if above { 1.0 } else { -1.0 };
        let of = |distance: f64| {
            let end = (middle + sign * distance * law.deviation).clamp(0.0, last);
            let end = if above { end.ceil() } else { end.floor() };
            let log_outside = epoch.log_beyond(exponent, law.first + end + sign, above, law) - log_scale;
            let outside = log_outside.exp();
            (end, outside, law.error * change(law.first + end).exp() + outside)
        };
        let found = ENDS.into_iter().map(of);
        found
            .min_by(|a, b| a.2.total_cmp(&b.2))
            .map_or((middle, f64::INFINITY), |(end, outside, _)| (end, outside))
    };
    let (low, high) = (best(false), best(true));
    Used {
        first: low.0 as usize,
        last: high.0 as usize,
        outside: low.1 + high.1,
    }
}

/// Moments of the loss under tilts near one, from cells of equal width in the loss.
#[derive(Debug)]
pub(super) struct Cells {
    /// The tilt at which masses are kept.
    c: f64,
    log_scale: f64,
    error: f64,
    /// The smallest loss, and the width of a cell.
    start: f64,
    width: f64,
    /// Masses of the upper law at the ends of the cells; and what is merged next to each end: losses and masses.
    upper: Vec<f64>,
    merged: Vec<(f64, f64)>,
}

impl Cells {
    /// The cells of atoms that are tilted by c.
    pub(super) fn new(atoms: &FineAtoms, c: f64) -> Self {
        let (low, high) = atoms.range();
        let width = ((high - low) / CELLS as f64).max(f64::MIN_POSITIVE);
        let place = |loss: f64| ((loss - low) / width).clamp(0.0, CELLS as f64 - 1.0).floor() as usize;
        let mut upper = vec![0.0; CELLS + 2];
        for &(loss, mass) in &atoms.upper {
            let i = place(loss);
            let above = (loss - low - i as f64 * width).max(0.0);
            let fraction = ((-above).exp_m1() / (-width).exp_m1()).min(1.0);
            let mass = mass * (-c * above).exp();
            upper[i] += mass * (1.0 - fraction);
            upper[i + 1] += mass * fraction * (c * width).exp();
        }
        // P's and Q's part of what is merged at each point, as if untilted there.
        let mut parts = vec![(0.0, 0.0); CELLS + 2];
        for &(loss, mass) in &atoms.lower {
            let i = ((loss - low) / width).round().clamp(0.0, CELLS as f64) as usize;
            let above = loss - low - i as f64 * width;
            let mass = mass * (-c * above).exp();
            parts[i].0 += mass;
            parts[i].1 += mass * (-above).exp();
        }
        let merge = |(i, (p, q)): (usize, &(f64, f64))| {
            let offset = (p / q).ln();
            (low + i as f64 * width + offset, p * (c * offset).exp())
        };
        let merged = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.0 > 0.0)
            .map(merge)
            .collect();
        Self {
            c,
            log_scale: atoms.log_scale,
            error: atoms.error,
            start: low,
            width,
            upper,
            merged,
        }
    }

    /// K(c), mean and variance: the upper law spreads what the merged one joins, by twice as much, so that K is next to a third of the one
    /// and two thirds of the other; it is between both, in either order, as spreading lowers moments of W' of an order between 0 and 1.
    pub(super) fn moments(&self, c: f64) -> TiltedMoments {
        let change = c - self.c;
        let reference = self.start + 0.5 * self.width * CELLS as f64;
        let (mut sum, mut first, mut second) = (0.0, 0.0, 0.0);
        for (i, mass) in self.upper.iter().enumerate() {
            let loss = self.start + i as f64 * self.width - reference;
            let weight = mass * (change * loss).exp();
            sum += weight;
            first += weight * loss;
            second += weight * loss * loss;
        }
        let merged: f64 = self
            .merged
            .iter()
            .map(|(loss, mass)| mass * (change * (loss - reference)).exp())
            .sum();
        let farthest = (change * 0.5 * self.width * CELLS as f64).abs();
        let error = self.error * farthest.exp() + 1e-13 * sum;
        let log_scale = self.log_scale + change * reference;
        // The true moment is between both sums, in either order, and both are off by at most the error.
        let value = (2.0 * merged.ln() + sum.ln()) / 3.0;
        let (largest, smallest) = (sum.max(merged) + error, (sum.min(merged) - error).max(0.0));
        let distance = (largest.ln() - value).max(value - smallest.ln());
        let mean = first / sum;
        TiltedMoments {
            log_moment: Approx::new(
                log_scale + value,
                distance + 16.0 * f64::EPSILON * (1.0 + log_scale.abs()),
            ),
            mean: mean + reference,
            variance: (second / sum - mean * mean).max(0.0),
        }
    }
}
