//! From the masses of half-cells to the upper and the lower law of `cells`.

use crate::grid::frame::{COARSEST, Cells, Frame, GridLaw, HalfCells, QUADRATURE};

/// Offsets of the lower law's grid that are compared: from h/2 down to 2e-11·h, each 0.6 of the one before.
const CHOICES: usize = 48;
const CHOICE_EXPONENT: f64 = 0.75;

impl Frame {
    /// Adds up the masses of all parts and makes both laws of them; `outside` is the tilted mass that no part has.
    pub(crate) fn laws(&self, parts: &[HalfCells], outside: f64) -> Cells {
        let (total, mut cells) = self.add_up(parts, outside);
        cells.lower = self.lower(&total);
        cells.upper = GridLaw {
            first: total.first,
            masses: total.upper,
            origin: self.origin,
        };
        cells
    }

    /// The masses of all parts on one range of grid points, and the errors of both laws.
    fn add_up(&self, parts: &[HalfCells], outside: f64) -> (HalfCells, Cells) {
        // Room below for atoms that are lowered.
        let first = parts.iter().map(|part| part.first).min().unwrap_or(0) - (1 << COARSEST) - 1;
        let last = parts
            .iter()
            .map(|part| part.first + part.upper.len() as i64)
            .max()
            .unwrap_or(0);
        let mut total = HalfCells::starting(first, (last - first) as usize);
        let mut cells = Cells {
            log_scale: self.log_scale,
            mass_error: outside,
            ..Cells::default()
        };
        for part in parts {
            let start = (part.first - first) as usize;
            for (sum, mass) in total.upper[start..].iter_mut().zip(&part.upper) {
                *sum += mass;
            }
            for (sum, mass) in total.nearest[start..].iter_mut().zip(&part.nearest) {
                sum.0 += mass.0;
                sum.1 += mass.1;
            }
            cells.loss_error = cells.loss_error.max(part.loss_error);
            cells.mass_error += part.mass_error;
        }
        (total, cells)
    }

    /// The lower law: the outputs nearest to each grid point merged into one atom, and the atoms lowered to the points
    /// g_j − s.
    fn lower(&self, total: &HalfCells) -> GridLaw {
        let nearest = &total.nearest;
        let length = nearest.len();
        let offsets: Vec<f64> = nearest.iter().map(|&merged| offset(merged)).collect();
        let lowering = self.lowering(nearest, &offsets);
        let mut masses = vec![0.0; length];
        for (i, (&(mass, _), &offset)) in nearest.iter().zip(&offsets).enumerate() {
            // The highest point of the lowered grid that is not above the atom.
            let rise = ((offset + lowering) / self.spacing)
                .floor()
                .min((length - 1 - i) as f64);
            let place = i as f64 + rise;
            // An atom below all points would have to rise: without it the law is lower still.
            if mass > 0.0 && place >= 0.0 {
                masses[place as usize] += mass * (self.c * rise * self.spacing).exp();
            }
        }
        // The masses were tilted as if at g_i: they are at g_i − s.
        let factor = (-self.c * lowering).exp();
        masses.iter_mut().for_each(|mass| *mass *= factor);
        GridLaw {
            first: total.first,
            masses,
            origin: self.origin - lowering,
        }
    }

    /// s, which may be negative: atoms go to the highest g_j − s that is not above them.
    fn lowering(&self, nearest: &[(f64, f64)], offsets: &[f64]) -> f64 {
        // Mean distance by which the loss falls, times the mass.
        let cost = |lowering: f64| -> f64 {
            let distances = nearest.iter().zip(offsets).map(|(&(mass, _), offset)| {
                let above = offset + lowering;
                mass * (above - (above / self.spacing).floor() * self.spacing)
            });
            distances.sum()
        };
        let mut best = self.common_lowering(nearest, offsets);
        let mut best_cost = cost(best);
        // Where one atom outweighs the rest it should stay where it is.
        let heaviest = (0..nearest.len()).max_by(|&i, &j| nearest[i].0.total_cmp(&nearest[j].0));
        if let Some(i) = heaviest {
            let exact = -offsets[i] + 4.0 * f64::EPSILON * (offsets[i].abs() + self.origin.abs());
            let exact_cost = cost(exact);
            if exact_cost < best_cost {
                (best, best_cost) = (exact, exact_cost);
            }
        }
        debug_assert!(best_cost >= 0.0);
        best
    }

