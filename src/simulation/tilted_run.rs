//! The steps with noise of a simulation, drawn under one tilted law, and the estimate of δ from their samples.

use crate::error::Result;
use crate::loss::moment::Moments;
use crate::monitor::Monitor;
use crate::simulation::confidence::Sample;
use crate::simulation::random::{BLOCK, Lanes};
use crate::simulation::sampler::{Block, Draw, LossTable};
use crate::simulation::settings::{Estimate, Settings};
use crate::special::root::golden_section;
use crate::step::Direction;
use rand::Rng;

/// Steps drawn by one task: 3 ms of work, so that tasks balance and an interruption is soon seen.
const STEPS_PER_TASK: u64 = 1 << 20;
/// Largest number of samples of one task: their losses take half a megabyte.
const SAMPLES_PER_TASK: u64 = 1 << 16;

/// Range of the tilts that are tried, and the number of evaluations spent on the choice: they determine λ to 0.3 %, and log B
/// is flat at its minimum.
const TILT_RANGE: (f64, f64) = (1e-4, 9.9e3);
const TILT_EVALUATIONS: usize = 20;

/// log(λ^λ/(1 + λ)^{1+λ}): the largest value of e^{−λt}(1 − e^{−t}) over t > 0.
fn log_peak(tilt: f64) -> f64 {
    if tilt == 0.0 {
        0.0
    } else {
        // 1/λ overflows for subnormal λ, where the product is 0 in any case.
        -tilt * (1.0 / tilt).min(f64::MAX).ln_1p() - tilt.ln_1p()
    }
}

/// The tilt with the smallest bound B.
fn choose_tilt(epsilon: f64, segments: &mut [(Moments, u64)], direction: Direction) -> f64 {
    let log_bound = |position: f64| {
        let tilt = position.exp();
        let exponent = direction.ratio_exponent(1.0 + tilt);
        let cumulant: f64 = segments
            .iter_mut()
            .map(|(moments, steps)| *steps as f64 * moments.log_power_moment(exponent).value)
            .sum();
        cumulant - tilt * epsilon + log_peak(tilt)
    };
    let (low, high) = TILT_RANGE;
    golden_section(low.ln(), high.ln(), TILT_EVALUATIONS, log_bound).0.exp()
}

/// The steps with noise, tilted: a table of the loss for each segment.
#[derive(Debug)]
pub(crate) struct TiltedRun {
    epsilon: f64,
    tilt: f64,
    log_peak: f64,
    tables: Vec<(LossTable, u64)>,
}

impl TiltedRun {
    pub(crate) fn new(
        epsilon: f64,
        segments: &mut [(Moments, u64)],
        settings: &Settings,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        let direction = settings.direction;
        let tilt = settings
            .tilt
            .unwrap_or_else(|| choose_tilt(epsilon, segments, direction));
        let all_steps: u64 = segments.iter().map(|(_, steps)| steps).sum();
        let mut tables = Vec::with_capacity(segments.len());
        for (moments, steps) in segments {
            let table = LossTable::new(moments, direction, tilt, all_steps, monitor)?;
            tables.push((table, *steps));
        }
        Ok(Self {
            epsilon,
            tilt,
            log_peak: log_peak(tilt),
            tables,
        })
    }

    /// The estimate of δ from all samples, with the interval that their number and every error leave.
    pub(crate) fn estimate(&self, sample: Sample, confidence: f64) -> Estimate {
        let all_steps = self.steps();
        let (mut log_moment, mut log_moment_upper, mut loss_error, mut missing) = (0.0, 0.0, 0.0, 0.0);
        let (mut law_error, mut mean_size) = (0.0, 0.0);
        for (table, steps) in &self.tables {
            let count = *steps as f64;
            log_moment += count * table.log_moment.value;
            log_moment_upper += count * table.log_moment.upper;
            loss_error += count * table.loss_error;
            law_error += count * table.law_error;
            mean_size += count * table.mean_size;
            missing += count * table.missing;
        }
        let (lower, upper) = sample.interval(confidence);
        // The drawn variable e^{−λt}(1 − e^{−t})/peak has slope at most 1/peak, so an error of the loss moves
        // its mean by at most the mean error over the peak: that of the polynomials, and that of adding up a
        // sample's losses, at most half a unit in the last place of Σ|loss| for each addition. It is itself at
        // most 1.
        let additions = BLOCK as f64 + 2.0 * all_steps as f64 / BLOCK as f64 + self.tables.len() as f64 + 2.0;
        let loss_error = loss_error + f64::EPSILON * additions * mean_size;
        // Adding up the samples: within a task, then over tasks.
        let per_task = self.samples_per_task() as f64;
        let rounding = f64::EPSILON * (per_task + sample.count / per_task + 4.0);
        let bias = loss_error / self.log_peak.exp() + missing + rounding;
        // λε may overflow; far beyond this δ is 0 or 1 in any case.
        let tilted_epsilon = (self.tilt * self.epsilon).clamp(-1e300, 1e300);
        let log_scale = log_moment - tilted_epsilon + self.log_peak;
        let log_scale_error = (log_moment_upper - log_moment)
            + law_error
            + 8.0 * f64::EPSILON * (log_moment.abs() + tilted_epsilon.abs() + self.log_peak.abs() + 1.0);
        let at = |mean: f64, log_error: f64| {
            if mean <= 0.0 {
                0.0
            } else {
                (log_scale + log_error + mean.ln()).exp()
            }
        };
        let upper = at(upper + bias, log_scale_error).clamp(f64::from_bits(1), 1.0);
        let lower = at(lower - bias, -log_scale_error).min(upper);
        Estimate {
            estimate: at(sample.mean(), 0.0).clamp(lower, upper),
            lower,
            upper,
        }
    }

