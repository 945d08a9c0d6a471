//! A piece of the privacy loss of one step that is an analytic function of the output.
//!
//! Every pair of `docs/theory/dominating-pairs.md` with Gaussian noise is written so that the loss grows with the output x:
//!
//! * P has the density N(x; 0, σ²)·r(x) if the mixture is in P, else N(x; 0, σ²);
//! * Q has the density N(x; 0, σ²)·r(−x) if the mixture is in Q, else N(x; 0, σ²);
//!
//! with r the likelihood ratio of the mixture. "remove" has the mixture in P, "add" in Q (reflected, so that the
//! loss −log r(−x) grows), replacement under Poisson sampling in both. What stands here bounds the integrand
//! P·e^{zℓ} for complex z around an interval of x, and off the real line (the continuation x + ia).

use crate::loss::MixturePair;
use crate::loss::gate::Gate;
use crate::loss::line::Normal;
use crate::loss::posterior::Posterior;
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;
use std::sync::Arc;

/// An interval of outputs with an analytic loss.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) pair: Arc<MixturePair>,
    /// True if the mixture is in P, in Q.
    pub(crate) in_p: bool,
    pub(crate) in_q: bool,
    /// Outputs of the piece: the loss is that of other pieces elsewhere.
    pub(crate) start: f64,
    pub(crate) end: f64,
    /// P and Q may be split by a coin: then this piece is one side of it.
    pub(crate) gate: Option<Gate>,
}

/// Loss and density of P at one output.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Point {
    /// Privacy loss.
    pub loss: f64,
    /// Its derivative.
    pub slope: f64,
    /// log of the density of P.
    pub log_density: f64,
    /// Size of the exponents behind the loss: its rounding error is a few units in the last place of this.
    pub size: f64,
}

/// A law's mass above an output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tail {
    /// log of the mass.
    pub log_mass: f64,
    /// Bound on the error of that, beyond the rounding of the number itself.
    pub error: f64,
}

/// Working memory of evaluations.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) p: Posterior,
    pub(crate) q: Posterior,
    pub(crate) plain: Vec<f64>,
}

impl Scratch {
    /// Terms of the densities at the last output.
    pub(crate) fn terms(&self) -> u64 {
        (self.p.terms.len() + self.q.terms.len()) as u64
    }
}

/// How the integrand changes from x to x + ia: log of the modulus, and the rate in y = Im z at which it falls.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lifted {
    /// log |r_P(x + ia)/r_P(x)|, at most 0.
    log_p: f64,
    /// log |r_Q(x + ia)/r_Q(x)|, at most 0.
    log_q: f64,
    /// θ ≥ 0: |e^{iyℓ(x + ia)}| = e^{−yθ}.
    pub angle: f64,
}

impl Lifted {
    /// log of |integrand(x + ia)/integrand(x)| at Re z = c, without e^{−yθ}.
    ///
    /// `scale` is [`Piece::lift_scale`].
    pub(crate) fn log_change(&self, c: f64, lift: f64, scale: f64) -> f64 {
        0.5 * (lift / scale).powi(2) + (1.0 + c) * self.log_p - c * self.log_q
    }
}

impl Piece {
    /// σ.
    pub(crate) fn noise_multiplier(&self) -> f64 {
        self.pair.noise_multiplier()
    }

    /// s such that |N(x + ia)|/N(x) of the noise, and of the gate with it, is at most e^{a²/2s²}.
    pub(crate) fn lift_scale(&self) -> f64 {
        let sigma = self.noise_multiplier();
        self.gate
            .map_or(sigma, |gate| (sigma.powi(-2) + gate.width.powi(-2)).sqrt().recip())
    }

    /// Number of shifts.
    pub(crate) fn atoms(&self) -> usize {
        self.pair.shifts.len()
    }

    /// Largest shift, in absolute value.
    pub(crate) fn largest_shift(&self) -> f64 {
        let (low, high) = self.pair.shift_range();
        low.abs().max(high.abs())
    }

    /// Largest distance between the centres of a Gaussian of P and one of Q, over σ.
    pub(crate) fn widest_distance(&self) -> f64 {
        let mixtures = f64::from(u8::from(self.in_p)) + f64::from(u8::from(self.in_q));
        mixtures * self.largest_shift() / self.noise_multiplier()
    }

