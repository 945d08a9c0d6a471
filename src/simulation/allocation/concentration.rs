//! How far the ratio W of a group can be below W₁^m: a bound that holds but with a small probability under the noise alone.
//!
//! log W ≥ m·log W₁ − H + g in every epoch with H = β·S₂/S₁², S_j = Σ y^j: for m members β = v·m(m − 1)/2 for the largest v and g = 0; for
//! k batches of one record β = 2·log 2·k(k − 1)/2 and g = Σ_{i<k} −log(1 − i/t), where H ≤ log 2. Where W₁ ≥ c, S₂/S₁² is at most the sum of
//! the independent min(1, y²/(ct)²) (`docs/theory/allocation-estimate.md`).

use crate::simulation::allocation::epochs::{Balls, Epoch, Run};
use crate::simulation::allocation::mean_law::LaplaceTable;
use crate::special::normal::log_upper_tail;

/// Cells of the upper sum for the expectation over one normal variable, and its reach: beyond, the variable is taken as 1.
const CELLS: i32 = 2400;
const REACH: f64 = 30.0;

/// log E[e^{a·min(1, Y²/C²)}] for log Y of N(−v/2, v), rounded up: the variable increases with the normal one, and each cell takes its right end.
fn log_moment(variance: f64, cut: f64, a: f64) -> f64 {
    let deviation = variance.sqrt();
    let capped = |u: f64| (2.0 * (deviation * u - 0.5 * variance) - 2.0 * cut.ln()).exp().min(1.0);
    let tail = |u: f64| log_upper_tail(u).exp();
    let width = 2.0 * REACH / f64::from(CELLS);
    let mut excess = tail(REACH) * a.exp_m1() + (a * capped(-REACH)).exp_m1();
    for i in 0..CELLS {
        let (left, right) = (-REACH + f64::from(i) * width, -REACH + f64::from(i + 1) * width);
        excess += (tail(left) - tail(right)).max(0.0) * (a * capped(right)).exp_m1();
    }
    (excess * (1.0 + 1e-9)).ln_1p()
}

/// log E of e^{a·Σmin(1, y²/(ct)²)} in one epoch.
fn log_moment_of(epoch: &Epoch, c: f64, a: f64) -> f64 {
    let cut = c * epoch.batches();
    // Members in batches that are not released leave no trace: v = 0 there, and such batches add nothing to Σ v·y².
    let still = match epoch.balls {
        Balls::Members(_) => 0.0,
        Balls::Times(_) => a * (1.0 / (cut * cut)).min(1.0) * epoch.still,
    };
    epoch
        .parts
        .iter()
        .map(|part| part.count as f64 * log_moment(part.variance, cut, a))
        .sum::<f64>()
        + still
}

/// β and g of an epoch.
fn constants(epoch: &Epoch) -> (f64, f64) {
    match epoch.balls {
        Balls::Members(m) => (epoch.variances().0 * (m * (m - 1)) as f64 * 0.5, 0.0),
        Balls::Times(k) => {
            let t = epoch.batches();
            let gain = (0..k).map(|i| -(-(i as f64) / t).ln_1p()).sum();
            (std::f64::consts::LN_2 * (k * (k - 1)) as f64, gain)
        }
    }
}

/// An h for which Σ(H − g) over all epochs is above h with a probability of at most 2e^`log_probability` for each epoch and once
/// more; `None` where no bound is found.
pub(crate) fn most_lost(run: &Run, tables: &[LaplaceTable], log_probability: f64) -> Option<f64> {
    if run.has_one_ball() {
        return Some(0.0);
    }
    let tries = (0..40).map(|i| 0.05 * 1.6f64.powi(i));
    // H itself is at most β.
    let betas = run.epochs.iter().map(|epoch| epoch.repeats as f64 * constants(epoch).0);
    let (mut best, mut gain) = (betas.sum::<f64>(), 0.0);
    let mut lows = Vec::new();
    for (epoch, table) in run.epochs.iter().zip(tables) {
        let low = table.lower_quantile(log_probability);
        if low <= 0.0 {
            return None;
        }
        let (beta, own) = constants(epoch);
        gain += epoch.repeats as f64 * own;
        if matches!(epoch.balls, Balls::Times(_)) && !stays_below(epoch, low, beta, log_probability) {
            return None;
        }
        lows.push((low, beta));
    }
    for a in tries {
        let log: f64 = (run.epochs.iter().zip(&lows))
            .map(|(epoch, (low, beta))| epoch.repeats as f64 * log_moment_of(epoch, *low, a * beta))
            .sum();
        let level = (log - log_probability) / a;
        if !level.is_finite() {
            break;
        }
        best = best.min(level);
    }
    Some(best - gain)
}

/// Whether H ≤ log 2 in one epoch but with a probability of e^`log_probability`.
fn stays_below(epoch: &Epoch, low: f64, beta: f64, log_probability: f64) -> bool {
    (0..40)
        .map(|i| 0.5 * 1.6f64.powi(i))
        .any(|a| log_moment_of(epoch, low, a * beta) - a * std::f64::consts::LN_2 <= log_probability)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::allocation::epochs::tests::run;
    use crate::simulation::allocation::ratio::{Ratio, Scratch};
    use crate::step::Sampling;
    use rand::{RngExt, SeedableRng};
    use rand_distr::StandardNormal;
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// The smallest of many log W − m·log W₁ is above −h, and not by far for a probability that is seen.
    #[test]
    fn ratios_are_seldom_below_the_bound() {
        for (members, times, batches) in [(4, 1, 60), (1, 2, 400)] {
            let noise = if times > 1 { 4.0 } else { 1.5 };
            let run = run(Sampling::RandomAllocation { batches, times }, noise, members, batches);
            let tables = [run.epochs[0].laplace_table()];
            let ratio = Ratio::new(&run.epochs[0]);
            let (most, usual) = (
                most_lost(&run, &tables, -20.0).unwrap(),
                most_lost(&run, &tables, -2.0).unwrap(),
            );
            assert!(usual <= most);
            let mut rng = Xoshiro256PlusPlus::seed_from_u64(8);
            let (mut largest, mut scratch) = (f64::NEG_INFINITY, Scratch::default());
            for _ in 0..20_000 {
                let mut log_ys: Vec<f64> = (0..batches)
                    .map(|_| rng.sample::<f64, _>(StandardNormal) / noise - 0.5 / (noise * noise))
                    .collect();
                let (log_mean, log_ratio) = ratio.at(&mut log_ys, &mut scratch);
                largest = largest.max(run.epochs[0].balls.number() as f64 * log_mean - log_ratio);
            }
            assert!(
                largest <= most && most < 20.0 * largest.max(0.05),
                "{members} {times}: {largest} {most}"
            );
        }
    }

    #[test]
    fn moments_are_rounded_up() {
        // E[e^{aY²/C²}] without the cap, by its series, where Y is far below C.
        let (v, cut, a) = (0.25f64, 60.0f64, 5.0f64);
        let series: f64 = (1..4)
            .map(|n| {
                let p = 2.0 * f64::from(n);
                let factorial: f64 = (1..=n).map(f64::from).product();
                (a / (cut * cut)).powi(n) / factorial * (0.5 * v * p * (p - 1.0)).exp()
            })
            .sum();
        let found = log_moment(v, cut, a).exp_m1();
        assert!(found >= series && found < 1.05 * series, "{found} {series}");
    }
}
