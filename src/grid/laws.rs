//! From the masses of half-cells to the upper and the lower law of `cells`.

use crate::grid::cells::{COARSEST, Cells, Frame, GridLaw, QUADRATURE, Swept};

impl Frame {
    /// Adds up the parts and settles the lower law.
    pub(crate) fn settle(&self, parts: &[Swept], outside: f64) -> Cells {
        // Room below for atoms that are lowered.
        let first = parts.iter().map(|part| part.first).min().unwrap_or(0) - (1 << COARSEST) - 1;
        let last = parts
            .iter()
            .map(|part| part.first + part.upper.len() as i64)
            .max()
            .unwrap_or(0);
        let length = (last - first + 1) as usize;
        let mut upper = vec![0.0; length];
        let mut nearest = vec![(0.0, 0.0); length];
        let mut cells = Cells {
            log_scale: self.log_scale,
            mass_error: outside,
            ..Cells::default()
        };
        for part in parts {
            let start = (part.first - first) as usize;
            for (total, mass) in upper[start..].iter_mut().zip(&part.upper) {
                *total += mass;
            }
            for (total, mass) in nearest[start..].iter_mut().zip(&part.nearest) {
                total.0 += mass.0;
                total.1 += mass.1;
            }
            cells.loss_error = cells.loss_error.max(part.loss_error);
            cells.mass_error += part.mass_error;
        }
        // Offsets log(p/q) − g_i = −log(1 − d/p), with room for the error of the quadrature.
        let offsets: Vec<f64> = nearest
            .iter()
            .map(|&(mass, missing)| {
                if mass > 0.0 {
                    -(-missing / mass).ln_1p() - 2.0 * QUADRATURE
                } else {
                    0.0
                }
            })
            .collect();
        let lowering = self.lowering(&nearest, &offsets);
        let mut lower = vec![0.0; length];
        for (i, (&(mass, _), &offset)) in nearest.iter().zip(&offsets).enumerate() {
            // The highest point of the lowered grid that is not above the atom.
            let rise = ((offset + lowering) / self.spacing).floor();
            let place = (i as f64 + rise).clamp(0.0, length as f64 - 1.0);
            if mass > 0.0 {
                lower[place as usize] += mass * (self.c * rise * self.spacing).exp();
            }
        }
        // The masses were tilted as if at g_i: they are at g_i − s.
        let factor = (-self.c * lowering).exp();
        lower.iter_mut().for_each(|mass| *mass *= factor);
        cells.upper = GridLaw {
            first,
            masses: upper,
            origin: self.origin,
        };
        cells.lower = GridLaw {
            first,
            masses: lower,
            origin: self.origin - lowering,
        };
        cells
    }

    /// s, which may be negative: atoms go to the highest g_j − s that is not above them.
    fn lowering(&self, nearest: &[(f64, f64)], offsets: &[f64]) -> f64 {
        // The mean loss of height, over the mass.
        let cost = |lowering: f64| -> f64 {
            let moved = nearest.iter().zip(offsets).map(|(&(mass, _), offset)| {
                let above = offset + lowering;
                mass * (above - (above / self.spacing).floor() * self.spacing)
            });
            moved.sum()
        };
        let mut best = self.usual_lowering(nearest, offsets);
        let mut least = cost(best);
        // Where one atom outweighs the rest it should stay where it is.
        let heaviest = (0..nearest.len()).max_by(|&i, &j| nearest[i].0.total_cmp(&nearest[j].0));
        if let Some(i) = heaviest {
            let exact = -offsets[i] + 4.0 * f64::EPSILON * (offsets[i].abs() + self.origin.abs());
            let there = cost(exact);
            if there < least {
                (best, least) = (exact, there);
            }
        }
        debug_assert!(least >= 0.0);
        best
    }

    /// s > 0: small, but larger than the offsets of nearly all of the mass.
    fn usual_lowering(&self, nearest: &[(f64, f64)], offsets: &[f64]) -> f64 {
        const CHOICES: usize = 48;
        let choice = |j: usize| self.spacing * 0.5f64.powf(0.75 * j as f64 + 1.0);
        let mut beyond = [0.0; CHOICES + 1]; // mass whose offset is below −choice(j), for the first such j
        let mut total = 0.0;
        for (&(mass, _), &offset) in nearest.iter().zip(offsets) {
            total += mass;
            if offset < -choice(CHOICES - 1) {
                let j = (((-offset / self.spacing).log2() + 1.0) / -0.75).ceil().max(0.0) as usize;
                beyond[j.min(CHOICES)] += mass;
            }
        }
        let (mut best, mut least) = (0.5 * self.spacing, f64::INFINITY);
        let mut moved = 0.0;
        for (j, more) in beyond.iter().enumerate().take(CHOICES) {
            moved += more;
            let cost = choice(j) + self.spacing * moved / total.max(f64::MIN_POSITIVE);
            if cost < least {
                (best, least) = (choice(j), cost);
            }
        }
        best
    }
}
