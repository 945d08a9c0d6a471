//! Rényi accounting: one ε of a whole run, order optimised, and one exact divergence.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hockeystick::renyi::{GaussianPair, GroupBound, Run};
use hockeystick::{Adjacency, Direction, GroupLaw, Mechanism, Step};

fn epsilon(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("renyi epsilon, q = 0.01, sigma = 1, T = 1000, delta = 1e-5");
    group.sample_size(20);
    for group_size in [1, 4, 16, 64, 256] {
        for (name, bound) in [("exact", GroupBound::Exact), ("jensen", GroupBound::Jensen)] {
            let step = Step::poisson(Mechanism::Gaussian { noise_multiplier: 1.0 }, 0.01, group_size);
            let steps = [(step, 1000)];
            group.bench_function(BenchmarkId::new(name, group_size), |bencher| {
                bencher.iter(|| {
                    let mut run = Run::new(&steps, Adjacency::AddRemove, bound).expect("a run");
                    run.epsilon(1e-5).expect("an epsilon").value
                });
            });
        }
    }
    group.finish();
}

fn divergence(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one exact divergence, q = 0.01, sigma = 1, order 8");
    for group_size in [1, 16, 256] {
        group.bench_function(BenchmarkId::from_parameter(group_size), |bencher| {
            bencher.iter(|| {
                let law = GroupLaw::binomial(group_size, 0.01).expect("a law");
                GaussianPair::new(law, 1.0)
                    .expect("a step")
                    .of_order(8.0, Direction::Remove)
                    .value
            });
        });
    }
    group.finish();
}

criterion_group!(benches, epsilon, divergence);
criterion_main!(benches);
