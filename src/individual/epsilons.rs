//! ε of many accounts: by inversion from moments or from histories of norms, and by the exact engine after few steps.

use crate::error::{Result, require_delta};
use crate::individual::accounts::Accounts;
use crate::individual::histories::Histories;
use crate::individual::history_losses::HistoryLosses;
use crate::individual::inversion::invert;
use crate::individual::moment_losses::MomentLosses;
use crate::individual::one_by_one;
use crate::interval::Interval;
use crate::monitor::Monitor;

/// Largest number of different histories that the exact engine is asked about: each takes a millisecond after a single step, 3
/// to 150 of them after a few.
const MAX_ONE_BY_ONE: usize = 256;
/// Relative width above which the bounds from inversion are not final.
const OPEN: f64 = 1e-9;

/// Lower and upper bounds on ε(δ) of each account, for "add" and "remove" together. The upper bound is infinite where nothing is
/// certified, as after steps with next to no noise.
///
/// # Errors
/// δ outside (0, 1); an interruption.
///
/// # Example
/// ```
/// use hockeystick::Unwatched;
/// use hockeystick::individual::Accounts;
/// use hockeystick::individual::epsilons;
/// let mut accounts = Accounts::new(1);
/// accounts.add(&[0.5], 1.0, 1.0, 0.01, 1000.0)?;
/// let found = epsilons(&accounts, 1e-5, &Unwatched)?;
/// // As 1,000 steps at full norm and twice the noise.
/// assert!((found[0].1 - 0.622_030).abs() < 1e-5);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn epsilons(accounts: &Accounts, delta: f64, monitor: &dyn Monitor) -> Result<Vec<(f64, f64)>> {
    require_delta(delta)?;
    invert(&MomentLosses::new(accounts), accounts.examples.len(), delta, monitor)
}

/// Bounds on ε(δ) of every example from its history of norms: slower than from moments, and certified for fewer steps.
///
/// The exact engine answers for single steps, and for up to 256 different histories that are short, or for which inversion
/// gives wide bounds.
///
/// # Errors
/// δ outside (0, 1); an interruption.
///
/// # Example
/// ```
/// use hockeystick::Unwatched;
/// use hockeystick::individual::epsilons_of_histories;
/// use hockeystick::individual::Histories;
/// let mut histories = Histories::new(1);
/// histories.add(&[1.0], 1.0, 1.0, 0.1, 60.0)?;
/// histories.add(&[0.25], 1.0, 1.0, 0.1, 60.0)?;
/// let (lower, upper) = epsilons_of_histories(&histories, 1e-5, &Unwatched)?[0];
/// assert!(lower > 0.0 && upper - lower < 1e-9 * upper);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn epsilons_of_histories(histories: &Histories, delta: f64, monitor: &dyn Monitor) -> Result<Vec<(f64, f64)>> {
    require_delta(delta)?;
    let mut found = vec![(0.0, f64::INFINITY); histories.len()];
    let (single, others): (Vec<usize>, Vec<usize>) =
        (0..histories.len()).partition(|&i| histories.history(i).count() <= 1.0);
    tighten(
        &mut found,
        &single,
        one_by_one::epsilons(histories, &single, delta, monitor)?,
    )?;
    let (short, mut long): (Vec<usize>, Vec<usize>) =
        others.into_iter().partition(|&i| histories.history(i).is_short());
    if one_by_one::count_different(histories, &short) <= MAX_ONE_BY_ONE {
        tighten(
            &mut found,
            &short,
            one_by_one::epsilons(histories, &short, delta, monitor)?,
        )?;
    } else {
        long.extend(short);
    }
    let subset = histories.subset(&long);
    tighten(
        &mut found,
        &long,
        invert(&HistoryLosses::new(&subset), long.len(), delta, monitor)?,
    )?;
    long.retain(|&i| found[i].1 == f64::INFINITY || found[i].1 - found[i].0 > OPEN * found[i].1);
    if one_by_one::count_different(histories, &long) <= MAX_ONE_BY_ONE {
        tighten(
            &mut found,
            &long,
            one_by_one::epsilons(histories, &long, delta, monitor)?,
        )?;
    }
    Ok(found)
}