    /// s > 0: small, but larger than the distance by which nearly all of the mass lies below its grid point.
    fn common_lowering(&self, nearest: &[(f64, f64)], offsets: &[f64]) -> f64 {
        let choice = |j: usize| self.spacing * 0.5f64.powf(CHOICE_EXPONENT * j as f64 + 1.0);
        let mut below = [0.0; CHOICES + 1]; // mass whose offset is below −choice(j), for the first such j
        let mut total = 0.0;
        for (&(mass, _), &offset) in nearest.iter().zip(offsets) {
            total += mass;
            if offset < -choice(CHOICES - 1) {
                let j = (((-offset / self.spacing).log2() + 1.0) / -CHOICE_EXPONENT)
                    .ceil()
                    .max(0.0) as usize;
                below[j.min(CHOICES)] += mass;
            }
        }
        let (mut best, mut best_cost) = (0.5 * self.spacing, f64::INFINITY);
        // Mass that falls by a whole grid interval.
        let mut falling = 0.0;
        for (j, more) in below.iter().enumerate().take(CHOICES) {
            falling += more;
            let cost = choice(j) + self.spacing * falling / total.max(f64::MIN_POSITIVE);
            if cost < best_cost {
                (best, best_cost) = (choice(j), cost);
            }
        }
        best
    }
}

