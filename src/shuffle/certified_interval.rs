//! Shuffled batches against the ordinary adversary, who sees the outputs alone: a certified interval.
//!
//! No pair is known that dominates an epoch of shuffled batches tightly, so that both ends are bounds of their own
//! (`docs/theory/shuffling-interval.md`).
//!
//! * **Below**: what two concrete data sets certainly reveal ([`crate::shuffle::lower_end`]).
//! * **Above**: the adversary may as well know the batches. Then a run is N(0, 1) against N(cs/σ, 1) with the law of c² of
//!   [`MembershipLaw`], s = 1 for records that are zeroed out and 2 for replaced ones.

use crate::curve::composed_loss::ComposedLoss;
use crate::curve::composition::Composition;
use crate::error::{Result, require_delta, require_epsilon, require_noise_multiplier};
use crate::interval::Interval;
use crate::loss::StepLoss;
use crate::loss::pairs::StepOutcome;
use crate::shuffle::MembershipLaw;
use crate::shuffle::shuffled_run::{Question, ShuffledRun};

/// Noise multipliers below this count as 0 in the upper end, which can only overstate it.
const REVEALING_NOISE: f64 = 1e-8;
/// Larger noise multipliers count as this one in the upper end, which can only overstate it.
const MAX_NOISE: f64 = 1e30;

impl ShuffledRun {
    /// Certified bounds on the smallest ε ≥ 0 with δ(ε) ≤ `delta`; the lower one is that of concrete data sets.
    ///
    /// # Errors
    /// An argument out of range.
    pub fn epsilon(&self, delta: f64, tolerance: f64) -> Result<Interval> {
        require_delta(delta)?;
        self.answer(Question::Epsilon(delta), tolerance)
    }

    /// The upper end of [`ShuffledRun::epsilon`], which takes a small part of the time of the lower one.
    ///
    /// # Errors
    /// An argument out of range.
    pub fn epsilon_upper(&self, delta: f64, tolerance: f64) -> Result<f64> {
        require_delta(delta)?;
        self.check()?;
        self.upper(Question::Epsilon(delta), tolerance)
    }

    /// Certified bounds on δ at ε ≥ 0.
    ///
    /// # Errors
    /// An argument out of range.
    pub fn delta(&self, epsilon: f64, tolerance: f64) -> Result<Interval> {
        require_epsilon(epsilon)?;
        self.answer(Question::Delta(epsilon), tolerance)
    }

    fn answer(&self, question: Question, tolerance: f64) -> Result<Interval> {
        self.check()?;
        let upper = self.upper(question, tolerance)?;
        let lower = self.lower(question, tolerance)?;
        Interval::of_bounds(lower, upper)
    }

    fn check(&self) -> Result<()> {
        require_noise_multiplier(self.noise_multiplier)?;
        self.epochs(1).check()
    }

    /// An upper bound: the adversary knows the batches.
    fn upper(&self, question: Question, tolerance: f64) -> Result<f64> {
        if self.steps == 0 {
            return Ok(0.0);
        }
        let widest = self.of_gaussians(question, vec![0.0], vec![self.largest_shift()], tolerance)?;
        let Some(law) = self.law() else {
            return Ok(widest);
        };
        let total: f64 = law.probabilities.iter().sum();
        let rounding = law.rounding + 4.0 * f64::EPSILON * (2.0 + (law.squares.len() as f64).sqrt());
        let factor = total * (1.0 + 4.0 * rounding) / (1.0 - 4.0 * rounding);
        let weights = law.probabilities.iter().map(|p| (p / total).ln()).collect();
        let scale = self.change.sensitivity() / self.noise_multiplier.min(MAX_NOISE);
        let shifts = law.squares.iter().map(|&square| (square as f64).sqrt() * scale);
        let mixed = match question {
            Question::Delta(epsilon) => {
                let known = self.of_gaussians(Question::Delta(epsilon), weights, shifts.collect(), tolerance)?;
                known * factor + law.left_out
            }
            Question::Epsilon(delta) => {
                let rest = (delta - law.left_out) / factor;
                if rest <= 0.0 {
                    return Ok(widest);
                }
                let rest = rest.min(1.0 - f64::EPSILON);
                self.of_gaussians(Question::Epsilon(rest), weights, shifts.collect(), tolerance)?
            }
        };
        Ok(mixed.min(widest))
    }

    /// The law of c², where it is not too long to list.
    fn law(&self) -> Option<MembershipLaw> {
        let (complete, rest) = self.complete();
        if complete == 0 {
            return MembershipLaw::of_rounds(&self.epochs(1), rest).ok();
        }
        let law = MembershipLaw::of(&self.epochs(complete)).ok()?;
        if rest == 0 {
            return Some(law);
        }
        law.and(&MembershipLaw::of_rounds(&self.epochs(1), rest).ok()?).ok()
    }

