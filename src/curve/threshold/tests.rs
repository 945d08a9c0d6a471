use super::*;

/// Judges by a threshold, leaving the points of some stretches open; counts the questions.
fn found(axis: &Axis, start: f64, known: Option<f64>, threshold: f64, open: &[(f64, f64)]) -> (Found, usize) {
    let mut questions = 0;
    let found = search(
        axis,
        start.into(),
        known,
        &mut questions,
        |questions, x| {
            *questions += 1;
            let excess = if axis.whole {
                (x.max(0.1) / threshold.max(0.1)).ln()
            } else {
                x - threshold
            };
            let uncertainty = 0.0;
            let verdict = match open.iter().any(|&(low, high)| low <= x && x <= high) {
                true => Verdict::Open,
                false if x <= threshold => Verdict::Meets,
                false => Verdict::Misses,
            };
            Ok(Judged {
                verdict,
                excess,
                uncertainty,
            })
        },
        |_, x| Ok(x <= threshold),
    );
    (found.unwrap(), questions)
}

/// A slope of a start may be wrong by any factor, and so may the distance that it leads to: the search makes progress, and a good slope takes four questions.
#[test]
fn a_wrong_slope_takes_some_questions_more() {
    let axis = Axis::continuous((-30.0, 10.0), 1e-6);
    let questions = |start: Start, threshold: f64| {
        let mut count = 0;
        let found = search(
            &axis,
            start,
            None,
            &mut count,
            |count, x| {
                *count += 1;
                let excess = (x - threshold) * (1.0 + 0.3 * (x - threshold).abs().min(1.0));
                let verdict = if excess > 0.0 { Verdict::Misses } else { Verdict::Meets };
                Ok(Judged {
                    verdict,
                    excess,
                    uncertainty: 1e-8,
                })
            },
            |_, x| Ok(x <= threshold),
        );
        let found = found.unwrap();
        let (low, high) = (found.meets.unwrap(), found.misses.unwrap());
        assert!(
            low <= threshold && threshold <= high && high - low <= 1e-6 && !found.wide,
            "{found:?}"
        );
        count
    };
    for slope in [1e-9, 0.01, 0.3, 1.0, 30.0, 1e9] {
        for off in [-2.0, -0.69, -1e-3, 1e-3, 0.69, 2.0] {
            let start = Start {
                x: 1.3 + off,
                slope: Some(slope),
            };
            let count = questions(start, 1.3);
            assert!(count <= 40, "{slope} {off}: {count}");
            assert!(count <= 5 || slope != 1.0 || f64::abs(off) > 0.01, "{off}: {count}");
        }
    }
}

#[test]
fn open_points_far_below_a_whole_threshold_do_not_hide_it() {
    let axis = Axis::whole((0, 1_000_000_000), 1e-6);
    for threshold in [0.0, 1.0, 2.0, 77.0, 6_648.0, 181_916.0, 700_000_000.0, 999_999_999.0] {
        for open in [&[][..], &[(2.0, 100.0)], &[(1.0, 1.0)], &[(1.0, 4_000.0)]] {
            // A stretch that holds the threshold leaves it open.
            if open
                .iter()
                .any(|&(low, high)| low <= threshold + 1.0 && threshold <= high)
            {
                continue;
            }
            let (found, questions) = found(&axis, 1.0, Some(0.0), threshold, open);
            assert_eq!(found.meets, Some(threshold), "{threshold} {open:?}");
            assert_eq!(found.misses, Some(threshold + 1.0), "{threshold} {open:?}");
            assert!(!found.wide && questions <= 70, "{threshold} {open:?} {questions}");
        }
    }
}

#[test]
fn a_stretch_of_open_points_around_the_threshold_is_reported_as_wide() {
    let axis = Axis::whole((0, 1_000_000_000), 1e-6);
    let (found, questions) = found(&axis, 1.0, Some(0.0), 6_648.0, &[(3_000.0, 20_000.0)]);
    let (low, high) = (found.meets.unwrap(), found.misses.unwrap());
    assert!(found.wide && questions <= 60, "{questions}");
    assert!(
        (1_000.0..3_000.0).contains(&low) && (20_001.0..=26_000.0).contains(&high),
        "{low} {high}"
    );
}

#[test]
fn a_stretch_as_short_as_the_accuracy_is_no_reason_to_warn() {
    let axis = Axis::continuous((-30.0, 0.0), 1e-6);
    for threshold in [-0.3, -1.0, -7.2, -29.0] {
        for half in [0.0, 1e-8, 1e-7] {
            let open = [(threshold - half, threshold + half)];
            let (found, questions) = found(&axis, -1.0, None, threshold, &open);
            let (low, high) = (found.meets.unwrap(), found.misses.unwrap());
            assert!(low <= threshold && threshold < high, "{low} {high}");
            assert!(!found.wide && high - low < 1e-6, "{low} {high}");
            assert!(questions <= 45, "{threshold} {half} {questions}");
        }
    }
    let (found, _) = found(&axis, -1.0, None, -9.0, &[(-20.0, -5.0)]);
    assert!(found.wide && found.meets.unwrap() < -20.0 && found.misses.unwrap() > -5.0);
}

