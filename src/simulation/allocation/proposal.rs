//! The law that outputs are drawn from, and the variable in [0, 1] whose mean over a known bound is δ.

use crate::simulation::allocation::concentration::most_lost;
use crate::simulation::allocation::epochs::{Balls, Epoch, Run};
use crate::simulation::allocation::inverse_tilt::{self, LOG_LOWEST, Mixture};
use crate::simulation::allocation::mean_law::LaplaceTable;
use crate::simulation::allocation::power_tilt::PowerTilt;
use crate::simulation::allocation::ratio::{Ratio, Scratch};
use crate::step::Direction;
use rand::{Rng, RngExt};
use rand_distr::StandardNormal;

/// The interval from n values is at least about this number over n wide, in units of the bound, whatever the values are. A probability that
/// is given up is added to the interval, and so counts n over this number times as much as the bound.
const WEIGHT_OF_BOUND: f64 = 16.0;

/// Which outputs are drawn.
#[derive(Debug)]
enum Law {
    /// Those of the run with the group.
    Group,
    /// The noise alone.
    Noise,
    /// More balls than members.
    Power(PowerTilt),
    /// A small mean ratio, by kind of epoch.
    Inverse(Vec<Mixture>),
}

/// A law, and what is known of the variable under it.
#[derive(Debug)]
pub(crate) struct Proposal {
    law: Law,
    ratios: Vec<Ratio>,
    run: Run,
    epsilon: f64,
    direction: Direction,
    /// log of the bound on the variable.
    pub(crate) log_bound: f64,
    /// log of a bound on what outputs add to δ at which the variable is above its bound.
    pub(crate) log_remainder: f64,
}

/// Memory for one sample.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    log_ys: Vec<f64>,
    places: Vec<(usize, f64)>,
    scratch: Scratch,
}

impl Proposal {
    /// Laws to draw from, for so many samples: those that may have the narrowest interval.
    pub(crate) fn all(run: &Run, epsilon: f64, direction: Direction, samples: u64) -> Vec<Self> {
        let of = |law: Law, log_bound: f64, log_remainder: f64| Self {
            law,
            ratios: run.epochs.iter().map(Ratio::new).collect(),
            run: run.clone(),
            epsilon,
            direction,
            log_bound,
            log_remainder,
        };
        let nothing = f64::NEG_INFINITY;
        let (plain, tilted) = match direction {
            Direction::Remove => {
                let tilts = PowerTilt::all(run, epsilon)
                    .into_iter()
                    .filter(|tilt| tilt.log_bound < 0.0);
                let of_tilt = |tilt: PowerTilt| {
                    let log_bound = tilt.log_bound;
                    of(Law::Power(tilt), log_bound, nothing)
                };
                (of(Law::Group, 0.0, nothing), tilts.map(of_tilt).collect())
            }
            Direction::Add => {
                let found = inverse(run, epsilon, samples);
                let of_mixtures = |(mixtures, bound, lost)| of(Law::Inverse(mixtures), bound, lost);
                (
                    of(Law::Noise, 0.0, nothing),
                    found.map(of_mixtures).into_iter().collect::<Vec<_>>(),
                )
            }
        };
        tilted.into_iter().chain([plain]).collect()
    }

    /// Outputs drawn for one sample.
    pub(crate) fn draws(&self) -> u64 {
        self.run.draws()
    }

    /// One value of the variable over its bound.
    pub(crate) fn value(&self, rng: &mut impl Rng, memory: &mut Memory) -> f64 {
        let (mut log_ratio, mut log_density) = (0.0, 0.0);
        for (kind, epoch) in self.run.epochs.iter().enumerate() {
            for _ in 0..epoch.repeats {
                crate::stopping::checkpoint();
                self.draw(kind, epoch, rng, memory);
                let (log_mean, log) = self.ratios[kind].at(&mut memory.log_ys, &mut memory.scratch);
                log_ratio += log;
                log_density += match &self.law {
                    Law::Group => log,
                    Law::Noise => 0.0,
                    Law::Power(tilt) => tilt.balls[kind] as f64 * log_mean,
                    Law::Inverse(mixtures) => mixtures[kind].log_density(log_mean.exp()),
                };
            }
        }
        if let Law::Power(tilt) = &self.law {
            log_density -= tilt.log_moment;
        }
        let log = match self.direction {
            Direction::Remove if log_ratio > self.epsilon => {
                log_ratio + (-(self.epsilon - log_ratio).exp_m1()).ln() - log_density
            }
            Direction::Add if log_ratio < -self.epsilon => {
                (-(self.epsilon + log_ratio).exp_m1()).ln() - log_density
            }
            _ => return 0.0,
        };
        (log - self.log_bound).min(0.0).exp()
    }

