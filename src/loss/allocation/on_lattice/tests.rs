use super::*;
use crate::curve::composed_loss::ComposedLoss;
use crate::loss::StepLoss;
use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::on_lattice::laws::{LatticeLaw, merged, spread};
use crate::loss::pairs::StepOutcome;

/// The tables of a question of its own.
fn tables() -> SharedTables {
    SharedTables::default()
}

/// E[(Z − k)₊] of a law with a tail, whose places are `spacing` apart.
fn curve(law: &LatticeLaw, spacing: f64, k: f64) -> f64 {
    let at = |j: usize| law.start + spacing * j as f64;
    let masses = law.places.masses.iter().enumerate();
    let listed: f64 = masses.map(|(j, mass)| mass * (at(j) - k).max(0.0)).sum();
    listed + law.tail_excess.middle() + (at(law.places.top()) - k) * law.tail_mass.middle()
}

/// C of the spread law is nowhere below that of Y, and C of the merged one nowhere above, at places and between them; and both are no farther from it
/// than the interpolation is.
#[test]
fn two_laws_enclose_a_log_normal_one_in_the_convex_order() {
    for (variance, spacing, last) in [
        (1.0, 0.05, 200),
        (4.0, 0.5, 400),
        (0.25, 0.01, 400),
        (9.0, 4.0, 300),
        (0.1, 0.02, 150),
    ] {
        let law = LogNormal::new(variance);
        let above = spread(&law, spacing, last).unwrap();
        let below = merged(&law, spacing, last).unwrap();
        let total = |law: &LatticeLaw| law.places.masses.iter().sum::<f64>() + law.tail_mass.middle();
        assert!(
            (total(&above) - 1.0).abs() < 1e-10 && (total(&below) - 1.0).abs() < 1e-10,
            "{variance}"
        );
        let (mut wide, mut narrow) = (0.0f64, 0.0f64);
        for i in 0..20 * last {
            let k = spacing * (0.013 + f64::from(i as u32) / 20.0);
            let exact = law.excess_above(k);
            let (most, least) = (curve(&above, spacing, k), curve(&below, spacing, k));
            assert!(most >= exact.lower * (1.0 - 1e-11), "{variance} {k}: {most} {exact:?}");
            assert!(
                least <= exact.upper * (1.0 + 1e-11),
                "{variance} {k}: {least} {exact:?}"
            );
            // The interpolation of C is above it by h²/8 times the density at most.
            let unit = spacing * spacing / 8.0 * law.density(k).0;
            if k > 8.0 * spacing && law.growth(k, k) * spacing < 0.2 * k {
                wide = wide.max((most - exact.middle()) / unit);
                narrow = narrow.max((exact.middle() - least) / unit);
            }
        }
        assert!(
            (0.9..1.6).contains(&wide) && (0.9..2.1).contains(&narrow),
            "{variance}: {wide} {narrow}"
        );
    }
}

/// Half of what the merged law is below the interpolation of C by would leave it above C between places.
#[test]
fn half_of_the_distance_from_the_interpolation_is_too_little() {
    for (variance, spacing) in [(1.0, 0.05), (4.0, 0.5), (0.25, 0.01)] {
        let law = LogNormal::new(variance);
        for j in 20..60 {
            let (a, b) = (spacing * f64::from(j), spacing * f64::from(j + 1));
            let excess = spacing * spacing / 8.0 * law.density(a).0.max(law.density(b).0);
            let chord = 0.5 * (law.excess_above(a).lower + law.excess_above(b).lower);
            let exact = law.excess_above(0.5 * (a + b));
            assert!(chord - 0.5 * excess > exact.upper, "{variance} {a}");
            assert!(chord - excess <= exact.lower, "{variance} {a}");
        }
    }
}

fn part_of_epoch(noise: f64, released: u64, total: u64, direction: Direction) -> SumsOnLattice {
    let variance = 1.0 / (noise * noise);
    let bins = Bins::new(&[(released, variance), (total - released, 0.0)]).unwrap();
    SumsOnLattice::new(bins, direction)
}