    /// Steps of one sample.
    fn steps(&self) -> u64 {
        self.tables.iter().map(|(_, steps)| steps).sum()
    }

    /// Samples that one task draws.
    pub(crate) fn samples_per_task(&self) -> u64 {
        (STEPS_PER_TASK / self.steps().max(1)).clamp(1, SAMPLES_PER_TASK)
    }

    /// The variable in [0, 1] whose mean is δ/B.
    fn value(&self, loss: f64) -> f64 {
        let over = loss - self.epsilon;
        if over <= 0.0 {
            return 0.0;
        }
        -(-over).exp_m1() * (-self.tilt * over - self.log_peak).exp()
    }

    /// Draws `samples` runs from one stream of random words; `None` if the monitor stops it.
    ///
    /// Segment by segment, the samples take the losses of the blocks in order.
    pub(crate) fn draw_task(&self, mut stream: impl Rng, samples: usize, monitor: &dyn Monitor) -> Option<Sample> {
        let arch = pulp::Arch::new();
        let mut lanes = Lanes::from_rng(&mut stream);
        let mut block = Block::new();
        let mut totals = vec![0.0; samples];
        for (table, steps) in &self.tables {
            let mut next = BLOCK;
            for total in &mut totals {
                let mut left = *steps;
                while left > 0 {
                    if next == BLOCK {
                        if monitor.cancelled() {
                            return None;
                        }
                        arch.dispatch(Draw {
                            table,
                            words: &mut lanes,
                            rare: &mut stream,
                            block: &mut block,
                        });
                        next = 0;
                    }
                    let count = left.min((BLOCK - next) as u64) as usize;
                    *total += block.losses[next..next + count].iter().sum::<f64>();
                    next += count;
                    left -= count as u64;
                }
            }
        }
        let mut sample = Sample {
            count: samples as f64,
            ..Sample::default()
        };
        for total in totals {
            let value = self.value(total).min(1.0);
            sample.sum += value;
            sample.sum_of_squares += value * value;
        }
        Some(sample)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::step::GroupLaw;

    /// A run without steps, whose losses are given.
    fn run(epsilon: f64, tilt: f64) -> TiltedRun {
        TiltedRun {
            epsilon,
            tilt,
            log_peak: log_peak(tilt),
            tables: Vec::new(),
        }
    }

    #[test]
    fn the_variable_is_at_most_1_and_attains_it() {
        for tilt in [0.0f64, 1e-3, 0.5, 3.0, 200.0] {
            let run = run(0.7, tilt);
            let values = (1..200_000).map(|i| run.value(0.7 + 40.0 / tilt.max(1.0) * f64::from(i) / 200_000.0));
            let largest = values.fold(0.0, f64::max);
            assert!((0.99..=1.0 + 1e-12).contains(&largest), "{tilt} {largest}");
            assert_eq!(run.value(0.7), 0.0);
        }
    }

    #[test]
    fn the_slope_of_the_variable_is_at_most_that_of_the_bias() {
        // An error of the loss counts 1/peak times.
        for tilt in [0.0f64, 0.5, 3.0, 200.0] {
            let run = run(0.7, tilt);
            let step = 1e-6 / (1.0 + tilt);
            let slopes = (0..2000).map(|i| {
                let loss = 0.7 + 0.01 * f64::from(i) / (1.0 + tilt);
                ((run.value(loss + step) - run.value(loss)) / step).abs()
            });
            let (largest, bound) = (slopes.fold(0.0, f64::max), 1.0 / run.log_peak.exp());
            assert!(
                largest <= bound * (1.0 + 1e-5) && largest > 0.99 * bound,
                "{tilt}: {largest} {bound}"
            );
        }
    }

    #[test]
    fn the_chosen_tilt_has_the_smallest_bound() {
        let law = GroupLaw::binomial(4, 0.05).unwrap();
        let mut segments = [(Moments::new(MixturePair::new(&law, 1.0).unwrap()), 20)];
        let tilt = choose_tilt(2.0, &mut segments, Direction::Remove);
        let mut log_bound = |tilt: f64| {
            let cumulant = segments[0].0.log_power_moment(1.0 + tilt).value;
            20.0 * cumulant - 2.0 * tilt + log_peak(tilt)
        };
        let chosen = log_bound(tilt);
        for other in [0.5, 0.8, 0.95, 1.05, 1.25, 2.0] {
            assert!(chosen < log_bound(other * tilt), "{tilt} {other}");
        }
    }
}
