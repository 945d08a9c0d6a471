//! The forms in which the curve of truncated losses is computed, and what they may cost.

use crate::inversion::contour::Limits;
use crate::inversion::split::Suitability;

/// Products of nodes in x and y that an inversion of one kind of step may cost: 10⁸ of them take about 30 ms.
const MAX_PRODUCTS: f64 = 2e7;
/// [`MAX_PRODUCTS`] where inversion of the runs with a large loss is an alternative, which takes about as long as two million products. Of the
/// 96 slowest of 1,700 random runs the slowest takes less than half as long as with 2·10⁷, and all together a quarter less. With 10⁶ some
/// take half as long or less, and one, whose alternative misses the width that is asked for, five times as long.
const MAX_PRODUCTS_OF_ALTERNATIVE: f64 = 2e6;
/// [`MAX_PRODUCTS_OF_ALTERNATIVE`] where so small a width is asked for that inversion of all runs may miss it by rounding. A long contour would then be
/// in vain, as the runs with a large loss are inverted after it. Of 6,000 random runs some take up to eight times as long with 2·10⁶ products.
/// With none at all, some whose split is expensive take eighty times as long.
const MAX_PRODUCTS_OF_SMALL_ERRORS: f64 = 5e5;
/// [`MAX_PRODUCTS`] of inversions that take many points.
const MAX_LONG_PRODUCTS: f64 = 1.5e8;
/// Number of different steps for which the products that an inversion may cost double.
const SEGMENTS: f64 = 100.0;

/// How the curve of a truncated loss is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Inversion of all of the law.
    Inversion,
    /// Inversion of the runs with a large loss in some step.
    SplitInversion,
    /// Inversion of all of the law, where it takes many points.
    LongInversion,
    /// Discretised losses.
    Grid,
}

impl Form {
    /// What an inversion of this many segments may cost.
    pub(super) fn limits(self, suitability: Suitability, segments: usize) -> Limits {
        let one = match self {
            Self::Inversion if suitability == Suitability::Alternative => Limits {
                products: MAX_PRODUCTS_OF_ALTERNATIVE,
                products_of_small_errors: MAX_PRODUCTS_OF_SMALL_ERRORS,
            },
            Self::Inversion => Limits::of_products(MAX_PRODUCTS),
            _ => Limits::of_products(MAX_LONG_PRODUCTS),
        };
        let factor = 1.0 + segments as f64 / SEGMENTS;
        Limits {
            products: factor * one.products,
            products_of_small_errors: factor * one.products_of_small_errors,
        }
    }
}
