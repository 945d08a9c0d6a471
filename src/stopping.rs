//! Stopping a computation from outside, wherever it is: Ctrl-C while an answer is on its way.
//!
//! Most loops here are deep inside functions that return plain numbers. So a computation that is to be stopped runs inside
//! [`Stop::watch`], and its loops call [`checkpoint`] every millisecond or less. Once the stop is asked for, the next
//! checkpoint unwinds, without a panic message, to the guard at the border to Python, which turns it into
//! [`Error::Interrupted`](crate::error::Error::Interrupted). Whoever computes without `watch` is never stopped.
//!
//! Each thread knows which call it computes for. Loops that run on a pool pass this on to its threads with [`carried`].

use std::any::Any;
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// The flag that stops the computation of this thread.
    static CURRENT: RefCell<Option<Stop>> = const { RefCell::new(None) };
}

/// A request to stop, shared by those who compute and whoever may stop them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// The payload of the panic by which a stopped computation unwinds.
struct Stopped;

/// Puts back what a thread was computing for before.
struct Before(Option<Stop>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

impl Stop {
    /// Asks the computations inside [`Stop::watch`] to stop.
    #[cfg_attr(not(any(test, feature = "python")), allow(dead_code))] // who computes in Rust alone is not stopped
    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// True once that was asked for.
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Runs `compute`, which ends at a checkpoint, unwinding, after [`Stop::ask`].
    #[cfg_attr(not(any(test, feature = "python")), allow(dead_code))] // as `ask`
    pub(crate) fn watch<T>(&self, compute: impl FnOnce() -> T) -> T {
        run_for(Some(self.clone()), compute)
    }
}

fn run_for<T>(stop: Option<Stop>, compute: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(stop));
    compute()
}

/// Ends the computation of this thread here if it is to stop. Two nanoseconds otherwise.
pub(crate) fn checkpoint() {
    let is_asked = CURRENT.with_borrow(|stop| stop.as_ref().is_some_and(Stop::is_asked));
    if is_asked {
        resume_unwind(Box::new(Stopped));
    }
}

/// `compute` for the loops of a pool: its calls stop, each at its first checkpoint or before it begins, with the computation of
/// the thread that starts the loop.
pub(crate) fn carried<A, T>(compute: impl Fn(A) -> T + Sync) -> impl Fn(A) -> T + Sync {
    let stop = CURRENT.with_borrow(Clone::clone);
    move |argument| {
        run_for(stop.clone(), || {
            checkpoint();
            compute(argument)
        })
    }
}

/// True for what a stopped computation unwound with, as `catch_unwind` returns it.
#[cfg_attr(not(any(test, feature = "python")), allow(dead_code))] // only the border to Python catches
pub(crate) fn is_stopped(payload: &(dyn Any + Send)) -> bool {
    payload.is::<Stopped>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::in_pool;
    use rayon::prelude::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU32;

    #[test]
    fn a_computation_ends_at_the_checkpoint_after_the_request_and_only_that_one() {
        let stop = Stop::default();
        let mut rounds = 0;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            stop.watch(|| {
                for round in 0..10 {
                    checkpoint();
                    rounds = round;
                    if round == 3 {
                        stop.ask();
                    }
                }
            });
        }));
        assert!(is_stopped(&*ended.unwrap_err()));
        assert_eq!(rounds, 3);
        checkpoint(); // this thread computes for nobody any more
        assert_eq!(Stop::default().watch(|| 5), 5);
    }

    #[test]
    fn the_parts_of_a_parallel_loop_stop_too() {
        let (stop, begun) = (Stop::default(), AtomicU32::new(0));
        let ended = catch_unwind(AssertUnwindSafe(|| {
            stop.watch(|| {
                let part = carried(|_: u32| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    stop.ask();
                    checkpoint();
                });
                in_pool(|| (0..10_000).into_par_iter().for_each(part));
            });
        }));
        assert!(is_stopped(&*ended.unwrap_err()));
        assert!(begun.into_inner() < 1000);
    }

    #[test]
    fn a_panic_is_not_a_stop() {
        let ended = catch_unwind(|| Stop::default().watch(|| Vec::<u8>::new()[0]));
        assert!(!is_stopped(&*ended.unwrap_err()));
    }
}
