//! Bounds on the ratio of a mixture at complex outputs, for a count of members whose generating polynomial has real zeros only.
//!
//! With t = e^{x/σ²} (shifts 0, 1, …) the ratio r(x) = Σ_j w_j e^{−j²/2σ²} t^j is a polynomial of t whose zeros are real, too, and not positive
//! (Laguerre; Theorem 1 of `docs/theory/real-zeros.md`). So r is a product of factors t + a_m, and with u_m = t/(t + a_m)
//!
//! r(x + iy)/r(x) = Π_m (1 − u_m + u_m e^{iθ}), θ = y/σ²:
//!
//! the characteristic function of a sum of independent Bernoulli variables, whose mean M and variance V are those of the posterior law of
//! the count. For 0 ≤ θ < π (Theorem 2)
//!
//! * |r(x + iy)| ≥ r(x)·cos(θ/2)^{4V};
//! * 0 ≤ arg r(x + iy) ≤ 2M·tan(θ/2);
//! * |r'(x + iy)/r(x + iy)| ≤ r'(x)/r(x)/cos(θ/2);
//! * arg r(x + iy) is at least M·sin θ, differs from θM by at most 2V(2tan(θ/2) − θ), and grows with y for θ ≤ π/2.

use super::{Local, MixturePair, NEGLIGIBLE_TERM};
use std::f64::consts::PI;

/// Bounds on r(x + iy)/r(x) below this are not used.
const LEAST_MODULUS: f64 = 1e-7;

/// Relative errors of the weights, with those of the posterior law that is computed from them. The theorems are about exact weights: with
/// others, r(x + iy)/r(x) differs by twice this at most.
const WEIGHT_ERROR: f64 = 4e-11;

/// What the errors of the weights add to bounds on the argument and the derivative, relative to them, where the modulus is at least
/// [`LEAST_MODULUS`]: 2π times [`WEIGHT_ERROR`] over it, with room.
const SLACK: f64 = 1.01;

/// Largest angle θ at which the ratio is continued: half of it is below π/2 with room for rounding.
const LARGEST_ANGLE: f64 = 0.98 * PI;

/// Largest distance of the argument from θM at which it is known as the one next to θM: below π.
const LARGEST_DISTANCE: f64 = 3.0;

/// log of the modulus to which a path above the real line goes down at most, where it is for the outputs of the largest variance: far above that of [`LEAST_MODULUS`], as
/// ellipses around the path reach farther up.
const LEVEL_OF_PATH: f64 = 9.0;
/// Largest θ of a path: ellipses reach farther up.
const ANGLE_OF_PATH: f64 = 2.6;
/// Outputs at which variances are looked at for it, in σ.
const STEP_OF_OUTPUTS: f64 = 1.0;

/// Mean and variance of the posterior law of a count.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CountMoments {
    mean: f64,
    variance: f64,
}

/// What is known of an angle that is known up to full turns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Turning {
    /// It is within π of this one.
    Near(f64),
    /// It is at least this.
    AtLeast(f64),
}

impl Turning {
    /// The angle that is `angle` but for full turns, or a lower bound on it.
    pub(crate) fn angle(self, angle: f64) -> f64 {
        match self {
            Self::Near(other) => angle + 2.0 * PI * ((other - angle) / (2.0 * PI)).round(),
            Self::AtLeast(least) => least,
        }
    }
}

impl CountMoments {
    /// Those of a law with these probabilities from atom number `start` on.
    pub(crate) fn of(start: usize, terms: &[f64]) -> Self {
        let counts = || terms.iter().enumerate().map(|(i, term)| ((start + i) as f64, *term));
        let mean: f64 = counts().map(|(count, term)| term * count).sum();
        let variance = counts().map(|(count, term)| term * (count - mean).powi(2)).sum();
        Self { mean, variance }
    }

    /// What is known of the angle where that of one more member is θ, and that of the smallest shift is `of_first`.
    pub(crate) fn turning(self, angle: f64, of_first: f64) -> Turning {
        if self.distance(angle) <= LARGEST_DISTANCE {
            Turning::Near(of_first + angle * self.mean)
        } else {
            Turning::AtLeast(of_first + self.least_between(angle, angle))
        }
    }

