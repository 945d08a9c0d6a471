//! Spacings of u = log s for which a shift of u by v leads from one point to another.
//!
//! All derivatives of L at e^u are then values of L at other points of the same table ([`super::transform`]).

use crate::loss::allocation::bins::Bins;

/// Least v for which derivatives are computed by shifts: below, a point needs as many values as there are orders and shares few of them
/// with others, so that sums over one set of nodes are cheaper.
const LEAST_SHIFT: f64 = 0.004;

/// Multiples of a unit are right to this.
const ROUNDING: f64 = 1e-14;

/// The shift by which spacings are divided, or that divides them; `None` where any spacing will do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spacings {
    shift: Option<f64>,
}

/// A spacing in units of a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Lattice {
    /// The spacing of the table.
    pub(crate) unit: f64,
    /// The spacing of u over it.
    pub(crate) stride: i64,
    /// v over it.
    pub(crate) shift: i64,
}

impl Lattice {
    /// A spacing without shifts, which serves where no derivative is needed.
    pub(crate) fn of(spacing: f64) -> Self {
        Self {
            unit: spacing,
            stride: 1,
            shift: 0,
        }
    }
}

impl Spacings {
    /// Those for a law: only one kind of batches can be shifted.
    pub(crate) fn new(bins: &Bins) -> Self {
        let shift = match bins.parts[..] {
            [part] if part.variance >= LEAST_SHIFT => Some(part.variance),
            _ => None,
        };
        Self { shift }
    }

    /// True if derivatives are shifts.
    pub(crate) fn has_shift(self) -> bool {
        self.shift.is_some()
    }

    /// The widest spacing up to `most`.
    pub(crate) fn at_most(self, most: f64) -> f64 {
        match self.shift {
            None => most,
            Some(v) if v > most => v / (v / most).ceil(),
            Some(v) => v * (most / v).floor(),
        }
    }

    /// One of these spacings in units of its table; `None` for any other.
    pub(crate) fn lattice(self, spacing: f64) -> Option<Lattice> {
        let v = self.shift?;
        let found = if v > spacing {
            Lattice {
                unit: spacing,
                stride: 1,
                shift: (v / spacing).round() as i64,
            }
        } else {
            Lattice {
                unit: v,
                stride: (spacing / v).round() as i64,
                shift: 1,
            }
        };
        let is_near = |number: i64, whole: f64| (number as f64 * found.unit / whole - 1.0).abs() < ROUNDING;
        (is_near(found.stride, spacing) && is_near(found.shift, v)).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spacings are at most what was asked for and more than half of it, and both they and v are multiples of the unit.
    #[test]
    fn spacings_are_commensurate_with_the_shift() {
        for v in [0.01, 0.04, 0.25, 1.0, 4.0, 11.1] {
            let spacings = Spacings::new(&Bins::new(&[(3, v)]).unwrap());
            for most in [0.32, 0.16, 0.05, 0.011] {
                let found = spacings.at_most(most);
                assert!(
                    found <= most * (1.0 + 1e-15) && found > 0.5 * most,
                    "{v} {most}: {found}"
                );
                let Lattice { unit, stride, shift } = spacings.lattice(found).unwrap();
                assert!((unit * stride as f64 - found).abs() < 1e-15 && (unit * shift as f64 - v).abs() < 1e-14);
            }
        }
        let one = Spacings::new(&Bins::new(&[(3, 0.5)]).unwrap());
        assert!(one.lattice(1.6).is_none() && one.lattice(0.3).is_none());
        let two = Bins::new(&[(3, 0.5), (2, 0.25)]).unwrap();
        assert!(Spacings::new(&two).lattice(0.1).is_none() && Spacings::new(&two).at_most(0.1) == 0.1);
    }
}
