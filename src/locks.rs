//! Locks that are of use in a process that was forked while another thread held them.
//!
//! Threads do not outlive `fork`. In the child a lock that one of them held stays locked for ever, and what it guards may
//! be half changed. Here the threads that hold or wait for a lock are counted, together with the process that they are of: a
//! child that finds a count of its parent's threads knows that the lock is lost. [`ForkLock`] then says so, and
//! [`Renewable`] makes what it holds anew.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, TryLockError};

/// The threads that use a lock: their process in the high half, their number in the low one.
#[derive(Debug, Default)]
struct Users(AtomicU64);

/// One of them, for as long as it exists.
struct User<'a>(&'a Users);

impl Drop for User<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Users {
    const fn none() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Counts this thread; `None` where a thread was counted that this process was forked without.
    fn enter(&self) -> Option<User<'_>> {
        let process = u64::from(crate::process::id()) << 32;
        let counted = |seen: u64| match seen & u64::from(u32::MAX) {
            0 => Some(process | 1),
            others if seen & !u64::from(u32::MAX) == process => Some(process | (others + 1)),
            _ => None,
        };
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, counted)
            .ok()
            .map(|_| User(self))
    }
}

/// A lock that tells a forked process that it is lost.
#[derive(Debug)]
pub(crate) struct ForkLock<T> {
    users: Users,
    lock: RwLock<T>,
}

impl<T> ForkLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self {
            users: Users::none(),
            lock: RwLock::new(value),
        }
    }

    /// Shows the value to `look`, together with others that only look.
    ///
    /// # Errors
    /// [`Error::Forked`] in a process that was forked while another thread used the lock.
    pub(crate) fn read<R>(&self, look: impl FnOnce(&T) -> R) -> Result<R> {
        let _user = self.users.enter().ok_or(Error::Forked)?;
        Ok(look(&self.lock.read().unwrap_or_else(PoisonError::into_inner)))
    }

    /// Lets `change` alone have the value. A panic in `change` must leave something that makes sense.
    ///
    /// # Errors
    /// As [`ForkLock::read`].
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> Result<R> {
        let _user = self.users.enter().ok_or(Error::Forked)?;
        Ok(change(&mut self.lock.write().unwrap_or_else(PoisonError::into_inner)))
    }

    /// As [`ForkLock::write`] where nobody uses the lock now; else nothing, at once.
    ///
    /// # Errors
    /// As [`ForkLock::read`].
    fn try_write<R>(&self, change: impl FnOnce(&mut T) -> R) -> Result<Option<R>> {
        let _user = self.users.enter().ok_or(Error::Forked)?;
        let mut value = match self.lock.try_write() {
            Ok(value) => value,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        Ok(Some(change(&mut value)))
    }

    /// False in a process that was forked while another thread used the lock.
    pub(crate) fn is_of_use(&self) -> bool {
        self.users.enter().is_some()
    }
}

/// A value behind a lock that can be made again: in a forked process where the lock was in use, and after an answer that
/// was stopped or failed in the middle of changing it.
#[derive(Debug)]
pub(crate) struct Renewable<T> {
    held: ForkLock<Option<T>>,
    /// For the processes in which that lock is lost. Links are only ever added, so that nothing else has to be locked.
    next: OnceLock<Box<Renewable<T>>>,
}

impl<T> Renewable<T> {
    /// One that is made when it is first used.
    pub(crate) const fn empty() -> Self {
        Self {
            held: ForkLock::new(None),
            next: OnceLock::new(),
        }
    }

    /// One that is there already.
    pub(crate) const fn holding(value: T) -> Self {
        Self {
            held: ForkLock::new(Some(value)),
            next: OnceLock::new(),
        }
    }

    /// Lets `ask` have the value, which `make` makes where there is none.
    ///
    /// # Errors
    /// The errors of both; the value is kept after an error of `ask`.
    pub(crate) fn with<R>(
        &self,
        make: impl FnOnce() -> Result<T>,
        ask: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<R> {
        self.place().held.write(|held| renewed(held, make, ask))?
    }

    /// As [`Renewable::with`] where nobody has the value now; else nothing, at once.
    ///
    /// # Errors
    /// As [`Renewable::with`].
    #[cfg_attr(not(any(test, feature = "python")), allow(dead_code))] // who computes in Rust alone waits
    pub(crate) fn try_with<R>(
        &self,
        make: impl FnOnce() -> Result<T>,
        ask: impl FnOnce(&mut T) -> Result<R>,
    ) -> Result<Option<R>> {
        let found = self.place().held.try_write(|held| renewed(held, make, ask))?;
        found.transpose()
    }

    /// The first whose lock is not lost.
    fn place(&self) -> &Self {
        let mut place = self;
        while !place.held.is_of_use() {
            place = place.next.get_or_init(|| Box::new(Self::empty()));
        }
        place
    }
}

fn renewed<T, R>(
    held: &mut Option<T>,
    make: impl FnOnce() -> Result<T>,
    ask: impl FnOnce(&mut T) -> Result<R>,
) -> Result<R> {
    // Taken out meanwhile: unwinding drops what may be half changed.
    let mut value = held.take().map_or_else(make, Ok)?;
    let answer = ask(&mut value);
    *held = Some(value);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// The state of a lock, as a child process finds it that was forked while a thread of its parent held it.
    fn users_of_another_process() -> Users {
        Users(AtomicU64::new((u64::from(crate::process::id() ^ 1) << 32) | 1))
    }

    #[test]
    fn a_lock_in_use_at_a_fork_is_an_error_and_not_a_wait() {
        let lost = ForkLock {
            users: users_of_another_process(),
            lock: RwLock::new(3),
        };
        assert_eq!(lost.read(|value| *value), Err(Error::Forked));
        assert_eq!(lost.write(|value| *value), Err(Error::Forked));
        assert!(!lost.is_of_use());
    }

    #[test]
    fn a_lock_that_the_parent_did_not_use_serves_the_child() {
        let idle = ForkLock {
            users: Users(AtomicU64::new(u64::from(crate::process::id() ^ 1) << 32)),
            lock: RwLock::new(3),
        };
        assert_eq!(idle.write(|value| std::mem::replace(value, 4)), Ok(3));
        assert_eq!(idle.read(|value| *value), Ok(4));
    }

    #[test]
    fn a_value_is_made_once_and_again_where_it_was_lost_or_half_changed() {
        let mut made = 0;
        let mut renewable = Renewable::empty();
        let mut ask = |renewable: &Renewable<u32>| {
            let make = || {
                made += 1;
                Ok(10 * made)
            };
            renewable.with(make, |value| {
                *value += 1;
                Ok(*value)
            })
        };
        assert_eq!((ask(&renewable), ask(&renewable)), (Ok(11), Ok(12)));
        let seen = |value: &mut u32| Ok(*value);
        assert_eq!(renewable.try_with(|| Ok(0), seen), Ok(Some(12)));
        let nested = renewable.with(|| Ok(0), |_| renewable.try_with(|| Ok(0), seen));
        assert_eq!(nested, Ok(None));
        let torn = catch_unwind(AssertUnwindSafe(|| {
            renewable.with(|| Ok(0), |_| -> Result<()> { std::panic::resume_unwind(Box::new(())) })
        }));
        assert!(torn.is_err());
        assert_eq!(ask(&renewable), Ok(21));
        renewable.held.users = users_of_another_process();
        assert_eq!((ask(&renewable), ask(&renewable)), (Ok(31), Ok(32)));
    }
}
