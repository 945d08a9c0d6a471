//! δ of one epoch where a large loss is due to the likelihood ratio of one batch nearly always, and the record is removed.
//!
//! δ = E_Q[(S − w)₊]/t with the sum S of the likelihood ratios Y of the n batches that are released, and w = t(e^ε − still). Above a limit c a Y is large. Where
//! Y_i alone is large, the sum S' of the others, of mean n − 1, only moves its threshold: to u = w − (n − 1) = t(e^ε − 1) + 1, about. With g_i(u) = E[(Y_i − u)₊], the
//! curve of a Gaussian pair at log u, which is convex, and the density f_i of Y_i, the outcomes with one large Y add
//!
//! > at least Σ_i g_i(w − E[S'])·P(no other is large), and at most Σ_i (g_i(u) + ½·f_i(u − b)·E[(S' − (n − 1))²]) and what S' > n − 1 + b adds
//!
//! for every b below u. What outcomes with so large an S', with two large Y or with none add is bounded by exponential moments of what is not large. The proof is that of
//! Proposition 20 in `docs/theory/random-allocation.md`.

use crate::interval::Enclosure;
use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::little_noise::{Logarithm, SLACK, log_mass_above, log_sum, normal};
use crate::loss::one_step::gaussian_delta;
use crate::special::log_space::{LogSum, log_add, log_difference};
use crate::special::normal::log_upper_tail;
use crate::special::root::bisect;
use std::convert::Infallible;
use std::f64::consts::{LN_2, TAU};

/// u/c that are tried: the larger, the more exceeds u with one large Y and no other, and the likelier are two.
const LIMITS: [f64; 5] = [3.0, 8.0, 20.0, 60.0, 300.0];
/// u/b, at least and at most, and the one for which λ is found.
const FAR: (f64, f64) = (4.0, 64.0);
const TYPICAL_FAR: f64 = 16.0;
/// −log of the part of δ that S' > n − 1 + b may add, about.
const LEVEL: f64 = 40.0;
/// Largest log of the probability of a large Y where the bounds are of use.
const RARE: f64 = -10.0;
/// λc of the exponential moments at least and at most, and how much less than −log of that probability it is.
const RATES: (f64, f64) = (4.0, 150.0);
const BELOW_MASS: f64 = 3.0;
/// The part of λb that squares may add to the logarithm of an exponential moment.
const OF_SQUARES: f64 = 0.25;
/// Largest width of δ by the curvature of g where bounds are of use.
const LARGEST_CURVATURE: f64 = 0.1;
/// Largest width of δ at an estimate of ε.
const USEFUL: f64 = 1e-3;
/// Steps in which an estimate is found, its relative accuracy, and the relative change by which a slope is measured.
const ROUNDS: usize = 60;
const CLOSE: f64 = 1e-9;
const CHANGE: f64 = 1e-5;
/// e^x − 1 − x is at most this times x² for 0 ≤ x ≤ 1: e − 2 is 0.71828182….
const SQUARE: f64 = 0.718_282;

/// Bounds on δ(ε), ε > 0; `None` where sums of many Y count.
pub(super) fn delta(bins: &Bins, epsilon: f64) -> Option<Enclosure> {
    let sum = OneLarge::new(bins, epsilon)?;
    let log_total = bins.total.ln();
    let (mut lower, mut upper) = (f64::NEG_INFINITY, f64::INFINITY);
    for factor in LIMITS {
        if let Some((least, most)) = sum.bounds(factor) {
            (lower, upper) = (lower.max(least), upper.min(most));
        }
    }
    let slack = |log: f64| SLACK * (4.0 + log_total + log.abs());
    Some(Enclosure::of_logs(
        lower - log_total - slack(lower),
        (upper - log_total + slack(upper)).min(0.0),
    ))
}

