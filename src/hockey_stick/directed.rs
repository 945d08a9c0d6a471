//! δ and ε of a composition in one direction.

use super::contour::Contour;
use super::enclosure::Enclosure;
use super::saddle;
use super::segment::Segment;

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
        let contour = Contour::new(&mut self.segments, c, epsilon, -16.0)?;
        Some((contour.delta(epsilon), c))
    }
}
