//! δ of a sum of losses by discretisation on a grid: an upper and a lower law of each loss, and their convolutions.

mod cell_sizes;
mod cells;
mod chunk;
pub(crate) mod composition;
mod fine_atoms;
mod frame;
mod laws;
pub(crate) mod sweep;
mod window;
