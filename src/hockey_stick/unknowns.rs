//! The other unknowns of the equation δ(ε; σ, q, T, k) ≤ δ: noise multiplier, sample rate, steps and group size.
//!
//! The curve is monotone in each of them (more noise, a smaller rate, fewer steps, a smaller group leak less: data
//! processing). Every answer is on the safe side and has been asked again: the certified ε at it is at most the
//! target, and the certified δ as well.

use super::composition::Composition;
use crate::error::{Error, Result, require_delta};
use crate::pair::law::MAX_GROUP_SIZE;
use crate::pair::scheme::{Mechanism, Neighbours, Sampling, Scheme};
use crate::special::root::solve_decreasing_between;

/// Noise multipliers that are searched.
const NOISE: (f64, f64) = (1e-3, 1e6);
/// Steps at most.
const MOST_STEPS: u64 = 1_000_000_000;

/// What a run must satisfy, and how exactly it is computed.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// ε ≥ 0.
    pub epsilon: f64,
    /// δ in (0, 1).
    pub delta: f64,
    /// Relative width of the certified intervals, and of the answers that are not whole.
    pub tolerance: f64,
}

/// A bracket of the exact root: what satisfies the target and what does not, both certified.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// Satisfies the target.
    pub safe: f64,
    /// Certified not to, or the end of the range.
    pub unsafe_side: f64,
}

/// How a run compares with a target.
#[derive(Debug, Clone, Copy)]
struct Verdict {
    /// log of the upper bound on δ over the target's: not positive if safe.
    excess: f64,
    /// Certified to miss the target.
    misses: bool,
}

impl Target {
    fn check(&self) -> Result<()> {
        crate::error::require_epsilon(self.epsilon)?;
        require_delta(self.delta)
    }

    fn of(&self, run: &mut Composition) -> Result<Verdict> {
        let log_delta = self.delta.ln();
        let found = run.delta_beside(self.epsilon, log_delta, self.tolerance.min(1e-4))?;
        Ok(Verdict {
            excess: if found.log_upper == f64::NEG_INFINITY {
                -1e3
            } else {
                found.log_upper - log_delta
            },
            misses: found.log_lower > log_delta,
        })
    }

    /// True if both questions confirm it.
    fn is_met(&self, run: &mut Composition) -> Result<bool> {
        let (_, epsilon) = run.epsilon(self.delta, self.tolerance)?;
        Ok(epsilon <= self.epsilon && run.delta(self.epsilon, self.tolerance)?.upper() <= self.delta)
    }
}

/// A run of one scheme.
fn run_of(scheme: &Scheme, steps: u64, neighbours: Neighbours) -> Result<Composition> {
    Composition::new(&[(scheme.clone(), steps)], neighbours)
}

/// The smallest noise multiplier that meets the target.
///
/// # Errors
/// An argument out of range; a target that even the largest noise multiplier does not meet, naming the nearest ε.
pub fn noise_multiplier(scheme: &Scheme, steps: u64, neighbours: Neighbours, target: Target) -> Result<Bracket> {
    target.check()?;
    let with = |noise_multiplier: f64| {
        let mut scheme = scheme.clone();
        scheme.mechanism = Mechanism::Gaussian { noise_multiplier };
        run_of(&scheme, steps, neighbours)
    };
    if target.is_met(&mut with(0.0)?)? {
        return Ok(Bracket {
            safe: 0.0,
            unsafe_side: 0.0,
        });
    }
    let excess = |log_noise: f64| -> Result<f64> { Ok(target.of(&mut with(log_noise.exp())?)?.excess) };
    // Bracket by factors of 2 from 1.
    let (mut low, mut high) = (0.0f64, 0.0f64);
    let ends = (NOISE.0.ln(), NOISE.1.ln());
    let at_one = excess(0.0)?;
    let (mut at_low, mut at_high) = (at_one, at_one);
    if at_one > 0.0 {
        loop {
            if high >= ends.1 {
                let (_, nearest) = with(NOISE.1)?.epsilon(target.delta, target.tolerance)?;
                return Err(Error::Unreachable(format!(
                    "epsilon = {:?} cannot be reached at delta = {:?} with a noise multiplier up to {:?}; the nearest \
                     reachable epsilon is {nearest:?}",
                    target.epsilon, target.delta, NOISE.1
                )));
            }
            high = (high + 0.7 * (1.0 + high)).min(ends.1);
            at_high = excess(high)?;
            if at_high <= 0.0 {
                break;
            }
            (low, at_low) = (high, at_high);
        }
    } else {
        while low > ends.0 {
            low = (low - 0.7 * (1.0 + low.abs())).max(ends.0);
            at_low = excess(low)?;
            if at_low > 0.0 {
                break;
            }
            (high, at_high) = (low, at_low);
        }
    }
    let root = if low < high {
        solve_decreasing_between(((low, at_low), (high, at_high)), 0.2 * target.tolerance, excess)?
    } else {
        low
    };
    // Step to the safe side until both questions agree.
    let mut step = 0.2 * target.tolerance;
    let mut safe = root.exp() * (1.0 + 4.0 * f64::EPSILON);
    while !target.is_met(&mut with(safe)?)? {
        safe = (root + step).exp();
        step *= 2.0;
        if safe > 2.0 * NOISE.1 {
            return Err(Error::Unreachable(format!(
                "epsilon = {:?} cannot be certified at delta = {:?}",
                target.epsilon, target.delta
            )));
        }
    }
    let mut step = 0.2 * target.tolerance;
    let mut beyond = (root - step).exp();
    while !target.of(&mut with(beyond)?)?.misses {
        step *= 2.0;
        beyond = (root - step).exp();
        if beyond < NOISE.0 {
            beyond = 0.0;
            break;
        }
    }
    Ok(Bracket {
        safe,
        unsafe_side: beyond,
    })
}

