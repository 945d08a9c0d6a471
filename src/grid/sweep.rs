//! The loss of one step as curves to sweep and atoms: which range a grid has to cover, and where its heaviest point lies.

use crate::loss::StepLoss;
use crate::loss::loss_curve::{Support, Sweep};
use crate::loss::smooth_piece::Scratch;
use crate::special::root::newton_increasing;

/// Maximum number of curves of one step: each is sampled some thousand times before it is swept.
const MOST_CURVES: usize = 300;

/// The range of the losses of a step that count at tilt c; `None` if they are too many curves for a grid.
pub(crate) fn range(loss: &mut StepLoss, c: f64, log_tolerance: f64) -> Option<(f64, f64)> {
    let Support {
        sweeps, atoms, fine, ..
    } = loss.support(c, log_tolerance);
    if let Some(fine) = fine {
        return Some(fine.range());
    }
    if sweeps.len() > MOST_CURVES {
        return None;
    }
    let mut scratch = Scratch::default();
    let mut low = atoms.iter().map(|atom| atom.loss).fold(f64::INFINITY, f64::min);
    let mut high = atoms.iter().map(|atom| atom.loss).fold(f64::NEG_INFINITY, f64::max);
    for sweep in &sweeps {
        low = low.min(sweep.curve.point(sweep.start, &mut scratch).loss);
        high = high.max(sweep.curve.point(sweep.end, &mut scratch).loss);
    }
    Some((low, high))
}

impl Support<'_> {
    /// The loss at which a histogram of the tilted loss, of width h, is highest: the log(P/Q) of the mass there.
    pub(crate) fn heaviest(&self, c: f64, spacing: f64) -> f64 {
        const SAMPLES: usize = 600;
        let mut scratch = Scratch::default();
        let mut points: Vec<(f64, f64)> = self.atoms.iter().map(|atom| (atom.loss, atom.log_mass)).collect();
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
    /// The place at which the loss of a curve passes `level`, within the curve's interval.
    pub(crate) fn boundary(&self, level: f64, scratch: &mut Scratch) -> f64 {
        if self.curve.point(self.start, scratch).loss >= level {
            return self.start;
        }
        newton_increasing((self.start, self.end), f64::EPSILON, 0.0, |x| {
            let point = self.curve.point(x, scratch);
            (point.loss - level, point.slope)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::normal::log_upper_tail;
    use crate::step::{Direction, GroupLaw};

    fn sampled_gaussian(rate: f64, sigma: f64) -> StepLoss {
        let law = GroupLaw::binomial(1, rate).unwrap();
        StepLoss::mixture(&law, sigma, Direction::Remove).unwrap().unwrap()
    }

    #[test]
    fn a_boundary_is_where_the_loss_passes_the_level() {
        let mut loss = sampled_gaussian(0.1, 0.8);
        let support = loss.support(1.0, -40.0);
        let sweep = &support.sweeps[0];
        for level in [-0.1, -1e-3, 0.0, 0.7, 5.0] {
            // ℓ(x) = log(1 − q + q·e^{(2x − 1)/2σ²})
            let exact = 0.5 + 0.64 * ((f64::exp(level) - 0.9) / 0.1).ln();
            let found = sweep.boundary(level, &mut Scratch::default());
            assert!(
                (found - exact).abs() < 1e-12 * (1.0 + exact.abs()),
                "{level}: {found} {exact}"
            );
        }
        // Below all losses that is the start of the interval.
        assert_eq!(sweep.boundary(-1.0, &mut Scratch::default()), sweep.start);
    }

    #[test]
    fn the_mass_outside_of_a_gaussian_is_bounded_and_nearly_attained() {
        for (distance, c) in [(1.0, 0.0), (0.1, 30.0), (5.0, 2.0)] {
            let mut loss = StepLoss::shift(distance);
            let support = loss.support(c, -40.0);
            let sweep = &support.sweeps[0];
            // The coordinate is N(cμ, 1) under the tilted law.
            let centre = c * distance;
            let outside = log_upper_tail(sweep.end - centre).exp() + log_upper_tail(centre - sweep.start).exp();
            assert!(
                outside <= support.outside && support.outside < 6.0 * outside,
                "{outside} {}",
                support.outside
            );
        }
    }

    #[test]
    fn the_mass_outside_of_a_sampled_gaussian_is_bounded() {
        for log_tolerance in [-10.0, -20.0] {
            let mut loss = sampled_gaussian(0.1, 0.8);
            let support = loss.support(0.0, log_tolerance);
            let sweep = &support.sweeps[0];
            let above = |x: f64, mean: f64| log_upper_tail((x - mean) / 0.8).exp();
            let tails = |mean: f64| above(sweep.end, mean) + log_upper_tail((mean - sweep.start) / 0.8).exp();
            let outside = 0.9 * tails(0.0) + 0.1 * tails(1.0);
            assert!(
                outside <= support.outside.max(f64::exp(log_tolerance)),
                "{outside} {}",
                support.outside
            );
        }
    }

    #[test]
    fn the_range_holds_all_losses_of_the_support() {
        let law = GroupLaw::binomial(2, 0.3).unwrap();
        let mut loss = StepLoss::laplace(&law, 2.0, Direction::Remove).unwrap();
        // Losses of Laplace noise lie between those of the outermost outputs: log E[e^{±s/b}].
        let moment = |sign: f64| ((0.7 + 0.3 * f64::exp(sign * 0.5)).powi(2)).ln();
        let (low, high) = range(&mut loss, 0.0, -40.0).unwrap();
        assert!(
            (low - moment(-1.0)).abs() < 1e-14 && (high - moment(1.0)).abs() < 1e-14,
            "{low} {high}"
        );
    }

    #[test]
    fn the_heaviest_point_is_the_atom_or_the_mode() {
        let mut loss = StepLoss::gaussians(vec![0.2f64.ln(), 0.8f64.ln()], vec![0.0, 1.0]);
        assert_eq!(loss.support(0.0, -40.0).heaviest(0.0, 1e-3), 0.0);
        // N(μ²/2·(2c + 1), μ²) has its mode in the middle; the samples are 0.03 apart.
        let mut loss = StepLoss::shift(1.0);
        let found = loss.support(1.0, -40.0).heaviest(1.0, 0.1);
        assert!((found - 1.5).abs() < 0.1, "{found}");
    }
}
