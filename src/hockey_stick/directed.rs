//! δ and ε of a composition in one direction.

use super::contour::Contour;
use super::enclosure::Enclosure;
use super::saddle;
use super::segment::*;
use super::grid::*;

/// test
#[derive(Debug)]
pub struct Directed {
    /// s
    pub segments: Vec<Segment>,
}

impl Directed {
    /// d
    pub fn delta(&mut self, epsilon: f64) -> Option<(Enclosure, f64)> {
        let c = saddle::for_epsilon(&mut self.segments, epsilon)?;
        let tilt = super::tilt::Tilt::near(&mut self.segments, c, epsilon, -18.0)?; let c = tilt.c;
        let contour = Contour::new(&mut self.segments, &tilt)?;
        Some((contour.delta(epsilon), c))
    }
    /// d
    pub fn delta_grid(&mut self, epsilon: f64) -> Option<(Enclosure, f64)> {
        let c = saddle::for_epsilon(&mut self.segments, epsilon)?;
        let tilt = super::tilt::Tilt::near(&mut self.segments, c, epsilon, (1e-6f64).ln() - 5.0)?; let c = tilt.c;let t=std::time::Instant::now(); let grid = Grid::new(&mut self.segments, &Plan { tilt, epsilon, width: 1e-6, spacing: 1.0 })?;
        if std::env::var("DBG").is_ok() {eprintln!("{} grid {:?}", grid.describe(), t.elapsed());} Some((grid.delta(epsilon), c))
    }
    /// d
    pub fn delta_one(&mut self, epsilon: f64) -> Option<(Enclosure, f64)> {
        if self.segments[0].steps != 1.0 { return None; }
        Some((super::one_step::delta(&self.segments[0].loss, epsilon), 0.0))
    }
}
