use super::*;
use crate::loss::allocation::bins::Part;
use crate::loss::allocation::log_normal::LogNormal;
use crate::loss::allocation::threshold::Range;

fn parts(count: f64, variance: f64) -> Vec<Part> {
    vec![Part { count, variance }]
}

fn target(parts: &[Part], direction: Direction, middle: f64) -> Target<'_> {
    let range = Range {
        number: 0,
        middle,
        largest: middle * 1.02,
    };
    Target {
        parts,
        direction,
        range,
        log_most: f64::INFINITY,
    }
}

fn at(value: f64) -> Threshold {
    Threshold { value, error: 0.0 }
}

/// E[(Y₁ + Y₂ − w)₊], or E[(w − Y₁ − Y₂)₊], by one integral over the closed form of one of them.
fn of_two(v: f64, w: f64, direction: Direction) -> f64 {
    let law = LogNormal::new(v);
    let step = 1e-3;
    let term = |i: i32| {
        let g = (f64::from(i) + 0.5) * step;
        let rest = w - (v.sqrt() * g - 0.5 * v).exp();
        let inner = match direction {
            Direction::Remove if rest <= 0.0 => 1.0 - rest,
            Direction::Remove => law.excess_above(rest).upper,
            Direction::Add if rest <= 0.0 => 0.0,
            Direction::Add => law.excess_below(rest).upper,
        };
        inner * (-0.5 * g * g).exp() * step / TAU.sqrt()
    };
    (-20_000..20_000).map(term).sum()
}

/// Two batches with much noise, at all thresholds of a range.
#[test]
fn expectations_of_two_batches_are_those_of_one_integral() {
    for (v, middle, direction) in [
        (0.0025, 2.3, Direction::Remove),
        (0.0025, 2.7, Direction::Remove),
        (0.0025, 1.7, Direction::Add),
        (0.04, 1.1, Direction::Add),
        (0.04, 1.3, Direction::Add),
        (0.0025, 2.0, Direction::Remove),
    ] {
        let parts = parts(2.0, v);
        let line = SumLine::new(&target(&parts, direction, middle));
        let line = line.unwrap_or_else(|| panic!("no line: {v} {middle} {direction:?}"));
        for factor in [0.985, 1.0, 1.015] {
            let w = middle * factor;
            let (lower, upper) = line.log_expectation(&at(w));
            let exact = of_two(v, w, direction).ln();
            assert!(
                lower - 1e-7 <= exact && exact <= upper + 1e-7,
                "{v} {w}: [{lower}, {upper}] {exact}"
            );
            assert!(upper - lower < 1e-6, "{v} {w}: {lower} {upper}");
        }
    }
}

/// One large Y and many moderate ones count about the same at this threshold. The sum over the large one of the curve of all others, by another line, has the
/// same value.
#[test]
fn expectations_with_one_large_ratio_are_those_of_a_sum() {
    let (v, count, w) = (1.0, 40.0, 110.0);
    let all = parts(count, v);
    let line = SumLine::new(&target(&all, Direction::Remove, w)).unwrap();
    let (lower, upper) = line.log_expectation(&at(w));
    assert!(upper - lower < 1e-9, "{lower} {upper}");
    // Y₁ by a rule in its normal variable; E[(S' − (w − Y₁))₊] of the others by lines of their own.
    let others = parts(count - 1.0, v);
    let (mut sum, step) = (0.0, 0.05);
    for i in -160..200 {
        let g = (f64::from(i) + 0.5) * step;
        let rest = w - (v.sqrt() * g - 0.5 * v).exp();
        let mean = count - 1.0;
        let inner = if rest > mean + 1.0 {
            let line = SumLine::new(&target(&others, Direction::Remove, rest)).unwrap();
            line.log_expectation(&at(rest)).1.exp()
        } else if rest > 0.0 {
            let line = SumLine::new(&target(&others, Direction::Add, rest)).unwrap();
            mean - rest + line.log_expectation(&at(rest)).1.exp()
        } else {
            mean - rest
        };
        sum += inner * (-0.5 * g * g).exp() * step / TAU.sqrt();
    }
    assert!((sum.ln() - upper).abs() < 1e-6, "{} {upper}", sum.ln());
}

/// With a period that is too short the sum is too large, by no more than the bound and by more than a part of it, on either side of the saddle point.
#[test]
fn aliases_are_bounded() {
    for (direction, middle, factor, least) in [
        (Direction::Remove, 101.0, 3.0, 0.45),
        (Direction::Add, 99.0, 3.0, 0.45),
        (Direction::Remove, 130.0, 5.0, 0.05),
    ] {
        let parts = parts(100.0, 0.25);
        let (mut line, _) = SumLine::expecting(&target(&parts, direction, middle)).unwrap();
        let target = target(&parts, direction, middle);
        let exact = line.log_without_large(&at(middle)).1;
        let log = line.log_transform.value - direction.sign() * line.lambda * middle;
        let last = line.points.len() - 1;
        let batches = line.batches(&target, line.spacing * last as f64).unwrap();
        line.spacing *= factor;
        line.fill(&batches, last / factor as usize + 1);
        let coarse = (line.log_without_large(&at(middle)).1 - log).exp();
        let exact = (exact - log).exp();
        let bound = line.aliases((middle, 0.0), log, (-1.0 - line.lambda.ln()).exp());
        let off = coarse - exact;
        assert!(
            off > least * bound && off <= bound * (1.0 + 1e-6),
            "{direction:?} {factor}: {off} {bound}"
        );
    }
}

