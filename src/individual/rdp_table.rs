//! D_α of one record's step as polynomials in w = 1/v, with certified errors.
//!
//! In w the moment is a Laplace transform: with y ~ N(−v/2, v) and G(y) = (1 − q + qe^y)^α e^{−y/2} > 0,
//!
//! > e^K = √(w/2π) e^{−1/8w} ∫ G(y) e^{−wy²/2} dy,
//!
//! so it is analytic for Re w > 0, and for complex w the modulus of the integral is at most that at Re w. If |K| ≤ M (up to linear
//! terms) in the disc |w − w₀| ≤ R, it is so in the Bernstein ellipse of [w₀ − r, w₀ + r] with ρ + 1/ρ = 2R/r, and the polynomial that
//! interpolates K at Chebyshev nodes is off by at most M times [`interpolation_factor`](chebyshev::interpolation_factor). K is analytic in the disc if e^K has no zero there, of which one of three facts makes sure (f = R/w₀):
//!
//! * **Below the phase transition.** The integrand (1 + u)^α − 1 − αu of E = e^K − 1 is not negative, so |E(w)| ≤
//!   (1 − f²)^{−1/4} e^{f²/8(w₀−R)}·E(w₀ − R) =: b, as |w|/Re w ≤ (1 − f²)^{−1/2} and E falls with w. If b < 1, M = −log(1 − b).
//! * **Above it.** K = α log q + α(α − 1)/2w + log(1 + E') with E' = E[(1 + e^{−y}(1 − q)/q)^α] − 1 for y ~ N((α − ½)v, v), which
//!   rises with w. The same argument bounds |E'| by (1 − f²)^{−1/4} e^{(α−½)²f²/2(w₀−R)}·E'(w₀ + R).
//! * **Near it.** Let Λ(w) be the log of the integral, a convex function, and D = Λ(w₀ − R) + Λ(w₀ + R) − 2Λ(w₀). With
//!   X = y²/2 − m under the law at w₀, where −m is the slope of the chord of Λ over [w₀ − R, w₀ + R], E[e^{±RX}] = e^{D/2} and
//!   |E\[X\]| ≤ D/2R by convexity. From |e^{−uX} − 1 + uX| ≤ e^{RX} + e^{−RX} − 2 for |u| ≤ R follows
//!   |E[e^{−uX}] − 1| ≤ D/2 + 2(e^{D/2} − 1) =: b; if b < 1, the rest of K adds −½log(1 − f) + f/8(w₀ − R) to −log(1 − b).
//!
//! [`FLOOR`] is added to every K. Below about 10⁻³⁰⁸ neither K nor its relative error is a number: at sample rates below
//! 10⁻¹⁵⁴, K ≈ q² underflows at small orders, and no halving of an interval would show an accurate polynomial. With the floor,
//! errors have to be small in relation to K + 10⁻²⁹⁰, and no divergence is rounded down to 0.
//!
//! Intervals are sixteenths of octaves, halved until the bound is below [`TOLERANCE`] of K for eight orders at once. All
//! polynomials are then raised by [`MARGIN`] and by what the errors of the values at the nodes contribute, so that they are never below
//! the truth.

use crate::approx::Approx;
use crate::individual::rdp_bounds::{COEFFICIENTS, DEGREE, Disc, LEBESGUE};
use crate::individual::step_moments::Outputs;
use crate::special::chebyshev;
use crate::stopping::checkpoint;
use std::collections::BTreeMap;

/// Number of orders that share an interval: what fills the registers.
pub(crate) const LANES: usize = 8;
/// Largest certified relative error of interpolation, which comes to that of the values at the nodes.
const TOLERANCE: f64 = 1e-11;
/// Relative amount by which polynomials are raised, besides the errors of their values at the nodes: more than the tolerance and the
/// roundings of 10⁵ additions together, which at half of it would be as large as it.
pub(crate) const MARGIN: f64 = 3e-11;
/// Number of leading bits of the significand that name the interval of a number.
const BITS: u32 = 4;
/// Added to K. After 10¹⁵ steps it is still less than 10⁻²⁷⁴ of a divergence; the smallest positive double is 10⁻³²³.
pub(crate) const FLOOR: f64 = 1e-290;
/// Largest number of halvings of an interval, and where a moment takes more than [`MANY_OUTPUTS`] nodes.
const MAX_HALVINGS: u32 = 8;
const FEW_HALVINGS: u32 = 2;
const MANY_OUTPUTS: usize = 2000;
/// Largest number of nodes of a moment: with more, as with next to no noise at large orders, a table takes longer than the
/// norms would without one.
const MAX_OUTPUTS: usize = 1_000_000;
/// Ratios R/r that are tried, and the largest R/w₀.
const RATIOS: [f64; 4] = [48.0, 24.0, 14.0, 9.0];
const LARGEST_PART: f64 = 0.6;

