//! The tilted loss of random allocation: M(w − iy)/M(w) along a line.
//!
//! For y > 0 the ray of s is turned by θ, which takes up the decay of Γ(p + iy): at tan θ = y/p the sum of moduli is about |Γ(p + iy)|
//! times M(w), so that rounding is not amplified. A ray serves the y around its own: the amplification is e^{(ζ − ζ')²/2} for the
//! coordinate ζ = √p·asinh(y/p).

use crate::approx::Approx;
use crate::loss::allocation::decay::Decay;
use crate::loss::allocation::kernel::Node;
use crate::loss::allocation::mellin::{Mellin, RealMoment, locked, log_aliasing, spacing};
use crate::loss::allocation::normal_rule::Points;
use crate::loss::characteristic_function::changes_at;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::complex_gamma::ln_gamma;
use realfft::num_complex::Complex64;
use std::f64::consts::PI;
use std::sync::Mutex;

/// Distance of the rays in ζ: the amplification of rounding is at most e^{2.53}.
const RAY_DISTANCE: f64 = 4.5;
/// Roundings of a term, of its turn to the middle and of its part of the sum of all, in units of ε.
const ROUNDINGS: f64 = 12.0;
/// Nodes of one ray at most.
const MOST_NODES: f64 = 2e5;

/// A change of which nothing is known: φ is in the unit disc.
const UNKNOWN: Approx<Complex64> = Approx::new(Complex64::new(0.0, 0.0), 2.0);

/// A power near p whose rays are those of p: the same for many tilts, which then share the values along them.
///
/// The rays move by at most one in ζ, which adds e^{2.75} to the amplification at their ends.
fn nearby(power: f64) -> f64 {
    /// Powers in a factor of 2, and the same over √p: the smallest that is enough is a power of 2.
    const PER_OCTAVE: f64 = 2.0;
    const PER_ROOT: f64 = 0.35;
    let needed = PER_OCTAVE.max(PER_ROOT * power.sqrt());
    let steps = needed.log2().ceil().exp2();
    2f64.powf((steps * power.log2()).round() / steps)
}

/// Values of ψ_n along a ray, with u = log |s|.
struct RayNodes {
    angle: f64,
    spacing: f64,
    /// −log cos θ, by which the range of u moves with the angle.
    shift: f64,
    nodes: Vec<(f64, Node)>,
}

/// Σ e^{pu}·ψ_n·e^{iyu} over the nodes for every y, over e^`reference`, and what bounds its error.
struct RaySums {
    reference: f64,
    /// With bounds on what the summation rounds.
    values: Vec<Approx<Complex64>>,
    /// Sum of the moduli, the same weighted with |u|, and the sum of the errors of the terms.
    sizes: f64,
    turned: f64,
    errors: f64,
}

impl RayNodes {
    /// The sums at the multiples of `step` from `first` to `last`.
    ///
    /// Terms are turned to the middle of these frequencies. Their real and imaginary parts then are two sums with real weights, whose values at −y are conjugates of those at y.
    fn sums(&self, power: f64, step: f64, (first, last): (usize, usize)) -> RaySums {
        let logs = self.nodes.iter().map(|(u, node)| power * u + node.log_scale);
        let mut sums = RaySums {
            reference: logs.fold(f64::NEG_INFINITY, f64::max),
            values: Vec::new(),
            sizes: 0.0,
            turned: 0.0,
            errors: 0.0,
        };
        let middle = usize::midpoint(first, last);
        let places: Vec<f64> = self.nodes.iter().map(|(u, _)| *u).collect();
        let mut parts = [Vec::with_capacity(places.len()), Vec::with_capacity(places.len())];
        for (u, node) in &self.nodes {
            let log = power * u + node.log_scale;
            let weight = (log - sums.reference).exp();
            let own = weight * node.value;
            let size = own.norm();
            sums.sizes += size;
            sums.turned += size * u.abs();
            sums.errors +=
                weight * node.error + size * f64::EPSILON * (4.0 * (log.abs() + sums.reference.abs()) + 8.0);
            let turned = own * Complex64::from_polar(1.0, middle as f64 * step * u);
            parts[0].push(turned.re);
            parts[1].push(turned.im);
        }
        let [real, imaginary] = parts.map(|weights| {
            let mut whole = CompensatedSum::default();
            weights.iter().for_each(|weight| whole.add(*weight));
            let changes = changes_at((&weights, &places), step, last - middle, 0);
            (whole.value(), changes)
        });
        sums.values = (first..=last)
            .map(|j| {
                let at = |(whole, changes): &(f64, Vec<Approx<Complex64>>)| {
                    let change = changes[j.abs_diff(middle)];
                    let value = if j < middle { change.value.conj() } else { change.value };
                    (value + whole, change.error)
                };
                let ((a, of_a), (b, of_b)) = (at(&real), at(&imaginary));
                Approx::new(a + Complex64::i() * b, of_a + of_b)
            })
            .collect();
        sums
    }
}

