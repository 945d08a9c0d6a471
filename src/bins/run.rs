//! δ and ε of a run: E[(K − W)₊] at K = e^ε and e^{−ε}, and the search for ε.

use crate::approx::Approx;
use crate::bins::chain::Chain;
use crate::bins::contour::Contour;
use crate::bins::lattice::Lattice;
use crate::bins::transform::Transform;
use crate::error::{Error, Result, require, require_epsilon};
use crate::interval::Interval;
use crate::special::compensated_sum::CompensatedSum;
use crate::special::root::solve_decreasing_between;
use crate::step::Direction;
use crate::stopping::carried;
use crate::threads::in_pool;
use rayon::prelude::*;
use realfft::num_complex::Complex64;

/// Wanted error of E[(K − W)₊], relative to K. Rounding errors alone are about as large; an error ten times as large saves one node in ten.
const TOLERANCE: f64 = 1e-14;
/// Wanted relative error where E[(K − W)₊] is δ itself, and the relative error at which the search for better contours ends.
const RELATIVE_TOLERANCE: f64 = 1e-9;
const ENOUGH: f64 = 1e-7;
/// Maximum number of contours tried for a small δ, and the factor by which each must reduce the error of the one before.
const REFINEMENTS: usize = 3;
const IMPROVEMENT: f64 = 0.5;
/// A contour is used for another K if its error there is at most this many times its error at the K that it was made for.
const REUSED: f64 = 4.0;
/// Maximum number of lattice points on each side of 0: a matrix of 1,201 rows takes 11 MB.
const MOST_POINTS: usize = 600;
/// Maximum number of multiplications for one value of the transform: some ten seconds.
const MOST_WORK: f64 = 2e10;
/// Cost of the operators in floating-point operations: for each entry as often as the law has rows, and for the entry itself.
const PRODUCT_COST: f64 = 4.0;
const ENTRY_COST: f64 = 20.0;
/// E[(K − W)₊] counts as at least this fraction of its error when it is refined: a value next to 0 needs no relative accuracy.
const FLOOR: f64 = 1e-3;
/// Maximum number of bins: the bounds on rounding errors grow in proportion to it.
const MOST_BINS: usize = 20_000;
/// Maximum number of epochs: the chain holds several numbers for each.
const MOST_EPOCHS: usize = 1_000_000;
/// Largest ε, where e^ε times the rounding of a number near 1 is as large as δ = 10⁻³.
const LARGEST_EPSILON: f64 = 25.0;
/// ε is found within this part of 1 + ε where δ is known well enough.
const EPSILON_TOLERANCE: f64 = 1e-9;
/// Maximum number of steps from the estimate of ε to a certified end, each twice as long as the one before.
const STEPS_OUT: usize = 40;

/// One record that stays in a random bin, under noise that is correlated by the coefficients 1, α, αλ, αλ², ...
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChainRun {
    /// Number of bins b, the batches of an epoch.
    pub bins: usize,
    /// Number of epochs E.
    pub epochs: usize,
    /// α, the second coefficient, at least 0 and below 1 + λ.
    pub first: f64,
    /// λ in [0, 1), the ratio of two coefficients after it.
    pub decay: f64,
    /// Noise multiplier of one step over the first coefficient.
    pub noise: f64,
}

/// The curve of a run, and the values of the transform that were computed for it.
#[derive(Debug)]
pub struct ChainCurve {
    transform: Transform,
    rules: Vec<Rule>,
}

/// Values of the transform at the nodes of a contour.
#[derive(Debug)]
struct Rule {
    contour: Contour,
    nodes: Vec<Node>,
    /// Error over K, at the K that it was made for.
    error: f64,
}

#[derive(Debug)]
struct Node {
    point: Complex64,
    step: Complex64,
    value: Approx<Complex64>,
}

impl ChainRun {
    /// The curve of the run.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for numbers that are out of range; [`Error::Mismatch`] where the matrices would be too large.
    pub fn curve(self) -> Result<ChainCurve> {
        require(
            self.bins >= 1 && self.bins <= MOST_BINS,
            "batches",
            self.bins,
            "in [1, 20000]",
        )?;
        require(
            self.epochs >= 1 && self.epochs <= MOST_EPOCHS,
            "epochs",
            self.epochs,
            "in [1, 1000000]",
        )?;
        require(self.decay >= 0.0 && self.decay < 1.0, "decay", self.decay, "in [0, 1)")?;
        let first = self.first >= 0.0 && self.first < 1.0 + self.decay;
        require(first, "first", self.first, "at least 0 and below 1 + decay")?;
        require(
            self.noise > 0.0 && self.noise.is_finite(),
            "noise_multiplier",
            self.noise,
            "above 0",
        )?;
        let chain = Chain::new(self.bins, self.epochs, self.first, self.decay, self.noise);
        let lattice = Lattice::new(&chain);
        let size = 2.0 * lattice.half as f64 + 1.0;
        let rows = if self.epochs == 1 { 1.0 } else { size };
        let work = size * size * self.bins as f64 * (PRODUCT_COST * rows + ENTRY_COST);
        if lattice.half > MOST_POINTS || work > MOST_WORK {
            return Err(Error::Mismatch(format!(
                "the operators of {} bins would be matrices of {size} rows, which is too much work for a certified curve",
                self.bins
            )));
        }
        Ok(ChainCurve {
            transform: in_pool(|| Transform::new(chain, lattice)),
            rules: Vec::new(),
        })
    }
}

