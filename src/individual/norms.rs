//! Checks of what is added to accounts (norms, noise, sample rates, numbers of steps), and its rounding to what is tabulated.
//!
//! What is not tabulated is rounded up, which can only overstate what a step leaks. v is off by up to seven halves of ε besides, as a
//! product of squares of quotients: the bounds on losses count that as a rounding of the step's place in its octave
//! (`basis::PLACE_ROUNDING`), and sums of Gaussian steps are raised by it.

use crate::error::{Error, Result, require, require_noise_multiplier, require_sample_rate};

/// Smallest square of a shift, in units of the square of the largest possible one. At 2⁻⁴⁰, an example has at most 41 octaves
/// of v at one noise multiplier, and 10⁶ steps at the smallest shift leak less than one at the largest.
const MIN_SQUARE: f64 = 1.0 / (1u64 << 40) as f64;
/// Smallest v of the largest shift; with more noise than that, v is raised to it.
const MIN_V: f64 = 1e-60;
/// v of the largest shift above which a step reveals whether the record was in the batch.
const MAX_V: f64 = 1e12;
/// Largest number of steps of one kind.
pub(crate) const MAX_STEPS: f64 = 1e100;
/// Smallest sample rate; smaller ones are rounded up to it, as their squares underflow. After [`MAX_STEPS`] that adds 1e-40 to δ.
pub(crate) const MIN_RATE: f64 = 1e-140;

/// v = (s/σ)² of the shifts s of one step, relative to that of the largest shift.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShiftScale {
    /// v of the largest shift.
    full: f64,
    largest: f64,
    /// True if there is so little noise that the output reveals whether the record was in the batch.
    pub(crate) is_revealing: bool,
}

impl ShiftScale {
    /// The scale of a step whose shifts are at most `largest`, with noise of standard deviation `noise_multiplier`.
    pub(crate) fn new(largest: f64, noise_multiplier: f64) -> Self {
        let full = (largest / noise_multiplier).powi(2);
        Self {
            is_revealing: full > MAX_V,
            full: full.max(MIN_V),
            largest,
        }
    }

    /// v of a shift, rounded up where it is small.
    pub(crate) fn v(&self, shift: f64) -> f64 {
        self.full * (shift / self.largest).powi(2).max(MIN_SQUARE)
    }
}

/// Σ v of an account's Gaussian steps after some more of them, rounded up.
pub(crate) fn with_gaussian_steps(gaussian: f64, steps: f64, v: f64) -> f64 {
    // The first factor is for v, the second for the sum and its products.
    (gaussian + steps * (v * (1.0 + 4.0 * f64::EPSILON))) * (1.0 + 4.0 * f64::EPSILON)
}

/// A bound on the probability of being in any batch, from that of the steps at rates below 1 and Σ v of the Gaussian ones, in
/// which all records are.
pub(crate) fn batch_probability(gaussian: f64, of_others: f64) -> f64 {
    if gaussian > 0.0 { f64::INFINITY } else { of_others }
}

/// Checks the arguments of an addition of steps to `count` accounts.
pub(crate) fn require_step(
    count: usize,
    shifts: &[f64],
    noise_multiplier: f64,
    sample_rate: f64,
    steps: f64,
) -> Result<()> {
    require_norms(shifts)?;
    require_noise_multiplier(noise_multiplier)?;
    require_sample_rate(sample_rate)?;
    require((0.0..=MAX_STEPS).contains(&steps), "steps", steps, "in [0, 1e100]")?;
    if shifts.len() != count {
        return Err(Error::Mismatch(format!(
            "there are {count} accounts, got {} norms",
            shifts.len()
        )));
    }
    Ok(())
}

/// Checks that every norm is finite and not negative; the error names the first few that are not.
pub fn require_norms(norms: &[f64]) -> Result<()> {
    const NAMED: usize = 5;
    let is_bad = |norm: f64| !(norm >= 0.0 && norm.is_finite());
    if !norms.iter().any(|&norm| is_bad(norm)) {
        return Ok(());
    }
    let bad: Vec<(usize, f64)> = norms
        .iter()
        .copied()
        .enumerate()
        .filter(|&(_, norm)| is_bad(norm))
        .collect();
    let named: Vec<String> = bad
        .iter()
        .take(NAMED)
        .map(|(i, norm)| format!("{norm:?} at index {i}"))
        .collect();
    let more = bad.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    Err(Error::out_of_range(
        "norms",
        format_args!("{}{more}", named.join(", ")),
        "in [0, inf)",
    ))
}

/// Number of different sample rates of a run that are stored without rounding.
const MAX_EXACT_RATES: usize = 10_000;
/// Largest number of sample rates of a run, rounded ones included, so that a few runs can be merged.
const MAX_RATES: usize = 20_000;
/// Largest number of sample rates of merged runs: an index has 16 bits.
pub(crate) const MAX_MERGED_RATES: usize = 1 << 16;
/// The largest rate below 1: steps at rate 1 are stored as Gaussian ones.
const LARGEST_RATE: f64 = 1.0 - 0.5 * f64::EPSILON;

