//! Where spans go: into a store, or to the server that has it.

use serde::Deserialize;
use traza::span::Span;
use traza::store::{Durability, Store};

use crate::failure::Failure;
use crate::verb::trace::server::{Server, Target};

pub(super) enum Sink {
    Store(Box<Store>),
    Server(Box<Server>),
}

/// What became of a batch.
#[derive(Deserialize)]
pub(super) struct Stored {
    pub(super) accepted: u64,
    /// When the batch counts as stored; what a server decides for itself.
    pub(super) durability: String,
}

impl Sink {
    /// Stores all of a batch or nothing.
    pub(super) fn store(
        &self,
        batch: Vec<Span>,
        durability: Durability,
    ) -> Result<Stored, Failure> {
        match self {
            Self::Store(store) => Ok(Stored {
                accepted: store.ingest(batch)?.accepted as u64,
                durability: durability.as_str().to_owned(),
            }),
            // A span that comes twice replaces itself.
            Self::Server(server) => server.post_patiently(&Target::new("/v1/spans"), &body(&batch)),
        }
    }

    /// What was only in memory is put into a segment. A server does so by itself.
    pub(super) fn end(&self, durability: Durability) -> Result<(), Failure> {
        match (self, durability) {
            (Self::Store(store), Durability::Buffered) => Ok(store.flush().map(drop)?),
            _ => Ok(()),
        }
    }
}

fn body(batch: &[Span]) -> String {
    let mut body = "[".to_owned();
    for (index, span) in batch.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        span.write(&mut body);
    }
    body.push(']');
    body
}