/// Values of eight orders.
type Lanes = [f64; LANES];

/// D of eight orders on an interval.
#[derive(Debug)]
pub(crate) struct Polynomial {
    centre: f64,
    per_half_width: f64,
    /// Coefficients of the powers of t = (w − w₀)/r.
    coefficients: [Lanes; COEFFICIENTS],
}

impl Polynomial {
    /// D at w.
    #[inline(always)]
    pub(crate) fn at(&self, w: f64) -> Lanes {
        let t = (w - self.centre) * self.per_half_width;
        let mut value = self.coefficients[DEGREE];
        for coefficients in self.coefficients[..DEGREE].iter().rev() {
            for lane in 0..LANES {
                value[lane] = value[lane] * t + coefficients[lane];
            }
        }
        value
    }
}

/// D of eight orders on an interval of w.
#[derive(Debug)]
pub(crate) enum Piece {
    /// One polynomial.
    Whole(Box<Polynomial>),
    /// Two halves: below and above a point.
    Halves(f64, Box<[Piece; 2]>),
    /// No polynomial of this degree will do: D is computed anew each time.
    Unknown,
}

impl Piece {
    /// True if it has no polynomial somewhere.
    pub(crate) fn has_gaps(&self) -> bool {
        match self {
            Self::Whole(_) => false,
            Self::Halves(_, halves) => halves.iter().any(Self::has_gaps),
            Self::Unknown => true,
        }
    }

    /// D at w, if it has a polynomial there.
    #[inline(always)]
    pub(crate) fn value(&self, w: f64) -> Option<[f64; LANES]> {
        let mut piece = self;
        loop {
            match piece {
                Self::Whole(polynomial) => return Some(polynomial.at(w)),
                Self::Halves(middle, halves) => piece = &halves[usize::from(w >= *middle)],
                Self::Unknown => return None,
            }
        }
    }
}

/// The pieces of all groups of orders on one interval.
pub(crate) type Row = Vec<Piece>;

/// D of all orders, for those w that were asked for.
#[derive(Debug)]
pub(crate) struct RdpTable {
    sample_rate: f64,
    /// Padded to a multiple of [`LANES`].
    orders: Vec<f64>,
    rows: BTreeMap<u32, Row>,
}

/// The interval in which a positive w lies.
#[inline(always)]
pub(crate) fn interval_of(w: f64) -> u32 {
    (w.to_bits() >> (52 - BITS)) as u32
}

fn start_of(interval: u32) -> f64 {
    f64::from_bits(u64::from(interval) << (52 - BITS))
}

impl RdpTable {
    /// An empty table for a sample rate in (0, 1) and at least one order.
    pub(crate) fn new(sample_rate: f64, orders: &[f64]) -> Self {
        let mut padded = orders.to_vec();
        while !padded.len().is_multiple_of(LANES) {
            padded.push(padded[padded.len() - 1]);
        }
        Self {
            sample_rate,
            orders: padded,
            rows: BTreeMap::new(),
        }
    }

    /// Intervals of `wanted` that have no row yet, each once.
    pub(crate) fn missing(&self, wanted: &[u32]) -> Vec<u32> {
        let mut missing: Vec<u32> = wanted.iter().copied().filter(|i| !self.rows.contains_key(i)).collect();
        missing.sort_unstable();
        missing.dedup();
        missing
    }

    /// The piece of a group of orders on an interval, made anew.
    pub(crate) fn make(&self, interval: u32, group: usize) -> Piece {
        let orders = &self.orders[group * LANES..(group + 1) * LANES];
        let maker = Maker {
            sample_rate: self.sample_rate,
            orders,
            largest: orders.iter().copied().fold(1.0, f64::max),
        };
        maker.piece(start_of(interval), start_of(interval + 1), 0)
    }

    /// Adds a row.
    pub(crate) fn insert(&mut self, interval: u32, row: Row) {
        self.rows.insert(interval, row);
    }

    /// Number of groups of orders.
    pub(crate) fn groups(&self) -> usize {
        self.orders.len() / LANES
    }

    /// A row that is known.
    pub(crate) fn row(&self, interval: u32) -> Option<&Row> {
        self.rows.get(&interval)
    }
}

/// Makes pieces of eight orders.
struct Maker<'a> {
    sample_rate: f64,
    orders: &'a [f64],
    largest: f64,
}

