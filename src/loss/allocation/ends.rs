//! How far out the normal variables of batches are kept: the ends b of truncated laws.

use crate::loss::allocation::bins::{Bins, Part};
use crate::loss::allocation::on_line::batch::Batch;
use crate::loss::allocation::tilting::tilting_of;
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;

/// −log of the density at a far b, under the tilt and over its largest value: what is aimed at, and the least that is taken. With less
/// the transform falls too slowly from there on.
const LEVEL_BEYOND: f64 = 45.0;
const LEAST_LEVEL_BEYOND: f64 = 42.0;
/// −log of the part of δ that is left out, about.
const ABOVE_MASS: f64 = 15.0;
/// The tilts that are looked at over that of δ.
const LARGER_TILT: f64 = 1.2;
/// The least tilt over that of a Gaussian loss: where large Y count, the first is too small.
const LEAST_TILT: f64 = 0.75;
/// How much farther b is where that tilt is found.
const FARTHER: f64 = 3.0;
/// The farthest b, and the step in which it is found.
const FARTHEST: f64 = 60.0;
const STEP: f64 = 0.25;
/// Steps in which λ is found: to a thousandth.
const TILT_ROUNDS: usize = 30;
/// Halvings of the interval in which b is found: to 1e-9 of its length.
const HALVINGS: usize = 30;

/// log of bounds on what is left out of P and of Q where all normal variables are at most b.
///
/// Under Q each of them is standard normal, under P that of the batch with the record has the mean √v.
pub(crate) fn log_left_out(bins: &Bins, end: f64) -> (f64, f64) {
    let (mut p, mut q) = (LogSum::default(), LogSum::default());
    for part in &bins.parts {
        let log = part.count.ln() + log_upper_tail(end);
        q.add(log);
        p.add(log);
        p.add((part.count / bins.total).ln() + log_upper_tail(end - part.variance.sqrt()));
    }
    // Roundings of the sum, and of the logarithm of a tail.
    let rounding = 1e-12 + 4e-15 * end * end;
    (p.ln() + rounding, q.ln() + rounding)
}

/// The largest Y where the normal variable is at most b.
pub(crate) fn largest(variance: f64, end: f64) -> f64 {
    (variance.sqrt() * end - 0.5 * variance).exp()
}

/// b for which P has what is left out with a probability of at most e^`log_mass`.
pub(crate) fn least_end(bins: &Bins, log_mass: f64) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    while log_left_out(bins, high).0 > log_mass {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if log_left_out(bins, middle).0 > log_mass {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// λ for which W, with g at most `end`, is above its mean under the law tilted by e^{λW} with a probability of about e^−`level`;
/// `None` where the noise is too little for a rule.
fn tilt_of(bins: &Bins, end: f64, level: f64) -> Option<f64> {
    let exponent = |lambda: f64| -> Option<f64> {
        let of = |part: &Part| {
            let batch = Batch::between(part.variance, (f64::NEG_INFINITY, end));
            let at = tilting_of(&batch, lambda, bins.total)?;
            Some(part.count * (lambda * at.first - at.log))
        };
        bins.parts.iter().map(of).sum()
    };
    let (mut low, mut high, mut lambda) = (0.0, f64::INFINITY, 1.0);
    for _ in 0..TILT_ROUNDS {
        if exponent(lambda).is_none_or(|exponent| exponent > level) {
            high = lambda;
        } else {
            low = lambda;
        }
        lambda = if high.is_finite() {
            0.5 * (low + high)
        } else {
            4.0 * low
        };
    }
    Some(lambda)
}

/// A larger b, where outputs beyond it hardly count under the tilts that δ of e^`log_mass` takes after so many `steps` either: moments are then
/// nearly those of the whole law. `None` where they would count.
///
/// A loss that all steps reach together with a probability of e^−x is one that each of them reaches with about e^−x/`steps`.
pub(crate) fn far_end(bins: &Bins, log_mass: f64, steps: f64) -> Option<f64> {
    let least = least_end(bins, log_mass);
    let variance = bins.widest();
    let square: f64 = bins.parts.iter().map(|part| part.count * part.variance.exp_m1()).sum();
    // A Gaussian loss of this spread takes the tilt √(−2·log_mass)/spread.
    let gaussian = bins.total * (-2.0 * log_mass / (steps * square)).sqrt();
    let lambda = LARGER_TILT * tilt_of(bins, least + FARTHER, (-log_mass - ABOVE_MASS) / steps)?;
    let lambda = lambda.max(LEAST_TILT * gaussian);
    let log_density = |g: f64| lambda / bins.total * (largest(variance, g) - 1.0) - 0.5 * g * g;
    let (mut g, mut peak) = (0.0, 0.0f64);
    let mut best: Option<(f64, f64)> = None;
    while g < FARTHEST {
        g += STEP;
        let log = log_density(g);
        if g < least {
            peak = peak.max(log);
            continue;
        }
        if best.is_some_and(|(_, lowest)| log >= lowest) {
            break;
        }
        best = Some((g, log));
        if log < peak - LEVEL_BEYOND {
            break;
        }
    }
    best.filter(|(_, log)| *log < peak - LEAST_LEVEL_BEYOND)
        .map(|(end, _)| end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Few batches and much noise: b is far, nothing that counts is left out, and moments of high orders are those of Gaussian losses but for
    /// their skewness. With little noise there is no such b.
    #[test]
    fn a_far_end_is_found_where_no_output_beyond_it_counts() {
        for (t, v, log_mass) in [(10u64, 0.0025f64, -28.0), (4, 1e-4, -60.0), (100, 0.04, -28.0)] {
            let bins = Bins::new(&[(t, v)]).unwrap();
            let end = far_end(&bins, log_mass, 1.0).unwrap();
            assert!(log_left_out(&bins, end).0 <= log_mass && end >= least_end(&bins, log_mass));
            let spread = (v.exp_m1() / t as f64).sqrt();
            let lambda = 0.75 * (-2.0 * log_mass).sqrt() / spread;
            let log = |g: f64| lambda / t as f64 * (largest(v, g) - 1.0) - 0.5 * g * g;
            assert!(log(end) < -LEAST_LEVEL_BEYOND, "{t} {v}");
        }
        // Three steps take a smaller tilt each than one that has all of the loss.
        let bins = Bins::new(&[(3, 0.00228)]).unwrap();
        assert!(far_end(&bins, -193.0, 1.0).is_none() && far_end(&bins, -193.0, 3.0).is_some());
        assert!(far_end(&Bins::new(&[(10, 1.0)]).unwrap(), -28.0, 1.0).is_none());
        assert!(far_end(&Bins::new(&[(1000, 1.0)]).unwrap(), -60.0, 1.0).is_none());
    }

    /// The tilt at which W is so rare: for much noise that of a Gaussian variable.
    #[test]
    fn the_tilt_of_a_probability_is_that_of_a_gaussian_variable() {
        let bins = Bins::new(&[(1000, 1e-4)]).unwrap();
        let found = tilt_of(&bins, 12.0, 32.0).unwrap();
        let gaussian = 8.0 / (1e-4f64.exp_m1() / 1000.0).sqrt();
        assert!((found / gaussian - 1.0).abs() < 1e-2, "{found} {gaussian}");
    }
}
