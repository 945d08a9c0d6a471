//! The characteristic function of a discrete law at all frequencies by one fast Fourier transform.
//!
//! The losses lie on no lattice, so that each is spread over the points of one by a Gaussian, whose transform is known and
//! divided out (Dutt & Rokhlin 1993; Greengard & Lee 2004, <https://doi.org/10.1137/S003614450343200X>). For the sums at K frequencies
//! over N nodes that takes O(N + K log K) operations in place of NK. `docs/theory/inversion.md`, Proposition 11, has the proof of what
//! [`SumError`] bounds.
//!
//! With M points, t = hℓ·M/2π and f = j/M, Poisson's formula is
//!
//! > Σ_m e^{−(m − t)²/2s²} e^{2πi·fm} = s√2π·Σ_p e^{−2π²s²(f + p)²} e^{2πi(f + p)t},
//!
//! whose term p = 0 is e^{ijhℓ} times the factor that is divided out. Where |f| ≤ 1/4 the others are below all roundings.

use crate::loss::characteristic_function::Law;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::fourier;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;

/// s: the deviation of the Gaussian, in points. The terms p ≠ 0 add e^{−π²s²} = 7e-18 at f = 1/4.
const DEVIATION: f64 = 2.0;
/// Points on each side of a node over which it is spread: what lies beyond is e^{−18.5²/2s²} = 2.6e-19 of the largest value.
const REACH: usize = 18;
/// Points at least for each frequency, so that |f| ≤ 1/4.
const OVERSAMPLING: usize = 4;
/// Points at least in all, so that a node's are on the circle once.
const FEWEST_POINTS: usize = 64;
/// Points of the Gaussian around one node.
const WINDOW: usize = 2 * REACH + 1;

/// Rounding of the values over which a node is spread, of their sums and of the quotients at the end, relative to the node's weight times
/// min(|t|, 2): with u = ε/2 that is 50u for |t| = 1/2, where it is largest, and 80u with room for the quotients.
///
/// A value k points from the centre has gone through |k| products with a ratio, 3.2u each, and through ten roundings more. Over the points,
/// weighted by the Gaussian, |k| is 1.6 on average, which makes less than 19u, and the same Gaussian at 0, which is taken away, has six.
const SPREADING_ERROR: f64 = 40.0 * f64::EPSILON;
/// Aliasing and truncation together, relative to the weights, over the factor e^{2π²s²f²} by which both are multiplied: aliasing is
/// 2·Σ_{p ≠ 0} e^{−2π²s²(f + p)²} ≤ 1.04e-19, truncation 4·Σ_{k > REACH} e^{−(k − 1/2)²/2s²}/(s√2π) = 2.1e-19, for the node and for 0.
const CUT_ERROR: f64 = 4e-19;

/// Bound on the errors of sums at all frequencies.
#[derive(Debug, Clone, Copy)]
pub(super) struct SumError {
    /// At frequency 0.
    at_zero: f64,
    points: f64,
}

impl SumError {
    /// That of [`sums`].
    ///
    /// A value of the transform is a sum over the points in which each has gone through log₂M stages and, because it is real, through two
    /// more that double the errors of half as many points: on each path it has a relative error of at most twice `transform_error`.
    pub(super) fn new(law: &Law, spacing: f64, last: usize) -> Self {
        let points = points(last);
        let scale = scale(spacing, points);
        let (mut mean, mut mass) = (0.0, 0.0);
        for (weight, loss) in law.weights.iter().zip(&law.losses) {
            mean += weight.abs() * (scale * loss).abs().min(2.0);
            mass += weight.abs();
        }
        let rounding = 2.0 * fourier::transform_error(points) + SPREADING_ERROR;
        Self {
            at_zero: rounding * mean + CUT_ERROR * mass,
            points: points as f64,
        }
    }

    /// The bound at frequency j.
    pub(super) fn at(&self, j: usize) -> f64 {
        self.at_zero * log_factor(j as f64 / self.points).exp()
    }
}

/// 2π²s²f²: log of what the sum at f is multiplied by, over that at f = 0.
fn log_factor(f: f64) -> f64 {
    2.0 * (PI * DEVIATION * f).powi(2)
}

/// M: points of the lattice.
fn points(last: usize) -> usize {
    (OVERSAMPLING * (last + 1)).next_power_of_two().max(FEWEST_POINTS)
}

/// t over ℓ.
fn scale(spacing: f64, points: usize) -> f64 {
    spacing * points as f64 / (2.0 * PI)
}

