//! Spans that a server hands out.

use std::sync::Arc;

use serde::Deserialize;
use traza::span::Span;
use traza::store::{Cost, Cursor, Page};

use super::server::{Server, Target};
use crate::failure::Failure;

/// So many spans are asked for at a time.
pub(super) const PAGE: usize = 500;
/// An answer that is not paged cannot be longer than what a server sorts.
const SORTED_MAX: usize = traza::store::SORT_MAX;

/// What stands beside the spans of a page.
#[derive(Deserialize)]
struct Rest {
    next_cursor: Option<String>,
    cost: CostView,
}

#[derive(Deserialize)]
struct CostView {
    elapsed_ns: u64,
    segments_examined: usize,
    segments_pruned: usize,
}

/// At most `limit` spans in the order of their starts behind `after`, page by page.
pub(super) fn in_pages(
    server: &Server,
    target: &Target,
    after: Option<Cursor>,
    limit: usize,
) -> Result<Page, Failure> {
    let mut all = Page {
        next: after,
        ..Page::default()
    };
    loop {
        let wanted = (limit - all.spans.len()).min(PAGE);
        let page = page(server, target, all.next.as_ref(), wanted)?;
        all.spans.extend(page.spans);
        all.cost.elapsed_ns = all.cost.elapsed_ns.saturating_add(page.cost.elapsed_ns);
        all.cost.segments_examined = page.cost.segments_examined;
        all.cost.segments_pruned = page.cost.segments_pruned;
        all.next = page.next;
        if all.next.is_none() || all.spans.len() >= limit {
            return Ok(all);
        }
    }
}

/// At most `limit` spans in an order that has no pages.
pub(super) fn sorted(server: &Server, target: &Target, limit: usize) -> Result<Page, Failure> {
    page(server, target, None, limit.min(SORTED_MAX))
}

/// One page, of at most `limit` spans.
pub(super) fn page(
    server: &Server,
    target: &Target,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Page, Failure> {
    let target = target
        .clone()
        .with("limit", limit)
        .with_some("cursor", after.map(Cursor::to_token));
    let body = server.get(&target)?;
    let spans = of_answer(server, &body)?;
    let Rest { next_cursor, cost } = server.parse(&body)?;
    let next = match next_cursor {
        None => None,
        Some(token) => Some(
            Cursor::from_token(&token)
                .filter(|next| Some(next) != after)
                .ok_or_else(|| server.strange(&"its cursor leads nowhere"))?,
        ),
    };
    if spans.len() > limit {
        return Err(server.strange(&"more spans than were asked for"));
    }
    Ok(Page {
        spans,
        next,
        cost: Cost {
            elapsed_ns: cost.elapsed_ns,
            segments_examined: cost.segments_examined,
            segments_pruned: cost.segments_pruned,
            spans_examined: 0,
        },
    })
}

/// The spans of a page or of a trace.
pub(super) fn of_answer(server: &Server, body: &[u8]) -> Result<Vec<Arc<Span>>, Failure> {
    let spans = Span::body_from_json(body).map_err(|error| server.strange(&error))?;
    Ok(spans.into_iter().map(Arc::new).collect())
}
