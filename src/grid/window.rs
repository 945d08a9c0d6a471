//! Composition of grid laws by the fast Fourier transform, on a window of losses, with bounds on its rounding errors.

use crate::grid::frame::{Cells, GridLaw};
use crate::inversion::segment::Segment;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::fourier::{POWER_ERROR, forward, inverse, transform_error, whole_power};
use crate::special::log_space::complex_ln_1p;
use crate::stopping::checkpoint;
use realfft::num_complex::Complex64;

/// Error of a spectrum's value at most, times the number of steps: then (1 + error)^T ≤ 1 + 1.06·T·error.
const MAX_POINTWISE_ERROR: f64 = 0.1;
/// Factor by which second-order terms can make the errors of the transforms grow, with room.
const POWER_MARGIN: f64 = 1.2;
/// Sums below this fraction of their error are not stored; they count as 0.
const NEGLIGIBLE_SUM: f64 = 1e-3;
/// Error of a power by logarithms, relative and over T·|z|.
const LOG_ERROR: f64 = 16.0 * f64::EPSILON;
/// Most steps whose powers are computed by squaring.
const MAX_SQUARED: f64 = 1e15;
/// e^this underflows.
const MIN_EXPONENT: f64 = -745.0;
/// Relative error of the product of two powers, and of a power by logarithms beyond that of its logarithm.
const PRODUCT_ERROR: f64 = 4.0 * f64::EPSILON;
/// Points over which a running sum multiplies by one factor again and again.
const BLOCK: usize = 16;
/// Exponents up to which the error of e^−x is counted in full: masses beyond have a factor below e^−40.
const MOST_EXPONENT: f64 = 40.0;

/// The grid and the tilt at which laws are composed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) c: f64,
    /// The smallest loss of the window.
    pub(crate) start: f64,
    /// N, even.
    pub(crate) length: usize,
    /// h.
    pub(crate) spacing: f64,
    /// log of the bound on what arrives from other periods.
    pub(crate) log_aliasing: f64,
}

/// One composed law: for each grid point, sums over it and all points above.
#[derive(Debug)]
pub(crate) struct Composed {
    /// Loss of the first point, and the spacing.
    first: f64,
    pub(crate) spacing: f64,
    /// log of the masses' scale, A(c).
    log_scale: f64,
    /// Σ v_j e^{−c(s_j − s_i)} and Σ v_j e^{−(c+1)(s_j − s_i)} over j ≥ i.
    pub(crate) sums: Vec<(f64, f64)>,
    /// Error of Σ v u, over e^{A(c) − cε}.
    error: f64,
    /// log of the aliasing bound, in δ.
    log_aliasing: f64,
    /// Bound on the error of all losses together.
    pub(crate) loss_error: f64,
}

/// The product of the spectra of some laws, and the errors that it has.
struct Product {
    spectrum: Vec<Complex64>,
    /// Loss of index 0, up to whole periods.
    origin: CompensatedSum,
    log_scale: CompensatedSum,
    /// Sum of the absolute values of what adds up to `log_scale`.
    log_size: f64,
    /// Σ T·η‖v‖, v without its heaviest mass, and the relative errors of the powers.
    transform_errors: f64,
    power_errors: f64,
    /// Relative error of the masses.
    mass_error: f64,
    /// Error of the losses, and that of the sum of their shifts.
    loss_error: f64,
    shift_error: f64,
}

/// A law as it is transformed: without its heaviest mass, which goes to index 0, and over the sum of all masses.
struct Rest {
    /// Index of the heaviest mass within the law.
    heaviest: usize,
    /// Sum of all masses.
    sum: f64,
    /// Σ v and ‖v‖.
    mass: f64,
    norm: f64,
}

