//! The records that are protected together.

/// The records whose owner is protected.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// How many.
    pub size: u64,
    /// A Poisson rate for each, in place of the common one.
    pub rates: Option<Vec<f64>>,
    /// A bound on the norm of each one's gradient, in units of the clipping norm.
    pub norms: Option<Vec<f64>>,
    /// True if the gradients are known to be mutually orthogonal: see [`Step::factors`](crate::Step::factors).
    pub orthogonal: bool,
}

impl Group {
    /// k records of which nothing more is known.
    pub fn of(size: u64) -> Self {
        Self {
            size,
            rates: None,
            norms: None,
            orthogonal: false,
        }
    }
}
