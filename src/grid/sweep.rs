//! The loss of one step as curves to sweep and atoms: which range a grid has to cover, and where its heaviest point lies.

use crate::loss::StepLoss;
use crate::loss::loss_curve::{Support, Sweep};
use crate::loss::smooth_piece::Scratch;

/// Curves of one step at most: each is sampled some thousand times before it is swept.
const MOST_CURVES: usize = 300;

/// The range of the losses of a step that count at tilt c; `None` if they are too many curves for a grid.
pub(crate) fn range(loss: &mut StepLoss, c: f64, log_tolerance: f64) -> Option<(f64, f64)> {
    let Support { sweeps, atoms, .. } = loss.support(c, log_tolerance);
    if sweeps.len() > MOST_CURVES {
        return None;
    }
    let mut scratch = Scratch::default();
    let mut low = atoms.iter().map(|atom| atom.0).fold(f64::INFINITY, f64::min);
    let mut high = atoms.iter().map(|atom| atom.0).fold(f64::NEG_INFINITY, f64::max);
    for sweep in &sweeps {
        low = low.min(sweep.curve.point(sweep.start, &mut scratch).loss);
        high = high.max(sweep.curve.point(sweep.end, &mut scratch).loss);
    }
    Some((low, high))
}

impl Support<'_> {
    /// Where a histogram of width h of the tilted loss is highest: log(P/Q) of what lies there.
    pub(crate) fn heaviest(&self, c: f64, spacing: f64) -> f64 {
        const SAMPLES: usize = 600;
        let mut scratch = Scratch::default();
        let mut points: Vec<(f64, f64)> = self.atoms.clone();
        for sweep in &self.sweeps {
            let width = (sweep.end - sweep.start) / SAMPLES as f64;
            for i in 0..SAMPLES {
                let point = sweep.curve.point(sweep.start + (i as f64 + 0.5) * width, &mut scratch);
                points.push((point.loss, point.log_density + width.ln()));
            }
        }
        let largest = points.iter().map(|(l, w)| w + c * l).fold(f64::NEG_INFINITY, f64::max);
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let weight = |point: &(f64, f64)| (point.1 + c * point.0 - largest).exp();
        let (mut best, mut best_start, mut start, mut sum) = (0.0, 0, 0, 0.0);
        let mut best_end = 0;
        for end in 0..points.len() {
            sum += weight(&points[end]);
            while points[end].0 - points[start].0 > 0.5 * spacing {
                sum -= weight(&points[start]);
                start += 1;
            }
            if sum > best {
                (best, best_start, best_end) = (sum, start, end);
            }
        }
        let chosen = &points[best_start..=best_end.min(points.len().saturating_sub(1))];
        let base = chosen.first().map_or(0.0, |point| point.0);
        // log of Σp/Σp·e^{−ℓ}
        let mass: f64 = chosen.iter().map(|p| (p.1 - largest).exp()).sum();
        let missing: f64 = chosen
            .iter()
            .map(|p| (p.1 - largest).exp() * -(base - p.0).exp_m1())
            .sum();
        if mass > 0.0 {
            base - (-(missing / mass)).ln_1p()
        } else {
            base
        }
    }
}

impl Sweep<'_> {
    /// Where the loss of a curve passes `level`, within the curve's interval.
    pub(crate) fn boundary(&self, level: f64, scratch: &mut Scratch) -> f64 {
        let (mut low, mut high) = (self.start, self.end);
        if self.curve.point(low, scratch).loss >= level {
            return low;
        }
        let mut x = 0.5 * (low + high);
        for _ in 0..200 {
            let point = self.curve.point(x, scratch);
            if point.loss < level {
                low = x;
            } else {
                high = x;
            }
            let newton = x - (point.loss - level) / point.slope;
            let next = if newton > low && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            if next == x || high - low <= f64::EPSILON * high.abs() {
                return next;
            }
            x = next;
        }
        x
    }
}
