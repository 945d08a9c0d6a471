use super::*;
use crate::individual::basis::{polynomials, product};
use crate::individual::direct::{ROUNDING, excess, log_moment};
use crate::individual::step_moments::RELATIVE_ERROR;
use std::f64::consts::{LN_2, PI};

const RHOS: [f64; 5] = [8.0, 6.0, 4.5, 3.4, 2.6];

/// Points of the boundary of an ellipse around an octave.
fn boundary(octave: &Octave, rho: f64) -> Vec<Complex64> {
    let half = 0.5 * LN_2;
    let (long, short) = (0.5 * half * (rho + 1.0 / rho), 0.5 * half * (rho - 1.0 / rho));
    let at = |i: i32| {
        let (sine, cosine) = (PI * f64::from(i) / 12.0).sin_cos();
        octave.start() * Complex64::new(half + long * cosine, short * sine).exp()
    };
    (0..24).map(at).collect()
}

/// The largest |E[e^{(c+iy)ℓ}] − 1| on the boundary of an ellipse around an octave.
fn largest_excess(octave: &Octave, rho: f64, c: f64, y: f64) -> f64 {
    let p = Complex64::new(octave.exponent(c), y);
    let at = |v: Complex64| excess(octave.rate, v, p).norm();
    boundary(octave, rho).into_iter().map(at).fold(0.0, f64::max)
}

#[test]
fn excesses_bound_the_moments_on_ellipses() {
    for (rate, octave, c, y) in [
        (0.1, -7, 2.0, 0.0),
        (0.1, -7, 2.0, 5.0),
        (0.02, -2, 3.0, 4.0),
        (0.3, -4, 0.5, 2.0),
    ] {
        for direction in Direction::BOTH {
            let octave = Octave::new(rate, octave, direction);
            let bound = InterpolationBound::new(&octave, c);
            let kappa = (c.hypot(y) * (c + 1.0).hypot(y)) / (c * (c + 1.0));
            for (rho, excess) in RHOS.into_iter().zip(bound.excesses) {
                let found = largest_excess(&octave, rho, c, y);
                assert!(
                    found <= kappa * excess + ROUNDING,
                    "{rate} {c} {y} ρ {rho}: {found} {}",
                    kappa * excess
                );
            }
            // Where u is small the bound is nearly attained, so that half of it would be too little.
            if octave.octave == -7 {
                let found = largest_excess(&octave, 2.6, c, y);
                assert!(found > 0.6 * kappa * bound.excesses[4], "{c} {y} {found}");
            }
        }
    }
}

#[test]
fn the_bound_on_a_logarithm_is_attained() {
    for size in [1e-3f64, 0.5, 0.94] {
        let attained = (1.0 - size).ln().abs();
        assert!(bound_on_log(size) >= attained * (1.0 - 1e-15) && bound_on_log(size) < 1.001 * attained);
    }
    assert_eq!(bound_on_log(1.0), f64::INFINITY);
}

#[test]
fn cumulants_on_a_line_are_within_their_errors() {
    let frequencies = Frequencies {
        line: 0,
        c: 3.0,
        spacing: 0.7,
        ends: vec![8],
    };
    for (rate, octave) in [(0.02, -2), (0.1, -5), (0.004, 0)] {
        for direction in Direction::BOTH {
            let octave = Octave::new(rate, octave, direction);
            let (real, line) = (octave.real(&[frequencies.c]), octave.line(&frequencies));
            assert!(!line.changes.is_empty());
            for tau in [-0.93, -0.31, 0.08, 0.77] {
                let v = octave.start() * 2f64.powf(0.5 * (tau + 1.0));
                let at = polynomials(tau);
                let base = log_moment(rate, v, direction, frequencies.c, 0.0);
                let found = product(&real[0].value, &at);
                assert!(
                    (found - base.re).abs() <= real[0].error + ROUNDING,
                    "{rate} {v}: {found} {base}"
                );
                for (j, change) in line.changes.iter().enumerate() {
                    let y = (j + 1) as f64 * frequencies.spacing;
                    let exact = log_moment(rate, v, direction, frequencies.c, y) - base;
                    let found = Complex64::new(product(&change.real, &at), product(&change.imaginary, &at));
                    let apart = (found - exact).norm();
                    assert!(
                        apart <= change.error + ROUNDING,
                        "{rate} {v} {y}: {apart:e} {:e}",
                        change.error
                    );
                }
                for (terms, error) in &line.decays {
                    let exact = (log_moment(rate, v, direction, frequencies.c, 5.6) - base).re;
                    assert!(exact <= product(terms, &at) + error + ROUNDING, "{rate} {v}: {exact}");
                }
            }
        }
    }
}

