//! The sum of the likelihood ratios of all released batches, each with a law on a lattice.

use crate::interval::Interval;
use crate::loss::allocation::bins::Part;
use crate::loss::allocation::large_outcomes::{LargeOutcomes, LargeRatios};
use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::on_lattice::laws::{LatticeLaw, merged, spread};
use crate::loss::allocation::threshold::Threshold;
use crate::loss::lattice::excess::End;
use crate::loss::lattice::sum::{PlaceSum, TiltedLaw};
use crate::special::log_space::log_add;
use crate::special::root::newton_bracket;
use std::sync::Arc;

/// Steps of Newton's method towards a tilt, and how near to the threshold the mean of the tilted law has to be, in standard deviations.
const STEPS: usize = 40;
const NEAR: f64 = 0.2;
/// Relative width of the bracket of a tilt at which the mean of the tilted law is taken to jump.
const JUMP: f64 = 0.01;
/// Rounding of expectations over outcomes with some Y above the last place, relative to their terms.
const ROUNDING: f64 = 1e-13;
/// Largest spacing: with more, cells of a density that underflows could have masses that do not.
const WIDEST: f64 = 1e15;
/// −log of the part of an expectation that is outside of a window at which its bound is small enough.
const LOG_NEGLIGIBLE: f64 = 30.0;

/// A sum of independent variables on lattices of one spacing.
#[derive(Debug)]
pub(super) struct Side {
    spacing: f64,
    /// The laws of all batches, and how many have each.
    laws: Vec<(LatticeLaw, f64)>,
    /// The place 0 of the sum.
    start: f64,
    sum: PlaceSum,
    law: Option<TiltedLaw>,
}

impl Side {
    /// The sum with the laws above those of the batches.
    pub(super) fn spread(parts: &[Part], spacing: f64, last: usize) -> Option<Self> {
        Self::new(parts, spacing, |law| spread(law, spacing, last))
    }

    /// The sum with the laws below those of the batches; `None` where there is no such law.
    pub(super) fn merged(parts: &[Part], spacing: f64, last: usize) -> Option<Self> {
        Self::new(parts, spacing, |law| merged(law, spacing, last))
    }

    fn new(parts: &[Part], spacing: f64, law: impl Fn(&LogNormal) -> Option<LatticeLaw>) -> Option<Self> {
        if spacing > WIDEST {
            return None;
        }
        let of = |part: &Part| Some((law(&LogNormal::new(part.variance))?, part.count));
        let laws: Vec<(LatticeLaw, f64)> = parts.iter().map(of).collect::<Option<_>>()?;
        let terms = laws.iter().map(|(law, count)| (Arc::clone(&law.places), *count));
        Some(Self {
            spacing,
            start: laws.iter().map(|(law, count)| count * law.start).sum(),
            sum: PlaceSum { terms: terms.collect() },
            laws,
            law: None,
        })
    }

    /// With its law under a tilt.
    pub(super) fn tilted(mut self, tilt: f64) -> Self {
        self.law = Some(self.sum.tilted_by_transform(tilt));
        self
    }

    /// Places of the laws of all kinds of batches.
    pub(super) fn places(&self) -> usize {
        let of_window = self.law.as_ref().map_or(0, |law| law.masses.len());
        of_window + self.laws.iter().map(|(law, _)| law.places.masses.len()).sum::<usize>()
    }

    /// A tilt under which the mean of the sum is next to a threshold, by Newton's method from `start`; `None` where numbers overflow.
    ///
    /// Where one Y has a heavy tail, the mean may jump from below the threshold to far above it as the tilt grows. The tilt before the jump is returned
    /// then, under which the law is narrow. Every tilt gives bounds that hold.
    pub(super) fn tilt_for(&self, threshold: f64, start: f64) -> Option<f64> {
        let wanted = (threshold - self.start) / self.spacing;
        let distance = (wanted - self.sum.moments(0.0).mean).abs();
        let step = |tilt: f64| {
            let moments = self.sum.moments(tilt);
            let (missing, deviation) = (wanted - moments.mean, moments.variance.sqrt());
            if missing.abs() <= NEAR * deviation.min(distance) {
                return 0.0;
            }
            // A law may be far from normal: no step is longer than a few reciprocals of its deviation.
            (missing / moments.variance).clamp(-4.0 / deviation, 4.0 / deviation)
        };
        let (low, high) = newton_bracket(start, STEPS, |high| JUMP * high.abs(), step)?;
        Some(if low.abs() < high.abs() { low } else { high })
    }

    /// Standard deviation of S under a tilt.
    pub(super) fn deviation(&self, tilt: f64) -> f64 {
        self.sum.moments(tilt).variance.sqrt() * self.spacing
    }

    /// An end of log E[(S − w)₊] if `above`, of log E[(w − S)₊] if not.
    pub(super) fn log_excess(&self, threshold: &Threshold, above: bool, end: End) -> f64 {
        let nothing = if end == End::Upper {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        };
        let Some(law) = &self.law else {
            return nothing;
        };
        let place = (threshold.value - self.start) / self.spacing;
        let size = threshold.value + self.start;
        let error =
            (threshold.error + 4.0 * f64::EPSILON * size) / self.spacing + 4.0 * f64::EPSILON * place.abs();
        let place = if above == (end == End::Upper) {
            place - error
        } else {
            place + error
        };
        if (above && place < law.first) || (!above && place > law.last()) {
            return nothing;
        }
        let mut log = law.log_excess(place, above, end);
        if end == End::Upper {
            let wanted = log - LOG_NEGLIGIBLE;
            log = log_add(log, self.sum.log_excess_outside(law, (place, above), wanted));
        }
        log += self.spacing.ln();
        let far = self.beyond(threshold, above);
        let far = if end == End::Upper { far.upper } else { far.lower };
        if far.is_nan() {
            return nothing;
        }
        log = log_add(log, far.max(0.0).ln());
        let slack = 8.0 * f64::EPSILON * (1.0 + log.abs() + self.spacing.ln().abs());
        if end == End::Upper { log + slack } else { log - slack }
    }

    /// E[(S − w)₊], or E[(w − S)₊], over the outcomes in which some Y is above its last place z.
    ///
    /// With z ≥ w, S is above w there. Otherwise both are between 0 and what they would be if S were not reduced by w, or were 0.
    fn beyond(&self, threshold: &Threshold, above: bool) -> Interval {
        let last = |law: &LatticeLaw| law.start + self.spacing * law.places.top() as f64;
        let ratios = |(law, count): &(LatticeLaw, f64)| {
            let mean = |part: fn(&Interval) -> f64| part(&law.tail_excess) + last(law) * part(&law.tail_mass);
            LargeRatios {
                count: *count,
                mass: law.tail_mass,
                mean: Interval {
                    lower: mean(|tail| tail.lower),
                    upper: mean(|tail| tail.upper),
                },
            }
        };
        let large = LargeOutcomes::new(&self.laws.iter().map(ratios).collect::<Vec<_>>());
        let least_last = self.laws.iter().map(|(law, _)| last(law)).fold(f64::INFINITY, f64::min);
        let is_beyond = least_last * (1.0 - ROUNDING) >= threshold.value + threshold.error;
        if !above || !is_beyond {
            let most = if above {
                large.mean.upper
            } else {
                threshold.value * large.most_mass()
            };
            let is_empty = !above && is_beyond;
            return Interval {
                lower: 0.0,
                upper: if is_empty { 0.0 } else { most * (1.0 + ROUNDING) },
            };
        }
        large.mean_above((threshold.value, threshold.error))
    }
}
