//! The law of W without outputs in which some batch has a large likelihood ratio, and its transform E[e^{sW}] on lines Re s = λ.
//!
//! The transform of one batch on a line is a sum over the nodes of a quadrature rule ([`Batch`]). At real s it is needed more often and less
//! accurately. With the normal variable of every batch at most b, Y^k has the mean m_k = e^{k(k−1)v/2}·Φ(b − k√v), so that
//! E[e^{ςY}] = Σ_k m_k·ς^k/k! for every ς > 0: in closed form, with positive coefficients. As Y is at most Y_b = e^{√v·b − v/2},
//! m_{k+1} ≤ Y_b·m_k, and what follows the k-th term, k ≥ 2ςY_b, is below it.

use crate::approx::Approx;
use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::ends::{far_end, largest, least_end, log_left_out};
use crate::loss::allocation::large_batch::LargeBatch;
use crate::loss::allocation::on_line::batch::{Batch, Tilted};
use crate::loss::allocation::tilting::{Tilting, tilting_of};
use crate::loss::allocation::windows::{Window, of_log_normal};
use crate::special::log_space::{LogSum, log_add};
use crate::special::normal::{log_mills, log_upper_tail};
use realfft::num_complex::Complex64;
use std::f64::consts::TAU;

/// Terms of a series at most.
const MOST_TERMS: usize = 1500;
/// The first term that is left out is below this.
const NEGLIGIBLE: f64 = 1e-25;
/// The unit of |ς|Y_b in the series, so that no coefficient is beyond the range of numbers.
const UNIT: f64 = 500.0;
/// −log of the errors of the rule for one batch times the number of batches, and at most.
const RULE: f64 = 34.0;
const BEST_RULE: f64 = 46.0;

/// The transform on a line.
#[derive(Debug)]
pub(crate) struct OnLine {
    /// log E[e^{λW}].
    pub(crate) at_lambda: Approx,
    /// log of the transform over that, up to multiples of 2πi, and a bound on its real part, by points.
    pub(crate) points: Vec<(Approx<Complex64>, f64)>,
}

/// W where the normal variables of all batches are at most b.
#[derive(Debug, Clone)]
pub(crate) struct TruncatedLaw {
    /// t.
    pub(crate) total: f64,
    /// The share of batches that are not released.
    pub(crate) still: f64,
    pub(crate) parts: Vec<TruncatedPart>,
    /// log of bounds on the probabilities under P and Q of what is left out.
    pub(crate) log_left_out: f64,
    log_left_out_of_q: f64,
    /// The one batch with a large likelihood ratio, where there is one: it is not among the parts.
    pub(super) large: Option<LargeBatch>,
}

/// Batches that are alike.
#[derive(Debug, Clone)]
pub(super) struct TruncatedPart {
    pub(crate) count: f64,
    pub(crate) variance: f64,
    /// b.
    pub(crate) end: f64,
    /// t, and Y_b/t.
    total: f64,
    pub(crate) largest: f64,
    /// Where a rule sums it, and where a series does.
    batch: Batch,
    series: Series,
    /// Ranges of Y, by which its transform decays.
    pub(super) windows: Vec<Window>,
}

/// The series of E[e^{sY/t}] where the normal variable is at most some b.
#[derive(Debug, Clone)]
struct Series {
    /// Y_b/t, and the same over the unit of the series.
    largest: f64,
    scale: f64,
    /// log Φ(b).
    log_mass: f64,
    /// m_k·(Y_b/UNIT)^{−k}/(k!·m_0) for k = 1, 2, …
    terms: Vec<f64>,
}

impl TruncatedLaw {
    /// The law without outputs that P has with a probability of at most e^`log_mass`; `None` where that leaves Y/t above `most`.
    pub(crate) fn new(bins: &Bins, log_mass: f64, most: f64) -> Option<Self> {
        let end = least_end(bins, log_mass);
        let is_enough = largest(bins.widest(), end) <= most * bins.total;
        is_enough.then(|| Self::up_to(bins, end)).flatten()
    }

    /// The law up to a larger b, where outputs beyond it hardly count under the tilts that δ of e^`log_mass` takes after so many `steps` either:
    /// moments are then nearly those of the whole law. `None` where they would count.
    pub(crate) fn far(bins: &Bins, log_mass: f64, steps: f64) -> Option<Self> {
        far_end(bins, log_mass, steps).and_then(|end| Self::up_to(bins, end))
    }

