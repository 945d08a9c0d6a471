//! The privacy loss of random allocation with Laplace noise, for one record: an upper bound on a lattice.
//!
//! The ratio of an epoch is W = ΣY_i/t with independent Y_i = e^{(|x_i| − |x_i − 1|)/b}, which lie in [e^{−1/b}, e^{1/b}]. Let Y'_i be Y_i moved to
//! the two ends of its cell in an even partition of that interval, at random so that its mean stays: Y' is above Y in convex order, hence so is
//! W' above W, and both E[(W − e^ε)₊] and E[(1 − e^εW)₊] are convex in W. So the pair whose ratio is W' dominates, in both directions. Its law
//! is a convolution power on a lattice, which is computed in positive numbers (`docs/theory/random-allocation.md`, Proposition 6).

use crate::error::{Error, Result, require};
use crate::loss::StepLoss;
use crate::loss::atoms::AtomLoss;
use crate::loss::loss_curve::Atom;
use crate::loss::pairs::{MassRounding, StepOutcome};
use crate::special::binomial::Binomial;
use crate::step::Direction;
use crate::stopping::checkpoint;

/// Points of the lattice of an epoch, about: cells of one batch are as many as that leaves, so that an epoch of 100 batches has ε right to 2e-4
/// or so. Twice as many take four times as long.
const POINTS: u64 = 6000;
/// Most cells of one batch: more gain nothing that is seen.
const MOST_CELLS: u64 = 512;
/// Most batches: beyond, lattices have too many points around their mean.
const MOST_BATCHES: u64 = 1 << 20;
/// Smallest scale: with less noise ratios are beyond what is computed.
const SMALLEST_SCALE: f64 = 0.01;
/// Outcomes with less mass than this under either law are left out.
const SMALLEST_MASS: f64 = 1e-200;
/// Terms that are added up before their sum is added to others, which bounds rounding.
const BLOCK: usize = 32;

/// Masses on a lattice, and a bound on their relative errors.
#[derive(Debug, Clone)]
struct Law {
    masses: Vec<f64>,
    error: f64,
}

impl Law {
    /// The law of the sum of two independent variables.
    fn and(&self, other: &Self) -> Self {
        let (a, b) = (&self.masses, &other.masses);
        let mut reversed = b.clone();
        reversed.reverse();
        let masses = (0..a.len() + b.len() - 1).map(|k| {
            if k % 64 == 0 {
                checkpoint();
            }
            // Σ a_j b_{k − j}
            let (first, last) = ((k + 1).saturating_sub(b.len()), k.min(a.len() - 1));
            let (from, to) = (
                &a[first..=last],
                &reversed[b.len() - 1 + first - k..=b.len() - 1 + last - k],
            );
            let blocks = from.chunks(BLOCK).zip(to.chunks(BLOCK));
            blocks
                .map(|(x, y)| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>())
                .sum()
        });
        let roundings = (BLOCK + 2 + a.len().min(b.len()) / BLOCK) as f64;
        Self {
            error: (self.error.ln_1p() + other.error.ln_1p() + roundings * f64::EPSILON).exp_m1(),
            masses: masses.collect(),
        }
    }

    /// The law of the sum of so many.
    fn power(&self, count: u64) -> Self {
        if count == 1 {
            return self.clone();
        }
        let half = self.power(count / 2);
        let even = half.and(&half);
        if count.is_multiple_of(2) { even } else { even.and(self) }
    }
}

/// The law of Y' in cells of equal width, as masses of its points.
///
/// Y is e^{−1/b} with probability 1/2 and e^{1/b} with e^{−1/b}/2. In between its density is e^{−1/(2b)}/4·y^{−3/2}, so that a cell from
/// y to z has the mass e^{−1/(2b)}/2·(1/√y − 1/√z) and the mean √(yz).
fn one_batch(scale: f64, cells: u64) -> Law {
    let (low, high) = ((-1.0 / scale).exp(), (1.0 / scale).exp());
    let width = (high - low) / cells as f64;
    let root = |j: u64| (low + width * j as f64).sqrt();
    let mut masses = vec![0.0; cells as usize + 1];
    masses[0] = 0.5;
    masses[cells as usize] += 0.5 * low;
    for j in 0..cells {
        let (y, z) = (root(j), root(j + 1));
        let mass = 0.5 * (-0.5 / scale).exp() * width / ((y + z) * y * z);
        masses[j as usize] += mass * z / (y + z);
        masses[j as usize + 1] += mass * y / (y + z);
    }
    Law {
        masses,
        error: 32.0 * f64::EPSILON * (1.0 + 1.0 / scale),
    }
}