/// Intersects the bounds on ε of some examples with new ones, which may not contradict them.
fn tighten(found: &mut [(f64, f64)], members: &[usize], bounds: Vec<(f64, f64)>) -> Result<()> {
    for (&i, (lower, upper)) in members.iter().zip(bounds) {
        let met = Interval::of_bounds(found[i].0.max(lower), found[i].1.min(upper))?;
        found[i] = (met.lower, met.upper);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::individual::accounts::{SLOT_TERMS, Slot};
    use crate::monitor::Unwatched;

    /// Example i at 1/2^i of the full norm, all steps alike.
    fn halved(noise: f64, rate: f64, steps: f64, delta: f64) -> Vec<(f64, f64)> {
        let norms: Vec<f64> = (0..8).map(|i| 0.5f64.powi(i)).collect();
        let mut accounts = Accounts::new(norms.len());
        accounts.add(&norms, 1.0, noise, rate, steps).unwrap();
        epsilons(&accounts, delta, &Unwatched).unwrap()
    }

    #[test]
    fn bounds_that_contradict_each_other_are_an_error() {
        let mut found = vec![(1.0, 2.0), (1.0, 2.0), (0.0, f64::INFINITY)];
        assert_eq!(
            tighten(&mut found, &[1, 2], vec![(1.5, 3.0), (0.5, f64::INFINITY)]),
            Ok(())
        );
        assert_eq!(found, [(1.0, 2.0), (1.5, 2.0), (0.5, f64::INFINITY)]);
        // The last bits may cross.
        assert_eq!(tighten(&mut found, &[0], vec![(2.0 + 1e-12, 3.0)]), Ok(()));
        assert_eq!(found[0], (2.0, 2.0 + 1e-12));
        let crossed = tighten(&mut found, &[1], vec![(2.1, 3.0)]);
        assert_eq!(crossed, Err(Error::Contradiction));
    }

    #[test]
    fn half_the_norm_is_twice_the_noise() {
        let (one, other) = (halved(1.0, 0.02, 2000.0, 1e-6), halved(2.0, 0.02, 2000.0, 1e-6));
        for (found, expected) in one[1..].iter().zip(&other) {
            assert!(found.0 <= expected.1 && expected.0 <= found.1);
            assert!(found.1 - found.0 < 1e-8 * found.1, "{found:?}");
        }
    }

    #[test]
    fn gaussian_steps_have_their_closed_form() {
        // G_μ with μ = √10/4: δ = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).
        let found = halved(4.0, 1.0, 10.0, 1e-5)[0];
        assert!(found.0 <= found.1 && (found.1 - 3.341_409_469_239).abs() < 1e-11);
    }

    #[test]
    fn few_steps_are_bounded_if_not_exact() {
        for (_, upper) in halved(1.0, 0.1, 5.0, 1e-5) {
            assert!(upper > 0.0 && upper < 10.0);
        }
    }

    #[test]
    fn nothing_is_certified_without_noise_and_nothing_is_lost_without_steps() {
        assert_eq!(halved(0.0, 0.1, 5.0, 1e-5)[0], (0.0, f64::INFINITY));
        assert_eq!(halved(1.0, 0.0, 5.0, 1e-5)[0], (0.0, 0.0));
    }

    #[test]
    fn octaves_of_which_nothing_is_certified_take_no_memory() {
        let mut accounts = Accounts::new(1);
        accounts.rates.push(0.1);
        let mut moments = [-1.0; SLOT_TERMS];
        moments[0] = 1.0;
        let slot = Slot {
            rate: 0,
            octave: 52,
            additions: 1,
            moments,
        };
        accounts.restore(0, slot).unwrap();
        accounts.check().unwrap();
        assert_eq!(epsilons(&accounts, 1e-5, &Unwatched).unwrap(), [(0.0, f64::INFINITY)]);
    }

    #[test]
    fn who_is_hardly_ever_in_a_batch_has_no_loss() {
        let mut accounts = Accounts::new(2);
        accounts.add(&[1.0, 0.3], 1.0, 1.0, 0.9e-8, 1000.0).unwrap();
        assert_eq!(epsilons(&accounts, 1e-5, &Unwatched).unwrap(), [(0.0, 0.0); 2]);
        // Its δ(0) = 3.4e-6 is larger than that.
        let (_, upper) = epsilons(&accounts, 1e-6, &Unwatched).unwrap()[0];
        assert!(upper > 0.0);
        // Rates so small that their squares underflow are no reason for a false answer, nor for a late one.
        let mut accounts = Accounts::new(1);
        accounts.add(&[1.0], 1.0, 1.0, 5e-324, 1e9).unwrap();
        assert_eq!(epsilons(&accounts, 1e-100, &Unwatched).unwrap(), [(0.0, 0.0)]);
        // In every batch of some steps, in hardly any of others.
        let mut accounts = Accounts::new(1);
        accounts.add(&[1.0], 1.0, 10.0, 1.0, 1.0).unwrap();
        accounts.add(&[1.0], 1.0, 10.0, 1e-12, 1.0).unwrap();
        assert!(epsilons(&accounts, 1e-5, &Unwatched).unwrap()[0].1 > 0.1);
    }

    /// Norms that shrink from 1 in some refreshes.
    fn shrinking(noise: f64, rate: f64, refreshes: usize, steps: f64) -> (Accounts, Histories) {
        let (mut accounts, mut histories) = (Accounts::new(5), Histories::new(5));
        for t in 0..refreshes {
            let norms: Vec<f64> = (0..5)
                .map(|i| (-f64::from(i) * t as f64 / refreshes as f64).exp())
                .collect();
            accounts.add(&norms, 1.0, noise, rate, steps).unwrap();
            histories.add(&norms, 1.0, noise, rate, steps).unwrap();
        }
        (accounts, histories)
    }

    #[test]
    fn both_ways_agree_where_both_are_certified() {
        let (accounts, histories) = shrinking(1.5, 0.02, 12, 200.0);
        let one = epsilons(&accounts, 1e-5, &Unwatched).unwrap();
        let other = epsilons_of_histories(&histories, 1e-5, &Unwatched).unwrap();
        for (one, other) in one.iter().zip(&other) {
            assert!(one.0 <= other.1 && other.0 <= one.1, "{one:?} {other:?}");
            assert!(other.1 - other.0 < 1e-9 * other.1, "{other:?}");
        }
    }

    #[test]
    fn few_steps_are_certified() {
        for (noise, rate, refreshes, steps) in [(1.0, 0.1, 8, 12.0), (0.7, 0.05, 10, 5.0), (2.0, 0.3, 4, 10.0)] {
            let (_, histories) = shrinking(noise, rate, refreshes, steps);
            for found in epsilons_of_histories(&histories, 1e-5, &Unwatched).unwrap() {
                assert!(found.1 - found.0 < 1e-9 * found.1, "σ {noise} q {rate} {found:?}");
            }
        }
    }

    #[test]
    fn the_order_of_steps_makes_no_difference() {
        let (mut one, mut other) = (Histories::new(1), Histories::new(1));
        let norms = [0.9, 0.2, 0.5, 0.2];
        for (i, norm) in norms.into_iter().enumerate() {
            one.add(&[norm], 1.0, 1.0, 0.1, 20.0).unwrap();
            other.add(&[norms[3 - i]], 1.0, 1.0, 0.1, 20.0).unwrap();
        }
        let of = |histories: &Histories| epsilons_of_histories(histories, 1e-5, &Unwatched).unwrap();
        assert_eq!(of(&one), of(&other));
    }
}
