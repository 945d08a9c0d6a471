//! The sums that make up the likelihood ratio of a Laplace mixture, each with a bound on its rounding error.
//!
//! Between the whole numbers j and j + 1 the ratio of Σ w_i Lap(i, b) to Lap(0, b) is
//!
//! > r(x) = A_j + B_j e^{2x/b} with A_j = Σ_{i ≤ j} w_i e^{i/b} and B_j = Σ_{i > j} w_i e^{−i/b}.
//!
//! Where members are rarely in a batch, r is close to 1 and its logarithm, found from A and B, would have no digits. So r − 1
//! is computed as well, from sums of w_i·(e^a − 1) that have small relative errors:
//!
//! > r(0) − 1 = Σ_{i ≥ 1} w_i (e^{−i/b} − 1) and r(x) = r(j) + B_j e^{2j/b}·(e^{2(x − j)/b} − 1), which only adds.
//!
//! Against the mirrored mixture Σ w_i Lap(−i, b), whose density right of 0 is r(0) times that of Lap(0, b), the ratio is r(x)/r(0).

use crate::approx::Approx;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::exponential;
use crate::special::gauss_legendre::NODES;
use crate::special::log_space::log_add;

/// Logarithms of the ratio below this, in absolute value, come from r − 1.
const NEAR_ONE: f64 = 0.5;

/// Bounds on the ratio on [j, j + 1].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Knot {
    /// log A_j.
    pub(crate) constant: Approx,
    /// log B_j.
    pub(crate) rising: Approx,
    /// r(j) − 1; infinite where that is beyond the range of an `f64`.
    pub(crate) excess: Approx,
    /// B_j e^{2j/b}, with its *relative* error; infinite likewise.
    pub(crate) rise: Approx,
    /// log r(j).
    pub(crate) log_ratio: Approx,
}

impl Knot {
    /// B_j e^{2j/b}·(e^`exponent` − 1) where its logarithm without the −1 is `rising`, and a bound on its relative error.
    ///
    /// The first factor may be too small for an `f64`, or have lost digits, and the second one too large, where their product is neither: it is
    /// then found from the sum of their logarithms.
    fn risen(&self, rising: f64, exponent: f64) -> (f64, f64) {
        let error = self.rise.error + f64::EPSILON * (4.0 + 2.0 * exponent.abs());
        let part = self.rise.value * exponent.exp_m1();
        if exponent == 0.0 || (self.rise.value >= f64::MIN_POSITIVE && part.is_finite()) {
            return (if exponent == 0.0 { 0.0 } else { part }, error);
        }
        let part = rising.exp() * -(-exponent).exp_m1();
        (part, error + f64::EPSILON * (rising.abs() + exponent.abs()))
    }

    /// r(x) − 1 at x = j + `beyond`, with log of the rising part there.
    fn excess_at(&self, rising: f64, beyond: f64, scale: f64) -> f64 {
        self.excess.value + self.risen(rising, 2.0 * beyond / scale).0
    }

    /// log r and log of its rising part at x = j + `beyond`.
    pub(crate) fn log_ratio_at(&self, x: f64, beyond: f64, scale: f64) -> (f64, f64) {
        let rising = self.rising.value + 2.0 * x / scale;
        let whole = log_add(self.constant.value, rising);
        if whole.abs() >= NEAR_ONE {
            return (whole, rising);
        }
        let refined = self.excess_at(rising, beyond, scale).ln_1p();
        (if refined.is_finite() { refined } else { whole }, rising)
    }

