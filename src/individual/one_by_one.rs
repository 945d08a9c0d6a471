//! ε of histories by the exact engine, one history after the other.
//!
//! Inversion of many losses at once (`epsilons`) lays out tables of the characteristic function that pay for hundreds of steps
//! and thousands of examples. After a few steps they are expensive, since the characteristic function hardly decays and long
//! lines of it are needed, and they often certify nothing, since the loss is nearly discrete. The exact engine has a closed
//! form for a single step and takes milliseconds for a few. It is asked once for each different history.

use crate::curve::Accuracy;
use crate::curve::composition::{Composition, MAX_SEGMENTS};
use crate::curve::epsilon_search::{Query, StartingPoint};
use crate::curve::{epsilon_search, one_step};
use crate::error::{Error, Result};
use crate::individual::histories::{Histories, History};
use crate::loss::StepLoss;
use crate::loss::privacy_loss::Effort;
use crate::monitor::Monitor;
use crate::special::normal::quantile;
use crate::step::{Adjacency, Direction, Group, GroupLaw, Mechanism, Sampling, Step};
use crate::threads::in_pool;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Relative amount by which σ is rounded down: more than the roundings of v and of its root, which are at most 4ε.
const ROUNDING: f64 = 16.0 * f64::EPSILON;
/// Largest number of steps, below 2⁵³: above that an `f64` does not hold every whole number.
const MAX_STEPS: f64 = 9e15;
/// Relative width that is asked for after a single step, which has a closed form.
const NARROW: f64 = 1e-9;
/// Relative width that is asked for after a few steps: a tenth of what the accounts promise. At 1e-9, two or three steps take
/// up to twenty times as long.
const ENOUGH: f64 = 1e-7;
/// Steps from which on that difference is small.
const MANY_STEPS: f64 = 50.0;
/// Largest exponent of the first guess, so that its exponential is finite.
const LARGEST_GROWTH: f64 = 600.0;
/// Smallest ε at which a search starts.
const SMALLEST_START: f64 = 1e-12;

/// Lower and upper bounds on ε(δ) of the examples at `members`. Those of equal histories are equal, and computed once.
pub(crate) fn epsilons(
    histories: &Histories,
    members: &[usize],
    delta: f64,
    monitor: &dyn Monitor,
) -> Result<Vec<(f64, f64)>> {
    let (places, different) = different(histories, members);
    let answers: Vec<(f64, f64)> = in_pool(|| {
        different
            .par_iter()
            .map(|history| {
                if monitor.cancelled() {
                    return Err(Error::Interrupted);
                }
                epsilon(history, histories.rates(), delta)
            })
            .collect::<Result<_>>()
    })?;
    Ok(places.into_iter().map(|place| answers[place]).collect())
}

/// Number of different histories among the examples at `members`.
pub(crate) fn count_different(histories: &Histories, members: &[usize]) -> usize {
    different(histories, members).1.len()
}

/// The different histories, and where in that list that of each member stands.
fn different<'h>(histories: &'h Histories, members: &[usize]) -> (Vec<usize>, Vec<&'h History>) {
    let mut known: FxHashMap<Vec<u64>, usize> = FxHashMap::default();
    let mut different = Vec::new();
    let places = members
        .iter()
        .map(|&member| {
            let history = histories.history(member);
            *known.entry(history.key()).or_insert_with(|| {
                different.push(history);
                different.len() - 1
            })
        })
        .collect();
    (places, different)
}

fn epsilon(history: &History, rates: &[f64], delta: f64) -> Result<(f64, f64)> {
    let batch_probability = history.batch_probability(rates);
    if let Some(known) = history.content().known_epsilon(batch_probability, delta) {
        return Ok(known);
    }
    let Some(segments) = segments(history, rates) else {
        return Ok((0.0, f64::INFINITY));
    };
    let is_costly = history.count() > 1.0 && history.count() < MANY_STEPS;
    let tolerance = if is_costly { ENOUGH } else { NARROW };
    if let ([step], 0.0) = (history.steps(), history.gaussian())
        && step.count == 1.0
    {
        let found = of_single_step(rates[usize::from(step.rate)], step.v, delta)?;
        if found.1 - found.0 <= tolerance * found.1 {
            return Ok(found);
        }
    }
    let found = Composition::new(&segments, Adjacency::AddRemove)?.epsilon(delta, tolerance)?;
    Ok((found.lower, found.upper))
}

/// ε after one step by its closed form, without what the engine prepares for compositions.
fn of_single_step(rate: f64, v: f64, delta: f64) -> Result<(f64, f64)> {
    let law = GroupLaw::binomial(1, rate)?;
    let (mut lower, mut upper) = (0.0f64, 0.0f64);
    for direction in Direction::BOTH {
        let Some(loss) = StepLoss::mixture(&law, noise_multiplier(v), direction)? else {
            continue;
        };
        let curve =
            |epsilon: f64, to: &Accuracy| one_step::delta_within(&loss, epsilon, to.width, &mut Effort::default());
        let (epsilon, slope) = initial_guess(rate, v.sqrt(), delta);
        let query = Query {
            log_delta: delta.ln(),
            tolerance: NARROW,
            margin: 0.0,
            start: StartingPoint { epsilon, slope },
            largest_loss: f64::INFINITY,
        };
        let found = epsilon_search::epsilon(curve, &query)?.interval;
        (lower, upper) = (lower.max(found.lower), upper.max(found.upper));
    }
    Ok((lower, upper))
}