/// The largest Poisson sample rate that meets the target; 1 if every rate does.
///
/// # Errors
/// An argument out of range.
pub fn sample_rate(scheme: &Scheme, steps: u64, neighbours: Neighbours, target: Target) -> Result<Bracket> {
    target.check()?;
    let with = |sample_rate: f64| {
        let mut scheme = scheme.clone();
        scheme.sampling = Sampling::Poisson { sample_rate };
        run_of(&scheme, steps, neighbours)
    };
    if target.is_met(&mut with(1.0)?)? {
        return Ok(Bracket {
            safe: 1.0,
            unsafe_side: 1.0,
        });
    }
    // In u = −log q: decreasing. Every rate small enough is safe, as δ ≤ the chance of ever being in a batch.
    let excess = |u: f64| -> Result<f64> { Ok(target.of(&mut with((-u).exp())?)?.excess) };
    let (mut low, mut high) = (0.0f64, 1.0f64);
    let (mut at_low, mut at_high) = (f64::INFINITY, excess(high)?);
    while at_high > 0.0 {
        (low, at_low) = (high, at_high);
        high *= 1.7;
        if high > 740.0 {
            return Ok(Bracket {
                safe: 0.0,
                unsafe_side: (-low).exp(),
            });
        }
        at_high = excess(high)?;
    }
    let root = solve_decreasing_between(((low, at_low), (high, at_high)), 0.2 * target.tolerance, excess)?;
    let mut step = 0.2 * target.tolerance;
    let mut safe = (-root).exp();
    while !target.is_met(&mut with(safe)?)? {
        safe = (-root - step).exp();
        step *= 2.0;
        if step > 740.0 {
            safe = 0.0;
            break;
        }
    }
    let mut step = 0.2 * target.tolerance;
    let mut beyond = (step - root).exp().min(1.0);
    while beyond < 1.0 && !target.of(&mut with(beyond)?)?.misses {
        step *= 2.0;
        beyond = (step - root).exp().min(1.0);
    }
    Ok(Bracket {
        safe,
        unsafe_side: beyond,
    })
}

/// The largest whole number in [least, most] that `meets` the target, and the smallest certified to miss it
/// (infinite if none up to `most` is); `None` if even `least` does not meet it.
fn largest_count(
    least: u64,
    most: u64,
    mut judge: impl FnMut(u64) -> Result<Verdict>,
    mut is_met: impl FnMut(u64) -> Result<bool>,
) -> Result<Option<(u64, f64)>> {
    let (mut low, mut at_low) = (least, judge(least)?.excess);
    if at_low > 0.0 && !is_met(least)? {
        return Ok(None);
    }
    // Gallop, then regula falsi on the logarithm of the count, kept off the ends.
    let mut high = most;
    let mut at_high = f64::NAN;
    let mut next = least.max(1).saturating_mul(2).min(most);
    while low < most {
        let value = judge(next)?.excess;
        if value > 0.0 {
            (high, at_high) = (next, value);
            break;
        }
        (low, at_low) = (next, value);
        if next == most {
            return Ok(Some((most, f64::INFINITY)));
        }
        next = next.saturating_mul(if at_low < -3.0 { 8 } else { 2 }).min(most);
    }
    let mut halve = false;
    while high - low > 1 {
        let (a, b) = ((low.max(1) as f64).ln(), (high as f64).ln());
        let share = if halve {
            0.5
        } else {
            (at_low / (at_low - at_high)).clamp(0.02, 0.98)
        };
        let guess = (a + share * (b - a)).exp().round() as u64;
        let middle = guess.clamp(low + 1, high - 1);
        let width = high - low;
        let value = judge(middle)?.excess;
        if value > 0.0 {
            (high, at_high) = (middle, value);
        } else {
            (low, at_low) = (middle, value);
        }
        halve = !halve && (high - low) * 2 > width;
    }
    // Where the certified answers are wide, the largest count that meets the target may be far below.
    let resolution = ((low - least) / 1_000_000).max(1);
    let (mut not_met, mut step) = (low + 1, resolution);
    while !is_met(low)? {
        if low == least {
            return Ok(None);
        }
        not_met = low;
        low = low.saturating_sub(step).max(least);
        step = step.saturating_mul(2);
    }
    while not_met - low > resolution {
        let middle = low + (not_met - low) / 2;
        if is_met(middle)? {
            low = middle;
        } else {
            not_met = middle;
        }
    }
    let mut beyond = high.max(low + 1);
    while beyond <= most && !judge(beyond)?.misses {
        beyond = beyond.saturating_add((beyond - low).max(1));
    }
    let beyond = if beyond <= most { beyond as f64 } else { f64::INFINITY };
    Ok(Some((low, beyond)))
}

