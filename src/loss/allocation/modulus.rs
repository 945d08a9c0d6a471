//! How E[e^{(λ + iτ)W}] of a truncated law decays in τ.
//!
//! It is a product over the batches. For one batch let f be the characteristic function of Y/t under the law tilted by e^{λY/t}, of which there
//! are two bounds.
//!
//! **By the total variation** V of its density: |f(τ)| ≤ V/τ. For g = |f|², which is a characteristic function too,
//! 1 − g(2τ) ≤ 4(1 − g(τ)), as 1 − cos 2x ≤ 4(1 − cos x). So 1 − g(τ) ≥ (τ/x)²(1 − V²/x²) for the x = 2^mτ in [X, 2X], X = √1.25·V: the
//! smallest value in that interval is at both of its ends, 0.16·τ²/V². Hence |f(τ)|² ≤ 1 − 0.16·τ²/V² for τ ≤ √5·V.
//!
//! **By windows** ([`crate::loss::allocation::windows`]), which know the variance of Y/t, so that the product over many batches falls like the transform of a normal law. As
//! users need a bound that falls at least like 1/τ, it is not the product d(τ) itself, which may be constant for a while, but sup_{τ' ≥ τ} d(τ')·τ'/τ.
//!
//! **By turning** ([`crate::loss::allocation::turned`]), which matters where batches are few, so that a power of V/τ falls slowly.

use crate::loss::allocation::truncated_law::{TruncatedLaw, TruncatedPart};
use crate::loss::allocation::turned::{self, Turned};
use crate::loss::allocation::windows::{CURVATURE, SMALL_SQUARE, Window, Windows};
use std::f64::consts::TAU;

/// Chords of L between 0 and λ. With half as many the bound for two batches with noise multiplier 8 is up to 0.7 larger where it matters.
const CHORDS: usize = 16;

/// Batches up to which the bound by turning is always looked at: of more the other two are nearly always as good, and it takes a fifth of the time of a line.
const MOST_TURNED: f64 = 300.0;

/// Frequencies at which windows are looked at: from this one over the standard deviation of W in steps of a factor.
const FIRST_FREQUENCY: f64 = 0.5;
const FREQUENCY_FACTOR: f64 = 1.1;
const MOST_FREQUENCIES: usize = 120;

/// Bounds on the moduli of the transforms of all batches.
#[derive(Debug, Clone)]
pub(crate) struct Modulus {
    parts: Vec<PartModulus>,
    /// (τ, log d(τ), log sup d(τ')·τ' over what follows), ascending.
    by_windows: Vec<(f64, f64, f64)>,
}

/// The bounds for batches that are alike.
#[derive(Debug, Clone)]
struct PartModulus {
    /// How many batches there are.
    count: f64,
    /// V.
    variation: f64,
    turned: Option<Turned>,
}

impl Modulus {
    /// For the law tilted by e^{λW}; `None` where the series have too many terms.
    pub(crate) fn new(law: &TruncatedLaw, lambda: f64) -> Option<Self> {
        let of = |part: &TruncatedPart| {
            let log = part.tilting(lambda)?.log;
            let variation = part.total_variation(lambda, law.total, log);
            Some(PartModulus {
                count: part.count,
                variation,
                turned: None,
            })
        };
        let parts: Vec<PartModulus> = law.parts.iter().map(of).collect::<Option<_>>()?;
        let windows = |(part, modulus): (&TruncatedPart, &PartModulus)| {
            // The tilt changes each density by a factor of at least 1/E[e^{λY/t}].
            let factor = (-2.0 * part.tilting(lambda)?.log).exp() * (1.0 - 1e-9) / law.total.powi(2);
            let scaled = |window: &Window| Window {
                length: window.length / law.total,
                spread: window.spread * factor,
            };
            let windows = part.windows.iter().map(scaled).collect();
            Some((part.count, Windows::new(windows, modulus.variation)))
        };
        let windows: Vec<(f64, Windows)> = law.parts.iter().zip(&parts).map(windows).collect::<Option<_>>()?;
        let mut modulus = Self {
            parts,
            by_windows: Vec::new(),
        };
        if law.parts.iter().any(|part| part.count <= MOST_TURNED) {
            modulus.turn(law, lambda);
        }
        modulus.by_windows = modulus.table(&windows);
        Some(modulus)
    }

