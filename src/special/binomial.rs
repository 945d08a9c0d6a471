//! The binomial law: masses and tails, with bounds on their relative errors.

/// A number of successes in independent trials, with the probability `p` of a success and `rest` of a failure.
///
/// Masses are computed in Loader's form (2000, "Fast and accurate computation of binomial probabilities"): the differences that
/// cancel in log C(n, i)·p^i (1 − p)^{n − i} are taken analytically, which leaves a relative error of some units in the last place
/// times the size of the deviance, for n as large as 10¹⁰.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Binomial {
    pub(crate) trials: f64,
    pub(crate) p: f64,
    pub(crate) rest: f64,
}

impl Binomial {
    /// The law with success probability `p`.
    pub(crate) fn new(trials: f64, p: f64) -> Self {
        let rest = 1.0 - p;
        Self { trials, p, rest }
    }

    /// log C(n, i)·p^i (1 − p)^{n − i}.
    pub(crate) fn log_mass(&self, i: f64) -> f64 {
        let n = self.trials;
        if i == 0.0 {
            return n * self.rest.ln();
        }
        if i == n {
            return n * self.p.ln();
        }
        stirling(n) - stirling(i) - stirling(n - i) - self.deviance(i)
            + 0.5 * (n / (2.0 * std::f64::consts::PI * i * (n - i))).ln()
    }

    /// i·log(i/np) + (n − i)·log((n − i)/n(1 − p)).
    pub(crate) fn deviance(&self, i: f64) -> f64 {
        let n = self.trials;
        half_deviance(i, n * self.p) + half_deviance(n - i, n * self.rest)
    }

    /// An upper bound on P(X ≥ `least`) for `least` ≥ np, within about 1e-7 of it for n up to 10⁸.
    ///
    /// From `least` on, masses fall by ratios that fall themselves, so that what follows any term is at most a geometric series.
    /// Roundings: those of the mass at `least` ([`Binomial::relative_error`]), and one for each term of the sum.
    pub(crate) fn upper_tail(&self, least: f64) -> f64 {
        /// What is left out of the sum, relative to it.
        const NEGLIGIBLE: f64 = 1e-18;
        if least <= 0.0 {
            return 1.0;
        }
        if self.p <= 0.0 {
            return 0.0;
        }
        let odds = self.p / self.rest;
        let (mut sum, mut term, mut i, mut terms) = (1.0, 1.0, least, 1.0);
        let left_out = loop {
            let ratio = (self.trials - i) / (i + 1.0) * odds;
            if i >= self.trials || ratio <= 0.0 {
                break 0.0;
            }
            term *= ratio;
            let rest = term / (1.0 - ratio);
            if ratio < 1.0 && rest < NEGLIGIBLE * sum {
                break rest;
            }
            sum += term;
            i += 1.0;
            terms += 1.0;
        };
        let error = self.relative_error(least) + 8.0 * f64::EPSILON * terms;
        (self.log_mass(least).exp() * (sum + left_out) * (1.0 + error)).min(1.0)
    }

    /// A bound on the relative error of e^[`Binomial::log_mass`]: that of three Stirling series, the deviance and the exponential,
    /// and that of `rest`, which the mass has to the power of n at most.
    pub(crate) fn relative_error(&self, i: f64) -> f64 {
        f64::EPSILON * (8.0 * (16.0 + self.deviance(i)) + self.trials)
    }
}

/// x·log(x/m) + m − x ≥ 0, without cancellation near x = m.
fn half_deviance(x: f64, mean: f64) -> f64 {
    if x == 0.0 {
        return mean;
    }
    let u = (x - mean) / mean;
    if u.abs() > 0.1 {
        return x * (x / mean).ln() + mean - x;
    }
    // (1 + u)·log(1 + u) − u = Σ_{k ≥ 2} (−u)^k/(k(k − 1))
    let (mut sum, mut power) = (0.0, u * u);
    for k in 2..24 {
        let k = f64::from(k);
        sum += power / (k * (k - 1.0));
        power *= -u;
    }
    mean * sum
}

