//! Tests of losses with a public outcome; [`kinds`] is for those of every privacy loss.

use super::*;
use crate::curve::composed_loss::ComposedLoss;
use crate::curve::routes::Route;
use crate::loss::pairs::StepOutcome;
use crate::step::{Direction, GroupLaw};

/// Losses of each kind as parts of a step that is one of them, and everybody sees which.
pub(crate) fn kinds() -> Vec<(&'static str, StepLoss)> {
    let law = |records, rate| GroupLaw::binomial(records, rate).unwrap();
    let mixture = |direction| StepLoss::mixture(&law(3, 0.1), 1.1, direction).unwrap().unwrap();
    let batch = GroupLaw::hypergeometric(1, 20, 100).unwrap();
    let replaced = || StepLoss::replace_fixed_batch(&batch, 1.7).unwrap().unwrap();
    let bit = |keep| StepLoss::response(&law(2, 0.3), keep, Direction::Remove).unwrap();
    let laplace = |rate| StepLoss::laplace(&law(1, rate), 0.7, Direction::Remove).unwrap();
    let of = |weight: f64, one: StepLoss, other: StepLoss| {
        StepLoss::public_outcome(vec![(weight.ln(), one), ((-weight).ln_1p(), other)])
    };
    vec![
        ("public, mixtures", of(0.6, mixture(Direction::Remove), replaced())),
        (
            "public, bounded",
            of(0.9, mixture(Direction::Add), StepLoss::gaussians(vec![0.0], vec![0.0])),
        ),
        (
            "public, rarely one",
            of(1e-5, StepLoss::shift(2.0), mixture(Direction::Remove)),
        ),
        ("public, bit", of(0.25, bit(0.6), bit(0.8))),
        ("public, Laplace", of(0.25, laplace(0.1), laplace(0.2))),
    ]
}

/// N(μ²/2, μ²) with a moment and a characteristic function that are wrong by as much as they say, a decay that is attained, and a tail
/// and a truncation of given sizes.
#[derive(Debug, Clone, Copy)]
struct Wrong {
    distance: f64,
    moment_error: f64,
    change_error: f64,
    lost: f64,
}

impl Wrong {
    fn exact(distance: f64) -> Self {
        Self {
            distance,
            moment_error: 0.0,
            change_error: 0.0,
            lost: f64::NEG_INFINITY,
        }
    }

    fn loss(self) -> StepLoss {
        StepLoss::new(self)
    }
}

impl PrivacyLoss for Wrong {
    fn moments(&mut self, c: f64, _: f64) -> TiltedMoments {
        let mut found = StepLoss::shift(self.distance).moments(c, 0.0);
        found.log_moment.value += self.moment_error;
        found.log_moment.error += self.moment_error.abs();
        found
    }

    fn tilted(&mut self, c: f64, tolerance: f64) -> Box<dyn TiltedLoss + '_> {
        let moments = self.moments(c, tolerance);
        Box::new(WrongTilted(*self, moments))
    }

    fn support(&mut self, _: f64, _: f64) -> Support<'_> {
        Support {
            sweeps: Vec::new(),
            atoms: vec![Atom::new(0.3, 0.25f64.ln())],
            fine: None,
            outside: self.change_error,
        }
    }

    fn one_step(&self, epsilon: f64, width: f64, effort: &mut Effort) -> Enclosure {
        StepLoss::shift(self.distance).one_step(epsilon, width, effort)
    }

    fn truncated(&self, log_mass: f64, _steps: f64) -> (StepLoss, f64) {
        (self.loss(), log_mass)
    }

    fn density_terms(&self) -> usize {
        1
    }

    fn log_mass_above(&self, _: f64) -> f64 {
        self.lost
    }
}

struct WrongTilted(Wrong, TiltedMoments);

impl TiltedLoss for WrongTilted {
    fn moments(&self) -> TiltedMoments {
        self.1
    }

    fn size(&self) -> usize {
        1
    }

    fn quadrature_error(&self) -> f64 {
        self.0.change_error
    }

    fn log_decay(&mut self, y: f64) -> f64 {
        -0.5 * (self.0.distance * y).powi(2)
    }

    fn changes(&self, spacing: f64, last: usize) -> Vec<Approx<Complex64>> {
        let mut loss = StepLoss::shift(self.0.distance);
        let mut found = loss.tilted(0.3, 0.0).changes(spacing, last);
        for change in &mut found {
            change.value.re += self.0.change_error;
            change.error += self.0.change_error;
        }
        found
    }
}

const ERROR: f64 = 1e-6;

