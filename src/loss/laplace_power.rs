//! E[r^p] − 1 of the ratio of a Laplace mixture under Lap(0, b), for real p outside [0, 1]: what Rényi divergences are made of.
//!
//! As E\[r\] = 1 it is E\[F\] with F = r^p − 1 − p(r − 1) ≥ 0, whose parts add up without cancellation: those of the outputs
//! below 0 and above k in closed form, the others by Gauss–Legendre quadrature on panels with a certified error.

use crate::approx::Approx;
use crate::loss::laplace::LaplaceLoss;
use crate::loss::power_excess::PowerExcess;
use crate::special::adaptive::{self, Address, Integrand, RuleBounds, Tolerance};
use crate::special::gauss_legendre::{GaussLegendre, IMAGINARY_AXIS, NODES, REAL_AXIS};
use crate::special::log_space::LogSum;
use rustc_hash::FxHashMap;

/// A panel may have an error of e^-34 = 2e-15 of the integral so far or of its own part of it, and e^-46 = 1e-20 may be left out: half of
/// the digits in place of either would be seen in the result, and twice as many take more panels for nothing.
const TOLERANCE: Tolerance = Tolerance {
    log_panel: -34.0,
    log_rest: -46.0,
    max_panels: 40_000,
};
/// Units in the last place by which each part may be wrong, in addition to those of its exponents.
const UNITS: f64 = 24.0;

/// A sum of positive parts, and of bounds on their errors.
#[derive(Default)]
struct Total {
    value: LogSum,
    error: LogSum,
}

impl LaplaceLoss {
    /// log(E[r^p] − 1); its error is infinite where that would take too many panels.
    pub(crate) fn log_power_excess(&mut self, p: f64) -> Approx {
        let mut atoms = Total::default();
        let last = self.pieces();
        for (j, log_mass) in [(0, 0.5f64.ln()), (last, 0.5f64.ln() - last as f64 / self.scale)] {
            let knot = self.knots[j].log_ratio;
            atoms.add(p, knot.value, knot.error, log_mass);
        }
        let root = |j: usize| Address {
            piece: j,
            level: 0,
            index: j as i64,
        };
        let roots: Vec<Address> = (0..last).map(root).collect();
        let mut excess = Excess {
            loss: self,
            p,
            errors: FxHashMap::default(),
        };
        let found = adaptive::integrate(&mut excess, &roots, atoms.value.ln(), &TOLERANCE);
        let evaluated = excess.errors.len();
        let mut error = atoms.error;
        for accepted in &found.accepted {
            error.add(excess.errors.get(&accepted.address).copied().unwrap_or(f64::INFINITY));
        }
        error.add(found.log_error);
        error.add(found.log_left_out);
        self.add_work(evaluated * NODES);
        let value = found.log_total;
        let sum = f64::EPSILON * (found.accepted.len() + 8) as f64;
        let relative = 1.01 * (error.ln() - value).exp() + sum;
        // The true logarithm is between log(1 − e) and log(1 + e) from this one, and the former is farther.
        Approx::new(value, -(-relative.min(1.0)).ln_1p())
    }

    /// log of the density of Lap(0, b) at x ≥ 0.
    fn log_noise(&self, x: f64) -> f64 {
        -(2.0 * self.scale).ln() - x / self.scale
    }

    /// An upper bound on the log of F times the density of the noise on [start, end]: F is convex in r and 0 at r = 1.
    fn most_excess(&self, p: f64, piece: usize, start: f64, end: f64) -> f64 {
        let at = |x: f64| PowerExcess::at(self.log_ratio(piece, x).0, p).log_value;
        at(start).max(at(end)) + self.log_noise(start) + 1e-9
    }

