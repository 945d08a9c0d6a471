//! How the transform of one batch of a truncated law decays, by turning its variable.
//!
//! Let L(x) = log E[e^{xY/t}; g ≤ b]. The integral over g ≤ b is moved to the line Im g = η, η = ϑ/√v with ϑ ≤ π/2, and the segment from b + iη back
//! to b. On the line the density has e^{η²/2} times its modulus and Y is turned by ϑ, so that |E[e^{(λ + iτ)Y/t}]| is at most
//! e^{η²/2 + L(λ·cos ϑ − τ·sin ϑ)} there. On the segment Y is at most Y_b and turned by u√v at b + iu, which sin x ≥ 2x/π makes at most
//! φ(b)·e^{η²/2 + λY_b/t}·min(η, πt/(2τY_b√v)), with λ·cos ϑ in place of λ if λ < 0.
//!
//! L is convex, and below its chords between 0 and λ. For x = −qt < 0, e^{−qY} ≤ (m/(eqY))^m gives L ≤ m·log(m/(eq)) + m(m + 1)v/2 for every m > 0, and L
//! increases. For a fixed ϑ both terms fall at least like 1/τ from τ on where τ·ϑ·Y_b ≥ πt/2, and λ·cos ϑ < τ·sin ϑ if λ > 0, or |λ|·cos ϑ ≤ τ·sin ϑ and m ≥ 2 if
//! λ < 0: then |x|^m grows at least like τ.

use crate::special::log_space::log_add;
use std::f64::consts::FRAC_PI_2;

/// Places of τ, from the first, in terms of V, on, each a factor beyond the one before: a Gaussian density is at e^−45 at 12·V.
const PLACES: i32 = 48;
const FIRST_PLACE: f64 = 0.7;
const GROWTH: f64 = 1.1;
/// Angles that are tried, from the largest down by a factor each time.
const ANGLES: i32 = 20;
const ANGLE_FACTOR: f64 = 0.8;
/// Powers m that are tried, besides one that is nearly the best.
const POWERS: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
/// Steps of Newton's method towards the best power.
const POWER_STEPS: usize = 5;
/// What the values of L may be off by.
const SLACK: f64 = 1e-9;

/// A bound on log |f(τ)|, which falls at least like 1/τ from the first place on.
#[derive(Debug, Clone)]
pub(super) struct Turned {
    /// The first place.
    first: f64,
    /// The bounds at the ends of the intervals between places.
    at_ends: Vec<f64>,
}

/// What the bounds at all angles and frequencies have in common.
pub(super) struct Batch {
    pub(super) lambda: f64,
    /// t.
    pub(super) total: f64,
    pub(super) variance: f64,
    /// L at even distances from 0 to λ, both included.
    pub(super) logs: Vec<f64>,
    /// Y_b/t.
    pub(super) largest: f64,
    /// log φ(b).
    pub(super) log_density_at_end: f64,
}

impl Batch {
    /// L(λ).
    fn log_whole(&self) -> f64 {
        self.logs.last().copied().unwrap_or(f64::NAN)
    }

    /// The power with about the least bound, where log m + mv = log q.
    fn best_power(&self, log_q: f64) -> f64 {
        let mut log = log_q;
        for _ in 0..POWER_STEPS {
            let size = self.variance * log.exp();
            log -= (log + size - log_q) / (1.0 + size);
        }
        log.exp()
    }

    /// A bound on L(x), x ≤ max(λ, 0); one that falls at least like 1/|x|² if `falls`.
    fn log_transform(&self, x: f64, falls: bool) -> f64 {
        let chords = self.logs.len() - 1;
        let place = x / self.lambda * chords as f64;
        let place = if self.lambda > 0.0 {
            place.min(chords as f64)
        } else {
            place
        };
        if (0.0..=chords as f64).contains(&place) && !falls {
            let i = (place as usize).min(chords - 1);
            let part = place - i as f64;
            return (1.0 - part) * self.logs[i] + part * self.logs[i + 1];
        }
        let log_q = (-x / self.total).ln();
        let by_power = |m: &f64| m * (m.ln() - 1.0 - log_q) + 0.5 * m * (m + 1.0) * self.variance;
        let best = self.best_power(log_q);
        let powers = POWERS
            .iter()
            .chain([&best])
            .filter(|m| !falls || **m >= 2.0)
            .map(by_power);
        let at_end = if falls {
            f64::INFINITY
        } else {
            self.log_whole().min(0.0)
        };
        powers.fold(at_end, f64::min)
    }

    /// The bound at τ by turning by an angle, which decreases in τ.
    fn log_turned(&self, tau: f64, angle: f64, falls: bool) -> f64 {
        let turn = 0.5 * angle * angle / self.variance - self.log_whole();
        let line = self.log_transform(self.lambda * angle.cos() - tau * angle.sin(), falls);
        let longest = angle.min(FRAC_PI_2 / (tau * self.largest));
        let tilt = self.lambda * self.largest * if self.lambda > 0.0 { 1.0 } else { angle.cos() };
        let segment = self.log_density_at_end + tilt + (longest / self.variance.sqrt()).ln();
        turn + log_add(line, segment) + SLACK
    }

