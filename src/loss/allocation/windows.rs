//! How far the modulus of the characteristic function f of one tilted likelihood ratio is below 1, from ranges in which it lies with some probability.
//!
//! Let Δ be the difference of two independent copies: 1 − |f(τ)|² = E[1 − cos τΔ].
//!
//! **Windows.** Both copies are at most R with the probability p², and |Δ| ≤ R then. For τR ≤ π, 1 − cos τΔ ≥ (1 − cos τR)·Δ²/R² there, as (1 − cos x)/x²
//! falls up to π. So 1 − |f(τ)|² ≥ 2(1 − cos τR)/R²·p²·Var(Y | Y ≤ R), which grows with τ.
//!
//! **Total variation** V of the density: |f(τ)| ≤ V/τ, and 1 − |f(τ)|² ≥ 0.16·τ²/V² for τ ≤ √5·V ([`crate::loss::allocation::modulus`]).
//!
//! Each of the two grows with τ as far as it holds. Their maximum has its least value from τ on at τ, or where one of them ends.

use crate::loss::allocation::log_normal::LogNormal;
use std::f64::consts::PI;

/// The factor of τ²/V², and up to which square of τ/V it serves.
pub(super) const CURVATURE: f64 = 0.16;
pub(super) const SMALL_SQUARE: f64 = 5.0;

/// Ranges of Y that are looked at, from its median both ways, and the step of its normal variable between them.
const WINDOWS: i32 = 16;
const WINDOW_STEP: f64 = 0.25;

/// A range of Y from its least value on, and a lower bound on p²·Var(Y | Y in it).
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) length: f64,
    pub(super) spread: f64,
}

/// Ranges [0, R] up to the limit `largest` of Y without a tilt, in closed form: the spread is half of E[Δ²; both are at most R].
pub(super) fn of_log_normal(variance: f64, largest: f64) -> impl Iterator<Item = Window> {
    let law = LogNormal::new(variance);
    let lengths = (-WINDOWS..=WINDOWS).map(move |i| (variance.sqrt() * WINDOW_STEP * f64::from(i)).exp());
    lengths.filter(move |length| *length <= largest).map(move |length| {
        let (tails, square) = (law.below(length), law.square_below(length));
        let spread = tails.mass.lower * square.lower - tails.mean.upper.powi(2);
        Window {
            length,
            spread: (spread * (1.0 - 1e-12)).max(0.0),
        }
    })
}

/// The bounds for one batch.
#[derive(Debug, Clone)]
pub(super) struct Windows {
    variation: f64,
    /// By falling length.
    windows: Vec<Window>,
    /// The frequencies where windows end, ascending, with the least bound on 1 − |f|² from there on.
    ends: Vec<(f64, f64)>,
}

impl Windows {
    /// With the total variation of the density of Y.
    pub(super) fn new(mut windows: Vec<Window>, variation: f64) -> Self {
        windows.sort_by(|a, b| b.length.total_cmp(&a.length));
        let mut found = Self {
            variation,
            windows,
            ends: Vec::new(),
        };
        let mut least = 1.0f64;
        for i in (0..found.windows.len()).rev() {
            let end = PI / found.windows[i].length;
            least = least.min(found.loss(end, i + 1));
            found.ends.push((end, least));
        }
        found.ends.reverse();
        found
    }

    /// A lower bound on 1 − |f(τ)|², by the windows from the `first` on.
    fn loss(&self, tau: f64, first: usize) -> f64 {
        let square = (tau / self.variation).powi(2);
        let by_variation = if square <= SMALL_SQUARE {
            CURVATURE * square
        } else {
            1.0 - 1.0 / square - 4.0 * f64::EPSILON
        };
        let of = |&Window { length, spread }: &Window| {
            let turn = tau * length;
            if turn < PI {
                4.0 * spread * (0.5 * turn).sin().powi(2) / (length * length)
            } else {
                0.0
            }
        };
        self.windows[first..].iter().map(of).fold(by_variation, f64::max)
    }

    /// log of a bound on |f| from τ on.
    pub(super) fn log_from(&self, tau: f64) -> f64 {
        let next = self.ends.partition_point(|(end, _)| *end <= tau);
        let beyond = self.ends.get(next).map_or(1.0, |(_, least)| *least);
        0.5 * (-self.loss(tau, 0).min(beyond).min(1.0)).ln_1p()
    }

    /// The frequency where the last window ends.
    pub(super) fn last_end(&self) -> f64 {
        self.ends.last().map_or(0.0, |(end, _)| *end)
    }

    /// The largest lower bound on the variance of Y.
    pub(super) fn spread(&self) -> f64 {
        self.windows.iter().fold(0.0, |most, window| window.spread.max(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A uniform law on [0, 1] has the variance 1/12 and the total variation 2: 1 − |f(τ)|² is 1 − (2·sin(τ/2)/τ)².
    fn uniform() -> Windows {
        let window = Window {
            length: 1.0,
            spread: 1.0 / 12.0,
        };
        Windows::new(vec![window], 2.0)
    }

    #[test]
    fn a_uniform_law_falls_as_bounded() {
        let windows = uniform();
        for tau in [0.01f64, 0.5, 1.5, 3.0, 3.2, 5.0, 30.0] {
            let exact = (2.0 * (0.5 * tau).sin() / tau).abs().ln();
            assert!(exact <= windows.log_from(tau) + 1e-12, "{tau}");
        }
        // Next to 0 the bound is the truth, so that it would not hold for more of the variance.
        let exact = (2.0 * 0.005f64.sin() / 0.01).ln();
        assert!((windows.log_from(0.01) / exact - 1.0).abs() < 1e-4);
    }

    /// Beyond the end of its window only the total variation is known, and before it no more than from there on.
    #[test]
    fn bounds_hold_from_a_frequency_on() {
        let windows = uniform();
        let mut before = 0.0;
        for i in 1..2000 {
            let here = windows.log_from(0.01 * f64::from(i));
            assert!(here <= before + 1e-15, "{i}");
            before = here;
        }
        assert!((windows.last_end() - PI).abs() < 1e-15 && windows.spread() == 1.0 / 12.0);
        // With a total variation that tells little, all that is known from any frequency on is what it tells at the end of the window.
        let little = Windows::new(windows.windows, 100.0);
        let beyond = 0.5 * (-CURVATURE * (0.01 * PI).powi(2)).ln_1p();
        for tau in [1.0, 0.99 * PI] {
            assert!((little.log_from(tau) - beyond).abs() < 1e-12, "{tau}");
        }
    }

    /// The whole range has the variance e^v − 1 of Y, and smaller ones less.
    #[test]
    fn ranges_of_a_log_normal_law_have_its_variance() {
        for v in [0.01f64, 0.5, 2.0] {
            let windows: Vec<Window> = of_log_normal(v, f64::INFINITY).collect();
            let widest = windows.iter().fold(0.0f64, |most, window| window.spread.max(most));
            let exact = v.exp_m1();
            assert!(widest <= exact && widest > 0.8 * exact, "{v}: {widest} {exact}");
            assert!(of_log_normal(v, 1.0).all(|window| window.length <= 1.0 && window.spread < 0.5 * exact));
        }
    }
}
