//! A smooth piece of a Laplace loss as a curve that a grid sweeps.

use crate::loss::laplace::LaplaceLoss;
use crate::loss::loss_curve::LossCurve;
use crate::loss::smooth_piece::{Point, Scratch};
use crate::step::Direction;

/// One smooth piece [j, j + 1] of a branch of a Laplace loss, run backwards for "add" so that the loss grows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaplaceCurve<'a> {
    /// The loss.
    pub loss: &'a LaplaceLoss,
    /// The branch's pair.
    pub direction: Direction,
    /// j.
    pub piece: usize,
}

impl LaplaceCurve<'_> {
    /// The coordinates of the piece's ends, ascending in the loss.
    pub(crate) fn ends(&self) -> (f64, f64) {
        let (low, high) = (self.piece as f64, (self.piece + 1) as f64);
        match self.direction {
            Direction::Remove => (low, high),
            Direction::Add => (-high, -low),
        }
    }
}

impl LossCurve for LaplaceCurve<'_> {
    fn point(&self, x: f64, _: &mut Scratch) -> Point {
        let sign = self.direction.sign();
        let output = sign * x;
        let (log_ratio, slope) = self.loss.log_ratio(self.piece, output);
        Point {
            loss: sign * log_ratio,
            slope,
            log_density: self.loss.log_density(self.direction, output, log_ratio),
            size: (self.loss.log_ratio_error(self.piece, output, log_ratio) + self.loss.log_factor().error)
                / f64::EPSILON,
        }
    }
    fn reach(&self, _: f64, _: bool, _: &Scratch) -> f64 {
        // A stand-in for that distance: densities are sums of e^{±x/b}, whose n-th derivatives are at most b^{−n} times themselves, so that
        // widths for a Gaussian two deviations away suffice.
        2.0
    }
    fn scale(&self) -> f64 {
        self.loss.scale()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::GroupLaw;

    /// The probabilities under P and Q of a piece and of all atoms add up to 1, and the slope is that of the loss.
    #[test]
    fn curves_and_atoms_have_all_the_mass_of_both_laws() {
        for kind in [Some(Direction::Add), Some(Direction::Remove), None] {
            for (records, rate, scale) in [(1, 0.3, 0.7), (3, 0.1, 2.0)] {
                let law = GroupLaw::binomial(records, rate).unwrap();
                let loss = match kind {
                    Some(direction) => LaplaceLoss::new(&law, scale, direction),
                    None => LaplaceLoss::mirrored(&law, scale),
                };
                let mut scratch = Scratch::default();
                let (mut p, mut q) = (0.0, 0.0);
                for atom in loss.atoms() {
                    p += atom.log_mass.exp();
                    q += (atom.log_mass - atom.loss).exp();
                }
                for (_, branch, piece) in loss.all_pieces() {
                    let curve = LaplaceCurve {
                        loss: &loss,
                        direction: branch.direction,
                        piece,
                    };
                    let (start, end) = curve.ends();
                    let step = (end - start) / 20_000.0;
                    for i in 0..20_000 {
                        let x = start + (f64::from(i) + 0.5) * step;
                        let point = curve.point(x, &mut scratch);
                        p += step * point.log_density.exp();
                        q += step * (point.log_density - point.loss).exp();
                        if i % 5000 == 0 {
                            let beyond = curve.point(x + 1e-6, &mut scratch);
                            let slope = (beyond.loss - point.loss) / 1e-6;
                            assert!((slope - point.slope).abs() < 1e-5, "{slope} {point:?}");
                        }
                    }
                }
                assert!(
                    (p - 1.0).abs() < 1e-8 && (q - 1.0).abs() < 1e-8,
                    "{records} {kind:?}: {p} {q}"
                );
            }
        }
    }
}