/// The error of interpolating log(1 + s·T₂₀), whose values at all nodes are 0, with the largest s for which |e^K − 1| is within its bound
/// in every ellipse in which that bounds the logarithm.
fn attained(bound: &InterpolationBound, y: f64) -> f64 {
    let c = bound.c;
    let kappa = (c.hypot(y) * (c + 1.0).hypot(y)) / (c * (c + 1.0));
    let of = |excess: f64| {
        if bound_on_log(kappa * excess).is_finite() {
            kappa * excess
        } else {
            f64::INFINITY
        }
    };
    largest_multiple(bound.excesses.into_iter().map(of)).ln_1p()
}

#[test]
fn the_bound_on_interpolation_is_attained_by_a_function_within_the_bounds_on_its_moments() {
    for (rate, octave, c, y) in [
        (0.1, -7, 2.0, 0.0),
        (0.1, -7, 2.0, 5.0),
        (0.02, -2, 3.0, 4.0),
        (0.3, -4, 0.5, 2.0),
    ] {
        for direction in Direction::BOTH {
            let bound = InterpolationBound::new(&Octave::new(rate, octave, direction), c);
            let (off, error) = (attained(&bound, y), bound.at(y));
            assert!(off <= error && 2.0 * off > error, "{rate} {c} {y}: {off:e} {error:e}");
        }
    }
}

/// A function −e·T₂₀, whose interpolant is 0, and values at the nodes that are off by the same e with the signs of the cardinal functions
/// at the end of the octave: the interpolant is off by 1 + Λ times e there, where Λ is the Lebesgue constant, 2.87.
#[test]
fn errors_at_the_nodes_and_of_interpolation_are_attained_together() {
    const ERROR: f64 = 1e-3;
    let end = polynomials(1.0);
    let values: Terms = std::array::from_fn(|k| {
        let unit: Terms = std::array::from_fn(|i| f64::from(u8::from(i == k)));
        ERROR * product(&coefficients(&unit), &end).signum()
    });
    let real = RealTerms::new(&values, 0.0, (ERROR, ERROR));
    let change = ChangeTerms::new([&values, &[0.0; TERMS]], (ERROR, ERROR));
    let decay = decay_terms(&values, (ERROR, ERROR));
    for (terms, error) in [(real.value, real.error), (change.real, change.error), decay] {
        let off = product(&terms, &end) + ERROR;
        assert!(off <= error && off > 0.75 * error, "{off} {error}");
    }
    // Without errors at the nodes the error of interpolation is that of the interpolant.
    let real = RealTerms::new(&[0.0; TERMS], 0.0, (ERROR, 0.0));
    assert_eq!(product(&real.value, &end) + ERROR, real.error);
}

/// A change that is off by a tenth of 1 + z, towards 0.
#[test]
fn the_error_of_a_logarithm_is_attained() {
    let z = Complex64::new(-0.3, 0.4);
    let error = 0.1 * (1.0 + z).norm();
    let off = ((1.0 + z).ln() - (0.9 * (1.0 + z)).ln()).norm();
    let bound = error_of_log(z, error);
    assert!((off / bound - 1.0).abs() < 1e-14, "{off} {bound}");
}

/// The largest multiple of T₂₀ that is within these bounds in all ellipses.
fn largest_multiple(bounds: impl Iterator<Item = f64>) -> f64 {
    let most = |(rho, bound): (f64, f64)| bound / (0.5 * (rho.powi(TERMS as i32) + rho.powi(-(TERMS as i32))));
    RHOS.into_iter().zip(bounds).map(most).fold(f64::INFINITY, f64::min)
}