/// An ε at which δ is about e^`log_delta`, and −d log δ/dε there; `None` where the bounds do not tell it.
pub(super) fn estimate(bins: &Bins, log_delta: f64) -> Option<(f64, f64)> {
    let (log_total, released) = (bins.total.ln(), bins.parts.iter().map(|part| part.count).sum::<f64>());
    let log_one =
        |x: f64| log_sum(&bins.parts, |part| gaussian_delta(part.variance.sqrt(), x).log_upper) - log_total;
    // No curve of a Gaussian pair is above e^−q²/2, q = x/√v − √v/2.
    let root = bins.widest().sqrt();
    let farthest = root * (0.5 * root + (2.0 * (released.ln() - log_delta).max(0.0)).sqrt());
    let is_met = |x: f64| Ok::<_, Infallible>(log_one(x) <= log_delta);
    let Ok(x) = bisect((0.0, farthest), ROUNDS, |high| CLOSE * high, is_met);
    // e^x = t(e^ε − 1) + 1
    let epsilon = if x > log_total {
        x - log_total + ((1.0 - 1.0 / bins.total) * (log_total - x).exp()).ln_1p()
    } else {
        ((x.exp() - 1.0) / bins.total).ln_1p()
    };
    let width = CHANGE * x;
    let by_x = (log_one(x) - log_one(x + width)) / width;
    let slope = by_x * (epsilon + log_total - x).exp();
    let is_known = epsilon > 0.0 && slope > 0.0 && slope.is_finite();
    (is_known && delta(bins, epsilon)?.width() < USEFUL).then_some((epsilon, slope))
}

/// E[(S − w)₊] for one w.
struct OneLarge<'a> {
    parts: &'a [Part],
    /// log u.
    moved: Logarithm,
}

/// What counts as large, and the exponential moments of what does not.
#[derive(Debug, Clone, Copy)]
struct Limit {
    /// log c.
    log: f64,
    /// log of bounds on the sums of P(Y > c), of E\[Y; Y > c\] and of E[(Y − 1)²; Y ≤ c].
    log_mass: f64,
    log_mean: f64,
    log_square: f64,
}

/// A number without an error, as a logarithm.
fn exact(value: f64) -> Logarithm {
    Logarithm { value, error: 0.0 }
}

impl<'a> OneLarge<'a> {
    /// `None` where u is so near to what the sum of all Y varies by that the curvature of g counts.
    fn new(bins: &'a Bins, epsilon: f64) -> Option<Self> {
        let one = 1.0 / bins.total;
        let log_excess = if epsilon < 1.0 {
            (epsilon.exp_m1() + one).ln()
        } else {
            epsilon + (-(1.0 - one) * (-epsilon).exp()).ln_1p()
        };
        let value = log_excess + bins.total.ln();
        let moved = Logarithm {
            value,
            error: 4.0 * f64::EPSILON * (2.0 + epsilon.abs() + value.abs() + bins.total.ln()),
        };
        let sum = Self {
            parts: &bins.parts,
            moved,
        };
        let log_variance = log_sum(sum.parts, |part| log_square(part, moved)) - 2.0 * value;
        let steepest = |part: &Part| normal(part, moved).value / part.variance.sqrt();
        let power = sum.parts.iter().map(steepest).fold(f64::INFINITY, f64::min);
        let is_far = power > 0.0 && log_variance + 2.0 * power.ln() - LN_2 < LARGEST_CURVATURE.ln();
        (epsilon > 0.0 && value > 0.0 && is_far).then_some(sum)
    }

    fn limit(&self, factor: f64) -> Limit {
        let log = self.moved.value - factor.ln();
        let at = exact(log);
        Limit {
            log,
            log_mass: log_sum(self.parts, |part| log_mass_above(part, at)),
            log_mean: log_sum(self.parts, |part| log_mean_above(part, at)),
            log_square: log_sum(self.parts, |part| log_square(part, at)),
        }
    }

