//! A privacy loss as curves and atoms: what a grid sweeps.

use crate::loss::smooth_piece::{Point, Scratch};

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

/// A loss as its smooth parts and its atoms.
pub struct Support<'a> {
    /// The smooth parts.
    pub(crate) sweeps: Vec<Sweep<'a>>,
    /// The atoms, in any order.
    pub(crate) atoms: Vec<Atom>,
    /// Bound on the tilted mass that neither has, over e^K.
    pub(crate) outside: f64,
}

impl Support<'_> {
    /// No curves and no atoms: of a loss that grids do not serve.
    pub(crate) const NONE: Self = Self {
        sweeps: Vec::new(),
        atoms: Vec::new(),
        outside: 1.0,
    };
}
