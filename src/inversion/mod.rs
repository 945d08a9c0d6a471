//! δ of a sum of losses by inversion of its characteristic function off the real line.

pub(crate) mod chernoff;
pub(crate) mod cluster_runs;
pub(crate) mod contour;
pub(crate) mod contour_sum;
#[cfg(test)]
pub(crate) mod reference;
pub(crate) mod saddle;
pub(crate) mod segment;
pub(crate) mod smoothed;
pub(crate) mod split;
pub(crate) mod tilt;
pub(crate) mod tilt_lattice;
