//! δ(ε) of one step of Laplace noise in closed form, with a bound on its rounding error.
//!
//! The ratio r of P to Q (or of Q to P) grows with the output x, so that the outputs on one side of a threshold x* count. At any
//! threshold t the integrals of P − e^ε Q beyond it are, with a_i = (2 min(t, i) − i)/b, so that r(t) = Σ w_i e^{a_i},
//!
//! > "remove": Σ_{i > t} w_i (1 − e^{−(i − t)/b}) + (r(t) − e^ε)·Q(X > t),
//! >
//! > "add": e^ε·Σ_i w_i e^{a_i}(1 − e^{−min(t, i)/b}) + (1 − e^ε r(t))·P(X < t).
//!
//! The sums have positive terms only. What the second summands add is bounded: δ is the largest such integral, at t = x*, where
//! they vanish, and r is monotone, so a threshold that is a little off changes δ by no more than what r(t) is off times the
//! mass next to it. r(t) is compared with e^ε by its distance from 1, Σ w_i (e^{a_i} − 1), wherever both are next to 1.
//!
//! A mirrored pair has "remove" for ε ≥ 0, times the factor of its densities, and δ(ε) = 1 − e^ε + e^ε·δ(−ε). Its distance from 1 is
//! Σ w_i e^{−i/b}(e^{2 min(t, i)/b} − 1), as r(0) = 1.

use crate::approx::Approx;
use crate::interval::Interval;
use crate::loss::laplace::LaplaceLoss;
use crate::special::log_space::{LogSum, log_add, log1p_exp};
use crate::step::Direction;

/// Levels of log r below this, in absolute value, are compared by r − 1.
const NEAR_ONE: f64 = 0.5;
/// log of the smallest unit, so that distances of the ratio from 1 do not overflow in it.
const LEAST_SCALE: f64 = -600.0;
/// Attempts at a threshold on the safe side of the crossing.
const ATTEMPTS: i32 = 6;
/// Relative errors of single terms and of their sums: a few units in the last place.
const UNITS: f64 = 8.0;

/// (r(t) − e^level)/e^`unit`, and a bound on its error.
#[derive(Debug, Clone, Copy)]
struct Gap {
    value: f64,
    error: f64,
    unit: f64,
}

impl Gap {
    fn is_surely_above(self) -> bool {
        self.value == f64::INFINITY || self.value - self.error >= 0.0
    }

    fn is_surely_below(self) -> bool {
        self.value + self.error <= 0.0
    }

    /// log of a bound on |r(t) − e^level|.
    fn log_size(self) -> f64 {
        (self.value.abs() + self.error).ln() + self.unit
    }
}

/// A sum of positive terms e^`exponent`·factor over e^scale, for all but the terms that are 0.
struct PositiveSum {
    scale: f64,
    sum: f64,
    error: f64,
}

impl PositiveSum {
    /// `terms`: exponent, factor in [0, 1], and the units in the last place by which the exponent is off.
    fn of(terms: impl Iterator<Item = (f64, f64, f64)> + Clone) -> Self {
        let counts = |term: &(f64, f64, f64)| term.0 > f64::NEG_INFINITY && term.1 > 0.0;
        let scale = terms
            .clone()
            .filter(counts)
            .map(|term| term.0)
            .fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut size, mut count) = (0.0, 0.0, 0.0);
        for (exponent, factor, units) in terms.filter(counts) {
            let part = (exponent - scale).exp() * factor;
            sum += part;
            size += part * (UNITS + units + exponent.abs() + scale.abs());
            count += 1.0;
        }
        Self {
            scale,
            sum,
            error: f64::EPSILON * (size + count * sum),
        }
    }

    /// Logs of the sum less and more what `wrong`, the log of a bound, may add; twice that above.
    fn within(self, wrong: f64) -> Interval {
        if self.sum == 0.0 {
            return Interval {
                lower: f64::NEG_INFINITY,
                upper: (wrong + std::f64::consts::LN_2) * (1.0 - f64::EPSILON),
            };
        }
        let log = self.scale + self.sum.ln();
        let rounding = f64::EPSILON * (4.0 + 2.0 * self.scale.abs() + log.abs());
        let relative = self.error / self.sum + (wrong - log).exp();
        let above = (relative + (wrong - log).exp()).ln_1p();
        let below = if relative < 1.0 {
            (-relative).ln_1p()
        } else {
            f64::NEG_INFINITY
        };
        Interval {
            lower: log + below - rounding,
            upper: log + above + rounding,
        }
    }
}

