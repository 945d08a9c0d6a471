//! How M(w + iy) of a truncated law decays in y, by two bounds.
//!
//! **By the line.** With s = λ(1 + i·tan α) the integral over the line is one of cos^{w−1}α·e^{yα} over |α| < π/2, times the transform,
//! which is at most d(λ·tan α) of its value at λ ([`Modulus`](super::modulus::Modulus)). Let α₀ be an angle with tan α₀ < y/(1 + w). Below it e^{yα} is at most
//! e^{(y − y₀)α₀}·e^{y₀α}, and above d(λ·tan α) is at most d(λ·tan α₀)·tan α₀/tan α. Both parts are Cauchy's integrals
//! J_a(y) = ∫cos^{a−1}α·e^{yα} dα = π·2^{1−a}·Γ(a)/|Γ((1 + a + iy)/2)|², and both, times |Γ(1 + w + iy)|, fall in y for a fixed α₀.
//!
//! **By turning.** Where all batches are released the integral over each normal variable g ≤ b is moved to the line Im g = η, η = ϑ/√v, and
//! the segment from b + iη back to b. Without the segments, W is turned by ϑ and M(w)·e^{Tϑ²/2 − yϑ} remains, T = Σ 1/v. The
//! segments have masses of at most φ(b)·η·e^{η²/2} at Y_b, and W^w ≤ (w/(eλ))^w·e^{λW}. At Im g = u on its segment a batch has the
//! argument u√v. That of W is at least the smallest of all batches on segments, so that e^{−y·arg W} is at most the sum of their e^{−yu√v},
//! whose means over the segments are (1 − e^{−yϑ})/(yϑ). Where some batches are not released, the argument of W is at least 0, and the paths
//! without segments are bounded as for the whole law ([`Decay`]).

use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::decay::Decay;
use crate::loss::allocation::truncated_law::{TruncatedLaw, TruncatedPart};
use crate::loss::allocation::vertical_line::{VerticalLine, log_factorial};
use crate::special::complex_gamma::ln_gamma;
use crate::special::log_space::log_add;
use realfft::num_complex::Complex64;
use std::f64::consts::{LN_2, PI, TAU};

/// Angles α₀ over the angle of the saddle point.
const SPLITS: [f64; 7] = [0.95, 0.85, 0.75, 0.65, 0.5, 0.35, 0.2];
/// Angles ϑ that are tried, from the largest down by a factor each time.
const TURNS: i32 = 16;
const TURN_FACTOR: f64 = 0.8;
const LARGEST_TURN: f64 = 1.5;

/// log of a bound on |M(w + iy')|/M(w) for all y' ≥ `y` > 0, where `partial` is that by turning if some batches are not released.
pub(crate) fn log_decay(law: &TruncatedLaw, line: &VerticalLine, partial: Option<&Decay>, y: f64) -> f64 {
    let by_line = SPLITS.iter().map(|&split| by_line(line, y, split));
    let best = by_line.fold(0.0, f64::min);
    if law.large.is_some() {
        return best;
    }
    if law.still > 0.0 {
        return partial.map_or(best, |decay| best.min(decay.log_bound(y)));
    }
    by_turning(law, line, y).fold(best, f64::min)
}

/// The decay by turning where some batches are not released, and `transform` is that of the whole law: log E[e^{−λW}] by λ, rounded up.
pub(crate) fn partial_decay(
    (bins, transform): (&Bins, &[(f64, f64)]),
    law: &TruncatedLaw,
    line: &VerticalLine,
) -> Decay {
    let segments = Segments::new(law, line);
    Decay::new(bins, transform, (line.w, line.log.lower())).with_segments(|angle| segments.log_all(angle))
}

/// log J_a(y), rounded up.
fn log_cauchy(a: f64, y: f64) -> f64 {
    let (gamma, error) = ln_gamma(Complex64::new(0.5 * (1.0 + a), 0.5 * y));
    let (whole, other) = ln_gamma(Complex64::new(a, 0.0));
    PI.ln() + (1.0 - a) * LN_2 + whole.re - 2.0 * gamma.re + 2.0 * (error + other)
}