    /// Largest half-range of the significant shifts, over σ², seen at either end of an interval of outputs.
    pub(crate) fn widest_spread(&self, interval: (f64, f64)) -> f64 {
        let mut scratch = Vec::new();
        let mut widest = 0.0f64;
        for x in [interval.0, interval.1].into_iter().filter(|x| x.is_finite()) {
            for (mixed, at) in [(self.in_p, x), (self.in_q, -x)] {
                if mixed {
                    let local = self.pair.local(at, &mut scratch);
                    widest = widest.max(local.high_shift - local.low_shift);
                }
            }
        }
        0.5 * widest / self.noise_multiplier().powi(2)
    }

    /// The least upper bound of the loss: shifts are not negative, so r ≥ the weight of a shift of 0.
    pub(crate) fn most_loss(&self) -> f64 {
        let (lowest, _) = self.pair.shift_range();
        let at_zero = if lowest == 0.0 {
            -self.pair.log_weights[0]
        } else {
            f64::INFINITY
        };
        match (self.in_p, self.in_q) {
            (true, _) => f64::INFINITY,
            (false, true) => at_zero,
            (false, false) => 0.0,
        }
    }

    /// The greatest lower bound of the loss of a mixture against the noise: the log of the weight of a shift of 0.
    pub(crate) fn least_loss(&self) -> Option<f64> {
        (self.in_p && !self.in_q && self.pair.shift_range().0 == 0.0).then(|| self.pair.log_weights[0])
    }

    /// Loss and density of P at x.
    pub(crate) fn point(&self, x: f64, scratch: &mut Scratch) -> Point {
        let sigma = self.noise_multiplier();
        let variance = sigma * sigma;
        let scaled = x / sigma;
        let mut point = Point {
            loss: 0.0,
            slope: 0.0,
            log_density: -0.5 * scaled * scaled,
            size: 0.0,
        };
        let size = |law: &Posterior| {
            let shift = law.mean_shift.abs().max(self.pair.shifts[law.start].abs()) / sigma;
            shift * (scaled.abs() + shift) + law.log_ratio.abs()
        };
        if self.in_p {
            scratch.p.at(&self.pair, x);
            point.loss = scratch.p.log_ratio;
            point.slope = scratch.p.mean_shift / variance;
            point.log_density = scratch.p.log_density;
            point.size = size(&scratch.p);
        }
        if self.in_q {
            scratch.q.at(&self.pair, -x);
            point.loss -= scratch.q.log_ratio;
            point.slope += scratch.q.mean_shift / variance;
            point.size += size(&scratch.q);
        }
        point.log_density += Normal::new(sigma).log_scale();
        if let Some(gate) = &self.gate {
            point.log_density += gate.log_share(x);
        }
        point
    }

    /// After [`Piece::point`] at x: largest distance, in σ, from x to the centre of a significant Gaussian of P, and of
    /// Q too if `both`.
    pub(crate) fn farthest(&self, x: f64, both: bool, scratch: &Scratch) -> f64 {
        let mut farthest = 0.0f64;
        if both || !self.in_p {
            farthest = (x / self.noise_multiplier()).abs();
        }
        if self.in_p {
            farthest = farthest.max(scratch.p.farthest(&self.pair, x));
        }
        if both && self.in_q {
            farthest = farthest.max(scratch.q.farthest(&self.pair, -x));
        }
        farthest
    }

    /// The integrand's change from x to x + ia, given the sines and cosines of [`Lift`].
    pub(crate) fn lifted(&self, x: f64, lift: &Lift, scratch: &mut Scratch) -> Lifted {
        let mut lifted = Lifted::default();
        if self.in_p {
            scratch.p.at(&self.pair, x);
            let (log_modulus, angle) = lift.of(&scratch.p);
            lifted.log_p = log_modulus;
            lifted.angle = angle;
        }
        if self.in_q {
            scratch.q.at(&self.pair, -x);
            let (log_modulus, angle) = lift.of(&scratch.q);
            lifted.log_q = log_modulus;
            lifted.angle += angle;
        }
        lifted
    }

    /// log P(X > x) and log Q(X > x).
    pub(crate) fn log_masses_above(&self, x: f64) -> (f64, f64) {
        let (p, q) = self.tails_above(x);
        (p.log_mass, q.log_mass)
    }

