use super::*;
use crate::loss::loss_curve::LossCurve;

/// The loss x + `moved` at x, where P has the log density `log_density` + `growth`·x.
#[derive(Clone, Copy, Default)]
struct Straight {
    moved: f64,
    log_density: f64,
    growth: f64,
    size: f64,
    reach: f64,
}

impl LossCurve for Straight {
    fn point(&self, x: f64, _: &mut Scratch) -> Point {
        Point {
            loss: x + self.moved,
            slope: 1.0,
            log_density: self.log_density + self.growth * x,
            size: self.size,
        }
    }

    fn reach(&self, _: f64, _: bool, _: &Scratch) -> f64 {
        self.reach
    }

    fn scale(&self) -> f64 {
        1.0
    }
}

/// The masses of a curve between two outputs, over e^`log_scale`, in cells from the loss 0 to that of grid point 5.
fn swept(curve: Straight, (from, to): (f64, f64), spacing: f64, log_scale: f64) -> HalfCells {
    let frame = Frame::new((0.0, spacing), 0.0, log_scale, u64::MAX);
    let sweep = Sweep {
        curve: Box::new(curve),
        start: from,
        end: to,
    };
    let part = Part {
        first: 0,
        last: 4,
        from,
        to,
    };
    frame.sweep_chunk(&sweep, part, HalfCells::starting(0, 5), 1)
}

/// log n!
fn log_factorial(n: u32) -> f64 {
    (2..=n).map(|i| f64::from(i).ln()).sum()
}

/// log of w^{2n}(n!)⁴/((2n+1)(2n)!³): the error of n nodes over an interval of width w, relative to its mass, for a
/// density whose derivative of order 2n is at most the density.
fn log_rule_error(nodes: u32, width: f64) -> f64 {
    let n = f64::from(nodes);
    2.0 * n * width.ln() + 4.0 * log_factorial(nodes) - (2.0 * n + 1.0).ln() - 3.0 * log_factorial(2 * nodes)
}

#[test]
fn the_widths_of_the_rules_use_the_error_that_is_counted() {
    for (nodes, width, attained) in [(3, WIDTH_OF_3, 0.9), (6, WIDTH_OF_6, 0.9), (32, WIDTH_OF_32, 0.0)] {
        // A density at one point of the interval is at most e^width times its mean there.
        let error = |width: f64| (log_rule_error(nodes, width) + width).exp();
        let found = error(width);
        assert!(found <= QUADRATURE && found > attained * QUADRATURE, "{nodes}: {found}");
        assert!(nodes == 32 || error(2.0 * width) > QUADRATURE);
    }
}

#[test]
fn the_error_of_a_rule_is_that_of_the_first_monomial_it_misses() {
    // x^{2n} has the constant derivative (2n)!, so that the formula is the error itself.
    for (rule, nodes) in [(&THREE_NODES[..], 3), (&SIX_NODES[..], 6)] {
        for degree in 0..2 * nodes {
            let sum: f64 = rule.iter().map(|(x, w)| w * x.powi(degree)).sum();
            let exact = if degree % 2 == 0 {
                2.0 / f64::from(degree + 1)
            } else {
                0.0
            };
            assert!((sum - exact).abs() < 1e-15, "{nodes} {degree}");
        }
        let sum: f64 = rule.iter().map(|(x, w)| w * x.powi(2 * nodes)).sum();
        let error = 2.0 / f64::from(2 * nodes + 1) - sum;
        // On [−1, 1] the integral of (2n)! is 2·(2n)!.
        let formula = (log_rule_error(nodes as u32, 2.0) + log_factorial(2 * nodes as u32)).exp() * 2.0;
        assert!((error / formula - 1.0).abs() < 1e-6, "{nodes}: {error} {formula}");
    }
}

