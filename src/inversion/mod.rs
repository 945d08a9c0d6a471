//! δ of a sum of losses by inversion of its characteristic function off the real line.

pub mod characteristic_function;
pub mod chernoff;
pub mod contour;
pub mod saddle;
pub mod segment;
pub mod split;
pub mod tilt;
