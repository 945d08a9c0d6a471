//! The integrand of a smooth piece of a privacy loss, continued from an output x to x + ia: what a path above the real line needs.
//!
//! r(x + ia)/r(x) = E[e^{ias/σ²}] under the posterior law of the shift s at x. The laws at the nodes are kept ([`NodeLaws`]), as a path is
//! chosen among several heights.

use crate::loss::MixturePair;
use crate::loss::mixture_pair::real_rooted::{CountMoments, Turning};
use crate::loss::posterior::Posterior;
use crate::loss::smooth_piece::{Piece, Scratch};
use crate::special::complex_logarithm::ln_1p;
use crate::special::trigonometric::sin_cos;
use std::f64::consts::PI;

/// The change of the integrand from x to x + ia: the log of its modulus, and the rate at which it falls with y = Im z.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Continued {
    /// log |r_P(x + ia)/r_P(x)|, at most 0.
    pub(crate) log_p: f64,
    /// log |r_Q(x + ia)/r_Q(x)|, at most 0.
    pub(crate) log_q: f64,
    /// θ ≥ 0: |e^{iyℓ(x + ia)}| = e^{−yθ}.
    pub angle: f64,
}

impl Continued {
    /// log of |integrand(x + ia)/integrand(x)| at Re z = c, without e^{−yθ}.
    ///
    /// `scale` is [`Piece::imaginary_scale`].
    pub(crate) fn log_change(&self, c: f64, imaginary_shift: f64, scale: f64) -> f64 {
        0.5 * (imaginary_shift / scale).powi(2) + (1.0 + c) * self.log_p - c * self.log_q
    }
}

impl Piece {
    /// The integrand's change from x to x + ia, given the sines and cosines of [`ImaginaryShift`].
    pub(crate) fn continued(&self, x: f64, imaginary_shift: &ImaginaryShift, scratch: &mut Scratch) -> Continued {
        self.continued_with_sine(x, imaginary_shift, scratch).0
    }

    /// [`Piece::continued`] and Im r_P(x + ia)/r_P(x) + Im r_Q(x + ia)/r_Q(x), which is at most θ.
    pub(crate) fn continued_with_sine(
        &self,
        x: f64,
        imaginary_shift: &ImaginaryShift,
        scratch: &mut Scratch,
    ) -> (Continued, f64) {
        let [p, q] = [(self.in_p, x), (self.in_q, -x)].map(|(is_mixed, x)| {
            let turned = is_mixed.then(|| {
                scratch.p.fill(&self.pair, x);
                imaginary_shift.of(scratch.p.law())
            });
            turned.unwrap_or_default()
        });
        let continued = Continued {
            log_p: p.log_modulus,
            log_q: q.log_modulus,
            angle: p.angle + q.angle,
        };
        (continued, p.sine + q.sine)
    }
}

/// A posterior law of the shift: the probabilities of the shifts from number `start` on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Law<'a> {
    start: usize,
    terms: &'a [f64],
}

impl Posterior {
    fn law(&self) -> Law<'_> {
        Law {
            start: self.start,
            terms: &self.terms,
        }
    }
}

impl Law<'_> {
    /// Index in `terms` of the median.
    fn median(&self) -> usize {
        let mut below = 0.0;
        let is_past = |term: &f64| {
            below += term;
            below >= 0.5
        };
        self.terms.iter().position(is_past).unwrap_or(0)
    }

    /// The means of two functions of the shift, given by their values at all shifts.
    ///
    /// Four sums side by side, as one alone would wait for each addition.
    fn means(&self, a: &[f64], b: &[f64]) -> (f64, f64) {
        const LANES: usize = 4;
        let (a, b) = (&a[self.start..], &b[self.start..]);
        let (mut of_a, mut of_b) = ([0.0; LANES], [0.0; LANES]);
        let mut chunks = self.terms.chunks_exact(LANES);
        let mut done = 0;
        for terms in chunks.by_ref() {
            let (a, b) = (&a[done..done + LANES], &b[done..done + LANES]);
            for i in 0..LANES {
                of_a[i] += terms[i] * a[i];
                of_b[i] += terms[i] * b[i];
            }
            done += LANES;
        }
        for (i, term) in chunks.remainder().iter().enumerate() {
            of_a[i] += term * a[done + i];
            of_b[i] += term * b[done + i];
        }
        (of_a.iter().sum(), of_b.iter().sum())
    }
}

/// The place of the law of one ratio at one node in the table; empty for a ratio of 1.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    start: usize,
    from: usize,
    to: usize,
}

/// The posterior laws of the shift at the nodes of a loss that were asked for so far, for r_P and r_Q: at most as many terms as the search for
/// the nodes may evaluate.
#[derive(Debug)]
pub(crate) struct NodeLaws {
    terms: Vec<f64>,
    places: Vec<Option<[Place; 2]>>,
    posterior: Posterior,
    /// The means of the nodes that are added for one path.
    means: Means,
}