#[test]
fn powers_bound_the_hermite_polynomials_and_are_nearly_attained() {
    // He_{n+1}(x) = x·He_n(x) − n·He_{n−1}(x), over (|x| + 5)^n.
    for (degree, attained) in [(6, 1e-4), (12, 1e-4), (64, 0.1)] {
        let mut largest = 0.0f64;
        for i in 0..20_000 {
            let x = f64::from(i) * 0.001;
            let scale = x + HERMITE_MARGIN;
            let (mut before, mut value) = (0.0, 1.0);
            for n in 0..degree {
                (before, value) = (value, x / scale * value - f64::from(n) / (scale * scale) * before);
            }
            largest = largest.max(value.abs());
        }
        assert!(largest <= 1.0 && largest > attained, "{degree}: {largest}");
    }
}

/// A log density that is off by all that its rounding is said to be: so are all masses, and little else is counted.
#[test]
fn the_rounding_of_a_log_density_attains_the_mass_error() {
    let exact = Straight {
        log_density: -600.0,
        ..Straight::default()
    };
    let wrong = Straight {
        log_density: -600.0 + 8.0 * f64::EPSILON * (4.0 + 600.0),
        ..exact
    };
    let [masses, others] = [exact, wrong].map(|curve| swept(curve, (0.0, 0.05), 0.01, exact.log_density));
    let off = others.upper.iter().sum::<f64>() - masses.upper.iter().sum::<f64>();
    assert!(
        off <= masses.mass_error && off > 0.7 * masses.mass_error,
        "{off:e} {:e}",
        masses.mass_error
    );
}

/// The density e^{5x}, whose sixth derivative is 5⁶ times itself, in half-cells of nearly the largest width for three nodes.
#[test]
fn the_error_of_the_rule_attains_the_mass_error() {
    let curve = Straight {
        growth: 5.0,
        ..Straight::default()
    };
    let spacing = 0.0295;
    let end = 5.0 * spacing;
    let masses = swept(curve, (0.0, end), spacing, 0.0);
    let exact = (5.0 * end).exp_m1() / 5.0;
    let off = (masses.upper.iter().sum::<f64>() - exact).abs();
    assert!(
        off <= masses.mass_error && off > 0.5 * masses.mass_error,
        "{off:e} {:e}",
        masses.mass_error
    );
}

/// −log of the mass of the upper law under Q, over that under P.
fn mean_loss(masses: &HalfCells, spacing: f64) -> f64 {
    let of_q = |(i, mass): (usize, &f64)| mass * (-spacing * i as f64).exp();
    let sum: f64 = masses.upper.iter().enumerate().map(of_q).sum();
    -(sum / masses.upper.iter().sum::<f64>()).ln()
}

/// Losses that are off by all that their rounding is said to be: so is the upper law.
#[test]
fn the_rounding_of_losses_attains_the_loss_error() {
    let size = 1e6;
    let exact = Straight {
        size,
        ..Straight::default()
    };
    let moved = 8.0 * f64::EPSILON * size;
    let masses = swept(exact, (0.001, 0.049), 0.01, 0.0);
    let others = swept(Straight { moved, ..exact }, (0.001, 0.049), 0.01, 0.0);
    let off = mean_loss(&others, 0.01) - mean_loss(&masses, 0.01);
    let error = masses.loss_error;
    assert!(off <= error * (1.0 + 1e-6) && off > 0.99 * error, "{off:e} {error:e}");
}

/// Outputs below the first cell and above the last one belong to these: their losses are off by the distance.
#[test]
fn losses_beyond_the_cells_count_by_their_distance() {
    for (from, to, distance) in [(-0.002, 0.05, 0.002), (0.0, 0.053, 0.003), (-0.001, 0.054, 0.004)] {
        let found = swept(Straight::default(), (from, to), 0.01, 0.0).loss_error;
        assert!(
            found >= distance - 1e-15 && found < distance + 1e-10,
            "{found} {distance}"
        );
    }
}

/// Panels for a centre 1e20 widths away would be 1e-19 wide, less than half of the distance from 0.001 to the next number.
#[test]
fn panels_narrower_than_the_last_bit_have_no_certified_mass() {
    let far = Straight {
        reach: 1e20,
        ..Straight::default()
    };
    assert_eq!(swept(far, (0.001, 0.05), 0.01, 0.0).mass_error, f64::INFINITY);
    assert!(swept(Straight::default(), (0.001, 0.05), 0.01, 0.0).mass_error < 1e-12);
}
