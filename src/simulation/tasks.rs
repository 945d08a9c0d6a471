//! A run of the Monte Carlo of [`crate::simulation::monte_carlo`], in tasks that any thread or machine may draw.

use crate::error::{Error, Result, require};
use crate::loss::MixturePair;
use crate::loss::moment::Moments;
use crate::monitor::Monitor;
use crate::simulation::confidence::Sample;
use crate::simulation::monte_carlo::{Estimate, Segment, Settings};
use crate::simulation::random::{BLOCK, Words};
use crate::simulation::sampler::{Block, Draw, LossTable};
use crate::special::root::golden_section;
use crate::step::Direction;
use crate::stopping::checkpoint;
use crate::threads::in_pool;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rayon::prelude::*;
use std::ops::Range;

/// Steps drawn by one task: 3 ms of work, so that tasks balance and an interruption is soon seen.
const STEPS_PER_TASK: u64 = 1 << 20;
/// Tasks drawn in one call at most: their streams and sums take memory.
const MOST_TASKS: u64 = 1 << 20;
/// Samples of one task at most.
const SAMPLES_PER_TASK: u64 = 1 << 16;

/// Tilts that are tried, and the evaluations spent on the choice: to 0.3 %, and log B is flat at its minimum.
const TILT_RANGE: (f64, f64) = (1e-4, 9.9e3);
const TILT_EVALUATIONS: usize = 20;

/// A run ready to be drawn, in tasks that do not depend on each other: any machine may draw any of them.
///
/// Task number i uses the stream i jumps (of 2^128 words) from the seed. The sums of the tasks, added in their
/// order from zero, give the bits of [`monte_carlo_delta`](crate::simulation::monte_carlo::monte_carlo_delta), whoever drew them.
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
    /// Log-probability that the steps that tell show nothing.
    log_unmoved: f64,
    /// True if ε may be as large as the losses of steps that are taken to tell: δ is then at most what is found.
    is_upper_only: bool,
    noisy: Noisy,
}

/// What is left to draw.
#[derive(Debug)]
enum Noisy {
    /// Nothing: δ of the noisy steps is known.
    Known(f64),
    /// Losses of these tables.
    Drawn(TiltedRun),
}