impl Rest {
    /// Puts the law without its heaviest mass into `buffer`, modulo its length; `None` for a law without mass.
    ///
    /// φ − 1 = F(rest) − Σ rest: so rounding errors are relative to the rest.
    fn fill(buffer: &mut [f64], law: &GridLaw) -> Option<Self> {
        let sum = compensated(law.masses.iter().copied());
        if sum.is_nan() || sum <= 0.0 {
            return None;
        }
        let heaviest = (0..law.masses.len()).max_by(|&i, &j| law.masses[i].total_cmp(&law.masses[j]))?;
        let length = buffer.len() as i64;
        buffer.fill(0.0);
        let mut mass = CompensatedSum::default();
        for (i, value) in law.masses.iter().enumerate().filter(|(i, _)| *i != heaviest) {
            let place = (i as i64 - heaviest as i64).rem_euclid(length) as usize;
            buffer[place] += value / sum;
            mass.add(value / sum);
        }
        let norm = buffer.iter().map(|v| v * v).sum::<f64>().sqrt();
        Some(Self {
            heaviest,
            sum,
            mass: mass.value(),
            norm,
        })
    }
}

impl Product {
    /// Multiplies the spectra of one of the two laws of every segment; `None` if errors are too large for their bounds.
    fn new(
        window: &Window,
        segments: &[Segment],
        cells: &[Cells],
        law: impl Fn(&Cells) -> &GridLaw,
    ) -> Option<Self> {
        let length = window.length;
        let forward = forward(length);
        let mut values = forward.make_output_vec();
        let mut buffer = forward.make_input_vec();
        let mut product = Self {
            spectrum: vec![Complex64::new(1.0, 0.0); length / 2 + 1],
            origin: CompensatedSum::default(),
            log_scale: CompensatedSum::default(),
            log_size: 0.0,
            transform_errors: 0.0,
            power_errors: 0.0,
            mass_error: 0.0,
            loss_error: 0.0,
            shift_error: 0.0,
        };
        for (segment, cells) in segments.iter().zip(cells) {
            checkpoint();
            let (law, steps) = (law(cells), segment.steps);
            let rest = Rest::fill(&mut buffer, law)?;
            forward.process(&mut buffer, &mut values).ok()?;
            let way = Power::of(steps, rest.mass, length);
            for (total, value) in product.spectrum.iter_mut().zip(&values) {
                *total *= way.of_one_and(*value - rest.mass);
            }
            product.power_errors += way.error + PRODUCT_ERROR;
            product.add_errors(window, (law, cells), &rest, steps);
        }
        let pointwise = product.transform_errors * (length as f64).sqrt();
        (pointwise < MAX_POINTWISE_ERROR && product.mass_error.is_finite()).then_some(product)
    }

    /// Accounts for a law that was multiplied `steps` times.
    fn add_errors(&mut self, window: &Window, (law, cells): (&GridLaw, &Cells), rest: &Rest, steps: f64) {
        self.transform_errors += steps * transform_error(window.length) * rest.norm;
        let shift = (law.first + rest.heaviest as i64) as f64 * window.spacing;
        self.origin.add(steps * shift);
        self.shift_error += steps * shift.abs() * f64::EPSILON;
        // Both sums and the quotients have a few roundings, and one more for each mass that comes to lie on another.
        let wraps = law.masses.len() as f64 / window.length as f64;
        let summation = f64::EPSILON * (4.0 + wraps);
        self.mass_error += steps * (cells.mass_error / rest.sum + summation);
        let log_sum = rest.sum.ln();
        self.log_scale.add(steps * (log_sum + cells.log_scale));
        self.log_size += steps * (log_sum.abs() + cells.log_scale.abs());
        self.origin.add(steps * law.origin);
        self.loss_error += steps * (cells.loss_error + 2.0 * f64::EPSILON * law.origin.abs());
    }

    /// ‖v‖ of the composed masses.
    fn norm(&self, length: usize) -> f64 {
        let rest = self.spectrum[1..].iter().map(Complex64::norm_sqr).sum::<f64>();
        (self.spectrum[0].norm_sqr() + 2.0 * rest).sqrt() / (length as f64).sqrt()
    }

    /// The composed masses, over e^{A(c)}, from index 0 on.
    fn masses(&mut self, window: &Window) -> Option<Vec<f64>> {
        let inverse = inverse(window.length);
        if let Some(first) = self.spectrum.first_mut() {
            first.im = 0.0;
        }
        if let Some(last) = self.spectrum.last_mut() {
            last.im = 0.0;
        }
        let mut buffer = inverse.make_output_vec();
        inverse.process(&mut self.spectrum, &mut buffer).ok()?;
        Some(buffer)
    }
}

