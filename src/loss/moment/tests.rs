use super::*;
use crate::step::GroupLaw;

fn moments(group_size: u64, sample_rate: f64, noise_multiplier: f64) -> Moments {
    let law = GroupLaw::binomial(group_size, sample_rate).unwrap();
    Moments::new(MixturePair::new(&law, noise_multiplier).unwrap())
}

/// E[r²] = Σ_ij w_i w_j e^{s_i s_j/σ²}, minus 1.
fn second_moment_excess(group_size: u64, sample_rate: f64, noise_multiplier: f64) -> f64 {
    let law = GroupLaw::binomial(group_size, sample_rate).unwrap();
    let mut sum = 0.0;
    for (a, s) in law.log_weights().iter().zip(law.shifts()) {
        for (b, t) in law.log_weights().iter().zip(law.shifts()) {
            let exponent = s * t / (noise_multiplier * noise_multiplier);
            sum += -(a + b + exponent).exp() * (-exponent).exp_m1();
        }
    }
    sum
}

#[test]
fn second_moments_agree_with_their_closed_form() {
    for (k, q, sigma) in [
        (1, 0.01, 1.0),
        (16, 0.03, 15.0),
        (4, 0.05, 2.0),
        (64, 0.001, 3.0),
        (1, 1e-6, 100.0),
        (1, 1e-4, 1e4),
        (10, 0.5, 1.0),
        (256, 0.01, 5.0),
    ] {
        let exact = second_moment_excess(k, q, sigma);
        let integral = moments(k, q, sigma).integrate(2.0, Integrand::Excess, 1e-13);
        let value = integral.log_value.exp();
        let allowed = 1e-12 * integral.log_value.max(1.0);
        assert!(
            (value / exact - 1.0).abs() <= allowed && integral.relative_error < 10.0 * allowed,
            "{k} {q} {sigma}: {value} {exact} {integral:?}"
        );
    }
}

#[test]
fn a_tiny_rate_keeps_its_digits() {
    // E[r²] − 1 = q²(e^{1/σ²} − 1) for one record.
    let LogMoment { value, upper } = moments(1, 1e-60, 1.0).log_power_moment(2.0);
    let exact = 1e-120 * 1f64.exp_m1();
    assert!((value / exact - 1.0).abs() < 1e-12 && upper >= exact);
}

#[test]
fn the_first_moment_of_the_power_is_one() {
    // E[r] = 1, and E[r^0] = 1.
    let mut moments = moments(16, 0.01, 1.0);
    for exponent in [1.0, 0.0] {
        let integral = moments.integrate(exponent, Integrand::Power, 1e-14);
        assert!(integral.log_value.abs() < 1e-12, "{integral:?}");
    }
}

#[test]
fn extreme_corners_end_and_stay_certified() {
    for (k, q, sigma) in [
        (10_000, 0.5, 0.05),
        (10_000, 1e-4, 1.0),
        (10_000, 0.5, 1e4),
        (1, 1e-300, 1.0),
        (3, 0.2, 0.05),
    ] {
        for exponent in [10_000.0, 1.0001, -9999.0, -1e-4, 64.0] {
            let mut moments = moments(k, q, sigma);
            let LogMoment { value, upper } = moments.log_power_moment(exponent);
            assert!(
                value >= 0.0 && upper >= value && upper.is_finite(),
                "{k} {q} {sigma} {exponent}"
            );
            assert!(
                upper <= value * (1.0 + 1e-10) + 1e-300,
                "{k} {q} {sigma} {exponent}: {value} {upper}"
            );
        }
    }
}

#[test]
fn example_of_log_power_moment() {
    use crate::loss::MixturePair;
    use crate::loss::moment::Moments;
    use crate::step::GroupLaw;
    let mut moments = Moments::new(MixturePair::new(&GroupLaw::binomial(1, 0.01).unwrap(), 1.0).unwrap());
    let LogMoment { value, upper } = moments.log_power_moment(2.0);
    // E[r²] = 1 + q²(e^{1/σ²} − 1)
    assert!((value / (1e-4 * 1f64.exp_m1()).ln_1p() - 1.0).abs() < 1e-12 && upper >= value);
}

/// E[r^132] − 1 has two peaks of like weight, of which the farther is rounded more: at the first alone the bound would be too low. mpmath, 60
/// digits: log1p(fsum(binomial(p, j)*q**j*(1-q)**(p-j)*expm1(mpf(j*(j-1))/(2*s*s)) for j in range(2, p + 1))).
#[test]
fn the_rounding_of_both_of_two_peaks_counts() {
    let found = moments(1, 0.000_132_660_613_636_084_97, 2.721_275_667_428_128).log_power_moment(132.0);
    let exact = 4.047_356_864_270_642_6e-5;
    assert!(found.upper >= exact && found.upper < exact * (1.0 + 1e-11), "{found:?}");
}

/// Logarithms of a rate of 1e-58 and of an excess of 1e-115 are rounded by many units in the last place of what they are about. mpmath as above.
#[test]
fn the_rounding_of_logarithms_of_small_excesses_counts() {
    let found = moments(1, 2.073_667_256_439_905_7e-58, 0.7).log_power_moment(2.0);
    let exact = 2.879_726_835_224_446e-115;
    assert!(found.upper >= exact && found.upper < exact * (1.0 + 1e-12), "{found:?}");
}

