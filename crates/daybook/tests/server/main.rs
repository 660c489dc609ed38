//! The promises of the server of traces, kept by the built program over real sockets.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod annotations;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod connections;
#[cfg(test)]
mod deadline;
#[cfg(test)]
mod durability;
#[cfg(test)]
mod erasure;
#[cfg(test)]
mod evals;
#[cfg(test)]
mod export;
#[cfg(test)]
mod flags;
#[cfg(test)]
mod generations;
#[cfg(test)]
mod hardening;
#[cfg(test)]
mod ingest;
#[cfg(test)]
mod llm;
#[cfg(test)]
mod mcp;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod openapi;
#[cfg(test)]
mod otlp;
#[cfg(test)]
mod page;
#[cfg(test)]
mod payloads;
#[cfg(test)]
mod query;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tail;
#[cfg(test)]
mod tenancy;
