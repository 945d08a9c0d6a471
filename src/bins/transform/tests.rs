use super::*;

fn chain() -> Chain {
    Chain::new(3, 2, 0.6, 0.4, 2.0)
}

fn with_spacing(factor: f64) -> Transform {
    let chain = chain();
    let mut lattice = Lattice::new(&chain);
    let end = lattice.end();
    lattice.spacing *= factor;
    lattice.half = (end / lattice.spacing).ceil() as usize;
    Transform::new(chain, lattice)
}

/// The values at points on both sides of the imaginary axis, by a lattice of another spacing.
#[test]
fn errors_of_coarse_lattices_are_within_their_bounds() {
    let fine = with_spacing(1.0);
    for factor in [1.5, 2.0, 3.0] {
        let coarse = with_spacing(factor);
        for s in [(0.5, 0.0), (2.0, 3.0), (0.1, 4.0), (-0.2, 2.0), (8.0, 8.0)] {
            let s = Complex64::new(s.0, s.1);
            let (exact, found) = (fine.at(s), coarse.at(s));
            assert!(exact.error < 1e-12, "{s} {}", exact.error);
            let off = (exact.value - found.value).norm();
            assert!(off <= exact.error + found.error, "{factor} {s}: {off} {}", found.error);
        }
    }
}

/// The lattice with three times the spacing is off by more than rounding: the bound above is needed.
#[test]
fn coarse_lattices_are_off() {
    let (fine, coarse) = (with_spacing(1.0), with_spacing(6.0));
    let s = Complex64::new(2.0, 3.0);
    let off = (fine.at(s).value - coarse.at(s).value).norm();
    assert!(off > 1e-13 && off <= coarse.at(s).error, "{off} {}", coarse.at(s).error);
}

/// All θ give the same value, and the smallest bound is taken.
#[test]
fn turning_changes_nothing() {
    let transform = with_spacing(1.0);
    let s = Complex64::new(1.0, 2.0);
    let found = transform.at(s);
    for theta in [0.3, 0.6, 0.9] {
        let cost = (0.5 * theta * theta * transform.chain.turning_cost).exp();
        let value = transform.operators.trace(s * Complex64::cis(-theta), theta) * cost;
        assert!((value - found.value).norm() < 1e-13, "{theta} {value} {found:?}");
    }
    assert!(found.error < 1e-12);
}

/// E[e^{−sW}] at real points: Jensen's lower bound, the table's upper one, and the exact value of a constant W.
#[test]
fn the_table_bounds_the_transform_from_above() {
    let transform = with_spacing(1.0);
    let mut before = 0.0;
    for i in 1..200 {
        let r = 0.05 * f64::from(i);
        let (bound, value) = (transform.log_bound(r), transform.at(Complex64::new(r, 0.0)));
        assert!(
            bound >= value.lower_ln() && bound >= -r && bound <= before,
            "{r} {bound}"
        );
        assert!(
            bound <= value.value.re.ln() + 0.2,
            "{r}: chords of short pieces are near the curve"
        );
        before = bound;
    }
}

/// |φ(s)| in and beyond the right half-plane is below its bound by turning.
#[test]
fn moduli_are_below_their_bounds() {
    let transform = with_spacing(1.0);
    for (re, im) in [(0.3, 5.0), (2.0, 9.0), (-0.5, 6.0), (0.0, 20.0)] {
        let s = Complex64::new(re, im);
        let found = transform.at(s);
        let bound = transform.log_modulus(s, 0.0);
        assert!(found.value.norm() - found.error <= bound.exp(), "{s} {found:?} {bound}");
    }
}

/// One log-normal variable, far out: |φ(s)| is near its bound, and with half of the exponent θ²B/2 the bound would be too small.
#[test]
fn the_bound_on_moduli_is_needed() {
    let chain = Chain::new(1, 1, 0.0, 0.0, 1.0);
    let lattice = Lattice::new(&chain);
    let transform = Transform::new(chain, lattice);
    for (modulus, phase) in [(100.0, 1.0), (100.0, 1.4), (400.0, 1.2)] {
        let cost = 0.5 * phase * phase * transform.chain.turning_cost;
        let found = transform.at(Complex64::from_polar(modulus, phase));
        let real = transform.at(Complex64::new(modulus, 0.0)).value.re.ln();
        let (value, error) = (found.value.norm().ln(), found.error / found.value.norm());
        assert!(error < 1e-3, "{error}");
        assert!(value - error <= real + cost, "{modulus} {phase}");
        assert!(
            value - error > real + 0.5 * cost,
            "{modulus} {phase}: {value} {real} {cost}"
        );
        let bound = transform.log_modulus(Complex64::from_polar(modulus, phase), 0.0);
        assert!(value - error <= bound, "{value} {bound}");
    }
    // On the real line the bound is attained.
    let at = transform.at(Complex64::new(2.0, 0.0)).value.re;
    assert!(at > 0.5 * transform.log_modulus(Complex64::new(2.0, 0.0), 0.0).exp());
}

/// Theorem 2 and powers: bins whose drifts agree have one matrix, and their power is the product one by one.
#[test]
fn powers_are_products() {
    for (bins, epochs, first, decay) in [(40, 3, 0.3, 0.3), (30, 2, 0.6, 0.0), (24, 2, 0.2, 0.3)] {
        let chain = Chain::new(bins, epochs, first, decay, 3.0);
        let lattice = Lattice::new(&chain);
        let mut operators = Operators::new(&chain, &lattice);
        let (turned, turn) = (Complex64::new(3.0, 1.5), 0.4);
        let by_powers = operators.trace(turned, turn);
        assert!(operators.longest_power() > 4, "{bins}");
        operators.forget_powers();
        let one_by_one = operators.trace(turned, turn);
        assert!(
            (by_powers - one_by_one).norm() < 1e-13 * one_by_one.norm(),
            "{by_powers} {one_by_one}"
        );
    }
}

trait LowerLn {
    fn lower_ln(&self) -> f64;
}

impl LowerLn for Approx<Complex64> {
    /// Logarithm of the lower end of the real part.
    fn lower_ln(&self) -> f64 {
        (self.value.re - self.error).ln()
    }
}
