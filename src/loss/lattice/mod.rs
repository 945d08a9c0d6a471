//! Sums of independent random variables on a lattice.
//!
//! | file | what |
//! |---|---|
//! | [`places`] | the law of one variable: probabilities of the places 0, 1, … of the lattice |
//! | [`sum`] | the law of a sum, by powers of Fourier transforms under a tilt |
//! | [`excess`] | E[(K − k)₊] and E[(k − K)₊] of a sum K |

pub(in crate::loss) mod excess;
pub(in crate::loss) mod places;
pub(in crate::loss) mod sum;
