//! Tensor products of curves.
//!
//! A curve with a pair of laws is a factor; any other is replaced by a curve nowhere above it that has one
//! ([`crate::tradeoff::lattice`]).

use crate::error::{Result, require};
use crate::special::extended::{two_product, two_sum};
use crate::tradeoff::closed_forms::product;
use crate::tradeoff::composed::{Composed, Product, Products};
use crate::tradeoff::curve::{Node, TradeoffCurve};
use crate::tradeoff::factor::Factor;
use crate::tradeoff::polygon::Polygon;
use std::sync::Arc;

/// Largest number of times that a factor occurs. Counts above this are refused, as an `f64` does not hold them exactly.
const MAX_COUNT: u64 = 1 << 53;

/// √n, rounded up where it is not exact.
fn root(times: u64) -> f64 {
    let square = if times > MAX_COUNT {
        (times as f64).next_up()
    } else {
        times as f64
    };
    let found = square.sqrt();
    if found.mul_add(found, -square) < 0.0 {
        found.next_up()
    } else {
        found
    }
}

/// √(a² + b²), rounded up where it is not exact.
fn hypotenuse(a: f64, b: f64) -> f64 {
    let found = a.hypot(b);
    let [(a, a_rest), (b, b_rest), (square, rest)] = [a, b, found].map(|side| two_product(side, side));
    let (sum, error) = two_sum(a, b);
    // Rests that underflow would be 0 where the square is not exact.
    let is_exact = [a_rest, b_rest, rest, error, sum - square]
        .iter()
        .all(|&rest| rest == 0.0);
    if is_exact && a.min(b) > f64::MIN_POSITIVE / f64::EPSILON.powi(2) {
        found
    } else {
        found.next_up()
    }
}

/// The number of times that a factor occurs, checked.
fn checked(times: u64) -> Result<u64> {
    require(
        times <= MAX_COUNT,
        "times",
        times,
        "such that no factor occurs more than 2^53 times",
    )?;
    Ok(times)
}

impl TradeoffCurve {
    /// f ⊗ g.
    ///
    /// # Errors
    /// A factor that the exact engine refuses, or that occurs more than 2^53 times.
    pub fn compose(&self, other: &Self) -> Result<Self> {
        match (&*self.0, &*other.0) {
            (Node::Gaussian { distance: 0.0 }, _) => Ok(other.clone()),
            (_, Node::Gaussian { distance: 0.0 }) => Ok(self.clone()),
            // Rounded up: values of a Gaussian curve allow for some units in the last place of its distance.
            (Node::Gaussian { distance: a }, Node::Gaussian { distance: b }) => Self::gaussian(hypotenuse(*a, *b)),
            _ => {
                if let (Some(a), Some(b)) = (self.as_polygon(), other.as_polygon())
                    && let Some(product) = a.product(&b)
                {
                    return Ok(Self::of_polygon(product));
                }
                let (first, second) = (self.factors()?, other.factors()?);
                let symmetric = self.is_symmetric() && other.is_symmetric();
                // The i-th ordered pairs of both are composed; a single pair is composed with all.
                let count = first.len().max(second.len());
                let mut products = Vec::with_capacity(count);
                for i in 0..count {
                    let (a, b) = (&first[i.min(first.len() - 1)], &second[i.min(second.len() - 1)]);
                    products.push(merged(a, b)?);
                }
                Ok(Self::new(Node::Composed(Box::new(Composed::new(products, symmetric)?))))
            }
        }
    }

    /// f ⊗ … ⊗ f, n times; the curve of no information for n = 0.
    ///
    /// # Errors
    /// As [`TradeoffCurve::compose`].
    pub fn repeat(&self, times: u64) -> Result<Self> {
        match &*self.0 {
            _ if times == 1 => Ok(self.clone()),
            _ if times == 0 => Self::gaussian(0.0),
            Node::Gaussian { distance } => Self::gaussian(product(*distance, root(times)).upper),
            _ => {
                if let Some(product) = self.as_polygon().and_then(|polygon| polygon.power_of(times)) {
                    return Ok(Self::of_polygon(product));
                }
                let mut products = self.factors()?;
                for (_, count) in products.iter_mut().flatten() {
                    *count = checked(count.saturating_mul(times))?;
                }
                Ok(Self::new(Node::Composed(Box::new(Composed::new(
                    products,
                    self.is_symmetric(),
                )?))))
            }
        }
    }

    /// The curve as a polygon, if it is one.
    fn as_polygon(&self) -> Option<Polygon> {
        match &*self.0 {
            Node::EpsilonDelta { epsilon, delta } => Some(Polygon::of_epsilon_delta(*epsilon, *delta)),
            Node::Polygon(polygon) => Some((**polygon).clone()),
            _ => None,
        }
    }

