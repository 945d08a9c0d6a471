//! Where a search for the ε of one epoch starts. A bad starting point costs time, but no accuracy.
//!
//! Saddle points correct what a rough model is off by.

use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::on_line::choice::Target;
use crate::loss::allocation::on_line::rough::Rough;
use crate::loss::allocation::threshold::Threshold;
use crate::special::log_space::log_add;
use crate::special::root::bisect;
use crate::step::Direction;
use std::convert::Infallible;

/// Logarithms of the least and the largest ε, and the accuracy of the first guess.
const RANGE: (f64, f64) = (-25.0, 12.0);
const ACCURACY: f64 = 1e-3;
/// Corrections, and the distance in log δ that is near enough.
const CORRECTIONS: usize = 3;
const NEAR: f64 = 0.3;
/// The change of log ε by which a slope is measured.
const CHANGE: f64 = 0.01;

/// An ε at which δ is about e^`log_delta`, and −d log δ/dε there; `None` where there is none in the range.
pub(super) fn estimate(bins: &Bins, direction: Direction, log_delta: f64) -> Option<(f64, f64)> {
    let model = Model::new(bins, direction);
    let is_met = |log: f64| Ok::<_, Infallible>(model.log_delta(log.exp()) <= log_delta);
    let Ok(mut log) = bisect(RANGE, 60, |_| ACCURACY, is_met);
    if log >= RANGE.1 {
        return None;
    }
    let mut slope = (model.log_delta(log.exp()) - model.log_delta((log + CHANGE).exp())) / CHANGE;
    let mut last: Option<(f64, f64)> = None;
    for _ in 0..CORRECTIONS {
        let off = model.log_delta_at_saddle(log.exp())? - log_delta;
        if let Some((before, there)) = last {
            let measured = (there - off) / (log - before);
            if measured > 0.0 && measured.is_finite() {
                slope = measured;
            }
        }
        last = Some((log, off));
        log += (off / slope).clamp(-1.0, 1.0);
        if off.abs() < NEAR {
            break;
        }
    }
    let epsilon = log.exp();
    (slope > 0.0 && slope.is_finite()).then_some((epsilon, slope / epsilon))
}

/// δ of the epoch, about.
struct Model<'a> {
    bins: &'a Bins,
    direction: Direction,
    rough: Rough<'a>,
}

impl<'a> Model<'a> {
    fn new(bins: &'a Bins, direction: Direction) -> Self {
        Self {
            bins,
            direction,
            rough: Rough::new(&bins.parts, direction),
        }
    }

    fn log_factor(&self, epsilon: f64) -> f64 {
        let add = if self.direction == Direction::Add { epsilon } else { 0.0 };
        add - self.bins.total.ln()
    }

    fn log_delta(&self, epsilon: f64) -> f64 {
        let threshold = Threshold::new(self.bins, self.direction, epsilon).value;
        if threshold <= 0.0 {
            return f64::NEG_INFINITY;
        }
        self.rough.log_expectation(threshold) + self.log_factor(epsilon)
    }

    /// log δ, about, from the saddle-point approximation of E[X₊] without a large Y, and the closed form of the rest.
    fn log_delta_at_saddle(&self, epsilon: f64) -> Option<f64> {
        let threshold = Threshold::new(self.bins, self.direction, epsilon);
        let target = Target {
            parts: &self.bins.parts,
            direction: self.direction,
            range: threshold.range(self.bins, self.direction)?.around(threshold.value),
            log_most: f64::INFINITY,
        };
        let choice = target.choose()?;
        Some(log_add(choice.log_estimate, choice.log_large) + self.log_factor(epsilon))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::on_line::SumsOnLine;
    use crate::loss::privacy_loss::SharedTables;

    /// At the estimate δ is near the one that was asked for; saddle points tell too much where a large Y and many moderate ones count alike.
    #[test]
    fn estimates_are_near_the_answer() {
        for (batches, log_delta) in [
            (vec![(100, 1.0)], -11.5),
            (vec![(1000, 0.25)], -46.0),
            (vec![(100_000, 1.0)], -46.0),
            (vec![(40, 0.04), (10, 0.0)], -18.0),
        ] {
            let bins = Bins::new(&batches).unwrap();
            let (epsilon, slope) = estimate(&bins, Direction::Remove, log_delta).unwrap();
            let found = SumsOnLine::new(bins, Direction::Remove).delta(epsilon, &mut SharedTables::default());
            let room = if batches.len() == 1 && log_delta < -40.0 {
                15.0
            } else {
                3.0
            };
            assert!(
                (found.log_upper - log_delta).abs() < room && slope > 0.0,
                "{epsilon} {found:?}"
            );
        }
    }
}
