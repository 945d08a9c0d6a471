//! Answers remembered by the bits of the question's numbers.

use std::collections::HashMap;

/// Answers that are remembered at most, some megabytes; all are forgotten when there are more.
const CAPACITY: usize = 100_000;

/// Answers to questions for one number to some tolerance.
#[derive(Debug)]
pub(super) struct Answers<T> {
    known: HashMap<(u64, u64), T>,
}

impl<T: Copy> Answers<T> {
    /// None yet.
    pub(super) fn new() -> Self {
        Self { known: HashMap::new() }
    }

    /// The answer at `x` to that tolerance, if that was asked before.
    pub(super) fn get(&self, x: f64, tolerance: f64) -> Option<T> {
        self.known.get(&(x.to_bits(), tolerance.to_bits())).copied()
    }

    /// Remembers an answer.
    pub(super) fn insert(&mut self, x: f64, tolerance: f64, answer: T) {
        if self.known.len() >= CAPACITY {
            self.known.clear();
        }
        self.known.insert((x.to_bits(), tolerance.to_bits()), answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_belongs_to_one_number_and_one_tolerance() {
        let mut answers = Answers::new();
        answers.insert(1.0, 1e-6, 7);
        assert_eq!(answers.get(1.0, 1e-6), Some(7));
        assert_eq!(answers.get(1.0, 1e-7), None);
        assert_eq!(answers.get(1.0f64.next_up(), 1e-6), None);
    }
}
