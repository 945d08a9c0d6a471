//! The transform E[e^{sY}; g ≤ b] of the likelihood ratio Y = e^{√v·g − v/2} of one batch, on a line Re s = λ.
//!
//! A Gauss–Legendre rule on panels of the normal variable g. The integrand is entire, so that its size on the ellipse around a panel bounds the error of the
//! rule: with x between x₀ and x₁ and |Im g| ≤ β there, |φ| ≤ e^{β²/2}·φ(x), |e^{sY}| ≤ e^{λ·Y(x₁) + τ·Y(x₁)·sin(√v·β)} where λ > 0, and λ·Y(x₀)·cos(√v·β) in
//! place of λ·Y(x₁) where λ < 0. Panels are so short that this suffices for the largest τ of the line, and serve all of it.
//!
//! With the tilted weights W_j of the nodes, which add up to 1, f(τ) = E[e^{(λ + iτ)Y}]/E[e^{λY}] is Σ W_j·e^{iτY_j} = e^{iτc}·(1 + Σ W_j·(e^{iτ(Y_j − c)} − 1))
//! ([`frequencies`]), with c = 1, from which Y is not far where there is much noise, or in the middle of a range.
//!
//! [`frequencies`]: crate::loss::allocation::on_line::frequencies

use crate::approx::Approx;
use crate::loss::allocation::on_line::frequencies::{Node, changes};
use crate::loss::allocation::on_line::sums::{ADDITIONS, Point, Rounding, SMALL_TILT, Sums};
use crate::loss::allocation::turned;
use crate::loss::allocation::windows::Window;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};
use crate::special::log_space::complex_ln_1p;
use crate::special::normal::log_upper_tail;
use crate::special::root::bisect;
use realfft::num_complex::Complex64;
use std::convert::Infallible;
use std::f64::consts::{FRAC_PI_2, LN_2, TAU};

/// Half-widths of panels: the first one that is tried, how it grows and shrinks, and its limits.
const FIRST_HALF: f64 = 1.5;
const GROWTH: f64 = 1.6;
const SHRINKAGE: f64 = 0.7;
const WIDEST: f64 = 4.0;
const NARROWEST: f64 = 1e-6;
/// Panels for estimates.
const ROUGH_PANELS: i32 = 3;
/// Nodes at most.
const MOST_NODES: usize = 8192;
/// Chords of the logarithm of a transform between 0 and λ, and log of the error of its values.
const CHORDS: usize = 8;
const OF_CHORDS: f64 = -24.0;
/// Largest error of the logarithm of a transform that slack in other bounds accounts for.
const LARGEST_ERROR: f64 = 1e-10;
/// The normal variable that is beyond all others.
const FARTHEST: f64 = 12.0;
/// Relative rounding of a variance, far more than there is.
const ROUNDING_OF_SPREAD: f64 = 1e-9;
/// Intervals that are looked at to see how small a transform may be, below b and below this normal variable.
const PLACES: i32 = 48;
const MIDDLE: f64 = 8.0;

/// The law of Y under Q where its normal variable is at most b, and above a start if there is one.
#[derive(Debug, Clone, Copy)]
pub(in crate::loss::allocation) struct Batch {
    pub(in crate::loss::allocation) variance: f64,
    deviation: f64,
    /// The normal variable is above this, which may be −∞.
    start: f64,
    /// b.
    end: f64,
}

/// The law tilted by e^{λY}.
#[derive(Debug)]
pub(in crate::loss::allocation) struct Tilted {
    pub(super) batch: Batch,
    pub(super) lambda: f64,
    /// log E[e^{λY}; g ≤ b].
    pub(in crate::loss::allocation) log_transform: Approx,
    /// Mean and variance of Y.
    pub(in crate::loss::allocation) mean: f64,
    pub(in crate::loss::allocation) variance: f64,
    nodes: Vec<Node>,
    /// Ranges of Y from 0 on.
    pub(super) windows: Vec<Window>,
    errors: RuleErrors,
    rounding: Rounding,
}

/// Bounds on the error of a rule, and on what is left out below its first panel, over the transform.
#[derive(Debug, Clone, Copy, Default)]
struct RuleErrors {
    /// For e^{sY}, and for its change between two values of Im s, or from 1 where s is small.
    plain: f64,
    change: f64,
}

