//! How |E[e^{(λ + iτ)S}]| falls as τ grows, for the sum S of the likelihood ratios Y of all batches.
//!
//! For one batch let f be the characteristic function of Y under the law tilted by e^{λY}, and Δ the difference of two independent copies:
//! 1 − |f(τ)|² = E[1 − cos τΔ].
//!
//! **Windows.** Both copies are at most R with the probability p², and |Δ| ≤ R then. For τR ≤ π, 1 − cos τΔ ≥ (1 − cos τR)·Δ²/R² there, as (1 − cos x)/x²
//! falls up to π. So 1 − |f(τ)|² ≥ 2(1 − cos τR)/R²·p²·Var(Y | Y ≤ R), which grows with τ.
//!
//! **Total variation** V of the density: |f(τ)| ≤ V/τ, and 1 − |f(τ)|² ≥ 0.16·τ²/V² for τ ≤ √5·V ([`crate::loss::allocation::modulus`]).
//!
//! **Turning** of the normal variable ([`crate::loss::allocation::turned`]), which is looked at where the others leave many points: |f| falls faster than any power.
//!
//! Each of the first two grows with τ as far as it holds. Their maximum has its least value from τ on at τ, or where one of them ends.

use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::on_line::batch::Tilted;
use crate::loss::allocation::turned::Turned;
use std::f64::consts::PI;

/// The factor of τ²/V², and up to which square of τ/V it serves.
const CURVATURE: f64 = 0.16;
const SMALL_SQUARE: f64 = 5.0;

/// Ranges of Y that are looked at, from its median both ways, and the step of its normal variable between them.
const WINDOWS: i32 = 16;
const WINDOW_STEP: f64 = 0.25;

/// Bounds on the moduli of the transforms of all batches.
#[derive(Debug)]
pub(super) struct Modulus {
    parts: Vec<PartModulus>,
}

/// The bounds for batches that are alike.
#[derive(Debug)]
struct PartModulus {
    count: f64,
    variation: f64,
    /// R, and twice the probability squared times the variance, by falling R.
    windows: Vec<(f64, f64)>,
    /// The frequencies where windows end, ascending, with the least bound on 1 − |f|² from there on.
    ends: Vec<(f64, f64)>,
    turned: Option<Turned>,
}

impl Modulus {
    pub(super) fn new(batches: &[(f64, Tilted)]) -> Self {
        let parts = batches.iter().map(|(count, batch)| PartModulus::new(*count, batch));
        Self { parts: parts.collect() }
    }

    /// Looks at turned variables too.
    pub(super) fn turn(&mut self, batches: &[(f64, Tilted)]) {
        for (part, (_, batch)) in self.parts.iter_mut().zip(batches) {
            part.turned = batch.to_turn().and_then(|batch| Turned::new(&batch, part.variation));
        }
    }

    /// log of a bound on |E[e^{(λ + iτ)S}]|/E[e^{λS}] that holds for all larger τ too.
    pub(super) fn log(&self, tau: f64) -> f64 {
        self.parts.iter().map(|part| part.count * part.log_from(tau)).sum()
    }
}

/// Ranges [0, R] up to the limit of Y, and lower bounds on p²·Var(Y | Y ≤ R) in closed form: this is half of E[Δ²; both are at most R], and the tilt changes each density by a factor of
/// at least e^{min(λ, 0)·R}/E[e^{λY}].
fn untilted_windows(batch: &Tilted) -> impl Iterator<Item = (f64, f64)> {
    let law = LogNormal::new(batch.batch.variance);
    let (lambda, log_transform) = (batch.lambda, batch.log_transform.upper());
    let largest = batch.batch.largest();
    let lengths = (-WINDOWS..=WINDOWS).map(move |i| (law.deviation() * WINDOW_STEP * f64::from(i)).exp());
    lengths.filter(move |length| *length <= largest).map(move |length| {
        let (tails, square) = (law.below(length), law.square_below(length));
        let spread = tails.mass.lower * square.lower - tails.mean.upper.powi(2);
        let factor = (2.0 * (lambda.min(0.0) * length - log_transform)).exp();
        (length, (spread * factor * (1.0 - 1e-12)).max(0.0))
    })
}

impl PartModulus {
    fn new(count: f64, batch: &Tilted) -> Self {
        let mut windows: Vec<(f64, f64)> = batch
            .windows
            .iter()
            .map(|window| (window.length, window.spread))
            .collect();
        windows.extend(untilted_windows(batch));
        windows.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut part = Self {
            count,
            variation: batch.total_variation(),
            windows: windows.iter().map(|(length, spread)| (*length, 2.0 * spread)).collect(),
            ends: Vec::new(),
            turned: None,
        };
        let mut least = 1.0f64;
        for i in (0..part.windows.len()).rev() {
            let end = PI / part.windows[i].0;
            least = least.min(part.loss(end, i + 1));
            part.ends.push((end, least));
        }
        part.ends.reverse();
        part
    }

