//! Certified adaptive quadrature: a best-first search over dyadic panels.
//!
//! A line is cut into dyadic panels. The panel with the largest possible contribution is taken first: it is integrated if
//! the Gauss–Legendre rule is certified to be accurate there ([`GaussLegendre::log_error`], from a bound on the integrand in
//! an ellipse around the panel), and is halved otherwise. The search ends when everything that is left can add no more than
//! a small part of the sum. The error is the sum of the certified errors and of what was left out; nothing is estimated by
//! comparing two rules.
//!
//! Integrals are kept as logarithms, because moments of privacy losses reach from 1e-300 to far beyond the range of an `f64`.
//! What is integrated is an [`Integrand`], which also keeps the panels, so that later searches can use those of earlier ones.
//!
//! [`GaussLegendre::log_error`]: crate::special::gauss_legendre::GaussLegendre::log_error

use crate::special::log_space::LogSum;
use crate::stopping::checkpoint;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A dyadic interval of one piece of an integral: [index, index + 1]·2^level, in units that the integrand chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Address {
    /// Which piece of the integral the panel belongs to.
    pub(crate) piece: usize,
    /// log₂ of the panel's length.
    pub(crate) level: i32,
    /// Place of the panel among those of its length.
    pub(crate) index: i64,
}

impl Address {
    /// The midpoint and half of the length of the panel, for this length of the unit.
    pub(crate) fn centre_and_half_width(self, unit: f64) -> (f64, f64) {
        let width = f64::powi(2.0, self.level) * unit;
        ((self.index as f64 + 0.5) * width, 0.5 * width)
    }

    /// Both halves of the panel.
    fn halves(self) -> [Self; 2] {
        [0, 1].map(|half| Self {
            level: self.level - 1,
            index: 2 * self.index + half,
            ..self
        })
    }
}

/// What is known of the Gauss–Legendre rule on a panel before the integrand is evaluated there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuleBounds {
    /// log of a bound on the error of the rule.
    pub(crate) log_error: f64,
    /// log of an upper bound on the integral over the panel. Where the error would be too large even in relation to this, the panel is halved
    /// without evaluating the integrand.
    pub(crate) log_most: f64,
}

/// A positive function that is integrated over panels.
pub(crate) trait Integrand {
    /// log of a bound on what the panel adds to the integral, which counts as error if the panel is left out.
    fn log_upper(&mut self, address: Address) -> f64;

    /// The bounds on the rule over a panel.
    fn rule_bounds(&mut self, address: Address) -> RuleBounds;

    /// log of the integral over a panel by the rule.
    fn log_integral(&mut self, address: Address) -> f64;

    /// log of the factor by which errors may exceed the tolerances once the integral so far is e^`_log_total`.
    fn log_slack(&self, _log_total: f64) -> f64 {
        0.0
    }

    /// True once the search has cost as much as it may; what is left then counts as error.
    fn is_exhausted(&self) -> bool {
        false
    }
}

/// When a panel is accepted, and when a search ends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    /// log of the error that the rule may have on one panel, relative to the integral.
    pub(crate) log_panel: f64,
    /// log of what may be left out, relative to the integral.
    pub(crate) log_rest: f64,
    /// Maximum number of panels that are examined; what is left then counts as error.
    pub(crate) max_panels: usize,
}

/// A panel over which the rule is accurate, and its integral.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Accepted {
    pub(crate) address: Address,
    /// log of the integral over the panel.
    pub(crate) log_integral: f64,
}

/// The result of a search, all of it as logarithms.
#[derive(Debug)]
pub(crate) struct Found {
    /// log of the integral, with what was known at the start.
    pub(crate) log_total: f64,
    /// log of the sum of the certified errors of the rule.
    pub(crate) log_error: f64,
    /// log of a bound on what the panels that were left out add.
    pub(crate) log_left_out: f64,
    pub(crate) accepted: Vec<Accepted>,
    /// The panels that were left out, which make up the roots together with the accepted ones.
    pub(crate) left_out: Vec<Address>,
}