    /// A lower bound on the angle, less that of the smallest shift, where that of one more member is between two numbers: both bounds of Theorem 2 are concave functions
    /// of θ, which are least at an end.
    pub(crate) fn least_between(self, low: f64, high: f64) -> f64 {
        let by_sine = self.mean * low.sin().min(high.sin());
        let by_mean = [low, high].map(|angle| angle * self.mean - SLACK * self.distance(angle));
        by_sine.max(by_mean[0].min(by_mean[1])).max(0.0) / SLACK
    }

    /// A bound on the distance of the angle from θM.
    fn distance(self, angle: f64) -> f64 {
        2.0 * self.variance * (2.0 * (0.5 * angle).tan() - angle)
    }
}

/// What is known of r on a strip around an interval of outputs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strip {
    /// θ over the height y: the spacing of the shifts over σ².
    rate: f64,
    /// 4V for the largest posterior variance V of the count on the interval.
    exponent: f64,
}

/// Bounds on r(x + iy) for all x of the interval and |y| up to some height.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtHeight {
    /// Lower bound on |r(x + iy)|/r(x); 0 if there is none.
    pub(crate) modulus_ratio: f64,
    /// Upper bound on |arg r(x + iy)|/y over the slope of log r at x.
    pub(crate) turn: f64,
    /// Upper bound on |r'(x + iy)/r(x + iy)| over that slope.
    pub(crate) speed: f64,
}

impl AtHeight {
    /// The better of each of two bounds.
    pub(crate) fn or(self, other: Self) -> Self {
        Self {
            modulus_ratio: self.modulus_ratio.max(other.modulus_ratio),
            turn: self.turn.min(other.turn),
            speed: self.speed.min(other.speed),
        }
    }
}

/// Mean of the count, with that of the smallest shift, and an upper bound on its variance that has room for rounding.
fn count_of(local: &Local, spacing: f64) -> (f64, f64) {
    let mean = local.mean_shift / spacing;
    let square = local.mean_square_shift / (spacing * spacing);
    (mean, (square - mean * mean).max(0.0) + 1e-14 * square)
}

impl MixturePair {
    /// The angle θ of one more member at a height; `None` where it may be π, and for a law whose zeros may not be real.
    pub(crate) fn angle_of_member(&self, height: f64) -> Option<f64> {
        let angle = height * self.real_rooted_spacing? / self.noise_multiplier.powi(2);
        (angle <= LARGEST_ANGLE).then_some(angle)
    }

    /// A height at which r is far from 0 at the outputs of an interval; `None` for a law whose zeros may not be real. It is a choice, not a bound.
    pub(crate) fn height_far_from_zeros(&self, (low, high): (f64, f64), scratch: &mut Vec<f64>) -> Option<f64> {
        let spacing = self.real_rooted_spacing?;
        let members = (self.shifts.len() - 1) as f64;
        let steps = ((high - low) / (STEP_OF_OUTPUTS * self.noise_multiplier))
            .ceil()
            .clamp(1.0, 100.0);
        let mut largest = 0.0f64;
        let mut i = 0.0;
        while members > 1.0 && i <= steps {
            let local = self.local(low + (high - low) * i / steps, scratch);
            largest = largest.max(count_of(&local, spacing).1);
            i += 1.0;
        }
        let exponent = if members > 1.0 {
            (4.0 * largest).clamp(1e-9, members)
        } else {
            1.0
        };
        let angle = (2.0 * (-LEVEL_OF_PATH / exponent).exp().acos()).min(ANGLE_OF_PATH);
        Some(angle * self.noise_multiplier.powi(2) / spacing)
    }