fn by_line(line: &VerticalLine, y: f64, split: f64) -> f64 {
    let (w, lambda) = (line.w, line.lambda);
    let tangent = split * y / (1.0 + w);
    let angle = tangent.atan();
    let modulus = line.modulus.log(lambda * tangent);
    if modulus > -0.5 {
        return 0.0;
    }
    let (gamma, error) = line.log_gamma(y);
    let whole = log_factorial(w) + line.log_transform - w * lambda.ln() - TAU.ln() - line.log.lower();
    let below = (1.0 - split) * y * angle + log_cauchy(w, split * y);
    let above = modulus - angle.cos().ln() + log_cauchy(w + 1.0, y);
    whole + gamma.re + error + log_add(below, above) + 1e-9
}

/// The segments between the paths of the normal variables and the turned ones.
struct Segments {
    /// log of (w/(eλ))^w·E[e^{λW}]/M(w), rounded up.
    whole: f64,
    /// By part: the number of batches, and a bound on the mass of a segment over the angle and over that of its path.
    ends: Vec<(f64, f64)>,
}

impl Segments {
    fn new(law: &TruncatedLaw, line: &VerticalLine) -> Self {
        let (w, lambda) = (line.w, line.lambda);
        let end = |part: &TruncatedPart| {
            let log = lambda * part.largest - 0.5 * part.end * part.end - 0.5 * TAU.ln();
            let below = part.tilting(lambda).map_or(f64::NEG_INFINITY, |at| at.log);
            (part.count, (log - below).exp() / part.variance.sqrt())
        };
        Self {
            whole: w * (w / lambda).ln() - w + line.log_transform - line.log.lower() + 1e-9,
            ends: law.parts.iter().map(end).collect(),
        }
    }

    /// log of the product over all batches of their paths with segments, over the paths alone.
    fn log_product(&self, angle: f64) -> f64 {
        self.ends.iter().map(|(count, end)| count * (end * angle).ln_1p()).sum()
    }

    /// log of a bound on all paths with a segment, over e^{Tϑ²/2}·M(w).
    fn log_all(&self, angle: f64) -> f64 {
        self.whole + self.log_product(angle).exp_m1().ln()
    }

    /// The same with e^{−y arg W}, where all batches are released.
    fn log_turned(&self, y: f64, angle: f64) -> f64 {
        let of = |(count, end): &(f64, f64)| count * end * angle / (1.0 + end * angle);
        let ended: f64 = self.ends.iter().map(of).sum();
        let turned = y * angle;
        let mean = -(-turned).exp_m1() / turned;
        self.log_all(angle)
            .min(self.whole + self.log_product(angle) + (ended * mean).ln())
    }
}

