//! What a call is answered from.

use std::time::Duration;

use durable::Clock;
use traza::store::analytics::Scope;
use traza::store::{Filter, SnapshotView, Store, StoreError};

use super::options::Options;

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'c> {
    /// May change the store.
    pub may_write: bool,
    /// The tenant that the caller is bound to: it reads and writes nothing else. `None` for an operator, who reads all
    /// tenants and writes to the default one.
    pub tenant: Option<&'c str>,
}

/// What a call is answered from.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// The store.
    pub store: &'c Store,
    /// What the operator has allowed.
    pub options: &'c Options,
    /// Who calls.
    pub caller: Caller<'c>,
    /// How long each question to the store may take.
    pub deadline: Option<Duration>,
    /// Tells what time it is.
    pub clock: &'c dyn Clock,
    /// The version of the server, for clients to show.
    pub server_version: &'c str,
}

impl Context<'_> {
    /// What the store holds now.
    pub(super) fn view(&self) -> SnapshotView {
        let view = self.store.snapshot();
        match self.deadline {
            Some(deadline) => view.within(deadline),
            None => view,
        }
    }

    /// All spans that the caller may see.
    pub(super) fn filter(&self) -> Filter {
        let mut filter = Filter::default();
        filter.tenant = self.caller.tenant.map(str::to_owned);
        filter
    }

    /// All sums that the caller may see, within a window.
    pub(super) fn scope(&self, window: super::args::Window) -> Scope {
        Scope {
            since: window.since,
            until: window.until,
            tenant: self.caller.tenant.map(str::to_owned),
        }
    }

    /// For work beside the store's own questions, which begins now.
    pub(super) fn stopwatch(&self) -> Stopwatch<'_> {
        Stopwatch {
            clock: self.clock,
            began_ns: self.clock.mono_ns(),
            deadline: self.deadline,
        }
    }
}

/// Holds the deadline over work that the store does not time.
pub(super) struct Stopwatch<'c> {
    clock: &'c dyn Clock,
    began_ns: u64,
    deadline: Option<Duration>,
}

impl Stopwatch<'_> {
    /// Fails when the time is over.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let Some(deadline) = self.deadline else {
            return Ok(());
        };
        let elapsed_ns = self.clock.mono_ns().saturating_sub(self.began_ns);
        if u128::from(elapsed_ns) <= deadline.as_nanos() {
            return Ok(());
        }
        Err(StoreError::Deadline {
            limit_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
        })
    }
}