    /// log of a bound on |F| times the density on the ellipse of a panel; infinite on wide panels.
    ///
    /// With w = r − 1, F = p(p − 1)w²∫(1 − t)(1 + tw)^{p − 2} dt over t in [0, 1], and on the ellipse the angle of e^{2z/b} is
    /// at most θ < 1. So |r| ≤ r(Re z), Re r ≥ cos θ·r(Re z) and |r − r(Re z)| ≤ θ·r(Re z). Where that is too much, |F| ≤ |r^p|
    /// + 1 + |p||w|.
    fn log_bound(&self, p: f64, piece: usize, middle: f64, half: f64) -> f64 {
        let b = self.scale;
        let angle = 2.0 * IMAGINARY_AXIS * half / b;
        if angle >= 1.0 {
            return f64::INFINITY;
        }
        let reach = REAL_AXIS * half;
        let (low, _) = self.log_ratio(piece, middle - reach);
        let (high, slope) = self.log_ratio(piece, middle + reach);
        let fraction = (0.5 * b * slope).min(1.0); // of the rising part in r
        let lowest = low + angle.cos().ln();
        let log_distance = if high < 1.0 {
            (low.exp_m1().abs().max(high.exp_m1().abs()) + angle * fraction * high.exp()).ln()
        } else {
            high + (1.0 + angle).ln()
        };
        let power = |exponent: f64, least: f64, most: f64| exponent * if exponent > 0.0 { most } else { least };
        let smooth =
            (0.5 * p * (p - 1.0)).abs().ln() + 2.0 * log_distance + power(p - 2.0, lowest.min(0.0), high.max(0.0));
        let parts = power(p, lowest, high).max(0.0).max(p.abs().ln() + log_distance) + 3f64.ln();
        smooth.min(parts) + self.log_noise(middle - reach)
    }
}

/// F times the density of the noise, between the atoms.
struct Excess<'a> {
    loss: &'a LaplaceLoss,
    p: f64,
    /// By panel, log of a bound on what rounding changes in its integral.
    errors: FxHashMap<Address, f64>,
}

impl Integrand for Excess<'_> {
    fn log_upper(&mut self, address: Address) -> f64 {
        let (middle, half) = address.centre_and_half_width(1.0);
        self.loss
            .most_excess(self.p, address.piece, middle - half, middle + half)
            + (2.0 * half).ln()
    }

    fn rule_bounds(&mut self, address: Address) -> RuleBounds {
        let (middle, half) = address.centre_and_half_width(1.0);
        let log_bound = self.loss.log_bound(self.p, address.piece, middle, half);
        RuleBounds {
            log_error: GaussLegendre::log_error(log_bound, half),
            log_most: self.log_upper(address),
        }
    }

    fn log_integral(&mut self, address: Address) -> f64 {
        let (middle, half) = address.centre_and_half_width(1.0);
        let mut total = Total::default();
        for (x, weight) in GaussLegendre::get().points(middle, half) {
            let (log_ratio, _) = self.loss.log_ratio(address.piece, x);
            let error = self.loss.log_ratio_error(address.piece, x, log_ratio);
            total.add(self.p, log_ratio, error, self.loss.log_noise(x) + weight.ln());
        }
        self.errors.insert(address, total.error.ln());
        total.value.ln()
    }
}

