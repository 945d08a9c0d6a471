//! How M(w + iy) = E_Q[W^{w + iy}] decays along a line.
//!
//! Turning all Y of released batches by e^{iϑ} costs a factor of e^{Tϑ²/2}, T = Σ 1/v, and does not change the integral. Where all
//! batches are released, W is turned by e^{iϑ}, so that |M(w + iy)| ≤ M(w)·e^{Tϑ²/2 − yϑ} for every ϑ: at most M(w)·e^{−y²/(2T)}.
//!
//! Otherwise W = a + R becomes a + R·e^{iϑ}, whose phase grows with R. For every R₀, with ψ₀ the phase at R₀,
//! |M(w + iy)| ≤ e^{Tϑ²/2}·C·(e^{−yψ₀}·M(w) + max(a^w, (a + R₀)^w)·P(R < R₀)) where C = 1 for w ≥ 0 and cos(ϑ/2)^w for w < 0, as
//! cos(ϑ/2)·(a + R) ≤ |a + R·e^{iϑ}| ≤ a + R; and P(R < R₀) ≤ e^{λ(a + R₀)}·E[e^{−λW}] for every λ > 0. The same holds for a truncated law, to
//! which the segments between the two paths are added ([`truncated_decay`](super::truncated_decay)).

use crate::loss::allocation::bins::Bins;
use crate::special::log_space::log_add;
use std::f64::consts::LN_2;

/// Angles that are tried, from the largest down by a factor each time.
const ANGLES: usize = 24;
const LARGEST_ANGLE: f64 = 1.5;
const ANGLE_FACTOR: f64 = 0.75;
/// Values of R₀ that are tried, in steps of a factor e^{-1/8} from twice the mean.
const LEVELS: usize = 64;

/// Bounds on the decay for one law of W.
#[derive(Debug, Clone)]
pub(crate) struct Decay {
    stiffness: f64,
    /// Empty where all batches are released.
    turns: Vec<Turn>,
}

/// A turn by one angle.
#[derive(Debug, Clone)]
struct Turn {
    angle: f64,
    /// log of e^{Tϑ²/2}·C, and of 2 for the sum of two terms.
    cost: f64,
    /// By R₀: its phase, and log of the bound on what is below it, over M(w).
    levels: Vec<(f64, f64)>,
    /// log of a bound on what the segments between both paths add, over M(w).
    segments: f64,
}

impl Decay {
    /// For exponents w + iy, where `transform` holds (λ, an upper bound on log E[e^{−λW}]) and `log_moment` is a lower bound on log M(w).
    pub(crate) fn new(bins: &Bins, transform: &[(f64, f64)], (w, log_moment): (f64, f64)) -> Self {
        let (still, stiffness) = (bins.still, bins.stiffness());
        let level = |k: usize| {
            let r = 2.0 * (1.0 - still) * (-0.125 * k as f64).exp();
            let log = transform.iter().map(|(lambda, log)| lambda * (still + r) + log);
            (r, log.fold(0.0, f64::min))
        };
        let levels: Vec<(f64, f64)> = (0..LEVELS).map(level).collect();
        let turn = |i: usize| {
            let angle = LARGEST_ANGLE * ANGLE_FACTOR.powi(i as i32);
            let at = |&(r, log_probability): &(f64, f64)| {
                let phase = (r * angle.sin()).atan2(still + r * angle.cos());
                let largest = if w >= 0.0 { still + r } else { still };
                (phase, w * largest.ln() + log_probability - log_moment)
            };
            Turn {
                angle,
                cost: 0.5 * stiffness * angle * angle + w.min(0.0) * (0.5 * angle).cos().ln() + LN_2,
                levels: levels.iter().map(at).collect(),
                segments: f64::NEG_INFINITY,
            }
        };
        let turns = if still > 0.0 {
            (0..ANGLES).map(turn).collect()
        } else {
            Vec::new()
        };
        Self { stiffness, turns }
    }

    /// The decay of a truncated law, with a bound on what the segments between the two paths add for each angle, without e^{Tϑ²/2}, over M(w).
    pub(crate) fn with_segments(mut self, log_segments: impl Fn(f64) -> f64) -> Self {
        for turn in &mut self.turns {
            turn.segments = 0.5 * self.stiffness * turn.angle * turn.angle + log_segments(turn.angle);
        }
        self
    }