    /// The law with g ≤ `end`; `None` where its rule has too many nodes.
    pub(super) fn up_to(bins: &Bins, end: f64) -> Option<Self> {
        let (log_left_out, log_left_out_of_q) = log_left_out(bins, end);
        let parts = bins.parts.iter().map(|part| TruncatedPart::new(part, end, bins.total));
        Some(Self {
            total: bins.total,
            still: bins.still,
            parts: parts.collect::<Option<_>>()?,
            log_left_out,
            log_left_out_of_q,
            large: None,
        })
    }

    /// The law where the normal variable of one batch of this part is between `start` and `end`, and those of all others are at most as large as here.
    pub(super) fn with_one_between(&self, part: usize, range: (f64, f64)) -> Option<Self> {
        let mut law = self.clone();
        let part = law.parts.get_mut(part)?;
        law.large = Some(LargeBatch::new(part.variance, range, (part.count, self.total)));
        part.count -= 1.0;
        Some(law)
    }

    /// E[e^{sW}] at s = λ + ikh for k = 0, …, `last`; `None` where it takes too many nodes.
    pub(crate) fn on_line(&self, lambda: f64, spacing: f64, last: usize) -> Option<OnLine> {
        let reach = spacing * last as f64;
        let mut found = OnLine {
            at_lambda: Approx::new(self.still * lambda, f64::EPSILON * self.still * lambda),
            points: vec![(Approx::default(), 0.0); last + 1],
        };
        for (k, (log, _)) in found.points.iter_mut().enumerate() {
            let turn = self.still * spacing * k as f64;
            *log = Approx::new(Complex64::new(0.0, turn), 2.0 * f64::EPSILON * turn);
        }
        for (count, tilted) in self.tilted_batches(lambda, reach)? {
            found.at_lambda += tilted.log_transform.times(count);
            let values = tilted.values(spacing / self.total, last);
            for ((log, log_most), value) in found.points.iter_mut().zip(values) {
                log.value += value.log.value * count;
                log.error += count * value.log.error + 2.0 * f64::EPSILON * log.value.norm();
                *log_most += count * value.log_most;
            }
        }
        if let Some(large) = &self.large {
            found.at_lambda += large.log_count();
        }
        Some(found)
    }

    /// The batches tilted by e^{λY/t} for |Im s| up to `reach`, with the number of batches that are alike.
    fn tilted_batches(&self, lambda: f64, reach: f64) -> Option<Vec<(f64, Tilted)>> {
        let one = |count: f64, batch: &Batch| {
            let tolerance = -(RULE + count.max(1.0).ln()).min(BEST_RULE);
            let tilted = batch.tilted(lambda / self.total, reach / self.total, tolerance)?;
            Some((count, tilted))
        };
        let of_parts = self.parts.iter().map(|part| one(part.count, &part.batch));
        let of_large = self.large.iter().map(|large| one(1.0, &large.batch));
        of_parts.chain(of_large).collect()
    }

    /// log E[e^{λW}] for λ > 0 with its derivatives, for choices; `None` where it takes too many terms.
    pub(crate) fn tilting(&self, lambda: f64) -> Option<Tilting> {
        let mut all = self.of_parts(lambda)?;
        if let Some(large) = &self.large {
            let one = large.tilting(lambda)?;
            all.log += one.log;
            all.first += one.first;
            all.second += one.second;
        }
        Some(all)
    }

    /// log E[e^{λV}] with its derivatives, where V is W without the batch that has a large likelihood ratio: at λ = 0 they are the mean and the variance of V,
    /// which estimates of moments need.
    pub(super) fn of_parts(&self, lambda: f64) -> Option<Tilting> {
        let mut all = Tilting {
            log: self.still * lambda,
            first: self.still,
            second: 0.0,
        };
        for part in &self.parts {
            let one = part.tilting(lambda)?;
            all.log += part.count * one.log;
            all.first += part.count * one.first;
            all.second += part.count * one.second;
        }
        Some(all)
    }

    /// log of a bound on E_Q[W^w; what is left out], w > 0, where log E_Q[W^w] of the whole law is at most `log_moment`.
    pub(crate) fn log_moment_left_out(&self, w: f64, log_moment: f64) -> f64 {
        self.log_left_out_by_convexity(w)
            .min(self.log_left_out_by_norm(w, log_moment))
    }

