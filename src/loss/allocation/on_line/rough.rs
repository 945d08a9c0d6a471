//! About how large E[X₊] is, for X = S − w or w − S with the sum S of the likelihood ratios Y: S is taken for a normal variable, plus one large Y where the
//! others have their mean.

use crate::interval::Interval;
use crate::loss::allocation::bins::Part;
use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::threshold::count;
use crate::special::log_space::log_add;
use crate::special::normal::quantile;
use crate::step::Direction;
use std::f64::consts::TAU;

/// The sum as a normal variable plus one large term.
pub(super) struct Rough<'a> {
    parts: &'a [Part],
    direction: Direction,
    count: f64,
    pub(super) deviation: f64,
}

impl<'a> Rough<'a> {
    pub(super) fn new(parts: &'a [Part], direction: Direction) -> Self {
        // Without the values that no batch is expected to have.
        let of = |part: &Part| {
            let law = LogNormal::new(part.variance);
            let most = law.deviation() * quantile(1.0 - 0.5 / part.count).value.max(2.0) - 0.5 * part.variance;
            let Interval { lower, upper } = law.square_below(most.exp());
            part.count * (0.5 * (lower + upper) - law.below(most.exp()).mean.lower.powi(2)).max(0.0)
        };
        Self {
            parts,
            direction,
            count: count(parts),
            deviation: parts.iter().map(of).sum::<f64>().sqrt(),
        }
    }

    /// log of E[X₊], about: that of the normal variable, and that with one large Y.
    pub(super) fn log_expectation(&self, threshold: f64) -> f64 {
        let distance = self.direction.sign() * (threshold - self.count) / self.deviation;
        let square = distance * distance;
        let normal = self.deviation.ln() - 0.5 * square - 0.5 * TAU.ln() - square.ln_1p();
        let rest = threshold - self.count + 1.0;
        if self.direction == Direction::Add || rest <= 0.0 {
            return normal;
        }
        let of = |part: &Part| part.count * LogNormal::new(part.variance).excess_above(rest).lower;
        log_add(normal, self.parts.iter().map(of).sum::<f64>().ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With much noise S is nearly normal, and far out one large Y is all that counts.
    #[test]
    fn both_ends_are_those_of_their_laws() {
        let parts = [Part {
            count: 1000.0,
            variance: 0.01,
        }];
        let rough = Rough::new(&parts, Direction::Remove);
        let spread = (1000.0 * 0.01f64.exp_m1()).sqrt();
        let exact: f64 = spread * (0.053_990_966_513 - 2.0 * 0.022_750_131_948);
        assert!((rough.log_expectation(1000.0 + 2.0 * spread) - exact.ln()).abs() < 0.4);
        let parts = [Part {
            count: 1000.0,
            variance: 4.0,
        }];
        let far = Rough::new(&parts, Direction::Remove).log_expectation(1e6);
        let one = 1000.0 * LogNormal::new(4.0).excess_above(1e6).lower;
        assert!((far - one.ln()).abs() < 0.1, "{far} {}", one.ln());
    }
}
