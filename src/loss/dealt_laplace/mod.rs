//! Laplace noise on batches into which records are dealt, for one record.
//!
//! The record is in one of the t batches of an epoch, each of which has an output x_i with Laplace noise of scale b. P is the distribution of the
//! outputs with the record and Q that without it. Their likelihood ratio is the mean W = ΣY_i/t of those of the batches,
//! Y_i = e^{(|x_i| − |x_i − 1|)/b}, which are independent under Q and lie in [e^{−1/b}, e^{1/b}]. Let Y'_i be Y_i moved to the two ends of its cell in an even partition of that interval, at random so that its mean
//! stays. Y' is above Y in the convex order, and 1 + γ(Y' − 1) below it for a γ next to 1 ([`batch`]). The law of ΣY'_i is on a lattice, and a
//! power of a Fourier transform gives it ([`lattice`](crate::loss::lattice)). So two pairs enclose that of the epoch: with W' = ΣY'_i/t, and with 1 + γ(W' − 1), which has the same
//! probabilities under Q (`docs/theory/random-allocation.md`, Propositions 6 and 13).
//!
//! | file | what |
//! |---|---|
//! | [`batch`] | the law of Y', and γ |
//! | [`epoch`] | E_Q[(W' − k)₊] and E_Q[(k − W')₊] |
//! | [`unknown`] | a tilted loss of which moments alone are known |
//! | [`threshold`] | the number k with its error |
//! | [`extremes`] | the largest loss |
//! | [`weighted`] | the atoms of the epoch under a tilt, and moments |
//! | [`loss`] | the privacy loss |
//! | [`little_noise`] | bounds on it where likelihood ratios have too wide a range for a lattice |

mod batch;
mod epoch;
mod extremes;
mod little_noise;
mod loss;
mod threshold;
mod unknown;
mod weighted;

pub(super) use loss::outcome;
