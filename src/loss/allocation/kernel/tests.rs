use super::*;

/// E[Y^n e^{−sY}] of one batch along rays, by mpmath with 30 digits.
#[test]
fn one_batch_is_an_integral() {
    for (v, n, r, angle, real, imaginary) in REFERENCES {
        let bins = Bins::new(&[(1, v)]).unwrap();
        let node = Ray::new(&bins, n, angle, 5.0).at(f64::ln(r));
        let scale = node.log_scale.exp();
        let off = (node.value.re * scale - real).hypot(node.value.im * scale - imaginary);
        assert!(off <= node.error * scale, "{v} {n} {r} {angle}: {node:?} {off}");
        assert!(
            node.error * scale <= 1e-11 * real.hypot(imaginary),
            "{v} {n} {r} {angle}: {node:?}"
        );
    }
}

/// v, n, |s|, arg s, real and imaginary part.
const REFERENCES: [(f64, usize, f64, f64, f64, f64); 8] = [
    (1.0, 0, 0.3, 0.0, 0.7778241456447325, 0.0),
    (1.0, 0, 5.0, 0.0, 0.13848430455482574, 0.0),
    (1.0, 0, 5.0, 1.4, -0.005418331396014981, -0.2297330419586198),
    (1.0, 4, 0.3, 0.0, 9.389284778290788, 0.0),
    (1.0, 4, 3.0, 1.3, -0.00902058726555872, 0.04048707349422409),
    (0.0625, 8, 2.0, 1.5, -3.3267107417694803, 0.11752746398100435),
    (4.0, 3, 1.5, 0.7, -0.007386410017313073, -0.05710124174905424),
    (4.0, 0, 40.0, 1.2, 0.13316922502461873, -0.13462045338818243),
];

/// Half of the bound would be too small.
#[test]
fn terms_beyond_the_ends_are_bounded() {
    let bins = Bins::new(&[(1, 1.0)]).unwrap();
    let ray = Ray::new(&bins, 4, 0.0, 1.0);
    let whole = &ray.rules[0];
    let mut short = Ray::new(&bins, 4, 0.0, 1.0);
    // Without the last third of the nodes what is missing is close to the geometric series that bounds it.
    let kept = whole.outputs.len() * 2 / 3;
    short.rules[0].outputs.truncate(kept);
    let (all, _) = whole.sums(Complex64::new(0.1, 0.0), 0.1, 0.1, 4, true);
    let (part, ends) = short.rules[0].sums(Complex64::new(0.1, 0.0), 0.1, 0.1, 4, true);
    for (k, end) in ends.iter().enumerate().take(5).skip(1) {
        let missing = all.real[k] - part.real[k];
        assert!(missing <= *end && *end < 2.0 * missing, "{k}: {missing} {end}");
    }
}

/// Little v and large s: the first nodes have weights below the range of numbers, whose reciprocals would be infinite.
#[test]
fn nodes_of_no_weight_are_left_out() {
    for (count, v) in [(2u64, 0.04f64), (3, 0.04)] {
        let bins = Bins::new(&[(count, v)]).unwrap();
        let ray = Ray::new(&bins, 8, 0.0, 6.7);
        for u in [4.0, 4.75, 5.0] {
            let node = ray.at(u);
            assert!(
                node.value.re > 0.0 && node.error < 1e-6 * node.value.re,
                "{count} {v} {u}: {node:?}"
            );
        }
    }
}
