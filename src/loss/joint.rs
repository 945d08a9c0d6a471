//! Where the two pieces of the loss of a replaced record meet: both end at the loss 0, with the same density.
//!
//! Each end alone adds to a bound on the characteristic function in the first order of the height of the path, while the pieces gain in the
//! second, so that no decay is seen where frequencies are small. The integrals along both ends nearly cancel
//! (`docs/theory/inversion.md`, Proposition 4d).

use crate::loss::path::Path;
use crate::loss::smooth_piece::Piece;
use realfft::num_complex::Complex64;
use std::f64::consts::E;

/// Parts into which the ends are cut; their heights are those of a parabola, as the integrand starts at 0. With half as many the bound is up to
/// a tenth larger where all of the height counts.
const PARTS: u32 = 16;
/// Largest angle as/σ² of the shift at a height a of the path: its half must be below π/2.
const LARGEST_ANGLE: f64 = 3.0;
/// Rounding of both densities, of their ratio and of the sum, in relation to the density at the end, for tilts of up to 1.
const ROUNDING: f64 = 1e-14;
/// Rounding of the angle of a path that is at the limit.
const SLACK: f64 = 1e-12;

/// The ends of a piece above the loss 0 and of one below it, at the outputs d/2 and −d/2: the record is in the batch with probability γ,
/// which shifts it by d.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Joint {
    /// γ and 1 − γ.
    present: f64,
    absent: f64,
    /// d/σ².
    rate: f64,
    /// σ.
    sigma: f64,
}

/// Continuation from the outputs at the ends to a height, as a function of its angle α = da/σ².
#[derive(Debug, Clone, Copy)]
struct Turned {
    /// α.
    alpha: f64,
    /// θ, the argument of r(d/2 + ia).
    angle: f64,
    /// α − θ.
    apart: f64,
    /// −log |r(d/2 + ia)|.
    fall: f64,
}

impl Joint {
    /// The joint of these pieces; `None` if they do not meet in this way.
    pub(crate) fn of(pieces: &[Piece]) -> Option<Self> {
        let [above, below] = pieces else {
            return None;
        };
        let is_above = above.in_p && !above.in_q && above.gate.is_none();
        let is_below = below.in_q && !below.in_p && below.gate.is_none();
        let &[lowest, shift] = above.pair.shifts.as_slice() else {
            return None;
        };
        let is_same = above.pair.shifts == below.pair.shifts && above.pair.log_weights == below.pair.log_weights;
        let meets = above.start == 0.5 * shift && below.end == -above.start;
        let sigma = above.noise_multiplier();
        (is_above && is_below && is_same && meets && lowest == 0.0 && sigma == below.noise_multiplier()).then(
            || Self {
                present: above.pair.log_weights[1].exp(),
                absent: above.pair.log_weights[0].exp(),
                rate: shift / sigma.powi(2),
                sigma,
            },
        )
    }

    /// The height up to which both paths have an end, the first at the start of its piece and the second at the end; `None` where the bound does not
    /// hold for them.
    pub(crate) fn common_height(&self, paths: &[Path]) -> Option<f64> {
        let &[above, below] = paths else {
            return None;
        };
        let height = above.height.min(below.height);
        let are_there =
            above.from == f64::NEG_INFINITY && below.to == f64::INFINITY && !above.turns && !below.turns;
        (are_there && self.rate * height <= LARGEST_ANGLE + SLACK).then_some(height)
    }

    fn turned(&self, alpha: f64) -> Turned {
        let (sine, half) = (alpha.sin(), (0.5 * alpha).sin());
        let argument = |part: f64| (part * sine).atan2(1.0 - 2.0 * part * half * half);
        Turned {
            alpha,
            angle: argument(self.present),
            apart: argument(self.absent),
            fall: -0.5 * (-4.0 * self.present * self.absent * half * half).ln_1p(),
        }
    }

