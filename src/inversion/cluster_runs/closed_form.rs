//! δ of the runs in which every step, or every step but one, is in a cluster.
//!
//! With m_j the probability that all steps are in certain clusters, and m_{i,j} that all but one of kind i are, N steps in all,
//!
//! > Σ_i T_i·Σ_j m_{i,j}·E[δ_i(ε − S_{i,j})] − (N − 1)·Σ_j m_j·E[(1 − e^{ε − S_j})₊]
//!
//! is that δ, S the sum of the losses in these clusters: the first sum counts the runs with one other step once, and those with none N times. δ_i is the
//! closed form of one step.
//!
//! E[δ_i(ε − S)] is that of a convex function of the likelihood ratio of each step under Q. The law in which all outputs of a cluster have the mean
//! ratio is below the law of the losses, and the one in which they have the smallest or the largest ratio, with the same mean, is above it
//! (`docs/theory/inversion.md`, Proposition 13). Where a cluster is an atom all three are the same. What is taken off is a part of what is there,
//! so that rounding is N times that of the sum at most.

use crate::inversion::cluster_runs::sums::{Kind, Sum, Sums, are_few};
use crate::inversion::segment::Segment;
use crate::loss::StepLoss;
use crate::loss::clusters::Cluster;
use crate::loss::privacy_loss::Effort;
use crate::special::log_space::{LogSum, log_difference};

/// Most kinds of steps.
const MAX_KINDS: usize = 4;
/// log of the part of a sum, and of what is known of δ, that its unlikely terms may be: less than rounding.
const LOG_NEGLIGIBLE: f64 = -40.0;

/// Runs in which every step, or every step but one, is in a cluster.
#[derive(Debug)]
pub(crate) struct ClusterRuns {
    /// The sums of all steps.
    all: BothSums,
    /// For each kind of step: its loss, T, and the sums of all steps but one of that kind.
    all_but_one: Vec<(StepLoss, f64, BothSums)>,
    /// N.
    steps: f64,
}

/// Sums under a law below that of the losses, and under one above it.
#[derive(Debug)]
struct BothSums {
    lower: Sums,
    upper: Sums,
}

impl BothSums {
    fn of(kinds: &[Kind]) -> Self {
        let at_ends: Vec<Kind> = kinds.iter().map(at_ends).collect();
        Self {
            lower: Sums::of(kinds),
            upper: Sums::of(&at_ends),
        }
    }
}

/// Clusters at the ends of their losses.
fn at_ends((clusters, steps): &Kind) -> Kind {
    (clusters.iter().flat_map(Cluster::ends).collect(), *steps)
}

/// Bounds on a sum of positive terms.
#[derive(Debug, Clone, Copy, Default)]
struct Bounds {
    lower: LogSum,
    upper: LogSum,
    terms: f64,
    /// Bound on the errors of the logs of probabilities.
    error: f64,
}

impl ClusterRuns {
    /// `None` where the clusters of a loss are not told apart, one of its steps has no closed form, or there are too many sums.
    pub(crate) fn new(segments: &[Segment], width: f64) -> Option<Self> {
        let kinds = few_kinds(segments, width)?;
        let mut all_but_one = Vec::with_capacity(segments.len());
        for (i, segment) in segments.iter().enumerate() {
            let mut others = kinds.clone();
            others[i].1 -= 1.0;
            let (loss, log_left_out) = segment.loss.truncated(f64::NEG_INFINITY, segment.steps);
            if log_left_out > f64::NEG_INFINITY {
                return None;
            }
            all_but_one.push((loss, segment.steps, BothSums::of(&others)));
        }
        Some(Self {
            all: BothSums::of(&kinds),
            all_but_one,
            steps: segments.iter().map(|segment| segment.steps).sum(),
        })
    }