    /// The strip around the interval with this posterior law at its left end, its centre and its right end, which are `reach` apart; `None` for
    /// a law whose zeros may not be real.
    pub(crate) fn strip(&self, locals: [&Local; 3], reach: f64) -> Option<Strip> {
        let spacing = self.real_rooted_spacing?;
        let rate = spacing / (self.noise_multiplier * self.noise_multiplier);
        let members = (self.shifts.len() - 1) as f64;
        // Terms that are negligible at an output are left out there, but may count in between.
        let left_out = NEGLIGIBLE_TERM * members.powi(3);
        let [left, centre, right] = locals.map(|local| {
            let (mean, variance) = count_of(local, spacing);
            (mean, variance + left_out)
        });
        // Between two outputs with means M ≤ M' and variances V and V' the variance is at most min(V, V') + M' − M, and as its logarithm
        // has a slope of at most `rate`, at most √(VV')·e^{rate·reach/2} (Theorem 3).
        let between = |(low_mean, low): (f64, f64), (high_mean, high): (f64, f64)| {
            let by_slope = (low * high).sqrt() * (0.5 * rate * reach).exp();
            by_slope.min(low.min(high) + (high_mean - low_mean).max(0.0))
        };
        let variance = between(left, centre).max(between(centre, right));
        Some(Strip {
            rate,
            exponent: (4.0 * SLACK * variance).min(members),
        })
    }
}

