//! Outputs of a Laplace mixture with nearly one loss: those beyond its components, which have one loss, and those next to them.
//!
//! log r is flat where next to no component is further out: from 0 on where members of a group are rarely there, and below k where nearly all outputs
//! have the components of a few members behind them.

use crate::approx::Approx;
use crate::interval::Interval;
use crate::loss::clusters::{BesideClusters, Cluster};
use crate::loss::laplace::{Branch, LaplaceLoss};
use crate::loss::laplace_decay::{LaplaceDecay, Range};
use crate::loss::laplace_law::ROUNDINGS;
use crate::loss::laplace_sums::Knot;
use crate::loss::loss_curve::Atom;
use crate::loss::nodes::Nodes;
use crate::special::log_space::{LogSum, log_add};
use crate::special::root::first_where;
use crate::step::Direction;

/// −log of the width of a panel, at most, with what else the log of a weight is made of.
const LEAST_PANEL: f64 = 44.0;

/// The outputs of a cluster: an atom, and ranges of outputs next to it.
struct Members {
    atom: Option<Atom>,
    ranges: Vec<Range>,
    /// Whether these are the first outputs of the branches, or the last ones of one. Where a range is a whole branch its ends do not tell.
    is_start: bool,
}

impl LaplaceLoss {
    /// The clusters of outputs whose losses are within `width` of those of the atoms, or of the first output of each branch.
    pub(crate) fn clusters_within(&self, width: f64) -> Vec<Cluster> {
        let all = self.members(width).into_iter().map(|members| self.cluster(&members));
        all.filter(|cluster| cluster.log_p > f64::NEG_INFINITY).collect()
    }

    /// What the tilted law of `nodes` has beside these clusters; `decay` is that of all of it.
    pub(crate) fn beside_clusters(&self, width: f64, nodes: &Nodes, decay: &LaplaceDecay) -> BesideClusters {
        self.beside(nodes, decay, &self.between(width))
    }

    /// The nodes in these clusters, and the others, with the rounding errors of each; those of quadrature may be of either.
    pub(crate) fn nodes_by_clusters(&self, width: f64, nodes: &Nodes) -> [Nodes; 2] {
        let between = self.between(width);
        let each = self.stretches() as f64;
        let mut found = [true, false].map(|_| Nodes {
            c: nodes.c,
            log_moment: nodes.log_moment,
            error: nodes.error,
            ..Nodes::default()
        });
        let all = nodes.losses.iter().zip(&nodes.weights).zip(&nodes.outputs);
        for (number, ((&loss, &weight), &(index, x))) in all.enumerate() {
            let is_atom = number < self.atoms().len();
            let stretch = (x * each) as usize;
            let holds = |range: &Range| range.index == index && (range.first..range.last).contains(&stretch);
            let is_between = !is_atom && between.iter().any(holds);
            let (error, log_mass) = if is_atom {
                (self.atom_error(), self.atoms()[number].log_mass)
            } else {
                let piece = (x as usize).min(self.pieces() - 1);
                let direction = self.branches()[index].direction;
                let log_ratio = direction.sign() * loss;
                let log_density = self.log_density(direction, x, log_ratio);
                (self.log_ratio_error(piece, x, log_ratio), log_density)
            };
            // As for all nodes; widths of panels are e^−40 at least where their nodes count.
            let rounding = ROUNDINGS * (LEAST_PANEL + log_mass.abs()) + error;
            let nodes = &mut found[usize::from(is_between)];
            nodes.losses.push(loss);
            nodes.weights.push(weight);
            nodes.mean_size += weight * loss.abs();
            nodes.loss_rounding += weight * error;
            nodes.weight_rounding.0 += weight * rounding;
            nodes.weight_rounding.1 += weight * rounding * loss.abs();
        }
        found
    }