    /// The least of these bounds at τ, where `beyond` leaves only those that fall at least like 1/τ from there on.
    fn best(&self, tau: f64, beyond: bool) -> f64 {
        let falls = |angle: &f64| {
            let (sine, cosine) = angle.sin_cos();
            let is_turned = if self.lambda > 0.0 {
                self.lambda * cosine < tau * sine
            } else {
                -self.lambda * cosine <= tau * sine
            };
            is_turned && tau * angle * self.largest >= FRAC_PI_2
        };
        (0..ANGLES)
            .map(|i| FRAC_PI_2 * ANGLE_FACTOR.powi(i))
            .filter(|angle| !beyond || falls(angle))
            .map(|angle| self.log_turned(tau, angle, beyond))
            .fold(f64::INFINITY, f64::min)
    }
}

impl Turned {
    /// For a batch tilted by e^{λY/t} with the total variation V; `None` where no bound is known.
    pub(super) fn new(batch: &Batch, variation: f64) -> Option<Self> {
        let first = FIRST_PLACE * variation;
        let mut next = batch.best(first * GROWTH.powi(PLACES), true);
        let mut at_ends = Vec::with_capacity(PLACES as usize);
        for i in (0..PLACES).rev() {
            // The bound at the start of an interval serves all of it, and that of the next interval is continued by 1/τ.
            let here = batch.best(first * GROWTH.powi(i), false).max(next);
            at_ends.push(here);
            next = here + GROWTH.ln();
        }
        at_ends.reverse();
        next.is_finite().then_some(Self { first, at_ends })
    }

    /// log of the bound on |f(τ)|; infinite before the first place.
    pub(super) fn log(&self, tau: f64) -> f64 {
        let x = tau / self.first;
        if x < 1.0 {
            return f64::INFINITY;
        }
        let last = self.at_ends.len() - 1;
        let i = ((x.ln() / GROWTH.ln()) as usize).min(last);
        self.at_ends[i] + GROWTH.ln() * (i + 1) as f64 - x.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::bins::Bins;
    use crate::loss::allocation::modulus::turned_batch;
    use crate::loss::allocation::truncated_law::{TruncatedLaw, TruncatedPart};
    use realfft::num_complex::Complex64;
    use std::f64::consts::TAU;

    /// E[e^{sY/t}; g ≤ b] by a sum over g.
    fn transform((v, end, total): (f64, f64, f64), s: Complex64) -> Complex64 {
        let step = 2e-4;
        let term = |i: i32| {
            let g = end - (f64::from(i) + 0.5) * step;
            let y = (v.sqrt() * g - 0.5 * v).exp() / total;
            (s * y - 0.5 * g * g).exp() * step / TAU.sqrt()
        };
        (0..120_000).map(term).sum()
    }

    fn part(v: f64, log_mass: f64) -> TruncatedPart {
        let law = TruncatedLaw::new(&Bins::new(&[(1, v), (3, 0.0)]).unwrap(), log_mass, f64::INFINITY).unwrap();
        law.parts[0].clone()
    }

    /// Where the density goes on to a far b, the transform is nearly normal, and the bound is close; a b that is near leaves a jump, of which the
    /// segment is the bound.
    #[test]
    fn transforms_decay_as_bounded() {
        for (v, lambda, log_mass, variation) in [
            (0.0025, 300.0, -60.0, 60.0),
            (0.0025, 380.0, -120.0, 60.0),
            (0.04, 20.0, -60.0, 15.0),
            (0.04, 8.0, -6.0, 15.0),
        ] {
            let part = part(v, log_mass);
            let at = (v, part.end, 4.0);
            let turned = Turned::new(&turned_batch(&part, (lambda, 4.0)).unwrap(), variation).unwrap();
            let whole = transform(at, Complex64::from(lambda)).norm().ln();
            let mut closest = f64::INFINITY;
            for i in 0..40 {
                let tau = FIRST_PLACE * variation * 1.083f64.powi(i) * (1.0 + 1e-9);
                let exact = transform(at, Complex64::new(lambda, tau)).norm().ln() - whole;
                let found = turned.log(tau);
                // The sum has rounding errors of some e^−34.
                assert!(exact <= found || exact < -30.0, "{v} {lambda} {tau}: {found} {exact}");
                if found < -1.0 && exact > -25.0 {
                    closest = closest.min(exact / found);
                }
            }
            assert!(closest < 1.7, "{v} {lambda} {log_mass}: {closest}");
        }
    }

    /// From the first place on the bound falls at least like 1/τ, far beyond the last one too.
    #[test]
    fn the_bound_falls_like_the_reciprocal() {
        let part = part(0.0025, -60.0);
        let turned = Turned::new(&turned_batch(&part, (300.0, 4.0)).unwrap(), 60.0).unwrap();
        let at = |i: i32| turned.first * 1.013f64.powi(i);
        for i in 0..1000 {
            let fall = turned.log(at(i)) - turned.log(at(i + 1));
            assert!(fall >= 1.013f64.ln() - 1e-9, "{i}: {fall}");
        }
        assert_eq!(turned.log(0.99 * turned.first), f64::INFINITY);
    }
}
