//! δ(ε) of the empirical law of given privacy losses.

use crate::error::{Result, require};
use crate::stopping::carried;
use crate::threads::in_pool;
use rayon::prelude::*;

/// Losses summed in one piece: fixed, so that the sum does not depend on the number of threads.
const PIECE: usize = 1 << 14;

/// Mean of (1 − e^{ε − loss})₊ over `losses`, for each ε.
///
/// A loss of +∞ counts 1 (the outcome is impossible under Q), one of −∞ counts 0.
///
/// # Errors
/// No loss at all, a NaN among them, an ε that is not finite.
///
/// # Example
/// ```
/// use hockeystick::simulation::hockey_stick;
/// let delta = hockey_stick(&[0.0, 1.0], &[0.5])?;
/// assert!((delta[0] - 0.5 * (1.0 - (-0.5f64).exp())).abs() < 1e-15);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn hockey_stick(losses: &[f64], epsilons: &[f64]) -> Result<Vec<f64>> {
    require(
        !losses.is_empty(),
        "log_ratio",
        format_args!("an empty array"),
        "of at least one sample",
    )?;
    if losses.iter().any(|loss| loss.is_nan()) {
        require(false, "log_ratio", f64::NAN, "free of NaN")?;
    }
    for &epsilon in epsilons {
        require(epsilon.is_finite(), "epsilon", epsilon, "finite")?;
    }
    Ok(epsilons
        .iter()
        .map(|&epsilon| {
            let sum = |piece: &[f64]| -> f64 { piece.iter().map(|&loss| excess(loss, epsilon)).sum() };
            let sum = carried(sum);
            let pieces: Vec<f64> = in_pool(|| losses.par_chunks(PIECE).map(sum).collect());
            pieces.iter().sum::<f64>() / losses.len() as f64
        })
        .collect())
}

/// (1 − e^{ε − loss})₊.
fn excess(loss: f64, epsilon: f64) -> f64 {
    if loss > epsilon {
        -(epsilon - loss).exp_m1()
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_outcomes_count_fully() {
        let losses = [f64::INFINITY, f64::NEG_INFINITY, 1.0, 0.0];
        let delta = hockey_stick(&losses, &[0.5, 2.0]).unwrap();
        assert!((delta[0] - (1.0 - (-0.5f64).exp_m1()) / 4.0).abs() < 1e-16);
        assert_eq!(delta[1], 0.25);
        assert!(hockey_stick(&[], &[0.0]).is_err() && hockey_stick(&[f64::NAN], &[0.0]).is_err());
    }

    #[test]
    fn many_pieces_add_up_to_a_geometric_series() {
        // Losses ε + id for i = 0..n: Σ (1 − e^{−id}) = n − (1 − e^{−nd})/(1 − e^{−d}).
        let (count, step) = (2 * PIECE + 17, 1e-4);
        let losses: Vec<f64> = (0..count).map(|i| 0.3 + i as f64 * step).collect();
        let n = count as f64;
        let exact = 1.0 - (-n * step).exp_m1() / (-step).exp_m1() / n;
        let found = hockey_stick(&losses, &[0.3]).unwrap()[0];
        assert!((found - exact).abs() < 1e-12, "{found} {exact}");
    }
}