/// The line Re = w.
#[derive(Debug)]
pub(crate) struct TransformLine<'a> {
    pub(crate) mellin: &'a Mutex<Mellin>,
    pub(crate) real: RealMoment,
    pub(crate) decay: Decay,
    /// log t.
    pub(crate) log_total: f64,
}

impl TransformLine<'_> {
    /// log of a bound on |M(w + iy)|/M(w).
    pub(crate) fn log_decay(&self, y: f64) -> f64 {
        self.decay.log_bound(y.abs())
    }

    /// M(w − iy)/M(w) − 1 at y = 0, `step`, …, `last`·`step`, with bounds on the errors.
    pub(crate) fn changes(&self, step: f64, last: usize) -> Vec<Approx<Complex64>> {
        let power = nearby(self.real.exponent.power);
        let root = power.sqrt();
        let mut found = vec![Approx::exact(Complex64::default())];
        let mut first = 1;
        while first <= last {
            let zeta = root * (first as f64 * step / power).asinh();
            let ray = ((zeta + 0.5 * RAY_DISTANCE) / RAY_DISTANCE).floor();
            let end = power * ((ray + 0.5) * RAY_DISTANCE / root).sinh();
            let until = ((end / step).floor()).clamp(first as f64, last as f64) as usize;
            let angle = (ray * RAY_DISTANCE / root).sinh().atan();
            found.extend(self.on_ray(angle, step, (first, until)));
            first = until + 1;
        }
        found
    }

    /// The changes at the multiples of `step` from `first` to `last`, from the ray at `angle`.
    fn on_ray(&self, angle: f64, step: f64, (first, last): (usize, usize)) -> Vec<Approx<Complex64>> {
        let unknown = vec![UNKNOWN; last + 1 - first];
        let Some(nodes) = self.nodes(angle, step, (first, last)) else {
            return unknown;
        };
        let sums = nodes.sums(self.real.exponent.power, step, (first, last));
        let finish =
            |(i, sum): (usize, &Approx<Complex64>)| self.change(&nodes, &sums, *sum, (first + i) as f64 * step);
        sums.values.iter().enumerate().map(finish).collect()
    }

    /// The nodes for these frequencies; `None` where they would be too many.
    fn nodes(&self, angle: f64, step: f64, (first, last): (usize, usize)) -> Option<RayNodes> {
        let exponent = self.real.exponent;
        let decay = |y: f64| self.log_decay(y);
        let ys = [
            first as f64 * step,
            0.5 * (first + last) as f64 * step,
            last as f64 * step,
        ];
        let spacings = locked(self.mellin).spacings();
        let spacing = spacing(spacings, (exponent.power, angle), &ys, &decay)?;
        let shift = -angle.cos().ln();
        let (low, high) = (self.real.low + shift, self.real.high + shift);
        if (high - low) / spacing > MOST_NODES {
            return None;
        }
        let (from, to) = ((low / spacing).ceil() as i64, (high / spacing).floor() as i64);
        let mut mellin = locked(self.mellin);
        let values = mellin.on_ray(exponent.order, spacing, angle, (from, to));
        let nodes = (from..=to).zip(values).map(|(j, node)| (j as f64 * spacing, node));
        Some(RayNodes {
            angle,
            spacing,
            shift,
            nodes: nodes.collect(),
        })
    }

    /// M(w − iy)/M(w) − 1 from the sum over the nodes at y.
    fn change(&self, nodes: &RayNodes, sums: &RaySums, sum: Approx<Complex64>, y: f64) -> Approx<Complex64> {
        let (power, angle) = (self.real.exponent.power, nodes.angle);
        let base = nodes.spacing.ln() + sums.reference - self.real.log;
        let (gamma, gamma_error) = ln_gamma(Complex64::new(power, y));
        let scale = (base - angle * y - gamma.re).exp();
        let phase = power * angle - gamma.im;
        let value = sum.value * Complex64::from_polar(scale, phase);
        let slack = f64::EPSILON
            * (ROUNDINGS + 4.0 * (power * angle).abs() + 4.0 * gamma.im.abs() + 4.0 * (base.abs() + angle * y));
        // Roundings in proportion to |u|: four of phases y·u, and that of u itself, which is in y·u and in p·u.
        let of_places = f64::EPSILON * (5.0 * y + power) * sums.turned;
        let offset = (power + y) * Points::common_error(self.log_total);
        let whole = (ln_gamma(Complex64::new(power, 0.0)).0.re - gamma.re + power * nodes.shift - angle * y).exp();
        let decay = |y: f64| self.log_decay(y);
        let error = scale * (sums.errors + sum.error + sums.sizes * (slack + gamma_error) + of_places)
            + value.norm() * (self.real.error + offset) * 1.1
            + log_aliasing(power, angle, nodes.spacing, y, &decay).exp()
            + whole * self.real.log_left_out.exp();
        let known = value.re.is_finite() && value.im.is_finite() && error < 2.0;
        // |φ| ≤ 1, so that φ − 1 is within 2 of 0.
        if known {
            Approx::new(value - 1.0, error + f64::EPSILON)
        } else {
            UNKNOWN
        }
    }

    /// About how many nodes one y takes up to `reach`.
    pub(crate) fn size(&self, reach: f64) -> usize {
        let width = self.real.high - self.real.low;
        (width * (reach + 20.0) / PI).clamp(16.0, MOST_NODES) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::allocation::bins::Bins;

    /// The frequency of these tests.
    const Y: f64 = 2.0;

    /// One batch at w = −1, whose M(w) is e^{w(w − 1)v/2}.
    fn with_line<T>(v: f64, test: impl FnOnce(TransformLine<'_>) -> T) -> T {
        let bins = Bins::new(&[(1, v)]).unwrap();
        let mellin = Mutex::new(Mellin::new(bins.clone()));
        let real = locked(&mellin).real(-1.0).unwrap();
        let decay = Decay::new(&bins, &[], (-1.0, 0.0));
        test(TransformLine {
            mellin: &mellin,
            real,
            decay,
            log_total: 0.0,
        })
    }

    /// By how much φ(Y) from these nodes is off, and the bound on that.
    fn off(line: &TransformLine<'_>, nodes: &RayNodes, v: f64) -> (f64, f64) {
        let power = line.real.exponent.power;
        let sums = nodes.sums(power, Y, (1, 1));
        let found = line.change(nodes, &sums, sums.values[0], Y);
        let w = line.real.exponent.w;
        let exact = Complex64::new(-0.5 * v * Y * Y, -0.5 * v * Y * (2.0 * w - 1.0)).exp();
        ((found.value + 1.0 - exact).norm(), found.error)
    }

    /// The angle of the ray for Y.
    fn angle(line: &TransformLine<'_>) -> f64 {
        (Y / line.real.exponent.power).atan()
    }

    /// The nodes on the ray at an angle, with a spacing and up to these ends.
    fn nodes(line: &TransformLine<'_>, angle: f64, spacing: f64, (low, high): (f64, f64)) -> RayNodes {
        let range = ((low / spacing).ceil() as i64, (high / spacing).floor() as i64);
        let order = line.real.exponent.order;
        let values = locked(line.mellin).on_ray(order, spacing, angle, range).to_vec();
        RayNodes {
            angle,
            spacing,
            shift: -angle.cos().ln(),
            nodes: (range.0..=range.1).map(|j| j as f64 * spacing).zip(values).collect(),
        }
    }

    /// Sums below, at and above the middle of their frequencies are those of all terms, by rotations and, where there are many, by a transform.
    #[test]
    fn sums_are_those_of_all_terms_at_every_frequency() {
        with_line(0.3, |line| {
            let power = line.real.exponent.power;
            let nodes = line.nodes(angle(&line), 0.5, (1, 40)).unwrap();
            for (first, last) in [(1, 1), (3, 12), (2, 4001)] {
                let step = 20.0 / last as f64;
                let sums = nodes.sums(power, step, (first, last));
                assert_eq!(sums.values.len(), last + 1 - first);
                for j in [first, first + (last - first) / 3, usize::midpoint(first, last), last] {
                    let term = |(u, node): &(f64, Node)| {
                        let weight = (power * u + node.log_scale - sums.reference).exp();
                        weight * node.value * Complex64::from_polar(1.0, j as f64 * step * u)
                    };
                    let exact: Complex64 = nodes.nodes.iter().map(term).sum();
                    let found = sums.values[j - first];
                    let off = (found.value - exact).norm();
                    let of_terms = 16.0 * f64::EPSILON * (sums.sizes + 20.0 * sums.turned);
                    assert!(off <= found.error + of_terms, "{first} {last} {j}: {off:e}");
                    assert!(
                        found.error < 1e-10 * sums.sizes,
                        "{first} {last} {j}: {:e}",
                        found.error
                    );
                }
            }
        });
    }

    /// All nodes are off by their errors, in the direction in which they add up; or the real moment is off by its error.
    #[test]
    fn errors_of_nodes_and_of_the_real_moment_are_attained() {
        let (v, part) = (0.3, 1e-4);
        with_line(v, |mut line| {
            let mut nodes = line.nodes(angle(&line), Y, (1, 1)).unwrap();
            let (found, plain) = off(&line, &nodes, v);
            assert!(found <= plain && plain < 1e-10, "{found:e} {plain:e}");
            let exact = nodes.nodes.clone();
            for (u, node) in &mut nodes.nodes {
                node.error = part * node.value.norm();
                node.value += Complex64::from_polar(node.error, -Y * *u);
            }
            let (found, bound) = off(&line, &nodes, v);
            assert!(found <= bound && found > 0.99 * bound, "{found:e} {bound:e}");
            nodes.nodes = exact;
            line.real.log += part;
            line.real.error = part;
            let (found, bound) = off(&line, &nodes, v);
            assert!(found <= bound && found > 0.9 * bound, "{found:e} {bound:e}");
        });
    }

    /// A wide spacing adds the value at one other frequency, and next to nothing at others.
    #[test]
    fn aliasing_is_attained() {
        for (v, spacing) in [(0.3, 1.0), (0.1, 0.9)] {
            with_line(v, |line| {
                let ends = (line.real.low - 1.0, line.real.high + 1.0);
                let nodes = nodes(&line, angle(&line), spacing, ends);
                let (found, bound) = off(&line, &nodes, v);
                assert!(found <= bound && found > 0.6 * bound, "{v}: {found:e} {bound:e}");
                assert!(bound < 0.5, "{v}: {bound}");
            });
        }
    }

    /// The left end is moved to where what it leaves out matters: at the angle 0 it is a sum of positive terms.
    #[test]
    fn what_the_ends_leave_out_is_attained() {
        let (v, spacing) = (0.3, 0.02);
        with_line(v, |mut line| {
            let (low, high) = (line.real.low, line.real.high);
            let power = line.real.exponent.power;
            let end = power.ln() - 1.4 + 0.5 * spacing;
            let left_out = nodes(&line, 0.0, spacing, (low, end));
            let terms = left_out
                .nodes
                .iter()
                .map(|(u, node)| (power * u + node.log_scale).exp() * node.value.re);
            let gamma = ln_gamma(Complex64::new(power, 0.0)).0.re;
            line.real.log_left_out = (terms.sum::<f64>() * spacing).ln() - gamma - line.real.log;
            let angle = angle(&line);
            let shift = -angle.cos().ln();
            let nodes = nodes(&line, angle, spacing, (end + shift, high + shift));
            let (found, bound) = off(&line, &nodes, v);
            assert!(found <= bound && found > 0.6 * bound, "{found:e} {bound:e}");
            assert!(bound > 1e-4 && bound < 0.5, "{bound}");
        });
    }
}