    /// log of the bound by norms, w ≥ 1: on the event that Y_i is left out, the w-norm of W is at most that of W − Y_i/t plus that of Y_i/t, by Minkowski's
    /// inequality. W − Y_i/t does not depend on the event and is at most W. Where batches are many, a single one that is left out hardly matters for W.
    fn log_left_out_by_norm(&self, w: f64, log_moment: f64) -> f64 {
        if w < 1.0 {
            return f64::INFINITY;
        }
        let mut sum = LogSum::default();
        for part in &self.parts {
            let of_others = (log_moment + log_upper_tail(part.end)) / w;
            let own = 0.5 * w * (w - 1.0) * part.variance + log_upper_tail(part.end - w * part.variance.sqrt());
            let of_one = own / w - self.total.ln();
            let rounding = 1e-14 * w * (1.0 + of_others.abs() + of_one.abs());
            sum.add(part.count.ln() + w * log_add(of_others, of_one) + rounding);
        }
        sum.ln() + 1e-9
    }

    /// log of the bound by convexity: powers w ≥ 1 are convex, so that W^w is at most the mean of the Y^w, and either that Y or another one is left out. For
    /// w < 1, W^w ≤ 1 + W.
    fn log_left_out_by_convexity(&self, w: f64) -> f64 {
        let mut sum = LogSum::default();
        let order = w.max(1.0);
        for part in &self.parts {
            let share = (part.count / self.total).ln() + 0.5 * order * (order - 1.0) * part.variance;
            sum.add(share + log_upper_tail(part.end - order * part.variance.sqrt()));
            sum.add(share + self.log_left_out_of_q);
        }
        sum.add(self.log_left_out_of_q + (self.still + f64::from(u8::from(w < 1.0))).ln());
        sum.ln() + 1e-9
    }
}

impl TruncatedPart {
    fn new(part: &Part, end: f64, total: f64) -> Option<Self> {
        let series = Series::new(part.variance, end, total);
        Some(Self {
            count: part.count,
            variance: part.variance,
            end,
            largest: series.largest,
            batch: Batch::between(part.variance, (f64::NEG_INFINITY, end)),
            series,
            windows: of_log_normal(part.variance, largest(part.variance, end)).collect(),
            total,
        })
    }

    /// log E[e^{λY/t}] for one batch, with its derivatives.
    pub(crate) fn tilting(&self, lambda: f64) -> Option<Tilting> {
        self.series
            .tilting(lambda)
            .or_else(|| tilting_of(&self.batch, lambda, self.total))
    }

    /// A bound on the total variation of the density of Y/t under the law tilted by e^{λY/t}, without the outputs left out.
    ///
    /// The density q of Y has its largest value e^v/√(2πv) at e^{−3v/2}. With a growing factor e the parts of ∫|(qe)'| add up to at most
    /// twice the value of qe there, and twice ∫qe' = (λ/t)∫qe.
    pub(crate) fn total_variation(&self, lambda: f64, total: f64, log_transform: f64) -> f64 {
        let highest = self.variance - 0.5 * (TAU * self.variance).ln();
        let tilt = lambda / total * (-1.5 * self.variance).exp();
        2.0 * total * (highest + tilt - log_transform).exp() * (1.0 + 1e-9) + 2.0 * lambda
    }
}

impl Series {
    fn new(variance: f64, end: f64, total: f64) -> Self {
        let root = variance.sqrt();
        let log_mass = log_upper_tail(-end);
        let largest = largest(variance, end);
        let mut terms = Vec::with_capacity(MOST_TERMS);
        let mut log_factorial = 0.0;
        for k in 1..=MOST_TERMS {
            let order = k as f64;
            log_factorial += order.ln();
            let beyond = order * root - end;
            // log of m_k·Y_b^{−k}, without the squares that cancel.
            let log = if k == 1 {
                log_upper_tail(root - end) - largest.ln()
            } else if beyond > 0.0 {
                log_mills(beyond) - 0.5 * end * end - 0.5 * TAU.ln()
            } else {
                0.5 * order * root * (order * root - 2.0 * end) + log_upper_tail(beyond)
            };
            let value = (log - log_mass - log_factorial + order * UNIT.ln()).exp();
            terms.push(value);
            if value < f64::MIN_POSITIVE {
                break;
            }
        }
        Self {
            largest: largest / total,
            scale: largest / (total * UNIT),
            log_mass,
            terms,
        }
    }