impl Window {
    /// Composes one of the two laws of every segment; `None` if rounding errors are too large for their bounds.
    pub(crate) fn compose(
        &self,
        segments: &[Segment],
        cells: &[Cells],
        law: impl Fn(&Cells) -> &GridLaw,
    ) -> Option<Composed> {
        let mut product = Product::new(self, segments, cells, law)?;
        let norm = product.norm(self.length);
        let (origin, log_scale) = (product.origin.value(), product.log_scale.value());
        let masses = product.masses(self)?;
        // Index of the first grid point of the window.
        let first = ((self.start - origin) / self.spacing).ceil();
        let offset = first.rem_euclid(self.length as f64) as usize;
        let mut sums = self.sums(&masses, offset);
        let error = self.error(&product, norm, &sums);
        let counts = |sum: &(f64, f64)| sum.0.abs() + sum.1.abs() > NEGLIGIBLE_SUM * error;
        sums.truncate(sums.iter().rposition(counts).map_or(0, |last| last + 1));
        sums.shrink_to_fit();
        let farthest = (first.abs() + sums.len() as f64) * self.spacing;
        let place_error = 4.0 * f64::EPSILON * (origin.abs() + farthest);
        Some(Composed {
            first: origin + first * self.spacing,
            spacing: self.spacing,
            log_scale,
            sums,
            error: error * (1.0 + NEGLIGIBLE_SUM),
            log_aliasing: self.log_aliasing,
            loss_error: product.loss_error + product.shift_error + place_error,
        })
    }

    /// Both sums of [`Composed`] from every point on, the first of which has index `offset`.
    fn sums(&self, masses: &[f64], offset: usize) -> Vec<(f64, f64)> {
        let scale = 1.0 / self.length as f64;
        let (before, from) = masses.split_at(offset);
        let both = |mass: &f64| (mass * scale, mass * scale);
        let mut sums: Vec<(f64, f64)> = from.iter().chain(before).map(both).collect();
        run_up((self.c, self.c + 1.0), self.spacing, &mut sums);
        sums
    }

    /// Relative error of the running sums of [`run_up`] and of what [`Composed::delta`] computes from them, over the sum of the two.
    ///
    /// At each of log N/log [`BLOCK`] levels a mass is multiplied [`BLOCK`] times at most, by a factor that is rounded to two units of
    /// 2^−53, and each product and each sum has one more. The exponents, products of three factors, have three units of 2^−53.
    fn sum_error(&self) -> f64 {
        let levels = ((self.length as f64).log2() / (BLOCK as f64).log2()).ceil().max(1.0);
        let exponent = ((self.c + 1.0) * self.length as f64 * self.spacing).min(MOST_EXPONENT);
        f64::EPSILON * (2.0 * BLOCK as f64 * levels + 1.5 * exponent + 8.0)
    }

    /// Bound on the error of Σ v u over e^{A(c) − cε}, by Cauchy and Schwarz.
    fn error(&self, product: &Product, norm: f64, sums: &[(f64, f64)]) -> f64 {
        let eta = transform_error(self.length);
        let rounding =
            POWER_MARGIN * product.transform_errors + norm * (eta + product.power_errors) + 1e-15 * norm;
        // The two running sums lose what their difference cancels.
        let largest = sums.iter().map(|s| s.0.abs() + s.1.abs()).fold(0.0, f64::max);
        let log_error = 8.0 * f64::EPSILON * product.log_size;
        payoff_norm(self.c, self.spacing) * rounding
            + max_payoff(self.c) * product.mass_error.exp_m1()
            + self.sum_error() * largest
            + log_error
    }
}

/// Σ values, without the rounding of each addition.
fn compensated(values: impl Iterator<Item = f64>) -> f64 {
    let mut sum = CompensatedSum::default();
    values.for_each(|value| sum.add(value));
    sum.value()
}

