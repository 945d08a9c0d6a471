//! Numbers and numerics that know nothing of privacy.

pub mod compensated_sum;
pub mod extended;
pub mod gauss_legendre;
pub mod log_space;
pub mod normal;
pub mod root;
