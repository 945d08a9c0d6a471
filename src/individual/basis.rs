//! Chebyshev polynomials on octaves of v = (s/σ)².
//!
//! K(z; v) is analytic in log v, so that on an octave [2^j, 2^{j+1}) it is Σ_n a_n T_n(τ) with τ = 2log₂(v/2^j) − 1 up to a tiny
//! error. The moments Σ_t T_n(τ_t) of an example's steps then give Σ_t K(z; v_t) for every z at once.

use crate::special::chebyshev::{self, angle, interpolation_factor};
use std::f64::consts::{LN_2, PI};
use std::sync::LazyLock;

/// Number of polynomials on an octave.
pub(crate) const TERMS: usize = 20;
/// One more than the Lebesgue constant of interpolation at the nodes, 2.87: bounds how errors at the nodes grow.
pub(crate) const LEBESGUE: f64 = 4.0;
/// Sums of the semi-axes of the ellipses that are tried, over half the length of a cell. A wide one has a small ρ^−n and a large bound on
/// the moments around it; which is better depends on how fast these grow.
const ELLIPSES: [f64; 5] = [8.0, 6.0, 4.5, 3.4, 2.6];

/// Rounding of a step's place in its octave, that of v included.
pub(crate) const PLACE_ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Coefficients or moments of one octave.
pub(crate) type Terms = [f64; TERMS];

/// The octave j of v > 0 and log₂(v/2^j) in [0, 1).
pub(crate) fn octave_of(v: f64) -> (i32, f64) {
    // The logarithm of a power of two and more may round to the next one.
    let octave = v.log2().floor() as i32;
    let octave = if v < f64::powi(2.0, octave) { octave - 1 } else { octave };
    let part = (v / f64::powi(2.0, octave)).log2();
    (octave, part.clamp(0.0, 1.0 - f64::EPSILON))
}

/// The octave j of v > 0 and τ in [−1, 1).
pub(crate) fn place(v: f64) -> (i32, f64) {
    let (octave, part) = octave_of(v);
    (octave, 2.0 * part - 1.0)
}

/// T_n(τ).
pub(crate) fn polynomials(tau: f64) -> Terms {
    chebyshev::polynomials(tau)
}

/// v at the interpolation nodes of an octave.
pub(crate) fn nodes(octave: i32) -> Terms {
    nodes_of(f64::powi(2.0, octave), 1.0)
}

/// v at the interpolation nodes of a part of an octave, from `start` on and of this length in octaves.
pub(crate) fn nodes_of(start: f64, length: f64) -> Terms {
    std::array::from_fn(|k| start * (LN_2 * length * 0.5 * (1.0 + angle(TERMS, k).cos())).exp())
}

/// Weights of the values at the nodes in each coefficient.
static WEIGHTS: LazyLock<[Terms; TERMS]> = LazyLock::new(chebyshev::weights);

/// Computes the weights, which are otherwise computed at their first use.
#[cfg(feature = "python")]
pub(crate) fn prepare() {
    LazyLock::force(&WEIGHTS);
}

/// Coefficients of the polynomial with these values at the nodes.
pub(crate) fn coefficients(values: &Terms) -> Terms {
    chebyshev::coefficients(&WEIGHTS, values)
}

/// Σ a_n b_n, four sums at a time.
pub(crate) fn product(a: &Terms, b: &Terms) -> f64 {
    let mut sums = [0.0; 4];
    for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(4)) {
        for lane in 0..4 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

/// Σ |a_n|.
pub(crate) fn size(a: &Terms) -> f64 {
    a.iter().map(|a| a.abs()).sum()
}

/// Bound on the error of Σ a_n T_n(τ) by the rounding of a step's place in a cell of this length, in octaves: |T_n'| ≤ n².
pub(crate) fn error_of_place(a: &Terms, length: f64) -> f64 {
    let steep: f64 = a.iter().enumerate().map(|(n, a)| (n * n) as f64 * a.abs()).sum();
    steep * 2.0 / length * PLACE_ROUNDING
}

/// A region of complex v around an octave, or a part of one, in which functions are analytic: a Bernstein ellipse of log v.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ellipse {
    /// Interpolation errs by this times the largest modulus in the ellipse (`docs/theory/individual.md`, Proposition 3).
    pub(crate) factor: f64,
    /// Largest |v|²/Re v in the ellipse, in units of the start of the octave.
    pub(crate) farthest: f64,
    /// Smallest |v|, in these units.
    pub(crate) nearest: f64,
    /// Smallest Re v/|v|.
    pub(crate) cosine: f64,
}