/// Σ w (e^{ijhℓ} − 1) for every j = 0..=last; `None` where the transform refuses its length.
pub(super) fn sums(law: &Law, spacing: f64, last: usize) -> Option<Vec<Complex64>> {
    let points = points(last);
    let scale = scale(spacing, points);
    let mut lattice = Lattice::new(points);
    for (&weight, &loss) in law.weights.iter().zip(&law.losses) {
        lattice.spread(weight, scale * loss);
    }
    let mut values = lattice.transform()?;
    values.truncate(last + 1);
    let at_zero = DEVIATION * (2.0 * PI).sqrt();
    for (j, value) in values.iter_mut().enumerate() {
        let factor = log_factor(j as f64 / points as f64).exp() / at_zero;
        *value = value.conj() * factor;
    }
    values[0] = Complex64::default();
    Some(values)
}

/// Weights on a lattice that is a circle, cut open: its last points are the first ones again.
struct Lattice {
    points: usize,
    sums: Vec<f64>,
    /// What the additions to each rounded off.
    carries: Vec<f64>,
    /// e^{−k²/2s²} for k = −REACH..=REACH.
    gaussian: [f64; WINDOW],
    /// What is to be taken away at 0, of the nodes that are not next to it.
    at_zero: CompensatedSum,
}

impl Lattice {
    fn new(points: usize) -> Self {
        let at = |k: usize| (-(k as f64 - REACH as f64).powi(2) / (2.0 * DEVIATION.powi(2))).exp();
        Self {
            points,
            sums: vec![0.0; points + WINDOW],
            carries: vec![0.0; points + WINDOW],
            gaussian: std::array::from_fn(at),
            at_zero: CompensatedSum::default(),
        }
    }

    /// Adds w(e^{−(m − t)²/2s²} − e^{−m²/2s²}) at every point m.
    fn spread(&mut self, weight: f64, t: f64) {
        let centre = t.round();
        let offset = t - centre;
        let square = DEVIATION * DEVIATION;
        // Over e^{−k²/2s²} the Gaussian is e^{(k·offset − offset²/2)/s²} at k points from the centre.
        let (log_ratio, log_first) = (offset / square, -offset * offset / (2.0 * square));
        if centre == 0.0 {
            // Less 1, for what is taken away at 0: with d at one point it is d + (q − 1)(d + 1) at the next, q being the ratio.
            let (up, down) = (log_ratio.exp_m1(), (-log_ratio).exp_m1());
            let values = outwards(log_first.exp_m1(), |d| d + up * (d + 1.0), |d| d + down * (d + 1.0));
            self.add(weight, centre, &values);
        } else {
            let (up, down) = (log_ratio.exp(), (-log_ratio).exp());
            let values = outwards(log_first.exp(), |value| value * up, |value| value * down);
            self.add(weight, centre, &values);
            self.at_zero.add(weight);
        }
    }

    /// Adds weight·values, times the Gaussian, around a point.
    fn add(&mut self, weight: f64, centre: f64, values: &[f64; WINDOW]) {
        let place = (centre % self.points as f64) as i64 - REACH as i64;
        let first = place.rem_euclid(self.points as i64) as usize;
        let sums = self.sums[first..first + WINDOW].iter_mut();
        let carries = self.carries[first..first + WINDOW].iter_mut();
        for (((sum, carry), value), gaussian) in sums.zip(carries).zip(values).zip(&self.gaussian) {
            add_to((sum, carry), weight * gaussian * value);
        }
    }

    /// The transform at all frequencies.
    fn transform(mut self) -> Option<Vec<Complex64>> {
        self.add(-self.at_zero.value(), 0.0, &[1.0; WINDOW]);
        for (sum, carry) in self.sums.iter_mut().zip(&self.carries) {
            *sum += carry;
        }
        let (circle, again) = self.sums.split_at_mut(self.points);
        for (sum, more) in circle.iter_mut().zip(again) {
            *sum += *more;
        }
        self.sums.truncate(self.points);
        let plan = fourier::forward(self.points);
        let mut values = plan.make_output_vec();
        plan.process(&mut self.sums, &mut values).ok()?;
        Some(values)
    }
}

/// The values over a window, of that at its centre and of what one becomes at the next point above and below.
#[inline(always)]
fn outwards(first: f64, up: impl Fn(f64) -> f64, down: impl Fn(f64) -> f64) -> [f64; WINDOW] {
    let mut values = [first; WINDOW];
    for k in 1..=REACH {
        values[REACH + k] = up(values[REACH + k - 1]);
        values[REACH - k] = down(values[REACH - k + 1]);
    }
    values
}

