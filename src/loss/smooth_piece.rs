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

use crate::loss::gate::Gate;
use crate::loss::line::{Line, Normal};
use crate::loss::posterior::Posterior;
use crate::loss::{Local, MixturePair};
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;
use std::f64::consts::FRAC_PI_2;
use std::sync::Arc;

/// Part of the posterior law that the bounds leave outside the range of shifts they use.
const OUTSIDE: f64 = 1e-6;

/// Losses so small that e^{zℓ} − 1 hardly changes count as this much: what is left out of the integral of P·(e^{zℓ} − 1)
/// is then at most 1/this times as much of P itself.
pub(crate) const LEAST_CHANGE: f64 = 1e-4;

/// An interval of outputs with an analytic loss.
#[derive(Debug, Clone)]
pub struct Piece {
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
pub struct Point {
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
pub struct Tail {
    /// log of the mass.
    pub log_mass: f64,
    /// Bound on the error of that, beyond the rounding of the number itself.
    pub error: f64,
}

/// Working memory of evaluations.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) p: Posterior,
    pub(crate) q: Posterior,
    plain: Vec<f64>,
}

impl Scratch {
    /// Terms of the densities at the last output.
    pub fn terms(&self) -> u64 {
        (self.p.terms.len() + self.q.terms.len()) as u64
    }
}

/// How the integrand changes from x to x + ia: log of the modulus, and the rate in y = Im z at which it falls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lifted {
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
    pub fn log_change(&self, c: f64, lift: f64, scale: f64) -> f64 {
        0.5 * (lift / scale).powi(2) + (1.0 + c) * self.log_p - c * self.log_q
    }
}

impl Piece {
    /// σ.
    pub fn noise_multiplier(&self) -> f64 {
        self.pair.noise_multiplier()
    }

    /// s such that |N(x + ia)|/N(x) of the noise, and of the gate with it, is at most e^{a²/2s²}.
    pub fn lift_scale(&self) -> f64 {
        let sigma = self.noise_multiplier();
        self.gate
            .map_or(sigma, |gate| (sigma.powi(-2) + gate.width.powi(-2)).sqrt().recip())
    }

    /// Number of shifts.
    pub fn atoms(&self) -> usize {
        self.pair.shifts.len()
    }

