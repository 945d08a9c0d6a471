//! A run of [`monte_carlo_delta`](crate::simulation::monte_carlo_delta) in tasks that any thread or machine may draw.

use crate::error::{Error, Result, require};
use crate::loss::MixturePair;
use crate::loss::moment::Moments;
use crate::monitor::Monitor;
use crate::simulation::confidence::Sample;
use crate::simulation::settings::{Estimate, ROUNDING, Segment, Settings};
use crate::simulation::tilted_run::TiltedRun;
use crate::step::Direction;
use crate::stopping::checkpoint;
use crate::threads::in_pool;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use std::ops::Range;

/// Largest number of tasks drawn in one call: their streams and sums take memory.
const MAX_TASKS: u64 = 1 << 20;
/// A run ready to be drawn, in tasks that do not depend on each other: any machine may draw any of them.
///
/// Task number i uses the stream i jumps (of 2^128 words) from the seed. The sums of the tasks, added in their
/// order from zero, give the bits of [`monte_carlo_delta`](crate::simulation::monte_carlo_delta), whoever drew them.
///
/// # Example
/// ```
/// use hockeystick::Unwatched;
/// use hockeystick::simulation::{Segment, Settings};
/// use hockeystick::simulation::Simulation;
/// use hockeystick::{Direction, GroupLaw};
/// let segments = [Segment { law: GroupLaw::binomial(4, 0.01)?, noise_multiplier: 1.0, steps: 10 }];
/// let direction = Direction::Remove;
/// let settings = Settings { samples: 200_000, direction, tilt: None, seed: 1, confidence: 0.99 };
/// let run = Simulation::new(2.0, &segments, &settings, &Unwatched)?;
/// let mut parts = run.draw(0..2, &Unwatched)?;
/// parts.extend(run.draw(2..run.tasks(), &Unwatched)?);
/// let sum = parts.iter().fold(0.0, |sum, part| sum + part.sum);
/// let sum_of_squares = parts.iter().fold(0.0, |sum, part| sum + part.sum_of_squares);
/// let found = run.estimate(sum, sum_of_squares)?;
/// assert!(found.lower <= 4.5316772e-6 && 4.5316772e-6 <= found.upper);
/// # Ok::<(), hockeystick::Error>(())
/// ```
#[derive(Debug)]
pub struct Simulation {
    settings: Settings,
    /// log W, W the probability that no member is in a batch of the revealing steps.
    log_absent: f64,
    /// True if ε may be as large as the losses of steps that are taken to reveal membership: δ is then at most what is found.
    is_upper_only: bool,
    noisy: Noisy,
}

/// The steps that reveal nothing with certainty.
#[derive(Debug)]
enum Noisy {
    /// There are none, or their δ is known.
    Known(Estimate),
    /// Their losses are drawn.
    Drawn(TiltedRun),
}

impl Simulation {
    /// Builds the tables of the run.
    ///
    /// # Errors
    /// The errors of [`monte_carlo_delta`](crate::simulation::monte_carlo_delta).
    pub fn new(epsilon: f64, segments: &[Segment], settings: &Settings, monitor: &dyn Monitor) -> Result<Self> {
        settings.check(epsilon)?;
        let mut epsilon = epsilon;
        let mut log_absent = 0.0;
        let mut is_upper_only = false;
        let mut additions = 0u32;
        let mut noisy: Vec<(Moments, u64)> = Vec::new();
        for segment in segments.iter().filter(|segment| segment.steps > 0) {
            crate::error::require_noise_multiplier(segment.noise_multiplier)?;
            if segment.law.shifts() == [0.0] {
                continue;
            }
            if is_revealing(segment) {
                is_upper_only |= segment.noise_multiplier > 0.0 && epsilon.abs() > LARGEST_EPSILON;
                additions += 1;
                log_absent += segment.steps as f64 * segment.law.log_probability_of_zero();
            } else {
                let pair = MixturePair::new(&segment.law, segment.noise_multiplier)?;
                noisy.push((Moments::new(pair), segment.steps));
            }
        }
        // A revealing step shows whether a member was in the batch. Adding: the loss is −log w_0 with certainty.
        // Removing: it is log w_0 with probability w_0, and else +∞.
        // Both addends, and each part of the second, are rounded.
        let shifted = f64::from(additions) + 4.0;
        let error = shifted * f64::EPSILON * (epsilon.abs() - log_absent);
        epsilon += settings.direction.sign() * -log_absent;
        let noisy = if noisy.is_empty() || epsilon.is_infinite() {
            let is_exact = log_absent == 0.0 || epsilon.is_infinite();
            Noisy::Known(Estimate::without_losses(epsilon, if is_exact { 0.0 } else { error }))
        } else {
            Noisy::Drawn(TiltedRun::new(epsilon, &mut noisy, settings, monitor)?)
        };
        Ok(Self {
            settings: *settings,
            log_absent,
            is_upper_only,
            noisy,
        })
    }

