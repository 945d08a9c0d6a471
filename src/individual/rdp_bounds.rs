//! Bounds on the error of interpolating K(w) = log E[r^α] in w = 1/v, from its values at three points (derived in `rdp_table`).

use crate::approx::Approx;
use crate::special::chebyshev::interpolation_factor;

/// Degree n of the polynomials, and their number of coefficients.
pub(crate) const DEGREE: usize = 8;
pub(crate) const COEFFICIENTS: usize = DEGREE + 1;
/// One more than the Lebesgue constant of nine Chebyshev nodes, 2.36: bounds how errors at the nodes grow.
pub(crate) const LEBESGUE: f64 = 3.4;

/// A disc around w₀ with K at w₀ − R, w₀ and w₀ + R.
pub(crate) struct Disc {
    pub(crate) order: f64,
    /// log q.
    pub(crate) log_rate: f64,
    /// w₀.
    pub(crate) centre: f64,
    /// f = R/w₀.
    pub(crate) part: f64,
    /// K at w₀ − R, w₀ and w₀ + R.
    pub(crate) values: (Approx, Approx, Approx),
}

impl Disc {
    /// Bound on the error of interpolation on [w₀ − r, w₀ + r].
    pub(crate) fn error(&self, half_width: f64) -> f64 {
        let factor = disc_factor(self.part * self.centre / half_width);
        let below = self.below_transition().min(self.near_transition()) * factor;
        below.min(self.above_transition() * factor + self.error_of_linear_part(half_width))
    }

    /// The largest error of interpolating α(α − 1)/2w, that at w₀ − r. The polynomial p through 1/w at the zeros of T_n(t), t = (w − w₀)/r,
    /// makes 1 − w·p(w) a polynomial of degree n that is 0 there and 1 at w = 0: T_n(t)/T_n(−w₀/r).
    fn error_of_linear_part(&self, half_width: f64) -> f64 {
        let at_zero = (COEFFICIENTS as f64 * (self.centre / half_width).acosh()).cosh();
        0.5 * self.order * (self.order - 1.0) / ((self.centre - half_width) * at_zero)
    }

    /// Bound on the error of interpolation where K is nearly linear in 1/w: `smallest` is K at w₀ + r, where its non-linear
    /// part is largest.
    pub(crate) fn error_of_rest(&self, half_width: f64, smallest: Approx) -> f64 {
        LEBESGUE * self.rest(self.centre + half_width, smallest) + self.error_of_linear_part(half_width)
    }

    /// Bound on log(1 + E') at w, from K there.
    fn rest(&self, w: f64, value: Approx) -> f64 {
        let limit = self.order * self.log_rate + 0.5 * self.order * (self.order - 1.0) / w;
        let rounding = 4.0 * f64::EPSILON * (limit.abs() + self.order * self.log_rate.abs());
        (value.value - limit).max(0.0) + value.error + rounding
    }

    /// (1 − f²)^{−1/4}.
    fn spread(&self) -> f64 {
        (1.0 - self.part * self.part).powf(-0.25)
    }

    /// Bound on |K|.
    fn below_transition(&self) -> f64 {
        let nearest = self.centre * (1.0 - self.part);
        let blow_up = self.spread() * (self.part * self.part / (8.0 * nearest)).exp();
        bound_on_log(blow_up * 1.001 * self.values.0.upper().exp_m1())
    }

    /// Bound on |log(1 + E')|.
    fn above_transition(&self) -> f64 {
        let (nearest, farthest) = (self.centre * (1.0 - self.part), self.centre * (1.0 + self.part));
        let rest = self.rest(farthest, self.values.2);
        let growth = (self.order - 0.5).powi(2) * self.part * self.part / (2.0 * nearest);
        bound_on_log(self.spread() * growth.exp() * rest.exp_m1())
    }

    /// Bound on |K| but for linear terms.
    fn near_transition(&self) -> f64 {
        let lambda = |w: f64, value: f64| value - 0.5 * w.ln() + 0.125 / w;
        let (low, high) = (self.centre * (1.0 - self.part), self.centre * (1.0 + self.part));
        let (first, middle, last) = self.values;
        let bend = lambda(low, first.upper()) + lambda(high, last.upper())
            - 2.0 * lambda(self.centre, middle.lower())
            + 1e-11 * (1.0 + first.value);
        let other = -0.5 * (-self.part).ln_1p() + self.part / (8.0 * low);
        bound_on_log(0.5 * bend + 2.0 * (0.5 * bend).exp_m1()) + other
    }
}

/// Bound on the error of interpolation over the largest modulus in the disc of radius R = `ratio`·r: that of the ellipse in the disc, whose
/// ρ has ρ + 1/ρ = 2R/r.
fn disc_factor(ratio: f64) -> f64 {
    interpolation_factor(COEFFICIENTS, ratio + (ratio * ratio - 1.0).sqrt())
}

