use super::*;

fn bins(batches: &[(u64, f64)]) -> Bins {
    Bins::new(batches).unwrap()
}

#[test]
fn one_epoch_meets_the_references() {
    for (t, sigma, epsilon, remove, add) in REFERENCES {
        for (direction, exact) in [(Direction::Remove, remove), (Direction::Add, add)] {
            let loss = StepLoss::allocation(bins(&[(t, 1.0 / (sigma * sigma))]), direction);
            let start = std::time::Instant::now();
            let found = loss.one_step(epsilon, 1e-9, &mut Effort::default());
            println!("{t} {sigma} {epsilon} {direction:?}: {} {exact} width {} in {:?}", found.upper(), found.width(), start.elapsed());
        }
    }
}

/// δ of one epoch in ball arithmetic: t, σ, ε, removed, added.
const REFERENCES: [(u64, f64, f64, f64, f64); 8] = [
    (10, 1.0, 1.0, 2.7828486829e-3, 4.8618580844e-4),
    (100, 1.0, 0.5, 4.408908027741e-5, 5.925283691709e-7),
    (100, 1.0, 0.857986, 1.000001577672e-6, 3.4910270715e-15),
    (100, 1.0, 1.2, 6.212593166595e-8, 2.41e-27),
    (1000, 1.0, 0.1, 1.482069027274e-4, 9.283392049104e-5),
    (1000, 1.0, 0.171283, 1.029299873932e-6, 8.366439305238e-8),
    (100, 2.0, 0.1, 6.737179842694e-4, 6.384510050890e-4),
    (100, 2.0, 0.25, 2.319889632503e-8, 1.250538438624e-8),
];