    /// Draws the outputs of an epoch, as logs of y.
    fn draw(&self, kind: usize, epoch: &Epoch, rng: &mut impl Rng, memory: &mut Memory) {
        memory.log_ys.clear();
        memory.places.clear();
        match &self.law {
            Law::Inverse(mixtures) => return mixtures[kind].draw(rng, &mut memory.log_ys),
            Law::Group => places(epoch, rng, &mut memory.places),
            Law::Power(tilt) => tilt.places(kind, rng, &mut memory.places),
            Law::Noise => {}
        }
        for part in &epoch.parts {
            let deviation = part.variance.sqrt();
            for _ in 0..part.count {
                let normal: f64 = rng.sample(StandardNormal);
                memory.log_ys.push(deviation * normal - 0.5 * part.variance);
            }
        }
        for &(batch, balls) in &memory.places {
            let first = epoch.parts[0].count as usize;
            let variance = epoch.parts[usize::from(batch >= first)].variance;
            memory.log_ys[batch] += balls * variance;
        }
    }
}

/// Draws the released batches of the group, with numbers of balls.
fn places(epoch: &Epoch, rng: &mut impl Rng, places: &mut Vec<(usize, f64)>) {
    let (batches, released) = (epoch.batches(), epoch.released() as usize);
    let mut put = |batch: usize| {
        if batch < released {
            places.push((batch, 1.0));
        }
    };
    match epoch.balls {
        // Batches before the last that is released are equally likely but for 2^−53 each.
        Balls::Members(members) => (0..members).for_each(|_| put((rng.random::<f64>() * batches) as usize)),
        Balls::Times(times) => (different(batches as usize, times as usize, rng).into_iter()).for_each(put),
    }
}

/// So many different numbers below `batches`, all choices alike (Floyd's algorithm).
fn different(batches: usize, count: usize, rng: &mut impl Rng) -> Vec<usize> {
    let mut found = Vec::with_capacity(count);
    for last in batches - count..batches {
        let drawn = rng.random_range(0..=last);
        found.push(if found.contains(&drawn) { last } else { drawn });
    }
    found
}

/// The exponent of W₁ in every kind of epoch over its number of balls (`kappa`), the loss that a group may have below that of its balls
/// (`lost`), and the log of the probability with which it has more.
#[derive(Debug, Clone, Copy)]
struct Exponent {
    kappa: f64,
    lost: f64,
    log_probability: f64,
}

/// The exponent with the smallest bound, for so many samples; `None` where plain draws are better.
fn exponent(run: &Run, tables: &[LaplaceTable], epsilon: f64, samples: u64) -> Option<Exponent> {
    let epochs = run.number();
    let mut best: Option<(f64, Exponent)> = None;
    for log_probability in [LOG_LOWEST, -140.0, -100.0, -70.0, -50.0, -35.0, -25.0, -18.0] {
        let Some(lost) = most_lost(run, tables, log_probability) else {
            continue;
        };
        let remainder = (log_probability + (3.0 * epochs + 1.0).ln()).exp() * samples as f64 / WEIGHT_OF_BOUND;
        for i in 0..60 {
            let kappa = 0.05 * 1.15f64.powi(i);
            let log_moment: f64 = (run.epochs.iter().zip(tables))
                .map(|(epoch, table)| {
                    epoch.repeats as f64 * table.log_inverse_moment(kappa * epoch.balls.number() as f64)
                })
                .sum();
            let log_bound = log_moment + kappa * (lost - epsilon) + inverse_tilt::log_peak(kappa);
            let value = log_bound.exp() + remainder;
            if value < best.map_or(1.0, |found| found.0) {
                let found = Exponent {
                    kappa,
                    lost,
                    log_probability,
                };
                best = Some((value, found));
            }
        }
        if run.has_one_ball() {
            break;
        }
    }
    best.map(|(_, found)| found)
}

/// The mixtures for W₁^−θ with the smallest bound, with the logs of the bound and of what is given up; `None` where plain draws are better,
/// or where W₁ has a lower tail that no table resolves.
fn inverse(run: &Run, epsilon: f64, samples: u64) -> Option<(Vec<Mixture>, f64, f64)> {
    let tables: Vec<LaplaceTable> = run.epochs.iter().map(Epoch::laplace_table).collect();
    let epochs = run.number();
    let Exponent {
        kappa,
        lost,
        log_probability,
    } = exponent(run, &tables, epsilon, samples)?;
    let (mut mixtures, mut log_bound) = (Vec::new(), kappa * (lost - epsilon) + inverse_tilt::log_peak(kappa));
    for (epoch, table) in run.epochs.iter().zip(&tables) {
        let theta = kappa * epoch.balls.number() as f64;
        let lowest = inverse_tilt::lowest(table)?;
        let mixture = Mixture::new(epoch, theta, epochs, lowest)?;
        log_bound -= epoch.repeats as f64 * mixture.log_floor(theta, epochs, lowest);
        mixtures.push(mixture);
    }
    let log_given_up = (log_probability.exp() * (3.0 * epochs + 1.0)).min(1.0).ln();
    (log_bound < 0.0).then_some((mixtures, log_bound, log_given_up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    #[test]
    fn all_sets_of_batches_are_equally_likely() {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(2);
        let mut counts = [0u32; 10];
        for _ in 0..20_000 {
            let found = different(5, 3, &mut rng);
            let missing: Vec<usize> = (0..5).filter(|i| !found.contains(i)).collect();
            counts[missing[0] * (7 - missing[0]) / 2 + missing[1] - 1] += 1;
        }
        // 2000 each, with a standard deviation of 42.
        assert!(counts.iter().all(|count| count.abs_diff(2000) < 220), "{counts:?}");
    }
}
