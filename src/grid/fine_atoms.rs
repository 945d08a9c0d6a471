//! Both laws of a loss that has very many atoms between any two points of the grid.
//!
//! The upper law moves the mass of an atom to the two ends of its interval, as for all losses. In the lower law each atom is *split*: at a distance
//! τh above g_i the fraction 1 − φ(τ) of it, under P and under Q alike, is merged with others at g_i, and φ(τ) at g_{i+1}. Which of both parts an output
//! falls into is drawn independently of everything else. That changes no curve, so that Theorem 2 of `docs/theory/grid.md` holds for the parts. If each
//! interval were cut in its middle instead, log(p/q) of a grid point would depend on which atoms happen to lie on its side of a cut, and
//! would be off by up to half of their distance.

use crate::grid::frame::{Frame, HalfCells, QUADRATURE};
use crate::loss::loss_curve::FineAtoms;

/// φ(τ), the part of an atom at τ ∈ [0, 1] that goes to the upper point, with φ(1 − τ) = 1 − φ(τ).
///
/// A grid point merges all atoms with the weights 1 − φ(|τ|). If atoms are equidistant, their mean is at the point but for the error of such a sum in
/// place of an integral. As two derivatives of φ are 0 at both ends, this error falls with the fourth power of the distance of the atoms over h. With
/// φ(τ) = τ it would fall with the second power, and eight atoms to an interval would lower the law fifty times as far.
fn part_above(tau: f64) -> f64 {
    (tau * tau * tau * (10.0 - 15.0 * tau + 6.0 * tau * tau)).clamp(0.0, 1.0)
}

impl Frame {
    /// The masses of both laws, all in one range of grid points.
    pub(crate) fn fine_atoms(&self, atoms: &FineAtoms) -> HalfCells {
        let (low, high) = atoms.range();
        let index = |loss: f64| ((loss - self.origin) / self.spacing).floor() as i64;
        let (first, last) = (index(low), index(high) + 1);
        let mut masses = HalfCells::starting(first, (last - first) as usize);
        let factor = (atoms.log_scale - self.log_scale).exp(); // 1, but for frames with a scale of their own
        let h = self.spacing;
        let (rise, whole) = ((self.c * h).exp(), (-h).exp_m1());
        let place = |loss: f64| {
            let i = index(loss).clamp(first, last - 1);
            ((i - first) as usize, (loss - self.at(i)).clamp(0.0, h))
        };
        for &(loss, mass) in &atoms.upper {
            let (i, above) = place(loss);
            let fraction = if self.is_fine() {
                (((-above).exp_m1() - 2.0 * QUADRATURE) / whole).min(1.0)
            } else {
                1.0
            };
            let mass = factor * mass * (-self.c * above).exp();
            masses.upper[i] += mass * (1.0 - fraction);
            masses.upper[i + 1] += mass * fraction * rise;
        }
        for &(loss, mass) in &atoms.lower {
            let (i, above) = place(loss);
            let mass = factor * mass * (-self.c * above).exp();
            if !self.is_fine() {
                masses.nearest[i].0 += mass;
                continue;
            }
            let part = part_above(above / h);
            let (here, next) = ((1.0 - part) * mass, part * mass * rise);
            masses.nearest[i].0 += here;
            masses.nearest[i].1 += here * -(-above).exp_m1();
            masses.nearest[i + 1].0 += next;
            masses.nearest[i + 1].1 += next * -(h - above).exp_m1();
        }
        masses.loss_error = 4.0 * f64::EPSILON * (low.abs().max(high.abs()) + self.origin.abs());
        masses.mass_error = 64.0 * f64::EPSILON * masses.upper.iter().sum::<f64>();
        masses
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::frame::GridLaw;

    /// Σ mass·(1 − e^{ε − loss})₊ of a law tilted by c.
    fn delta(law: &GridLaw, (spacing, c): (f64, f64), epsilon: f64) -> f64 {
        let gain = |(i, mass): (usize, &f64)| {
            let loss = law.origin + (law.first + i as i64) as f64 * spacing;
            mass * (-c * loss).exp() * -(epsilon - loss).min(0.0).exp_m1()
        };
        law.masses.iter().enumerate().map(gain).sum()
    }

    /// Even atoms, eight to an interval, whatever their phase: the mean of what a point merges is at the point to 3e-5 of the interval.
    #[test]
    fn even_atoms_are_balanced_around_each_point() {
        let (mut worst, mut worst_linear) = (0.0f64, 0.0f64);
        for phase in 0..32 {
            let offset = |weight: fn(f64) -> f64| {
                let places = (-9..=9).map(|i| (f64::from(i) + f64::from(phase) / 32.0) / 8.13);
                let inside = places.filter(|u| u.abs() < 1.0);
                inside.map(|u| u * (1.0 - weight(u.abs()))).sum::<f64>() / 8.13
            };
            worst = worst.max(offset(part_above).abs());
            worst_linear = worst_linear.max(offset(|tau| tau).abs());
        }
        assert!(worst < 3e-5 && worst_linear > 40.0 * worst, "{worst} {worst_linear}");
        for tau in [0.0, 0.2, 0.5, 0.7, 1.0] {
            assert!((part_above(tau) + part_above(1.0 - tau) - 1.0).abs() < 1e-15);
        }
    }

    /// Atoms of a density like that of a normal loss: both laws enclose their curve, and both are within the square of the spacing.
    #[test]
    fn both_laws_enclose_the_atoms_to_second_order() {
        let (c, count) = (1.5, 4001);
        let loss = |i: usize| 0.25 * (i as f64 - 2000.0) / 200.0 + 0.03125;
        let mass = |i: usize| {
            (-0.5 * ((i as f64 - 2000.0) / 200.0).powi(2)).exp() / (200.0 * (std::f64::consts::TAU).sqrt())
        };
        let tilted: Vec<(f64, f64)> = (0..count).map(|i| (loss(i), mass(i) * (c * loss(i)).exp())).collect();
        let atoms = FineAtoms {
            log_scale: 0.0,
            upper: tilted.clone(),
            lower: tilted,
            error: 0.0,
        };
        for spacing in [0.01, 0.0203] {
            let frame = Frame::new((0.0, spacing), c, 0.0, u64::MAX);
            let cells = frame.laws(&[frame.fine_atoms(&atoms)], 0.0);
            for i in -30..60 {
                let epsilon = 0.0171 * f64::from(i);
                let exact: f64 = (0..count)
                    .map(|i| mass(i) * -(epsilon - loss(i)).min(0.0).exp_m1())
                    .sum();
                let (lower, upper) = (
                    delta(&cells.lower, (spacing, c), epsilon),
                    delta(&cells.upper, (spacing, c), epsilon),
                );
                assert!(
                    lower <= exact + 1e-15 && exact <= upper + 1e-15,
                    "{epsilon}: {lower} {exact} {upper}"
                );
                // The spread variance is h²/6 and h²/6, the density at most 1.6, and the lowering of the order h².
                let room = 4.0 * spacing * spacing;
                assert!(
                    upper - exact < 0.4 * spacing * spacing && exact - lower < room,
                    "{epsilon}: {lower} {exact} {upper}"
                );
            }
        }
    }
}
