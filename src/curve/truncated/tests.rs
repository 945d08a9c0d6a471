//! Tests of compositions without some of their outputs.

use super::*;
use crate::curve::one_step;
use crate::loss::StepLoss;
use crate::step::{Direction, GroupLaw};

/// One step whose δ has a closed form, without outputs of a probability p = e^−5: their losses are so far above ε that they are missing
/// in δ' almost in full, so that δ' + p/2 is below δ.
#[test]
fn the_truncated_mass_is_needed_in_full_and_suffices() {
    let law = GroupLaw::binomial(1, 0.999).unwrap();
    let loss = StepLoss::mixture(&law, 0.5, Direction::Remove).unwrap().unwrap();
    let epsilon = 1.0;
    let exact = one_step::delta(&loss, epsilon);
    let segments = [Segment { loss, steps: 1.0 }];
    let mut truncated = Truncated::new(&segments, 5.0);
    let mass = truncated.log_truncated_mass().exp();
    assert!(mass < (-4.9f64).exp() && mass > 0.9 * (-5f64).exp(), "{mass}");
    let found = truncated.delta_by(Form::Grid, epsilon, 1e-4).unwrap();
    let (lower, upper) = (found.lower(), found.upper());
    assert!(lower <= exact.upper() && exact.lower() <= upper, "{found:?} {exact:?}");
    assert!(upper - 0.5 * mass < exact.lower(), "{found:?} {exact:?} {mass}");
    assert!(truncated.known(epsilon) == found);
    // Chernoff's bound holds for the whole law too, far above δ.
    assert!(truncated.chernoff(epsilon).log_upper >= exact.log_lower);
}

/// Losses that are kept add up to less than ε, so that no tilt has its saddle point there: δ' = 0, and the bound is the truncated mass. Without
/// it δ of 36 steps at ε = 0.17 was [3e-70, 3e-9].
#[test]
fn beyond_all_losses_that_are_kept_only_the_truncated_mass_counts() {
    let law = GroupLaw::binomial(1, 4e-5).unwrap();
    let loss = StepLoss::mixture(&law, 2.0, Direction::Remove).unwrap().unwrap();
    let exact = one_step::delta(&loss, 0.17);
    let mut truncated = Truncated::new(&[Segment { loss, steps: 1.0 }], 48.0);
    let mass = truncated.log_truncated_mass();
    assert_eq!(truncated.tilt_for(0.17), None);
    let bound = truncated.chernoff(0.17).log_upper;
    assert!(bound >= exact.log_lower && bound >= mass, "{bound} {mass} {exact:?}");
    // The bound is e^−3 of the mass or less.
    assert!(bound < mass + (-3f64).exp().ln_1p() + 1e-9, "{bound} {mass}");
    // Of several steps ε may be reached with outputs that are kept: the bounds, too, are those of the sum.
    let segments = |steps| {
        let loss = StepLoss::mixture(&law, 2.0, Direction::Remove).unwrap().unwrap();
        [Segment { loss, steps }]
    };
    let mut several = Truncated::new(&segments(1e6), 48.0);
    assert!(
        several.bound_beyond(0.17).log_upper > mass,
        "{:?}",
        several.bound_beyond(0.17)
    );
    assert_eq!(several.bound_beyond(0.0), Enclosure::TRIVIAL);
}

/// Below the mean of the loss the contour is at c < 0, whose integral is δ' less the mass of the truncated law: with a mass of 1 in its
/// place, the lower end would be above δ.
#[test]
fn a_contour_below_zero_accounts_for_the_truncated_mass() {
    let law = GroupLaw::binomial(1, 0.9).unwrap();
    let loss = StepLoss::mixture(&law, 1.0, Direction::Remove).unwrap().unwrap();
    let epsilon = -1.0;
    let exact = one_step::delta(&loss, epsilon);
    let mut truncated = Truncated::new(&[Segment { loss, steps: 1.0 }], 2.0);
    assert!(truncated.tilt_for(epsilon).unwrap() < 0.0);
    let found = truncated.delta_by(Form::LongInversion, epsilon, 1e-4).unwrap();
    let mass = truncated.log_truncated_mass().exp();
    let (lower, upper) = (found.lower(), found.upper());
    assert!(lower <= exact.upper() && exact.lower() <= upper, "{found:?} {exact:?}");
    assert!(lower + mass > exact.upper(), "{found:?} {exact:?} {mass}");
}

/// All forms that apply to ten steps of full batches enclose the closed form of their sum.
#[test]
fn every_form_encloses_the_curve() {
    let loss = StepLoss::gaussians(vec![0.3f64.ln(), 0.7f64.ln()], vec![0.2, 0.2]);
    let segments = [Segment { loss, steps: 10.0 }];
    let exact = one_step::gaussian_delta(0.2 * 10f64.sqrt(), 1.0);
    for form in [Form::Inversion, Form::LongInversion, Form::Grid] {
        let mut truncated = Truncated::new(&segments, 48.0);
        let width = if form == Form::Grid { 1e-3 } else { 1e-8 };
        let found = truncated.delta_by(form, 1.0, width).unwrap();
        assert!(
            found.log_lower <= exact.log_upper && exact.log_lower <= found.log_upper,
            "{form:?}: {found:?} {exact:?}"
        );
        assert!(found.width() <= 4.0 * width, "{form:?}: {found:?}");
    }
}
