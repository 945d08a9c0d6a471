//! One gate for all parts of a step with a public outcome, which separates the losses around the common one from larger ones.
//!
//! The i-th part has outputs x_i of its own, so that a gate ([`crate::loss::gate`]) has to mean an output of each. The outputs t of one
//! part, the reference, stand for all: a gate at t is one at a_i + b_i t in part i, and b_i times as wide. As the maps are the same for
//! all gates, gates of one width at increasing t are gates of one width in every part, and what lies between them adds up, whatever the
//! maps are. They are chosen such that two losses ([`LEVELS`]) have one place in all parts, so that a gate separates about the same
//! losses in each: in fixed batches, where the members that are there are published, all losses have one place.
//!
//! A part without losses is near as a whole, and one that is rarely as little as the common loss is far as a whole.

use crate::loss::gate::{Gate, Separation};
use crate::loss::privacy_loss::StepLoss;

/// Losses above the common one that have one place in all parts. Gates are tried at fractions of ε, which is between them or a few times
/// larger: the maps of different pairs disagree by less there than a gate is wide.
const LEVELS: [f64; 2] = [0.03, 1.0];
/// Largest distance of two components in the reference, in standard deviations of the noise. Beyond it nearly every output shows whether a
/// member is in the batch, the losses around the common one are an atom, and grids serve better. Measured for δ(0) of three
/// steps on truncated samples: at a distance of 4 it has seven digits in 0.07 s with gates, and five in 0.9 s without; at a distance of 5
/// it has six digits without gates, and none with them.
const LARGEST_DISTANCE: f64 = 4.5;

/// The map from outputs of the reference to outputs of one part: x = a + bt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Map {
    /// a.
    start: f64,
    /// b > 0.
    scale: f64,
    /// The widest gate that suits the part, in outputs of the reference.
    widest: f64,
}

impl Map {
    /// The gate of the reference, in outputs of this part.
    pub(super) fn gate(&self, gate: Gate) -> Gate {
        Gate {
            from: self.start + self.scale * gate.from,
            to: self.start + self.scale * gate.to,
            width: self.scale * gate.width,
        }
    }
}

/// The side on which a part is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// It has no loss, and is near.
    Near,
    /// It is far: nothing is known of outputs with the common loss.
    Far,
    /// It has a gate.
    Gated(Map),
}

/// The places of all parts.
#[derive(Debug, Clone)]
pub(super) struct Gates {
    pub(super) places: Vec<Place>,
    /// The part whose outputs stand for all: of those with a gate the most probable one.
    reference: usize,
    /// Its common loss, that of the step.
    pub(super) common_loss: f64,
}

impl Gates {
    /// The places of parts with the logs of their probabilities; `None` where no part has a gate, or where a part
    /// without one cannot be copied.
    pub(super) fn new(parts: &[(f64, StepLoss)]) -> Option<Self> {
        let has_gates = |&i: &usize| ends(&parts[i].1).is_some();
        let by_weight = |i: &usize, j: &usize| parts[*i].0.total_cmp(&parts[*j].0);
        let reference = (0..parts.len()).filter(has_gates).max_by(by_weight)?;
        let common_loss = parts[reference].1.common_loss()?;
        (parts[reference].1.widest_distance()? <= LARGEST_DISTANCE).then_some(())?;
        let own = ends(&parts[reference].1)?;
        let place = |(_, loss): &(f64, StepLoss)| match ends(loss) {
            Some([low, high]) => {
                let scale = (high.from - low.from) / (own[1].from - own[0].from);
                let map = Map {
                    start: low.from - scale * own[0].from,
                    scale,
                    widest: low.width / scale,
                };
                (scale.is_finite() && scale > 0.0).then_some(Place::Gated(map))
            }
            None if copy(loss).is_none() => None,
            None if loss.single_gaussian() == Some(0.0) => Some(Place::Near),
            None => Some(Place::Far),
        };
        Some(Self {
            places: parts.iter().map(place).collect::<Option<_>>()?,
            reference,
            common_loss,
        })
    }

    /// The gate at a loss of about `level` in every part.
    pub(super) fn separation(&self, parts: &[(f64, StepLoss)], level: f64, width: f64) -> Option<Separation> {
        let gate = parts[self.reference].1.separation(level, width)?.gate()?;
        let widest = |place: &Place| match place {
            Place::Gated(map) => map.widest,
            Place::Near | Place::Far => f64::INFINITY,
        };
        let width = self.places.iter().map(widest).fold(gate.width, f64::min);
        Some(Separation::Gate(Gate { width, ..gate }))
    }

    /// The places and the reference of the parts that `is_left` leaves.
    pub(super) fn retain(&self, is_left: impl Fn(&Place) -> bool) -> Self {
        let left = |places: &[Place]| {
            places
                .iter()
                .copied()
                .filter(|place| is_left(place))
                .collect::<Vec<_>>()
        };
        Self {
            reference: left(&self.places[..self.reference]).len(),
            places: left(&self.places),
            common_loss: self.common_loss,
        }
    }
}

/// The gates of a part at both [`LEVELS`] above its common loss, as wide as they may be; `None` where it has no such losses.
fn ends(loss: &StepLoss) -> Option<[Gate; 2]> {
    let common = loss.common_loss()?;
    let at = |level: f64| loss.separation(common + level, f64::INFINITY)?.gate();
    Some([at(LEVELS[0])?, at(LEVELS[1])?])
}

/// A copy of a loss that lacks nothing; `None` where there is none.
pub(super) fn copy(loss: &StepLoss) -> Option<StepLoss> {
    let (copy, log_lost) = loss.truncated(f64::NEG_INFINITY, 1.0);
    (log_lost == f64::NEG_INFINITY).then_some(copy)
}