/// E[e^{ias/σ²}] − 1 under some laws.
#[derive(Debug, Default)]
struct Means {
    real: Vec<f64>,
    imaginary: Vec<f64>,
    /// Number of each law that has shifts with angles above π, and what is known of its angle.
    turning: Vec<(usize, Turning)>,
}

impl Means {
    fn clear(&mut self) {
        self.real.clear();
        self.imaginary.clear();
        self.turning.clear();
    }

    fn add(&mut self, imaginary_shift: &ImaginaryShift, law: Law<'_>) {
        let (sine, versine) = law.means(&imaginary_shift.sines, &imaginary_shift.versines);
        if let Some(turning) = imaginary_shift.turning(law) {
            self.turning.push((self.real.len(), turning));
        }
        self.real.push(-versine);
        self.imaginary.push(sine);
    }

    /// Replaces the means less 1 by the logarithms of the means, with the angles of the continuation.
    fn take_logarithms(&mut self) {
        ln_1p(&mut self.real, &mut self.imaginary);
        for &(law, turning) in &self.turning {
            self.imaginary[law] = turning.angle(self.imaginary[law]);
        }
    }
}

impl NodeLaws {
    /// For that many nodes; no law is known yet.
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            terms: Vec::new(),
            places: vec![None; nodes],
            posterior: Posterior::default(),
            means: Means::default(),
        }
    }

    /// The law of `pair` at x, if there is a mixture in the ratio.
    fn keep(&mut self, is_mixed: bool, pair: &MixturePair, x: f64) -> Place {
        if !is_mixed {
            return Place::default();
        }
        self.posterior.fill(pair, x);
        let from = self.terms.len();
        self.terms.extend_from_slice(&self.posterior.terms);
        Place {
            start: self.posterior.start,
            from,
            to: self.terms.len(),
        }
    }

    /// Forgets the nodes that were added.
    pub(crate) fn begin(&mut self) {
        self.means.clear();
    }

    /// Adds node i of `piece`, at the output x, continued by a height; returns how many terms the laws there have.
    pub(crate) fn add(&mut self, piece: &Piece, (i, x): (usize, f64), imaginary_shift: &ImaginaryShift) -> u64 {
        let Piece { pair, in_p, in_q, .. } = piece;
        let places = self.places[i].unwrap_or_else(|| [self.keep(*in_p, pair, x), self.keep(*in_q, pair, -x)]);
        self.places[i] = Some(places);
        let mut count = 0;
        for Place { start, from, to } in places.into_iter().filter(|place| place.from < place.to) {
            count += (to - from) as u64;
            let terms = &self.terms[from..to];
            self.means.add(imaginary_shift, Law { start, terms });
        }
        count
    }

    /// The changes of the integrand at the nodes that were added, in their order; `pieces` are those of the nodes.
    pub(crate) fn changes<'a>(
        &'a mut self,
        pieces: impl Iterator<Item = &'a Piece>,
    ) -> impl Iterator<Item = Continued> {
        self.means.take_logarithms();
        let mut logarithms = self.means.real.iter().zip(&self.means.imaginary);
        pieces.map(move |piece| {
            let mut of = |is_mixed: bool| match is_mixed.then(|| logarithms.next()).flatten() {
                Some((log_modulus, angle)) => (*log_modulus, *angle),
                None => (0.0, 0.0),
            };
            let ((log_p, angle_of_p), (log_q, angle_of_q)) = (of(piece.in_p), of(piece.in_q));
            Continued {
                log_p,
                log_q,
                angle: angle_of_p + angle_of_q,
            }
        })
    }
}

/// E[e^{ias/σ²}] under one law.
#[derive(Debug, Clone, Copy, Default)]
struct Turned {
    log_modulus: f64,
    angle: f64,
    sine: f64,
}

/// sin(as/σ²) and 1 − cos(as/σ²) for every shift s: what moves with the continuation to x + ia.
#[derive(Debug)]
pub(crate) struct ImaginaryShift {
    sines: Vec<f64>,
    versines: Vec<f64>,
    /// as/σ² where some of these angles are larger than π; else empty.
    angles: Vec<f64>,
    /// The angle of one more member where a count has real zeros and this is below π.
    angle_of_member: Option<f64>,
}

