//! The promises of the command line, kept by real processes.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod attest;
#[cfg(test)]
mod control;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod evals;
#[cfg(test)]
mod export;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod guide;
#[cfg(test)]
mod help;
#[cfg(test)]
mod ingest;
#[cfg(test)]
mod inspect;
#[cfg(test)]
mod key;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod migrate;
#[cfg(test)]
mod plot;
#[cfg(test)]
mod query_run;
#[cfg(test)]
mod record;
#[cfg(test)]
mod recover;
#[cfg(test)]
mod store;
#[cfg(test)]
mod store_upkeep;
#[cfg(test)]
mod streams;
#[cfg(test)]
mod study;
#[cfg(test)]
mod support;
#[cfg(test)]
mod trace;
#[cfg(test)]
mod trace_export;
#[cfg(test)]
mod trace_server;
#[cfg(test)]
mod trail;
#[cfg(test)]
mod tune;
#[cfg(test)]
mod verify;
#[cfg(test)]
mod why;
