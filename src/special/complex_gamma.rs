//! The logarithm of the gamma function in the right half-plane, and its first two derivatives on the positive axis.

use realfft::num_complex::Complex64;

/// B_{2k}/(2k(2k − 1)) for k = 1, …, 8: the series of Stirling.
const STIRLING: [f64; 8] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360_360.0,
    1.0 / 156.0,
    -3617.0 / 122_400.0,
];
/// Moduli from which on the series is used. What it leaves out is at most 0.18·|z|^−17·sec^18(arg z/2) < 4e-19 there.
const FAR: f64 = 16.0;
/// log(2π)/2.
const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_7;

/// log Γ(z) for Re z > 0, its imaginary part up to multiples of 2π, and a bound on its error.
pub(crate) fn ln_gamma(z: Complex64) -> (Complex64, f64) {
    let mut product = Complex64::new(1.0, 0.0);
    let mut z = z;
    while z.norm_sqr() < FAR * FAR {
        product *= z;
        z += 1.0;
    }
    let log = z.ln();
    let inverse = z.inv();
    let square = inverse * inverse;
    let series = STIRLING
        .iter()
        .rev()
        .fold(Complex64::default(), |sum, &term| sum * square + term)
        * inverse;
    let large = (z - 0.5) * log - z;
    let value = large + HALF_LOG_TWO_PI + series - product.ln();
    let error = 4.0 * f64::EPSILON * (z.norm() * (1.0 + log.norm()) + 60.0);
    (value, error)
}

/// ψ(x) and ψ'(x), the derivatives of log Γ at x > 0, to some 1e-14 of their size.
pub(crate) fn digamma_and_trigamma(x: f64) -> (f64, f64) {
    let (mut digamma, mut trigamma) = (0.0, 0.0);
    let mut x = x;
    while x < FAR {
        digamma -= 1.0 / x;
        trigamma += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let (mut first, mut second) = (0.0, 0.0);
    for (k, &term) in STIRLING.iter().enumerate().rev() {
        let odd = (2 * k + 1) as f64;
        first = first * square + odd * term;
        second = second * square + odd * (odd + 1.0) * term;
    }
    digamma += x.ln() - 0.5 / x - first * square;
    trigamma += 1.0 / x + 0.5 * square + second * square / x;
    (digamma, trigamma)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mpmath, 30 digits: loggamma(mpc(x, y)).
    #[test]
    fn values_are_those_of_mpmath() {
        for (x, y, real, imaginary) in REFERENCES {
            let (found, error) = ln_gamma(Complex64::new(x, y));
            let turns = (found.im - imaginary) / std::f64::consts::TAU;
            let off = (found.re - real).hypot((turns - turns.round()) * std::f64::consts::TAU);
            assert!(
                off <= error && error < 1e-11 * (1.0 + real.abs()),
                "{x} {y}: {found} {off} {error}"
            );
        }
    }

    const REFERENCES: [(f64, f64, f64, f64); 5] = [
        (0.5, 0.0, 0.5723649429247001, 0.0),
        (4.5, 3.0, 1.4195135888630814, 4.407299960986663),
        (8.25, 700.5, -1048.6473246135683, 3901.162813944628),
        (1500.0, 900.0, 9211.252053217293, 6630.625479413791),
        (12.0, -15.0, 9.467898847182411, -39.63222439095866),
    ];

    #[test]
    fn derivatives_are_those_of_mpmath() {
        // mpmath: psi(0, x), psi(1, x).
        for (x, first, second) in [
            (0.3, -3.502524222200133, 12.245364546107732),
            (4.5, 1.388870926359529, 0.24872510303901038),
            (1000.0, 6.907255195648812, 0.0010005001666666333),
        ] {
            let (a, b) = digamma_and_trigamma(x);
            assert!(
                (a - first).abs() < 1e-13 * (1.0 + first.abs()) && (b / second - 1.0).abs() < 1e-13,
                "{x}: {a} {b}"
            );
        }
    }
}