fn of(weight: f64, one: Wrong, other: Wrong) -> StepLoss {
    StepLoss::public_outcome(vec![(weight.ln(), one.loss()), ((-weight).ln_1p(), other.loss())])
}

fn gaussians(weight: f64, distances: [f64; 2]) -> StepLoss {
    StepLoss::gaussians(vec![weight.ln(), (-weight).ln_1p()], distances.to_vec())
}

/// Moments that are wrong by factors e^e: next to 1, where M − 1 is summed, and far from it.
#[test]
fn errors_of_moments_are_carried_and_attained() {
    for c in [0.3, 3.0] {
        let wrong = Wrong {
            moment_error: ERROR,
            ..Wrong::exact(0.9)
        };
        let mut found = of(0.25, wrong, Wrong { distance: 0.4, ..wrong });
        let exact = gaussians(0.25, [0.9, 0.4]).moments(c, 0.0);
        for found in [found.moments(c, 0.0), found.tilted(c, 0.0).moments()] {
            let off = (found.log_moment.value - exact.log_moment.value).abs();
            assert!(
                off <= found.log_moment.error && 2.0 * off > found.log_moment.error,
                "{c}: {found:?} {off}"
            );
            assert!((found.mean / exact.mean - 1.0).abs() < 1e-4);
            assert!((found.variance / exact.variance - 1.0).abs() < 1e-4);
        }
        // Without errors of its own a part adds only rounding.
        let found = of(0.25, Wrong::exact(0.9), Wrong::exact(0.4)).moments(c, 0.0);
        assert!((found.log_moment.value - exact.log_moment.value).abs() <= found.log_moment.error);
        assert!(
            found.log_moment.error < 1e-13 * (1.0 + found.log_moment.value.abs()),
            "{found:?}"
        );
    }
}

/// The digits of a moment next to 1 are those of M − 1.
#[test]
fn moments_next_to_one_keep_their_digits() {
    let found = of(0.25, Wrong::exact(0.9), Wrong::exact(0.4)).moments(1e-9, 0.0);
    let exact = 1e-9 * (0.25 * 0.405 + 0.75 * 0.08);
    assert!((found.log_moment.value / exact - 1.0).abs() < 2e-9, "{found:?}");
    assert!(found.log_moment.error < 1e-12 * exact, "{found:?}");
}

/// An error of the parts' characteristic functions is that of their mean.
#[test]
fn errors_of_characteristic_functions_are_carried_and_attained() {
    let wrong = Wrong {
        change_error: ERROR,
        ..Wrong::exact(0.9)
    };
    let mut found = of(0.25, wrong, Wrong { distance: 0.4, ..wrong });
    let found = found.tilted(0.3, 0.0);
    let mut exact = gaussians(0.25, [0.9, 0.4]);
    let exact = exact.tilted(0.3, 0.0).changes(0.5, 8);
    for (found, exact) in found.changes(0.5, 8).iter().zip(&exact) {
        let off = (found.value - exact.value).norm();
        assert!(off <= found.error && 2.0 * off > found.error, "{off} {}", found.error);
    }
    assert!(found.quadrature_error() >= ERROR && found.quadrature_error() < 1.01 * ERROR);
}

/// A share that is wrong by its bound moves the characteristic function: one part's moment is too large, the other's too small.
#[test]
fn errors_of_shares_are_carried_and_nearly_attained() {
    let high = Wrong {
        moment_error: ERROR,
        ..Wrong::exact(2.0)
    };
    let low = Wrong {
        moment_error: -ERROR,
        ..Wrong::exact(0.02)
    };
    let mut found = of(0.5, high, low);
    let found = found.tilted(0.3, 0.0).changes(0.5, 8);
    let mut exact = gaussians(0.5, [2.0, 0.02]);
    let exact = exact.tilted(0.3, 0.0).changes(0.5, 8);
    let mut attained = 0.0f64;
    for (found, exact) in found.iter().zip(&exact).skip(1) {
        let off = (found.value - exact.value).norm();
        assert!(off <= found.error, "{off} {}", found.error);
        attained = attained.max(off / found.error);
    }
    assert!(attained > 0.2, "{attained}");
}

/// The modulus of a mean of equal parts is theirs, and half of the bound on its logarithm would be wrong.
#[test]
fn the_decay_is_that_of_the_parts_and_attained() {
    let mut same = of(0.3, Wrong::exact(0.7), Wrong::exact(0.7));
    let mut mixed = of(0.3, Wrong::exact(0.7), Wrong::exact(1.4));
    let (mut same, mut mixed) = (same.tilted(0.3, 0.0), mixed.tilted(0.3, 0.0));
    for y in [1e-4, 0.2, 1.0, 4.0, 40.0] {
        let exact = -0.5 * (0.7f64 * y).powi(2);
        let found = same.log_decay(y);
        assert!(
            found >= exact && found - exact <= 1e-12 * exact.abs().max(1e-3),
            "{y}: {found} {exact}"
        );
        let bound = mixed.log_decay(y);
        let value = 1.0 + mixed.changes(y, 1)[1].value;
        assert!(bound >= value.norm().ln() - 1e-14 && bound <= exact, "{y}: {bound}");
        assert!(mixed.best_log_decay(y, 3.0) == bound);
    }
}

