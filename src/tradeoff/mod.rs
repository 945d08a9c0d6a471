//! Trade-off functions (f-DP): curves and their algebra; shuffling and batch clipping.
pub mod composed;
pub mod convex;
pub mod curve;
pub mod polygon;
pub mod readouts;
pub mod straightened;
