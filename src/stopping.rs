//! Stopping a computation from outside, wherever it is: Ctrl-C while an answer is on its way.
//!
//! Most loops here are deep inside functions that return plain numbers. So a computation that is to be stopped runs inside
//! [`Stop::watch`], and its loops call [`checkpoint`] every millisecond or less. Once the stop is asked for, the next
//! checkpoint unwinds, without a panic message, to the guard at the border to Python, which turns it into
//! [`Error::Interrupted`](crate::error::Error::Interrupted). Whoever computes without `watch` is never stopped.
//!
//! Each thread knows which call it computes for. Loops that run on a pool pass this on to its threads with [`carried`].
//!
//! A thread that has nobody to watch it asks for itself: inside [`asking`] every checkpoint looks at the clock now and then, and once in a
//! while it calls a function that says whether to stop.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often somebody looks for signals.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// Checkpoints between two looks at the clock, at most: a look takes ten times as long as a checkpoint.
const CHECKPOINTS: u32 = 32;

/// An answer to the question whether to stop takes this part of the time at most: where other threads keep the interpreter busy, it is waited for.
const PART_OF_TIME: u32 = 8;

thread_local! {
    /// The flag that stops the computation of this thread.
    static CURRENT: RefCell<Option<Stop>> = const { RefCell::new(None) };
    /// Whom this thread asks whether to stop.
    static ASKED: Cell<Option<Asked>> = const { Cell::new(None) };
}

/// A function that says whether to stop, and when it was called.
#[derive(Clone, Copy)]
struct Asked {
    ask: fn() -> bool,
    /// Checkpoints until the next look at the clock, and after that until the one after.
    left: u32,
    stride: u32,
    /// When the clock was looked at last.
    looked: Instant,
    /// When to ask next.
    due: Instant,
}

impl Asked {
    /// Looks at the clock if that is due, more often where checkpoints are far apart; true if it is time to ask.
    fn is_due(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        if self.left > 0 {
            return false;
        }
        let now = Instant::now();
        self.stride = if now - self.looked > TICK / 8 {
            1
        } else {
            (2 * self.stride).min(CHECKPOINTS)
        };
        (self.left, self.looked) = (self.stride, now);
        now >= self.due
    }
}

/// A request to stop, shared by those who compute and whoever may stop them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

/// The payload of the panic by which a stopped computation unwinds.
struct Stopped;

/// Puts back what a thread was computing for before, and whom it asked.
struct Before(Option<Stop>, Option<Asked>);

impl Drop for Before {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
        ASKED.set(self.1);
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
        run_for(Some(self.clone()), None, compute)
    }
}

fn run_for<T>(stop: Option<Stop>, asked: Option<Asked>, compute: impl FnOnce() -> T) -> T {
    let _before = Before(CURRENT.replace(stop), ASKED.replace(asked));
    compute()
}

/// Runs `compute`, which ends at a checkpoint, unwinding, after `ask` has said so: the checkpoints call it about twenty times a second, less often where
/// they are far apart or its answer takes long.
#[cfg_attr(not(any(test, feature = "python")), allow(dead_code))] // as `Stop::ask`
pub(crate) fn asking<T>(ask: fn() -> bool, compute: impl FnOnce() -> T) -> T {
    let now = Instant::now();
    let asked = Asked {
        ask,
        left: 1,
        stride: 1,
        looked: now,
        due: now + TICK,
    };
    run_for(Some(Stop::default()), Some(asked), compute)
}

/// Ends the computation of this thread here if it is to stop. Two nanoseconds otherwise.
pub(crate) fn checkpoint() {
    if let Some(mut asked) = ASKED.get() {
        let is_due = asked.is_due();
        ASKED.set(Some(asked));
        if is_due {
            ask();
        }
    }
    let is_asked = CURRENT.with_borrow(|stop| stop.as_ref().is_some_and(Stop::is_asked));
    if is_asked {
        resume_unwind(Box::new(Stopped));
    }
}

/// True where this thread asks for itself whether to stop.
pub(crate) fn asks() -> bool {
    ASKED.get().is_some()
}

