use super::*;
use crate::loss::StepLoss;
use crate::loss::allocation::bins::Bins;
use crate::loss::allocation::series::power;
use crate::loss::allocation::truncated_decay::log_decay;
use crate::special::normal::log_upper_tail;
use crate::step::Direction;

fn law(batches: u64, v: f64, log_mass: f64) -> TruncatedLaw {
    TruncatedLaw::new(&Bins::new(&[(batches, v)]).unwrap(), log_mass, f64::INFINITY).unwrap()
}

/// Whole w: M(w)·t^w/w! is a coefficient of the power of the series with E[Y^k; g ≤ b]/k!.
#[test]
fn whole_moments_are_coefficients_of_a_power() {
    for (batches, v, w) in [(200u64, 0.04f64, 12usize), (1000, 0.25, 16), (5000, 0.25, 30)] {
        let law = law(batches, v, -40.0);
        let end = law.parts[0].end;
        let mut factorial = 1.0;
        let log_mass = log_upper_tail(-end);
        let mut series = vec![1.0];
        for k in 1..=w {
            factorial *= k as f64;
            let order = k as f64;
            let log = 0.5 * order * (order - 1.0) * v + log_upper_tail(order * v.sqrt() - end) - log_mass;
            series.push(log.exp() / factorial);
        }
        let total = batches as f64;
        let coefficient = power(&series, total)[w];
        let exact = coefficient.ln() + total * log_mass + log_factorial(w as f64) - w as f64 * total.ln();
        let line = VerticalLine::new(&law, w as f64, 0.0).unwrap();
        let off = (line.log.value - exact).abs();
        assert!(off <= line.log.error + 1e-12, "{batches} {w}: {:?} {exact}", line.log);
        assert!(line.log.error < 1e-9, "{batches} {w}: {:?}", line.log);
    }
}

/// The whole law, from Mellin's integral, where what is left out is far below all errors.
#[test]
fn transforms_are_those_of_the_whole_law() {
    let (batches, v, w) = (200, 0.04, 24.0);
    let law = law(batches, v, -100.0);
    let mut whole = StepLoss::allocation(Bins::new(&[(batches, v)]).unwrap(), Direction::Remove);
    let mut tilted = whole.tilted(w - 1.0, -30.0);
    tilted.certify(160.0);
    let changes = tilted.changes(20.0, 8);
    let line = VerticalLine::new(&law, w, 160.0).unwrap();
    for (i, expected) in changes.iter().enumerate().skip(1) {
        let y = 20.0 * i as f64;
        let found = line.change(y);
        let off = (found.value - expected.value).norm();
        assert!(off <= found.error + expected.error, "{y}: {found:?} {expected:?} {off}");
        assert!(found.error < 1e-8, "{y}: {found:?}");
        let (decay, exact) = (log_decay(&law, &line, None, y), (expected.value + 1.0).norm().ln());
        assert!(exact <= decay + 1e-6, "{y}: {decay} {exact}");
        // The logarithm of W is nearly normal: half of the bound, with twice the exponent, is too small.
        assert!(2.0 * decay < exact || decay == 0.0, "{y}: {decay} {exact}");
    }
}

/// W is nearly 1: the rule adds e^{−λD}(1 + D)^w, which the bound attains where w/(1 + D) is one of the λ' that are tried.
#[test]
fn the_bound_on_aliasing_is_attained() {
    let law = law(1000, 1e-10, -30.0);
    let (w, period) = (20.0f64, 1.5f64);
    let (lambda, _) = saddle(&law, w).unwrap();
    let exact = w * (1.0 + period).ln() - lambda * period;
    let bound = log_aliasing(&law, (w, lambda), period, 0.0).unwrap();
    assert!(bound >= exact - 1e-3 && bound < exact + 0.1, "{bound} {exact}");
    let spacing = TAU / period;
    let on_line = law.on_line(lambda, spacing, 200).unwrap();
    let point = |k: usize| {
        let s = Complex64::new(lambda, k as f64 * spacing);
        (on_line.points[k].0.value + on_line.at_lambda.value - s.ln() * (w + 1.0))
            .exp()
            .re
    };
    let sum: f64 = (1..200).map(|k| 2.0 * point(k)).sum::<f64>() + point(0);
    let moment = sum * spacing / TAU * log_factorial(w).exp();
    assert!(((moment - 1.0) / exact.exp() - 1.0).abs() < 0.02, "{moment} {exact}");
}

/// The terms beyond the k-th point are below the bound, and above half of it where the transform does not decay.
#[test]
fn points_that_are_left_out_are_bounded() {
    let law = law(1000, 1e-10, -30.0);
    let line = VerticalLine::new(&law, 14.0, 0.0).unwrap();
    for (k, y) in [(40usize, 0.0), (60, 3.0)] {
        let bound = line.log_beyond(k, y).exp();
        let size = |i: usize| {
            let x = i as f64 * line.spacing / line.lambda;
            (-0.5 * 15.0 * (x * x).ln_1p() + y * x.atan()).exp()
        };
        let sum: f64 = 2.0 * (k + 1..40_000).map(size).sum::<f64>();
        assert!(sum <= bound && 0.5 * bound < sum, "{k} {y}: {sum} {bound}");
    }
}

/// A value of which nothing is known is at most its bound away from that bound twice, and one that is known stays.
#[test]
fn points_of_which_only_a_bound_is_known_are_errors() {
    let value = Complex64::new(-3.0, 1.0);
    for error in [2.0, f64::INFINITY] {
        let found = closest(Approx::new(value, error), -5.0);
        let most = (-5f64).exp();
        assert_eq!(found.value, Complex64::from(-5.0));
        // −e^−5 is as far from e^−5 as the error says.
        assert!((2.0 * most - found.error * found.value.re.exp()).abs() < 1e-15);
    }
    assert_eq!(closest(Approx::new(value, 0.5), -5.0).value, value);
}

/// The moments of one batch are known in closed form.
#[test]
fn moments_of_one_batch_are_within_their_errors() {
    let (v, w) = (0.04, 24.0);
    let law = law(1, v, -30.0);
    let line = VerticalLine::new(&law, w, 30.0).unwrap();
    let exact = 0.5 * w * (w - 1.0) * v + log_upper_tail(w * v.sqrt() - law.parts[0].end);
    assert!(
        (line.log.value - exact).abs() <= line.log.error + 1e-13,
        "{:?} {exact}",
        line.log
    );
    for y in [5.0, 15.0, 30.0] {
        let (found, bound) = (line.change(y), log_decay(&law, &line, None, y));
        let modulus = (found.value + 1.0).norm();
        assert!(
            found.error < 1e-6 && modulus <= bound.exp() + found.error,
            "{y}: {found:?}"
        );
    }
}

/// Estimates of moments are near them where W is near 1.
#[test]
fn estimates_are_near_moments() {
    for (batches, v, w) in [(200u64, 0.04f64, 12.0), (5000, 0.25, 30.0), (3000, 1.0, 8.0)] {
        let law = law(batches, v, -30.0);
        let (about, exact) = (estimate(&law, w).unwrap(), VerticalLine::new(&law, w, 0.0).unwrap());
        assert!(
            (about.log_moment.value - exact.log.value).abs() < 1e-3,
            "{about:?} {:?}",
            exact.log
        );
        assert!(
            (about.mean - exact.mean).abs() < 0.05 * exact.variance.sqrt(),
            "{about:?} {}",
            exact.mean
        );
        assert!(
            (about.variance / exact.variance - 1.0).abs() < 0.1,
            "{about:?} {}",
            exact.variance
        );
    }
}