    /// Number of tasks; zero where nothing has to be drawn.
    pub fn tasks(&self) -> u64 {
        match &self.noisy {
            Noisy::Known(_) => 0,
            Noisy::Drawn(run) => self.settings.samples.div_ceil(run.samples_per_task()),
        }
    }

    /// Samples of all tasks before this one.
    pub fn samples_before(&self, task: u64) -> u64 {
        match &self.noisy {
            Noisy::Known(_) => 0,
            Noisy::Drawn(run) => run.samples_per_task().saturating_mul(task).min(self.settings.samples),
        }
    }

    /// Draws some of the tasks, in parallel: one sample a task, in their order.
    ///
    /// # Errors
    /// A task number beyond [`Simulation::tasks`]; [`Error::Interrupted`] when the monitor says so.
    pub fn draw(&self, tasks: Range<u64>, monitor: &dyn Monitor) -> Result<Vec<Sample>> {
        let count = self.tasks();
        require(tasks.start <= count, "first", tasks.start, "a task of the run")?;
        require(tasks.end <= count, "end", tasks.end, "at most the number of tasks")?;
        let wanted = tasks.end.saturating_sub(tasks.start);
        require(wanted <= MAX_TASKS, "end - first", wanted, "at most 1048576")?;
        self.draw_along(&mut self.stream(tasks.start), tasks, monitor)
    }

    /// The stream of a task.
    pub(crate) fn stream(&self, task: u64) -> Xoshiro256PlusPlus {
        let mut stream = Xoshiro256PlusPlus::seed_from_u64(self.settings.seed);
        for _ in 0..task {
            checkpoint();
            stream.jump();
        }
        stream
    }