impl ChainCurve {
    /// δ at `epsilon`, the largest of the directions that are asked for: certified bounds, within [0, 1].
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for ε below 0, or above 25.
    pub fn delta(&mut self, epsilon: f64, directions: &[Direction]) -> Result<Interval> {
        require_epsilon(epsilon)?;
        require(
            epsilon <= LARGEST_EPSILON,
            "epsilon",
            epsilon,
            "at most 25 for correlated noise and bins",
        )?;
        let mut found = Interval::exact(0.0);
        if directions.contains(&Direction::Remove) {
            found = found.max(self.removed(epsilon));
        }
        if directions.contains(&Direction::Add) {
            // Where removing reveals more, adding need not be known closely.
            found = found.max(self.added(epsilon, found.lower));
        }
        Ok(found)
    }

    /// δ of a record that is removed: E[(W − K)₊] = 1 − K + E[(K − W)₊], K = e^ε. Its error is absolute.
    fn removed(&mut self, epsilon: f64) -> Interval {
        let level = epsilon.exp();
        let put = self.put(level);
        let found = Approx::new((put.value - level) + 1.0, put.error + 8.0 * f64::EPSILON * level);
        bounds(found)
    }

    /// δ of a record that is added: e^ε·E[(K − W)₊], K = e^{−ε}, or bounds on it that are below `enough`.
    fn added(&mut self, epsilon: f64, enough: f64) -> Interval {
        let (level, growth) = ((-epsilon).exp(), epsilon.exp());
        // K and 1/K have an error of a rounding or two, and E[(K − W)₊] changes by P(W < K) times that of K.
        let below = self.transform.log_chernoff(level).exp();
        let of = |put: Approx| {
            let rounding = 4.0 * f64::EPSILON * (below * level + put.value.abs());
            Approx::new(put.value * growth, (put.error + rounding) * growth * (1.0 + 1e-12))
        };
        let mut put = self.put(level);
        for _ in 0..REFINEMENTS {
            if put.error <= ENOUGH * put.value || of(put).upper() <= enough {
                break;
            }
            let wanted = RELATIVE_TOLERANCE * put.value.max(FLOOR * put.error);
            let Some(contour) = Contour::choose(&self.transform, level, wanted) else {
                break;
            };
            let better = self.keep(contour, level);
            if better.error > IMPROVEMENT * put.error {
                break;
            }
            put = better;
        }
        bounds(of(put))
    }

    /// ε at `delta` in (0, 1): certified bounds. `ceiling` is an ε with which the run is known to have δ at most `delta`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for δ outside of (0, 1) or a ceiling below 0; [`Error::Contradiction`] where δ at the ceiling is certified to be
    /// above `delta`, or the ends of ε cross.
    pub fn epsilon(&mut self, delta: f64, ceiling: f64, directions: &[Direction]) -> Result<Interval> {
        require(delta > 0.0 && delta < 1.0, "delta", delta, "in (0, 1)")?;
        require(ceiling >= 0.0, "ceiling", ceiling, "at least 0")?;
        let end = ceiling.min(LARGEST_EPSILON);
        // The lower end is below δ wherever δ itself is, also where the interval is wide.
        let target = delta.ln();
        let excess = |found: Interval| found.lower.max(f64::MIN_POSITIVE).ln() - target;
        let (at_zero, at_end) = (self.delta(0.0, directions)?, self.delta(end, directions)?);
        if at_zero.upper <= delta {
            return Ok(Interval::exact(0.0));
        }
        let tolerance = EPSILON_TOLERANCE * (1.0 + end);
        if at_end.lower > delta {
            // ε is above `end`: where that is the ceiling, by rounding at most.
            let beyond = (end + tolerance).min(LARGEST_EPSILON);
            let is_above = beyond > ceiling && self.delta(beyond, directions)?.lower > delta;
            return Interval::of_bounds(if is_above { beyond } else { end }, ceiling);
        }
        let root = if at_zero.lower > delta {
            let ends = ((0.0, excess(at_zero)), (end, excess(at_end)));
            solve_decreasing_between(ends, tolerance, |epsilon| self.delta(epsilon, directions).map(excess))?
        } else {
            0.0
        };
        let upper = self.step_out(root, tolerance, |found| found.upper <= delta, directions)?;
        let lower = self.step_out(root, -tolerance, |found| found.lower > delta, directions)?;
        Interval::of_bounds(lower.unwrap_or(0.0), upper.unwrap_or(ceiling).min(ceiling))
    }