/// Replaces masses v_i by Σ v_j e^{−r(j − i)h} over j ≥ i, for two rates r at once.
///
/// A factor that is multiplied once for each of a million points has a million times its rounding error, and so does a sum of as many
/// terms. So sums run over blocks, those of the blocks over blocks of them, and what lies above a block is added with a factor of its own.
fn run_up(rates: (f64, f64), spacing: f64, sums: &mut [(f64, f64)]) {
    let fall = |distance: usize| {
        let way = distance as f64 * spacing;
        ((-rates.0 * way).exp(), (-rates.1 * way).exp())
    };
    let one = fall(1);
    for block in sums.chunks_mut(BLOCK) {
        let mut next = (0.0, 0.0);
        for sum in block.iter_mut().rev() {
            next = (sum.0 + one.0 * next.0, sum.1 + one.1 * next.1);
            *sum = next;
        }
    }
    if sums.len() <= BLOCK {
        return;
    }
    let mut totals: Vec<(f64, f64)> = sums.chunks(BLOCK).map(|block| block[0]).collect();
    run_up(rates, BLOCK as f64 * spacing, &mut totals);
    let falls: Vec<(f64, f64)> = (1..=BLOCK).rev().map(fall).collect();
    for (block, above) in sums.chunks_mut(BLOCK).zip(&totals[1..]) {
        for (sum, fall) in block.iter_mut().zip(&falls) {
            sum.0 += fall.0 * above.0;
            sum.1 += fall.1 * above.1;
        }
    }
}

/// The largest of u(t) = e^{−ct}(1 − e^{−t}) over t ≥ 0, at e^{−t} = c/(c + 1).
fn max_payoff(c: f64) -> f64 {
    // (c/(c + 1))^c, of which the base would lose all digits for large c.
    (-c * c.recip().ln_1p()).exp() / (1.0 + c)
}

/// Bound on ‖u‖ = √(Σ u(t_i)²) over the points of a grid with t_i > 0: Σ is at most ∫u²/h and twice the largest u².
///
/// The integral is 1/(2c) − 2/(2c + 1) + 1/(2c + 2), whose terms cancel for large c.
fn payoff_norm(c: f64, spacing: f64) -> f64 {
    let integral = 0.5 / (c * (c + 1.0) * (2.0 * c + 1.0));
    let largest = max_payoff(c);
    (integral / spacing + 2.0 * largest * largest).sqrt()
}

/// How (1 + z)^T is computed for whole T.
///
/// Squaring takes a few products. Its error is relative to 1, that of logarithms to z, which is small where members are rare.
#[derive(Debug, Clone, Copy)]
struct Power {
    steps: f64,
    by_squaring: bool,
    /// Bound on the relative error.
    error: f64,
}

impl Power {
    /// For z of modulus at most 2·`mass`, in a transform of so many points.
    fn of(steps: f64, mass: f64, length: usize) -> Self {
        let (squared, by_logs) = (steps * POWER_ERROR, steps * LOG_ERROR * 2.0 * mass.min(1.0));
        let by_squaring = squared <= by_logs.max(transform_error(length)) && steps <= MAX_SQUARED;
        Self {
            steps,
            by_squaring,
            error: if by_squaring { squared } else { by_logs },
        }
    }

    fn of_one_and(self, z: Complex64) -> Complex64 {
        if self.by_squaring {
            return whole_power(1.0 + z, self.steps as u64);
        }
        let log = self.steps * complex_ln_1p(z);
        if log.re.is_nan() || log.re <= MIN_EXPONENT {
            return Complex64::new(0.0, 0.0);
        }
        Complex64::from_polar(log.re.exp(), log.im)
    }
}

impl Composed {
    /// Bounds on log δ at ε.
    pub(crate) fn delta(&self, epsilon: f64, c: f64) -> (f64, f64) {
        let place = ((epsilon - self.first) / self.spacing).ceil().max(0.0) as usize;
        let scale = self.log_scale - c * epsilon;
        let value = self.sums.get(place).map_or(0.0, |&(slow, fast)| {
            let t = self.first + place as f64 * self.spacing - epsilon;
            (-c * t).exp() * (slow - (-t).exp() * fast)
        });
        let aliasing = (self.log_aliasing - scale).exp();
        let log = |x: f64| if x > 0.0 { x.ln() + scale } else { f64::NEG_INFINITY };
        (log(value - self.error - aliasing), log(value + self.error + aliasing))
    }
}

#[cfg(test)]
mod tests;