    /// The largest distance between the outputs, in standard deviations: all members in the same batch of every epoch, or as many as it has
    /// room for.
    fn largest_shift(&self) -> f64 {
        let (complete, rest) = self.complete();
        let epochs = complete as f64 + if rest > 0 { 1.0 } else { 0.0 };
        let (members, together) = (self.group_size as f64, self.group_size.min(self.batch_size) as f64);
        (epochs * members * together).sqrt() * self.change.sensitivity() / self.noise_multiplier.min(MAX_NOISE)
    }

    /// An upper bound on the answer of a mixture of Gaussian pairs of which the adversary sees the component.
    fn of_gaussians(
        &self,
        question: Question,
        log_weights: Vec<f64>,
        distances: Vec<f64>,
        tolerance: f64,
    ) -> Result<f64> {
        if distances.iter().all(|&distance| distance == 0.0) {
            return Ok(0.0);
        }
        if self.noise_multiplier < REVEALING_NOISE {
            let shifted = log_weights.iter().zip(&distances).filter(|part| *part.1 > 0.0);
            let revealed: f64 = shifted.map(|part| part.0.exp()).sum::<f64>() * (1.0 + 1e-12);
            return Ok(match question {
                Question::Delta(_) => revealed.min(1.0),
                Question::Epsilon(delta) if revealed <= delta => 0.0,
                Question::Epsilon(_) => f64::INFINITY,
            });
        }
        let loss = StepLoss::gaussians(log_weights, distances);
        let steps = vec![(StepOutcome::Loss(loss), 1)];
        let mut curve = Composition::of_directions(vec![ComposedLoss::new(steps, false)]);
        match question {
            Question::Delta(epsilon) => Ok(curve.delta(epsilon, tolerance)?.upper()),
            Question::Epsilon(delta) => Ok(curve.epsilon(delta, tolerance)?.upper),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shuffle::RecordChange;

    /// A run over batches of six records.
    fn run(batches: u64, noise_multiplier: f64, steps: u64) -> ShuffledRun {
        ShuffledRun {
            dataset_size: 6 * batches,
            batch_size: 6,
            group_size: 1,
            steps,
            noise_multiplier,
            change: RecordChange::ZeroOut,
        }
    }

    /// σ, batches, δ, both ends of ε: the lower ones by SciPy from the distribution function of the largest output, maximised over the
    /// events that it exceeds some number; the upper ones those of N(0, 1) against N(1/σ, 1).
    const ONE_EPOCH: [(f64, u64, f64, f64, f64); 3] = [
        (1.0, 100, 1e-5, 4.0632, 4.3772),
        (0.5, 1000, 1e-6, 10.9969, 10.9970),
        (2.0, 100, 1e-5, 0.4837, 1.9931),
    ];

    #[test]
    fn one_epoch_has_the_ends_of_its_closed_forms() {
        for (sigma, batches, delta, lower, upper) in ONE_EPOCH {
            let found = run(batches, sigma, batches).epsilon(delta, 1e-6).unwrap();
            assert!((found.lower - lower).abs() < 1e-4, "{sigma} {found:?}");
            assert!((found.upper - upper).abs() < 1e-3, "{sigma} {found:?}");
            let upper = run(batches, sigma, batches).epsilon_upper(delta, 1e-6);
            assert_eq!(upper, Ok(found.upper));
            // δ at either end is on the other side.
            let there = run(batches, sigma, batches).delta(found.lower, 1e-6).unwrap();
            assert!((there.lower / delta - 1.0).abs() < 1e-3, "{sigma} {there:?}");
        }
    }

    /// δ of (1/T) Σ N(u e_t, σ²) against (1/T) Σ N(v e_t, σ²) in T ≤ 3 dimensions, by the midpoint rule on a grid.
    fn exact_delta(batches: usize, sigma: f64, (u, v): (f64, f64), epsilon: f64) -> f64 {
        let step = [0.01, 0.03, 0.15][batches - 1];
        let first = -7.0 * sigma;
        let count = ((u.max(v) + 14.0 * sigma) / (step * sigma)) as usize;
        let density =
            |x: f64, mean: f64| (-0.5 * ((x - mean) / sigma).powi(2)).exp() * step / 2.506_628_274_631_000_5;
        let table: Vec<[f64; 3]> = (0..count)
            .map(|i| first + (i as f64 + 0.5) * step * sigma)
            .map(|x| [density(x, 0.0), density(x, u), density(x, v)])
            .collect();
        let mut sum = 0.0;
        let mut place = vec![0; batches];
        loop {
            let mean = |which: usize| -> f64 {
                let term = |shifted: usize| -> f64 {
                    let factor = |(t, &i): (usize, &usize)| table[i][if t == shifted { which } else { 0 }];
                    place.iter().enumerate().map(factor).product()
                };
                (0..batches).map(term).sum::<f64>() / batches as f64
            };
            sum += (mean(1) - epsilon.exp() * mean(2)).max(0.0);
            let Some(next) = place.iter().position(|&i| i + 1 < count) else {
                return sum;
            };
            place[..next].fill(0);
            place[next] += 1;
        }
    }

    #[test]
    fn the_exact_divergence_of_a_few_batches_lies_between_the_ends() {
        for (batches, sigma, epsilon) in [(2, 1.0, 1.0), (2, 0.5, 3.0), (3, 1.0, 1.0), (3, 2.0, 0.2)] {
            for change in [RecordChange::ZeroOut, RecordChange::Replace] {
                let run = ShuffledRun {
                    change,
                    ..run(batches, sigma, batches)
                };
                let (u, v) = change.shifts();
                let dims = batches as usize;
                let exact =
                    exact_delta(dims, sigma, (u, v), epsilon).max(exact_delta(dims, sigma, (v, u), epsilon));
                let found = run.delta(epsilon, 1e-6).unwrap();
                assert!(
                    found.lower <= exact * (1.0 + 1e-4),
                    "{run:?} {epsilon}: {found:?} {exact}"
                );
                assert!(
                    exact <= found.upper * (1.0 + 1e-4),
                    "{run:?} {epsilon}: {found:?} {exact}"
                );
                // The largest sum alone loses little: half of the lower end, or of the upper one, would show.
                assert!(found.lower > 0.6 * exact, "{run:?} {epsilon}: {found:?} {exact}");
            }
        }
    }

    #[test]
    fn more_epochs_more_members_and_less_noise_reveal_more() {
        let base = run(20, 2.0, 40);
        let ends = |run: ShuffledRun| run.epsilon(1e-5, 1e-3).unwrap();
        let known = ends(base);
        assert!(0.0 < known.lower && known.lower < known.upper);
        for more in [
            ShuffledRun { steps: 60, ..base },
            ShuffledRun { steps: 45, ..base },
            ShuffledRun { group_size: 3, ..base },
            ShuffledRun {
                noise_multiplier: 1.5,
                ..base
            },
            ShuffledRun {
                change: RecordChange::Replace,
                ..base
            },
        ] {
            let found = ends(more);
            assert!(
                found.lower > known.lower && found.upper > known.upper,
                "{more:?}: {found:?} {known:?}"
            );
            assert!(found.lower <= found.upper, "{more:?}");
        }
    }

    /// Half of the records are in no batch: whoever knows the batches sees one pair of the distance 1/σ with probability 1/2.
    #[test]
    fn records_that_no_batch_holds_reveal_nothing() {
        let run = ShuffledRun {
            dataset_size: 11,
            ..run(1, 1.0, 1)
        };
        let part = 6.0 / 11.0;
        let gaussian = crate::curve::one_step::gaussian_delta(1.0, 0.5).upper();
        let found = run.delta(0.5, 1e-6).unwrap();
        assert!((found.upper / (part * gaussian) - 1.0).abs() < 1e-6, "{found:?}");
        assert!(
            found.lower > 0.3 * found.upper && found.lower < found.upper,
            "{found:?}"
        );
    }

    #[test]
    fn runs_without_noise_or_steps_are_answered() {
        let silent = run(10, 0.0, 10);
        assert_eq!(silent.epsilon(1e-5, 1e-6).unwrap(), Interval::exact(f64::INFINITY));
        let found = ShuffledRun { steps: 5, ..silent }.delta(1.0, 1e-6).unwrap();
        assert!(
            (found.lower - 0.5).abs() < 1e-9 && (found.upper - 0.5).abs() < 1e-9,
            "{found:?}"
        );
        assert_eq!(run(10, 1.0, 0).epsilon(1e-5, 1e-6).unwrap(), Interval::exact(0.0));
        assert_eq!(run(10, 1.0, 0).delta(0.0, 1e-6).unwrap(), Interval::exact(0.0));
        let tiny = run(10, 1e-9, 10).epsilon(1e-5, 1e-6).unwrap();
        assert!(tiny.lower > 100.0 && tiny.upper.is_infinite());
    }

    #[test]
    fn arguments_out_of_range_are_refused() {
        let good = run(10, 1.0, 10);
        assert!(good.epsilon(0.0, 1e-6).is_err() && good.delta(-1.0, 1e-6).is_err());
        assert!(good.epsilon_upper(1.5, 1e-6).is_err() && run(10, -1.0, 10).epsilon_upper(1e-5, 1e-6).is_err());
        assert!(run(10, -1.0, 10).epsilon(1e-5, 1e-6).is_err());
        let crowded = ShuffledRun { group_size: 61, ..good };
        assert!(
            crowded
                .epsilon(1e-5, 1e-6)
                .unwrap_err()
                .to_string()
                .contains("group_size")
        );
    }
}
