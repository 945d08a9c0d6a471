use super::*;
use realfft::num_complex::Complex64;

/// F(z; v, q) − 1 by the trapezoidal rule in t, as `docs/theory/noise-schedules.md` continues it to complex v and q.
fn change(records: u64, p: Complex64, v: Complex64, q: Complex64) -> Complex64 {
    const STEP: f64 = 0.01;
    let k = records as f64;
    let mut choose = 1.0;
    let weights: Vec<Complex64> = (0..=records as i32)
        .map(|j| {
            let weight = choose * q.powi(j) * (1.0 - q).powi(records as i32 - j);
            choose *= (k - f64::from(j)) / f64::from(j + 1);
            weight
        })
        .collect();
    let at = |i: i32| {
        let t = STEP * f64::from(i);
        let term = |(j, w): (usize, &Complex64)| w * (j as f64 * t + 0.5 * j as f64 * (k - j as f64) * v).exp();
        let r: Complex64 = weights.iter().enumerate().map(term).sum();
        let density = (-t * t / (2.0 * v) - 0.5 * k * t - k * k * v / 8.0).exp() / (2.0 * PI * v).sqrt();
        density * (p * r.ln()).exp()
    };
    (-2000..4000).map(at).sum::<Complex64>() * STEP - 1.0
}

/// The ellipse of parameter ρ of an axis from `start` on.
fn ellipses(start: f64, length: f64) -> Vec<Ellipse> {
    let places: Vec<f64> = (0..=40).map(|i| start + length * f64::from(i) / 40.0).collect();
    Axis::of(&places).ellipses()
}

/// The largest |F − 1| on the boundary of an ellipse, over its bound.
fn largest_part(
    pair: Pair,
    (c, y): (f64, f64),
    mut around: Surrounding,
    at: impl Fn(Complex64) -> Complex64,
) -> f64 {
    let bound = around.bound(c, pair.exponent(c));
    let kappa = c.hypot(y) * (c + 1.0).hypot(y) / (c * (c + 1.0)).abs();
    let bound = kappa * (bound.log_size + y * bound.turn).exp();
    let points = (0..12).map(|i| Complex64::cis(PI * f64::from(i) / 6.0));
    points.map(|point| at(point).norm() / bound).fold(0.0, f64::max)
}

/// A point of the boundary, from one of the unit circle.
fn on(ellipse: &Ellipse, point: Complex64) -> Complex64 {
    let [middle, long] = [ellipse.middle(), ellipse.largest() - ellipse.middle()];
    Complex64::new(middle + long * point.re, ellipse.short * point.im).exp()
}

#[test]
fn ellipses_bound_the_moments_at_complex_noise_and_rates() {
    let mut closest = [0.0f64; 2];
    for (records, log_v, rate, length) in [
        (1, -1.5, 0.02, 0.7),
        (1, -0.5, 0.1, 0.02),
        (3, -2.0, 0.05, 0.02),
        (4, -3.0, 0.02, 0.2),
    ] {
        for adds in [false, true] {
            let pair = Pair { records, adds };
            for (c, y) in [(1.5, 0.0), (2.0, 4.0), (-0.4, 2.0), (0.5, 0.0)] {
                let sign = if adds { -1.0 } else { 1.0 };
                let p = Complex64::new(pair.exponent(c), sign * y);
                for ellipse in ellipses(log_v, length) {
                    let Some(around) = Surrounding::of_noise(pair, &ellipse, f64::ln(rate)) else {
                        continue;
                    };
                    let part = largest_part(pair, (c, y), around, |point| {
                        change(records, p, on(&ellipse, point), rate.into())
                    });
                    assert!(part <= 1.0 + 1e-8, "noise, {pair:?} {c} {y} {ellipse:?}: {part}");
                    closest[0] = closest[0].max(part);
                }
                for ellipse in ellipses(rate.ln(), length) {
                    let Some(around) = Surrounding::of_rates(pair, &ellipse, log_v) else {
                        continue;
                    };
                    let v = log_v.exp().into();
                    let part =
                        largest_part(pair, (c, y), around, |point| change(records, p, v, on(&ellipse, point)));
                    assert!(part <= 1.0 + 1e-8, "rates, {pair:?} {c} {y} {ellipse:?}: {part}");
                    closest[1] = closest[1].max(part);
                }
            }
        }
    }
    // Half of either bound would be too little.
    assert!(closest.iter().all(|part| *part > 0.9), "{closest:?}");
}

