//! Σ_b L_b² when hit units fall on rounds: J distinct units, uniformly random among R rounds of m units.
//!
//! Given J, (L_1, …, L_R) is multivariate hypergeometric. Let D = Σ_b L_b(L_b − 1)/2 be the number of pairs of hit
//! units that share a round: Σ_b L_b² = J + 2D, so the law of D is all that is needed.
//!
//! **Few units, J ≤ R + 1.** P(D = d | J = n) is b_n(d)/C(Rm, n), where Σ_n b_n(d) x^n y^d is the R-th power of
//! Σ_k C(m, k) x^k y^{k(k−1)/2}. The power recurrence of J. C. P. Miller, divided by C(Rm, n), reads
//!
//! > P(D = d | n) = Σ_{k≥1} w_{n,k} · P(D = d − k(k−1)/2 | n − k),
//! > w_{n,k} = (k(R + 1) − n)/n · C(m, k) C(Rm, n − k) / C(Rm, n)
//!
//! Summed over d it says Σ_k w_{n,k} = 1. For n ≤ R + 1 no weight is negative: law n is a mixture of the laws before
//! it, whatever these left out counts with its weight, and nothing cancels. For k ≥ 2 the ratio w_{n,k+1}/w_{n,k}
//! falls with k, so the weights beyond the last one used are below a geometric series.
//!
//! **Many units.** Round by round: with u units still to place on r rounds, the first of these gets k of them with
//! the hypergeometric probability C(m, k) C((r−1)m, u − k)/C(rm, u). The state is (u, Σ L² so far) and the parity of J, which is
//! that of Σ L² + u; it halves the states.

use crate::shuffle::integer_law::{IntegerLaw, NEGLIGIBLE_TAIL, Real, Work, add_scaled, log_concave};
use crate::special::extended::Extended;
use crate::stopping::checkpoint;

/// The law of Σ_b L_b² over `rounds` rounds of `per_round` units, mixed over a law of the number of hit units.
///
/// `None` if it takes more than `work` multiplications.
pub(crate) fn squares<T: Real>(
    rounds: u64,
    per_round: u64,
    units: &IntegerLaw<T>,
    work: &mut Work,
) -> Option<IntegerLaw<T>> {
    if per_round == 1 || units.last() <= 1 {
        return Some(units.clone());
    }
    if units.last() <= rounds + 1 {
        few_units(rounds, per_round, units, work)
    } else {
        many_units(rounds, per_round, units, work)
    }
}

/// The recurrence over the number of hit units.
fn few_units<T: Real>(
    rounds: u64,
    per_round: u64,
    units: &IntegerLaw<T>,
    work: &mut Work,
) -> Option<IntegerLaw<T>> {
    let largest = units.last();
    let depth = recurrence_weights(rounds, per_round, largest).0.len() as u64;
    // laws[n]: of D given n; empty once no later law needs it.
    let mut laws = vec![IntegerLaw::<T>::point(0)];
    let mut total: Vec<T> = Vec::new();
    let (mut left_out, mut rounding) = (units.left_out, 0.0f64);
    for n in 0..=largest {
        if n > 0 {
            let law = recurrence_step(rounds, per_round, n, &laws, work)?;
            laws.push(law);
        }
        let law = &laws[n as usize];
        if n >= units.first {
            let weight = units.masses[(n - units.first) as usize];
            // Σ L² = n + 2D, as an offset from the smallest n.
            let start = (n - units.first + 2 * law.first) as usize;
            let length = start + 2 * law.masses.len() - 1;
            total.resize(total.len().max(length), T::ZERO);
            work.spend(law.masses.len() as u64)?;
            for (sum, &mass) in total[start..].iter_mut().step_by(2).zip(&law.masses) {
                *sum = *sum + weight * mass;
            }
            left_out += law.left_out * weight.to_f64();
            rounding = rounding.max(law.rounding);
        }
        if n >= depth {
            laws[(n - depth) as usize].masses = Vec::new();
        }
    }
    let mut law = IntegerLaw {
        first: units.first,
        masses: total,
        left_out: left_out * (1.0 + 1e-9),
        rounding: rounding + units.rounding + (units.masses.len() + 1) as f64 * T::UNIT,
    };
    law.clean();
    Some(law)
}

