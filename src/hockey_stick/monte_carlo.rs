//! δ(ε) of a composed run by Monte Carlo, with importance tilting and an interval valid at any sample size.
//!
//! GROUP Algorithm 2 draws the losses of T steps and averages (1 − e^{ε − loss})₊. Here the steps are drawn
//! from the law tilted by e^{λ·loss}, λ ≥ 0, and the average is
//!
//! δ = E_λ[e^{ΣK(λ) − λ·loss}·(1 − e^{ε − loss})₊],  K(λ) = log E_P[e^{λ·loss}] per step,
//!
//! which is plain Monte Carlo at λ = 0. The variable is bounded for every λ: it is largest at
//! loss = ε + log(1 + 1/λ), where it equals B = exp(ΣK(λ) − λε)·λ^λ/(1 + λ)^{1+λ}. So δ/B is the mean of a
//! variable in [0, 1], and [`super::interval`] applies. The automatic choice of λ makes B smallest: log B is
//! convex in λ, and its minimum is the saddle point, where the mean of the loss is near ε.

use super::interval::Sample;
use super::loss_table::{Block, Draw, LossTable};
use super::monitor::Monitor;
use super::words::{BLOCK, Words};
use crate::error::{Error, Result, require};
use crate::pair::moment::Moments;
use crate::pair::{Direction, GroupLaw, MixturePair};
use crate::special::root::golden_section;
use crate::threads::in_pool;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use rayon::prelude::*;

/// Steps drawn by one task: 3 ms of work, so that tasks balance and an interruption is soon seen.
const STEPS_PER_TASK: u64 = 1 << 20;
/// Samples of one task at most.
const SAMPLES_PER_TASK: u64 = 1 << 16;
/// Tasks whose results are held at a time.
const TASKS_PER_WAVE: u64 = 256;

/// Tilts that are tried, and the evaluations spent on the choice: to 0.3 %, and log B is flat at its minimum.
const TILT_RANGE: (f64, f64) = (1e-4, 9.9e3);
const TILT_EVALUATIONS: usize = 20;

/// Equal steps: a group law, noise and how often.
#[derive(Debug, Clone)]
pub struct Segment {
    /// Law of the shift.
    pub law: GroupLaw,
    /// σ ≥ 0.
    pub noise_multiplier: f64,
    /// Number of steps.
    pub steps: u64,
}

/// What to draw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Number of samples of the whole run.
    pub samples: u64,
    /// Which law the loss is drawn from.
    pub direction: Direction,
    /// λ ≥ 0, or `None` for the automatic choice.
    pub tilt: Option<f64>,
    /// Seed: the same seed gives the same bits for any number of threads.
    pub seed: u64,
    /// Probability that the interval holds δ.
    pub confidence: f64,
}

/// An unbiased estimate and an interval that holds δ with the confidence asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Estimate of δ.
    pub estimate: f64,
    /// Lower end.
    pub lower: f64,
    /// Upper end.
    pub upper: f64,
}

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

