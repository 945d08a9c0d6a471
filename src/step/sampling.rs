//! Sampling: the scheme by which the batch of a step is drawn.

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
    /// which has one of the probabilities `rates`. For Gaussian noise. If records are replaced, the shift is a distance, and is published
    /// where it is not 0.
    Mixture,
    /// Random allocation ("balls in bins"): every record goes into exactly `times` of the `batches` batches of an epoch, each choice with the
    /// same probability and independently of the other records, and again in every epoch. A number of steps counts batches: where it
    /// is not a multiple of `batches`, of the last epoch only the remaining ones are released. For Gaussian and Laplace noise.
    RandomAllocation {
        /// Batches of an epoch, at least 1.
        batches: u64,
        /// Batches of an epoch that a record is in, in [1, `batches`].
        times: u64,
    },
    /// Every record goes into one of the `batches` batches, as with [`Sampling::RandomAllocation`], and stays in it: the batches come back
    /// in every epoch. All steps of a segment are one release. For Gaussian and Laplace noise.
    FixedBins {
        /// Batches of an epoch, at least 1.
        batches: u64,
    },
}

impl Sampling {
    /// True where a record is in one of the batches of an epoch, so that the steps of an epoch are one release.
    pub(crate) fn is_allocated(self) -> bool {
        matches!(self, Self::RandomAllocation { .. } | Self::FixedBins { .. })
    }

    /// True where there is no law of one step, there are several, or it is given.
    pub(crate) fn has_no_single_law(self) -> bool {
        matches!(self, Self::Mixture | Self::TruncatedPoisson { .. }) || self.is_allocated()
    }

    /// The name of the scheme in error messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Poisson { .. } => "Poisson sampling",
            Self::FixedBatch { .. } => "fixed batches",
            Self::TruncatedPoisson { .. } => "a largest batch size",
            Self::Mixture => "an explicit mixture",
            Self::RandomAllocation { .. } => "random allocation",
            Self::FixedBins { .. } => "fixed bins",
        }
    }
}