    /// The factors of a tensor product.
    fn factors(&self) -> Result<Products> {
        let factor = match &*self.0 {
            Node::Composed(composed) => return Ok(composed.products().clone()),
            Node::Gaussian { distance } => Factor::Gaussian { distance: *distance },
            Node::Laplace { distance, .. } => Factor::Laplace { distance: *distance },
            Node::EpsilonDelta { epsilon, delta } => Factor::EpsilonDelta {
                epsilon: *epsilon,
                delta: *delta,
            },
            Node::Polygon(polygon) => Factor::Polygon(polygon.clone()),
            Node::Subsampled { rate, of } => match &*of.0 {
                Node::Gaussian { distance } => Factor::SubsampledGaussian {
                    rate: *rate,
                    distance: *distance,
                },
                Node::Laplace { distance, .. } => Factor::SubsampledLaplace {
                    rate: *rate,
                    distance: *distance,
                },
                _ => Factor::Envelope(Arc::new(self.envelope()?)),
            },
            _ => Factor::Envelope(Arc::new(self.envelope()?)),
        };
        Ok(vec![vec![(factor, 1)]])
    }
}

/// Both lists of factors as one, equal factors counted once.
///
/// # Errors
/// A factor that occurs more than 2^53 times.
fn merged(first: &[(Factor, u64)], second: &[(Factor, u64)]) -> Result<Product> {
    let mut all = first.to_vec();
    for (factor, count) in second {
        match all.iter_mut().find(|known| known.0 == *factor) {
            Some(known) => known.1 = checked(known.1.saturating_add(*count))?,
            None => all.push((factor.clone(), *count)),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::Interval;
    use crate::tradeoff::closed_forms::laplace_delta;

    /// E δ(ε − ℓ) over the loss ℓ of Laplace noise: atoms at ±μ, and the density e^{(ℓ − μ)/2}/4 between.
    fn with_laplace(mu: f64, epsilon: f64, delta: impl Fn(f64) -> f64) -> f64 {
        const PARTS: i32 = 40_000;
        let width = 2.0 * mu / f64::from(PARTS);
        let middle: f64 = (0..PARTS)
            .map(|i| -mu + (f64::from(i) + 0.5) * width)
            .map(|loss| 0.25 * (0.5 * (loss - mu)).exp() * delta(epsilon - loss))
            .sum();
        0.5 * delta(epsilon - mu) + 0.5 * (-mu).exp() * delta(epsilon + mu) + width * middle
    }

    fn assert_holds(found: Interval, exact: f64, error: f64, width: f64) {
        assert!(
            found.lower <= exact + error && exact <= found.upper + error,
            "{found:?} {exact}"
        );
        assert!(found.width() <= width, "{found:?}");
    }

    #[test]
    fn products_are_the_expectation_over_one_factor() {
        let (laplace, gaussian) = (
            TradeoffCurve::laplace(0.7).unwrap(),
            TradeoffCurve::gaussian(0.9).unwrap(),
        );
        let product = laplace.compose(&gaussian).unwrap();
        let response = TradeoffCurve::epsilon_delta(0.5, 0.01).unwrap();
        let with_response = laplace.compose(&response).unwrap();
        for epsilon in [0.0, 0.3, 1.0, 2.0] {
            let exact = with_laplace(0.7, epsilon, |epsilon| gaussian.delta(epsilon).unwrap().middle());
            assert_holds(product.delta(epsilon).unwrap(), exact, 1e-8, 1e-7);
            // The two answers have losses ±0.5.
            let likely = 0.99 / (1.0 + (-0.5f64).exp());
            let exact = 0.01
                + likely * laplace_delta(0.7, epsilon - 0.5)
                + (0.99 - likely) * laplace_delta(0.7, epsilon + 0.5);
            assert_holds(with_response.delta(epsilon).unwrap(), exact, 1e-14, 1e-11);
        }
    }

    #[test]
    fn repetition_is_composition_with_itself() {
        let curve = TradeoffCurve::laplace(0.7).unwrap();
        let (twice, both) = (curve.repeat(2).unwrap(), curve.compose(&curve).unwrap());
        let one = curve.repeat(1).unwrap().compose(&curve.repeat(0).unwrap()).unwrap();
        for epsilon in [0.0, 0.4, 1.3] {
            let exact = with_laplace(0.7, epsilon, |epsilon| laplace_delta(0.7, epsilon));
            assert_holds(twice.delta(epsilon).unwrap(), exact, 1e-8, 1e-10);
            assert_eq!(both.delta(epsilon).unwrap(), twice.delta(epsilon).unwrap());
            assert_eq!(one.delta(epsilon).unwrap(), curve.delta(epsilon).unwrap());
        }
    }

    #[test]
    fn factors_of_curves_without_a_pair_of_laws_are_bounds() {
        // f ⊗ g of the minimum of two polygons, whose hull is a polygon, too.
        let alpha = [0.0, 0.1, 0.4, 1.0];
        let (a, b) = (
            TradeoffCurve::points(&alpha, &[0.9, 0.5, 0.1, 0.0]).unwrap(),
            TradeoffCurve::points(&alpha, &[1.0, 0.6, 0.05, 0.0]).unwrap(),
        );
        let hull = TradeoffCurve::points(&alpha, &[0.9, 0.5, 0.05, 0.0]).unwrap();
        let (found, exact) = (a.minimum(&b).repeat(2).unwrap(), hull.repeat(2).unwrap());
        for epsilon in [-0.7, 0.0, 0.5, 1.5] {
            let (found, exact) = (found.delta(epsilon).unwrap(), exact.delta(epsilon).unwrap());
            assert!(
                found.lower <= exact.upper && exact.lower <= found.upper,
                "{epsilon} {found:?} {exact:?}"
            );
            assert!(found.width() < 2e-5, "{found:?}");
        }
    }

    #[test]
    fn equal_factors_are_counted_once() {
        let (laplace, gaussian) = (
            TradeoffCurve::laplace(0.7).unwrap(),
            TradeoffCurve::gaussian(0.9).unwrap(),
        );
        let factors = laplace.compose(&gaussian).unwrap().factors().unwrap().remove(0);
        let all = merged(&factors, &laplace.factors().unwrap()[0]).unwrap();
        assert_eq!(
            all,
            [
                (Factor::Laplace { distance: 0.7 }, 2),
                (Factor::Gaussian { distance: 0.9 }, 1)
            ]
        );
        let many = [(Factor::Gaussian { distance: 0.9 }, MAX_COUNT - 1)];
        assert_eq!(merged(&many, &factors).unwrap()[0].1, MAX_COUNT);
    }

    #[test]
    fn factors_that_occur_too_often_are_refused() {
        let laplace = TradeoffCurve::laplace(1e-9).unwrap();
        let many = laplace.repeat(1 << 30).unwrap();
        let half = laplace.repeat(MAX_COUNT / 2).unwrap();
        assert!(half.compose(&half).is_ok());
        for found in [
            laplace.repeat(MAX_COUNT + 1),
            laplace.repeat(1 << 60),
            many.repeat(1 << 30),
            many.repeat(u64::MAX),
            half.compose(&half).unwrap().compose(&laplace),
        ] {
            let error = found.unwrap_err().to_string();
            assert!(error.starts_with("times") && error.contains("2^53"), "{error}");
        }
    }

    /// Squares are compared in whole numbers of 2^-112, of which those of these distances are multiples.
    #[test]
    fn distances_of_products_are_rounded_up() {
        for (times, exact) in [
            (4, true),
            (9, true),
            (2, false),
            (3, false),
            (7, false),
            ((1 << 53) - 1, false),
        ] {
            let found = root(times);
            assert!(
                found * found >= times as f64 && found.mul_add(found, -(times as f64)) >= 0.0,
                "{times}"
            );
            assert_eq!(found.mul_add(found, -(times as f64)) == 0.0, exact, "{times}");
        }
        for (sides, exact) in [
            ((3.0, 4.0), 5.0),
            ((0.5, 1.2), f64::next_up(1.3)),
            ((3e-200, 4e-200), f64::next_up(5e-200)),
        ] {
            assert_eq!(hypotenuse(sides.0, sides.1), exact, "{sides:?}");
        }
        // 0.1² + 0.7² and 3·0.1².
        let of = |curve: &TradeoffCurve| curve.widest_distance();
        let gaussian = |distance| TradeoffCurve::gaussian(distance).unwrap();
        let whole = |x: f64| (x * f64::powi(2.0, 56)) as u128;
        let sum = of(&gaussian(0.1).compose(&gaussian(0.7)).unwrap());
        assert!(whole(sum).pow(2) >= whole(0.1).pow(2) + whole(0.7).pow(2));
        let three = of(&gaussian(0.1).repeat(3).unwrap());
        assert!(whole(three).pow(2) >= 3 * whole(0.1).pow(2) && three < 0.1 * 3f64.sqrt() * (1.0 + 1e-15));
    }
}