impl Strip {
    /// The bounds up to this height; `None` where θ may be π, or the modulus too small to say anything of the argument.
    pub(crate) fn at(&self, height: f64) -> Option<AtHeight> {
        let half_angle = 0.5 * self.rate * height;
        if half_angle > 0.5 * LARGEST_ANGLE {
            return None;
        }
        let cosine = half_angle.cos();
        let modulus_ratio = (self.exponent * cosine.ln()).exp() - 2.0 * WEIGHT_ERROR;
        let mean_turn = if half_angle > 0.0 {
            half_angle.tan() / half_angle
        } else {
            1.0
        };
        (modulus_ratio >= LEAST_MODULUS).then_some(AtHeight {
            modulus_ratio,
            turn: SLACK * mean_turn,
            speed: SLACK / cosine,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::posterior::Posterior;
    use crate::step::GroupLaw;
    use realfft::num_complex::Complex64;

    fn count_moments(pair: &MixturePair, x: f64) -> CountMoments {
        let mut law = Posterior::default();
        law.fill(pair, x);
        CountMoments::of(law.start, &law.terms)
    }

    fn laws() -> Vec<GroupLaw> {
        vec![
            GroupLaw::binomial(1, 0.02).unwrap(),
            GroupLaw::binomial(1, 0.5).unwrap(),
            GroupLaw::binomial(16, 0.01).unwrap(),
            GroupLaw::binomial(40, 0.4).unwrap(),
            GroupLaw::poisson_binomial(&[0.5, 0.01, 0.9, 1.0, 1e-6, 0.3]).unwrap(),
            GroupLaw::hypergeometric(6, 50, 100).unwrap(),
            GroupLaw::hypergeometric(8, 95, 100).unwrap(),
            GroupLaw::explicit(&[0.7, 0.3], &[0.3, 1.4]).unwrap(),
        ]
    }

    /// r(z)/r(x) and r'(z)/r(z) by their definition, with the argument of r(z) followed from the real line.
    fn ratio(pair: &MixturePair, x: f64, y: f64) -> (f64, f64, f64) {
        let variance = pair.noise_multiplier.powi(2);
        let of = |y: f64| {
            let (mut sum, mut derivative, mut real) = (Complex64::default(), Complex64::default(), 0.0);
            let largest = (0..pair.shifts.len())
                .map(|j| pair.term(j, x))
                .fold(f64::NEG_INFINITY, f64::max);
            for (j, shift) in pair.shifts.iter().enumerate() {
                let term = Complex64::from_polar((pair.term(j, x) - largest).exp(), shift * y / variance);
                sum += term;
                derivative += term * shift / variance;
                real += term.norm();
            }
            (sum / real, (derivative / sum).norm())
        };
        let (mut turned, mut last) = (0.0, Complex64::new(1.0, 0.0));
        for part in 1..=400 {
            let (here, _) = of(y * f64::from(part) / 400.0);
            turned += (here / last).arg();
            last = here;
        }
        (last.norm(), turned, of(y).1)
    }

    #[test]
    fn the_ratio_above_the_line_is_within_the_bounds_which_are_nearly_attained() {
        let mut closest = [f64::INFINITY; 3];
        for law in laws() {
            for sigma in [0.4, 1.0, 3.0] {
                let pair = MixturePair::new(&law, sigma).unwrap();
                let last = pair.shift_range().1;
                for (place, reach) in [(0.1, 0.02), (0.5, 0.3), (0.9, 1.0), (-0.5, 0.7)] {
                    let (centre, reach) = (place * last, reach * sigma);
                    let around = pair.surroundings(centre, reach, 0.0, &mut Vec::new());
                    let strip = pair
                        .strip([&around.left, &around.centre, &around.right], reach)
                        .unwrap();
                    let slope = around.right.mean_shift / sigma.powi(2);
                    if slope < 1e-9 {
                        continue; // posterior laws leave out terms below e^-50
                    }
                    for height in [0.05, 0.5, 1.2, 2.0].map(|height| height * sigma) {
                        let Some(bounds) = strip.at(height) else { continue };
                        for i in -4..=4 {
                            let x = centre + reach * f64::from(i) / 4.0;
                            let (modulus, turned, speed) = ratio(&pair, x, height);
                            let room = [
                                modulus / bounds.modulus_ratio,
                                bounds.turn * slope * height / turned,
                                bounds.speed * slope / speed,
                            ];
                            assert!(turned > 0.0);
                            for (closest, room) in closest.iter_mut().zip(room) {
                                assert!(room >= 1.0 - 1e-9, "{sigma} {x} {height}: {room}");
                                *closest = closest.min(room);
                            }
                        }
                    }
                }
            }
        }
        assert!(closest.iter().all(|room| *room < 1.02), "{closest:?}");
    }

    /// Against the argument that is followed from the real line, which is many times π; the distance from θM is nearly attained by rare members.
    #[test]
    fn the_argument_is_the_one_that_is_continued_from_the_line() {
        let (mut largest, mut closest, mut below, mut bounds) = (0.0f64, f64::INFINITY, f64::INFINITY, 0);
        for law in laws() {
            for sigma in [0.4, 1.0, 3.0] {
                let pair = MixturePair::new(&law, sigma).unwrap();
                let first = pair.shifts[0];
                let spacing = pair.shifts[1] - first;
                for place in [-0.2, 0.1, 0.5, 0.9] {
                    let x = place * pair.shift_range().1;
                    let angles = [0.3, 1.0, 2.0, 3.0];
                    let moments = count_moments(&pair, x);
                    for angle in angles {
                        let height = angle * sigma.powi(2) / spacing;
                        let (modulus, exact, _) = ratio(&pair, x, height);
                        let of_first = first * height / sigma.powi(2);
                        let known = exact.sin().atan2(exact.cos());
                        let found = moments.turning(angle, of_first);
                        match found {
                            Turning::Near(near) => {
                                assert!(
                                    modulus > 1e-9 && (found.angle(known) - exact).abs() < 1e-9,
                                    "{x} {angle}"
                                );
                                let distance = moments.distance(angle);
                                let off = (exact - near).abs();
                                assert!(
                                    off <= distance + 1e-12 * (1.0 + exact),
                                    "{sigma} {x} {angle}: {off} {distance} {exact} {modulus} {moments:?} {law:?}"
                                );
                                if off > 1e-6 {
                                    closest = closest.min(distance / off);
                                }
                            }
                            Turning::AtLeast(least) => {
                                bounds += 1;
                                assert!(least >= 0.0 && least <= exact, "{x} {angle}: {least} {exact}");
                            }
                        }
                        let least = of_first + moments.least_between(angle, angle);
                        assert!(least <= exact * (1.0 + 1e-12), "{x} {angle}: {least} {exact}");
                        if exact > 1e-9 {
                            below = below.min(exact / least);
                        }
                        largest = largest.max(exact);
                    }
                }
            }
        }
        assert!(
            largest > 20.0 && closest < 1.1 && bounds > 0,
            "{largest} {closest} {bounds}"
        );
    }

    /// Half of the bound of Theorem 3 does not hold.
    #[test]
    fn variances_between_two_outputs_are_bounded() {
        let mut closest = f64::INFINITY;
        for law in laws() {
            for sigma in [0.4, 1.0, 3.0] {
                let pair = MixturePair::new(&law, sigma).unwrap();
                let spacing = pair.shifts[1] - pair.shifts[0];
                for centre in [-1.0, 0.5, 2.0, 7.0] {
                    for reach in [0.01, 0.5, 2.0].map(|reach| reach * sigma) {
                        let around = pair.surroundings(centre, reach, 0.0, &mut Vec::new());
                        let strip = pair
                            .strip([&around.left, &around.centre, &around.right], reach)
                            .unwrap();
                        for i in -8..=8 {
                            let here = pair.local(centre + reach * f64::from(i) / 8.0, &mut Vec::new());
                            let variance = (here.mean_square_shift - here.mean_shift.powi(2)) / spacing.powi(2);
                            assert!(4.0 * variance <= strip.exponent, "{sigma} {centre} {reach}");
                            closest = closest.min(strip.exponent / (4.0 * variance).max(1e-300));
                        }
                    }
                }
            }
        }
        assert!(closest < 1.02, "{closest}");
    }

    /// Also between outputs so far apart that only one term counts at each of them.
    #[test]
    fn variances_far_from_both_outputs_are_bounded() {
        for (records, rate, sigma, reach) in [(1, 0.62, 1.0, 90.0), (8, 0.5, 0.5, 64.0), (1, 0.62, 1.0, 45.0)] {
            let pair = MixturePair::new(&GroupLaw::binomial(records, rate).unwrap(), sigma).unwrap();
            let mut scratch = Vec::new();
            let of = |x: f64, scratch: &mut Vec<f64>| pair.local(x, scratch);
            let [left, centre, right] = [-2.0 * reach, -reach, 0.0].map(|x| of(x + 0.5, &mut scratch));
            let strip = pair.strip([&left, &centre, &right], reach).unwrap();
            let largest = (0..2000)
                .map(|i| count_moments(&pair, 0.5 - 2.0 * reach * f64::from(i) / 2000.0).variance)
                .fold(0.0, f64::max);
            assert!(
                4.0 * largest <= strip.exponent,
                "{records} {reach}: {largest} {}",
                strip.exponent
            );
        }
    }

    /// As many changes of sign on the negative half-line as there are members, with and without the factors of the noise.
    #[test]
    fn zeros_of_counts_are_real() {
        for law in laws().into_iter().filter(|law| law.shifts().len() <= 9) {
            assert!(law.is_real_rooted());
            for a in [0.01, 0.5, 3.0] {
                let value = |u: f64| {
                    let term = |(j, log): (usize, &f64)| {
                        let j = j as f64;
                        (1.0 - 2.0 * (j % 2.0)) * (log - a * j * j + j * u).exp()
                    };
                    law.log_weights().iter().enumerate().map(term).sum::<f64>()
                };
                let signs: Vec<bool> = (-30_000..90_000).map(|i| value(f64::from(i) * 1e-3) > 0.0).collect();
                let changes = signs.windows(2).filter(|pair| pair[0] != pair[1]).count();
                assert_eq!(changes, law.log_weights().len() - 1, "{law:?} {a}");
            }
        }
        // (1 + t + t²)/3 has complex zeros.
        let law = GroupLaw::explicit(&[1.0 / 3.0; 3], &[0.0, 1.0, 2.0]).unwrap();
        assert!(!law.is_real_rooted());
        let pair = MixturePair::new(&law, 1.0).unwrap();
        let local = pair.local(0.0, &mut Vec::new());
        assert!(pair.strip([&local; 3], 1.0).is_none());
    }
}