/// −log(1 − b), infinite for b above 0.95.
fn bound_on_log(size: f64) -> f64 {
    if size < 0.95 { -(-size).ln_1p() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::individual::direct::excess;
    use crate::individual::step_moments::Outputs;
    use crate::special::chebyshev;
    use realfft::num_complex::Complex64;
    use std::f64::consts::PI;

    /// The disc of radius `part`·w₀ around w₀ = `centre`.
    fn disc(rate: f64, order: f64, centre: f64, part: f64) -> Disc {
        let at = |w: f64| Outputs::new(rate, 1.0 / w, order).log_moment(order);
        Disc {
            order,
            log_rate: rate.ln(),
            centre,
            part,
            values: (at(centre * (1.0 - part)), at(centre), at(centre * (1.0 + part))),
        }
    }

    /// The values of a function on the boundary of a disc.
    fn on_boundary<T>(disc: &Disc, of: impl Fn(Complex64) -> T) -> Vec<T> {
        let angles = (0..24).map(|i| PI * f64::from(i) / 12.0);
        angles
            .map(|angle| of(disc.centre * (1.0 + Complex64::from_polar(disc.part, angle))))
            .collect()
    }

    #[test]
    fn below_the_phase_transition_the_bound_on_k_is_nearly_attained() {
        for (rate, order, centre, part) in [(0.1, 2.0, 20.0, 0.3), (0.01, 5.0, 4.0, 0.2), (0.05, 1.5, 50.0, 0.5)] {
            let disc = disc(rate, order, centre, part);
            let found = on_boundary(&disc, |w| (1.0 + excess(rate, 1.0 / w, order.into())).ln().norm());
            let largest = found.into_iter().fold(0.0, f64::max);
            let bound = disc.below_transition();
            assert!(
                largest <= bound && bound < 1.6 * largest,
                "{rate} {order} {centre}: {largest} {bound}"
            );
        }
    }

    #[test]
    fn above_the_phase_transition_the_rest_is_bounded() {
        for (rate, order, centre, part) in [(0.3, 6.0, 0.9, 0.1), (0.5, 4.0, 0.6, 0.1), (0.8, 3.0, 0.5, 0.1)] {
            let disc = disc(rate, order, centre, part);
            let linear = |w: Complex64| order * rate.ln() + 0.5 * order * (order - 1.0) / w;
            let found = on_boundary(&disc, |w| {
                // E[(1 + e^{−y}(1 − q)/q)^α] = e^{K − linear}.
                ((1.0 + excess(rate, 1.0 / w, order.into())) * (-linear(w)).exp())
                    .ln()
                    .norm()
            });
            let largest = found.into_iter().fold(0.0, f64::max);
            let bound = disc.above_transition();
            assert!(
                largest <= bound && bound < 1.6 * largest,
                "{rate} {order} {centre}: {largest} {bound}"
            );
        }
    }

    #[test]
    fn near_the_phase_transition_k_is_bounded_but_for_linear_terms() {
        for (rate, order, centre, part) in [(0.01, 8.0, 0.8, 0.02), (0.1, 5.0, 1.5, 0.1), (0.001, 20.0, 1.4, 0.01)]
        {
            let disc = disc(rate, order, centre, part);
            let radius = part * centre;
            let lambda = |w: f64, value: f64| value - 0.5 * w.ln() + 0.125 / w;
            let (low, high) = (
                lambda(centre - radius, disc.values.0.value),
                lambda(centre + radius, disc.values.2.value),
            );
            let (chord, middle) = ((high - low) / (2.0 * radius), disc.values.1.value);
            let found = on_boundary(&disc, |w| {
                let k = middle + ((1.0 + excess(rate, 1.0 / w, order.into())) * (-middle).exp()).ln();
                (k - middle - chord * (w - centre)).norm()
            });
            let largest = found.into_iter().fold(0.0, f64::max);
            let bound = disc.near_transition();
            assert!(
                largest <= bound && bound < 4.0 * largest,
                "{rate} {order} {centre}: {largest} {bound}"
            );
        }
    }

    #[test]
    fn errors_at_the_nodes_grow_by_the_lebesgue_constant() {
        let node = |k: usize| (PI * (k as f64 + 0.5) / COEFFICIENTS as f64).cos();
        let largest = (0..=2000)
            .map(|i| f64::from(i) / 1000.0 - 1.0)
            .map(|t| {
                let cardinal = |k: usize| {
                    let others = (0..COEFFICIENTS).filter(|&j| j != k);
                    others
                        .map(|j| (t - node(j)) / (node(k) - node(j)))
                        .product::<f64>()
                        .abs()
                };
                (0..COEFFICIENTS).map(cardinal).sum::<f64>()
            })
            .fold(0.0, f64::max);
        assert!(
            1.0 + largest <= LEBESGUE && LEBESGUE < 1.1 * (1.0 + largest),
            "{largest}"
        );
    }

    /// T₉ is 0 at all nodes and 1 at the end of the interval. In the disc it is largest at iR/r, by 2 to 6 % larger than in the ellipse.
    #[test]
    fn the_chebyshev_polynomial_of_the_nodes_nearly_attains_the_factor_of_a_disc() {
        for ratio in [9.0f64, 14.0, 24.0, 48.0] {
            let largest = (COEFFICIENTS as f64 * ratio.asinh()).sinh();
            let bound = disc_factor(ratio) * largest;
            assert!((1.0..1.1).contains(&bound), "{ratio}: {bound}");
        }
    }

    #[test]
    fn the_error_of_the_linear_part_is_that_of_its_interpolant() {
        let disc = disc(0.3, 6.0, 0.9, 0.1);
        for half_width in [0.5 * 0.9, 0.25 * 0.9, 0.9 / 6.0] {
            let linear = |t: f64| 15.0 / (0.9 + half_width * t);
            let values = std::array::from_fn(|k| linear(chebyshev::angle(COEFFICIENTS, k).cos()));
            let powers =
                chebyshev::powers(&chebyshev::coefficients(&chebyshev::weights::<COEFFICIENTS>(), &values));
            let errors = (-100..=100).map(|i| f64::from(i) / 100.0).map(|t| {
                let found = powers.iter().rev().fold(0.0, |sum, power| sum * t + power);
                (found - linear(t)).abs()
            });
            let (largest, bound) = (errors.fold(0.0, f64::max), disc.error_of_linear_part(half_width));
            assert!(
                (largest - bound).abs() < 1e-3 * bound,
                "{half_width}: {largest} {bound}"
            );
        }
    }
}
