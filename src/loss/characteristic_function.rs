//! The characteristic function of a discrete law at evenly spaced frequencies.
//!
//! Losses that are small at all frequencies are summed by their moments, and the others by rotations or, where there are many of them and
//! of the frequencies, by one fast Fourier transform. `docs/theory/inversion.md`, "Sums at all frequencies", has
//! the bounds on the rounding errors of all three.

mod nonuniform_transform;
mod rotations;
mod small_losses;

use crate::approx::Approx;
use crate::loss::nodes::Nodes;
use nonuniform_transform::SumError;
use realfft::num_complex::Complex64;

/// Weights and losses that are summed in one way.
#[derive(Debug, Default)]
struct Law {
    weights: Vec<f64>,
    losses: Vec<f64>,
    /// Mean |loss|.
    mean_size: f64,
}

impl Law {
    fn add(&mut self, weight: f64, loss: f64) {
        self.weights.push(weight);
        self.losses.push(loss);
        self.mean_size += (weight * loss).abs();
    }
}

/// Σ w (e^{ijhℓ} − 1) for every j = 0..=last and h = `spacing`, where rounding errors up to `tolerance` do not matter.
///
/// At low frequencies the bound on those of a transform is a few times that of rotations, and at the last ones, where a run of many steps has
/// decayed, a hundred times; what they come to is far less for both. `tolerance` is compared with the bound at frequency 0.
pub(crate) fn smooth_changes(nodes: &Nodes, spacing: f64, last: usize, tolerance: f64) -> Vec<Approx<Complex64>> {
    let (small, others) = by_size(nodes, small_losses::LARGEST / (spacing * last as f64));
    let of_transform = SumError::new(&others, spacing, last);
    let count = others.losses.len();
    let suits = transform_pays(count, last) && (of_transform.at(0) <= tolerance || count * last > MANY_PRODUCTS);
    let transformed = if suits {
        nonuniform_transform::sums(&others, spacing, last)
    } else {
        None
    };
    let is_transformed = transformed.is_some();
    let mut sums = transformed.unwrap_or_else(|| rotations::sums(&others, spacing, last));
    small_losses::add(&small, spacing, &mut sums);
    sums.into_iter()
        .enumerate()
        .map(|(j, sum)| {
            let y = j as f64 * spacing;
            let size = (y * nodes.mean_size).min(2.0);
            let of_others = if is_transformed {
                of_transform.at(j)
            } else {
                rotations::error(j) * (y * others.mean_size).min(2.0)
            };
            let rounding = of_others
                + small_losses::ERROR * y * small.mean_size
                // Angles have at most three roundings, and the sines and cosines of all rotations that lead to y together three more of yℓ.
                + 3.0 * f64::EPSILON * y * nodes.mean_size
                + (nodes.weight_rounding.1 * y).min(2.0 * nodes.weight_rounding.0)
                // With a mass μ at loss 0 the sum would be (Σ w e^{iyℓ} + μ)/(1 + μ) − 1.
                + nodes.missing * size
                + (nodes.c * nodes.c + y * y + f64::MIN_POSITIVE).sqrt() * nodes.loss_rounding;
            // The nodes' error is relative to their own moment M, and so is φ = E[e^{zℓ}]/M; half as much again is for rounding.
            Approx::new(sum, 1.5 * nodes.error + rounding)
        })
        .collect()
}

/// Σ w (e^{ijhx} − 1) for every j = 0..=last and h = `spacing`, of weights w of any sign and places x without errors of their own.
///
/// Up to `most_rotations` products they are summed by rotations, whose bound on the error is a few times smaller.
pub(crate) fn changes_at(
    (weights, places): (&[f64], &[f64]),
    spacing: f64,
    last: usize,
    most_rotations: usize,
) -> Vec<Approx<Complex64>> {
    let (mut law, mut mass) = (Law::default(), 0.0);
    for (&weight, &place) in weights.iter().zip(places) {
        law.add(weight, place);
        mass += weight.abs();
    }
    let count = weights.len();
    let is_transform_better = count * last > most_rotations && transform_pays(count, last);
    let transformed = is_transform_better
        .then(|| nonuniform_transform::sums(&law, spacing, last))
        .flatten();
    let of_transform = transformed.is_some().then(|| SumError::new(&law, spacing, last));
    let sums = transformed.unwrap_or_else(|| rotations::sums(&law, spacing, last));
    let at = |(j, sum): (usize, Complex64)| {
        let y = j as f64 * spacing;
        let rounding = match &of_transform {
            Some(error) => error.at(j),
            None => rotations::error(j) * (y * law.mean_size).min(2.0 * mass),
        };
        Approx::new(sum, 1.01 * (rounding + 3.0 * f64::EPSILON * y * law.mean_size))
    };
    sums.into_iter().enumerate().map(at).collect()
}