/// Asks now whether to stop, unless somebody has asked for that, and tells those who compute for this thread.
pub(crate) fn ask() {
    let Some(asked) = ASKED.get() else {
        return;
    };
    if CURRENT.with_borrow(|stop| stop.as_ref().is_some_and(Stop::is_asked)) {
        return;
    }
    let begun = Instant::now();
    // Whoever is asked may compute something else on this thread meanwhile.
    let is_to_stop = (asked.ask)();
    let wait = TICK.max(PART_OF_TIME * begun.elapsed());
    let due = Instant::now() + wait;
    ASKED.set(Some(Asked { due, ..asked }));
    if is_to_stop {
        CURRENT.with_borrow(|stop| stop.iter().for_each(Stop::ask));
    }
}

/// `compute` for one thread of a pool, in the name of this one: it stops with the computation of this thread.
pub(crate) fn carried_once<T>(compute: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let stop = CURRENT.with_borrow(Clone::clone);
    move || run_for(stop, None, compute)
}

/// `compute` for the loops of a pool: its calls stop, each at its first checkpoint or before it begins, with the computation of
/// the thread that starts the loop.
pub(crate) fn carried<A, T>(compute: impl Fn(A) -> T + Sync) -> impl Fn(A) -> T + Sync {
    let stop = CURRENT.with_borrow(Clone::clone);
    move |argument| {
        run_for(stop.clone(), None, || {
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

    /// Asked for the first time, the thread goes on; from the second time on it ends.
    fn second_time() -> bool {
        TIMES.set(TIMES.get() + 1);
        TIMES.get() >= 2
    }

    thread_local! {
        static TIMES: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn a_thread_that_asks_for_itself_ends_at_a_checkpoint_after_the_answer() {
        let begun = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            asking(second_time, || {
                while begun.elapsed() < 100 * TICK {
                    checkpoint();
                }
            });
        }));
        assert!(is_stopped(&*ended.unwrap_err()));
        assert_eq!(TIMES.get(), 2);
        assert!(begun.elapsed() >= 2 * TICK && !asks());
        checkpoint(); // nobody is asked any more
        assert_eq!(TIMES.get(), 2);
    }

    /// Every one of them looks at the clock: with 32 for a look it would take 64.
    #[test]
    fn checkpoints_that_are_far_apart_are_not_saved_up() {
        let mut checkpoints = 0;
        let ended = catch_unwind(AssertUnwindSafe(|| {
            asking(second_time, || {
                for _ in 0..100 {
                    std::thread::sleep(TICK / 5);
                    checkpoints += 1;
                    checkpoint();
                }
            });
        }));
        assert!(is_stopped(&*ended.unwrap_err()));
        assert!(checkpoints <= 20, "{checkpoints}");
    }

    #[test]
    fn loops_of_a_pool_stop_with_a_thread_that_asks_for_itself() {
        let begun = Instant::now();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            asking(second_time, || {
                let part = carried(|_: u32| {
                    while begun.elapsed() < 100 * TICK {
                        checkpoint();
                    }
                });
                in_pool(|| (0..10_000).into_par_iter().for_each(part));
            });
        }));
        assert!(is_stopped(&*ended.unwrap_err()));
        assert_eq!(TIMES.get(), 2);
        // So does one that is not a loop.
        TIMES.set(0);
        let ended = catch_unwind(AssertUnwindSafe(|| {
            asking(second_time, || {
                in_pool(|| {
                    while begun.elapsed() < 200 * TICK {
                        checkpoint();
                    }
                });
            });
        }));
        assert!(is_stopped(&*ended.unwrap_err()));
        // A panic of a loop comes back to the thread, too.
        let panicked = catch_unwind(|| asking(second_time, || in_pool(|| Vec::<u8>::new()[0])));
        assert!(!is_stopped(&*panicked.unwrap_err()));
        assert_eq!(asking(second_time, || in_pool(|| 5)), 5);
    }

    #[test]
    fn a_panic_is_not_a_stop() {
        let ended = catch_unwind(|| Stop::default().watch(|| Vec::<u8>::new()[0]));
        assert!(!is_stopped(&*ended.unwrap_err()));
    }
}