/// The bounds by turning, at several angles.
fn by_turning(law: &TruncatedLaw, line: &VerticalLine, y: f64) -> impl Iterator<Item = f64> {
    let stiffness: f64 = law.parts.iter().map(|part| part.count / part.variance).sum();
    let start = (y / stiffness).min(LARGEST_TURN);
    let segments = Segments::new(law, line);
    (0..TURNS).map(move |i| {
        let angle = start * TURN_FACTOR.powi(i);
        0.5 * stiffness * angle * angle + log_add(-y * angle, segments.log_turned(y, angle))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::approx::Approx;
    use crate::loss::allocation::bins::Bins;
    use crate::loss::allocation::mellin::Mellin;
    use crate::loss::allocation::modulus::Modulus;

    fn law(batches: u64, v: f64, log_mass: f64) -> TruncatedLaw {
        TruncatedLaw::new(&Bins::new(&[(batches, v)]).unwrap(), log_mass, f64::INFINITY).unwrap()
    }

    /// A line of which a test replaces what it is about.
    fn line(w: f64) -> VerticalLine {
        VerticalLine::new(&law(1000, 1e-10, -30.0), w, 0.0).unwrap()
    }

    /// M(w + iy) of one batch with g ≤ b, by a sum over g.
    fn moment((v, end): (f64, f64), w: f64, y: f64) -> Complex64 {
        let step = 1e-5;
        let term = |i: i32| {
            let g = end - (f64::from(i) + 0.5) * step;
            let log = v.sqrt() * g - 0.5 * v;
            Complex64::from_polar((w * log - 0.5 * g * g).exp() * step / TAU.sqrt(), y * log)
        };
        (0..1_000_000).map(term).sum()
    }

    /// One batch, of which a good part is left out: where |y| is large, M(w + iy) is that of the jump at b, and so nearly all of the bound.
    #[test]
    fn the_segments_of_turned_batches_are_bounded_and_attained() {
        let (v, w) = (0.25f64, 14.0);
        let law = law(1, v, -0.5);
        let part = &law.parts[0];
        let at = (v, part.end);
        let whole = moment(at, w, 0.0).re.ln();
        let mut line = line(w);
        line.lambda = w / part.largest;
        line.log_transform = part.tilting(line.lambda).unwrap().log;
        line.log = Approx::exact(whole);
        for y in [100.0, 200.0, 400.0] {
            let exact = moment(at, w, y).norm().ln() - whole;
            let found = by_turning(&law, &line, y).fold(0.0, f64::min);
            assert!(exact <= found && found < exact + 0.6, "{y}: {found} {exact}");
        }
    }

    /// Half of two batches that are not released, against a sum over g of ((Y + 1)/2)^{w + iy}: the bound holds, and its exponent is not far from that
    /// of the transform.
    #[test]
    fn partial_epochs_decay_no_slower_than_bounded() {
        let (v, w) = (0.01f64, 60.0);
        let bins = Bins::new(&[(1, v), (1, 0.0)]).unwrap();
        let transform = Mellin::new(bins.clone()).transform();
        let law = TruncatedLaw::new(&bins, -60.0, f64::INFINITY).unwrap();
        let line = VerticalLine::new(&law, w, 0.0).unwrap();
        let decay = partial_decay((&bins, &transform), &law, &line);
        let end = law.parts[0].end;
        let moment = |y: f64| -> Complex64 {
            let step = 1e-4;
            let term = |i: i32| {
                let g = end - (f64::from(i) + 0.5) * step;
                let log = (0.5 * (1.0 + (v.sqrt() * g - 0.5 * v).exp())).ln();
                Complex64::from_polar((w * log - 0.5 * g * g).exp() * step / TAU.sqrt(), y * log)
            };
            (0..200_000).map(term).sum()
        };
        let whole = moment(0.0).re.ln();
        assert!((whole - line.log.value).abs() < 1e-6, "{whole} {:?}", line.log);
        for y in [40.0, 80.0, 120.0, 160.0] {
            let exact = moment(y).norm().ln() - whole;
            let found = log_decay(&law, &line, Some(&decay), y);
            assert!(exact <= found + 1e-9, "{y}: {found} {exact}");
            // With four times the exponent it would not hold.
            assert!(4.0 * found < exact || found > -1.0, "{y}: {found} {exact}");
        }
        assert!(log_decay(&law, &line, Some(&decay), 160.0) < -6.0);
    }

    /// The bound by the line against the integral of the moduli over the line, with a bound on the transform that decays slowly.
    #[test]
    fn the_integral_over_the_line_is_bounded_and_attained() {
        let (w, y) = (14.0, 1000.0);
        let mut line = line(w);
        line.modulus = Modulus::new(&law(1, 0.04, -30.0), line.lambda).unwrap();
        let step = 1e-3;
        // In x = log(τ/λ) for τ > 0; what τ < 0 adds is next to nothing.
        let term = |i: i32| {
            let x = f64::from(i) * step;
            let tau = line.lambda * x.exp();
            let s = Complex64::new(line.lambda, tau);
            let log = line.modulus.log(tau) - (w + 1.0) * s.norm().ln() + y * s.arg() + tau.ln();
            log + line.log_transform
        };
        let largest = (-12_000..12_000).map(term).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (-12_000..12_000).map(|i| (term(i) - largest).exp() * step).sum();
        let gamma = ln_gamma(Complex64::new(w + 1.0, y)).0.re;
        let exact = sum.ln() + largest + gamma - TAU.ln() - line.log.value;
        let found = SPLITS.iter().map(|&split| by_line(&line, y, split)).fold(0.0, f64::min);
        assert!(exact <= found && found < exact + 0.6, "{found} {exact}");
    }

    #[test]
    fn cauchys_integral_is_that_of_its_definition() {
        for (a, y) in [(1.0, 0.5), (3.5, 2.0), (8.0, 11.0), (2.5, 30.0)] {
            let step = PI / 200_000.0;
            let term = |i: i32| {
                let angle = -0.5 * PI + (f64::from(i) + 0.5) * step;
                angle.cos().powf(a - 1.0) * (y * angle).exp() * step
            };
            let exact = (0..200_000).map(term).sum::<f64>().ln();
            let found = log_cauchy(a, y);
            assert!((found - exact).abs() < 1e-8, "{a} {y}: {found} {exact}");
        }
    }
}
