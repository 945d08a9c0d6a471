//! Numbers and numerics that know nothing of privacy.

pub(crate) mod adaptive;
pub(crate) mod binomial;
pub(crate) mod chebyshev;
pub(crate) mod compensated_sum;
pub(crate) mod complex_gamma;
pub(crate) mod complex_logarithm;
pub(crate) mod exponential;
pub(crate) mod extended;
pub(crate) mod fourier;
pub(crate) mod gauss_legendre;
pub(crate) mod log_space;
pub(crate) mod normal;
pub(crate) mod root;
pub(crate) mod trigonometric;
pub(crate) mod vector;
