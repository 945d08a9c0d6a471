//! Certified moments of the likelihood ratio, E_{N(0, σ²)}[r^p], by best-first adaptive quadrature (`special::adaptive`).
//!
//! The error reported is the sum of the certified errors, of what was left out and of a bound on rounding.
//!
//! Panels do not depend on the exponent, so the ratios found for one order serve all others.
//!
//! Two kinds of integrands share the search, the rule and its error bound. This one is real: r^p, and r^p − 1 − p(r − 1) ≥ 0,
//! from which E[r^p] − 1 keeps its digits where it is 1e-120 (Rényi divergences at tiny sampling rates). That of
//! `loss::smooth_nodes` is complex, bounded for all frequencies at once, and is wanted to a part of E[e^{cℓ}] itself: its
//! bounds know nothing of the second-order zero of the excess at r = 1, and with them small excesses would have no digits.
//! In return it knows the losses between two mixtures and behind a smooth cut-off, which are no powers of one ratio.

use crate::loss::line::MARGIN;
use crate::loss::mixture_pair::MixturePair;
pub(crate) use crate::loss::panel::Integrand;
use crate::loss::panel::Panel;
use crate::loss::power_excess::excess_sensitivity;
use crate::special::adaptive::{self, Accepted, Address, Found, RuleBounds, Tolerance};
use crate::special::gauss_legendre::GaussLegendre;
use crate::special::log_space::log1p_exp;
use rustc_hash::FxHashMap;

/// Certified error of one panel, and all that is left out, relative to the integral.
const PANEL_TOLERANCE: f64 = 1e-14;
const REST_TOLERANCE: f64 = 1e-13;
/// Largest factor of a tolerance: that of the panels becomes 1e-3, beyond which nothing would be known.
const LARGEST_SLACK: f64 = 1e11;

/// How far out, in σ, points can be told apart at all: beyond it neighbouring `f64` are a ten-thousandth of σ apart.
const FARTHEST: f64 = 1e12;

/// Panels examined at most; what is left then counts as error.
const MAX_PANELS: usize = 400_000;

/// The value of an integral and how far it can be from the truth.
#[derive(Debug, Clone, Copy)]
pub struct Integral {
    /// log of the value.
    pub log_value: f64,
    /// Bound on the relative error of the value.
    pub relative_error: f64,
    /// Interval outside which the integrand adds at most [`Integral::left_out`].
    pub support: (f64, f64),
    /// Bound on the part of the integral that was left out, relative to its value.
    pub left_out: f64,
}

impl Integral {
    /// log of an upper bound on the integral.
    pub fn log_upper(&self) -> f64 {
        self.log_value + self.relative_error.ln_1p()
    }
}

/// The logarithm of a moment, and an upper bound on it that is never rounded down.
///
/// This is not an [`Approx`](crate::approx::Approx): only the upper bound is certified, and where a closed form holds it is equal to
/// the value but for the last bits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LogMoment {
    /// The value that was computed, at most `upper`.
    pub value: f64,
    /// Upper bound on the logarithm of the moment.
    pub upper: f64,
}

/// Moments of one pair, with the panels found so far.
#[derive(Debug)]
pub struct Moments {
    pair: MixturePair,
    separated_zero: Option<f64>,
    panels: FxHashMap<Address, Panel>,
    scratch: Vec<f64>,
}

impl Moments {
    /// Moments of `pair`; nothing is computed yet.
    pub fn new(pair: MixturePair) -> Self {
        Self {
            separated_zero: pair.log_weight_of_separated_zero(),
            pair,
            panels: FxHashMap::default(),
            scratch: Vec::new(),
        }
    }

    /// The pair.
    pub fn pair(&self) -> &MixturePair {
        &self.pair
    }