    /// The outputs of each branch that are in no cluster.
    pub(super) fn between(&self, width: f64) -> Vec<Range> {
        let each = self.stretches();
        let end = self.pieces() * each;
        let level = |i: usize| self.log_ratio_of_stretch(i);
        let of = |(index, &branch): (usize, &Branch)| {
            let start = branch.first * each;
            let (low, high) = (level(start), level(end));
            // log r grows with the output. Where outputs beyond an end are left out, the stretch next to it stands for their losses.
            let is_cut_at_start = self.missing.is_some() && branch.first > 0;
            let is_cut_at_end = self.outer_atoms(index).1.is_none();
            let within = first_where(start, end, |i| level(i) - low > width).max(start + 1) - 1;
            let first = within.max(start + usize::from(is_cut_at_start));
            let from = first_where(first, end, |i| high - level(i) <= width);
            let last = from.min(end - usize::from(is_cut_at_end)).max(first);
            Range {
                branch,
                index,
                first,
                last,
            }
        };
        self.branches().iter().enumerate().map(of).collect()
    }

    /// log r where a stretch begins.
    fn log_ratio_of_stretch(&self, i: usize) -> f64 {
        let each = self.stretches();
        let piece = (i / each).min(self.pieces() - 1);
        self.log_ratio(piece, i as f64 / each as f64).0
    }

    /// The outputs of each cluster, in the order of the atoms; that of the first outputs of two branches comes last where it has no atom.
    fn members(&self, width: f64) -> Vec<Members> {
        let each = self.stretches();
        let between = self.between(width);
        let starts = || {
            between.iter().map(|range| Range {
                first: range.branch.first * each,
                last: range.first,
                ..*range
            })
        };
        let end = |range: &Range| Range {
            first: range.last,
            last: self.pieces() * each,
            ..*range
        };
        let start = Members {
            atom: None,
            ranges: starts().collect(),
            is_start: true,
        };
        let of_end = |(range, atom): (&Range, Option<Atom>)| Members {
            atom,
            ranges: vec![end(range)],
            is_start: false,
        };
        if let [one] = between.as_slice() {
            let (of_start, atom) = self.outer_atoms(0);
            return vec![
                Members {
                    atom: of_start,
                    ..start
                },
                of_end((one, atom)),
            ];
        }
        let ends = between.iter().map(|range| (range, self.outer_atoms(range.index).1));
        let mut found: Vec<Members> = ends.map(of_end).collect();
        let (middle, _) = self.outer_atoms(0);
        if middle.is_some() || start.ranges.iter().any(|range| range.first < range.last) {
            found.push(Members { atom: middle, ..start });
        }
        found
    }

    /// The atoms of the outputs before the first piece of a branch and beyond its last one. Where there are two branches they share the former.
    fn outer_atoms(&self, index: usize) -> (Option<Atom>, Option<Atom>) {
        let atoms = self.atoms();
        let (first, last) = (atoms.first().copied(), atoms.last().copied());
        // The atom of the outputs that P has the most of is never left out.
        match (self.branches(), atoms.len()) {
            ([one], count) => {
                let other = if count > 1 { first } else { None };
                match one.direction {
                    Direction::Remove => (other, last),
                    Direction::Add => (last, other),
                }
            }
            // The first branch is "add", with the smallest losses, and the second one "remove".
            (_, count) => {
                let middle = if count > 2 { Some(atoms[1]) } else { None };
                (middle, if index == 0 { first } else { last })
            }
        }
    }