/// An ε near the answer for "remove" and −d log δ/dε there: where the record's own outputs have a mass of δ, if they have that
/// much.
fn initial_guess(rate: f64, shift: f64, delta: f64) -> (f64, f64) {
    let quantile = quantile((1.0 - delta / rate).clamp(0.5, 1.0 - f64::EPSILON)).value;
    let growth = shift * (shift + quantile) - 0.5 * shift * shift;
    let ratio = rate * growth.min(LARGEST_GROWTH).exp_m1();
    (
        ratio.ln_1p().max(SMALLEST_START),
        (quantile + 1.0) * (1.0 + ratio) / (shift * (rate + ratio)),
    )
}

/// σ of a step over its shift, no larger than it is.
fn noise_multiplier(v: f64) -> f64 {
    (1.0 - ROUNDING) / v.sqrt()
}

/// The steps as the engine takes them, `None` if they are too many for it.
fn segments(history: &History, rates: &[f64]) -> Option<Vec<(Step, u64)>> {
    let step = |v: f64, sample_rate: f64| Step {
        mechanism: Mechanism::Gaussian {
            noise_multiplier: noise_multiplier(v),
        },
        sampling: Sampling::Poisson { sample_rate },
        group: Group::of(1),
    };
    let mut segments = Vec::with_capacity(history.steps().len() + 1);
    for steps in history.steps() {
        if steps.count > MAX_STEPS || steps.count.fract() != 0.0 {
            return None;
        }
        segments.push((step(steps.v, rates[usize::from(steps.rate)]), steps.count as u64));
    }
    if history.gaussian() > 0.0 {
        segments.push((step(history.gaussian(), 1.0), 1));
    }
    (segments.len() <= MAX_SEGMENTS).then_some(segments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Unwatched;

    /// Φ(−t).
    fn upper_tail(t: f64) -> f64 {
        0.5 * libm::erfc(t / std::f64::consts::SQRT_2)
    }

    /// δ of one step of the mixture, by the threshold of its outputs in each direction.
    fn one_step_delta(s: f64, q: f64, epsilon: f64) -> f64 {
        let output = |ratio: f64| ((ratio - 1.0 + q) / q).ln() / s + 0.5 * s;
        let above = |x: f64| ((1.0 - q) * upper_tail(x) + q * upper_tail(x - s), upper_tail(x));
        let (p, o) = above(output(epsilon.exp()));
        let remove = p - epsilon.exp() * o;
        if (-epsilon).exp() <= 1.0 - q {
            return remove;
        }
        let (p, o) = above(output((-epsilon).exp()));
        remove.max((1.0 - o) - epsilon.exp() * (1.0 - p))
    }

    fn one(steps: &[(f64, f64, f64, f64)], delta: f64) -> (f64, f64) {
        let mut histories = Histories::new(1);
        for &(norm, noise, rate, count) in steps {
            histories.add(&[norm], 1.0, noise, rate, count).unwrap();
        }
        epsilons(&histories, &[0], delta, &Unwatched).unwrap()[0]
    }

    #[test]
    fn a_single_step_has_its_closed_form() {
        for (norm, noise, rate) in [
            (1.0, 1.0, 0.01),
            (0.3, 0.7, 0.2),
            (0.05, 1.0, 0.5),
            (0.9, 0.4, 1e-3),
            (0.5, 3.0, 0.97),
        ] {
            let (lower, upper) = one(&[(norm, noise, rate, 1.0)], 1e-4);
            assert!(lower <= upper && upper - lower <= 1e-9 * upper, "{lower} {upper}");
            let delta = one_step_delta(norm / noise, rate, upper);
            assert!((delta / 1e-4 - 1.0).abs() < 1e-7, "{norm} {noise} {rate}: {delta}");
            // Half of it is no bound.
            assert!(one_step_delta(norm / noise, rate, 0.5 * upper) > 1.1e-4);
        }
    }

    #[test]
    fn few_steps_with_norms_of_their_own_have_narrow_bounds() {
        for steps in [
            vec![(0.2, 1.0, 0.01, 1.0), (0.9, 1.0, 0.01, 1.0)],
            vec![(0.2, 1.0, 0.1, 1.0), (0.5, 1.0, 0.1, 1.0), (0.4, 2.0, 1.0, 3.0)],
            vec![(0.6, 2.0, 0.5, 4.0), (0.1, 2.0, 0.5, 6.0)],
        ] {
            let (lower, upper) = one(&steps, 1e-5);
            assert!(
                lower > 0.0 && upper - lower <= 1e-6 * upper,
                "{steps:?} {lower} {upper}"
            );
        }
    }

    #[test]
    fn equal_histories_are_asked_once_and_have_equal_answers() {
        let mut histories = Histories::new(4);
        histories.add(&[0.5, 0.3, 0.5, 0.3], 1.0, 1.0, 0.1, 1.0).unwrap();
        histories.add(&[0.3, 0.5, 0.3, 0.3], 1.0, 1.0, 0.1, 1.0).unwrap();
        assert_eq!(count_different(&histories, &[0, 1, 2, 3]), 2);
        let found = epsilons(&histories, &[3, 2, 1, 0], 1e-5, &Unwatched).unwrap();
        assert!(found[1] == found[2] && found[2] == found[3] && found[0].1 < found[1].1);
    }

    #[test]
    fn what_is_known_beforehand_is_not_computed() {
        assert_eq!(one(&[(0.0, 1.0, 0.1, 1.0)], 1e-5), (0.0, 0.0));
        assert_eq!(one(&[(1.0, 0.0, 0.1, 1.0)], 1e-5), (0.0, f64::INFINITY));
        assert_eq!(one(&[(1.0, 1.0, 1e-6, 1.0)], 1e-5), (0.0, 0.0));
    }
}
