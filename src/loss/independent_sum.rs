//! The privacy loss of a step with several independent outputs, all of which are seen: the sum of their losses.
//!
//! A run is such a sum already. It is needed inside of a step whose pair is one of several, each with outputs of its own
//! ([`crate::loss::public_outcome`]): moments and characteristic functions of the parts are multiplied.

use crate::approx::Approx;
use crate::loss::max_loss::MaxLoss;
use crate::loss::privacy_loss::{PrivacyLoss, StepLoss, TiltedLoss, TiltedMoments};
use crate::special::log_space::LogSum;
use realfft::num_complex::Complex64;

/// Roundings of one product of changes, in units of the last place.
const PRODUCT_ROUNDINGS: f64 = 8.0;

/// The sum of independent losses.
#[derive(Debug)]
pub(crate) struct IndependentSum {
    parts: Vec<StepLoss>,
}

impl StepLoss {
    /// The loss of independent outputs with these losses, all of which are seen.
    pub(crate) fn independent_sum(mut parts: Vec<Self>) -> Self {
        if parts.len() == 1
            && let Some(only) = parts.pop()
        {
            return only;
        }
        Self::new(IndependentSum { parts })
    }
}

/// Moments of a sum: log moments, means and variances add up.
fn total(parts: impl Iterator<Item = TiltedMoments>) -> TiltedMoments {
    let mut sum = TiltedMoments {
        log_moment: Approx::exact(0.0),
        mean: 0.0,
        variance: 0.0,
    };
    let mut size = 0.0;
    for part in parts {
        sum.log_moment += part.log_moment;
        sum.mean += part.mean;
        sum.variance += part.variance;
        size += part.log_moment.value.abs();
    }
    sum.log_moment.error += f64::EPSILON * PRODUCT_ROUNDINGS * size;
    sum
}

impl PrivacyLoss for IndependentSum {
    fn moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        total(self.parts.iter_mut().map(|part| part.moments(c, log_tolerance)))
    }

    fn estimated_moments(&mut self, c: f64, log_tolerance: f64) -> TiltedMoments {
        total(
            self.parts
                .iter_mut()
                .map(|part| part.estimated_moments(c, log_tolerance)),
        )
    }

    fn log_moment_above(&mut self, c: f64, log_tolerance: f64) -> f64 {
        let parts = self.parts.iter_mut();
        let sum: f64 = parts.map(|part| part.log_moment_above(c, log_tolerance)).sum();
        sum * (1.0 + PRODUCT_ROUNDINGS * f64::EPSILON * self.parts.len() as f64)
    }

    fn is_better_whole(&self) -> bool {
        self.parts.iter().any(|part| part.is_better_whole())
    }

    fn has_transform(&self) -> bool {
        self.parts.iter().all(|part| part.has_transform())
    }

    fn has_cheap_moments(&self) -> bool {
        self.parts.iter().all(|part| part.has_cheap_moments())
    }

    fn tilted(&mut self, c: f64, log_tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        let parts = self.parts.iter_mut();
        Box::new(TiltedSum {
            parts: parts.map(|part| part.tilted(c, log_tolerance)).collect(),
        })
    }

    fn has_closed_form(&self) -> bool {
        false
    }

    fn truncated(&self, log_mass: f64, steps: f64) -> (StepLoss, f64) {
        let allowed = log_mass - (self.parts.len() as f64).ln();
        // Of logarithms, as what is lost may be too little for an f64.
        let (mut parts, mut lost) = (Vec::new(), LogSum::default());
        for part in &self.parts {
            let (kept, log_lost) = part.truncated(allowed, steps);
            parts.push(kept);
            lost.add(log_lost);
        }
        let log = lost.ln();
        let rounding = if log.is_finite() {
            f64::EPSILON * (self.parts.len() as f64 + 4.0 * (1.0 + log.abs()))
        } else {
            0.0
        };
        (StepLoss::new(Self { parts }), log + rounding)
    }

    fn density_terms(&self) -> usize {
        self.parts.iter().map(|part| part.density_terms()).sum()
    }

    fn work(&self) -> u64 {
        self.parts.iter().map(|part| part.work()).sum()
    }

    fn max_loss(&self) -> MaxLoss {
        MaxLoss::sum(self.parts.iter().map(|part| (1.0, part.max_loss())))
    }

    /// Gaussian steps add up to one whose squared distance is the sum of theirs.
    fn widest_distance(&self) -> Option<f64> {
        let squares: Option<Vec<f64>> = self
            .parts
            .iter()
            .map(|part| part.widest_distance().map(|distance| distance * distance))
            .collect();
        squares.map(|squares| squares.iter().sum::<f64>().sqrt() * (1.0 + 1e-14))
    }
}

/// The sum tilted by e^{cℓ}: a sum of tilted losses.
struct TiltedSum<'a> {
    parts: Vec<Box<dyn TiltedLoss + 'a>>,
}