/// The turn by the imaginary part of the noise is needed: with half of it the bound would not hold at high frequencies.
#[test]
fn the_turn_of_complex_noise_is_counted_in_full_for_groups() {
    let ellipse = ellipses(-0.5, 0.1).pop().unwrap();
    let around = Surrounding::of_noise(
        Pair {
            records: 2,
            adds: false,
        },
        &ellipse,
        -3.0,
    )
    .unwrap();
    // Two records: only one of them in the batch has k(K − k)/2 = 1/2.
    let largest_part = (0..1000)
        .map(|i| on(&ellipse, Complex64::cis(f64::from(i) * 0.0063)).im.abs())
        .fold(0.0, f64::max);
    assert!(
        around.turn >= 0.5 * largest_part && around.turn < 0.55 * largest_part,
        "{}",
        around.turn
    );
}

/// log r, and its derivative, at s.
fn log_ratio(records: u64, v: f64, q: f64, s: f64) -> (f64, f64) {
    let mut choose = 1.0;
    let (mut sum, mut slope) = (0.0, 0.0);
    for j in 0..=records as i32 {
        let k = f64::from(j);
        let term = choose * q.powi(j) * (1.0 - q).powi(records as i32 - j) * (k * s - 0.5 * k * k * v).exp();
        sum += term;
        slope += k * term;
        choose *= (records as f64 - k) / (k + 1.0);
    }
    (sum.ln(), slope / sum)
}

/// log of the density of the loss where it is that of the output s of the step (v, q), for (v₀, q₀).
fn log_density(records: u64, (v, q): (f64, f64), loss: f64) -> f64 {
    let (mut low, mut high) = (-60.0, 60.0);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if log_ratio(records, v, q, middle).0 < loss {
            low = middle;
        } else {
            high = middle;
        }
    }
    let slope = log_ratio(records, v, q, low).1;
    -low * low / (2.0 * v) - 0.5 * v.ln() - slope.ln()
}

#[test]
fn the_density_of_a_loss_falls_no_faster_than_its_fraction() {
    let mut closest = [0.0f64; 2];
    for (records, v, q) in [(1, 1.0, 0.01), (1, 0.25, 0.2), (2, 0.5, 0.05), (8, 0.3, 0.01)] {
        for (factor, other) in [(1.1, 1.0), (1.0, 1.1), (1.05, 1.02)] {
            let bound = log_fraction(
                records,
                (f64::ln(v), f64::ln(factor * v)),
                (f64::ln(q), f64::ln(other * q)),
            );
            for i in -50..80 {
                let loss = log_ratio(records, v, q, 0.1 * f64::from(i) * v.sqrt()).0;
                let change =
                    log_density(records, (factor * v, other * q), loss) - log_density(records, (v, q), loss);
                assert!(
                    change >= bound - 1e-9,
                    "{records} {factor} {other} {i}: {change} {bound}"
                );
                let of = usize::from(factor == 1.0);
                closest[of] = closest[of].max(change / bound);
            }
        }
    }
    // With one record the bound for noise is attained; half of that for rates would be too little.
    assert!(closest[0] > 0.99 && closest[1] > 0.52, "{closest:?}");
}

#[test]
fn weights_add_up_to_the_steps_and_steps_of_few_kinds_are_their_own_nodes() {
    let pair = Pair {
        records: 1,
        adds: false,
    };
    let kind = |i: u32| Kind {
        noise_multiplier: 1.0 + 0.001 * f64::from(i),
        sample_rate: 0.01 * (1.0 + 0.01 * f64::from(i % 3)),
        steps: 2.0,
    };
    let kinds: Vec<Kind> = (0..300).map(kind).collect();
    let cell = Cell::new(pair, &kinds).unwrap();
    assert_eq!((cell.steps, cell.nodes.len()), (600.0, 3 * NODES));
    let sum: f64 = cell.nodes.iter().map(|node| node.weight).sum();
    assert!((sum - 600.0).abs() < 1e-9, "{sum}");
    // Nothing is gained by as many nodes as there are kinds.
    assert!(Cell::new(pair, &kinds[..48]).is_none());
}

/// The polynomial through the values `of` at the nodes of an axis, at a place.
fn interpolated(axis: &Axis, place: f64, of: impl Fn(f64) -> f64) -> f64 {
    let functions = axis.functions(place);
    let weight = |factors: Terms| factors.iter().zip(&functions).map(|(a, b)| a * b).sum::<f64>();
    numbered(axis).map(|(node, factors)| of(node) * weight(factors)).sum()
}

