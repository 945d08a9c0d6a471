//! Sums of many terms without the rounding error of each addition (Neumaier 1974).

/// A running sum that carries along what each addition rounds off.
///
/// The result is within 2u·|sum| + O(n²u²)·Σ|terms| of the exact sum of n terms, u = 2⁻⁵³, where plain addition may be off by nu·Σ|terms|.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompensatedSum {
    sum: f64,
    carry: f64,
}

impl CompensatedSum {
    /// Adds a term.
    pub(crate) fn add(&mut self, term: f64) {
        let sum = self.sum + term;
        let lost = if self.sum.abs() > term.abs() {
            (self.sum - sum) + term
        } else {
            (term - sum) + self.sum
        };
        self.sum = sum;
        self.carry += if lost.is_finite() { lost } else { 0.0 };
    }

    /// Multiplies the sum by a factor.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.sum *= factor;
        self.carry *= factor;
    }

    /// The sum of all terms.
    pub(crate) fn value(self) -> f64 {
        self.sum + self.carry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_beside_a_large_one_are_not_lost() {
        let (mut plain, mut sum) = (1.0, CompensatedSum::default());
        sum.add(1.0);
        for _ in 0..1_000_000 {
            plain += 1e-16;
            sum.add(1e-16);
        }
        assert_eq!(plain, 1.0);
        assert!((sum.value() - (1.0 + 1e-10)).abs() < 3e-16);
        sum.scale(2.0);
        assert!((sum.value() - (2.0 + 2e-10)).abs() < 6e-16);
    }
}