#[test]
fn tails_supports_and_truncations_are_those_of_the_parts() {
    let tail = Wrong {
        lost: -2.0,
        change_error: 0.25,
        ..Wrong::exact(1.0)
    };
    let mut loss = of(0.25, tail, Wrong { lost: -5.0, ..tail });
    let exact = 0.25 * (-2.0f64).exp() + 0.75 * (-5.0f64).exp();
    let found = loss.log_mass_above(0.0).exp();
    assert!(found >= exact && found <= exact * (1.0 + 1e-12));
    let (outside, mass) = {
        let support = loss.support(0.0, -30.0);
        (
            support.outside,
            support.atoms.iter().map(|atom| atom.log_mass.exp()).sum::<f64>(),
        )
    };
    assert!((mass - 0.25).abs() < 1e-15 && outside == 0.25);
    // Every part may lose as much of the whole, and one that is rarer than that is lost.
    let (_, log_lost) = loss.truncated(-9.0, 1.0);
    assert!((log_lost + 9.0).abs() < 1e-14, "{log_lost}");
    let rare = of(1e-6, tail, tail);
    let (mut kept, log_lost) = rare.truncated(-9.0, 1.0);
    assert!(
        (log_lost.exp() - 1e-6 - 0.5 * (-9.0f64).exp()).abs() < 1e-15,
        "{log_lost}"
    );
    let moment = kept.moments(0.0, 0.0);
    assert!(
        (moment.log_moment.value - (-1e-6f64).ln_1p()).abs() <= moment.log_moment.error + 1e-16,
        "{moment:?}"
    );
    assert!(moment.log_moment.error < 1e-14);
}

#[test]
fn a_single_part_is_itself_and_finitely_many_outcomes_are_those_of_one_pair() {
    let one = StepLoss::public_outcome(vec![
        (0.0, StepLoss::shift(1.5)),
        (f64::NEG_INFINITY, StepLoss::shift(9.0)),
    ]);
    assert_eq!(one.single_gaussian(), Some(1.5));
    let atoms = |losses: Vec<f64>| {
        let log_mass = -(losses.len() as f64).ln();
        StepLoss::new(AtomLoss::new(
            losses.into_iter().map(|loss| Atom::new(loss, log_mass)).collect(),
        ))
    };
    let half = 0.5f64.ln();
    let both = StepLoss::public_outcome(vec![(half, atoms(vec![1.0, -1.0])), (half, atoms(vec![1.0, 0.0]))]);
    let found: Vec<(f64, f64)> = both
        .outcomes()
        .unwrap()
        .iter()
        .map(|atom| (atom.loss, atom.log_mass.exp()))
        .collect();
    assert_eq!(found.iter().map(|atom| atom.0).collect::<Vec<_>>(), [1.0, 0.0, -1.0]);
    assert!((found[0].1 - 0.5).abs() < 1e-15 && (found[2].1 - 0.25).abs() < 1e-15);
}

/// A record at `distance` that is replaced in a fixed batch with probability `rate`.
fn replaced(rate: f64, distance: f64) -> StepLoss {
    let law = GroupLaw::explicit(&[1.0 - rate, rate], &[0.0, distance]).unwrap();
    StepLoss::replace_fixed_batch(&law, 1.0).unwrap().unwrap()
}

