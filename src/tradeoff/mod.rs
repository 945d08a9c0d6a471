//! How often the members of a group are in the batches of a whole run, by shuffling or by subsampling.
//!
//! With whole batches or parts of them clipped as one ("Generalizing DP-SGD with shuffling and batch clipping",
//! cited as SHUFFLE), a group moves round b by at most L_b clipping norms, the number of clipped units of the round
//! that hold a member, and the run is a Gaussian mechanism with the random sensitivity c = √(Σ_b L_b²)
//! (SHUFFLE Definition 5.1). [`occupancy`] has the law of the number of units that are hit, [`membership`] the law
//! of c². Both are exact up to bounds that they state, from sums of positive terms.

mod convolution;
mod counts;
pub mod membership;
pub mod occupancy;
mod plan;
mod rounds;