/// The law of ΣY'_i on the lattice: the number of its first point, its masses.
fn epoch(scale: f64, cells: u64, batches: u64) -> (u64, Law) {
    let one = one_batch(scale, cells);
    if cells > 1 || batches < POINTS {
        return (0, one.power(batches));
    }
    let p = one.masses[1];
    let law = Binomial::new(batches as f64, p);
    let (mean, reach) = (
        p * batches as f64,
        40.0 * (p * (1.0 - p) * batches as f64).sqrt() + 400.0,
    );
    let first = (mean - reach).max(0.0) as u64;
    let last = ((mean + reach) as u64).min(batches);
    let masses = (first..=last).map(|i| law.log_mass(i as f64).exp()).collect();
    let worst = [first, last]
        .map(|i| law.relative_error(i as f64))
        .into_iter()
        .fold(0.0, f64::max);
    // d log(mass)/dp = (i − tp)/(p(1 − p)), where p ≤ 1/2 has a relative error of at most that of the masses.
    let error = 8.0 * (reach + 1.0) * one.error + worst + 1e-12;
    (first, Law { masses, error })
}

/// The outcome of an epoch of `batches` batches for one record.
///
/// # Errors
/// A scale that is not positive and finite; too many batches.
pub(super) fn outcome(scale: f64, batches: u64, direction: Direction) -> Result<StepOutcome> {
    require(scale > 0.0 && scale.is_finite(), "scale", scale, "positive and finite")?;
    if !(1..=MOST_BATCHES).contains(&batches) {
        return Err(Error::out_of_range(
            "batches",
            batches,
            "in [1, 2^20] with Laplace noise",
        ));
    }
    if scale < SMALLEST_SCALE {
        return Ok(StepOutcome::RevealsMembership {
            log_unseen: f64::NEG_INFINITY,
        });
    }
    let cells = (POINTS / batches).clamp(1, MOST_CELLS);
    let (first, law) = epoch(scale, cells, batches);
    let (low, high) = ((-1.0 / scale).exp(), (1.0 / scale).exp());
    let share = (high - low) / (cells * batches) as f64;
    let points = law.masses.iter().zip(first..);
    // Probabilities with and without the record.
    let both: Vec<(f64, f64)> = points
        .map(|(mass, point)| (mass * (low + share * point as f64), *mass))
        .filter(|(p, q)| *p > SMALLEST_MASS && *q > SMALLEST_MASS)
        .collect();
    let (of_p, of_q) = both.iter().fold((0.0, 0.0), |sum, (p, q)| (sum.0 + p, sum.1 + q));
    let atoms = both.iter().map(|(p, q)| {
        let (log_p, log_q) = ((p / of_p).ln(), (q / of_q).ln());
        match direction {
            Direction::Remove => Atom::new(log_p - log_q, log_p),
            Direction::Add => Atom::new(log_q - log_p, log_q),
        }
    });
    let mut atoms: Vec<Atom> = atoms.collect();
    atoms.sort_by(|a, b| b.loss.total_cmp(&a.loss));
    // With masses that are at least 1 − η times the computed ones, δ is at most η + (1 − η)·δ' of these. The masses, their sums and rest.
    let missing = 3.0 * law.error + f64::EPSILON * (8.0 * both.len() as f64 + 64.0);
    let largest = atoms.first().map_or(0.0, |atom| atom.loss);
    Ok(StepOutcome::Rounded {
        loss: (atoms.len() > 1).then(|| StepLoss::new(AtomLoss::new(atoms))),
        rounding: rounding(scale, missing.min(1.0), (of_p, of_q), largest, law.masses.len()),
    })
}