/// f at one τ.
#[derive(Debug, Clone, Copy)]
pub(in crate::loss::allocation) struct Value {
    /// log f, up to multiples of 2πi; its error is infinite where little is known.
    pub(in crate::loss::allocation) log: Approx<Complex64>,
    /// A bound on log |f|.
    pub(in crate::loss::allocation) log_most: f64,
}

impl Batch {
    /// The law of Y ≤ `largest`.
    pub(super) fn new(variance: f64, largest: f64) -> Self {
        let deviation = variance.sqrt();
        Self {
            variance,
            deviation,
            start: f64::NEG_INFINITY,
            end: (largest.ln() + 0.5 * variance) / deviation,
        }
    }

    /// The law of the Y whose normal variable is above `start` and at most `end`.
    pub(in crate::loss::allocation) fn between(variance: f64, (start, end): (f64, f64)) -> Self {
        Self {
            variance,
            deviation: variance.sqrt(),
            start,
            end,
        }
    }

    /// The law of all Y, but for normal variables that never occur: what they lack of transforms with λ < 0 is e^{λY} times less.
    pub(super) fn whole(variance: f64) -> Self {
        Self::new(variance, (variance.sqrt() * FARTHEST - 0.5 * variance).exp())
    }

    /// Where the normal variable has both limits: log of the density times the weight of a rule of a few panels, and Y, by nodes; for estimates.
    pub(in crate::loss::allocation) fn rough_nodes(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let half = 0.5 * (self.end - self.start) / f64::from(ROUGH_PANELS);
        (0..ROUGH_PANELS).flat_map(move |i| {
            let centre = self.start + half * f64::from(2 * i + 1);
            let points = GaussLegendre::get().points(centre, half);
            points.map(|(g, weight)| (weight.ln() - 0.5 * (g * g + TAU.ln()), self.ratio(g)))
        })
    }

    /// The largest Y, rounded down.
    pub(super) fn largest(&self) -> f64 {
        self.ratio(self.end) * (1.0 - 1e-12)
    }

    fn ratio(&self, g: f64) -> f64 {
        (self.deviation * g - 0.5 * self.variance).exp()
    }

    /// c, from which places are counted.
    fn centre(&self) -> f64 {
        if self.start.is_finite() {
            self.ratio(0.5 * (self.start + self.end))
        } else {
            1.0
        }
    }

    /// The point of the rule at g. The last bits of g count too.
    fn point(&self, (g, weight): (f64, f64), lambda: f64) -> Point {
        let log = self.deviation * g - 0.5 * self.variance;
        let wrong = 16.0 * self.deviation + 3.0 * (self.deviation * g).abs() + self.variance;
        let ratio = log.exp();
        let (place, rounding) = if self.start.is_finite() {
            let place = ratio - self.centre();
            (place, (wrong + 2.0) * ratio + place.abs())
        } else {
            let place = log.exp_m1();
            (place, wrong * ratio + 4.0 * place.abs())
        };
        Point {
            g,
            ratio: Approx::new(ratio, f64::EPSILON * (16.0 + wrong)),
            place: Approx::new(place, f64::EPSILON * rounding),
            weight: weight / TAU.sqrt(),
            log: lambda * ratio - 0.5 * g * g,
        }
    }

    /// log of a lower bound on E[e^{λY}; g ≤ b], about: the largest one of its parts over short intervals.
    fn log_least(&self, lambda: f64) -> f64 {
        let part = |high: f64, length: f64| {
            let low = high - length;
            let tilt = (lambda * self.ratio(low)).min(lambda * self.ratio(high));
            tilt - 0.5 * (low * low).max(high * high) - 0.5 * TAU.ln() + length.ln()
        };
        let largest = |end: f64, length: f64| {
            let parts = (0..PLACES).map(|i| part(end - length * f64::from(i), length));
            parts.fold(f64::NEG_INFINITY, f64::max)
        };
        // Next to b, where the tilt may change by much over half of a unit.
        let short = (lambda.abs() * self.ratio(self.end) * self.deviation).recip().min(0.5);
        if self.start.is_finite() {
            let length = (self.end - self.start) / f64::from(PLACES);
            return largest(self.end, length).max(part(self.end, short.min(length)));
        }
        // And where most of the probability is.
        let middle = largest(self.end.min(MIDDLE), 0.5);
        largest(self.end, 0.5).max(largest(self.end, short)).max(middle)
    }

