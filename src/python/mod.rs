//! The Python extension `hockeystick._core`: argument conversion, releasing the GIL; no mathematics.
//!
//! The allowed `unsafe_code` is what PyO3's macros generate; this crate writes none itself.
#![allow(unsafe_code)]
// A Python function has the arguments that Python passes.
#![allow(clippy::too_many_arguments)]

mod arrays;
mod auditing;
mod bins;
mod convert;
mod exact;
mod individual;
mod kernels;
mod monitor;
mod renyi;
mod runner;
mod runs;
mod shuffled;
mod tradeoff;
mod vocabulary;
mod words;

use pyo3::prelude::*;

/// Compiled kernels of hockeystick; use the functions of `hockeystick` and `hockeystick.kernels` instead.
#[pymodule]
mod _core {
    #[pymodule_export]
    use super::auditing::{one_run_epsilon_lower_bound, probability_at_least};
    #[pymodule_export]
    use super::bins::correlated_bins_interval;
    #[pymodule_export]
    use super::exact::{Composition, black_box_delta, black_box_epsilon, meet_bounds, solve};
    #[pymodule_export]
    use super::individual::{IndividualAccounts, accumulate_rdp, histories_epsilons};
    #[pymodule_export]
    use super::kernels::{
        Simulation, binomial_law, hockey_stick, hypergeometric_law, log_likelihood_ratio, monte_carlo_delta,
        poisson_binomial_law, rdp_to_delta, rdp_to_epsilon, renyi_group_bound, renyi_mixture,
        run_monte_carlo_delta,
    };
    #[pymodule_export]
    use super::renyi::{group_rdp, renyi_calibrate, renyi_calibrate_dp};
    #[pymodule_export]
    use super::runs::{history_delta, history_epsilon, history_renyi};
    #[pymodule_export]
    use super::shuffled::shuffled_interval;
    #[pymodule_export]
    use super::tradeoff::{TradeoffCurve, membership_law, pattern_law};
    use super::{Bound, PyModule, PyResult};

    /// Makes what all threads share and make at its first use, which a process that is forked meanwhile would wait for.
    #[pymodule_init]
    fn prepare(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::special::gauss_legendre::GaussLegendre::get();
        crate::individual::prepare();
        crate::tradeoff::prepare();
        Ok(())
    }

    #[pymodule_export]
    #[allow(non_upper_case_globals)] // Python's name for it
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
