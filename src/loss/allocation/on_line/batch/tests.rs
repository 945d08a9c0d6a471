use super::*;

/// E[e^{sY}; g ≤ b] by a sum over g, fine enough for the cases below.
fn transform((v, end): (f64, f64), s: Complex64) -> Complex64 {
    let step = 1e-4;
    let term = |i: i32| {
        let g = end - (f64::from(i) + 0.5) * step;
        (s * (v.sqrt() * g - 0.5 * v).exp() - 0.5 * g * g).exp() * step / TAU.sqrt()
    };
    (0..200_000).map(term).sum()
}

/// With tilts of both signs, small and large, transforms on the line are those of a sum, within their errors.
#[test]
fn transforms_are_those_of_one_integral() {
    for (v, largest, lambda, reach) in [
        (1.0f64, 60.0, 0.05, 0.5),
        (1.0, 60.0, 0.3, 2.0),
        (0.04, 3.0, 8.0, 40.0),
        (0.04, 1.4, -20.0, 60.0),
        (4.0, 2000.0, 0.002, 0.01),
    ] {
        let batch = Batch::new(v, largest);
        let tilted = batch.tilted(lambda, reach, -40.0).unwrap();
        let whole = transform((v, batch.end), Complex64::from(lambda)).re;
        let off = (tilted.log_transform.value - whole.ln()).abs();
        // The sum is off by up to 1e-7 where the density is cut off.
        assert!(off <= tilted.log_transform.error + 1e-6, "{v} {lambda}: {off}");
        assert!(
            tilted.log_transform.error < 1e-10,
            "{v} {lambda}: {:?}",
            tilted.log_transform
        );
        let last = 40;
        for (k, value) in tilted.values(reach / f64::from(last), last as usize).iter().enumerate() {
            let tau = reach * k as f64 / f64::from(last);
            let exact = transform((v, batch.end), Complex64::new(lambda, tau)) / whole;
            let off = (value.log.value.exp() - exact).norm();
            assert!(
                off <= exact.norm() * value.log.error + 1e-6,
                "{v} {lambda} {tau}: {off}"
            );
            assert!(exact.norm() <= value.log_most.exp() + 1e-6, "{v} {lambda} {tau}");
            assert!(
                exact.norm() < 1e-4 || value.log.error < 1e-8,
                "{v} {lambda} {tau}: {:?}",
                value.log
            );
        }
    }
}

/// On the ellipse around a panel the integrand is at most as large as bounded, and on a narrow one half of the bound would be too little.
#[test]
fn the_integrand_is_bounded_on_the_ellipse() {
    for (v, lambda, tau) in [(1.0, 0.4, 3.0), (0.25, -6.0, 5.0), (0.04, 20.0, 90.0)] {
        let batch = Batch::new(v, 60.0);
        for (centre, half) in [(1.5, 0.02), (-1.0, 0.02), (1.5, 0.5), (0.2, 1.2)] {
            let mut most = 0.0f64;
            for i in 0..2000 {
                let angle = TAU * f64::from(i) / 2000.0;
                let (sine, cosine) = angle.sin_cos();
                let g = Complex64::new(centre + REAL_AXIS * half * cosine, IMAGINARY_AXIS * half * sine);
                let ratio = (g * v.sqrt() - 0.5 * v).exp();
                for tau in [tau, -tau, 0.0] {
                    let log = (Complex64::new(lambda, tau) * ratio - g * g * 0.5).re - 0.5 * TAU.ln();
                    most = most.max(log.exp());
                }
            }
            let (density, factor, _) = batch.log_most((centre, half), lambda, tau);
            let bound = density + factor;
            assert!(most.ln() <= bound + 1e-9, "{v} {centre} {half}: {} {bound}", most.ln());
            assert!(
                half > 0.1 || bound < most.ln() + LN_2,
                "{v} {centre} {half}: {} {bound}",
                most.ln()
            );
        }
    }
}

/// What is left out below the first panel: e^{sY} is at most its value there, and 1 where λ < 0.
#[test]
fn what_is_left_out_below_is_bounded() {
    for (v, lambda, low) in [(0.25, 3.0, -2.0), (0.25, -3.0, -2.0), (1.0, 0.5, -4.0)] {
        let batch = Batch::new(v, 40.0);
        let exact = transform((v, low), Complex64::from(lambda)).re.ln();
        let bound = batch.log_below(low, lambda);
        // The factor 2 is for e^{sY} − 1.
        assert!(
            exact <= bound - LN_2 && (lambda < 0.0 || bound < exact + 2.0),
            "{v}: {exact} {bound}"
        );
    }
}