    /// Both ends of log δ(ε), where terms far below e^`log_known` do not count.
    pub(crate) fn log_delta(&self, epsilon: f64, log_known: f64) -> (f64, f64) {
        let mut effort = Effort::default();
        let (mut all_but_one, mut all) = (Bounds::default(), Bounds::default());
        for (loss, steps, sums) in &self.all_but_one {
            let mut of_step = |epsilon: f64| {
                let found = loss.one_step(epsilon, 0.0, &mut effort);
                (found.log_lower, found.log_upper)
            };
            all_but_one.add(sums, *steps, (epsilon, log_known), &mut of_step);
        }
        if self.steps > 1.0 {
            let mut of_nothing = |epsilon: f64| {
                let log = (-epsilon.exp_m1()).max(0.0).ln();
                (log, log)
            };
            all.add(&self.all, self.steps - 1.0, (epsilon, log_known), &mut of_nothing);
        }
        let (first, second) = (all_but_one.logs(), all.logs());
        (log_difference(first.0, second.1), log_difference(first.1, second.0))
    }
}

/// The clusters of all kinds of steps, if these have closed forms and their sums are few.
pub(super) fn few_kinds(segments: &[Segment], width: f64) -> Option<Vec<Kind>> {
    if segments.len() > MAX_KINDS || !segments.iter().all(|segment| segment.loss.has_closed_form()) {
        return None;
    }
    // At least two clusters each: no more is looked at where their sums are too many.
    if !are_few(segments.iter().map(|segment| (2, segment.steps))) {
        return None;
    }
    let kind = |segment: &Segment| Some((segment.loss.clusters(width)?, segment.steps));
    let kinds: Vec<Kind> = segments.iter().map(kind).collect::<Option<_>>()?;
    let losses = kinds.iter().map(at_ends).map(|(losses, steps)| (losses.len(), steps));
    are_few(losses).then_some(kinds)
}

impl Bounds {
    /// Adds `factor` times E[δ(ε − S)] over some sums, from bounds on log δ at any ε.
    fn add(
        &mut self,
        sums: &BothSums,
        factor: f64,
        (epsilon, log_known): (f64, f64),
        log_delta: &mut impl FnMut(f64) -> (f64, f64),
    ) {
        // Of ε less a sum, and of the sum's own bounds.
        let slack =
            |sum: &Sum| 2.0 * f64::EPSILON * (epsilon.abs() + sum.mean.lower.abs().max(sum.mean.upper.abs()));
        let log_factor = factor.ln();
        self.error = self.error.max(sums.lower.error).max(sums.upper.error);
        let (terms, _) = add_terms(&mut self.lower, &sums.lower, log_known - log_factor, |sum| {
            log_factor + sum.log_p + log_delta(epsilon - sum.mean.lower + slack(sum)).0
        });
        self.terms += terms;
        let (terms, log_rest) = add_terms(&mut self.upper, &sums.upper, log_known - log_factor, |sum| {
            log_factor + sum.log_p + log_delta(epsilon - sum.mean.upper - slack(sum)).1
        });
        self.upper.add(log_factor + log_rest);
        self.terms += terms;
    }

    /// The logs of both, with the errors of logs of probabilities, of exponents, and of additions.
    fn logs(&self) -> (f64, f64) {
        let (lower, upper) = (self.lower.ln(), self.upper.ln());
        let size = |log: f64| if log.is_finite() { log.abs() } else { 0.0 };
        let error = self.error + f64::EPSILON * (16.0 + self.terms + 4.0 * size(lower).max(size(upper)));
        (lower - error, upper + error)
    }
}

