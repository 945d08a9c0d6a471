//! Steps of a run whose probabilities are known to a small relative error, for the questions in which that error is not a singular mass.
//!
//! What a computed law lacks counts in δ as if it revealed P, as nothing is said of where it is missing. Still no output of such a step
//! reveals anything for certain: moments and the largest loss are those of the computed law with the excess of [`MassRounding`].

use crate::loss::pairs::MassRounding;

/// The kinds of such steps, and how often each is taken.
#[derive(Debug, Default)]
pub(crate) struct RoundedMasses {
    kinds: Vec<(f64, MassRounding)>,
}

impl RoundedMasses {
    pub(crate) fn add(&mut self, steps: f64, rounding: MassRounding) {
        self.kinds.push((steps, rounding));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// By how much log E[e^{cℓ}] of the run may exceed that of the computed laws.
    pub(crate) fn log_moment_excess(&self, c: f64) -> f64 {
        self.sum(|rounding| rounding.log_moment_excess(c))
    }

    /// By how much the largest loss of the run may exceed that of the computed laws.
    pub(crate) fn loss_excess(&self) -> f64 {
        self.sum(|rounding| rounding.loss_excess)
    }

    /// Σ over all steps, rounded up.
    fn sum(&self, of: impl Fn(&MassRounding) -> f64) -> f64 {
        let sum: f64 = self.kinds.iter().map(|(steps, rounding)| steps * of(rounding)).sum();
        sum * (1.0 + f64::EPSILON * (4.0 + self.kinds.len() as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::composed_loss::ComposedLoss;
    use crate::interval::Interval;
    use crate::loss::StepLoss;
    use crate::loss::pairs::StepOutcome;
    use crate::step::{Direction, GroupLaw};

    fn response() -> StepLoss {
        let law = GroupLaw::binomial(1, 1.0).unwrap();
        StepLoss::response(&law, 0.75, Direction::Remove).unwrap()
    }

    fn rounding() -> MassRounding {
        MassRounding {
            missing: 1e-6,
            log_factor: 1e-3,
            log_left_out: -20.0,
            largest_loss: 4.0,
            loss_excess: 4.0 - 3f64.ln(),
        }
    }

    fn run() -> ComposedLoss {
        let outcome = StepOutcome::Rounded {
            loss: Some(response()),
            rounding: rounding(),
        };
        ComposedLoss::new(vec![(outcome, 3)], false)
    }

    /// A true law within the stated errors that uses them up: masses e^{r/2} times too small, and an output of mass D at the largest loss.
    #[test]
    fn moments_are_those_of_the_worst_law_within_the_errors() {
        for c in [0.5f64, 1.0, 6.0] {
            let computed = 0.75 * 3f64.powf(c) + 0.25 * 3f64.powf(-c);
            let worst = (computed * (1e-3 * (1.0 + c)).exp()).ln() + (-20.0 + (1.0 + c) * 4.0f64).exp().ln_1p();
            let found = run().renyi(1.0 + c) * c / 3.0;
            assert!(found >= worst.min(4.0 * c) * (1.0 - 1e-12), "{c}: {found} {worst}");
            assert!(found <= worst * (1.0 + 1e-9), "{c}: {found} {worst}");
        }
        assert!((run().renyi(1e9) / 12.0 - 1.0).abs() < 1e-9);
    }

    /// δ has what is missing, but for ε from the largest loss on; ε of a smaller δ is at most that loss.
    #[test]
    fn what_is_missing_reveals_no_more_than_the_largest_loss() {
        let mut run = run();
        assert!((run.largest_loss() - 12.0).abs() < 1e-12);
        let missing = run.delta(11.9, 1e-6).upper();
        assert!((2.9e-6..3.1e-6).contains(&missing), "{missing}");
        assert_eq!(run.delta(12.1, 1e-6).upper(), 0.0);
        let Interval { lower, upper } = run.epsilon(1e-9f64.ln(), 1e-6).unwrap();
        assert!(lower <= upper && (upper / 12.0 - 1.0).abs() < 1e-9, "{lower} {upper}");
    }

    /// Beside outputs that do reveal P, nothing is bounded.
    #[test]
    fn other_steps_may_reveal_something_for_certain() {
        let outcomes = |log_common| {
            vec![
                (
                    StepOutcome::Rounded {
                        loss: None,
                        rounding: rounding(),
                    },
                    1,
                ),
                (
                    StepOutcome::Partly {
                        log_common,
                        offset: 0.0,
                        loss: Some(response()),
                    },
                    1,
                ),
            ]
        };
        let mut reveals = ComposedLoss::new(outcomes(-1e-3), false);
        assert_eq!(reveals.renyi(2.0), f64::INFINITY);
        assert_eq!(reveals.largest_loss(), f64::INFINITY);
        let mut hides = ComposedLoss::new(outcomes(0.0), false);
        assert!(hides.renyi(2.0) < 4.0 + 3f64.ln());
    }
}