/// The density of Y tilted with λ < 0 and λ > 0, by its differences.
#[test]
fn the_total_variation_is_bounded() {
    for (v, lambda, largest) in [
        (0.25f64, -5.0, 4.0),
        (1.0, -0.5, 30.0),
        (0.25, 2.0, 6.0),
        (0.04, 12.0, 1.9),
    ] {
        let tilted = Batch::new(v, largest).tilted(lambda, 0.0, -30.0).unwrap();
        let density = |y: f64| {
            let x = y.ln();
            (-x - 0.5 * (x + 0.5 * v).powi(2) / v + lambda * y - tilted.log_transform.value).exp()
                / (TAU * v).sqrt()
        };
        let count = 200_000;
        let (mut last, mut variation) = (0.0, 0.0);
        for i in 1..=count {
            let here = density(largest * f64::from(i) / f64::from(count));
            variation += (here - last).abs();
            last = here;
        }
        variation += last;
        let bound = tilted.total_variation();
        assert!(variation <= bound * (1.0 + 1e-6), "{v} {lambda}: {variation} {bound}");
        assert!(
            lambda > 0.0 || variation > 0.99 * bound,
            "{v} {lambda}: {variation} {bound}"
        );
    }
}

/// Half of the variance of a window, which is exact, would be too little, and it grows with the window.
#[test]
fn windows_have_the_spread_of_the_law() {
    let (v, lambda, largest) = (1.0f64, 0.2, 40.0);
    let tilted = Batch::new(v, largest).tilted(lambda, 0.5, -30.0).unwrap();
    for window in &tilted.windows {
        let end = (window.length.ln() + 0.5 * v) / v.sqrt();
        let step = 1e-3;
        let mut sums = [0.0; 3];
        for i in 0..14_000 {
            let g = end - (f64::from(i) + 0.5) * step;
            let y = (v.sqrt() * g - 0.5 * v).exp();
            let weight = (lambda * y - 0.5 * g * g - tilted.log_transform.value).exp() * step / TAU.sqrt();
            for (sum, factor) in sums.iter_mut().zip([1.0, y, y * y]) {
                *sum += weight * factor;
            }
        }
        let exact = sums[0] * sums[2] - sums[1] * sums[1];
        assert!(window.spread <= exact * (1.0 + 1e-5) && window.spread >= exact * (1.0 - 1e-4) - 1e-12);
    }
    assert!(tilted.windows.len() > 3);
}

/// Much noise and a million batches: the transform is next to e^{iτ}, and the digits of the difference are known, by the cumulants of Y (Proposition 17). Places
/// that are Y and not Y − 1 would have a hundred times the error.
#[test]
fn places_keep_the_digits_of_many_batches() {
    let (v, lambda, spacing, last) = (3e-4f64, 2e-5, 0.04, 20);
    let mut cumulants = vec![1.0f64];
    for n in 1..12 {
        let mut binomial = 1.0;
        let mut next = 0.0;
        for k in 0..n {
            next += binomial * ((k + 1) as f64 * v).exp_m1() * cumulants[k] * cumulants[n - 1 - k];
            binomial *= (n - 1 - k) as f64 / (k + 1) as f64;
        }
        cumulants.push(next);
    }
    // Without its first term, which is s.
    let log = |s: Complex64| {
        let (mut power, mut sum) = (s, Complex64::default());
        for (n, cumulant) in cumulants.iter().enumerate().skip(1) {
            power *= s / (n + 1) as f64;
            sum += power * *cumulant;
        }
        sum
    };
    let tilted = Batch::between(v, (f64::NEG_INFINITY, 12.0))
        .tilted(lambda, spacing * last as f64, -46.0)
        .unwrap();
    let at_lambda = log(Complex64::from(lambda)).re + lambda;
    let Approx { value, error } = tilted.log_transform;
    assert!(
        (value - at_lambda).abs() <= error && error < 1e-19,
        "{value:e} {at_lambda:e} {error:e}"
    );
    for (k, found) in tilted.values(spacing, last).iter().enumerate() {
        let tau = spacing * k as f64;
        let exact = log(Complex64::new(lambda, tau)) - log(Complex64::from(lambda));
        let off = (found.log.value - Complex64::new(0.0, tau) - exact).norm();
        assert!(
            off <= found.log.error && found.log.error < 2e-15 * (0.2 + tau),
            "{k}: {off:e} {:e}",
            found.log.error
        );
    }
}
