//! The sum of RGP Theorem 3.1 over the count in the batch.

use crate::error::{Error, Result, require, require_sample_rate};
use crate::renyi::{MAX_GROUP_SIZE, require_some_order};
use crate::special::log_space::{log_sum_exp, log1p_exp};
use crate::step::GroupLaw;

/// Relative rounding of a product or quotient of a few factors.
pub(crate) const ROUNDING: f64 = 1.0 + 4.0 * f64::EPSILON;

/// Terms below e^-50 of the largest cannot change the last place of a sum of at most 10,001.
pub(crate) const NEGLIGIBLE: f64 = 50.0;

/// The law of the number of members in a batch, with its weights.
#[derive(Debug)]
pub(super) struct CountLaw {
    law: GroupLaw,
    /// w_k, which may underflow.
    weights: Vec<f64>,
}

impl CountLaw {
    /// The weights of a law on whole numbers.
    pub(super) fn new(law: GroupLaw) -> Self {
        let weights = law.log_weights().iter().map(|log_weight| log_weight.exp()).collect();
        Self { law, weights }
    }

    /// RGP Theorem 3.1 at one order: log(Σ_k w_k·e^{(α−1)·τ_k})/(α − 1) for the law w, rounded up (`docs/theory/renyi.md`, Theorem 3).
    ///
    /// `component_rdp(k)` is τ_k(α), the divergence of the mechanism without sampling for k records.
    ///
    /// The relative error of a term w·e^x is about 2^-53·(|log w| + x), and that of the sum is as many units of its logarithm: the
    /// largest of these sizes, of the terms that count, determines how far the result is rounded up.
    pub(super) fn subsampled(&self, order: f64, component_rdp: impl Fn(usize) -> f64) -> f64 {
        let exponents: Vec<f64> = self
            .law
            .shifts()
            .iter()
            .map(|&count| {
                let rdp = component_rdp(count as usize);
                if rdp == 0.0 { 0.0 } else { (order - 1.0) * rdp }
            })
            .collect();
        let log_excess = self.log_excess(&exponents);
        if log_excess == f64::NEG_INFINITY {
            return 0.0;
        }
        let size = self
            .law
            .log_weights()
            .iter()
            .zip(&exponents)
            .filter(|&(w, &x)| x > 0.0 && w + x > log_excess - NEGLIGIBLE)
            .fold(log_excess.abs(), |size: f64, (w, x)| size.max(w.abs() + x));
        let rounding = 4.0 * f64::EPSILON * (8.0 + size);
        log1p_exp(log_excess + rounding) / (order - 1.0) * ROUNDING
    }

    /// log Σ w·(e^x − 1): the excess over Σ w = 1, all of whose terms are positive.
    fn log_excess(&self, exponents: &[f64]) -> f64 {
        let atoms = self.law.log_weights().iter().zip(exponents);
        let top = atoms.clone().map(|(w, x)| w + x).fold(0.0, f64::max);
        if top < MAX_EXPONENT {
            let scale = (-top).exp();
            let sum: f64 = atoms
                .clone()
                .zip(&self.weights)
                .map(|((log_weight, &x), weight)| {
                    if x < 1.0 {
                        weight * scale * x.exp_m1()
                    } else {
                        (log_weight + x - top).exp() - weight * scale
                    }
                })
                .sum();
            if sum > MIN_SUM {
                return top + sum.ln();
            }
        }
        let excesses: Vec<f64> = atoms
            .filter(|atom| *atom.1 > 0.0)
            .map(|(w, &x)| {
                w + if x > 1.0 {
                    x + (-(-x).exp()).ln_1p()
                } else {
                    x.exp_m1().ln()
                }
            })
            .collect();
        log_sum_exp(&excesses)
    }
}

