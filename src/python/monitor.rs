//! Long computations that Ctrl-C stops and that report how far they are.

use crate::error::Error;
use crate::monitor::Monitor;
use crate::python::convert::guarded;
use crate::python::runner::Runner;
use crate::stopping::{Stop, TICK, asking};
use pyo3::intern;
use pyo3::prelude::*;
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Shared between the computing threads and the one that holds the interpreter.
#[derive(Debug, Default)]
struct Shared {
    stop: Stop,
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
struct Finish(Arc<Shared>);

impl Drop for Finish {
    fn drop(&mut self) {
        *self.0.finished.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.finish.notify_all();
    }
}

impl Monitor for Shared {
    fn cancelled(&self) -> bool {
        self.stop.is_asked()
    }
    fn progress(&self, done: u64, total: u64) {
        self.total.store(total, Ordering::Relaxed);
        self.done.store(done, Ordering::Relaxed);
    }
}

/// Runs `compute` on another thread, with the GIL released, while this one answers signals and calls
/// `progress(done, total)` about twenty times a second.
///
/// It returns within a tick of an exception, whatever `compute` is at; `compute`, which owns all that it uses, is told to stop
/// and ends at its next checkpoint (see [`crate::stopping`]).
///
/// # Errors
/// What `compute` returns; or the exception of a signal handler or of `progress`.
pub(crate) fn watched<T: Send + 'static>(
    py: Python<'_>,
    progress: Option<&Bound<'_, PyAny>>,
    compute: impl FnOnce(&dyn Monitor) -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let shared = Arc::new(Shared::default());
    let answer = Arc::new(Mutex::new(None));
    let (theirs, finish) = (Arc::clone(&answer), Finish(Arc::clone(&shared)));
    let runner = Runner::take()?;
    runner.start(Box::new(move || {
        let found = guarded(|| finish.0.stop.watch(|| compute(&*finish.0)));
        *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(found);
        drop(finish);
    }))?;
    attend(py, progress, &shared)?;
    runner.keep();
    let found = answer.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(found.unwrap_or(Err(Error::Internal))?)
}

thread_local! {
    /// The exception of a signal handler that ran while this thread was computing.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Answers signals; true if one raised an exception.
fn signals_raise() -> bool {
    let raised = Python::attach(|py| py.check_signals().err());
    let is_raised = raised.is_some();
    if is_raised {
        RAISED.set(raised);
    }
    is_raised
}

/// Runs `compute` on this thread, with the GIL released, if it is the one that answers signals; its checkpoints do so about twenty times a second.
///
/// To hand a short computation over to another thread, as [`watched`] does, and to be woken by it takes longer than many an answer. Threads that answer no
/// signals hand it over: they may have small stacks, and may be many. A handler of a signal may ask for something else meanwhile, on this thread, so that
/// `compute` must hold no lock that this would take.
///
/// # Errors
/// What `compute` returns; or the exception of a signal handler.
pub(crate) fn on_this_thread<T: Send + 'static>(
    py: Python<'_>,
    compute: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    if !answers_signals(py)? {
        return watched(py, None, move |_| compute());
    }
    // That of a computation which waits for the handler that asks.
    let others = RAISED.take();
    let found = py.detach(|| guarded(|| asking(signals_raise, compute)));
    if let Some(exception) = RAISED.replace(others) {
        return Err(exception);
    }
    py.check_signals()?;
    Ok(found?)
}

/// Whether this is the main thread of Python, which alone runs the handlers of signals. Python is asked once for each thread and process.
fn answers_signals(py: Python<'_>) -> PyResult<bool> {
    thread_local! {
        /// The process, and the answer there.
        static KNOWN: Cell<Option<(u32, bool)>> = const { Cell::new(None) };
    }
    let process = std::process::id();
    if let Some((_, answer)) = KNOWN.get().filter(|known| known.0 == process) {
        return Ok(answer);
    }
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?;
    let this = threading.call_method0(intern!(py, "get_ident"))?;
    let answer = main.getattr(intern!(py, "ident"))?.eq(this)?;
    KNOWN.set(Some((process, answer)));
    Ok(answer)
}

/// Runs `compute` as [`watched`] does, where it borrows arrays of Python's: tables too large to be copied.
///
/// After an exception it waits for `compute` to reach its next checkpoint, as nothing else keeps the arrays; and it starts a thread,
/// which takes longer than many an answer about a small array.
///
/// # Errors
/// What `compute` returns; or the exception of a signal handler.
pub(crate) fn watched_views<T: Send>(
    py: Python<'_>,
    compute: impl FnOnce(&dyn Monitor) -> Result<T, Error> + Send,
) -> PyResult<T> {
    let shared = Arc::new(Shared::default());
    let finish = Finish(Arc::clone(&shared));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("hockeystick".into())
            .spawn_scoped(scope, move || guarded(|| finish.0.stop.watch(|| compute(&*finish.0))))
            .map_err(|_| Error::Internal)?;
        let attended = attend(py, None, &shared);
        let found = py.detach(|| thread.join());
        attended?;
        Ok(found.unwrap_or(Err(Error::Internal))?)
    })
}

/// Answers signals and reports progress until the computation has ended; an exception asks it to stop.
fn attend(py: Python<'_>, progress: Option<&Bound<'_, PyAny>>, shared: &Shared) -> PyResult<()> {
    let mut reported = u64::MAX;
    loop {
        let finished = py.detach(|| shared.wait());
        if let Err(exception) = report(py, progress, shared, &mut reported) {
            shared.stop.ask();
            return Err(exception);
        }
        if finished {
            return Ok(());
        }
    }
}

/// Stops a computation whose caller no longer waits for it.
pub(crate) fn unless_cancelled(monitor: &dyn Monitor) -> Result<(), Error> {
    if monitor.cancelled() {
        Err(Error::Interrupted)
    } else {
        Ok(())
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