/// Two released batches: E[C(w − Y)] over the other one by quadrature (mpmath, 40 digits), C(k) = 1 − k for k ≤ 0.
#[test]
fn two_batches_hold_their_integral() {
    for (noise, total, epsilon, direction, exact) in [
        (0.493, 14, 4.93, Direction::Remove, 0.000_184_533_314_343_865_55),
        (0.493, 14, 1.0, Direction::Remove, 0.023_788_192_070_990_578),
        (1.0, 5, 2.0, Direction::Remove, 0.000_124_616_838_384_129),
        (0.75, 2, 0.9, Direction::Add, 0.159_645_575_946_231_76),
        (0.5, 3, 0.5, Direction::Add, 0.181_982_246_294_633_57),
        (1.456, 52, 0.3, Direction::Remove, 2.085_687_805_732_236_3e-7),
        (2.0, 2, 0.35, Direction::Add, 0.037_759_305_209_627_18),
    ] {
        for (width, places) in [(1e-3, PlaceLimit::Few), (1e-6, PlaceLimit::Any)] {
            let found = part_of_epoch(noise, 2, total, direction).delta(epsilon, width, places, &mut tables());
            let rounding = 4.0 * f64::EPSILON * exact;
            assert!(
                found.lower() <= exact + rounding && exact - rounding <= found.upper(),
                "{noise} {epsilon}: {found:?} {exact}"
            );
            assert!(found.width() <= 2.0 * width, "{noise} {epsilon}: {found:?}");
        }
    }
}

/// One batch of two is a Gaussian pair at w: E[(Y − w)₊]/2. Batches of two kinds are those of one where both are alike.
#[test]
fn one_batch_and_batches_of_two_kinds_hold_what_is_known() {
    let law = LogNormal::new(1.0);
    let found = part_of_epoch(1.0, 1, 2, Direction::Remove).delta(1.5, 1e-6, PlaceLimit::Any, &mut tables());
    let exact = law.excess_above(2.0 * 1.5f64.exp_m1() + 1.0);
    assert!(found.lower() <= 0.5 * exact.upper && 0.5 * exact.lower <= found.upper() && found.width() < 1e-6);
    for direction in [Direction::Remove, Direction::Add] {
        let alike = part_of_epoch(0.8, 7, 30, direction).delta(0.2, 1e-6, PlaceLimit::Any, &mut tables());
        let (one, other) = (1.0 / 0.64, 1.0 / 0.64f64.next_up());
        let bins = Bins::new(&[(3, one), (4, other), (23, 0.0)]).unwrap();
        let mixed = SumsOnLattice::new(bins, direction).delta(0.2, 1e-6, PlaceLimit::Any, &mut tables());
        assert!(
            mixed.log_lower <= alike.log_upper && alike.log_lower <= mixed.log_upper,
            "{alike:?} {mixed:?}"
        );
        assert!(alike.width() < 1e-6 && mixed.width() < 1e-6, "{alike:?} {mixed:?}");
    }
}

/// Every width encloses what a finer one does, however many batches there are, and whole epochs have what inversion finds.
#[test]
fn wide_answers_hold_narrow_ones_and_those_of_inversion() {
    for (noise, released, total, epsilon, direction) in [
        (0.502, 38, 1906, 0.426, Direction::Remove),
        (0.328, 13, 54, 0.274, Direction::Add),
        (3.161, 51, 87, 0.13, Direction::Remove),
        (1.0, 100, 100, 1.2, Direction::Remove),
        (1.0, 100, 100, 0.6, Direction::Add),
    ] {
        let sums = part_of_epoch(noise, released, total, direction);
        let [coarse, fine] = [1e-3, 1e-6].map(|width| sums.delta(epsilon, width, PlaceLimit::Any, &mut tables()));
        assert!(coarse.log_lower <= fine.log_upper && fine.log_lower <= coarse.log_upper);
        assert!(
            coarse.width() < 2e-3 && fine.width() < 5e-6,
            "{noise} {released}: {coarse:?} {fine:?}"
        );
        let variance = 1.0 / (noise * noise);
        let bins = Bins::new(&[(released, variance), (total - released, 0.0)]).unwrap();
        let outcome = StepOutcome::Loss(StepLoss::allocation(bins, direction));
        let other = ComposedLoss::new(vec![(outcome, 1)], direction == Direction::Add).delta(epsilon, 1e-6);
        assert!(
            other.log_lower <= fine.log_upper && fine.log_lower <= other.log_upper,
            "{noise}: {other:?} {fine:?}"
        );
    }
}

