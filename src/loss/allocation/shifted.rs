//! ψ_n of equal batches from a table of log L along one ray.
//!
//! ψ_n(s)/n! is the coefficient of x^n in L((s − x)/t)^N·e^{−a(s − x)} for N released batches and the share a of others. With
//! E[Y^k e^{−ςY}] = e^{k(k−1)v/2}·L(e^{kv}ς) the logarithms of the coefficients of L(ς − x)/L(ς) are
//! log L(e^{kv}ς) − log L(ς) + k(k − 1)v/2 − log k!: no sum is needed but those of L itself, which serve all orders n and all points s.

use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::kernel::Node;
use crate::loss::allocation::normal_rule::Points;
use crate::loss::allocation::places::Places;
use crate::loss::allocation::series::{last_of_power, power, product};
use crate::loss::allocation::transform::{LogTransform, Transform};
use realfft::num_complex::Complex64;
use std::sync::LazyLock;

/// Largest order n: with 64, two batches with noise multiplier 8 had an ε 8e-4 wide at δ = 5e-9; noise multipliers above 12 or so have lines
/// for such exponents.
pub(crate) const MAX_SHIFTED_ORDER: usize = 192;

/// log L(e^{u + iθ}/t) at equally spaced u along the ray at the angle θ, each computed once.
#[derive(Debug)]
pub(crate) struct LogTable {
    transform: Transform,
    angle: f64,
    unit: f64,
    log_total: f64,
    values: Places<LogTransform>,
    pub(crate) work: u64,
}

/// log k! by k.
static LOG_FACTORIALS: LazyLock<[f64; MAX_SHIFTED_ORDER + 1]> = LazyLock::new(|| {
    let mut sum = 0.0;
    std::array::from_fn(|k| {
        sum += (k.max(1) as f64).ln();
        sum
    })
});

/// What the coefficients of one order have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) n: usize,
    /// v in units of the tables.
    pub(crate) shift: i64,
}

impl LogTable {
    /// For batches that all have this v.
    pub(crate) fn new(variance: f64, total: f64, angle: f64, unit: f64) -> Self {
        let log_total = total.ln();
        Self {
            transform: Transform::new(Points::new(unit, log_total), (variance, angle)),
            angle,
            unit,
            log_total,
            values: Places::new(),
            work: 0,
        }
    }

    /// log L at ς = e^{u + iθ}/t, u = `place`·unit.
    fn at(&mut self, place: i64) -> LogTransform {
        if let Some(known) = self.values.get(place) {
            return known;
        }
        let found = self.transform.at(place);
        self.work += self.transform.size() as u64;
        self.values.set(place, found);
        found
    }

    /// log ψ_0 of all parts at place `i`, and a bound on its error.
    fn log_base(bins: &Bins, tables: &mut [Self], i: i64) -> (Complex64, f64) {
        debug_assert!(!tables.is_empty(), "the first part says where the points are");
        let (mut log, mut error) = (Complex64::default(), 0.0);
        for (part, table) in bins.parts.iter().zip(tables.iter_mut()) {
            let one = table.at(i);
            log += one.value * part.count;
            error += part.count * (one.error + f64::EPSILON * one.modulus);
        }
        if let Some(table) = tables.first() {
            let log_s = i as f64 * table.unit;
            let still = Complex64::from_polar(-bins.still * log_s.exp(), table.angle);
            log += still;
            let offset = Points::common_error(table.log_total);
            error += still.norm() * (f64::EPSILON * (6.0 + 2.0 * log_s.abs()) + offset);
        }
        (log, error)
    }