/// Integrates over the panels `roots`, of which none overlap; e^`log_known` is known to belong to the integral already.
pub(crate) fn integrate(
    integrand: &mut impl Integrand,
    roots: &[Address],
    log_known: f64,
    tolerance: &Tolerance,
) -> Found {
    let mut search = Search {
        integrand,
        queue: BinaryHeap::new(),
        total: LogSum::default(),
        error: LogSum::default(),
        accepted: Vec::new(),
    };
    search.total.add(log_known);
    for &root in roots {
        search.push(root);
    }
    search.run(tolerance);
    let candidates = search.queue.into_sorted_vec();
    let mut left_out = LogSum::default();
    for candidate in &candidates {
        left_out.add(candidate.log_upper);
    }
    Found {
        log_total: search.total.ln(),
        log_error: search.error.ln(),
        log_left_out: left_out.ln(),
        accepted: search.accepted,
        left_out: candidates.into_iter().map(|candidate| candidate.address).collect(),
    }
}

/// A panel that waits, with the log of a bound on its part of the integral.
#[derive(Debug, PartialEq)]
struct Candidate {
    log_upper: f64,
    address: Address,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// By the bound, then by the address, so that the order of a search is the same on every machine.
impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.log_upper
            .total_cmp(&other.log_upper)
            .then_with(|| self.address.cmp(&other.address))
    }
}

/// The state of a search.
struct Search<'a, I> {
    integrand: &'a mut I,
    /// Panels that are neither integrated nor halved, by the largest possible contribution.
    queue: BinaryHeap<Candidate>,
    /// Sum of the integrals over the accepted panels, and of their certified errors.
    total: LogSum,
    error: LogSum,
    accepted: Vec<Accepted>,
}