    /// log of a bound on |M(w + iy')|/M(w) for all y' ≥ `y`.
    pub(crate) fn log_bound(&self, y: f64) -> f64 {
        if self.turns.is_empty() {
            return -0.5 * y * y / self.stiffness;
        }
        let mut best = 0.0f64;
        for turn in self.turns.iter().filter(|turn| turn.cost < y * turn.angle) {
            let at = |&(phase, rare): &(f64, f64)| turn.cost + rare.max(-y * phase);
            let turned = turn.levels.iter().map(at).fold(0.0, f64::min);
            best = best.min(log_add(turned, turn.segments));
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One batch: |E[Y^{w + iy}]| = E[Y^w]·e^{−y²v/2} is the bound itself, so that half of its exponent would be too large by far.
    #[test]
    fn one_batch_attains_the_decay() {
        for (v, y) in [(0.3, 2.0), (1.0, 5.0), (4.0, 1.5)] {
            let bins = Bins::new(&[(1, v)]).unwrap();
            let found = Decay::new(&bins, &[], (1.7, 0.0)).log_bound(y);
            assert!((found + 0.5 * y * y * v).abs() < 1e-12, "{v} {y}: {found}");
        }
    }

    /// Two batches: W = e^{√(v/2)g − v/2}·cosh(√(v/2)g'), of which the first factor alone decays as bounded.
    #[test]
    fn two_batches_decay_at_least_as_the_factor_that_they_share() {
        let (v, w) = (0.8f64, 2.0);
        let root = (0.5 * v).sqrt();
        let bins = Bins::new(&[(2, v)]).unwrap();
        let decay = Decay::new(&bins, &[], (w, 0.0));
        for y in [0.5f64, 3.0, 8.0] {
            let (mut real, mut imaginary, mut whole) = (0.0, 0.0, 0.0);
            for i in -4000..=4000 {
                let g = f64::from(i) * 0.0025;
                let log = (root * g).cosh().ln();
                let mass = (-0.5 * g * g + w * log).exp();
                whole += mass;
                real += mass * (y * log).cos();
                imaginary += mass * (y * log).sin();
            }
            let exact = -0.25 * y * y * v + (real.hypot(imaginary) / whole).ln();
            let found = decay.log_bound(y);
            assert!(found >= exact - 1e-12 && 0.5 * found > exact, "{y}: {found} {exact}");
        }
    }

    /// Half of an epoch of two batches: W = (Y + 1)/2 at w = 1, by a sum over the normal law.
    #[test]
    fn partial_epochs_decay_no_slower_than_bounded() {
        let (v, root) = (1.0f64, 1.0f64);
        let bins = Bins::new(&[(1, v), (1, 0.0)]).unwrap();
        let transform: Vec<(f64, f64)> = (-8..16)
            .map(|i| {
                let lambda = (0.25 * f64::from(i)).exp();
                let terms = (-4000..=4000).map(|j| {
                    let g = f64::from(j) * 0.0025;
                    (-0.5 * g * g - 0.5 * lambda * ((root * g - 0.5 * v).exp() + 1.0)).exp()
                });
                (
                    lambda,
                    (terms.sum::<f64>() * 0.0025 / (2.0 * std::f64::consts::PI).sqrt()).ln() + 1e-9,
                )
            })
            .collect();
        let decay = Decay::new(&bins, &transform, (1.0, 0.0));
        for y in [5.0, 10.0, 20.0] {
            let (mut real, mut imaginary) = (0.0, 0.0);
            for j in -8000..=8000 {
                let g = f64::from(j) * 0.00125;
                let ratio = 0.5 * ((root * g - 0.5 * v).exp() + 1.0);
                let mass = (-0.5 * g * g).exp() * ratio * 0.00125 / (2.0 * std::f64::consts::PI).sqrt();
                real += mass * (y * ratio.ln()).cos();
                imaginary += mass * (y * ratio.ln()).sin();
            }
            let exact = real.hypot(imaginary).ln();
            let found = decay.log_bound(y);
            assert!(found >= exact - 1e-9, "{y}: {found} {exact}");
        }
        assert!(decay.log_bound(20.0) < -0.8 && decay.log_bound(60.0) < decay.log_bound(20.0));
    }
    /// Segments are added for each angle: without a loss on the way, they are what remains far out.
    #[test]
    fn what_segments_add_remains() {
        let bins = Bins::new(&[(2, 0.01), (2, 0.0)]).unwrap();
        // E[e^{−λW}] is e^{−λ/2} at most, as W ≥ 1/2.
        let transform: Vec<(f64, f64)> = (0..30).map(|i| (0.25 * f64::from(i), -0.125 * f64::from(i))).collect();
        let plain = Decay::new(&bins, &transform, (40.0, 0.0));
        let level = -12.0;
        let decay = plain.clone().with_segments(|angle| level + angle.ln());
        for y in [10.0, 1e3, 1e5] {
            assert!(decay.log_bound(y) >= plain.log_bound(y), "{y}");
        }
        let stiffness = bins.stiffness();
        // Far out all else is gone, and the smallest angle costs the least.
        let smallest = LARGEST_ANGLE * ANGLE_FACTOR.powi(ANGLES as i32 - 1);
        let exact = 0.5 * stiffness * smallest * smallest + level + smallest.ln();
        let found = decay.log_bound(1e12).min(exact + 1.0);
        assert!(found >= exact - 1e-12 && found < exact + 0.1, "{found} {exact}");
    }
}