impl LaplaceLoss {
    /// log δ of one step at any real ε.
    pub(crate) fn log_one_step(&self, epsilon: f64) -> Interval {
        if self.mirrored.is_some() {
            return reflected(epsilon, self.removed(epsilon.abs()));
        }
        let direction = match self.branches.as_slice() {
            [one] => one.direction,
            // Joined at 0.
            _ if epsilon < 0.0 => Direction::Add,
            _ => Direction::Remove,
        };
        match direction {
            Direction::Remove => self.removed(epsilon),
            Direction::Add => self.added(epsilon),
        }
    }

    /// log of an upper bound on P(ℓ > `level`).
    pub(crate) fn log_tail(&self, level: f64) -> f64 {
        /// Room for the rounding of a few tails that are added up.
        const ROOM: f64 = 1e-12;
        let direction = match self.branches.as_slice() {
            [one] => one.direction,
            _ if level < 0.0 => return 0.0,
            _ => Direction::Remove,
        };
        let log_mass = match direction {
            Direction::Remove => {
                let (at, _) = self.threshold_below(level, self.gap(0.0, level));
                if at <= 0.0 {
                    return 0.0;
                }
                // A sum of logarithms, as a tail may be too small for an f64.
                let mut sum = LogSum::default();
                for (i, weight) in self.log_weights.iter().enumerate() {
                    sum.add(weight + log_upper_tail((at - i as f64) / self.scale));
                }
                sum.ln()
            }
            // P is the noise alone, and the outputs below the crossing count.
            Direction::Add => (1.0 - upper_tail(self.threshold_above(-level) / self.scale)).ln(),
        };
        if log_mass == f64::NEG_INFINITY {
            return log_mass;
        }
        let units = self.log_weights.len() as f64 + 4.0 * log_mass.abs() + 2.0 * self.last() / self.scale;
        log_mass + self.log_factor().upper() + ROOM + f64::EPSILON * units
    }

    fn removed(&self, epsilon: f64) -> Interval {
        if self.gap(self.last(), epsilon).is_surely_below() {
            return Interval::exact(f64::NEG_INFINITY);
        }
        let at_zero = self.gap(0.0, epsilon);
        if at_zero.is_surely_above() {
            return all_outputs(epsilon);
        }
        let (at, gap) = self.threshold_below(epsilon, at_zero);
        let terms = self.log_weights.iter().enumerate().map(|(i, &weight)| {
            let beyond = i as f64 - at;
            let part = if beyond > 0.0 {
                -(-beyond / self.scale).exp_m1()
            } else {
                0.0
            };
            (weight, part, self.weight_units(weight))
        });
        // At 0 the outputs below, where r is what it is there, may count or not.
        let log_mass = if at > 0.0 { 0.5f64.ln() - at / self.scale } else { 0.0 };
        let found = PositiveSum::of(terms).within(gap.log_size() + log_mass);
        let Approx { value, error } = self.log_factor();
        let rounding = |log: f64| error + f64::EPSILON * (log + value).abs();
        match self.mirrored {
            None => found,
            Some(_) => Interval {
                lower: found.lower + value - rounding(found.lower),
                upper: found.upper + value + rounding(found.upper),
            },
        }
    }

    fn added(&self, epsilon: f64) -> Interval {
        if self.gap(self.last(), -epsilon).is_surely_below() {
            return self
                .missing
                .map_or_else(|| all_outputs(epsilon), |missing| self.all_but(missing, epsilon));
        }
        if self.gap(0.0, -epsilon).is_surely_above() {
            return Interval::exact(f64::NEG_INFINITY);
        }
        let at = self.crossing(-epsilon, 0.0);
        let gap = self.gap(at, -epsilon);
        let terms = self.log_weights.iter().enumerate().map(|(i, &weight)| {
            let exponent = self.exponent(i, at);
            let part = -(-at.min(i as f64) / self.scale).exp_m1();
            let units = self.weight_units(weight) + 2.0 * exponent.abs() + 2.0 * epsilon.abs();
            (weight + (exponent + epsilon), part, units)
        });
        PositiveSum::of(terms).within(gap.log_size() + epsilon)
    }