    /// The first ε on the way from `root` at which the interval of δ meets the condition, by steps that double.
    fn step_out(
        &mut self,
        root: f64,
        mut step: f64,
        met: impl Fn(Interval) -> bool,
        directions: &[Direction],
    ) -> Result<Option<f64>> {
        for _ in 0..STEPS_OUT {
            let epsilon = root + step;
            if !(0.0..=LARGEST_EPSILON).contains(&epsilon) {
                return Ok(None);
            }
            if met(self.delta(epsilon, directions)?) {
                return Ok(Some(epsilon));
            }
            step *= 2.0;
        }
        Ok(None)
    }

    /// E[(K − W)₊] at K = `level`.
    fn put(&mut self, level: f64) -> Approx {
        let known = self
            .rules
            .iter()
            .map(|rule| (rule.put(&self.transform, level), rule.error));
        let usable = known.filter(|(found, error)| found.error <= REUSED * error * level);
        if let Some((found, _)) = usable.min_by(|a, b| a.0.error.total_cmp(&b.0.error)) {
            return found;
        }
        let Some(contour) = Contour::choose(&self.transform, level, TOLERANCE * level) else {
            // Between 0 and K, as W ≥ 0.
            return Approx::new(0.5 * level, 0.5 * level);
        };
        self.keep(contour, level)
    }

    /// E[(K − W)₊] at K = `level` by a new contour, which is kept for other K.
    fn keep(&mut self, contour: Contour, level: f64) -> Approx {
        let mut rule = Rule::new(&self.transform, contour);
        let found = rule.put(&self.transform, level);
        rule.error = found.error / level;
        self.rules.push(rule);
        found
    }
}

/// The ends of a probability.
fn bounds(found: Approx) -> Interval {
    Interval {
        lower: found.lower(),
        upper: found.upper(),
    }
    .within(0.0, 1.0)
}

impl Rule {
    fn new(transform: &Transform, contour: Contour) -> Self {
        let one = carried(|j: usize| {
            let (point, step) = contour.node(j);
            Node {
                point,
                step,
                value: transform.at(point),
            }
        });
        let nodes = in_pool(|| {
            (0..contour.count + 1)
                .into_par_iter()
                .with_max_len(1)
                .map(one)
                .collect()
        });
        Self {
            contour,
            nodes,
            error: 0.0,
        }
    }