/// A point that stays open where the excess is at most `half`.
fn open_within(half: f64, excess: f64, uncertainty: f64) -> Judged {
    let verdict = match excess.abs() <= half {
        true => Verdict::Open,
        false if excess < 0.0 => Verdict::Meets,
        false => Verdict::Misses,
    };
    Judged {
        verdict,
        excess,
        uncertainty,
    }
}

#[test]
fn the_width_of_an_open_answer_determines_where_to_ask_next() {
    let axis = Axis::continuous((-30.0, 0.0), 1e-6);
    let (threshold, half) = (-9.0, 0.4);
    let questions = |uncertainty: f64| {
        let mut questions = 0;
        let judge = |questions: &mut usize, x: f64| {
            *questions += 1;
            Ok(open_within(half, x - threshold, uncertainty))
        };
        let found = search(&axis, Start::from(-1.0), None, &mut questions, judge, |_, x| {
            Ok(x <= threshold)
        })
        .unwrap();
        (found.meets.unwrap(), found.misses.unwrap(), questions)
    };
    let (low, high, informed) = questions(half);
    let (blind_low, blind_high, blind) = questions(0.0);
    assert!(low < threshold - half + 1e-9 && threshold + half - 1e-9 < high);
    assert!(high - low <= 3.0 * half, "{low} {high}");
    assert!(
        high - low <= blind_high - blind_low && informed < blind,
        "{informed} {blind}"
    );
}

/// Among whole numbers, where what is next to the end of a stretch may be the number that is known already.
#[test]
fn a_short_stretch_of_open_whole_numbers_is_located() {
    for threshold in [3.2, 77.5, 4_716.4, 123_456.7] {
        for half in [0.02, 2e-4, 5e-5] {
            let axis = Axis::whole((0, 1_000_000_000), 1e-3);
            let mut questions = 0;
            let judge = |questions: &mut usize, x: f64| {
                *questions += 1;
                assert!(*questions < 100, "{threshold} {half}");
                Ok(open_within(half, (x.max(0.1) / threshold).ln(), half))
            };
            let start = Start {
                x: (1.01 * threshold).round(),
                slope: Some(1.0),
            };
            let found = search(&axis, start, Some(0.0), &mut questions, judge, |_, _| Ok(true)).unwrap();
            let (low, high) = (found.meets.unwrap(), found.misses.unwrap());
            assert!(low < threshold && threshold < high, "{low} {high}");
            // Both ends to an eighth of the stretch or half of the tolerance, and to whole numbers.
            let most = 2.5 * half + 2.0 * 5e-4 + 4.0 / threshold;
            assert!((high / low).ln() <= most, "{threshold} {half}: {low} {high}");
            assert!(questions <= 20, "{threshold} {half}: {questions}");
        }
    }
}

#[test]
fn the_ends_of_the_range_are_found() {
    let axis = Axis::whole((1, 10_000), 1e-6);
    let (all, _) = found(&axis, 1.0, None, 1e9, &[]);
    assert_eq!((all.meets, all.misses, all.wide), (Some(10_000.0), None, false));
    let (none, _) = found(&axis, 1.0, None, 0.0, &[]);
    assert_eq!((none.meets, none.misses), (None, Some(1.0)));
    // What cannot be judged at the far end may or may not meet the target.
    let (unsure, _) = found(&axis, 1.0, None, 1e9, &[(5_000.0, 1e9)]);
    assert!(unsure.wide && unsure.misses.is_none() && unsure.meets.unwrap() >= 4_096.0);
}

#[test]
fn a_point_that_is_refused_gives_way_to_one_that_is_not() {
    let axis = Axis::whole((0, 1_000), 1e-6);
    let judge = |_: &mut (), x: f64| {
        let verdict = if x <= 500.0 { Verdict::Meets } else { Verdict::Misses };
        Ok(Judged {
            verdict,
            excess: x - 500.5,
            uncertainty: 0.0,
        })
    };
    let found = search(&axis, Start::from(1.0), Some(0.0), &mut (), judge, |(), x| {
        Ok(x <= 431.0)
    })
    .unwrap();
    assert_eq!(
        (found.meets, found.misses, found.wide),
        (Some(431.0), Some(501.0), true)
    );
    let none = search(&axis, Start::from(1.0), Some(0.0), &mut (), judge, |(), _| Ok(false)).unwrap();
    assert_eq!(none.meets, Some(0.0));
}
