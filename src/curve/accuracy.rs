//! How accurately δ is asked for.

use crate::interval::Enclosure;

/// Margin below δ at an ε that needs no confirmation, over the width that is asked for: 1, and some roundings.
pub(crate) const MARGIN: f64 = 1.0 + 1e-6;
/// Width of an enclosure over the change of log δ that changes ε by the tolerance: the steps out of an enclosure must fit into the tolerance
/// with it.
pub(crate) const WIDTH_FRACTION: f64 = 0.6;

/// The width of δ for which contours of cells are designed where δ, or ε, is asked for to a tolerance: that of an enclosure that fits into a margin of the
/// tolerance. A search for ε and the question for δ that confirms its answer then use the same contour.
pub(crate) fn cell_width(tolerance: f64) -> f64 {
    WIDTH_FRACTION * (MARGIN * tolerance)
}

/// The accuracy of an answer to one question for δ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accuracy {
    /// Relative width of δ that contours are designed for, so that they also serve later questions.
    pub(crate) width: f64,
    /// Relative width for which contours of cells are designed ([`cell_width`]).
    pub(crate) cell_width: f64,
    /// Relative width that suffices as an answer to this question.
    pub(crate) sufficient_width: f64,
    /// A value of log δ to compare with: where it is given, only the side of it matters, unless log δ is close to it.
    pub(crate) threshold: Option<f64>,
    /// An estimate of log δ, where there is one.
    pub(crate) estimate: Option<f64>,
    /// Whether the side of the threshold suffices however close log δ is to it.
    pub(crate) is_side_enough: bool,
    /// Whether bounds are tried before δ is computed. Without a threshold they always are.
    pub(crate) bounds_first: bool,
}

impl Accuracy {
    /// A relative width of δ.
    pub(crate) fn of_width(width: f64) -> Self {
        Self {
            width,
            cell_width: cell_width(width),
            sufficient_width: width,
            threshold: None,
            estimate: None,
            is_side_enough: false,
            bounds_first: true,
        }
    }

    /// The side of `threshold` on which log δ lies, or a relative width of δ where log δ is close to it.
    pub(crate) fn compared_with(threshold: f64, width: f64) -> Self {
        Self {
            threshold: Some(threshold),
            ..Self::of_width(width)
        }
    }

    /// The side of `threshold` on which log δ lies, however close to it, or a relative width of δ.
    pub(crate) fn side_of(threshold: f64, width: f64) -> Self {
        Self {
            is_side_enough: true,
            ..Self::compared_with(threshold, width)
        }
    }

    /// The same accuracy, which an enclosure of δ of this relative width meets as well.
    ///
    /// Where rounding keeps every route from a narrower enclosure, further routes would be tried in vain. The width for which contours are designed
    /// stays, so that an enclosure is no wider than it has to be.
    pub(crate) fn accepting(self, width: f64) -> Self {
        Self {
            sufficient_width: self.sufficient_width.max(width),
            ..self
        }
    }

    /// True if `found` is an answer: narrow enough, or far enough from the threshold.
    ///
    /// A contradiction ends the search as well, as no further enclosure can repair it.
    pub(crate) fn is_met(&self, found: Enclosure) -> bool {
        found.certified().is_err()
            || found.width() <= self.sufficient_width
            || found.is_far_from(self.threshold)
            || (self.is_side_enough && found.is_on_one_side_of(self.threshold))
    }

    /// What log δ is expected to be, where something is known: near a threshold it is asked most accurately.
    pub(crate) fn expected(&self) -> Option<f64> {
        self.threshold.or(self.estimate)
    }

    /// log of the fraction of δ that may be neglected.
    pub(crate) fn log_fraction(&self) -> f64 {
        self.width.min(1.0).ln()
    }
}

/// Where log δ falls by c for each unit of ε, losses that are rounded make δ uncertain by c times what they are off by. So many roundings of ε are
/// accepted: sums of losses and closed forms lose up to four digits, and further routes would lose them too.
const ROUNDINGS_OF_LOSSES: f64 = 8192.0;
/// Largest width that is accepted for this reason: next to the largest loss the slope has no bound, and other routes know δ far better. Without it two kinds
/// of Laplace steps had an ε 8 % wide.
const MOST_ATTAINABLE: f64 = 1e-4;

/// The relative width of δ(ε) that is accepted where log δ falls by `slope` for each unit of ε.
pub(crate) fn attainable_at(slope: f64, epsilon: f64) -> f64 {
    (ROUNDINGS_OF_LOSSES * f64::EPSILON * (slope * epsilon).abs()).min(MOST_ATTAINABLE)
}

/// The accuracy of every point of a curve of which many points are asked: δ to within `relative` of it or, for the sake of trade-off
/// functions, to within `absolute`; in any case to within `coarse` of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointAccuracy {
    /// Relative width that always suffices.
    pub relative: f64,
    /// Absolute width that suffices if the relative width is at most [`PointAccuracy::coarse`].
    pub absolute: f64,
    /// Largest relative width.
    pub coarse: f64,
}

