//! E[(K − k)₊] and E[(k − K)₊] of a sum K of places, from its law under a tilt.

use crate::loss::lattice::sum::{PlaceSum, REACH, TiltedLaw};

/// Terms whose exponentials follow from one of them by multiplication.
const BLOCK: usize = 64;
/// Rounding of a sum of positive terms and of its exponentials, relative.
const SUM_ERROR: f64 = 2e-12;
/// Tilts away from that of the law that are tried for what is outside its window, each half as far as the one before.
const AWAY: i32 = 8;

/// Which end of a certified interval is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::loss) enum End {
    /// The lower one.
    Lower,
    /// The upper one.
    Upper,
}

/// A bound on the 2-norm of u·e^{−θu} over distances u ≥ 0 that are 1 apart, θ > 0: u²·e^{−2θu} has one maximum, so that its sum is at most its
/// integral 1/(4θ³) and that maximum, 1/(eθ)².
fn norm_of_weights(rate: f64) -> f64 {
    let largest = 1.0 / (std::f64::consts::E * rate);
    (0.25 * rate.powi(-3) + largest * largest).sqrt()
}

impl TiltedLaw {
    /// The place of the last mass.
    pub(in crate::loss) fn last(&self) -> f64 {
        self.first + (self.masses.len() - 1) as f64
    }

    /// An end of log E[(K − k)₊] if `above`, of log E[(k − K)₊] if not, over the places of the window.
    pub(in crate::loss) fn log_excess(&self, place: f64, above: bool, end: End) -> f64 {
        let (value, farthest) = self.distances(place, above);
        // The largest of u·e^{∓θu} over these distances.
        let rate = if above { self.tilt } else { -self.tilt };
        let largest = if rate * farthest > 1.0 {
            1.0 / (std::f64::consts::E * rate)
        } else {
            farthest * (-rate * farthest).exp()
        };
        // By the sum of all errors or, which is less in long windows, by the inequality of Cauchy and Schwarz.
        let by_norm = if rate > 0.0 {
            self.error_norm * norm_of_weights(rate)
        } else {
            f64::INFINITY
        };
        let error = (self.error * largest).min(by_norm * (1.0 + 1e-12) + self.outside * largest);
        let terms = (BLOCK + self.masses.len() / BLOCK) as f64;
        let slack = self.relative_error
            + SUM_ERROR
            + f64::EPSILON * (terms + 8.0 * (self.log_scale.abs() + (self.tilt * place).abs()));
        let found = match end {
            End::Lower => (value - error) * (1.0 - slack),
            End::Upper => (value + error) * (1.0 + slack),
        };
        if found > 0.0 {
            found.ln() + self.log_scale - self.tilt * place
        } else if found.is_nan() && end == End::Upper {
            f64::INFINITY
        } else {
            f64::NEG_INFINITY
        }
    }

    /// Σ v·u·e^{∓θu} over the masses v at the distances u ≥ 0 above, or below, a place, and a bound on these distances.
    fn distances(&self, place: f64, above: bool) -> (f64, f64) {
        let last = self.last();
        let (sign, nearest) = if above {
            (1.0, place.ceil().max(self.first))
        } else {
            (-1.0, place.floor().min(last))
        };
        let number = if above { last - nearest } else { nearest - self.first };
        if number < 0.0 {
            return (0.0, 0.0);
        }
        let fall = (-sign * self.tilt).exp();
        let (terms, distance) = (number as usize + 1, (nearest - place).abs());
        let mut value = 0.0;
        for next in (0..terms).step_by(BLOCK) {
            let start = distance + next as f64;
            let (mut factor, mut part) = ((-sign * self.tilt * start).exp(), 0.0);
            for i in 0..BLOCK.min(terms - next) {
                let at = nearest + sign * (next + i) as f64;
                part += self.masses[(at - self.first) as usize] * factor * (start + i as f64);
                factor *= fall;
            }
            value += part;
        }
        (value, distance + number)
    }
}

