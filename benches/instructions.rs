//! One kernel, once, for a count of its instructions: `cargo run --release --example instructions -- KERNEL`.
//!
//! `scripts/count_instructions.py` runs each under callgrind. Without an argument this prints their names.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic, clippy::print_stdout)] // a benchmark may stop, and prints its names

use std::hint::black_box;

use hockeystick::Composition;
use hockeystick::Unwatched;
use hockeystick::individual::StepRdp;
use hockeystick::renyi::{GaussianPair, GroupBound, Run};
use hockeystick::simulation;
use hockeystick::simulation::{Settings, monte_carlo_delta};
use hockeystick::{Adjacency, Direction, Group, GroupLaw, Mechanism, Sampling, Step};

const DELTA: f64 = 1e-5;
const POISSON: Sampling = Sampling::Poisson { sample_rate: 0.01 };
const FIXED: Sampling = Sampling::FixedBatch {
    batch_size: 100,
    dataset_size: 10_000,
};

/// Every kernel by its name.
const KERNELS: [(&str, fn()); 9] = [
    ("epsilon_one_record", || {
        epsilon(POISSON, Adjacency::AddRemove, 1000, 1);
    }),
    ("epsilon_16_records", || {
        epsilon(POISSON, Adjacency::AddRemove, 1000, 16);
    }),
    ("epsilon_few_steps", || {
        epsilon(POISSON, Adjacency::AddRemove, 10, 4);
    }),
    ("epsilon_fixed_batch", || {
        epsilon(FIXED, Adjacency::AddRemove, 1000, 1);
    }),
    ("epsilon_replaced", || {
        epsilon(POISSON, Adjacency::Replace, 1000, 1);
    }),
    ("monte_carlo_16_records", monte_carlo),
    ("renyi_epsilon_16_records", renyi_epsilon),
    ("renyi_divergence_256_records", renyi_divergence),
    ("individual_rdp_1000_norms", individual),
];

fn epsilon(sampling: Sampling, neighbours: Adjacency, steps: u64, group_size: u64) {
    let scheme = Step {
        mechanism: Mechanism::Gaussian { noise_multiplier: 1.0 },
        sampling,
        group: Group::of(group_size),
    };
    let mut run = Composition::new(&[(scheme, steps)], neighbours).unwrap();
    black_box(run.epsilon(DELTA, 1e-6).unwrap());
}

fn monte_carlo() {
    let segment = simulation::Segment {
        law: GroupLaw::binomial(16, 0.01).unwrap(),
        noise_multiplier: 1.0,
        steps: 10,
    };
    let settings = Settings {
        samples: 20_000,
        direction: Direction::Remove,
        tilt: None,
        seed: 1,
        confidence: 0.99,
    };
    black_box(monte_carlo_delta(2.0, &[segment], &settings, &Unwatched).unwrap());
}

fn renyi_epsilon() {
    let step = Step::poisson(Mechanism::Gaussian { noise_multiplier: 1.0 }, 0.01, 16);
    let mut run = Run::new(&[(step, 1000)], Adjacency::AddRemove, GroupBound::Exact).unwrap();
    black_box(run.epsilon(DELTA).unwrap().value);
}

fn renyi_divergence() {
    let law = GroupLaw::binomial(256, 0.01).unwrap();
    let mut step = GaussianPair::new(law, 1.0).unwrap();
    black_box(step.of_order(8.0, Direction::Remove).value);
}

fn individual() {
    let orders: Vec<f64> = (2..64).map(f64::from).collect();
    let norms: Vec<f64> = (1..=1000).map(|i| f64::from(i) / 1000.0).collect();
    let mut accounts = vec![0.0; norms.len() * orders.len()];
    let step = StepRdp::new(0.08, &orders).unwrap();
    step.accumulate(&mut accounts, &norms, 2.0, 1.0).unwrap();
    black_box(accounts);
}

fn main() {
    let Some(wanted) = std::env::args().nth(1) else {
        for (name, _) in KERNELS {
            println!("{name}");
        }
        return;
    };
    match KERNELS.iter().find(|(name, _)| *name == wanted) {
        Some((_, kernel)) => kernel(),
        None => panic!("no kernel is called {wanted}"),
    }
}
