//! The number of this process, which tells a process from the one that it was forked from.

/// The number of this process; 0 where there are no processes, as in a browser.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub(crate) fn id() -> u32 {
    std::process::id()
}

/// The number of this process; 0 where there are no processes, as in a browser.
#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub(crate) fn id() -> u32 {
    0
}