impl ImaginaryShift {
    /// The tables of `piece` for a height a.
    pub(crate) fn new(piece: &Piece, imaginary_shift: f64) -> Self {
        let rate = imaginary_shift / piece.noise_multiplier().powi(2);
        let shifts = &piece.pair.shifts;
        let turns = rate * piece.largest_shift() > PI;
        // By the sines and cosines of half the angles.
        let mut sines: Vec<f64> = shifts.iter().map(|s| 0.5 * rate * s).collect();
        let mut versines = vec![0.0; sines.len()];
        sin_cos(&mut sines, &mut versines);
        for (cosine, sine) in sines.iter_mut().zip(&mut versines) {
            (*cosine, *sine) = (2.0 * *sine * *cosine, 2.0 * *sine * *sine);
        }
        Self {
            angles: if turns {
                shifts.iter().map(|s| rate * s).collect()
            } else {
                Vec::new()
            },
            sines,
            versines,
            angle_of_member: piece.pair.angle_of_member(imaginary_shift),
        }
    }

    /// log|E[e^{ias/σ²}]|, its angle and its imaginary part under the posterior law.
    ///
    /// The angle is that of the continuation from the real line, or less where only a bound on it is known.
    fn of(&self, law: Law<'_>) -> Turned {
        let (sine, versine) = law.means(&self.sines, &self.versines);
        let log_modulus = 0.5 * (sine * sine - versine * (2.0 - versine)).ln_1p();
        let angle = sine.atan2(1.0 - versine);
        Turned {
            log_modulus,
            angle: self.turning(law).map_or(angle, |turning| turning.angle(angle)),
            sine,
        }
    }

    /// What is known of the angle of a law besides its sine and cosine; `None` where no angle of a shift is above π, so that it is between 0 and π.
    ///
    /// Without real zeros, all but a small part of the law is within an angle of less than π around that of its median
    /// ([`crate::loss::smooth_decay`]).
    fn turning(&self, law: Law<'_>) -> Option<Turning> {
        if self.angles.is_empty() {
            return None;
        }
        Some(match self.angle_of_member {
            Some(angle) => CountMoments::of(law.start, law.terms).turning(angle, self.angles[0]),
            None => Turning::Near(self.angles[law.start + law.median()]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;
    use realfft::num_complex::Complex64;

    fn piece(records: u64, rate: f64, sigma: f64) -> Piece {
        let law = GroupLaw::binomial(records, rate).unwrap();
        Piece::whole(MixturePair::new(&law, sigma).unwrap(), (true, true))
    }

    /// |r(x + ia)| and its argument from complex exponentials.
    #[test]
    fn the_continuation_is_that_of_the_densities() {
        let (rate, sigma, height) = (0.2f64, 1.1f64, 0.8);
        let piece = piece(1, rate, sigma);
        let imaginary_shift = ImaginaryShift::new(&piece, height);
        let ratio = |z: Complex64| (1.0 - rate) + rate * ((z - 0.5) / (sigma * sigma)).exp();
        for x in [-3.0, 0.2, 1.5, 6.0] {
            let continued = piece.continued(x, &imaginary_shift, &mut Scratch::default());
            let of = |x: f64| ratio(Complex64::new(x, height)) / ratio(Complex64::new(x, 0.0));
            let (p, q) = (of(x), of(-x));
            assert!((continued.log_p - p.norm().ln()).abs() < 1e-14, "{x}");
            assert!((continued.log_q - q.norm().ln()).abs() < 1e-14, "{x}");
            assert!((continued.angle - p.arg() - q.arg()).abs() < 1e-14, "{x}");
            let c = 0.7;
            let change = continued.log_change(c, height, piece.imaginary_scale());
            // |N(x + ia)| is N(x)·e^{a²/2σ²}.
            let exact = 0.5 * (height / sigma).powi(2) + (1.0 + c) * p.norm().ln() - c * q.norm().ln();
            assert!((change - exact).abs() < 1e-13, "{x}");
        }
    }

    /// The laws that are stored for the nodes are those that each output has.
    #[test]
    fn laws_at_nodes_are_those_at_their_outputs() {
        let piece = piece(30, 0.2, 1.5);
        let outputs = [-9.0, -1.0, 4.0, 12.5, 40.0];
        let mut laws = NodeLaws::new(outputs.len());
        let mut scratch = Scratch::default();
        for height in [0.01, 0.1, 0.3] {
            let table = ImaginaryShift::new(&piece, height);
            for (i, &x) in outputs.iter().enumerate() {
                laws.begin();
                let terms = laws.add(&piece, (i, x), &table);
                let found = laws.changes(std::iter::once(&piece)).next().unwrap();
                let anew = piece.continued(x, &table, &mut scratch);
                let close = |a: f64, b: f64| (a - b).abs() <= 1e-15 * (1.0 + b.abs());
                assert!(
                    close(found.log_p, anew.log_p) && close(found.log_q, anew.log_q),
                    "{found:?} {anew:?}"
                );
                assert!(close(found.angle, anew.angle), "{found:?} {anew:?}");
                assert!(terms > 2 && terms <= 62, "{terms}");
            }
        }
    }
}
