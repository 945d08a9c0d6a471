//! The number with which the likelihood ratio of an epoch is compared.

/// A number k, and k − 1, each with a bound on its error: where k is next to 0 the one has digits, where it is next to 1 the other.
#[derive(Debug, Clone, Copy)]
pub(super) struct Threshold {
    /// k.
    pub(super) ratio: f64,
    pub(super) ratio_error: f64,
    /// k − 1.
    pub(super) excess: f64,
    pub(super) excess_error: f64,
}

impl Threshold {
    /// k = e^`log`.
    pub(super) fn of_log(log: f64) -> Self {
        let (ratio, excess) = (log.exp(), log.exp_m1());
        Self {
            ratio,
            ratio_error: 2.0 * f64::EPSILON * ratio,
            excess,
            excess_error: 2.0 * f64::EPSILON * excess.abs(),
        }
    }

    /// 1 + (k − 1)/γ: 1 + γ(W − 1) is above k where W is above this. It is negative where k is below 1 − γ.
    pub(super) fn contracted(self, contraction: f64) -> Self {
        let rest = 1.0 - contraction;
        let ratio = (self.ratio - rest) / contraction;
        let excess = self.excess / contraction;
        let of_ratio = self.ratio_error + f64::EPSILON * (self.ratio.abs() + rest);
        Self {
            ratio,
            ratio_error: of_ratio / contraction + f64::EPSILON * ratio.abs(),
            excess,
            excess_error: self.excess_error / contraction + f64::EPSILON * excess.abs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// e^−40 and 1 + 2⁻⁶⁰ keep their digits, the one in k and the other in k − 1; so does the number that a contraction by 1/2 belongs to.
    #[test]
    fn either_number_keeps_its_digits_somewhere() {
        let small = Threshold::of_log(-40.0);
        // mpmath: exp(-40).
        assert!((small.ratio - 4.248_354_255_291_589e-18).abs() <= small.ratio_error && small.excess == -1.0);
        let near = Threshold::of_log(0.5f64.powi(60));
        assert!((near.excess - 0.5f64.powi(60)).abs() <= near.excess_error && near.ratio == 1.0);
        let twice = near.contracted(0.5);
        assert!((twice.excess - 0.5f64.powi(59)).abs() <= twice.excess_error && twice.excess_error < 1e-32);
        // 1 + (e^−0.5 − 1)/0.5, in both ways.
        let other = Threshold::of_log(-0.5).contracted(0.5);
        assert!((1.0 + other.excess - other.ratio).abs() <= other.ratio_error + other.excess_error + f64::EPSILON);
        assert!(small.contracted(0.5).ratio < 0.0);
    }
}