    /// log of bounds on E[(S − w)₊] with c = u/`factor`; `None` where large Y are not rare.
    fn bounds(&self, factor: f64) -> Option<(f64, f64)> {
        let limit = self.limit(factor);
        // λb is λ²·E[ΣY²] over the part that this may be of it at most.
        let by_squares = 2.0 * limit.log + (factor / TYPICAL_FAR * OF_SQUARES / SQUARE).ln() - limit.log_square;
        let rate = (-limit.log_mass - BELOW_MASS).min(RATES.1).min(by_squares.exp());
        if limit.log_mass > RARE || rate < RATES.0 {
            return None;
        }
        let one = log_sum(self.parts, |part| {
            gaussian_delta(part.variance.sqrt(), self.moved.lower()).log_upper
        });
        let needed = LEVEL + (limit.log_mean - one).max(0.0);
        let far = (rate * factor / needed).clamp(FAR.0, FAR.1);
        let log_moment = self.log_exponential(limit.log, rate);
        // λu, where u is wrong by the error of its logarithm.
        let whole_rate = rate * factor * (1.0 - 2.0 * self.moved.error);
        let mut upper = LogSum::default();
        for term in [
            one,
            self.log_curvature(&limit, far)?,
            self.log_far(&limit, (rate * factor / far, far), log_moment),
            log_pairs(self.parts, limit.log),
            log_none(whole_rate, limit.log - rate.ln(), log_moment),
        ] {
            upper.add(term);
        }
        Some((self.log_one_at_least(&limit), upper.ln()))
    }

    /// log of a lower bound on what outcomes with one large Y add: by Jensen's inequality E[g(w − S')] is at least g(w − E[S']), where E[S'] is that of outcomes in which no
    /// other Y is large. It is at least n − 1 less what large Y have of the mean.
    fn log_one_at_least(&self, limit: &Limit) -> f64 {
        let at = log_add(self.moved.upper(), limit.log_mean) + 1e-15 * (2.0 + self.moved.value.abs());
        let curve = log_sum(self.parts, |part| gaussian_delta(part.variance.sqrt(), at).log_lower);
        curve + (-limit.log_mass.exp()).ln_1p()
    }

    /// log of a bound on the sum of ½·f_i(u − b)·E[(S' − (n − 1))²] over outcomes without a large Y, b = u/`far`; `None` where the density is not known to fall from there on.
    ///
    /// On them S' is the sum of the Y·1{Y ≤ c}, whose means are below 1 by E\[Y; Y > c\], and whose mean squares about 1 are E[(Y − 1)²; Y ≤ c] + P(Y > c).
    fn log_curvature(&self, limit: &Limit, far: f64) -> Option<f64> {
        let left = Logarithm {
            value: self.moved.value + (-1.0 / far).ln_1p(),
            error: self.moved.error + 1e-15,
        };
        if left.lower() <= 0.0 {
            return None;
        }
        let mut square = LogSum::default();
        square.add(limit.log_square);
        square.add(limit.log_mass);
        square.add(2.0 * limit.log_mean);
        let density = log_sum(self.parts, |part| log_density(part, left));
        Some(square.ln() - LN_2 + density)
    }

    /// log of a bound on what outcomes with one large Y and X = S' − (n − 1) > b = u/`far` add, where e^{−λb} is e^−`rate`.
    ///
    /// (Y + X − u)₊ ≤ Y + X, P(X > b) ≤ e^{−λb}·E[e^{λX}], and x ≤ b·e^{λ(x − b)} for x ≥ b ≥ 1/λ.
    fn log_far(&self, limit: &Limit, (rate, far): (f64, f64), log_moment: f64) -> f64 {
        if rate < 1.0 {
            return f64::INFINITY;
        }
        let mut sum = LogSum::default();
        sum.add(limit.log_mean);
        sum.add(limit.log_mass + self.moved.upper() - far.ln());
        sum.ln() + log_moment - rate
    }

