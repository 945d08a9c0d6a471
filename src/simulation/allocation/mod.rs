//! Monte Carlo for batches into which records are dealt (`docs/theory/allocation-estimate.md`). Each module uses those above it:
//!
//! | module | does |
//! |---|---|
//! | `epochs` | a run as independent epochs |
//! | `ratio` | the likelihood ratio of an epoch at an output, from a generating function |
//! | `occupancy` | draws of how many balls are in each batch |
//! | `power_tilt` | outputs under a law with more balls than members: losses of removed records |
//! | `mean_law` | the law of the mean ratio of one record: Laplace transforms and lower tails |
//! | `inverse_tilt` | outputs under a law with a small mean ratio: losses of added records |
//! | `concentration` | how far the ratio of a group is below the power of the mean ratio |
//! | `proposal` | the law that is drawn from, and the variable whose mean is δ |
//! | `estimate` | all samples, and the interval |

mod concentration;
mod epochs;
mod estimate;
mod inverse_tilt;
mod mean_law;
mod occupancy;
mod power_tilt;
mod proposal;
mod ratio;

pub use estimate::{allocation_monte_carlo_delta, run_monte_carlo_delta};
