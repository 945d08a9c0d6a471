//! The lattice of panels of a piece, which its parts behind gates share.
//!
//! Panels are dyadic intervals in standard deviations of the noise from an origin: the end that the piece has by its nature or by a truncation, or the output
//! 0. Where a part is cut off hardly matters, so that it is cut off at the end of a cell, and its panels are those of the whole piece.

use crate::loss::smooth_piece::Piece;
use crate::special::adaptive::Address;

/// log₂ of the length of the cells, in standard deviations of the noise, at whose ends pieces end. Losses that are truncated farther out need more points: with
/// cells of half a standard deviation an ε of one record took a quarter longer.
const CELL: i32 = -3;
/// Cells of which the parts below gates end at a multiple, as far out as they are: what is there is negligible.
const CELLS_OF_PARTS: f64 = 4.0;
/// Cells from the origin of a lattice that are told from each other.
const MOST_CELLS: f64 = 1e15;

impl Piece {
    /// The outputs up to `output`, if they do not end before. A piece without a start ends there, and its lattice starts there; one with a start may end a little
    /// beyond.
    pub(crate) fn truncated(mut self, output: f64) -> Self {
        if self.start.is_finite() {
            self.cut(output, 1.0);
        } else if output < self.end {
            (self.origin, self.end, self.end_cell) = (output, output, Some(0));
        }
        self
    }

    /// Ends a part at an output or less than half a standard deviation of the noise beyond.
    pub(crate) fn cut_near(&mut self, output: f64) {
        self.cut(output, CELLS_OF_PARTS);
    }

    /// Ends the piece at an output or less than that many cells beyond, at a multiple of them; at least a cell of it is left. One that is out of reach, or infinite, is no
    /// end.
    fn cut(&mut self, output: f64, cells: f64) {
        let width = self.noise_multiplier() * f64::from(CELL).exp2();
        let place = ((output - self.origin) / (width * cells)).ceil() * cells;
        if place.is_nan() || place >= MOST_CELLS {
            return;
        }
        let cell = place.max(-MOST_CELLS) as i64;
        let cell = if self.start.is_finite() { cell.max(1) } else { cell };
        if self.end_cell.is_none_or(|end| cell < end) {
            self.end_cell = Some(cell);
            self.end = self.origin + cell as f64 * width;
        }
    }

    /// The centre and half of the width of a panel of the lattice: [index, index + 1]·2^level·σ from its origin.
    pub(crate) fn interval(&self, (level, index): (i32, i64)) -> (f64, f64) {
        let address = Address { piece: 0, level, index };
        let (centre, half_width) = address.centre_and_half_width(self.noise_multiplier());
        (self.origin + centre, half_width)
    }