impl Maker<'_> {
    /// K of each order at w.
    fn log_moments(&self, w: f64) -> [Approx; LANES] {
        checkpoint();
        let outputs = Outputs::new(self.sample_rate, 1.0 / w, self.largest);
        std::array::from_fn(|lane| outputs.log_moment(self.orders[lane]))
    }

    fn piece(&self, low: f64, high: f64, halvings: u32) -> Piece {
        if Outputs::count(self.sample_rate, 1.0 / high, self.largest) > MAX_OUTPUTS {
            return Piece::Unknown;
        }
        let (centre, half_width) = (0.5 * (low + high), 0.5 * (high - low));
        // K falls with w.
        let smallest = self.log_moments(centre + half_width);
        if self.error(centre, half_width, &smallest) <= TOLERANCE {
            return Piece::Whole(Box::new(self.polynomial(centre, half_width, &smallest)));
        }
        let largest = if Outputs::count(self.sample_rate, 1.0 / low, self.largest) > MANY_OUTPUTS {
            FEW_HALVINGS
        } else {
            MAX_HALVINGS
        };
        if halvings >= largest {
            return Piece::Unknown;
        }
        let halves = [
            self.piece(low, centre, halvings + 1),
            self.piece(centre, high, halvings + 1),
        ];
        if let [Piece::Unknown, Piece::Unknown] = halves {
            return Piece::Unknown;
        }
        Piece::Halves(centre, Box::new(halves))
    }

    /// Interpolates D at the Chebyshev nodes of the first kind, raised as the head of this file says.
    fn polynomial(&self, centre: f64, half_width: f64, smallest: &[Approx; LANES]) -> Polynomial {
        let values: [[Approx; LANES]; COEFFICIENTS] = std::array::from_fn(|k| {
            self.log_moments(centre + half_width * chebyshev::angle(COEFFICIENTS, k).cos())
        });
        let weights = chebyshev::weights();
        let mut coefficients = [[0.0; LANES]; COEFFICIENTS];
        for (lane, order) in self.orders.iter().enumerate() {
            let at_nodes = values.iter().map(|values| values[lane].error).fold(0.0, f64::max);
            // Errors at the nodes grow by the Lebesgue constant, and count relative to the smallest D of the interval.
            let of_nodes = (LEBESGUE - 1.0) * at_nodes / (smallest[lane].lower() + FLOOR);
            let raised = (1.0 + MARGIN + of_nodes) / (order - 1.0);
            let divergences = values.map(|values| (values[lane].value + FLOOR) * raised);
            let powers = chebyshev::powers(&chebyshev::coefficients(&weights, &divergences));
            for (coefficients, power) in coefficients.iter_mut().zip(powers) {
                coefficients[lane] = power;
            }
        }
        Polynomial {
            centre,
            per_half_width: 1.0 / half_width,
            coefficients,
        }
    }

    /// Bound on the relative error of interpolation by the polynomials, the largest of all orders, from K at the upper end.
    fn error(&self, centre: f64, half_width: f64, smallest: &[Approx; LANES]) -> f64 {
        let middle = self.log_moments(centre);
        let mut best = [f64::INFINITY; LANES];
        for ratio in RATIOS {
            let radius = (ratio * half_width).min(LARGEST_PART * centre);
            let part = radius / centre;
            let ends = (self.log_moments(centre - radius), self.log_moments(centre + radius));
            for lane in 0..LANES {
                let at = Disc {
                    order: self.orders[lane],
                    log_rate: self.sample_rate.ln(),
                    centre,
                    part,
                    values: (ends.0[lane], middle[lane], ends.1[lane]),
                };
                let error = at.error(half_width).min(at.error_of_rest(half_width, smallest[lane]));
                best[lane] = best[lane].min(error / (smallest[lane].lower() + FLOOR));
            }
            if best.iter().all(|&error| error <= TOLERANCE) {
                break;
            }
        }
        best.into_iter().fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_are_above_the_divergence_by_the_margin() {
        let orders = [1.5, 2.0, 3.0, 5.0, 8.0, 16.0, 32.0, 64.0];
        for rate in [0.5, 0.02, 1e-4] {
            let table = RdpTable::new(rate, &orders);
            for w in [0.7f64, 1.9, 30.0, 1e4] {
                let interval = interval_of(w);
                let piece = table.make(interval, 0);
                let (low, high) = (start_of(interval), start_of(interval + 1));
                for i in 0..40 {
                    let w = low + (high - low) * (f64::from(i) + 0.5) / 40.0;
                    let Some(found) = piece.value(w) else { continue };
                    for (found, order) in found.into_iter().zip(orders) {
                        let exact = Outputs::new(rate, 1.0 / w, order).log_moment(order).value / (order - 1.0);
                        let above = found / exact - 1.0;
                        // 3e-11 but for the tolerance of 1e-11.
                        assert!((1.9e-11..4.1e-11).contains(&above), "{rate} {w} {order}: {above:e}");
                    }
                }
            }
        }
    }
}
