//! Hockey-stick divergences δ(ε) = E_P[(1 − e^{ε − loss})₊]: from samples of the loss and by Monte Carlo.

pub mod interval;
mod loss_polynomial;
mod loss_table;
pub mod monitor;
pub mod monte_carlo;
pub mod samples;
mod words;
