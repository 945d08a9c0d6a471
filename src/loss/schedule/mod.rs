//! The privacy loss of a noise schedule: the sum of the losses of very many different steps, from those of a few hundred.
//!
//! log E[e^{zℓ}] = K(z; v, q) of one step is an analytic function of log v, v = 1/σ², and of the logarithm of the sample rate q. So
//! it is a polynomial in both up to a tiny error, and the sum over all steps, Σ_i K(z; v_i, q_i) = Σ_j W_j K(z; v_j, q_j), needs K
//! at a few nodes (v_j, q_j) only: the weights W_j do not depend on z. `docs/theory/noise-schedules.md` has the proofs of the error
//! (Theorem 3) and of how the characteristic function decays beyond the last frequency (Propositions 4 and 5).
//!
//! [`axis`] interpolates in one variable, [`cell`] bounds what that is off by on a range of noise and rates, [`level`] cuts a
//! schedule into such ranges, [`sum`] is the loss, and [`merging`] finds the schedules in a run.

mod axis;
mod cell;
mod kind;
mod level;
mod merging;
mod sum;
mod tilted;

pub(crate) use merging::merged;
