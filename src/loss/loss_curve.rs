//! A privacy loss as curves and atoms: what a grid sweeps.

use crate::loss::smooth_piece::{Point, Scratch};
use std::sync::Arc;

/// A loss as a smooth, growing function of one coordinate.
pub(crate) trait LossCurve: Sync {
    /// Loss, slope and log density of P at x.
    fn point(&self, x: f64, scratch: &mut Scratch) -> Point;

    /// After `point` at x: an upper bound on the distance from x to the centres of those parts of P's density that count, and
    /// of Q's too if `both`, in units of [`LossCurve::scale`].
    fn reach(&self, x: f64, both: bool, scratch: &Scratch) -> f64;

    /// The width over which the density changes.
    fn scale(&self) -> f64;
}

/// A curve and the interval of its coordinate that counts.
pub(crate) struct Sweep<'a> {
    pub(crate) curve: Box<dyn LossCurve + 'a>,
    pub(crate) start: f64,
    pub(crate) end: f64,
}

/// A value of the loss that has a positive probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Atom {
    /// The value.
    pub loss: f64,
    /// log of its probability under P.
    pub log_mass: f64,
}

impl Atom {
    /// The value `loss`, with the log of its probability under P.
    pub const fn new(loss: f64, log_mass: f64) -> Self {
        Self { loss, log_mass }
    }
}

/// Two laws on so many atoms that a grid has several between any two of its points: the curve of the loss is at most that of the upper one
/// and at least that of the lower one.
#[derive(Debug)]
pub(crate) struct FineAtoms {
    /// log of what all masses are divided by.
    pub(crate) log_scale: f64,
    /// Losses, ascending, and masses times e^{cℓ}, of the upper law.
    pub(crate) upper: Vec<(f64, f64)>,
    /// Losses, ascending, and masses times e^{cℓ}, of the lower law.
    pub(crate) lower: Vec<(f64, f64)>,
    /// Bound on the error of all masses together, what has no atom included.
    pub(crate) error: f64,
}

impl FineAtoms {
    /// Divides all masses by `sum`.
    pub(crate) fn normalise(&mut self, sum: f64) {
        let scale = sum.recip();
        for (_, mass) in self.upper.iter_mut().chain(&mut self.lower) {
            *mass *= scale;
        }
        self.error *= scale;
        self.log_scale += sum.ln();
    }

    /// The smallest and the largest loss.
    pub(crate) fn range(&self) -> (f64, f64) {
        let ends = |atoms: &[(f64, f64)]| match atoms {
            [first, .., last] => (first.0, last.0),
            [only] => (only.0, only.0),
            [] => (f64::INFINITY, f64::NEG_INFINITY),
        };
        let (upper, lower) = (ends(&self.upper), ends(&self.lower));
        (upper.0.min(lower.0), upper.1.max(lower.1))
    }
}

/// A loss as its smooth parts and its atoms.
pub struct Support<'a> {
    /// The smooth parts.
    pub(crate) sweeps: Vec<Sweep<'a>>,
    /// The atoms, in any order.
    pub(crate) atoms: Vec<Atom>,
    /// Two laws on very many atoms, where there is nothing else.
    pub(crate) fine: Option<Arc<FineAtoms>>,
    /// Bound on the tilted mass that neither has, over e^K.
    pub(crate) outside: f64,
}

impl Support<'_> {
    /// No curves and no atoms: of a loss that grids do not serve.
    pub(crate) const NONE: Self = Self {
        sweeps: Vec::new(),
        atoms: Vec::new(),
        fine: None,
        outside: 1.0,
    };
}