/// δ is 0 where an added record cannot reach ε, as batches that are not released bound the likelihood ratio W from below; and nothing is claimed at
/// an ε that no lattice is made for: at 0, below it, or so large that its threshold overflows.
#[test]
fn ends_of_the_range_say_nothing_or_zero() {
    let sums = part_of_epoch(1.0, 5, 20, Direction::Add);
    assert_eq!(sums.delta(0.4, 1e-6, PlaceLimit::Any, &mut tables()), Enclosure::ZERO);
    for epsilon in [0.0, -1.0, 1e-9, f64::NAN] {
        assert_eq!(
            sums.delta(epsilon, 1e-6, PlaceLimit::Any, &mut tables()),
            Enclosure::TRIVIAL
        );
    }
    let huge = part_of_epoch(1.0, 5, 20, Direction::Remove).delta(700.0, 1e-6, PlaceLimit::Any, &mut tables());
    assert!(huge.lower() == 0.0);
}

/// A lattice counts once for each question, whether it is new or known, so that the budget of a question does not depend on earlier ones.
#[test]
fn a_lattice_counts_once_for_every_question_that_uses_it() {
    let sums = part_of_epoch(0.9, 30, 100, Direction::Remove);
    let mut tables = tables();
    let first = sums.delta(0.3, 1e-6, PlaceLimit::Any, &mut tables);
    let work = tables.work;
    assert!(work > 1_000_000, "{work}");
    assert_eq!(sums.delta(0.3, 1e-6, PlaceLimit::Any, &mut tables), first);
    assert_eq!(tables.work, work);
    tables.forget();
    assert_eq!(sums.delta(0.3, 1e-6, PlaceLimit::Any, &mut tables), first);
    assert_eq!(tables.work, 2 * work);
}

/// Cells as wide as that could have masses where the density underflows.
#[test]
fn lattices_with_a_huge_spacing_are_refused() {
    let parts = &part_of_epoch(0.9, 30, 100, Direction::Remove).bins.parts;
    assert!(Side::spread(parts, 1e16, 4000).is_none() && Side::spread(parts, 0.5, 4000).is_some());
}

/// A lattice of many places is made where it attains the width that is asked for, and not where even the largest would miss it.
#[test]
fn many_places_are_taken_where_they_suffice() {
    let attained = part_of_epoch(2.0, 100, 100, Direction::Remove);
    let [few, enough] =
        [PlaceLimit::Few, PlaceLimit::Enough].map(|limit| attained.delta(0.3, 1e-9, limit, &mut tables()));
    let any = attained.delta(0.3, 1e-9, PlaceLimit::Any, &mut tables());
    assert!(
        enough.width() <= few.width() && any.width() <= few.width(),
        "{few:?} {enough:?} {any:?}"
    );
    for found in [enough, any] {
        assert!(
            few.log_lower <= found.log_upper && found.log_lower <= few.log_upper,
            "{few:?} {found:?}"
        );
    }
    let missed = part_of_epoch(2.0, 1000, 1000, Direction::Remove);
    let [few, enough, any] = [PlaceLimit::Few, PlaceLimit::Enough, PlaceLimit::Any]
        .map(|limit| missed.delta(0.14, 1e-6, limit, &mut tables()));
    assert_eq!(few, enough);
    assert!(any.width() < 0.9 * few.width() && any.width() > 1e-6, "{few:?} {any:?}");
}

/// Thresholds that share a lattice have the width that is asked for at both ends of their range: where the middle has it and an end has not, one
/// more digit is asked of the lattice.
#[test]
fn all_thresholds_of_a_range_have_the_width() {
    let sums = part_of_epoch(20.0, 2, 2, Direction::Remove);
    for i in 0..40 {
        let epsilon = 0.28 + 0.001 * f64::from(i);
        let found = sums.delta(epsilon, 1e-3, PlaceLimit::Enough, &mut tables());
        assert!(found.width() <= 1e-3, "{epsilon}: {found:?}");
    }
}