/// log(p/q) − g_i = −log(1 − d/p) of what is merged at g_i, d = p − q·e^{g_i}, less twice the error of the quadrature.
fn offset((mass, missing): (f64, f64)) -> f64 {
    if mass > 0.0 {
        -(-missing / mass).ln_1p() - 2.0 * QUADRATURE
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grid::frame::HalfCell;

    /// Σ mass·(1 − e^{ε − loss})₊ of a law tilted by c.
    fn delta(law: &GridLaw, (spacing, c): (f64, f64), epsilon: f64) -> f64 {
        let gain = |(i, mass): (usize, &f64)| {
            let loss = law.origin + (law.first + i as i64) as f64 * spacing;
            mass * (-c * loss).exp() * -(epsilon - loss).min(0.0).exp_m1()
        };
        law.masses.iter().enumerate().map(gain).sum()
    }

    /// Losses and masses of a law with `count` atoms, none of them on a grid.
    fn atoms(count: usize) -> Vec<(f64, f64)> {
        let loss = |i: usize| 1.7 * (2.399_963 * i as f64 + 0.3).sin();
        let weight = |i: usize| 1.0 / (1.0 + (i * i % 17) as f64);
        let total: f64 = (0..count).map(weight).sum();
        (0..count).map(|i| (loss(i), weight(i) / total)).collect()
    }

    /// Both laws of atoms.
    fn laws(frame: &Frame, atoms: &[(f64, f64)]) -> Cells {
        let half_cells = |&(loss, mass): &(f64, f64)| {
            let first = ((loss - frame.origin) / frame.spacing).floor() as i64;
            let mut masses = HalfCells::starting(first, 1);
            let above = loss - frame.at(first) > 0.5 * frame.spacing;
            frame.deposit(&mut masses, HalfCell { first, size: 1, above }, loss, mass.ln());
            masses
        };
        frame.laws(&atoms.iter().map(half_cells).collect::<Vec<_>>(), 0.0)
    }

    #[test]
    fn the_upper_law_dominates_and_the_lower_is_dominated_at_every_epsilon() {
        for count in [1, 2, 7, 200] {
            for (spacing, c) in [(0.25, 0.0), (0.01, 0.0), (0.03, 3.0)] {
                let frame = Frame::new((0.1, spacing), c, 0.0, u64::MAX);
                let atoms = atoms(count);
                let cells = laws(&frame, &atoms);
                for i in -220..220 {
                    let epsilon = 0.01 * f64::from(i) + 1e-3;
                    let gain = |&(loss, mass): &(f64, f64)| mass * -(epsilon - loss).min(0.0).exp_m1();
                    let exact: f64 = atoms.iter().map(gain).sum();
                    let upper = delta(&cells.upper, (spacing, c), epsilon);
                    let lower = delta(&cells.lower, (spacing, c), epsilon);
                    let named = format!("{count} {spacing} {c} {epsilon}: {lower} {exact} {upper}");
                    assert!(upper >= exact - 1e-13 && lower <= exact + 1e-13, "{named}");
                    // No loss moves by more than h up or 2h down, so that no more is needed.
                    assert!(upper <= exact + spacing && lower >= exact - 2.0 * spacing, "{named}");
                }
            }
        }
    }

    /// The heavier of two atoms is 1.5 intervals below its grid point and stays there, as the first of the lowered grid. The other is at the last
    /// grid point, and goes to that of the lowered grid: by 1.5 intervals, at which it is tilted.
    #[test]
    fn an_atom_above_the_lowered_grid_is_tilted_where_it_goes() {
        let (spacing, c, light) = (0.25, 2.0, 0.125);
        let frame = Frame::new((0.0, spacing), c, 0.0, u64::MAX);
        let mut total = HalfCells::starting(0, 1);
        total.nearest = vec![(1.0, -f64::exp_m1(1.5 * spacing)), (light, 0.0)];
        let law = frame.lower(&total);
        assert!((law.origin + 1.5 * spacing).abs() < 1e-12, "{law:?}");
        let factor = (-1.5 * spacing * c).exp();
        assert!((law.masses[0] / factor - 1.0).abs() < 1e-12, "{law:?}");
        assert!((law.masses[1] / (light * factor) - 1.0).abs() < 1e-12, "{law:?}");
    }

    #[test]
    fn masses_add_up_in_both_laws_and_only_the_upper_keeps_that_of_q() {
        for (spacing, c) in [(0.25, 0.0), (0.01, 0.0), (0.03, 3.0)] {
            let frame = Frame::new((0.1, spacing), c, 0.0, u64::MAX);
            let atoms = atoms(50);
            let cells = laws(&frame, &atoms);
            let sum = |law: &GridLaw, power: f64| -> f64 {
                let loss = |i: usize| law.origin + (law.first + i as i64) as f64 * spacing;
                law.masses
                    .iter()
                    .enumerate()
                    .map(|(i, mass)| mass * ((power - c) * loss(i)).exp())
                    .sum()
            };
            assert!((sum(&cells.upper, 0.0) - 1.0).abs() < 1e-13);
            assert!((sum(&cells.lower, 0.0) - 1.0).abs() < 1e-13);
            let exact: f64 = atoms.iter().map(|(loss, mass)| mass * (-loss).exp()).sum();
            assert!((sum(&cells.upper, -1.0) / exact - 1.0).abs() < 1e-11);
            assert!(sum(&cells.lower, -1.0) >= exact * (1.0 - 1e-12));
        }
    }

    /// Masses that parts lack add up, with what none of them has; losses of one law share the largest of their errors.
    #[test]
    fn errors_of_all_parts_are_counted() {
        let frame = Frame::new((0.0, 0.5), 0.0, 0.0, u64::MAX);
        let part = |mass_error: f64, loss_error: f64| HalfCells {
            mass_error,
            loss_error,
            ..HalfCells::starting(0, 2)
        };
        let cells = frame.laws(&[part(0.25, 0.125), part(0.0625, 0.5)], 0.03125);
        assert_eq!((cells.mass_error, cells.loss_error), (0.25 + 0.0625 + 0.03125, 0.5));
    }

    #[test]
    fn atoms_on_the_grid_stay_where_they_are() {
        let frame = Frame::new((0.0, 0.5), 1.0, 0.0, u64::MAX);
        let cells = laws(&frame, &[(0.0, 0.9), (2.0, 0.05), (-1.5, 0.05)]);
        for epsilon in [-3.0f64, -0.25, 0.0, 1.0, 1.9] {
            let exact: f64 = [(0.0, 0.9), (2.0, 0.05), (-1.5, 0.05)]
                .iter()
                .map(|(loss, mass): &(f64, f64)| mass * -(epsilon - loss).min(0.0).exp_m1())
                .sum();
            for law in [&cells.upper, &cells.lower] {
                assert!((delta(law, (0.5, 1.0), epsilon) - exact).abs() < 1e-11, "{epsilon}");
            }
        }
        assert!((cells.lower.origin).abs() < 1e-11);
    }

    #[test]
    fn merged_outputs_go_to_the_log_of_their_ratio() {
        // Half the mass h/4 above the grid point, half as far below: p/q = 1/cosh(h/4), less the margin.
        let frame = Frame::new((0.0, 0.5), 0.0, 0.0, u64::MAX);
        let mut masses = HalfCells::starting(-1, 2);
        let half = 0.5f64.ln();
        frame.deposit(
            &mut masses,
            HalfCell {
                first: 0,
                size: 1,
                above: false,
            },
            0.125,
            half,
        );
        frame.deposit(
            &mut masses,
            HalfCell {
                first: -1,
                size: 1,
                above: true,
            },
            -0.125,
            half,
        );
        let found = offset(masses.nearest[1]);
        let exact = -(0.125f64.cosh()).ln();
        assert!((found - (exact - 2.0 * QUADRATURE)).abs() < 1e-15, "{found} {exact}");
    }

    /// The mass under P is too large by all of its error and that under Q too small: log(p/q) is too large by two errors.
    #[test]
    fn errors_of_the_masses_of_a_merged_atom_are_covered_and_attained() {
        for exact in [0.0f64, 0.01, -0.2] {
            let (p, q) = (1.0 + QUADRATURE, (-exact).exp() * (1.0 - QUADRATURE));
            let found = offset((p, p - q));
            assert!(
                found <= exact + 1e-15 && found > exact - 0.1 * QUADRATURE,
                "{found} {exact}"
            );
        }
    }
}