    /// A bound on the modulus of both integrals along the ends, from the real line to `height` and back, over the density there, for every z with
    /// the real part of `z` and an imaginary part of at least that of `z`, which is not negative.
    pub(crate) fn bound(&self, z: Complex64, height: f64) -> f64 {
        let place = |part: u32| height * (f64::from(part) / f64::from(PARTS)).powi(2);
        let mut sum = 0.0;
        let (mut low, mut from) = (0.0, self.turned(0.0));
        for part in 1..=PARTS {
            let high = place(part);
            let to = self.turned(self.rate * high);
            let growth = (0.5 * (high / self.sigma).powi(2)).exp();
            sum += (high - low) * growth * (self.difference(z, from, to) + ROUNDING * (1.0 + z.re.abs()));
            (low, from) = (high, to);
        }
        sum
    }

    /// The largest α − θ between two heights. It is the argument of γ + (1 − γ)e^{iα}, which grows up to the α whose cosine is −(1 − γ)/γ.
    fn most_apart(&self, from: Turned, to: Turned) -> f64 {
        let odds = self.absent / self.present;
        let peak = if odds < 1.0 { (-odds).acos() } else { f64::INFINITY };
        if to.alpha <= peak {
            to.apart
        } else if from.alpha >= peak {
            from.apart
        } else {
            odds.asin()
        }
    }

