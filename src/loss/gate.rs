//! Smooth gates on the outputs, which split the law of a loss into parts without an edge.
//!
//! Let everyone who sees an output x also see whether x + width·Z lies in an interval, where Z is a standard normal variable that does
//! not depend on the data. The privacy loss is unchanged, and every part of the law is analytic in x. Gates of one width at increasing
//! outputs split the law into parts that add up, because one Z serves all of them.

use crate::special::log_space::log_add;
use crate::special::normal::log_upper_tail;

/// Distance of two gates, in units of their width, from which on a part between them keeps its digits as a difference.
pub(crate) const MIN_DISTANCE: f64 = 2.0;

/// How the losses around the most common one are separated from the larger ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Separation {
    /// The most common loss is an atom.
    Atom,
    /// By a gate, which the large losses pass.
    Gate(Gate),
}

impl Separation {
    /// The output at which the gate opens, and its width; `None` for an atom.
    pub fn gate(self) -> Option<Gate> {
        match self {
            Self::Atom => None,
            Self::Gate(gate) => Some(gate),
        }
    }
}

/// The part of a law with x + `width`·Z between `from` and `to`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// Output at which the part begins; −∞ for the part with small losses.
    pub from: f64,
    /// Output at which it ends; +∞ for the part with large losses.
    pub to: f64,
    /// Standard deviation of the switch.
    pub width: f64,
}

impl Gate {
    /// The part above an output.
    pub fn above(from: f64, width: f64) -> Self {
        let to = f64::INFINITY;
        Self { from, to, width }
    }

    /// The part below this one.
    pub fn below(self) -> Self {
        Self {
            from: f64::NEG_INFINITY,
            to: self.from,
            width: self.width,
        }
    }

    /// The part that belongs to both; `None` if their switches are different.
    pub fn and(self, other: Self) -> Option<Self> {
        let both = Self {
            from: self.from.max(other.from),
            to: self.to.min(other.to),
            width: self.width,
        };
        (self.width == other.width && both.from + MIN_DISTANCE * both.width <= both.to).then_some(both)
    }

    /// log of the probability of this part at x, P(from < x + width·Z < to).
    pub fn log_probability(&self, x: f64) -> f64 {
        let (low, high) = ((self.from - x) / self.width, (self.to - x) / self.width);
        // The larger of the two tails first, so that the difference keeps its digits.
        let (near, far) = if low + high > 0.0 { (low, high) } else { (-high, -low) };
        let tail = log_upper_tail(near);
        if far == f64::INFINITY {
            return tail;
        }
        tail + (-(log_upper_tail(far) - tail).exp()).ln_1p()
    }

    /// log of a bound on the modulus of that probability, continued to complex x with a real part in [left, right] and
    /// an imaginary part of at most `height`: |∫_a^b φ(s + iτ) ds| ≤ e^{τ²/2} ∫_a^b φ(s) ds. At real outputs the probability has its
    /// only maximum in the middle of the interval. As the probability is 1 less those of both sides, its modulus is also at most 1 and
    /// their bounds, which are small where the interval begins and ends far from here.
    pub fn log_bound(&self, left: f64, right: f64, height: f64) -> f64 {
        let growth = 0.5 * (height / self.width).powi(2);
        let best = (0.5 * (self.from + self.to)).clamp(left, right);
        let inside = self.log_probability(best) + growth;
        // The other bound is at least 1.
        if inside <= 0.0 {
            return inside;
        }
        let outside = [left - self.from, self.to - right].map(|distance| log_upper_tail(distance / self.width));
        inside.min((growth + log_add(outside[0], outside[1])).exp().ln_1p())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ∫ φ(s + iτ) ds over [a, b] by the trapezoidal rule, the modulus of the probability off the real line.
    fn modulus(a: f64, b: f64, tau: f64) -> f64 {
        let (mut real, mut imaginary) = (0.0, 0.0);
        let step = (b - a) / 20_000.0;
        for i in 0..=20_000 {
            let s = a + step * f64::from(i);
            let size = if i == 0 || i == 20_000 { 0.5 } else { 1.0 } * step * (-0.5 * (s * s - tau * tau)).exp();
            real += size * (s * tau).cos();
            imaginary -= size * (s * tau).sin();
        }
        real.hypot(imaginary) / (2.0 * std::f64::consts::PI).sqrt()
    }

    #[test]
    fn parts_add_up_and_the_bound_holds_on_the_line() {
        let far = Gate::above(1.9, 0.3);
        let middle = Gate::above(0.7, 0.3).and(far.below()).unwrap();
        let near = Gate::above(0.7, 0.3).below();
        assert_eq!((middle.from, middle.to), (0.7, 1.9));
        assert_eq!(near.and(far.below()), Some(near));
        for x in [-3.0, -1.0, 0.5, 0.7, 1.2, 3.0, 5.0] {
            let parts = [near, middle, far].map(|gate| gate.log_probability(x).exp());
            assert!((parts.iter().sum::<f64>() - 1.0).abs() < 1e-14);
            for gate in [near, middle, far] {
                assert!(gate.log_bound(x - 0.1, x + 0.1, 0.0) >= gate.log_probability(x));
            }
        }
    }

    #[test]
    fn the_bound_off_the_line_holds_and_is_nearly_attained() {
        let (gate, mut closest) = (
            Gate::above(-1.0, 0.5).and(Gate::above(1.0, 0.5).below()).unwrap(),
            f64::INFINITY,
        );
        for x in [-2.0, -0.9, 0.0, 0.4, 1.7] {
            for height in [0.05, 0.2, 0.6] {
                let [a, b] = [gate.from, gate.to].map(|end| (end - x) / gate.width);
                let exact = modulus(a, b, height / gate.width).ln();
                let bound = gate.log_bound(x, x, height);
                assert!(exact <= bound + 1e-7, "{x} {height}: {exact} {bound}");
                closest = closest.min((bound - exact) / (0.5 * (height / gate.width).powi(2)));
                assert!((gate.log_probability(x) - modulus(a, b, 0.0).ln()).abs() < 1e-7);
            }
        }
        assert!(closest < 0.3, "{closest}");
    }

    /// Far from both ends the modulus does not grow with the height; half of the bound does not hold.
    #[test]
    fn the_modulus_is_near_one_between_gates() {
        let gate = Gate::above(-1.0, 0.1).and(Gate::above(1.0, 0.1).below()).unwrap();
        for (x, height) in [(0.0, 0.5), (-0.3, 0.5), (0.4, 0.55)] {
            let [a, b] = [gate.from, gate.to].map(|end| (end - x) / gate.width);
            let exact = modulus(a, b, height / gate.width).ln();
            let bound = gate.log_bound(x - 0.01, x + 0.01, height);
            assert!(
                exact <= bound + 1e-7 && bound < exact + 0.1,
                "{x} {height}: {exact} {bound}"
            );
        }
    }

    #[test]
    fn parts_of_different_switches_or_too_close_gates_have_nothing_in_common() {
        assert_eq!(Gate::above(0.0, 1.0).and(Gate::above(9.0, 0.5).below()), None);
        assert_eq!(Gate::above(0.0, 1.0).and(Gate::above(1.5, 1.0).below()), None);
    }
}