impl Ellipse {
    /// The ellipse with semiaxes (ρ ± 1/ρ)/2 times half the length, which is in octaves.
    pub(crate) fn new(rho: f64, length: f64) -> Self {
        const ARCS: usize = 64;
        let half = 0.5 * LN_2 * length;
        let (long, short) = (0.5 * half * (rho + 1.0 / rho), 0.5 * half * (rho - 1.0 / rho));
        // On an arc from φ to φ' the real part is at most that at φ, the imaginary one that at φ'.
        let farthest = (0..ARCS).map(|arc| {
            let (from, to) = (
                arc as f64 / ARCS as f64 * 0.5 * PI,
                (arc + 1) as f64 / ARCS as f64 * 0.5 * PI,
            );
            (half + long * from.cos()).exp() / (short * to.sin()).cos()
        });
        Self {
            factor: interpolation_factor(TERMS, rho),
            farthest: farthest.fold(0.0, f64::max),
            nearest: (half - long).exp(),
            cosine: short.cos(),
        }
    }

    /// The ellipses that are tried for a length in octaves, the widest first.
    pub(crate) fn all(length: f64) -> [Self; 5] {
        ELLIPSES.map(|rho| Self::new(rho, length))
    }

    /// A bound on √(v'/|v|)·e^{(v' − Re v)/8} with v' = |v|²/Re v: the factor by which a moment at complex v may exceed that at
    /// v'.
    pub(crate) fn blow_up(&self, start: f64) -> f64 {
        let largest = self.farthest * start;
        self.cosine.powf(-0.5) * (largest * (1.0 - self.cosine * self.cosine) / 8.0).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use realfft::num_complex::Complex64;

    #[test]
    fn moments_of_places_give_sums_of_smooth_functions() {
        let smooth = |v: f64| (0.3 * v).exp_m1() / (1.0 + v);
        let values = nodes(-2).map(smooth);
        let a = coefficients(&values);
        for v in [0.25, 0.3, 0.4999] {
            let (octave, tau) = place(v);
            assert_eq!(octave, -2);
            let found: f64 = a.iter().zip(polynomials(tau)).map(|(a, t)| a * t).sum();
            assert!((found - smooth(v)).abs() < 1e-15, "{v} {found}");
        }
    }

    #[test]
    fn the_rounding_of_a_place_counts_with_the_slope_of_the_polynomials() {
        // T₁₉ has the slope 361 at the end; a place that is off by e moves τ by 2e over the length of the cell.
        let mut a = [0.0; TERMS];
        (a[0], a[TERMS - 1]) = (5.0, -0.5);
        for length in [1.0, 0.25] {
            let bound = error_of_place(&a, length);
            let slope = 0.5 * 361.0 * 2.0 / length;
            assert!((bound / (slope * PLACE_ROUNDING) - 1.0).abs() < 1e-14, "{bound:e}");
            // As far as the slope hardly changes.
            let off = 1e-7;
            let moved = product(&a, &polynomials(1.0 - 2.0 * off / length)) - product(&a, &polynomials(1.0));
            assert!((moved / (off * slope) - 1.0).abs() < 1e-3, "{moved:e}");
        }
    }

    /// v on the boundary of the ellipse of parameter ρ around [1, 2^length].
    fn boundary(rho: f64, length: f64, angle: f64) -> Complex64 {
        let half = 0.5 * LN_2 * length;
        let (sine, cosine) = angle.sin_cos();
        Complex64::new(
            half + 0.5 * half * (rho + 1.0 / rho) * cosine,
            0.5 * half * (rho - 1.0 / rho) * sine,
        )
        .exp()
    }

    #[test]
    fn ellipses_know_the_extremes_on_their_boundaries() {
        for (rho, length) in [(8.0, 1.0), (4.5, 1.0), (2.6, 1.0), (6.0, 0.25), (3.4, 0.0625)] {
            let ellipse = Ellipse::new(rho, length);
            let points: Vec<Complex64> = (0..2000)
                .map(|i| boundary(rho, length, PI * f64::from(i) / 1000.0))
                .collect();
            let largest = |of: &dyn Fn(&Complex64) -> f64| points.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
            let farthest = largest(&|v| v.norm_sqr() / v.re);
            assert!(
                farthest <= ellipse.farthest && ellipse.farthest < 1.2 * farthest,
                "{rho} {farthest}"
            );
            let nearest = -largest(&|v| -v.norm());
            assert!(
                ellipse.nearest <= nearest * (1.0 + 1e-14) && nearest < 1.001 * ellipse.nearest,
                "{rho}"
            );
            for start in [1e-3, 0.1, 1.0] {
                let blow_up = largest(&|v| {
                    let v = start * v;
                    let real = v.norm_sqr() / v.re;
                    (real / v.norm()).sqrt() * (0.125 * (real - v.re)).exp()
                });
                let bound = ellipse.blow_up(start);
                assert!(
                    blow_up <= bound * (1.0 + 1e-14),
                    "{rho} {length} {start}: {blow_up} {bound}"
                );
                assert!(bound < 1.6 * blow_up, "{rho} {length} {start}: {blow_up} {bound}");
            }
        }
    }

    /// T₂₀ is 0 at all nodes and 1 at the end of the octave: the interpolation errs by 1, in an ellipse where T₂₀ is at most M.
    #[test]
    fn the_polynomial_of_the_nodes_nearly_attains_the_factor() {
        for rho in ELLIPSES {
            let largest = 0.5 * (rho.powi(TERMS as i32) + rho.powi(-(TERMS as i32)));
            let of = |v: f64| (TERMS as f64 * (2.0 * v.log2() - 1.0).clamp(-1.0, 1.0).acos()).cos();
            let found = product(&coefficients(&nodes(0).map(of)), &polynomials(1.0));
            let (error, bound) = ((found - 1.0).abs(), Ellipse::new(rho, 1.0).factor * largest);
            assert!(error <= bound && error > 0.7 * bound, "{rho} {error} {bound}");
        }
    }

    #[test]
    fn interpolation_errs_by_less_than_the_factor_times_the_largest_modulus() {
        // 1/(p − log₂ v) has its pole p just outside the ellipse.
        for rho in [4.5f64, 2.6] {
            let pole = 0.5 + 0.25 * (rho + 1.0 / rho) + 1e-3;
            let largest = (0..1000)
                .map(|i| 1.0 / (pole - boundary(rho, 1.0, PI * f64::from(i) / 500.0).ln() / LN_2).norm())
                .fold(0.0, f64::max);
            let of = |v: f64| 1.0 / (pole - v.log2());
            let a = coefficients(&nodes(0).map(of));
            let error = (0..500)
                .map(|i| 2f64.powf((f64::from(i) + 0.5) / 500.0))
                .map(|v| (product(&a, &polynomials(place(v).1)) - of(v)).abs())
                .fold(0.0, f64::max);
            let bound = Ellipse::new(rho, 1.0).factor * largest;
            assert!(error <= bound && error > 1e-4 * bound, "{rho} {error:e} {bound:e}");
        }
    }

    #[test]
    fn errors_at_the_nodes_grow_by_the_lebesgue_constant() {
        let unit = |k: usize| std::array::from_fn(|i| f64::from(u8::from(i == k)));
        let cardinals: Vec<Terms> = (0..TERMS).map(|k| coefficients(&unit(k))).collect();
        let largest = (0..=4000)
            .map(|i| polynomials(f64::from(i) / 2000.0 - 1.0))
            .map(|at| cardinals.iter().map(|a| product(a, &at).abs()).sum::<f64>())
            .fold(0.0, f64::max);
        assert!(
            1.0 + largest <= LEBESGUE && LEBESGUE < 1.1 * (1.0 + largest),
            "{largest}"
        );
    }
}
