//! The log-likelihood ratio of a mixture against N(0, σ²), accurate in relative terms near 0.

pub(crate) mod at_nodes;
pub(crate) mod real_rooted;
mod surroundings;

pub(crate) use surroundings::Local;

use crate::error::{Result, require};
use crate::special::exponential;
use crate::special::log_space::LogSum;
use crate::special::vector;
use crate::step::GroupLaw;
use crate::stopping::checkpoint;
use std::ops::Range;

/// Terms below e^-50 of the largest are left out of a sum of at most 10,000: relative error below 2e-18.
const NEGLIGIBLE: f64 = 50.0;
/// e^-50.
pub(crate) const NEGLIGIBLE_TERM: f64 = 1.928_749_847_963_917_8e-22;

/// Ratios within e^±0.5 of 1 are recomputed from differences to 1.
const NEAR_ONE: f64 = 0.5;

/// Mixtures of so few atoms have all of them counted at all nodes of a panel, and at one output each by an exponential of its own: in the lanes of vectors that
/// takes less time than to look for those that count, or to multiply ratios.
const FEW: usize = 32;

/// Noise multipliers of a pair: their squares, and those of 10,000 over them, are far from the ends of an `f64`.
const NOISE_MULTIPLIER_LIMITS: (f64, f64) = (1e-100, 1e100);

/// A pair N(0, σ²) against Σ_j w_j N(s_j, σ²) with σ > 0.
#[derive(Debug, Clone)]
pub struct MixturePair {
    pub(crate) noise_multiplier: f64,
    pub(crate) log_weights: Vec<f64>,
    weights: Vec<f64>,
    pub(crate) shifts: Vec<f64>,
    /// Shifts over σ.
    scaled_shifts: Vec<f64>,
    /// Where neighbouring terms are equal: term j + 1 exceeds term j for x above `crossings[j]`.
    pub(crate) crossings: Vec<f64>,
    /// True if the crossings ascend, so that the terms at any x rise to one mode and fall.
    unimodal: bool,
    /// Where the shifts are evenly spaced: t_{j+2}·t_j/t_{j+1}² of the terms t_j of the ratio, which does not depend on x.
    pub(crate) bends: Option<Vec<f64>>,
    /// The distance of neighbouring shifts of a law with real roots ([`GroupLaw::is_real_rooted`]).
    real_rooted_spacing: Option<f64>,
    /// Total weight of the first j atoms, and of all from j on.
    below: Vec<f64>,
    above: Vec<f64>,
}

/// Atoms `start..end`, the rest being negligible, and the largest term, that of atom `mode`.
pub(crate) struct Window {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) mode: usize,
    pub(crate) largest: f64,
}

/// Terms over that of one atom, the one of shift s_m. Where the term counts as that one does its exponent is small, and so is its rounding error, though the
/// exponents of both may be in the thousands.
struct OverAtom<'a> {
    pair: &'a MixturePair,
    shift: f64,
    log_weight: f64,
    /// 1/σ².
    precision: f64,
}

impl OverAtom<'_> {
    /// log of term j over that one at x: log w_j/w_m + (s_j − s_m)(x − (s_j + s_m)/2)/σ².
    fn exponent(&self, j: usize, x: f64) -> f64 {
        let (slope, middle, at_middle) = self.line(j);
        at_middle + slope * (x - middle)
    }

    /// The slope of that logarithm, an output, and the logarithm there.
    fn line(&self, j: usize) -> (f64, f64, f64) {
        let shift = self.pair.shifts[j];
        let slope = (shift - self.shift) * self.precision;
        let at_middle = self.pair.log_weights[j] - self.log_weight;
        (slope, 0.5 * (shift + self.shift), at_middle)
    }
}