    /// Adds the bounds by turning.
    pub(super) fn turn(&mut self, law: &TruncatedLaw, lambda: f64) {
        for (part, modulus) in law.parts.iter().zip(&mut self.parts) {
            if modulus.turned.is_none() {
                let batch = turned_batch(part, (lambda, law.total));
                modulus.turned = batch.and_then(|batch| Turned::new(&batch, modulus.variation));
            }
        }
    }

    /// The bounds by windows.
    fn table(&self, windows: &[(f64, Windows)]) -> Vec<(f64, f64, f64)> {
        let square: f64 = windows.iter().map(|(count, one)| count * one.spread()).sum();
        let last = windows.iter().fold(0.0, |last, (_, one)| one.last_end().max(last));
        let mut tau = FIRST_FREQUENCY / square.sqrt();
        let mut found = Vec::new();
        while found.len() < MOST_FREQUENCIES && tau < last {
            let log: f64 = windows.iter().map(|(count, one)| count * one.log_from(tau)).sum();
            found.push((tau, log, 0.0));
            tau *= FREQUENCY_FACTOR;
        }
        let Some(&(end, _, _)) = found.last() else {
            return found;
        };
        // From the last frequency on the other bounds, which fall at least like 1/τ where they are below −1/2.
        let beyond = self.by_parts(end);
        if beyond > -0.5 {
            return Vec::new();
        }
        let mut most = beyond + end.ln();
        for i in (0..found.len()).rev() {
            found[i].2 = most;
            most = most.max(found[i].1 + (found[i].0 * FREQUENCY_FACTOR).ln());
        }
        found
    }

    /// log of the product of the bounds on single batches.
    fn by_parts(&self, tau: f64) -> f64 {
        self.parts.iter().map(|part| part.count * part.log_of_one(tau)).sum()
    }

    /// log of a bound on |E[e^{(λ + iτ)W}]|/E[e^{λW}], which decreases in τ ≥ 0; where it is below −1/2, it falls at least like 1/τ.
    pub(crate) fn log(&self, tau: f64) -> f64 {
        let by_parts = self.by_parts(tau);
        let next = self.by_windows.partition_point(|(from, _, _)| *from <= tau);
        if next == 0 || next == self.by_windows.len() {
            return by_parts;
        }
        let (from, log, beyond) = self.by_windows[next - 1];
        // Up to the next frequency the bound is that at `from`, and τ' at most that frequency.
        let here = log + (from * FREQUENCY_FACTOR / tau).ln();
        by_parts.min(here.max(beyond - tau.ln()) + 1e-12)
    }
}

/// What is turned of a batch tilted by e^{λY/t}.
pub(super) fn turned_batch(part: &TruncatedPart, (lambda, total): (f64, f64)) -> Option<turned::Batch> {
    let at = |i: usize| Some(part.tilting(lambda * i as f64 / CHORDS as f64)?.log);
    Some(turned::Batch {
        lambda,
        total,
        variance: part.variance,
        logs: (0..=CHORDS).map(at).collect::<Option<_>>()?,
        largest: part.largest,
        log_density_at_end: -0.5 * part.end * part.end - 0.5 * TAU.ln(),
    })
}