impl Simulation {
    /// Builds the tables of the run.
    ///
    /// # Errors
    /// Those of [`monte_carlo_delta`](crate::simulation::monte_carlo::monte_carlo_delta).
    pub fn new(epsilon: f64, segments: &[Segment], settings: &Settings, monitor: &dyn Monitor) -> Result<Self> {
        check(epsilon, settings)?;
        let mut epsilon = epsilon;
        let mut log_unmoved = 0.0;
        let mut is_upper_only = false;
        let mut noisy: Vec<(Moments, u64)> = Vec::new();
        for segment in segments.iter().filter(|segment| segment.steps > 0) {
            crate::error::require_noise_multiplier(segment.noise_multiplier)?;
            if segment.law.shifts() == [0.0] {
                continue;
            }
            if is_telling(segment) {
                is_upper_only |= segment.noise_multiplier > 0.0 && epsilon.abs() > LARGEST_EPSILON;
                log_unmoved += segment.steps as f64 * segment.law.log_probability_of_zero();
            } else {
                let pair = MixturePair::new(&segment.law, segment.noise_multiplier)?;
                noisy.push((Moments::new(pair), segment.steps));
            }
        }
        // A step that tells shows whether a member was in the batch. Adding: the loss is −log w_0 for sure.
        // Removing: it is +∞ but for probability w_0, and log w_0 then.
        epsilon += settings.direction.sign() * -log_unmoved;
        let noisy = if noisy.is_empty() || epsilon.is_infinite() {
            Noisy::Known(if epsilon < 0.0 { -epsilon.exp_m1() } else { 0.0 })
        } else {
            Noisy::Drawn(TiltedRun::new(epsilon, &mut noisy, settings, monitor)?)
        };
        Ok(Self {
            settings: *settings,
            log_unmoved,
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
    /// Tasks that there are not; [`Error::Interrupted`] when the monitor says so.
    pub fn draw(&self, tasks: Range<u64>, monitor: &dyn Monitor) -> Result<Vec<Sample>> {
        let count = self.tasks();
        require(tasks.start <= count, "first", tasks.start, "a task of the run")?;
        require(tasks.end <= count, "end", tasks.end, "at most the number of tasks")?;
        let wanted = tasks.end.saturating_sub(tasks.start);
        require(wanted <= MOST_TASKS, "end - first", wanted, "at most 1048576")?;
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

    /// Draws tasks, the first of which has this stream; it is then that of the task after them.
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
        let most = self.settings.samples as f64 * (1.0 + SUMMATION);
        require((0.0..=most).contains(&sum), "sum", sum, "in [0, samples]")?;
        let squares = (0.0..=sum * (1.0 + SUMMATION)).contains(&sum_of_squares);
        require(squares, "sum_of_squares", sum_of_squares, "in [0, sum]")?;
        let noisy = match &self.noisy {
            Noisy::Known(delta) => Estimate::certain(*delta),
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
        let found = with_telling(noisy, self.log_unmoved, self.settings.direction);
        Ok(if self.is_upper_only {
            Estimate { lower: 0.0, ..found }
        } else {
            found
        })
    }
}

/// Room for the rounding of sums over all samples.
const SUMMATION: f64 = 1e-6;

/// Room for the last places of the few operations of a closed form.
const ROUNDING: f64 = 4.0 * f64::EPSILON;

impl Estimate {
    /// A value known but for rounding.
    fn certain(delta: f64) -> Self {
        Self {
            estimate: delta,
            lower: delta * (1.0 - ROUNDING),
            upper: (delta * (1.0 + ROUNDING)).min(1.0),
        }
    }
}

fn check(epsilon: f64, settings: &Settings) -> Result<()> {
    require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
    require(settings.samples >= 1, "samples", settings.samples, "at least 1")?;
    let confidence = settings.confidence;
    require(
        confidence > 0.0 && confidence < 1.0,
        "confidence",
        confidence,
        "in (0, 1)",
    )?;
    if let Some(tilt) = settings.tilt {
        require((0.0..=1e4).contains(&tilt), "tilt", tilt, "in [0, 10000]")?;
    }
    Ok(())
}

/// A step whose shifts are this many standard deviations apart tells whether the group moved it.
const DISTANCE: f64 = 1e5;
/// As far as δ(ε) can show up to this ε. Beyond it a run that tells has a larger δ.
const LARGEST_EPSILON: f64 = 1e9;

/// True if a step's output tells whether the group moved it, as far as δ(ε) can show up to [`LARGEST_EPSILON`].
///
/// Without noise it does. With shifts at 0 and at least d standard deviations away, the loss when removing is
/// log w_0 or above d²/2 − 40d + log w_j: infinite for every ε far below that.
fn is_telling(segment: &Segment) -> bool {
    let nearest = segment.law.shifts().iter().copied().find(|&shift| shift != 0.0);
    let lowest = segment.law.shifts()[0];
    let separated = nearest.is_some_and(|shift| shift >= DISTANCE * segment.noise_multiplier);
    segment.noise_multiplier == 0.0 || (lowest >= 0.0 && separated)
}

/// δ with the steps that tell: 1 − W + W·δ when removing, W the probability that they show nothing.
fn with_telling(estimate: Estimate, log_unmoved: f64, direction: Direction) -> Estimate {
    if log_unmoved == 0.0 || direction == Direction::Add {
        return estimate;
    }
    let shown = -log_unmoved.exp_m1();
    let combine = |delta: f64| shown + (1.0 - shown) * delta;
    Estimate {
        estimate: combine(estimate.estimate),
        lower: combine(estimate.lower) * (1.0 - ROUNDING),
        upper: (combine(estimate.upper) * (1.0 + ROUNDING)).min(1.0),
    }
}

/// log(λ^λ/(1 + λ)^{1+λ}): the largest value of e^{−λt}(1 − e^{−t}) over t > 0.
fn log_peak(tilt: f64) -> f64 {
    if tilt == 0.0 {
        0.0
    } else {
        // 1/λ overflows for subnormal λ, where the product is 0 all the same.
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
            .map(|(moments, steps)| *steps as f64 * moments.log_power_moment(exponent).0)
            .sum();
        cumulant - tilt * epsilon + log_peak(tilt)
    };
    let (low, high) = TILT_RANGE;
    golden_section(low.ln(), high.ln(), TILT_EVALUATIONS, log_bound).0.exp()
}

/// Tables of all segments at one tilt.
#[derive(Debug)]
struct TiltedRun {
    epsilon: f64,
    tilt: f64,
    log_peak: f64,
    tables: Vec<(LossTable, u64)>,
}

impl TiltedRun {
    fn new(
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
    fn estimate(&self, sample: Sample, confidence: f64) -> Estimate {
        let all_steps = self.steps();
        let (mut log_moment, mut log_moment_upper, mut loss_error, mut missing) = (0.0, 0.0, 0.0, 0.0);
        let (mut law_error, mut mean_size) = (0.0, 0.0);
        for (table, steps) in &self.tables {
            let count = *steps as f64;
            log_moment += count * table.log_moment.0;
            log_moment_upper += count * table.log_moment.1;
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
        // λε may overflow; far beyond this δ is 0 or 1 all the same.
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
    fn samples_per_task(&self) -> u64 {
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

    /// Draws `samples` runs from one stream; `None` if the monitor stops it.
    ///
    /// Segment by segment, the losses of a block are dealt out to the samples in order.
    fn draw_task(&self, stream: Xoshiro256PlusPlus, samples: usize, monitor: &dyn Monitor) -> Option<Sample> {
        let arch = pulp::Arch::new();
        let mut words = Words::new(stream);
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
                            words: &mut words,
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