/// What lies beyond fewer points is bounded.
#[test]
fn what_lies_beyond_the_last_point_is_bounded() {
    let parts = parts(100.0, 0.25);
    let target = target(&parts, Direction::Remove, 130.0);
    let (mut line, _) = SumLine::expecting(&target).unwrap();
    let exact = line.log_without_large(&at(130.0)).0;
    let last = line.points.len() - 1;
    let batches = line.batches(&target, line.spacing * last as f64).unwrap();
    let modulus = Modulus::new(&batches);
    let log = line.log_transform.value - line.lambda * 130.0;
    let mut closest = f64::INFINITY;
    for end in 2..last / 2 {
        line.fill(&batches, end);
        line.log_beyond = f64::NEG_INFINITY;
        let cut = line.log_without_large(&at(130.0)).1;
        let off = ((cut - log).exp() - (exact - log).exp()).abs();
        let bound = line.log_beyond_of(&modulus, end).exp();
        if off.is_nan() {
            continue; // the sum of so few points is negative
        }
        assert!(off <= bound + 1e-13, "{end}: {off} {bound}");
        closest = closest.min(bound / off);
    }
    assert!(closest < 100.0, "{closest}");
}

/// Both directions differ by the mean of S − w.
#[test]
fn both_directions_agree() {
    for (count, v, w) in [(50.0, 1.0, 55.0), (1000.0, 0.25, 1010.0), (3.0, 0.04, 3.2)] {
        let parts = parts(count, v);
        let of = |direction| {
            let line = SumLine::new(&target(&parts, direction, w)).unwrap();
            let (lower, upper) = line.log_expectation(&at(w));
            (lower.exp(), upper.exp())
        };
        let (above, below) = (of(Direction::Remove), of(Direction::Add));
        let mean = count - w;
        assert!(
            above.0 - below.1 <= mean + 1e-9 && mean - 1e-9 <= above.1 - below.0,
            "{count}: {above:?} {below:?}"
        );
        assert!(
            above.1 - above.0 < 1e-9 * above.1 && below.1 - below.0 < 1e-9 * below.1,
            "{count}"
        );
    }
}

/// Where no number holds the tails of Y, the bound is still one.
#[test]
fn expectations_beyond_the_range_of_numbers_have_a_bound() {
    let parts = parts(10.0, 0.25);
    let line = SumLine::new(&target(&parts, Direction::Remove, 1e12)).unwrap();
    let (lower, upper) = line.log_expectation(&at(1e12));
    // One batch alone reaches 1e12 with a probability of about e^−1550, which no number holds.
    assert!(
        lower == f64::NEG_INFINITY && upper < -650.0 && upper.is_finite(),
        "{lower} {upper}"
    );
}

/// Where the first line expects too much there is a second one, and what both know of an expectation is used. For eleven batches the second one alone knows it to 7e-5; for
/// thousands of them, at the end of a range, the first one alone to 1e-2.
#[test]
fn both_of_two_lines_are_used() {
    let parts = parts(11.0, 1.0 / 5.476f64.powi(2));
    let line = SumLine::new(&target(&parts, Direction::Remove, 36.707)).unwrap();
    for w in [36.3, 36.707, 37.2] {
        let (lower, upper) = line.log_expectation(&at(w));
        assert!(lower < upper && upper - lower < 1e-5, "{w}: {lower} {upper}");
        let other = line.other.as_ref().unwrap().log_expectation(&at(w));
        assert!(other.0 <= lower && upper <= other.1, "{w}");
    }
    let (parts, range) = (parts_of_many(), (11_015.14, 11_104.0));
    let line = SumLine::new(&Target {
        range: Range {
            number: 0,
            middle: range.0,
            largest: range.1,
        },
        ..target(&parts, Direction::Remove, range.0)
    });
    let line = line.unwrap();
    let (lower, upper) = line.log_expectation(&at(11_062.5));
    let other = line.other.as_ref().unwrap().log_expectation(&at(11_062.5));
    assert!(upper - lower < 5e-3, "{lower} {upper}");
    let only_first = SumLine { other: None, ..line };
    let (least, most) = only_first.log_expectation(&at(11_062.5));
    assert!(
        most - least > 7e-3 && other.1 - other.0 < 5e-3,
        "{least} {most} {other:?}"
    );
}

fn parts_of_many() -> Vec<Part> {
    parts(10_350.0, 1512.0 / 67.628_158f64.powi(2))
}
