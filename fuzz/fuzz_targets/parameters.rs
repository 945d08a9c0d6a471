//! Runs and targets from arbitrary bytes.
#![no_main]

#[path = "../bodies.rs"]
#[allow(dead_code, reason = "the other target's body")]
mod bodies;

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::parameters(data));
