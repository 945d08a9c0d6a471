//! Bounds on the integral over the vertical segments by which a path returns to the real line (`docs/theory/inversion.md`, Proposition 4c, and
//! `docs/theory/real-zeros.md`).

use crate::loss::continuation::ImaginaryShift;
use crate::loss::mixture_pair::real_rooted::CountMoments;
use crate::loss::path::Path;
use crate::loss::smooth_piece::{INSIGNIFICANT, Piece, Scratch};
use realfft::num_complex::Complex64;
use std::f64::consts::FRAC_PI_2;

/// Least modulus of r(x + ia)/r(x) where shifts that are significant together are close: 0.94·cos 0.7 − 0.06 = 0.658.
pub(super) const LEAST_MODULUS: f64 = 0.65;
/// Exponents below which (1 − e^−x)/x is bounded by 1 + |x|, as the quotient loses its digits.
const SMALL_FALL: f64 = 1e-6;
/// Exponent of e^{−yθ} over the first part of a segment where zeros are real, about; the least length of a part over that of the segment; and how many times longer
/// each part is than the one before.
const FIRST_FALL: f64 = 0.2;
const LEAST_PART: f64 = 1e-5;
const PART_FACTOR: f64 = 1.5;

/// Parts into which the segment at a finite end of a piece is cut. With one part the bound is up to e times as large.
const SEGMENT_PARTS: usize = 8;

/// A bound on the integral of the modulus of P·e^{zℓ} over the segment from x + ib to x + ia, where b is `from` and a the height of `path`, over its
/// modulus at x, for every z with the real part of `z` and an imaginary part of at least that of `z`, which is not negative.
///
/// At x + is the noise grows with s by at most e^{s²/2σ²}. Let w = r(x + is)/r(x) without the terms that are not significant, which are at
/// most η = [`INSIGNIFICANT`]. Then |w|² = Σ p_j p_k cos((s_j − s_k)s/σ²) falls with s, and Im w = Σ p_j sin(s_j s/σ²) is concave and not
/// negative, as no angle exceeds 3 < π. So on every part the modulus of w is between those at its ends, and Im w is above the chord. With
/// arg r ≥ sin arg r ≥ Im r(x + is)/r(x) the factor e^{−yθ} is at most the exponential of −y times a chord, whose integral is the
/// difference of its ends over its slope. Leaving out the other terms changes each modulus and each imaginary part by at most η.
///
/// Where angles may be larger, θ ≥ 0, and |r(x + is)| is at most r(x), and at least [`LEAST_MODULUS`] times that or, if all angles of its own significant
/// shifts are below π, what it is at the height of the path.
pub(super) fn end_segment(
    piece: &Piece,
    x: f64,
    z: Complex64,
    (from, path): (f64, Path),
    scratch: &mut Scratch,
) -> f64 {
    let Complex64 { re: c, im: y } = z;
    if from >= path.height {
        return 0.0;
    }
    let angle_of_member = piece.pair.angle_of_member(path.height).filter(|_| path.turns);
    if let Some(angle) = angle_of_member {
        return segment_below_zeros(piece, x, z, (from, path.height), angle / path.height, scratch);
    }
    if path.turns {
        let growth = 0.5 * (path.height / piece.imaginary_scale()).powi(2);
        let of_q = if piece.in_q && c > 0.0 {
            // Where all angles are below π the modulus falls with the height.
            let top = piece
                .continued(x, &ImaginaryShift::new(piece, path.height), scratch)
                .log_q
                .exp();
            c * (top - 2.0 * INSIGNIFICANT).clamp(f64::MIN_POSITIVE, LEAST_MODULUS).ln()
        } else {
            0.0
        };
        return (path.height - from) * (growth - of_q).exp();
    }
    let length = (path.height - from) / SEGMENT_PARTS as f64;
    let mixtures = f64::from(u8::from(piece.in_p)) + f64::from(u8::from(piece.in_q));
    let slack = 2.0 * mixtures * INSIGNIFICANT * y;
    let larger = |log: f64| (log.exp() + 2.0 * INSIGNIFICANT).ln();
    let smaller = |log: f64| (log.exp() - 2.0 * INSIGNIFICANT).max(f64::MIN_POSITIVE).ln();
    let (start, mut turned) = piece.continued_with_sine(x, &ImaginaryShift::new(piece, from), scratch);
    let (mut below_p, mut below_q) = (start.log_p, start.log_q);
    let mut sum = 0.0;
    for part in 1..=SEGMENT_PARTS {
        let height = from + part as f64 * length;
        let (above, sine) = piece.continued_with_sine(x, &ImaginaryShift::new(piece, height), scratch);
        let log_q = if c > 0.0 { smaller(above.log_q) } else { larger(below_q) };
        let log_change =
            0.5 * (height / piece.imaginary_scale()).powi(2) + (1.0 + c) * larger(below_p) - c * log_q;
        let falls = y * (sine - turned);
        let mean = if falls.abs() < SMALL_FALL {
            1.0 + falls.abs()
        } else {
            -(-falls).exp_m1() / falls
        };
        sum += length * (log_change - y * turned + slack).exp() * mean;
        (below_p, below_q, turned) = (above.log_p, above.log_q, sine);
    }
    sum
}