/// Factor by which an accuracy is loosened, relative to the width that was reached nearby, where the accuracy itself was not
/// reached: more work would not help there, and at 1 half of the neighbours of such a point would be refused for being slightly wider.
const LOOSENING: f64 = 4.0;

impl PointAccuracy {
    /// True if `found` is an answer.
    pub(crate) fn is_met(self, found: Enclosure) -> bool {
        let width = found.width();
        width <= self.relative || (width <= self.coarse && found.upper() - found.lower() <= self.absolute)
    }

    /// The bits of its numbers, to tell accuracies apart.
    pub(crate) fn bits(self) -> [u64; 3] {
        [self.relative, self.absolute, self.coarse].map(f64::to_bits)
    }

    /// An accuracy that a point near `reached` can meet: this one, or a few times the width of `reached` where that missed it.
    pub(crate) fn or_reached(self, reached: Enclosure) -> Self {
        if self.is_met(reached) {
            return self;
        }
        let relative = LOOSENING * reached.width();
        let absolute = LOOSENING * (reached.upper() - reached.lower());
        Self {
            relative: self.relative.max(relative),
            absolute: self.absolute.max(absolute),
            coarse: self.coarse.max(relative),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_met_by_whatever_is_far_from_it() {
        let wide = Enclosure::of_logs(-20.0, -10.0);
        assert!(!Accuracy::of_width(1e-6).is_met(wide));
        assert!(Accuracy::compared_with(-9.0, 1e-6).is_met(wide));
        assert!(Accuracy::compared_with(-21.0, 1e-6).is_met(wide));
        // Within a factor of 2 of the threshold the width counts.
        assert!(!Accuracy::compared_with(-9.5, 1e-6).is_met(wide));
        assert!(!Accuracy::compared_with(-15.0, 1e-6).is_met(wide));
        assert!(Accuracy::compared_with(-15.0, 10.0).is_met(wide));
        // The side may be all that is asked for.
        let side = |threshold: f64| Accuracy::side_of(threshold, 1e-6);
        assert!(side(-9.5).is_met(wide) && side(-10.0).is_met(wide) && side(-20.1).is_met(wide));
        assert!(!side(-15.0).is_met(wide) && !side(-20.0).is_met(wide));
    }

    #[test]
    fn an_accepted_width_suffices() {
        let accuracy = Accuracy::compared_with(-9.0, 1e-6).accepting(1e-3);
        assert_eq!(
            (accuracy.width, accuracy.cell_width, accuracy.sufficient_width),
            (1e-6, cell_width(1e-6), 1e-3)
        );
        assert_eq!(accuracy.threshold, Some(-9.0));
        let coarse = Accuracy::of_width(0.1).accepting(1e-3);
        assert_eq!((coarse.width, coarse.sufficient_width), (0.1, 0.1));
    }

    /// Two Laplace steps of a large group at an ε where log δ falls by 10⁹ for each unit: losses known to 1e-14 leave δ five digits, and no grid, which would
    /// know them no better, is computed.
    #[test]
    fn what_rounding_allows_is_accepted_where_delta_falls_steeply() {
        use crate::curve::composed_loss::ComposedLoss;
        use crate::loss::StepLoss;
        use crate::loss::pairs::StepOutcome;
        use crate::step::{Direction, GroupLaw};
        let law = GroupLaw::binomial(202, 6.959e-5).unwrap();
        let loss = StepLoss::laplace(&law, 1.871, Direction::Remove).unwrap();
        let mut run = ComposedLoss::new(vec![(StepOutcome::Loss(loss), 2)], false);
        let epsilon = 0.019_863_699_448_996_373;
        let found = run.delta(epsilon, 1e-6);
        assert!(
            found.width() < attainable_at(1.5e9, epsilon) && found.width() < 6e-5,
            "{found:?}"
        );
        assert!(found.certified().is_ok() && run.work() < 20_000_000, "{}", run.work());
    }

    #[test]
    fn a_contradiction_ends_the_search() {
        let wrong = Enclosure::of_logs(-9.0, -8.0).meet(Enclosure::of_logs(-7.0, -6.0));
        assert!(Accuracy::of_width(1e-6).is_met(wrong));
    }

    #[test]
    fn points_are_accurate_relatively_or_absolutely() {
        let accuracy = PointAccuracy {
            relative: 1e-6,
            absolute: 1e-8,
            coarse: 1e-2,
        };
        let of = |delta: f64, width: f64| Enclosure::of_logs(delta.ln() - width, delta.ln());
        assert!(accuracy.is_met(of(0.5, 0.9e-6)) && !accuracy.is_met(of(0.5, 1.1e-6)));
        assert!(accuracy.is_met(of(1e-6, 0.9e-2)) && !accuracy.is_met(of(1e-6, 1.1e-2)));
        // A neighbour of a point that missed it is met by four times the width of that point.
        let loosened = accuracy.or_reached(of(0.5, 1e-4));
        assert!(loosened.is_met(of(0.5, 3.9e-4)) && !loosened.is_met(of(0.5, 4.1e-4)));
        assert_eq!(accuracy.or_reached(of(0.5, 1e-7)), accuracy);
    }
}