/// Index of a sample rate in (0, 1) in the list of rates, to which it is added if it is new. Rates below [`MIN_RATE`] are
/// rounded up.
///
/// A run whose rate changes at every step is not refused: once there are [`MAX_EXACT_RATES`], further rates are rounded up, by
/// less than one part in 256, which can only overstate what the steps leak.
///
/// # Errors
/// A rate above all of [`MAX_MERGED_RATES`]; the list is then as it was.
pub(crate) fn rate_index(rates: &mut Vec<f64>, sample_rate: f64) -> Result<u16> {
    let mut sample_rate = sample_rate.max(MIN_RATE);
    let find = |rates: &[f64], wanted: f64| rates.iter().position(|&rate| rate == wanted);
    let mut known = find(rates, sample_rate);
    if known.is_none() && rates.len() >= MAX_EXACT_RATES {
        sample_rate = rounded_up(sample_rate).min(LARGEST_RATE);
        known = find(rates, sample_rate);
        if known.is_none() && rates.len() >= MAX_RATES {
            let above = rates.iter().copied().filter(|&rate| rate >= sample_rate);
            sample_rate = above.fold(LARGEST_RATE, f64::min);
            known = find(rates, sample_rate);
        }
    }
    let index = u16::try_from(known.unwrap_or(rates.len())).map_err(|_| {
        Error::Mismatch("accounts with 65,536 different sample rates take no steps with a larger one".into())
    })?;
    if known.is_none() {
        rates.push(sample_rate);
    }
    Ok(index)
}

/// A positive number rounded up to eight bits behind the leading one.
fn rounded_up(x: f64) -> f64 {
    const DROPPED: u64 = (1 << (52 - 8)) - 1;
    f64::from_bits((x.to_bits() + DROPPED) & !DROPPED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rate_is_refused_and_those_beyond_the_limits_are_rounded_up() {
        let mut rates = Vec::new();
        let rate_of = |i: u32| 0.9999 * (-1e-4 * f64::from(i)).exp();
        for i in 0..200_000 {
            let rate = rate_of(i);
            let index = rate_index(&mut rates, rate).unwrap();
            let stored = rates[usize::from(index)];
            let slack = if i < MAX_EXACT_RATES as u32 { 0.0 } else { 1.0 / 256.0 };
            assert!(
                rate <= stored && stored <= rate * (1.0 + slack) && stored < 1.0,
                "{i} {rate} {stored}"
            );
        }
        assert!(rates.len() <= MAX_RATES, "{}", rates.len());
        // A full list answers with what stands above.
        while rates.len() < MAX_RATES {
            rates.push(1e-30 / rates.len() as f64);
        }
        let above = rates.iter().copied().filter(|&rate| rate > 1e-20).fold(1.0, f64::min);
        let index = rate_index(&mut rates, 1e-20).unwrap();
        assert_eq!(rates[usize::from(index)], above);
        let index = rate_index(&mut rates, 1.0 - 1e-15).unwrap();
        assert_eq!(rates[usize::from(index)], LARGEST_RATE);
    }

    #[test]
    fn an_index_of_a_rate_does_not_wrap() {
        let mut rates: Vec<f64> = (1..=MAX_MERGED_RATES).map(|i| i as f64 * 1e-6).collect();
        assert_eq!(rate_index(&mut rates, 1e-6), Ok(0));
        // Rounded up to 493/8192 = 0.06018…, which the 60,181st rate is above.
        let index = rate_index(&mut rates, 0.060_100_5).unwrap();
        assert_eq!(index, 60_180);
        assert!(matches!(rate_index(&mut rates, 0.9), Err(Error::Mismatch(_))));
        assert_eq!(rates.len(), MAX_MERGED_RATES);
        rates.pop();
        let index = rate_index(&mut rates, 0.9).unwrap();
        assert_eq!(
            (usize::from(index), rates.len()),
            (MAX_MERGED_RATES - 1, MAX_MERGED_RATES)
        );
    }

    #[test]
    fn v_is_never_rounded_down() {
        for (largest, noise) in [(1.0, 1.0), (2.5, 0.7), (1e-20, 1e20)] {
            let scale = ShiftScale::new(largest, noise);
            for part in [1.0, 0.3, 1e-3, 1e-6, 1e-9] {
                let (v, exact) = (scale.v(part * largest), (part * largest / noise).powi(2));
                assert!(
                    v >= exact * (1.0 - 4.0 * f64::EPSILON),
                    "{largest} {noise} {part}: {v} {exact}"
                );
                // Exact where nothing is rounded up.
                if part >= 1e-6 && largest > 1e-9 {
                    assert!(
                        v <= exact * (1.0 + 4.0 * f64::EPSILON),
                        "{largest} {noise} {part}: {v} {exact}"
                    );
                }
            }
        }
        assert!(ShiftScale::new(1.0, 0.0).is_revealing && !ShiftScale::new(1.0, 1e-5).is_revealing);
    }

    #[test]
    fn gaussian_steps_count_the_rounding_of_v() {
        // Shift n at σ = m has v = n²/m², so that the sum times m² is at least n². The sum times 2^64 is a whole number.
        for n in 1..60u32 {
            for m in 1..60u32 {
                let v = ShiftScale::new(60.0, f64::from(m)).v(f64::from(n));
                let sum = with_gaussian_steps(0.0, 1.0, v);
                let exact_sum = (sum * 2f64.powi(64)) as u128;
                assert!(
                    exact_sum * u128::from(m).pow(2) >= u128::from(n).pow(2) << 64,
                    "{n} {m}"
                );
            }
        }
    }

    #[test]
    fn sums_of_gaussian_steps_are_not_below_the_exact_sum() {
        // 0.1 is the fraction 3602879701896397/2^55, whose multiples below 2^53 · 2^-55 · 10^4 are exact in 128 bits.
        let mut sum = 0.0;
        for count in 1..=10_000u128 {
            sum = with_gaussian_steps(sum, 1.0, 0.1);
            let exact = 3_602_879_701_896_397u128 * count;
            assert!((sum * 2f64.powi(55)) as u128 >= exact, "{count}");
        }
        assert!(sum < 1000.0 * (1.0 + 1e-11));
    }
}
