//! The errors that contours are designed for, which are smaller next to ε = 0.
//!
//! The relative width of ε is that of δ over −ε·d log δ/dε: by how much log δ falls from 0 to ε if it falls as next to ε. Where that is
//! less than 1, contours are designed for so much smaller errors.

use super::CELL_LOG_STEP;
use crate::inversion::contour_sum::ContourSum;

/// log of the largest factor by which errors are designed to be smaller.
const MOST_NEXT_TO_ZERO: f64 = 9.0;
/// Distance over ε of the point at which a contour is asked for the slope of δ: log δ changes by a hundredth of its fall, of which the errors of a contour
/// are a small part.
const SLOPE_STEP: f64 = 1e-2;
/// Least fall of log δ from 0 to ε for which contours are designed: e^−9, as by [`MOST_NEXT_TO_ZERO`].
const LEAST_FALL: f64 = 1e-4;

/// The errors that a contour is designed for, as logarithms: larger ones where none is found for these.
pub(super) struct Errors {
    /// As small as the width that is asked for.
    pub(super) log_tolerance: f64,
    /// By how much smaller, as an ε next to 0 asks for.
    pub(super) margin: f64,
    /// By how much larger errors may do.
    pub(super) spare: f64,
}

impl Errors {
    /// The logarithm of the errors over δ.
    pub(super) fn log(&self) -> f64 {
        self.log_tolerance - self.margin
    }

    /// How often [`Errors::relax`] gives larger ones.
    pub(super) fn tries(&self) -> usize {
        (self.margin / CELL_LOG_STEP).ceil() as usize + usize::from(self.spare > 0.0)
    }

    /// Makes them larger: first by what the margin takes, then by what there is to spare. False if they are as large as they may be.
    pub(super) fn relax(&mut self) -> bool {
        if self.margin > 0.0 {
            self.margin = (self.margin - CELL_LOG_STEP).max(0.0);
            return true;
        }
        self.log_tolerance += self.spare;
        std::mem::take(&mut self.spare) > 0.0
    }
}

/// log of the factor by which errors of a contour are designed to be smaller where log δ, which falls by `slope` for each unit of ε, falls by less than 1 from 0
/// to ε: the relative width of ε is that of δ over this fall. A whole number, so that questions about one cell share contours; where such a contour is too long, one without it is not.
pub(super) fn margin_next_to_zero(slope: f64, epsilon: f64) -> f64 {
    if epsilon <= 0.0 {
        return 0.0;
    }
    let fall = (slope * epsilon).abs();
    (-fall.ln()).ceil().clamp(0.0, MOST_NEXT_TO_ZERO)
}

/// About how much log δ falls from 0 to ε if it falls as next to ε, at most 1: the relative width of ε is that of δ over this fall. 1 for ε ≤ 0, and where
/// the contour does not tell.
pub(super) fn fall_from_zero(contour: &ContourSum, epsilon: f64) -> f64 {
    if epsilon <= 0.0 {
        return 1.0;
    }
    let middle = |epsilon: f64| {
        let found = contour.delta(epsilon);
        0.5 * (found.log_lower + found.log_upper)
    };
    let fall = (middle(epsilon) - middle(epsilon * (1.0 + SLOPE_STEP))) / SLOPE_STEP;
    // NaN where either has no lower end.
    if fall > 0.0 { fall.clamp(LEAST_FALL, 1.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::reference::GaussianRun;
    use crate::inversion::tilt::Tilt;
    use crate::inversion::{cluster_runs, contour::Limits, saddle};

    #[test]
    fn the_fall_is_that_of_the_curve_next_to_epsilon() {
        let run = GaussianRun::new(0.02, 100.0);
        for epsilon in [3e-4, 0.01, 0.05] {
            let mut segments = run.segments();
            let c = saddle::for_epsilon(&mut segments, epsilon, None).unwrap();
            let tilt = Tilt::near(&mut segments, c, epsilon, (-20.0, None)).unwrap();
            let contour = cluster_runs::contours(&mut segments, &tilt, -20.0, Limits::of_products(1e7)).unwrap();
            let step = 1e-3 * epsilon;
            let slope = (run.log_delta(epsilon - step) - run.log_delta(epsilon + step)) / (2.0 * step);
            let (found, exact) = (fall_from_zero(&contour, epsilon), slope * epsilon);
            assert!((found / exact - 1.0).abs() < 0.02, "{epsilon}: {found} {exact}");
            assert_eq!(fall_from_zero(&contour, -epsilon), 1.0);
        }
    }

    #[test]
    fn errors_grow_until_nothing_is_to_spare() {
        let mut errors = Errors {
            log_tolerance: -16.0,
            margin: 4.0,
            spare: 2.0,
        };
        assert_eq!(errors.tries(), 3);
        let mut logs = vec![errors.log()];
        while errors.relax() {
            logs.push(errors.log());
        }
        assert_eq!(logs, [-20.0, -17.0, -16.0, -14.0]);
        assert_eq!(errors.log(), -14.0);
    }

    #[test]
    fn margins_are_whole_numbers_up_to_nine() {
        let margins = [(1.0, 2.0), (1.0, 0.5), (2.0, 0.01), (1.0, 1e-9)].map(|(c, x)| margin_next_to_zero(c, x));
        assert_eq!(margins, [0.0, 1.0, 4.0, 9.0]);
        assert_eq!(margin_next_to_zero(1.0, 0.0), 0.0);
    }
}