    /// The coefficients of L(ς − x)/L(ς) in units of x in which `scale` is 1, and bounds on their errors.
    fn coefficients(&mut self, order: Order, place: i64, (variance, log_scale): (f64, f64)) -> Coefficients {
        let Order { n, shift } = order;
        let base = self.at(place);
        let back = base.turn.conj();
        let mut found = Coefficients {
            is_real: self.angle == 0.0,
            values: Vec::with_capacity(n + 1),
            moduli: Vec::with_capacity(n + 1),
            errors: Vec::with_capacity(n + 1),
        };
        found.values.push(Complex64::new(1.0, 0.0));
        found.moduli.push(1.0);
        found.errors.push(0.0);
        for (k, log_factorial) in LOG_FACTORIALS.iter().enumerate().take(n + 1).skip(1) {
            let order = k as f64;
            let there = self.at(place + k as i64 * shift);
            let known = 0.5 * order * (order - 1.0) * variance + order * log_scale - log_factorial;
            let size = (there.value.re - base.value.re + known).exp();
            // Six of the exponential, of two phase factors and their product, and of its product with the modulus.
            let rounding = there.modulus + base.modulus + order * order * variance;
            let rounding = rounding + order * log_scale.abs() + 2.0 * log_factorial + 6.0;
            let error = there.error + base.error + 3.0 * f64::EPSILON * rounding;
            // e^x − 1 ≤ x(1 + x) for x from 0 to 1.
            let relative = if error < 1.0 {
                error * (1.0 + error)
            } else {
                error.exp_m1()
            };
            found.errors.push(size * relative);
            found.moduli.push(size);
            found.values.push(if found.is_real {
                Complex64::from(size)
            } else {
                size * there.turn * back
            });
        }
        found
    }
}

/// ψ_n at e^{iθ + u}, u = `place` units of the tables.
pub(crate) fn node(bins: &Bins, tables: &mut [LogTable], order: Order, place: i64) -> Node {
    let n = order.n;
    debug_assert!(n == 0 || bins.parts.len() == 1, "coefficients are those of one part");
    let (exponent, exponent_error) = LogTable::log_base(bins, tables, place);
    let unit = f64::EPSILON;
    let (Some(part), Some(table), 1..) = (bins.parts.first(), tables.first_mut(), n) else {
        let outer = exponent_error + 4.0 * unit * (exponent.norm() + 2.0);
        return Node {
            log_scale: exponent.re,
            value: Complex64::from_polar(1.0, exponent.im),
            error: outer.exp_m1(),
        };
    };
    let log_s = place as f64 * table.unit;
    let log_scale = (log_s - table.log_total).max(-0.5 * part.variance * (n - 1) as f64);
    let shift = n as f64 * (table.log_total + log_scale);
    let coefficients = table.coefficients(order, place, (part.variance, log_scale));
    let still = bins.still * bins.total * log_scale.exp();
    let (value, bounds) = coefficients.power(part.count, still);
    let order = n as f64;
    let roundings = (0.5 * order * (order + 12.0) + 8.0) * unit * 2.0;
    let in_terms = coefficients.error_of_power(part.count, &bounds);
    let log_factorial = LOG_FACTORIALS[n];
    // In `shift` log t nearly cancels where s is about 1, but its rounding does not.
    let of_total = unit * order * table.log_total.abs();
    let outer = exponent_error + of_total + 4.0 * unit * (exponent.norm() + log_factorial + shift.abs() + 2.0);
    Node {
        log_scale: exponent.re + log_factorial - shift,
        value: value * Complex64::from_polar(1.0, exponent.im),
        error: (in_terms + bounds[n] * roundings + underflow(part.count, &bounds)) * outer.exp()
            + value.norm() * outer.exp_m1(),
    }
}

/// A bound on what underflow adds to the error of the last coefficient of a power: each operation whose result is below the normal numbers is off
/// by 2^−1075 at most, there are fewer than 2^53 of them, and what an error in one of the `count` factors is multiplied with is at most the
/// largest coefficient. So a coefficient that is next to nothing has an error as large as itself.
fn underflow(count: f64, bounds: &[f64]) -> f64 {
    count * f64::MIN_POSITIVE * bounds.iter().copied().fold(1.0, f64::max)
}

/// Coefficients of one batch, with bounds on their errors.
struct Coefficients {
    is_real: bool,
    values: Vec<Complex64>,
    moduli: Vec<f64>,
    errors: Vec<f64>,
}

