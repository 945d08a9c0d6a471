//! δ(ε) of a composed run by Monte Carlo, with importance tilting and an interval valid at any sample size.
//!
//! GROUP Algorithm 2 draws the losses of T steps and averages (1 − e^{ε − loss})₊. Here the steps are drawn
//! from the law tilted by e^{λ·loss}, λ ≥ 0, and the average is
//!
//! δ = E_λ[e^{ΣK(λ) − λ·loss}·(1 − e^{ε − loss})₊],  K(λ) = log E_P[e^{λ·loss}] per step,
//!
//! which is plain Monte Carlo at λ = 0. The variable is bounded for every λ: it is largest at
//! loss = ε + log(1 + 1/λ), where it equals B = exp(ΣK(λ) − λε)·λ^λ/(1 + λ)^{1+λ}. So δ/B is the mean of a
//! variable in [0, 1], and [`crate::simulation::confidence`] applies. The automatic choice of λ makes B smallest: log B is
//! convex in λ, and its minimum is the saddle point, where the mean of the loss is near ε.

use crate::error::Result;
use crate::monitor::Monitor;
use crate::simulation::settings::{Estimate, Segment, Settings};
use crate::simulation::tasks::Simulation;

/// Number of tasks whose results are held at a time.
const TASKS_PER_WAVE: usize = 256;

/// δ(ε) of the composition of `segments` in one direction.
///
/// Cost: one table a segment, then about 4 ns a sample and step whatever the group size. Memory does not
/// depend on the number of samples.
///
/// # Errors
/// ε not finite, no samples, λ outside [0, 10000], a confidence outside (0, 1), σ negative or not finite;
/// [`crate::error::Error::Interrupted`] when the monitor says so.
///
/// # Example
/// ```
/// use hockeystick::Unwatched;
/// use hockeystick::simulation::{Segment, Settings, monte_carlo_delta};
/// use hockeystick::{Direction, GroupLaw};
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
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn monte_carlo_delta(
    epsilon: f64,
    segments: &[Segment],
    settings: &Settings,
    monitor: &dyn Monitor,
) -> Result<Estimate> {
    let run = Simulation::new(epsilon, segments, settings, monitor)?;
    let (tasks, samples) = (run.tasks(), settings.samples);
    let (mut sum, mut sum_of_squares) = (0.0, 0.0);
    let mut stream = run.stream(0);
    monitor.progress(0, samples);
    for first in (0..tasks).step_by(TASKS_PER_WAVE) {
        let end = (first + TASKS_PER_WAVE as u64).min(tasks);
        for part in run.draw_along(&mut stream, first..end, monitor)? {
            sum += part.sum;
            sum_of_squares += part.sum_of_squares;
        }
        monitor.progress(run.samples_before(end), samples);
    }
    run.estimate(sum, sum_of_squares)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::monitor::Unwatched;
    use crate::step::{Direction, GroupLaw};

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
    fn tasks_drawn_in_any_order_add_up_to_the_run() {
        let segments = [segment(4, 0.1, 1.0, 40), segment(2, 0.5, 3.0, 20)];
        let settings = settings(300_001, Direction::Remove, None);
        let run = Simulation::new(1.0, &segments, &settings, &Unwatched).unwrap();
        let tasks = run.tasks();
        assert!(tasks > 10 && run.samples_before(tasks) == 300_001);
        let late = run.draw(7..tasks, &Unwatched).unwrap();
        let mut parts = run.draw(0..7, &Unwatched).unwrap();
        parts.extend(late);
        assert_eq!(parts.iter().map(|part| part.count).sum::<f64>(), 300_001.0);
        let (mut sum, mut squares) = (0.0, 0.0);
        for part in parts {
            sum += part.sum;
            squares += part.sum_of_squares;
        }
        let whole = monte_carlo_delta(1.0, &segments, &settings, &Unwatched).unwrap();
        assert_eq!(run.estimate(sum, squares).unwrap(), whole);
        for beyond in [tasks + 1..tasks + 1, 0..tasks + 1] {
            assert!(run.draw(beyond, &Unwatched).is_err());
        }
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

    #[test]
    fn intervals_cover_delta_in_repeated_seeds() {
        // δ(1) of one step of G_1: Φ(−1/2) − e·Φ(−3/2).
        let tail = |t: f64| 0.5 * libm::erfc(t / std::f64::consts::SQRT_2);
        let exact = tail(0.5) - 1f64.exp() * tail(1.5);
        let (mut covered, mut sum) = (0, 0.0);
        for seed in 0..300 {
            let settings = Settings {
                samples: 2000,
                direction: Direction::Remove,
                tilt: Some(0.0),
                seed,
                confidence: 0.9,
            };
            let found = monte_carlo_delta(1.0, &[segment(1, 1.0, 1.0, 1)], &settings, &Unwatched).unwrap();
            covered += u32::from(found.lower <= exact && exact <= found.upper);
            sum += found.estimate;
        }
        // 270 of 300 are promised, and the mean of 600,000 samples is within 4.5 deviations of at most 0.27.
        assert!(covered >= 270, "{covered}");
        assert!(
            (sum / 300.0 - exact).abs() < 4.5 * 0.27 / 600_000f64.sqrt(),
            "{} {exact}",
            sum / 300.0
        );
    }
}