/// The losses of at most `largest`, if they are many, and all others.
fn by_size(nodes: &Nodes, largest: f64) -> (Law, Law) {
    let (mut small, mut others) = (Law::default(), Law::default());
    let is_small = |loss: &f64| loss.abs() <= largest;
    let many = nodes.losses.iter().filter(|loss| is_small(loss)).count() >= MANY_SMALL;
    for (&weight, &loss) in nodes.weights.iter().zip(&nodes.losses) {
        let law = if many && is_small(&loss) {
            &mut small
        } else {
            &mut others
        };
        law.add(weight, loss);
    }
    (small, others)
}

/// Small losses whose moments take less time than rotations.
const MANY_SMALL: usize = 32;

/// Rotations in all, some 5 ms of them, from which on a transform is used though it is less accurate. Of 400 random runs 58 need inversion of
/// their runs with a large loss; with a fifth of this number 61 do, because the contours of all runs are wider by rounding.
pub(crate) const MANY_PRODUCTS: usize = 5_000_000;

/// Whether one transform takes less time than rotations of so many nodes from one frequency to the next.
fn transform_pays(nodes: usize, last: usize) -> bool {
    nodes * last > COST_OF_NODE * nodes + COST_OF_FREQUENCY * last
}

/// Cost of a node of a transform, in rotations of one node, of which a processor does nearly 10⁹ in a second.
///
/// Rotations of 1,600 nodes to 300, 3,000 and 30,000 frequencies took 0.5, 4.5 and 44 ms, transforms 0.3, 0.4 and 1.9 ms.
const COST_OF_NODE: usize = 160;
/// Cost of a frequency of a transform, likewise.
const COST_OF_FREQUENCY: usize = 80;