    /// log r with its error at the nodes of a panel of [j, j + 1]: what [`Knot::log_ratio_at`] and [`Knot::log_ratio_error`] find at one, by as many
    /// exponentials as one node has, in the lanes of the processor's vectors.
    pub(crate) fn log_ratios(&self, nodes: &[f64; NODES], j: usize, scale: f64) -> [Approx; NODES] {
        let rising = nodes.map(|x| self.rising.value + 2.0 * x / scale);
        let mut shares = rising.map(|rising| -(rising - self.constant.value).abs());
        exponential::exp(&mut shares);
        let exponents = nodes.map(|x| 2.0 * (x - j as f64) / scale);
        let mut changes = exponents;
        exponential::exp_m1(&mut changes);
        std::array::from_fn(|i| {
            let (x, rising) = (nodes[i], rising[i]);
            let whole = self.constant.value.max(rising) + shares[i].ln_1p();
            if whole.abs() >= NEAR_ONE {
                let [constant_share, rising_share] = if self.constant.value > rising {
                    [1.0, shares[i]]
                } else {
                    [shares[i], 1.0]
                };
                let of = |share: f64, log: f64, error: f64| {
                    let part = share * (error + f64::EPSILON * log.abs());
                    if share > 0.0 { part } else { 0.0 }
                };
                let rising_error = self.rising.error + 4.0 * f64::EPSILON * x / scale;
                let error = of(constant_share, self.constant.value, self.constant.error)
                    + of(rising_share, rising, rising_error);
                return Approx::new(whole, error / (1.0 + shares[i]) + last_place(whole));
            }
            let part = self.rise.value * changes[i];
            let change = self.excess.value + part;
            let log_ratio = change.ln_1p();
            if self.rise.value >= f64::MIN_POSITIVE && log_ratio.is_finite() && change > -1.0 {
                // The change is off by 2ε (`exponential`), and by as much of its exponent's rounding as for one node.
                let relative = self.rise.error + f64::EPSILON * (5.0 + 2.0 * exponents[i].abs());
                let error = self.excess.error + part.abs() * relative + f64::EPSILON * change.abs();
                return Approx::new(log_ratio, error / (1.0 + change) + 2.0 * f64::EPSILON * log_ratio.abs());
            }
            let beyond = x - j as f64;
            let (log_ratio, _) = self.log_ratio_at(x, beyond, scale);
            Approx::new(log_ratio, self.log_ratio_error(x, beyond, scale, log_ratio))
        })
    }

    /// A bound on the error of what [`Knot::log_ratio_at`] found.
    pub(crate) fn log_ratio_error(&self, x: f64, beyond: f64, scale: f64, log_ratio: f64) -> f64 {
        let rising = self.rising.value + 2.0 * x / scale;
        if log_ratio.abs() < NEAR_ONE {
            let (part, relative) = self.risen(rising, 2.0 * beyond / scale);
            let of_part = if part == 0.0 { 0.0 } else { part.abs() * relative };
            let error = self.excess.error + of_part + f64::EPSILON * log_ratio.exp_m1().abs();
            return error * (-log_ratio).exp() + 2.0 * f64::EPSILON * log_ratio.abs();
        }
        let of = |log: f64, error: f64| {
            let fraction = (log - log_ratio).exp();
            if fraction > 0.0 {
                fraction * (error + f64::EPSILON * log.abs())
            } else {
                0.0
            }
        };
        let rising_error = self.rising.error + 4.0 * f64::EPSILON * x / scale;
        of(self.constant.value, self.constant.error) + of(rising, rising_error) + last_place(log_ratio)
    }
}

/// Rounding of a logarithm that is found from the sum of two exponentials.
fn last_place(log_ratio: f64) -> f64 {
    f64::EPSILON * (4.0 + 2.0 * log_ratio.abs())
}

/// Bounds on the ratio at every whole number from 0 to k, for the logs of the weights of these numbers.
pub(crate) fn knots(log_weights: &[f64], scale: f64) -> Vec<Knot> {
    knots_of_measure(log_weights, Approx::default(), scale)
}

/// The same for weights that add up to 1 − `missing`.
pub(crate) fn knots_of_measure(log_weights: &[f64], missing: Approx, scale: f64) -> Vec<Knot> {
    let count = log_weights.len();
    let exponent = |i: usize| i as f64 / scale;
    let units = |i: usize| 2.0 * log_weights[i].abs() + 3.0 * exponent(i);
    let nothing = Approx::default();
    let mut knots = Vec::with_capacity(count);
    let mut running = LogSum::default();
    for (i, log_weight) in log_weights.iter().enumerate() {
        running.add(log_weight + exponent(i), units(i));
        knots.push(Knot {
            constant: running.ln(),
            rising: nothing,
            excess: nothing,
            rise: nothing,
            log_ratio: nothing,
        });
    }
    let mut running = LogSum::default();
    for i in (0..count).rev() {
        knots[i].rising = running.ln();
        running.add(log_weights[i] - exponent(i), units(i));
    }
    add_excesses(&mut knots, (log_weights, missing), scale);
    knots
}

