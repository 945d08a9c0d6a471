//! ψ_n of equal batches from a table of log L along one ray.
//!
//! ψ_n(s)/n! is the coefficient of x^n in L((s − x)/t)^N·e^{−a(s − x)} for N released batches and the share a of others. With
//! E[Y^k e^{−ςY}] = e^{k(k−1)v/2}·L(e^{kv}ς) the logarithms of the coefficients of L(ς − x)/L(ς) are
//! log L(e^{kv}ς) − log L(ς) + k(k − 1)v/2 − log k!: no sum is needed but those of L itself, which serve all orders n and all points s.

use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::kernel::{MAX_ORDER, Node};
use crate::loss::allocation::series::{power, product};
use crate::loss::allocation::spacings::Lattice;
use crate::loss::allocation::transform::{LogTransform, Transform};
use realfft::num_complex::Complex64;

/// log L(e^u/t) at equally spaced u along a ray, each computed once.
#[derive(Debug)]
pub(crate) struct LogTable {
    transform: Transform,
    angle: f64,
    unit: f64,
    log_total: f64,
    first: i64,
    values: Vec<Option<LogTransform>>,
    pub(crate) work: u64,
}

/// What the coefficients of one order have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    pub(crate) n: usize,
    pub(crate) lattice: Lattice,
}

impl LogTable {
    /// For batches that all have this v.
    pub(crate) fn new(variance: f64, total: f64, angle: f64, unit: f64) -> Self {
        Self {
            transform: Transform::new(variance, angle),
            angle,
            unit,
            log_total: total.ln(),
            first: 0,
            values: Vec::new(),
            work: 0,
        }
    }

    /// log L at e^{iu}/t, u = `i`·unit.
    fn at(&mut self, i: i64) -> LogTransform {
        /// Places that are added at once.
        const MORE: usize = 64;
        if self.values.is_empty() {
            self.first = i;
        }
        if i < self.first {
            let more = (self.first - i) as usize + MORE;
            self.values.splice(0..0, std::iter::repeat_n(None, more));
            self.first -= more as i64;
        }
        let place = (i - self.first) as usize;
        if place >= self.values.len() {
            self.values.resize(place + MORE, None);
        }
        if let Some(known) = self.values[place] {
            return known;
        }
        let u = i as f64 * self.unit;
        // u is a product, and v may be a multiple of the unit up to a rounding only.
        let off = f64::EPSILON * (2.0 * u.abs() + self.log_total + 2.0);
        let found = self.transform.at(u - self.log_total, off);
        self.work += self.transform.size() as u64;
        self.values[place] = Some(found);
        found
    }

    /// log ψ_0 of all parts at place `i`, and a bound on its error.
    fn log_base(bins: &Bins, tables: &mut [Self], i: i64) -> (Complex64, f64) {
        let (mut log, mut error) = (Complex64::default(), 0.0);
        for (part, table) in bins.parts.iter().zip(tables.iter_mut()) {
            let one = table.at(i);
            log += one.value * part.count;
            error += part.count * (one.error + f64::EPSILON * one.value.norm());
        }
        if let Some(table) = tables.first() {
            let log_s = i as f64 * table.unit;
            let still = Complex64::from_polar(-bins.still * log_s.exp(), table.angle);
            log += still;
            error += still.norm() * f64::EPSILON * (6.0 + 2.0 * log_s.abs());
        }
        (log, error)
    }

    /// The coefficients of L(ς − x)/L(ς) in units of x in which `scale` is 1, and bounds on their errors.
    fn coefficients(&mut self, order: Order, place: i64, (variance, log_scale): (f64, f64)) -> Coefficients {
        let Order { n, lattice } = order;
        let base = self.at(place);
        let mut found = Coefficients {
            is_real: self.angle == 0.0,
            values: Vec::with_capacity(n + 1),
            errors: [0.0; MAX_ORDER + 1],
        };
        found.values.push(Complex64::new(1.0, 0.0));
        let mut log_factorial = 0.0;
        for k in 1..=n {
            let order = k as f64;
            log_factorial += order.ln();
            let there = self.at(place + k as i64 * lattice.shift);
            let known = 0.5 * order * (order - 1.0) * variance + order * log_scale - log_factorial;
            let log = there.value - base.value + known;
            let size = log.re.exp();
            let rounding = there.value.norm() + base.value.norm() + order * order * variance;
            let rounding = rounding + order * log_scale.abs() + 2.0 * log_factorial + 4.0;
            found.errors[k] = size * (there.error + base.error + 3.0 * f64::EPSILON * rounding).exp_m1();
            found.values.push(if found.is_real {
                Complex64::from(size)
            } else {
                Complex64::from_polar(size, log.im)
            });
        }
        found
    }
}

/// ψ_n at e^{iθ + u}, u = `i` spacings.
pub(crate) fn node(bins: &Bins, tables: &mut [LogTable], order: Order, i: i64) -> Node {
    let n = order.n;
    let place = i * order.lattice.stride;
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
    let in_terms: f64 = (1..=n).map(|k| coefficients.errors[k] * bounds[n - k]).sum();
    let log_factorial: f64 = (1..=n).map(|k| (k as f64).ln()).sum();
    let outer = exponent_error + 4.0 * unit * (exponent.norm() + log_factorial + shift.abs() + 2.0);
    Node {
        log_scale: exponent.re + log_factorial - shift,
        value: value * Complex64::from_polar(1.0, exponent.im),
        error: 1.01 * part.count * in_terms + bounds[n] * roundings + value.norm() * outer.exp_m1(),
    }
}

/// Coefficients of one batch, with bounds on their errors.
struct Coefficients {
    is_real: bool,
    values: Vec<Complex64>,
    errors: [f64; MAX_ORDER + 1],
}

impl Coefficients {
    /// The last coefficient of all `count` batches times e^{`still`·x}, and bounds on the moduli of all coefficients.
    fn power(&self, count: f64, still: f64) -> (Complex64, Vec<f64>) {
        let n = self.values.len() - 1;
        let majorants: Vec<f64> = self
            .values
            .iter()
            .zip(&self.errors)
            .map(|(c, e)| c.norm() + e)
            .collect();
        let bounds = power(&majorants, count);
        let is_alone = still == 0.0;
        let outer = exponential(still, n);
        let bounds = if is_alone { bounds } else { product(&outer, &bounds) };
        // The last coefficient of the product with e^{still·x}.
        if self.is_real {
            let moduli: Vec<f64> = self.values.iter().map(|c| c.re).collect();
            let powers = power(&moduli, count);
            let value = outer.iter().zip(powers.iter().rev()).map(|(a, b)| a * b).sum::<f64>();
            return (Complex64::from(value), bounds);
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
                let found = node(&bins, &mut tables, Order { n, lattice }, i);
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
}