/// The law of D given n hit units, n ≤ R + 1, from those given fewer.
fn recurrence_step<T: Real>(
    rounds: u64,
    per_round: u64,
    n: u64,
    laws: &[IntegerLaw<T>],
    work: &mut Work,
) -> Option<IntegerLaw<T>> {
    let (weights, mut missed) = recurrence_weights(rounds, per_round, n);
    let mut parts = Vec::with_capacity(weights.len());
    let mut left_out = 0.0;
    for (k, &weight) in (1..).zip(&weights) {
        checkpoint();
        let law = &laws[(n - k) as usize];
        let size = weight.to_f64();
        if law.masses.is_empty() {
            missed += size;
        } else if size > 0.0 {
            left_out += size * law.left_out;
            parts.push((law, k * (k - 1) / 2, T::of(weight)));
        }
    }
    // From the largest k down: the part of k takes one product and at most k sums, so with the rounded weight the
    // relative error of law n is at most 3n units, by induction.
    parts.reverse();
    let mut law = mixture(&parts, NEGLIGIBLE_TAIL, work)??;
    law.rounding = 3.0 * n as f64 * T::UNIT + 64.0 * n as f64 * Extended::UNIT;
    law.left_out += left_out;
    law.leave_out(missed);
    Some(law)
}

/// w_{n,1}, w_{n,2}, … up to negligible ones, and a bound on the sum of the rest.
fn recurrence_weights(rounds: u64, per_round: u64, n: u64) -> (Vec<Extended>, f64) {
    let all = rounds * per_round;
    let factor = |k: u64| Extended::whole(k * (rounds + 1) - n) / Extended::whole(n);
    // C(m, k) C(Rm, n − k) / C(Rm, n), from k = 1 on.
    let mut choice = Extended::whole(per_round) * Extended::whole(n) / Extended::whole(all - n + 1);
    let mut weights = vec![choice * factor(1)];
    for k in 1..n.min(per_round) {
        let rise = Extended::whole(per_round - k) * Extended::whole(n - k)
            / (Extended::whole(k + 1) * Extended::whole(all - n + k + 1));
        choice = choice * rise;
        let next = choice * factor(k + 1);
        if k >= 2 {
            let size = weights.last().map_or(0.0, |weight| weight.to_f64());
            let fall = next.to_f64() / size;
            let rest = next.to_f64() / (1.0 - fall);
            if fall < 1.0 && rest < NEGLIGIBLE_TAIL {
                return (weights, rest);
            }
        }
        weights.push(next);
    }
    (weights, 0.0)
}

/// Joint masses of one number of units still to place: of Σ L² = 2·index + parity.
type Row<T> = Option<IntegerLaw<T>>;

/// The chain over the rounds.
fn many_units<T: Real>(
    rounds: u64,
    per_round: u64,
    units: &IntegerLaw<T>,
    work: &mut Work,
) -> Option<IntegerLaw<T>> {
    let mut total = IntegerLaw {
        first: 0,
        masses: Vec::new(),
        left_out: units.left_out,
        rounding: 0.0,
    };
    for parity in 0..2 {
        let mut rows: Vec<Row<T>> = (0..=units.last())
            .map(|n| {
                let mass = *units.masses.get(n.checked_sub(units.first)? as usize)?;
                (n % 2 == parity && mass.to_f64() > 0.0).then(|| IntegerLaw {
                    masses: vec![mass],
                    ..IntegerLaw::point(0)
                })
            })
            .collect();
        if rows.iter().all(Option::is_none) {
            continue;
        }
        let mut rounding = units.rounding;
        for remaining in (1..=rounds).rev() {
            let (next, error) = one_round(remaining, per_round, parity, &rows, &mut total.left_out, work)?;
            rows = next;
            rounding += error;
        }
        total.rounding = total.rounding.max(rounding);
        let Some(row) = rows.into_iter().next().flatten() else {
            continue;
        };
        let start = (2 * row.first + parity) as usize;
        total
            .masses
            .resize(total.masses.len().max(start + 2 * row.masses.len() - 1), T::ZERO);
        for (sum, mass) in total.masses[start..].iter_mut().step_by(2).zip(row.masses) {
            *sum = mass;
        }
        total.left_out += row.left_out;
    }
    total.clean();
    Some(total)
}

