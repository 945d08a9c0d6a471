//! How the batch of a step is drawn.

/// The law of the batch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// Every record is in the batch independently of the others.
    Poisson {
        /// q in [0, 1].
        sample_rate: f64,
    },
    /// A fixed number of records, without replacement.
    FixedBatch {
        /// Records in a batch.
        batch_size: u64,
        /// Records in the (larger) data set.
        dataset_size: u64,
    },
    /// A Poisson sample of which a uniformly random part is kept if it has more than the largest number of records.
    TruncatedPoisson {
        /// q in [0, 1].
        sample_rate: f64,
        /// Largest number of records in a batch.
        max_batch_size: u64,
        /// Records in the (larger) data set.
        dataset_size: u64,
    },
    /// An explicit mixture, for pairs that come from elsewhere: the sum is shifted by one of the group's `norms`, of any size, each of
    /// which has one of the probabilities `rates`. For Gaussian noise, added or removed.
    Mixture,
}
