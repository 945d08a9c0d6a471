//! The outcomes in which the likelihood ratio Y of some batch is large.

use crate::interval::Interval;

/// Relative rounding of what follows.
const ROUNDING: f64 = 1e-13;

/// Batches that are alike: how many, and P(Y > z) and E\[Y; Y > z\] for what counts as large.
#[derive(Debug, Clone, Copy)]
pub(super) struct LargeRatios {
    pub(super) count: f64,
    pub(super) mass: Interval,
    pub(super) mean: Interval,
}

/// P(A) and E\[S; A\] for the outcomes A in which some Y is large, with the sum S of all Y, of mean 1 each.
#[derive(Debug, Clone, Copy)]
pub(super) struct LargeOutcomes {
    mass: Interval,
    pub(super) mean: Interval,
    /// Σ P(Y > z) at most.
    pub(super) most_sum: f64,
}

impl LargeOutcomes {
    /// A Y is large, or it is not and another one is: Σ_i T_i + (1 − T_i)·(1 − Π_{j≠i}(1 − τ_j)), τ = P(Y > z), T = E\[Y; Y > z\].
    pub(super) fn new(ratios: &[LargeRatios]) -> Self {
        // log of the probability that no Y is large, at least and at most.
        let log_none = |part: fn(&Interval) -> f64| -> f64 {
            ratios.iter().map(|one| one.count * (-part(&one.mass)).ln_1p()).sum()
        };
        let (least, most) = (log_none(|mass| mass.upper), log_none(|mass| mass.lower));
        // An end of T and τ, and of T from the other side. Where one of them surely is large, the probability of another one is that of none over 0.
        let mean = |part: fn(&Interval) -> f64, other: fn(&Interval) -> f64, log_none: f64, unknown: f64| -> f64 {
            let of = |one: &LargeRatios| {
                let others = -(log_none - (-part(&one.mass)).ln_1p()).exp_m1();
                let others = if others.is_nan() { unknown } else { others.max(0.0) };
                let rest = (1.0 - other(&one.mean)).clamp(0.0, 1.0);
                one.count * (part(&one.mean) + rest * others)
            };
            ratios.iter().map(of).sum()
        };
        let most_sum: f64 = ratios.iter().map(|one| one.count * one.mass.upper).sum();
        Self {
            most_sum: most_sum * (1.0 + ROUNDING),
            mass: Interval {
                lower: -most.exp_m1(),
                upper: -least.exp_m1(),
            },
            mean: Interval {
                lower: mean(|value| value.lower, |value| value.upper, most, 0.0),
                upper: mean(|value| value.upper, |value| value.lower, least, 1.0),
            },
        }
    }

    /// P(A) at most.
    pub(super) fn most_mass(&self) -> f64 {
        self.mass.upper * (1.0 + ROUNDING)
    }

    /// E[S − w; A] for a w > 0 with an error.
    pub(super) fn mean_above(&self, (threshold, error): (f64, f64)) -> Interval {
        let rounding = ROUNDING * (self.mean.upper + threshold.abs() * self.mass.upper);
        Interval {
            lower: self.mean.lower - (threshold + error) * self.mass.upper - rounding,
            upper: self.mean.upper - (threshold - error) * self.mass.lower + rounding,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three kinds of batches with a few outcomes each, against the sum over all of them.
    #[test]
    fn large_outcomes_are_those_of_enumeration() {
        // Outcomes (Y, probability), of mean 1; what is above 2 is large.
        let laws = [
            vec![(0.5, 0.75), (2.5, 0.25)],
            vec![(0.5, 0.75), (2.5, 0.25)],
            vec![(0.25, 0.5), (1.0, 0.375), (4.0, 0.125)],
        ];
        let tail = |law: &[(f64, f64)], power: i32| -> f64 {
            let large = law.iter().filter(|(y, _)| *y > 2.0);
            large.map(|(y, p)| p * y.powi(power)).sum()
        };
        let of = |count: f64, law: &[(f64, f64)]| LargeRatios {
            count,
            mass: Interval::exact(tail(law, 0)),
            mean: Interval::exact(tail(law, 1)),
        };
        let found = LargeOutcomes::new(&[of(2.0, &laws[0]), of(1.0, &laws[2])]);
        let (mut mass, mut mean) = (0.0, 0.0);
        for (a, p) in &laws[0] {
            for (b, q) in &laws[1] {
                for (c, r) in &laws[2] {
                    if a.max(*b).max(*c) > 2.0 {
                        mass += p * q * r;
                        mean += p * q * r * (a + b + c);
                    }
                }
            }
        }
        assert!((found.most_mass() - mass).abs() < 1e-12 && (found.mean.lower - mean).abs() < 1e-12);
        let above = found.mean_above((1.5, 0.0));
        let exact = mean - 1.5 * mass;
        assert!(above.lower <= exact && exact <= above.upper && above.upper - above.lower < 1e-11);
    }
}
