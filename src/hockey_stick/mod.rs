//! Hockey-stick divergences δ(ε) = E_P[(1 − e^{ε − loss})₊]: from samples of the loss and by Monte Carlo.

pub mod black_box;
mod cell_sizes;
mod cells;
mod chernoff;
mod coin_count;
pub mod composition;
mod contour;
pub mod directed;
pub mod enclosure;
mod grid;
pub mod interval;
mod inverse;
mod loss_polynomial;
mod loss_table;
pub mod monitor;
pub mod monte_carlo;
mod one_step;
mod saddle;
pub mod samples;
pub mod segment;
mod settling;
mod split;
mod sweep;
mod tilt;
mod truncated;
pub mod unknowns;
mod words;