/// A bound on what [`end_segment`] bounds, from one height to another, that takes no posterior law: the noise grows by at most e^{a²/2s²} and no modulus of a ratio grows, so that the integrand
/// grows by no more unless a power of 1/r_Q does.
pub(super) fn crude_end_segment(piece: &Piece, z: Complex64, (from, height): (f64, f64)) -> f64 {
    if piece.in_q && z.re > 0.0 {
        return f64::INFINITY;
    }
    (height - from).max(0.0) * (0.5 * (height / piece.imaginary_scale()).powi(2)).exp()
}

/// [`end_segment`] between two heights where the zeros of r are real: its modulus falls with the height, and its angle grows while that of one member is at most π/2.
///
/// On every part the moduli are bounded by those at its ends, and θ is at least what it is at the lower one, or the bounds for all of the part. As θ grows about linearly
/// from 0, the first part is short enough for e^{−yθ} to be near 1, and each is longer than the one before.
fn segment_below_zeros(
    piece: &Piece,
    x: f64,
    z: Complex64,
    (from, to): (f64, f64),
    rate: f64,
    scratch: &mut Scratch,
) -> f64 {
    let Complex64 { re: c, im: y } = z;
    let falls = y * piece.point(x, scratch).slope;
    let longest = (to - from) / SEGMENT_PARTS as f64;
    let mut length = (FIRST_FALL / falls).max(LEAST_PART * (to - from)).min(longest);
    let (mut height, mut sum) = (from, 0.0);
    let mut below = piece.continued(x, &ImaginaryShift::new(piece, from), scratch);
    let laws = [(piece.in_p, x), (piece.in_q, -x)].map(|(mixed, x)| {
        mixed.then(|| {
            scratch.p.fill(&piece.pair, x);
            CountMoments::of(scratch.p.start, &scratch.p.terms)
        })
    });
    while height < to {
        // A part that rounding leaves without a length would not end.
        let is_part = height + length > height && height + length < to;
        let next = if is_part { height + length } else { to };
        let above = piece.continued(x, &ImaginaryShift::new(piece, next), scratch);
        let angle = if rate * next <= FRAC_PI_2 {
            below.angle
        } else {
            let least = |law: &CountMoments| law.least_between(rate * height, rate * next);
            laws.iter().flatten().map(least).sum()
        };
        // Rounding, and errors of the weights, change a modulus by less.
        let larger = |log: f64| (log.exp() + INSIGNIFICANT).ln();
        let smaller = |log: f64| (log.exp() - INSIGNIFICANT).max(f64::MIN_POSITIVE).ln();
        let log_q = if c > 0.0 {
            smaller(above.log_q)
        } else {
            larger(below.log_q)
        };
        let growth = 0.5 * (next / piece.imaginary_scale()).powi(2);
        sum += (next - height) * (growth + (1.0 + c) * larger(below.log_p) - c * log_q - y * angle).exp();
        (height, below, length) = (next, above, (PART_FACTOR * length).min(longest));
    }
    sum
}