    /// log of a bound on the product of max(1, E[e^{λ(Y − 1)}; Y ≤ c]) over all batches, λ = `rate`/c.
    ///
    /// e^x is at most 1 + x + 0.72·x² for x = λ(Y − 1) ≤ 1, and the mean of x over all Y up to a place is not above 0; it is at most e^{j + 1} for x between j and j + 1.
    fn log_exponential(&self, log_limit: f64, rate: f64) -> f64 {
        let log_unit = log_limit - rate.ln();
        // log(1 + x/λ)
        let at = |x: f64| Logarithm {
            value: log_add(0.0, log_unit + x.ln()),
            error: 1e-14 * (1.0 + log_unit.abs()),
        };
        let of = |part: &Part| {
            let mut excess = LogSum::default();
            excess.add(SQUARE.ln() - 2.0 * log_unit + log_square(part, at(1.0)));
            let mut x = 1.0;
            while x < rate {
                let next = (x + 1.0).min(rate);
                excess.add(next + log_mass_above(part, at(x)));
                x = next;
            }
            part.count * excess.ln().exp()
        };
        self.parts.iter().map(of).sum::<f64>() * (1.0 + 1e-12)
    }
}

/// log of a bound on E[S; at least two Y are large]: over ordered pairs of batches Σ E\[Y_i; Y_i > c\]·P(Y_j > c), and the mean of the others times half of Σ P(Y_i > c)·P(Y_j > c).
fn log_pairs(parts: &[Part], log_limit: f64) -> f64 {
    let at = exact(log_limit);
    let released: f64 = parts.iter().map(|part| part.count).sum();
    let rest = (0.5 * (released - 2.0).max(0.0)).ln();
    let mut sum = LogSum::default();
    for (i, one) in parts.iter().enumerate() {
        for (j, other) in parts.iter().enumerate() {
            let count = other.count - f64::from(u8::from(i == j));
            let log_mass = (one.count * count.max(0.0)).ln() + log_mass_above(other, at);
            sum.add(log_mass + log_mean_above(one, at));
            sum.add(log_mass + log_mass_above(one, at) + rest);
        }
    }
    sum.ln()
}

/// log of a bound on E[(S − w)₊; no Y is large], where λu is `rate` and log 1/λ `log_unit`: x₊ ≤ e^{λx − 1}/λ, and S − w = Σ (Y − 1) + 1 − u.
fn log_none(rate: f64, log_unit: f64, log_moment: f64) -> f64 {
    log_moment - rate - 1.0 + log_unit + (-log_unit).exp()
}

/// log of an upper bound on E[Y; Y > e^x].
fn log_mean_above(part: &Part, x: Logarithm) -> f64 {
    let at = normal(part, x).lower() - part.variance.sqrt();
    log_upper_tail(at) + 1e-15 * (8.0 + at * at + part.variance * at.abs())
}

/// log of an upper bound on E[(Y − 1)²; Y ≤ e^x], which is E[Y²; Y ≤ e^x] less 1, but for terms of what is above, and at most e^v − 1.
fn log_square(part: &Part, x: Logarithm) -> f64 {
    let v = part.variance;
    let at = 2.0 * v.sqrt() - normal(part, x).upper();
    let log_square = v + log_upper_tail(at) + 1e-14 * (8.0 + at * at + v);
    let whole = if v < 1.0 {
        v.exp_m1().ln()
    } else {
        v + (-(-v).exp()).ln_1p()
    };
    let rest = 1.0 - 2.0 * log_mean_above(part, x).exp();
    let part = if rest > 0.0 && log_square > rest.ln() {
        log_difference(log_square, rest.ln())
    } else {
        f64::INFINITY
    };
    whole.min(part) + 1e-15 * (4.0 + v)
}

/// log of an upper bound on the density of Y between e^x and 1 beyond its mode, where it falls.
fn log_density(part: &Part, x: Logarithm) -> f64 {
    let at = normal(part, x);
    let lowest = (at.value.abs() - at.error).max(0.0);
    -x.lower() - 0.5 * (TAU * part.variance).ln() - 0.5 * lowest * lowest + 1e-14 * (1.0 + x.value.abs())
}

#[cfg(test)]
mod tests;
