//! The posterior law of the shift at a point of the output, by which the likelihood ratio is continued to
//! complex arguments.

use crate::loss::MixturePair;
use crate::loss::mixture_pair::{NEGLIGIBLE_TERM, Window};

/// After this many terms a product of ratios starts again from an exponential, which bounds its rounding error:
/// n factors of a factor of n roundings, 16²/2 units in the last place.
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
        self.log_ratio = pair.refined(x, &window, window.largest + log_sum);
    }

    /// Fills in the probabilities of the shifts and their mean, but not the densities. The second result is the log of the sum of all
    /// terms over the largest.
    pub(crate) fn fill(&mut self, pair: &MixturePair, x: f64) -> (Window, f64) {
        self.terms.clear();
        let window = match &pair.bends {
            Some(bends) if pair.is_unimodal() => fill_by_ratios((pair, bends), x, &mut self.terms),
            _ => {
                let window = pair.window(x);
                let over_largest = |j: usize| {
                    if j == window.mode {
                        1.0
                    } else {
                        (pair.term(j, x) - window.largest).exp()
                    }
                };
                self.terms.extend((window.start..window.end).map(over_largest));
                window
            }
        };
        self.start = window.start;
        let sum: f64 = self.terms.iter().sum();
        let scale = 1.0 / sum;
        let mut mean = 0.0;
        for (term, shift) in self.terms.iter_mut().zip(&pair.shifts[window.start..]) {
            *term *= scale;
            mean += *term * shift;
        }
        self.mean_shift = mean;
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
    let mode = pair.mode(x);
    let largest = pair.term(mode, x);
    outwards(mode, |n| pair.term(mode - n, x), |n| bends[mode - n], terms);
    let start = mode - terms.len();
    terms.reverse();
    terms.push(1.0);
    let above = pair.shifts.len() - 1 - mode;
    outwards(above, |n| pair.term(mode + n, x), |n| bends[mode + n - 2], terms);
    Window {
        start,
        end: start + terms.len(),
        mode,
        largest,
    }
}

/// The terms on one side of the mode, over the largest one, until they are negligible: `count` of them at most, of which number n has the
/// logarithm `log_term(n)`, and a ratio to the one before that is `bend(n)` times the last such ratio.
///
/// Products start again from exponentials every [`ANCHOR`] terms.
#[inline(always)]
fn outwards(count: usize, log_term: impl Fn(usize) -> f64, bend: impl Fn(usize) -> f64, terms: &mut Vec<f64>) {
    let largest = log_term(0);
    let mut first = 1;
    while first <= count {
        let log_first = log_term(first);
        let mut term = (log_first - largest).exp();
        let mut ratio = if first == 1 {
            term
        } else {
            (log_first - log_term(first - 1)).exp()
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
}