/// r − 1 at every whole number, from that at 0 upwards, and the logarithms.
fn add_excesses(knots: &mut [Knot], (log_weights, missing): (&[f64], Approx), scale: f64) {
    let mut excess = CompensatedSum::default();
    excess.add(-missing.value);
    let mut error = f64::MIN_POSITIVE + missing.error;
    for (i, log_weight) in log_weights.iter().enumerate().skip(1) {
        let exponent = i as f64 / scale;
        let part = log_weight.exp() * (-exponent).exp_m1();
        excess.add(part);
        if part != 0.0 {
            error += f64::EPSILON * part.abs() * (8.0 + 2.0 * log_weight.abs());
        }
    }
    climb(knots, (excess, error), scale);
}

/// Turns bounds on the ratio r, against the noise alone, into bounds on r(x)/r(0), the ratio against the mirrored mixture right of 0. Also
/// returns log r(0), the factor by which the mirrored mixture's density exceeds that of the noise there.
pub(crate) fn over_first(mut knots: Vec<Knot>, scale: f64) -> (Vec<Knot>, Approx) {
    let first = knots.first().map_or(Approx::default(), |knot| knot.log_ratio);
    let less = |log: Approx| Approx {
        value: log.value - first.value,
        error: log.error + first.error + f64::EPSILON * (log.value - first.value).abs(),
    };
    for knot in &mut knots {
        knot.constant = less(knot.constant);
        if knot.rising.value > f64::NEG_INFINITY {
            knot.rising = less(knot.rising);
        }
    }
    climb(&mut knots, (CompensatedSum::default(), f64::MIN_POSITIVE), scale);
    (knots, first)
}

/// r − 1 at every whole number, from that at 0 and its error upwards, and the logarithms.
fn climb(knots: &mut [Knot], (mut excess, mut error): (CompensatedSum, f64), scale: f64) {
    for (j, knot) in knots.iter_mut().enumerate() {
        let at = 2.0 * j as f64 / scale;
        knot.excess = Approx {
            value: excess.value(),
            error: error + 2.0 * f64::EPSILON * excess.value().abs(),
        };
        let log_rise = knot.rising.value + at;
        if log_rise > f64::NEG_INFINITY {
            knot.rise = Approx {
                value: log_rise.exp(),
                error: knot.rising.error + f64::EPSILON * (4.0 + 2.0 * at + log_rise.abs()),
            };
        }
        let (log_ratio, _) = knot.log_ratio_at(j as f64, 0.0, scale);
        knot.log_ratio = Approx {
            value: log_ratio,
            error: knot.log_ratio_error(j as f64, 0.0, scale, log_ratio),
        };
        let width = 2.0 / scale;
        let (part, relative) = knot.risen(log_rise + width, width);
        if part > 0.0 {
            excess.add(part);
            error += part * relative + f64::MIN_POSITIVE;
        }
    }
}

/// A sum of exponentials with a bound on its error.
#[derive(Debug, Clone, Copy)]
struct LogSum {
    /// Terms are divided by e^this.
    scale: f64,
    sum: CompensatedSum,
    /// Units in the last place by which the terms may be off, times the terms.
    size: f64,
}

impl Default for LogSum {
    fn default() -> Self {
        Self {
            scale: f64::NEG_INFINITY,
            sum: CompensatedSum::default(),
            size: 0.0,
        }
    }
}

impl LogSum {
    /// How far terms may rise above the scale before it is changed, which rounds all of them.
    const ROOM: f64 = 300.0;
    /// Terms this far below the scale are 0 as numbers.
    const LEAST: f64 = -700.0;

    /// Adds e^term, which may be off by so many `units` in the last place.
    fn add(&mut self, term: f64, units: f64) {
        if term == f64::NEG_INFINITY || term < self.scale + Self::LEAST {
            return;
        }
        if term > self.scale + Self::ROOM {
            // A term that still counts has seen at most one change of scale, as each raises it by more than 300; |term| + |scale| in `size`
            // counts its rounding.
            let factor = (self.scale - term).exp();
            self.sum.scale(factor);
            self.size *= factor;
            self.scale = term;
        }
        let value = (term - self.scale).exp();
        self.sum.add(value);
        self.size += value * (units + term.abs() + self.scale.abs() + 4.0);
    }

