//! How M(w + iy) = E_Q[W^{w + iy}] decays along a line.
//!
//! Turning all Y of released batches by e^{iϑ} costs a factor of e^{Tϑ²/2}, T = Σ 1/v, and does not change the integral. Where all
//! batches are released, W is turned by e^{iϑ}, so that |M(w + iy)| ≤ M(w)·e^{Tϑ²/2 − yϑ} for every ϑ: at most M(w)·e^{−y²/(2T)}.
//!
//! Otherwise W = a + R becomes a + R·e^{iϑ}, whose phase grows with R. For every R₀, with ψ₀ the phase at R₀,
//! |M(w + iy)| ≤ e^{Tϑ²/2}·C·(e^{−yψ₀}·M(w) + max(a^w, (a + R₀)^w)·P(R < R₀)) where C = 1 for w ≥ 0 and cos(ϑ/2)^w for w < 0, as
//! cos(ϑ/2)·(a + R) ≤ |a + R·e^{iϑ}| ≤ a + R; and P(R < R₀) ≤ e^{λ(a + R₀)}·E[e^{−λW}] for every λ > 0.

use crate::loss::allocation::bins::Bins;
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
            }
        };
        let turns = if still > 0.0 {
            (0..ANGLES).map(turn).collect()
        } else {
            Vec::new()
        };
        Self { stiffness, turns }
    }

    /// log of a bound on |M(w + iy)|/M(w).
    pub(crate) fn log_bound(&self, y: f64) -> f64 {
        if self.turns.is_empty() {
            return -0.5 * y * y / self.stiffness;
        }
        let mut best = 0.0f64;
        for turn in self.turns.iter().filter(|turn| turn.cost < y * turn.angle) {
            let at = |&(phase, rare): &(f64, f64)| turn.cost + rare.max(-y * phase);
            best = turn.levels.iter().map(at).fold(best, f64::min);
        }
        best
    }
}
