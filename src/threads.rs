//! The threads that compute: a pool of this process, never one of the process that it was forked from.
//!
//! Threads do not outlive `fork`: in the child rayon's global pool is one that nobody serves, and a call waits for ever. So
//! every parallel loop of this crate runs [`in_pool`], which asks whose pool it is.
//!
//! WebAssembly in a browser has no threads: no pool can be made there, and rayon runs loops on the one thread that calls.

use crate::stopping::{self, TICK};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};

/// The pool of one process, and after it those of its descendants.
struct Pool {
    process: u32,
    threads: ThreadPool,
    next: OnceLock<Box<Pool>>,
}

/// Pools are only ever added, so that nothing has to be locked: a lock that is held while the process forks stays held.
static FIRST: OnceLock<Box<Pool>> = OnceLock::new();

/// The pool of this process, made at its first use; none where the system refuses threads.
fn pool() -> Option<&'static ThreadPool> {
    let process = crate::process::id();
    let mut place = &FIRST;
    loop {
        match place.get() {
            // Only the last one: the number of a process may be that of an ancestor that has ended.
            Some(pool) if pool.process == process && pool.next.get().is_none() => return Some(&pool.threads),
            Some(pool) => place = &pool.next,
            None => {
                let threads = ThreadPoolBuilder::new()
                    .thread_name(|i| format!("hockeystick-{i}"))
                    .build()
                    .ok()?;
                // Where another thread was faster, its pool is taken and this one ends.
                let _ = place.set(Box::new(Pool {
                    process,
                    threads,
                    next: OnceLock::new(),
                }));
            }
        }
    }
}

/// Runs `compute`, whose parallel loops use the pool of this process; on the threads of a pool it just runs.
///
/// Locks that other tasks take must be taken before, outside of any pool: a thread that waits for the parts of its loop takes up
/// other tasks meanwhile.
pub(crate) fn in_pool<T: Send>(compute: impl FnOnce() -> T + Send) -> T {
    match rayon::current_thread_index() {
        Some(_) => compute(),
        None => match pool() {
            Some(threads) if stopping::asks() => attended(threads, compute),
            Some(threads) => threads.install(compute),
            None => compute(),
        },
    }
}

/// Runs `compute` on a thread of the pool, while this one asks whether to stop.
fn attended<T: Send>(threads: &ThreadPool, compute: impl FnOnce() -> T + Send) -> T {
    let (sender, receiver) = channel();
    let compute = stopping::carried_once(compute);
    let found = threads.in_place_scope(|scope| {
        scope.spawn(move |_| {
            let _ = sender.send(compute());
        });
        loop {
            match receiver.recv_timeout(TICK) {
                Ok(found) => return Some(found),
                Err(RecvTimeoutError::Timeout) => stopping::ask(),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    });
    // The scope ends with the panic of `compute` where that has sent nothing.
    found.unwrap_or_else(|| resume_unwind(Box::new("a computation of the pool sent no answer")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pool_serves_all_threads_of_a_process() {
        let pools: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| std::ptr::from_ref(pool().unwrap()) as usize))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(pools.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn loops_run_on_its_threads_and_nested_calls_stay_there() {
        let name = || std::thread::current().name().map(str::to_owned);
        let (outer, inner) = in_pool(|| (name(), in_pool(name)));
        assert!(outer.clone().unwrap().starts_with("hockeystick-"));
        assert_eq!(outer, inner);
    }
}