/// Adds the terms of some sums, each at most its probability, to a total: their number, and the log of the probability of unlikely sums that were left
/// out, because it is far below e^`log_known` or the total.
fn add_terms(
    total: &mut LogSum,
    sums: &Sums,
    log_known: f64,
    mut log_term: impl FnMut(&Sum) -> f64,
) -> (f64, f64) {
    for (i, sum) in sums.all.iter().enumerate() {
        if sum.log_rest < log_known.max(total.ln()) + LOG_NEGLIGIBLE {
            return (i as f64, sum.log_rest);
        }
        total.add(log_term(sum));
    }
    (sums.all.len() as f64, f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::{Direction, GroupLaw};

    fn segment(law: &GroupLaw, scale: f64, direction: Direction, steps: f64) -> Segment {
        let loss = StepLoss::laplace(law, scale, direction).unwrap();
        Segment { loss, steps }
    }

    fn of_one(loss: &StepLoss, epsilon: f64) -> f64 {
        loss.one_step(epsilon, 0.0, &mut Effort::default()).upper()
    }

    /// Of three steps with two atoms each: all triples of atoms, and for each pair of them three times what the third step has beside its atoms.
    #[test]
    fn runs_with_one_step_beside_atoms_are_counted_once() {
        let law = GroupLaw::binomial(1, 0.2).unwrap();
        for direction in Direction::BOTH {
            let three = [segment(&law, 1.5, direction, 3.0)];
            let runs = ClusterRuns::new(&three, 0.0).unwrap();
            let atoms = three[0].loss.clusters(0.0).unwrap();
            let all: Vec<(f64, f64)> = atoms.iter().map(|one| (one.losses.upper, one.log_p.exp())).collect();
            let part = |epsilon: f64| (-epsilon.exp_m1()).max(0.0);
            let largest = three[0].loss.max_loss().rounded_up();
            for epsilon in [-0.2, 0.1 * largest, 1.3 * largest, 2.9 * largest] {
                let mut exact = 0.0;
                for (first, mass) in &all {
                    for (second, other) in &all {
                        let rest = epsilon - first - second;
                        let of_atoms: f64 = all.iter().map(|(loss, mass)| mass * part(rest - loss)).sum();
                        exact += mass * other * (of_atoms + 3.0 * (of_one(&three[0].loss, rest) - of_atoms));
                    }
                }
                let (lower, upper) = runs.log_delta(epsilon, f64::NEG_INFINITY);
                assert!(
                    lower <= exact.ln() + 1e-12 && upper >= exact.ln() - 1e-12 && upper - lower < 1e-10,
                    "{direction:?} {epsilon}: {lower} {upper} {}",
                    exact.ln()
                );
            }
        }
    }

    /// With wide clusters both ends enclose δ of runs of two steps with one of them in a cluster, and are apart by about the square of the width.
    #[test]
    fn clusters_are_enclosed_by_their_mean_and_their_ends() {
        let law = GroupLaw::binomial(3, 0.05).unwrap();
        let scale = 4.0;
        let mut gaps = Vec::new();
        for parts in [1.0, 2.0] {
            let two = [segment(&law, scale, Direction::Remove, 2.0)];
            let largest = two[0].loss.max_loss().rounded_up();
            // The last two pieces of three, or the last one.
            let width = if parts == 1.0 { 0.03 } else { 0.002 };
            let runs = ClusterRuns::new(&two, width).unwrap();
            let atoms_alone = ClusterRuns::new(&two, 0.0).unwrap();
            let epsilon = 1.1 * largest;
            let (lower, upper) = runs.log_delta(epsilon, f64::NEG_INFINITY);
            assert!(lower < upper && upper - lower < 0.1, "{lower} {upper}");
            // Runs beside atoms alone are fewer.
            assert!(upper > atoms_alone.log_delta(epsilon, f64::NEG_INFINITY).0);
            gaps.push(upper - lower);
        }
        assert!(gaps[1] < 0.05 * gaps[0] && gaps[1] > 0.0, "{gaps:?}");
    }

    /// Sums that come to far less than what is known are left out of the lower end, and counted in full in the upper one.
    #[test]
    fn unlikely_sums_are_counted_as_an_upper_end() {
        let law = GroupLaw::binomial(1, 0.2).unwrap();
        let run = [segment(&law, 1.5, Direction::Remove, 30.0)];
        let runs = ClusterRuns::new(&run, 0.0).unwrap();
        let epsilon = 0.5;
        let all = runs.log_delta(epsilon, f64::NEG_INFINITY);
        // All of them are at most the probability of all sums.
        let (lower, upper) = runs.log_delta(epsilon, 60.0);
        assert_eq!(lower, f64::NEG_INFINITY);
        assert!(upper > all.1 && upper < 30.0f64.ln() + 1e-9, "{upper} {all:?}");
    }

    #[test]
    fn steps_without_clusters_have_no_closed_form() {
        let gaussian = [Segment {
            loss: StepLoss::shift(1.0),
            steps: 2.0,
        }];
        assert!(ClusterRuns::new(&gaussian, 0.1).is_none());
        let law = GroupLaw::binomial(1, 0.2).unwrap();
        let five: Vec<Segment> = (0..5).map(|_| segment(&law, 1.0, Direction::Add, 1.0)).collect();
        assert!(ClusterRuns::new(&five, 0.0).is_none() && ClusterRuns::new(&five[..4], 0.0).is_some());
    }
}
