//! Sums over the nodes of a quadrature rule for all orders k at once, with what bounds their errors.

use super::{ByOrder, NEGLIGIBLE};
use crate::loss::allocation::kernel::MAX_ORDER;
use realfft::num_complex::Complex64;

/// Sums that are added to by turns, and are added up in the end.
pub(super) const LANES: usize = 8;

/// Sums over the nodes, by k.
#[derive(Clone, Copy)]
pub(super) struct Sums {
    pub(super) real: ByOrder,
    pub(super) imaginary: ByOrder,
    /// Of moduli, and of moduli times the errors of their phases in units of the machine's.
    pub(super) sizes: ByOrder,
    pub(super) phases: ByOrder,
}

/// The sums of one k over every [`LANES`]-th node.
#[derive(Clone, Copy, Default)]
pub(super) struct Lanes {
    pub(super) real: [f64; LANES],
    pub(super) imaginary: [f64; LANES],
    pub(super) sizes: [f64; LANES],
    pub(super) phases: [f64; LANES],
}

/// Terms of [`LANES`] nodes next to each other: directions, moduli and the errors of the phases.
#[derive(Default)]
pub(super) struct Terms {
    pub(super) real: [f64; LANES],
    pub(super) imaginary: [f64; LANES],
    pub(super) moduli: [f64; LANES],
    pub(super) factors: [f64; LANES],
    pub(super) slacks: [f64; LANES],
}

/// The moduli of the terms of one node: `first`·`factor`^k, but `zeroth` for k = 0.
#[derive(Clone, Copy, Default)]
pub(super) struct Moduli {
    pub(super) zeroth: f64,
    pub(super) first: f64,
    pub(super) factor: f64,
}

impl Sums {
    pub(super) const EMPTY: Self = Self {
        real: [0.0; MAX_ORDER + 1],
        imaginary: [0.0; MAX_ORDER + 1],
        sizes: [0.0; MAX_ORDER + 1],
        phases: [0.0; MAX_ORDER + 1],
    };
}

impl Lanes {
    pub(super) fn add(&mut self, lane: usize, value: Complex64, size: f64, error: f64) {
        self.real[lane] += value.re;
        self.imaginary[lane] += value.im;
        self.sizes[lane] += size;
        self.phases[lane] += error;
    }
}

impl Terms {
    pub(super) fn set(&mut self, lane: usize, direction: Complex64, moduli: Moduli, slack: f64) {
        (self.real[lane], self.imaginary[lane]) = (direction.re, direction.im);
        (self.moduli[lane], self.factors[lane]) = (moduli.first, moduli.factor);
        self.slacks[lane] = slack;
    }

    /// Adds the terms of k = 1, 2, …: those of one node have the same direction for all k.
    pub(super) fn add_to(mut self, lanes: &mut [Lanes]) {
        for sums in lanes {
            for lane in 0..LANES {
                self.moduli[lane] *= self.factors[lane];
                let part = self.moduli[lane];
                sums.real[lane] += self.real[lane] * part;
                sums.imaginary[lane] += self.imaginary[lane] * part;
                sums.sizes[lane] += part;
                sums.phases[lane] += self.slacks[lane] * part;
            }
        }
    }
}

/// True if terms from `last` on are negligible for all k.
pub(super) fn outweighs(lanes: &[Lanes], last: Moduli, before: Moduli) -> bool {
    let (mut at_last, mut at_before) = (last.zeroth, before.zeroth);
    for (k, sums) in lanes.iter().enumerate() {
        if k == 1 {
            (at_last, at_before) = (last.first, before.first);
        }
        if k > 0 {
            at_last *= last.factor;
            at_before *= before.factor;
        }
        let all: f64 = sums.sizes.iter().sum();
        if at_last >= NEGLIGIBLE * all || at_last >= 0.5 * at_before {
            return false;
        }
    }
    true
}

/// Adds a bound on what lies beyond the term `outer`, next to which `inner` is: a geometric series, as terms are log-concave.
pub(super) fn leave_out(ends: &mut ByOrder, inner: Moduli, outer: Moduli, n: usize) {
    let (mut at_inner, mut at_outer) = (inner.zeroth, outer.zeroth);
    for (k, end) in ends.iter_mut().enumerate().take(n + 1) {
        if k == 1 {
            (at_inner, at_outer) = (inner.first, outer.first);
        }
        if k > 0 {
            at_inner *= inner.factor;
            at_outer *= outer.factor;
        }
        let ratio = at_outer / at_inner;
        *end += match ratio {
            _ if at_outer == 0.0 => 0.0,
            ratio if ratio < 0.99 => at_outer * ratio / (1.0 - ratio),
            _ => f64::INFINITY,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Terms that fall by a half for k = 0 and 1, and by a quarter for k = 2: all that follows the outer one is the geometric series.
    #[test]
    fn what_is_left_out_of_a_geometric_series_is_its_rest() {
        let moduli = |zeroth: f64, first: f64, factor: f64| Moduli { zeroth, first, factor };
        let mut ends = [0.0; MAX_ORDER + 1];
        leave_out(&mut ends, moduli(2.0, 8.0, 0.5), moduli(1.0, 8.0, 0.25), 2);
        // Of 1, 1/2, …: 1. For k = 1 of 2, 1, …: 2. For k = 2 of 1/2, 1/8, …: 1/6.
        let terms = |first: f64, ratio: f64| (1..60).map(|i| first * ratio.powi(i)).sum::<f64>();
        for (k, exact) in [terms(1.0, 0.5), terms(2.0, 0.5), terms(0.5, 0.25)]
            .into_iter()
            .enumerate()
        {
            assert!((ends[k] / exact - 1.0).abs() < 1e-14, "{k} {} {exact}", ends[k]);
        }
        assert_eq!(ends[3], 0.0);
        leave_out(&mut ends, moduli(1.0, 1.0, 1.0), moduli(1.0, 0.0, 1.0), 1);
        assert_eq!((ends[0], ends[1]), (f64::INFINITY, 2.0));
    }
}