/// Fills one round; `remaining` counts it and those after it. Also returns the relative rounding error it adds.
fn one_round<T: Real>(
    remaining: u64,
    per_round: u64,
    parity: u64,
    rows: &[Row<T>],
    left_out: &mut f64,
    work: &mut Work,
) -> Option<(Vec<Row<T>>, f64)> {
    let mut splits: Vec<Option<IntegerLaw<Extended>>> = Vec::with_capacity(rows.len());
    // Smallest and largest number of units that any row places, and the range of rows in use.
    let (mut min_placed, mut max_placed) = (u64::MAX, 0);
    let (mut lowest, mut highest) = (usize::MAX, 0);
    for (u, row) in rows.iter().enumerate() {
        checkpoint();
        let Some(row) = row else {
            splits.push(None);
            continue;
        };
        let split = round_split(remaining, per_round, u as u64);
        work.spend(8 * split.masses.len() as u64)?;
        let mass: f64 = row.masses.iter().map(|mass| mass.to_f64()).sum();
        *left_out += 1.001 * (row.left_out + mass * split.left_out);
        (min_placed, max_placed) = (min_placed.min(split.first), max_placed.max(split.last()));
        (lowest, highest) = (lowest.min(u), highest.max(u));
        splits.push(Some(split));
    }
    if highest < lowest {
        return Some((Vec::new(), 0.0));
    }
    let (min_placed, max_placed) = (min_placed as usize, max_placed as usize);
    // Rows of the next round, from that of no units on.
    let mut next: Vec<Row<T>> = vec![None; lowest.saturating_sub(max_placed)];
    for target in next.len()..=highest.saturating_sub(min_placed) {
        let sources = lowest.max(target + min_placed)..=highest.min(target + max_placed);
        work.spend(sources.clone().count() as u64)?;
        let parts: Vec<Part<'_, T>> = sources
            .filter_map(|source| {
                let (row, split) = (rows[source].as_ref()?, splits[source].as_ref()?);
                let k = (source - target) as u64;
                let weight = split.masses.get(k.checked_sub(split.first)? as usize)?;
                // Σ L² has the parity of the number of units placed; it grows by k².
                let odd = |u: usize| (parity + u as u64) % 2;
                Some((row, (odd(source) + k * k - odd(target)) / 2, T::of(*weight)))
            })
            .collect();
        // These are joint masses: what all rows of all rounds drop adds up.
        let row = mixture(&parts, NEGLIGIBLE_TAIL * 1e-4, work)?;
        next.push(row.filter(|row| {
            if row.masses.is_empty() {
                *left_out += row.left_out;
            }
            !row.masses.is_empty()
        }));
    }
    let terms = (max_placed - min_placed + 1) as f64;
    Some((next, (terms + 2.0) * T::UNIT + 16.0 * terms * Extended::UNIT))
}

/// A law, its shift and its weight.
type Part<'a, T> = (&'a IntegerLaw<T>, u64, T);