impl Total {
    /// F at log ratio u, which may be off by `error`, times e^`log_mass`.
    fn add(&mut self, p: f64, log_ratio: f64, error: f64, log_mass: f64) {
        let PowerExcess {
            log_value: log_excess,
            log_slope,
        } = PowerExcess::at(log_ratio, p);
        self.value.add(log_mass + log_excess);
        if log_excess > f64::NEG_INFINITY {
            let units = UNITS + 4.0 * (log_excess.abs() + log_mass.abs());
            self.error.add(log_mass + log_excess + (f64::EPSILON * units).ln());
        }
        if error > 0.0 {
            // F is convex: next to u its slope is larger by its curvature, about |p(p − 1)| near r = 1.
            self.error.add(log_mass + log_slope + error.ln() + 0.1);
            let bend = (p * (p - 1.0)).abs().ln() + (p * log_ratio).max(log_ratio).max(0.0);
            self.error.add(log_mass + bend + 2.0 * error.ln() + 0.1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::laplace_sums::Knot;
    use crate::step::{Direction, GroupLaw};
    use realfft::num_complex::Complex64;
    use std::f64::consts::PI;

    fn of(records: u64, rate: f64, scale: f64) -> LaplaceLoss {
        LaplaceLoss::new(&GroupLaw::binomial(records, rate).unwrap(), scale, Direction::Remove)
    }

    /// mpmath, 34 digits, with r(x) = sum(w[j]*exp((x-abs(x-j))/b)) and F = r**p - 1 - p*(r-1):
    /// log(F(0)/2 + exp(-k/b)/2*F(k) + quad(F(x)*exp(-x/b)/(2*b), tenths of [0, k])).
    #[test]
    fn excesses_are_those_of_the_integral() {
        for (k, q, b, p, exact) in [
            (3, 0.1, 0.7, 2.0, -1.872_360_838_288_210_4),
            (3, 0.1, 0.7, 7.5, 3.138_630_681_859_338),
            (3, 0.1, 0.7, -1.5, -1.709_476_126_721_202),
            (3, 0.1, 0.7, 1.0625, -5.447_887_675_615_071),
            (2, 1e-6, 3.0, 2.0, -28.531_957_285_957_1),
            (2, 1e-6, 3.0, 7.5, -25.338_398_866_459_995),
            (2, 1e-6, 3.0, -1.5, -27.903_348_882_741_923),
            (2, 1e-6, 3.0, 1.0625, -31.937_068_635_567_41),
            (1, 0.3, 0.1, 2.0, 7.186_521_181_026_463),
            (1, 0.3, 0.1, 7.5, 55.346_852_943_180_13),
            (1, 0.3, 0.1, -1.5, -0.356_763_865_720_470_85),
            (1, 0.3, 0.1, 1.0625, -1.736_445_750_855_573_7),
        ] {
            let Approx { value, error } = of(k, q, b).log_power_excess(p);
            assert!((value - exact).abs() <= error, "{k} {p}: {value} {error}");
            assert!(error <= 1e-11, "{k} {p}: {error}");
        }
    }

    /// The bound holds around the ellipse; where F = (r − 1)² and the panel is short, half of it would not.
    #[test]
    fn the_bound_on_an_ellipse_holds_and_is_close_for_short_panels() {
        let loss = of(3, 0.1, 0.7);
        let mut closest = f64::INFINITY;
        for (piece, middle) in [(0, 0.5), (1, 1.4), (2, 2.5)] {
            for half in [0.5, 0.1, 0.01, 0.001] {
                for p in [2.0, 7.5, -1.5, 1.0625] {
                    let bound = loss.log_bound(p, piece, middle, half);
                    let Knot { constant, rising, .. } = loss.knots[piece];
                    let size = |i: i32| {
                        let angle = 2.0 * PI * f64::from(i) / 256.0;
                        let z =
                            middle + half * Complex64::new(REAL_AXIS * angle.cos(), IMAGINARY_AXIS * angle.sin());
                        let r = constant.value.exp() + rising.value.exp() * (2.0 * z / 0.7).exp();
                        let excess = r.powf(p) - 1.0 - p * (r - 1.0);
                        (excess * (-z / 0.7).exp() / 1.4).norm().ln()
                    };
                    let largest = (0..256).map(size).fold(f64::NEG_INFINITY, f64::max);
                    assert!(largest <= bound + 1e-9, "{piece} {half} {p}: {largest} {bound}");
                    closest = closest.min(bound - largest);
                }
            }
        }
        assert!(closest < std::f64::consts::LN_2, "{closest}");
    }

    /// F is convex in r, so that it is largest at an end.
    #[test]
    fn the_bound_on_an_interval_holds() {
        let loss = of(2, 0.3, 0.4);
        for p in [2.0, -1.5] {
            for (piece, start, end) in [(0, 0.0, 1.0), (0, 0.4, 0.5), (1, 1.0, 2.0)] {
                let bound = loss.most_excess(p, piece, start, end);
                for i in 0..=50 {
                    let x = start + (end - start) * f64::from(i) / 50.0;
                    let log_excess = PowerExcess::at(loss.log_ratio(piece, x).0, p).log_value;
                    assert!(log_excess + loss.log_noise(x) <= bound, "{p} {x}");
                }
            }
        }
    }
}