    /// The parts of panels that lie within the piece, those across its end halved as often as it takes.
    pub(crate) fn within(&self, mut panels: Vec<(i32, i64)>) -> Vec<(i32, i64)> {
        let Some(end) = self.end_cell else { return panels };
        let mut found = Vec::new();
        while let Some((level, index)) = panels.pop() {
            let cell = |index: i64| index as f64 * f64::from(level - CELL).exp2();
            if cell(index + 1) <= end as f64 {
                found.push((level, index));
            } else if cell(index) < end as f64 {
                panels.extend([(level - 1, 2 * index + 1), (level - 1, 2 * index)]);
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::MixturePair;
    use crate::loss::gate::Gate;
    use crate::loss::smooth::SmoothLoss;
    use crate::loss::smooth_piece::Scratch;
    use crate::special::gauss_legendre::GaussLegendre;
    use crate::step::GroupLaw;
    use std::sync::Arc;

    const SIGMA: f64 = 0.7;

    fn piece(start: f64, end: f64) -> Piece {
        let pair = Arc::new(MixturePair::new(&GroupLaw::binomial(3, 0.1).unwrap(), SIGMA).unwrap());
        Piece::new(&pair, (true, false), start, end)
    }

    /// Panels cover a piece that was cut up to its end, and no output twice.
    #[test]
    fn panels_cover_a_piece_once() {
        for (start, cut) in [
            (f64::NEG_INFINITY, 9.1),
            (f64::NEG_INFINITY, -2.3),
            (0.4, 5.0),
            (0.4, 0.1),
        ] {
            let whole = piece(start, f64::INFINITY);
            let mut near = whole.clone();
            near.cut_near(cut);
            for of in [near, whole.truncated(cut)] {
                let below = of.start.is_infinite().then_some((5, -1));
                let panels = of.within(below.into_iter().chain([(5, 0)]).collect());
                let mut ends: Vec<(f64, f64)> = panels
                    .iter()
                    .map(|panel| of.interval(*panel))
                    .map(|(centre, half_width)| (centre - half_width, centre + half_width))
                    .collect();
                ends.sort_by(|a, b| a.0.total_cmp(&b.0));
                let first = if start.is_finite() {
                    start
                } else {
                    of.origin - 32.0 * SIGMA
                };
                assert!((ends[0].0 - first).abs() < 1e-12, "{start} {cut}: {ends:?}");
                assert!(
                    (ends[ends.len() - 1].1 - of.end).abs() < 1e-12,
                    "{start} {cut}: {ends:?}"
                );
                assert!(
                    ends.windows(2).all(|two| (two[0].1 - two[1].0).abs() < 1e-12),
                    "{ends:?}"
                );
            }
        }
    }

    /// A part ends less than half a standard deviation beyond an output, and is never longer than the piece; what is truncated ends at the output.
    #[test]
    fn pieces_end_where_they_are_cut() {
        for cut in [-3.0, 0.2, 7.77] {
            let whole = piece(f64::NEG_INFINITY, f64::INFINITY);
            let mut part = whole.clone();
            part.cut_near(cut);
            assert!(part.end >= cut && part.end < cut + 0.5 * SIGMA, "{cut}: {}", part.end);
            let truncated = whole.truncated(cut);
            assert_eq!((truncated.end, truncated.origin), (cut, cut));
            let mut part = truncated.clone();
            part.cut_near(cut + 1.0);
            assert_eq!(part.end, cut);
            part.cut_near(cut - 1.0);
            assert!(part.end >= cut - 1.0 && part.end < cut, "{cut}: {}", part.end);
            assert_eq!(truncated.truncated(cut + 1.0).end, cut);
        }
        let mut endless = piece(f64::NEG_INFINITY, f64::INFINITY);
        endless.cut_near(f64::INFINITY);
        assert_eq!((endless.end, endless.end_cell), (f64::INFINITY, None));
        // A piece with a start keeps a cell.
        let mut short = piece(0.4, f64::INFINITY);
        short.cut_near(0.1);
        assert!(short.end > 0.4 && short.end <= 0.4 + SIGMA, "{}", short.end);
    }

    /// The points of a panel behind a gate are those of the whole piece with the probability of the gate, wherever they were asked for first.
    #[test]
    fn parts_have_the_panels_of_the_whole_piece() {
        let whole = SmoothLoss::new(vec![piece(f64::NEG_INFINITY, f64::INFINITY).truncated(6.0)], 0.0);
        let gate = Gate::above(1.0, 0.3);
        let address = Address {
            piece: 0,
            level: 1,
            index: -3,
        };
        let mut scratch = Scratch::default();
        for mut part in [whole.part(gate).unwrap(), whole.part(gate.below()).unwrap()] {
            let of = part.pieces[0].clone();
            let panel = of.panel(&part.lattices[0], (address.level, address.index), &mut scratch);
            let points = part.points_of(address).unwrap();
            let outputs = GaussLegendre::get().points(panel.centre(), panel.half_width());
            for ((output, weight), point) in outputs.zip(&points.points) {
                let direct = of.point(output, &mut scratch);
                let log_density = direct.log_density + weight.ln();
                assert!(
                    (point.log_density - log_density).abs() < 1e-13 * (1.0 + log_density.abs()),
                    "{output}"
                );
                assert!((point.loss - direct.loss).abs() < 1e-14, "{output}");
            }
            assert!(Arc::ptr_eq(&part.lattices[0], &whole.lattices[0]));
        }
    }
}