    fn terms(&self, size: f64) -> Option<usize> {
        let x = size * self.largest;
        let log = (x / UNIT).ln();
        let first = (2.0 * x).ceil() as usize + 2;
        let small = |&k: &usize| self.terms[k - 1].ln() + k as f64 * log < NEGLIGIBLE.ln();
        (first..=self.terms.len()).find(small)
    }

    fn tilting(&self, lambda: f64) -> Option<Tilting> {
        let terms = self.terms(lambda)?;
        let x = lambda * self.scale;
        let (mut value, mut first, mut second) = (0.0, 0.0, 0.0);
        for term in self.terms[..terms].iter().rev() {
            second = second * x + first;
            first = first * x + value;
            value = value * x + term;
        }
        // The series is 1 + x·value.
        let whole = 1.0 + x * value;
        let (one, two) = ((value + x * first) / whole, (2.0 * first + 2.0 * x * second) / whole);
        Some(Tilting {
            log: self.log_mass + (x * value).ln_1p(),
            first: one * self.scale,
            second: (two - one * one) * self.scale * self.scale,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left out of P, of Q and of moments, for one batch, where half of each bound would be too small.
    #[test]
    fn what_is_left_out_is_bounded() {
        for (v, log_mass) in [(0.25f64, -20.0), (1.0, -60.0)] {
            let law = TruncatedLaw::new(&Bins::new(&[(1, v)]).unwrap(), log_mass, f64::INFINITY).unwrap();
            let end = law.parts[0].end;
            let exact = log_upper_tail(end - v.sqrt());
            assert!(law.log_left_out <= log_mass && law.log_left_out > log_mass - 1e-6);
            assert!(
                exact <= law.log_left_out && law.log_left_out < exact + 0.1,
                "{v}: {exact}"
            );
            for w in [1.0, 3.0, 7.5] {
                let exact = 0.5 * w * (w - 1.0) * v + log_upper_tail(end - w * v.sqrt());
                let bound = law.log_moment_left_out(w, f64::INFINITY);
                assert!(exact <= bound && bound < exact + 0.5, "{v} {w}: {exact} {bound}");
            }
        }
    }

    /// E[W²; some g is above b] of many batches, which is what E[W²] has more than E[W²; none is], is at least half of the bound by norms; that by convexity is far above it.
    #[test]
    fn what_one_of_many_batches_adds_is_bounded_by_norms() {
        let v = 0.25f64;
        for (t, log_mass) in [(10u64, -8.0), (1000, -8.0), (1000, -30.0)] {
            let bins = Bins::new(&[(t, v)]).unwrap();
            let law = TruncatedLaw::new(&bins, log_mass, f64::INFINITY).unwrap();
            let end = law.parts[0].end;
            let total = t as f64;
            // E[Y^k] less E[Y^k; g ≤ b], and the probability of g > b.
            let tail = |k: f64| (0.5 * k * (k - 1.0) * v + log_upper_tail(end - k * v.sqrt())).exp();
            let [none, one, two] = [0.0, 1.0, 2.0].map(tail);
            // log of the ratio of E[W²; no g above b] to E[W²], from small differences.
            let squares = total * v.exp() + total * (total - 1.0);
            let kept = |power: f64| (power * (-none).ln_1p()).exp_m1();
            let lost_one = total * (v.exp() * -kept(total - 1.0) + two * (1.0 + kept(total - 1.0)));
            let mean = (-one).ln_1p() * 2.0;
            let of_pairs = (mean + (total - 2.0) * (-none).ln_1p()).exp_m1();
            let exact = (lost_one - total * (total - 1.0) * of_pairs) / total.powi(2);
            let bound = law.log_moment_left_out(2.0, (squares / total.powi(2)).ln()).exp();
            assert!(exact <= bound && bound < 2.0 * exact, "{t}: {exact:e} {bound:e}");
        }
        // A power of which one batch alone would have a huge moment.
        let bins = Bins::new(&[(1_000_000, v)]).unwrap();
        let law = TruncatedLaw::new(&bins, -40.0, f64::INFINITY).unwrap();
        assert!(law.log_moment_left_out(30.0, 0.01) < -35.0 && law.log_left_out_by_convexity(30.0) > 50.0);
    }
}