    fn last(&self) -> f64 {
        self.pieces() as f64
    }

    /// log of Lap(i, b) over Lap(0, b) at t ≥ 0.
    fn exponent(&self, i: usize, at: f64) -> f64 {
        let i = i as f64;
        (2.0 * at.min(i) - i) / self.scale
    }

    /// Units in the last place by which the log of a weight may be off.
    fn weight_units(&self, weight: f64) -> f64 {
        let Approx { value, error } = self.log_factor();
        2.0 * weight.abs() + 2.0 * value.abs() + error / f64::EPSILON
    }

    /// log of the part of r(0) that a weight makes up, over the weight, where r − 1 is the sum of what these parts grow by; 0 where the
    /// weights add up to 1.
    fn base(&self, i: usize) -> f64 {
        if self.mirrored.is_some() {
            self.exponent(i, 0.0)
        } else {
            0.0
        }
    }

    /// r(t) − e^level.
    fn gap(&self, at: f64, level: f64) -> Gap {
        let near = level.abs() < NEAR_ONE;
        let unit = if near { self.unit() } else { level };
        let one = if near { level.exp_m1() * (-unit).exp() } else { 1.0 };
        let count = self.log_weights.len() as f64;
        let (mut value, mut size) = (-one, one.abs() * (UNITS + unit.abs()));
        for (i, &weight) in self.log_weights.iter().enumerate() {
            let (exponent, base) = (self.exponent(i, at), self.base(i));
            // Of mirrored pairs, as i/b less 2 min(t, i)/b would have no digits for a small t.
            let growth = if self.mirrored.is_some() {
                2.0 * at.min(i as f64) / self.scale
            } else {
                exponent
            };
            let part = if !near || growth > NEAR_ONE {
                let whole = (weight + (exponent - unit)).exp();
                whole - if near { (weight + base - unit).exp() } else { 0.0 }
            } else {
                (weight + base - unit).exp() * growth.exp_m1()
            };
            if part == f64::INFINITY {
                return Gap {
                    value: part,
                    error: 0.0,
                    unit,
                };
            }
            if part != 0.0 {
                value += part;
                // Far above 1, what is taken off is less than what is left times 3.
                size += part.abs()
                    * 3.0
                    * (UNITS
                        + count
                        + weight.abs()
                        + self.weight_units(weight)
                        + 2.0 * unit.abs()
                        + 2.0 * (exponent.abs() + base.abs()));
            }
        }
        let mut error = f64::EPSILON * (size + count * value.abs()) + f64::MIN_POSITIVE * count;
        // r − 1 is the sum of w_i (e^{a_i} − 1) less what the weights lack of 1.
        if let (true, Some(missing), None) = (near, self.missing, self.mirrored) {
            let inverse = (-unit).exp();
            value -= missing.weight.value * inverse;
            error += (missing.weight.error + 2.0 * f64::EPSILON * missing.weight.value.abs()) * inverse;
        }
        Gap { value, error, unit }
    }

    /// Unit in which the distances of ratios from 1 are measured: about the largest weight of a shift other than 0.
    fn unit(&self) -> f64 {
        let moving = self.log_weights.iter().enumerate().skip(1);
        moving.fold(LEAST_SCALE, |largest, (i, &weight)| largest.max(weight + self.base(i)))
    }

    /// A threshold that is certainly not above the crossing, or 0; and r there less e^level.
    fn threshold_below(&self, level: f64, at_zero: Gap) -> (f64, Gap) {
        let mut less = 0.0;
        for attempt in 0..ATTEMPTS {
            let at = self.crossing(level, less) * (1.0 - nudge(attempt));
            let gap = self.gap(at, level);
            if gap.is_surely_below() {
                return (at, gap);
            }
            if at <= 0.0 {
                break;
            }
            less += 2.0 * (gap.value.max(0.0) + gap.error);
        }
        (0.0, at_zero)
    }

