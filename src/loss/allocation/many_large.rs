//! Bounds on moments of an epoch over outputs in which several batches may have a large likelihood ratio.
//!
//! For every λ > 0, W^w ≤ (w/(eλ))^w·e^{λW}, so that a bound on E_Q[e^{λW}] over a set of outputs is one on E_Q[W^w] there; at the best λ it is larger by
//! little more than a Gaussian factor. With L_i and l_i the transforms E[e^{λY_i/t}] of a batch where its normal variable is at most a, and where it is between a and
//! some h, E_Q[e^{λW}; some g > a, all ≤ h] = Π (L_i + l_i) − Π L_i = φ₀·(Π (1 + l_i/L_i) − 1) with φ₀ = Π L_i. Where a given batch i has a ratio in a range,
//! with the transform k_i, the others have none with φ₀·k_i/L_i, and some with that times Π (1 + l_j/L_j) − 1 over the others.

use crate::loss::allocation::on_line::batch::Batch;
use crate::loss::allocation::tilting::{Tilting, tilting_of};
use crate::loss::allocation::truncated_law::{TruncatedLaw, TruncatedPart};
use crate::loss::allocation::vertical_line::saddle_of;
use crate::loss::privacy_loss::{ManyRatios, RatioRange};

/// Largest logarithm of Π (1 + l_i/L_i): beyond, it may have no `f64`, and nothing is bounded.
const MOST_LOG: f64 = 600.0;
/// What the logarithm of a quotient of two transforms may lack, and that of a moment for each unit of w. A transform by a rule is an upper bound that is above
/// by twice e^−24 of it at most, which makes a quotient that has it below the line too small by 8e-11. One by a series lacks terms of 1e-25 and has roundings of some
/// units of 1e-16·λ/t, so that those of all batches together are below 1e-11 for λ up to 10⁴.
const ROUNDING: f64 = 1e-9;

/// An epoch with any number of large ratios.
#[derive(Debug)]
pub(super) struct ManyLarge {
    /// Without large ratios.
    law: TruncatedLaw,
}

impl ManyLarge {
    pub(super) fn new(law: TruncatedLaw) -> Self {
        Self { law }
    }

    /// log of n·k/L with its derivatives, where k is E[e^{λY/t}] over a range of the normal variable, and n and L are those of this part.
    fn relative(&self, part: &TruncatedPart, ends: (f64, f64), lambda: f64) -> Option<Tilting> {
        let range = tilting_of(&Batch::between(part.variance, ends), lambda, self.law.total)?;
        let below = part.tilting(lambda)?;
        Some(Tilting {
            log: part.count.ln() + range.log - below.log + ROUNDING,
            first: range.first - below.first,
            second: range.second - below.second,
        })
    }

    /// log(Π (1 + l_i/L_i) − 1) with its derivatives, for large ratios up to `high`, over all batches but one of the part `without`; `None` where that is too large.
    fn some(&self, high: f64, without: Option<usize>, lambda: f64) -> Option<Tilting> {
        let (mut log, mut first, mut second) = (0.0, 0.0, 0.0);
        for (i, part) in self.law.parts.iter().enumerate().filter(|(_, part)| part.end < high) {
            let one = self.relative(part, (part.end, high), lambda)?;
            let count = part.count - f64::from(u8::from(without == Some(i)));
            let size = (one.log - part.count.ln()).exp();
            let slope = one.first * size / (1.0 + size);
            log += count * size.ln_1p();
            first += count * slope;
            second += count * (one.second * size / (1.0 + size) + slope * (one.first - slope));
        }
        let above = f64::exp_m1(log);
        let slope = first * (1.0 + above) / above;
        (log > 0.0 && log < MOST_LOG).then(|| Tilting {
            log: above.ln(),
            first: slope,
            second: second * (1.0 + above) / above - slope * first / above,
        })
    }

    /// log of a bound on E_Q[W^w] over outputs for which log E_Q[e^{λW}] is at most that without large ratios and f(λ).
    fn log_moment(&self, w: f64, f: impl Fn(f64) -> Option<Tilting>) -> f64 {
        let whole = |lambda: f64| {
            let (none, more) = (self.law.tilting(lambda)?, f(lambda)?);
            Some(sum(none, more))
        };
        saddle_of(whole, w).map_or(f64::INFINITY, |(lambda, at)| {
            w * (w / lambda).ln() - w + at.log + ROUNDING * (1.0 + w)
        })
    }
}