    /// log E[r^p] for p outside (0, 1).
    ///
    /// The value is accurate in relative terms also where it is near 0 (E[r^p] near 1). It is +∞ only if
    /// it exceeds the range of an `f64`.
    pub fn log_power_moment(&mut self, exponent: f64) -> LogMoment {
        if let Some(shift) = self.pair.single_shift() {
            // E[r^p] = exp(p(p − 1)s²/2σ²) for a single Gaussian.
            let scaled = shift / self.pair.noise_multiplier();
            let value = 0.5 * exponent * (exponent - 1.0) * scaled * scaled;
            return LogMoment {
                value,
                upper: value * (1.0 + 4.0 * f64::EPSILON),
            };
        }
        if let Some(log_weight) = self.separated_zero.filter(|_| exponent < 0.0) {
            // r ≥ w_0, so w_0^p is a bound on E[r^p]; and it is E[r^p] but for a part e^-40·|p|.
            let value = exponent * log_weight;
            return LogMoment {
                value,
                upper: value * (1.0 + f64::EPSILON),
            };
        }
        let crude = crude_log_moment(self.pair.shift_range(), self.pair.noise_multiplier(), exponent);
        if self.reach(exponent) > FARTHEST {
            return LogMoment {
                value: crude,
                upper: crude,
            };
        }
        let excess = self.integrate(exponent, Integrand::Excess, REST_TOLERANCE);
        let upper = log1p_exp(excess.log_upper());
        // NaN: rates or shifts so small that the excess underflows.
        let upper = if upper <= crude { upper } else { crude };
        let value = log1p_exp(excess.log_value);
        LogMoment {
            value: if value <= upper { value } else { upper },
            upper,
        }
    }

    /// How far out, in σ, r^p may count.
    fn reach(&self, exponent: f64) -> f64 {
        let (low, high) = self.pair.shift_range();
        // Stationary points of p·log r(x) − x²/2σ² are at x = p·(posterior mean of the shift).
        low.abs().max(high.abs()) / self.pair.noise_multiplier() * exponent.abs().max(1.0) + MARGIN
    }

    /// False where the shifts are so large in units of the noise that neighbouring outputs are the same `f64`: nothing is then
    /// integrated.
    pub fn is_in_reach(&self, exponent: f64) -> bool {
        self.reach(exponent) <= FARTHEST
    }

    /// Integrates `integrand` with exponent p, leaving out at most `rest_tolerance` of the value.
    pub fn integrate(&mut self, exponent: f64, integrand: Integrand, rest_tolerance: f64) -> Integral {
        let level = self.reach(exponent).log2().ceil() as i32;
        let roots = [-1, 0].map(|index| Address { piece: 0, level, index });
        let tolerance = Tolerance {
            log_panel: PANEL_TOLERANCE.ln(),
            log_rest: rest_tolerance.ln(),
            max_panels: MAX_PANELS,
        };
        let mut power = Power {
            moments: self,
            exponent,
            integrand,
        };
        let found = adaptive::integrate(&mut power, &roots, f64::NEG_INFINITY, &tolerance);
        power.integral(&found)
    }

    fn panel(&mut self, address: Address) -> &mut Panel {
        let Self {
            pair, panels, scratch, ..
        } = self;
        panels.entry(address).or_insert_with(|| {
            let (centre, half_width) = address.centre_and_half_width(pair.noise_multiplier());
            Panel::new(pair, centre, half_width, scratch)
        })
    }
}

/// An upper bound on log E[r^p]: the moment of a single Gaussian with the largest shift, rounded up.
///
/// Rényi divergences are quasi-convex, so a mixture's is at most that of its farthest part.
pub(crate) fn crude_log_moment(shift_range: (f64, f64), noise_multiplier: f64, exponent: f64) -> f64 {
    let scaled = shift_range.0.abs().max(shift_range.1.abs()) / noise_multiplier;
    0.5 * exponent * (exponent - 1.0) * scaled * scaled * (1.0 + 4.0 * f64::EPSILON)
}

/// One of the integrands for one exponent p.
struct Power<'a> {
    moments: &'a mut Moments,
    exponent: f64,
    integrand: Integrand,
}

