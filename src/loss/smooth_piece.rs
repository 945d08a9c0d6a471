//! A piece of the privacy loss of one step that is an analytic function of the output.
//!
//! Every pair of `docs/theory/dominating-pairs.md` with Gaussian noise is written so that the loss grows with the output x:
//!
//! * P has the density N(x; 0, σ²)·r(x) if the mixture is in P, else N(x; 0, σ²);
//! * Q has the density N(x; 0, σ²)·r(−x) if the mixture is in Q, else N(x; 0, σ²);
//!
//! with r the likelihood ratio of the mixture. "remove" has the mixture in P, "add" in Q (reflected, so that the
//! loss −log r(−x) grows), replacement under Poisson sampling in both. What stands here is the piece on the real
//! line; `smooth_panel` bounds the integrand P·e^{zℓ} around an interval, and `continuation` has it at x + ia.

use crate::approx::Approx;
use crate::loss::MixturePair;
use crate::loss::gate::Gate;
use crate::loss::line::Normal;
use crate::loss::mixture_pair::at_nodes::{AtNodes, LANES, RatiosAtNodes, WIDEST};
use crate::loss::posterior::Posterior;
use crate::special::gauss_legendre::NODES;
use crate::special::log_space::LogSum;
use crate::special::normal::log_upper_tail;
use crate::special::root::newton_increasing;
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
    /// The output at which the lattice of panels starts.
    pub(crate) origin: f64,
    /// The end in cells of the lattice from there, if it is finite.
    pub(super) end_cell: Option<i64>,
    /// If set, the densities of P and Q are multiplied by the probability of this gate at x.
    pub(crate) gate: Option<Gate>,
}

/// Posterior mean of the shifts that are not significant, over the part of that mean that comes from the largest term.
pub(crate) const INSIGNIFICANT: f64 = 1e-9;

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

/// What is known of r_P or r_Q at one output.
struct Ratio {
    log_ratio: f64,
    log_density: f64,
    mean_shift: f64,
    /// The first shift that counts, or one before it.
    first_shift: f64,
}

/// Working memory of evaluations.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    at_nodes: Vec<AtNodes>,
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

impl Piece {
    /// The outputs from `start` to `end`, of which at most one is finite, of a pair whose mixture is in P, in Q, without a gate.
    pub(crate) fn new(pair: &Arc<MixturePair>, (in_p, in_q): (bool, bool), start: f64, end: f64) -> Self {
        debug_assert!(start.is_infinite() || end.is_infinite());
        let finite = [start, end].into_iter().find(|output| output.is_finite());
        Self {
            pair: Arc::clone(pair),
            in_p,
            in_q,
            start,
            end,
            origin: finite.unwrap_or(0.0),
            end_cell: end.is_finite().then_some(0),
            gate: None,
        }
    }

    /// All outputs of such a pair.
    pub(crate) fn whole(pair: MixturePair, is_in: (bool, bool)) -> Self {
        Self::new(&Arc::new(pair), is_in, f64::NEG_INFINITY, f64::INFINITY)
    }

    /// σ.
    pub(crate) fn noise_multiplier(&self) -> f64 {
        self.pair.noise_multiplier()
    }

