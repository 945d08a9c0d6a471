//! How M(w + iy) = E_Q[W^{w + iy}] decays along a line.
//!
//! Turning all Y of released batches by e^{iϑ} costs a factor of e^{Tϑ²/2}, T = Σ 1/v, and does not change the integral. Where all
//! batches are released, W is turned by e^{iϑ}, so that |M(w + iy)| ≤ M(w)·e^{Tϑ²/2 − yϑ} for every ϑ: at most M(w)·e^{−y²/(2T)}.
//!
//! Otherwise W = a + R becomes a + R·e^{iϑ}, whose phase grows with R. For every R₀, with ψ₀ the phase at R₀,
//! |M(w + iy)| ≤ e^{Tϑ²/2}·C·(e^{−yψ₀}·M(w) + max(a^w, (a + R₀)^w)·P(R < R₀)) where C = 1 for w ≥ 0 and cos(ϑ/2)^w for w < 0, as
//! cos(ϑ/2)·(a + R) ≤ |a + R·e^{iϑ}| ≤ a + R; and P(R < R₀) ≤ e^{λ(a + R₀)}·E[e^{−λW}] for every λ > 0.

use crate::loss::allocation::bins::Bins;

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
    still: f64,
    /// (R₀, log of a bound on the probability of less).
    levels: Vec<(f64, f64)>,
}

impl Decay {
    /// `transform` holds (λ, an upper bound on log E[e^{−λW}]).
    pub(crate) fn new(bins: &Bins, transform: &[(f64, f64)]) -> Self {
        let level = |k: usize| {
            let r = 2.0 * (1.0 - bins.still) * (-0.125 * k as f64).exp();
            let log = transform.iter().map(|(lambda, log)| lambda * (bins.still + r) + log);
            (r, log.fold(0.0, f64::min))
        };
        Self {
            stiffness: bins.stiffness(),
            still: bins.still,
            levels: if bins.still > 0.0 {
                (0..LEVELS).map(level).collect()
            } else {
                Vec::new()
            },
        }
    }

    /// log of a bound on |M(w + iy)|/M(w), given w and a lower bound on log M(w).
    pub(crate) fn log_bound(&self, y: f64, (w, log_moment): (f64, f64)) -> f64 {
        if self.still == 0.0 {
            return -0.5 * y * y / self.stiffness;
        }
        let mut best = 0.0f64;
        let mut angle = LARGEST_ANGLE;
        for _ in 0..ANGLES {
            let cost = 0.5 * self.stiffness * angle * angle + w.min(0.0) * (0.5 * angle).cos().ln();
            if cost < y * angle {
                for &(r, log_probability) in &self.levels {
                    let turned = (r * angle.sin()).atan2(self.still + r * angle.cos());
                    let largest = if w >= 0.0 { self.still + r } else { self.still };
                    let rare = w * largest.ln() + log_probability - log_moment;
                    let high = rare.max(-y * turned);
                    best = best.min(cost + high + std::f64::consts::LN_2);
                }
            }
            angle *= ANGLE_FACTOR;
        }
        best
    }
}