/// Runs of two kinds of steps whose members are rare: δ is the mean of δ of the runs of known kinds, and the inversion of runs with a
/// large loss answers for both. A gate of different parts at different places would lose or repeat some of the outputs.
#[test]
fn rare_members_of_public_outcomes_are_split_like_those_of_known_ones() {
    const STEPS: u64 = 3;
    const WEIGHT: f64 = 0.3;
    let kinds = || [replaced(1e-4, 2.0), replaced(1e-4, 3.5)];
    let delta = |losses: Vec<(StepLoss, u64)>, epsilon: f64| {
        let steps = losses.into_iter().filter(|(_, count)| *count > 0);
        let steps = steps.map(|(loss, count)| (StepOutcome::Loss(loss), count)).collect();
        let found = ComposedLoss::new(steps, false).delta_by(Route::SplitInversion, epsilon, 1e-7);
        found.unwrap()
    };
    for epsilon in [0.2, 1.0, 4.0] {
        let (mut lower, mut upper) = (0.0, 0.0);
        for (often, ways) in [(0u64, 1.0), (1, 3.0), (2, 3.0), (3, 1.0)] {
            let [one, other] = kinds();
            let known = delta(vec![(one, often), (other, STEPS - often)], epsilon);
            let probability = ways * WEIGHT.powi(often as i32) * (1.0 - WEIGHT).powi((STEPS - often) as i32);
            lower += probability * known.lower();
            upper += probability * known.upper();
        }
        let [one, other] = kinds();
        let public = StepLoss::public_outcome(vec![(WEIGHT.ln(), one), ((-WEIGHT).ln_1p(), other)]);
        let found = delta(vec![(public, STEPS)], epsilon);
        assert!(
            found.lower() <= upper && lower <= found.upper(),
            "{epsilon}: {found:?} {lower} {upper}"
        );
        assert!(
            found.width() < 1e-6 && upper / lower - 1.0 < 1e-6,
            "{epsilon}: {found:?} {lower} {upper}"
        );
    }
}

/// Parts without losses are near as a whole, parts without the common loss far, and the others have gates at one loss.
#[test]
fn near_and_far_parts_have_the_probabilities_of_their_parts() {
    let nothing = StepLoss::gaussians(vec![0.0], vec![0.0]);
    let weights = [0.5f64, 0.3, 0.15, 0.05].map(f64::ln);
    let losses = [replaced(0.01, 2.0), replaced(0.01, 3.0), nothing, StepLoss::shift(1.5)];
    let loss = StepLoss::public_outcome(weights.into_iter().zip(losses).collect());
    assert_eq!(loss.common_loss(), Some(0.0));
    let separation = loss.separation(0.8, 0.1).unwrap();
    let mass = |part: Option<StepLoss>| part.unwrap().moments(0.0, -30.0).log_moment.value.exp();
    let [mut far, mut near] = [0.05, 0.15];
    for (distance, weight) in [(2.0, 0.5), (3.0, 0.3)] {
        let one = replaced(0.01, distance);
        // At the loss l the mixture of N(s) and N(0) has the output (log((e^l − 0.99)/0.01) + s²/2)/s.
        let output = ((0.8f64.exp() - 0.99) / 0.01).ln() / distance + 0.5 * distance;
        let Separation::Gate(gate) = one.separation(0.8, 0.1).unwrap() else {
            panic!()
        };
        assert!((gate.from - output).abs() < 1e-6);
        // The width is that of the narrowest gate, at its output, in units of 1/distance.
        let Separation::Gate(reference) = separation else {
            panic!()
        };
        let width = reference.width * 2.0 / distance;
        let own = Separation::Gate(Gate { width, ..gate });
        far += weight * mass(one.far_part(own));
        near += weight * mass(one.near_part(own, f64::INFINITY));
    }
    let (found_far, found_near) = (
        mass(loss.far_part(separation)),
        mass(loss.near_part(separation, f64::INFINITY)),
    );
    assert!((found_far - far).abs() < 1e-9, "{found_far} {far}");
    assert!((found_near - near).abs() < 1e-9, "{found_near} {near}");
    // Between two gates there is what is below the upper one and above the lower one.
    let upper = loss.separation(3.0, 0.1).unwrap();
    let (Separation::Gate(low), Separation::Gate(high)) = (separation, upper) else {
        panic!()
    };
    let width = low.width.min(high.width);
    let [low, high] = [low, high].map(|gate| Separation::Gate(Gate { width, ..gate }));
    let between = loss.near_part(high, f64::INFINITY).unwrap().far_part(low);
    let expected = mass(loss.near_part(high, f64::INFINITY)) - mass(loss.near_part(low, f64::INFINITY));
    assert!((mass(between) - expected).abs() < 1e-9);
}

/// log δ of N(1, 1) against N(0, 1) is −4714.6 at ε = 97.5, and its last place is 9e-13: bounds of a step that is this pair half of the time lie
/// outside the rounded ones.
#[test]
fn the_rounding_of_far_tails_counts() {
    let half = 0.5f64.ln();
    let still = StepLoss::gaussians(vec![0.0], vec![0.0]);
    let loss = StepLoss::public_outcome(vec![(half, StepLoss::shift(1.0)), (half, still)]);
    let found = loss.one_step(97.5, 1e-10, &mut Effort::default());
    let part = StepLoss::shift(1.0).one_step(97.5, 1e-10, &mut Effort::default());
    assert!(found.log_lower < part.log_lower + half && found.log_upper > part.log_upper + half);
}