    /// A cluster from its outputs.
    fn cluster(&self, members: &Members) -> Cluster {
        let (mut p, mut q) = (LogSum::default(), LogSum::default());
        let (mut lowest, mut highest) = (f64::INFINITY, f64::NEG_INFINITY);
        let mut error = 0.0f64;
        let mut add = |of_p: Approx, of_q: Approx| {
            p.add(of_p.value);
            q.add(of_q.value);
            error = error.max(of_p.error).max(of_q.error);
        };
        if let Some(atom) = members.atom {
            let rounding = self.log_factor().error + ROUNDINGS * (4.0 + atom.log_mass.abs() + atom.loss.abs());
            let of = |log_mass: f64| Approx::new(log_mass, self.atom_error() + rounding);
            add(of(atom.log_mass), of(atom.log_mass - atom.loss));
            (lowest, highest) = (atom.loss - self.atom_error(), atom.loss + self.atom_error());
        }
        let mut terms = 1.0;
        for range in &members.ranges {
            let each = self.stretches();
            let direction = range.branch.direction;
            let mut first = range.first;
            while first < range.last {
                let piece = first / each;
                let last = range.last.min((piece + 1) * each);
                let [start, end] = [first, last].map(|i| i as f64 / each as f64);
                let of = |direction| self.log_mass_between(direction, piece, (start, end));
                let (plain, mixed) = (of(Direction::Add), of(Direction::Remove));
                match direction {
                    Direction::Add => add(plain, mixed),
                    Direction::Remove => add(mixed, plain),
                }
                for x in [start, end] {
                    let (log_ratio, _) = self.log_ratio(piece, x);
                    let slack = self.log_ratio_error(piece, x, log_ratio);
                    lowest = lowest.min(direction.sign() * log_ratio - slack);
                    highest = highest.max(direction.sign() * log_ratio + slack);
                }
                first = last;
                terms += 1.0;
            }
        }
        let (log_p, log_q) = (p.ln(), q.ln());
        let error = error + f64::EPSILON * (terms + 2.0 * (log_p.abs() + log_q.abs()));
        let losses = Interval {
            lower: lowest,
            upper: highest,
        };
        let mean = self.mean_of_one_side(members).unwrap_or(Interval {
            lower: log_p - log_q - 2.0 * error,
            upper: log_p - log_q + 2.0 * error,
        });
        Cluster {
            log_p,
            log_q,
            error,
            // It is between the smallest and the largest loss.
            mean: mean.within(lowest, highest),
            losses,
        }
    }
}

impl LaplaceLoss {
    /// Bounds on the loss of all outputs of a cluster together, if its ranges are one of one branch: log P/Q of their masses has an absolute error, and
    /// the difference from one of their losses a relative one.
    ///
    /// With the mean of r under the noise alone, of which the loss is the logarithm or its negative, and u, v the ends of a part of a piece,
    ///
    /// > ∫_u^v (r(x) − r(u))·e^{−x/b}/2b = Be^{u/b}·(cosh t − 1), t = (v − u)/b.
    fn mean_of_one_side(&self, members: &Members) -> Option<Interval> {
        let [range] = members.ranges.as_slice() else {
            return None;
        };
        let (each, b) = (self.stretches(), self.scale());
        let sign = range.branch.direction.sign();
        let is_start = members.is_start;
        // log r of the atom; that of the start of the range is the smallest.
        let of_atom = sign * members.atom?.loss;
        let piece = (range.first / each).min(self.pieces() - 1);
        let x = range.first as f64 / each as f64;
        let (log_first, _) = self.log_ratio(piece, x);
        let first_error = self.log_ratio_error(piece, x, log_first);
        let least = if is_start { of_atom } else { log_first };
        let mut error = self.atom_error().max(first_error);
        // Masses of the noise over that of the atom.
        let log_atom = if is_start {
            0.5f64.ln()
        } else {
            0.5f64.ln() - self.pieces() as f64 / b
        };
        let (mut mass, mut excess) = (1.0, (of_atom - least).exp_m1());
        // Relative error of what the mean of r has beyond its smallest value, but for that of logarithms of r: of exponents, and of sums.
        let mut relative = 0.0f64;
        let mut first = range.first;
        while first < range.last {
            let piece = first / each;
            let last = range.last.min((piece + 1) * each);
            let [u, v] = [first, last].map(|i| i as f64 / each as f64);
            let t = (v - u) / b;
            let (log_ratio, _) = self.log_ratio(piece, u);
            error = error.max(self.log_ratio_error(piece, u, log_ratio));
            let here = (-u / b - log_atom).exp() * -0.5 * (-t).exp_m1();
            let log_rising = self.knots[piece].rising;
            let rising = (log_rising.value + u / b - log_atom - least).exp();
            let size = log_rising.value.abs() + 2.0 * u / b + 2.0 * log_atom.abs() + least.abs();
            relative = relative.max(log_rising.error + ROUNDINGS * (4.0 + size));
            mass += here;
            excess += here * (log_ratio - least).exp_m1() + rising * 2.0 * (0.5 * t).sinh().powi(2);
            first = last;
        }
        let beyond = (excess / mass).ln_1p();
        let of_sums = ROUNDINGS * (4.0 + (range.last - range.first) as f64);
        let slack = error + 2.0 * (relative + of_sums) * beyond.abs() + 4.0 * f64::EPSILON * least.abs();
        let mean = sign * (least + beyond);
        (mean.is_finite() && slack.is_finite()).then_some(Interval {
            lower: mean - slack,
            upper: mean + slack,
        })
    }

