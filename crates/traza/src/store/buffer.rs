//! The spans that no segment holds yet.

use std::cmp::Ordering;
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use crate::span::Span;

/// Orders spans by what identifies them, a trace together.
#[derive(Clone, Debug)]
struct ByKey(Arc<Span>);

/// Orders spans as answers are ordered.
#[derive(Clone, Debug)]
struct InOrder(Arc<Span>);

/// The order of identities: trace id, tenant, span id.
fn by_key(a: &Span, b: &Span) -> Ordering {
    (&a.trace_id, &a.tenant, &a.span_id).cmp(&(&b.trace_id, &b.tenant, &b.span_id))
}

/// The stable order of answers: start, end, tenant, trace id, span id.
pub(crate) fn in_order(a: &Span, b: &Span) -> Ordering {
    order_key(a).cmp(&order_key(b))
}

/// What [`in_order`] compares.
pub(crate) type OrderKey<'a> = (u64, u64, &'a str, &'a str, &'a str);

pub(crate) fn order_key(span: &Span) -> OrderKey<'_> {
    (
        span.start_time_ns,
        span.end_time_ns,
        &span.tenant,
        &span.trace_id,
        &span.span_id,
    )
}

macro_rules! ordered {
    ($name:ident, $compare:ident) => {
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                $compare(&self.0, &other.0).is_eq()
            }
        }
        impl Eq for $name {}
        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }
        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                $compare(&self.0, &other.0)
            }
        }
    };
}
ordered!(ByKey, by_key);
ordered!(InOrder, in_order);

/// The spans that were taken in and not sealed, one for each identity. A clone is a snapshot, and takes no time: the
/// versions share what they have in common.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    /// Each span, and the place that its identity took when it first came.
    by_key: RedBlackTreeMapSync<ByKey, u64>,
    in_order: RedBlackTreeSetSync<InOrder>,
    next_place: u64,
}

impl Buffer {
    pub(crate) fn len(&self) -> usize {
        self.by_key.size()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Takes a span in. One with the same identity is replaced and gives its place up.
    pub(crate) fn upsert(&mut self, span: Arc<Span>) {
        let key = ByKey(span);
        let place = if let Some((before, place)) = self.by_key.get_key_value(&key) {
            let (before, place) = (InOrder(Arc::clone(&before.0)), *place);
            self.in_order.remove_mut(&before);
            place
        } else {
            self.next_place += 1;
            self.next_place
        };
        self.in_order.insert_mut(InOrder(Arc::clone(&key.0)));
        self.by_key.insert_mut(key, place);
    }

    /// Takes `sealed` out, unless it was replaced meanwhile.
    pub(crate) fn evict(&mut self, sealed: &Arc<Span>) {
        let key = ByKey(Arc::clone(sealed));
        let is_same = self
            .by_key
            .get_key_value(&key)
            .is_some_and(|(now, _)| Arc::ptr_eq(&now.0, sealed));
        if is_same {
            self.by_key.remove_mut(&key);
            self.in_order.remove_mut(&InOrder(key.0));
        }
    }

    /// The span with the identity of `span`, if it holds one.
    pub(crate) fn version_of(&self, span: &Span) -> Option<&Arc<Span>> {
        if self.is_empty() {
            return None;
        }
        let probe = ByKey(Arc::new(Span {
            trace_id: span.trace_id.clone(),
            tenant: span.tenant.clone(),
            span_id: span.span_id.clone(),
            ..Span::default()
        }));
        self.by_key.get_key_value(&probe).map(|(span, _)| &span.0)
    }

    /// The spans of a trace, of all tenants.
    pub(crate) fn trace<'a>(&'a self, trace_id: &'a str) -> impl Iterator<Item = &'a Arc<Span>> {
        let first = ByKey(Arc::new(Span {
            trace_id: trace_id.to_owned(),
            ..Span::default()
        }));
        self.by_key
            .range(first..)
            .map(|(span, _)| &span.0)
            .take_while(move |span| span.trace_id == trace_id)
    }

    /// All spans in the order of answers.
    pub(crate) fn in_order(&self) -> impl DoubleEndedIterator<Item = &Arc<Span>> {
        self.in_order.iter().map(|span| &span.0)
    }

    /// The spans that start at `since` or later, in the order of answers.
    pub(crate) fn since(&self, since: u64) -> impl Iterator<Item = &Arc<Span>> {
        let first = InOrder(Arc::new(Span {
            start_time_ns: since,
            ..Span::default()
        }));
        self.in_order.range(first..).map(|span| &span.0)
    }

    /// All spans in the order in which their identities first came.
    pub(crate) fn by_arrival(&self) -> Vec<&Arc<Span>> {
        let mut spans: Vec<(&Arc<Span>, u64)> = self
            .by_key
            .iter()
            .map(|(span, place)| (&span.0, *place))
            .collect();
        spans.sort_unstable_by_key(|(_, place)| *place);
        spans.into_iter().map(|(span, _)| span).collect()
    }
}