    /// A lower bound on 1 − |f(τ)|², by the windows from the `first` on.
    fn loss(&self, tau: f64, first: usize) -> f64 {
        let square = (tau / self.variation).powi(2);
        let by_variation = if square <= SMALL_SQUARE {
            CURVATURE * square
        } else {
            1.0 - 1.0 / square
        };
        let of = |&(length, spread): &(f64, f64)| {
            let turn = tau * length;
            if turn < PI {
                let versine = 2.0 * (0.5 * turn).sin().powi(2);
                spread * versine / (length * length)
            } else {
                0.0
            }
        };
        self.windows[first..].iter().map(of).fold(by_variation, f64::max)
    }

    /// log of a bound on |f| from τ on.
    fn log_from(&self, tau: f64) -> f64 {
        let next = self.ends.partition_point(|(end, _)| *end <= tau);
        let beyond = self.ends.get(next).map_or(1.0, |(_, least)| *least);
        let loss = self.loss(tau, 0).min(beyond);
        let log = 0.5 * (-loss.min(1.0)).ln_1p();
        self.turned.as_ref().map_or(log, |turned| log.min(turned.log(tau)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::on_line::batch::Batch;

    fn modulus(v: f64, lambda: f64, (largest, reach): (f64, f64), count: f64) -> (Vec<(f64, Tilted)>, Modulus) {
        let batches = vec![(count, Batch::new(v, largest).tilted(lambda, reach, -38.0).unwrap())];
        let modulus = Modulus::new(&batches);
        (batches, modulus)
    }

    /// The bound holds at all frequencies and falls, and next to 0 it is no less than half of the truth: with twice the spread it would not hold.
    #[test]
    fn transforms_fall_as_bounded() {
        for (v, lambda, largest, reach) in [
            (1.0, 0.02, 200.0, 4.0),
            (0.25, 0.4, 8.0, 20.0),
            (0.25, -3.0, 8.0, 40.0),
            (4.0, 1e-3, 2e3, 0.2),
            (1.0, -0.5, 2.0, 60.0),
        ] {
            let (batches, mut modulus) = modulus(v, lambda, (largest, reach), 1.0);
            for is_turned in [false, true] {
                if is_turned {
                    modulus.turn(&batches);
                }
                let last = 400;
                let spacing = reach / f64::from(last);
                let values = batches[0].1.values(spacing, last as usize);
                let mut before = 0.0;
                let mut closest = f64::INFINITY;
                for (k, value) in values.iter().enumerate().skip(1) {
                    let tau = spacing * k as f64;
                    let (bound, exact) = (modulus.log(tau), value.log.value.re);
                    assert!(
                        exact <= bound + 1e-9 || value.log.error > 1e-3,
                        "{v} {lambda} {tau}: {exact} {bound}"
                    );
                    assert!(bound <= before + 1e-12, "{v} {lambda} {tau}");
                    before = bound;
                    closest = closest.min(exact / bound);
                }
                assert!(closest < 2.0, "{v} {lambda}: {closest}");
            }
        }
    }

    /// With much noise turned variables make few batches fall like normal ones, where total variation leaves a power.
    #[test]
    fn turning_helps_few_batches() {
        for lambda in [60.0, -100.0] {
            let (batches, mut modulus) = modulus(0.0025, lambda, (1.7, 400.0), 2.0);
            let tau = 8.0 / batches[0].1.variance.sqrt();
            let before = modulus.log(tau);
            modulus.turn(&batches);
            assert!(
                before > -12.0 && modulus.log(tau) < -30.0,
                "{lambda}: {before} {} {:?} {:?}",
                modulus.log(tau),
                batches[0].1.log_transform,
                batches[0].1.to_turn().map(|batch| batch.logs)
            );
        }
    }

    /// Counts multiply, and kinds add up.
    #[test]
    fn batches_multiply() {
        let (batches, one) = modulus(1.0, 0.02, (200.0, 4.0), 1.0);
        let more = Modulus::new(&batches.into_iter().map(|(_, batch)| (7.0, batch)).collect::<Vec<_>>());
        assert!((more.log(0.3) - 7.0 * one.log(0.3)).abs() < 1e-12 && one.log(0.3) < 0.0);
    }
}