impl Coefficients {
    /// The largest error of a coefficient relative to its modulus.
    fn worst_relative_error(&self) -> f64 {
        let relative = self.errors.iter().zip(&self.moduli).skip(1);
        relative.map(|(error, size)| error / size).fold(0.0, f64::max)
    }

    /// A bound on what the errors of coefficients add to the last coefficient of [`Coefficients::power`], where `bounds` are those of all.
    ///
    /// The better one of two. To first order it is the product of the errors with the coefficients of a power that is one smaller, and these are at most `bounds`.
    /// And each term of the coefficient has as many factors as its order and the `count` allow, each of which is off by no more than the worst: where
    /// `count` is small, the first bound is larger by a factor that grows exponentially with the order.
    fn error_of_power(&self, count: f64, bounds: &[f64]) -> f64 {
        let n = bounds.len() - 1;
        let first: f64 = (1..=n).map(|k| self.errors[k] * bounds[n - k]).sum();
        let factors = count.min(n as f64);
        let by_factors = bounds[n] * (factors * self.worst_relative_error().ln_1p()).exp_m1();
        (1.01 * count * first).min(by_factors * (1.0 + 1e-12))
    }

    /// The last coefficient of all `count` batches times e^{`still`·x}, and bounds on the moduli of all coefficients.
    fn power(&self, count: f64, still: f64) -> (Complex64, Vec<f64>) {
        let n = self.values.len() - 1;
        let outer = exponential(still, n);
        let all = |powers: Vec<f64>| if still == 0.0 { powers } else { product(&outer, &powers) };
        if self.is_real {
            let powers = all(power(&self.moduli, count));
            // Each of the at most k factors in a term of the k-th coefficient is off by no more than the worst. One that underflows is left out:
            // see `underflow`.
            let worst = self.worst_relative_error();
            let bounds = (0..=n).map(|k| powers[k] * (1.0 + worst).powi(k as i32)).collect();
            return (Complex64::from(powers[n]), bounds);
        }
        let majorants = self.moduli.iter().zip(&self.errors).map(|(size, error)| size + error);
        let bounds = all(power(&majorants.collect::<Vec<f64>>(), count));
        if still == 0.0 {
            return (last_of_power(&self.values, count), bounds);
        }
        let powers = power(&self.values, count);
        let value = outer.iter().zip(powers.iter().rev());
        (value.map(|(&a, b)| b * a).sum(), bounds)
    }
}

