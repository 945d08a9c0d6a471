//! δ as the sum of what several contours say of disjoint sets of runs, and of bounds on the runs that none of them counts.

use crate::interval::Enclosure;
use crate::inversion::chernoff::MomentBound;
use crate::inversion::cluster_runs::closed_form::ClusterRuns;
use crate::inversion::contour::Contour;
use crate::special::log_space::LogSum;

/// Contours of disjoint sets of runs; most often one, of all runs.
#[derive(Debug, Default)]
pub(crate) struct ContourSum {
    contours: Vec<Contour>,
    /// Moments of sets of runs that no contour counts.
    neglected: Vec<MomentBound>,
    /// Runs in closed form.
    closed_form: Option<ClusterRuns>,
}

impl From<Contour> for ContourSum {
    fn from(contour: Contour) -> Self {
        Self {
            contours: vec![contour],
            ..Self::default()
        }
    }
}

impl ContourSum {
    /// With the runs that no contour counts because their δ has a closed form.
    pub(crate) fn with_closed_form(self, runs: ClusterRuns) -> Self {
        Self {
            closed_form: Some(runs),
            ..self
        }
    }

    /// Adds the runs that a contour counts.
    pub(crate) fn add(&mut self, contour: Contour) {
        self.contours.push(contour);
    }

    /// Adds runs S with E[e^{cS}] ≤ e^`log_moment`, c ≥ 0, whose part of δ is between 0 and e^{`log_moment` − cε}.
    pub(crate) fn neglect(&mut self, c: f64, log_moment: f64) {
        if log_moment > f64::NEG_INFINITY {
            self.neglected.push(MomentBound { c, log_moment });
        }
    }

    /// Number of contours.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.contours.len()
    }

    /// True for one contour at −1 < c < 0, where the integral is δ less the mass of the law.
    pub(crate) fn is_below_zero(&self) -> bool {
        matches!(self.contours.as_slice(), [one] if one.is_below_zero())
    }

    /// Work that the points took, in terms of densities.
    pub(crate) fn work(&self) -> u64 {
        self.contours.iter().map(Contour::work).sum()
    }

    /// δ(ε), certified.
    pub(crate) fn delta(&self, epsilon: f64) -> Enclosure {
        if let ([one], [], None) = (self.contours.as_slice(), self.neglected.as_slice(), &self.closed_form) {
            return one.delta(epsilon);
        }
        let (mut lower, mut upper) = (LogSum::default(), LogSum::default());
        for contour in &self.contours {
            let found = contour.delta(epsilon);
            lower.add(found.log_lower);
            upper.add(found.log_upper);
        }
        for moment in &self.neglected {
            let rounding = 4.0 * f64::EPSILON * (moment.log_moment.abs() + (moment.c * epsilon).abs());
            upper.add(moment.log_above(epsilon) + rounding);
        }
        if let Some(runs) = &self.closed_form {
            let found = runs.log_delta(epsilon, upper.ln());
            lower.add(found.0);
            upper.add(found.1);
        }
        let terms = self.contours.len() + self.neglected.len() + 1;
        Enclosure::of_logs(lower.ln() - rounding(lower, terms), upper.ln() + rounding(upper, terms))
    }
}

/// Rounding error of the logarithm of a sum: a few units for each term, and the last bit of the logarithm itself.
fn rounding(sum: LogSum, terms: usize) -> f64 {
    let log = sum.ln();
    let last = if log.is_finite() { log.abs() } else { 0.0 };
    f64::EPSILON * (4.0 * (terms + 1) as f64 + last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inversion::segment::Segment;
    use crate::loss::StepLoss;
    use crate::step::{Direction, GroupLaw};

    /// Two equal terms e^a add up to e^{a + log 2}: a sum of a and log 2 is rounded to the last bit of a, and their difference from a is exact.
    #[test]
    fn the_logarithm_of_a_tiny_sum_is_within_its_rounding() {
        let mut worst = 0.0f64;
        for i in 0..100 {
            let term = -1000.1 - 3.7 * f64::from(i);
            let mut sum = LogSum::default();
            sum.add(term);
            sum.add(term);
            let off = ((sum.ln() - term) - std::f64::consts::LN_2).abs();
            assert!(off <= rounding(sum, 2), "{term}: {off}");
            worst = worst.max(off);
        }
        // Far more than the four units for each term.
        assert!(worst > 12.0 * f64::EPSILON, "{worst}");
        assert!(rounding(LogSum::default(), 2).is_finite());
    }

    /// The closed form of some runs is added to both ends.
    #[test]
    fn runs_in_closed_form_are_added() {
        let law = GroupLaw::binomial(1, 0.2).unwrap();
        let loss = StepLoss::laplace(&law, 1.0, Direction::Remove).unwrap();
        let segments = [Segment { loss, steps: 3.0 }];
        let runs = || ClusterRuns::new(&segments, 0.0).unwrap();
        let alone = runs().log_delta(0.3, f64::NEG_INFINITY);
        let mut sum = ContourSum::default().with_closed_form(runs());
        let found = sum.delta(0.3);
        assert!((found.log_lower - alone.0).abs() < 1e-12 && (found.log_upper - alone.1).abs() < 1e-12);
        sum.neglect(0.0, 0.25f64.ln());
        let found = sum.delta(0.3);
        assert!((found.log_lower - alone.0).abs() < 1e-12);
        assert!((found.upper() - 0.25 - alone.1.exp()).abs() < 1e-12);
        assert!(!sum.is_below_zero());
    }

    /// Runs of probability p whose loss is far above ε have a δ of p in full; those at S have p(1 − e^{ε − S}) ≤ p·e^{c(S − ε)}.
    #[test]
    fn neglected_runs_count_in_full_at_the_upper_end_only() {
        let mut sum = ContourSum::default();
        sum.neglect(0.0, 0.25f64.ln());
        sum.neglect(2.0, 0.125f64.ln() + 2.0 * 1.5);
        sum.neglect(1.0, f64::NEG_INFINITY);
        let found = sum.delta(1.5);
        assert_eq!(found.log_lower, f64::NEG_INFINITY);
        assert!(
            found.upper() >= 0.375 && found.upper() < 0.375 * (1.0 + 1e-12),
            "{found:?}"
        );
        assert!(!sum.is_below_zero() && sum.work() == 0);
    }
}
