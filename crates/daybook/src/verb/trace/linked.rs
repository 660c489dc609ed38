//! What other verbs ask places of traces for: the spans of a trace, and the traces that attributes lead to.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use traza::json::Value;
use traza::span::Span;
use traza::store::{Filter, Page, Query, Store};

use super::place::token_of_environment;
use super::server::{Server, Target};
use super::spans::{in_pages, of_answer};
use super::{folder, server};
use crate::failure::Failure;

/// Spans that one question looks at.
const SPANS_MAX: usize = 10_000;

/// A store or a server, open for questions.
pub(crate) struct Traces {
    name: String,
    source: Source,
}

enum Source {
    Store(PathBuf, Box<Store>),
    Server(Box<Server>),
}

/// What leads from a record to spans.
pub(crate) enum Lead<'l> {
    /// All of these attributes.
    Attributes(&'l [(&'l str, &'l str)]),
    /// The session, by whatever attribute.
    Session(&'l str),
}

impl Traces {
    /// Whether a text is the address of a server.
    pub(crate) fn is_address(text: &str) -> bool {
        server::is_address(text)
    }

    /// The store in a folder, which somebody else may be writing.
    pub(crate) fn of_folder(dir: &Path) -> Result<Self, Failure> {
        let store = folder::open_to_read(dir)?;
        Ok(Self {
            name: dir.display().to_string(),
            source: Source::Store(dir.to_owned(), Box::new(store)),
        })
    }

    /// A server, with the token of the command line or else of the environment.
    pub(crate) fn of_server(
        url: &str,
        token: Option<&str>,
        ca: Option<&Path>,
    ) -> Result<Self, Failure> {
        let token = token.map(str::to_owned).or_else(token_of_environment);
        let server = Server::new(url, token.as_deref(), ca)?;
        Ok(Self {
            name: url.to_owned(),
            source: Source::Server(Box::new(server)),
        })
    }

    /// How the place is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The folder of a store, which can be verified.
    pub(crate) fn folder(&self) -> Option<&Path> {
        match &self.source {
            Source::Store(dir, _) => Some(dir),
            Source::Server(_) => None,
        }
    }

    /// The spans of a trace; none when it is not here.
    pub(crate) fn spans_of(&self, trace_id: &str) -> Result<Vec<Arc<Span>>, Failure> {
        match &self.source {
            Source::Store(_, store) => Ok(store.get_trace(trace_id, None)?),
            Source::Server(server) => {
                let target = Target::new("/v1/traces").part(trace_id);
                let found = server.find(&target)?;
                let spans = found.map(|body| of_answer(server, &body)).transpose()?;
                Ok(spans.unwrap_or_default())
            }
        }
    }

    /// The traces of the first spans that are found by this.
    pub(crate) fn traces_by(&self, lead: &Lead<'_>) -> Result<BTreeSet<String>, Failure> {
        let page = match &self.source {
            Source::Store(_, store) => of_store(store, lead)?,
            Source::Server(server) => {
                let mut target = Target::new("/v1/spans");
                target = match lead {
                    Lead::Session(session) => target.with("session", session),
                    Lead::Attributes(all) => all.iter().fold(target, |target, (key, value)| {
                        // As JSON: digits alone would be taken for a number.
                        target.with(&format!("attr.{key}"), Value::from(*value))
                    }),
                };
                in_pages(server, &target, None, SPANS_MAX)?
            }
        };
        let spans = page.spans.iter();
        Ok(spans.map(|span| span.trace_id.to_string()).collect())
    }
}

fn of_store(store: &Store, lead: &Lead<'_>) -> Result<Page, Failure> {
    let mut filter = Filter::default();
    match lead {
        Lead::Session(session) => filter.session = Some((*session).to_owned()),
        Lead::Attributes(all) => {
            let pairs = all.iter();
            filter.attributes = pairs
                .map(|(key, value)| ((*key).to_owned(), Value::from(*value)))
                .collect();
        }
    }
    let mut query = Query::new(filter);
    query.limit = SPANS_MAX;
    Ok(store.query(&query)?)
}
