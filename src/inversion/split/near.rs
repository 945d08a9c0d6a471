//! The runs whose losses are all below gates.

use crate::inversion::segment::Segment;
use crate::loss::gate::Separation;

/// The parts of all segments below gates, and at most `reach` widths of a gate above it, in as many steps.
pub(super) fn near_parts(segments: &[Segment], gates: &[Separation], reach: f64) -> Option<Vec<Segment>> {
    let part = |(segment, gate): (&Segment, &Separation)| {
        Some(Segment {
            loss: segment.loss.near_part(*gate, reach)?,
            steps: segment.steps,
        })
    };
    segments.iter().zip(gates).map(part).collect()
}
