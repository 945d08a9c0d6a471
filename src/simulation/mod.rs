//! δ by Monte Carlo simulation, with confidence intervals, and from given samples of the loss. Each module uses those above it:
//!
//! | module | does |
//! |---|---|
//! | `settings` | segments, settings and estimates |
//! | `confidence` | intervals for the mean of a variable in [0, 1] |
//! | `samples` | δ of the empirical law of given losses |
//! | `random` | blocks of random words |
//! | `alias` | draws of a cell |
//! | `polynomial` | the loss on a short interval as a polynomial |
//! | `density_cells` | the line cut into such intervals |
//! | `sampler` | draws of one step's loss |
//! | `tilted_run` | draws and estimate of a run under a tilted law |
//! | `tasks` | a run in tasks that any thread or machine may draw |
//! | `monte_carlo` | δ(ε) by all tasks of a run |
//! | `allocation` | the same for batches into which records are dealt |

mod alias;
mod allocation;
mod confidence;
mod density_cells;
mod monte_carlo;
mod polynomial;
mod random;
mod sampler;
mod samples;
mod settings;
mod tasks;
mod tilted_run;

pub use allocation::{allocation_monte_carlo_delta, run_monte_carlo_delta};
pub use confidence::Sample;
pub use monte_carlo::monte_carlo_delta;
pub use samples::hockey_stick;
pub use settings::{Estimate, Segment, Settings};
pub use tasks::Simulation;