impl PartModulus {
    /// For one batch. Its logarithmic derivative is at least twice its logarithm, or 1.
    fn log_of_one(&self, tau: f64) -> f64 {
        let x = tau / self.variation;
        let by_variation = if x * x <= SMALL_SQUARE {
            0.5 * (-CURVATURE * x * x).ln_1p()
        } else {
            -x.ln()
        };
        self.turned
            .as_ref()
            .map_or(by_variation, |turned| by_variation.min(turned.log(tau)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::bins::Bins;

    /// The bound holds, and for little noise in Y six times its exponent would not.
    #[test]
    fn transforms_decay_as_bounded() {
        for (batches, v, lambda) in [(1, 0.25f64, 0.1f64), (10, 0.04, 3.0), (1000, 1.0, 5.0)] {
            let law = TruncatedLaw::new(&Bins::new(&[(batches, v)]).unwrap(), -30.0, f64::INFINITY).unwrap();
            let modulus = Modulus::new(&law, lambda).unwrap();
            let mut closest = f64::INFINITY;
            for i in 1..60 {
                let tau = 0.02 * f64::from(i) * modulus.parts[0].variation;
                let (found, _) = law.on_line(lambda, tau, 1).unwrap().points[1];
                if found.error > 1e-6 {
                    break;
                }
                let exact = found.value.re;
                let bound = modulus.log(tau);
                assert!(exact <= bound + 1e-6, "{batches} {v} {tau}: {exact} {bound}");
                closest = closest.min(exact / bound);
            }
            assert!(closest < 6.0 || v != 0.04, "{batches} {v}: {closest}");
        }
    }

    /// The transform of many batches falls like that of a normal law with their variance, and the bound has at least 0.6 of its exponent, so that with twice the
    /// exponent it would not hold. It falls at least like 1/τ.
    #[test]
    fn many_batches_fall_by_their_variance() {
        let (batches, v, lambda) = (3000, 0.64f64, 20.0);
        let law = TruncatedLaw::new(&Bins::new(&[(batches, v)]).unwrap(), -40.0, f64::INFINITY).unwrap();
        let modulus = Modulus::new(&law, lambda).unwrap();
        let spread = (v.exp_m1() / batches as f64).sqrt();
        let mut before = (1.0, 0.0);
        for i in 1..400 {
            let tau = 0.05 * f64::from(i) / spread;
            let bound = modulus.log(tau);
            if before.1 < -0.5 {
                assert!(
                    bound <= before.1 - (tau / before.0).ln() + 1e-9,
                    "{tau}: {bound} {before:?}"
                );
            }
            before = (tau, bound);
            let normal = -0.5 * (tau * spread).powi(2);
            if normal > -18.0 && normal < -0.5 {
                let (found, log_most) = law.on_line(lambda, tau, 1).unwrap().points[1];
                assert!(found.value.re <= bound + found.error, "{tau}");
                assert!(found.value.re <= log_most + found.error, "{tau}");
                assert!(bound < 0.6 * normal, "{tau}: {bound} {normal}");
            }
        }
    }

    /// A uniform law on an interval of length 1 has the total variation 2: its |f|² is 1 − τ²/12 + …, the bound 1 − τ²/25.
    #[test]
    fn the_bound_on_one_batch_is_continuous_and_not_generous() {
        let modulus = PartModulus {
            count: 1.0,
            variation: 2.0,
            turned: None,
        };
        let root = 2.0 * 5f64.sqrt();
        assert!((modulus.log_of_one(root) - modulus.log_of_one(root * (1.0 + 1e-12))).abs() < 1e-10);
        for tau in [0.1f64, 1.0, 3.0, 6.0, 20.0] {
            let exact = (2.0 / tau * (0.5 * tau).sin()).abs().ln();
            assert!(exact <= modulus.log_of_one(tau) + 1e-12, "{tau}");
        }
        // With twice the curvature it would still hold near 0, with 2.1 times not.
        let exact = (2.0 / 0.1 * 0.05f64.sin()).ln();
        assert!(2.1 * modulus.log_of_one(0.1) < exact);
        // |f| ≤ V/τ is attained by half: 2·sin(τ/2)/τ at τ = π(2k + 1).
        let tau = 7.0 * std::f64::consts::PI;
        assert!(modulus.log_of_one(tau) - (2.0 / tau).ln() < 1e-12);
    }
}
