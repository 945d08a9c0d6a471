//! Monte Carlo δ: nanoseconds a sample and step, against drawing the same number of standard normals.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hockeystick::Unwatched;
use hockeystick::simulation::{Segment, Settings, monte_carlo_delta};
use hockeystick::{Direction, GroupLaw};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const STEPS: u64 = 10;
const SAMPLES: u64 = 100_000;

fn group_size(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("monte_carlo_delta, q = 0.01, sigma = 1, T = 10, one thread");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a pool");
    group.throughput(Throughput::Elements(STEPS * SAMPLES));
    group.sample_size(20);
    for k in [1, 4, 16, 64, 256] {
        for (name, tilt) in [("plain", Some(0.0)), ("automatic tilt", None)] {
            let segments = [Segment {
                law: GroupLaw::binomial(k, 0.01).expect("a law"),
                noise_multiplier: 1.0,
                steps: STEPS,
            }];
            let settings = Settings {
                samples: SAMPLES,
                direction: Direction::Remove,
                tilt,
                seed: 1,
                confidence: 0.99,
            };
            group.bench_function(BenchmarkId::new(name, k), |bencher| {
                pool.install(|| bencher.iter(|| monte_carlo_delta(2.0, &segments, &settings, &Unwatched)));
            });
        }
    }
    group.finish();
}

fn normals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("standard normals");
    group.throughput(Throughput::Elements(STEPS * SAMPLES));
    group.sample_size(20);
    group.bench_function("rand_distr, xoshiro256++", |bencher| {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        bencher.iter(|| {
            (0..STEPS * SAMPLES)
                .map(|_| -> f64 { StandardNormal.sample(&mut random) })
                .sum::<f64>()
        });
    });
    group.finish();
}

criterion_group!(benches, group_size, normals);
criterion_main!(benches);
