//! A sum of losses at a tilt that was found for another one: whether its δ is smaller is told without a search for its own tilt.

use super::{LossSum, kinds};
use crate::curve::accuracy::Accuracy;
use crate::interval::Enclosure;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::contour::Limits;
use crate::inversion::segment::Total;

/// Products of nodes and points that a contour at such a tilt may cost, about a tenth of a millisecond: another way costs as much where it fails.
const MOST_PRODUCTS: f64 = 1e5;

impl LossSum {
    /// Whether moments at a tilt cost little.
    fn has_cheap_moments(&self) -> bool {
        self.segments.iter().all(|segment| segment.loss.has_cheap_moments())
    }

    /// Chernoff's bound at a tilt c > 0, where moments cost little.
    pub(crate) fn chernoff_at(&mut self, c: f64, epsilon: f64) -> Enclosure {
        if !self.has_cheap_moments() {
            return Enclosure::TRIVIAL;
        }
        Total::at(&mut self.segments, c).map_or(Enclosure::TRIVIAL, |total| {
            let log_moment = total.log_moment.upper();
            MomentBound { c, log_moment }.chernoff(epsilon)
        })
    }

    /// log δ at ε by a contour at a tilt c > 0, if it takes few points to know on which side of the threshold it is; nothing for steps of several kinds, each of which
    /// would have to be tilted first.
    pub(crate) fn side_by_tilt(&mut self, c: f64, epsilon: f64, accuracy: &Accuracy) -> Enclosure {
        let is_served = self.has_cheap_moments() && self.has_transform() && kinds(&self.segments) == 1;
        let Some(threshold) = accuracy.threshold.filter(|_| is_served && !self.is_on_lattice()) else {
            return Enclosure::TRIVIAL;
        };
        let truncated = self.truncated(threshold + accuracy.log_fraction());
        truncated.by_tilt(c, epsilon, accuracy, Limits::of_products(MOST_PRODUCTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;

    #[test]
    fn chernoffs_bound_at_a_tilt_is_that_of_the_moment() {
        let (run, epsilon) = (GaussianRun::new(0.1, 200.0), 3.0);
        let mut sum = LossSum::new(run.segments(), 1e-15);
        for c in [0.5, 1.0, 2.0] {
            let log_moment = run.log_moment(c);
            let wanted = MomentBound { c, log_moment }.chernoff(epsilon);
            let found = sum.chernoff_at(c, epsilon);
            assert!(
                (found.log_upper - wanted.log_upper).abs() < 1e-12,
                "{c}: {found:?} {wanted:?}"
            );
            assert!(found.log_upper > run.log_delta(epsilon), "{c}: {found:?}");
        }
    }

    /// A contour at a tilt that is not quite the best encloses δ, and tells on which side of a number it is.
    #[test]
    fn a_contour_at_another_tilt_tells_the_side() {
        let (run, epsilon) = (GaussianRun::new(0.1, 200.0), 3.0);
        let mut sum = LossSum::new(run.segments(), 1e-15);
        let exact = run.log_delta(epsilon);
        for c in [1.7, 2.0, 2.4] {
            for off in [-0.4, 0.03, 1.0] {
                let found = sum.side_by_tilt(c, epsilon, &Accuracy::side_of(exact + off, 1e-2));
                assert!(
                    found.log_lower <= exact && exact <= found.log_upper,
                    "{c} {off}: {found:?} {exact}"
                );
                assert!(
                    found.is_on_one_side_of(Some(exact + off)),
                    "{c} {off}: {found:?} {exact}"
                );
            }
        }
        let chernoff = sum.chernoff_at(2.0, epsilon);
        assert!(!chernoff.is_on_one_side_of(Some(exact + 1.0)), "{chernoff:?}");
        assert_eq!(
            sum.side_by_tilt(2.0, epsilon, &Accuracy::of_width(1e-2)),
            Enclosure::TRIVIAL
        );
    }
}