    /// log of the mass of a part of a piece under the mixture, or under the noise alone ("add").
    fn log_mass_between(&self, direction: Direction, piece: usize, (start, end): (f64, f64)) -> Approx {
        let b = self.scale();
        // ½(1 − e^{−(v − u)/b})
        let width = (-0.5 * (-(end - start) / b).exp_m1()).ln();
        let Knot { constant, rising, .. } = self.knots[piece];
        let (log, error) = match direction {
            Direction::Add => (-start / b, 0.0),
            // ∫ (A + Be^{2x/b})e^{−x/b}/2b
            Direction::Remove => (
                log_add(constant.value - start / b, rising.value + end / b),
                constant.error.max(rising.error),
            ),
        };
        let size = log.abs() + width.abs() + (start + end) / b + self.log_factor().value.abs();
        Approx::new(
            log + width + self.log_factor().value,
            error + self.log_factor().error + ROUNDINGS * (4.0 + size),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::laplace_decay::TiltedLaplace;
    use crate::loss::privacy_loss::TiltedLoss;
    use crate::step::GroupLaw;

    /// Losses of several kinds: few members, a certain shift, replaced records, with little and much noise.
    fn losses() -> Vec<LaplaceLoss> {
        let binomial = |records, rate| GroupLaw::binomial(records, rate).unwrap();
        let mut found = Vec::new();
        for (law, scale) in [
            (binomial(1, 0.1), 1.0),
            (binomial(1, 0.05), 3.0),
            (binomial(4, 0.02), 3.0),
            (binomial(3, 0.1), 0.3),
            (binomial(2, 1.0), 1.0),
        ] {
            for direction in Direction::BOTH {
                found.push(LaplaceLoss::new(&law, scale, direction));
            }
            if law.shifts().len() > 1 {
                found.push(LaplaceLoss::mirrored(&law, scale));
            }
        }
        found.push(LaplaceLoss::replaced(0.3, 0.9));
        found
    }

    /// P's and Q's probabilities of some ranges, by the rule of the middle.
    fn masses(loss: &LaplaceLoss, ranges: &[Range]) -> (f64, f64) {
        const CELLS: usize = 2000;
        let each = loss.stretches();
        let (mut p, mut q) = (0.0, 0.0);
        for range in ranges {
            for stretch in range.first..range.last {
                for i in 0..CELLS {
                    let x = (stretch as f64 + (i as f64 + 0.5) / CELLS as f64) / each as f64;
                    let piece = (x as usize).min(loss.pieces() - 1);
                    let (log_ratio, _) = loss.log_ratio(piece, x);
                    let mass =
                        loss.log_density(range.branch.direction, x, log_ratio).exp() / (CELLS * each) as f64;
                    p += mass;
                    q += mass * (-range.branch.direction.sign() * log_ratio).exp();
                }
            }
        }
        (p, q)
    }

    /// Whatever the width, the clusters and what is between them have all of P's and of Q's probability; the loss of a cluster is the log of their ratio.
    #[test]
    fn clusters_have_the_probabilities_of_their_outputs() {
        for loss in losses() {
            let range = loss.max_loss.rounded_up();
            for width in [0.0, 1e-3 * range, 0.1 * range, 0.6 * range, 3.0 * range] {
                let clusters = loss.clusters_within(width);
                let (mut p, mut q) = masses(&loss, &loss.between(width));
                for cluster in &clusters {
                    p += cluster.log_p.exp();
                    q += cluster.log_q.exp();
                    let ratio = cluster.log_p - cluster.log_q;
                    assert!(cluster.mean.lower <= ratio + 2.0 * cluster.error, "{cluster:?}");
                    assert!(cluster.mean.upper >= ratio - 2.0 * cluster.error, "{cluster:?}");
                    assert!(cluster.mean.width() < 1e-12 * (1.0 + ratio.abs()), "{cluster:?}");
                    assert!(
                        cluster.losses.lower <= cluster.mean.lower && cluster.mean.upper <= cluster.losses.upper
                    );
                    assert!(
                        cluster.losses.width() <= 2.0 * width + 1e-12 * (1.0 + range),
                        "{cluster:?} {width}"
                    );
                    assert!(cluster.error < 1e-12 * (1.0 + cluster.log_p.abs()));
                }
                assert!(
                    (p - 1.0).abs() < 1e-6 && (q - 1.0).abs() < 1e-6,
                    "{width}: {p} {q} {clusters:?}"
                );
            }
        }
    }

    /// The mean of a cluster within some width of the largest loss keeps its distance from that, which logs of probabilities round off.
    #[test]
    fn the_mean_of_a_narrow_cluster_has_its_digits() {
        let law = GroupLaw::binomial(3, 1e-5).unwrap();
        for direction in Direction::BOTH {
            let loss = LaplaceLoss::new(&law, 2.0, direction);
            let cluster = loss.clusters_within(1e-8)[1];
            let members = &loss.members(1e-8)[1];
            let last = direction.sign() * loss.log_ratio_of_stretch(loss.pieces() * loss.stretches());
            // E[r/r(k) − 1] under the noise, of the outputs and of the atom.
            let (mut mass, mut below) = (0.5 * (-1.5f64).exp(), 0.0);
            let range = members.ranges[0];
            for i in 0..200_000 {
                let x = range.first as f64 + (f64::from(i) + 0.5) / 200_000.0 * (range.last - range.first) as f64;
                let piece = (x as usize).min(loss.pieces() - 1);
                let weight = (-0.5 * x).exp() / 4.0 / 200_000.0 * (range.last - range.first) as f64;
                mass += weight;
                below += weight * (loss.log_ratio(piece, x).0 - direction.sign() * last).exp_m1();
            }
            let exact = last + direction.sign() * (below / mass).ln_1p();
            assert!(
                (cluster.mean.lower..=cluster.mean.upper).contains(&exact)
                    || (cluster.mean.lower - exact).abs() < 1e-19,
                "{cluster:?} {exact:e}"
            );
            let distance = (last - exact).abs();
            assert!(
                distance > 0.0 && cluster.mean.width() < 1e-5 * distance,
                "{cluster:?} {distance:e}"
            );
        }
    }

    /// Both parts add up to the characteristic function, and that of the density is below its bound; by less than a factor of three somewhere.
    #[test]
    fn transforms_of_both_parts_are_those_of_the_law_and_below_the_bound() {
        for mut loss in losses() {
            let range = loss.max_loss.rounded_up();
            let width = 0.05 * range;
            let (c, spacing, last) = (2.0 / range, 0.5 / range, 200);
            let whole: Vec<_> = {
                let mut tilted = TiltedLaplace::new(&mut loss, c, -60.0);
                tilted.certify(spacing * last as f64);
                tilted.changes(spacing, last)
            };
            let mut tilted = TiltedLaplace::new(&mut loss, c, -32.0);
            let beside = tilted.beside_clusters(width).unwrap();
            let parts = tilted.transforms_by_clusters(width, spacing, last).unwrap();
            let mut closest = f64::INFINITY;
            for (j, ([clusters, density], whole)) in parts.iter().zip(&whole).enumerate() {
                let off = (clusters.value + density.value - 1.0 - whole.value).norm();
                assert!(off <= clusters.error + density.error + whole.error, "{j}: {off}");
                assert!(clusters.error + density.error < 1e-11, "{j}: {clusters:?} {density:?}");
                assert!(clusters.value.norm() <= beside.mass_of_clusters + clusters.error, "{j}");
                if j > 0 {
                    let bound = beside.decay(j as f64 * spacing);
                    assert!(
                        density.value.norm() <= bound + density.error,
                        "{j}: {density:?} {bound}"
                    );
                    closest = closest.min(bound / density.value.norm().max(1e-300));
                }
            }
            assert!(beside.variation == 0.0 || closest < 3.0, "{closest}");
        }
    }
}