    /// E[(K − W)₊] at K = `level` by the nodes of this contour.
    fn put(&self, transform: &Transform, level: f64) -> Approx {
        let mut sum = CompensatedSum::default();
        let mut error = self.contour.of_rule(transform, level) + self.contour.left_out(transform, level);
        for node in &self.nodes {
            let weight = (node.point * level).exp() * node.step / (node.point * node.point);
            sum.add((weight * node.value.value).im);
            // Errors of the node move e^{sK}/s²; that of φ there is counted with its value.
            let operations = 64.0 + 24.0 * node.point.norm() * level;
            error += weight.norm() * (node.value.error + operations * f64::EPSILON * node.value.value.norm());
        }
        let value = sum.value();
        Approx::new(value, error * (1.0 + 1e-9) + 4.0 * f64::EPSILON * value.abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(bins: usize, epochs: usize, first: f64, decay: f64, noise: f64) -> ChainCurve {
        ChainRun {
            bins,
            epochs,
            first,
            decay,
            noise,
        }
        .curve()
        .unwrap()
    }

    /// One bin is one Gaussian: δ in closed form.
    #[test]
    fn one_bin_is_the_full_batch() {
        use crate::special::normal::log_upper_tail;
        let mut one = curve(1, 1, 0.3, 0.3, 1.0);
        for epsilon in [0.0, 0.5, 2.0] {
            let exact = log_upper_tail(epsilon - 0.5).exp() - epsilon.exp() * log_upper_tail(epsilon + 0.5).exp();
            for direction in Direction::BOTH {
                let found = one.delta(epsilon, &[direction]).unwrap();
                assert!(
                    found.lower <= exact && exact <= found.upper,
                    "{epsilon} {found:?} {exact}"
                );
                assert!(found.width() < 1e-11);
            }
        }
    }

    /// Contours that were made for other K give the same δ within their errors, and a rule with half of its nodes does not.
    #[test]
    fn rules_agree_and_their_error_is_needed() {
        let chain = curve(3, 2, 0.6, 0.4, 2.0);
        let made = |level: f64, tolerance: f64| {
            Rule::new(
                &chain.transform,
                Contour::choose(&chain.transform, level, tolerance).unwrap(),
            )
        };
        let level = 1.5;
        let exact = made(level, 1e-14).put(&chain.transform, level);
        for (other, tolerance) in [(1.5, 1e-3), (1.5, 1e-6), (1.3, 1e-9), (1.7, 1e-13)] {
            let found = made(other, tolerance).put(&chain.transform, level);
            let off = (found.value - exact.value).abs();
            assert!(
                off <= found.error + exact.error,
                "{other} {tolerance}: {off} {}",
                found.error
            );
        }
        let mut rule = made(level, 1e-14);
        rule.nodes.truncate(rule.nodes.len() / 2);
        assert!((rule.put(&chain.transform, level).value - exact.value).abs() > 1e3 * exact.error);
    }

    #[test]
    fn epsilon_and_delta_are_inverse() {
        let mut chain = curve(3, 2, 0.5, 0.5, 2.0);
        for direction in Direction::BOTH {
            let found = chain.epsilon(1e-5, 20.0, &[direction]).unwrap();
            assert!(found.width() < 1e-5 * found.upper);
            assert!(chain.delta(found.upper, &[direction]).unwrap().upper <= 1e-5);
            assert!(chain.delta(found.lower, &[direction]).unwrap().lower > 1e-5);
        }
        assert_eq!(
            chain.epsilon(0.9, 20.0, &[Direction::Add]).unwrap(),
            Interval::exact(0.0)
        );
    }

    /// A ceiling with which δ is certified to be above what is asked for contradicts it.
    #[test]
    fn ceilings_that_are_too_low_are_an_error() {
        let mut chain = curve(3, 2, 0.5, 0.5, 2.0);
        let epsilon = chain.epsilon(1e-5, 20.0, &[Direction::Add]).unwrap();
        for ceiling in [0.0, 0.9 * epsilon.lower, epsilon.lower - 1e-6] {
            let found = chain.epsilon(1e-5, ceiling, &[Direction::Add]);
            assert_eq!(found, Err(Error::Contradiction), "{ceiling}");
        }
        let tight = chain.epsilon(1e-5, epsilon.upper, &[Direction::Add]).unwrap();
        assert!(tight.lower <= tight.upper && tight.upper <= epsilon.upper);
        for wrong in [-1e-9, f64::NAN] {
            assert!(matches!(
                chain.epsilon(1e-5, wrong, &[Direction::Add]),
                Err(Error::OutOfRange { .. })
            ));
        }
    }

    /// One bin in one epoch, added, where δ is 10⁻⁷ to 10⁻¹⁵: in closed form, and to more digits than an error of 10⁻¹⁴ leaves.
    #[test]
    fn small_deltas_have_digits_where_the_record_is_added() {
        use crate::special::normal::log_upper_tail;
        let mut one = curve(1, 1, 0.3, 0.3, 4.0);
        for (epsilon, digits) in [(1.2, 1e-7), (1.6, 1e-7), (2.0, 1e-3)] {
            let (low, high) = (4.0 * epsilon - 0.125, 4.0 * epsilon + 0.125);
            let exact = log_upper_tail(low).exp() - epsilon.exp() * log_upper_tail(high).exp();
            let found = one.delta(epsilon, &[Direction::Add]).unwrap();
            assert!(
                found.lower <= exact * (1.0 + 1e-11) && exact * (1.0 - 1e-11) <= found.upper,
                "{epsilon} {found:?} {exact}"
            );
            assert!(found.width() < digits * exact, "{epsilon} {found:?}");
            // Half of the width on one side of the middle may not do: the rule with fewer nodes is off by more.
            let rule = one.rules.last_mut().unwrap();
            rule.nodes.truncate(rule.nodes.len() / 2);
            let off =
                one.rules.last().unwrap().put(&one.transform, (-epsilon).exp()).value * epsilon.exp() - exact;
            assert!(off.abs() > found.width(), "{epsilon} {off}");
            one.rules.clear();
        }
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let run = ChainRun {
            bins: 3,
            epochs: 2,
            first: 0.5,
            decay: 0.5,
            noise: 2.0,
        };
        for wrong in [
            ChainRun { bins: 0, ..run },
            ChainRun { epochs: 0, ..run },
            ChainRun {
                epochs: 1_000_001,
                ..run
            },
            ChainRun {
                epochs: usize::MAX,
                ..run
            },
            ChainRun { first: 1.6, ..run },
            ChainRun { decay: 1.0, ..run },
            ChainRun { noise: f64::NAN, ..run },
            ChainRun { noise: 1e-3, ..run },
        ] {
            assert!(wrong.curve().is_err(), "{wrong:?}");
        }
    }
}