    /// Largest shift, in absolute value.
    pub fn largest_shift(&self) -> f64 {
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
    pub fn most_loss(&self) -> f64 {
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
    pub fn point(&self, x: f64, scratch: &mut Scratch) -> Point {
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
    pub fn farthest(&self, x: f64, both: bool, scratch: &Scratch) -> f64 {
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
    pub fn lifted(&self, x: f64, lift: &Lift, scratch: &mut Scratch) -> Lifted {
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
    pub fn log_masses_above(&self, x: f64) -> (f64, f64) {
        let (p, q) = self.tails_above(x);
        (p.log_mass, q.log_mass)
    }

    /// P(X > x) and Q(X > x).
    ///
    /// The normal tail at a distance of z standard deviations has a relative error e below 1e-15·(4 + z²), that below the mean one
    /// of 4e-15. A sum of tails has their mean, weighted by the tails, to which e^e − 1 < 1.06·e adds next to nothing while all
    /// are small; else the largest, in the logarithm.
    pub fn tails_above(&self, x: f64) -> (Tail, Tail) {
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
    pub fn output_at(&self, level: f64, scratch: &mut Scratch) -> f64 {
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

    /// The bounds around [centre − half_width, centre + half_width].
    pub(crate) fn panel(&self, centre: f64, half_width: f64, scratch: &mut Scratch) -> PiecePanel {
        let reach = REAL_AXIS * half_width;
        let (left, right) = (centre - reach, centre + reach);
        let side = |at: f64, scratch: &mut Scratch| {
            let around = self.pair.surroundings(at, reach, 0.0, &mut scratch.plain);
            (around.left, around.centre, around.right)
        };
        let variance = self.noise_multiplier().powi(2);
        PiecePanel {
            centre,
            half_width,
            left,
            right,
            in_p: self
                .in_p
                .then(|| Side::new(side(centre, scratch), left, right, variance, 1.0)),
            in_q: self
                .in_q
                .then(|| Side::new(side(-centre, scratch), left, right, variance, -1.0)),
            normal: Normal::new(self.noise_multiplier()),
            gate: self.gate,
            cost: NODES as u64 * self.cost_at(centre),
            points: None,
        }
    }
}

/// sin(as/σ²) and 1 − cos(as/σ²) for every shift s: what moves with the continuation to x + ia.
#[derive(Debug)]
pub struct Lift {
    sines: Vec<f64>,
    versines: Vec<f64>,
}

impl Lift {
    /// The tables of `piece` for a height a with a·s ≤ πσ² for every shift s, so that no sine is negative.
    pub fn new(piece: &Piece, lift: f64) -> Self {
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

/// What is known of one ratio around an interval, in the coordinates of the piece.
#[derive(Debug, Clone, Copy)]
struct Side {
    chord: Line,
    tangent: Line,
    /// Half the range of significant shifts, over σ².
    spread: f64,
    /// Largest slope of the log ratio.
    slope: f64,
    /// Largest posterior mean of s², over 2σ⁴.
    bend: f64,
}

impl Side {
    /// `sign` is −1 for a ratio seen in a mirror: `local` is then of the mirrored interval.
    fn new(local: (Local, Local, Local), left: f64, right: f64, variance: f64, sign: f64) -> Self {
        let (low, centre, high) = local;
        let (at_left, at_right) = if sign > 0.0 { (low, high) } else { (high, low) };
        Self {
            chord: Line {
                at: left,
                value: at_left.log_ratio,
                slope: (at_right.log_ratio - at_left.log_ratio) / (right - left),
            },
            tangent: Line {
                at: 0.5 * (left + right),
                value: centre.log_ratio,
                slope: sign * centre.mean_shift / variance,
            },
            spread: 0.5 * (high.high_shift - low.low_shift) / variance,
            slope: high.mean_shift / variance,
            bend: 0.5 * high.mean_square_shift / (variance * variance),
        }
    }

    /// Largest |log r| on the interval: log r is monotone.
    fn size(&self, left: f64, right: f64) -> f64 {
        self.chord.at(left).abs().max(self.chord.at(right).abs())
    }

    /// |r(z)|/r(Re z) is at least this for |Im z| ≤ height; 0 if r may vanish there.
    ///
    /// r(x + iy)/r(x) = E[e^{iys/σ²}] under the posterior law: its real part is at least 1 − y²E\[s²\]/2σ⁴, and all but a
    /// negligible part of it lies within an angle of one direction.
    fn kept(&self, height: f64) -> f64 {
        let angle = height * self.spread;
        let within = if angle < FRAC_PI_2 {
            (1.0 - OUTSIDE) * angle.cos() - OUTSIDE
        } else {
            0.0
        };
        (1.0 - height * height * self.bend).max(within).max(0.0)
    }
}

/// Bounds on the integrand P·e^{zℓ} around one interval; independent of z.
#[derive(Debug)]
pub(crate) struct PiecePanel {
    pub(crate) centre: f64,
    pub(crate) half_width: f64,
    left: f64,
    right: f64,
    normal: Normal,
    gate: Option<Gate>,
    /// What evaluating the losses at the nodes costs, in terms of densities.
    pub(crate) cost: u64,
    in_p: Option<Side>,
    in_q: Option<Side>,
    /// Losses at the nodes, and the logs of the weights: density of P times that of the quadrature rule.
    points: Option<Box<[Point; NODES]>>,
}

impl PiecePanel {
    /// log of a bound on |P·(e^{zℓ} − 1)|, of |P·e^{zℓ}| behind a gate, for Re z = c, |Im z| ≤ y and x in the ellipse around the
    /// interval, lifted by up to `lift`; +∞ where the integrand may be singular.
    pub(crate) fn log_bound(&self, c: f64, y: f64, lift: f64) -> f64 {
        self.log_bound_within(c, y, IMAGINARY_AXIS * self.half_width + lift, lift)
    }

    /// log of that bound for x in the interval itself, where |e^{iyℓ}| = 1.
    pub(crate) fn log_upper(&self, c: f64, y: f64, lift: f64) -> f64 {
        self.log_bound_within(c, y, lift, lift)
    }

    fn log_bound_within(&self, c: f64, y: f64, height: f64, lift: f64) -> f64 {
        let mut tilted = Line {
            at: self.centre,
            value: 0.0,
            slope: 0.0,
        };
        let mut plain = tilted;
        let add = |line: &mut Line, part: &Line, factor: f64| {
            line.value += factor * part.at(self.centre);
            line.slope += factor * part.slope;
        };
        let mut rest = 0.0;
        // Bounds on |ℓ|, and on how far it changes when x moves by `height` off the real line.
        let (mut size, mut change) = (0.0, 0.0);
        // With y' ≥ 0 a lift only makes |e^{iy'ℓ}| smaller: what counts is how far below it the ellipse reaches.
        let below = y * (height - lift);
        if let Some(side) = &self.in_p {
            // |r^{1+z}| ≤ r^{1+c}·e^{y|arg r|}; c > −1.
            let kept = side.kept(height);
            if kept == 0.0 {
                return f64::INFINITY;
            }
            add(&mut tilted, &side.chord, 1.0 + c);
            add(&mut plain, &side.chord, 1.0);
            rest += below * side.slope / kept;
            size += side.size(self.left, self.right) - kept.min(1.0).ln();
            change += height * side.slope / kept;
        }
        if let Some(side) = &self.in_q {
            let kept = side.kept(height);
            if kept == 0.0 {
                return f64::INFINITY;
            }
            if c > 0.0 {
                add(&mut tilted, &side.tangent, -c);
                rest -= c * kept.ln();
            } else {
                add(&mut tilted, &side.chord, -c);
            }
            rest += below * side.slope / kept;
            size += side.size(self.left, self.right) - kept.min(1.0).ln();
            change += height * side.slope / kept;
        }
        // |e^{zℓ} − 1| ≤ |zℓ|·max(1, |e^{zℓ}|); what a lift adds to the exponent is bounded likewise.
        let exponent = c.hypot(y) * (size + change)
            + if lift > 0.0 {
                0.5 * lift * lift / self.normal.variance + 2.0 * (1.0 + c.abs() + y) * change
            } else {
                0.0
            };
        let growth = 0.5 * height * height / self.normal.variance;
        let highest = |line: Line| self.normal.highest(line, 1.0, self.left, self.right);
        let (a, b) = (highest(tilted) + rest, highest(plain));
        let (large, small) = if a > b { (a, b) } else { (b, a) };
        let density = growth + large + (small - large).exp().ln_1p();
        match &self.gate {
            Some(gate) => density + gate.log_bound(self.left, self.right, height),
            None => density + exponent.clamp(LEAST_CHANGE, 1.0).ln(),
        }
    }

    /// The losses at the nodes, and the weights of the rule there.
    pub(crate) fn points(&mut self, piece: &Piece, scratch: &mut Scratch) -> &[Point; NODES] {
        let rule = GaussLegendre::get();
        let (centre, half_width) = (self.centre, self.half_width);
        self.points.get_or_insert_with(|| {
            let at = |i: usize| {
                let mut point = piece.point(centre + half_width * rule.nodes[i], scratch);
                point.log_density += (rule.weights[i] * half_width).ln();
                point
            };
            Box::new(std::array::from_fn(at))
        })
    }

    /// What [`PiecePanel::points`] found, if it was asked.
    pub(crate) fn points_if_known(&self) -> Option<&[Point; NODES]> {
        self.points.as_deref()
    }
}