impl<I: Integrand> Search<'_, I> {
    fn push(&mut self, address: Address) {
        let log_upper = self.integrand.log_upper(address);
        self.queue.push(Candidate { log_upper, address });
    }

    fn run(&mut self, tolerance: &Tolerance) {
        for _ in 0..tolerance.max_panels {
            checkpoint();
            let waiting = self.queue.len() as f64;
            let Some(Candidate { log_upper, address }) = self.queue.pop() else {
                break;
            };
            let log_total = self.total.ln();
            let rest = log_upper + waiting.ln();
            if rest <= log_total + tolerance.log_rest + self.integrand.log_slack(log_total)
                || self.integrand.is_exhausted()
            {
                self.queue.push(Candidate { log_upper, address });
                break;
            }
            if !self.accept(address, log_total, tolerance.log_panel) {
                for half in address.halves() {
                    self.push(half);
                }
            }
        }
    }

    /// Integrates the panel if the rule is certified to be accurate there.
    fn accept(&mut self, address: Address, log_total: f64, log_tolerance: f64) -> bool {
        let log_tolerance = log_tolerance + self.integrand.log_slack(log_total);
        let RuleBounds { log_error, log_most } = self.integrand.rule_bounds(address);
        // A bound that is not a number says nothing.
        let is_within = |log: f64| log_error <= log_tolerance + log_total.max(log);
        if !is_within(log_most) {
            return false;
        }
        let log_integral = self.integrand.log_integral(address);
        if !is_within(log_integral) {
            return false;
        }
        self.total.add(log_integral);
        self.error.add(log_error);
        self.accepted.push(Accepted { address, log_integral });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::gauss_legendre::{GaussLegendre, REAL_AXIS};

    /// e^{ax} on [0, 1].
    struct Exponential {
        rate: f64,
        evaluated: usize,
    }

    impl Integrand for Exponential {
        fn log_upper(&mut self, address: Address) -> f64 {
            let (centre, half_width) = address.centre_and_half_width(1.0);
            self.rate * (centre + half_width) + (2.0 * half_width).ln()
        }

        fn rule_bounds(&mut self, address: Address) -> RuleBounds {
            let (centre, half_width) = address.centre_and_half_width(1.0);
            let log_bound = self.rate * (centre + REAL_AXIS * half_width);
            RuleBounds {
                log_error: GaussLegendre::log_error(log_bound, half_width),
                log_most: self.log_upper(address),
            }
        }

        fn log_integral(&mut self, address: Address) -> f64 {
            self.evaluated += 1;
            let (centre, half_width) = address.centre_and_half_width(1.0);
            let points = GaussLegendre::get().points(centre, half_width);
            points
                .map(|(x, weight)| weight * (self.rate * x).exp())
                .sum::<f64>()
                .ln()
        }
    }

    const ROOT: Address = Address {
        piece: 0,
        level: 0,
        index: 0,
    };

    fn search(rate: f64, log_tolerance: f64, max_panels: usize) -> (Found, usize) {
        let mut integrand = Exponential { rate, evaluated: 0 };
        let tolerance = Tolerance {
            log_panel: log_tolerance,
            log_rest: log_tolerance,
            max_panels,
        };
        let found = integrate(&mut integrand, &[ROOT], f64::NEG_INFINITY, &tolerance);
        (found, integrand.evaluated)
    }

    #[test]
    fn the_error_is_certified_and_what_is_left_out_counts() {
        for rate in [1.0f64, 60.0, 400.0] {
            let exact = rate + (-(-rate).exp_m1() / rate).ln();
            for log_tolerance in [-5.0, -15.0, -30.0] {
                let (found, _) = search(rate, log_tolerance, 1000);
                let error = found.log_error.exp() + found.log_left_out.exp();
                let wrong = (exact.exp() - found.log_total.exp()).abs();
                assert!(
                    wrong <= error + 1e-13 * exact.exp(),
                    "{rate} {log_tolerance}: {found:?}"
                );
                assert!(
                    error <= 20.0 * (exact + log_tolerance).exp(),
                    "{rate} {log_tolerance}: {found:?}"
                );
            }
        }
    }

    /// A function of which nothing is known has no accepted panels: none of its bounds is a number.
    #[test]
    fn bounds_that_are_not_numbers_accept_nothing() {
        struct Unknown;
        impl Integrand for Unknown {
            fn log_upper(&mut self, _: Address) -> f64 {
                0.0
            }
            fn rule_bounds(&mut self, _: Address) -> RuleBounds {
                RuleBounds {
                    log_error: f64::NAN,
                    log_most: 0.0,
                }
            }
            fn log_integral(&mut self, _: Address) -> f64 {
                0.0
            }
        }
        let tolerance = Tolerance {
            log_panel: -30.0,
            log_rest: -30.0,
            max_panels: 100,
        };
        let found = integrate(&mut Unknown, &[ROOT], f64::NEG_INFINITY, &tolerance);
        assert!(found.accepted.is_empty() && !found.left_out.is_empty());
    }

    /// Where the search has to end early, the bound on what is left is attained within the width of a panel.
    #[test]
    fn a_search_that_ends_early_says_so() {
        let (found, evaluated) = search(400.0, -30.0, 1);
        assert_eq!((evaluated, found.accepted.len()), (0, 0));
        let exact = 400.0 + (1.0f64 / 400.0).ln();
        assert!(found.log_total == f64::NEG_INFINITY && found.log_left_out >= exact);
        let covered: f64 = found.left_out.iter().map(|panel| f64::powi(2.0, panel.level)).sum();
        assert_eq!(covered, 1.0);
    }

    #[test]
    fn what_is_known_at_the_start_belongs_to_the_integral() {
        let tolerance = Tolerance {
            log_panel: -30.0,
            log_rest: -30.0,
            max_panels: 100,
        };
        let mut integrand = Exponential {
            rate: 1.0,
            evaluated: 0,
        };
        let found = integrate(&mut integrand, &[ROOT], 2f64.ln(), &tolerance);
        assert!((found.log_total.exp() - (2.0 + 1f64.exp_m1())).abs() < 1e-14);
    }
}