/// What the computed laws may lack, for `points` points of which those in them have the total masses `sums` under P and Q.
///
/// With the ratio w = p/q of a point, which is in [e^{−1/b}, e^{1/b}], a moment is Σ p·w^c or Σ q·w^{−c}. The masses are right to the relative
/// error η, and both laws were divided by their sums, which enters once and to the power c. A point that is left out has p or q of at
/// most [`SMALLEST_MASS`], and adds at most that times e^{(1 + c)/b}; so do all those beyond 40 standard deviations, where a sum of independent
/// indicators lies with a probability of at most e^−600 by Bernstein's inequality (Proposition 9 of `docs/theory/random-allocation.md`).
fn rounding(scale: f64, missing: f64, sums: (f64, f64), largest: f64, points: usize) -> MassRounding {
    let of_masses = if missing < 0.25 { 2.0 * missing } else { f64::INFINITY };
    let largest_loss = 1.0 / scale;
    MassRounding {
        missing,
        log_factor: of_masses + sums.0.ln().abs() + sums.1.ln().abs(),
        log_left_out: SMALLEST_MASS.ln() + (2.0 * points as f64 + 2.0).ln(),
        largest_loss,
        loss_excess: (largest_loss - largest).max(0.0) + 4.0 * f64::EPSILON * largest_loss,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::composition::Composition;
    use crate::step::{Adjacency, Group, Mechanism, Sampling, Step};

    fn delta(sampling: Sampling, scale: f64, steps: u64, adjacency: Adjacency, epsilon: f64) -> f64 {
        let step = Step {
            mechanism: Mechanism::Laplace { scale },
            sampling,
            group: Group::of(1),
        };
        let mut run = Composition::new(&[(step, steps)], adjacency).unwrap();
        run.delta(epsilon, 1e-7).unwrap().certified().unwrap().upper()
    }

    fn allocation(batches: u64) -> Sampling {
        Sampling::RandomAllocation { batches, times: 1 }
    }

    #[test]
    fn masses_of_a_batch_have_their_sum_and_mean() {
        for (scale, cells) in [(1.0f64, 1), (0.3, 17), (5.0, 512)] {
            let law = one_batch(scale, cells);
            let (low, high) = ((-1.0 / scale).exp(), (1.0 / scale).exp());
            let at = |j: usize| low + (high - low) * j as f64 / cells as f64;
            let sum: f64 = law.masses.iter().sum();
            let mean: f64 = law.masses.iter().enumerate().map(|(j, mass)| mass * at(j)).sum();
            assert!(
                (sum - 1.0).abs() < 1e-14 && (mean - 1.0).abs() < 1e-13,
                "{scale}: {sum} {mean}"
            );
        }
    }

    #[test]
    fn sums_have_binomial_masses() {
        let law = one_batch(1.0, 1);
        let p = law.masses[1];
        let found = law.power(11);
        let mut choose = 1.0;
        for (k, mass) in found.masses.iter().enumerate() {
            let exact = choose * p.powi(k as i32) * (1.0 - p).powi(11 - k as i32);
            assert!((mass / exact - 1.0).abs() < found.error, "{k}: {mass} {exact}");
            choose *= (11 - k) as f64 / (k + 1) as f64;
        }
        let (first, other) = epoch(1.0, 1, 20_000);
        let sum: f64 = other.masses.iter().sum();
        assert!(first > 0 && (sum - 1.0).abs() < 1e-9);
    }

    /// Two batches, both directions: above the integral over both outputs, and not by more than 1e-4 of it.
    #[test]
    fn two_batches_are_bounded_by_their_integral() {
        const POINTS: i32 = 1500;
        let (scale, epsilon) = (1.0f64, 0.3f64);
        let width = 1.0 / f64::from(POINTS);
        // log Y is −1 with probability 1/2, 1 with e^{−1}/2, and 2x − 1 at x in [0, 1] with the density e^{−x}/2.
        let middle = |i: i32| (f64::from(i) + 0.5) * width;
        let mut outputs: Vec<(f64, f64)> = (0..POINTS)
            .map(|i| ((2.0 * middle(i) - 1.0).exp(), 0.5 * (-middle(i)).exp() * width))
            .collect();
        outputs.extend([((-1f64).exp(), 0.5), (1f64.exp(), 0.5 * (-1f64).exp())]);
        let (mut removed, mut added) = (0.0, 0.0);
        for (y, p) in &outputs {
            for (z, q) in &outputs {
                let w = 0.5 * (y + z);
                removed += p * q * (w - epsilon.exp()).max(0.0);
                added += p * q * (1.0 - epsilon.exp() * w).max(0.0);
            }
        }
        for (adjacency, exact) in [(Adjacency::Remove, removed), (Adjacency::Add, added)] {
            let found = delta(allocation(2), scale, 2, adjacency, epsilon);
            assert!(
                found > exact * (1.0 - 1e-6) && found < exact * (1.0 + 1e-4),
                "{adjacency:?} {found} {exact}"
            );
        }
    }

    /// One batch is the full batch; many batches after many epochs are near Poisson sampling; parts of epochs count as whole ones.
    #[test]
    fn limits_are_those_of_other_schemes() {
        let full = delta(Sampling::Poisson { sample_rate: 1.0 }, 2.0, 3, Adjacency::Remove, 0.7);
        let one = delta(allocation(1), 2.0, 3, Adjacency::Remove, 0.7);
        assert!(one > full * (1.0 - 1e-7) && one < full * (1.0 + 1e-3), "{one} {full}");
        let dealt = delta(allocation(200), 1.0, 10_000, Adjacency::AddRemove, 1.5);
        let poisson = delta(
            Sampling::Poisson { sample_rate: 0.005 },
            1.0,
            10_000,
            Adjacency::AddRemove,
            1.5,
        );
        assert!((dealt / poisson - 1.0).abs() < 0.2, "{dealt} {poisson}");
        let part = delta(allocation(10), 1.0, 13, Adjacency::AddRemove, 0.5);
        assert_eq!(part, delta(allocation(10), 1.0, 20, Adjacency::AddRemove, 0.5));
        assert!(part > delta(allocation(10), 1.0, 10, Adjacency::AddRemove, 0.5));
    }
    /// Orders 2 and 3 of two batches by their moments: E_Q[W²] = (1 + m₂)/2 and E_Q[W³] = (m₃ + 3m₂)/4 with the moments m of one Y, which
    /// rounding up to the lattice raises by 1e-4 at most; huge orders end at the largest loss.
    #[test]
    fn renyi_divergences_are_finite_and_those_of_the_moments() {
        let scale = 1.0f64;
        // Y is e^{∓1/b} at the ends, e^{(2x − 1)/b} between: E_Q[Y^k] by the substitution.
        let moment = |k: f64| {
            let ends = 0.5 * (-k / scale).exp() + 0.5 * ((k - 1.0) / scale).exp();
            let rate = (2.0 * k - 1.0) / scale;
            ends + 0.5 / scale * (-k / scale).exp() * rate.exp_m1() / rate
        };
        assert!((moment(1.0) - 1.0).abs() < 1e-14);
        let step = Step {
            mechanism: Mechanism::Laplace { scale },
            sampling: allocation(2),
            group: Group::of(1),
        };
        let mut run = Composition::new(&[(step, 6)], Adjacency::Remove).unwrap();
        for (order, exact) in [
            (2.0, 0.5 * (1.0 + moment(2.0))),
            (3.0, 0.25 * (moment(3.0) + 3.0 * moment(2.0))),
        ] {
            let (found, exact) = (run.renyi(order).unwrap(), 3.0 * exact.ln() / (order - 1.0));
            assert!(
                found >= exact * (1.0 - 1e-12) && found < exact * (1.0 + 1e-4),
                "{order}: {found} {exact}"
            );
        }
        let huge = run.renyi(1e9).unwrap();
        assert!(huge > 2.999 && huge <= 3.0 * (1.0 + 1e-9), "{huge}");
        // Smaller than the mass that rounding may hide: pure differential privacy.
        assert!(run.epsilon(1e-18, 1e-6).unwrap().upper <= 3.0 * (1.0 + 1e-9));
        assert_eq!(run.delta(3.01, 1e-6).unwrap().certified().unwrap().upper(), 0.0);
    }
}
