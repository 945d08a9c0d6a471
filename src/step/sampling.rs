//! How the batch of a step is drawn.

/// How a batch is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// Every record on its own.
    Poisson {
        /// q in [0, 1].
        sample_rate: f64,
    },
    /// A fixed number without replacement.
    FixedBatch {
        /// Records in a batch.
        batch_size: u64,
        /// Records in the (larger) data set.
        dataset_size: u64,
    },
    /// The law itself: the sum moves by one of the group's `norms`, of any size, which are drawn with the probabilities
    /// `rates`. For pairs that come from elsewhere; Gaussian noise, added or removed.
    Mixture,
}