/// RGP Theorem 3.1 for any component bounds: row k of `component_rdp` holds τ_k for every order.
///
/// # Errors
/// Orders not above 1, ragged rows, a negative or NaN bound, a first row other than zeros, a group (rows
/// less one) outside [1, 100000], `sample_rate` outside [0, 1].
///
/// # Example
/// ```
/// use hockeystick::renyi::renyi_group_bound;
/// // Two records, one order; a mechanism with divergences 0.1 and 0.4 for one and two of them.
/// let bound = renyi_group_bound(&[2.0], &[&[0.0], &[0.1], &[0.4]], 0.5)?;
/// let exact = (0.25 + 0.5 * 0.1f64.exp() + 0.25 * 0.4f64.exp()).ln();
/// assert!((bound[0] - exact).abs() < 1e-14);
/// # Ok::<(), hockeystick::Error>(())
/// ```
pub fn renyi_group_bound(orders: &[f64], component_rdp: &[&[f64]], sample_rate: f64) -> Result<Vec<f64>> {
    require_some_order(orders)?;
    for &order in orders {
        require(order > 1.0 && order.is_finite(), "orders", order, "in (1, inf)")?;
    }
    require_sample_rate(sample_rate)?;
    require(
        component_rdp.len() >= 2,
        "component_rdp",
        format_args!("{} rows", component_rdp.len()),
        "of shape (group_size + 1, orders), row k for k records, row 0 all zeros",
    )?;
    for row in component_rdp {
        if row.len() != orders.len() {
            return Err(Error::Mismatch(format!(
                "component_rdp must have one column an order ({}), got {}",
                orders.len(),
                row.len()
            )));
        }
        for &rdp in *row {
            require(rdp >= 0.0, "component_rdp", rdp, "in [0, inf]")?;
        }
    }
    if let Some(&rdp) = component_rdp[0].iter().find(|&&rdp| rdp != 0.0) {
        return Err(Error::out_of_range(
            "component_rdp[0]",
            rdp,
            "all zeros: row k is the bound for k records, and 0 records differ by nothing",
        ));
    }
    let law = CountLaw::new(checked_law(component_rdp.len() as u64 - 1, sample_rate)?);
    Ok(orders
        .iter()
        .enumerate()
        .map(|(i, &order)| law.subsampled(order, |k| component_rdp[k][i]))
        .collect())
}

/// Largest exponent whose exponential is summed in linear scale: it is far from overflow, at 709.
const MAX_EXPONENT: f64 = 600.0;
/// Sums above this are right although some of their terms underflow, below 1e-308.
const MIN_SUM: f64 = 1e-280;

/// Number of doublings from one record to at least `group_size`: the c of RGP Lemma 2.3.
pub(super) fn doublings(group_size: u64) -> u32 {
    group_size.next_power_of_two().trailing_zeros()
}

/// Checks a group and a rate, and gives the binomial law.
pub(crate) fn checked_law(group_size: u64, sample_rate: f64) -> Result<GroupLaw> {
    require(
        (1..=MAX_GROUP_SIZE).contains(&group_size),
        "group_size",
        group_size,
        "in [1, 100000]",
    )?;
    GroupLaw::binomial_of_any_size(group_size, sample_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_record_always_sampled_keeps_its_bound() {
        let rows: [&[f64]; 2] = [&[0.0, 0.0], &[0.3, 0.9]];
        let bound = renyi_group_bound(&[2.0, 6.0], &rows, 1.0).unwrap();
        assert!((bound[0] / 0.3 - 1.0).abs() < 2e-14 && (bound[1] / 0.9 - 1.0).abs() < 2e-14);
    }

    /// Always sampled, the bound is that of the one record; the logarithm of its excess is rounded to a part of its own size.
    #[test]
    fn tiny_components_are_rounded_up() {
        for rdp in [1.7e-60, 3e-300, 2e-9] {
            let found = renyi_group_bound(&[2.0], &[&[0.0], &[rdp]], 1.0).unwrap()[0];
            assert!(found >= rdp && found <= rdp * (1.0 + 1e-12), "{rdp} {found}");
        }
        assert_eq!(renyi_group_bound(&[2.0], &[&[0.0], &[0.0]], 1.0).unwrap(), [0.0]);
    }

    #[test]
    fn components_are_checked() {
        for (rows, name) in [
            (vec![vec![0.1], vec![0.2]], "component_rdp[0]"),
            (vec![vec![0.0]], "component_rdp"),
            (vec![vec![0.0], vec![-0.2]], "component_rdp"),
            (vec![vec![0.0], vec![f64::NAN]], "component_rdp"),
            (vec![vec![0.0], vec![0.2, 0.3]], "component_rdp"),
        ] {
            let rows: Vec<&[f64]> = rows.iter().map(Vec::as_slice).collect();
            let error = renyi_group_bound(&[2.0], &rows, 0.5).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
        }
    }
}