    /// P(X > x) and Q(X > x).
    ///
    /// The normal tail at a distance of z standard deviations has a relative error e below 1e-15·(4 + z²), that below the mean one
    /// of 4e-15. A sum of tails has their mean, weighted by the tails, to which e^e − 1 < 1.06·e adds next to nothing while all
    /// are small; else the largest, in the logarithm.
    pub(crate) fn tails_above(&self, x: f64) -> (Tail, Tail) {
        const ERROR: f64 = 1e-15;
        const SMALL: f64 = 0.1;
        let sigma = self.noise_multiplier();
        let units = |distance: f64| 4.0 + distance.max(0.0).powi(2);
        let tail = |mixed: bool, sign: f64| {
            let (mut sum, mut wrong, mut most) = (LogSum::default(), LogSum::default(), 0.0f64);
            if mixed {
                for (log_weight, shift) in self.pair.log_weights.iter().zip(&self.pair.shifts) {
                    let distance = (x - sign * shift) / sigma;
                    // The tail is below e^{−distance²/2}.
                    if !sum.outweighs(log_weight - 0.5 * distance.max(0.0) * distance) {
                        let log_mass = log_weight + log_upper_tail(distance);
                        sum.add(log_mass);
                        wrong.add(log_mass + units(distance).ln());
                        most = most.max(ERROR * units(distance));
                    }
                }
            } else {
                sum.add(log_upper_tail(x / sigma));
                most = ERROR * units(x / sigma);
                wrong.add(sum.ln() + units(x / sigma).ln());
            }
            let mean = 1.06 * ERROR * (wrong.ln() - sum.ln()).exp();
            Tail {
                log_mass: sum.ln(),
                error: ERROR + if most < SMALL { mean.min(most) } else { most },
            }
        };
        (tail(self.in_p, 1.0), tail(self.in_q, -1.0))
    }

    /// The output at which the loss is `level`; −∞ where every output has a larger loss, +∞ where none has.
    pub(crate) fn output_at(&self, level: f64, scratch: &mut Scratch) -> f64 {
        let sigma = self.noise_multiplier();
        let limit = 60.0 * sigma + 2.0 * self.largest_shift();
        let (mut low, mut high) = (self.start.max(-limit), self.end.min(limit).max(self.start.max(-limit)));
        // Beyond the limit both P and Q have less than e^-1000 of their mass, or the loss no longer changes.
        let mut grow = limit;
        while self.point(high, scratch).loss < level {
            if self.end.is_finite() || grow > 1e12 * limit {
                return f64::INFINITY;
            }
            low = high;
            grow *= 4.0;
            high = grow;
        }
        if self.point(low, scratch).loss > level {
            return if self.start.is_finite() {
                self.start
            } else {
                f64::NEG_INFINITY
            };
        }
        // Newton's method, kept inside the bracket.
        let mut x = 0.5 * (low + high);
        for _ in 0..200 {
            let point = self.point(x, scratch);
            if point.loss < level {
                low = x;
            } else {
                high = x;
            }
            let newton = x - (point.loss - level) / point.slope;
            let next = if newton > low && newton < high {
                newton
            } else {
                0.5 * (low + high)
            };
            if (next - x).abs() <= 1e-15 * x.abs().max(sigma) || high - low <= 1e-15 * high.abs().max(sigma) {
                return next;
            }
            x = next;
        }
        x
    }

    /// What an evaluation at x costs: terms of densities, and what goes with them.
    pub(crate) fn cost_at(&self, x: f64) -> u64 {
        let terms = |mixed: bool, x: f64| {
            let window = self.pair.window(x);
            if mixed {
                16 + 2 * (window.end - window.start) as u64
            } else {
                0
            }
        };
        terms(self.in_p, x) + terms(self.in_q, -x)
    }
}

/// sin(as/σ²) and 1 − cos(as/σ²) for every shift s: what moves with the continuation to x + ia.
#[derive(Debug)]
pub(crate) struct Lift {
    sines: Vec<f64>,
    versines: Vec<f64>,
}

impl Lift {
    /// The tables of `piece` for a height a with a·s ≤ πσ² for every shift s, so that no sine is negative.
    pub(crate) fn new(piece: &Piece, lift: f64) -> Self {
        let rate = lift / piece.noise_multiplier().powi(2);
        let shifts = &piece.pair.shifts;
        Self {
            sines: shifts.iter().map(|s| (rate * s).sin()).collect(),
            versines: shifts.iter().map(|s| 2.0 * (0.5 * rate * s).sin().powi(2)).collect(),
        }
    }

    /// log|E[e^{ias/σ²}]| and its angle under the posterior law.
    fn of(&self, law: &Posterior) -> (f64, f64) {
        let (mut sine, mut versine) = (0.0, 0.0);
        for (i, term) in law.terms.iter().enumerate() {
            sine += term * self.sines[law.start + i];
            versine += term * self.versines[law.start + i];
        }
        let cosine = 1.0 - versine;
        (
            0.5 * (sine * sine - versine * (2.0 - versine)).ln_1p(),
            sine.atan2(cosine),
        )
    }
}
