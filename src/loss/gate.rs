//! A smooth switch on the outputs, which splits the law of a loss into a near and a far part without an edge.
//!
//! Let everyone who sees an output x also see a coin that shows "open" with probability Φ((x − centre)/width). The coin does not
//! depend on the data, so that the privacy loss is unchanged, and both parts of the law are analytic in x.

use crate::special::normal::log_upper_tail;

/// How the losses around the usual one are separated from the larger ones.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Separation {
    /// The usual loss is an atom.
    Atom,
    /// By a gate.
    Gate(Gate),
}

/// The switch of one piece, and the side of it to which a part of the law belongs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gate {
    /// Output at which both sides are equally likely.
    pub centre: f64,
    /// Standard deviation of the switch.
    pub width: f64,
    /// True for the part with large outputs.
    pub open: bool,
}

impl Gate {
    /// Signed distance from x to the side, in units of the width: the probability of the side falls with it.
    fn distance(&self, x: f64) -> f64 {
        let distance = (self.centre - x) / self.width;
        if self.open { distance } else { -distance }
    }

    /// log of the probability of this side at x.
    pub fn log_probability(&self, x: f64) -> f64 {
        log_upper_tail(self.distance(x))
    }

    /// log of a bound on the modulus of that probability, continued to complex x with a real part in [left, right] and
    /// an imaginary part of at most `height`: |Φ(t + iτ)| ≤ ∫_{−∞}^t |φ(s + iτ)| ds = e^{τ²/2}Φ(t).
    pub fn log_bound(&self, left: f64, right: f64, height: f64) -> f64 {
        let best = if self.open { right } else { left };
        self.log_probability(best) + 0.5 * (height / self.width).powi(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_add_up_and_the_bound_holds_on_the_line() {
        let open = Gate {
            centre: 0.7,
            width: 0.3,
            open: true,
        };
        let shut = Gate { open: false, ..open };
        for x in [-1.0, 0.5, 0.7, 1.2, 3.0] {
            let sum = open.log_probability(x).exp() + shut.log_probability(x).exp();
            assert!((sum - 1.0).abs() < 1e-14);
            for gate in [open, shut] {
                assert!(gate.log_bound(x - 0.1, x + 0.1, 0.0) >= gate.log_probability(x));
            }
        }
    }
}
