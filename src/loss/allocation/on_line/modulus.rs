//! How |E[e^{(λ + iτ)S}]| falls as τ grows, for the sum S of the likelihood ratios Y of all batches.
//!
//! It is a product over the batches. For one batch let f be the characteristic function of Y under the law tilted by e^{λY}, of which there are two bounds.
//!
//! **Windows and total variation** ([`crate::loss::allocation::windows`]).
//!
//! **Turning** of the normal variable ([`crate::loss::allocation::turned`]), which is looked at where the others leave many points: |f| falls faster than any power.

use crate::loss::allocation::on_line::batch::Tilted;
use crate::loss::allocation::turned::Turned;
use crate::loss::allocation::windows::{Window, Windows, of_log_normal};

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
    windows: Windows,
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

impl PartModulus {
    /// The tilt changes each density by a factor of at least e^{min(λ, 0)·R}/E[e^{λY}] in the range up to R.
    fn new(count: f64, batch: &Tilted) -> Self {
        let (lambda, log_transform) = (batch.lambda, batch.log_transform.upper());
        let tilted = |window: Window| Window {
            spread: window.spread
                * (2.0 * (lambda.min(0.0) * window.length - log_transform)).exp()
                * (1.0 - 1e-12),
            ..window
        };
        let mut windows = batch.windows.clone();
        windows.extend(of_log_normal(batch.batch.variance, batch.batch.largest()).map(tilted));
        let variation = batch.total_variation();
        Self {
            count,
            variation,
            windows: Windows::new(windows, variation),
            turned: None,
        }
    }

    /// log of a bound on |f| from τ on.
    fn log_from(&self, tau: f64) -> f64 {
        let log = self.windows.log_from(tau);
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