/// The largest number of steps up to 10⁹ that meets the target.
///
/// # Errors
/// An argument out of range.
pub fn steps(scheme: &Scheme, neighbours: Neighbours, target: Target) -> Result<Bracket> {
    target.check()?;
    let judge = |count: u64| target.of(&mut run_of(scheme, count, neighbours)?);
    let is_met = |count: u64| target.is_met(&mut run_of(scheme, count, neighbours)?);
    let found = largest_count(0, MOST_STEPS, judge, is_met)?;
    let (safe, unsafe_side) = found.unwrap_or((0, 1.0));
    Ok(Bracket {
        safe: safe as f64,
        unsafe_side,
    })
}

/// The largest group size up to 10,000, or the data set, that meets the target.
///
/// # Errors
/// An argument out of range; a target that a single record misses, naming the ε of one record.
pub fn group_size(scheme: &Scheme, steps: u64, neighbours: Neighbours, target: Target) -> Result<Bracket> {
    target.check()?;
    let with = |size: u64| {
        let mut scheme = scheme.clone();
        scheme.group.size = size;
        run_of(&scheme, steps, neighbours)
    };
    let single = neighbours == Neighbours::Replace && matches!(scheme.sampling, Sampling::Poisson { .. });
    let most = match scheme.sampling {
        _ if single => 1,
        Sampling::Mixture => 1,
        Sampling::FixedBatch { dataset_size, .. } => MAX_GROUP_SIZE.min(dataset_size),
        Sampling::Poisson { .. } => MAX_GROUP_SIZE,
    };
    let judge = |size: u64| target.of(&mut with(size)?);
    let is_met = |size: u64| target.is_met(&mut with(size)?);
    let Some((safe, unsafe_side)) = largest_count(1, most, judge, is_met)? else {
        let (_, nearest) = with(1)?.epsilon(target.delta, target.tolerance)?;
        return Err(Error::Unreachable(format!(
            "epsilon = {:?} cannot be reached at delta = {:?} for any group_size; one record has epsilon = {nearest:?}",
            target.epsilon, target.delta
        )));
    };
    Ok(Bracket {
        safe: safe as f64,
        unsafe_side,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_count_is_found_in_few_questions_where_answers_are_wide() -> Result<()> {
        for (least, met, judged) in [
            (0, 181_916u64, 700_000_000u64),
            (1, 1, 10_000),
            (0, 0, 5),
            (3, 77, 78),
            (0, 9, 9),
        ] {
            let mut questions = 0;
            let judge = |count: u64| {
                Ok(Verdict {
                    excess: (count as f64 / judged as f64).ln(),
                    misses: count > judged,
                })
            };
            let is_met = |count: u64| {
                questions += 1;
                Ok(count <= met)
            };
            let found = largest_count(least, MOST_STEPS, judge, is_met)?;
            let (low, beyond) = found.ok_or_else(|| Error::Mismatch("nothing found".into()))?;
            assert!(low <= met && met - low <= judged / 1_000_000, "{low} {met}");
            assert!(beyond > judged as f64, "{beyond} {judged}");
            assert!(questions <= 70, "{questions}");
        }
        let judge = |count: u64| {
            Ok(Verdict {
                excess: count as f64 - 50.0,
                misses: false,
            })
        };
        assert_eq!(largest_count(1, 100, judge, |_| Ok(false))?, None);
        Ok(())
    }
}