/// E[r²] − 1 = q²(e − 1), and μ² of one Gaussian.
#[test]
fn excesses_below_the_range_of_numbers_have_an_upper_bound_that_is_not_zero() {
    for rate in [1e-170, 1e-300] {
        let LogMoment { value, upper } = moments(1, rate, 1.0).log_power_moment(2.0);
        assert!(
            value <= upper && (f64::MIN_POSITIVE..1e-300).contains(&upper),
            "{rate} {upper:e}"
        );
    }
    for rate in [1.0, 0.5] {
        let law = GroupLaw::explicit(&[1.0 - rate, rate], &[0.0, 1e-90]).unwrap();
        let mut moments = Moments::new(MixturePair::new(&law, 1e90).unwrap());
        let LogMoment { value, upper } = moments.log_power_moment(2.0);
        assert!(value <= upper && upper > 0.0 && upper < 1e-300, "{rate} {upper:e}");
        // E[r] = 1.
        assert_eq!(moments.log_power_moment(1.0).upper, 0.0);
    }
}

/// What a search found with errors of its own: the truth may be off by all of them at once, and by rounding.
#[test]
fn errors_of_a_search_add_up() {
    let mut moments = moments(1, 0.1, 1.0);
    let mut power = Power {
        moments: &mut moments,
        exponent: 2.0,
        integrand: Integrand::Power,
    };
    // Two panels with a third and two thirds of the integral, of which the second is rounded more.
    let accepted = [(0, 0.0), (2, 2f64.ln())].map(|(index, log_integral)| Accepted {
        address: Address {
            piece: 0,
            level: 2,
            index,
        },
        log_integral,
    });
    let rounding = accepted.map(|panel| power.rounding(panel.address));
    assert!(rounding[1] > 1.5 * rounding[0], "{rounding:?}");
    let found = Found {
        log_total: 3f64.ln(),
        log_error: 0.03f64.ln(),
        log_left_out: 0.06f64.ln(),
        accepted: accepted.to_vec(),
        left_out: Vec::new(),
    };
    let integral = power.integral(&found);
    let logarithms = 3.0 * f64::EPSILON * 3f64.ln();
    let truth = 3.0 + 0.03 + 0.06 + rounding[0] + 2.0 * rounding[1] + 3.0 * logarithms;
    assert!((integral.log_upper() - truth.ln()).abs() < 5e-16, "{integral:?}");
    assert!((integral.left_out - 0.02).abs() < 1e-15, "{integral:?}");
}

/// Log ratios that are off by six units in the last place of their largest exponent at every output, and log densities by as much of
/// themselves (all times a million, so that it is seen): the integral is off by nearly all that is said. The bound has two more for
/// that the exponents are those of one place of the panel with most of the integral, and not of its peak.
#[test]
fn the_rounding_of_log_ratios_is_bounded_and_attained() {
    const LARGER: f64 = 1e6;
    let unit = 6.0 * f64::EPSILON * LARGER;
    for (rate, exponent) in [(0.1, 20.0), (0.5, 12.0), (1e-3, 30.0)] {
        for integrand in [Integrand::Excess, Integrand::Power] {
            let mut moments = moments(1, rate, 1.0);
            let found = moments.integrate(exponent, integrand, 1e-16);
            // All that counts has a ratio far above 1, where its power outweighs the other terms.
            let (mut exact, mut wrong) = (0.0, 0.0);
            for i in 0..4000 {
                let x = exponent - 20.0 + 0.01 * f64::from(i);
                let (log_ratio, log_density) = moments.pair().log_ratio_and_density(x);
                if log_ratio < 1.0 {
                    continue;
                }
                let largest_exponent = 1.0 + x.abs() + 0.5 + log_ratio;
                let off = unit * ((exponent - 1.0) * largest_exponent + log_density.abs());
                let value = ((exponent - 1.0) * log_ratio + log_density - found.log_value).exp();
                exact += value;
                wrong += value * off.exp();
            }
            let off = (wrong / exact - 1.0) / LARGER;
            let bound = found.relative_error;
            assert!(
                off <= bound && 1.8 * off > bound,
                "{rate} {exponent}: {off:e} {bound:e}"
            );
        }
    }
}

/// Searches that may leave out much of the integral, for which a panel's part is bounded by its largest value.
#[test]
fn what_is_left_out_is_bounded_and_the_bound_is_used() {
    let mut closest = 0.0f64;
    // E[r²] − 1 in closed form; and E[r] = 1 for a mixture of so many normal laws, not known to have real zeros, that panels are short.
    for (k, q, sigma, power) in [
        (1, 0.01, 1.0, 2.0),
        (4, 0.05, 2.0, 2.0),
        (30, 0.5, 1.0, 1.0),
        (60, 0.3, 1.0, 1.0),
    ] {
        let (exact, integrand) = if power == 1.0 {
            (1.0, Integrand::Power)
        } else {
            (second_moment_excess(k, q, sigma), Integrand::Excess)
        };
        for i in 0..60 {
            let tolerance = 0.7f64.powi(i - 8);
            let law = GroupLaw::binomial(k, q).unwrap();
            let any_law = GroupLaw::explicit_log(law.log_weights(), law.shifts()).unwrap();
            let mut moments = Moments::new(MixturePair::new(&any_law, sigma).unwrap());
            let found = moments.integrate(power, integrand, tolerance);
            let missing = exact / found.log_value.exp() - 1.0;
            assert!(
                missing <= found.relative_error && missing > -1e-12,
                "{k} {q} {tolerance}: {missing} {found:?}"
            );
            if found.left_out > 1e-9 {
                closest = closest.max(missing / found.left_out);
            }
        }
    }
    assert!(closest > 0.5, "{closest}");
}
