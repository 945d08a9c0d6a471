//! The posterior law of the shift at a point of the output, by which the likelihood ratio is continued to
//! complex arguments.

use crate::loss::MixturePair;
use crate::loss::mixture_pair::{NEGLIGIBLE_TERM, Window};
use crate::special::vector;

/// After this many terms a product of ratios starts again from exponentials, which bounds its rounding error: besides that of the term with
/// which it starts, n times that of the first ratio, whose exponent is the distance from a crossing, and n²/2 units in the last place for n
/// factors of n roundings.
const ANCHOR: usize = 16;

/// Terms w_j N(s_j)/N(0) at one point, divided by their sum: the posterior law of the shift given the output.
#[derive(Debug, Default)]
pub(crate) struct Posterior {
    /// Index of the first atom in `terms`; those left out are negligible (below e^-50 of the largest).
    pub start: usize,
    /// Probabilities of the atoms from `start` on.
    pub terms: Vec<f64>,
    /// log of the likelihood ratio r.
    pub log_ratio: f64,
    /// log of the mixture's density but for 1/(σ√2π).
    pub log_density: f64,
    /// Mean of the law; the slope of the log ratio is this over σ².
    pub mean_shift: f64,
}

impl Posterior {
    /// Fills in the law of `pair` at x.
    pub(crate) fn at(&mut self, pair: &MixturePair, x: f64) {
        let (window, log_sum) = self.fill(pair, x);
        let distance = (x - pair.shifts[window.mode]) / pair.noise_multiplier;
        self.log_density = pair.log_weights[window.mode] - 0.5 * distance * distance + log_sum;
        self.log_ratio = pair.refined(x, (window.start, window.end), window.largest + log_sum);
    }

    /// Fills in the probabilities of the shifts and their mean, but not the densities. The second result is the log of the sum of all
    /// terms over the largest.
    pub(crate) fn fill(&mut self, pair: &MixturePair, x: f64) -> (Window, f64) {
        let window = match &pair.bends {
            Some(bends) if pair.is_unimodal() && !pair.has_few_atoms() => {
                fill_by_ratios((pair, bends), x, &mut self.terms)
            }
            _ => pair.terms_at(x, &mut self.terms),
        };
        self.start = window.start;
        let sum = vector::sum(&self.terms);
        let scale = 1.0 / sum;
        for term in &mut self.terms {
            *term *= scale;
        }
        self.mean_shift = vector::dot(&self.terms, &pair.shifts[window.start..window.end]);
        (window, sum.ln())
    }

    /// Largest distance of a significant shift from x, in σ.
    pub(crate) fn farthest(&self, pair: &MixturePair, x: f64) -> f64 {
        let last = self.start + self.terms.len() - 1;
        let distance = (x - pair.shifts[self.start]).abs().max((x - pair.shifts[last]).abs());
        distance / pair.noise_multiplier
    }
}

/// Evenly spaced shifts: neighbouring terms have a ratio that changes by a constant factor from one to the next. From the mode on they are
/// found in both directions, until they are negligible.
fn fill_by_ratios((pair, bends): (&MixturePair, &[f64]), x: f64, terms: &mut Vec<f64>) -> Window {
    terms.clear();
    let mode = pair.mode(x);
    let largest = pair.term(mode, x);
    // log of the term after atom j over that of atom j.
    let scale = (pair.shifts[1] - pair.shifts[0]) / (pair.noise_multiplier * pair.noise_multiplier);
    let rise = |j: usize| scale * (x - pair.crossings[j]);
    let below = (|n: usize| pair.term(mode - n, x), |n: usize| -rise(mode - n));
    outwards(mode, below, |n| bends[mode - n], terms);
    let start = mode - terms.len();
    terms.reverse();
    terms.push(1.0);
    let above = pair.shifts.len() - 1 - mode;
    let beyond = (|n: usize| pair.term(mode + n, x), |n: usize| rise(mode + n - 1));
    outwards(above, beyond, |n| bends[mode + n - 2], terms);
    Window {
        start,
        end: start + terms.len(),
        mode,
        largest,
    }
}

/// The terms on one side of the mode, over the largest one, until they are negligible: `count` of them at most, of which number n has the
/// logarithm `log_term(n)`, and a ratio to the one before that has the logarithm `log_ratio(n)` and is `bend(n)` times the last such ratio.
///
/// Products start again from exponentials every [`ANCHOR`] terms.
#[inline(always)]
fn outwards(
    count: usize,
    (log_term, log_ratio): (impl Fn(usize) -> f64, impl Fn(usize) -> f64),
    bend: impl Fn(usize) -> f64,
    terms: &mut Vec<f64>,
) {
    let largest = log_term(0);
    let mut first = 1;
    while first <= count {
        // A difference of the logarithms of two terms would have the rounding of both.
        let mut ratio = log_ratio(first).exp();
        let mut term = if first == 1 {
            ratio
        } else {
            (log_term(first) - largest).exp()
        };
        let mut block = [0.0; ANCHOR];
        let most = ANCHOR.min(count + 1 - first);
        let mut found = 0;
        while term >= NEGLIGIBLE_TERM {
            block[found] = term;
            found += 1;
            if found == most {
                break;
            }
            ratio *= bend(first + found);
            term *= ratio;
        }
        terms.extend_from_slice(&block[..found]);
        if found < most {
            return;
        }
        first += most;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;

    #[test]
    fn products_of_ratios_are_the_terms() {
        let pair = MixturePair::new(&GroupLaw::binomial(300, 0.2).unwrap(), 7.0).unwrap();
        let mut posterior = Posterior::default();
        for x in [-20.0, 3.0, 60.0, 170.5, 400.0] {
            posterior.at(&pair, x);
            let log_ratio = pair.log_ratio(x);
            assert!((posterior.log_ratio - log_ratio).abs() < 1e-13 * log_ratio.abs().max(1.0));
            for (i, term) in posterior.terms.iter().enumerate() {
                let direct = (pair.term(posterior.start + i, x) - log_ratio).exp();
                // The exponents are of order 1000: so many roundings more in the direct form.
                assert!((term / direct - 1.0).abs() < 1e-11, "{x} {i}: {term} {direct}");
            }
        }
    }

    /// Exponents are of order 2500 here, with roundings of 5e-13, but ratios of neighbouring terms are next to 1: over a block, the terms have the
    /// ratio Π (N − i)/(i + 1)·e^{(x − i − 1/2)/σ²} to a few roundings of the logarithms of weights, which are of order 20.
    #[test]
    fn ratios_of_terms_do_not_round_like_exponents() {
        let (count, x, sigma) = (10_000.0, 5000.0, 100.0);
        let pair = MixturePair::new(&GroupLaw::binomial(10_000, 0.5).unwrap(), sigma).unwrap();
        let mut posterior = Posterior::default();
        posterior.at(&pair, x);
        let mode = pair.mode(x);
        for block in 1..12 {
            let first = mode + 1 + block * ANCHOR;
            let terms = [first, first + ANCHOR - 1].map(|atom| posterior.terms[atom - posterior.start]);
            let exponent = |atom: usize| {
                let shift = pair.shifts[atom];
                ((count - shift) / (shift + 1.0)).ln() + (x - shift - 0.5) / (sigma * sigma)
            };
            let exact: f64 = (first..first + ANCHOR - 1).map(exponent).sum();
            let off = (terms[1] / terms[0]).ln() - exact;
            assert!(off.abs() < 2e-13, "{block}: {off:e}");
        }
    }
}