/// T₁₆ on an axis, which is 0 at all of its nodes.
fn polynomial_of_nodes(axis: &Axis, x: f64) -> f64 {
    let (low, high) = axis.ends();
    let tau = (2.0 * (x - low) / (high - low) - 1.0).clamp(-1.0, 1.0);
    (NODES as f64 * tau.acos()).cos()
}

/// Steps that are all at the end of an axis, where K is log(1 + s·T₁₆) for the largest s with |e^K − 1| within its bound in the ellipse: the
/// sum of the interpolated values is 0, and off by nearly all that is said. In log q the nodes in log v have K with the signs for which
/// the interpolation between them, at the end of that axis, makes the most of it.
#[test]
fn errors_of_sums_are_attained_by_a_function_within_the_bounds_on_its_moments() {
    let places: Vec<f64> = (0..40).map(|i| -1.0 + 0.5 * f64::from(i) / 39.0).collect();
    let axis = Axis::of(&places);
    let (c, steps, y) = (1.5f64, 300.0, 2.0);
    let kappa: f64 = c.hypot(y) * (c + 1.0).hypot(y) / (c * (c + 1.0));
    let signed = |node: f64| {
        let unit = |x: f64| f64::from(u8::from(x == node));
        interpolated(&axis, places[39], unit).signum()
    };
    for (ellipse, rho) in axis.ellipses().iter().zip([8.0f64, 5.5, 4.0, 3.0, 2.2]) {
        let (excess, turn) = (0.02, 0.3);
        let bound = Bound {
            factor: ellipse.factor,
            log_size: f64::ln(excess),
            turn,
        };
        let largest = 0.5 * (rho.powi(NODES as i32) + rho.powi(-(NODES as i32)));
        let scale = kappa * excess * (y * turn).exp() / largest;
        let function = |x: f64| (scale * polynomial_of_nodes(&axis, x)).ln_1p();
        let off = steps * (function(places[39]) - interpolated(&axis, places[39], function));
        let by_noise = SumError {
            c,
            steps,
            lebesgue: axis.lebesgue(),
            bounds: [Some(vec![bound]), None],
        };
        assert!(
            off <= by_noise.at(y) && 1.9 * off > by_noise.at(y),
            "{rho} {off:e} {:e}",
            by_noise.at(y)
        );
        let by_rates = SumError {
            bounds: [None, Some(vec![bound])],
            ..by_noise.clone()
        };
        // What the values at the nodes in log v are off by, at the end of the axis of log q.
        let of_nodes = |node: f64| signed(node) * function(places[39]);
        let off = steps * interpolated(&axis, places[39], of_nodes);
        assert!(
            off <= by_rates.at(y) && 1.9 * off > by_rates.at(y),
            "{rho} {off:e} {:e}",
            by_rates.at(y)
        );
        let both = SumError {
            bounds: [Some(vec![bound]), Some(vec![bound])],
            ..by_noise.clone()
        };
        assert!((both.at(y) / (by_noise.at(y) + by_rates.at(y)) - 1.0).abs() < 1e-15);
    }
}

#[test]
fn a_bound_on_a_logarithm_is_attained_by_the_negative_number() {
    for size in [1e-3f64, 0.5, 0.94] {
        let attained = (1.0 - size).ln().abs();
        assert!(bound_on_log(size) >= attained * (1.0 - 1e-15) && bound_on_log(size) < 1.001 * attained);
    }
    assert_eq!(bound_on_log(MAX_EXCESS), f64::INFINITY);
}

/// A step at the end of both axes, whose noise and rate are off by what their rounding may be: the weights of two nodes move by most of the
/// bound.
#[test]
fn the_rounding_of_weights_is_bounded_and_mostly_attained() {
    let pair = Pair {
        records: 1,
        adds: false,
    };
    let places = |from: f64| (0..40).map(|i| from + 0.5 * f64::from(i) / 39.0).collect::<Vec<_>>();
    let (noise, rates) = (Axis::of(&places(-1.0)), Axis::of(&places(-3.5)));
    let kind = |off: f64| Kind {
        noise_multiplier: (-0.5 * (-0.5 - 2.5 * off)).exp(),
        sample_rate: (-3.0 - 5.0 * off).exp(),
        steps: 1000.0,
    };
    let at = |off: f64| nodes(pair, &[kind(off)], &noise, &rates).unwrap();
    let (exact, moved) = (at(0.0), at(8.0 * f64::EPSILON * 0.95));
    let largest = exact
        .iter()
        .zip(&moved)
        .map(|(a, b)| (a.weight - b.weight).abs())
        .fold(0.0, f64::max);
    let bound = exact[0].rounding;
    assert!(largest <= bound && 2.0 * largest > bound, "{largest:e} {bound:e}");
}
