//! The line cut into cells so short that, on each, the privacy loss is a polynomial and the tilted density nearly constant.

use crate::error::{Error, Result};
use crate::loss::line::{Line, Normal};
use crate::loss::{Local, MixturePair};
use crate::monitor::Monitor;
use crate::simulation::polynomial::LossPolynomial;

/// Largest variation of the log density in a cell at its peak. One draw in fifty then needs the exact decision, and the likely
/// cells fit the first-level cache; at twice the value, one draw in twenty-five does.
const LOG_VARIATION: f64 = 1.0 / 48.0;
/// By how much that variation grows for every factor e below the peak, where draws are rare.
const VARIATION_GROWTH: f64 = 0.5 * LOG_VARIATION;
/// Distance of the log density below the peak from which on draws are too rare (a factor e^14) for a polynomial to pay: the
/// loss is computed from the pair, and the density may vary by a factor e in a cell.
const RARE: f64 = 14.0;
const RARE_VARIATION: f64 = 1.0;
/// Number of points at which the peak of the density is looked for.
const PEAK_POINTS: usize = 512;
/// Largest number of cells: 64 MB of polynomials.
const MAX_CELLS: usize = 1 << 20;

/// A cell of the line, on which the loss is a polynomial and the tilted density varies little.
pub(crate) struct Cell {
    pub(crate) polynomial: LossPolynomial,
    pub(crate) centre: f64,
    pub(crate) half_width: f64,
    /// Bounds on the log of the tilted density.
    pub(crate) log_highest: f64,
    pub(crate) log_lowest: f64,
    /// Bound on |loss|.
    pub(crate) size: f64,
}

/// Cuts the line into cells.
pub(crate) struct Builder<'a> {
    pair: &'a MixturePair,
    normal: Normal,
    exponent: f64,
    sign: f64,
    tolerance: f64,
    monitor: &'a dyn Monitor,
    scratch: Vec<f64>,
    cells: Vec<Cell>,
    loss_error: f64,
    /// Largest log density seen; a smaller value than the true one only makes cells smaller.
    log_peak: f64,
}

impl<'a> Builder<'a> {
    /// A builder for the law with density ∝ N(x; 0, σ²)·r(x)^`exponent`, the loss `sign`·log r, and errors of it up to
    /// `tolerance`.
    pub(crate) fn new(
        pair: &'a MixturePair,
        exponent: f64,
        sign: f64,
        tolerance: f64,
        monitor: &'a dyn Monitor,
    ) -> Self {
        Self {
            pair,
            normal: Normal::new(pair.noise_multiplier()),
            exponent,
            sign,
            tolerance,
            monitor,
            scratch: Vec::new(),
            cells: Vec::new(),
            loss_error: 0.0,
            log_peak: f64::NEG_INFINITY,
        }
    }

    /// Cells that cover [low, high], and a bound on the errors of their polynomials.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if more than [`MAX_CELLS`] are needed; [`Error::Interrupted`].
    pub(crate) fn cells(mut self, low: f64, high: f64) -> Result<(Vec<Cell>, f64)> {
        self.find_peak(low, high);
        self.cover(0.5 * (low + high), 0.5 * (high - low))?;
        Ok((self.cells, self.loss_error))
    }

    /// Estimates the largest log density on [low, high].
    fn find_peak(&mut self, low: f64, high: f64) {
        for i in 0..=PEAK_POINTS {
            let x = low + (high - low) * i as f64 / PEAK_POINTS as f64;
            let log_density = self.exponent * self.pair.log_ratio(x) + self.normal.log_density(x);
            self.log_peak = self.log_peak.max(log_density);
        }
    }

    /// Covers an interval with cells, halving it until each part can be one cell.
    fn cover(&mut self, centre: f64, half_width: f64) -> Result<()> {
        if self.monitor.cancelled() {
            return Err(Error::Interrupted);
        }
        if self.cells.len() > MAX_CELLS {
            return Err(too_little_noise(self.pair.noise_multiplier()));
        }
        if !self.add(centre, half_width) {
            self.cover(centre - 0.5 * half_width, 0.5 * half_width)?;
            self.cover(centre + 0.5 * half_width, 0.5 * half_width)?;
        }
        Ok(())
    }

    /// Adds the interval as one cell if the loss is a polynomial to within the tolerance and the density varies little.
    fn add(&mut self, centre: f64, half_width: f64) -> bool {
        let at = self.pair.surroundings(centre, half_width, 0.0, &mut self.scratch);
        let range = self.density_range([at.left, at.centre, at.right], centre, half_width);
        let below_peak = (self.log_peak - range.highest).max(0.0);
        let is_rare = below_peak > RARE;
        let variation = if is_rare {
            RARE_VARIATION
        } else {
            LOG_VARIATION + VARIATION_GROWTH * below_peak
        };
        if range.highest - range.lowest > variation.max(range.resolution) {
            return false;
        }
        let found = if is_rare {
            Some((LossPolynomial::UNKNOWN, 0.0))
        } else {
            LossPolynomial::interpolate(
                self.pair,
                centre,
                half_width,
                self.sign,
                self.tolerance,
                &mut self.scratch,
            )
        };
        let Some((polynomial, error)) = found else {
            return false;
        };
        self.loss_error = self.loss_error.max(error);
        let (first, middle, last) = (at.left.log_ratio, at.centre.log_ratio, at.right.log_ratio);
        self.cells.push(Cell {
            size: middle.abs() + (first - middle).abs().max((last - middle).abs()) + at.gap,
            polynomial,
            centre,
            half_width,
            log_highest: range.highest + range.resolution,
            log_lowest: range.lowest - range.resolution,
        });
        true
    }

