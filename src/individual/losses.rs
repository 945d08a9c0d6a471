//! The interface between the inversion and the privacy losses of many accounts, which differ in what they store.

use crate::individual::plans::CumulantGrid;

/// The answer for an account, if it is known without any computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    /// No loss at all.
    Empty,
    /// Steps without noise, which reveal the record's presence in a batch.
    Revealing,
    /// A loss to be bounded.
    Steps,
}

impl Content {
    /// The content of an account with steps that reveal membership or not, Σ v of its Gaussian steps, and other steps or none.
    pub(crate) fn of(is_revealing: bool, gaussian: f64, has_no_others: bool) -> Self {
        if is_revealing {
            Self::Revealing
        } else if has_no_others && gaussian == 0.0 {
            Self::Empty
        } else {
            Self::Steps
        }
    }

    /// Bounds on ε(δ) that need no computation, given a bound on the probability of being in any batch: δ(0) is the distance in
    /// total variation, and no more than that probability.
    pub(crate) fn known_epsilon(self, batch_probability: f64, delta: f64) -> Option<(f64, f64)> {
        /// Room for the rounding of the probability, a sum over all kinds of steps.
        const ROOM: f64 = 1e-9;
        match self {
            Self::Empty => Some((0.0, 0.0)),
            Self::Revealing => Some((0.0, f64::INFINITY)),
            Self::Steps if batch_probability <= delta * (1.0 - ROOM) => Some((0.0, 0.0)),
            Self::Steps => None,
        }
    }
}

/// Frequencies y on a line Re z = c at which characteristic functions are tabulated: multiples of one spacing.
#[derive(Debug)]
pub(crate) struct Frequencies {
    /// Index of c in the list of lines.
    pub(crate) line: usize,
    /// c.
    pub(crate) c: f64,
    /// Distance of two frequencies.
    pub(crate) spacing: f64,
    /// Numbers of the frequencies at which the line may end, ascending.
    pub(crate) ends: Vec<usize>,
}

impl Frequencies {
    /// Number of frequencies above 0 that are needed for any of the ends.
    pub(crate) fn count(&self) -> usize {
        self.ends.iter().copied().max().unwrap_or(2)
    }
}

/// E[e^{zS}]/e^{A(c)} at a frequency on a line, without Gaussian steps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogPoint {
    /// log of the modulus.
    pub(crate) modulus: f64,
    /// log of the modulus plus the bound on the error.
    pub(crate) upper: f64,
    /// The phase.
    pub(crate) phase: f64,
}

/// The privacy losses of many accounts, in both directions. A `side` is an index into `Direction::BOTH`.
pub(crate) trait AccountLosses: Sync {
    /// The tables from which the losses on one line are computed.
    type Table: Send + Sync;

    /// Attempts in their order: numbers of lines to the left of the first, and factors on the largest frequency.
    const ATTEMPTS: &'static [(usize, f64)];

    /// The state of an account.
    fn content(&self, account: usize) -> Content;

    /// Σ qT of an account, no less than its probability of being in any batch; infinite after Gaussian steps.
    fn batch_probability(&self, account: usize) -> f64;

    /// Σ v of an account's Gaussian steps.
    fn gaussian(&self, account: usize) -> f64;

    /// A(c) of an account on every line.
    fn grid(&self, account: usize, side: usize) -> CumulantGrid;

    /// The table that serves these accounts on a line.
    fn table(&self, accounts: &[usize], side: usize, frequencies: &Frequencies) -> Self::Table;

    /// log of a bound on |E[e^{zS}]|/e^{A(c)} beyond the frequency with number `ends[place]`, without Gaussian steps; `None` if
    /// nothing is known.
    fn log_decay(&self, account: usize, table: &Self::Table, place: usize) -> Option<f64>;

    /// The characteristic function at the first `count` frequencies above 0.
    fn points(&self, account: usize, table: &Self::Table, count: usize) -> Vec<LogPoint>;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// δ(0) is the distance in total variation, which is the probability of being in a batch where noise hides nothing else.
    #[test]
    fn an_account_that_is_rarely_in_a_batch_needs_no_computation() {
        let (delta, at) = (1e-6, |probability: f64| Content::Steps.known_epsilon(probability, 1e-6));
        assert_eq!(at(delta * (1.0 - 1e-6)), Some((0.0, 0.0)));
        // A sum that is too small by a billionth may stand for one above δ.
        assert_eq!(at(delta * (1.0 - 0.9e-9)), None);
        assert_eq!(at(delta * (1.0 + 1e-12)), None);
        assert_eq!(Content::Empty.known_epsilon(0.5, delta), Some((0.0, 0.0)));
        assert_eq!(Content::Revealing.known_epsilon(0.0, delta), Some((0.0, f64::INFINITY)));
    }

    #[test]
    fn accounts_are_empty_without_any_steps() {
        assert_eq!(Content::of(true, 0.0, true), Content::Revealing);
        assert_eq!(Content::of(false, 0.0, true), Content::Empty);
        assert_eq!(Content::of(false, 0.1, true), Content::Steps);
        assert_eq!(Content::of(false, 0.0, false), Content::Steps);
    }
}