    /// Logs of bounds on |φ(g)| and on |e^{sY}|, Re s = `lambda` and |Im s| ≤ `reach`, and the largest |Y|, on the ellipse around a panel.
    fn log_most(&self, (centre, half): (f64, f64), lambda: f64, reach: f64) -> (f64, f64, f64) {
        let (low, high) = (centre - REAL_AXIS * half, centre + REAL_AXIS * half);
        let height = IMAGINARY_AXIS * half;
        let turn = self.deviation * height;
        let most = self.ratio(high);
        if turn > FRAC_PI_2 {
            return (f64::INFINITY, f64::INFINITY, most);
        }
        let nearest = low.max(-high).max(0.0);
        let log_density = 0.5 * (height * height - nearest * nearest) - 0.5 * TAU.ln();
        let tilt = if lambda > 0.0 {
            lambda * most
        } else {
            lambda * self.ratio(low) * turn.cos()
        };
        (log_density, tilt + reach * most * turn.sin(), most)
    }

    /// log of bounds on the error of the rule on a panel: for e^{sY}, and for the change of e^{sY − iτc} between two Im s = τ and e^{s(Y − c)} − 1 where λ is small.
    /// |e^z − 1| is at most min(|z|, 2)·e^{max(Re z, 0)}.
    fn log_errors(&self, panel: (f64, f64), lambda: f64, reach: f64) -> (f64, f64) {
        let (log_density, log_factor, most) = self.log_most(panel, lambda, reach);
        let error = |log: f64| GaussLegendre::log_error(log_density + log, panel.1);
        let change = if lambda.abs() <= SMALL_TILT && !self.start.is_finite() {
            (lambda.hypot(reach) * (most + self.centre())).ln().min(LN_2)
                + log_factor.max(0.0)
                + lambda.abs() * self.centre()
        } else {
            LN_2 + log_factor
        };
        (error(log_factor), error(change))
    }

    /// log of a bound on the expectations of |e^{sY}| and of |e^{sY} − 1| over g < `low`.
    fn log_below(&self, low: f64, lambda: f64) -> f64 {
        LN_2 + log_upper_tail(-low) + lambda.max(0.0) * self.ratio(low)
    }

    /// Where panels start: what is left out below is at most e^`log_tolerance`.
    fn lowest(&self, lambda: f64, log_tolerance: f64) -> Option<f64> {
        if self.start.is_finite() {
            return Some(self.start);
        }
        let mut low = (self.end - 1.0).min(-1.0);
        let lowest = low - MOST_NODES as f64;
        while self.log_below(low, lambda) > log_tolerance {
            low -= 0.5;
            if low < lowest {
                return None;
            }
        }
        Some(low)
    }

    /// Panels from where little is left out on up to b, each with an error below e^`log_tolerance`; `None` where they have too many nodes.
    fn panels(&self, lambda: f64, reach: f64, log_tolerance: f64) -> Option<Vec<(f64, f64)>> {
        let mut low = self.lowest(lambda, log_tolerance)?;
        let mut half = FIRST_HALF;
        let mut panels = Vec::new();
        while low < self.end {
            half = (GROWTH * half).min(WIDEST).min(0.5 * (self.end - low));
            while self.log_errors((low + half, half), lambda, reach).1 > log_tolerance {
                half *= SHRINKAGE;
                if half < NARROWEST {
                    return None;
                }
            }
            panels.push((low + half, half));
            low += 2.0 * half;
            if panels.len() * NODES > MOST_NODES {
                return None;
            }
        }
        Some(panels)
    }