impl MixturePair {
    /// The pair of `law` at noise multiplier σ.
    ///
    /// # Errors
    /// `noise_multiplier` outside [1e-100, 1e100].
    pub fn new(law: &GroupLaw, noise_multiplier: f64) -> Result<Self> {
        let is_usual = noise_multiplier > 0.0 && noise_multiplier.is_finite();
        require(is_usual, "noise_multiplier", noise_multiplier, "in (0, inf)")?;
        let (least, most) = NOISE_MULTIPLIER_LIMITS;
        require(
            (least..=most).contains(&noise_multiplier),
            "noise_multiplier",
            noise_multiplier,
            "in [1e-100, 1e100]",
        )?;
        let log_weights = law.log_weights().to_vec();
        let shifts = law.shifts().to_vec();
        let weights: Vec<f64> = log_weights.iter().map(|w| w.exp()).collect();
        let scaled_shifts = shifts.iter().map(|shift| shift / noise_multiplier).collect();
        let variance = noise_multiplier * noise_multiplier;
        let crossings: Vec<f64> = (1..shifts.len())
            .map(|j| {
                let gap = shifts[j] - shifts[j - 1];
                0.5 * (shifts[j] + shifts[j - 1]) - variance * (log_weights[j] - log_weights[j - 1]) / gap
            })
            .collect();
        let unimodal = crossings.is_sorted();
        let spacing = if shifts.len() > 2 { shifts[1] - shifts[0] } else { 0.0 };
        let even = spacing > 0.0 && shifts.windows(2).all(|pair| pair[1] - pair[0] == spacing);
        let bends = even.then(|| {
            let weight_bend = |w: &[f64]| w[2] - 2.0 * w[1] + w[0];
            let noise_bend = spacing * spacing / variance;
            log_weights
                .windows(3)
                .map(|w| (weight_bend(w) - noise_bend).exp())
                .collect()
        });
        let real_rooted_spacing = (law.is_real_rooted() && shifts.len() > 1).then(|| shifts[1] - shifts[0]);
        let mut below = vec![0.0; weights.len() + 1];
        let mut above = below.clone();
        for j in 0..weights.len() {
            below[j + 1] = below[j] + weights[j];
        }
        for j in (0..weights.len()).rev() {
            above[j] = above[j + 1] + weights[j];
        }
        Ok(Self {
            noise_multiplier,
            log_weights,
            weights,
            shifts,
            scaled_shifts,
            crossings,
            unimodal,
            bends,
            real_rooted_spacing,
            below,
            above,
        })
    }

    /// True if the terms at any output rise to one mode and fall.
    pub(crate) fn is_unimodal(&self) -> bool {
        self.unimodal
    }

    /// σ, the standard deviation of the noise.
    pub fn noise_multiplier(&self) -> f64 {
        self.noise_multiplier
    }

    /// Smallest and largest shift.
    pub fn shift_range(&self) -> (f64, f64) {
        (self.shifts[0], self.shifts[self.shifts.len() - 1])
    }

    /// A shift S such that at every output up to x the larger shifts are insignificant: with p_j the posterior law of the shift there and m
    /// some shift in (0, S], Σ_{s_j > S} p_j·s_j ≤ `fraction`·p_m·s_m. So Σ_{s_j > S} p_j ≤ `fraction`, too.
    ///
    /// It is enough to look at x, where m is the largest term of a positive shift: p_j/p_m grows with x for s_j > s_m.
    pub(crate) fn largest_significant_shift(&self, x: f64, fraction: f64) -> f64 {
        let last = self.shifts.len() - 1;
        if !x.is_finite() || self.shifts[0] < 0.0 {
            return self.shifts[last];
        }
        let weighted = |j: usize| self.term(j, x) + self.shifts[j].ln();
        // The terms rise to the mode and fall.
        let mode = if self.unimodal { self.mode(x) } else { last };
        let first_positive = self.shifts.partition_point(|&shift| shift <= 0.0);
        let mode = mode.max(first_positive).min(last);
        let allowed = weighted(mode) + fraction.ln();
        let mut larger = LogSum::default();
        for j in (mode + 1..=last).rev() {
            larger.add(weighted(j));
            if larger.ln() > allowed {
                return self.shifts[j];
            }
        }
        self.shifts[mode]
    }

    /// The largest distance between shifts that are significant together at one output of the interval: with p_j the posterior law of the
    /// shift there, of mean m, the shifts outside a range of that length have Σ p_j ≤ 0.06 and Σ p_j·s_j ≤ 0.06·m.
    ///
    /// On a part of the interval the range is from a low quantile of the law at its lower end to a high one of the law with the weights
    /// p_j·s_j at its upper end, as both laws grow with the output. Below the first there is at most 1 % of the law and of the mean,
    /// beyond the second 4 % of the mean and 4.2 % of the law, as m ≤ s/0.96 for the last shift s within.
    pub(crate) fn widest_significant_range(&self, (low, high): (f64, f64), terms: &mut Vec<f64>) -> f64 {
        const LOW: f64 = 0.01;
        const HIGH: f64 = 0.04;
        /// Mean over the largest shift below which what is negligible in the law may not be so in the mean.
        const LEAST_MEAN: f64 = 1e-9;
        /// Length of the parts of the interval, in σ.
        const STEP: f64 = 0.5;
        let parts = ((high - low) / (STEP * self.noise_multiplier)).ceil().max(1.0);
        let length = (high - low) / parts;
        let mut widest = 0.0f64;
        let mut lowest = self.shift_range().0;
        let mut x = low;
        let mut part = 0.0;
        while part <= parts {
            checkpoint();
            let window = self.terms_at(x, terms);
            let shifts = &self.shifts[window.start..window.end];
            let total = vector::sum(terms);
            let mean = vector::dot(terms, shifts);
            if mean <= LEAST_MEAN * self.shift_range().1 * total {
                return f64::INFINITY;
            }
            let weighted = terms.iter().zip(shifts).rev().map(|(term, shift)| term * shift);
            let beyond = shifts.len() - 1 - position_past(weighted, HIGH * mean);
            if part > 0.0 {
                widest = widest.max(shifts[beyond] - lowest);
            }
            lowest = shifts[position_past(terms.iter().copied(), LOW * total)];
            part += 1.0;
            x = low + part * length;
        }
        widest
    }

