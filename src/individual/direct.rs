//! For tests: moments of one step by brute force, at complex orders and complex v.

use crate::approx::Approx;
use crate::individual::losses::{AccountLosses, Frequencies};
use crate::individual::plans::line_at;
use crate::individual::step_moments::exponent;
use crate::step::Direction;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

/// Bound on the error of [`excess`] in the tests: the rounding of sums of a few thousand terms.
pub(crate) const ROUNDING: f64 = 2e-14;

/// E[(1 + u)^p] − 1 with y ~ N(−v/2, v) and u = q(e^y − 1), continued to complex v with Re v > 0.
pub(crate) fn excess(rate: f64, v: Complex64, p: Complex64) -> Complex64 {
    const NODES: u32 = 3000;
    // The weight's modulus is a multiple of that of the real v' = |v|²/Re v.
    let real = v.norm_sqr() / v.re;
    let low = (-0.5 + p.re.min(0.0)) * real - 11.0 * real.sqrt();
    let high = (0.5 + p.re.max(2.0)) * real + 11.0 * real.sqrt();
    let spacing = (high - low) / f64::from(NODES);
    let mut sum = Complex64::new(0.0, 0.0);
    for i in 0..=NODES {
        let y = low + f64::from(i) * spacing;
        let (change, centred) = (rate * y.exp_m1(), y + 0.5 * v);
        let weight = (-centred * centred / (2.0 * v)).exp();
        sum += weight * ((p * change.ln_1p()).exp() - 1.0 - p * change);
    }
    sum * spacing / (2.0 * PI * v).sqrt()
}

/// K(c + iy; v) = log E[e^{zℓ}] where that is near 1.
pub(crate) fn log_moment(rate: f64, v: f64, direction: Direction, c: f64, y: f64) -> Complex64 {
    let p = match direction {
        Direction::Remove => Complex64::new(exponent(direction, c), y),
        Direction::Add => Complex64::new(exponent(direction, c), -y),
    };
    (1.0 + excess(rate, v.into(), p)).ln()
}

/// Asserts that account 0, with steps (sample rate, v, number) and no others, has within its bounds the loss that those have.
pub(crate) fn assert_loss_is<L: AccountLosses>(losses: &L, steps: &[(f64, f64, f64)], line: usize) {
    let c = line_at(line);
    let frequencies = Frequencies {
        line,
        c,
        spacing: 0.4,
        ends: vec![6, 12],
    };
    for (side, direction) in Direction::BOTH.into_iter().enumerate() {
        let at = |y: f64| -> Complex64 {
            let terms = steps
                .iter()
                .map(|&(rate, v, count)| count * log_moment(rate, v, direction, c, y));
            terms.sum()
        };
        let count: f64 = steps.iter().map(|step| step.2).sum();
        let Approx { value, error } = losses.grid(0, side).values[line];
        let base = at(0.0).re;
        assert!(
            (value - base).abs() <= error + count * ROUNDING,
            "{direction:?}: {value} {base} {error:e}"
        );
        assert!(error < 1e-9 * value, "{direction:?}: {value} {error:e}");
        let table = losses.table(&[0], side, &frequencies);
        let points = losses.points(0, &table, 12);
        for (j, point) in points.iter().enumerate() {
            let exact = at((j + 1) as f64 * 0.4) - base;
            let apart = Complex64::new(point.modulus - exact.re, point.phase - exact.im);
            let error = point.upper - point.modulus;
            assert!(
                apart.norm() <= error + count * ROUNDING,
                "{direction:?} {j}: {apart} {error:e}"
            );
            assert!((0.0..1e-8).contains(&error), "{direction:?} {j}: {error:e}");
        }
        for (place, end) in [6u8, 12].into_iter().enumerate() {
            let bound = losses.log_decay(0, &table, place).unwrap();
            for beyond in [1.0, 1.3, 2.0].map(|factor| factor * f64::from(end)) {
                let exact = (at(0.4 * beyond) - base).re;
                assert!(exact <= bound + 1e-12, "{direction:?} {end} {beyond}: {exact} {bound}");
            }
        }
    }
}

#[test]
fn brute_force_agrees_with_closed_forms() {
    // E[(1 + u)²] − 1 = q²(e^v − 1), and at q = 1 E[e^{py}] = e^{p(p−1)v/2}.
    for v in [Complex64::new(0.3, 0.0), Complex64::new(0.8, 0.5)] {
        let found = excess(0.1, v, 2.0.into());
        assert!((found - 0.01 * (v.exp() - 1.0)).norm() < ROUNDING, "{found}");
        let p = Complex64::new(2.5, 1.5);
        let (found, exact) = (excess(1.0, v, p), (0.5 * p * (p - 1.0) * v).exp() - 1.0);
        assert!(
            (found - exact).norm() < 10.0 * ROUNDING * exact.norm(),
            "{found} {exact}"
        );
    }
}
