//! Rényi group privacy of one Poisson-sampled step: every bound of RGP for every mechanism of its §4.

use super::group_bound::{checked_law, doublings, lower, subsampled};
use super::noise::Noise;
use super::pair::PairDivergence;
use super::require_orders;
use super::skellam::SkellamPair;
use crate::error::Result;
use crate::pair::{Direction, GroupLaw};
use crate::special::log_space::log_sum_exp;

/// What is said of D_α.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupBound {
    /// RGP Theorem 3.1 with the components of §4: an upper bound.
    Jensen,
    /// The divergence of the dominating pair, the larger of both directions: an upper bound, and attained where the
    /// pair is tight.
    Exact,
    /// RGP equation 12 (Ξ⁻): a lower bound.
    Lower,
    /// RGP Lemma 2.3 on the bound for one record: an upper bound.
    BlackBox,
}

/// A bound on D_α in nats for each order in (1, 10⁴], of one step with sample rate q for a group of m records.
///
/// Upper bounds are rounded up, the lower one down; sums over the masses of Skellam noise end by an estimate (see
/// [`SkellamPair::of_order`]).
///
/// # Errors
/// An argument out of range; an exact divergence of Skellam noise that sums too many masses.
///
/// # Example
/// ```
/// use hockeystick::renyi::group_rdp::{GroupBound, group_rdp};
/// use hockeystick::renyi::noise::Noise;
/// // RGP Figure 2: for 500 steps a divergence of 1 takes σ = 26.59 by their bound, and 15.24 in truth.
/// let of = |noise_multiplier, bound| {
///     let noise = Noise::Gaussian { noise_multiplier };
///     group_rdp(noise, &[4.0], 0.03, 16, bound).map(|rdp| 500.0 * rdp[0])
/// };
/// assert!((of(26.59, GroupBound::Jensen)? - 1.0).abs() < 1e-2);
/// assert!((of(15.24, GroupBound::Exact)? - 1.0).abs() < 1e-3);
/// # Ok::<(), hockeystick::error::Error>(())
/// ```
pub fn group_rdp(
    noise: Noise,
    orders: &[f64],
    sample_rate: f64,
    group_size: u64,
    bound: GroupBound,
) -> Result<Vec<f64>> {
    noise.check()?;
    require_orders(orders)?;
    let law = checked_law(group_size, sample_rate)?;
    match bound {
        GroupBound::Jensen => {
            let of = |&order: &f64| subsampled(order, |count| noise.component(order, count as f64), &law);
            Ok(orders.iter().map(of).collect())
        }
        GroupBound::Lower => orders.iter().map(|&order| lower_bound(noise, order, &law)).collect(),
        GroupBound::Exact => {
            let mut pair = PairDivergence::new(noise, &law)?;
            orders.iter().map(|&order| worst(&mut pair, order)).collect()
        }
        GroupBound::BlackBox => {
            let mut one = PairDivergence::new(noise, &checked_law(1, sample_rate)?)?;
            let of = |&order: &f64| black_box(noise, order, sample_rate, group_size, &mut one);
            orders.iter().map(of).collect()
        }
    }
}

/// The larger of both directions, rounded up.
fn worst(pair: &mut PairDivergence, order: f64) -> Result<f64> {
    let add = pair.of_order(order, Direction::Add)?.upper;
    let remove = pair.of_order(order, Direction::Remove)?.upper;
    Ok(add.max(remove))
}

/// RGP Lemma 2.3: 3^c times the bound for one record at the order 2^c·α ≥ 2^{c+1}, 2^c ≥ m.
///
/// The bound for one record is the tight form of Zhu and Wang 2019: where the component is attained it is the divergence
/// of the pair, at any real order; for Skellam noise it is their sum over the components of equation 18, at the next
/// whole order. Randomised response keeps its bit private from any group, sampled or not (equation 20): the
/// smaller of both counts.
fn black_box(
    noise: Noise,
    order: f64,
    sample_rate: f64,
    group_size: u64,
    one: &mut PairDivergence,
) -> Result<f64> {
    let c = doublings(group_size);
    let least = if c == 0 { order } else { order.max(2.0) };
    let scaled = least * f64::from(1u32 << c);
    let single = match noise {
        Noise::Skellam { .. } => whole_order_bound(noise, scaled.ceil(), sample_rate),
        _ => worst(one, scaled)?,
    };
    let found = f64::powi(3.0, c as i32) * single * (1.0 + 4.0 * f64::EPSILON);
    Ok(match noise {
        Noise::RandomizedResponse { .. } => found.min(noise.component(order, 1.0) * (1.0 + 1e-14)),
        _ => found,
    })
}

/// log(Σ_l C(α, l)(1−q)^{α−l} q^l e^{(l−1)τ(l)})/(α − 1) for whole α ≥ 2 (Zhu and Wang 2019, the tight form).
fn whole_order_bound(noise: Noise, order: f64, sample_rate: f64) -> f64 {
    let law = crate::pair::law::binomial_log_weights(order as u64, sample_rate);
    let terms: Vec<f64> = law
        .iter()
        .enumerate()
        .map(|(l, log_weight)| {
            let l = l as f64;
            log_weight
                + if l < 2.0 {
                    0.0
                } else {
                    (l - 1.0) * noise.component(l, 1.0)
                }
        })
        .collect();
    let size = order * noise.component(order, 1.0);
    (log_sum_exp(&terms).max(0.0) + 1e-14 * (1.0 + size)) / (order - 1.0)
}