/// Σ of weight·(law shifted), trimmed; the inner `None` if nothing is left, the outer one if it takes too long.
fn mixture<T: Real>(parts: &[Part<'_, T>], tolerance: f64, work: &mut Work) -> Option<Row<T>> {
    let first = parts.iter().map(|(law, shift, _)| law.first + shift).min();
    let last = parts.iter().map(|(law, shift, _)| law.last() + shift).max();
    let (Some(first), Some(last)) = (first, last) else {
        return Some(None);
    };
    let mut masses = vec![T::ZERO; (last - first + 1) as usize];
    for (law, shift, weight) in parts {
        work.spend(law.masses.len() as u64)?;
        add_scaled(
            &mut masses[(law.first + shift - first) as usize..],
            &law.masses,
            *weight,
        );
    }
    let mut law = IntegerLaw {
        first,
        masses,
        ..IntegerLaw::point(0)
    };
    law.trim(tolerance);
    Some(Some(law))
}

/// The law of the number of `u` units that fall into the first of `remaining` rounds: Hypergeometric(remaining·m, m, u).
fn round_split(remaining: u64, per_round: u64, u: u64) -> IntegerLaw<Extended> {
    let others = (remaining - 1) * per_round;
    let mode =
        (u128::from(per_round) + 1) * (u128::from(u) + 1) / (u128::from(others) + u128::from(per_round) + 2);
    log_concave(u.saturating_sub(others), u.min(per_round), mode as u64, |k| {
        Extended::whole(per_round - k) * Extended::whole(u - k)
            / (Extended::whole(k + 1) * Extended::whole(others + k + 1 - u))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(value: u64) -> IntegerLaw<Extended> {
        IntegerLaw::point(value)
    }

    #[test]
    fn the_recurrence_and_the_chain_give_one_law() {
        for (rounds, per_round, units) in [(7, 3, 8), (12, 20, 9), (30, 64, 31), (2, 2, 3)] {
            let few = few_units(rounds, per_round, &point(units), &mut Work(u64::MAX)).unwrap();
            let many = many_units(rounds, per_round, &point(units), &mut Work(u64::MAX)).unwrap();
            let sum: f64 = few.masses.iter().map(|mass| mass.to_f64()).sum();
            assert!((sum - 1.0).abs() < 1e-14);
            for (i, mass) in few.positive() {
                let value = few.first + i as u64;
                let mass = mass.to_f64();
                let lacking = few.left_out + many.left_out;
                let Some(other) = value.checked_sub(many.first).and_then(|i| many.masses.get(i as usize)) else {
                    assert!(mass <= 2.0 * lacking);
                    continue;
                };
                assert!(
                    (other.to_f64() - mass).abs() <= 1e-15 * mass + lacking,
                    "{rounds} {value}"
                );
            }
        }
    }

    #[test]
    fn fast_laws_are_within_their_stated_rounding() {
        for (rounds, per_round, units) in [(400, 64, 300), (20, 30, 150)] {
            let exact = squares(rounds, per_round, &point(units), &mut Work(u64::MAX)).unwrap();
            let fast = squares(rounds, per_round, &IntegerLaw::<f64>::point(units), &mut Work(u64::MAX)).unwrap();
            assert!(fast.rounding < 1e-12 && fast.left_out < 1e-36 && exact.left_out < 1e-36);
            for (i, mass) in exact.positive() {
                let index = exact.first + i as u64 - fast.first;
                let other = fast.masses.get(index as usize).copied().unwrap_or(0.0);
                let mass = mass.to_f64();
                let lacking = fast.left_out + exact.left_out;
                assert!((other - mass).abs() <= fast.rounding * mass + lacking, "{rounds} {i}");
            }
        }
    }

    #[test]
    fn a_parity_of_negligible_mass_is_left_out() {
        let units = IntegerLaw {
            first: 5,
            masses: vec![1.0, 1e-45],
            ..IntegerLaw::point(0)
        };
        let law = many_units(3, 4, &units, &mut Work(u64::MAX)).unwrap();
        assert!(law.positive().all(|(i, _)| (law.first + i as u64) % 2 == 1));
        assert!((1e-45..1e-40).contains(&law.left_out));
    }

    #[test]
    fn weights_of_the_recurrence_sum_to_one() {
        for (rounds, per_round, n) in [(5, 3, 6), (937, 64, 32), (200, 100, 201), (1000, 1, 7)] {
            let (weights, missed) = recurrence_weights(rounds, per_round, n);
            let sum: f64 = weights.iter().map(|weight| weight.to_f64()).sum();
            assert!((sum - 1.0).abs() < 1e-14 && missed < 1e-40, "{rounds} {per_round} {n}");
        }
    }
}