    /// Draws tasks, the first of which uses `stream`; advances it to that of the task after the last.
    pub(crate) fn draw_along(
        &self,
        stream: &mut Xoshiro256PlusPlus,
        tasks: Range<u64>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Sample>> {
        let Noisy::Drawn(run) = &self.noisy else {
            return Ok(Vec::new());
        };
        let streams: Vec<_> = tasks
            .map(|task| {
                let own = stream.clone();
                stream.jump();
                (own, self.samples_before(task + 1) - self.samples_before(task))
            })
            .collect();
        let draw = |(stream, count)| run.draw_task(stream, count as usize, monitor).ok_or(Error::Interrupted);
        in_pool(|| streams.into_par_iter().map(draw).collect())
    }

    /// The estimate and its interval, from the sums over all tasks of the values and of their squares.
    ///
    /// # Errors
    /// Sums that values in [0, 1] cannot have.
    pub fn estimate(&self, sum: f64, sum_of_squares: f64) -> Result<Estimate> {
        let largest = self.settings.samples as f64 * (1.0 + SUMMATION);
        require((0.0..=largest).contains(&sum), "sum", sum, "in [0, samples]")?;
        let squares = (0.0..=sum * (1.0 + SUMMATION)).contains(&sum_of_squares);
        require(squares, "sum_of_squares", sum_of_squares, "in [0, sum]")?;
        let noisy = match &self.noisy {
            Noisy::Known(estimate) => *estimate,
            Noisy::Drawn(run) => {
                let count = self.settings.samples as f64;
                let sample = Sample {
                    count,
                    sum,
                    sum_of_squares,
                };
                run.estimate(sample, self.settings.confidence)
            }
        };
        let found = with_revealing(noisy, self.log_absent, self.settings.direction);
        Ok(if self.is_upper_only {
            Estimate { lower: 0.0, ..found }
        } else {
            found
        })
    }
}

/// Bound on the relative rounding error of sums over all samples.
const SUMMATION: f64 = 1e-6;

/// Distance of the shifts, in standard deviations, from which on a step reveals membership.
const DISTANCE: f64 = 1e5;
/// Largest |ε| up to which δ(ε) of such a step is the same as without noise: d²/2 − 40d is 5·10⁹ at [`DISTANCE`]. Beyond it δ is
/// smaller.
const LARGEST_EPSILON: f64 = 1e9;

/// True if a step reveals whether a member was in its batch, as far as δ(ε) depends on it up to [`LARGEST_EPSILON`].
///
/// Without noise it does. With shifts at 0 and at least d standard deviations away, the loss when removing is
/// log w_0 or above d²/2 − 40d + log w_j: infinite for every ε far below that.
fn is_revealing(segment: &Segment) -> bool {
    let nearest = segment.law.shifts().iter().copied().find(|&shift| shift != 0.0);
    let lowest = segment.law.shifts()[0];
    let separated = nearest.is_some_and(|shift| shift >= DISTANCE * segment.noise_multiplier);
    segment.noise_multiplier == 0.0 || (lowest >= 0.0 && separated)
}

/// δ with the revealing steps: 1 − W + W·δ when removing, W the probability that no member is in their batches.
fn with_revealing(estimate: Estimate, log_absent: f64, direction: Direction) -> Estimate {
    if log_absent == 0.0 || direction == Direction::Add {
        return estimate;
    }
    let revealed = -log_absent.exp_m1();
    let combine = |delta: f64| revealed + (1.0 - revealed) * delta;
    Estimate {
        estimate: combine(estimate.estimate),
        lower: combine(estimate.lower) * (1.0 - ROUNDING),
        upper: (combine(estimate.upper) * (1.0 + ROUNDING)).min(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Unwatched;
    use crate::step::GroupLaw;

    fn segment(sample_rate: f64, noise_multiplier: f64, steps: u64) -> Segment {
        Segment {
            law: GroupLaw::binomial(1, sample_rate).unwrap(),
            noise_multiplier,
            steps,
        }
    }

    fn settings(direction: Direction) -> Settings {
        Settings {
            samples: 100_000,
            direction,
            tilt: None,
            seed: 9,
            confidence: 0.999,
        }
    }

    #[test]
    fn tasks_share_the_samples() {
        let run =
            Simulation::new(0.5, &[segment(0.1, 1.0, 64)], &settings(Direction::Remove), &Unwatched).unwrap();
        // 2^20 steps a task are 2^14 samples of 64 steps.
        assert_eq!(run.tasks(), 100_000u64.div_ceil(1 << 14));
        assert_eq!(run.samples_before(3), 3 << 14);
        assert_eq!(run.samples_before(run.tasks()), 100_000);
        let parts = run.draw(run.tasks() - 1..run.tasks(), &Unwatched).unwrap();
        assert_eq!(parts[0].count, f64::from(100_000 - 6 * (1 << 14)));
    }

    #[test]
    fn sums_that_no_samples_have_are_refused() {
        let run = Simulation::new(0.5, &[segment(0.1, 1.0, 5)], &settings(Direction::Add), &Unwatched).unwrap();
        assert!(run.estimate(10.0, 5.0).is_ok());
        for (sum, squares) in [
            (-1.0, 0.0),
            (100_001.0, 1.0),
            (10.0, 10.1),
            (f64::NAN, 0.0),
            (1.0, -0.1),
        ] {
            assert!(run.estimate(sum, squares).is_err(), "{sum} {squares}");
        }
    }

    #[test]
    fn steps_that_reveal_membership_add_the_probability_of_being_seen() {
        // Removing: some batch of the three holds the record with probability 1 − 0.9³.
        let run = Simulation::new(1.0, &[segment(0.1, 0.0, 3)], &settings(Direction::Remove), &Unwatched).unwrap();
        let found = run.estimate(0.0, 0.0).unwrap();
        let exact = 1.0 - 0.9f64.powi(3);
        assert!(
            found.lower <= exact && exact <= found.upper && found.upper - found.lower < 1e-14,
            "{found:?}"
        );
        // Noise of 1e-6 reveals it too, but for ε beyond its losses, where only the upper bound holds.
        for (epsilon, lower) in [(1.0, exact), (1e10, 0.0)] {
            let law = [segment(0.1, 1e-6, 3)];
            let run = Simulation::new(epsilon, &law, &settings(Direction::Remove), &Unwatched).unwrap();
            let found = run.estimate(0.0, 0.0).unwrap();
            assert!(
                (found.lower - lower).abs() < 1e-14 && found.upper >= exact,
                "{epsilon} {found:?}"
            );
        }
    }

    /// ε + log W has few digits where the two nearly cancel: three batches that hold an added record with probability 1 − 10^−6 each.
    /// δ = 1 − W·e^ε for W = (1 − q)³, q the number nearest to 1 − 10^−6 (mpmath, 60 digits).
    #[test]
    fn an_epsilon_that_revealing_steps_nearly_cancel_is_rounded_outwards() {
        for (epsilon, exact) in [
            (41.446_531_673_806_525, 2.984_341_998_68e-14),
            (41.446_531_673_806_504, 5.115_970_205_97e-14),
            (41.446_531_673_806_476, 7.958_141_149_01e-14),
        ] {
            let law = [segment(1.0 - 1e-6, 0.0, 3)];
            let run = Simulation::new(epsilon, &law, &settings(Direction::Add), &Unwatched).unwrap();
            let found = run.estimate(0.0, 0.0).unwrap();
            assert!(found.lower <= exact && exact <= found.upper, "{epsilon} {found:?}");
            assert!(found.upper - found.lower < 4e-13, "{epsilon} {found:?}");
        }
    }

    #[test]
    fn well_separated_shifts_have_losses_above_every_epsilon_in_question() {
        // The record in the batch has an output beyond d − 40 but with probability 1e-350, and a loss of at least this there.
        let loss = DISTANCE * (DISTANCE - 40.0) - 0.5 * DISTANCE * DISTANCE + 1e-140f64.ln();
        assert!(loss > 4.0 * LARGEST_EPSILON, "{loss}");
        assert!(
            is_revealing(&segment(0.1, 1.0 / DISTANCE, 1)) && !is_revealing(&segment(0.1, 1.01 / DISTANCE, 1))
        );
    }
}