    /// Bounds on the log of the tilted density on an interval, given the ratio at its left end, centre and right end.
    fn density_range(&self, [first, middle, last]: [Local; 3], centre: f64, half_width: f64) -> DensityRange {
        let (left, right) = (centre - half_width, centre + half_width);
        let chord = Line {
            at: left,
            value: first.log_ratio,
            slope: (last.log_ratio - first.log_ratio) / (2.0 * half_width),
        };
        let tangent = Line {
            at: centre,
            value: middle.log_ratio,
            slope: middle.mean_shift / self.normal.variance,
        };
        // log r is convex: p·log r is below its chord for p > 0 and below its tangent for p < 0.
        let (above, below) = if self.exponent > 0.0 {
            (chord, tangent)
        } else {
            (tangent, chord)
        };
        let highest = self.normal.highest(above, self.exponent, left, right);
        let lowest = self.normal.lowest(below, self.exponent, left, right);
        // Far from the peak both are so large that their rounding errors exceed the variation asked for.
        let resolution = 64.0 * f64::EPSILON * (highest.abs() + middle.log_ratio.abs() * self.exponent.abs());
        DensityRange {
            highest,
            lowest,
            resolution,
        }
    }
}

/// Bounds on the log of the tilted density, up to a rounding error of `resolution`.
struct DensityRange {
    highest: f64,
    lowest: f64,
    resolution: f64,
}

/// The error of a law that needs too many cells.
pub(crate) fn too_little_noise(noise_multiplier: f64) -> Error {
    Error::Unreachable(format!(
        "noise_multiplier {noise_multiplier:?} is too small for Monte Carlo with such shifts: \
         the table of the privacy loss would exceed {MAX_CELLS} cells"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Unwatched;
    use crate::step::GroupLaw;

    /// Cells follow each other, hold the density between their bounds, and have the loss within the error that is said.
    #[test]
    fn cells_cover_the_line_and_bound_the_density_and_the_loss() {
        let pair = MixturePair::new(&GroupLaw::binomial(3, 0.1).unwrap(), 0.9).unwrap();
        let normal = Normal::new(0.9);
        let (low, high) = (-4.0, 7.0);
        for (exponent, sign) in [(1.0, 1.0), (-0.6, -1.0)] {
            let builder = Builder::new(&pair, exponent, sign, 1e-7, &Unwatched);
            let (cells, error) = builder.cells(low, high).unwrap();
            assert!(error <= 1e-7 && cells.len() > 20, "{error} {}", cells.len());
            let (mut end, mut widest) = (low, 0.0f64);
            for cell in &cells {
                assert!((cell.centre - cell.half_width - end).abs() < 1e-12);
                end = cell.centre + cell.half_width;
                widest = widest.max(cell.log_highest - cell.log_lowest);
                let (mut highest, mut lowest) = (f64::NEG_INFINITY, f64::INFINITY);
                for i in 0..=20 {
                    let u = 0.1 * f64::from(i) - 1.0;
                    let x = cell.centre + u * cell.half_width;
                    let log_ratio = pair.log_ratio(x);
                    let log_density = exponent * log_ratio + normal.log_density(x);
                    (highest, lowest) = (highest.max(log_density), lowest.min(log_density));
                    assert!((log_ratio).abs() <= cell.size);
                    if !cell.polynomial.is_unknown() {
                        let off = (cell.polynomial.at(u) - sign * log_ratio).abs();
                        assert!(off <= error + 1e-13, "{x}: {off} {error}");
                    }
                }
                assert!(highest <= cell.log_highest && lowest >= cell.log_lowest);
                // The bounds are not more than twice as far apart as the density's ends.
                let apart = cell.log_highest - cell.log_lowest;
                assert!(apart <= 2.0 * (highest - lowest) + 1e-3, "{apart} {highest} {lowest}");
            }
            assert!((end - high).abs() < 1e-12 && widest <= RARE_VARIATION + 1e-9);
        }
    }

    #[test]
    fn next_to_no_noise_takes_too_many_cells() {
        let pair = MixturePair::new(&GroupLaw::binomial(1, 0.1).unwrap(), 1e-9).unwrap();
        let found = Builder::new(&pair, 1.0, 1.0, 1e-7, &Unwatched).cells(-1.0, 2.0);
        assert!(matches!(found, Err(Error::Unreachable(_))));
    }
}