impl TiltedLoss for TiltedSum<'_> {
    fn moments(&self) -> TiltedMoments {
        total(self.parts.iter().map(|part| part.moments()))
    }

    fn size(&self) -> usize {
        self.parts.iter().map(|part| part.size()).sum()
    }

    fn certify(&mut self, reach: f64) {
        self.parts.iter_mut().for_each(|part| part.certify(reach));
    }

    /// Each φ_i is at most 1, but for its own error.
    fn quadrature_error(&self) -> f64 {
        let errors = self.parts.iter().map(|part| part.quadrature_error().ln_1p());
        errors.sum::<f64>().exp_m1() * (1.0 + 1e-12)
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        self.parts.iter_mut().map(|part| part.log_decay(y)).sum()
    }

    fn best_log_decay(&mut self, y: f64, wanted: f64) -> f64 {
        self.parts.iter_mut().map(|part| part.best_log_decay(y, wanted)).sum()
    }

    /// (1 + d)(1 + d') − 1 = d + d' + dd', where the errors of d and d' count with the moduli of the other factor.
    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let mut product = vec![Approx::exact(Complex64::default()); last + 1];
        for part in &self.parts {
            for (known, other) in product.iter_mut().zip(part.changes(spacing, last)) {
                let (own, factor) = ((1.0 + known.value).norm(), (1.0 + other.value).norm());
                let size = known.value.norm() + other.value.norm();
                let rounding = PRODUCT_ROUNDINGS * f64::EPSILON * size * (1.0 + own + factor);
                *known = Approx::new(
                    known.value + other.value + known.value * other.value,
                    known.error * (factor + other.error) + other.error * own + rounding,
                );
            }
        }
        product
    }

    fn forget_panels(&mut self) {
        self.parts.iter_mut().for_each(|part| part.forget_panels());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, GroupLaw};

    #[test]
    fn gaussian_parts_are_one_gaussian() {
        let mut sum = StepLoss::independent_sum(vec![StepLoss::shift(0.6), StepLoss::shift(0.8)]);
        let mut whole = StepLoss::shift(1.0);
        for c in [-0.5, 0.0, 2.5] {
            let (found, exact) = (sum.moments(c, -35.0), whole.moments(c, -35.0));
            assert!(
                (found.log_moment.value - exact.log_moment.value).abs() <= 1e-14,
                "{found:?}"
            );
            assert!((found.mean - exact.mean).abs() < 1e-14 && (found.variance - exact.variance).abs() < 1e-14);
            let (mut found, mut exact) = (sum.tilted(c, -35.0), whole.tilted(c, -35.0));
            found.certify(10.0);
            exact.certify(10.0);
            for (own, other) in found.changes(0.3, 30).into_iter().zip(exact.changes(0.3, 30)) {
                assert!((own.value - other.value).norm() <= own.error + other.error + 1e-15);
                assert!(own.error < 1e-13);
            }
            assert!((found.log_decay(3.0) - exact.log_decay(3.0)).abs() < 1e-12);
        }
        assert!((sum.widest_distance().unwrap() - 1.0).abs() < 1e-13);
        assert!(!sum.has_closed_form());
    }

    /// A mixture and a randomised answer: the characteristic function is the product of both.
    #[test]
    fn characteristic_functions_multiply_within_the_error() {
        let law = GroupLaw::binomial(1, 0.2).unwrap();
        let parts = || {
            vec![
                StepLoss::mixture(&law, 1.1, Direction::Remove).unwrap().unwrap(),
                StepLoss::response(&law, 0.8, Direction::Remove).unwrap(),
            ]
        };
        let mut sum = StepLoss::independent_sum(parts());
        let mut alone = parts();
        let mut tilted: Vec<_> = alone.iter_mut().map(|part| part.tilted(0.7, -20.0)).collect();
        let mut whole = sum.tilted(0.7, -20.0);
        whole.certify(8.0);
        tilted.iter_mut().for_each(|part| part.certify(8.0));
        let each: Vec<_> = tilted.iter().map(|part| part.changes(0.5, 16)).collect();
        for (j, found) in whole.changes(0.5, 16).into_iter().enumerate() {
            let (a, b) = (each[0][j], each[1][j]);
            let product = (1.0 + a.value) * (1.0 + b.value) - 1.0;
            assert!((found.value - product).norm() <= 1e-15, "{j}");
            // At the largest errors that the parts may have, in the direction of the other factor, all of the bound is used.
            let worst = a.error * (1.0 + b.value).norm() + b.error * (1.0 + a.value).norm();
            assert!(
                found.error >= worst && found.error <= 1.001 * worst + 2e-14,
                "{j}: {found:?} {worst}"
            );
        }
        assert!(whole.quadrature_error() >= tilted.iter().map(|part| part.quadrature_error()).sum::<f64>());
    }

    #[test]
    fn truncation_loses_no_more_than_allowed() {
        let law = GroupLaw::binomial(1, 0.2).unwrap();
        let parts = (0..2).map(|_| StepLoss::mixture(&law, 0.5, Direction::Remove).unwrap().unwrap());
        let sum = StepLoss::independent_sum(parts.collect());
        let (_, log_lost) = sum.truncated(-40.0, 1.0);
        assert!(log_lost <= -39.0, "{log_lost}");
        // Twice what either part loses, also where that is no positive number.
        let one = StepLoss::mixture(&law, 0.5, Direction::Remove).unwrap().unwrap();
        let (_, of_one) = one.truncated(-800.0 - std::f64::consts::LN_2, 1.0);
        let (_, log_lost) = sum.truncated(-800.0, 1.0);
        assert!(log_lost >= of_one + std::f64::consts::LN_2, "{log_lost} {of_one}");
    }
}