    fn ln(self) -> Approx {
        let sum = self.sum.value();
        if sum == 0.0 {
            return Approx {
                value: f64::NEG_INFINITY,
                error: 0.0,
            };
        }
        let value = self.scale + sum.ln();
        Approx {
            value,
            error: f64::EPSILON * (self.size / sum + 4.0 + self.scale.abs() + value.abs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;

    fn of(records: u64, rate: f64, scale: f64) -> Vec<Knot> {
        knots(GroupLaw::binomial(records, rate).unwrap().log_weights(), scale)
    }

    fn is_within(found: Approx, exact: f64) -> bool {
        (found.value - exact).abs() <= found.error
    }

    /// mpmath, 34 digits, with w = [binomial(k,j)*q**j*(1-q)**(k-j) for j in range(k+1)]:
    /// log(sum(w[i]*exp(i/b) for i <= j)), log(sum(w[i]*exp(-i/b) for i > j)), sum(w[i]*exp((j-abs(j-i))/b)) - 1.
    #[test]
    fn sums_and_excesses_are_as_good_as_they_say() {
        #[rustfmt::skip]
        let cases = [
            (3, 0.1, 0.7, 0, -0.316_081_546_973_478_9, -2.816_755_531_716_778_6, -0.211_200_353_637_689_77),
            (3, 0.1, 0.7, 1, 0.555_593_041_079_113_4, -6.460_224_465_629_053, 0.770_213_984_750_789_3),
            (3, 0.1, 0.7, 2, 0.794_389_932_996_492_7, -11.193_469_564_696_422, 1.217_263_185_307_782_3),
            (2, 1e-6, 3.0, 0, -2.000_001_000_000_666_6e-6, -13.455_697_352_472_213, -5.669_372_984_979_236e-7),
            (2, 1e-6, 3.0, 1, 7.912_227_459_305_295e-7, -28.297_687_782_595_214, 7.912_240_589_473_288e-7),
        ];
        for (k, q, b, j, constant, rising, excess) in cases {
            let knot = of(k, q, b)[j];
            assert!(is_within(knot.constant, constant), "{k} {j}: {knot:?}");
            assert!(is_within(knot.rising, rising), "{k} {j}: {knot:?}");
            assert!(is_within(knot.excess, excess), "{k} {j}: {knot:?}");
            assert!(
                knot.constant.error < 3e-14 && knot.rising.error < 1e-13,
                "{k} {j}: {knot:?}"
            );
            // The excess keeps its digits where it is next to nothing.
            assert!(knot.excess.error < 1e-13 * excess.abs(), "{k} {j}: {knot:?}");
        }
    }

    /// mpmath, as above: log(sum(w[i]*exp((x-abs(x-i))/b) for i in range(k+1))).
    #[test]
    fn logarithms_between_the_knots_are_as_good_as_they_say() {
        for (k, q, b, x, exact) in [
            (3, 0.1, 0.7, 0.0, -0.237_242_924_017_455_12),
            (3, 0.1, 0.7, 0.3, -0.139_362_084_362_436_1),
            (3, 0.1, 0.7, 1.0, 0.571_100_434_617_908_5),
            (3, 0.1, 0.7, 1.75, 0.680_648_640_821_042_6),
            (3, 0.1, 0.7, 2.0, 0.796_273_635_950_973_5),
            (2, 1e-6, 3.0, 0.0, -5.669_374_592_069_345e-7),
            (2, 1e-6, 3.0, 0.3, -2.496_535_163_350_944e-7),
            (2, 1e-6, 3.0, 1.0, 7.912_237_459_297_382e-7),
            (2, 1e-6, 3.0, 1.75, 7.912_243_946_504_956e-7),
            (4, 0.5, 0.05, 0.3, -2.771_247_771_200_873_5),
            (4, 0.5, 0.05, 1.75, 29.019_201_014_524_165),
            (4, 0.5, 0.05, 2.0, 39.019_170_749_736_476),
        ] {
            let j = (x as usize).min(k as usize - 1);
            let knot = of(k, q, b)[j];
            let beyond = x - j as f64;
            let (value, _) = knot.log_ratio_at(x, beyond, b);
            let error = knot.log_ratio_error(x, beyond, b, value);
            assert!((value - exact).abs() <= error, "{k} {x}: {value} {error}");
            assert!(error <= 2e-13 * exact.abs(), "{k} {x}: {error}");
        }
    }

    /// With ratios near 1 and far from it, and where one of the factors of the rising part has no `f64`.
    #[test]
    fn ratios_at_all_nodes_are_those_at_each() {
        for (k, q, b) in [(3, 0.1, 0.7), (2, 1e-6, 3.0), (4, 0.5, 0.05), (1, 1e-176, 1.0 / 395.0)] {
            for (j, knot) in of(k, q, b).iter().enumerate().take(k as usize) {
                let nodes = std::array::from_fn(|i| j as f64 + i as f64 / (NODES - 1) as f64);
                for (x, found) in nodes.into_iter().zip(knot.log_ratios(&nodes, j, b)) {
                    let (one, _) = knot.log_ratio_at(x, x - j as f64, b);
                    let error = knot.log_ratio_error(x, x - j as f64, b, one);
                    assert!((found.value - one).abs() <= 0.5 * error, "{k} {x}: {found:?} {one}");
                    let is_like = found.error >= 0.9 * error && found.error <= 1.1 * error;
                    assert!(is_like, "{k} {x}: {found:?} {error}");
                }
            }
        }
    }

    #[test]
    fn the_ratio_is_continuous_at_the_knots() {
        for (k, q, b) in [(3, 0.1, 0.7), (2, 1e-6, 3.0), (4, 0.5, 0.05)] {
            let knots = of(k, q, b);
            for j in 1..knots.len() {
                let (left, _) = knots[j - 1].log_ratio_at(j as f64, 1.0, b);
                let slack = knots[j].log_ratio.error + knots[j - 1].log_ratio_error(j as f64, 1.0, b, left);
                assert!((left - knots[j].log_ratio.value).abs() <= slack, "{k} {j}");
            }
        }
    }

    /// The first factor of the rising part underflows and the second one overflows, one by one or both; r − 1 at 1 is q(e^{1/b} − 1).
    /// mpmath, 40 digits: log(1 - mpf(q) + mpf(q)*exp(1/mpf(b))), and of q*exp((2*x - 1)/b) + 1 - q between.
    #[test]
    fn a_product_of_a_very_small_and_a_very_large_number_counts() {
        for (q, b, x, exact) in [
            (1e-176, 1.0 / 395.0, 1.0, 3.518_136_715_540_676e-5),
            (1e-168, 1.0 / 380.0, 1.0, 0.001_075_646_401_481_555_9),
            (1e-168, 1.0 / 380.0, 0.98, 2.695_423_424_349_025_6e-10),
            (1e-160, 1.0 / 400.0, 0.95, 0.000_221_801_929_887_062_82),
            (1e-150, 1.0 / 372.0, 1.0, 26.612_236_050_895_888),
            (1e-3, 1.0 / 300.0, 0.51, 0.338_205_585_997_643_8),
        ] {
            let knots = of(1, q, b);
            if x == 1.0 {
                assert!(is_within(knots[1].log_ratio, exact), "{q} {b}: {:?}", knots[1]);
            }
            let (value, _) = knots[0].log_ratio_at(x, x, b);
            let error = knots[0].log_ratio_error(x, x, b, value);
            assert!(
                (value - exact).abs() <= error && error < 1e-11 * exact,
                "{q} {b} {x}: {value} {error}"
            );
        }
    }

    /// Terms that raise the scale by more than e^300 leave what was summed before in place.
    #[test]
    fn a_sum_survives_a_change_of_scale() {
        let mut sum = LogSum::default();
        for term in [-700.0, 0.0, 400.0, 400.0 + 0.5f64.ln()] {
            sum.add(term, 0.0);
        }
        let found = sum.ln();
        assert!((found.value - (400.0 + 1.5f64.ln())).abs() <= found.error && found.error < 1e-12);
    }
}