    /// The law tilted by e^{λY}, for |τ| ≤ `reach`, with errors of the rule of about e^`log_tolerance` of the transform; `None` where that takes too many nodes.
    pub(in crate::loss::allocation) fn tilted(
        &self,
        lambda: f64,
        reach: f64,
        log_tolerance: f64,
    ) -> Option<Tilted> {
        let panels = self.panels(lambda, reach, log_tolerance + self.log_least(lambda))?;
        let rule = GaussLegendre::get();
        let mut points = Vec::with_capacity(panels.len() * NODES);
        let (mut scale, mut errors) = (f64::NEG_INFINITY, RuleErrors::default());
        for &(centre, half) in &panels {
            let (log_plain, log_change) = self.log_errors((centre, half), lambda, reach);
            errors.plain += log_plain.exp();
            errors.change += log_change.exp();
            for node in rule.points(centre, half) {
                let point = self.point(node, lambda);
                scale = scale.max(point.log);
                points.push(point);
            }
        }
        if !self.start.is_finite() {
            let low = panels.first().map_or(0.0, |(centre, half)| centre - half);
            let left_out = self.log_below(low, lambda).exp();
            errors.plain += left_out;
            errors.change += left_out;
        }
        let mut tilted = self.sum_up(&points, lambda, (scale, errors))?;
        let log_whole = tilted.log_transform.lower();
        let panel = |&(centre, half): &(f64, f64)| {
            let relative = (self.log_errors((centre, half), lambda, reach).0 - log_whole).exp();
            (
                self.ratio(centre + half),
                self.ratio(centre + REAL_AXIS * half),
                relative,
            )
        };
        tilted.find_windows(panels.iter().map(panel));
        Some(tilted)
    }

    /// The sums over the points of a rule, of which all terms are over e^`scale`, with the errors of the rule.
    fn sum_up(&self, points: &[Point], lambda: f64, (scale, errors): (f64, RuleErrors)) -> Option<Tilted> {
        let is_small = lambda.abs() <= SMALL_TILT && self.end > 1.0 && !self.start.is_finite();
        let mut sums = Sums::default();
        let mut nodes = Vec::with_capacity(points.len());
        for point in points {
            let weight = sums.add(point, (lambda, scale));
            nodes.push(Node {
                place: point.place.value,
                ratio: point.ratio.value,
                weight,
            });
        }
        let [total, first, second] = sums.moments.map(CompensatedSum::value);
        if total.is_nan() || total <= 0.0 {
            return None;
        }
        nodes.iter_mut().for_each(|node| node.weight /= total);
        let (mean, square) = (first / total, second / total);
        let whole = (total.ln() + scale).exp();
        let rounding = Rounding {
            weights: sums.rounding.weights / total + ADDITIONS,
            weighted_places: sums.rounding.weighted_places / total,
            size: sums.rounding.size / total,
            places: sums.rounding.places / total,
        };
        let (value, error) = if is_small {
            let lost = log_upper_tail(self.end).exp();
            let of_lost = lost * f64::EPSILON * (16.0 + 8.0 * self.end * self.end);
            let error = sums.change_rounding + of_lost + errors.change;
            let change = (sums.change.value() - lost).ln_1p();
            let shift = lambda * self.centre();
            (
                shift + change,
                error * (shift - whole.ln()).exp() + f64::EPSILON * shift.abs(),
            )
        } else {
            let value = total.ln() + scale;
            (value, rounding.weights + errors.plain / whole + 4.0 * f64::EPSILON)
        };
        let log_transform = Approx::new(value, 1.1 * error + 4.0 * f64::EPSILON * value.abs());
        (log_transform.error < 0.1).then_some(Tilted {
            batch: *self,
            lambda,
            log_transform,
            mean,
            variance: (square - mean * mean).max(0.0),
            nodes,
            windows: Vec::new(),
            errors: RuleErrors {
                plain: 1.2 * errors.plain / whole,
                change: 1.2 * errors.change / whole,
            },
            rounding,
        })
    }
}

impl Tilted {
    /// Number of nodes.
    pub(super) fn size(&self) -> usize {
        self.nodes.len()
    }

    /// f at τ = kh for k = 0, …, `last`.
    pub(in crate::loss::allocation) fn values(&self, spacing: f64, last: usize) -> Vec<Value> {
        let Rounding {
            weights,
            weighted_places,
            size,
            places,
        } = self.rounding;
        let centre = self.batch.centre();
        let of = |(k, change): (usize, Approx<Complex64>)| {
            let tau = spacing * k as f64;
            let of_weights = (2.0 * weights).min(tau * (weighted_places + weights * size));
            let rule = self.errors.change + (tau * size).min(2.0) * self.errors.plain;
            let mut found = value(change.value, change.error + rule + of_weights + 2.0 * tau * places);
            found.log.value.im += tau * centre;
            found.log.error += 2.0 * f64::EPSILON * tau * centre;
            found
        };
        changes(&self.nodes, spacing, last)
            .into_iter()
            .enumerate()
            .map(of)
            .collect()
    }

