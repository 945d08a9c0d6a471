//! Watching a long computation: progress, and a way to stop it.

/// Watches a computation: stops it, or is told how far it is.
pub trait Monitor: Sync {
    /// True if the computation is to stop with [`Error::Interrupted`](crate::error::Error::Interrupted).
    fn cancelled(&self) -> bool {
        false
    }
    /// `done` of `total` samples are drawn. Called between waves of tasks, from one thread at a time.
    fn progress(&self, done: u64, total: u64) {
        let _ = (done, total);
    }
}

/// A monitor that never stops anything.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;
impl Monitor for Unwatched {}