    /// s such that |N(x + ia)|/N(x) of the noise, and of the gate with it, is at most e^{a²/2s²}.
    pub(crate) fn imaginary_scale(&self) -> f64 {
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

    /// A height at which r_P and r_Q are far from 0 above an interval of outputs; `None` where their zeros may not be real.
    pub(crate) fn height_far_from_zeros(&self, (low, high): (f64, f64)) -> Option<f64> {
        let mut scratch = Vec::new();
        let mut height = f64::INFINITY;
        for (mixed, interval) in [(self.in_p, (low, high)), (self.in_q, (-high, -low))] {
            if mixed {
                height = height.min(self.pair.height_far_from_zeros(interval, &mut scratch)?);
            }
        }
        height.is_finite().then_some(height)
    }

    /// For r_P and for r_Q, if they are mixtures, a shift such that larger ones are not significant ([`MixturePair::largest_significant_shift`]) on an
    /// interval of outputs: for r_P up to its upper end and all outputs below, for r_Q down to its lower end and all outputs above.
    pub(crate) fn largest_significant_shifts(&self, (low, high): (f64, f64)) -> [Option<f64>; 2] {
        [(self.in_p, high), (self.in_q, -low)]
            .map(|(mixed, x)| mixed.then(|| self.pair.largest_significant_shift(x, INSIGNIFICANT)))
    }

    /// For r_P and for r_Q, if they are mixtures, the largest distance between shifts that are significant together at one output of an interval
    /// ([`MixturePair::widest_significant_range`]); infinite for an interval without ends.
    pub(crate) fn widest_significant_ranges(&self, (low, high): (f64, f64)) -> [Option<f64>; 2] {
        let is_finite = low.is_finite() && high.is_finite() && low < high;
        let mut terms = Vec::new();
        let mut of = |interval: (f64, f64)| {
            if is_finite && self.pair.is_unimodal() {
                self.pair.widest_significant_range(interval, &mut terms)
            } else {
                f64::INFINITY
            }
        };
        [(self.in_p, (low, high)), (self.in_q, (-high, -low))].map(|(mixed, interval)| mixed.then(|| of(interval)))
    }

    /// The least upper bound of the loss: shifts are not negative, so r ≥ the weight of a shift of 0.
    pub(crate) fn max_loss(&self) -> f64 {
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
        let mut point = self.point_of_pair(x, scratch);
        if let Some(gate) = &self.gate {
            point.log_density += gate.log_probability(x);
        }
        point
    }

    /// Loss and density of P at x without a gate.
    fn point_of_pair(&self, x: f64, scratch: &mut Scratch) -> Point {
        let Scratch { p, q, .. } = scratch;
        let of = |(law, mixed, x): (&mut Posterior, bool, f64)| {
            mixed.then(|| {
                law.at(&self.pair, x);
                Ratio {
                    log_ratio: law.log_ratio,
                    log_density: law.log_density,
                    mean_shift: law.mean_shift,
                    first_shift: self.pair.shifts[law.start],
                }
            })
        };
        let ratios = [(p, self.in_p, x), (q, self.in_q, -x)].map(of);
        self.point_of(x, ratios)
    }

    /// Loss and density of P at the nodes of a panel, without a gate.
    pub(crate) fn points_of_pair(&self, nodes: &[f64; NODES], scratch: &mut Scratch) -> [Point; NODES] {
        let mut points = [Point::default(); NODES];
        let (halves, _) = nodes.as_chunks::<LANES>();
        let (found, _) = points.as_chunks_mut::<LANES>();
        for (nodes, points) in halves.iter().zip(found) {
            *points = self.points_at_once(nodes, scratch);
        }
        points
    }

    fn points_at_once(&self, nodes: &AtNodes, scratch: &mut Scratch) -> [Point; LANES] {
        if nodes[LANES - 1] - nodes[0] > WIDEST * self.noise_multiplier() {
            return nodes.map(|x| self.point_of_pair(x, scratch));
        }
        let reflected = nodes.map(|x| -x);
        let mut of =
            |mixed: bool, nodes: &AtNodes| mixed.then(|| self.pair.at_nodes(nodes, &mut scratch.at_nodes));
        let (p, q) = (of(self.in_p, nodes), of(self.in_q, &reflected));
        std::array::from_fn(|i| {
            let of_node = |ratios: &RatiosAtNodes| Ratio {
                log_ratio: ratios.log_ratio[i],
                log_density: ratios.log_density[i],
                mean_shift: ratios.mean_shift[i],
                first_shift: self.pair.shifts[ratios.atoms.0],
            };
            self.point_of(nodes[i], [p.as_ref().map(of_node), q.as_ref().map(of_node)])
        })
    }

    /// Loss and density of P at x without a gate, from r_P(x) and r_Q(−x).
    fn point_of(&self, x: f64, [p, q]: [Option<Ratio>; 2]) -> Point {
        let sigma = self.noise_multiplier();
        let variance = sigma * sigma;
        let scaled = x / sigma;
        let mut point = Point {
            loss: 0.0,
            slope: 0.0,
            log_density: -0.5 * scaled * scaled,
            size: 0.0,
        };
        let size = |ratio: &Ratio| {
            let shift = ratio.mean_shift.abs().max(ratio.first_shift.abs()) / sigma;
            shift * (scaled.abs() + shift) + ratio.log_ratio.abs()
        };
        if let Some(p) = p {
            point.loss = p.log_ratio;
            point.slope = p.mean_shift / variance;
            point.log_density = p.log_density;
            point.size = size(&p);
        }
        if let Some(q) = q {
            point.loss -= q.log_ratio;
            point.slope += q.mean_shift / variance;
            point.size += size(&q);
        }
        point.log_density += Normal::new(sigma).log_scale();
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

    /// log P(X > x) and log Q(X > x).
    pub(crate) fn log_masses_above(&self, x: f64) -> (f64, f64) {
        let (p, q) = self.tails_above(x);
        (p.value, q.value)
    }

    /// log P(X > x) and log Q(X > x); their errors do not count the rounding of the numbers themselves.
    ///
    /// The normal tail at a distance of z standard deviations has a relative error e below 1e-15·(4 + z²), that below the mean
    /// one of 4e-15. A sum of tails has their mean, weighted by the tails, to which e^e − 1 < 1.06·e adds next to nothing while
    /// all are small; else the largest, in the logarithm.
    pub(crate) fn tails_above(&self, x: f64) -> (Approx, Approx) {
        self.tails_with(x, self.noise_multiplier())
    }

    /// [`Piece::tails_above`] of Gaussians with a standard deviation of `sigma` in place of the noise multiplier.
    pub(crate) fn tails_with(&self, x: f64, sigma: f64) -> (Approx, Approx) {
        const ERROR: f64 = 1e-15;
        const SMALL: f64 = 0.1;
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
            Approx {
                value: sum.ln(),
                error: ERROR + if most < SMALL { mean.min(most) } else { most },
            }
        };
        (tail(self.in_p, 1.0), tail(self.in_q, -1.0))
    }

    /// The output at which the loss is `level`; −∞ where every output has a larger loss, +∞ where none has.
    pub(crate) fn output_at(&self, level: f64, scratch: &mut Scratch) -> f64 {
        /// Part of |x| or σ to which the output is found: a few units in the last place.
        const RESOLUTION: f64 = 1e-15;
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
        newton_increasing((low, high), RESOLUTION, sigma, |x| {
            let point = self.point(x, scratch);
            (point.loss - level, point.slope)
        })
    }

    /// Cost of an evaluation at x, in terms of densities.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;

    fn piece(records: u64, rate: f64, sigma: f64, is_in: (bool, bool)) -> Piece {
        let law = GroupLaw::binomial(records, rate).unwrap();
        Piece::whole(MixturePair::new(&law, sigma).unwrap(), is_in)
    }

    /// mpmath, 34 digits, with T(z) = erfc(z/sqrt(2))/2: log(sum(w[j]*T((x-j)/sigma))) and log(T(x/sigma)).
    #[test]
    fn tails_are_as_good_as_they_say() {
        for (k, q, sigma, x, mixed, plain) in [
            (
                2,
                0.01,
                1.3,
                -3.0,
                -0.010_373_345_733_714_032,
                -0.010_563_728_337_842_216,
            ),
            (2, 0.01, 1.3, 0.4, -0.954_194_111_344_031_5, -0.969_801_649_784_875_8),
            (2, 0.01, 1.3, 6.5, -14.434_726_009_859_805, -15.064_998_393_988_725),
            (2, 0.01, 1.3, 30.0, -245.153_916_920_487_35, -270.331_830_042_748_2),
            (
                1,
                1e-8,
                0.5,
                -3.0,
                -9.865_876_356_585_055e-10,
                -9.865_876_455_243_757e-10,
            ),
            (1, 1e-8, 0.5, 0.4, -1.551_851_287_417_289_6, -1.551_851_319_187_776_7),
            (1, 1e-8, 0.5, 6.5, -82.242_418_354_335_01, -87.989_719_971_022_52),
            (1, 1e-8, 0.5, 30.0, -1_705.400_359_332_271, -1_805.013_560_680_567),
        ] {
            let (p, q) = piece(k, q, sigma, (true, false)).tails_above(x);
            for (tail, exact) in [(p, mixed), (q, plain)] {
                let rounding = f64::EPSILON * tail.value.abs();
                let wrong = (tail.value - exact).abs();
                assert!(wrong <= tail.error + rounding, "{k} {x}: {tail:?} {exact}");
                let distance = x.max(0.0) / sigma;
                assert!(tail.error <= 1e-15 * (6.0 + distance * distance), "{k} {x}: {tail:?}");
            }
        }
    }

    #[test]
    fn the_output_at_a_loss_has_that_loss() {
        let mut scratch = Scratch::default();
        for mixed in [(true, false), (false, true), (true, true)] {
            let piece = piece(3, 0.2, 1.1, mixed);
            for level in [-0.2, 0.1, 0.6] {
                let x = piece.output_at(level, &mut scratch);
                if x.is_finite() {
                    let loss = piece.point(x, &mut scratch).loss;
                    assert!((loss - level).abs() <= 1e-12, "{mixed:?} {level}: {loss}");
                }
            }
            // The loss of the noise against the mixture ends at −3·log 0.8.
            let most = piece.max_loss();
            assert_eq!(most.is_finite(), mixed == (false, true));
            if most.is_finite() {
                assert!((most + 3.0 * 0.8f64.ln()).abs() < 1e-15);
                assert_eq!(piece.output_at(most + 1e-9, &mut scratch), f64::INFINITY);
                assert!(piece.point(40.0, &mut scratch).loss <= most);
            }
        }
    }
}
