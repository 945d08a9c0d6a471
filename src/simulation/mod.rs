//! δ by Monte Carlo simulation, with confidence intervals, and from given samples of the loss.

pub mod confidence;
pub mod monte_carlo;
mod polynomial;
mod random;
pub mod sampler;
pub mod samples;
pub mod tasks;