    /// A bound on the difference of the integrands between two heights, over the noise there.
    fn difference(&self, z: Complex64, from: Turned, to: Turned) -> f64 {
        let Complex64 { re: c, im: y } = z;
        // θ grows and then falls.
        let falls = y * from.angle.min(to.angle);
        // |ρ^{1+c} − ρ^{−c}| is at most the largest of 1 and both terms, times 1 − ρ^{|1+2c|}.
        let larger = c.max(-1.0 - c).max(0.0) * to.fall;
        let moduli = (larger - falls).exp() * -(-(1.0 + 2.0 * c).abs() * to.fall).exp_m1();
        let apart = self.most_apart(from, to);
        // −log |r| ≤ θ·(1 − γ)·tan(α/2)/|r|, and v·e^{−v} falls from 1 on.
        let ratio = self.absent * (0.5 * to.alpha).tan() * to.fall.exp();
        let most = if falls < 1.0 { 1.0 / E } else { falls * (-falls).exp() };
        let of_phases = (-falls).exp() * apart + 2.0 * ratio * most;
        moduli + of_phases.min(2.0 * (-falls).exp())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::step::GroupLaw;
    use std::sync::Arc;

    /// The pieces of the loss of a record that is in the batch with probability `present`, which shifts it by `shift`.
    pub(crate) fn pieces(present: f64, sigma: f64, shift: f64) -> Vec<Piece> {
        let law = GroupLaw::explicit(&[1.0 - present, present], &[0.0, shift]).unwrap();
        let pair = Arc::new(MixturePair::new(&law, sigma).unwrap());
        vec![
            Piece::new(&pair, (true, false), 0.5 * shift, f64::INFINITY),
            Piece::new(&pair, (false, true), f64::NEG_INFINITY, -0.5 * shift),
        ]
    }

    /// The difference of P·e^{zℓ} at both ends at a height, over P there, by complex numbers.
    fn difference(pieces: &[Piece], z: Complex64, height: f64) -> Complex64 {
        let pair = &pieces[0].pair;
        let variance = pair.noise_multiplier().powi(2);
        let (shift, present) = (pair.shifts[1], pair.log_weights[1].exp());
        let noise = |x: Complex64| (-0.5 * x * x / variance).exp();
        let ratio = |x: Complex64| 1.0 - present + present * ((shift * x - 0.5 * shift * shift) / variance).exp();
        let (above, below) = (
            Complex64::new(0.5 * shift, height),
            Complex64::new(-0.5 * shift, height),
        );
        let of_above = noise(above) * ratio(above).powc(1.0 + z);
        let of_below = noise(below) * ratio(-below).powc(-z);
        (of_above - of_below) / noise(Complex64::new(0.5 * shift, 0.0))
    }

    /// At every frequency from y on the integral of both ends is below the bound, which is within a factor of six of the largest; a
    /// tenth of it would be too little.
    #[test]
    fn both_ends_are_bounded_at_all_higher_frequencies() {
        const NODES: usize = 400;
        let mut closest = f64::INFINITY;
        for (present, sigma, shift) in [(1e-4, 1.5, 2.0), (0.1, 0.7, 2.0), (0.6, 2.0, 2.0), (0.97, 1.0, 4.0)] {
            let pieces = pieces(present, sigma, shift);
            let joint = Joint::of(&pieces).unwrap();
            for c in [-1.7, -0.6, -0.5, 0.0, 0.7, 6.0] {
                for (part, falls) in [(0.03, 0.1), (0.3, 0.3), (0.3, 3.0), (1.0, 0.0), (1.0, 20.0)] {
                    let height = part * 2.5 / joint.rate;
                    let y = falls / joint.turned(joint.rate * height).angle;
                    let bound = joint.bound(Complex64::new(c, y), height);
                    let at = |z: Complex64| {
                        let node = |i: usize| difference(&pieces, z, height * (i as f64 + 0.5) / NODES as f64);
                        (0..NODES).map(node).map(Complex64::norm).sum::<f64>() * height / NODES as f64
                    };
                    let higher = [0.0, 0.1, 0.5, 1.0, 3.0, 10.0];
                    let theta = joint.turned(joint.rate * height).angle;
                    let exact = higher
                        .iter()
                        .map(|more| at(Complex64::new(c, y + more / theta)))
                        .fold(0.0, f64::max);
                    assert!(
                        bound >= exact * (1.0 - 1e-4),
                        "{present} {c} {part} {falls}: {bound} {exact}"
                    );
                    assert!(bound <= 6.0 * exact, "{present} {c} {part} {falls}: {bound} {exact}");
                    closest = closest.min(bound / exact);
                }
            }
        }
        assert!(closest < 1.3, "{closest}");
    }

    /// −log |r| ≤ θ·(1 − γ)·tan(α/2)/|r|, which is nearly attained where α is small.
    #[test]
    fn the_fall_of_the_modulus_is_bounded_by_the_angle() {
        for present in [1e-6, 0.03, 0.5, 0.8, 0.999] {
            let joint = Joint::of(&pieces(present, 1.0, 2.0)).unwrap();
            for i in 1..=100 {
                let turned = joint.turned(0.03 * f64::from(i));
                let Turned { alpha, angle, fall, .. } = turned;
                let ratio = (1.0 - present) * (0.5 * alpha).tan() * fall.exp();
                assert!(fall <= angle * ratio * (1.0 + 1e-12), "{present} {alpha}");
                assert!(i > 3 || fall > 0.9 * angle * ratio, "{present} {alpha}");
                assert!(angle >= 0.0 && angle <= alpha && (angle + turned.apart - alpha).abs() < 1e-14);
                // The largest angle between there and a height on either side.
                let middle = joint.turned(0.7 * alpha).apart;
                assert!(joint.most_apart(joint.turned(0.4 * alpha), turned) >= middle.max(turned.apart));
            }
        }
    }

    #[test]
    fn only_pieces_that_meet_at_the_loss_zero_have_a_joint() {
        let both = pieces(0.1, 1.0, 2.0);
        assert!(Joint::of(&both[..1]).is_none());
        let mut moved = both.clone();
        moved[0].start += 0.1;
        assert!(Joint::of(&moved).is_none());
        let joint = Joint::of(&both).unwrap();
        let path = Path::above(0.3);
        assert_eq!(joint.common_height(&[path, path]), Some(0.3));
        assert_eq!(joint.common_height(&[path, path.lowered(0.5)]), Some(0.15));
        // Where the first path ends does not matter, but where it begins.
        assert_eq!(joint.common_height(&[Path { to: 3.0, ..path }, path]), Some(0.3));
        assert_eq!(joint.common_height(&[Path { from: 3.0, ..path }, path]), None);
        assert_eq!(joint.common_height(&[path, Path { to: -3.0, ..path }]), None);
        assert_eq!(joint.common_height(&[Path { turns: true, ..path }, path]), None);
        assert_eq!(joint.common_height(&[Path::above(1.6), Path::above(1.6)]), None);
    }
}