/// log n! − log(√(2πn)·(n/e)^n).
fn stirling(n: f64) -> f64 {
    if n < 16.0 {
        let log_factorial: f64 = (2..=n as u32).map(|k| f64::from(k).ln()).sum();
        return log_factorial - 0.5 * (2.0 * std::f64::consts::PI * n).ln() - n * (n.ln() - 1.0);
    }
    let square = n * n;
    // Asymptotic series, alternating: the error is below its first term left out, 1/(156·n¹¹)·691/2310.
    (1.0 / 12.0
        - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0 - (1.0 / 1188.0) / square) / square) / square) / square)
        / n
}

#[cfg(test)]
mod tests {
    use super::*;
    use statrs::distribution::Discrete;

    #[test]
    fn masses_are_those_of_another_library() {
        for (n, p) in [(1u64, 0.3), (15, 0.5), (16, 0.01), (400, 0.7), (3000, 1e-3)] {
            let law = Binomial::new(n as f64, p);
            let other = statrs::distribution::Binomial::new(p, n).unwrap();
            for i in [0, 1, n / 3, n / 2, n - 1, n] {
                // The other library subtracts log-gammas of the size of n·log n.
                let wrong = law.log_mass(i as f64) - other.ln_pmf(i);
                assert!(
                    wrong.abs() < 1e-14 * (n as f64 * (n as f64).ln() + 20.0),
                    "{n} {p} {i}: {wrong}"
                );
            }
        }
    }

    /// P(X ≥ k) in 40 digits, by mpmath's regularised incomplete beta function.
    #[test]
    fn tails_are_upper_bounds_within_their_error() {
        for (trials, least, p, exact) in TAILS {
            let law = Binomial::new(trials, p);
            let found = law.upper_tail(least);
            let allowed = 2.0 * law.relative_error(least) + 1e-13;
            assert!(
                found >= exact && found <= exact * (1.0 + allowed),
                "{trials} {least} {p}: {found} {exact}"
            );
        }
        assert_eq!(Binomial::new(5.0, 0.2).upper_tail(0.0), 1.0);
        assert_eq!(Binomial::new(5.0, 0.0).upper_tail(3.0), 0.0);
    }

    /// (n, k, p, P(X ≥ k)).
    const TAILS: [(f64, f64, f64, f64); 6] = [
        (10.0, 7.0, 0.25, 0.003505706787109375),
        (100.0, 1.0, 0.0005, 0.04878246975767102),
        (1000.0, 600.0, 0.5, 1.3642320780330092e-10),
        (1000000.0, 1.0, 1e-09, 0.0009995001671245086),
        (100000000.0, 50020000.0, 0.5, 3.168462083897178e-05),
        (100000000.0, 40.0, 3.725290298461914e-09, 5.983184028687421e-66),
    ];

    /// log n! − log(√(2πn)(n/e)^n) by mpmath 1.3: loggamma(n + 1) − log(sqrt(2πn)) − n(log n − 1), on both sides of the switch at 16.
    #[test]
    fn stirlings_remainder_is_exact_to_rounding() {
        for (n, exact) in [
            (1.0, 0.081_061_466_795_327_26),
            (2.0, 0.041_340_695_955_409_29),
            (15.0, 0.005_554_733_551_962_801),
            (16.0, 0.005_207_655_919_609_64),
            (17.0, 0.004_901_395_948_434_738),
            (40.0, 0.002_083_289_938_302_421_7),
            (1000.0, 8.333_333_055_555_635e-5),
        ] {
            // Below 16 by differences of numbers of up to 28.
            assert!((stirling(n) - exact).abs() < 2e-14, "{n}");
        }
    }

    /// x·log(x/m) + m − x by mpmath 1.3, on both sides of the switch to the series at |x − m| = m/10.
    #[test]
    fn deviances_are_exact_to_rounding() {
        for (x, mean, exact) in [
            (1.05, 1.0, 0.001_229_672_377_903_605_4),
            (0.93, 1.0, 0.002_509_255_663_603_046),
            (101.0, 100.0, 0.004_983_416_169_976_368),
            (3.0, 1.0, 1.295_836_866_004_329),
            (1_000_001.0, 1e6, 4.999_998_333_334_167e-7),
        ] {
            let found = half_deviance(x, mean);
            assert!(
                (found / exact - 1.0).abs() < 2e-15 * (1.0 + mean / (x - mean).abs()),
                "{x}: {found} {exact}"
            );
        }
    }
}