/// Logarithms of a product.
fn sum(a: Tilting, b: Tilting) -> Tilting {
    Tilting {
        log: a.log + b.log,
        first: a.first + b.first,
        second: a.second + b.second,
    }
}

impl ManyRatios for ManyLarge {
    fn log_some(&self, c: f64, high: f64) -> f64 {
        if self.law.parts.iter().all(|part| part.end >= high) {
            return f64::NEG_INFINITY;
        }
        self.log_moment(1.0 + c, |lambda| self.some(high, None, lambda))
    }

    fn log_one(&self, c: f64, range: &RatioRange) -> f64 {
        let part = &self.law.parts[range.part];
        self.log_moment(1.0 + c, |lambda| self.relative(part, range.ends, lambda))
    }

    fn log_several(&self, c: f64, range: &RatioRange) -> f64 {
        let part = &self.law.parts[range.part];
        self.log_moment(1.0 + c, |lambda| {
            let one = self.relative(part, range.ends, lambda)?;
            Some(sum(one, self.some(range.ends.1, Some(range.part), lambda)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::bins::Bins;
    use crate::special::normal::log_upper_tail;

    /// Two batches, whose moments with one and with two large ratios are sums over both normal variables: the bounds are at most a Gaussian factor larger.
    #[test]
    fn moments_with_several_large_ratios_are_bounded() {
        let (v, a) = (0.25f64, 1.5);
        for (w, ends) in [(12.0, (2.0, 2.4)), (40.0, (2.5, 2.6)), (6.0, (3.0, 3.5))] {
            let many = ManyLarge::new(TruncatedLaw::up_to(&Bins::new(&[(2, v)]).unwrap(), a).unwrap());
            let range = RatioRange {
                lowest: 0.0,
                log_mass: 0.0,
                part: 0,
                ends,
            };
            let moment = |first: (f64, f64), second: (f64, f64)| {
                let points = |(low, high): (f64, f64)| {
                    let step = (high - low) / 800.0;
                    (0..800).map(move |i| low + (f64::from(i) + 0.5) * step).map(move |g| {
                        let density = (-0.5 * g * g).exp() / std::f64::consts::TAU.sqrt();
                        ((v.sqrt() * g - 0.5 * v).exp(), density * step)
                    })
                };
                let row = |(y, p): (f64, f64)| -> f64 {
                    points(second).map(|(z, q)| p * q * (0.5 * (y + z)).powf(w)).sum()
                };
                points(first).map(row).sum::<f64>()
            };
            let (low, up) = ((-9.0, a), (a, ends.1));
            // Of two in the range both may be the largest.
            let both = moment(ends, ends);
            for (found, exact) in [
                (many.log_some(w - 1.0, ends.1), 2.0 * moment(low, up) + moment(up, up)),
                (many.log_one(w - 1.0, &range), 2.0 * moment(low, ends)),
                (many.log_several(w - 1.0, &range), 2.0 * moment(up, ends) - both),
            ] {
                assert!(found >= exact.ln(), "{w} {ends:?}: {found} {}", exact.ln());
                assert!(found < exact.ln() + 2.2, "{w} {ends:?}: {found} {}", exact.ln());
            }
        }
    }

    /// Without a tilt that matters the bounds are those on probabilities.
    #[test]
    fn numbers_of_large_ratios_are_bounded() {
        let (batches, v, a) = (4000u64, 0.5f64, 3.2);
        let many = ManyLarge::new(TruncatedLaw::up_to(&Bins::new(&[(batches, v)]).unwrap(), a).unwrap());
        let high = 5.0;
        let found = many.some(high, None, 1e-9).unwrap().log;
        let mass = log_upper_tail(a).exp() - log_upper_tail(high).exp();
        let below = 1.0 - log_upper_tail(a).exp();
        let exact = (batches as f64 * (mass / below).ln_1p()).exp_m1().ln();
        assert!(exact <= found && found < exact + 1e-6, "{found} {exact}");
        assert_eq!(many.log_some(3.0, a), f64::NEG_INFINITY);
    }
}
