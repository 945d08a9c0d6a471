//! Long computations that Ctrl-C stops and that report how far they are.

use crate::error::Error;
use crate::hockey_stick::monitor::Monitor;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How often the main thread looks for signals and reports progress.
const TICK: Duration = Duration::from_millis(50);

/// Shared between the computing threads and the one that holds the interpreter.
#[derive(Debug, Default)]
struct Shared {
    cancelled: AtomicBool,
    done: AtomicU64,
    total: AtomicU64,
    finished: Mutex<bool>,
    finish: Condvar,
}

impl Shared {
    /// Waits until the computation has ended, or for one tick; true if it has.
    fn wait(&self) -> bool {
        // The flag is only ever set, so a poisoned lock still holds the truth.
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.finish.wait_timeout_while(finished, TICK, |finished| !*finished);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Says that the computation has ended, also when it panics.
struct Finish<'a>(&'a Shared);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        *self.0.finished.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.finish.notify_all();
    }
}

impl Monitor for Shared {
    fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
    fn progress(&self, done: u64, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }
}

/// Runs `compute` on another thread, with the GIL released, while this one answers signals and calls
/// `progress(done, total)` about twenty times a second.
///
/// # Errors
/// What `compute` returns; or, once it has stopped, the exception of a signal handler or of `progress`.
pub(super) fn watched<T: Send>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    compute: impl FnOnce(&dyn Monitor) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let shared = Shared::default();
    let mut failure = None;
    let mut reported = u64::MAX;
    let result = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _finish = Finish(&shared);
            compute(&shared)
        });
        loop {
            let finished = py.detach(|| shared.wait());
            if failure.is_none() {
                failure = report(py, progress, &shared, &mut reported).err();
                if failure.is_some() {
                    shared.cancelled.store(true, Ordering::Relaxed);
                }
            }
            if finished {
                break;
            }
        }
        py.detach(|| worker.join())
    });
    if let Some(error) = failure {
        return Err(error);
    }
    match result {
        Ok(result) => Ok(result?),
        Err(_) => Err(pyo3::exceptions::PyRuntimeError::new_err(
            "hockeystick failed internally; please report the arguments",
        )),
    }
}

fn report(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    shared: &Shared,
    reported: &mut u64,
) -> PyResult<()> {
    py.check_signals()?;
    let (done, total) = (
        shared.done.load(Ordering::Relaxed),
        shared.total.load(Ordering::Relaxed),
    );
    if let Some(progress) = progress.filter(|_| total > 0 && done != *reported) {
        *reported = done;
        progress.call1((done, total))?;
    }
    Ok(())
}