/// RGP equation 12, with components that are attained.
fn lower_bound(noise: Noise, order: f64, law: &GroupLaw) -> Result<f64> {
    let Noise::Skellam { variance, sensitivity } = noise else {
        return Ok(lower(order, |count| noise.component(order, count as f64), law));
    };
    let mut components = Vec::with_capacity(law.shifts().len());
    for &count in law.shifts() {
        let mut pair = SkellamPair::of_count(count as usize, variance, sensitivity);
        components.push(pair.of_order(order, Direction::Remove)?.value);
    }
    let position = |count: usize| law.shifts().iter().position(|&shift| shift == count as f64);
    Ok(lower(
        order,
        |count| position(count).map_or(0.0, |i| components[i]),
        law,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURE_2: [(&str, u64, f64, f64, &str, f64); 20] = [
        ("gaussian", 16, 500.0, 34.203125, "baseline", 0.1),
        ("gaussian", 16, 500.0, 26.5859375, "bound", 0.1),
        ("gaussian", 16, 500.0, 15.26983642578125, "exact", 0.1),
        ("gaussian", 64, 500.0, 204.98046875, "baseline", 0.1),
        ("gaussian", 64, 500.0, 74.7265625, "bound", 0.1),
        ("gaussian", 64, 500.0, 60.799102783203125, "exact", 0.1),
        ("laplace", 16, 500.0, 34.03515625, "baseline", 0.1),
        ("laplace", 16, 500.0, 26.1640625, "bound", 0.1),
        ("laplace", 16, 500.0, 14.8849 + 1e-4, "exact", 1e-3),
        ("laplace", 64, 500.0, 73.935546875, "bound", 0.1),
        ("laplace", 64, 500.0, 60.0513 + 1e-4, "exact", 1e-3),
        ("skellam", 16, 500.0, 585.2184600830078, "baseline", 0.1),
        ("skellam", 16, 500.0, 353.2549743652344, "bound", 0.1),
        ("skellam", 16, 500.0, 116.18081665039062, "exact", 0.1),
        ("skellam", 64, 500.0, 2788.3435440063477, "bound", 0.1),
        ("skellam", 64, 500.0, 1846.3228950500488, "exact", 0.1),
        ("response", 16, 1.0, 0.749452880859375, "baseline", 1e-4),
        ("response", 16, 1.0, 0.79924072265625, "bound", 1e-4),
        ("response", 16, 1.0, 0.88702294921875, "exact", 1e-4),
        ("response", 64, 1.0, 0.757842041015625, "bound", 1e-4),
    ];

    /// RGP Figure 2 (reference/published.csv): bisections that stop above the root, by up to the last number; of
    /// p for randomised response, whose noise falls with p, below it.
    #[test]
    fn the_published_noise_of_figure_2_is_reproduced() {
        for (family, group_size, steps, found, bound, tolerance) in FIGURE_2 {
            let bound = match bound {
                "baseline" => GroupBound::BlackBox,
                "bound" => GroupBound::Jensen,
                _ => GroupBound::Exact,
            };
            let total = |parameter: f64| {
                let noise = match family {
                    "gaussian" => Noise::Gaussian {
                        noise_multiplier: parameter,
                    },
                    "laplace" => Noise::Laplace { scale: parameter },
                    // Their parameter is the rate of each Poisson variable.
                    "skellam" => Noise::Skellam {
                        variance: 2.0 * parameter,
                        sensitivity: 1,
                    },
                    _ => Noise::RandomizedResponse { keep: parameter },
                };
                steps * group_rdp(noise, &[4.0], 0.03, group_size, bound).unwrap()[0]
            };
            let beyond = if family == "response" {
                found + tolerance
            } else {
                found - tolerance
            };
            assert!(
                total(found) <= 1.0 + 1e-9 && total(beyond) > 1.0,
                "{family} {group_size} {bound:?} {found}: {} {}",
                total(found),
                total(beyond)
            );
        }
    }

    #[test]
    fn bounds_are_in_order() {
        for noise in [
            Noise::Gaussian { noise_multiplier: 5.0 },
            Noise::Laplace { scale: 6.0 },
            Noise::Skellam {
                variance: 40.0,
                sensitivity: 1,
            },
            Noise::RandomizedResponse { keep: 0.8 },
        ] {
            let orders = [1.5, 2.0, 4.0, 9.5, 30.0];
            let of = |bound| group_rdp(noise, &orders, 0.05, 6, bound).unwrap();
            let (low, exact) = (of(GroupBound::Lower), of(GroupBound::Exact));
            let (jensen, black_box) = (of(GroupBound::Jensen), of(GroupBound::BlackBox));
            for i in 0..orders.len() {
                let named = format!(
                    "{noise:?} {}: {} {} {} {}",
                    orders[i], low[i], exact[i], jensen[i], black_box[i]
                );
                assert!(
                    low[i] <= exact[i] && exact[i] <= jensen[i] && exact[i] <= black_box[i],
                    "{named}"
                );
            }
        }
    }
}