/// Cost of one of many frequencies, in rotations of one node: beyond [`MANY_PRODUCTS`] a transform serves all of them.
pub(crate) fn cost_of_frequency(nodes: &Nodes) -> usize {
    nodes.losses.len().min(COST_OF_FREQUENCY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::StepLoss;
    use crate::step::{Direction, GroupLaw};

    /// A law without any errors of its own.
    fn exact_nodes(law: &[(f64, f64)]) -> Nodes {
        Nodes {
            losses: law.iter().map(|node| node.0).collect(),
            weights: law.iter().map(|node| node.1).collect(),
            mean_size: law.iter().map(|(loss, weight)| weight * loss.abs()).sum(),
            ..Nodes::default()
        }
    }

    pub(super) fn law_of(nodes: &[(f64, f64)]) -> Law {
        let mut law = Law::default();
        nodes.iter().for_each(|&(loss, weight)| law.add(weight, loss));
        law
    }

    /// |a − b| at each j.
    fn distances(a: &[Approx<Complex64>], b: &[Approx<Complex64>]) -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| (a.value - b.value).norm()).collect()
    }

    /// Σ w (e^{ijhℓ} − 1) from one sine a node, where jhℓ has so few digits that it is exact.
    pub(super) fn direct(law: &[(f64, f64)], spacing: f64, j: usize) -> Complex64 {
        let change = |(loss, weight): &(f64, f64)| {
            let (sine, cosine) = (0.5 * (j as f64 * spacing * loss)).sin_cos();
            2.0 * weight * sine * Complex64::new(-sine, cosine)
        };
        law.iter().map(change).sum()
    }

    /// Where all errors are allowed one transform is used, and where none are, rotations: both agree within their errors.
    #[test]
    fn a_transform_and_rotations_agree_within_their_errors() {
        let law: Vec<(f64, f64)> = (0..900)
            .map(|i| (f64::from(i * i % 997) / 256.0 - 1.0, 1.0 / 900.0))
            .collect();
        let nodes = exact_nodes(&law);
        let (count, last) = (nodes.losses.len(), 2_000);
        assert!(transform_pays(count, last) && count * last < MANY_PRODUCTS);
        let transformed = smooth_changes(&nodes, 0.0625, last, 1.0);
        let rotated = smooth_changes(&nodes, 0.0625, last, 0.0);
        for (j, off) in distances(&transformed, &rotated).into_iter().enumerate() {
            assert!(off <= transformed[j].error + rotated[j].error, "{j}: {off}");
        }
        assert!(transformed[1].error > 2.0 * rotated[1].error);
        assert!(distances(&transformed, &rotated).iter().any(|&off| off > 0.0));
    }

    /// Weights of both signs, whose mass is far from 1: by rotations and by a transform the sums are those of sines and cosines up to their errors, of which they take a part.
    #[test]
    fn changes_at_places_are_within_their_errors() {
        let law: Vec<(f64, f64)> = (0..900)
            .map(|i| (f64::from(i * i % 997) / 256.0 - 1.0, f64::from(1 - 2 * (i % 2)) * 0.25))
            .collect();
        let (places, weights): (Vec<f64>, Vec<f64>) = law.iter().copied().unzip();
        let (spacing, last) = (0.0625, 2_000);
        for most in [0, usize::MAX] {
            let found = changes_at((&weights, &places), spacing, last, most);
            let mut most_of_error = 0.0f64;
            for j in (0..=last).step_by(37) {
                let off = (found[j].value - direct(&law, spacing, j)).norm();
                assert!(off <= found[j].error, "{most} {j}: {off:e} {:e}", found[j].error);
                most_of_error = most_of_error.max(off / found[j].error.max(1e-300));
            }
            // Bounds are for the worst signs of all roundings.
            assert!(most_of_error > 1e-4, "{most}: {most_of_error:e}");
        }
        let [by_transform, by_rotations] =
            [0, usize::MAX].map(|most| changes_at((&weights, &places), spacing, last, most));
        assert!(by_transform[1].error > by_rotations[1].error);
    }

    #[test]
    fn weights_and_losses_that_are_off_by_their_bounds_attain_the_bounds() {
        const ERROR: f64 = 1e-7;
        let law = [(1.0, 0.5), (-1.0, 0.25), (1.0, 0.25)];
        let exact = smooth_changes(&exact_nodes(&law), 0.03125, 100, 0.0);
        // All weights too large by a relative 1e-7.
        let mut nodes = exact_nodes(&law.map(|(loss, weight)| (loss, weight * (1.0 + ERROR))));
        nodes.weight_rounding = (ERROR, ERROR * nodes.mean_size);
        let wrong = smooth_changes(&nodes, 0.03125, 100, 0.0);
        let mut attained = [0.0f64; 2];
        for (j, off) in distances(&wrong, &exact).into_iter().enumerate() {
            assert!(off <= wrong[j].error, "{j}");
            let half = usize::from(j > 50);
            attained[half] = attained[half].max(off / wrong[j].error.max(1e-300));
        }
        // The real part of a mean over ±ℓ is all there is at yℓ = π, the imaginary part of 1/2 near 0.
        assert!(attained[0] > 0.5 && attained[1] > 0.8, "{attained:?}");

        // All losses too large by 1e-7: at c = 0 each e^{iyℓ} moves by 1e-7·y.
        let one = [(1.0, 1.0)];
        let exact = smooth_changes(&exact_nodes(&one), 0.03125, 100, 0.0);
        let mut nodes = exact_nodes(&[(1.0 + ERROR, 1.0)]);
        nodes.loss_rounding = ERROR;
        let wrong = smooth_changes(&nodes, 0.03125, 100, 0.0);
        for (j, off) in distances(&wrong, &exact).into_iter().enumerate().skip(1) {
            assert!(
                off <= wrong[j].error && off > 0.99 * wrong[j].error,
                "{j}: {off} {}",
                wrong[j].error
            );
        }
    }

    #[test]
    fn a_law_without_some_mass_is_off_by_no_more_than_its_error() {
        // A hundredth of the mass of e^{zℓ} is missing, at a loss where e^{iyℓ} = −1 while it is 1 elsewhere.
        const MISSING: f64 = 0.01;
        let mut nodes = exact_nodes(&[(2.0, 1.0)]);
        nodes.error = MISSING;
        let found = smooth_changes(&nodes, std::f64::consts::PI, 1, 0.0)[1];
        // Relative to the moment of the nodes, E[e^{zℓ}] − 1 lacks MISSING·(e^{iyℓ} − 0).
        let off = (found.value + MISSING).norm();
        assert!(off <= found.error && 2.0 * off > found.error, "{off} {found:?}");
    }

    /// E[e^{zℓ}]/E[e^{cℓ}] − 1 of (1 − q)N(0, σ²) + qN(1, σ²) against N(0, σ²), z = c + iy. mpmath, 40 digits:
    ///
    /// `f = lambda z: quad(lambda x: npdf(x, 0, s)*exp((1+z)*log(1-q+q*exp((2*x-1)/(2*s*s)))), linspace(-12*s, 14, 97))`
    /// `f(mpc(c, y))/f(mpf(c)) - 1`
    #[test]
    fn nodes_of_a_sampled_gaussian_are_within_their_error_of_the_characteristic_function() {
        let cases = [
            (0.1, 1.0, 3.0, 0.5, -0.025_461_072_647_891_1, 0.081_039_746_973_857_49),
            (0.1, 1.0, 3.0, 1.5, -0.140_597_063_552_197_8, 0.140_999_943_047_970_9),
            (0.1, 1.0, 3.0, 4.0, -0.294_529_294_562_104_2, 0.095_970_234_527_211_63),
            // Half of the tilted mass lies far out, and the bulk has losses of 1e-6.
            (
                1e-6,
                0.5,
                6.875,
                0.1875,
                -0.715_249_329_377_667_4,
                0.069_481_326_265_192_51,
            ),
        ];
        for (rate, sigma, c, y, real, imaginary) in cases {
            let law = GroupLaw::binomial(1, rate).unwrap();
            let mut loss = StepLoss::mixture(&law, sigma, Direction::Remove).unwrap().unwrap();
            for log_tolerance in [-6.0, -9.0, -12.0, -16.0, -20.0, -30.0] {
                let mut tilted = loss.tilted(c, log_tolerance);
                tilted.certify(y);
                let found = tilted.changes(y, 1)[1];
                let off = (found.value - Complex64::new(real, imaginary)).norm();
                assert!(off <= found.error, "{rate} {log_tolerance}: {off} {found:?}");
            }
        }
    }
}