    /// A threshold that is certainly not below the crossing; infinite where none is found.
    fn threshold_above(&self, level: f64) -> f64 {
        let mut more = 0.0;
        for attempt in 0..ATTEMPTS {
            let at = (self.crossing(level, -more) * (1.0 + nudge(attempt))).min(self.last());
            let gap = self.gap(at, level);
            if gap.is_surely_above() {
                return at;
            }
            more += 2.0 * (gap.error - gap.value.min(0.0));
        }
        f64::INFINITY
    }

    /// About where r crosses e^level − `less`·e^unit, the unit being that of [`Gap`]; in [0, k].
    fn crossing(&self, level: f64, less: f64) -> f64 {
        let last = self.pieces();
        let near = level.abs() < NEAR_ONE;
        let excess = level.exp_m1() - if near { less * self.unit().exp() } else { 0.0 };
        let level = level + if near { 0.0 } else { (-less).max(-0.5).ln_1p() };
        let is_below = |knot: &crate::loss::laplace_sums::Knot| {
            if near {
                knot.excess.value <= excess
            } else {
                knot.log_ratio.value <= level
            }
        };
        let passed = self.knots.partition_point(is_below);
        if passed == 0 {
            return 0.0;
        }
        let j = passed.min(last) - 1;
        let (start, knot) = (j as f64, &self.knots[j]);
        let x = if near {
            let (over, rise) = (excess - knot.excess.value, knot.rise.value);
            let growth = if (f64::MIN_POSITIVE..f64::INFINITY).contains(&rise) {
                (over / rise).ln_1p()
            } else {
                log1p_exp(over.ln() - (knot.rising.value + 2.0 * start / self.scale))
            };
            start + 0.5 * self.scale * growth
        } else {
            // A + B e^{2x/b} = e^level
            let rising = level + (-(knot.constant.value - level).exp()).ln_1p();
            0.5 * self.scale * (rising - knot.rising.value)
        };
        if x.is_finite() {
            x.clamp(start, start + 1.0)
        } else {
            start
        }
    }
}

/// By which part a crossing is moved further away each time: where it is a number, the first distances may be too little to move it.
fn nudge(attempt: i32) -> f64 {
    if attempt > 0 {
        f64::EPSILON * f64::powi(4.0, attempt)
    } else {
        0.0
    }
}

/// P(Lap(0, 1) > t).
fn upper_tail(t: f64) -> f64 {
    if t < 0.0 { 1.0 - 0.5 * t.exp() } else { 0.5 * (-t).exp() }
}

/// Its logarithm, which has digits where it is too small for an `f64`.
pub(crate) fn log_upper_tail(t: f64) -> f64 {
    if t < 0.0 {
        (-0.5 * t.exp()).ln_1p()
    } else {
        0.5f64.ln() - t
    }
}

/// log(1 − e^ε): that of δ where every output counts.
fn all_outputs(epsilon: f64) -> Interval {
    let log = (-epsilon.exp_m1()).max(0.0).ln();
    if log == f64::NEG_INFINITY {
        return Interval::exact(log);
    }
    let rounding = f64::EPSILON * (4.0 + log.abs());
    Interval {
        lower: log - rounding,
        upper: log + rounding,
    }
}

/// log δ(ε) of a pair that is its own mirror image, from that at |ε|.
fn reflected(epsilon: f64, of_size: Interval) -> Interval {
    if epsilon >= 0.0 {
        return of_size;
    }
    let whole = all_outputs(epsilon);
    let end = |whole: f64, log: f64| {
        let sum = log_add(whole, epsilon + log);
        (
            sum,
            f64::EPSILON * (4.0 + sum.abs() + epsilon.abs() + log.abs().min(1e3)),
        )
    };
    let ((lower, less), (upper, more)) = (end(whole.lower, of_size.lower), end(whole.upper, of_size.upper));
    Interval {
        lower: lower - less,
        upper: upper + more,
    }
}

#[cfg(test)]
mod tests;
