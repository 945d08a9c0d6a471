//! The privacy loss of random allocation: each record goes into exactly one of the t batches of an epoch.
//!
//! The pair of an epoch is P = Σ_i N(e_i, Σ)/t against Q = N(0, Σ) in one dimension for each batch, so that dP/dQ = W is a mean of t
//! independent log-normals of mean 1 under Q ([`bins`]). Everything follows from M(w) = E_Q[W^w] at complex w: the moments of the loss
//! are M(1 + z) where the record is removed and M(−z) where it is added. [`mellin`] computes M from the transform E_Q[W^n e^{−sW}]
//! along rays in s, [`kernel`] that transform, from power [`series`] of integrals over one log-normal. Where W is close to 1, M is a series in its [`central_moments`]. [`on_lattice`]
//! has the curve of a part of an epoch alone from the law of the sum of likelihood ratios. The proofs are in
//! `docs/theory/random-allocation.md`.

pub(crate) mod bins;
mod central_moments;
mod decay;
mod ends;
mod excess;
pub(crate) mod groups;
mod kernel;
mod large_batch;
mod large_outcomes;
mod large_powers;
pub(crate) mod large_ratio;
mod little_noise;
mod log_normal;
mod loss;
mod many_large;
mod mellin;
mod modulus;
mod normal_rule;
mod on_lattice;
mod on_line;
mod one_large;
mod pairs;
mod places;
mod rows;
mod series;
mod shifted;
mod spacings;
mod table;
mod threshold;
mod tilted;
mod tilting;
mod transform;
mod truncated_decay;
mod truncated_law;
mod truncated_tilted;
mod turned;
mod vertical_line;
mod whole_tilted;
mod windows;
