//! What `cargo fuzz` runs with bytes that it looks for, with random bytes, which need no nightly compiler.

#[path = "../fuzz/bodies.rs"]
mod bodies;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Random bytes of up to `longest`, the same each time.
fn inputs(seed: u64, count: usize, longest: usize) -> impl Iterator<Item = Vec<u8>> {
    let mut source = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..count).map(move |number| {
        let mut bytes = vec![0; number % (longest + 1)];
        source.fill_bytes(&mut bytes);
        bytes
    })
}

#[test]
fn states_of_random_bytes_are_refused_or_answered() {
    inputs(1, 2000, 400).for_each(|bytes| bodies::state(&bytes));
}

/// Every second of the same inputs, so that two processors share them.
fn answer_every_second(first: usize) {
    let inputs = inputs(2, 250, 120).skip(first).step_by(2);
    inputs.for_each(|bytes| bodies::parameters(&bytes));
}

#[test]
fn even_runs_of_random_bytes_are_refused_or_answered() {
    answer_every_second(0);
}

#[test]
fn odd_runs_of_random_bytes_are_refused_or_answered() {
    answer_every_second(1);
}
