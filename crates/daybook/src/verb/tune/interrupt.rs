//! Being asked to end: once for a clean end, twice for an end at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::failure::Failure;

/// How often this process was asked to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    pub(crate) fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 1
    }

    /// As a signal does.
    pub(crate) fn ask(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts signals until the answer is dropped.
    pub(crate) fn listen(&self) -> Result<Listening, Failure> {
        let failed = |error| Failure::io("cannot wait for signals", &error);
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let handle = signals.handle();
        let counter = self.clone();
        let thread = std::thread::Builder::new().name("tune-signals".to_owned());
        let spawned = thread.spawn(move || signals.forever().for_each(|_| counter.ask()));
        spawned.map_err(failed)?;
        Ok(Listening(handle))
    }
}

/// Signals are counted as long as it lives.
#[derive(Debug)]
pub(crate) struct Listening(Handle);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.close();
    }
}