/// δ(ε) of the composition of `segments` in one direction.
///
/// Cost: one table a segment, then about 4 ns a sample and step whatever the group size. Memory does not
/// depend on the number of samples.
///
/// # Errors
/// ε not finite, no samples, λ outside [0, 10000], a confidence outside (0, 1), σ negative or not finite;
/// [`Error::Interrupted`] when the monitor says so.
///
/// # Example
/// ```
/// use hockeystick::hockey_stick::monitor::Unwatched;
/// use hockeystick::hockey_stick::monte_carlo::{Segment, Settings, monte_carlo_delta};
/// use hockeystick::pair::{Direction, GroupLaw};
/// let run = [Segment { law: GroupLaw::binomial(4, 0.01)?, noise_multiplier: 1.0, steps: 10 }];
/// let settings = Settings {
///     samples: 100_000,
///     direction: Direction::Remove,
///     tilt: None,
///     seed: 1,
///     confidence: 0.99,
/// };
/// let found = monte_carlo_delta(2.0, &run, &settings, &Unwatched)?;
/// assert!(found.lower <= 4.5316772e-6 && 4.5316772e-6 <= found.upper);
/// # Ok::<(), hockeystick::error::Error>(())
/// ```
pub fn monte_carlo_delta(
    epsilon: f64,
    segments: &[Segment],
    settings: &Settings,
    monitor: &dyn Monitor,
) -> Result<Estimate> {
    check(epsilon, settings)?;
    let mut epsilon = epsilon;
    let mut log_unmoved = 0.0;
    let mut noisy: Vec<(Moments, u64)> = Vec::new();
    for segment in segments.iter().filter(|segment| segment.steps > 0) {
        crate::error::require_noise_multiplier(segment.noise_multiplier)?;
        if segment.law.shifts() == [0.0] {
            continue;
        }
        if is_telling(segment, epsilon) {
            log_unmoved += segment.steps as f64 * segment.law.log_probability_of_zero();
        } else {
            let pair = MixturePair::new(&segment.law, segment.noise_multiplier)?;
            noisy.push((Moments::new(pair), segment.steps));
        }
    }
    // A step that tells shows whether a member was in the batch. Adding: the loss is −log w_0 for sure.
    // Removing: it is +∞ but for probability w_0, and log w_0 then.
    epsilon += settings.direction.sign() * -log_unmoved;
    if noisy.is_empty() || epsilon.is_infinite() {
        return Ok(with_telling(
            Estimate::certain(if epsilon < 0.0 { -epsilon.exp_m1() } else { 0.0 }),
            log_unmoved,
            settings.direction,
        ));
    }
    let estimate = estimate_noisy(epsilon, &mut noisy, settings, monitor)?;
    Ok(with_telling(estimate, log_unmoved, settings.direction))
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

/// True if a step's output tells whether the group moved it, as far as δ(ε) can show.
///
/// Without noise it does. With shifts at 0 and at least d standard deviations away, the loss when removing is
/// log w_0 or above d²/2 − 40d + log w_j: infinite for every ε far below that.
fn is_telling(segment: &Segment, epsilon: f64) -> bool {
    const DISTANCE: f64 = 1e5;
    const LARGEST_EPSILON: f64 = 1e9;
    let nearest = segment.law.shifts().iter().copied().find(|&shift| shift != 0.0);
    let lowest = segment.law.shifts()[0];
    let separated = nearest.is_some_and(|shift| shift >= DISTANCE * segment.noise_multiplier);
    segment.noise_multiplier == 0.0 || (lowest >= 0.0 && separated && epsilon.abs() <= LARGEST_EPSILON)
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
        -tilt * (1.0 / tilt).ln_1p() - tilt.ln_1p()
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

fn estimate_noisy(
    epsilon: f64,
    segments: &mut [(Moments, u64)],
    settings: &Settings,
    monitor: &dyn Monitor,
) -> Result<Estimate> {
    let direction = settings.direction;
    let tilt = settings
        .tilt
        .unwrap_or_else(|| choose_tilt(epsilon, segments, direction));
    let mut run = TiltedRun {
        epsilon,
        tilt,
        log_peak: log_peak(tilt),
        tables: Vec::with_capacity(segments.len()),
    };
    let all_steps: u64 = segments.iter().map(|(_, steps)| steps).sum();
    let (mut log_moment, mut log_moment_upper, mut loss_error, mut missing) = (0.0, 0.0, 0.0, 0.0);
    let (mut law_error, mut mean_size) = (0.0, 0.0);
    for (moments, steps) in segments {
        let table = LossTable::new(moments, direction, tilt, all_steps, monitor)?;
        let count = *steps as f64;
        log_moment += count * table.log_moment.0;
        log_moment_upper += count * table.log_moment.1;
        loss_error += count * table.loss_error;
        law_error += count * table.law_error;
        mean_size += count * table.mean_size;
        missing += count * table.missing;
        run.tables.push((table, *steps));
    }
    let sample = draw_all(&run, settings, monitor)?;
    let (lower, upper) = sample.interval(settings.confidence);
    // The drawn variable e^{−λt}(1 − e^{−t})/peak has slope at most 1/peak, so an error of the loss moves its
    // mean by at most the mean error over the peak: that of the polynomials, and that of adding up a sample's
    // losses, at most half a unit in the last place of Σ|loss| for each addition. It is itself at most 1.
    let additions = BLOCK as f64 + 2.0 * all_steps as f64 / BLOCK as f64 + run.tables.len() as f64 + 2.0;
    let loss_error = loss_error + f64::EPSILON * additions * mean_size;
    // Adding up the samples: within a task, then over tasks.
    let per_task = run.samples_per_task() as f64;
    let rounding = f64::EPSILON * (per_task + sample.count / per_task + 4.0);
    let bias = loss_error / run.log_peak.exp() + missing + rounding;
    let log_scale = log_moment - tilt * epsilon + run.log_peak;
    let log_scale_error = (log_moment_upper - log_moment)
        + law_error
        + 8.0 * f64::EPSILON * (log_moment.abs() + (tilt * epsilon).abs() + run.log_peak.abs() + 1.0);
    let at = |mean: f64, log_error: f64| {
        if mean <= 0.0 {
            0.0
        } else {
            (log_scale + log_error + mean.ln()).exp()
        }
    };
    let upper = at(upper + bias, log_scale_error).clamp(f64::from_bits(1), 1.0);
    let lower = at(lower - bias, -log_scale_error).min(upper);
    Ok(Estimate {
        estimate: at(sample.mean(), 0.0).clamp(lower, upper),
        lower,
        upper,
    })
}

/// Tables of all segments at one tilt.
struct TiltedRun {
    epsilon: f64,
    tilt: f64,
    log_peak: f64,
    tables: Vec<(LossTable, u64)>,
}

impl TiltedRun {
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

/// Draws all samples: task number i uses the stream i jumps (of 2^128 words) from the seed, and results are
/// added in the order of the tasks, so the number of threads changes nothing.
fn draw_all(run: &TiltedRun, settings: &Settings, monitor: &dyn Monitor) -> Result<Sample> {
    let samples = settings.samples;
    let per_task = run.samples_per_task();
    let mut stream = Xoshiro256PlusPlus::seed_from_u64(settings.seed);
    let mut total = Sample::default();
    let mut done = 0;
    monitor.progress(0, samples);
    while done < samples {
        let mut tasks = Vec::new();
        while done < samples && (tasks.len() as u64) < TASKS_PER_WAVE {
            let count = per_task.min(samples - done);
            tasks.push((stream.clone(), count));
            stream.jump();
            done += count;
        }
        let draw = |(stream, count)| run.draw_task(stream, count as usize, monitor);
        let results: Vec<Option<Sample>> = in_pool(|| tasks.into_par_iter().map(draw).collect());
        for result in results {
            let part = result.ok_or(Error::Interrupted)?;
            total.count += part.count;
            total.sum += part.sum;
            total.sum_of_squares += part.sum_of_squares;
        }
        monitor.progress(done, samples);
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hockey_stick::monitor::Unwatched;

    fn segment(k: u64, q: f64, noise_multiplier: f64, steps: u64) -> Segment {
        Segment {
            law: GroupLaw::binomial(k, q).unwrap(),
            noise_multiplier,
            steps,
        }
    }

    fn settings(samples: u64, direction: Direction, tilt: Option<f64>) -> Settings {
        Settings {
            samples,
            direction,
            tilt,
            seed: 2024,
            confidence: 0.999,
        }
    }

    #[test]
    fn reference_curves_lie_in_the_interval() {
        let table = include_str!("../../tests/data/privacy_curves.csv");
        let mut rows = 0;
        for line in table.lines().filter(|l| !l.starts_with('#')).skip(1) {
            let cells: Vec<&str> = line.split(',').collect();
            let words: Vec<&str> = cells[2].split_whitespace().collect();
            let number = |i: usize| words[i].parse::<u64>().unwrap();
            let law = match words[0] {
                "binomial" => GroupLaw::binomial(number(1), words[2].parse().unwrap()),
                "hypergeometric" => GroupLaw::hypergeometric(number(1), number(2), number(3)),
                _ => GroupLaw::poisson_binomial(
                    &words[1].split(';').map(|q| q.parse().unwrap()).collect::<Vec<f64>>(),
                ),
            }
            .unwrap();
            let steps: u64 = cells[3].parse().unwrap();
            let segment = Segment {
                law,
                noise_multiplier: cells[1].parse().unwrap(),
                steps,
            };
            let direction = if cells[4] == "add" {
                Direction::Add
            } else {
                Direction::Remove
            };
            let (epsilon, exact): (f64, f64) = (cells[5].parse().unwrap(), cells[6].parse().unwrap());
            let samples = (20_000_000 / steps).clamp(100, 1_000_000);
            let found =
                monte_carlo_delta(epsilon, &[segment], &settings(samples, direction, None), &Unwatched).unwrap();
            assert!(found.lower <= exact && exact <= found.upper, "{line}: {found:?}");
            rows += 1;
        }
        assert!(rows >= 25);
    }

    #[test]
    fn threads_change_nothing() {
        let segments = [segment(4, 0.1, 1.0, 7), segment(2, 0.5, 3.0, 2)];
        let settings = settings(300_001, Direction::Remove, None);
        let run = || monte_carlo_delta(1.0, &segments, &settings, &Unwatched).unwrap();
        let of = |threads| {
            rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap()
                .install(run)
        };
        let one = of(1);
        assert_eq!(one, of(3));
        assert_eq!(one, run());
    }

    #[test]
    fn noiseless_steps_are_exact() {
        // P(a member is in one of two batches) = 1 − 0.9²; adding shows it with loss −2 log 0.9.
        let segments = [segment(1, 0.1, 0.0, 2)];
        let of = |epsilon, direction| {
            monte_carlo_delta(epsilon, &segments, &settings(10, direction, None), &Unwatched).unwrap()
        };
        assert!((of(3.0, Direction::Remove).upper - 0.19).abs() < 1e-15);
        assert!((of(0.1, Direction::Add).upper - (1.0 - 0.81 * 0.1f64.exp())).abs() < 1e-15);
        assert_eq!(of(0.3, Direction::Add).upper, 0.0);
    }

    #[test]
    fn noiseless_and_noisy_steps_compose() {
        // Removing: 1 − W + W·δ(ε − log W) with W = 0.9.
        let noisy = segment(1, 0.3, 1.0, 3);
        let both = [segment(1, 0.1, 0.0, 1), noisy.clone()];
        let settings = settings(400_000, Direction::Remove, None);
        let with = monte_carlo_delta(0.5, &both, &settings, &Unwatched).unwrap();
        let without = monte_carlo_delta(0.5 - 0.9f64.ln(), &[noisy], &settings, &Unwatched).unwrap();
        assert!((with.estimate - (0.1 + 0.9 * without.estimate)).abs() < 1e-12);
    }

    #[test]
    fn no_steps_mean_no_loss() {
        for segments in [vec![], vec![segment(3, 0.2, 1.0, 0)], vec![segment(3, 0.0, 1.0, 9)]] {
            let settings = settings(5, Direction::Add, None);
            assert_eq!(
                monte_carlo_delta(0.0, &segments, &settings, &Unwatched).unwrap().upper,
                0.0
            );
            let negative = monte_carlo_delta(-1.0, &segments, &settings, &Unwatched).unwrap();
            assert!((negative.estimate + (-1f64).exp_m1()).abs() < 1e-16);
        }
    }

    /// Cancels from the start, or from when the drawing starts.
    struct Stopper(std::sync::atomic::AtomicBool);

    impl Monitor for Stopper {
        fn cancelled(&self) -> bool {
            self.0.load(std::sync::atomic::Ordering::Relaxed)
        }
        fn progress(&self, _done: u64, _total: u64) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn a_monitor_stops_the_table_and_the_draw() {
        for from_the_start in [true, false] {
            let stopper = Stopper(from_the_start.into());
            let stopped = monte_carlo_delta(
                1.0,
                &[segment(1, 0.1, 1.0, 1_000_000_000)],
                &settings(1_000_000, Direction::Add, Some(0.0)),
                &stopper,
            );
            assert_eq!(stopped.unwrap_err(), Error::Interrupted);
        }
    }
}
