//! δ by Monte Carlo simulation, with confidence intervals, and from given samples of the loss.

mod confidence;
mod monte_carlo;
mod polynomial;
mod random;
mod sampler;
mod samples;
mod tasks;

pub use confidence::Sample;
pub use monte_carlo::{Estimate, Segment, Settings, monte_carlo_delta};
pub use samples::hockey_stick;
pub use tasks::Simulation;
