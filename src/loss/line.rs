//! Straight-line bounds on the log-likelihood ratio, combined with the density of the noise.

use std::f64::consts::PI;

/// How far beyond the outermost possible peak of an integrand the line is searched, in σ: e^{−40²/2} = 1e-348.
pub(crate) const MARGIN: f64 = 40.0;

/// A straight line: `value + slope·(x − at)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// The place at which the line has `value`.
    pub at: f64,
    /// Its value there.
    pub value: f64,
    /// Its slope.
    pub slope: f64,
}

impl Line {
    /// The line's value at x.
    pub(crate) fn at(self, x: f64) -> f64 {
        self.value + self.slope * (x - self.at)
    }
}

/// The density of N(0, σ²).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normal {
    /// σ².
    pub variance: f64,
    log_scale: f64,
}

impl Normal {
    /// N(0, σ²) for σ > 0.
    pub(crate) fn new(noise_multiplier: f64) -> Self {
        let variance = noise_multiplier * noise_multiplier;
        Self {
            variance,
            log_scale: -0.5 * (2.0 * PI * variance).ln(),
        }
    }

    /// log(1/(σ√2π)).
    pub(crate) fn log_scale(self) -> f64 {
        self.log_scale
    }

    /// log N(x; 0, σ²).
    pub(crate) fn log_density(self, x: f64) -> f64 {
        self.log_scale - 0.5 * (x * x / self.variance)
    }

    /// Largest of factor·line(x) + log N(x; 0, σ²) on [left, right].
    pub(crate) fn highest(self, line: Line, factor: f64, left: f64, right: f64) -> f64 {
        let x = (self.variance * factor * line.slope).clamp(left, right);
        factor * line.at(x) + self.log_density(x)
    }

    /// Smallest of factor·line(x) + log N(x; 0, σ²) on [left, right]: at an end, as the sum is concave.
    pub(crate) fn lowest(self, line: Line, factor: f64, left: f64, right: f64) -> f64 {
        let at = |x: f64| factor * line.at(x) + self.log_density(x);
        at(left).min(at(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value on an interval, in small steps, is between the two bounds, and the outermost ones are next to them.
    #[test]
    fn the_highest_and_the_lowest_value_are_bounds_and_attained() {
        for sigma in [0.3, 1.0, 4.0] {
            let normal = Normal::new(sigma);
            for (slope, factor) in [(0.0, 1.0), (2.0, 1.5), (-0.7, 3.0), (5.0, -2.0)] {
                let line = Line {
                    at: 0.4,
                    value: -1.3,
                    slope,
                };
                for (left, right) in [(-1.0, 1.0), (0.5, 3.0), (-8.0, 20.0)] {
                    let at = |i: i32| {
                        let x = left + (right - left) * f64::from(i) / 10_000.0;
                        let density = (-0.5 * (x / sigma).powi(2)).exp() / (sigma * (2.0 * PI).sqrt());
                        factor * (-1.3 + slope * (x - 0.4)) + density.ln()
                    };
                    let values: Vec<f64> = (0..=10_000).map(at).filter(|value| value.is_finite()).collect();
                    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    let highest = normal.highest(line, factor, left, right);
                    let room = 1e-12 * highest.abs().max(1.0);
                    assert!(
                        largest <= highest + room && highest < largest + 1e-4,
                        "{largest} {highest}"
                    );
                    if values.len() == 10_001 {
                        let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
                        let lowest = normal.lowest(line, factor, left, right);
                        let room = 1e-12 * lowest.abs().max(1.0);
                        assert!((smallest - lowest).abs() <= room, "{smallest} {lowest}");
                    }
                }
            }
        }
    }
}