    /// log w_0, if 0 is the smallest shift and no other is seen from there: r is then w_0, to e^-40, at every x
    /// within 45σ of 0, and beyond that N(0, σ²) has less than e^-1000 of its mass.
    pub fn log_weight_of_separated_zero(&self) -> Option<f64> {
        const REACH: f64 = 45.0;
        const UNSEEN: f64 = -40.0;
        let log_weight = self.log_weights[0];
        let reach = REACH * self.noise_multiplier;
        let unseen = (1..self.shifts.len()).all(|j| self.term(j, reach) - log_weight < UNSEEN);
        (self.shifts[0] == 0.0 && unseen).then_some(log_weight)
    }

    /// The only shift, if the law has one atom.
    pub fn single_shift(&self) -> Option<f64> {
        (self.shifts.len() == 1).then(|| self.shifts[0])
    }

    /// log N(s_j, σ²)/N(0, σ²) at x.
    fn exponent(&self, j: usize, x: f64) -> f64 {
        let scaled = self.scaled_shifts[j];
        scaled * (x / self.noise_multiplier - 0.5 * scaled)
    }

    /// The terms at x over that of the mode, into `terms`, from the first to the last that is not negligible.
    pub(crate) fn terms_at(&self, x: f64, terms: &mut Vec<f64>) -> Window {
        let window = self.window(x);
        let over = self.over_atom(window.mode);
        terms.clear();
        terms.extend((window.start..window.end).map(|j| over.exponent(j, x)));
        exponential::exp(terms);
        for term in terms {
            *term = if *term < NEGLIGIBLE_TERM { 0.0 } else { *term };
        }
        window
    }