/// The error that an octave reports for its interpolant, against one that is built to be as wrong as its parts allow: the values at the nodes
/// are off by their bound, and the function between them is one that attains the bound on interpolation. There are cases in which the
/// first error is the larger one, and cases in which the second is.
#[test]
fn the_errors_of_an_octave_are_attained_by_those_of_its_parts() {
    let mut counts = [0; 2];
    for (rate, octave, c) in [
        (0.004, -4, 60.0),
        (0.02, -3, 20.0),
        (0.02, -1, 5.0),
        (0.1, -2, 5.0),
        (0.004, 0, 3.0),
        (0.3, -7, 0.5),
        (0.02, -5, 3.0),
        (0.3, -5, 0.5),
    ] {
        for direction in Direction::BOTH {
            let octave = Octave::new(rate, octave, direction);
            let bound = InterpolationBound::new(&octave, c);
            // The largest frequency that is asked for below.
            if bound.at(0.4) < 1.7 * attained(&bound, 0.4) {
                counts[usize::from(assert_errors_are_attained(&octave, &bound))] += 1;
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 2), "{counts:?}");
}

/// True where interpolation outweighs the errors of the nodes ten times.
fn assert_errors_are_attained(octave: &Octave, bound: &InterpolationBound) -> bool {
    const LEBESGUE_CONSTANT: f64 = 2.87;
    let c = bound.c;
    let frequencies = Frequencies {
        line: 0,
        c,
        spacing: 0.05,
        ends: vec![8],
    };
    let base = attained(bound, 0.0);
    let (real, line) = (octave.real(&[c]), octave.line(&frequencies));
    let largest = nodes(octave.octave).map(|v| log_moment(octave.rate, v, octave.direction, c, 0.0).re);
    let of_nodes = LEBESGUE_CONSTANT * RELATIVE_ERROR * largest.into_iter().fold(0.0, f64::max);
    let (off, error) = (base + of_nodes, real[0].error);
    assert!(off <= error && 2.0 * off > error, "{octave:?} {c}: {off:e} {error:e}");
    let y = 8.0 * frequencies.spacing;
    let shift = octave.shift(c, y);
    let at_nodes = octave.at_nodes(c, frequencies.spacing, line.changes.len(), &[(y, shift)]);
    assert!(line.changes.len() >= 8);
    for (j, (change, of_nodes)) in line.changes.iter().zip(at_nodes.errors).enumerate() {
        let y = (j + 1) as f64 * frequencies.spacing;
        let off = base + attained(bound, y) + LEBESGUE_CONSTANT * of_nodes;
        let error = change.error;
        assert!(
            off <= error && 2.0 * off > error,
            "{octave:?} {c} {j}: {off:e} {error:e}"
        );
    }
    let decays = bound
        .parts()
        .map(|(ellipse, excess)| octave.log_decay_on(c, y, shift, (ellipse, *excess)));
    let off = base + largest_multiple(decays) + LEBESGUE_CONSTANT * at_nodes.decay_errors[0];
    let error = line.decays[0].1;
    assert!(off <= error && 2.0 * off > error, "{octave:?} {c}: {off:e} {error:e}");
    base > 10.0 * of_nodes
}

/// a²/2v + log H(v) by its definition: the mean of |1 + u(y + ia)|^p' e^{−Yθ} at complex v.
fn log_decay(octave: &Octave, v: Complex64, (c, frequency, shift): (f64, f64, f64)) -> Complex64 {
    const NODES: u32 = 4000;
    let (rate, exponent) = (octave.rate, octave.exponent(c));
    let real = v.norm_sqr() / v.re;
    let low = (-0.5 + exponent.min(0.0)) * real - 11.0 * real.sqrt();
    let high = (0.5 + exponent.max(2.0)) * real + 11.0 * real.sqrt();
    let spacing = (high - low) / f64::from(NODES);
    let mut sum = Complex64::default();
    for i in 0..=NODES {
        let y = low + f64::from(i) * spacing;
        let ratio = 1.0 - rate + rate * Complex64::new(y, shift).exp();
        let centred = y + 0.5 * v;
        let weight = (-centred * centred / (2.0 * v)).exp();
        let value = (exponent * ratio.norm().ln() - frequency * ratio.arg()).exp_m1();
        sum += weight * (value - exponent * rate * y.exp_m1());
    }
    let change = sum * spacing / (2.0 * PI * v).sqrt();
    (1.0 + change).ln() + shift * shift / (2.0 * v)
}

#[test]
fn the_bound_on_the_decay_holds_on_ellipses_and_is_nearly_attained() {
    // Where the shift counts for most, and where the turn of the ratio does.
    for (rate, octave, c, y, shift) in [
        (1e-3, -4, 1.0, 5.0, 0.3),
        (1e-3, -1, 1.0, 2e4, 0.01),
        (1e-3, -2, 0.5, 2e4, 0.01),
    ] {
        for direction in Direction::BOTH {
            let octave = Octave::new(rate, octave, direction);
            let bound = InterpolationBound::new(&octave, c);
            let mut closest = 0.0f64;
            for (rho, part) in RHOS.into_iter().zip(bound.parts()) {
                let most = octave.log_decay_on(c, y, shift, (part.0, *part.1));
                let points = boundary(&octave, rho).into_iter();
                let found = points
                    .map(|v| log_decay(&octave, v, (c, y, shift)).norm())
                    .fold(0.0, f64::max);
                assert!(
                    found <= most + ROUNDING,
                    "{rate} {y} ρ {rho} {direction:?}: {found} {most}"
                );
                closest = closest.max(found / most);
            }
            assert!(closest > 0.5, "{rate} {y} {direction:?}: {closest}");
        }
    }
}