/// Adds to a sum, and to its carry what that rounds off (Knuth).
#[inline(always)]
fn add_to((sum, carry): (&mut f64, &mut f64), term: f64) {
    let before = *sum;
    *sum += term;
    let part = *sum - before;
    *carry += (before - (*sum - part)) + (term - part);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::characteristic_function::tests::{direct, law_of};

    #[test]
    fn sums_are_within_their_error() {
        let spread: Vec<(f64, f64)> = (0..300)
            .map(|i| (f64::from(i * i % 997) / 256.0 - 1.0, 1.0 / 300.0))
            .collect();
        let next_to_zero: Vec<(f64, f64)> = (1..200).map(|i| (f64::from(i) / 1_048_576.0, 0.005)).collect();
        let far = vec![(1024.0, 0.25), (-3.5, 0.5), (0.0, 0.125), (0.125, 0.125)];
        let mut most = 0.0f64;
        for (nodes, spacing, last) in [
            (&spread, 0.0625, 1000),
            (&spread, 0.5, 5_000),
            (&next_to_zero, 0.25, 1000),
            (&next_to_zero, 16.0, 10_000),
            (&far, 0.0625, 600),
            (&far, 0.5, 0),
            (&far, 0.5, 1),
            (&far, 0.25, 2),
            (&far, 0.25, 7),
            (&far, 1.0, 40_000),
        ] {
            let law = law_of(nodes);
            let (sums, error) = (sums(&law, spacing, last).unwrap(), SumError::new(&law, spacing, last));
            let mut worst = 0.0f64;
            for j in (0..=last).step_by(1 + last / 500) {
                let y = j as f64 * spacing;
                let off = (sums[j] - direct(nodes, spacing, j)).norm();
                let bound = error.at(j) + 2.0 * f64::EPSILON * y * law.mean_size;
                worst = worst.max(off / bound);
            }
            assert!(worst <= 1.0, "{spacing} {last}: {worst}");
            most = most.max(worst);
        }
        assert!(most > 0.05, "{most}");
    }

    /// Poisson's formula gives what the terms p ≠ 0 add, which is most where f = 1/4; the points that are left out are summed.
    #[test]
    fn what_is_cut_off_is_bounded_and_nearly_attained() {
        let mut most = 0.0f64;
        for f in [0.0, 0.125, 0.25] {
            let aliases = [-2.0, -1.0, 1.0, 2.0].map(|p: f64| (-log_factor(f + p)).exp());
            let aliasing = 2.0 * aliases.iter().sum::<f64>();
            let beyond = |k: usize| (-(k as f64 - 0.5).powi(2) / (2.0 * DEVIATION.powi(2))).exp();
            let left_out =
                4.0 * (REACH + 1..REACH + 40).map(beyond).sum::<f64>() / (DEVIATION * (2.0 * PI).sqrt());
            let exact = aliasing + left_out;
            assert!(exact <= CUT_ERROR, "{f}: {exact}");
            most = most.max(exact / CUT_ERROR);
        }
        assert!(most > 0.5, "{most}");
    }

    /// The points of one node against its Gaussian, evaluated at each of them.
    #[test]
    fn a_node_is_spread_within_the_error_and_uses_some_of_it() {
        let mut worst = 0.0f64;
        for t in [0.5f64, 0.501, 1.0 / 1024.0, 0.25, -0.499, 1.499, -3.49, 1000.3] {
            let mut lattice = Lattice::new(64);
            lattice.spread(1.0, t);
            lattice.add(-lattice.at_zero.value(), 0.0, &[1.0; WINDOW]);
            let mut off = 0.0;
            for (m, (sum, carry)) in lattice.sums.iter().zip(&lattice.carries).enumerate() {
                // The points of the window, which begins at `first` on the circle.
                let gaussian = |centre: f64, t: f64| -> f64 {
                    let first = (centre - REACH as f64).rem_euclid(64.0) as usize;
                    let k = m as f64 - first as f64 - REACH as f64;
                    if (first..first + WINDOW).contains(&m) {
                        (-(k - (t - centre)).powi(2) / (2.0 * DEVIATION.powi(2))).exp()
                    } else {
                        0.0
                    }
                };
                let exact = if t.round() == 0.0 {
                    let k = m as f64 - 64.0;
                    let change = ((k * t - 0.5 * t * t) / DEVIATION.powi(2)).exp_m1();
                    change * gaussian(0.0, 0.0)
                } else {
                    gaussian(t.round(), t) - gaussian(0.0, 0.0)
                };
                off += (sum + carry - exact).abs();
            }
            let bound = SPREADING_ERROR * t.abs().min(2.0) * DEVIATION * (2.0 * PI).sqrt();
            assert!(off <= bound, "{t}: {off} {bound}");
            worst = worst.max(off / bound);
        }
        assert!(worst > 0.02, "{worst}");
    }
}