impl adaptive::Integrand for Power<'_> {
    fn log_upper(&mut self, address: Address) -> f64 {
        let (exponent, integrand) = (self.exponent, self.integrand);
        let panel = self.moments.panel(address);
        panel.log_upper(exponent, integrand) + (2.0 * panel.half_width).ln()
    }

    fn rule_bounds(&mut self, address: Address) -> RuleBounds {
        let (exponent, integrand) = (self.exponent, self.integrand);
        let panel = self.moments.panel(address);
        let log_bound = panel.log_bound(exponent, integrand);
        RuleBounds {
            log_error: GaussLegendre::log_error(log_bound, panel.half_width),
            log_most: log_bound + (2.0 * panel.half_width).ln(),
        }
    }

    fn log_integral(&mut self, address: Address) -> f64 {
        let Moments { pair, panels, .. } = &mut *self.moments;
        match panels.get_mut(&address) {
            Some(panel) => panel.log_integral(pair, self.exponent, self.integrand),
            None => f64::NEG_INFINITY,
        }
    }

    /// Tolerances apply to the logarithm once that is large: its own rounding is then larger than they are.
    fn log_slack(&self, log_total: f64) -> f64 {
        log_total.clamp(1.0, LARGEST_SLACK).ln()
    }
}

impl Power<'_> {
    /// The result of a search with its errors.
    fn integral(&mut self, found: &Found) -> Integral {
        let mut support = (f64::INFINITY, f64::NEG_INFINITY);
        let mut peak = (f64::NEG_INFINITY, 0.0);
        for &Accepted { address, log_integral } in &found.accepted {
            let &mut Panel { centre, half_width, .. } = self.moments.panel(address);
            support.0 = support.0.min(centre - half_width);
            support.1 = support.1.max(centre + half_width);
            if log_integral > peak.0 {
                peak = (log_integral, centre);
            }
        }
        let left_out = (found.log_left_out - found.log_total).exp();
        let certified = (found.log_error - found.log_total).exp();
        Integral {
            log_value: found.log_total,
            relative_error: left_out + certified + self.rounding(peak.1),
            support,
            left_out,
        }
    }

    /// Bound on the relative rounding error, from the size of the exponents at x, where the integrand is largest.
    ///
    /// log r is found with an error of at most six units in the last place of its largest exponent s·x/σ² (near 0, of
    /// itself times that), and two more are for the distance of x from the peak. The integrand multiplies it by its
    /// sensitivity d log|integrand|/d log r. The sum of the panels adds a few units more.
    fn rounding(&self, x: f64) -> f64 {
        let pair = &self.moments.pair;
        let sigma = pair.noise_multiplier();
        let local = pair.local(x, &mut Vec::new());
        let shift = local.high_shift.abs().max(local.low_shift.abs()) / sigma;
        let exponent = 1.0 + shift * (x.abs() / sigma + 0.5 * shift) + local.log_ratio.abs();
        let log_ratio_error = exponent
            * if local.log_ratio.abs() < 0.5 {
                local.log_ratio.abs()
            } else {
                1.0
            };
        let sensitivity = match self.integrand {
            Integrand::Excess => excess_sensitivity(local.log_ratio, self.exponent),
            Integrand::Power => self.exponent.abs(),
        };
        // Where r is large the mixture's own density takes the place of r·N(0, σ²): one r less.
        let size = if local.log_ratio > 1.0 {
            let (_, log_density) = pair.log_ratio_and_density(x);
            (sensitivity - 1.0).abs() * log_ratio_error + log_density.abs()
        } else {
            sensitivity * log_ratio_error + 0.5 * (x / sigma).powi(2)
        };
        f64::EPSILON * (64.0 + 8.0 * size)
    }
}

#[cfg(test)]
mod tests {
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

    /// What a search found with errors of its own: the truth may be off by all of them at once, and by rounding.
    #[test]
    fn errors_of_a_search_add_up() {
        let mut moments = moments(1, 0.1, 1.0);
        let mut power = Power {
            moments: &mut moments,
            exponent: 2.0,
            integrand: Integrand::Power,
        };
        let rounding = power.rounding(0.0);
        let found = Found {
            log_total: 3f64.ln(),
            log_error: 0.03f64.ln(),
            log_left_out: 0.06f64.ln(),
            accepted: Vec::new(),
            left_out: Vec::new(),
        };
        let integral = power.integral(&found);
        let truth = 3.0 + 0.03 + 0.06 + 3.0 * rounding;
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
        // E[r²] − 1 in closed form; and E[r] = 1 for a mixture of so many normal laws that panels are short.
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
                let found = moments(k, q, sigma).integrate(power, integrand, tolerance);
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
}
