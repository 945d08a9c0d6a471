//! Speed of exact answers: ε at δ = 1e-5 for the runs of the table in docs/benchmarks.md.
#![allow(missing_docs, clippy::unwrap_used)] // criterion's macros; a benchmark may stop

use criterion::{Criterion, criterion_group, criterion_main};
use hockeystick::Composition;
use hockeystick::{Adjacency, Group, Mechanism, Sampling, Step};

fn exact(criterion: &mut Criterion) {
    for (name, sigma, rate, steps, size) in [
        ("one record", 1.0, 0.01, 1000, 1),
        ("16 records", 1.0, 0.01, 1000, 16),
        ("256 records", 1.0, 0.01, 1000, 256),
        ("few steps", 1.0, 0.01, 10, 4),
        ("little noise", 0.3, 0.001, 1000, 64),
        ("many steps", 1.0, 0.01, 1_000_000_000, 1),
    ] {
        let scheme = Step {
            mechanism: Mechanism::Gaussian {
                noise_multiplier: sigma,
            },
            sampling: Sampling::Poisson { sample_rate: rate },
            group: Group::of(size),
        };
        criterion.bench_function(&format!("epsilon, {name}"), |bencher| {
            bencher.iter(|| {
                let mut run = Composition::new(&[(scheme.clone(), steps)], Adjacency::AddRemove).unwrap();
                run.epsilon(1e-5, 1e-6).unwrap()
            });
        });
    }
}

criterion_group!(benches, exact);
criterion_main!(benches);
