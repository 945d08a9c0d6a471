//! A lower bound on ε from guesses about many canaries in one run.

use super::MAX_EPSILON;
use crate::error::{Error, Result, require};
use crate::special::binomial::Binomial;
use crate::special::root::solve_decreasing;

/// Largest number of canaries: a mass is kept for each.
const MAX_CANARIES: u64 = 1_000_000;
/// Width to which ε is found.
const WIDTH: f64 = 1e-12;

/// Lower bound on ε from one run in which each of `canaries` canaries was inserted or left out by a fair coin of its own, and an
/// attack guessed `guesses` of these coins, `correct` of them rightly.
///
/// With a probability of at least 1 − `error` the training is not (ε, δ)-private for any smaller ε. Steinke, Nasr and Jagielski
/// 2023 (arXiv:2305.08846), Theorem 5.2: with W ~ Binomial(guesses, e^ε/(1 + e^ε)) and f(v) = P(W ≥ v), an attack is right v times or
/// more with a probability of at most f(v) + 2mδ·max_i (f(v − i) − f(v))/i for m canaries. The bound is the ε where that reaches
/// `error`; it grows with ε as long as 2mδ ≤ 1.
///
/// # Errors
/// Counts that contradict each other, more than a million canaries, δ not in [0, 1/(2m)), or `error` not in (0, 1).
///
/// # Example
/// ```
/// use hockeystick::auditing::one_run_epsilon_lower_bound;
/// let epsilon = one_run_epsilon_lower_bound(90, 100, 1000, 1e-5, 0.05)?;
/// assert_eq!(format!("{epsilon:.3}"), "1.626");
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn one_run_epsilon_lower_bound(
    correct: u64,
    guesses: u64,
    canaries: u64,
    delta: f64,
    error: f64,
) -> Result<f64> {
    require(
        (1..=MAX_CANARIES).contains(&canaries),
        "canaries",
        canaries,
        "in [1, 1000000]",
    )?;
    require(
        (1..=canaries).contains(&guesses),
        "guesses",
        guesses,
        "in [1, canaries]",
    )?;
    require(correct <= guesses, "correct", correct, "at most the number of guesses")?;
    let weight = 2.0 * canaries as f64 * delta;
    require((0.0..1.0).contains(&weight), "delta", delta, "in [0, 1/(2 canaries))")?;
    require(error > 0.0 && error < 1.0, "error", error, "in (0, 1)")?;
    let excess = |epsilon: f64| max_probability(correct, guesses, weight, epsilon) / error - 1.0;
    if excess(0.0) > 0.0 {
        return Ok(0.0);
    }
    if excess(MAX_EPSILON) <= 0.0 {
        return Ok(MAX_EPSILON);
    }
    // In −ε the probability decreases, and the search ends where it is at most the error.
    let found = solve_decreasing(-MAX_EPSILON, 0.0, WIDTH, |x| Ok::<_, Error>(excess(-x)))?;
    Ok(-found)
}

/// An upper bound on the probability that an attack on an ε-private run is right so often or more, with `weight` 2mδ.
fn max_probability(correct: u64, guesses: u64, weight: f64, epsilon: f64) -> f64 {
    let rest = (-epsilon - (-epsilon).exp().ln_1p()).exp();
    let law = Binomial {
        trials: guesses as f64,
        p: 1.0 - rest,
        rest,
    };
    let masses = masses(&law);
    let (below, above) = masses.split_at(correct as usize);
    let tail: f64 = above.iter().rev().sum();
    let (mut sum, mut steepest) = (0.0, 0.0f64);
    for (i, mass) in below.iter().rev().enumerate() {
        sum += mass;
        steepest = steepest.max(sum / (i + 1) as f64);
    }
    // Roundings: of the mass at the mode, and of two for each step from there and one for each term of a sum; sums of masses below
    // e^-700 are at most that many times e^-700.
    let error = law.relative_error(mode(&law)) + 4.0 * f64::EPSILON * law.trials;
    (tail + weight * steepest) * (1.0 + error) + law.trials * 1e-300
}

/// The count with the largest mass.
fn mode(law: &Binomial) -> f64 {
    ((law.trials + 1.0) * law.p).floor().clamp(0.0, law.trials)
}

/// Masses of 0, 1, …, n successes: that of the mode, and the others by ratios of neighbours.
fn masses(law: &Binomial) -> Vec<f64> {
    let top = mode(law);
    let mut masses = vec![0.0; law.trials as usize + 1];
    masses[top as usize] = law.log_mass(top).exp();
    let odds = law.p / law.rest;
    for i in (0..top as usize).rev() {
        masses[i] = masses[i + 1] * (i + 1) as f64 / (law.trials - i as f64) / odds;
    }
    for i in top as usize..law.trials as usize {
        masses[i + 1] = masses[i] * (law.trials - i as f64) / (i + 1) as f64 * odds;
    }
    masses
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::{Binomial as Reference, DiscreteCDF};

    /// The probability of the theorem from tails of another library.
    fn by_definition(correct: u64, guesses: u64, weight: f64, epsilon: f64) -> f64 {
        let law = Reference::new(1.0 / (1.0 + (-epsilon).exp()), guesses).unwrap();
        let tail = |v: u64| if v == 0 { 1.0 } else { law.sf(v - 1) };
        let steepest = (1..=correct)
            .map(|i| (tail(correct - i) - tail(correct)) / i as f64)
            .fold(0.0, f64::max);
        tail(correct) + weight * steepest
    }

    #[test]
    fn the_probability_is_that_of_the_theorem() {
        for (correct, guesses, weight, epsilon) in [
            (9, 10, 0.1, 0.3),
            (90, 100, 0.02, 1.5),
            (600, 1000, 0.9, 0.2),
            (3, 3, 0.0, 2.0),
        ] {
            let (found, exact) = (
                max_probability(correct, guesses, weight, epsilon),
                by_definition(correct, guesses, weight, epsilon),
            );
            assert!(
                (found / exact - 1.0).abs() < 1e-9,
                "{correct} {guesses}: {found} {exact}"
            );
            assert!(found >= exact * (1.0 - 1e-10));
        }
    }

    #[test]
    fn the_bound_is_where_the_probability_reaches_the_error() {
        for (correct, guesses, canaries, delta) in
            [(90, 100, 1000, 1e-5), (600, 1000, 1000, 0.0), (10, 10, 10, 1e-3)]
        {
            let epsilon = one_run_epsilon_lower_bound(correct, guesses, canaries, delta, 0.05).unwrap();
            let weight = 2.0 * canaries as f64 * delta;
            assert!((by_definition(correct, guesses, weight, epsilon) - 0.05).abs() < 1e-8);
            assert!(max_probability(correct, guesses, weight, epsilon) <= 0.05);
        }
        assert_eq!(one_run_epsilon_lower_bound(50, 100, 100, 0.0, 0.05).unwrap(), 0.0);
        assert_eq!(
            one_run_epsilon_lower_bound(1_000_000, 1_000_000, 1_000_000, 0.0, 1e-9)
                .unwrap()
                .floor(),
            10.0
        );
    }

    #[test]
    fn counts_out_of_range_are_refused() {
        for (correct, guesses, canaries, delta, error) in [
            (2, 1, 5, 0.0, 0.1),
            (1, 6, 5, 0.0, 0.1),
            (1, 1, 0, 0.0, 0.1),
            (1, 1, 5, 0.1, 0.1),
            (1, 1, 5, 0.0, 1.0),
        ] {
            assert!(one_run_epsilon_lower_bound(correct, guesses, canaries, delta, error).is_err());
        }
    }
}