    /// Fills `windows`, from the largest Y of each panel, the largest |Y| on the ellipse around it, and the error of its rule over the transform.
    fn find_windows(&mut self, panels: impl Iterator<Item = (f64, f64, f64)>) {
        let (mut sums, mut errors) = ([0.0; 3], [0.0; 3]);
        for ((end, most, error), nodes) in panels.zip(self.nodes.chunks(NODES)) {
            for node in nodes {
                let ratio = node.ratio;
                for (sum, factor) in sums.iter_mut().zip([1.0, ratio, ratio * ratio]) {
                    *sum += node.weight * factor;
                }
            }
            for (sum, factor) in errors.iter_mut().zip([1.0, most, most * most]) {
                *sum += 1.2 * error * factor;
            }
            let [mass, first, second] = sums;
            let unknown = mass * errors[2] + second * errors[0] + 2.0 * first * errors[1];
            let spread = (mass * second - first * first) - unknown - ROUNDING_OF_SPREAD * mass * second;
            self.windows.push(Window {
                length: end,
                spread: spread.max(0.0),
            });
        }
    }

    /// What is turned of the batch; `None` where a transform has too many nodes.
    pub(super) fn to_turn(&self) -> Option<turned::Batch> {
        let Batch { variance, end, .. } = self.batch;
        let at = |i: usize| {
            let lambda = self.lambda * i as f64 / CHORDS as f64;
            Some(self.batch.tilted(lambda, 0.0, OF_CHORDS)?.log_transform.upper())
        };
        let mut logs: Vec<f64> = (0..CHORDS).map(at).collect::<Option<_>>()?;
        logs.push(self.log_transform.lower());
        (self.log_transform.error < LARGEST_ERROR).then(|| turned::Batch {
            lambda: self.lambda,
            total: 1.0,
            variance,
            logs,
            largest: self.batch.ratio(end) * (1.0 + 1e-12),
            log_density_at_end: 1e-10 - 0.5 * end * end - 0.5 * TAU.ln(),
        })
    }

    /// A bound on the total variation of the density of Y.
    ///
    /// The density without the tilt rises to its largest value and falls. With a factor that grows, the parts in which the product falls take it down by no
    /// more than that value with the factor there, and the growth of the factor adds λ twice. With a factor that falls, the product has one maximum too: its
    /// logarithm is a concave function of log y.
    pub(super) fn total_variation(&self) -> f64 {
        let variance = self.batch.variance;
        let mode = -1.5 * variance;
        let log_density =
            |x: f64| -x - 0.5 * (x + 0.5 * variance).powi(2) / variance - 0.5 * (TAU * variance).ln();
        let scale = -self.log_transform.lower() + 1e-9;
        if self.lambda > 0.0 {
            return 2.0 * (log_density(mode) + self.lambda * mode.exp() + scale).exp() + 2.0 * self.lambda;
        }
        let slope = |x: f64| -(x + 0.5 * variance) / variance - 1.0 + self.lambda * x.exp();
        // At a distance d below the mode the slope is d/v − |λ|·e^{mode − d}: positive for d = log(1 + a), a = v·|λ|·e^{mode}, as d ≥ a/(1 + a).
        let range = (mode - (-variance * self.lambda * mode.exp()).ln_1p() - 1e-9, mode);
        let Ok(high) = bisect(range, 60, |_| 1e-9, |x| Ok::<_, Infallible>(slope(x) <= 0.0));
        2.0 * (log_density(high) + self.lambda * high.exp() - 1e-6 * slope(high) + scale).exp()
    }
}

/// log f from f − 1 and a bound on its error.
fn value(change: Complex64, error: f64) -> Value {
    let log = complex_ln_1p(change);
    let modulus = log.re.exp();
    let relative = error / modulus;
    let known = if relative < 0.1 { 1.1 * relative } else { f64::INFINITY };
    Value {
        log: Approx::new(log, known + 4.0 * f64::EPSILON * log.norm().min(4.0)),
        log_most: ((modulus + error).ln() + 4.0 * f64::EPSILON).min(0.0),
    }
}

#[cfg(test)]
mod tests;