impl PlaceSum {
    /// log of a bound on E[(K − k)₊] above the window of a law, or on E[(k − K)₊] below it.
    ///
    /// It is the first bound that is at most `wanted`, or the smallest one.
    ///
    /// For every θ > 0 and all K at a distance of u ≥ u₀ from k, u ≤ max(u·e^{−θu})·e^{θu}: Chernoff's inequality bounds the expectation of e^{θu}.
    pub(in crate::loss) fn log_excess_outside(
        &self,
        law: &TiltedLaw,
        (place, above): (f64, bool),
        wanted: f64,
    ) -> f64 {
        let (sign, edge) = if above {
            (1.0, law.last() + 1.0)
        } else {
            (-1.0, law.first - 1.0)
        };
        let nothing = if above { edge > self.top() } else { edge < 0.0 };
        if nothing {
            return f64::NEG_INFINITY;
        }
        let distance = sign * (edge - place);
        let bound = |k: i32| {
            let tilt = law.tilt + sign * REACH / law.deviation.max(1e-3) * 0.5f64.powi(k);
            let rate = sign * tilt;
            if rate <= 0.0 {
                return f64::INFINITY;
            }
            let log_largest = if rate * distance > 1.0 {
                distance.ln() - rate * distance
            } else {
                -1.0 - rate.ln()
            };
            let rounding = 8.0 * f64::EPSILON * (1.0 + (tilt * place).abs() + log_largest.abs());
            self.log_moment_bound(tilt) - tilt * place + log_largest + rounding
        };
        let mut least = f64::INFINITY;
        for k in 0..AWAY {
            least = least.min(bound(k));
            if least <= wanted {
                break;
            }
        }
        least
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::lattice::places::Places;
    use std::sync::Arc;

    #[test]
    fn the_norm_of_weights_is_bounded_and_half_of_it_is_too_little() {
        for rate in [1e-3f64, 0.05, 0.7, 3.0] {
            let norm = |offset: f64| -> f64 {
                let weight = |i: i32| {
                    let distance = offset + f64::from(i);
                    (distance * (-rate * distance).exp()).powi(2)
                };
                (0..(60.0 / rate) as i32 + 10).map(weight).sum::<f64>().sqrt()
            };
            let largest = (0..20).map(|i| norm(0.05 * f64::from(i))).fold(0.0, f64::max);
            let bound = norm_of_weights(rate);
            assert!(largest <= bound && 0.5 * bound < largest, "{rate}: {largest} {bound}");
        }
    }

    /// 0·∞ where the factor of a distance overflows: an upper end of which nothing is known is infinite, and a lower one is that of 0.
    #[test]
    fn what_is_no_number_is_the_widest_interval() {
        let places = Arc::new(Places {
            masses: vec![0.25, 0.5, 0.25],
            error: 0.0,
        });
        let mut law = PlaceSum::of_equal(places, 4.0).tilted(0.0);
        law.tilt = -800.0;
        law.log_scale = 0.0;
        law.masses.iter_mut().for_each(|mass| *mass = 0.0);
        assert_eq!(law.log_excess(1.0, true, End::Upper), f64::INFINITY);
        assert_eq!(law.log_excess(1.0, true, End::Lower), f64::NEG_INFINITY);
    }

    /// Sums over all places of a binomial law, in the window and beyond it.
    #[test]
    fn excesses_are_sums_over_all_places() {
        let (count, p) = (200_000u32, 0.4f64);
        let one = Arc::new(Places {
            masses: vec![1.0 - p, p],
            error: 0.0,
        });
        let sum = PlaceSum::of_equal(one, f64::from(count));
        let mut masses = Vec::new();
        let mut log_choose = 0.0;
        for k in 0..=count {
            let rest = f64::from(count - k);
            masses.push((log_choose + f64::from(k) * p.ln() + rest * (-p).ln_1p()).exp());
            log_choose += (rest / f64::from(k + 1)).ln();
        }
        for (tilt, place, above) in [
            (0.027, 81_300.4, true),
            (0.0146, 80_700.0, true),
            (-0.025, 78_800.5, false),
        ] {
            let law = sum.tilted_by_transform(tilt);
            assert!(law.first > 0.0 && law.last() < sum.top());
            let excess = |k: usize| if above { k as f64 - place } else { place - k as f64 };
            let all = |is_counted: &dyn Fn(f64) -> bool| -> f64 {
                let counted = (0..masses.len()).filter(|&k| is_counted(k as f64));
                counted.map(|k| masses[k] * excess(k).max(0.0)).sum()
            };
            let exact = all(&|_| true).ln();
            let [lower, upper] = [End::Lower, End::Upper].map(|end| law.log_excess(place, above, end));
            assert!(
                lower <= exact + 1e-8 && exact - 1e-8 <= upper,
                "{tilt} {lower} {exact} {upper}"
            );
            assert!(upper - lower < 1e-5, "{tilt} {lower} {upper}");
            let outside = sum.log_excess_outside(&law, (place, above), f64::NEG_INFINITY);
            assert!(outside < exact - 20.0, "{tilt} {outside} {exact}");
            // A window that ends early: what is beyond it is bounded, and by a factor of a hundred at most.
            let mut cut = sum.tilted_by_transform(tilt);
            if above {
                cut.masses.truncate((place - cut.first + 300.0) as usize);
            } else {
                let drop = (place - 300.0 - cut.first) as usize;
                cut.masses.drain(..drop);
                cut.first += drop as f64;
            }
            let beyond = all(&|k| if above { k > cut.last() } else { k < cut.first }).ln();
            let bound = sum.log_excess_outside(&cut, (place, above), f64::NEG_INFINITY);
            assert!(
                bound >= beyond - 1e-6 && bound < beyond + 100f64.ln(),
                "{tilt} {bound} {beyond}"
            );
        }
    }
}
