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
    /// For panels that belonged to an integral.
    sizes: FxHashMap<Address, Sizes>,
    scratch: Vec<f64>,
}

/// The numbers at one output on which the rounding of the integrand depends, for every exponent.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    log_ratio: f64,
    /// The rounding error of the log ratio, in the units in which [`Power::rounding`] counts.
    log_ratio_error: f64,
    /// log of the density of the noise, and of the mixture, but for 1/(σ√2π).
    log_noise: f64,
    log_mixture: f64,
}

impl Sizes {
    /// log r is found with an error of at most six units in the last place of its largest exponent s·x/σ². Near 0 it is the sum of the
    /// w_j(e^ζ_j − 1), each of which has the relative error of its weight and of its own exponent ζ_j, however little it counts in r itself.
    fn at(pair: &MixturePair, x: f64, scratch: &mut Vec<f64>) -> Self {
        /// log ratios nearer to 0 are sums of differences to 1.
        const NEAR_ONE: f64 = 0.5;
        let sigma = pair.noise_multiplier();
        let local = pair.local(x, scratch);
        let (_, log_mixture) = pair.log_ratio_and_density(x);
        let shift = local.high_shift.abs().max(local.low_shift.abs()) / sigma;
        let exponent = 1.0 + shift * (x.abs() / sigma + 0.5 * shift) + local.log_ratio.abs();
        Self {
            log_ratio: local.log_ratio,
            log_ratio_error: if local.log_ratio.abs() < NEAR_ONE {
                local.log_ratio.abs() * (exponent + mean_size_of_differences(pair, x))
            } else {
                exponent
            },
            log_noise: -0.5 * (x / sigma).powi(2),
            log_mixture,
        }
    }
}

/// The mean size of what rounds in a term w_j(e^ζ_j − 1) of r − 1, by the moduli of the terms: of the numbers that are added up to ζ_j, and
/// a quarter of |log w_j|, of which the weight has two roundings.
fn mean_size_of_differences(pair: &MixturePair, x: f64) -> f64 {
    let sigma = pair.noise_multiplier();
    let (mut sum, mut total) = (0.0, 0.0);
    for (log_weight, shift) in pair.log_weights.iter().zip(&pair.shifts) {
        let scaled = shift / sigma;
        let exponent = scaled * (x / sigma - 0.5 * scaled);
        // A weight may be as small as its likelihood ratio is large.
        let modulus = if exponent > 1.0 {
            (log_weight + exponent).exp()
        } else {
            log_weight.exp() * exponent.exp_m1().abs()
        };
        sum += modulus * (scaled.abs() * (x.abs() / sigma + 0.5 * scaled.abs()) + 0.25 * log_weight.abs());
        total += modulus;
    }
    if total > 0.0 { sum / total } else { 0.0 }
}

impl Moments {
    /// Moments of `pair`; nothing is computed yet.
    pub fn new(pair: MixturePair) -> Self {
        Self {
            separated_zero: pair.log_weight_of_separated_zero(),
            pair,
            panels: FxHashMap::default(),
            sizes: FxHashMap::default(),
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
            return LogMoment {
                value: 0.5 * exponent * (exponent - 1.0) * scaled * scaled,
                upper: crude_log_moment((shift, shift), self.pair.noise_multiplier(), exponent),
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
        // NaN: rates or shifts so small that nothing is found. An excess below the range of an `f64` is still not 0, where `crude` is not.
        let upper = if upper <= crude {
            upper.max(f64::MIN_POSITIVE.min(crude))
        } else {
            crude
        };
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

    fn sizes(&mut self, address: Address) -> Sizes {
        let Self {
            pair, sizes, scratch, ..
        } = self;
        *sizes.entry(address).or_insert_with(|| {
            let (centre, _) = address.centre_and_half_width(pair.noise_multiplier());
            Sizes::at(pair, centre, scratch)
        })
    }
}

/// An upper bound on log E[r^p]: the moment of a single Gaussian with the largest shift, rounded up.
///
/// Rényi divergences are quasi-convex, so a mixture's is at most that of its farthest part. Where that is below the range of an `f64`, its
/// smallest normal number is the bound.
pub(crate) fn crude_log_moment(shift_range: (f64, f64), noise_multiplier: f64, exponent: f64) -> f64 {
    let farthest = shift_range.0.abs().max(shift_range.1.abs());
    let (scaled, factor) = (farthest / noise_multiplier, 0.5 * exponent * (exponent - 1.0));
    let bound = factor * scaled * scaled * (1.0 + 4.0 * f64::EPSILON);
    if farthest > 0.0 && factor > 0.0 {
        bound.max(f64::MIN_POSITIVE)
    } else {
        bound
    }
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
    ///
    /// Each panel has its own rounding, as the integrand may have several peaks; what its logarithm rounds comes on top, up to that of the
    /// upper bound: six units of 2⁻⁵³.
    fn integral(&mut self, found: &Found) -> Integral {
        let mut support = (f64::INFINITY, f64::NEG_INFINITY);
        let mut rounding = 3.0 * f64::EPSILON * found.log_total.abs();
        for &Accepted { address, log_integral } in &found.accepted {
            let &mut Panel { centre, half_width, .. } = self.moments.panel(address);
            support.0 = support.0.min(centre - half_width);
            support.1 = support.1.max(centre + half_width);
            let share = (log_integral - found.log_total).exp();
            if share > 0.0 {
                rounding += share * self.rounding(address);
            }
        }
        let left_out = (found.log_left_out - found.log_total).exp();
        let certified = (found.log_error - found.log_total).exp();
        Integral {
            log_value: found.log_total,
            relative_error: left_out + certified + rounding,
            support,
            left_out,
        }
    }

    /// Bound on the relative rounding error of the integral over a panel, from the size of the exponents in its centre.
    ///
    /// The integrand multiplies the error of log r ([`Sizes::at`]) by its sensitivity d log|integrand|/d log r; two units more than the six
    /// that log r has are for the distance of other outputs from the centre. The sum over the nodes adds a few units more.
    fn rounding(&mut self, address: Address) -> f64 {
        let Sizes {
            log_ratio,
            log_ratio_error,
            log_noise,
            log_mixture,
        } = self.moments.sizes(address);
        let power = self.exponent.abs();
        let sensitivity = match self.integrand {
            // F'/F is at most |p| + 1 + 2/|u|, also where F has lost its digits.
            Integrand::Excess => {
                excess_sensitivity(log_ratio, self.exponent).min(power + 1.0 + 2.0 / log_ratio.abs())
            }
            Integrand::Power => power,
        };
        // Where r is large the mixture's own density takes the place of r·N(0, σ²): one r less.
        let size = if log_ratio > 1.0 {
            (sensitivity - 1.0).abs() * log_ratio_error + log_mixture.abs()
        } else {
            sensitivity * log_ratio_error - log_noise
        };
        f64::EPSILON * (64.0 + 8.0 * size)
    }
}

#[cfg(test)]
mod tests;