    /// Terms over that of one atom.
    fn over_atom(&self, atom: usize) -> OverAtom<'_> {
        OverAtom {
            pair: self,
            shift: self.shifts[atom],
            log_weight: self.log_weights[atom],
            precision: (self.noise_multiplier * self.noise_multiplier).recip(),
        }
    }

    pub(crate) fn term(&self, j: usize, x: f64) -> f64 {
        self.log_weights[j] + self.exponent(j, x)
    }

    /// The place of the largest term at x, where the terms rise to one mode and fall.
    pub(crate) fn mode(&self, x: f64) -> usize {
        self.crossings.partition_point(|&crossing| crossing < x)
    }

    pub(crate) fn window(&self, x: f64) -> Window {
        let count = self.shifts.len();
        if !self.unimodal {
            let (mut mode, mut largest) = (0, f64::NEG_INFINITY);
            for j in 0..count {
                let term = self.term(j, x);
                if term > largest {
                    (mode, largest) = (j, term);
                }
            }
            let counts = |&j: &usize| self.term(j, x) >= largest - NEGLIGIBLE;
            return Window {
                start: (0..mode).find(counts).unwrap_or(mode),
                end: 1 + (mode + 1..count).rev().find(counts).unwrap_or(mode),
                mode,
                largest,
            };
        }
        let mode = self.mode(x);
        let largest = self.term(mode, x);
        let cut = largest - NEGLIGIBLE;
        let mut start = mode;
        while start > 0 && self.term(start - 1, x) > cut {
            start -= 1;
        }
        let mut end = mode + 1;
        while end < count && self.term(end, x) > cut {
            end += 1;
        }
        Window {
            start,
            end,
            mode,
            largest,
        }
    }

    /// log(Σ_j w_j N(s_j, σ²)(x) / N(0, σ²)(x)).
    ///
    /// Absolute error below 4·2^-53·max_j |exponent of a significant term|; where the ratio is within a
    /// factor e^0.5 of 1, the error is relative to Σ w_j |N(s_j)/N(0) − 1|, so that divergences of 1e-20
    /// keep their digits.
    ///
    /// # Example
    /// ```
    /// use hockeystick::GroupLaw;
    /// use hockeystick::MixturePair;
    /// let pair = MixturePair::new(&GroupLaw::binomial(1, 0.01)?, 1.0)?;
    /// // 0.99 + 0.01·e^{x − 1/2}
    /// assert!((pair.log_ratio(3.0) - (0.99 + 0.01 * 2.5f64.exp()).ln()).abs() < 1e-15);
    /// # Ok::<(), hockeystick::Error>(())
    /// ```
    pub fn log_ratio(&self, x: f64) -> f64 {
        self.log_ratio_and_density(x).0
    }

    /// The log ratio, and the log density of the mixture at x but for the factor 1/(σ√2π).
    ///
    /// The second is not found as a difference of large numbers: far out, where log r and x²/2σ² are both
    /// of order 10⁶, it keeps its digits.
    pub fn log_ratio_and_density(&self, x: f64) -> (f64, f64) {
        let window = self.window(x);
        if window.largest.is_infinite() {
            return (window.largest, f64::NEG_INFINITY); // the ratio is beyond e^{1e308}
        }
        let atoms = window.start..window.end;
        let sum: f64 = atoms.map(|j| (self.term(j, x) - window.largest).exp()).sum();
        let log_sum = sum.ln();
        let log_ratio = self.refined(x, (window.start, window.end), window.largest + log_sum);
        let distance = (x - self.shifts[window.mode]) / self.noise_multiplier;
        let log_density = self.log_weights[window.mode] - 0.5 * distance * distance;
        (log_ratio, log_density + log_sum)
    }

    /// `log_ratio` again from Σ w_j (N(s_j)/N(0) − 1) where it is near 0.
    pub(crate) fn refined(&self, x: f64, (start, end): (usize, usize), log_ratio: f64) -> f64 {
        if log_ratio.abs() > NEAR_ONE {
            return log_ratio;
        }
        // Terms that have more than one mode may also count where others are negligible.
        let (mut start, mut end) = if self.unimodal {
            (start, end)
        } else {
            (0, self.shifts.len())
        };
        let part = |j: usize| self.excess_of_terms(j..j + 1, x);
        let mut inside = self.excess_of_terms(start..end, x);
        // An atom left out adds −w_j and a negligible rest: negligible against the excess, which may be
        // far below the ratio itself (a rate of 1e-60), so the window is widened until that holds.
        loop {
            let excess = inside - (self.below[start] + self.above[end]);
            let cut = excess.abs().ln() - NEGLIGIBLE;
            if start > 0 && self.term(start - 1, x) > cut {
                start -= 1;
                inside += part(start);
            } else if end < self.shifts.len() && self.term(end, x) > cut {
                inside += part(end);
                end += 1;
            } else {
                return if excess.is_finite() { excess.ln_1p() } else { log_ratio };
            }
        }
    }

    /// w_j times `change`, N(s_j)/N(0) − 1 at x, which may have no `f64` where the weight has none.
    fn excess_of_term(&self, j: usize, change: f64, x: f64) -> f64 {
        if self.weights[j] >= f64::MIN_POSITIVE {
            self.weights[j] * change
        } else {
            self.term(j, x).exp()
        }
    }

    /// Σ w_j (N(s_j)/N(0) − 1) at x over some atoms.
    fn excess_of_terms(&self, atoms: Range<usize>, x: f64) -> f64 {
        /// Atoms whose exponentials are found at once.
        const BLOCK: usize = 64;
        let mut sum = 0.0;
        let mut block = [0.0; BLOCK];
        for start in atoms.clone().step_by(BLOCK) {
            let end = atoms.end.min(start + BLOCK);
            let changes = &mut block[..end - start];
            for (change, j) in changes.iter_mut().zip(start..end) {
                *change = self.exponent(j, x);
            }
            exponential::exp_m1(changes);
            let parts = changes.iter().zip(start..end);
            sum += parts.map(|(change, j)| self.excess_of_term(j, *change, x)).sum::<f64>();
        }
        sum
    }

    /// An upper bound on |ratio − 1| for complex z with real part in [left, right] and |Im z| ≤ `height`,
    /// or `None` if it is not below 1/4.
    ///
    /// |ratio(z) − 1| ≤ Σ w_j |e^ζ_j − 1|, and |e^ζ − 1| ≤ min(|ζ| e^{max(Re ζ, 0)}, e^{Re ζ} + 1).
    pub fn distance_from_one(&self, left: f64, right: f64, height: f64) -> Option<f64> {
        let variance = self.noise_multiplier * self.noise_multiplier;
        let modulus = left.abs().max(right.abs()) + height;
        let mut total = 0.0;
        for (j, &shift) in self.shifts.iter().enumerate() {
            let real = self.exponent(j, left).max(self.exponent(j, right));
            let size = (shift.abs() * modulus + 0.5 * shift * shift) / variance;
            let near = (self.log_weights[j] + real.max(0.0)).exp() * size;
            let far = (self.log_weights[j] + real).exp() + self.weights[j];
            total += near.min(far);
            if total >= 0.25 {
                return None;
            }
        }
        Some(total)
    }
}

/// How many parts come before the running total exceeds `threshold`.
fn position_past(parts: impl Iterator<Item = f64>, threshold: f64) -> usize {
    let mut total = 0.0;
    parts
        .take_while(|&part| {
            total += part;
            total <= threshold
        })
        .count()
}

#[cfg(test)]
mod tests;