/// The coefficients of e^{cx}.
fn exponential(c: f64, n: usize) -> Vec<f64> {
    let mut series = vec![1.0; n + 1];
    for k in 1..=n {
        series[k] = series[k - 1] * c / k as f64;
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::bins::Part;
    use crate::loss::allocation::kernel::Ray;
    use crate::loss::allocation::spacings::Spacings;

    /// One coefficient, 1 + ax: that of x^k of its power is C(N, k)·a^k, and all of its k factors are off by the same. Coefficients that are 0
    /// have no error.
    #[test]
    fn bounds_on_real_powers_are_attained() {
        let (a, error, count) = (0.3, 1e-3, 40.0);
        let coefficients = Coefficients {
            is_real: true,
            values: vec![
                Complex64::from(1.0),
                Complex64::from(a),
                Complex64::from(0.0),
                Complex64::from(0.0),
            ],
            moduli: vec![1.0, a, 0.0, 0.0],
            errors: vec![0.0, error, 0.0, 0.0],
        };
        let (value, bounds) = coefficients.power(count, 0.0);
        let largest = power(&[1.0, a + error, 0.0, 0.0], count);
        assert!((value.re - power(&coefficients.moduli, count)[3]).abs() < 1e-12 * value.re);
        for (bound, exact) in bounds.iter().zip(&largest) {
            assert!((bound / exact - 1.0).abs() < 1e-12, "{bound} {exact}");
        }
    }

    /// Two factors of order 40 whose coefficients are all off by the same part: the last coefficient of the square is off by that part twice, and the
    /// bound to first order is larger by a power of 2.
    #[test]
    fn errors_of_few_factors_are_those_of_the_factors() {
        let (n, part) = (40, 1e-6);
        let factorials: Vec<f64> = LOG_FACTORIALS[..=n].iter().map(|log| (-log).exp()).collect();
        let coefficients = Coefficients {
            is_real: false,
            values: factorials.iter().map(|&a| Complex64::from(a)).collect(),
            moduli: factorials.clone(),
            errors: (0..=n)
                .map(|k| if k == 0 { 0.0 } else { part * factorials[k] })
                .collect(),
        };
        let (value, bounds) = coefficients.power(2.0, 0.0);
        let moved: Vec<f64> = (0..=n)
            .map(|k| factorials[k] * if k == 0 { 1.0 } else { 1.0 + part })
            .collect();
        let off = (power(&moved, 2.0)[n] - value.re).abs();
        let bound = coefficients.error_of_power(2.0, &bounds);
        assert!(off <= bound && off > 0.99 * bound, "{off:e} {bound:e}");
    }

    /// Against sums over one set of nodes for all derivatives, which share nothing with shifts but the normal law.
    #[test]
    fn derivatives_are_shifts() {
        for (count, v, still, n, angle) in [
            (10u64, 1.0, 0u64, 8usize, 0.0),
            (10, 1.0, 0, 16, 0.9),
            (100, 0.25, 0, 32, 0.6),
            (2, 0.04, 3, 12, 1.2),
            (3, 4.0, 1, 4, 0.0),
            (1, 0.01, 0, 20, 0.3),
        ] {
            let bins = Bins::new(&[(count, v), (still, 0.0)]).unwrap();
            let spacings = Spacings::new(&bins);
            let spacing = spacings.at_most(0.2);
            let lattice = spacings.lattice(spacing).unwrap();
            let of = |part: &Part| LogTable::new(part.variance, bins.total, angle, lattice.unit);
            let mut tables: Vec<LogTable> = bins.parts.iter().map(of).collect();
            let ray = Ray::new(&bins, n, angle, 5.0);
            for i in [-30, -7, 3, 14] {
                let order = Order {
                    n,
                    shift: lattice.shift,
                };
                let found = node(&bins, &mut tables, order, i * lattice.stride);
                let other = ray.at(i as f64 * spacing);
                let scale = (other.log_scale - found.log_scale).exp();
                let off = (found.value - other.value * scale).norm();
                assert!(
                    off <= found.error + other.error * scale,
                    "{count} {v} {n} {angle} {i}: {found:?} {other:?} {off}"
                );
                assert!(
                    found.error <= 1e-6 * found.value.norm(),
                    "{count} {v} {n} {angle} {i}: {found:?}"
                );
            }
        }
    }

    /// One batch with v = 64 and derivatives of order 12: ψ_n(s) = e^{n(n − 1)v/2}·L(e^{nv}s). Around s = e^−270 the coefficient is below the normal
    /// numbers, and has few digits or none.
    #[test]
    fn a_coefficient_that_underflows_has_an_error_as_large_as_itself() {
        let (v, n) = (64.0, 12usize);
        let bins = Bins::new(&[(1, v)]).unwrap();
        let lattice = Spacings::new(&bins).lattice(Spacings::new(&bins).at_most(0.2)).unwrap();
        let mut tables = vec![LogTable::new(v, bins.total, 0.0, lattice.unit)];
        let order = Order {
            n,
            shift: lattice.shift,
        };
        let mut tiny = 0;
        for log_s in (-400..0).step_by(2) {
            let place = (f64::from(log_s) / lattice.unit) as i64;
            let found = node(&bins, &mut tables, order, place);
            if found.error == f64::INFINITY {
                continue; // what overflows is not known
            }
            let shifted = tables[0].at(place + n as i64 * lattice.shift);
            let exact = (shifted.value.re + 66.0 * v - found.log_scale).exp();
            let off = (found.value.re - exact).abs();
            assert!(off <= found.error + 1e-9 * exact, "{log_s}: {found:?} {exact}");
            if exact < 1e-308 {
                tiny += 1;
                assert!(found.error >= exact, "{log_s}: {found:?} {exact}");
            }
        }
        assert!(tiny > 3, "{tiny}");
    }
}
