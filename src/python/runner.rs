//! A thread beside each calling thread, so that the latter is free to answer signals. It is kept from one call to the next:
//! to start a thread takes longer than many an answer.

use crate::error::Error;
use std::cell::RefCell;
use std::mem;
use std::sync::mpsc::{Sender, channel};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that does one job after the other and ends when this is dropped.
pub(crate) struct Runner {
    process: u32,
    jobs: Sender<Job>,
}

thread_local! {
    /// The idle runner of this thread.
    static IDLE: RefCell<Option<Runner>> = const { RefCell::new(None) };
}

impl Runner {
    /// The idle runner of this thread, or a new one where it has none or was forked without it.
    pub(crate) fn take() -> Result<Self, Error> {
        let process = std::process::id();
        match IDLE.with(RefCell::take) {
            Some(runner) if runner.process == process => return Ok(runner),
            // Its other end is in the process that this one was forked from.
            Some(runner) => mem::forget(runner),
            None => {}
        }
        let (jobs, todo) = channel::<Job>();
        std::thread::Builder::new()
            .name("hockeystick".into())
            .spawn(move || {
                for job in todo {
                    job();
                }
            })
            .map_err(|_| Error::Internal)?;
        Ok(Self { process, jobs })
    }

    /// Starts `job`, which must not panic.
    pub(crate) fn start(&self, job: Job) -> Result<(), Error> {
        self.jobs.send(job).map_err(|_| Error::Internal)
    }

    /// Keeps the runner for the next call; its job has ended.
    pub(crate) fn keep(self) {
        IDLE.set(Some(self));
    }
}
